//! Decoders of the first generation, each with key names of its own: GPT-2, GPT-BigCode, GPT-J, GPT-NeoX, BLOOM, OPT,
//! Falcon; and BERT, the same block without a mask. LayerNorms with bias, plain MLPs.

use super::gqa::Gqa;
use super::text::{Sizes, Text, tied};
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_HEADS, MAX_LAYERS, MAX_WIDTH};
use crate::model::ops::{NormKind, branch, column, elementwise, linear, mlp, weights};
use crate::model::{ClassId, Embedding, Head, ModelError, Op, Shard, Span, Stream, SublayerKind, Tower};

const NORM: NormKind = NormKind::ScaleAndBias;

/// Norms of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Norms {
    /// One before each branch.
    Pre,
    /// One after each branch's residual sum.
    Post,
    /// Branches side by side behind one norm.
    Shared,
    /// Branches side by side, each behind a norm of its own.
    Parallel,
}

/// Everything that a block of this generation is made of.
#[derive(Debug, Clone, Copy)]
struct Block {
    attention: Gqa,
    norms: Norms,
    norm: NormKind,
    ffn: u64,
    mlp_bias: bool,
}

impl Block {
    fn class(&self, draft: &mut Draft) -> ClassId {
        let hidden = self.attention.hidden;
        let norm = |name| Some(self.norm.op(name, hidden));
        let (a0, a1, f0, f1) = match self.norms {
            Norms::Pre | Norms::Parallel => (norm("input_norm"), None, norm("post_attention_norm"), None),
            Norms::Post => (None, norm("post_attention_norm"), None, norm("post_feedforward_norm")),
            Norms::Shared => (norm("input_norm"), None, None, None),
        };
        let feed = mlp(hidden, self.ffn, false, self.mlp_bias);
        let parts = vec![
            branch(SublayerKind::Attention, hidden, a0, self.attention.ops(), a1),
            branch(SublayerKind::Mlp, hidden, f0, feed, f1),
        ];
        let name = if self.attention.span == Span::Bidirectional { "encoder.full.dense" } else { "decoder.full.dense" };
        draft.layer(name, Stream::Text, hidden, 1, parts)
    }
}

/// The parts around the blocks, put together.
fn text(block: Block, sizes: Sizes, draft: &mut Draft, embedding: Vec<Op>, tied: bool, head_bias: bool) -> Text {
    let Sizes { hidden, layers, vocab, max_positions } = sizes;
    let class = block.class(draft);
    let layers = vec![class; layers as usize];
    Text {
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab, hidden, ops: embedding },
        head: Head { vocab, hidden, tied, bias: head_bias, ops: vec![block.norm.op("final_norm", hidden)] },
        mtp: Vec::new(),
        max_positions,
    }
}

/// Learned positions.
fn positions(rows: u64, hidden: u64) -> Op {
    weights("position_embedding", rows * hidden, Shard::Replicated)
}

/// Head size where no key says it.
fn head_dim(fields: &Fields, key: &'static str, heads: u64, hidden: u64, width: &str) -> Result<u64, ModelError> {
    fields.divides(key, heads, hidden, width)?;
    Ok(hidden / heads)
}

/// The first of some keys, which must be there under one of its names.
fn one_of(fields: &Fields, keys: &[&'static str], high: u64, what: &str) -> Result<u64, ModelError> {
    let missing = || fields.missing(keys[0], what);
    fields.alias(keys, 1, high)?.ok_or_else(missing)
}

/// Width, layers and heads under GPT-2's names (or the usual ones).
fn gpt_sizes(fields: &Fields) -> Result<(Sizes, u64), ModelError> {
    let sizes = Sizes {
        hidden: one_of(fields, &["n_embd", "hidden_size"], MAX_WIDTH, "the width of the residual stream")?,
        layers: one_of(fields, &["n_layer", "num_hidden_layers"], MAX_LAYERS, "the number of layers")?,
        vocab: fields.width("vocab_size")?,
        max_positions: fields.alias(&["n_positions", "max_position_embeddings"], 1, MAX_WIDTH)?,
    };
    Ok((sizes, one_of(fields, &["n_head", "num_attention_heads"], MAX_HEADS, "the number of heads")?))
}

/// GPT-2 and GPT-BigCode (one key/value head if `multi_query`).
pub(super) fn gpt2(fields: &Fields, multi_query: bool, draft: &mut Draft) -> Result<Text, ModelError> {
    let (sizes, heads) = gpt_sizes(fields)?;
    let hidden = sizes.hidden;
    let kv_heads = if multi_query && fields.flag("multi_query", true)? { 1 } else { heads };
    let rows = sizes.max_positions.unwrap_or(1024);
    let dim = head_dim(fields, "n_head", heads, hidden, "n_embd")?;
    let attention = Gqa { qkv_bias: true, o_bias: true, rotary: false, ..Gqa::plain(hidden, heads, kv_heads, dim) };
    let ffn = fields.width_if("n_inner")?.unwrap_or(4 * hidden);
    let block = Block { attention, norms: Norms::Pre, norm: NORM, ffn, mlp_bias: true };
    let sizes = Sizes { max_positions: Some(rows), ..sizes };
    Ok(text(block, sizes, draft, vec![positions(rows, hidden)], tied(None, fields, true)?, false))
}

/// GPT-J: branches side by side, rotary embedding, a head with bias.
pub(super) fn gptj(fields: &Fields, draft: &mut Draft) -> Result<Text, ModelError> {
    let (sizes, heads) = gpt_sizes(fields)?;
    let hidden = sizes.hidden;
    let dim = head_dim(fields, "n_head", heads, hidden, "n_embd")?;
    let attention = Gqa::plain(hidden, heads, heads, dim);
    let ffn = fields.width_if("n_inner")?.unwrap_or(4 * hidden);
    let block = Block { attention, norms: Norms::Shared, norm: NORM, ffn, mlp_bias: true };
    Ok(text(block, sizes, draft, Vec::new(), tied(None, fields, false)?, true))
}

/// GPT-NeoX and Pythia.
pub(super) fn neox(fields: &Fields, draft: &mut Draft) -> Result<Text, ModelError> {
    let sizes = Sizes::read(fields, None)?;
    let hidden = sizes.hidden;
    let heads = fields.heads("num_attention_heads")?;
    let dim = head_dim(fields, "num_attention_heads", heads, hidden, "hidden_size")?;
    let bias = fields.flag("attention_bias", true)?;
    let attention = Gqa { qkv_bias: bias, o_bias: bias, ..Gqa::plain(hidden, heads, heads, dim) };
    let norms = if fields.flag("use_parallel_residual", true)? { Norms::Parallel } else { Norms::Pre };
    let block = Block { attention, norms, norm: NORM, ffn: fields.width("intermediate_size")?, mlp_bias: true };
    Ok(text(block, sizes, draft, Vec::new(), tied(None, fields, false)?, false))
}

/// BLOOM: ALiBi positions, a norm behind the embedding, MLPs four times as wide.
pub(super) fn bloom(fields: &Fields, draft: &mut Draft) -> Result<Text, ModelError> {
    let sizes = Sizes {
        hidden: one_of(fields, &["hidden_size", "n_embed"], MAX_WIDTH, "the width of the residual stream")?,
        layers: one_of(fields, &["n_layer", "num_hidden_layers"], MAX_LAYERS, "the number of layers")?,
        vocab: fields.width("vocab_size")?,
        max_positions: None,
    };
    let hidden = sizes.hidden;
    let heads = one_of(fields, &["num_attention_heads", "n_head"], MAX_HEADS, "the number of heads")?;
    let dim = head_dim(fields, "num_attention_heads", heads, hidden, "hidden_size")?;
    let attention = Gqa { qkv_bias: true, o_bias: true, rotary: false, ..Gqa::plain(hidden, heads, heads, dim) };
    let block = Block { attention, norms: Norms::Pre, norm: NORM, ffn: 4 * hidden, mlp_bias: true };
    Ok(text(block, sizes, draft, vec![NORM.op("embedding_norm", hidden)], tied(None, fields, true)?, false))
}

/// OPT: learned positions with an offset of two, embeddings that may be narrower than the residual stream.
pub(super) fn opt(fields: &Fields, draft: &mut Draft) -> Result<Text, ModelError> {
    let sizes = Sizes::read(fields, None)?;
    let hidden = sizes.hidden;
    let heads = fields.heads("num_attention_heads")?;
    let dim = head_dim(fields, "num_attention_heads", heads, hidden, "hidden_size")?;
    let bias = fields.flag("enable_bias", true)?;
    let attention = Gqa { qkv_bias: bias, o_bias: bias, rotary: false, ..Gqa::plain(hidden, heads, heads, dim) };
    let before = fields.flag("do_layer_norm_before", true)?;
    let norms = if before { Norms::Pre } else { Norms::Post };
    let block = Block { attention, norms, norm: NORM, ffn: fields.width("ffn_dim")?, mlp_bias: bias };
    let rows = sizes.max_positions.unwrap_or(2048);
    let narrow = fields.width_if("word_embed_proj_dim")?.unwrap_or(hidden);
    let mut embedding = vec![positions(rows + 2, hidden)];
    let mut out = text(block, sizes, draft, Vec::new(), tied(None, fields, true)?, false);
    if !before {
        out.head.ops.clear();
    }
    if narrow != hidden {
        embedding.push(linear("project_in", narrow, hidden, false, Shard::Replicated));
        out.head.ops.push(linear("project_out", hidden, narrow, false, Shard::Replicated));
        (out.embedding.hidden, out.head.hidden) = (narrow, narrow);
    }
    out.embedding.ops = embedding;
    Ok(out)
}

/// Falcon: one key/value head unless `new_decoder_architecture` states another number; branches side by side.
pub(super) fn falcon(fields: &Fields, draft: &mut Draft) -> Result<Text, ModelError> {
    let sizes = Sizes {
        hidden: one_of(fields, &["hidden_size", "n_embed"], MAX_WIDTH, "the width of the residual stream")?,
        layers: one_of(fields, &["num_hidden_layers", "n_layer"], MAX_LAYERS, "the number of layers")?,
        vocab: fields.width("vocab_size")?,
        max_positions: fields.length_if("max_position_embeddings")?,
    };
    let hidden = sizes.hidden;
    let heads = one_of(fields, &["num_attention_heads", "n_head"], MAX_HEADS, "the number of heads")?;
    let stated = fields.heads_if("num_kv_heads")?.unwrap_or(heads);
    let (new, multi_query) = (fields.flag("new_decoder_architecture", false)?, fields.flag("multi_query", true)?);
    let kv_heads = match (new, multi_query) {
        (true, _) => stated,
        (false, true) => 1,
        (false, false) => heads,
    };
    fields.divides("num_kv_heads", kv_heads, heads, "num_attention_heads")?;
    let dim = head_dim(fields, "num_attention_heads", heads, hidden, "hidden_size")?;
    let bias = fields.flag("bias", false)?;
    let rotary = !fields.flag("alibi", false)?;
    let attention = Gqa { qkv_bias: bias, o_bias: bias, rotary, ..Gqa::plain(hidden, heads, kv_heads, dim) };
    let parallel = fields.flag("parallel_attn", true)?;
    let stated = fields.optional_in("num_ln_in_parallel_attn", 1, 2)?;
    let norms = match (parallel, stated.unwrap_or(if new { 2 } else { 1 })) {
        (false, _) => Norms::Pre,
        (true, 2) => Norms::Parallel,
        (true, _) => Norms::Shared,
    };
    let ffn = fields.width_if("ffn_hidden_size")?.unwrap_or(4 * hidden);
    let block = Block { attention, norms, norm: NORM, ffn, mlp_bias: bias };
    Ok(text(block, sizes, draft, Vec::new(), tied(None, fields, true)?, false))
}

/// BERT with its masked-token head.
pub(super) fn bert(fields: &Fields, draft: &mut Draft, notes: &mut Vec<String>) -> Result<Text, ModelError> {
    let sizes = Sizes::read(fields, None)?;
    let hidden = sizes.hidden;
    let heads = fields.heads("num_attention_heads")?;
    let dim = head_dim(fields, "num_attention_heads", heads, hidden, "hidden_size")?;
    let plain = Gqa::plain(hidden, heads, heads, dim);
    let attention = Gqa { qkv_bias: true, o_bias: true, rotary: false, span: Span::Bidirectional, ..plain };
    let block =
        Block { attention, norms: Norms::Post, norm: NORM, ffn: fields.width("intermediate_size")?, mlp_bias: true };
    let rows = sizes.max_positions.unwrap_or(512);
    let kinds = fields.width_if("type_vocab_size")?.unwrap_or(2);
    let embedding = vec![
        positions(rows, hidden),
        weights("type_embedding", kinds * hidden, Shard::Replicated),
        NORM.op("embedding_norm", hidden),
    ];
    let mut out = text(block, sizes, draft, embedding, tied(None, fields, true)?, true);
    out.head.ops = vec![
        linear("transform", hidden, hidden, true, column(hidden)),
        elementwise("activation", hidden, 1, Shard::Replicated),
        NORM.op("final_norm", hidden),
    ];
    notes.push("the head is the one of masked-token prediction; pooler and next-sentence head are not counted".into());
    Ok(out)
}
