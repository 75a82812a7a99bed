//! The best distinct solutions so far.

use super::problem::Key128;
use super::score::Score;

/// A solution with its price.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<S> {
    /// The solution.
    pub solution: S,
    /// Its price, at the fidelity of whoever holds the entry.
    pub score: Score,
    /// Its identity.
    pub key: Key128,
    /// The options that lead to it, where it was found as a path.
    pub path: Option<Box<[u32]>>,
}

/// The best `capacity` distinct solutions, best first; equal scores in the order of their keys.
#[derive(Debug, Clone)]
pub struct Archive<S> {
    entries: Vec<Entry<S>>,
    capacity: usize,
}

impl<S: Clone> Archive<S> {
    /// An empty archive of at most `capacity` solutions (at least one).
    pub fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity: capacity.max(1) }
    }

    /// The solutions, best first.
    pub fn entries(&self) -> &[Entry<S>] {
        &self.entries
    }

    /// The best of them.
    pub fn best(&self) -> Option<&Entry<S>> {
        self.entries.first()
    }

    /// Whether a solution of this score and key would be kept.
    pub fn admits(&self, score: Score, key: Key128) -> bool {
        self.entries.len() < self.capacity
            || self.entries.last().is_some_and(|last| (score, key) < (last.score, last.key))
    }

    /// Keeps `entry` if it is good enough and new; whether the best has a better score now.
    pub fn offer(&mut self, entry: Entry<S>) -> bool {
        let improves = self.best().is_none_or(|best| entry.score < best.score);
        let rank = self.entries.partition_point(|e| (e.score, e.key) < (entry.score, entry.key));
        if self.entries.get(rank).is_some_and(|e| e.key == entry.key) {
            return false;
        }
        if rank < self.capacity {
            self.entries.insert(rank, entry);
            self.entries.truncate(self.capacity);
        }
        improves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_best_distinct_ones_in_order() {
        let mut archive = Archive::new(2);
        let entry = |score, key| Entry { solution: key, score, key: Key128(key), path: None };
        assert!(archive.offer(entry(Score::Infeasible(1.0), 9)));
        assert!(archive.offer(entry(Score::Feasible(5.0), 1)));
        assert!(!archive.offer(entry(Score::Feasible(5.0), 1)), "the same again is no improvement");
        assert!(!archive.offer(entry(Score::Feasible(5.0), 0)), "a tie is no improvement");
        assert!(archive.offer(entry(Score::Feasible(4.0), 7)));
        assert!(!archive.admits(Score::Feasible(5.0), Key128(1)));
        assert_eq!(archive.entries().iter().map(|e| e.solution).collect::<Vec<_>>(), [7, 0]);
    }
}
