//! Ranks, quantiles, and Holm's correction.

/// Ranks from one, equal values sharing the mean of theirs; and the sizes of the groups of equal values.
pub fn ranks(values: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut groups = Vec::new();
    let mut start = 0;
    while start < order.len() {
        let same = order[start..].iter().take_while(|i| values[**i] == values[order[start]]).count().max(1);
        let shared = start as f64 + (same as f64 + 1.0) / 2.0;
        order[start..start + same].iter().for_each(|i| ranks[*i] = shared);
        groups.push(same);
        start += same;
    }
    (ranks, groups)
}

/// The quantile `q` of `values`, linear between order statistics (type 7 of Hyndman and Fan 1996). NaN if there are none.
/// Infinite where an infinite value is touched.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    if low == high { low } else { low + (high - low) * at.fract() }
}

/// The middle of `values`.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Holm's step-down adjustment of p-values (Holm 1979, "A simple sequentially rejective multiple test procedure"); in the
/// order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut most: f64 = 0.0;
    for (place, i) in order.into_iter().enumerate() {
        most = most.max(((p.len() - place) as f64 * p[i]).min(1.0));
        adjusted[i] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), (vec![3.5, 1.0, 3.5, 2.0], vec![1, 1, 2]));
        assert_eq!(ranks(&[f64::INFINITY, f64::INFINITY]).0, [1.5, 1.5]);
        assert_eq!(ranks(&[]).0, Vec::<f64>::new());
    }

    #[test]
    fn quantiles_lie_between_order_statistics() {
        // numpy.percentile([1, 2, 3, 4], [0, 25, 50, 90, 100]).
        let values = [4.0, 1.0, 3.0, 2.0];
        let all = [0.0, 0.25, 0.5, 0.9, 1.0].map(|q| quantile(&values, q));
        assert_eq!(all, [1.0, 1.75, 2.5, 3.7, 4.0]);
        assert_eq!(median(&[1.0, f64::INFINITY, f64::INFINITY]), f64::INFINITY);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn holm_steps_down() {
        // The example of R's p.adjust: 0.01, 0.02, 0.03 gives 0.03, 0.04, 0.04.
        let adjusted = holm(&[0.03, 0.01, 0.02]);
        for (a, b) in adjusted.iter().zip([0.04, 0.03, 0.04]) {
            assert!((a - b).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
