//! Small questions that enumeration answers: at least a million complete plans each, and memory so tight that plans of one
//! strategy lose. Models have 4 to 10 layers, clusters 2 to 8 devices.
#![allow(dead_code, reason = "every test file uses its own part")]

use crate::planning::{cluster, config, question};
use espalier::cluster::Cluster;
use espalier::job::Job;
use espalier::model::Model;
use espalier::space::planner::Inputs;

/// A question with what makes it one of its own.
pub struct Instance {
    /// What is special.
    pub name: &'static str,
    /// The question.
    pub inputs: Inputs,
    /// Whether the closed form is the simulation here: links are fast, or the best plans have one stage.
    pub exact_form: bool,
}

/// `devices` of `memory` GB in pairs joined at `fast` GB/s, the pairs at `slow` GB/s.
fn pairs(devices: u64, memory: f64, fast: f64, slow: f64) -> Cluster {
    let outer = format!(r#"(name: "between pairs", bandwidth: "{slow}GB/s", latency: "10us")"#);
    cluster(&format!(
        r#"(pools: [(
            device: (name: "accelerator", half: "150TFLOP/s", memory: "{memory}GB", memory_bandwidth: "1TB/s"),
            devices_per_node: {devices},
            links: [(name: "pair", devices: 2, bandwidth: "{fast}GB/s", latency: "5us"), {}],
        )])"#,
        if devices > 2 { outer.as_str() } else { "" }
    ))
}

fn gpt2(layers: u32, hidden: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_embd": {hidden}, "n_head": 16, "n_positions": 2048,
            "vocab_size": 32000}}"#
    ))
}

fn llama(layers: u32, hidden: u32, tied: bool, vocab: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "llama", "hidden_size": {hidden}, "intermediate_size": {}, "num_hidden_layers": {layers},
            "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": {vocab}, "tie_word_embeddings": {tied}}}"#,
        hidden * 11 / 4
    ))
}

fn mixtral(layers: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": {layers},
            "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
            "num_experts_per_tok": 2}}"#
    ))
}

/// Two dense layers, then layers of 16 experts.
fn mixed(layers: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "deepseek_v3", "hidden_size": 1024, "num_hidden_layers": {layers}, "vocab_size": 32768,
            "num_attention_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 32, "v_head_dim": 64, "intermediate_size": 4096, "moe_intermediate_size": 512,
            "first_k_dense_replace": 2, "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4,
            "n_group": 4, "topk_group": 2}}"#
    ))
}

/// Layers with a window and without in turns.
fn gemma(layers: u32) -> Model {
    config(&format!(
        r#"{{"model_type": "gemma2", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": {layers},
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 192, "vocab_size": 64000,
            "sliding_window": 512, "max_position_embeddings": 4096, "tie_word_embeddings": true}}"#
    ))
}

/// Three layers of encoder and three of decoder.
fn t5() -> Model {
    config(
        r#"{"model_type": "t5", "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 3, "num_decoder_layers": 3,
            "num_heads": 16, "vocab_size": 32128, "feed_forward_proj": "relu"}"#,
    )
}

const ONE_CHUNK: &str = "vpp=1";

fn fixed(mut inputs: Inputs, fix: &[&str]) -> Inputs {
    inputs.search.fix = fix.iter().map(|text| text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))).collect();
    inputs
}

/// All of them.
pub fn all() -> Vec<Instance> {
    let every = [ONE_CHUNK, "cp=1", "sp=megatron"];
    let some = [ONE_CHUNK, "cp=1", "sp=megatron", "zero=0|1|3"];
    let experts = [ONE_CHUNK, "cp=1", "sp=megatron", "etp=1", "zero=1|3", "ep=2|4"];
    let wide = [ONE_CHUNK, "cp=1", "sp=megatron", "zero=1|3"];
    let long = [ONE_CHUNK, "sp=megatron", "zero=1|3", "tp=1|2"];
    let encoder = |inputs: Inputs| Inputs { job: Job { encoder_sequence: Some(512), ..inputs.job.clone() }, ..inputs };
    let mut list = Vec::new();
    let mut add = |name, exact_form, model, machines, batch, sequence, fix: &[&str]| {
        let inputs = fixed(question(model, machines, Job::new(batch, sequence)), fix);
        list.push(Instance { name, inputs, exact_form });
    };
    add("a pair", true, gpt2(6, 2048), pairs(2, 8.0, 100.0, 0.0), 8, 1024, &every);
    add("a slow pair", true, gpt2(7, 2048), pairs(2, 7.0, 10.0, 0.0), 8, 1024, &every);
    add("tied head on a pair", true, llama(8, 2048, true, 32000), pairs(2, 9.0, 50.0, 0.0), 4, 2048, &every);
    add("tied head on a roomier pair", true, llama(8, 2048, true, 32000), pairs(2, 10.0, 50.0, 0.0), 4, 2048, &every);
    add("ten narrow layers on a pair", true, gpt2(10, 1536), pairs(2, 6.0, 50.0, 0.0), 16, 1024, &every);
    add("nine narrow layers on a slow pair", true, gpt2(9, 1536), pairs(2, 5.5, 20.0, 0.0), 8, 1024, &every);
    add("tied head, larger batch", true, llama(7, 2048, true, 32000), pairs(2, 8.5, 50.0, 0.0), 16, 1024, &every);
    add("even links", true, llama(6, 2048, false, 32000), pairs(4, 4.5, 100.0, 100.0), 8, 1024, &some);
    add("even links, less tight", true, llama(6, 2048, false, 32000), pairs(4, 5.0, 100.0, 100.0), 8, 1024, &some);
    add("even links, roomy", true, llama(6, 2048, false, 32000), pairs(4, 6.0, 100.0, 100.0), 8, 1024, &some);
    add("slower between pairs", false, llama(5, 2048, false, 32000), pairs(4, 5.0, 100.0, 20.0), 8, 1024, &some);
    add("slow between pairs", false, llama(4, 2048, false, 32000), pairs(4, 5.0, 100.0, 5.0), 8, 1024, &some);
    add("learned positions", true, gpt2(6, 2048), pairs(4, 5.0, 100.0, 25.0), 16, 1024, &some);
    add("learned positions, less tight", true, gpt2(6, 2048), pairs(4, 6.0, 100.0, 25.0), 16, 1024, &some);
    add("windows in turns", true, gemma(6), pairs(4, 5.0, 100.0, 50.0), 8, 2048, &some);
    add("windows in turns, roomy", true, gemma(6), pairs(4, 6.5, 100.0, 50.0), 8, 2048, &some);
    add("long sequences", true, llama(5, 2048, false, 32000), pairs(4, 6.0, 100.0, 50.0), 4, 4096, &long);
    add("long sequences, less tight", true, llama(5, 2048, false, 32000), pairs(4, 7.0, 100.0, 50.0), 4, 4096, &long);
    add("eight devices", true, llama(5, 2048, false, 32000), pairs(8, 4.0, 100.0, 50.0), 8, 1024, &wide);
    add("large vocabulary", true, llama(5, 1536, false, 128_000), pairs(4, 7.0, 100.0, 50.0), 8, 1024, &some);
    add("experts", true, mixtral(5), pairs(4, 6.0, 100.0, 50.0), 8, 2048, &experts);
    add("dense, then experts", true, mixed(5), pairs(4, 4.0, 100.0, 50.0), 8, 2048, &experts);
    add("dense, then experts, roomy", true, mixed(6), pairs(4, 5.0, 100.0, 50.0), 8, 2048, &experts);
    add("encoder and decoder", true, t5(), pairs(4, 3.0, 100.0, 50.0), 8, 512, &some);
    list.into_iter()
        .map(|i| if i.name.starts_with("encoder") { Instance { inputs: encoder(i.inputs), ..i } } else { i })
        .collect()
}
