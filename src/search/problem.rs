//! The interface between a decision tree and the algorithms that search it.

use super::decompose::Decompose;
use super::score::Score;
use serde::{Deserialize, Serialize};

/// What a decision is about. Two nodes with the same slot decide the same thing, whatever came before.
pub type Slot = u64;

/// What an option means, whatever the prefix: crossover copies alleles, not option numbers.
pub type Allele = u64;

/// Canonical 128-bit identity of a solution, namespaced by the problem and the version of its cost model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key128(pub u128);

/// How exactly to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fidelity {
    /// A closed form for the inner loop; never above [`Fidelity::Exact`].
    Fast,
    /// The full evaluation, for finalists.
    Exact,
}

/// What stands at the end of a prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Node {
    /// The path is complete.
    Complete,
    /// No completion is feasible; the smallest relative violation known.
    DeadEnd(f64),
    /// The next decision.
    Choose {
        /// What is decided.
        slot: Slot,
        /// Number of options, at least one.
        options: u32,
    },
}

/// What is known about every completion of a prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// No completion has a smaller objective, at any fidelity.
    AtLeast(f64),
    /// No completion is feasible.
    Infeasible,
}

/// Where prefixes meet: those of equal key have the same completions, alike in feasibility, whose objectives differ by as
/// much as what was spent does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meeting {
    /// What the completions depend on.
    pub key: u128,
    /// What of the objective is spent already.
    pub spent: f64,
}

/// A decision tree with a price at its leaves.
pub trait Problem: Sync {
    /// A prefix, kept incrementally.
    type State: Clone + Send + Sync;
    /// What a complete path means. Several paths, even of several problems, may lead to one solution.
    type Solution: Clone + Send + Sync;

    /// The empty prefix.
    fn root(&self) -> Self::State;
    /// What stands at the end of `s`.
    fn node(&self, s: &Self::State) -> Node;
    /// What option `option` of the node at `s` means.
    fn allele(&self, s: &Self::State, option: u32) -> Allele;
    /// The option at `s` that comes nearest to `wanted`.
    fn nearest(&self, s: &Self::State, wanted: Allele) -> u32;
    /// Fills `out` (one entry per option) with non-negative weights: how promising each option is. All equal if unknown.
    fn prior(&self, _s: &Self::State, out: &mut [f32]) {
        out.fill(1.0);
    }
    /// Takes option `option`.
    fn push(&self, s: &mut Self::State, option: u32);
    /// Undoes the last push.
    fn pop(&self, s: &mut Self::State);
    /// What is known about the completions of `s`.
    fn bound(&self, _s: &Self::State) -> Bound {
        Bound::AtLeast(0.0)
    }
    /// What the completions of `s` depend on, where the problem can tell and prefixes meet at all.
    fn meeting(&self, _s: &Self::State) -> Option<Meeting> {
        None
    }
    /// The meaning of a complete path.
    fn solution(&self, s: &Self::State) -> Self::Solution;
    /// Canonical identity: symmetric solutions share it.
    fn key(&self, x: &Self::Solution) -> Key128;
    /// The region of the space that a solution lies in, where the problem tells regions apart: small changes seldom lead
    /// from a good solution of one to a good one of another, so methods that keep several solutions keep some of each.
    fn niche(&self, _x: &Self::Solution) -> u64 {
        0
    }
    /// What else a feasible solution is measured by besides its objective, smaller is better; the same number of measures for all.
    /// Only methods that look for trade-offs ask.
    fn measures(&self, _x: &Self::Solution) -> Vec<f64> {
        Vec::new()
    }
    /// How much each decision of the path to `x` weighs in its objective: the decisions of the slowest stage weigh most.
    /// Empty where the problem does not tell; entries beyond the end count as zero.
    fn strain(&self, _x: &Self::Solution) -> Vec<f32> {
        Vec::new()
    }
    /// The price. Only the evaluator calls it.
    fn score(&self, x: &Self::Solution, fidelity: Fidelity) -> Score;
    /// Number of distinct complete paths as a decimal logarithm, if known.
    fn space_log10(&self) -> Option<f64> {
        None
    }
    /// The structure that exact methods use, if the problem has it.
    fn decompose(&self) -> Option<&dyn Decompose<Solution = Self::Solution>> {
        None
    }
    /// Domain moves on complete solutions, if the problem has them.
    fn moves(&self) -> Option<&dyn Moves<Solution = Self::Solution>> {
        None
    }
}

/// Domain operators on complete solutions, e.g. "set a run of layers to one strategy".
pub trait Moves: Sync {
    /// As [`Problem::Solution`].
    type Solution;
    /// Number of kinds of move.
    fn kinds(&self) -> u32;
    /// A neighbour of `x` by a move of kind `kind`; `random` yields uniform 64-bit words. `None` if the move does not apply.
    fn neighbour(&self, x: &Self::Solution, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<Self::Solution>;
    /// The alleles of `x` along its path, so that tree-shaped and solution-shaped methods can exchange solutions.
    fn alleles(&self, x: &Self::Solution) -> Vec<Allele>;
}
