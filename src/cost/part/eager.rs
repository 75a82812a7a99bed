//! Operators that no fused kernel of Megatron's covers: what they move when each step is a kernel of its own.
//!
//! Counted off the code, in bytes per value of a half-precision tensor: Megatron-LM `core/transformer/moe/experts.py`
//! (`TEGroupedMLP._apply_bias`), `core/fusions/fused_bias_geglu.py` (`weighted_bias_quick_geglu_impl`) and
//! `core/models/common/embeddings/rope_utils.py` (`apply_rotary_pos_emb`, which leaves Transformer Engine's kernel as soon as
//! `mscale` is not 1), and PyTorch's derivatives of them (`FunctionsManual.cpp`); read 2026-11. A read or a write of a value
//! is 2 bytes, in fp32 4.

/// Bytes per value that both passes move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traffic {
    pub(super) forward: f64,
    pub(super) backward: f64,
}

/// Biases behind the last product of routed experts, per value of its output. Expert by expert they are multiplied with the
/// router's fp32 weights (writes 4) and added (2 + 4, 4), then joined (4, 4) and rounded (4, 2). Backward the gradient is
/// widened (2, 4), rounded for the output (4, 2), multiplied and summed for the bias (4, 4, 4) and for the weights (4, 4, 4), and
/// the experts' pieces joined (2, 2).
pub(super) const EXPERT_BIAS: Traffic = Traffic { forward: 28.0, backward: 40.0 };

/// Clamps in front of a gated activation, per value in front of it. Both halves are clamped (2, 2) and joined (2, 2); backward
/// comparisons write masks of a byte (one for the gate, three for the linear half), a choice applies them (11 in the mean), and
/// the halves are joined (2, 2).
pub(super) const CLAMPS: Traffic = Traffic { forward: 8.0, backward: 15.0 };

/// Rotary embedding, per rotated value. Forward a product with the cosine (2, 2), a negated half (1, 1), the halves joined
/// (2, 2), a product with the sine (2, 2), a sum (4, 2), a copy (2, 2); backward both products, the negated half, its join and
/// the sum (20), and gradients of two slices, one of them empty, each as wide as the whole (6 and 8).
pub(super) const ROTARY: Traffic = Traffic { forward: 24.0, backward: 34.0 };
