//! Where a sequence of parts is cut into chunks so that no device has much more work than the others.

use crate::pipeline::Placement;

/// Sizes of the chunks, one per stage of `map`, each with at least one part: the busiest device has as little work as
/// moves of single cuts can reach. `None` when there are fewer parts than stages.
///
/// Starts from equal shares of the work by device, then moves one cut at a time by up to `REACH` parts while the sorted
/// device loads fall.
pub fn balance(load: &[f64], map: &Placement) -> Option<Vec<usize>> {
    const REACH: usize = 2;
    let stages = map.stages();
    if load.len() < stages {
        return None;
    }
    let mut before = vec![0.0; load.len() + 1];
    for (i, load) in load.iter().enumerate() {
        before[i + 1] = before[i] + load;
    }
    let total = before[load.len()];
    let mut cuts: Vec<usize> = (0..=stages)
        .map(|x| before.partition_point(|sum| *sum < total * x as f64 / stages as f64 * (1.0 - 1e-12)))
        .collect();
    (cuts[0], cuts[stages]) = (0, load.len());
    for x in 1..stages {
        cuts[x] = cuts[x].clamp(cuts[x - 1] + 1, load.len() - (stages - x));
    }
    let loads = |cuts: &[usize]| {
        let mut of_device = vec![0.0f64; map.devices()];
        for x in 0..stages {
            of_device[map.device(x)] += before[cuts[x + 1]] - before[cuts[x]];
        }
        of_device.sort_by(|a, b| b.total_cmp(a));
        of_device
    };
    let is_less = |a: &[f64], b: &[f64]| {
        let differ = a.iter().zip(b).find(|(a, b)| (*a - *b).abs() > 1e-12 * total);
        differ.is_some_and(|(a, b)| a < b)
    };
    let mut now = loads(&cuts);
    loop {
        let mut best: Option<(Vec<usize>, Vec<f64>)> = None;
        for first in 1..stages {
            // A run of cuts moves together, so that parts can travel through full chunks.
            for last in first..stages {
                for by in (1..=REACH).flat_map(|n| [n as isize, -(n as isize)]) {
                    let mut moved = cuts.clone();
                    moved[first..=last].iter_mut().for_each(|cut| *cut = cut.saturating_add_signed(by));
                    if moved.windows(2).any(|pair| pair[0] >= pair[1]) {
                        continue;
                    }
                    let found = loads(&moved);
                    if is_less(&found, best.as_ref().map_or(&now, |(_, loads)| loads)) {
                        best = Some((moved, found));
                    }
                }
            }
        }
        match best {
            Some((moved, found)) => (cuts, now) = (moved, found),
            None => return Some(cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_head_gets_fewer_layers_beside_it() {
        let mut load = vec![1.0; 16];
        load[15] += 2.0;
        let sizes = balance(&load, &Placement::looped(4, 1)).unwrap();
        assert_eq!(sizes.iter().sum::<usize>(), 16);
        assert_eq!(sizes[3], 2, "{sizes:?}");
        assert!(sizes[..3].iter().all(|n| (4..=5).contains(n)), "{sizes:?}");
    }

    #[test]
    fn both_chunks_of_a_device_count() {
        let mut load = vec![1.0; 16];
        load[15] += 2.0;
        let map = Placement::vee(4);
        let sizes = balance(&load, &map).unwrap();
        let mut of_device = [0.0; 4];
        let mut part = 0;
        for (x, n) in sizes.iter().enumerate() {
            of_device[map.device(x)] += load[part..part + n].iter().sum::<f64>();
            part += n;
        }
        assert!(of_device.iter().all(|load| (4.0..=5.0).contains(load)), "{of_device:?}");
        assert!(balance(&load[..7], &map).is_none());
    }
}
