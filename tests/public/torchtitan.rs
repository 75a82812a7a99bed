//! Launches of torchtitan.

use super::{check, fits, most, near, number, remarked, states};
use crate::cli::folder;
use serde_json::Value;

fn launch(flags: &str, world: u32, model: &str, cluster: &str) -> Value {
    let long = |word: &str| match word.split_once('.') {
        Some(("p", field)) => format!("--parallelism.{field}"),
        Some(("t", field)) => format!("--training.{field}"),
        _ => word.to_owned(),
    };
    let short = flags.split_whitespace().map(long).collect::<Vec<_>>().join(" ");
    check(&["--torchtitan", &short, "--world", &world.to_string(), "--model", model, "--cluster", cluster])
}

const FULL: &str = "--activation_checkpoint.mode full";

#[test]
fn parameters_in_fp32_are_their_own_masters() {
    // 49: Llama-3.1-405B, TP8 FSDP16: 405.85B * 16 / 128 = 50.7 GB.
    let flags = format!(
        "p.tensor_parallel_degree 8 p.data_parallel_shard_degree 16 t.local_batch_size 2 t.seq_len 8192 {FULL}"
    );
    let answer = launch(&flags, 128, "llama3-405b", "h100x8:16");
    near(states(&answer), 50.7, 0.01);
    assert!(fits(&answer));
    // 109 tokens per second and device were measured in 2024, without what has been gained since.
    let rate = number(&answer, "/estimate/tokens_per_s_per_device");
    assert!((100.0..190.0).contains(&rate), "{rate}");
}

#[test]
fn a_gathered_layer_of_all_experts_is_too_large() {
    // 50: DeepSeek-V3 on 512 devices: 21 GB of states, 22.5 GB for a gathered layer of 256 experts without EP.
    let of = |ep: u32| {
        let flags = format!(
            "p.tensor_parallel_degree 8 p.data_parallel_shard_degree 64 p.expert_parallel_degree {ep} t.local_batch_size 4 \
             t.seq_len 4096 {FULL}"
        );
        launch(&flags, 512, "deepseek-v3", "h100x8:64")
    };
    let (one, many) = (of(1), of(64));
    near(states(&one), 21.0, 0.05);
    assert!(most(&one, "head").max(most(&one, "buffers")) > 22.5 && !fits(&one) && fits(&many));
    assert!(most(&many, "head").max(most(&many, "buffers")) < 22.5);
}

#[test]
fn activations_are_linear_in_the_micro_batch() {
    // 55: Llama-3.3-70B over 8 stages with samples of 1,024 tokens: half the micro-batch takes half the activations, and twice
    // as many micro-batches shrink the bubble.
    let of = |micro: u32| {
        let flags = format!(
            "p.pipeline_parallel_degree 8 p.data_parallel_shard_degree 4 p.pipeline_parallel_microbatch_size {micro} \
             t.local_batch_size 64 t.seq_len 1024 --activation_checkpoint.mode none"
        );
        launch(&flags, 32, "llama3-70b", "h100x8:4")
    };
    let (four, two, one) = (of(4), of(2), of(1));
    near(most(&two, "activations"), 0.5 * most(&four, "activations"), 0.01);
    near(most(&one, "activations"), 0.25 * most(&four, "activations"), 0.01);
    assert!(!fits(&four) && number(&two, "/estimate/bubble") < 0.7 * number(&four, "/estimate/bubble"));
}

#[test]
fn tensor_parallelism_halves_the_speed_where_memory_does_not_ask_for_it() {
    // u05: Qwen3-32B on H100 of 95 GB: FSDP8 TP1 is 2.1 times as fast as TP8; memory is linear in the local batch, so that 64
    // sequences run out.
    let folder = folder("public-qwen");
    let (model, cluster) = (folder.join("config.json"), |nodes: u32| folder.join(format!("h{nodes}.ron")));
    let config = r#"{"model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 25600, "vocab_size": 151936,
        "max_position_embeddings": 40960, "tie_word_embeddings": false}"#;
    std::fs::write(&model, config).unwrap();
    for nodes in [1, 4, 8] {
        let network = if nodes > 1 { r#"(name: "network", bandwidth: "50GB/s")"# } else { "" };
        let text = format!(
            r#"(name: "h95", pools: [(name: "h95", device: "H100-96GB", nodes: {nodes}, devices_per_node: 8,
                links: [(name: "nvlink", devices: 8, bandwidth: "450GB/s"), {network}])])"#
        );
        std::fs::write(cluster(nodes), text).unwrap();
    }
    let of = |shard: u32, tp: u32, local: u32| {
        let flags = format!(
            "p.tensor_parallel_degree {tp} p.data_parallel_shard_degree {shard} t.local_batch_size {local} t.seq_len 4096 {FULL}"
        );
        let nodes = shard * tp / 8;
        launch(&flags, shard * tp, model.to_str().unwrap(), cluster(nodes).to_str().unwrap())
    };
    let rate = |a: &Value| number(a, "/estimate/tokens_per_s_per_device");
    let (fsdp, small, large, more) = (of(8, 1, 2), of(4, 8, 16), of(4, 8, 32), of(4, 8, 64));
    assert!(rate(&fsdp) > 1.3 * rate(&small), "{} {}", rate(&fsdp), rate(&small));
    assert!(fits(&fsdp) && fits(&small) && fits(&large) && !fits(&more));
    let gib = |a: &Value| number(a, "/estimate/peak_memory_bytes") / f64::from(1u32 << 30);
    let each = (gib(&large) - gib(&small)) / 16.0;
    near((gib(&more) - gib(&large)) / 32.0, each, 0.02);
    near(each, 1.71, 0.4);
}

#[test]
fn weights_stay_gathered_under_a_pipeline() {
    // u22: gathers for every micro-batch, or once for memory: 2 bytes a parameter of the stage. The rule is named.
    let of = |reshard: &str| {
        let flags = format!(
            "p.pipeline_parallel_degree 2 p.data_parallel_shard_degree 2 {reshard} t.local_batch_size 8 t.seq_len 2048"
        );
        launch(&flags, 4, "llama3-8b", "h100x4")
    };
    let (kept, again) = (of(""), of("p.fsdp_reshard_after_forward always"));
    assert!(remarked(&kept, &["stay gathered", "every micro-batch"]));
    assert!(number(&kept, "/estimate/iteration_time_s") < number(&again, "/estimate/iteration_time_s"));
    assert!(most(&kept, "weights") > 1.9 * most(&again, "weights"));
}
