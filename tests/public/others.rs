//! Sizes, schedules and precisions that no launch says.

use super::{near, number};
use crate::cli::{run, small};
use crate::plans::{Case, case, even_plan};
use crate::{priced, states_gb};
use espalier::cost::CostOptions;
use espalier::estimate::Estimator;
use espalier::job::Precision;
use espalier::pipeline::dsl::Question;
use espalier::pipeline::generators::shipped;
use espalier::plan::{LayerStrategy, Recompute};
use espalier::question::SearchOptions;
use espalier::space::check::check;
use espalier::space::planner::{Inputs, Watch, plan};

#[test]
fn sharded_states_need_38_cards_of_32_gigabytes() {
    // u16: Llama-2-70B at 16 bytes a parameter on V100: 38 cards hold the states, 40 train; the whole weights fit no card.
    let ran = run(&[
        "min-gpus",
        "--model",
        "llama2-70b",
        "--cluster",
        "v100x8:2",
        "--global-batch",
        "240",
        "--seq",
        "1024",
        "--precision",
        "fp16",
        "--gradients",
        "fp16",
        "--json",
    ]);
    let answer = ran.json();
    assert_eq!(
        (&answer["states_need_devices"], &answer["smallest"]["devices"]),
        (&38.into(), &40.into()),
        "{}",
        ran.err
    );
    let notes = answer["notes"].to_string();
    assert!(notes.contains("138 GB") && notes.contains("meta device"), "{notes}");
}

#[test]
fn a_trillion_parameters_need_192_large_devices() {
    // 52: Kimi-K2 at EP192 on MI300X: 1.026T * 18 / 192 = 96 GB; half as many devices do not do.
    let Some(path) = espalier::reference::path("hf/configs/moonshotai__Kimi-K2-Instruct.json") else { return };
    let config = std::fs::read_to_string(path).unwrap();
    let model = espalier::model::import::from_json("kimi-k2", &config, None).unwrap();
    let of = |nodes: u64, ep: u32| {
        let devices = nodes * 8;
        let pool = espalier::cluster::instances::cluster(&format!("mi300xx8:{nodes}")).unwrap().pools.remove(0);
        let job = espalier::job::Job::new(devices, 4096);
        let spine = espalier::plan::Spine::new(&model, &job);
        let c = Case { model: model.clone(), job, pool, spine };
        let s = LayerStrategy { ep, zero: 1, recompute: Recompute::Full, ..LayerStrategy::PLAIN };
        check(&inputs(&c, None), &even_plan(&c, 1, 1, 1, &s).unwrap()).unwrap()
    };
    let (all, half) = (of(24, 192), of(12, 96));
    // Everything that is no expert stands on every device with 6 bytes and more.
    let dense = 6.0 * 11.7;
    assert!((96.0..96.0 + dense * 1.1).contains(&states_gb(&all)), "{}", states_gb(&all));
    assert!(all.fits && !half.fits);
}

fn inputs(c: &Case, target: Option<&str>) -> Inputs {
    let cluster = espalier::cluster::Cluster {
        name: "case".into(),
        pools: vec![c.pool.clone()],
        between_pools: None,
        between_sites: None,
    };
    let search = SearchOptions { target: target.map(str::to_owned), ..SearchOptions::default() };
    Inputs { model: c.model.clone(), cluster, job: c.job.clone(), search, cost: CostOptions::default() }
}

#[test]
fn schedules_come_with_the_map_of_their_stages() {
    // 41: a zero-bubble V at PP4 puts stages 0 and 7 on rank 0, 1 and 6 on rank 1.
    let schedule = shipped("zb_v", &Question::new(4, 8)).unwrap();
    assert_eq!(schedule.placement.device_of(), [0, 1, 2, 3, 3, 2, 1, 0]);
    let folder = crate::cli::folder("public-zbv");
    let file = folder.join("s.json");
    let ran = run(&[
        "schedule",
        "--devices",
        "4",
        "--micro-batches",
        "8",
        "--times",
        "1:1:1",
        "--placement",
        "v",
        "--max-evals",
        "20",
        "-o",
        file.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let csv = run(&["export", file.to_str().unwrap(), "--to", "torch-csv", "--json"]).json();
    assert_eq!(csv["device_of_stage"], serde_json::json!([0, 1, 2, 3, 3, 2, 1, 0]));
}

#[test]
fn memory_under_dualpipe_is_told_by_rank() {
    // 47: Qwen3-30B-A3B on 32 H100, PP4 EP8 under DualPipeV: 62.3 GiB on rank 0 and 58.0 on rank 1; routing varies by 1.2.
    let mut c = case("qwen3-30b-a3b", "h100x8:4", 1024, 4096);
    c.job.expert_imbalance = 1.2;
    let s = LayerStrategy { ep: 8, zero: 1, ..LayerStrategy::PLAIN };
    let m = 32;
    c.job.global_batch = 8 * m;
    let given = even_plan(&c, 4, 2, m, &s).unwrap();
    let schedule = shipped("dualpipe_v", &Question::new(4, m as usize)).unwrap();
    let estimator = Estimator::new(&c.model, &c.spine, &c.pool, &c.job, CostOptions::default());
    let estimate = estimator.estimate_under(&given, &schedule, 0.0).unwrap();
    let gib: Vec<f64> = estimate.stages.iter().map(|s| s.memory.reserved_bytes / f64::from(1u32 << 30)).collect();
    near(gib[0], 62.3, 0.15);
    near(gib[1], 58.0, 0.15);
    assert!(gib[0] > gib[1], "{gib:?}");
}

#[test]
fn no_pipeline_beats_both_ways_of_sharding_one() {
    // u01: Qwen3-30B-A3B on 64 H100: PP4 ran at 4,580 and 6,125 tokens/s/GPU; the states of PP1 with EP8 are 36.7 GB.
    let c = case("qwen3-30b-a3b", "h100x8:8", 1024, 4096);
    let s = LayerStrategy { ep: 8, zero: 1, recompute: Recompute::Full, ..LayerStrategy::PLAIN };
    let one = priced("qwen3-30b-a3b", "h100x8:8", (1024, 4096), (1, 16), s);
    near(states_gb(&one), 36.7, 0.02);
    let sixteen = priced("qwen3-30b-a3b", "h100x8:8", (1024, 4096), (1, 16), LayerStrategy { ep: 16, ..s });
    near(states_gb(&sixteen), 25.8, 0.02);
    let mut question = inputs(&c, Some("megatron"));
    question.search.backend = Some("random".to_owned());
    question.search.max_evals = Some(1);
    let answer = plan(&question, Watch { quick: true, ..Watch::default() }).unwrap();
    assert!(answer.estimate.tokens_per_s_per_device > 6125.0);
    assert!(one.fits && one.estimate.tokens_per_s_per_device > 4580.0);
}

#[test]
fn fp8_wants_a_plan_of_its_own() {
    // u20: FP8 shrinks products only: what it gains on a plan is bounded by their share, and a plan made for it gains more.
    let mut c = case("llama3-70b", "h100x8:8", 128, 8192);
    let s = LayerStrategy { tp: 8, sequence_parallel: true, zero: 1, ..LayerStrategy::PLAIN };
    let given = even_plan(&c, 2, 1, 32, &s).unwrap();
    let before = check(&inputs(&c, None), &given).unwrap().estimate;
    c.job.precision = Precision::Fp8;
    let switched = check(&inputs(&c, None), &given).unwrap().estimate;
    let time = &before.stages[0].time;
    let rest = 1.0 - time.compute_s / before.iteration_time_s;
    let gain = before.iteration_time_s / switched.iteration_time_s;
    assert!(gain > 1.1 && 1.0 - 1.0 / gain < 1.0 - rest, "{gain} with {rest} of other things");
    let mut question = inputs(&c, Some("megatron"));
    question.search.backend = Some("random".to_owned());
    question.search.max_evals = Some(1);
    let planned = plan(&question, Watch { quick: true, ..Watch::default() }).unwrap();
    assert!(planned.estimate.iteration_time_s < 0.95 * switched.iteration_time_s);
    // Fewer tensor-parallel ways than the plan that was switched.
    let widest = planned.plan.chunks.iter().flat_map(|c| c.parts()).map(|(_, s)| s.tp).max().unwrap();
    assert!(widest < 8, "TP {widest}");
}

#[test]
fn small_questions_say_what_changes_nothing() {
    let ran = run(&small("plan", &["--split-penalty", "3%", "--schedule-evals", "5", "--json"]));
    let notes = ran.json()["notes"].to_string();
    assert!(
        notes.contains("split_penalty changes nothing") && notes.contains("schedule_evals changes nothing"),
        "{notes}"
    );
    assert!(number(&ran.json(), "/estimate/iteration_time_s") > 0.0);
}
