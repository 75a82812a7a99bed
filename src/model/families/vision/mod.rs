//! Vision towers: patch embedding, a bidirectional transformer over patches, a projector into the text's width.

mod gemma;
mod kimi;
mod llama4;
mod pixtral;
mod qwen;

pub(super) use gemma::{gemma3, gemma4};
pub(super) use kimi::kimi;
pub(super) use llama4::llama4;
pub(super) use pixtral::mistral3;
pub(super) use qwen::{qwen2, qwen2_5, qwen3};

use super::gqa::Gqa;
use crate::model::draft::Draft;
use crate::model::fields::{Fields, MAX_LENGTH, MAX_WIDTH};
use crate::model::ops::{NormKind, branch, mlp};
use crate::model::{ClassId, ModelError, Span, Stream, SublayerKind};

/// A layer of a vision transformer.
#[derive(Debug, Clone, Copy)]
struct VisionLayer {
    hidden: u64,
    heads: u64,
    ffn: u64,
    norm: NormKind,
    gated: bool,
    attention_bias: bool,
    mlp_bias: bool,
    rotary: bool,
    span: Span,
}

impl VisionLayer {
    fn class(&self, fields: &Fields, heads_key: &'static str, draft: &mut Draft) -> Result<ClassId, ModelError> {
        fields.divides(heads_key, self.heads, self.hidden, "the width of the tower")?;
        let attention = Gqa {
            qkv_bias: self.attention_bias,
            o_bias: self.attention_bias,
            rotary: self.rotary,
            span: self.span,
            ..Gqa::plain(self.hidden, self.heads, self.heads, self.hidden / self.heads)
        };
        let norm = |name| Some(self.norm.op(name, self.hidden));
        let feed = mlp(self.hidden, self.ffn, self.gated, self.mlp_bias);
        let parts = vec![
            branch(SublayerKind::Attention, self.hidden, norm("input_norm"), attention.ops(), None),
            branch(SublayerKind::Mlp, self.hidden, norm("post_attention_norm"), feed, None),
        ];
        let label = if matches!(self.span, Span::Blocks { .. }) { "windowed" } else { "full" };
        Ok(draft.layer(&format!("vision.{label}.dense"), Stream::Vision, self.hidden, 1, parts))
    }
}

/// A size that may be one number or a list of equal ones, as image and patch sizes are.
fn square(fields: &Fields, key: &'static str, default: u64) -> Result<u64, ModelError> {
    if !fields.is_list(key) {
        return Ok(fields.length_if(key)?.unwrap_or(default));
    }
    let list = fields.integers(key, MAX_LENGTH)?.unwrap_or_default();
    match list.as_slice() {
        [n, rest @ ..] if *n > 0 && rest.iter().all(|m| m == n) => Ok(*n),
        _ => Err(ModelError::Unsupported(fields.at(key).found(format!("{list:?}")).expected("equal sides"))),
    }
}

/// Patches of a square image, classes and the like not counted.
fn patches(fields: &Fields, image: u64, patch: u64) -> Result<u64, ModelError> {
    fields.at_most("patch_size", patch, image, "image_size")?;
    let side = image / patch;
    let count = side.saturating_mul(side);
    if count <= MAX_WIDTH {
        return Ok(count);
    }
    Err(ModelError::OutOfRange(
        fields.at("image_size").found(image.to_string()).expected(format!("at most {MAX_WIDTH} patches")),
    ))
}

/// Values of one patch: channels times pixels, bounded.
fn patch_values(fields: &Fields, channels: u64, patch: u64, frames: u64) -> Result<u64, ModelError> {
    let values = channels.saturating_mul(patch.saturating_mul(patch)).saturating_mul(frames);
    if values <= MAX_WIDTH {
        return Ok(values);
    }
    Err(ModelError::OutOfRange(
        fields.at("patch_size").found(patch.to_string()).expected(format!("patches of at most {MAX_WIDTH} values")),
    ))
}

/// Checks that the projector ends in the text's width.
fn meets_text(fields: &Fields, key: &'static str, width: u64, text: u64) -> Result<(), ModelError> {
    if width == text {
        return Ok(());
    }
    Err(ModelError::Contradictory(
        fields.at(key).found(width.to_string()).expected(format!("{text}, the width of the text part")),
    ))
}
