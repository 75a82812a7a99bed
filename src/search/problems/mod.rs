//! Problems that are no training plans: to test the engine on, and to race backends on.

mod chain;
mod job_shop;
mod knapsack;
mod measured;
mod memory_worth;
mod salesman;

pub use chain::{ChainPlan, ChainShape, LayerChain};
pub use job_shop::{JobShop, NAMED_JOB_SHOPS};
pub use knapsack::Knapsack;
pub use measured::Measured;
pub use salesman::Salesman;

use super::problem::Key128;
use xxhash_rust::xxh3::xxh3_128;

/// A key from the problem's identity and the words of a canonical solution.
fn key(problem: u128, words: impl Iterator<Item = u32>) -> Key128 {
    let mut bytes = problem.to_le_bytes().to_vec();
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    Key128(xxh3_128(&bytes))
}

/// Identity of a problem from its name and its numbers.
fn identity(name: &str, numbers: impl Iterator<Item = f64>) -> u128 {
    let mut bytes = name.as_bytes().to_vec();
    for number in numbers {
        bytes.extend_from_slice(&number.to_bits().to_le_bytes());
    }
    xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use super::super::problem::{Bound, Fidelity, Problem};
    use super::super::stream::Stream;
    use super::super::walk::{End, Walk};
    use super::*;

    /// No bound on the way to a solution exceeds its objective, and none calls a feasible one infeasible.
    fn bounds_are_admissible<P: Problem>(problem: &P) {
        for index in 0..300 {
            let mut stream = Stream::new(1, 0, 0, index);
            let mut walk = Walk::new(problem);
            let end = walk.complete(None, |decision| stream.below(u64::from(decision.options)) as u32);
            assert_eq!(end, End::Complete);
            let Some(objective) = problem.score(&walk.solution(), Fidelity::Exact).objective() else { continue };
            loop {
                match problem.bound(walk.state()) {
                    Bound::AtLeast(bound) => assert!(bound <= objective, "{bound} {objective} {:?}", walk.path()),
                    Bound::Infeasible => panic!("a feasible solution is called infeasible at {:?}", walk.path()),
                }
                if walk.pop().is_none() {
                    break;
                }
            }
        }
    }

    #[test]
    fn every_bound_is_admissible() {
        bounds_are_admissible(&LayerChain::random(
            ChainShape { items: 9, options: 5, segments: 3, rounds: 8, tightness: 0.4 },
            1,
        ));
        bounds_are_admissible(&LayerChain::random(
            ChainShape { items: 8, options: 6, segments: 2, rounds: 8, tightness: 0.4 },
            8,
        ));
        bounds_are_admissible(&Knapsack::random(15, 3, 1));
        bounds_are_admissible(&Salesman::random(9, 1));
        bounds_are_admissible(&JobShop::random(4, 3, 1));
    }
}
