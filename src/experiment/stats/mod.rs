//! Statistics of races: rank tests, effect sizes, corrections for many tests, resampled intervals.
//!
//! Checked against published worked examples and scipy's values in the tests of each file.

mod bootstrap;
mod friedman;
mod rank;
mod two_samples;
mod wilcoxon;

pub use bootstrap::{Interval, bootstrap};
pub use friedman::{Friedman, critical_difference, friedman};
pub use rank::{holm, median, quantile, ranks};
pub use two_samples::{TwoSamples, a12, mann_whitney, smallest_p};
pub use wilcoxon::{SignedRank, wilcoxon};

use statrs::distribution::{ContinuousCDF, Normal};

/// Probability of a standard normal beyond `z`.
fn beyond(z: f64) -> f64 {
    Normal::new(0.0, 1.0).map_or(f64::NAN, |normal| normal.sf(z))
}
