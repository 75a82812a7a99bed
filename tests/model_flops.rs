//! Model FLOPs equal the closed formulas of the literature, and what limits attention limits them.

use espalier::model::import::from_json;
use espalier::model::{Lengths, Masked, Model, presets};
use espalier::reference;

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} is not {expected}");
}

fn per_token(model: &Model, sequence: u64, masked: Masked) -> f64 {
    model.flops_per_token(&Lengths::text(sequence), masked, false).get()
}

#[test]
fn gpt3_needs_what_the_megatron_papers_say() {
    // Korthikanti et al. 2022, eq. 7: 72 B L s h^2 (1 + s/(6h) + V/(12 h L)).
    let model = presets::find("gpt3-175b").unwrap();
    let (h, l, v, s) = (12288.0, 96.0, 51200.0, 2048.0);
    let formula = 72.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * h * l));
    close(per_token(&model, 2048, Masked::Counted), formula);
    // Without the masked half, s/(12h) in place of s/(6h).
    close(per_token(&model, 2048, Masked::Skipped), formula - 72.0 * l * h * h * s / (12.0 * h));
}

#[test]
fn dense_models_need_six_flops_per_weight_and_twelve_per_score() {
    // Chowdhery et al. 2022 (PaLM), appendix B: 6 N + 12 L H Q T, N without embedding table and norms.
    for (name, layers, hidden, heads, dim) in
        [("llama3-70b", 80, 8192, 64, 128), ("llama2-7b", 32, 4096, 32, 128), ("qwen3-8b", 36, 4096, 32, 128)]
    {
        let model = presets::find(name).unwrap();
        let qk_norms = if name.starts_with("qwen3") { 2 * dim } else { 0 };
        let norms = layers * (2 * hidden + qk_norms) + hidden;
        let n = model.parameters_total() - model.parameters_embedding() - norms;
        let scores = 12 * layers * heads * dim * 8192;
        close(per_token(&model, 8192, Masked::Counted), 6.0 * n as f64 + scores as f64);
        close(per_token(&model, 8192, Masked::Skipped), 6.0 * n as f64 + scores as f64 / 2.0);
    }
}

#[test]
fn a_mixture_needs_its_active_experts_only_and_latent_attention_its_unequal_heads() {
    let mixtral = presets::find("mixtral-8x7b").unwrap();
    let n = mixtral.parameters_active() - mixtral.parameters_embedding() - (32 * 2 + 1) * 4096;
    close(per_token(&mixtral, 4096, Masked::Counted), 6.0 * n as f64 + (12 * 32 * 4096 * 4096u64) as f64);

    let v3 = presets::find("deepseek-v3").unwrap();
    let norms = 61 * (2 * 7168 + 1536 + 512) + 7168;
    let n = v3.parameters_active() - v3.parameters_embedding() - norms;
    // 2 products, 128 heads of 192 for scores and 128 for values, forward and twice backward.
    let scores = 61 * 128 * (192 + 128) * 2 * 3 * 4096u64;
    close(per_token(&v3, 4096, Masked::Counted), 6.0 * n as f64 + scores as f64);
}

#[test]
fn multi_token_prediction_adds_a_layer_a_projection_and_a_pass_through_the_head() {
    let model = presets::find("deepseek-v3").unwrap();
    // The hub stores 685 B: the model, the module, copies of embedding and head beside it (model card, 2024-12), and a
    // scale for every block of 128 x 128 weights in fp8.
    let weights = model.parameters_total() + model.parameters_mtp() + 2 * 129_280 * 7168;
    let stored = weights + weights / (128 * 128);
    assert_eq!((stored as f64 / 1e9).round(), 685.0, "{stored}");
    let lengths = Lengths::text(4096);
    let with = |mtp| model.flops_per_token(&lengths, Masked::Counted, mtp).get();
    let layer = model.class(model.mtp[0].class).unwrap();
    let layer = layer.forward_flops_per_token(&lengths, Masked::Counted).get();
    let (h, v) = (7168.0, 129280.0);
    close(with(true) - with(false), 3.0 * (layer + 2.0 * 2.0 * h * h + 2.0 * h * v));
}

#[test]
fn windows_chunks_and_selections_stop_the_growth_with_the_sequence() {
    let Some(folder) = reference::path("hf/configs") else { return };
    let class = |file: &str, name: &str| {
        let model = espalier::model::import::from_path(&folder.join(file), None).unwrap();
        model.classes.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{file} has no {name}")).clone()
    };
    let at = |c: &espalier::model::LayerClass, s| c.forward_flops_per_token(&Lengths::text(s), Masked::Counted).get();
    for (file, name) in [
        ("google__gemma-2-2b.json", "decoder.sliding.dense"),
        ("openai__gpt-oss-120b.json", "decoder.sliding.moe"),
        ("meta-llama__Llama-4-Maverick-17B-128E-Instruct.json", "decoder.chunked.moe"),
        ("Qwen__Qwen3.5-27B.json", "decoder.linear.dense"),
    ] {
        let c = class(file, name);
        close(at(&c, 1 << 20), at(&c, 1 << 16));
    }
    // Sparse attention still scores every position in its indexer: 2 products of 64 heads of 128 (DeepSeek-V3.2).
    let c = class("deepseek-ai__DeepSeek-V3.2.json", "decoder.selected.moe");
    close(at(&c, 1 << 20) - at(&c, 1 << 16), (2 * 64 * 128 * ((1u64 << 20) - (1 << 16))) as f64);
    let full = class("google__gemma-2-2b.json", "decoder.full.dense");
    close(at(&full, 20_000) - at(&full, 10_000), (4 * 8 * 256 * 10_000) as f64);
}

#[test]
fn encoders_and_towers_count_by_their_own_tokens() {
    let model = presets::find("t5-3b").unwrap();
    let lengths = |encoder_sequence| Lengths { sequence: 512, encoder_sequence, vision_tokens: 0 };
    let at = |n| model.flops_per_token(&lengths(n), Masked::Counted, false).get() * 512.0;
    // Per layer: projections 1024 x 4096 four times, MLP 1024 x 16384 twice; attention 4 s a d.
    let (inner, h, f, n) = (4096.0, 1024.0, 16384.0, 512.0);
    let encoder = |m: f64| 24.0 * m * (2.0 * 4.0 * h * inner + 2.0 * 2.0 * h * f + 4.0 * m * inner);
    let own = 24.0 * n * (2.0 * 4.0 * h * inner + 2.0 * 2.0 * h * f + 4.0 * n * inner) + 2.0 * h * 32128.0 * n;
    let cross = |m: f64| 24.0 * (n * 2.0 * 2.0 * h * inner + m * 2.0 * 2.0 * h * inner + 4.0 * n * m * inner);
    for m in [128.0, 1024.0] {
        close(at(m as u64), 3.0 * (encoder(m) + own + cross(m)));
    }
    assert_eq!(model.flops_per_token(&Lengths::default(), Masked::Counted, false).get(), 0.0);

    let tower = r#"{"model_type": "qwen2_vl", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 96, "vocab_size": 100, "vision_config": {"depth": 1, "embed_dim": 32, "num_heads": 4,
        "patch_size": 14, "in_channels": 3, "mlp_ratio": 4}}"#;
    let model = from_json("x", tower, None).unwrap();
    let with = |vision_tokens| {
        let lengths = Lengths { sequence: 100, encoder_sequence: 0, vision_tokens };
        model.flops_per_token(&lengths, Masked::Counted, false).get() * 100.0
    };
    let block = 2.0 * (4.0 * 32.0 * 32.0 + 2.0 * 32.0 * 128.0) + 4.0 * 40.0 * 32.0;
    // Four patches make one token of the merger.
    let merger = 2.0 * (128.0 * 128.0 + 128.0 * 64.0) / 4.0;
    let patch = 2.0 * (3.0 * 2.0 * 14.0 * 14.0) * 32.0;
    close(with(40) - with(0), 3.0 * 40.0 * (block + merger + patch));
}
