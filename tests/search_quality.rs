//! How good the answers are, on small instances whose optimum is known.

mod search_common;

use espalier::search::backend::Backend;
use espalier::search::budget::{Budget, Stop};
use espalier::search::erased::Erased;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::{Fidelity, Problem};
use espalier::search::problems::{ChainShape, LayerChain};
use espalier::search::registry::{Choice, build};
use espalier::search::run::{Request, solve};
use search_common::backends;

/// Chains of 8 to 12 items with 5 to 8 options in 2 to 4 segments: at least a million paths each.
const SHAPES: [(usize, usize, usize, usize, u64); 4] =
    [(8, 8, 2, 8, 1), (10, 6, 3, 8, 2), (12, 5, 3, 4, 3), (12, 8, 4, 8, 4)];

fn instance((items, options, segments, rounds, seed): (usize, usize, usize, usize, u64)) -> LayerChain {
    LayerChain::random(ChainShape { items, options, segments, rounds, tightness: 0.4 }, seed)
}

/// Gaps to the optimum of `seeds` searches of 20 000 evaluations, in order.
fn gaps<'p>(problem: &'p LayerChain, backend: &dyn Backend<Erased<'p>>, seeds: u64) -> Vec<f64> {
    gaps_after(20_000, problem, backend, seeds)
}

fn gaps_after<'p>(
    evaluations: u64,
    problem: &'p LayerChain,
    backend: &dyn Backend<Erased<'p>>,
    seeds: u64,
) -> Vec<f64> {
    let optimum = problem.optimum().unwrap();
    let gap = |seed| {
        let request = Request::new(seed, Budget::evaluations(evaluations));
        let outcome = solve(&Erased::new(problem), backend, request).unwrap();
        let best = outcome.best.and_then(|best| best.score.objective()).unwrap_or(f64::INFINITY);
        assert!(best >= optimum * (1.0 - 1e-12), "{} is below the optimum", backend.name());
        best / optimum - 1.0
    };
    let mut gaps: Vec<f64> = (0..seeds).map(gap).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

#[test]
fn tree_search_and_genetic_search_come_within_one_percent_for_19_of_20_seeds() {
    for shape in SHAPES {
        let problem = instance(shape);
        assert!(problem.space_log10().unwrap() >= 6.0);
        let both: [&dyn Backend<Erased<'_>>; 2] = [&Mcts::default(), &Genetic::default()];
        for backend in both {
            let gaps = gaps(&problem, backend, 20);
            println!("{shape:?} {:8} median {:.4} 19th of 20 {:.4}", backend.name(), gaps[9], gaps[18]);
            assert!(gaps[18] <= 0.01, "{} on {shape:?}: {gaps:?}", backend.name());
        }
    }
}

/// The instances of the literature's size: 48 layers, one segment of 16 strategies and four of 12.
#[test]
fn two_thousand_evaluations_of_48_layers_are_enough_for_three_percent_and_of_stages_for_eight() {
    let shape = |options, segments, rounds| ChainShape { items: 48, options, segments, rounds, tightness: 0.4 };
    for (shape, few, many) in [(shape(16, 1, 1), 0.03, 0.01), (shape(12, 4, 16), 0.08, 0.03)] {
        let problem = LayerChain::random(shape, 1);
        let both: [&dyn Backend<Erased<'_>>; 2] = [&Mcts::default(), &Genetic::default()];
        for backend in both {
            for (evaluations, most, seeds) in [(2_000, few, 5), (20_000, many, 3)] {
                let gaps = gaps_after(evaluations, &problem, backend, seeds);
                println!("{shape:?} {:8} after {evaluations} {gaps:.4?}", backend.name());
                assert!(gaps[gaps.len() / 2] <= most, "{} on {shape:?} after {evaluations}: {gaps:?}", backend.name());
            }
        }
    }
}

#[test]
fn annealing_that_is_frozen_begins_anew_instead_of_giving_up() {
    let problem = instance((24, 8, 2, 8, 1));
    for choice in ["anneal", "anneal.flexflow"] {
        let backend = build::<Erased<'_>>(&Choice::named(choice)).unwrap();
        let request = Request::new(7, Budget::evaluations(30_000));
        let outcome = solve(&Erased::new(&problem), &*backend, request).unwrap();
        assert_eq!((outcome.stop, outcome.counters.evaluations), (Stop::Evaluations, 30_000), "{choice}");
    }
}

/// Backends that do not come within one percent, and why.
const SHORT: [(&str, &str); 5] = [
    ("integer", "declines programs of this size"),
    ("a_star", "goes by bounds alone, and theirs are blind to memory: many prefixes look better than any answer is"),
    ("parzen", "models every decision by itself and is meant for a hundred dear evaluations"),
    ("random", "the floor: if it came as close, the instance would be too easy"),
    ("exhaustive", "goes through the tree in order and sees one corner of it"),
];

#[test]
fn every_registered_search_comes_within_one_percent_but_those_that_say_why_not() {
    let problem = instance(SHAPES[3]);
    let mut wrong = Vec::new();
    for backend in backends() {
        let name = backend.name();
        let gaps = gaps(&problem, &*backend, 2);
        println!("{name:14} {gaps:.4?}");
        match SHORT.iter().find(|(short, _)| *short == name) {
            Some((_, why)) if gaps[0] <= 0.01 => wrong.push(format!("{name} comes close although it {why}: {gaps:?}")),
            None if gaps[1] > 0.01 => wrong.push(format!("{name}: {gaps:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_front_of_a_small_chain_is_that_of_its_enumeration() {
    let chain = LayerChain::random(ChainShape { items: 5, options: 4, segments: 2, rounds: 4, tightness: 0.5 }, 2);
    let mut all: Vec<(f64, f64)> = Vec::new();
    search_common::every_solution(&chain, &mut |x| {
        let score = chain.score(x, Fidelity::Exact);
        all.extend(score.objective().map(|time| (time, chain.measures(x)[0])));
    });
    let beaten = |a: &(f64, f64)| all.iter().any(|b| b.0 <= a.0 && b.1 <= a.1 && b != a);
    let mut front: Vec<(f64, f64)> = all.iter().filter(|a| !beaten(a)).copied().collect();
    front.sort_by(|a, b| a.partial_cmp(b).unwrap());
    front.dedup();
    let backend = build::<Erased<'_>>(&Choice::named("pareto")).unwrap();
    let outcome = solve(&Erased::new(&chain), &*backend, Request::new(1, Budget::evaluations(3_000))).unwrap();
    let found: Vec<(f64, f64)> = outcome.front.iter().map(|c| (c.measures[0], c.measures[1])).collect();
    assert!(front.len() > 3, "{front:?}");
    let missed = front.iter().filter(|point| !found.contains(point)).count();
    assert!(missed * 10 <= front.len(), "{missed} of {}: {front:?} {found:?}", front.len());
    assert!(found.iter().all(|point| all.contains(point)));
    assert_eq!(Some(found[0].0), outcome.best.and_then(|best| best.score.objective()));
}

#[test]
fn the_optimum_of_a_small_chain_is_that_of_its_enumeration() {
    for seed in 0..20 {
        let shape = ChainShape { items: 5, options: 3, segments: 2, rounds: 4, tightness: 0.3 };
        let chain = LayerChain::random(shape, seed);
        let best = search_common::enumerate(&chain).objective();
        let (optimum, best) = (chain.optimum().unwrap_or(f64::NAN), best.unwrap_or(f64::NAN));
        assert!((optimum.is_nan() && best.is_nan()) || (optimum - best).abs() <= 1e-12 * best, "{optimum} {best}");
    }
}

#[test]
fn extreme_parameters_are_survived() {
    let problem = instance(SHAPES[1]);
    let genetic = |islands, population, tournament| Genetic { islands, population, tournament, ..Genetic::default() };
    let all: [&dyn Backend<Erased<'_>>; 9] = [
        &genetic(0, 0, 0),
        &genetic(1, 2, 1),
        &genetic(2, 2, 100),
        &Genetic { migration: 0, elite: 1_000, offspring: 0, local: 7.0, patience: 0, drafts: 0, ..Genetic::default() },
        &Mcts { batch: 0, patience: 1, polish: 7.0, ..Mcts::default() },
        &Mcts { c: f64::NAN, ..Mcts::default() },
        &Mcts { c: f64::INFINITY, noise: f32::NAN, polish: f64::NAN, ..Mcts::default() },
        &Mcts { c: 0.0, mix: 1.0, batch: 500, polish: 7.0, drafts: 0, ..Mcts::default() },
        &espalier::search::anneal::Anneal { chains: 0, proposals: 0, hot: 0.0, cold: 0.0, reset: 7.0, exchange: -1.0 },
    ];
    for backend in all {
        let outcome = solve(&Erased::new(&problem), backend, Request::new(1, Budget::evaluations(500))).unwrap();
        assert!(outcome.best.unwrap().score.is_feasible(), "{}", backend.identity());
    }
}
