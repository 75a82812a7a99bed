//! Pairs: the signed-rank test of Wilcoxon 1945, "Individual comparisons by ranking methods".

use super::beyond;
use super::rank::ranks;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// Sum of the ranks of the positive differences.
    pub positive: f64,
    /// Sum of the ranks of the negative differences.
    pub negative: f64,
    /// Differences that are not zero.
    pub n: usize,
    /// Two-sided p-value.
    pub p: f64,
}

/// Up to so many differences without equal ones the test is exact, as in scipy.
const EXACT: usize = 50;

/// Tests whether the differences lie around zero. Zero differences are left out (Wilcoxon's own rule); exact where no two
/// are equal in size, otherwise normal with a correction for equal sizes.
pub fn wilcoxon(differences: &[f64]) -> SignedRank {
    let kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let n = kept.len();
    let (ranks, groups) = ranks(&kept.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let sum = |positive: bool| ranks.iter().zip(&kept).filter(|(_, d)| (**d > 0.0) == positive).map(|(r, _)| r).sum();
    let (positive, negative): (f64, f64) = (sum(true), sum(false));
    let smaller = positive.min(negative);
    let p = if n == 0 {
        1.0
    } else if n <= EXACT && n == differences.len() && groups.iter().all(|size| *size == 1) {
        2.0 * exact(n, smaller)
    } else {
        let m = n as f64;
        let ties: f64 = groups.iter().map(|t| (*t as f64).powi(3) - *t as f64).sum();
        let variance = m * (m + 1.0) * (2.0 * m + 1.0) / 24.0 - ties / 48.0;
        2.0 * beyond((m * (m + 1.0) / 4.0 - smaller) / variance.sqrt())
    };
    SignedRank { positive, negative, n, p: p.min(1.0) }
}

/// Probability of a rank sum of at most `w`.
fn exact(n: usize, w: f64) -> f64 {
    let most = n * (n + 1) / 2;
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways.iter().take(w.floor() as usize + 1).sum::<f64>() / 2f64.powi(n as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn darwins_maize_is_tested_exactly() {
        // The example of scipy.stats.wilcoxon: heights of cross- and self-fertilised plants, Darwin 1876.
        let d = [6.0, 8.0, 14.0, 16.0, 23.0, 24.0, 28.0, 29.0, 41.0, -48.0, 49.0, 56.0, 60.0, -67.0, 75.0];
        let test = wilcoxon(&d);
        assert_eq!((test.negative, test.n), (24.0, 15));
        assert!((test.p - 0.041_259_765_625).abs() < 1e-15, "{test:?}");
    }

    #[test]
    fn nothing_but_zeros_tells_nothing() {
        assert_eq!(wilcoxon(&[0.0; 5]).p, 1.0);
        assert_eq!(wilcoxon(&[]).p, 1.0);
    }
}
