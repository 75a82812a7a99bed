//! What is to be done: batch, sequence, precision, optimizer.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Format of matrix products and of the working weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16 with fp32 master weights.
    Bf16,
    /// float16 with fp32 master weights.
    Fp16,
    /// fp8 matrix products, bf16 activations and weights, fp32 master weights.
    Fp8,
    /// float32 throughout.
    Fp32,
}

/// Format in which gradients are accumulated and reduced, or in which optimizer moments are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// 4 bytes.
    Fp32,
    /// 2 bytes.
    Bf16,
    /// 2 bytes.
    Fp16,
    /// 1 byte.
    Fp8,
}

impl Storage {
    /// Bytes per value.
    pub fn bytes(self) -> f64 {
        match self {
            Storage::Fp32 => 4.0,
            Storage::Bf16 | Storage::Fp16 => 2.0,
            Storage::Fp8 => 1.0,
        }
    }
}

/// The optimizer and what it keeps per parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Two moments.
    Adam,
    /// One moment.
    Sgd,
}

/// The job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Sequences per optimizer step.
    pub global_batch: u64,
    /// Tokens per sequence (of the decoder).
    pub sequence: u64,
    /// Tokens per sequence of the encoder, for encoder-decoder models.
    pub encoder_sequence: Option<u64>,
    /// Patches per sequence that enter a vision tower.
    pub vision_tokens: Option<u64>,
    /// Format of the matrix products.
    pub precision: Precision,
    /// Format of accumulated gradients.
    pub gradients: Storage,
    /// Format of the optimizer's moments.
    pub moments: Storage,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Device memory that training may use, if less than the device has.
    pub memory_limit: Option<Bytes>,
    /// Tokens to train on in all, for costs of the whole run.
    pub tokens: Option<f64>,
    /// Whether multi-token-prediction modules of the config are trained.
    pub mtp: bool,
    /// Load of the busiest expert rank over the mean (1 = forced balance).
    pub expert_imbalance: f64,
}
