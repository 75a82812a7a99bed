//! Two fast pairs and a slow link between them: parallel groups follow the links (SYSTEMS 2.3).

mod planning;

use espalier::cost::CostOptions;
use espalier::plan::{LayerStrategy, Plan};
use espalier::question::Question;
use espalier::space::answer::{Answer, NEAR_TIE};
use espalier::space::planner::{Inputs, Watch, plan};
use planning::{Recipe, named, price, strategy};
use std::path::Path;

fn with_micro_batches(m: u64) -> Inputs {
    let mut inputs = named("four_devices");
    inputs.job.global_batch = m;
    inputs
}

fn answer(inputs: &Inputs) -> Answer {
    plan(inputs, Watch::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The one strategy of all layers.
fn strategy_of(plan: &Plan, inputs: &Inputs) -> LayerStrategy {
    let spine = espalier::plan::Spine::new(&inputs.model, &inputs.job);
    plan.uniform(&spine).expect("one strategy for all layers")
}

/// Tensor parallelism inside the pairs, two stages across, twelve layers dealt evenly.
fn inside_and_across(inputs: &Inputs) -> f64 {
    let layers = LayerStrategy { zero: 0, ..strategy(2, 1, 1) };
    price(inputs, &Recipe::even(inputs, layers, 2, 1, 1).plan(inputs)).iteration_time_s
}

fn four_stages(inputs: &Inputs) -> f64 {
    price(inputs, &Recipe::even(inputs, LayerStrategy::PLAIN, 4, 1, 1).plan(inputs)).iteration_time_s
}

#[test]
fn tensor_parallelism_stays_in_the_pairs_and_stages_stand_across_the_slow_link() {
    for m in [4, 8, 16] {
        let inputs = with_micro_batches(m);
        let a = answer(&inputs);
        assert_eq!((a.plan.pipeline, a.plan.micro_batches), (2, m));
        assert_eq!(strategy_of(&a.plan, &inputs).tp, 2, "m {m}");
        let groups: Vec<_> = a.placement.iter().map(|stage| stage.tp_groups.clone()).collect();
        assert_eq!(groups, [[[0, 1]], [[2, 3]]]);
        let reason = |dimension: &str| a.reasons.iter().find(|r| r.dimension == dimension).unwrap().reason.clone();
        assert!(reason("tp").contains("because the slow link `slow link`"), "{}", reason("tp"));
        assert!(reason("pp").contains("`slow link`"), "{}", reason("pp"));
        assert!(a.estimate.iteration_time_s <= inside_and_across(&inputs) * (1.0 + 1e-9));
    }
}

#[test]
fn the_order_of_the_plans_is_that_of_the_reference() {
    for m in [4, 8, 16] {
        let inputs = with_micro_batches(m);
        let across = |tp: u32, pp: u32| {
            let layers = LayerStrategy { zero: 0, ..strategy(tp, 1, 1) };
            price(&inputs, &Recipe::even(&inputs, layers, pp, 1, 1).plan(&inputs)).iteration_time_s
        };
        let (inside, four, tp4) = (inside_and_across(&inputs), four_stages(&inputs), across(4, 1));
        println!("m {m}: TP2 PP2 {inside:.3} s, PP4 {four:.3} s, TP4 {tp4:.3} s");
        assert!(inside < four && four < tp4, "m {m}");
        // Reductions over the slow link: the reference has 5 to 11 times the time.
        assert!(tp4 > 4.0 * inside, "m {m}");
    }
}

#[test]
fn with_many_micro_batches_four_stages_are_a_near_tie() {
    let inputs = with_micro_batches(64);
    let (inside, four) = (inside_and_across(&inputs), four_stages(&inputs));
    println!("m 64: TP2 PP2 {inside:.3} s, PP4 {four:.3} s");
    let a = answer(&inputs);
    let others: Vec<u32> = a.alternatives.iter().filter(|x| x.near_tie).map(|x| x.plan.pipeline).collect();
    let named = |p: u32| a.plan.pipeline == p || others.contains(&p);
    println!("answer PP{}, near ties {others:?}", a.plan.pipeline);
    assert!(named(2) && named(4), "both are the answer or a near-tie: PP{} and {others:?}", a.plan.pipeline);
    assert!((inside / four - 1.0).abs() < 2.0 * NEAR_TIE);
}

#[test]
fn renumbering_the_devices_renumbers_the_groups_and_changes_no_cost() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("search_configs/four_devices.ron");
    let text = std::fs::read_to_string(file).unwrap();
    let renumbered = text.replace("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]");
    assert_ne!(text, renumbered);
    let ask = |text: &str| {
        let question = Question::parse(text, "q.ron").unwrap();
        let (model, cluster) = question.resolve().unwrap();
        answer(&Inputs { model, cluster, job: question.job, search: question.search, cost: CostOptions::default() })
    };
    let (before, after) = (ask(&text), ask(&renumbered));
    assert_eq!(before.plan, after.plan);
    assert_eq!(before.estimate, after.estimate);
    let groups: Vec<_> = after.placement.iter().map(|stage| stage.tp_groups.clone()).collect();
    assert_eq!(groups, [[[0, 2]], [[1, 3]]]);
}
