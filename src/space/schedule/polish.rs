//! Whole schedules as a problem of moves only: every move is a walk, so that one evaluation is work enough for a thread.

use super::solution::{Solution, Workshop};
use super::walk::Walk;
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use crate::search::score::Score;

/// The problem.
#[derive(Debug)]
pub struct Polish<'w> {
    /// Where solutions get their price.
    pub workshop: &'w Workshop,
    /// Steps of a walk.
    pub steps: u32,
}

impl Problem for Polish<'_> {
    type State = ();
    type Solution = Solution;

    fn root(&self) {}

    /// There is no path: solutions are handed in.
    fn node(&self, (): &()) -> Node {
        Node::DeadEnd(1.0)
    }

    fn allele(&self, (): &(), _: u32) -> Allele {
        0
    }

    fn nearest(&self, (): &(), _: Allele) -> u32 {
        0
    }

    fn push(&self, (): &mut (), _: u32) {}

    fn pop(&self, (): &mut ()) {}

    fn bound(&self, (): &()) -> Bound {
        Bound::AtLeast(self.workshop.case.bound())
    }

    /// Never asked for, there being no complete path.
    fn solution(&self, (): &()) -> Solution {
        Solution::order(0, Vec::new())
    }

    fn key(&self, x: &Solution) -> Key128 {
        self.workshop.key(x)
    }

    fn score(&self, x: &Solution, _: Fidelity) -> Score {
        self.workshop.score(x)
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = Solution>> {
        Some(self)
    }
}

impl Moves for Polish<'_> {
    type Solution = Solution;

    fn kinds(&self) -> u32 {
        1
    }

    fn neighbour(&self, x: &Solution, _: u32, random: &mut dyn FnMut() -> u64) -> Option<Solution> {
        Some(self.workshop.walk_from(x, Walk { steps: self.steps, seed: random() }))
    }

    fn alleles(&self, _: &Solution) -> Vec<Allele> {
        Vec::new()
    }
}
