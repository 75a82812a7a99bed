//! Built-in models: configs of our own with published sizes, read through the same import as any file.
//!
//! Sizes are from the papers and model cards named beside each; their counts are held to the published ones by tests.

use super::error::{Details, ModelError, nearest};
use super::{Model, import};

/// A built-in model.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The name to ask for.
    pub name: &'static str,
    /// Where its sizes were published, and when they were read.
    pub source: &'static str,
    /// Its sizes, under the keys of its family.
    config: &'static str,
}

/// Every built-in model, sorted by name.
pub const ALL: &[Preset] = &[
    Preset {
        name: "deepseek-v3",
        source: "DeepSeek-V3 Technical Report, section 4.2 (2024-12); hub config read 2026-11",
        config: r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "vocab_size": 129280,
            "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
            "first_k_dense_replace": 3, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "n_group": 8, "topk_group": 4, "num_nextn_predict_layers": 1, "max_position_embeddings": 163840}"#,
    },
    Preset {
        name: "gpt2-xl",
        source: "Radford et al. 2019, table 2; hub config read 2026-11",
        config: r#"{"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
            "vocab_size": 50257}"#,
    },
    Preset {
        name: "gpt3-175b",
        source: "Brown et al. 2020, table 2.1 (96 layers, width 12288, 96 heads); vocabulary of GPT-2 padded to 51200 as in Narayanan et al. 2021",
        config: r#"{"model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96, "n_positions": 2048,
            "vocab_size": 51200}"#,
    },
    Preset {
        name: "llama2-13b",
        source: "Touvron et al. 2023, Llama 2; hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 40,
            "intermediate_size": 13824, "vocab_size": 32000, "max_position_embeddings": 4096}"#,
    },
    Preset {
        name: "llama2-70b",
        source: "Touvron et al. 2023, Llama 2; hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
            "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 32000,
            "max_position_embeddings": 4096}"#,
    },
    Preset {
        name: "llama2-7b",
        source: "Touvron et al. 2023, Llama 2; hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096}"#,
    },
    Preset {
        name: "llama3-405b",
        source: "The Llama 3 Herd of Models 2024, table 3 (Llama 3.1); hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
            "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256,
            "max_position_embeddings": 131072}"#,
    },
    Preset {
        name: "llama3-70b",
        source: "The Llama 3 Herd of Models 2024, table 3 (Llama 3.1); hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
            "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
            "max_position_embeddings": 131072}"#,
    },
    Preset {
        name: "llama3-8b",
        source: "The Llama 3 Herd of Models 2024, table 3 (Llama 3.1); hub config read 2026-11",
        config: r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
            "max_position_embeddings": 131072}"#,
    },
    Preset {
        name: "mixtral-8x7b",
        source: "Jiang et al. 2024, Mixtral of Experts, table 1; hub config read 2026-11",
        config: r#"{"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
            "num_experts_per_tok": 2, "max_position_embeddings": 32768}"#,
    },
    Preset {
        name: "qwen2.5-32b",
        source: "Qwen2.5 Technical Report 2024, table 1; hub config read 2026-11",
        config: r#"{"model_type": "qwen2", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 40,
            "num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 152064,
            "max_position_embeddings": 131072}"#,
    },
    Preset {
        name: "qwen3-235b-a22b",
        source: "Qwen3 Technical Report 2025, table 2; hub config read 2026-11",
        config: r#"{"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64,
            "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 1536, "vocab_size": 151936,
            "num_experts": 128, "num_experts_per_tok": 8, "max_position_embeddings": 40960}"#,
    },
    Preset {
        name: "qwen3-30b-a3b",
        source: "Qwen3 Technical Report 2025, table 2; hub config read 2026-11",
        config: r#"{"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
            "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 768, "vocab_size": 151936,
            "num_experts": 128, "num_experts_per_tok": 8, "max_position_embeddings": 40960}"#,
    },
    Preset {
        name: "qwen3-8b",
        source: "Qwen3 Technical Report 2025, table 1; hub config read 2026-11",
        config: r#"{"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
            "max_position_embeddings": 40960}"#,
    },
    Preset {
        name: "t5-11b",
        source: "Raffel et al. 2020, section 3.7 (24 layers each, width 1024, 128 heads of 128, MLP 65536)",
        config: r#"{"model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128,
            "vocab_size": 32128}"#,
    },
    Preset {
        name: "t5-3b",
        source: "Raffel et al. 2020, section 3.7 (24 layers each, width 1024, 32 heads of 128, MLP 16384)",
        config: r#"{"model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 16384, "num_layers": 24, "num_heads": 32,
            "vocab_size": 32128}"#,
    },
];

/// The built-in model of this name, whatever the case.
///
/// # Errors
/// [`ModelError::UnknownPreset`] with the nearest names.
pub fn find(name: &str) -> Result<Model, ModelError> {
    let Some(preset) = ALL.iter().find(|p| p.name.eq_ignore_ascii_case(name.trim())) else {
        let names = || ALL.iter().map(|p| p.name);
        let details = Details::file(name).found(format!("\"{name}\""));
        let details = details.expected(format!("one of {}", names().collect::<Vec<_>>().join(", ")));
        return Err(ModelError::UnknownPreset(match nearest(name, names()) {
            Some(near) => details.help(format!("did you mean \"{near}\"?")),
            None => details,
        }));
    };
    let mut model = import::from_json(preset.name, preset.config, None)?;
    model.notes.push(format!("sizes: {}", preset.source));
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_their_published_parameters() {
        // Exact counts as published on the models' cards, or of their classes (2026-11).
        let published = [
            ("deepseek-v3", 671_026_404_352, 37_552_282_624),
            ("gpt2-xl", 1_557_611_200, 1_557_611_200),
            // 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)): Narayanan et al. 2021, eq. 2; and 2 h of the final norm.
            ("gpt3-175b", 174_615_846_912, 174_615_846_912),
            ("llama2-13b", 13_015_864_320, 13_015_864_320),
            ("llama2-70b", 68_976_648_192, 68_976_648_192),
            ("llama2-7b", 6_738_415_616, 6_738_415_616),
            ("llama3-405b", 405_853_388_800, 405_853_388_800),
            ("llama3-70b", 70_553_706_496, 70_553_706_496),
            ("llama3-8b", 8_030_261_248, 8_030_261_248),
            ("mixtral-8x7b", 46_702_792_704, 12_879_925_248),
            ("qwen2.5-32b", 32_763_876_352, 32_763_876_352),
            ("qwen3-235b-a22b", 235_093_634_560, 22_190_763_520),
            ("qwen3-30b-a3b", 30_532_122_624, 3_353_032_704),
            ("qwen3-8b", 8_190_735_360, 8_190_735_360),
            ("t5-11b", 11_307_321_344, 11_307_321_344),
            ("t5-3b", 2_851_598_336, 2_851_598_336),
        ];
        for (preset, (name, total, active)) in ALL.iter().zip(published) {
            let model = find(preset.name).unwrap();
            assert_eq!((preset.name, model.parameters_total(), model.parameters_active()), (name, total, active));
        }
        assert_eq!(ALL.len(), published.len());
        assert!(ALL.is_sorted_by_key(|p| p.name));
    }

    #[test]
    fn an_unknown_preset_names_the_nearest() {
        let error = find("llama3-80b").unwrap_err();
        assert_eq!(error.kind(), "unknown_preset");
        assert_eq!(error.details().help.as_deref(), Some("did you mean \"llama3-8b\"?"));
        assert!(find("LLAMA3-8B").is_ok());
    }
}
