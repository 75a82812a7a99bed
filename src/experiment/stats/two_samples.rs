//! Two unpaired samples: the test of Mann and Whitney, and the effect size of Vargha and Delaney.
//!
//! Mann and Whitney 1947, "On a test of whether one of two random variables is stochastically larger than the other";
//! Vargha and Delaney 2000, "A critique and improvement of the CL common language effect size statistics".

use super::beyond;
use super::rank::ranks;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoSamples {
    /// Pairs in which the first sample is larger, half of the equal ones included.
    pub u: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Probability that a value of the first sample is smaller than one of the second, half of the equal ones included.
    pub a12: f64,
}

/// Samples of which one is no larger than this are tested exactly where no values are equal, as scipy does.
const EXACT: usize = 8;

/// Probability that a value of `a` is smaller than one of `b`, half of the equal ones included: above one half, `a` is
/// better where small is good. 0.56 is called small, 0.64 medium, 0.71 large.
pub fn a12(a: &[f64], b: &[f64]) -> f64 {
    let mut wins = 0.0;
    for x in a {
        for y in b {
            wins += if x < y {
                1.0
            } else if x == y {
                0.5
            } else {
                0.0
            };
        }
    }
    if a.is_empty() || b.is_empty() { 0.5 } else { wins / (a.len() * b.len()) as f64 }
}

/// The two-sided test: exact for small samples without equal values, otherwise normal with corrections for equal values
/// and continuity.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> TwoSamples {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return TwoSamples { u: 0.0, p: 1.0, a12: 0.5 };
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (ranks, groups) = ranks(&all);
    let u = ranks[..n].iter().sum::<f64>() - (n * (n + 1)) as f64 / 2.0;
    let pairs = (n * m) as f64;
    let larger = u.max(pairs - u);
    let tied = groups.iter().any(|size| *size > 1);
    let p = if !tied && n.min(m) <= EXACT { 2.0 * exact(n, m, larger) } else { 2.0 * normal(n, m, larger, &groups) };
    TwoSamples { u, p: p.min(1.0), a12: 1.0 - u / pairs }
}

/// Probability of at least `u` under the hypothesis that both samples are alike.
fn exact(n: usize, m: usize, u: f64) -> f64 {
    // Partitions of a sum into at most n parts of at most m each, by adding one part size after another.
    let mut ways = vec![vec![0.0f64; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for size in 1..=m {
        for parts in 1..=n {
            for sum in size..=n * m {
                ways[parts][sum] += ways[parts - 1][sum - size];
            }
        }
    }
    // Parts of size zero fill up to n.
    let count = |sum: usize| ways.iter().map(|row| row[sum]).sum::<f64>();
    let total: f64 = (0..=n * m).map(count).sum();
    let from = u.ceil().max(0.0) as usize;
    (from..=n * m).map(count).sum::<f64>() / total
}

fn normal(n: usize, m: usize, u: f64, groups: &[usize]) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let ties: f64 = groups.iter().map(|t| (*t as f64).powi(3) - *t as f64).sum();
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 0.5;
    }
    beyond((u - n * m / 2.0 - 0.5) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of scipy.stats.mannwhitneyu: days until a diagnosis of diabetes, Norusis 2011.
    const MALES: [f64; 5] = [19.0, 22.0, 16.0, 29.0, 24.0];
    const FEMALES: [f64; 4] = [20.0, 11.0, 17.0, 12.0];

    #[test]
    fn small_samples_are_tested_exactly() {
        let test = mann_whitney(&MALES, &FEMALES);
        assert_eq!(test.u, 17.0);
        assert!((test.p - 1.0 / 9.0).abs() < 1e-12, "{test:?}");
        assert!((test.a12 - 3.0 / 20.0).abs() < 1e-12, "{test:?}");
        assert!((test.a12 - a12(&MALES, &FEMALES)).abs() < 1e-12);
    }

    #[test]
    fn the_normal_approximation_is_that_of_scipy() {
        // method="asymptotic" in the same example; the normal tail of statrs is good to ten digits.
        let p = 2.0 * normal(5, 4, 17.0, &[1; 9]);
        assert!((p - 0.111_346_886_533_140_41).abs() < 1e-10, "{p}");
    }

    #[test]
    fn samples_that_are_one_and_the_same_are_not_told_apart() {
        let same = [1.0; 20];
        let test = mann_whitney(&same, &same);
        assert_eq!((test.p, test.a12), (1.0, 0.5));
        assert_eq!(mann_whitney(&[], &same).p, 1.0);
    }
}
