//! Towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL (also of Qwen3.5): patches of two frames, merged two by two.

use super::{VisionLayer, meets_text, patch_values, square};
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_LAYERS, MAX_WIDTH};
use crate::model::ops::{NormKind, column, linear, row, weights};
use crate::model::{ClassId, ModelError, Op, OpKind, Shard, Span, Stream, Tower};

/// Keys that the three share. Defaults are those of the classes of transformers 5.24.
struct Common {
    depth: u64,
    heads: u64,
    patch: u64,
    values: u64,
    merge: u64,
}

impl Common {
    fn read(fields: &Fields, patch: u64) -> Result<Common, ModelError> {
        let channels = fields.alias(&["in_channels", "in_chans"], 1, MAX_WIDTH)?.unwrap_or(3);
        let patch = square(fields, "patch_size", patch)?;
        let frames = square(fields, "temporal_patch_size", 2)?;
        let merge = fields.optional_in("spatial_merge_size", 1, 64)?.unwrap_or(2);
        let values = patch_values(fields, channels, patch, frames)?;
        Ok(Common { depth: fields.layers("depth")?, heads: fields.heads("num_heads")?, patch, values, merge })
    }
    fn gathered(&self) -> u64 {
        self.merge * self.merge
    }
    fn patch_embedding(&self, hidden: u64, bias: bool) -> Op {
        linear("patch_embedding", self.values, hidden, bias, Shard::Replicated)
    }
}

/// Norm and two products from `gathered` neighbouring patches to one token of the text.
fn merger(norm: Op, gathered: u64, hidden: u64, out: u64) -> [Op; 3] {
    let wide = gathered * hidden;
    [norm, linear("merger_up", wide, wide, true, column(wide)), linear("merger_down", wide, out, true, row(wide))]
}

/// A norm over each of `gathered` patches.
fn norm_each(kind: NormKind, hidden: u64, gathered: u64) -> Op {
    let kind = OpKind::Norm {
        width: hidden,
        instances: gathered,
        parameters: kind.parameters(hidden),
        shard: Shard::Replicated,
    };
    Op { name: "merger_norm", kind }
}

/// Qwen2-VL.
pub(in super::super) fn qwen2(fields: &Fields, text: u64, draft: &mut Draft) -> Result<Tower, ModelError> {
    let common = Common::read(fields, 14)?;
    let hidden = fields.width("embed_dim")?;
    let out = fields.width_if("hidden_size")?.unwrap_or(text);
    meets_text(fields, "hidden_size", out, text)?;
    let ratio = fields.real("mlp_ratio")?.unwrap_or(4.0);
    let ffn = hidden as f64 * ratio;
    if !(ffn >= 1.0 && ffn <= MAX_WIDTH as f64) {
        let details = fields.at("mlp_ratio").found(ratio.to_string());
        return Err(ModelError::OutOfRange(
            details.expected(format!("a ratio that gives a width from 1 to {MAX_WIDTH}")),
        ));
    }
    let layer = VisionLayer {
        hidden,
        heads: common.heads,
        ffn: ffn as u64,
        norm: NormKind::ScaleAndBias,
        gated: false,
        attention_bias: true,
        mlp_bias: true,
        rotary: true,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_heads", draft)?;
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![common.patch_embedding(hidden, false)],
        layers: vec![class; common.depth as usize],
        exit: merger(norm_each(NormKind::ScaleAndBias, hidden, common.gathered()), common.gathered(), hidden, out)
            .to_vec(),
        exit_ratio: common.gathered(),
    })
}

/// Qwen2.5-VL: attention inside windows but in the layers of `fullatt_block_indexes`.
pub(in super::super) fn qwen2_5(fields: &Fields, text: u64, draft: &mut Draft) -> Result<Tower, ModelError> {
    let common = Common::read(fields, 14)?;
    let hidden = fields.width("hidden_size")?;
    let out = fields.width_if("out_hidden_size")?.unwrap_or(text);
    meets_text(fields, "out_hidden_size", out, text)?;
    let window = fields.length_if("window_size")?.unwrap_or(112);
    fields.at_most("patch_size", common.patch, window, "window_size")?;
    let side = window / common.patch;
    let full = fields.integers("fullatt_block_indexes", MAX_LAYERS)?.unwrap_or_else(|| vec![7, 15, 23, 31]);
    let layer = VisionLayer {
        hidden,
        heads: common.heads,
        ffn: fields.width("intermediate_size")?,
        norm: NormKind::Scale,
        gated: true,
        attention_bias: true,
        mlp_bias: true,
        rotary: true,
        span: Span::Bidirectional,
    };
    let windowed = VisionLayer { span: Span::Blocks { block: side.saturating_mul(side) }, ..layer };
    let layers = (0..common.depth)
        .map(|i| if full.contains(&i) { layer } else { windowed }.class(fields, "num_heads", draft))
        .collect::<Result<Vec<ClassId>, _>>()?;
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![common.patch_embedding(hidden, false)],
        layers,
        exit: merger(norm_each(NormKind::Scale, hidden, common.gathered()), common.gathered(), hidden, out).to_vec(),
        exit_ratio: common.gathered(),
    })
}

/// Qwen3-VL and Qwen3.5: learned positions, and mergers for the states of the `deepstack_visual_indexes`.
pub(in super::super) fn qwen3(fields: &Fields, text: u64, draft: &mut Draft) -> Result<Tower, ModelError> {
    let common = Common::read(fields, 16)?;
    let hidden = fields.width("hidden_size")?;
    let out = fields.width_if("out_hidden_size")?.unwrap_or(text);
    meets_text(fields, "out_hidden_size", out, text)?;
    let positions = fields.width("num_position_embeddings")?;
    let deep = fields.integers("deepstack_visual_indexes", MAX_LAYERS)?.unwrap_or_default();
    if let Some(i) = deep.iter().find(|&&i| i >= common.depth) {
        let details = fields.at("deepstack_visual_indexes").found(format!("layer {i}"));
        return Err(ModelError::Contradictory(details.expected(format!("layers 0 to {}", common.depth - 1))));
    }
    let norm = NormKind::ScaleAndBias;
    let layer = VisionLayer {
        hidden,
        heads: common.heads,
        ffn: fields.width("intermediate_size")?,
        norm,
        gated: false,
        attention_bias: true,
        mlp_bias: true,
        rotary: true,
        span: Span::Bidirectional,
    };
    let class = layer.class(fields, "num_heads", draft)?;
    let gathered = common.gathered();
    let mut exit = merger(norm_each(norm, hidden, gathered), gathered, hidden, out).to_vec();
    for _ in &deep {
        exit.extend(merger(norm.op("merger_norm", gathered * hidden), gathered, hidden, out));
    }
    Ok(Tower {
        stream: Stream::Vision,
        stem: vec![
            common.patch_embedding(hidden, true),
            weights("position_embedding", positions * hidden, Shard::Replicated),
        ],
        layers: vec![class; common.depth as usize],
        exit,
        exit_ratio: gathered,
    })
}
