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
    for (n, k, p, m) in [(8, 6, 2, 8), (10, 6, 3, 8), (12, 8, 4, 8), (12, 5, 3, 4), (12, 8, 2, 16)] {
        let chain =
            LayerChain::random(ChainShape { items: n, options: k, segments: p, rounds: m, tightness: 0.4 }, n as u64);
        let optimum = chain.optimum().unwrap();
        let backends: [&dyn Backend<LayerChain>; 4] =
            [&Random::default(), &Mcts::default(), &Mcts { mix: 0.5, ..Mcts::default() }, &Genetic::default()];
        for backend in backends {
            let mut gaps = Vec::new();
            let mut wall: f64 = 0.0;
            let mut info = String::new();
            for seed in 0..20 {
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
                &backend.identity()[..20],
                gaps[10],
                gaps[18],
                gaps[19],
                wall
            );
        }
    }
}
