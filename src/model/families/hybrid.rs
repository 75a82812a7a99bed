//! Layers with a gated delta rule between layers of gated softmax attention: Qwen3-Next, Qwen3.5.
//!
//! Gated delta net: Yang et al. 2024 (Gated Delta Networks), with the projections of the classes of transformers 5.24.

use super::feed::{self, Branch};
use super::gqa::{self, Gqa};
use super::rules::{Block, Feed, QkNorm, Rules};
use super::text::{Sizes, Text, block, mtp_modules, tied};
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, column, elementwise, head_norm, linear, row, weights};
use crate::model::{ClassId, Embedding, Head, ModelError, Op, OpKind, Stream, Tower};

/// Shapes of a gated delta net.
#[derive(Debug, Clone, Copy)]
struct DeltaNet {
    hidden: u64,
    k_heads: u64,
    v_heads: u64,
    k_dim: u64,
    v_dim: u64,
    taps: u64,
}

impl DeltaNet {
    fn read(fields: &Fields, hidden: u64) -> Result<DeltaNet, ModelError> {
        let (k_heads, v_heads) = (fields.heads("linear_num_key_heads")?, fields.heads("linear_num_value_heads")?);
        fields.divides("linear_num_key_heads", k_heads, v_heads, "linear_num_value_heads")?;
        Ok(DeltaNet {
            hidden,
            k_heads,
            v_heads,
            k_dim: fields.heads("linear_key_head_dim")?,
            v_dim: fields.heads("linear_value_head_dim")?,
            taps: fields.heads("linear_conv_kernel_dim")?,
        })
    }

    fn ops(&self) -> Vec<Op> {
        let DeltaNet { hidden, k_heads, v_heads, k_dim, v_dim, taps } = *self;
        let (keys, values) = (k_heads * k_dim, v_heads * v_dim);
        let mixed = 2 * keys + values;
        vec![
            linear("in_proj_qkv", hidden, mixed, false, column(k_heads)),
            linear("in_proj_z", hidden, values, false, column(v_heads)),
            linear("in_proj_b", hidden, v_heads, false, column(v_heads)),
            linear("in_proj_a", hidden, v_heads, false, column(v_heads)),
            weights("conv", mixed * taps, column(k_heads)),
            elementwise("conv", mixed, 1, column(k_heads)),
            weights("decay", 2 * v_heads, column(v_heads)),
            Op { name: "delta_rule", kind: OpKind::LinearAttention { k_heads, v_heads, k_dim, v_dim } },
            head_norm("gated_norm", v_dim, v_heads, v_dim),
            elementwise("output_gate", values, 2, column(v_heads)),
            linear("out_proj", values, hidden, false, row(v_heads)),
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Full,
}

/// A text decoder with linear and full attention.
pub(super) fn decoder(
    outer: Option<&Fields>,
    fields: &Fields,
    feed: Feed,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Text, ModelError> {
    let sizes = Sizes::read(fields, None)?;
    let Sizes { hidden, layers, vocab, max_positions } = sizes;
    let interval = fields.layers_if("full_attention_interval")?.unwrap_or(4);
    let known = [("linear_attention", Kind::Linear), ("full_attention", Kind::Full)];
    let kinds = fields.words("layer_types", layers, &known)?.unwrap_or_else(|| {
        (1..=layers).map(|i| if i.is_multiple_of(interval) { Kind::Full } else { Kind::Linear }).collect()
    });
    let net = DeltaNet::read(fields, hidden)?;
    let rules = Rules { qk_norm: QkNorm::Head, ..super::rules::LLAMA };
    let (heads, kv_heads, head_dim) = gqa::heads(fields, hidden, &rules)?;
    let bias = fields.flag("attention_bias", false)?;
    let full = Gqa {
        qkv_bias: bias,
        o_bias: bias,
        qk_norm: QkNorm::Head,
        output_gate: fields.flag("attn_output_gate", true)?,
        ..Gqa::plain(hidden, heads, kv_heads, head_dim)
    };
    let feed = feed::of_layers(fields, hidden, layers, feed, true, false)?;
    let mut layer = |kind: Kind, feed: &Branch| {
        let (label, ops) = match kind {
            Kind::Linear => ("linear", net.ops()),
            Kind::Full => ("full", full.ops()),
        };
        let parts = block(Block::Pre, NormKind::Scale, hidden, ops, feed.kind(), feed.ops());
        draft.layer(&format!("decoder.{label}.{}", feed.label()), Stream::Text, hidden, 1, parts)
    };
    let classes: Vec<ClassId> = kinds.iter().zip(&feed).map(|(&kind, feed)| layer(kind, feed)).collect();
    let mtp = mtp_modules(fields, sizes, notes, || feed.last().map(|feed| layer(Kind::Full, feed)))?;
    Ok(Text {
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers: classes, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab, hidden, ops: Vec::new() },
        head: Head {
            vocab,
            hidden,
            tied: tied(outer, fields, false)?,
            bias: false,
            ops: vec![NormKind::Scale.op("final_norm", hidden)],
        },
        mtp,
        max_positions,
    })
}
