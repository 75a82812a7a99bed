//! Reported faults in parameters and FLOP of a token.

use super::planning::{self, config, preset};
use super::{Fields, after, close, numbers};
use espalier::model::{Lengths, Masked, Model};

/// Three layers of sixteen experts.
fn experts(top_k: u32, width: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "qwen3_moe", "hidden_size": 1024, "intermediate_size": 8192, "num_hidden_layers": 3,
            "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 1024,
            "num_experts": 16, "num_experts_per_tok": {top_k}, "moe_intermediate_size": {width},
            "decoder_sparse_step": 1}}"#
    ))
}

fn flops(model: &Model, sequence: u64, masked: Masked) -> f64 {
    model.flops_per_token(&Lengths::text(sequence), masked, false).get()
}

pub fn utilisation_is_of_the_dense_peak(row: &Fields) {
    let numbers = numbers(row);
    assert!(numbers.contains("96 H100"), "{numbers}");
    let flops = preset("llama2-7b").flops_per_token(&Lengths::text(4096), Masked::Counted, false).get();
    // 6 FLOP for each weight of 32 layers and the head, 12 h s for the scores of a layer.
    let (h, layers, embedding) = (4096.0, 32.0, 32_000.0 * 4096.0);
    let weights = layers * (4.0 * h * h + 3.0 * h * 11_008.0) + embedding;
    close(flops, 6.0 * weights + 12.0 * layers * h * 4096.0, 1e-12);
    let percent = |flops: f64| (flops * 9600.0 / 989e12 * 1000.0).round() / 10.0;
    // Stated are 45 to 47 %, which count the embedding's weights as products; the sparse peak would give half.
    assert_eq!((percent(flops), percent(flops + 6.0 * embedding)), (44.7, 45.5));
}

pub fn a_gated_layer_is_priced_by_its_own_inner_width(row: &Fields) {
    assert!(numbers(row).contains("SwiGLU / custom ffn"));
    // Per token and layer 6 FLOP for each weight that it meets: three matrices with a gate, two without.
    let llama = |ffn: u32| {
        config(&format!(
            r#"{{"model_type": "llama", "hidden_size": 1024, "intermediate_size": {ffn}, "num_hidden_layers": 3,
                "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1024}}"#
        ))
    };
    let of = |ffn| flops(&llama(ffn), 1, Masked::Skipped);
    close(of(3072) - of(2048), 6.0 * 3.0 * 3.0 * 1024.0 * 1024.0, 1e-9);
    let gpt = |ffn: u32| {
        config(&format!(
            r#"{{"model_type": "gpt2", "n_embd": 1024, "n_inner": {ffn}, "n_layer": 3, "n_head": 8, "n_positions": 1024,
                "vocab_size": 1024}}"#
        ))
    };
    let of = |ffn| flops(&gpt(ffn), 1, Masked::Skipped);
    close(of(3072) - of(2048), 6.0 * 3.0 * 2.0 * 1024.0 * 1024.0, 1e-9);
}

pub fn every_expert_that_a_token_meets_is_counted(_: &Fields) {
    let of = |top_k| flops(&experts(top_k, 512), 1, Masked::Skipped);
    close(of(4) - of(2), 6.0 * 3.0 * 2.0 * 3.0 * 1024.0 * 512.0, 1e-9);
}

pub fn experts_have_an_inner_width_of_their_own(_: &Fields) {
    let of = |width| flops(&experts(2, width), 1, Masked::Skipped);
    close(of(768) - of(512), 6.0 * 3.0 * 2.0 * 3.0 * 1024.0 * 256.0, 1e-9);
}

pub fn flops_of_a_step_are_those_of_the_corrected_table(row: &Fields) {
    let numbers = numbers(row);
    // 12 sequences of 2,048 tokens, the table's default.
    for (name, key) in [("llama2-7b", "llama2-7b"), ("llama2-13b", "13b"), ("llama2-70b", "70b")] {
        let entry = &numbers[numbers.find(key).unwrap()..];
        let flops = preset(name).flops_per_token(&Lengths::text(2048), Masked::Counted, false).get();
        printed(flops * 12.0 * 2048.0, after(entry, "->"), 0.05);
    }
    // Mixtral with all eight experts met, whose router the table leaves out or rounds, and Gemma-7B with heads wider than hidden
    // over heads.
    let mixtral = config(
        r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
            "num_experts_per_tok": 8, "max_position_embeddings": 32768}"#,
    );
    let gemma = config(
        r#"{"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
            "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256128,
            "max_position_embeddings": 8192}"#,
    );
    // The project's own GPT-3 of six billion: 48 layers, heads of 256, 1,024 tokens.
    let gpt3 = config(
        r#"{"model_type": "gpt2", "n_embd": 3072, "n_inner": 12288, "n_layer": 48, "n_head": 12, "n_positions": 1024,
            "vocab_size": 32768}"#,
    );
    for (model, key, tokens, digit) in
        [(mixtral, "mixtral", 2048, 0.15), (gemma, "gemma-7b", 2048, 0.05), (gpt3, "gpt3-6b", 1024, 0.1)]
    {
        let entry = &numbers[numbers.find(key).unwrap()..];
        printed(flops(&model, tokens, Masked::Counted) * 12.0 * tokens as f64, after(entry, "->"), digit);
    }
}

/// That `flops` are `stated` TFLOP to `digit` of it.
fn printed(flops: f64, stated: f64, digit: f64) {
    assert!((flops / 1e12 - stated).abs() <= digit + 1e-9, "{} is not {stated}", flops / 1e12);
}

pub fn a_prediction_module_is_a_layer_a_projection_and_a_head(row: &Fields) {
    assert!(numbers(row).contains("mtp_num_layers>0"));
    let of = |layers: u32, mtp| {
        let text = planning::DEEPSEEK.replace("\"num_hidden_layers\": 5", &format!("\"num_hidden_layers\": {layers}"));
        config(&text).flops_per_token(&Lengths::text(2048), Masked::Counted, mtp).get()
    };
    // One more layer of the last kind, 6 FLOP for each weight of the projection of 2 h by h, and of one more head.
    let (layer, h, vocab) = (of(6, false) - of(5, false), 1024.0, 32_768.0);
    assert_eq!(of(5, true) - of(5, false), layer + 6.0 * (2.0 * h * h + h * vocab));
}

pub fn a_tied_head_is_counted_once_and_computed_all_the_same(_: &Fields) {
    let llama = |tied: bool| {
        config(&format!(
            r#"{{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 2,
                "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": {tied}}}"#
        ))
    };
    let (tied, own) = (llama(true), llama(false));
    assert_eq!(own.parameters_total() - tied.parameters_total(), 32000 * 1024);
    assert_eq!(flops(&tied, 2048, Masked::Counted), flops(&own, 2048, Masked::Counted));
}

pub fn flops_of_bloom_are_those_of_the_paper(row: &Fields) {
    assert!(numbers(row).contains("about 3 %"));
    // Model FLOP of Korthikanti 2022, equation 7: 72 B L s h^2 (1 + s / 6h + V / 12hL), for BLOOM-176B at 2,048 tokens; what was
    // left out there is a few percent, here nothing is.
    let bloom = config(
        r#"{"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880}"#,
    );
    let (l, s, h, v) = (70.0, 2048.0, 14_336.0, 250_880.0);
    let paper = 72.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * h * l));
    close(flops(&bloom, 2048, Masked::Counted), paper, 1e-6);
}
