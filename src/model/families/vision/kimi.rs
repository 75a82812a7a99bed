//! The tower of Kimi-K2.5 (MoonViT): learned positions, full attention, a projector over merged patches.
//!
//! The hub's file and the class of transformers 5.24 name the same sizes differently; both are read, and the class's
//! sizes stand in where neither is given.

use super::{VisionLayer, patch_values, square};
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_HEADS, MAX_LAYERS, MAX_WIDTH};
use crate::model::ops::{NormKind, linear, weights};
use crate::model::{ModelError, Shard, Span, Stream, Tower};

/// Kimi-K2.5. `outer` states the projector's width.
pub(in super::super) fn kimi(
    outer: &Fields,
    fields: &Fields,
    text: u64,
    draft: &mut Draft,
) -> Result<Tower, ModelError> {
    let hidden = fields.alias(&["hidden_size", "vt_hidden_size"], 1, MAX_WIDTH)?.unwrap_or(1152);
    let layers = fields.alias(&["num_hidden_layers", "vt_num_hidden_layers"], 1, MAX_LAYERS)?.unwrap_or(27);
    let heads = fields.alias(&["num_attention_heads", "vt_num_attention_heads"], 1, MAX_HEADS)?.unwrap_or(16);
    let ffn = fields.alias(&["intermediate_size", "vt_intermediate_size"], 1, MAX_WIDTH)?.unwrap_or(4304);
    let side = |keys: [&'static str; 2]| fields.alias(&keys, 1, MAX_HEADS);
    let rows = side(["pos_emb_height", "init_pos_emb_height"])?.unwrap_or(64);
    let columns = side(["pos_emb_width", "init_pos_emb_width"])?.unwrap_or(64);
    let values = patch_values(fields, 3, square(fields, "patch_size", 14)?, 1)?;
    let merge = fields.integers("merge_kernel_size", 64)?.unwrap_or_else(|| vec![2, 2]);
    let gathered: u64 = merge.iter().product();
    if merge.len() != 2 || gathered == 0 {
        let details = fields.at("merge_kernel_size").found(format!("{merge:?}")).expected("two positive numbers");
        return Err(ModelError::Unsupported(details));
    }
    let projected = outer.width_if("projection_hidden_size")?;
    let projected = projected.or(fields.width_if("mm_hidden_size")?).unwrap_or(1152);
    let norm = NormKind::ScaleAndBias;
    let layer = VisionLayer {
        hidden,
        heads,
        ffn,
        norm,
        gated: false,
        attention_bias: true,
        mlp_bias: true,
        rotary: true,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_attention_heads", draft)?;
    let (all, wide) = (Shard::Replicated, hidden * gathered);
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![
            linear("patch_embedding", values, hidden, true, all),
            weights("position_embedding", rows * columns * hidden, all),
        ],
        layers: vec![class; layers as usize],
        exit: vec![
            norm.op("final_norm", hidden),
            norm.op("projector_norm", projected),
            linear("projector_up", wide, wide, true, all),
            linear("projector_down", wide, text, true, all),
        ],
        exit_ratio: gathered,
    })
}
