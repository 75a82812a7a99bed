//! Price of embedding, head and loss, which share one strategy and stand on the first and the last stage.
//!
//! Galvatron 2.4.1. Times in ms, sizes in MB of 2^20 bytes.

use super::error::GalvatronCostError;
use super::model::{CostModel, Micro};
use super::profiles::OtherMemory;
use super::setting::Pipeline;
use super::strategy::{DpType, Strategy};

/// Embedding, head and loss as one stage sees them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmbeddingUse {
    /// Time of a micro-batch with the reduction of gradients, ms.
    pub with_sync_ms: f64,
    /// Without it, ms.
    pub without_sync_ms: f64,
    /// Weights, gradients and optimizer states.
    pub states_mb: f64,
    /// Activations of all micro-batches in flight.
    pub activation_mb: f64,
    /// What the device context keeps.
    pub context_mb: f64,
}

impl EmbeddingUse {
    /// All memory of the stage but its layers.
    pub fn total_mb(&self) -> f64 {
        self.states_mb + self.activation_mb + self.context_mb
    }
}

impl CostModel {
    /// What stage `stage` bears of embedding and head under `s`.
    pub fn embedding(&self, s: &Strategy, micro: Micro, stage: u32) -> Result<EmbeddingUse, GalvatronCostError> {
        let (first, last) = (stage == 0, stage + 1 == s.pp);
        let context_mb = self.setting.constants.context_mb;
        if !first && !last {
            return Ok(EmbeddingUse {
                with_sync_ms: 0.0,
                without_sync_ms: 0.0,
                states_mb: 0.0,
                activation_mb: 0.0,
                context_mb,
            });
        }
        let (memory, name, in_flight) = match self.setting.pipeline {
            _ if s.pp == 1 => (&self.profiles.other_memory, "other_memory_pp_off", 1),
            Pipeline::Gpipe if first => (&self.profiles.other_memory_first, "other_memory_pp_on_first", micro.chunks),
            Pipeline::Gpipe => (&self.profiles.other_memory_last, "other_memory_pp_on_last", micro.chunks),
            _ if first => (&self.profiles.other_memory_first, "other_memory_pp_on_first", s.pp),
            _ => (&self.profiles.other_memory_last, "other_memory_pp_on_last", 1),
        };
        let states = self.measured(memory, name, "model_states", s.tp)?;
        let per_sample = self.measured(memory, name, "activation", s.width())?;
        let b = f64::from(micro.samples(s.dp));

        let share = if s.pp == 1 { 1.0 } else { 2.0 };
        let forward = self.profiles.other_time.at(b / f64::from(s.width()) / f64::from(s.cp)) / share;
        let again = self.setting.constants.backward_over_forward;
        let n = s.replicas();
        let gradient_ms = if n > 1 {
            let beta = self.all_reduce_ms_per_mb(n, s.tp > 1)?;
            let gradient_mb = states / 4.0 * f64::from(n - 1) / f64::from(n);
            gradient_mb * if self.setting.precision.mixed() { 0.5 } else { 1.0 } * beta
        } else {
            0.0
        };
        let zero3 = s.dp_type == DpType::Zero3;
        let gather = if zero3 { 0.5 * gradient_ms } else { 0.0 };
        let (reduce, keep) = if zero3 { (gradient_ms, 0.5 * gradient_ms) } else { (0.5 * gradient_ms, 0.0) };
        let mut exchange = 0.0;
        if s.tp > 1 {
            let ends = [first.then_some(0), last.then_some(self.setting.layer_types.len() - 1)];
            for kind in ends.into_iter().flatten() {
                exchange += self.all_gather_ms(s.tp, self.message_mb(kind, b))?;
            }
        }
        let overlapped = |compute: f64, communication: f64| {
            let o = self.profiles.overlap;
            if compute * o > communication { communication + (compute * o - communication) / o } else { communication }
        };
        let fixed = overlapped(forward, gather) + exchange;
        Ok(EmbeddingUse {
            with_sync_ms: fixed + overlapped(again * forward, reduce),
            without_sync_ms: fixed + overlapped(again * forward, keep),
            states_mb: states * self.states_ratio(s, micro.chunks),
            activation_mb: per_sample * b * f64::from(in_flight),
            context_mb,
        })
    }

    fn measured(&self, memory: &OtherMemory, name: &str, part: &str, degree: u32) -> Result<f64, GalvatronCostError> {
        let table = if part == "model_states" { &memory.states_mb } else { &memory.activation_mb };
        table.get(degree).ok_or_else(|| self.not_measured(&format!("{name}.{part}"), degree, table.degrees()))
    }
}
