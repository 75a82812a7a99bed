//! What every search backend keeps, on problems of every kind.

use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problems::{ChainShape, LayerChain};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};

#[test]
fn scratch() {
    for (n, k, p, m) in [(12, 8, 2, 16), (16, 8, 4, 8), (24, 8, 4, 8), (48, 12, 4, 16)] {
        let chain =
            LayerChain::random(ChainShape { items: n, options: k, segments: p, rounds: m, tightness: 0.4 }, n as u64);
        let optimum = chain.optimum().unwrap();
        let base = Mcts { bounded: false, ..Mcts::default() };
        let backends: [&dyn Backend<LayerChain>; 6] = [
            &Genetic::default(),
            &base,
            &Mcts { mix: 0.5, ..base.clone() },
            &Mcts { c: 0.1, ..base.clone() },
            &Mcts { scale: espalier::search::mcts::ScaleKind::Sigma, ..base.clone() },
            &Mcts::default(),
        ];
        for backend in backends {
            let mut gaps = Vec::new();
            let mut wall: f64 = 0.0;
            let mut info = String::new();
            for seed in 0..8 {
                let outcome = solve(&chain, backend, Request::new(seed, Budget::evaluations(20_000))).unwrap();
                let best = outcome.best.unwrap().score.objective().unwrap();
                assert!(best >= optimum * (1.0 - 1e-12));
                gaps.push((best / optimum - 1.0) * 100.0);
                wall = wall.max(outcome.wall_s);
                info = format!("{:?} {:?}", outcome.stop, outcome.counters);
            }
            gaps.sort_by(f64::total_cmp);
            println!(
                "{n}x{k}x{p} {:40} med {:.2} 19th {:.2} max {:.2} wall {:.2} {info}",
                &backend.identity()[..60],
                gaps[4],
                gaps[6],
                gaps[7],
                wall
            );
        }
    }
}

#[test]
fn tiny() {
    for seed in 0..10 {
        let chain =
            LayerChain::random(ChainShape { items: 4, options: 3, segments: 2, rounds: 8, tightness: 0.4 }, seed);
        let outcome =
            solve(&chain, &Mcts { bounded: false, ..Mcts::default() }, Request::new(seed, Budget::evaluations(20_000)))
                .unwrap();
        let random = solve(&chain, &Random::default(), Request::new(seed, Budget::evaluations(20_000))).unwrap();
        let genetic = solve(&chain, &Genetic::default(), Request::new(seed, Budget::evaluations(20_000))).unwrap();
        println!(
            "{:?} {:?} {:?} {:?} {:?}",
            outcome.best,
            outcome.counters,
            chain.optimum(),
            random.best.unwrap().score,
            genetic.best
        );
    }
}
