//! What every search backend keeps, on problems of every kind.

use espalier::search::budget::Budget;
use espalier::search::problems::{ChainShape, Knapsack, LayerChain, Salesman};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};

#[test]
fn scratch() {
    let chain = LayerChain::random(ChainShape { items: 10, options: 6, segments: 3, rounds: 8, tightness: 0.4 }, 1);
    let t = std::time::Instant::now();
    println!("optimum {:?} {:?}", chain.optimum(), t.elapsed());
    let outcome = solve(&chain, &Random::default(), Request::new(1, Budget::evaluations(20_000))).unwrap();
    println!("{:?} {:?} {:?} {} {:?}", outcome.best.map(|b| b.score), outcome.stop, outcome.counters, outcome.wall_s, outcome.bound);
    let k = Knapsack::random(12, 2, 1);
    let outcome = solve(&k, &Random::default(), Request::new(1, Budget::evaluations(20_000))).unwrap();
    println!("{:?} {:?} {:?} {} {:?}", outcome.best.map(|b| b.score), outcome.stop, outcome.counters, outcome.wall_s, outcome.bound);
    let k = Salesman::random(7, 1);
    let outcome = solve(&k, &Random::default(), Request::new(1, Budget::evaluations(20_000))).unwrap();
    println!("{:?} {:?} {:?} {} {:?}", outcome.best.map(|b| b.score), outcome.stop, outcome.counters, outcome.wall_s, outcome.bound);
}
