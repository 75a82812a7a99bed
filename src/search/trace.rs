//! What improved when, on four clocks: evaluations and requests are reproducible, wall and CPU seconds are not.

use super::problem::Key128;
use super::score::Score;
use serde::{Deserialize, Serialize};

/// The reproducible part of an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Improvement {
    /// Distinct solutions asked for so far, this one included.
    pub evaluations: u64,
    /// Solutions asked for so far, repeated ones and this one included.
    pub requests: u64,
    /// The new best score.
    pub score: Score,
    /// Whose it is.
    pub key: Key128,
}

/// When something happened, on clocks of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Clocks {
    /// Seconds since the search began.
    pub wall_s: f64,
    /// Seconds that threads were at work for it: the search itself plus every evaluation. Equals CPU time where
    /// no thread had to wait for a core.
    pub cpu_s: f64,
}

/// The improvements of one search in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// What improved: equal for equal question, seed and evaluation budget.
    pub improvements: Vec<Improvement>,
    /// When, index by index.
    pub clocks: Vec<Clocks>,
    /// Whether the search was cut by a clock or a person, so that only a prefix of it is reproducible.
    pub truncated: bool,
}

impl Trace {
    pub(super) fn record(&mut self, improvement: Improvement, clocks: Clocks) {
        self.improvements.push(improvement);
        self.clocks.push(clocks);
    }

    /// The best score after `evaluations` evaluations.
    pub fn best_at(&self, evaluations: u64) -> Option<Score> {
        let reached = self.improvements.partition_point(|i| i.evaluations <= evaluations);
        reached.checked_sub(1).map(|last| self.improvements[last].score)
    }
}
