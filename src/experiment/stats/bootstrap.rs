//! Percentile intervals by resampling (Efron and Tibshirani 1993, "An introduction to the bootstrap", section 13.3).

use super::rank::quantile;
use crate::search::stream::Stream;

/// Resamples.
const RESAMPLES: u64 = 2_000;

/// An interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The interval of 95 % of `statistic`; the resamples follow from `seed`. NaN where there is nothing to resample.
pub fn bootstrap(values: &[f64], seed: u64, statistic: impl Fn(&[f64]) -> f64) -> Interval {
    if values.is_empty() {
        return Interval { low: f64::NAN, high: f64::NAN };
    }
    let mut stream = Stream::new(seed, 0, 0, 0);
    let mut resample = vec![0.0; values.len()];
    let all: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.iter_mut().for_each(|v| *v = values[stream.index(values.len())]);
            statistic(&resample)
        })
        .collect();
    Interval { low: quantile(&all, 0.025), high: quantile(&all, 0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_has_the_width_that_theory_says() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let interval = bootstrap(&values, 1, mean);
        // Mean 49.5, standard error sqrt((100^2 - 1) / 12 / 100) = 2.887, times 1.96 either way.
        assert!((interval.low - (49.5 - 5.66)).abs() < 0.8, "{interval:?}");
        assert!((interval.high - (49.5 + 5.66)).abs() < 0.8, "{interval:?}");
        assert_eq!(interval, bootstrap(&values, 1, mean));
        assert!(bootstrap(&[], 1, mean).low.is_nan());
    }
}
