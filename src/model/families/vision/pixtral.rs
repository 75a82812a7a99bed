//! The tower of Mistral-3 (Pixtral): RMS norms, gated MLPs, no biases; patches merged two by two.

use super::{VisionLayer, patch_values, square};
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, linear};
use crate::model::{ModelError, Shard, Span, Stream, Tower};

/// Mistral-3. `outer` states the projector.
pub(in super::super) fn mistral3(
    outer: &Fields,
    fields: &Fields,
    text: u64,
    draft: &mut Draft,
) -> Result<Tower, ModelError> {
    let hidden = fields.width("hidden_size")?;
    let channels = fields.heads_if("num_channels")?.unwrap_or(3);
    let values = patch_values(fields, channels, square(fields, "patch_size", 16)?, 1)?;
    let norm = NormKind::Scale;
    let heads = fields.heads("num_attention_heads")?;
    if let Some(dim) = fields.heads_if("head_dim")? {
        fields.divides("head_dim", dim, hidden, "hidden_size")?;
    }
    let layer = VisionLayer {
        hidden,
        heads,
        ffn: fields.width("intermediate_size")?,
        norm,
        gated: true,
        attention_bias: false,
        mlp_bias: false,
        rotary: true,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_attention_heads", draft)?;
    let merge = outer.optional_in("spatial_merge_size", 1, 64)?.unwrap_or(2);
    if outer.is_list("vision_feature_layer") {
        let details = outer.at("vision_feature_layer").found("a list").expected("one layer");
        return Err(ModelError::Unsupported(details));
    }
    let bias = outer.flag("multimodal_projector_bias", false)?;
    let (all, gathered) = (Shard::Replicated, merge * merge);
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![linear("patch_embedding", values, hidden, false, all), norm.op("pre_norm", hidden)],
        layers: vec![class; fields.layers("num_hidden_layers")? as usize],
        exit: vec![
            norm.op("projector_norm", hidden),
            linear("patch_merger", gathered * hidden, hidden, false, all),
            linear("projector_up", hidden, text, bias, all),
            linear("projector_down", text, text, bias, all),
        ],
        exit_ratio: gathered,
    })
}
