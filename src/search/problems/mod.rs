//! Problems that are no training plans: to test the engine on, and to race backends on.

mod chain;
mod knapsack;
mod salesman;

pub use chain::{ChainPlan, ChainShape, LayerChain};
pub use knapsack::Knapsack;
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
