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
/// Samples with so many pairs are tested exactly, equal values or not: twenty against twenty.
const EXACT_PAIRS: usize = 400;

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

/// The two-sided test: exact for small samples (given the equal values, where there are some: Streitberg and Roehmel 1986,
/// "Exact distributions for permutation and rank tests"), otherwise normal with corrections for equal values and continuity.
/// Two-sided is twice the smaller tail, as in scipy.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> TwoSamples {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return TwoSamples { u: 0.0, p: 1.0, a12: 0.5 };
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (ranks, groups) = ranks(&all);
    let sum = ranks[..n].iter().sum::<f64>();
    let u = sum - (n * (n + 1)) as f64 / 2.0;
    let pairs = n * m;
    let larger = u.max(pairs as f64 - u);
    let tied = groups.iter().any(|size| *size > 1);
    let p = match tied {
        false if n.min(m) <= EXACT || pairs <= EXACT_PAIRS => 2.0 * exact(n, m, larger),
        // The ranks of the second sample are what is left: the smaller one is counted.
        true if pairs <= EXACT_PAIRS && n <= m => 2.0 * permuted(n, &groups, sum),
        true if pairs <= EXACT_PAIRS => 2.0 * permuted(m, &groups, ranks[n..].iter().sum()),
        _ => 2.0 * normal(n, m, larger, &groups),
    };
    TwoSamples { u, p: p.min(1.0), a12: 1.0 - u / pairs as f64 }
}

/// The smallest p-value that samples of these sizes can have: that of samples which do not overlap.
pub fn smallest_p(n: usize, m: usize) -> f64 {
    let apart = |n: usize, from: usize| (0..n).map(|i| (from + i) as f64).collect::<Vec<f64>>();
    mann_whitney(&apart(n, 0), &apart(m, n)).p
}

/// Probability of a rank sum as far from its mean as `sum`, on its side of it, when `n` of the values in `groups` of equal ones
/// are drawn.
fn permuted(n: usize, groups: &[usize], sum: f64) -> f64 {
    // Ways to draw so many values with such a sum of doubled ranks: those of equal values are whole then.
    let all: usize = groups.iter().sum();
    let most = all * (all + 1);
    let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    let mut before = 0;
    for size in groups {
        let rank = 2 * before + size + 1;
        for drawn in (1..=n.min(before + size)).rev() {
            let (fewer, these) = ways.split_at_mut(drawn);
            let mut choices = 1.0;
            for of_group in 1..=drawn.min(*size) {
                choices *= (size + 1 - of_group) as f64 / of_group as f64;
                let others = drawn - of_group;
                // No rank before is above `before`.
                let reach = (others * 2 * before).min(most - of_group * rank);
                for (from, ways) in fewer[others][..=reach].iter().enumerate().filter(|(_, ways)| **ways > 0.0) {
                    these[0][from + of_group * rank] += choices * ways;
                }
            }
        }
        before += size;
    }
    let doubled = (2.0 * sum).round() as usize;
    let total: f64 = ways[n].iter().sum();
    let (below, above): (f64, f64) = (ways[n][..=doubled].iter().sum(), ways[n][doubled..].iter().sum());
    below.min(above) / total
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
    fn samples_that_do_not_overlap_have_the_p_that_counting_gives_equal_values_or_not() {
        // One of the two extreme draws out of all: C(10, 5) = 252, C(6, 3) = 20, C(12, 5) = 792, C(40, 20) = 137846528820.
        for (n, m, draws) in [(5, 5, 252.0), (3, 3, 20.0), (5, 7, 792.0), (20, 20, 137_846_528_820.0)] {
            let low: Vec<f64> = (0..n).map(f64::from).collect();
            let high: Vec<f64> = (0..m).map(|i| 100.0 + f64::from(i)).collect();
            for (a, b) in [(&low, &high), (&vec![1.0; n as usize], &high), (&low, &vec![200.0; m as usize])] {
                for test in [mann_whitney(a, b), mann_whitney(b, a)] {
                    assert!((test.p * draws / 2.0 - 1.0).abs() < 1e-12, "{n} {m}: {test:?}");
                }
            }
            assert!((smallest_p(n as usize, m as usize) * draws / 2.0 - 1.0).abs() < 1e-12);
        }
        // Infinite values, of runs that found nothing, are equal values like others.
        let none = [f64::INFINITY; 5];
        assert!((mann_whitney(&[1.0, 1.0, 2.0, 2.0, 3.0], &none).p - 2.0 / 252.0).abs() < 1e-15);
    }

    #[test]
    fn the_exact_distribution_with_equal_values_is_that_of_all_draws() {
        // Every draw counted one by one, samples of different sizes, whose distribution is not symmetric.
        let values = [1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 7.0];
        let (ranks, groups) = ranks(&values);
        for n in 1..values.len() {
            let draws = (0u32..1 << values.len()).filter(|draw| draw.count_ones() as usize == n);
            let sum = |draw: u32| (0..values.len()).filter(|i| draw >> i & 1 == 1).map(|i| ranks[i]).sum::<f64>();
            let sums: Vec<f64> = draws.map(sum).collect();
            for drawn in &sums {
                let below =
                    sums.iter().filter(|s| *s <= drawn).count().min(sums.iter().filter(|s| *s >= drawn).count());
                let expected = below as f64 / sums.len() as f64;
                assert!((permuted(n, &groups, *drawn) - expected).abs() < 1e-12, "{n} {drawn}");
            }
        }
    }

    #[test]
    fn samples_that_are_one_and_the_same_are_not_told_apart() {
        let same = [1.0; 20];
        let test = mann_whitney(&same, &same);
        assert_eq!((test.p, test.a12), (1.0, 0.5));
        assert_eq!(mann_whitney(&[], &same).p, 1.0);
    }
}
