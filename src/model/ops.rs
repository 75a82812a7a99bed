//! Short constructors for operators, so that a family's file reads like the family's formula.

use super::{Op, OpKind, Shard, Span, Sublayer, SublayerKind};

/// Features cut in `units` groups at the output.
pub fn column(units: u64) -> Shard {
    Shard::Column { units }
}

/// Features cut in `units` groups at the input.
pub fn row(units: u64) -> Shard {
    Shard::Row { units }
}

/// `y = xW (+ b)`.
pub fn linear(name: &'static str, input: u64, output: u64, bias: bool, shard: Shard) -> Op {
    Op { name, kind: OpKind::Linear { input, output, bias, shard } }
}

/// A replicated norm over the whole width with `parameters` weights.
pub fn norm(name: &'static str, width: u64, parameters: u64) -> Op {
    Op { name, kind: OpKind::Norm { width, instances: 1, parameters, shard: Shard::Replicated } }
}

/// A norm inside every head: `parameters` in all, following the heads.
pub fn head_norm(name: &'static str, width: u64, heads: u64, parameters: u64) -> Op {
    Op { name, kind: OpKind::Norm { width, instances: heads, parameters, shard: column(heads) } }
}

/// Element-wise work.
pub fn elementwise(name: &'static str, width: u64, reads: u64, shard: Shard) -> Op {
    Op { name, kind: OpKind::Elementwise { width, reads, shard } }
}

/// The name of rotary embedding, by whether it also scales what it rotates (YaRN's attention factor).
pub const fn rotary(scaled: bool) -> &'static str {
    if scaled { SCALED_ROTARY } else { "rotary" }
}

/// Rotary embedding that also scales what it rotates.
pub const SCALED_ROTARY: &str = "scaled_rotary";

/// Weights that no matrix product reads.
pub fn weights(name: &'static str, parameters: u64, shard: Shard) -> Op {
    Op { name, kind: OpKind::Weights { parameters, shard } }
}

/// Softmax attention.
pub fn attention(heads: u64, kv_heads: u64, qk_dim: u64, v_dim: u64, span: Span) -> Op {
    Op { name: "attention", kind: OpKind::Attention { heads, kv_heads, qk_dim, v_dim, span } }
}

/// The kind of normalisation, which decides how many weights a norm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// One weight per feature (RMSNorm, LayerNorm without bias).
    Scale,
    /// Weight and bias per feature (LayerNorm).
    ScaleAndBias,
    /// No weights at all (OLMo).
    Bare,
}

impl NormKind {
    /// Weights of a norm over `width` features.
    pub fn parameters(self, width: u64) -> u64 {
        match self {
            NormKind::Scale => width,
            NormKind::ScaleAndBias => 2 * width,
            NormKind::Bare => 0,
        }
    }
    /// A replicated norm of this kind over the residual stream.
    pub fn op(self, name: &'static str, width: u64) -> Op {
        norm(name, width, self.parameters(width))
    }
}

/// Operators of an MLP `hidden -> ffn -> hidden`, gated (three products) or plain (two).
pub fn mlp(hidden: u64, ffn: u64, gated: bool, bias: bool) -> Vec<Op> {
    let mut ops = Vec::with_capacity(4);
    if gated {
        ops.push(linear("gate_proj", hidden, ffn, bias, column(ffn)));
    }
    ops.push(linear("up_proj", hidden, ffn, bias, column(ffn)));
    ops.push(elementwise("activation", ffn, if gated { 2 } else { 1 }, column(ffn)));
    ops.push(linear("down_proj", ffn, hidden, bias, row(ffn)));
    ops
}

/// A residual branch around `core`: norm before, norm after, sum with the residual stream.
pub fn branch(kind: SublayerKind, hidden: u64, before: Option<Op>, core: Vec<Op>, after: Option<Op>) -> Sublayer {
    let ops = before
        .into_iter()
        .chain(core)
        .chain(after)
        .chain([elementwise("residual", hidden, 2, Shard::Replicated)])
        .collect();
    Sublayer { kind, ops }
}
