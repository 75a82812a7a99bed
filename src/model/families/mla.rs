//! Multi-head latent attention (DeepSeek-V2 report, section 2.1): queries and keys/values through low-rank latents,
//! a rotary part beside; with the indexer of sparse attention where the family has one (DeepSeek-V3.2 report).

use super::feed::{self, Branch};
use super::rules::{Block, deepseek_experts};
use super::text::{Sizes, Text, block, mtp_modules, tied};
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_LAYERS};
use crate::model::ops::{NormKind, attention, column, elementwise, linear, norm, row};
use crate::model::{ClassId, Embedding, Head, ModelError, Op, OpKind, Shard, Span, Stream, Tower};

/// Shapes of latent attention.
#[derive(Debug, Clone, Copy)]
struct Mla {
    hidden: u64,
    heads: u64,
    /// Width of the query latent; `None` projects queries directly (V2-Lite).
    q_lora: Option<u64>,
    kv_lora: u64,
    nope: u64,
    rope: u64,
    v_dim: u64,
    bias: bool,
    sparse: Option<Sparse>,
}

/// Sparse attention: an indexer chooses `top_k` positions.
#[derive(Debug, Clone, Copy)]
struct Sparse {
    heads: u64,
    dim: u64,
    top_k: u64,
}

impl Mla {
    fn read(fields: &Fields, hidden: u64, indexed: bool) -> Result<Mla, ModelError> {
        let q_lora = fields.width_if("q_lora_rank")?;
        let sparse = if indexed {
            if q_lora.is_none() {
                return Err(fields.missing("q_lora_rank", "the width of the query latent that the indexer reads"));
            }
            let top_k = fields.length_if("index_topk")?;
            let top_k = top_k.ok_or_else(|| fields.missing("index_topk", "the positions that an indexer keeps"))?;
            Some(Sparse { heads: fields.heads("index_n_heads")?, dim: fields.heads("index_head_dim")?, top_k })
        } else {
            None
        };
        let heads = fields.heads("num_attention_heads")?;
        if let Some(kv) = fields.heads_if("num_key_value_heads")? {
            fields.divides("num_key_value_heads", kv, heads, "num_attention_heads")?;
        }
        // Some configs state the rotary part, some the whole width of a head here; the parts below decide.
        let _ = (fields.heads_if("head_dim")?, fields.heads_if("qk_head_dim")?);
        Ok(Mla {
            hidden,
            heads,
            q_lora,
            kv_lora: fields.width("kv_lora_rank")?,
            nope: fields.heads("qk_nope_head_dim")?,
            rope: fields.heads("qk_rope_head_dim")?,
            v_dim: fields.heads("v_head_dim")?,
            bias: fields.flag("attention_bias", false)?,
            sparse,
        })
    }

    /// Operators in order. A layer that shares the indexer of an earlier one (`indexer` false) still reads selected
    /// positions only.
    fn ops(&self, indexer: bool) -> Vec<Op> {
        let heads = column(self.heads);
        let qk = self.nope + self.rope;
        let mut ops = match self.q_lora {
            None => vec![linear("q_proj", self.hidden, self.heads * qk, false, heads)],
            Some(rank) => vec![
                linear("q_a_proj", self.hidden, rank, self.bias, Shard::Replicated),
                norm("q_a_norm", rank, rank),
                linear("q_b_proj", rank, self.heads * qk, false, heads),
            ],
        };
        ops.extend([
            linear("kv_a_proj", self.hidden, self.kv_lora + self.rope, self.bias, Shard::Replicated),
            norm("kv_a_norm", self.kv_lora, self.kv_lora),
            linear("kv_b_proj", self.kv_lora, self.heads * (self.nope + self.v_dim), false, heads),
            elementwise("rotary", self.heads * qk + self.rope, 1, heads),
        ]);
        let span = match (self.sparse, self.q_lora) {
            (Some(sparse), Some(rank)) => {
                if indexer {
                    ops.extend(sparse.ops(self.hidden, rank));
                }
                Span::Selected { top_k: sparse.top_k }
            }
            _ => Span::Causal,
        };
        ops.push(attention(self.heads, self.heads, qk, self.v_dim, span));
        ops.push(linear("o_proj", self.heads * self.v_dim, self.hidden, self.bias, row(self.heads)));
        ops
    }
}

impl Sparse {
    fn ops(&self, hidden: u64, q_lora: u64) -> [Op; 5] {
        let all = Shard::Replicated;
        [
            linear("indexer_q_proj", q_lora, self.heads * self.dim, false, all),
            linear("indexer_k_proj", hidden, self.dim, false, all),
            norm("indexer_k_norm", self.dim, 2 * self.dim),
            linear("indexer_weights_proj", hidden, self.heads, false, all),
            Op { name: "indexer", kind: OpKind::Indexer { heads: self.heads, dim: self.dim, ratio: 1 } },
        ]
    }
}

/// Which layers run an indexer of their own: `indexer_types`, else `index_topk_pattern`, else every
/// `index_topk_freq`-th from `index_skip_topk_offset` on (GLM-5); all of them in DeepSeek-V3.2.
fn indexers(fields: &Fields, layers: u64, shared: bool) -> Result<Vec<bool>, ModelError> {
    if !shared {
        return Ok(vec![true; layers as usize]);
    }
    let types = fields.words("indexer_types", layers, &[("full", true), ("shared", false)])?;
    let frequency = fields.optional_in("index_topk_freq", 1, MAX_LAYERS)?.unwrap_or(1);
    let offset = fields.optional_in("index_skip_topk_offset", 0, MAX_LAYERS)?.unwrap_or(2);
    let pattern = if fields.is_list("index_topk_pattern") {
        fields.words("index_topk_pattern", layers, &[("full", true), ("shared", false)])?
    } else {
        match fields.text("index_topk_pattern")? {
            None => None,
            Some(text) => {
                fields.one_per_layer("index_topk_pattern", text.chars().count(), layers)?;
                if let Some(c) = text.chars().find(|c| !matches!(c, 'F' | 'S')) {
                    let details = fields.at("index_topk_pattern").found(format!("`{c}`")).expected("letters F and S");
                    return Err(ModelError::Unsupported(details));
                }
                Some(text.chars().map(|c| c == 'F').collect())
            }
        }
    };
    let rule = || (0..layers).map(|i| (i + 1).saturating_sub(offset).is_multiple_of(frequency)).collect();
    let own: Vec<bool> = types.or(pattern).unwrap_or_else(rule);
    if own.first() == Some(&false) {
        return Err(ModelError::Contradictory(
            fields.at("indexer_types").found("a first layer that shares").expected("an indexer in the first layer"),
        ));
    }
    Ok(own)
}

/// What tells the families with latent attention apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// Whether attention is sparse, with an indexer.
    pub(super) indexed: bool,
    /// Whether layers may share an indexer.
    pub(super) shared_indexers: bool,
    /// What an absent `first_k_dense_replace` means.
    pub(super) dense: u64,
}

/// A text decoder with latent attention and DeepSeek's mixture of experts.
pub(super) fn decoder(
    outer: Option<&Fields>,
    fields: &Fields,
    family: Family,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Text, ModelError> {
    let sizes = Sizes::read(fields, None)?;
    let Sizes { hidden, layers, vocab, max_positions } = sizes;
    let mla = Mla::read(fields, hidden, family.indexed)?;
    let own = indexers(fields, layers, family.indexed && family.shared_indexers)?;
    let bias = fields.flag("mlp_bias", false)?;
    let feed = feed::of_layers(fields, hidden, layers, deepseek_experts(family.dense), true, bias)?;
    let label = if family.indexed { "selected" } else { "full" };
    let mut layer = |own: bool, feed: &Branch| {
        let shared = if own { "" } else { ".shared" };
        let name = format!("decoder.{label}{shared}.{}", feed.label());
        let parts = block(Block::Pre, NormKind::Scale, hidden, mla.ops(own), feed.kind(), feed.ops());
        draft.layer(&name, Stream::Text, hidden, 1, parts)
    };
    let classes: Vec<ClassId> = own.iter().zip(&feed).map(|(&own, feed)| layer(own, feed)).collect();
    let mtp = mtp_modules(fields, sizes, notes, || feed.last().map(|feed| layer(true, feed)))?;
    Ok(Text {
        mtp,
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers: classes, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab, hidden, ops: Vec::new() },
        head: Head {
            vocab,
            hidden,
            tied: tied(outer, fields, false)?,
            bias: false,
            ops: vec![NormKind::Scale.op("final_norm", hidden)],
        },
        max_positions,
    })
}
