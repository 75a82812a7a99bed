//! What memory is worth to the parts of a stage: the multiplier of its linear relaxation.
//!
//! Were every part to take a mixture of its options, the best mixtures under a cap on memory would all trade bytes for
//! seconds at one rate (Lagrange relaxation of the multiple-choice knapsack; Sinha and Zoltners 1979). A prior that charges
//! options that rate proposes plans that just about fit, layer by layer.

use super::fast::Frame;
use super::table::at;
use crate::search::decompose::ChainOption;

/// Seconds that an option takes per micro-batch, with its share of what is paid once per step of `m`.
pub fn work(o: &ChainOption, m: f64) -> f64 {
    o.cost[at::FORWARD] + o.cost[at::BACKWARD] + (o.cost[at::REDUCE] + o.cost[at::TAIL]) / m
}

/// How the options of a class trade memory for time where so many micro-batches are kept.
#[derive(Debug, Clone)]
pub struct Trade {
    /// Least momentary need of an option, bytes.
    peak: f64,
    /// Every step from the leanest option to a faster one, greatest saving per byte first: seconds per byte, and bytes.
    steps: Vec<(f64, f64)>,
}

impl Trade {
    /// Of `options`, `live` of `m` micro-batches of which are kept.
    pub fn of(options: &[ChainOption], live: f64, m: f64) -> Self {
        let hull = lower_hull(options.iter().map(|o| (o.fixed + live * o.scaled, work(o, m))).collect());
        let step = |w: &[(f64, f64)]| {
            let bytes = w[1].0 - w[0].0;
            ((w[0].1 - w[1].1) / bytes, bytes)
        };
        let peak = options.iter().map(|o| o.peak).fold(f64::INFINITY, f64::min);
        Self { peak, steps: hull.windows(2).map(step).collect() }
    }
}

/// Seconds per micro-batch that a byte is worth to parts of the classes `due` in a chunk of a stage, when `free` bytes are left
/// beyond their leanest options and the momentary need is at least `peak`.
pub fn of_byte(frame: &Frame, due: &[u32], (stage, chunk): (usize, usize), free: f64, peak: f64) -> f64 {
    let mut counts: Vec<(usize, f64)> = Vec::new();
    for class in due {
        match counts.iter_mut().find(|c| c.0 == *class as usize) {
            Some(count) => count.1 += 1.0,
            None => counts.push((*class as usize, 1.0)),
        }
    }
    let mut steps: Vec<(f64, f64)> = Vec::new();
    let mut peak = peak;
    for (class, count) in counts {
        let trade = frame.trade(class, stage, chunk);
        peak = peak.max(trade.peak);
        steps.extend(trade.steps.iter().map(|(rate, bytes)| (*rate, count * bytes)));
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut free = free - peak;
    for (rate, bytes) in steps {
        free -= bytes;
        if free < 0.0 {
            return rate;
        }
    }
    0.0
}

/// Lower convex hull of (bytes, seconds), from the leanest point to the fastest.
fn lower_hull(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for p in points {
        if hull.last().is_some_and(|q| p.1 >= q.1) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            if (b.1 - a.1) * (p.0 - a.0) < (p.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push(p);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::lower_hull;

    #[test]
    fn the_hull_leaves_out_what_a_mixture_of_others_beats() {
        let points = vec![(4.0, 1.0), (1.0, 9.0), (2.0, 8.0), (2.0, 3.0), (3.0, 2.9), (5.0, 2.0)];
        assert_eq!(lower_hull(points), [(1.0, 9.0), (2.0, 3.0), (4.0, 1.0)]);
    }
}
