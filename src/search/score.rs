//! What a complete path is worth. Feasible beats infeasible, infeasible beats failed; never NaN.
//!
//! The order is Deb's feasibility rules (Deb 2000, "An efficient constraint handling method for genetic
//! algorithms", section 3) with a third class for evaluations that failed.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A score; smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Score {
    /// The objective, finite.
    Feasible(f64),
    /// Total relative violation of the constraints, finite and positive.
    Infeasible(f64),
    /// The evaluation gave no number.
    Failed,
}

impl Score {
    /// A feasible score; anything but a finite number is a failure.
    pub fn feasible(objective: f64) -> Self {
        // Adding zero turns -0.0 into 0.0, so that equal scores have equal bits.
        if objective.is_finite() { Score::Feasible(objective + 0.0) } else { Score::Failed }
    }

    /// An infeasible score; anything but a finite number is a failure.
    pub fn infeasible(violation: f64) -> Self {
        if violation.is_finite() { Score::Infeasible(violation.max(f64::MIN_POSITIVE)) } else { Score::Failed }
    }

    /// The objective of a feasible score.
    pub fn objective(self) -> Option<f64> {
        match self {
            Score::Feasible(x) => Some(x),
            _ => None,
        }
    }

    /// Whether all constraints hold.
    pub fn is_feasible(self) -> bool {
        matches!(self, Score::Feasible(_))
    }
}

impl Eq for Score {}
impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |s: &Score| match s {
            Score::Feasible(x) => (0u8, *x),
            Score::Infeasible(v) => (1, *v),
            Score::Failed => (2, 0.0),
        };
        let (a, b) = (rank(self), rank(other));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    }
}
