//! Small spaces whose best plan is known by enumeration: exact search finds it and proves it, tree and genetic search come
//! within 1 % where random search does not, and leaving out dominated strategies loses nothing.
//!
//! `ESPALIER_FULL=1` searches every instance with 20 seeds (minutes; the table of experiments/search_quality); otherwise one
//! to four seeds each, all of which must come close. `ESPALIER_SHOW=1` prints every gap.

#[path = "planning/brute.rs"]
mod brute;
#[path = "planning/instances.rs"]
mod instances;
mod planning;

use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::exact::backend::Exact;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::outcome::Outcome;
use espalier::search::problem::Fidelity;
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::space::LayerwiseSpace;
use espalier::space::fast::Choice;
use instances::Instance;
use rayon::prelude::*;
use std::sync::OnceLock;

const EVALUATIONS: u64 = 20_000;
const CLOSE: f64 = 0.01;
/// A tenth of the evaluations, and how close the median search comes with them.
const FEW: u64 = 2_000;
const CLOSE_EARLY: f64 = 0.03;
/// Medians after few evaluations that may be farther away. One is: about half of the seeds of genetic search end 7 % above
/// the optimum of nine narrow layers, so that its median depends on which seeds are asked.
const EARLY_MISSES: usize = 1;
const ROUNDING: f64 = 1e-9;

type Layerwise = dyn for<'a> Backend<LayerwiseSpace<'a>>;

fn search(space: &LayerwiseSpace<'_>, backend: &Layerwise, evaluations: u64, seed: u64) -> Outcome<Choice> {
    let request = Request { fidelity: Fidelity::Fast, ..Request::new(seed, Budget::evaluations(evaluations)) };
    solve(space, backend, request).unwrap_or_else(|e| panic!("{e}"))
}

/// The least closed form among the solutions that a search kept.
fn least(space: &LayerwiseSpace<'_>, outcome: &Outcome<Choice>) -> f64 {
    let price = |x: &Choice| space.fast(x.task as usize).map_or(f64::INFINITY, |f| f.price(&x.sizes, &x.options).0);
    let feasible = outcome.archive.iter().filter(|e| e.score.is_feasible());
    feasible.map(|e| price(&e.solution)).fold(f64::INFINITY, f64::min)
}

/// Least closed form of every instance, by enumeration, once for all tests.
fn truths() -> &'static [f64] {
    static TRUTHS: OnceLock<Vec<f64>> = OnceLock::new();
    TRUTHS.get_or_init(|| {
        let of = |i: &Instance| i.inputs.with_space(|space| brute::enumerate(&space, false).closed);
        instances::all().par_iter().map(|i| of(i).unwrap_or_else(|e| panic!("{e}"))).collect()
    })
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|v| v == "1")
}

#[test]
fn exact_search_finds_and_proves_what_enumeration_finds() {
    for (instance, &truth) in instances::all().iter().zip(truths()) {
        let name = instance.name;
        let checked = instance.inputs.with_space(|space| {
            let (log, most) = brute::paths(&space);
            assert!(log >= 6.0, "{name}: 1e{log:.1} plans only");
            let outcome = search(&space, &Exact::default(), EVALUATIONS, 0);
            let (found, bound) = (least(&space, &outcome), outcome.bound.unwrap_or(0.0));
            println!(
                "{name}: 1e{log:.1} plans, up to {most} strategies per layer; {:.5} s, exact {found:.5} s, bound {bound:.5} s",
                truth
            );
            assert!((found / truth - 1.0).abs() <= ROUNDING, "{name}: {found} is not {truth}");
            assert!((bound / truth - 1.0).abs() <= ROUNDING, "{name}: bound {bound} of {truth}");
            if instance.exact_form {
                let best = outcome.best.and_then(|b| b.score.objective()).unwrap_or(f64::NAN);
                assert!((best / truth - 1.0).abs() <= ROUNDING, "{name}: {best} simulated");
            }
        });
        assert_eq!(checked, Ok(()));
    }
}

#[test]
fn exact_search_finds_the_simulated_optimum_where_links_are_slow() {
    for instance in instances::all().into_iter().filter(|i| !i.exact_form) {
        let name = instance.name;
        let checked = instance.inputs.with_space(|space| {
            let truth = brute::enumerate(&space, true);
            let outcome = search(&space, &Exact::default(), EVALUATIONS, 0);
            let best = outcome.best.and_then(|b| b.score.objective()).unwrap_or(f64::NAN);
            println!("{name}: simulated {:.5} s, exact {best:.5} s, closed {:.5} s", truth.simulated, truth.closed);
            assert!(best <= truth.simulated * (1.0 + CLOSE), "{name}: {best} of {}", truth.simulated);
        });
        assert_eq!(checked, Ok(()));
    }
}

/// Gaps to `truth` of searches with the first `seeds` seeds, in their order.
fn gaps(space: &LayerwiseSpace<'_>, backend: &Layerwise, truth: f64, evaluations: u64, seeds: u64) -> Vec<f64> {
    let gap = |seed| least(space, &search(space, backend, evaluations, seed)) / truth - 1.0;
    (0..seeds).into_par_iter().map(gap).collect()
}

#[test]
fn tree_and_genetic_search_come_close_where_random_search_does_not() {
    let (full, show) = (is_set("ESPALIER_FULL"), is_set("ESPALIER_SHOW"));
    let backends: [(&str, &Layerwise); 2] = [("mcts", &Mcts::default()), ("genetic", &Genetic::default())];
    let instances = instances::all();
    let mut hard = 0;
    let (mut misses, mut early_misses) = (Vec::new(), Vec::new());
    let mut table = vec![
        "| instance | plans | strategies per layer | random | mcts | at 2,000 | genetic | at 2,000 |".to_string(),
        "|---|---|---|---|---|---|---|---|".to_string(),
    ];
    for (index, (instance, &truth)) in instances.iter().zip(truths()).enumerate() {
        let name = instance.name;
        let checked = instance.inputs.with_space(|space| {
            let random = gaps(&space, &Random::default(), truth, EVALUATIONS, 1)[0];
            if random <= CLOSE {
                println!("{name} is too easy to tell searches apart: random search is within {random:.4}");
                return;
            }
            hard += 1;
            let (log, most) = brute::paths(&space);
            let mut row = format!("| {name} | 1e{log:.1} | {most} | {:.1} % |", 100.0 * random);
            for (backend_name, backend) in backends {
                let seeds = if full { 20 } else { SEEDS[index % SEEDS.len()] };
                let gaps_of = gaps(&space, backend, truth, EVALUATIONS, seeds);
                let near = gaps_of.iter().filter(|g| **g <= CLOSE).count() as u64;
                if near < seeds - seeds / 20 {
                    misses.push(format!("{name}, {backend_name}: {near} of {seeds} come close: {gaps_of:?}"));
                }
                let mut early = gaps(&space, backend, truth, FEW, if full { 20 } else { 3 });
                early.sort_by(f64::total_cmp);
                let median = early[early.len() / 2];
                if median > CLOSE_EARLY {
                    early_misses.push(format!("{name}, {backend_name}: median {median:.4} after {FEW} evaluations"));
                }
                row += &format!(" {near} of {seeds} | {:.2} % |", 100.0 * median);
                if show {
                    let percent: Vec<String> = gaps_of.iter().map(|g| format!("{:.2}", 100.0 * g)).collect();
                    println!("{name}, {backend_name}: {} %", percent.join(" "));
                }
            }
            table.push(row);
        });
        assert_eq!(checked, Ok(()));
    }
    println!("{}", table.join("\n"));
    assert!(hard >= 20, "random search fails on {hard} instances only");
    assert!(early_misses.len() <= EARLY_MISSES, "{}", early_misses.join("\n"));
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

/// Seeds of the default run, by instance in turns.
const SEEDS: [u64; 4] = [4, 1, 2, 1];

#[test]
fn what_dominance_leaves_out_is_never_missed() {
    let mut left_out = 0;
    for (instance, &every) in instances::all().iter().zip(truths()) {
        let name = instance.name;
        let checked = instance.inputs.with_space(|space| {
            let kept = brute::enumerate_only(&space, &|task, class, strategy| {
                space.table(task).is_some_and(|t| t.classes[class].strategies.contains(strategy))
            });
            for task in 0..space.tasks.len() {
                let Some(table) = space.table(task) else { continue };
                left_out += table.classes.iter().map(|c| c.enumerated - c.strategies.len() as u64).sum::<u64>();
            }
            assert!((kept.closed / every - 1.0).abs() <= ROUNDING, "{name}: {} with, {every} without", kept.closed);
        });
        assert_eq!(checked, Ok(()));
    }
    assert!(left_out > 0, "dominance left nothing out");
}
