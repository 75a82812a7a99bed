//! Bytes of weights, gradients and optimizer state per parameter, and what ZeRO cuts of them.
//!
//! Mixed precision with Adam keeps 2 + 4 + 12 bytes (bf16 weights, fp32 gradients, fp32 master weights and two moments);
//! with 2-byte gradients 2 + 2 + 12 (Rajbhandari 2020, ZeRO, section 3.1; Megatron-LM docs `dist_optimizer.md`).
//! ZeRO 1, 2, 3 cut the optimizer, then gradients, then weights over the data-parallel group (ibid., section 5).

use super::software::Software;
use crate::job::{Job, Optimizer, Precision};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign};

/// Bytes per parameter by kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateBytes {
    /// Working weights.
    pub weights: f64,
    /// Accumulated gradients.
    pub gradients: f64,
    /// Master weights and moments.
    pub optimizer: f64,
}

impl StateBytes {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.weights + self.gradients + self.optimizer
    }

    /// What the job keeps per parameter, and what the framework adds.
    pub fn under(job: &Job, software: &Software) -> Self {
        let own = Self::of(job);
        Self {
            gradients: own.gradients + software.narrow_gradients,
            optimizer: own.optimizer + software.extra_optimizer,
            ..own
        }
    }

    /// What the job keeps per parameter.
    pub fn of(job: &Job) -> Self {
        let moments = match job.optimizer {
            Optimizer::Adam => 2.0,
            Optimizer::Sgd => 1.0,
        } * job.moments.bytes();
        match job.precision {
            Precision::Fp32 => Self { weights: 4.0, gradients: job.gradients.bytes(), optimizer: moments },
            // fp8 products read bf16 weights cast on the fly; the transposed fp8 copy is a buffer of one layer.
            Precision::Bf16 | Precision::Fp16 | Precision::Fp8 => {
                Self { weights: 2.0, gradients: job.gradients.bytes(), optimizer: 4.0 + moments }
            }
        }
    }
}

/// Memory of model states.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct States {
    /// Working weights.
    pub weights: Bytes,
    /// Accumulated gradients.
    pub gradients: Bytes,
    /// Master weights and moments.
    pub optimizer: Bytes,
}

impl States {
    /// `parameters` per model-parallel rank under ZeRO stage `zero` over `ways` data-parallel ranks.
    pub fn new(parameters: f64, per: StateBytes, zero: u8, ways: f64) -> Self {
        let cut = |from: u8| if zero >= from { ways } else { 1.0 };
        Self {
            weights: Bytes(parameters * per.weights / cut(3)),
            gradients: Bytes(parameters * per.gradients / cut(2)),
            optimizer: Bytes(parameters * per.optimizer / cut(1)),
        }
    }

    /// All of it.
    pub fn total(&self) -> Bytes {
        self.weights + self.gradients + self.optimizer
    }
}

impl Add for States {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            weights: self.weights + o.weights,
            gradients: self.gradients + o.gradients,
            optimizer: self.optimizer + o.optimizer,
        }
    }
}
impl AddAssign for States {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_of_a_7_5_billion_model_on_64_devices_takes_120_31_4_16_6_and_1_9_gigabytes() {
        let per = StateBytes { weights: 2.0, gradients: 2.0, optimizer: 12.0 };
        let gigabytes: Vec<f64> =
            (0..=3).map(|zero| (States::new(7.5e9, per, zero, 64.0).total().0 / 1e8).round() / 10.0).collect();
        assert_eq!(gigabytes, [120.0, 31.4, 16.6, 1.9]);
    }
}
