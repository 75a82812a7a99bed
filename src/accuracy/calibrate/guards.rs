//! When a calibration is believed, and what its samples are left out for: one rule for logs, tables of runs and tests.

use super::median;
use serde::Serialize;
use std::fmt;

/// Median absolute deviations from which on a sample is quarantined (Iglewicz and Hoaglin 1993: 3.5 standard deviations, each
/// 1.4826 of them).
pub const OUTLIER: f64 = 3.5 * 1.4826;
/// Fewest samples.
pub const FEWEST: usize = 4;
/// The held-out error must fall to this share of what it was: anything more is chance.
pub const BETTER: f64 = 0.9;
/// Median ratio of measurement and price beyond which something else is wrong: other units, another run.
const BELIEVABLE: f64 = 20.0;

/// Why there is no calibration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Too few samples are left.
    #[error("{usable} usable samples, at least {FEWEST} are needed{left_out}")]
    TooFew {
        /// Left.
        usable: usize,
        /// The others.
        left_out: Reasons,
    },
    /// More samples are left out than used.
    #[error("{} of {of} samples contradict the others: are these several runs?{left_out}", left_out.0.len())]
    Mixed {
        /// Left out.
        left_out: Reasons,
        /// All.
        of: usize,
    },
    /// All samples are off by so much that something else is wrong.
    #[error("the samples are {0:.3e} times the price: other units, or another run?")]
    Unbelievable(f64),
    /// The measurement is of other machines.
    #[error("{0}")]
    Mismatch(String),
    /// The plan has no price.
    #[error(transparent)]
    Estimate(#[from] crate::estimate::EstimateError),
}

/// Why a sample is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// Faster than the peak of all devices.
    BeyondPhysics,
    /// Far from the others.
    Outlier,
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quarantine::BeyondPhysics => "faster than physics, or no number",
            Quarantine::Outlier => "far from the others",
        })
    }
}

/// Something that was read and not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name: a line, a row, a size.
    pub name: String,
    /// Its value as it was read.
    pub value: String,
    /// Why.
    pub why: String,
}

impl Skipped {
    /// `value` of `name`, for `why`.
    pub fn new(name: impl Into<String>, value: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), why: why.into() }
    }
}

/// What was not used, told by reason: how many, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reasons(pub Vec<Skipped>);

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<&str> = Vec::new();
        for first in &self.0 {
            if told.contains(&first.why.as_str()) {
                continue;
            }
            told.push(&first.why);
            let count = self.0.iter().filter(|s| s.why == first.why).count();
            let value = if first.value.is_empty() { String::new() } else { format!(": {}", first.value) };
            write!(f, "; {count} left out: {} (the first: {}{value})", first.why, first.name)?;
        }
        Ok(())
    }
}

/// Whether samples are measurements of what was priced, by their ratios of measurement over price.
///
/// # Errors
/// When the median is beyond belief.
pub fn believable(ratios: &[f64]) -> Result<(), CalibrationError> {
    let off = median(ratios);
    if (1.0 / BELIEVABLE..=BELIEVABLE).contains(&off) { Ok(()) } else { Err(CalibrationError::Unbelievable(off)) }
}

/// Whether samples that were held out are met so much better than before that it is no chance.
pub fn better(before: f64, after: f64) -> bool {
    after < BETTER * before
}
