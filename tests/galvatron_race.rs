//! Tree and genetic search on Galvatron's questions, not seeded by the exact answer: evaluations until they are within 1 %
//! and 0.1 % of the proven optimum. The whole table, with as many seeds as `ESPALIER_SEEDS` says (30 if it says nothing):
//! `cargo test --release --test galvatron_race -- --ignored --nocapture`.

use espalier::cost::galvatron::Repairs;
use espalier::search::budget::Budget;
use espalier::search::erased::solve;
use espalier::search::problem::Problem;
use espalier::search::registry::{Choice, build};
use espalier::search::run::Request;
use espalier::search::score::Score;
use espalier::space::galvatron::{GalvatronSpace, Partition};
use espalier::{import, reference};
use std::path::{Path, PathBuf};

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

/// Evaluations until within 1 % and 0.1 % of the optimum, by seed, sorted; `None` where it was not reached.
fn reached(space: &GalvatronSpace, backend: &str, seeds: u64, evaluations: u64) -> [Vec<Option<u64>>; 2] {
    let optimum = space.answer().best.as_ref().unwrap().1;
    let backend = build(&Choice::named(backend)).unwrap();
    let mut out = [Vec::new(), Vec::new()];
    for seed in 0..seeds {
        let budget = Budget { target: Some(optimum * 1.001), ..Budget::evaluations(evaluations) };
        let outcome = solve(space, backend.as_ref(), Request::new(seed, budget)).unwrap();
        for (list, factor) in out.iter_mut().zip([1.01, 1.001]) {
            let within = |s: Score| s.objective().is_some_and(|s| s <= optimum * factor);
            list.push(outcome.trace.improvements.iter().find(|i| within(i.score)).map(|i| i.evaluations));
        }
        assert!(outcome.best.is_none_or(|b| b.score.objective().is_none_or(|s| s >= optimum * (1.0 - 1e-12))));
    }
    for list in &mut out {
        list.sort_by_key(|n| n.unwrap_or(u64::MAX));
    }
    out
}

fn question(case: &Path) -> GalvatronSpace {
    GalvatronSpace::new(import::galvatron::read(case, &[], Repairs::NONE).unwrap(), Partition::Even).unwrap()
}

#[test]
fn tree_and_genetic_search_come_close_without_help() {
    for case in cases().iter().filter(|c| ["c01", "c03", "c09"].iter().any(|p| c.display().to_string().contains(p))) {
        let space = question(case);
        for backend in ["mcts", "genetic"] {
            let [near, _] = reached(&space, backend, 3, 2_000);
            assert!(near.iter().all(Option::is_some), "{} {backend}: {near:?}", case.display());
        }
    }
}

#[test]
#[ignore = "minutes: the whole table"]
fn table() {
    let seeds = std::env::var("ESPALIER_SEEDS").map_or(30, |n| n.parse().expect("ESPALIER_SEEDS is a number of seeds"));
    const EVALUATIONS: u64 = 10_000;
    println!("| case | log10 of plans | backend | evaluations to 1 %, median | seeds | to 0.1 %, median | seeds |");
    println!("|---|---|---|---|---|---|---|");
    for case in cases() {
        let space = question(&case);
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let log10 = space.space_log10().unwrap();
        for backend in ["random", "mcts", "genetic"] {
            let cells = reached(&space, backend, seeds, EVALUATIONS).map(|list| {
                let median = list[list.len() / 2].map_or(format!("> {EVALUATIONS}"), |n| n.to_string());
                format!("{median} | {}/{seeds}", list.iter().flatten().count())
            });
            println!("| {name} | {log10:.0} | {backend} | {} |", cells.join(" | "));
        }
    }
}
