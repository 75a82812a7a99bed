//! A decoder-only text model: token embedding, layers, final norm, head, multi-token-prediction modules.

use super::feed::{self, Branch};
use super::gqa::{self, Gqa};
use super::rules::{Block, Rules};
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, branch, column, linear, weights};
use crate::model::{ClassId, Embedding, Head, ModelError, Mtp, Op, Shard, Span, Stream, Sublayer, SublayerKind, Tower};

/// The text part of a model.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) tower: Tower,
    pub(super) embedding: Embedding,
    pub(super) head: Head,
    pub(super) mtp: Vec<Mtp>,
    pub(super) max_positions: Option<u64>,
}

/// Sizes that every decoder states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) vocab: u64,
    pub(super) max_positions: Option<u64>,
}

impl Sizes {
    /// From the usual keys.
    pub(super) fn read(fields: &Fields, vocab: Option<u64>) -> Result<Sizes, ModelError> {
        Ok(Sizes {
            hidden: fields.width("hidden_size")?,
            layers: fields.layers("num_hidden_layers")?,
            vocab: match (fields.width_if("vocab_size")?, vocab) {
                (Some(n), _) | (None, Some(n)) => n,
                (None, None) => return Err(fields.missing("vocab_size", "the number of tokens in the vocabulary")),
            },
            max_positions: fields.length_if("max_position_embeddings")?,
        })
    }
}

/// Whether embedding and head share weights: the outer config says it, else the text's, else the family.
pub(super) fn tied(outer: Option<&Fields>, text: &Fields, default: bool) -> Result<bool, ModelError> {
    const KEY: &str = "tie_word_embeddings";
    let own = if text.has(KEY) { Some(text.flag(KEY, default)?) } else { None };
    match outer {
        Some(outer) if outer.has(KEY) => outer.flag(KEY, default),
        _ => Ok(own.unwrap_or(default)),
    }
}

/// Middle part of a class's name.
pub(super) fn span_label(span: Span) -> &'static str {
    match span {
        Span::Causal | Span::Bidirectional | Span::Encoder => "full",
        Span::Sliding { .. } => "sliding",
        Span::Chunked { .. } => "chunked",
        Span::Blocks { .. } => "windowed",
        Span::Selected { .. } => "selected",
        Span::Compressed { .. } => "compressed",
    }
}

/// The two branches of a block with the family's norms around them.
pub(super) fn block(
    rule: Block,
    norm: NormKind,
    hidden: u64,
    attention: Vec<Op>,
    kind: SublayerKind,
    feed: Vec<Op>,
) -> Vec<Sublayer> {
    let pre = |name| Some(norm.op(name, hidden));
    let (a0, a1, f0, f1) = match rule {
        Block::Pre => (pre("input_norm"), None, pre("post_attention_norm"), None),
        Block::Post => (None, pre("post_attention_norm"), None, pre("post_feedforward_norm")),
        Block::Sandwich => {
            (pre("input_norm"), pre("post_attention_norm"), pre("pre_feedforward_norm"), pre("post_feedforward_norm"))
        }
        Block::Shared => (pre("input_norm"), None, None, None),
    };
    vec![branch(SublayerKind::Attention, hidden, a0, attention, a1), branch(kind, hidden, f0, feed, f1)]
}

/// A text decoder by a family's rules. `outer` is the config around `fields`, if any.
pub(super) fn decoder(
    outer: Option<&Fields>,
    fields: &Fields,
    rules: &Rules,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Text, ModelError> {
    let default = |key| rules.defaults.iter().find(|(k, _)| *k == key).map(|&(_, n)| n);
    let sizes = Sizes::read(fields, default("vocab_size"))?;
    let attention = gqa::of_layers(fields, sizes.hidden, sizes.layers, rules)?;
    let gated = rules.gated;
    let feed = feed::of_layers(fields, sizes.hidden, sizes.layers, rules.feed, gated, rules.mlp_bias.of(fields)?)?;
    for (key, value) in rules.defaults {
        if !fields.has(key) {
            notes.push(format!(
                "`{}` is absent: {value}, the default of the family's class, is taken",
                fields.name(key)
            ));
        }
    }
    let layer = |attention: &Gqa, feed: &Branch, draft: &mut Draft| -> ClassId {
        let name = format!("decoder.{}.{}", span_label(attention.span), feed.label());
        let parts = block(rules.block, rules.norm, sizes.hidden, attention.ops(), feed.kind(), feed.ops());
        draft.layer(&name, Stream::Text, sizes.hidden, 1, parts)
    };
    let layers: Vec<ClassId> = attention.iter().zip(&feed).map(|(a, f)| layer(a, f, draft)).collect();
    let mtp = mtp_modules(fields, sizes, notes, || layers.last().copied())?;
    let tied = tied(outer, fields, rules.tied)?;
    Ok(Text {
        tower: Tower { stream: Stream::Text, stem: Vec::new(), layers, exit: Vec::new(), exit_ratio: 1 },
        embedding: Embedding { vocab: sizes.vocab, hidden: sizes.hidden, ops: Vec::new() },
        head: Head {
            vocab: sizes.vocab,
            hidden: sizes.hidden,
            tied,
            bias: rules.head_bias.of(fields)?,
            ops: vec![rules.norm.op("final_norm", sizes.hidden)],
        },
        mtp,
        max_positions: sizes.max_positions,
    })
}

/// Multi-token-prediction modules under any of their names. Each is a layer of `class` behind two norms and a
/// projection `2h -> h`, and ends in a norm of its own (DeepSeek-V3 report, section 2.2, figure 3).
pub(super) fn mtp_modules(
    fields: &Fields,
    sizes: Sizes,
    notes: &mut Vec<String>,
    class: impl FnOnce() -> Option<ClassId>,
) -> Result<Vec<Mtp>, ModelError> {
    let mut modules = fields.alias(&MTP_KEYS, 0, MAX_MTP)?.unwrap_or(0);
    let each = fields.optional_in("mtp_transformer_layers", 1, MAX_MTP)?.unwrap_or(1);
    let stated = fields.optional_in("num_mtp_modules", 0, MAX_MTP)?;
    if fields.flag("use_mtp", false)? {
        modules = stated.unwrap_or(1) * each;
    }
    let dedicated = fields.flag("mtp_use_dedicated_embeddings", false)?;
    let Some(class) = (if modules > 0 { class() } else { None }) else { return Ok(Vec::new()) };
    let mut ops = mtp_ops(NormKind::Scale, sizes.hidden);
    if dedicated {
        ops.push(weights("embedding", sizes.vocab * sizes.hidden, column(sizes.vocab)));
    }
    notes.push(format!("{modules} multi-token-prediction module(s) are kept apart and not part of the total"));
    Ok(vec![Mtp { class, ops }; modules as usize])
}

/// Names for the number of multi-token-prediction modules: DeepSeek and GLM, transformers 5, Qwen.
const MTP_KEYS: [&str; 3] = ["num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"];
/// Most modules that are taken for a model and not for a mistake.
const MAX_MTP: u64 = 64;

/// Norms and projection of a multi-token-prediction module.
pub(super) fn mtp_ops(norm: NormKind, hidden: u64) -> Vec<Op> {
    vec![
        norm.op("embedding_norm", hidden),
        norm.op("hidden_norm", hidden),
        linear("projection", 2 * hidden, hidden, false, Shard::Replicated),
        norm.op("final_norm", hidden),
    ]
}
