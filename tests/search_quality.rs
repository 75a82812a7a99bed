//! How good the answers are, on small instances whose optimum is known.

mod search_common;

use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::Problem;
use espalier::search::problems::{ChainShape, LayerChain};
use espalier::search::run::{Request, solve};
use search_common::backends;

/// Chains of 8 to 12 items with 5 to 8 options in 2 to 4 segments: at least a million paths each.
const SHAPES: [(usize, usize, usize, usize, u64); 6] =
    [(8, 8, 2, 8, 1), (10, 6, 3, 8, 2), (12, 5, 3, 4, 3), (12, 8, 4, 8, 4), (12, 8, 2, 16, 5), (11, 7, 3, 32, 6)];

fn instance((items, options, segments, rounds, seed): (usize, usize, usize, usize, u64)) -> LayerChain {
    LayerChain::random(ChainShape { items, options, segments, rounds, tightness: 0.4 }, seed)
}

/// Gaps to the optimum of 20 seeds, in order.
fn gaps(problem: &LayerChain, backend: &dyn Backend<LayerChain>) -> Vec<f64> {
    let optimum = problem.optimum().unwrap();
    let gap = |seed| {
        let outcome = solve(problem, backend, Request::new(seed, Budget::evaluations(20_000))).unwrap();
        let best = outcome.best.unwrap().score.objective().unwrap();
        assert!(best >= optimum * (1.0 - 1e-12), "{} is below the optimum", backend.name());
        best / optimum - 1.0
    };
    let mut gaps: Vec<f64> = (0..20).map(gap).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

#[test]
fn every_guided_search_comes_within_one_percent_and_chance_does_not() {
    for shape in SHAPES {
        let problem = instance(shape);
        assert!(problem.space_log10().unwrap() >= 6.0);
        for backend in backends::<LayerChain>() {
            let gaps = gaps(&problem, &*backend);
            println!("{shape:?} {:10} median {:.4} 19th of 20 {:.4}", backend.name(), gaps[9], gaps[18]);
            if backend.name() == "random" {
                assert!(gaps[1] > 0.01, "chance suffices on {shape:?}: the instance is too easy");
            } else {
                assert!(gaps[18] <= 0.01, "{} on {shape:?}: {gaps:?}", backend.name());
            }
        }
    }
}

#[test]
fn extreme_parameters_are_survived() {
    let problem = instance(SHAPES[1]);
    let genetic = |islands, population, tournament| Genetic { islands, population, tournament, ..Genetic::default() };
    let all: [&dyn Backend<LayerChain>; 9] = [
        &genetic(0, 0, 0),
        &genetic(1, 2, 1),
        &genetic(2, 2, 100),
        &Genetic { migration: 0, elite: 1_000, offspring: 0, local: 7.0, patience: 0, ..Genetic::default() },
        &Mcts { batch: 0, patience: 1, ..Mcts::default() },
        &Mcts { c: f64::NAN, ..Mcts::default() },
        &Mcts { c: f64::INFINITY, noise: f32::NAN, ..Mcts::default() },
        &Mcts { c: 0.0, mix: 1.0, batch: 500, ..Mcts::default() },
        &espalier::search::anneal::Anneal { chains: 0, hot: 0.0, cold: 0.0, exchange: -1.0 },
    ];
    for backend in all {
        let outcome = solve(&problem, backend, Request::new(1, Budget::evaluations(500))).unwrap();
        assert!(outcome.best.unwrap().score.is_feasible(), "{}", backend.identity());
    }
}
