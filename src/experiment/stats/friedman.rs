//! Many methods over many instances: the test of Friedman 1937, mean ranks, and Nemenyi's critical difference.
//!
//! As Demsar 2006, "Statistical comparisons of classifiers over multiple data sets", section 3.2, with scipy's correction
//! for equal values.

use super::rank::ranks;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Result of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Friedman {
    /// Mean rank of every method, one is best.
    pub mean_ranks: Vec<f64>,
    /// Friedman's chi-square, corrected for equal values.
    pub chi2: f64,
    /// Its p-value.
    pub p: f64,
}

/// Tests whether methods differ; `table[instance][method]`, small is good. `None` for fewer than two instances or methods.
pub fn friedman(table: &[Vec<f64>]) -> Option<Friedman> {
    let n = table.len();
    let k = table.first()?.len();
    if n < 2 || k < 2 {
        return None;
    }
    let mut sums = vec![0.0; k];
    let mut ties = 0.0;
    for row in table {
        let (ranks, groups) = ranks(row);
        sums.iter_mut().zip(ranks).for_each(|(sum, rank)| *sum += rank);
        ties += groups.iter().map(|t| (*t as f64).powi(3) - *t as f64).sum::<f64>();
    }
    let (n, k) = (n as f64, k as f64);
    let plain = 12.0 / (n * k * (k + 1.0)) * sums.iter().map(|s| s * s).sum::<f64>() - 3.0 * n * (k + 1.0);
    let correction = 1.0 - ties / (n * k * (k * k - 1.0));
    let chi2 = if correction > 0.0 { plain / correction } else { 0.0 };
    let p = ChiSquared::new(k - 1.0).map_or(f64::NAN, |d| d.sf(chi2.max(0.0)));
    Some(Friedman { mean_ranks: sums.iter().map(|s| s / n).collect(), chi2, p })
}

/// Critical values of the studentised range over the square root of two, at 0.05, for 2 to 20 methods (as Demsar 2006,
/// table 5a; computed as scipy.stats.studentized_range.ppf(0.95, k, inf) / sqrt(2), scipy 1.17.1).
const NEMENYI: [f64; 19] = [
    1.960, 2.344, 2.569, 2.728, 2.850, 2.948, 3.031, 3.102, 3.164, 3.219, 3.268, 3.313, 3.354, 3.391, 3.426, 3.458,
    3.489, 3.517, 3.544,
];

/// Mean ranks over `n` instances that differ by less are not told apart at 0.05 (Nemenyi 1963). `None` for more than
/// twenty methods.
pub fn critical_difference(methods: usize, n: usize) -> Option<f64> {
    let q = NEMENYI.get(methods.checked_sub(2)?)?;
    let k = methods as f64;
    (n > 0).then(|| q * (k * (k + 1.0) / (6.0 * n as f64)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_critical_difference_is_that_of_a_published_example() {
        // Demsar 2006, section 3.2.2: four methods on fourteen data sets differ by more than 1.25.
        assert!((critical_difference(4, 14).unwrap() - 1.25).abs() < 5e-3);
    }

    #[test]
    fn chi_square_and_p_are_those_of_scipy() {
        // The example of scipy.stats.friedmanchisquare: pulses before and after exercise.
        let before = [72.0, 96.0, 88.0, 92.0, 74.0, 76.0, 82.0];
        let after = [120.0, 120.0, 132.0, 120.0, 101.0, 96.0, 112.0];
        let later = [76.0, 95.0, 104.0, 96.0, 84.0, 72.0, 76.0];
        let table: Vec<Vec<f64>> = (0..7).map(|i| vec![before[i], after[i], later[i]]).collect();
        let test = friedman(&table).unwrap();
        assert!((test.chi2 - 10.571_428_571_428_57).abs() < 1e-12, "{test:?}");
        assert!((test.p - 0.005_063_414_171_757_498).abs() < 1e-12, "{test:?}");
    }

    #[test]
    fn too_little_is_not_tested() {
        assert_eq!(friedman(&[]), None);
        assert_eq!(friedman(&[vec![1.0, 2.0]]), None);
        assert_eq!(critical_difference(1, 5), None);
        assert_eq!(critical_difference(21, 5), None);
        assert_eq!(friedman(&[vec![1.0; 3], vec![1.0; 3]]).unwrap().p, 1.0);
    }
}
