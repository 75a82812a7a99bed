//! The tower of Llama-4: a class token, learned positions, pixel shuffle, an adapter of two products.
//!
//! Configs may leave the whole section out; sizes are then those of the class (transformers 5.24).

use super::{VisionLayer, patch_values, patches, square};
use crate::model::draft::Draft;
use crate::model::fields::Fields;
use crate::model::ops::{NormKind, linear, weights};
use crate::model::{ModelError, Shard, Span, Stream, Tower};

/// Llama-4.
pub(in super::super) fn llama4(fields: &Fields, text: u64, draft: &mut Draft) -> Result<Tower, ModelError> {
    let hidden = fields.width_if("hidden_size")?.unwrap_or(768);
    let layers = fields.layers_if("num_hidden_layers")?.unwrap_or(34);
    let ffn = fields.width_if("intermediate_size")?.unwrap_or(5632);
    let channels = fields.heads_if("num_channels")?.unwrap_or(3);
    let patch = square(fields, "patch_size", 14)?;
    let count = patches(fields, square(fields, "image_size", 448)?, patch)?;
    let values = patch_values(fields, channels, patch, 1)?;
    let ratio = fields.real("pixel_shuffle_ratio")?.unwrap_or(0.5);
    let gathered = 1.0 / (ratio * ratio);
    if !(1.0..=4096.0).contains(&gathered) {
        let details = fields.at("pixel_shuffle_ratio").found(ratio.to_string());
        return Err(ModelError::OutOfRange(details.expected("a ratio above 0 and up to 1, such as 0.5")));
    }
    let inner = fields.width_if("projector_input_dim")?.unwrap_or(4096);
    let outer = fields.width_if("projector_output_dim")?.unwrap_or(4096);
    let out = fields.width_if("vision_output_dim")?.unwrap_or(7680);
    let norm = NormKind::ScaleAndBias;
    let layer = VisionLayer {
        hidden,
        heads: fields.heads_if("num_attention_heads")?.unwrap_or(16),
        ffn,
        norm,
        gated: false,
        attention_bias: true,
        mlp_bias: true,
        rotary: true,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_attention_heads", draft)?;
    let all = Shard::Replicated;
    let bias = fields.flag("multi_modal_projector_bias", false)?;
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![
            linear("patch_embedding", values, hidden, false, all),
            weights("class_embedding", hidden, all),
            weights("position_embedding", (count + 1) * hidden, all),
            norm.op("pre_norm", hidden),
        ],
        layers: vec![class; layers as usize],
        exit: vec![
            norm.op("post_norm", hidden),
            linear("adapter_up", ffn, inner, false, all),
            linear("adapter_down", outer, outer, false, all),
            linear("projector", out, text, bias, all),
        ],
        exit_ratio: gathered.round() as u64,
    })
}
