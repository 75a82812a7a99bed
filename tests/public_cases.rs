//! What users asked in public: the answers that hold numbers, as checks of this program's answers.

mod cli;
mod plans;
mod public;

use espalier::cluster::Cluster;
use espalier::cost::CostOptions;
use espalier::estimate::host::Duties;
use espalier::plan::{LayerStrategy, Recompute};
use espalier::question::SearchOptions;
use espalier::reference;
use espalier::rules::megatron::{Launch, broken, offers, parse};
use espalier::rules::{deepspeed, torchtitan};
use espalier::space::check::{Checked, check};
use espalier::space::host::host;
use espalier::space::planner::Inputs;
use plans::{case, even_plan};
use serde_json::Value;
use std::collections::BTreeSet;

/// Cases with a test here or in `public/`.
const ANSWERED: [&str; 53] = [
    "1", "2", "4", "5", "7", "8", "10", "11", "13", "14", "16", "19", "20", "22", "23", "25", "26", "28", "29", "31",
    "32", "34", "35", "37", "38", "40", "41", "43", "44", "46", "47", "49", "50", "52", "53", "55", "56", "u01", "u02",
    "u04", "u05", "u07", "u08", "u10", "u11", "u13", "u14", "u16", "u17", "u19", "u20", "u22", "u23",
];
/// Cases that do not apply, with the reason.
const OPEN: [(&str, &str); 2] = [
    (
        "17",
        "neither the length of the longest sample nor the batch of the run is published, so that its 65.2 GiB cannot be \
            asked for; the longest sample that fits, which is what to bound, is told (u13)",
    ),
    (
        "58",
        "generators and critics of reinforcement learning are not trained by the plan: only its trainer is a question here",
    ),
];

fn cases() -> Vec<Value> {
    let Some(path) = reference::path("cases/public_cases.jsonl") else { return Vec::new() };
    std::fs::read_to_string(path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn every_case_is_answered_or_listed_with_a_reason() {
    let known: BTreeSet<&str> = ANSWERED.into_iter().chain(OPEN.map(|o| o.0)).collect();
    for case in cases() {
        let id = case["id"].as_str().map_or_else(|| case["id"].to_string(), str::to_owned);
        assert!(known.contains(id.as_str()), "case {id} is neither answered nor listed");
    }
}

fn launch(line: &str, world: u64) -> Launch {
    let base = "--hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \
        --lr 1e-4 --train-iters 10 --mock-data --position-embedding-type rope --swiglu --disable-bias-linear --bf16 \
        --vocab-size 32000";
    let mut launch = parse::parse(&parse::words(&format!("{base} {line}")).unwrap(), world).unwrap();
    launch.environment = Some([("CUDA_DEVICE_MAX_CONNECTIONS".to_owned(), "1".to_owned())].into());
    launch.arch = Ok(9);
    launch
}

fn ids(launch: &Launch) -> Vec<&'static str> {
    broken(launch).iter().map(|b| b.id).collect()
}

fn offered(launch: &Launch, id: &str) -> String {
    broken(launch).iter().find(|b| b.id == id).map(|b| b.instead.join("; ")).unwrap_or_default()
}

#[test]
fn layers_that_nothing_divides_get_a_cut() {
    // 7: 30 layers on 4 stages; 13: 46 on 4; 8: 7 on 2.
    let l = launch("--num-layers 30 --pipeline-model-parallel-size 4", 8);
    assert_eq!(ids(&l), ["layers_divisible_by_pp"]);
    let offer = offered(&l, "layers_divisible_by_pp");
    assert!(offer.contains("first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"), "{offer}");
    assert_eq!(offers::first_and_last(46, 4, 1), Some((11, 12, 11)));
    assert_eq!(offers::first_and_last(7, 2, 1), Some((4, 0, 3)));
    // 22: 26/26/26/16 is legal, 24/24/24/22 is more even.
    let l = launch("--num-layers 94 --pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 16", 32);
    assert_eq!(l.layers_by_rank().unwrap(), [[26], [26], [26], [16]]);
    // 25: 94 layers in 32 chunks only with embedding and loss counted.
    let l = launch("--num-layers 94 --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 4", 256);
    assert!(ids(&l).contains(&"layers_divisible_by_pp"));
}

#[test]
fn flags_without_effect_are_refused() {
    // 10: uneven flags at PP 1; 11: first + last must be all layers at PP 2.
    let l = launch("--num-layers 20 --decoder-last-pipeline-num-layers 1", 8);
    assert_eq!(ids(&l), ["uneven_sum_without_middle"]);
    let l = launch(
        "--num-layers 48 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 11 --decoder-last-pipeline-num-layers 13",
        16,
    );
    assert_eq!(ids(&l), ["uneven_sum_without_middle"]);
}

#[test]
fn chunks_offer_their_divisors() {
    // 14: 6 layers per rank and 4 chunks: 1, 2, 3 or 6.
    let l = launch(
        "--num-layers 48 --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 4 --global-batch-size 64",
        64,
    );
    assert_eq!(ids(&l), ["layers_per_rank_divisible_by_vpp"]);
    assert!(offered(&l, "layers_per_rank_divisible_by_vpp").contains("2, 3, 6"));
}

#[test]
fn expert_grids_fold_into_the_dense_one() {
    let moe =
        "--num-layers 96 --num-experts 128 --moe-router-topk 8 --moe-grouped-gemm --moe-token-dispatcher-type alltoall";
    // 23: 16 * 4 * 4 = 256 is the wrong product; with ETP 1 the grid is 64.
    let grid = "--tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 16 --expert-model-parallel-size 4";
    assert_eq!(ids(&launch(&format!("{moe} {grid}"), 64)), ["world_divisible_by_etp_ep_pp"]);
    let l = launch(&format!("{moe} {grid} --expert-tensor-parallel-size 1"), 64);
    assert!(ids(&l).is_empty());
    assert_eq!((l.dp(), l.expert_dp()), (Ok(1), Ok(1)));
    // 34, 35: the default of ETP is TP.
    let l =
        launch(&format!("{moe} --tensor-model-parallel-size 4 --sequence-parallel --expert-model-parallel-size 4"), 4);
    assert!(offered(&l, "world_divisible_by_etp_ep_pp").contains("--expert-tensor-parallel-size 1"));
    // 37: EP and CP together are fine.
    let l = launch(&format!("{moe} --context-parallel-size 2 --expert-model-parallel-size 8"), 16);
    assert!(ids(&l).is_empty());
}

#[test]
fn heads_allow_some_degrees_only() {
    // 38, u23: 28 heads and 4 groups allow 1, 2, 4 and 28.
    let heads =
        "--num-layers 28 --hidden-size 3584 --num-attention-heads 28 --group-query-attention --num-query-groups 4";
    for (tp, legal) in [(1, true), (2, true), (4, true), (7, false), (8, false), (14, false)] {
        let l = launch(&format!("{heads} --tensor-model-parallel-size {tp}"), 56);
        let found = ids(&l).iter().any(|id| id.contains("by_tp") || id.contains("of_tp"));
        assert_eq!(!found, legal, "TP {tp}");
    }
}

#[test]
fn degrees_multiply_to_the_world() {
    // 28: TP8 CP16 PP16 on 16,384 devices is DP 8, not 4.
    let l = launch(
        "--num-layers 128 --tensor-model-parallel-size 8 --context-parallel-size 16 --pipeline-model-parallel-size 16",
        16_384,
    );
    assert_eq!(l.dp(), Ok(8));
}

#[test]
fn evaluation_needs_whole_groups_of_micro_batches() {
    // 43: 9 micro-batches in groups of 2 leave one; 8 or 10 do not.
    let line = |eval: u64| {
        format!(
            "--num-layers 32 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 8 --micro-batch-size 4 \
            --global-batch-size 1024 --eval-global-batch-size {eval}"
        )
    };
    assert_eq!(ids(&launch(&line(1152), 64)), ["eval_batch_fits_schedule"]);
    assert!(ids(&launch(&line(1024), 64)).is_empty() && ids(&launch(&line(1280), 64)).is_empty());
}

#[test]
fn pipelines_need_micro_batches() {
    // 40, 44: fewer micro-batches than stages.
    let words: Vec<&str> =
        "--parallelism.pipeline_parallel_degree 8 --training.local_batch_size 4".split(' ').collect();
    let l = torchtitan::Launch::parse(&words, Some(64)).unwrap();
    assert_eq!(torchtitan::UNCHECKED.broken(&l)[0].id, "micro_batches_fill_pipeline");
    let config =
        deepspeed::Config::parse(r#"{"train_batch_size": 8, "zero_optimisation": {"stage": 3}}"#, Some(8)).unwrap();
    assert_eq!(deepspeed::UNCHECKED.broken(&config)[0].id, "key_silently_ignored");
}

/// A plan of one strategy, priced.
fn priced(model: &str, machines: &str, sizes: (u64, u64), cut: (u32, u64), s: LayerStrategy) -> Checked {
    asked(model, machines, sizes, cut, s).1
}

/// The same with its question.
fn asked(
    model: &str,
    machines: &str,
    (batch, sequence): (u64, u64),
    (pp, micro_batches): (u32, u64),
    s: LayerStrategy,
) -> (Inputs, Checked) {
    let c = case(model, machines, batch, sequence);
    let plan = even_plan(&c, pp, 1, micro_batches, &s).unwrap();
    let cluster = Cluster { name: machines.into(), pools: vec![c.pool], between_pools: None, between_sites: None };
    let inputs =
        Inputs { model: c.model, cluster, job: c.job, search: SearchOptions::default(), cost: CostOptions::default() };
    let checked = check(&inputs, &plan).unwrap();
    (inputs, checked)
}

fn states_gb(c: &Checked) -> f64 {
    let most = |f: fn(&espalier::estimate::StageMemory) -> f64| {
        c.estimate.stages.iter().map(|s| f(&s.memory)).fold(0.0, f64::max)
    };
    most(|m| m.weights_bytes + m.gradients_bytes + m.optimizer_bytes) / 1e9
}

#[test]
fn states_decide_what_fits_whatever_the_sequence() {
    // 5: Llama-2-7B on eight A100 of 40 GB at 64 tokens: 121 GB of states, 50.5 sharded; TP2 needs 30.3.
    let s = LayerStrategy::PLAIN;
    let whole = priced("llama2-7b", "a100-40x8", (8, 64), (1, 1), s);
    let sharded = priced("llama2-7b", "a100-40x8", (8, 64), (1, 1), LayerStrategy { zero: 1, ..s });
    let cut = priced(
        "llama2-7b",
        "a100-40x8",
        (8, 64),
        (1, 2),
        LayerStrategy { zero: 1, tp: 2, sequence_parallel: true, ..s },
    );
    assert!(!whole.fits && !sharded.fits && cut.fits);
    for (found, expected) in [(&whole, 121.0), (&sharded, 50.5), (&cut, 30.3)] {
        assert!((states_gb(found) / expected - 1.0).abs() < 0.05, "{} of {expected}", states_gb(found));
    }
    // 26: at DP 1 the distributed optimizer saves nothing: 79.4 GB on 16 devices, 52.9 on 32.
    let tp8 = LayerStrategy { tp: 8, sequence_parallel: true, zero: 1, ..s };
    let small = priced("llama3-70b", "h100x8:2", (16, 2048), (2, 16), LayerStrategy { zero: 0, ..tp8 });
    let large = priced("llama3-70b", "h100x8:4", (16, 2048), (2, 8), tp8);
    assert!(!small.fits && large.fits);
    assert!((states_gb(&small) / 79.4 - 1.0).abs() < 0.05 && (states_gb(&large) / 52.9 - 1.0).abs() < 0.05);
    // 53: Llama-2-7B with micro-batches of 4 on two devices: 60.7 GB of states and 36 of activations.
    let tp2 = LayerStrategy { tp: 2, sequence_parallel: false, zero: 0, ..s };
    assert!(!priced("llama2-7b", "a100x2", (8, 4096), (1, 2), tp2).fits);
    // 46: 12 bytes per parameter at DP 2 with a distributed optimizer.
    let c = case("llama2-13b", "a100x8", 8, 2048);
    let shard = priced(
        "llama2-13b",
        "a100x8",
        (8, 2048),
        (1, 4),
        LayerStrategy { tp: 4, sequence_parallel: true, zero: 1, ..s },
    );
    let per_parameter = states_gb(&shard) * 1e9 / (c.model.parameters_total() as f64 / 4.0);
    assert!((per_parameter - 12.0).abs() < 0.1, "{per_parameter}");
}

#[test]
fn offloaded_states_are_host_memory() {
    let offload = Duties { optimizer: 1.0, ..Duties::default() };
    // u10: Qwen3-30B-A3B with its optimizer on the host of one node: 820 GB at the second step.
    let s = LayerStrategy { ep: 8, zero: 1, ..LayerStrategy::PLAIN };
    let (question, mut given) = asked("qwen3-30b-a3b", "h100x8", (64, 4096), (1, 8), s);
    let before = given.estimate.peak_memory_bytes;
    let told = host(&mut given, &offload, &question).unwrap();
    assert!((told.peak_bytes / 820e9 - 1.0).abs() < 0.08, "{told:?}");
    assert!(
        given.estimate.peak_memory_bytes < before
            && given.estimate.stages.iter().all(|s| s.memory.optimizer_bytes == 0.0)
    );
    // u11: 840 GB of states for each trained model of 70B on one node.
    let tp8 = LayerStrategy { tp: 8, sequence_parallel: true, ..LayerStrategy::PLAIN };
    let (question, mut given) = asked("llama2-70b", "h100x8", (8, 1024), (1, 8), tp8);
    let told = host(&mut given, &offload, &question).unwrap();
    assert!((told.states_bytes / 840e9 - 1.0).abs() < 0.03, "{told:?}");
}

#[test]
fn idle_recomputation_and_empty_shards_are_told() {
    // 19: with fused attention, recomputing its core saves nothing.
    let l = launch("--num-layers 32 --recompute-activations", 8);
    assert!(espalier::rules::megatron::ADVICE.broken(&l).iter().any(|b| b.id == "core_attn_recompute_is_idle"));
    // 56: no FSDP where nothing is left to cut.
    let c = case("llama2-7b", "a100x2", 8, 2048);
    let s = LayerStrategy { tp: 2, sequence_parallel: true, ..LayerStrategy::PLAIN };
    let plan = even_plan(&c, 1, 1, 8, &s).unwrap();
    let view = espalier::export::view::View::new(&c.model, &c.job, &c.pool, &plan).unwrap();
    let text = espalier::export::write(espalier::export::Form::Accelerate, &view).files.remove(0).text;
    assert!(!text.contains("fsdp_config") && text.contains("parallelism_config_tp_size: 2"), "{text}");
}

#[test]
fn experts_need_data_parallelism_of_their_own() {
    // u02: one node with EP 8 has expert DP 1: 76.8 GB of states; four nodes have 42.4.
    let s = LayerStrategy { ep: 8, zero: 1, ..LayerStrategy::PLAIN };
    let node = priced("qwen3-30b-a3b", "h100x8", (64, 4096), (1, 8), s);
    let four =
        priced("qwen3-30b-a3b", "h100x8:4", (64, 4096), (1, 2), LayerStrategy { recompute: Recompute::Full, ..s });
    assert!(!node.fits && four.fits);
    assert!((states_gb(&node) / 76.8 - 1.0).abs() < 0.05, "{}", states_gb(&node));
    assert!((states_gb(&four) / 42.4 - 1.0).abs() < 0.05, "{}", states_gb(&four));
}
