//! What the cost model takes into account, and the constants of it that belong to no device.
//!
//! Every switch exists so that its effect can be shown; all are on by default.

use super::figures::Figures;
use super::software::Software;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Switches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostOptions {
    /// Groups that run at once share a node's NICs. Off: each has them to itself.
    pub nic_sharing: bool,
    /// Communication hides behind computation where frameworks hide it. Off: all of it is exposed.
    pub overlap: bool,
    /// Head, loss and embedding cost time and memory. Off: they are free.
    pub head: bool,
    /// Peak memory is the maximum over moments. Off: the sum of each moment's maximum.
    pub moments: bool,
    /// Conventions of the framework.
    #[serde(skip_serializing_if = "Software::is_usual")]
    pub software: Software,
    /// Constants of the model itself.
    #[serde(skip_serializing_if = "Figures::are_usual")]
    pub figures: Figures,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self {
            nic_sharing: true,
            overlap: true,
            head: true,
            moments: true,
            software: Software::default(),
            figures: Figures::default(),
        }
    }
}

impl CostOptions {
    /// How much slower computation and communication run while they overlap, where they do.
    pub fn slowdown(&self) -> Option<f64> {
        self.overlap.then_some(self.figures.overlap_slowdown)
    }
}

/// How much slower computation and communication run while they overlap: 1.126 in Galvatron's profile
/// (`overlap_coefficient.json`, read 2026-11).
pub const OVERLAP_SLOWDOWN: f64 = 1.126;

/// How much slower computation runs while boundary tensors travel to the next stage: sends over a network occupy 2 % of the
/// processors in Calculon's H100 systems (calculon@caa4b11 `systems`, read 2026-11), far less than collectives.
pub const HOP_SLOWDOWN: f64 = 1.02;

/// Fraction of tensor-parallel gathers and scatters that pipelined GEMMs hide (`--tp-comm-overlap`, userbuffers). In
/// principle (t-1)/t of those next to a GEMM; fp32 reductions and the backward re-gather stay exposed. Half is what the
/// published Llama-3.1-70B recipe needs to meet its measured 14.66 s (NVIDIA Megatron-Bridge performance summary, 2026).
pub const TENSOR_OVERLAP: f64 = 0.5;

/// CUDA context, NCCL buffers and libraries outside the framework's allocator: 1 to 3 GB by rule of thumb, 1.5 taken
/// (Nanotron's fitted constant is about 1 GB inside the figure; 2025).
pub const CONTEXT_MEMORY: Bytes = Bytes(1.5e9);

/// Reserved over allocated memory of the caching allocator: median +4.0 % of SimuMax's 43 B200 cases (v1.2, read 2026-11).
pub const ALLOCATOR_FACTOR: f64 = 1.04;

/// A plan fits when its reserved memory and the context take no more than this share of what the device shows
/// (0.92 to 0.95 is the published safe range; runs at the edge fail in 30 to 60 % of starts, Megatron-Bridge PR 3107).
pub const SAFE_SHARE: f64 = 0.95;

/// Bytes that the loss holds per token and vocabulary entry of a rank: bf16 logits, their fp32 copy and the gradient.
/// Measured 9.8 with the vocabulary-parallel fused loss (SkyRL issue 1841: 5.0 GB for 8,192 x 62,080), 2025.
pub const LOSS_BYTES: f64 = 9.8;

/// Fraction of the optimizer's memory traffic reached: reads 16 and writes 14 bytes per parameter (bf16, fp32 Adam).
/// Metis sample: 39 ms for 1.2e9 parameters on one A100 (2.039 TB/s): 30 * 1.2e9 / 2.039e12 / 0.039 = 0.45.
pub const OPTIMIZER_EFFICIENCY: f64 = 0.45;

/// Growth of the iteration with the number of nodes by stragglers and jitter, per doubling: the median of 29 weak-scaling series
/// of six models from 8 to 2,304 H100 grows by 0.66 % (NVIDIA DGXC benchmarking recipes 24.11 and 25.02); a little of that is
/// data parallelism, which is priced apart.
pub const JITTER_PER_DOUBLING: f64 = 0.006;
