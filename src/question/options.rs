//! How to look for a plan: which backend, how long, and what the plan may look like.

use super::Constraint;
use crate::error::{InputError, Kind};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Most threads that are of use.
const MOST_THREADS: usize = 4096;
/// Most alternatives that anybody reads.
const MOST_ALTERNATIVES: usize = 10_000;

/// Which order the passes of a plan run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScheduleChoice {
    /// Plain 1F1B: one chunk per stage.
    #[serde(rename = "1f1b")]
    OneF1B,
    /// Interleaved 1F1B: several chunks per stage.
    #[serde(rename = "interleaved")]
    Interleaved,
    /// The best that is found, together with the plan.
    #[serde(rename = "auto")]
    Auto,
}

/// Options of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchOptions {
    /// The search algorithm; the engine's own choice if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Seed of all random streams.
    pub seed: u64,
    /// Most evaluations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_evals: Option<u64>,
    /// Most wall-clock time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Seconds>,
    /// Stop when the proven gap is at most this, e.g. 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_gap: Option<f64>,
    /// How many plans to show.
    pub top: usize,
    /// What the plan must satisfy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<Constraint>,
    /// What the plan must not be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<Constraint>,
    /// Threads; all cores if absent. Never changes the answer of a search without `max_time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Order of the passes; 1F1B or interleaved 1F1B, whichever is better, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleChoice>,
    /// Share by which input and weight gradients as passes of their own take longer than both in one.
    #[serde(skip_serializing_if = "is_zero")]
    pub split_penalty: f64,
    /// Most schedules to evaluate per plan whose schedule is searched; a number that suits the size if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_evals: Option<u64>,
    /// Framework whose rules the plan must obey.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            backend: None,
            seed: 0,
            max_evals: None,
            max_time: None,
            target_gap: None,
            top: 1,
            fix: Vec::new(),
            forbid: Vec::new(),
            threads: None,
            schedule: None,
            split_penalty: 0.0,
            schedule_evals: None,
            target: None,
        }
    }
}

impl SearchOptions {
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether every number is in its range, and no constraint rules out what another demands.
    pub fn validate(&self) -> Result<(), InputError> {
        let value = |field: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected))
        };
        if self.max_evals == Some(0) {
            return value("max_evals", &0, "at least 1");
        }
        if let Some(time) = self.max_time.filter(|t| !(t.is_finite() && *t > Seconds::ZERO)) {
            return value("max_time", &time.get(), "a positive duration such as `10s`");
        }
        if let Some(gap) = self.target_gap.filter(|gap| !(gap.is_finite() && *gap >= 0.0)) {
            return value("target_gap", &gap, "a fraction of at least 0, e.g. 0.01");
        }
        if self.schedule_evals == Some(0) {
            return value("schedule_evals", &0, "at least 1");
        }
        if !(self.split_penalty.is_finite() && self.split_penalty >= 0.0) {
            return value("split_penalty", &self.split_penalty, "a fraction of at least 0, e.g. 0.03");
        }
        if !(1..=MOST_ALTERNATIVES).contains(&self.top) {
            return value("top", &self.top, "1 to 10000");
        }
        if let Some(threads) = self.threads.filter(|n| !(1..=MOST_THREADS).contains(n)) {
            return value("threads", &threads, "1 to 4096");
        }
        for (i, fixed) in self.fix.iter().enumerate() {
            if let Some(twin) = self.fix[..i].iter().find(|other| other.dim == fixed.dim) {
                return Err(InputError::new(Kind::Inconsistent)
                    .at(format!("fix[{i}]"))
                    .found(fixed)
                    .expected(format!("`{}` to be fixed once, `{twin}` does already", fixed.dim)));
            }
            if let Some(ban) = self.forbid.iter().find(|ban| ban.covers(fixed)) {
                return Err(InputError::new(Kind::Inconsistent)
                    .at(format!("fix[{i}]"))
                    .found(fixed)
                    .expected(format!("a value that `forbid` leaves, it has `{ban}`")));
            }
        }
        Ok(())
    }

    /// Whether a number is allowed for a dimension.
    pub fn admits(&self, dim: super::Dim, number: u64) -> bool {
        let concerns = |c: &&Constraint| c.dim == dim;
        self.fix.iter().filter(concerns).all(|c| c.has(number))
            && !self.forbid.iter().filter(concerns).any(|c| c.has(number))
    }

    /// Whether a named setting (of recompute or sequence parallelism) is allowed.
    pub fn admits_name(&self, dim: super::Dim, name: &str) -> bool {
        let concerns = |c: &&Constraint| c.dim == dim;
        self.fix.iter().filter(concerns).all(|c| c.has_name(name))
            && !self.forbid.iter().filter(concerns).any(|c| c.has_name(name))
    }
}
