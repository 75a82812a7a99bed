//! The constants of the cost model that belong to no device, link or framework, as one value that can be changed.
//!
//! Counts that an algorithm fixes (products of a backward pass, bytes of a format, volumes of a collective) are not here:
//! they are arithmetic, not constants.

use super::{kernel, options, part};
use serde::{Deserialize, Serialize};

/// The constants. The default is what each was measured as.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figures {
    /// See [`options::OVERLAP_SLOWDOWN`].
    pub overlap_slowdown: f64,
    /// See [`options::HOP_SLOWDOWN`].
    pub hop_slowdown: f64,
    /// See [`options::TENSOR_OVERLAP`].
    pub tensor_overlap: f64,
    /// See [`options::OPTIMIZER_EFFICIENCY`].
    pub optimizer_efficiency: f64,
    /// See [`options::JITTER_PER_DOUBLING`].
    pub jitter_per_doubling: f64,
    /// See [`kernel::WEIGHT_GRADIENT_EFFICIENCY`].
    pub weight_gradient_efficiency: f64,
    /// See [`kernel::FP8_EFFICIENCY`].
    pub fp8_efficiency: f64,
    /// See [`kernel::HEAD_HALF`].
    pub attention_head_half: f64,
    /// See [`part::SCATTERED`].
    pub scattered: f64,
    /// See [`part::ROUTED_HOST`].
    pub routed_host: f64,
    /// Bytes, see [`options::CONTEXT_MEMORY`].
    pub context_bytes: f64,
    /// See [`options::SAFE_SHARE`].
    pub safe_share: f64,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            overlap_slowdown: options::OVERLAP_SLOWDOWN,
            hop_slowdown: options::HOP_SLOWDOWN,
            tensor_overlap: options::TENSOR_OVERLAP,
            optimizer_efficiency: options::OPTIMIZER_EFFICIENCY,
            jitter_per_doubling: options::JITTER_PER_DOUBLING,
            weight_gradient_efficiency: kernel::WEIGHT_GRADIENT_EFFICIENCY,
            fp8_efficiency: kernel::FP8_EFFICIENCY,
            attention_head_half: kernel::HEAD_HALF,
            scattered: part::SCATTERED,
            routed_host: part::ROUTED_HOST,
            context_bytes: options::CONTEXT_MEMORY.0,
            safe_share: options::SAFE_SHARE,
        }
    }
}

impl Figures {
    /// Whether they are the default.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}
