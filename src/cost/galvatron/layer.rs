//! Price of one layer: time of a micro-batch with and without gradient synchronisation, and memory.
//!
//! Galvatron (VLDB 2022, section 4.1; formulas of version 2.4.1). Times in ms, sizes in MB of 2^20 bytes.

use super::error::GalvatronCostError;
use super::model::{CostModel, Micro};
use super::repairs::Repair;
use super::setting::Pipeline;
use super::strategy::{DpType, Strategy};

/// Time of one micro-batch, forward and backward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerTime {
    /// With the reduction of gradients.
    pub with_sync_ms: f64,
    /// Without it.
    pub without_sync_ms: f64,
}

/// Memory of one layer on one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerMemoryUse {
    /// fp32 weights, divided by the tensor-parallel degree.
    pub parameter_mb: f64,
    /// Weights, gradients and optimizer states.
    pub states_mb: f64,
    /// Activations of all micro-batches in flight.
    pub activation_mb: f64,
}

impl LayerMemoryUse {
    /// All of it.
    pub fn total_mb(&self) -> f64 {
        self.states_mb + self.activation_mb
    }
}

impl CostModel {
    /// Time of a layer of type `kind` under `s`.
    pub fn layer_time(&self, kind: usize, s: &Strategy, micro: Micro) -> Result<LayerTime, GalvatronCostError> {
        let setting = &self.setting;
        let priced_cp = self.repairs.has(Repair::ContextParallel);
        let b = f64::from(micro.samples(s.dp));
        let cut = f64::from(s.width()) * if priced_cp { f64::from(s.cp) } else { 1.0 };
        let forward = self.profiles.layer_time[kind].at(b / cut);
        let mut backward = forward * setting.constants.backward_over_forward;
        if s.checkpoint {
            backward += forward;
        }
        let parameter = self.profiles.layer_memory[kind].parameter_mb / f64::from(s.tp);
        let n = s.replicas();
        let message = self.message_mb(kind, b) / if priced_cp { f64::from(s.cp) } else { 1.0 };
        let (beta, gradient) = if n > 1 {
            let beta = self.all_reduce_ms_per_mb(n, s.tp > 1)?;
            let whole = 2.0 * f64::from(n - 1) * (parameter / f64::from(n));
            (beta, if setting.precision.mixed() { whole / 2.0 } else { whole })
        } else {
            (0.0, 0.0)
        };

        let mut exchange = 0.0;
        if s.tp > 1 {
            exchange += 6.0 * self.all_gather_ms(s.tp, message)?;
        } else if s.sp > 1 {
            exchange += 4.0 * self.all_to_all_ms(s.sp, message)?;
        }
        if s.checkpoint {
            exchange *= 1.5;
        }
        if priced_cp && s.cp > 1 {
            exchange += self.ring_attention_ms(s, message)?;
        }
        if s.pp > 1 {
            let share = if self.repairs.has(Repair::StageTransfer) {
                setting.layers()
            } else {
                setting.layer_types[kind].layers
            };
            let p2p = self.p2p_ms_per_mb(s.pp)?;
            exchange += f64::from(s.pp) * 2.0 * message * p2p / f64::from(share);
        }
        if s.dp_type == DpType::Zero3 {
            exchange += gradient * 0.5 * beta;
        }

        let synchronises = s.dp > 1 || (n > 1 && self.repairs.has(Repair::UlyssesSync));
        let overlapped = if synchronises { self.overlapped(backward, gradient, beta) } else { backward };
        Ok(LayerTime { with_sync_ms: forward + overlapped + exchange, without_sync_ms: forward + backward + exchange })
    }

    /// Backward compute of `backward` ms while `gradient` MB are reduced at `beta` ms/MB: both slow down while both run.
    fn overlapped(&self, backward: f64, gradient: f64, beta: f64) -> f64 {
        let o = self.profiles.overlap;
        let slowed_reduction = gradient * beta * o;
        let slowed_backward = backward * o;
        if slowed_reduction > slowed_backward {
            slowed_backward + (gradient - slowed_backward / (beta * o)) * beta
        } else {
            slowed_reduction + backward - slowed_reduction / o
        }
    }

    /// Ring attention (Liu et al. 2023, section 3): keys and values, each as large as `shard` MB, pass around the ring once
    /// in every forward and twice (with their gradients) in the backward pass, not overlapped. They are taken to be as
    /// wide as the residual stream, the profiles not saying how many key heads there are.
    fn ring_attention_ms(&self, s: &Strategy, shard: f64) -> Result<f64, GalvatronCostError> {
        let beta = self.all_reduce_ms_per_mb(s.cp, s.tp > 1 || s.sp > 1)?;
        let rounds = if s.checkpoint { 4.0 } else { 3.0 };
        Ok(rounds * 2.0 * shard * f64::from(s.cp - 1) * beta)
    }

    /// Memory of a layer of type `kind` under `s` on stage `stage`.
    pub fn layer_memory(
        &self,
        kind: usize,
        s: &Strategy,
        micro: Micro,
        stage: u32,
    ) -> Result<LayerMemoryUse, GalvatronCostError> {
        let profile = &self.profiles.layer_memory[kind];
        let parameter_mb = profile.parameter_mb / f64::from(s.tp);
        let states_mb = 4.0 * parameter_mb * self.states_ratio(s, micro.chunks);
        let k = s.width();
        let per_sample = if s.checkpoint {
            let cut = s.sp > 1 || (s.tp > 1 && self.setting.sequence_parallel);
            profile.checkpoint_mb / if cut { f64::from(k) } else { 1.0 }
        } else {
            profile.activation_mb.get(k).ok_or_else(|| {
                self.not_measured(
                    &format!("layertype_{kind}.tp_activation_per_bsz_dict"),
                    k,
                    profile.activation_mb.degrees(),
                )
            })?
        };
        let in_flight = match self.setting.pipeline {
            _ if s.pp == 1 => 1,
            Pipeline::OneForwardOneBackward => s.pp - stage,
            Pipeline::Gpipe => micro.chunks,
        };
        let mut activation_mb = per_sample * f64::from(micro.samples(s.dp)) * f64::from(in_flight);
        if self.repairs.has(Repair::ContextParallel) {
            activation_mb /= f64::from(s.cp);
        }
        Ok(LayerMemoryUse { parameter_mb, states_mb, activation_mb })
    }

    /// Share of 4 x fp32 weights (weights, gradients, two moments) that one device keeps.
    pub(super) fn states_ratio(&self, s: &Strategy, chunks: u32) -> f64 {
        // 0.003 is Galvatron's allowance for what sharding leaves whole (2.4.1, model states to parameter ratio).
        let x = 1.0 / f64::from(s.replicas()) + 0.003;
        let mixed = self.setting.precision.mixed();
        let blend = |sharded: f64, of: f64| sharded / of * x + (of - sharded) / of;
        match (s.dp_type, chunks == 1, self.setting.async_grad_reduce) {
            (DpType::Ddp, ..) => 1.0,
            (DpType::Zero2, true, _) => {
                if mixed {
                    blend(7.0, 8.0)
                } else {
                    blend(3.0, 4.0)
                }
            }
            (DpType::Zero3, true, _) => x,
            (DpType::Zero2, false, true) => {
                if mixed {
                    blend(6.0, 8.0)
                } else {
                    blend(2.0, 4.0)
                }
            }
            (DpType::Zero3, false, true) => {
                if mixed {
                    blend(7.0, 8.0)
                } else {
                    blend(3.0, 4.0)
                }
            }
            (DpType::Zero2, false, false) => {
                if mixed {
                    blend(7.0, 8.0) * 5.0 / 4.0
                } else {
                    blend(3.0, 4.0)
                }
            }
            (DpType::Zero3, false, false) => x * 5.0 / 4.0,
        }
    }
}
