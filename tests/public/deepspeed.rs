//! Configurations of DeepSpeed.

use super::{change, check, fits, most, near, number, remarked, states};
use crate::cli::folder;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The answer for a configuration in bf16 with every layer recomputed and these fields of ZeRO.
fn zero(zero: Value, more: &[&str]) -> Value {
    configured(json!({ "bf16": {"enabled": true}, "zero_optimization": zero }), more)
}

fn configured(mut config: Value, more: &[&str]) -> Value {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    config["train_micro_batch_size_per_gpu"] = json!(1);
    config["activation_checkpointing"] = json!({});
    let file = folder(&format!("public-ds-{}", NEXT.fetch_add(1, Relaxed))).join("ds.json");
    std::fs::write(&file, config.to_string()).unwrap();
    check(&[&["--deepspeed", file.to_str().unwrap()], more].concat())
}

fn cpu() -> Value {
    json!({ "device": "cpu" })
}

#[test]
fn host_memory_is_a_constraint_like_device_memory() {
    // u08: LLaMA-7B with everything on the host of one A100: 18 bytes per parameter and half as much again, 182 GB of 94.
    let offload = || json!({ "stage": 3, "offload_optimizer": cpu(), "offload_param": cpu() });
    let on = ["--world", "1", "--model", "llama2-7b", "--seq", "2048", "--cluster", "a100-40x1", "--host-memory"];
    let of = |host: &'static str| zero(offload(), &[&on[..], &[host]].concat());
    let small = of("94GB");
    near(number(&small, "/host_memory/peak_bytes") / 1e9, 182.0, 0.01);
    assert!(fits(&small) && small["host_memory"]["fits"] == false && of("192GB")["host_memory"]["fits"] == true);
    // 29: the estimator says 0.49 GB per device, live weights, buckets, the gathered layer and activations come on top.
    let four = zero(offload(), &["--world", "4", "--model", "llama2-7b", "--seq", "2048", "--cluster", "a100x4"]);
    assert!(remarked(&four, &["0.49 GiB", "activations"]));
    assert!(number(&four, "/estimate/peak_memory_bytes") > 15.0 * 0.49 * 1.074e9);
    assert!(most(&four, "buffers") > 2.0 && most(&four, "activations") > 0.0 && most(&four, "gradients") > 0.0);
}

#[test]
fn a_model_of_72_billion_needs_its_optimizer_on_the_host() {
    // 32: 16 bytes per parameter on eight devices are 145 GB, with the optimizer on the host 36 and 872 GB there.
    let path = espalier::reference::path("hf/configs/Qwen__Qwen2.5-72B.json");
    let Some(model) = path.as_ref().and_then(|p| p.to_str()) else { return };
    let on = ["--world", "8", "--model", model, "--seq", "2048", "--cluster", "a100x8"];
    let whole = zero(json!({ "stage": 3 }), &on);
    near(states(&whole), 145.0, 0.02);
    assert!(!fits(&whole) && change(&whole, "the optimizer in host memory").is_some());
    let moved = zero(json!({ "stage": 3, "offload_optimizer": cpu() }), &on);
    near(states(&moved), 36.0, 0.02);
    near(number(&moved, "/host_memory/states_bytes") / 1e9, 872.0, 0.01);
}

#[test]
fn zero_saves_nothing_without_data_parallelism() {
    // 31: 40B at MP8: 80 GB of states at DP 1; 5B * (2 + 14/8) = 18.8 GB at DP 8.
    let file = folder("public-40b").join("config.json");
    let config = json!({ "model_type": "gpt2", "n_embd": 8192, "n_layer": 49, "n_head": 64, "n_positions": 1024, "vocab_size": 50304 });
    std::fs::write(&file, config.to_string()).unwrap();
    let of = |world: &str, cluster: &str| {
        let config = json!({ "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 8} });
        let on = ["--world", world, "--model", file.to_str().unwrap(), "--seq", "1024", "--cluster", cluster];
        configured(config, &on)
    };
    let (one, eight) = (of("8", "v100x8"), of("64", "v100x8:8"));
    assert_eq!(one["advice"][0]["id"], "zero_saves_across_dp");
    near(states(&one), 80.0, 0.02);
    near(states(&eight), 18.8, 0.02);
    assert!(!fits(&one) && fits(&eight));
}

#[test]
fn experts_on_every_rank_are_told_with_what_they_cost() {
    // u07: ZeRO-2 keeps all weights on every rank: 62 GB whatever the number of devices, 75.8 GB with the shards (of 31.1B;
    // here 30.5B of the text model). It does not fit.
    let on = |world: &'static str, cluster: &'static str, sequence: &'static str| {
        ["--world", world, "--model", "qwen3-30b-a3b", "--seq", sequence, "--cluster", cluster]
    };
    let two = zero(json!({ "stage": 2 }), &on("32", "h100x8:4", "8192"));
    near(most(&two, "weights"), 61.1, 0.01);
    near(states(&two), 75.8 * 30.53 / 31.1, 0.02);
    assert!(!fits(&two) && remarked(&two, &["61.1 GB", "expert parallelism"]) && change(&two, "ZeRO-3").is_some());
    // u19: ZeRO-3 moves all experts for every micro-batch: 3.8 GB a layer against 0.5 by expert parallelism.
    let three = zero(json!({ "stage": 3 }), &on("128", "h100x8:16", "4096"));
    assert!(remarked(&three, &["3.8 GB", "0.5 GB", "use it"]));
    assert!(number(&three, "/better/faster") > 0.0);
}

#[test]
fn estimators_leave_out_what_runs_out() {
    // u14: 18.08 GiB by the estimator (2 bytes a parameter) is not the need: gradients, activations and buckets come on top.
    let zero_2 = zero(
        json!({ "stage": 2, "offload_optimizer": cpu() }),
        &["--world", "4", "--model", "llama2-7b", "--seq", "2048", "--cluster", "a100-40x4"],
    );
    let said = 2.0 * 6.738 / 1.0737;
    assert!(remarked(&zero_2, &[&format!("{said:.2} GiB"), "without activations"]), "{:?}", zero_2["notes"]);
    assert!(most(&zero_2, "gradients") > 3.0 && most(&zero_2, "activations") > 0.5);
    assert!(number(&zero_2, "/estimate/peak_memory_bytes") > 1.4 * 2.0 * 6.738e9);
    let host = &zero_2["host_memory"]["items"];
    assert!(host.as_array().unwrap().iter().any(|i| i["moment"] == "loading"), "{host}");
}
