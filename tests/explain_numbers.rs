//! `espalier explain`: the constants that carry an answer, and that what is said to hang on them does.

mod cli;
mod planning;

use cli::{folder, run, small};
use espalier::estimate::numbers::{Weighed, World, weigh};
use espalier::estimate::{EstimateError, Estimator};
use espalier::job::{Job, Precision};
use espalier::plan::{Plan, Spine};
use espalier::space::planner::Inputs;
use planning::{Recipe, machines, preset, price, question, strategy};
use serde_json::Value;

fn weights(inputs: &Inputs, plan: &Plan) -> Vec<Weighed> {
    let world = World { pool: inputs.cluster.pools[0].clone(), cost: inputs.cost };
    let spine = Spine::new(&inputs.model, &inputs.job);
    weigh(&world, |world: &World| -> Result<_, EstimateError> {
        Estimator::new(&inputs.model, &spine, &world.pool, &inputs.job, world.cost).estimate(plan)
    })
    .unwrap()
}

/// Plans that use every kind of parallelism, on devices and links of several kinds.
fn plans() -> Vec<(Inputs, Plan)> {
    let job = |batch, precision| Job { precision, ..Job::new(batch, 4096) };
    [
        ("llama3-8b", "h100x8:2", job(64, Precision::Bf16), strategy(4, 2, 1), 2, 2),
        ("llama3-8b", "a100x8:2", job(32, Precision::Bf16), strategy(1, 1, 1), 1, 1),
        ("mixtral-8x7b", "b200x8:4", job(64, Precision::Fp8), strategy(2, 1, 4), 4, 1),
        ("llama2-13b", "p4d:4", job(64, Precision::Bf16), strategy(8, 1, 1), 2, 1),
    ]
    .into_iter()
    .map(|(model, cluster, job, layers, pipeline, chunks)| {
        let inputs = question(preset(model), machines(cluster), job);
        let plan = Recipe::even(&inputs, layers, pipeline, chunks, 1).plan(&inputs);
        (inputs, plan)
    })
    .collect()
}

fn sum(weights: &[Weighed], of: impl Fn(&Weighed) -> bool, weight: impl Fn(&Weighed) -> f64) -> f64 {
    weights.iter().filter(|w| of(w)).map(weight).sum()
}

#[test]
fn a_world_twice_as_fast_takes_half_the_time() {
    // Every term of a time is an amount over a rate, or a time: so by Euler's theorem the elasticities of all rates sum to -1
    // with those of all times counted the other way round.
    for (inputs, plan) in plans() {
        let weights = weights(&inputs, &plan);
        let rates = sum(&weights, |w| w.unit.ends_with("/s"), |w| w.time);
        let times = sum(&weights, |w| w.unit == "s", |w| w.time);
        assert!((rates - times + 1.0).abs() < 5e-3, "{rates} {times} {}", inputs.model.name);
        assert!(sum(&weights, |w| w.unit.ends_with("/s") || w.unit == "s", |w| w.memory.abs()) < 1e-9);
    }
}

#[test]
fn what_memory_hangs_on_adds_up() {
    for (inputs, plan) in plans() {
        let weights = weights(&inputs, &plan);
        let estimate = price(&inputs, &plan);
        let of = |name: &str| weights.iter().find(|w| w.name == name).unwrap_or_else(|| panic!("{name}"));
        // Reserved memory is allocated memory times a factor, and the context.
        let context = of("model.context_bytes");
        assert!((context.memory - context.value / estimate.peak_memory_bytes).abs() < 1e-5);
        assert!((of("software.allocator").memory + context.memory - 1.0).abs() < 1e-4);
        assert!((of("device.memory").fullness + 1.0).abs() < 1e-6 && of("device.memory").time == 0.0);
        assert!((of("model.safe_share").fullness + 1.0).abs() < 1e-6 && of("model.safe_share").memory == 0.0);
        for w in &weights {
            let usable = matches!(w.name.as_str(), "device.memory" | "model.safe_share");
            assert!(usable || (w.fullness - w.memory).abs() < 1e-9, "{}", w.name);
        }
    }
}

#[test]
fn every_constant_has_a_source_and_a_date_and_the_heaviest_stand_first() {
    for (inputs, plan) in plans() {
        let weights = weights(&inputs, &plan);
        assert!(weights.iter().all(|w| !w.source.is_empty() && w.date == "2026-11"), "{weights:?}");
        assert!(weights.windows(2).all(|w| w[0].weight() >= w[1].weight()));
        let carrying = weights.iter().filter(|w| !w.is_idle()).count();
        assert!(carrying >= 12 && carrying < weights.len(), "{carrying} of {}", weights.len());
        let experts = inputs.model.name.contains("mixtral");
        let grouped = weights.iter().find(|w| w.name == "device.grouped_gemm.plateau").unwrap();
        assert_eq!(grouped.time != 0.0, experts);
    }
}

#[test]
fn a_device_that_is_changed_as_said_changes_the_price_as_said() {
    let folder = folder("explain");
    let path = folder.join("plan.json");
    let file = path.display().to_string();
    assert_eq!(run(&small("plan", &["--target-gap", "10%", "-o", &file])).code, 0);
    let told = run(&["explain", &file, "--numbers", "--json"]);
    let document = told.json();
    assert_eq!((told.code, document["schema"].as_str()), (0, Some("espalier/explain/1")));
    let numbers = document["numbers"].as_array().unwrap();
    let of = |name: &str| numbers.iter().find(|n| n["name"] == name).unwrap_or_else(|| panic!("{name}")).clone();
    let before = document["estimate"]["iteration_time_s"].as_f64().unwrap();
    let mut plan: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let device = &plan["question"]["cluster"]["pools"][0]["device"];
    assert!(device["gemm"]["plateau"].is_number(), "{device}");
    let gemm = of("device.gemm.plateau");
    let factor = 1.002;
    plan["question"]["cluster"]["pools"][0]["device"]["gemm"]["plateau"] =
        (gemm["value"].as_f64().unwrap() * factor).into();
    std::fs::write(&path, plan.to_string()).unwrap();
    let after = run(&["check", &file, "--json"]).json()["estimate"]["iteration_time_s"].as_f64().unwrap();
    let said = gemm["time"].as_f64().unwrap();
    assert!(said < -0.2, "{said}");
    assert!(((after / before).ln() / f64::ln(factor) - said).abs() < 0.01, "{after} {before} {said}");
}

#[test]
fn people_read_reasons_and_the_heaviest_constants() {
    let folder = folder("explain-text");
    let file = folder.join("plan.json").display().to_string();
    assert_eq!(run(&small("plan", &["--target-gap", "10%", "-o", &file])).code, 0);
    let text = run(&["explain", &file]);
    assert_eq!(text.code, 0, "{}", text.err);
    for says in ["Time of one iteration", "Why", "What it hangs on most", "--numbers"] {
        assert!(text.out.contains(says), "{says}: {}", text.out);
    }
    let all = run(&["explain", &file, "--numbers"]).out;
    assert!(all.contains("device.peak.half") && all.contains("on which nothing hangs here") && all.contains("2026-11"));
    assert!(all.lines().all(|l| l.chars().count() <= 130), "{all}");
    let wrong = folder.join("cut.json").display().to_string();
    std::fs::write(&wrong, &std::fs::read_to_string(&file).unwrap()[..200]).unwrap();
    let refused = run(&["explain", &wrong, "--json"]);
    assert_eq!((refused.code, refused.error()["file"].as_str()), (2, Some(wrong.as_str())));
    assert_eq!(run(&["explain", "no such file", "--json"]).code, 2);
}
