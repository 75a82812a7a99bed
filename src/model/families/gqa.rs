//! Multi-head, grouped-query and multi-query softmax attention: projections, norms of queries and keys, core.

use super::rules::{QkNorm, Rules, Spans};
use crate::model::fields::{Fields, MAX_HEADS};
use crate::model::ops::{attention, column, elementwise, head_norm, linear, norm, rotary, row, weights};
use crate::model::{ModelError, Op, Span};

/// Shapes of one attention branch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gqa {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) qk_dim: u64,
    pub(super) v_dim: u64,
    pub(super) qkv_bias: bool,
    pub(super) o_bias: bool,
    pub(super) qk_norm: QkNorm,
    /// Weights of a norm per normalised feature: 1 or 2.
    pub(super) norm_weights: u64,
    pub(super) sinks: bool,
    pub(super) rotary: bool,
    /// Rotation also scales what it rotates.
    pub(super) scaled_rotary: bool,
    /// A sigmoid gate on the output, as wide as the queries and projected with them (Qwen3.5).
    pub(super) output_gate: bool,
    pub(super) span: Span,
}

impl Gqa {
    /// Plain attention of `heads` heads of `hidden / heads`, rotary embedding, no biases, all earlier positions.
    pub(super) fn plain(hidden: u64, heads: u64, kv_heads: u64, head_dim: u64) -> Gqa {
        Gqa {
            hidden,
            heads,
            kv_heads,
            qk_dim: head_dim,
            v_dim: head_dim,
            qkv_bias: false,
            o_bias: false,
            qk_norm: QkNorm::None,
            norm_weights: 1,
            sinks: false,
            rotary: true,
            scaled_rotary: false,
            output_gate: false,
            span: Span::Causal,
        }
    }

    fn qk_norm_op(&self, name: &'static str, heads: u64) -> Option<Op> {
        let width = self.qk_dim * self.norm_weights;
        match self.qk_norm {
            QkNorm::None => None,
            QkNorm::Head => Some(head_norm(name, self.qk_dim, heads, width)),
            QkNorm::EachHead => Some(head_norm(name, self.qk_dim, heads, self.qk_dim * heads)),
            QkNorm::Bare => Some(head_norm(name, self.qk_dim, heads, 0)),
            // All heads are normalised together, so a rank needs the sum of squares of all.
            QkNorm::Width => Some(norm(name, self.qk_dim * heads, width * heads)),
        }
    }

    /// Operators in order, from the normed residual stream back to it.
    pub(super) fn ops(&self) -> Vec<Op> {
        let (q, k, v) = (self.heads * self.qk_dim, self.kv_heads * self.qk_dim, self.kv_heads * self.v_dim);
        let gate = if self.output_gate { 2 } else { 1 };
        let mut ops = vec![
            linear("q_proj", self.hidden, gate * q, self.qkv_bias, column(self.heads)),
            linear("k_proj", self.hidden, k, self.qkv_bias, column(self.kv_heads)),
            linear("v_proj", self.hidden, v, self.qkv_bias, column(self.kv_heads)),
        ];
        ops.extend(self.qk_norm_op("q_norm", self.heads));
        ops.extend(self.qk_norm_op("k_norm", self.kv_heads));
        if self.rotary {
            ops.push(elementwise(rotary(self.scaled_rotary), q + k, 1, column(self.heads)));
        }
        if self.sinks {
            ops.push(weights("sinks", self.heads, column(self.heads)));
        }
        ops.push(attention(self.heads, self.kv_heads, self.qk_dim, self.v_dim, self.span));
        if self.output_gate {
            ops.push(elementwise("output_gate", self.heads * self.v_dim, 2, column(self.heads)));
        }
        ops.push(linear("o_proj", self.heads * self.v_dim, self.hidden, self.o_bias, row(self.heads)));
        ops
    }
}

/// Query heads, key/value heads and head size; absent key/value heads are as many as query heads, an absent head size
/// is `hidden / heads`.
pub(super) fn heads(fields: &Fields, hidden: u64, rules: &Rules) -> Result<(u64, u64, u64), ModelError> {
    let default = |key| rules.defaults.iter().find(|(k, _)| *k == key).map(|&(_, n)| n);
    let heads = match (fields.heads_if("num_attention_heads")?, default("num_attention_heads")) {
        (Some(n), _) | (None, Some(n)) => n,
        (None, None) => return fields.heads("num_attention_heads").map(|n| (n, n, n)),
    };
    let kv = fields.heads_if("num_key_value_heads")?.or(default("num_key_value_heads")).unwrap_or(heads);
    fields.divides("num_key_value_heads", kv, heads, "num_attention_heads")?;
    let head_dim = match fields.heads_if("head_dim")?.or(default("head_dim")) {
        Some(n) => n,
        None => {
            fields.divides("num_attention_heads", heads, hidden, "hidden_size")?;
            hidden / heads
        }
    };
    Ok((heads, kv, head_dim))
}

/// What a layer attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Sliding,
    Chunked,
}

const KINDS: &[(&str, Kind)] =
    &[("full_attention", Kind::Full), ("sliding_attention", Kind::Sliding), ("chunked_attention", Kind::Chunked)];

/// The span of every layer.
pub(super) fn spans(fields: &Fields, layers: u64, rules: &Rules) -> Result<Vec<Span>, ModelError> {
    let default = |key| rules.defaults.iter().find(|(k, _)| *k == key).map(|&(_, n)| n);
    let every = |full: &dyn Fn(u64) -> bool, other: Kind| {
        (0..layers).map(|i| if full(i) { Kind::Full } else { other }).collect::<Vec<_>>()
    };
    let listed = match rules.spans {
        Spans::Full | Spans::Window => None,
        _ => fields.words("layer_types", layers, KINDS)?,
    };
    let mut window = match rules.spans {
        Spans::Full | Spans::Chunks => None,
        _ => fields.length_if("sliding_window")?.or(default("sliding_window")),
    };
    let kinds = match rules.spans {
        Spans::Full => every(&|_| true, Kind::Full),
        Spans::Window => every(&|_| window.is_none(), Kind::Sliding),
        Spans::Upper => {
            let used = fields.flag("use_sliding_window", false)?;
            let from = fields.count_if("max_window_layers")?.unwrap_or(layers);
            listed.unwrap_or_else(|| every(&|i| !used || window.is_none() || i < from, Kind::Sliding))
        }
        Spans::Listed => {
            let _ = fields.flag("use_sliding_window", false)?;
            listed.unwrap_or_else(|| every(&|_| true, Kind::Full))
        }
        Spans::Every(n) => {
            let n = fields.layers_if("sliding_window_pattern")?.unwrap_or(n);
            listed.unwrap_or_else(|| every(&|i| (i + 1).is_multiple_of(n), Kind::Sliding))
        }
        Spans::Chunks => {
            let interval = fields.layers_if("no_rope_layer_interval")?.unwrap_or(4);
            let rotary = fields.integers("no_rope_layers", 1)?.filter(|list| !list.is_empty());
            if let Some(list) = &rotary {
                fields.one_per_layer("no_rope_layers", list.len(), layers)?;
            }
            let full = |i: u64| match &rotary {
                Some(list) => list[i as usize] == 0,
                None => (i + 1).is_multiple_of(interval),
            };
            let whole = !fields.has("attention_chunk_size");
            listed.unwrap_or_else(|| every(&|i| whole || full(i), Kind::Chunked))
        }
        Spans::Pattern => {
            // The class widens the stated window by the query itself.
            window = fields.length_if("sliding_window_size")?.map(|n| n + 1).or(window);
            match fields.integers("hybrid_layer_pattern", 1)? {
                Some(list) => {
                    fields.one_per_layer("hybrid_layer_pattern", list.len(), layers)?;
                    every(&|i| list[i as usize] == 0, Kind::Sliding)
                }
                None => listed.unwrap_or_else(|| every(&|i| i == 0 || (i + 1).is_multiple_of(6), Kind::Sliding)),
            }
        }
    };
    let chunk = match rules.spans {
        Spans::Chunks => fields.length_if("attention_chunk_size")?,
        _ => None,
    };
    kinds
        .into_iter()
        .map(|kind| match kind {
            Kind::Full => Ok(Span::Causal),
            Kind::Sliding => window
                .map(|window| Span::Sliding { window })
                .ok_or_else(|| fields.missing("sliding_window", "the length of the window")),
            Kind::Chunked => chunk
                .map(|chunk| Span::Chunked { chunk })
                .ok_or_else(|| fields.missing("attention_chunk_size", "the length of a chunk")),
        })
        .collect()
}

/// The attention of every layer.
pub(super) fn of_layers(fields: &Fields, hidden: u64, layers: u64, rules: &Rules) -> Result<Vec<Gqa>, ModelError> {
    let (heads, kv_heads, head_dim) = heads(fields, hidden, rules)?;
    if let Some(kind) = fields.text("qk_norm_type")?.filter(|kind| *kind != "per_layer") {
        let details = fields.at("qk_norm_type").found(format!("\"{kind}\"")).expected("\"per_layer\"");
        return Err(ModelError::Unsupported(details));
    }
    if let Some(list) = fields.integers("attn_type_list", 1)? {
        fields.one_per_layer("attn_type_list", list.len(), layers)?;
        if let Some(i) = list.iter().position(|&kind| kind == 0) {
            let details = fields.at(&format!("attn_type_list[{i}]")).found("0, linear attention").expected("1");
            return Err(ModelError::Unsupported(details));
        }
    }
    let qk_norm = if rules.qk_norm_if.of(fields)? { rules.qk_norm } else { QkNorm::None };
    let norm_weights = rules.norm.parameters(1);
    let full = Gqa {
        qkv_bias: rules.qkv_bias.of(fields)?,
        o_bias: rules.o_bias.of(fields)?,
        qk_norm,
        norm_weights,
        sinks: rules.sinks,
        scaled_rotary: scaled_rotary(fields)?,
        ..Gqa::plain(hidden, heads, kv_heads, head_dim)
    };
    let (full, sliding) = match rules.spans {
        Spans::Pattern => mimo(fields, full)?,
        _ => (full, full),
    };
    let spans = spans(fields, layers, rules)?;
    Ok(spans
        .into_iter()
        .map(|span| Gqa { span, ..if matches!(span, Span::Sliding { .. }) { sliding } else { full } })
        .collect())
}

/// Whether the config's YaRN has an attention factor (Peng 2023, section 3.4): it has unless stated as 1, or both `mscale`
/// cancel.
fn scaled_rotary(fields: &Fields) -> Result<bool, ModelError> {
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = fields.section(key)? else { continue };
        let yarn = rope.text("rope_type")? == Some("yarn") || rope.text("type")? == Some("yarn");
        let (scale, all) = (rope.real("mscale")?, rope.real("mscale_all_dim")?);
        let cancel = scale.is_some() && scale == all;
        return Ok(yarn && !cancel && rope.real("attention_factor")? != Some(1.0));
    }
    Ok(false)
}

/// MiMo-V2: values narrower than keys, and under a window other heads (by the class, twice the key/value heads) and sinks.
fn mimo(fields: &Fields, base: Gqa) -> Result<(Gqa, Gqa), ModelError> {
    let v_dim = fields.heads_if("v_head_dim")?.unwrap_or(base.qk_dim);
    let full = Gqa { v_dim, sinks: fields.flag("add_full_attention_sink_bias", false)?, ..base };
    let heads = fields.heads_if("swa_num_attention_heads")?.unwrap_or(base.heads);
    let kv_heads = match fields.heads_if("swa_num_key_value_heads")? {
        Some(n) => n,
        None => (2 * base.kv_heads).min(MAX_HEADS),
    };
    fields.divides("swa_num_key_value_heads", kv_heads, heads, "swa_num_attention_heads")?;
    let sliding = Gqa {
        heads,
        kv_heads,
        qk_dim: fields.heads_if("swa_head_dim")?.unwrap_or(base.qk_dim),
        v_dim: fields.heads_if("swa_v_head_dim")?.unwrap_or(v_dim),
        sinks: fields.flag("add_swa_attention_sink_bias", true)?,
        ..base
    };
    Ok((full, sliding))
}
