//! What runs are measured by: expected running time to a target, share of targets reached, distance at a budget.
//!
//! Expected running time is all evaluations of all runs until success over the number of successes (Hansen et al. 2016,
//! arXiv 1605.03560, section 5). Targets are relative distances to the reference, on a grid that is even in logarithms.

use super::record::Run;
use super::reference_value::{Reference, reaches};

/// Number of targets of an ECDF, from [`FAR`] to [`NEAR`].
pub const TARGETS: usize = 51;
/// Farthest target: eleven times the reference.
pub const FAR: f64 = 10.0;
/// Nearest target.
pub const NEAR: f64 = 1e-4;

/// The targets of an ECDF, farthest first.
pub fn targets() -> Vec<f64> {
    let step = (NEAR / FAR).log10() / (TARGETS - 1) as f64;
    (0..TARGETS).map(|i| FAR * 10f64.powf(step * i as f64)).collect()
}

/// Evaluations until a run came within `distance` of the reference.
pub fn hit(run: &Run, reference: &Reference, distance: f64) -> Option<u64> {
    run.trace.iter().find(|point| reaches(reference, point.score, distance)).map(|point| point.evaluations)
}

/// Wall seconds until then.
pub fn hit_s(run: &Run, reference: &Reference, distance: f64) -> Option<f64> {
    run.trace.iter().find(|point| reaches(reference, point.score, distance)).map(|point| point.wall_s)
}

/// How often a target was reached, and what that takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningTime {
    /// Runs that reached it.
    pub successes: usize,
    /// Runs.
    pub runs: usize,
    /// Expected evaluations; infinite without a success.
    pub expected: f64,
}

/// Expected running time to a target.
pub fn running_time(runs: &[&Run], reference: &Reference, distance: f64) -> RunningTime {
    let hits: Vec<Option<u64>> = runs.iter().map(|run| hit(run, reference, distance)).collect();
    let successes = hits.iter().flatten().count();
    let spent: u64 = hits.iter().zip(runs).map(|(hit, run)| hit.unwrap_or(run.evaluations)).sum();
    let expected = if successes == 0 { f64::INFINITY } else { spent as f64 / successes as f64 };
    RunningTime { successes, runs: runs.len(), expected }
}

/// Distance to the reference after `evaluations`; infinite where nothing feasible was found.
pub fn distance_at(run: &Run, reference: &Reference, evaluations: u64) -> f64 {
    run.best_at(evaluations).map_or(f64::INFINITY, |value| reference.distance(value))
}

/// Evaluations at which the pairs of (run, target) were reached, sorted, and the number of pairs.
pub fn pairs<'r>(runs: impl Iterator<Item = (&'r Run, &'r Reference)>) -> (Vec<u64>, usize) {
    let targets = targets();
    let (mut reached, mut all) = (Vec::new(), 0);
    for (run, reference) in runs {
        all += targets.len();
        reached.extend(targets.iter().filter_map(|target| hit(run, reference, *target)));
    }
    reached.sort_unstable();
    (reached, all)
}

/// Area under an ECDF over the logarithm of the evaluations from 1 to `budget`, 0 to 1.
pub fn area(reached: &[u64], all: usize, budget: u64) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let width = (budget.max(2) as f64).ln();
    let left = |at: &u64| (1.0 - (*at.max(&1) as f64).ln() / width).max(0.0);
    // An empty sum is a negative zero.
    (reached.iter().map(left).sum::<f64>() + 0.0) / all as f64
}

#[cfg(test)]
mod tests {
    use super::super::record::Point;
    use super::super::reference_value::Provenance;
    use super::*;
    use crate::search::budget::Stop;
    use crate::search::score::Score;

    fn run(points: &[(u64, f64)], evaluations: u64) -> Run {
        let point = |(evaluations, value): &(u64, f64)| Point {
            evaluations: *evaluations,
            requests: *evaluations,
            wall_s: 0.0,
            cpu_s: 0.0,
            score: Score::Feasible(*value),
        };
        Run {
            cell: String::new(),
            instance: "i".into(),
            backend: "b".into(),
            seed: 0,
            stop: Stop::Evaluations,
            best: points.last().map(|p| p.1),
            bound: None,
            evaluations,
            requests: evaluations,
            failed: 0,
            dead_ends: 0,
            batches: 0,
            lookups: 0,
            refused: None,
            failure: None,
            path: None,
            wall_s: 0.0,
            cpu_s: 0.0,
            trace: points.iter().map(point).collect(),
        }
    }

    fn ten() -> Reference {
        Reference { value: 10.0, provenance: Provenance::Optimal, source: String::new() }
    }

    #[test]
    fn expected_running_time_charges_failures_to_successes() {
        let (a, b) = (run(&[(1, 20.0), (30, 11.0)], 100), run(&[(1, 20.0)], 100));
        let time = running_time(&[&a, &b], &ten(), 0.1);
        assert_eq!((time.successes, time.runs, time.expected), (1, 2, 130.0));
        assert_eq!(running_time(&[&b], &ten(), 0.1).expected, f64::INFINITY);
    }

    #[test]
    fn the_area_is_one_for_a_perfect_first_guess_and_zero_for_nothing() {
        let (perfect, hopeless) = (run(&[(1, 10.0)], 100), run(&[], 100));
        let reference = ten();
        let (reached, all) = pairs([(&perfect, &reference)].into_iter());
        assert_eq!((reached.len(), all), (TARGETS, TARGETS));
        assert_eq!(area(&reached, all, 100), 1.0);
        let (reached, all) = pairs([(&hopeless, &reference)].into_iter());
        assert_eq!(area(&reached, all, 100), 0.0);
        // Every target at the square root of the budget: half.
        let half = run(&[(10, 10.0)], 100);
        let (reached, all) = pairs([(&half, &reference)].into_iter());
        assert!((area(&reached, all, 100) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn targets_are_even_in_logarithms() {
        let targets = targets();
        assert_eq!((targets.len(), targets[0]), (TARGETS, FAR));
        assert!((targets[50] / NEAR - 1.0).abs() < 1e-9 && (targets[10] / 1.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rounding_below_an_optimum_is_at_it() {
        assert_eq!(ten().distance(10.0 - 1e-12), 0.0);
        assert!(ten().distance(9.0) < 0.0);
    }
}
