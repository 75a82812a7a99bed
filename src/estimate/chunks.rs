//! What a schedule needs to know of a plan: times, traffic and memory of each chunk, wherever it stands.

use super::{ChunkSum, EstimateError, Estimator};
use crate::cost::Mesh;
use crate::plan::Plan;
use std::collections::BTreeMap;

/// One chunk for one micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChunkCost {
    /// Forward, seconds.
    pub forward_s: f64,
    /// Gradient of the inputs, recomputation included, seconds.
    pub backward_s: f64,
    /// Gradient of the weights, seconds.
    pub weight_s: f64,
    /// From the chunk before, seconds.
    pub hop_s: f64,
    /// Kept from the forward on, bytes.
    pub activation_bytes: f64,
    /// Weights, gradients and optimizer, bytes.
    pub states_bytes: f64,
    /// Held for a moment at its worst, bytes.
    pub transient_bytes: f64,
    /// After the last micro-batch: reduction of gradients, seconds.
    pub reduce_s: f64,
    /// After all stages: optimizer and gather of weights, seconds.
    pub tail_s: f64,
}

impl Estimator<'_> {
    /// The chunks of a plan, chunk `x` standing on pipeline rank `device_of[x]`.
    ///
    /// Weight gradients run as many FLOPs as the weights' forward (Qi 2024, "Zero bubble pipeline parallelism", table 1), so
    /// their time is that share of the forward's kernels; the rest of the backward is the gradient of the inputs.
    ///
    /// # Errors
    /// As [`Estimator::estimate`], and when `device_of` has another length than the chunks.
    pub fn chunk_costs(&self, plan: &Plan, device_of: &[u32]) -> Result<Vec<ChunkCost>, EstimateError> {
        let share = self.weight_share();
        Ok(self.chunk_sums(plan, device_of)?.iter().map(|sum| chunk_cost(sum, share)).collect())
    }

    /// What [`Estimator::chunk_costs`] summarises.
    pub(super) fn chunk_sums(&self, plan: &Plan, device_of: &[u32]) -> Result<Vec<ChunkSum>, EstimateError> {
        self.check(plan)?;
        if device_of.len() != plan.chunks.len() {
            let text = format!("{} chunks stand on {} ranks", plan.chunks.len(), device_of.len());
            return Err(EstimateError::Mismatch(text));
        }
        let mesh =
            Mesh { stage_devices: plan.stage_devices(), pipeline: plan.pipeline, micro_batches: plan.micro_batches };
        let mut prices = BTreeMap::new();
        let chunks = plan.chunks.iter().enumerate();
        Ok(chunks.map(|(x, c)| self.sum(c.parts(), device_of[x] as usize, x > 0, mesh, &mut prices)).collect())
    }

    /// Share of the model's FLOPs that multiply weights, attention's own being the rest.
    pub(super) fn weight_share(&self) -> f64 {
        let [all, _] = self.flops_per_token;
        // Two FLOPs per weight and token in each of the three passes; the embedding is looked up.
        let weights = self.model.parameters_active().saturating_sub(self.model.parameters_embedding());
        if all > 0.0 { (6.0 * weights as f64 / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A chunk whose weight gradients are `share` of the forward's kernels.
pub(super) fn chunk_cost(sum: &ChunkSum, share: f64) -> ChunkCost {
    let backward = sum.backward.total().0;
    let weight = (share * sum.forward.compute.0).min(sum.backward.compute.0);
    ChunkCost {
        forward_s: sum.forward.total().0,
        backward_s: backward - weight,
        weight_s: weight,
        hop_s: sum.hop,
        activation_bytes: sum.activations,
        states_bytes: sum.states.weights.0 + sum.states.gradients.0 + sum.states.optimizer.0,
        transient_bytes: sum.transient,
        reduce_s: sum.reduce,
        tail_s: sum.optimizer + sum.gather,
    }
}
