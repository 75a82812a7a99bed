//! Encoder-decoders of the T5 kind: RMS norms, relative position biases, cross attention, MLPs plain (T5) or gated
//! (T5-v1.1, mT5).

use super::gqa::Gqa;
use super::text::tied;
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, branch, column, mlp, weights};
use crate::model::{ClassId, Embedding, Head, ModelError, Op, Span, Stream, Sublayer, SublayerKind, Tower};

const NORM: NormKind = NormKind::Scale;

/// Where the relative position biases are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    /// One table per tower, used by all its layers (T5, mT5).
    Tower,
    /// One table per layer (umT5).
    Layer,
}

/// Encoder, decoder and what they share.
#[derive(Debug)]
pub(super) struct EncoderDecoder {
    pub(super) towers: [Tower; 2],
    pub(super) embedding: Embedding,
    pub(super) head: Head,
}

/// `feed_forward_proj` is an activation, or `gated-` and an activation.
fn is_gated(fields: &Fields, default: &str) -> Result<bool, ModelError> {
    let stated = fields.text("feed_forward_proj")?.unwrap_or(default);
    let parts: Vec<&str> = stated.split('-').collect();
    match parts.as_slice() {
        ["gated", activation] if !activation.is_empty() => Ok(true),
        [activation] if !activation.is_empty() && *activation != "gated" => Ok(false),
        _ => Err(ModelError::Unsupported(
            fields
                .at("feed_forward_proj")
                .found(format!("the text \"{stated}\""))
                .expected("an activation such as \"relu\", or \"gated-\" and an activation such as \"gated-gelu\""),
        )),
    }
}

/// T5, mT5, umT5.
pub(super) fn model(
    fields: &Fields,
    biases: Bias,
    feed_default: &str,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<EncoderDecoder, ModelError> {
    let hidden = fields.width("d_model")?;
    let heads = fields.heads("num_heads")?;
    let dim = fields.heads("d_kv")?;
    let ffn = fields.width("d_ff")?;
    let encoders = fields.layers("num_layers")?;
    let decoders = fields.layers_if("num_decoder_layers")?.unwrap_or(encoders);
    let vocab = fields.width("vocab_size")?;
    let buckets = fields.heads_if("relative_attention_num_buckets")?.unwrap_or(32);
    fields.only("is_encoder_decoder", true)?;
    let gated = is_gated(fields, feed_default)?;
    let is_tied = tied(None, fields, true)?;
    if !is_tied {
        notes.push(
            "`tie_word_embeddings` is false: the head has weights of its own, as in the published T5-v1.1 weights; \
             the class of transformers 5 ties them whatever the config says and counts fewer"
                .into(),
        );
    }
    let table = weights("relative_bias", buckets * heads, column(heads));
    let attention = |span: Span| {
        let shape = Gqa { rotary: false, span, ..Gqa::plain(hidden, heads, heads, dim) };
        let mut ops = shape.ops();
        if biases == Bias::Layer && span != Span::Encoder {
            ops.insert(0, table.clone());
        }
        let kind = if span == Span::Encoder { SublayerKind::CrossAttention } else { SublayerKind::Attention };
        let name = if span == Span::Encoder { "cross_attention_norm" } else { "input_norm" };
        branch(kind, hidden, Some(NORM.op(name, hidden)), ops, None)
    };
    let feed = || -> Sublayer {
        let norm = NORM.op("post_attention_norm", hidden);
        branch(SublayerKind::Mlp, hidden, Some(norm), mlp(hidden, ffn, gated, false), None)
    };
    let encoder = vec![attention(Span::Bidirectional), feed()];
    let decoder = vec![attention(Span::Causal), attention(Span::Encoder), feed()];
    let encoder = draft.layer("encoder.full.dense", Stream::Encoder, hidden, 1, encoder);
    let decoder = draft.layer("decoder.full.dense", Stream::Text, hidden, 1, decoder);
    let stem: Vec<Op> = if biases == Bias::Tower { vec![table] } else { Vec::new() };
    let tower = |stream, class: ClassId, layers: u64, exit: Vec<Op>| Tower {
        stream,
        stem: stem.clone(),
        layers: vec![class; layers as usize],
        exit,
        exit_ratio: 1,
    };
    Ok(EncoderDecoder {
        towers: [
            tower(Stream::Encoder, encoder, encoders, vec![NORM.op("final_norm", hidden)]),
            tower(Stream::Text, decoder, decoders, Vec::new()),
        ],
        embedding: Embedding { vocab, hidden, ops: Vec::new() },
        head: Head { vocab, hidden, tied: is_tied, bias: false, ops: vec![NORM.op("final_norm", hidden)] },
    })
}
