//! Whether the seeds are enough for any difference to be significant.

use super::analysis::{LEVEL, View};
use super::stats::smallest_p;
use super::tables::short;
use std::collections::BTreeSet;

/// What is said where no outcome of the runs would have been significant.
pub(super) const CANNOT_TELL: &str = "cannot tell";

/// Whether one of several tests on samples of these sizes can come below the level after Holm's correction: it takes the smallest
/// p times the number of tests.
pub(super) fn can_tell(sizes: impl Iterator<Item = (usize, usize)>) -> bool {
    let all: Vec<(usize, usize)> = sizes.collect();
    let different: BTreeSet<&(usize, usize)> = all.iter().collect();
    let smallest = different.into_iter().map(|(n, m)| smallest_p(*n, *m)).fold(1.0, f64::min);
    smallest * (all.len().max(1) as f64) < LEVEL
}

/// What to say where the seeds are too few for the instances.
pub(super) fn too_few(view: &View<'_>) -> Option<String> {
    let seeds = view.results.manifest.suite.seeds.count as usize;
    let instances = view.results.manifest.instances.len();
    let enough = |n: usize| can_tell(std::iter::repeat_n((n, n), instances));
    if enough(seeds) {
        return None;
    }
    let needed = (seeds..).find(|n| enough(*n)).unwrap_or(usize::MAX);
    Some(format!(
        " `{CANNOT_TELL}`: with {seeds} seeds the smallest p there can be is {}, and over {instances} instances none comes below \
         {LEVEL}; {needed} seeds are needed.",
        short(smallest_p(seeds, seeds))
    ))
}
