//! The answer: where every part of the model runs and how, and its file format.

pub mod file;
pub mod spine;
pub mod strategy;
mod validate;

pub use spine::{PartClass, PartKind, Spine};
pub use strategy::{LayerStrategy, Layout, Recompute};
pub use validate::validate;

use serde::{Deserialize, Serialize};

/// A run of consecutive parts with one strategy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Index of the first part in the [`Spine`].
    pub first: u32,
    /// How many parts.
    pub count: u32,
    /// How each is spread over the stage.
    pub strategy: LayerStrategy,
}

/// The parts of one chunk: one virtual stage of one pipeline rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Its parts, run-length encoded, in order.
    pub runs: Vec<Run>,
}

impl Chunk {
    /// Part indices with their strategies.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &LayerStrategy)> + '_ {
        self.runs.iter().flat_map(|r| (r.first..r.first + r.count).map(move |i| (i as usize, &r.strategy)))
    }
    /// Number of parts.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|r| r.count as usize).sum()
    }
    /// Whether it holds no part.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where everything runs. Chunk `x` stands on pipeline rank `x mod pipeline`; stages are equal blocks of consecutive
/// devices; inside a stage ranks are numbered tensor first, then Ulysses, context, data (experts: expert-tensor,
/// expert, expert-data), as Megatron-LM does by default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Devices in all.
    pub devices: u64,
    /// Pipeline stages (ranks along the pipeline).
    pub pipeline: u32,
    /// Chunks per stage; 1 is plain 1F1B, more is interleaved 1F1B.
    pub chunks_per_stage: u32,
    /// Micro-batches per optimizer step.
    pub micro_batches: u64,
    /// `pipeline * chunks_per_stage` chunks in order of traversal.
    pub chunks: Vec<Chunk>,
}

impl Plan {
    /// Devices of one stage.
    pub fn stage_devices(&self) -> u64 {
        self.devices / u64::from(self.pipeline)
    }

    /// The one strategy of all layers, if there is one (embedding and head may differ only in what does not apply to them).
    pub fn uniform(&self, spine: &Spine) -> Option<LayerStrategy> {
        let mut layers = self
            .chunks
            .iter()
            .flat_map(Chunk::parts)
            .filter(|(i, _)| spine.class_of(*i).kind == PartKind::Layer)
            .map(|(_, s)| *s);
        let first = layers.next()?;
        layers.all(|s| s == first).then_some(first)
    }

    /// Run-length encodes parts `first..` with their strategies.
    pub fn encode(first: u32, strategies: &[LayerStrategy]) -> Chunk {
        let mut runs: Vec<Run> = Vec::new();
        for (i, s) in (first..).zip(strategies) {
            match runs.last_mut() {
                Some(run) if run.strategy == *s => run.count += 1,
                _ => runs.push(Run { first: i, count: 1, strategy: *s }),
            }
        }
        Chunk { runs }
    }
}
