//! Towers of Gemma-3 (SigLIP) and Gemma-4.

use super::{VisionLayer, patch_values, patches, square};
use crate::model::draft::Draft;
use crate::model::families::gqa::Gqa;
use crate::model::families::rules::QkNorm;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, branch, linear, mlp, norm, weights};
use crate::model::{ModelError, Shard, Span, Stream, SublayerKind, Tower};

/// Gemma-3: SigLIP, then patches pooled to `mm_tokens_per_image` and projected.
pub(in super::super) fn gemma3(
    outer: &Fields,
    fields: &Fields,
    text: u64,
    draft: &mut Draft,
) -> Result<Tower, ModelError> {
    let hidden = fields.width("hidden_size")?;
    let patch = square(fields, "patch_size", 16)?;
    let count = patches(fields, square(fields, "image_size", 224)?, patch)?;
    let channels = fields.heads_if("num_channels")?.unwrap_or(3);
    let values = patch_values(fields, channels, patch, 1)?;
    let pooled = fields.flag("vision_use_head", true)?;
    let kind = NormKind::ScaleAndBias;
    let layer = VisionLayer {
        hidden,
        heads: fields.heads("num_attention_heads")?,
        ffn: fields.width("intermediate_size")?,
        norm: kind,
        gated: false,
        attention_bias: true,
        mlp_bias: true,
        rotary: false,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_attention_heads", draft)?;
    let all = Shard::Replicated;
    let tokens = outer.length_if("mm_tokens_per_image")?.unwrap_or(256);
    outer.at_most("mm_tokens_per_image", tokens, count, "the patches of an image")?;
    let mut exit = vec![kind.op("post_norm", hidden)];
    if pooled {
        // SigLIP's pooling head: weights that stand in the class although the projector reads the patches.
        let attention = 4 * (hidden * hidden + hidden);
        let feed = 2 * hidden * layer.ffn + hidden + layer.ffn;
        exit.push(weights("pooling_head", hidden + attention + 2 * hidden + feed, all));
    }
    exit.extend([norm("projector_norm", hidden, hidden), linear("projector", hidden, text, false, all)]);
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![
            linear("patch_embedding", values, hidden, true, all),
            weights("position_embedding", count * hidden, all),
        ],
        layers: vec![class; fields.layers("num_hidden_layers")? as usize],
        exit,
        exit_ratio: count / tokens,
    })
}

/// Gemma-4: gated MLPs, norms around both branches and on queries and keys, two tables of positions.
pub(in super::super) fn gemma4(fields: &Fields, text: u64, draft: &mut Draft) -> Result<Tower, ModelError> {
    let hidden = fields.width("hidden_size")?;
    let patch = square(fields, "patch_size", 16)?;
    let values = patch_values(fields, 3, patch, 1)?;
    let heads = fields.heads("num_attention_heads")?;
    let kv_heads = fields.heads_if("num_key_value_heads")?.unwrap_or(heads);
    fields.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let dim = fields.heads("head_dim")?;
    let _ = fields.heads_if("global_head_dim")?;
    // Known to the config and without effect on the class's weights.
    let _ = (fields.flag("attention_bias", false)?, fields.flag("use_clipped_linears", false)?);
    let _ = fields.length_if("max_position_embeddings")?;
    let plain = Gqa::plain(hidden, heads, kv_heads, dim);
    let attention = Gqa { qk_norm: QkNorm::Head, span: Span::Bidirectional, ..plain };
    let around = |name| Some(NormKind::Scale.op(name, hidden));
    let feed = mlp(hidden, fields.width("intermediate_size")?, true, false);
    let parts = vec![
        branch(SublayerKind::Attention, hidden, around("input_norm"), attention.ops(), around("post_attention_norm")),
        branch(SublayerKind::Mlp, hidden, around("pre_feedforward_norm"), feed, around("post_feedforward_norm")),
    ];
    let class = draft.layer("vision.full.dense", Stream::Vision, hidden, 1, parts);
    let positions = fields.width_if("position_embedding_size")?.unwrap_or(10_240);
    let pool = fields.optional_in("pooling_kernel_size", 1, 64)?.unwrap_or(3);
    let all = Shard::Replicated;
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![
            linear("patch_embedding", values, hidden, false, all),
            weights("position_embedding", 2 * positions * hidden, all),
        ],
        layers: vec![class; fields.layers("num_hidden_layers")? as usize],
        exit: vec![norm("projector_norm", hidden, 0), linear("projector", hidden, text, false, all)],
        exit_ratio: pool * pool,
    })
}
