//! Gemma-4: sliding layers and wider full ones, keys that serve as values, key/value states shared by the last
//! layers, a dense MLP beside the experts, per-layer embeddings.
//!
//! Operators and sizes as in the classes of transformers 5.24 (2026-11).

use super::feed::{Moe, experts};
use super::gqa::Gqa;
use super::rules::QkNorm;
use super::text::{Sizes, Text, tied};
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, branch, column, elementwise, head_norm, linear, mlp, norm, weights};
use crate::model::{ClassId, Embedding, Head, ModelError, Op, Shard, Span, Stream, SublayerKind, Tower};

const NORM: NormKind = NormKind::Scale;

/// How one layer differs from the others.
#[derive(Debug, Clone, Copy)]
struct Layer {
    full: bool,
    /// Reads the keys and values of an earlier layer.
    reuses: bool,
}

/// What all layers share.
#[derive(Debug)]
struct Shapes {
    hidden: u64,
    sliding: Gqa,
    full: Gqa,
    /// On full layers the keys serve as values.
    keys_are_values: bool,
    ffn: u64,
    /// Layers that reuse keys and values have an MLP twice as wide.
    double: bool,
    moe: Option<Moe>,
    /// Width of the per-layer embedding; 0 without.
    per_layer: u64,
}

impl Shapes {
    fn read(fields: &Fields, hidden: u64) -> Result<Shapes, ModelError> {
        let heads = fields.heads("num_attention_heads")?;
        let kv_heads = fields.heads_if("num_key_value_heads")?.unwrap_or(heads);
        fields.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
        let keys_are_values = fields.flag("attention_k_eq_v", false)?;
        let stated = fields.heads_if("num_global_key_value_heads")?;
        let full_kv = stated.filter(|_| keys_are_values).unwrap_or(kv_heads);
        fields.divides("num_global_key_value_heads", full_kv, heads, "num_attention_heads")?;
        let window = fields.length_if("sliding_window")?;
        let window = window.ok_or_else(|| fields.missing("sliding_window", "the length of the window"))?;
        let bias = fields.flag("attention_bias", false)?;
        let base =
            Gqa { qkv_bias: bias, o_bias: bias, ..Gqa::plain(hidden, heads, kv_heads, fields.heads("head_dim")?) };
        let base = Gqa { qk_norm: QkNorm::Head, ..base };
        let wide = fields.heads_if("global_head_dim")?.unwrap_or(512);
        let moe = if fields.flag("enable_moe_block", false)? {
            let (experts, top_k) = experts(fields)?;
            let ffn = fields.width("moe_intermediate_size")?;
            Some(Moe {
                hidden,
                experts,
                top_k,
                ffn,
                shared: 0,
                shared_bias: false,
                shared_gate: false,
                bias: false,
                clamped: false,
            })
        } else {
            let _ =
                (fields.count("num_experts")?, fields.count("top_k_experts")?, fields.count("moe_intermediate_size")?);
            None
        };
        Ok(Shapes {
            hidden,
            sliding: Gqa { span: Span::Sliding { window }, ..base },
            full: Gqa { kv_heads: full_kv, qk_dim: wide, v_dim: wide, ..base },
            keys_are_values,
            ffn: fields.width("intermediate_size")?,
            double: fields.flag("use_double_wide_mlp", false)?,
            moe,
            per_layer: fields.count_if("hidden_size_per_layer_input")?.unwrap_or(256),
        })
    }

    fn attention(&self, layer: Layer) -> Vec<Op> {
        let shape = if layer.full { self.full } else { self.sliding };
        let mut ops = shape.ops();
        if layer.reuses {
            ops.retain(|op| !matches!(op.name, "k_proj" | "v_proj" | "k_norm"));
        } else {
            if layer.full && self.keys_are_values {
                ops.retain(|op| op.name != "v_proj");
            }
            let after = ops.iter().position(|op| op.name == "k_norm").map_or(0, |i| i + 1);
            ops.insert(after, head_norm("v_norm", shape.v_dim, shape.kv_heads, 0));
        }
        ops
    }

    fn feed(&self, layer: Layer) -> (SublayerKind, Vec<Op>) {
        let ffn = if self.double && layer.reuses { 2 * self.ffn } else { self.ffn };
        let mut ops = mlp(self.hidden, ffn, true, false);
        let Some(moe) = self.moe else { return (SublayerKind::Mlp, ops) };
        let all = Shard::Replicated;
        ops.extend([
            NORM.op("post_feedforward_norm_1", self.hidden),
            norm("router_norm", self.hidden, 0),
            weights("router_scale", self.hidden, all),
            linear("router", self.hidden, moe.experts, false, all),
            elementwise("router_scores", moe.experts, 1, all),
            weights("expert_scale", moe.experts, all),
            NORM.op("pre_feedforward_norm_2", self.hidden),
            moe.experts_op(),
            elementwise("combine", self.hidden, moe.top_k, all),
            NORM.op("post_feedforward_norm_2", self.hidden),
            elementwise("sum", self.hidden, 2, all),
        ]);
        (SublayerKind::Moe, ops)
    }

    fn class(&self, layer: Layer, draft: &mut Draft) -> ClassId {
        let around = |name| Some(NORM.op(name, self.hidden));
        let (kind, feed) = self.feed(layer);
        let mut parts = vec![
            branch(
                SublayerKind::Attention,
                self.hidden,
                around("input_norm"),
                self.attention(layer),
                around("post_attention_norm"),
            ),
            branch(kind, self.hidden, around("pre_feedforward_norm"), feed, around("post_feedforward_norm")),
        ];
        if self.per_layer > 0 {
            let all = Shard::Replicated;
            let ops = vec![
                linear("per_layer_gate", self.hidden, self.per_layer, false, all),
                elementwise("per_layer_input", self.per_layer, 2, all),
                linear("per_layer_projection", self.per_layer, self.hidden, false, all),
            ];
            parts.push(branch(SublayerKind::Mlp, self.hidden, None, ops, around("post_per_layer_norm")));
        }
        let span = if layer.full { "full" } else { "sliding" };
        let reuse = if layer.reuses { ".reuse" } else { "" };
        let label = if self.moe.is_some() { "moe" } else { "dense" };
        draft.layer(&format!("decoder.{span}{reuse}.{label}"), Stream::Text, self.hidden, 1, parts)
    }
}

/// The text decoder of Gemma-4.
pub(super) fn decoder(
    outer: Option<&Fields>,
    fields: &Fields,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Text, ModelError> {
    let Sizes { hidden, layers, vocab, max_positions } = Sizes::read(fields, None)?;
    let shapes = Shapes::read(fields, hidden)?;
    let known = [("sliding_attention", false), ("full_attention", true)];
    let mut full = fields
        .words("layer_types", layers, &known)?
        .unwrap_or_else(|| (1..=layers).map(|i| i.is_multiple_of(6)).collect());
    if let Some(last) = full.last_mut().filter(|last| !**last) {
        *last = true;
        notes.push("the last layer attends to all positions, whatever `layer_types` says, as the class does".into());
    }
    let shared = fields.count("num_kv_shared_layers")?;
    fields.at_most("num_kv_shared_layers", shared, layers, "num_hidden_layers")?;
    let classes: Vec<ClassId> = (0..layers)
        .zip(full)
        .map(|(i, full)| shapes.class(Layer { full, reuses: i >= layers - shared }, draft))
        .collect();
    let per_layer = shapes.per_layer * layers;
    let table = fields.width_if("vocab_size_per_layer_input")?.unwrap_or(262_144);
    let ops = if per_layer == 0 {
        Vec::new()
    } else {
        vec![
            weights("per_layer_embedding", table * per_layer, column(table)),
            linear("per_layer_projection", hidden, per_layer, false, Shard::Replicated),
            norm("per_layer_norm", shapes.per_layer, shapes.per_layer),
        ]
    };
    Ok(Text {
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers: classes, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab, hidden, ops },
        head: Head {
            vocab,
            hidden,
            tied: tied(outer, fields, true)?,
            bias: false,
            ops: vec![NORM.op("final_norm", hidden)],
        },
        mtp: Vec::new(),
        max_positions,
    })
}
