//! Configurations that somebody has tried, as a decision tree: one decision per column, an evaluation returns what was measured.
//!
//! What failed is infeasible. Where a configuration was tried several times its objective is the mean of what succeeded.

use super::super::problem::{Allele, Fidelity, Key128, Node, Problem};
use super::super::score::Score;
use super::{identity, key};
use std::collections::BTreeMap;

/// A table of trials.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Configurations in order, one number per column, and what came of them.
    rows: Vec<(Vec<u32>, Option<f64>)>,
    columns: usize,
    identity: u128,
}

/// The configurations that agree with the decisions so far.
#[derive(Debug, Clone)]
pub struct Agreeing {
    chosen: Vec<u32>,
    ranges: Vec<(usize, usize)>,
    /// Values of the next column that occur.
    options: Vec<Vec<u32>>,
}

impl Measured {
    /// Trials of configurations of `columns` numbers; `None` where one failed.
    pub fn new(columns: usize, trials: impl IntoIterator<Item = (Vec<u32>, Option<f64>)>) -> Self {
        let mut by_configuration: BTreeMap<Vec<u32>, Vec<f64>> = BTreeMap::new();
        for (mut configuration, outcome) in trials {
            configuration.resize(columns, 0);
            by_configuration.entry(configuration).or_default().extend(outcome.filter(|value| value.is_finite()));
        }
        let mean = |of: Vec<f64>| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        let rows: Vec<(Vec<u32>, Option<f64>)> = by_configuration.into_iter().map(|(c, of)| (c, mean(of))).collect();
        let numbers = rows.iter().flat_map(|(configuration, outcome)| {
            configuration.iter().map(|v| f64::from(*v)).chain([outcome.unwrap_or(f64::NAN)]).collect::<Vec<_>>()
        });
        let identity = identity("measured", numbers);
        Self { rows, columns, identity }
    }

    /// Number of configurations.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn values(&self, (from, to): (usize, usize), column: usize) -> Vec<u32> {
        let mut values: Vec<u32> = match column < self.columns {
            true => self.rows[from..to].iter().map(|(configuration, _)| configuration[column]).collect(),
            false => Vec::new(),
        };
        values.dedup();
        values
    }
}

impl Problem for Measured {
    type State = Agreeing;
    /// The number of a configuration.
    type Solution = u32;

    fn root(&self) -> Agreeing {
        let all = (0, self.rows.len());
        Agreeing { chosen: Vec::new(), ranges: vec![all], options: vec![self.values(all, 0)] }
    }

    fn node(&self, s: &Agreeing) -> Node {
        match s.options.last() {
            _ if self.rows.is_empty() => Node::DeadEnd(f64::INFINITY),
            Some(options) if s.chosen.len() < self.columns => {
                Node::Choose { slot: s.chosen.len() as u64, options: options.len() as u32 }
            }
            _ => Node::Complete,
        }
    }

    fn allele(&self, s: &Agreeing, option: u32) -> Allele {
        s.options.last().and_then(|options| options.get(option as usize)).map_or(0, |value| u64::from(*value))
    }

    fn nearest(&self, s: &Agreeing, wanted: Allele) -> u32 {
        let options = s.options.last().map_or(&[][..], Vec::as_slice);
        let off = |value: &u32| u64::from(*value).abs_diff(wanted);
        let nearest = options.iter().enumerate().min_by_key(|(_, value)| off(value));
        nearest.map_or(0, |(option, _)| option as u32)
    }

    fn push(&self, s: &mut Agreeing, option: u32) {
        let value = self.allele(s, option) as u32;
        let column = s.chosen.len();
        let (from, to) = s.ranges.last().copied().unwrap_or_default();
        let rows = &self.rows[from..to];
        let start = from + rows.partition_point(|(configuration, _)| configuration[column] < value);
        let end = from + rows.partition_point(|(configuration, _)| configuration[column] <= value);
        s.chosen.push(value);
        s.ranges.push((start, end));
        s.options.push(self.values((start, end), column + 1));
    }

    fn pop(&self, s: &mut Agreeing) {
        if s.chosen.pop().is_some() {
            s.ranges.pop();
            s.options.pop();
        }
    }

    fn solution(&self, s: &Agreeing) -> u32 {
        s.ranges.last().map_or(0, |range| range.0 as u32)
    }

    fn key(&self, x: &u32) -> Key128 {
        key(self.identity, [*x].into_iter())
    }

    fn score(&self, x: &u32, _: Fidelity) -> Score {
        match self.rows.get(*x as usize) {
            Some((_, Some(value))) => Score::feasible(*value),
            Some((_, None)) => Score::infeasible(1.0),
            None => Score::Failed,
        }
    }

    fn space_log10(&self) -> Option<f64> {
        Some((self.rows.len() as f64).log10())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::walk::{End, Walk};
    use super::*;

    #[test]
    fn only_what_was_tried_can_be_chosen_and_what_was_measured_is_returned() {
        let trials = [(vec![1, 4], Some(3.0)), (vec![1, 2], None), (vec![7, 4], Some(2.0)), (vec![7, 4], Some(4.0))];
        let table = Measured::new(2, trials);
        assert_eq!(table.len(), 3);
        let mut walk = Walk::new(&table);
        assert_eq!(walk.node(), Node::Choose { slot: 0, options: 2 });
        walk.push(1);
        assert_eq!(walk.node(), Node::Choose { slot: 1, options: 1 });
        assert_eq!(walk.complete(None, |_| 0), End::Complete);
        assert_eq!(table.score(&walk.solution(), Fidelity::Exact), Score::Feasible(3.0));
        walk.back_to(0);
        walk.push(0);
        walk.push(table.nearest(walk.state(), 1));
        assert_eq!(table.score(&walk.solution(), Fidelity::Exact), Score::Infeasible(1.0));
        assert_eq!(Walk::new(&Measured::new(2, [])).node(), Node::DeadEnd(f64::INFINITY));
    }
}
