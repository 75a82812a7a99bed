//! How large a suite may be. Everything here is an order of magnitude above what the recorded races need (2026-11: 23 backends,
//! 21 instances, 30 seeds, 20,000 evaluations, chains of 1,024 items), and small enough that a race fits into some gigabytes.

use crate::error::{InputError, Kind};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Instances of a suite.
pub const INSTANCES: usize = 1_000;
/// Backends of a suite.
pub const BACKENDS: usize = 200;
/// Seeds of a suite.
pub const SEEDS: u64 = 10_000;
/// Configurations of a contestant that is tuned.
pub const TRIALS: u64 = 1_000;
/// Runs of a race: every one of them is held in memory at the end.
pub const RUNS: u64 = 250_000;
/// Distinct evaluations of a run: a search remembers all of them.
pub const EVALUATIONS: u64 = 10_000_000;
/// Distinct evaluations of all runs.
pub const EVALUATIONS_IN_ALL: u64 = 100_000_000_000;
/// Budgets, or targets, that are tabled.
pub const TABLED: usize = 32;
/// Largest target: relative distance to the reference.
pub const TARGET: f64 = 1_000.0;
/// Letters of a name: names become file names.
pub const NAME: usize = 100;
/// Items of a chain.
pub const ITEMS: usize = 4_096;
/// Options of an item of a chain.
pub const OPTIONS: usize = 256;
/// Segments of a chain.
pub const SEGMENTS: usize = 256;
/// Micro-batches of a chain.
pub const ROUNDS: usize = 1_000_000;
/// Items of a knapsack.
pub const KNAPSACK_ITEMS: usize = 2_000;
/// Capacities of a knapsack.
pub const DIMENSIONS: usize = 100;
/// Cities of a round trip.
pub const CITIES: usize = 1_000;
/// Jobs, or machines, of a job shop.
pub const JOBS: usize = 1_000;
/// Operations of a job shop.
pub const OPERATIONS: usize = 10_000;
/// Columns that are decided.
pub const DECISIONS: usize = 32;

/// Refuses what lies outside of `range`; `field` is the one to name.
pub(super) fn within<T: PartialOrd + Display>(
    field: &str,
    found: T,
    range: RangeInclusive<T>,
) -> Result<(), InputError> {
    if range.contains(&found) {
        return Ok(());
    }
    let expected = format!("{} to {}", range.start(), range.end());
    Err(InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected))
}

/// Refuses more runs, or more evaluations in all, than a race may have. `what` says how they come about.
pub(super) fn race(what: &str, factors: &[u64], evaluations: u64) -> Result<(), InputError> {
    let runs = factors.iter().fold(1u64, |product, n| product.saturating_mul(*n));
    let times = factors.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    let wrong = |field: String, found: String, most: u64| {
        Err(InputError::new(Kind::InvalidValue).at(field).found(found).expected(format!("at most {most}")))
    };
    if runs > RUNS {
        return wrong(what.to_owned(), format!("{times} = {runs} runs"), RUNS);
    }
    let all = runs.saturating_mul(evaluations);
    if all > EVALUATIONS_IN_ALL {
        let found = format!("{times} x {evaluations} = {all} evaluations");
        return wrong(format!("{what} x evaluations"), found, EVALUATIONS_IN_ALL);
    }
    Ok(())
}
