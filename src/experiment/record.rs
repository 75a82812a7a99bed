//! What is recorded of one run: how it ended, and what improved when on four clocks.

use crate::search::budget::Stop;
use crate::search::outcome::Outcome;
use crate::search::score::Score;
use serde::{Deserialize, Serialize};

/// An improvement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Distinct evaluations.
    pub evaluations: u64,
    /// Requests, repeated ones included.
    pub requests: u64,
    /// Wall seconds.
    pub wall_s: f64,
    /// Seconds at work.
    pub cpu_s: f64,
    /// The new best score.
    pub score: Score,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Digest of instance, backend with its parameters, seed and budget.
    pub cell: String,
    /// The instance.
    pub instance: String,
    /// The backend's name in the suite.
    pub backend: String,
    /// The seed.
    pub seed: u64,
    /// Why it stopped.
    pub stop: Stop,
    /// The best objective, if a feasible solution was found.
    pub best: Option<f64>,
    /// The proven bound.
    pub bound: Option<f64>,
    /// Distinct evaluations.
    pub evaluations: u64,
    /// Requests.
    pub requests: u64,
    /// Evaluations that gave no number.
    pub failed: u64,
    /// Paths that could not be completed.
    pub dead_ends: u64,
    /// Batches.
    pub batches: u64,
    /// Looks at bounds and tables in exact parts of the search.
    #[serde(default)]
    pub lookups: u64,
    /// What the backend would not or could not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the first evaluation that gave no number said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The options that lead to the best solution, where it was found as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<u32>>,
    /// Wall seconds.
    pub wall_s: f64,
    /// Seconds at work.
    pub cpu_s: f64,
    /// The improvements; in `trace.csv` once a race is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Point>,
}

impl Run {
    /// What a search did.
    pub fn of<S>(cell: String, instance: &str, backend: &str, seed: u64, outcome: &Outcome<S>) -> Self {
        let trace = outcome.trace.improvements.iter().zip(&outcome.trace.clocks);
        Self {
            cell,
            instance: instance.to_owned(),
            backend: backend.to_owned(),
            seed,
            stop: outcome.stop,
            best: outcome.best.as_ref().and_then(|best| best.score.objective()),
            bound: outcome.bound,
            evaluations: outcome.counters.evaluations,
            requests: outcome.counters.requests,
            failed: outcome.counters.failed,
            dead_ends: outcome.counters.dead_ends,
            batches: outcome.counters.batches,
            lookups: outcome.counters.lookups,
            refused: outcome.refused.clone(),
            failure: outcome.failure.clone(),
            path: outcome.best.as_ref().and_then(|best| best.path.as_ref()).map(|path| path.to_vec()),
            wall_s: nanoseconds(outcome.wall_s),
            cpu_s: nanoseconds(outcome.cpu_s),
            trace: trace
                .map(|(improvement, clocks)| Point {
                    evaluations: improvement.evaluations,
                    requests: improvement.requests,
                    wall_s: nanoseconds(clocks.wall_s),
                    cpu_s: nanoseconds(clocks.cpu_s),
                    score: improvement.score,
                })
                .collect(),
        }
    }

    /// Why it failed as a whole, if it did.
    pub fn failed_because(&self) -> Option<&str> {
        let why = self.refused.as_deref().or(self.failure.as_deref());
        (self.stop == Stop::Failed).then(|| why.unwrap_or("it gave no reason"))
    }

    /// The best objective after `evaluations` evaluations.
    pub fn best_at(&self, evaluations: u64) -> Option<f64> {
        let until = self.trace.partition_point(|point| point.evaluations <= evaluations);
        self.trace[..until].last().and_then(|point| point.score.objective())
    }
}

/// Seconds as they are written: to nine decimals.
fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}
