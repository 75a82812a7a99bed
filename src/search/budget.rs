//! How long a search may go on, and why it stopped.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Limits of a search. Whichever is met first stops it; an absent one does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Distinct solutions that may be asked for, paid or not.
    pub max_evaluations: Option<u64>,
    /// Wall time. Gives up reproducibility: where the search is cut depends on the machine.
    pub max_time: Option<Duration>,
    /// Stop at a feasible solution whose objective is at most this.
    pub target: Option<f64>,
    /// Stop when (best - bound) / bound is at most this.
    pub target_gap: Option<f64>,
    /// Stop after this many evaluations without an improvement.
    pub stall: Option<u64>,
    /// Stop after this many more repetitions and dead ends than five for every new solution.
    pub max_idle: u64,
}

/// Repetitions that are taken as the end of what a backend can find. Generations of a genetic search have about a
/// hundred children with up to twenty attempts each, so this is tens of generations of nothing but repetitions.
const DEFAULT_IDLE: u64 = 20_000;

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_evaluations: None,
            max_time: None,
            target: None,
            target_gap: None,
            stall: None,
            max_idle: DEFAULT_IDLE,
        }
    }
}

impl Budget {
    /// A limit in evaluations and nothing else.
    pub fn evaluations(n: u64) -> Self {
        Self { max_evaluations: Some(n), ..Self::default() }
    }
}

/// Why a search stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The best solution meets a proven bound.
    Optimal,
    /// Nothing new is left to try. A proof only where the outcome's bound says so.
    Exhausted,
    /// The target objective or gap is met.
    Target,
    /// The evaluations are used up.
    Evaluations,
    /// The time is used up.
    Deadline,
    /// Somebody asked for it.
    Interrupted,
    /// Too many evaluations without an improvement.
    Stalled,
    /// The problem gives no numbers, or contradicts itself.
    Failed,
}

impl Stop {
    /// Whether the same search would stop at the same place on another machine.
    pub fn is_reproducible(self) -> bool {
        !matches!(self, Stop::Deadline | Stop::Interrupted)
    }
}

/// A flag that stops searches from outside. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks every search that holds this flag to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
