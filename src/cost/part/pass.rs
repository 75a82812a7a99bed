//! Time of one pass, by cause.

use crate::units::Seconds;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul};

/// Time of one pass of one micro-batch, by cause; communication as far as it is not hidden.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PassTime {
    /// Kernels, recomputation included.
    pub compute: Seconds,
    /// Tensor-parallel (and vocabulary-parallel) collectives.
    pub tensor: Seconds,
    /// Context-parallel and Ulysses exchanges.
    pub context: Seconds,
    /// Expert dispatch and combine.
    pub expert: Seconds,
    /// Gathers and scatters of ZeRO-2 and ZeRO-3 within the micro-batch.
    pub data: Seconds,
    /// Resharding between unlike neighbours.
    pub reshard: Seconds,
    /// Slow-down by boundary tensors that travel meanwhile.
    pub pipeline: Seconds,
}

impl PassTime {
    /// All of it.
    pub fn total(&self) -> Seconds {
        self.compute + self.tensor + self.context + self.expert + self.data + self.reshard + self.pipeline
    }
}
impl Add for PassTime {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            compute: self.compute + o.compute,
            tensor: self.tensor + o.tensor,
            context: self.context + o.context,
            expert: self.expert + o.expert,
            data: self.data + o.data,
            reshard: self.reshard + o.reshard,
            pipeline: self.pipeline + o.pipeline,
        }
    }
}
impl AddAssign for PassTime {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}
impl Mul<f64> for PassTime {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        Self {
            compute: self.compute * k,
            tensor: self.tensor * k,
            context: self.context * k,
            expert: self.expert * k,
            data: self.data * k,
            reshard: self.reshard * k,
            pipeline: self.pipeline * k,
        }
    }
}
