//! The exact search on every case: never above the known better plan, proven.

use espalier::cost::galvatron::{DpType, Micro, Plan, Repair, Repairs, Strategy, TpSpMode};
use espalier::space::galvatron::{GalvatronSpace, Partition, exact};
use espalier::{import, reference};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

fn cases() -> Vec<PathBuf> {
    let Some(root) = reference::path("galvatron") else { return Vec::new() };
    let mut out: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("case.json").is_file())
        .collect();
    out.sort();
    out
}

/// Reads Galvatron's notation, `dp_type` from the setting where there is no `f`.
fn strategy(text: &str, default: DpType) -> Strategy {
    let mut parts = text.split('-');
    let mut number = || parts.next().unwrap().trim_end_matches(['*', 'f']).parse::<u32>().unwrap();
    let (pp, k, dp) = (number(), number(), number());
    let rest: Vec<&str> = parts.collect();
    let (tp, sp) = if rest.contains(&"sp") { (1, k) } else { (k, 1) };
    let zero3 = text.split('-').nth(2).unwrap().ends_with('f');
    let dp_type = match (zero3, dp) {
        (true, _) => DpType::Zero3,
        (false, 1) => DpType::Ddp,
        _ => default,
    };
    Strategy { pp, tp, sp, cp: 1, dp, dp_type, checkpoint: rest.contains(&"c") }
}

/// Iteration time in seconds of the plan in `headroom.json`, priced here.
fn headroom_plan(space: &GalvatronSpace, doc: &Value) -> f64 {
    let default = space.model.setting.default_dp;
    let e = &doc["embedding"];
    let n = |key: &str| e[key].as_u64().unwrap() as u32;
    let micro =
        Micro { global_batch: space.model.setting.batches.global[0], chunks: doc["chunks"].as_u64().unwrap() as u32 };
    let plan = Plan {
        pp: doc["pp"].as_u64().unwrap() as u32,
        micro,
        partition: doc["priced"]["partition"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect(),
        layers: doc["plan"].as_array().unwrap().iter().map(|s| strategy(s.as_str().unwrap(), default)).collect(),
        embedding: Strategy {
            pp: n("pp"),
            tp: n("tp"),
            sp: n("sp"),
            cp: n("cp"),
            dp: n("dp"),
            dp_type: e["dp_type"].as_str().unwrap().parse().unwrap(),
            checkpoint: false,
        },
    };
    let mode = match doc["mode"].as_str().unwrap() {
        "tp_only" => TpSpMode::TpOnly,
        "sp_only" => TpSpMode::SpOnly,
        _ => TpSpMode::TpWithSp,
    };
    let price = space.model.price(&plan, mode, doc["global_buffer_tp"].as_u64().unwrap() as u32).unwrap();
    assert!(price.fits());
    price.time_ms * 1e-3
}

#[test]
fn every_case_is_solved_to_proven_optimality_and_never_above_the_known_plan() {
    let mut open: Vec<String> = Vec::new();
    for case in cases() {
        let begin = Instant::now();
        let model = import::galvatron::read(&case, &[], Repairs::NONE).unwrap();
        let read = begin.elapsed();
        let space = GalvatronSpace::new(model, Partition::Even).unwrap();
        let filled = begin.elapsed();
        let answer = exact::solve(&space);
        let solved = begin.elapsed();
        let json =
            |name: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(case.join(name)).unwrap()).unwrap() };
        let headroom = json("headroom.json")["best_time_s"].as_f64().unwrap();
        let galvatron = json("galvatron_result.json")["iteration_time_s"].as_f64().unwrap();
        let name = case.file_name().unwrap().to_str().unwrap();
        let (solution, objective) = answer.best.as_ref().unwrap();
        eprintln!(
            "{name}: {objective} headroom {headroom} galvatron {galvatron} gap {:?} relaxed {} solved {} weighed {} of {} | read {read:?} tables {:?} search {:?}",
            answer.gap(),
            answer.relaxed,
            answer.solved,
            answer.weighed,
            answer.tasks,
            filled - read,
            solved - filled
        );
        let price = space.price(solution.task as usize, &space.plan(solution)).unwrap();
        let worth = space.worth(solution);
        assert!(worth.excess == 0.0 && (worth.objective_s - objective).abs() <= 1e-12 * objective, "{name}: {worth:?}");
        assert!(price.fits(), "{name}");
        assert!((price.time_ms * 1e-3 - objective).abs() <= 1e-12 * objective, "{name}: {} {objective}", price.time_ms);
        let known = headroom_plan(&space, &json("headroom.json"));
        eprintln!("   same price of the known plan here: {known}");
        assert!(*objective <= known * (1.0 + 1e-9), "{name}: {known}");
        assert!(*objective <= galvatron * (1.0 + 1e-9), "{name}");
        open.extend(answer.gap().filter(|g| *g > 0.0).map(|g| format!("{name}: {g}")));
    }
    assert!(open.is_empty(), "gaps: {open:?}");
}

#[test]
fn what_repairs_and_uneven_partitions_change_is_priced_and_fits() {
    for case in cases() {
        let name = case.file_name().unwrap().to_str().unwrap();
        let mut variants = vec![
            (Repairs::NONE, Partition::Free),
            (Repairs::all(), Partition::Even),
            (Repairs::all(), Partition::Free),
        ];
        variants.extend(Repair::ALL.map(|r| (Repairs::NONE.with(r), Partition::Even)));
        for (repairs, partition) in variants {
            let model = import::galvatron::read(&case, &[], repairs).unwrap();
            let begin = Instant::now();
            let space = GalvatronSpace::new(model, partition).unwrap();
            let answer = exact::solve(&space);
            let (solution, objective) = answer.best.as_ref().unwrap();
            let plan = space.plan(solution);
            let price = space.price(solution.task as usize, &plan).unwrap();
            let names: Vec<_> = repairs.iter().map(|r| r.name()).collect();
            eprintln!(
                "{name} {names:?} {partition:?}: {objective} gap {:?} pp {} chunks {} {:?} {:?}",
                answer.gap(),
                plan.pp,
                plan.micro.chunks,
                plan.partition,
                begin.elapsed()
            );
            assert!(price.fits(), "{name} {names:?}");
            assert!(
                (price.time_ms * 1e-3 - objective).abs() <= 1e-12 * objective,
                "{name} {names:?} {} {objective}",
                price.time_ms
            );
        }
    }
}
