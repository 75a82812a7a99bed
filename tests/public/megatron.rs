//! Launches of Megatron-LM and Megatron-Bridge.

use super::{change, check, fits, most, near, number, remarked, states};
use serde_json::Value;

const TRAINING: &str = "--swiglu --disable-bias-linear --bf16 --position-embedding-type rope --normalization RMSNorm \
    --untie-embeddings-and-output-weights --use-distributed-optimizer --lr 1e-4 --train-iters 10 --mock-data --micro-batch-size 1";

const LLAMA_70B: &str = "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
    --group-query-attention --num-query-groups 8 --max-position-embeddings 8192 --vocab-size 128256";

const QWEN3_MOE: &str = "--group-query-attention --num-query-groups 4 --kv-channels 128 --qk-layernorm --max-position-embeddings 8192 \
    --vocab-size 151936 --num-experts 128 --moe-router-topk 8 --moe-grouped-gemm --moe-token-dispatcher-type alltoall";

const DEEPSEEK_V3: &str = "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 \
    --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 \
    --seq-length 4096 --max-position-embeddings 8192 --vocab-size 129280 --num-experts 256 --moe-router-topk 8 \
    --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) \
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall";

fn launch(line: &str, more: &[&str]) -> Value {
    check(&[&["--megatron", &format!("{TRAINING} {line}")], more].concat())
}

#[test]
fn sequence_parallelism_and_no_full_recomputation_is_what_differs() {
    // 1: Llama-70B. TP8 PP8 with full recomputation is slow, TP8 PP2 runs out of memory: 33 GB of states and 0.87 GB of
    // activations per layer and micro-batch without sequence parallelism, 0.29 with it.
    let line = |more: &str| {
        format!("{LLAMA_70B} --seq-length 8192 --tensor-model-parallel-size 8 --global-batch-size 128 {more}")
    };
    let slow = "--pipeline-model-parallel-size 8 --recompute-granularity full --recompute-method uniform --recompute-num-layers 5";
    let slow = launch(&line(slow), &["--world", "128"]);
    let full = launch(&line("--pipeline-model-parallel-size 2"), &["--world", "128"]);
    assert!(fits(&slow) && !fits(&full));
    near(states(&full), 33.0, 0.05);
    let remedy = change(&full, "sequence parallelism").unwrap();
    assert!(remedy["fits"] == true && number(remedy, "/slower") < -0.1, "{remedy}");
    let with = launch(&line("--pipeline-model-parallel-size 2 --sequence-parallel"), &["--world", "128"]);
    assert!(fits(&with));
    near(most(&with, "activations"), 23.0, 0.1);
    assert!(most(&full, "activations") > 55.0);
    // The same two changes are what would help the slow plan: 420 against 296 TFLOP/s.
    let remedy = change(&slow, "sequence parallelism and no recomputation").unwrap();
    assert!(number(remedy, "/slower") < -0.29, "{remedy}");
    assert!(with["estimate"]["mfu"].as_f64() > Some(1.4 * number(&slow, "/estimate/mfu")));
}

#[test]
fn a_plan_at_the_edge_is_told_so_with_what_gives_room() {
    // 2: Llama-3-70B on 32 H100 in FP8, TP4 PP4 VPP5: out of memory in 30 to 60 % of starts; VPP10 passes, recomputing MLPs
    // fits for 16 % of the time.
    let line = |more: &str| {
        format!(
            "{LLAMA_70B} --seq-length 4096 --fp8-format hybrid --tensor-model-parallel-size 4 --sequence-parallel \
             --pipeline-model-parallel-size 4 --global-batch-size 32 {more}"
        )
    };
    let at = |chunks: u32, more: &str| {
        let line = line(&format!("--num-virtual-stages-per-pipeline-rank {chunks} {more}"));
        launch(&line, &["--world", "32", "--cluster", "h100x8:4"])
    };
    let edge = at(5, "--recompute-granularity selective --recompute-modules core_attn");
    let free = number(&edge, "/estimate/stages/0/margin");
    assert!((0.0..0.08).contains(&free), "{free}");
    let mlp = change(&edge, "recomputation of MLPs").unwrap();
    assert!((0.05..0.3).contains(&number(mlp, "/slower")) && number(mlp, "/margin") > 0.08, "{mlp}");
    let ten = at(10, "--recompute-granularity selective --recompute-modules core_attn");
    assert!(most(&ten, "activations") < most(&edge, "activations"));
    let redone = at(5, "--recompute-granularity selective --recompute-modules mlp");
    near(number(&redone, "/estimate/peak_memory_bytes"), number(mlp, "/peak_memory_bytes"), 0.02);
}

#[test]
fn unfused_attention_and_logits_are_counted() {
    // 4: GPT-2 large on a V100 of 32 GB without fused attention: 5 a s^2 b bytes a layer, fp32 logits and their gradient.
    let line = |more: &str| {
        format!(
            "--num-layers 36 --hidden-size 1280 --num-attention-heads 20 --seq-length 1024 --max-position-embeddings 1024 \
             --micro-batch-size 6 --global-batch-size 6 --fp16 --vocab-size 50257 --lr 1e-4 --train-iters 10 --mock-data {more}"
        )
    };
    let of = |more: &str| check(&["--megatron", &line(more), "--world", "1", "--arch", "7", "--cluster", "v100x1"]);
    let (unfused, fused) = (of("--transformer-impl local --attention-backend unfused"), of(""));
    let scores = 36.0 * 5.0 * 20.0 * 1024.0 * 1024.0 * 6.0 / 1e9;
    near(most(&unfused, "activations") - most(&fused, "activations"), scores, 0.05);
    assert!(most(&fused, "head") > 50_257.0 * 4.0 * 1024.0 * 6.0 * 2.0 / 1e9);
    assert!(!fits(&unfused) && fits(&fused));
}

#[test]
fn what_to_recompute_depends_on_the_precision() {
    // 16: DeepSeek-V3 on GB200: recomputing MLPs is too little in bf16, latent projections are enough; in FP8 both are.
    let line = |modules: &str, more: &str| {
        format!(
            "{DEEPSEEK_V3} --pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 13 --expert-model-parallel-size 64 \
             --global-batch-size 2048 --recompute-granularity selective --recompute-modules {modules} {more}"
        )
    };
    let on = ["--world", "512", "--arch", "10", "--cluster", "gb200x4:128"];
    let of = |modules: &str, more: &str| launch(&line(modules, more), &on);
    let (mlp, latent, mlp_fp8) = (of("mlp", ""), of("mla_up_proj", ""), of("mlp", "--fp8-format hybrid"));
    assert!(!fits(&mlp) && fits(&latent) && fits(&mlp_fp8));
    assert!(most(&latent, "activations") < 0.8 * most(&mlp, "activations"));
}

#[test]
fn an_optimizer_on_the_host_leaves_six_bytes_a_parameter() {
    // 20: 235B on 32 devices and 671B on 96, all optimizer states on the host: 44.1 and 41.9 GB per device in the mean.
    let offload = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --optimizer-cpu-offload \
        --use-precision-aware-optimizer";
    let qwen = format!(
        "--num-layers 94 --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 64 {QWEN3_MOE} --seq-length 4096 \
         --moe-ffn-hidden-size 1536 --pipeline-model-parallel-size 8 --decoder-last-pipeline-num-layers 10 \
         --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --tensor-model-parallel-size 4 --sequence-parallel \
         --global-batch-size 32 {offload}"
    );
    let deepseek = format!(
        "{DEEPSEEK_V3} --pipeline-model-parallel-size 12 --decoder-last-pipeline-num-layers 6 --expert-model-parallel-size 8 \
         --global-batch-size 96 {offload}"
    );
    for (line, world, cluster, each) in [(qwen, "32", "h100x8:4", 44.1), (deepseek, "96", "h100x8:12", 41.9)] {
        let answer = launch(&line, &["--world", world, "--cluster", cluster]);
        assert!(fits(&answer), "{answer}");
        let stages = answer["estimate"]["stages"].as_array().unwrap();
        let mean = |what: &str| {
            stages.iter().map(|s| number(s, &format!("/memory/{what}_bytes"))).sum::<f64>() / stages.len() as f64 / 1e9
        };
        assert_eq!(mean("optimizer"), 0.0);
        // What is no expert stands on every data-parallel device: 17B of DeepSeek-V3 eight times.
        let states = mean("weights") + mean("gradients");
        assert!((0.98..1.2).contains(&(states / each)), "{states} of {each}");
        assert!(number(&answer, "/host_memory/peak_bytes") > number(&answer, "/host_memory/states_bytes"));
    }
}

#[test]
fn near_ties_are_near_and_no_pipeline_does_not_fit() {
    // u04: Qwen3-30B-A3B on 16 H800: 10.361 s for 128 sequences and 20.992 for 256, 1.3 % apart; PP1 EP8 needs 53.9 GB of
    // states and about 50 of activations.
    let qwen = format!(
        "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 {QWEN3_MOE} --seq-length 8192 \
         --moe-ffn-hidden-size 768 --moe-expert-capacity-factor 1.0"
    );
    let of = |more: &str| launch(&format!("{qwen} {more}"), &["--world", "16", "--cluster", "h800x8:2"]);
    let a = of("--pipeline-model-parallel-size 2 --expert-model-parallel-size 8 --global-batch-size 128");
    let b = of("--pipeline-model-parallel-size 4 --expert-model-parallel-size 4 --global-batch-size 256");
    near(number(&a, "/estimate/tokens_per_s"), number(&b, "/estimate/tokens_per_s"), 0.03);
    assert!(remarked(&a, &["capacity"]));
    let one = of("--expert-model-parallel-size 8 --global-batch-size 128");
    near(states(&one), 53.9, 0.02);
    near(most(&one, "activations"), 50.0, 0.2);
    assert!(!fits(&one) && change(&one, "full recomputation").is_some());
}

#[test]
fn the_longest_packed_sample_is_the_number_to_bound() {
    // u13: a 14B actor at TP4 with 16 bytes per parameter: 59 GB of states; one fp32 tensor of 27.1k tokens' logits is
    // 3.84 GiB. The optimizer on the host frees 44 GB per device for 177 GB of host memory.
    let line = |more: &str| {
        format!(
            "--num-layers 48 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --group-query-attention \
             --num-query-groups 8 --add-qkv-bias --vocab-size 151936 --max-position-embeddings 131072 --seq-length 40960 \
             --global-batch-size 1 --tensor-model-parallel-size 4 --sequence-parallel --grad-reduce-in-bf16 \
             --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 {more}"
        )
    };
    let on = ["--world", "4", "--cluster", "h100x4"];
    let here = launch(&line(""), &on);
    near(states(&here), 59.0, 0.02);
    assert!(!fits(&here));
    assert!(most(&here, "head") * 1e9 > 40_960.0 * 151_936.0 / 4.0 * 4.0);
    let longest = change(&here, "sequences of at most").unwrap()["change"].as_str().unwrap().to_owned();
    let tokens: f64 = longest.split(' ').nth(4).unwrap().parse().unwrap();
    assert!((15_000.0..35_000.0).contains(&tokens), "{longest}");
    let moved = launch(&line("--optimizer-cpu-offload --use-precision-aware-optimizer"), &on);
    assert!(fits(&moved));
    near(states(&here) - states(&moved), 44.0, 0.02);
    near(number(&moved, "/host_memory/states_bytes") / 1e9, 177.0, 0.01);
}

#[test]
fn tensor_parallelism_inside_a_node_is_no_law() {
    // u17: TP8 against PP8 on one node of A100: with many micro-batches the bubble vanishes and PP8 is more than 30 % faster.
    let of = |batch: u32, how: &str| {
        let line = format!(
            "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 512 --max-position-embeddings 512 \
             --micro-batch-size 4 --global-batch-size {batch} --bf16 --vocab-size 30592 --lr 1e-4 --train-iters 10 --mock-data {how}"
        );
        let answer = check(&["--megatron", &line, "--world", "8", "--cluster", "a100x8"]);
        number(&answer, "/estimate/iteration_time_s")
    };
    let ratio = |batch| {
        of(batch, "--tensor-model-parallel-size 8 --sequence-parallel") / of(batch, "--pipeline-model-parallel-size 8")
    };
    assert!(ratio(2048) > 1.3, "{}", ratio(2048));
    assert!(ratio(4) < 0.8, "{}", ratio(4));
    // Somewhere between they cross, once.
    let ratios: Vec<f64> = [4, 8, 16, 32, 64, 128].map(ratio).to_vec();
    assert!(ratios.is_sorted(), "{ratios:?}");
}

#[test]
fn checkpoints_and_masks_are_host_memory() {
    let line = |more: &str| {
        format!("{LLAMA_70B} --tensor-model-parallel-size 8 --sequence-parallel --global-batch-size 8 {more}")
    };
    let of = |more: &str, host: &str| {
        launch(&line(more), &["--world", "64", "--cluster", "h100x8:8", "--host-memory", host])
    };
    // The old checkpoint format gathers 12 bytes per parameter on the first node: 70.6B of them.
    let saved = of("--seq-length 8192 --save here --save-interval 9 --ckpt-format torch", "500GB");
    near(number(&saved, "/host_memory/peak_bytes") / 1e9, 12.0 * 70.6, 0.03);
    assert_eq!(saved["host_memory"]["fits"], false);
    let sharded = of("--seq-length 8192 --save here --save-interval 9", "500GB");
    assert_eq!(sharded["host_memory"]["fits"], true);
    // A mask of a byte per pair of tokens: 2 workers with 2 samples of 131,072 tokens each.
    let long = "--seq-length 131072 --max-position-embeddings 131072 --context-parallel-size 4";
    let masks = of(long, "64GB");
    near(number(&masks, "/host_memory/peak_bytes") / 1e9, 4.0 * 131_072f64.powi(2) / 1e9, 0.01);
    assert_eq!(masks["host_memory"]["fits"], false);
    assert_eq!(of(&format!("{long} --no-create-attention-mask-in-dataloader"), "64GB")["host_memory"]["fits"], true);
}
