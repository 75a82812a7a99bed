//! What a search answers.

use super::archive::Entry;
use super::budget::Stop;
use super::front::Compromise;
use super::trace::Trace;
use serde::Serialize;

/// What a search did. All but `cache_hits` is reproducible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Distinct solutions asked for at the searching fidelity: what the budget limits.
    pub evaluations: u64,
    /// Solutions asked for, repeated ones included.
    pub requests: u64,
    /// Distinct solutions whose price was known to the shared cache or a checkpoint.
    pub cache_hits: u64,
    /// Solutions priced exactly on top of a fast evaluation.
    pub promotions: u64,
    /// Distinct solutions whose evaluation gave no number.
    pub failed: u64,
    /// Paths that could not be completed.
    pub dead_ends: u64,
    /// Batches asked for.
    pub batches: u64,
    /// Looks at bounds and tables in exact parts of a search (label extensions, prefixes bounded, variables of a program):
    /// work that no evaluation pays for.
    pub lookups: u64,
}

/// The answer of a search.
#[derive(Debug, Clone)]
pub struct Outcome<S> {
    /// The best solution, priced exactly. Infeasible if nothing feasible was found; absent if nothing has a price.
    pub best: Option<Entry<S>>,
    /// The best distinct solutions, best first.
    pub archive: Vec<Entry<S>>,
    /// What no solution found dominates, by objective and the problem's further measures, best objective first; empty unless the
    /// backend looks for trade-offs.
    pub front: Vec<Compromise<S>>,
    /// No solution has a smaller objective than this, if anything is proven.
    pub bound: Option<f64>,
    /// Why the search stopped.
    pub stop: Stop,
    /// What improved when.
    pub trace: Trace,
    /// What was done.
    pub counters: Counters,
    /// Wall seconds, those before a resumed checkpoint included.
    pub wall_s: f64,
    /// As [`super::trace::Clocks::cpu_s`].
    pub cpu_s: f64,
    /// Smallest relative violation of a path that could not be completed.
    pub dead_end: Option<f64>,
    /// What the first evaluation that panicked said.
    pub failure: Option<String>,
    /// What the backend would not or could not do, in its words.
    pub refused: Option<String>,
    /// Why the last checkpoint could not be written.
    pub checkpoint_error: Option<String>,
}

impl<S> Outcome<S> {
    /// (best - bound) / bound, where both are known; zero when they are equal.
    pub fn gap(&self) -> Option<f64> {
        gap(self.best.as_ref()?.score.objective()?, self.bound?)
    }
}

/// (best - bound) / |bound|, never negative; `None` for an unequal best above a bound of zero.
pub fn gap(best: f64, bound: f64) -> Option<f64> {
    if best <= bound {
        return Some(0.0);
    }
    (bound != 0.0).then(|| (best - bound) / bound.abs())
}

/// How far a search has come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Progress<'a> {
    /// What is running now: the backend, or the stage of a portfolio.
    pub stage: &'a str,
    /// Distinct solutions asked for so far.
    pub evaluations: u64,
    /// How many may be asked for in all.
    pub max_evaluations: Option<u64>,
    /// The best score so far.
    pub best: Option<super::score::Score>,
    /// The proven bound so far.
    pub bound: Option<f64>,
    /// Wall seconds so far.
    pub wall_s: f64,
}

/// Somebody who watches a search. Called after every batch, on the searching thread.
pub trait Observer {
    /// How far the search has come.
    fn progress(&mut self, progress: &Progress<'_>);
}

impl<F: FnMut(&Progress<'_>)> Observer for F {
    fn progress(&mut self, progress: &Progress<'_>) {
        self(progress);
    }
}
