//! Families of models by `model_type`: each brings a config to the one form of layers and operators.

mod classic;
mod deepseek_v4;
mod feed;
mod gemma4;
mod gqa;
mod hybrid;
mod mla;
mod rules;
mod t5;
mod text;
mod vision;

use super::draft::Draft;
use super::error::ModelError;
use super::fields::Fields;
use super::{Embedding, Head, LayerClass, Mtp, Tower};
use rules::{Feed, Shared, Sparse};
use text::Text;

/// A model without its name.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) classes: Vec<LayerClass>,
    pub(super) towers: Vec<Tower>,
    pub(super) embedding: Embedding,
    pub(super) head: Head,
    pub(super) mtp: Vec<Mtp>,
    pub(super) max_positions: Option<u64>,
    pub(super) notes: Vec<String>,
}

/// Which tower stands beside the text.
#[derive(Debug, Clone, Copy)]
enum Vision {
    Qwen2,
    Qwen25,
    Qwen3,
    Llama4,
    Gemma3,
    Gemma4,
    Kimi,
    Mistral3,
}

/// Vision-language families: `model_type`, the text family unless `text_config` names another, the tower.
const VISION_LANGUAGE: &[(&str, &str, Vision)] = &[
    ("gemma3", "gemma3_text", Vision::Gemma3),
    ("gemma4", "gemma4_text", Vision::Gemma4),
    ("kimi_k25", "deepseek_v3", Vision::Kimi),
    ("llama4", "llama4_text", Vision::Llama4),
    ("mistral3", "mistral", Vision::Mistral3),
    ("qwen2_5_vl", "qwen2", Vision::Qwen25),
    ("qwen2_vl", "qwen2", Vision::Qwen2),
    ("qwen3_5", "qwen3_5_text", Vision::Qwen3),
    ("qwen3_5_moe", "qwen3_5_moe_text", Vision::Qwen3),
    ("qwen3_vl", "qwen3", Vision::Qwen3),
    ("qwen3_vl_moe", "qwen3_moe", Vision::Qwen3),
];

/// Text families that are not in [`rules::FAMILIES`].
const OTHERS: &[&str] = &[
    "bert",
    "bloom",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "falcon",
    "gemma4_text",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "gptj",
    "kimi_k2",
    "opt",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_next",
];

const ENCODER_DECODER: &[&str] = &["mt5", "t5", "umt5"];

/// Every `model_type` that can be imported, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let rules = rules::FAMILIES.iter().map(|(name, _)| *name);
    let vision = VISION_LANGUAGE.iter().map(|(name, ..)| *name);
    let mut all: Vec<_> =
        rules.chain(vision).chain(OTHERS.iter().copied()).chain(ENCODER_DECODER.iter().copied()).collect();
    all.sort_unstable();
    all
}

/// The text families inside vision-language configs go by names of their own.
fn text_family(name: &str) -> &str {
    match name {
        "qwen3_vl_text" => "qwen3",
        "qwen3_vl_moe_text" => "qwen3_moe",
        "qwen2_vl_text" | "qwen2_5_vl_text" => "qwen2",
        other => other,
    }
}

fn text(
    family: &str,
    outer: Option<&Fields>,
    fields: &Fields,
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Result<Option<Text>, ModelError> {
    let latent = |indexed, shared_indexers, dense| mla::Family { indexed, shared_indexers, dense };
    let qwen = |layers| Feed::Experts {
        layers,
        shared: Shared::Gated("shared_expert_intermediate_size"),
        width: "moe_intermediate_size",
        dense: "intermediate_size",
        bias: false,
    };
    if let Some(rules) = rules::of(family) {
        return text::decoder(outer, fields, rules, draft, notes).map(Some);
    }
    match family {
        "deepseek_v2" => mla::decoder(outer, fields, latent(false, false, 0), draft, notes),
        "deepseek_v3" | "kimi_k2" => mla::decoder(outer, fields, latent(false, false, 3), draft, notes),
        "glm4_moe_lite" => mla::decoder(outer, fields, latent(false, false, 1), draft, notes),
        "deepseek_v32" => mla::decoder(outer, fields, latent(true, false, 3), draft, notes),
        "glm_moe_dsa" => mla::decoder(outer, fields, latent(true, true, 3), draft, notes),
        "deepseek_v4" => deepseek_v4::decoder(outer, fields, draft, notes),
        "qwen3_next" => hybrid::decoder(outer, fields, qwen(Sparse::Steps), draft, notes),
        "qwen3_5_text" => hybrid::decoder(outer, fields, Feed::Dense, draft, notes),
        "qwen3_5_moe_text" => hybrid::decoder(outer, fields, qwen(Sparse::All), draft, notes),
        "gemma4_text" => gemma4::decoder(outer, fields, draft, notes),
        "bert" => classic::bert(fields, draft, notes),
        "bloom" => classic::bloom(fields, draft),
        "falcon" => classic::falcon(fields, draft),
        "gpt2" => classic::gpt2(fields, false, draft),
        "gpt_bigcode" => classic::gpt2(fields, true, draft),
        "gpt_neox" => classic::neox(fields, draft),
        "gptj" => classic::gptj(fields, draft),
        "opt" => classic::opt(fields, draft),
        _ => return Ok(None),
    }
    .map(Some)
}

fn vision(
    kind: Vision,
    outer: &Fields,
    hidden: u64,
    draft: &mut Draft,
    notes: &mut Vec<String>,
    family: &str,
) -> Result<Option<Tower>, ModelError> {
    let empty = serde_json::Map::new();
    let section = outer.section("vision_config")?;
    let fields = match (section, kind) {
        (Some(fields), _) => fields,
        (None, Vision::Gemma4) => {
            notes.push("`vision_config` is absent: the model has no vision tower".into());
            return Ok(None);
        }
        (None, Vision::Llama4) => {
            notes.push("`vision_config` is absent: the tower has the sizes that are the defaults of its class".into());
            outer.inside("vision_config", &empty)
        }
        (None, _) => {
            return Err(outer
                .missing("vision_config", "an object; to leave the tower out, treat the config as its text family"));
        }
    };
    let tower = match kind {
        Vision::Qwen2 => vision::qwen2(&fields, hidden, draft),
        Vision::Qwen25 => vision::qwen2_5(&fields, hidden, draft),
        Vision::Qwen3 => vision::qwen3(&fields, hidden, draft),
        Vision::Llama4 => vision::llama4(&fields, hidden, draft),
        Vision::Gemma3 => vision::gemma3(outer, &fields, hidden, draft),
        Vision::Gemma4 => vision::gemma4(&fields, hidden, draft),
        Vision::Kimi => vision::kimi(outer, &fields, hidden, draft),
        Vision::Mistral3 => vision::mistral3(outer, &fields, hidden, draft),
    }?;
    fields.finish(family, notes)?;
    Ok(Some(tower))
}

/// The model of a config by the rules of `family`; `None` if there is no such family.
pub(super) fn build(family: &str, top: &Fields) -> Result<Option<Parts>, ModelError> {
    let (mut draft, mut notes) = (Draft::default(), Vec::new());
    if ENCODER_DECODER.contains(&family) {
        let (bias, feed) = match family {
            "t5" => (t5::Bias::Tower, "relu"),
            "mt5" => (t5::Bias::Tower, "gated-gelu"),
            _ => (t5::Bias::Layer, "gated-gelu"),
        };
        let t5::EncoderDecoder { towers, embedding, head } = t5::model(top, bias, feed, &mut draft, &mut notes)?;
        top.finish(family, &mut notes)?;
        let (classes, towers) = (draft.into_classes(), towers.to_vec());
        return Ok(Some(Parts { classes, towers, embedding, head, mtp: Vec::new(), max_positions: None, notes }));
    }
    let both = VISION_LANGUAGE.iter().find(|(name, ..)| *name == family);
    // A text family may be asked for (or a config may keep its text part) inside a section of its own.
    let plain = both.is_none() && (top.has("hidden_size") || top.has("n_embd"));
    let section = if plain { None } else { top.section("text_config")? };
    let (outer, fields) = match &section {
        Some(section) => (Some(top), section),
        None => (both.map(|_| top), top),
    };
    let stated = both.and_then(|_| section.as_ref()?.text("model_type").ok().flatten()).map(text_family);
    let text_name = match (both, stated) {
        (Some((_, default, _)), stated) => stated.filter(|name| *name != family).unwrap_or(default),
        (None, _) => family,
    };
    // The text part of Llama-4 is a whole model of its own and ties by its own word only.
    let outer = outer.filter(|_| !matches!(both, Some((_, _, Vision::Llama4))));
    let Some(text) = text(text_name, outer, fields, &mut draft, &mut notes)? else {
        return match both {
            None => Ok(None),
            Some((_, default, _)) => Err(ModelError::Unsupported(
                fields
                    .at("model_type")
                    .found(format!("\"{text_name}\""))
                    .expected(format!("a text family such as `{default}`")),
            )),
        };
    };
    let mut towers = Vec::new();
    if let Some(&(_, _, kind)) = both {
        if top.section("audio_config")?.is_some() {
            return Err(ModelError::Unsupported(
                top.at("audio_config")
                    .found("an object")
                    .expected("null")
                    .help("take it out to leave the audio tower out"),
            ));
        }
        towers.extend(vision(kind, top, text.head.hidden, &mut draft, &mut notes, family)?);
    }
    if let Some(section) = &section {
        section.finish(text_name, &mut notes)?;
    }
    top.finish(family, &mut notes)?;
    let Text { tower, embedding, head, mtp, max_positions } = text;
    towers.push(tower);
    Ok(Some(Parts { classes: draft.into_classes(), towers, embedding, head, mtp, max_positions, notes }))
}
