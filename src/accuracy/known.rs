//! What tables leave to a model's name: gates, biases, norms, ties, latent attention, shared experts.
//!
//! Shapes of published models are those of their hub configs (read 2026-11); GPT-3 after Brown 2020 (table 2.1), MPT after
//! llm-foundry's `scripts/train/yamls/pretrain`, Nemotron-4 after arXiv 2402.16819 (section 2), Grok-1 after its released
//! `run.py`.

use super::left_out::LeftOut;
use super::shape::{Latent, Mixture, Shape};
use super::table::Row;
use crate::model::ops::NormKind;

/// How a family differs from a Llama.
#[derive(Debug, Clone, Copy)]
struct Family {
    /// What its names contain.
    names: &'static [&'static str],
    gated: bool,
    bias: bool,
    norm: NormKind,
    tied: bool,
    /// Learned positions in place of rotary embedding.
    learned: bool,
    qk_norm: bool,
    head_dim: Option<u64>,
    latent: Option<Latent>,
    /// Inner width of all shared experts, in widths of a routed one.
    shared: u64,
    /// First layers without experts.
    dense: u64,
    window: Option<u64>,
    mtp: u64,
    /// Clamps in front of the experts' activation.
    clamped: bool,
    /// Rotary embedding with an attention factor.
    scaled_rotary: bool,
}

const LLAMA: Family = Family {
    names: &["llama", "mixtral", "mistral", "grok"],
    gated: true,
    bias: false,
    norm: NormKind::Scale,
    tied: false,
    learned: false,
    qk_norm: false,
    head_dim: None,
    latent: None,
    shared: 0,
    dense: 0,
    window: None,
    mtp: 0,
    clamped: false,
    scaled_rotary: false,
};
const GPT: Family = Family {
    names: &["gpt", "bloom", "opt-"],
    gated: false,
    bias: true,
    norm: NormKind::ScaleAndBias,
    tied: true,
    learned: true,
    ..LLAMA
};
const MLA: Latent = Latent { q: Some(1536), kv: 512, nope: 128, rope: 64, v: 128 };

/// Looked through in order.
static FAMILIES: &[Family] = &[
    Family {
        names: &["gpt oss", "gpt-oss", "gpt_oss"],
        bias: true,
        head_dim: Some(64),
        window: Some(128),
        clamped: true,
        scaled_rotary: true,
        ..LLAMA
    },
    Family { names: &["qwen3"], qk_norm: true, head_dim: Some(128), ..LLAMA },
    Family { names: &["deepseekv2", "deepseek-v2"], latent: Some(MLA), shared: 2, dense: 1, ..LLAMA },
    Family { names: &["deepseek"], latent: Some(MLA), shared: 1, dense: 3, mtp: 1, ..LLAMA },
    Family { names: &["kimi"], latent: Some(MLA), shared: 1, dense: 1, ..LLAMA },
    Family { names: &["moonlight"], latent: Some(Latent { q: None, ..MLA }), shared: 2, dense: 1, ..LLAMA },
    Family { names: &["mpt"], norm: NormKind::Scale, bias: false, ..GPT },
    Family { names: &["nemotron4"], gated: false, norm: NormKind::ScaleAndBias, ..LLAMA },
    LLAMA,
    GPT,
];

fn family(name: &str) -> Option<&'static Family> {
    let name = name.to_lowercase();
    FAMILIES.iter().find(|f| f.names.iter().any(|n| name.contains(n)))
}

/// The shape that a row describes, completed from what is published of the model it names.
///
/// # Errors
/// Says what is unknown.
pub fn shape(row: &Row) -> Result<Shape, LeftOut> {
    let name = row.or_blank("model_name");
    let lower = name.to_lowercase();
    if ["nano", "super", "hybrid", "mamba", "lora", "t5", "bert", "llava"].iter().any(|other| lower.contains(other)) {
        return Err(LeftOut::Architecture);
    }
    let f = family(name).ok_or(LeftOut::Architecture)?;
    let need = |column: &'static str| row.count(column).ok_or(LeftOut::Unknown(column));
    let (layers, hidden, heads) = (need("layers")?, need("hidden")?, need("heads")?);
    let kv_heads = row.count("kv_heads").unwrap_or(heads);
    let ffn = need("ffn")?;
    let vocab = need("vocab")?;
    let source = row.or_blank("arch_source").to_lowercase();
    let notes = format!("{} {source}", row.or_blank("other_flags").to_lowercase());
    let tied = if notes.contains("untied") || notes.contains("untie") {
        false
    } else if notes.contains("tied emb") || notes.contains("tied_emb") {
        true
    } else {
        f.tied
    };
    let mixture = match row.count("moe_experts").filter(|n| *n > 1) {
        None => None,
        Some(experts) => {
            let top_k = need("moe_topk")?;
            let width = row.count("moe_ffn").unwrap_or(ffn);
            // Cut models keep one leading dense layer.
            let dense = if lower.contains("cut") { f.dense.min(1) } else { f.dense };
            let layers = (0..layers).map(|i| i >= dense).collect();
            Some(Mixture { experts, top_k, ffn: width, shared: f.shared * width, clamped: f.clamped, layers })
        }
    };
    let head_dim = match f.head_dim {
        Some(d) => d,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(LeftOut::Inconsistent("hidden is no multiple of heads")),
    };
    let without_mtp = lower.contains("cut") || row.or_blank("notes").contains("w/o MTP");
    Ok(Shape {
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        latent: f.latent,
        qk_norm: f.qk_norm,
        ffn,
        gated: f.gated,
        bias: f.bias,
        norm: f.norm,
        mixture,
        window: f.window,
        vocab,
        tied,
        positions: if f.learned { row.count("seq_len") } else { None },
        rotary: !f.learned,
        scaled_rotary: f.scaled_rotary,
        mtp: if without_mtp { 0 } else { f.mtp },
        bidirectional: false,
    })
}
