//! How far predictions are from measurements, and whether they rank alike.
//!
//! Errors are relative: `(predicted - measured) / measured`.

/// Figures of one set of pairs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Errors {
    /// How many pairs.
    pub rows: usize,
    /// Mean of the errors' sizes.
    pub mape: f64,
    /// Median of the errors' sizes.
    pub median: f64,
    /// Size of the error that 95 % do not exceed.
    pub p95: f64,
    /// Largest size of an error.
    pub worst: f64,
    /// Mean of the errors: below zero where predictions are too low.
    pub bias: f64,
}

/// The errors of `(predicted, measured)` pairs; `None` without pairs.
pub fn errors(pairs: &[(f64, f64)]) -> Option<Errors> {
    let signed: Vec<f64> = pairs.iter().map(|(p, m)| p / m - 1.0).collect();
    let mut sizes: Vec<f64> = signed.iter().map(|e| e.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let n = sizes.len() as f64;
    let worst = *sizes.last()?;
    Some(Errors {
        rows: sizes.len(),
        mape: sizes.iter().sum::<f64>() / n,
        median: quantile(&sizes, 0.5),
        p95: quantile(&sizes, 0.95),
        worst,
        bias: signed.iter().sum::<f64>() / n,
    })
}

/// The quantile of sorted numbers, linear between neighbours; zero without numbers.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// Kendall's tau-b of pairs: 1 when both orders agree, -1 when they are opposite; `None` where one side is constant.
///
/// By merge sort on one side while counting exchanges on the other (Knight 1966), `O(n log n)`.
pub fn kendall_tau(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as u64;
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let all = n * n.saturating_sub(1) / 2;
    type Same = dyn Fn(&(f64, f64), &(f64, f64)) -> bool;
    let ties = |same: &Same, list: &[(f64, f64)]| -> u64 {
        list.chunk_by(same).map(|run| run.len() as u64 * (run.len() as u64 - 1) / 2).sum()
    };
    let ties_first = ties(&|a, b| a.0 == b.0, &sorted);
    let ties_both = ties(&|a, b| a == b, &sorted);
    let mut second: Vec<f64> = sorted.iter().map(|p| p.1).collect();
    let discordant = inversions(&mut second);
    let by_second: Vec<(f64, f64)> = second.iter().map(|&x| (0.0, x)).collect();
    let ties_second = ties(&|a, b| a.1 == b.1, &by_second);
    let (x, y) = (all.checked_sub(ties_first)?, all.checked_sub(ties_second)?);
    if x == 0 || y == 0 {
        return None;
    }
    let concordant = all + ties_both - ties_first - ties_second - discordant;
    Some((concordant as f64 - discordant as f64) / ((x as f64) * (y as f64)).sqrt())
}

/// Sorts, and counts the pairs that stood in the wrong order.
fn inversions(list: &mut [f64]) -> u64 {
    if list.len() < 2 {
        return 0;
    }
    let middle = list.len() / 2;
    let mut count = inversions(&mut list[..middle]) + inversions(&mut list[middle..]);
    let mut merged = Vec::with_capacity(list.len());
    let (mut i, mut j) = (0, middle);
    while i < middle && j < list.len() {
        if list[j] < list[i] {
            count += (middle - i) as u64;
            merged.push(list[j]);
            j += 1;
        } else {
            merged.push(list[i]);
            i += 1;
        }
    }
    merged.extend_from_slice(&list[i..middle]);
    merged.extend_from_slice(&list[j..]);
    list.copy_from_slice(&merged);
    count
}

/// Winkler's score of an interval that should hold 80 %: its width, and ten times what a measurement lies outside (Winkler 1972).
pub fn winkler(low: f64, high: f64, measured: f64) -> f64 {
    const ALPHA: f64 = 0.2;
    (high - low) + 2.0 / ALPHA * ((low - measured).max(0.0) + (measured - high).max(0.0))
}

/// Area under the curve of true over false positives: the chance that a `positive` scores above a `negative`, ties half.
pub fn auc(positives: &[f64], negatives: &[f64]) -> Option<f64> {
    if positives.is_empty() || negatives.is_empty() {
        return None;
    }
    let mut below = negatives.to_vec();
    below.sort_by(f64::total_cmp);
    let wins = |x: &f64| {
        let less = below.partition_point(|y| y < x);
        let not_more = below.partition_point(|y| y <= x);
        (less + not_more) as f64 / 2.0
    };
    Some(positives.iter().map(wins).sum::<f64>() / (positives.len() as f64 * negatives.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_known_pairs() {
        let e = errors(&[(110.0, 100.0), (80.0, 100.0), (100.0, 100.0)]).unwrap();
        assert_eq!((e.rows, e.median), (3, 0.10000000000000009));
        assert!((e.mape - 0.1).abs() < 1e-12 && (e.worst - 0.2).abs() < 1e-12 && (e.bias + 0.1 / 3.0).abs() < 1e-12);
        assert_eq!(errors(&[]), None);
    }

    #[test]
    fn tau_counts_pairs_as_the_definition_does() {
        let naive = |pairs: &[(f64, f64)]| {
            let (mut up, mut down, mut tie_x, mut tie_y) = (0i64, 0i64, 0i64, 0i64);
            for (i, a) in pairs.iter().enumerate() {
                for b in &pairs[i + 1..] {
                    match ((a.0 - b.0) * (a.1 - b.1)).partial_cmp(&0.0) {
                        Some(std::cmp::Ordering::Greater) => up += 1,
                        Some(std::cmp::Ordering::Less) => down += 1,
                        _ => {
                            tie_x += i64::from(a.0 == b.0);
                            tie_y += i64::from(a.1 == b.1);
                        }
                    }
                }
            }
            let all = (pairs.len() * (pairs.len() - 1) / 2) as i64;
            (up - down) as f64 / (((all - tie_x) * (all - tie_y)) as f64).sqrt()
        };
        for seed in 0..20u64 {
            let draw = |i: u64, k: u64| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * k) >> 5) % 7;
            let pairs: Vec<(f64, f64)> = (0..23).map(|i| (draw(i, 77) as f64, draw(i * 3 + 1, 131) as f64)).collect();
            assert!((kendall_tau(&pairs).unwrap() - naive(&pairs)).abs() < 1e-12);
        }
        assert_eq!(kendall_tau(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(kendall_tau(&[(1.0, 1.0), (2.0, 5.0), (3.0, 6.0)]), Some(1.0));
    }

    #[test]
    fn auc_is_the_chance_to_rank_right() {
        assert_eq!(auc(&[3.0, 4.0], &[1.0, 2.0]), Some(1.0));
        assert_eq!(auc(&[1.0, 2.0], &[1.0, 2.0]), Some(0.5));
        assert_eq!(auc(&[], &[1.0]), None);
    }
}
