//! The price of a plan in Galvatron's terms, laid out as reports and JSON show it. Times in seconds, sizes in bytes.

use crate::cost::galvatron::{CostModel, Plan, Price, StagePrice, Strategy};
use serde::Serialize;

/// Bytes of an MB as Galvatron counts them.
const MB: f64 = 1024.0 * 1024.0;

/// Neighbouring layers of one strategy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// How many.
    pub layers: u32,
    /// Galvatron's notation `pp-k[*]-dp[f][-c][-sp][-cpN]`.
    pub strategy: String,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GalvatronStage {
    /// Layers on it.
    pub layers: u32,
    /// Their strategies in model order.
    pub strategies: Vec<Run>,
    /// One micro-batch, forward and backward, gradients not reduced; embedding and head included.
    pub micro_batch_s: f64,
    /// One micro-batch of the layers alone, gradients reduced.
    pub micro_batch_with_sync_s: f64,
    /// Memory in use.
    pub memory_bytes: f64,
    /// The same as it is compared with the budget: every part rounded up to a whole MB.
    pub rounded_memory_bytes: f64,
}

/// The price of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GalvatronEstimate {
    /// One iteration.
    pub iteration_time_s: f64,
    /// Samples per second.
    pub samples_per_s: f64,
    /// Tokens per second; `None` where layer types have different sequences.
    pub tokens_per_s: Option<f64>,
    /// Galvatron's profiles know no FLOPs.
    pub mfu: Option<f64>,
    /// The fullest stage, rounded as it is compared.
    pub peak_memory_bytes: f64,
    /// What a stage may use.
    pub usable_memory_bytes: f64,
    /// Strategy of embedding and head.
    pub embedding: String,
    /// Micro-batches of an iteration.
    pub micro_batches: u32,
    /// Samples of an iteration.
    pub global_batch: u32,
    /// By stage.
    pub stages: Vec<GalvatronStage>,
}

impl GalvatronEstimate {
    /// Lays out the `price` of `plan`.
    pub fn new(model: &CostModel, plan: &Plan, price: &Price) -> Self {
        let types = &model.setting.layer_types;
        let samples_per_s = price.samples_per_s(plan.micro);
        let sequence = types.first().map_or(0, |t| t.sequence);
        let mut layers = plan.layers.as_slice();
        let stages: Vec<GalvatronStage> = plan
            .partition
            .iter()
            .zip(&price.stages)
            .map(|(&count, priced)| {
                let (here, rest) = layers.split_at((count as usize).min(layers.len()));
                layers = rest;
                stage(here, priced)
            })
            .collect();
        Self {
            iteration_time_s: price.time_ms * 1e-3,
            samples_per_s,
            tokens_per_s: types.iter().all(|t| t.sequence == sequence).then_some(samples_per_s * sequence as f64),
            mfu: None,
            peak_memory_bytes: stages.iter().map(|s| s.rounded_memory_bytes).fold(0.0, f64::max),
            usable_memory_bytes: price.usable_mb as f64 * MB,
            embedding: plan.embedding.to_string(),
            micro_batches: plan.micro.chunks,
            global_batch: plan.micro.global_batch,
            stages,
        }
    }
}

fn stage(layers: &[Strategy], price: &StagePrice) -> GalvatronStage {
    GalvatronStage {
        layers: layers.len() as u32,
        strategies: layers
            .chunk_by(|a, b| a == b)
            .map(|run| Run { layers: run.len() as u32, strategy: run[0].to_string() })
            .collect(),
        micro_batch_s: price.compute_ms * 1e-3,
        micro_batch_with_sync_s: price.layers_with_sync_ms * 1e-3,
        memory_bytes: price.memory_mb * MB,
        rounded_memory_bytes: price.rounded_mb as f64 * MB,
    }
}
