//! DeepSeek-V4: one shared key/value head, compressed and sliding attention with sinks, grouped output projection,
//! hash-routed first layers, hyper-connections around every branch.
//!
//! Operators and sizes as in the classes of transformers 5.24 (2026-11). Three kinds of layers: a sliding window alone,
//! the window and every `m'`-th position compressed (heavily compressed), the window and the `index_topk` entries that an
//! indexer chooses among those compressed `m`-fold in overlapping windows (sparse compressed).

use super::feed::{Branch, Moe, experts};
use super::text::{Sizes, Text, mtp_ops, tied};
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_LENGTH, MAX_WIDTH};
use crate::model::ops::{NormKind, attention, branch, column, elementwise, head_norm, linear, norm, row, weights};
use crate::model::{
    ClassId, Embedding, Head, ModelError, Mtp, Op, OpKind, Shard, Span, Stream, Sublayer, SublayerKind, Tower,
};

/// Which positions a layer reads besides the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sliding,
    Sparse,
    Heavy,
}

const KINDS: &[(&str, Kind)] = &[
    ("sliding_attention", Kind::Sliding),
    ("compressed_sparse_attention", Kind::Sparse),
    ("heavily_compressed_attention", Kind::Heavy),
];

/// Shapes of the attention branch.
#[derive(Debug, Clone, Copy)]
struct Attention {
    hidden: u64,
    heads: u64,
    head_dim: u64,
    rope: u64,
    q_lora: u64,
    groups: u64,
    o_lora: u64,
    window: u64,
    sparse_rate: u64,
    heavy_rate: u64,
    index_heads: u64,
    index_dim: u64,
    index_top_k: u64,
}

impl Attention {
    fn read(fields: &Fields, hidden: u64) -> Result<Attention, ModelError> {
        let (heads, head_dim, groups) =
            (fields.heads("num_attention_heads")?, fields.heads("head_dim")?, fields.heads("o_groups")?);
        fields.divides("o_groups", groups, heads * head_dim, "num_attention_heads * head_dim")?;
        match fields.heads_if("num_key_value_heads")? {
            None | Some(1) => {}
            Some(n) => {
                let details = fields.at("num_key_value_heads").found(n.to_string()).expected("1, shared by all heads");
                return Err(ModelError::Unsupported(details));
            }
        }
        let rates = fields.section("compress_rates")?;
        let rate = |key, legacy, default| -> Result<u64, ModelError> {
            let stated = match &rates {
                Some(rates) => rates.length_if(key)?,
                None => None,
            };
            Ok(fields.length_if(legacy)?.or(stated).unwrap_or(default))
        };
        let length = |key, what| fields.length_if(key)?.ok_or_else(|| fields.missing(key, what));
        Ok(Attention {
            hidden,
            heads,
            head_dim,
            rope: fields.heads_if("qk_rope_head_dim")?.unwrap_or(head_dim / 8),
            q_lora: fields.width("q_lora_rank")?,
            groups,
            o_lora: fields.width("o_lora_rank")?,
            window: length("sliding_window", "the length of the window")?,
            sparse_rate: rate("compressed_sparse_attention", "compress_rate_csa", 4)?,
            heavy_rate: rate("heavily_compressed_attention", "compress_rate_hca", 128)?,
            index_heads: fields.heads("index_n_heads")?,
            index_dim: fields.heads("index_head_dim")?,
            index_top_k: length("index_topk", "the entries that an indexer keeps")?,
        })
    }

    fn ops(&self, kind: Kind) -> Vec<Op> {
        let heads = column(self.heads);
        let wide = self.heads * self.head_dim;
        let mut ops = vec![
            linear("q_a_proj", self.hidden, self.q_lora, false, Shard::Replicated),
            norm("q_a_norm", self.q_lora, self.q_lora),
            linear("q_b_proj", self.q_lora, wide, false, heads),
            head_norm("q_b_norm", self.head_dim, self.heads, 0),
            linear("kv_proj", self.hidden, self.head_dim, false, Shard::Replicated),
            norm("kv_norm", self.head_dim, self.head_dim),
            elementwise("rotary", (self.heads + 1) * self.rope, 1, heads),
        ];
        let window = self.window;
        let span = match kind {
            Kind::Sliding => Span::Sliding { window },
            Kind::Heavy => {
                ops.extend(self.compressor(
                    ["compressor_kv_proj", "compressor_gate_proj"],
                    self.head_dim,
                    1,
                    self.heavy_rate,
                ));
                Span::Compressed { ratio: self.heavy_rate, top_k: None, window }
            }
            Kind::Sparse => {
                let rate = self.sparse_rate;
                ops.extend(self.compressor(["compressor_kv_proj", "compressor_gate_proj"], self.head_dim, 2, rate));
                ops.extend(self.compressor(["indexer_kv_proj", "indexer_gate_proj"], self.index_dim, 2, rate));
                let all = Shard::Replicated;
                ops.push(linear("indexer_q_proj", self.q_lora, self.index_heads * self.index_dim, false, all));
                ops.push(linear("indexer_weights_proj", self.hidden, self.index_heads, false, all));
                let kind = OpKind::Indexer { heads: self.index_heads, dim: self.index_dim, ratio: rate };
                ops.push(Op { name: "indexer", kind });
                Span::Compressed { ratio: rate, top_k: Some(self.index_top_k), window }
            }
        };
        ops.extend([
            weights("sinks", self.heads, heads),
            attention(self.heads, 1, self.head_dim, self.head_dim, span),
            elementwise("rotary_back", self.heads * self.rope, 1, heads),
            // Block-diagonal: each group of heads has a projection of its own.
            linear("o_a_proj", wide / self.groups, self.groups * self.o_lora, false, column(self.groups)),
            linear("o_b_proj", self.groups * self.o_lora, self.hidden, false, row(self.groups)),
        ]);
        ops
    }

    /// A compressor: values and gates for `series` entries of `dim` per token, a softmax-weighted sum over `rate` tokens.
    fn compressor(&self, names: [&'static str; 2], dim: u64, series: u64, rate: u64) -> [Op; 5] {
        let all = Shard::Replicated;
        [
            linear(names[0], self.hidden, series * dim, false, all),
            linear(names[1], self.hidden, series * dim, false, all),
            weights("position_bias", rate * series * dim, all),
            elementwise("compress", series * dim, 2, all),
            norm("compressed_norm", dim, dim),
        ]
    }
}

/// Manifold-constrained hyper-connections (Xie et al. 2026): how a branch reads from and writes to `streams` residual
/// streams, with mixing weights computed from the streams themselves.
fn hyper_connected(mut sublayer: Sublayer, hidden: u64, streams: u64) -> Sublayer {
    let (all, wide) = (Shard::Replicated, streams * hidden);
    let mixes = (2 + streams) * streams;
    let before = [
        norm("hyper_norm", wide, 0),
        linear("hyper_mix", wide, mixes, true, all),
        weights("hyper_scale", 3, all),
        elementwise("hyper_collapse", wide, 1, all),
    ];
    sublayer.ops.splice(0..0, before);
    // In place of the plain residual sum: streams mixed with each other and with the branch's output.
    sublayer.ops.pop();
    sublayer.ops.push(elementwise("hyper_expand", wide, 2, all));
    sublayer
}

fn kinds(fields: &Fields, layers: u64) -> Result<(Vec<Kind>, Option<Kind>), ModelError> {
    let listed = fields.words("layer_types", layers, KINDS)?;
    let mut beyond = None;
    let by_ratio = match fields.integers("compress_ratios", MAX_LENGTH)? {
        None => None,
        Some(list) => {
            // One entry more per multi-token-prediction module is usual.
            if (list.len() as u64) < layers {
                fields.one_per_layer("compress_ratios", list.len(), layers)?;
            }
            let kind = |(i, n): (usize, &u64)| match n {
                0 => Ok(Kind::Sliding),
                4 => Ok(Kind::Sparse),
                128 => Ok(Kind::Heavy),
                n => {
                    let at = fields.at(&format!("compress_ratios[{i}]")).found(n.to_string());
                    Err(ModelError::Unsupported(at.expected("0, 4 or 128")))
                }
            };
            let mut all = list.iter().enumerate().map(kind).collect::<Result<Vec<_>, _>>()?;
            beyond = all.get(layers as usize).copied();
            all.truncate(layers as usize);
            Some(all)
        }
    };
    let rule = || (0..layers).map(|i| if i < 2 || i.is_multiple_of(2) { Kind::Heavy } else { Kind::Sparse }).collect();
    Ok((listed.or(by_ratio).unwrap_or_else(rule), beyond))
}

/// The text decoder of DeepSeek-V4.
pub(super) fn decoder(
    outer: Option<&Fields>,
    fields: &Fields,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Text, ModelError> {
    let Sizes { hidden, layers, vocab, max_positions } = Sizes::read(fields, None)?;
    let parts = Attention::read(fields, hidden)?;
    let streams = fields.heads("hc_mult")?;
    let (experts, top_k) = experts(fields)?;
    let ffn = fields
        .alias(&["moe_intermediate_size", "intermediate_size"], 1, MAX_WIDTH)?
        .ok_or_else(|| fields.missing("moe_intermediate_size", "the width of an expert"))?;
    match fields.shared_experts()? {
        1 => {}
        n => {
            let details = fields.at("n_shared_experts").found(n.to_string()).expected("1: the family has one");
            return Err(ModelError::Unsupported(details));
        }
    }
    let bias = fields.flag("mlp_bias", false)?;
    fields.only("attention_bias", false)?;
    let hashed = fields.words("mlp_layer_types", layers, &[("hash_moe", true), ("moe", false)])?;
    let first = fields.count_if("num_hash_layers")?.unwrap_or(3);
    let hashed = hashed.unwrap_or_else(|| (0..layers).map(|i| i < first).collect());
    let moe = Moe {
        hidden,
        experts,
        top_k,
        ffn,
        shared: ffn,
        shared_bias: bias,
        shared_gate: false,
        bias: false,
        clamped: false,
    };
    let feed = Branch::Moe(moe);
    let (kinds, mtp_kind) = kinds(fields, layers)?;

    let mut layer = |kind: Kind| -> ClassId {
        let label = match kind {
            Kind::Sliding => "sliding",
            Kind::Sparse => "compressed_sparse",
            Kind::Heavy => "compressed_heavy",
        };
        let norm = |name| Some(NormKind::Scale.op(name, hidden));
        let attention = branch(SublayerKind::Attention, hidden, norm("input_norm"), parts.ops(kind), None);
        let feed = branch(SublayerKind::Moe, hidden, norm("post_attention_norm"), feed.ops(), None);
        let sublayers = [attention, feed].map(|s| hyper_connected(s, hidden, streams)).to_vec();
        draft.layer(&format!("decoder.{label}.moe"), Stream::Text, hidden, streams, sublayers)
    };
    let classes: Vec<ClassId> = kinds.iter().map(|&kind| layer(kind)).collect();
    let modules = fields.optional_in("num_nextn_predict_layers", 0, 64)?.unwrap_or(0);
    let mtp = if modules > 0 {
        let class = layer(mtp_kind.unwrap_or(Kind::Sliding));
        let mut ops = mtp_ops(NormKind::Scale, hidden);
        ops.extend(collapse(hidden, streams));
        notes.push(format!("{modules} multi-token-prediction module(s) are kept apart and not part of the total"));
        vec![Mtp { class, ops }; modules as usize]
    } else {
        Vec::new()
    };
    if hashed.contains(&true) {
        notes.push(
            "the hash table that routes the first layers is no parameter; these layers cost as the others".into(),
        );
    }
    let mut ops = collapse(hidden, streams);
    ops.push(NormKind::Scale.op("final_norm", hidden));
    Ok(Text {
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers: classes, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab, hidden, ops: Vec::new() },
        head: Head { vocab, hidden, tied: tied(outer, fields, false)?, bias: false, ops },
        mtp,
        max_positions,
    })
}

/// The weighted sum of the residual streams in front of the final norm.
fn collapse(hidden: u64, streams: u64) -> Vec<Op> {
    let (all, wide) = (Shard::Replicated, streams * hidden);
    vec![
        norm("hyper_norm", wide, 0),
        linear("hyper_head", wide, streams, true, all),
        weights("hyper_scale", 1, all),
        elementwise("hyper_collapse", wide, 1, all),
    ]
}
