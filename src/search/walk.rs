//! Walking a decision tree: one state that moves along a path, and completions that look ahead.

use super::problem::{Allele, Bound, Node, Problem, Slot};
use super::stream::Stream;

/// Paths longer than this are taken for cycles.
const MAX_DEPTH: usize = 1_000_000;
/// Options tried at one node in place of one that leads nowhere.
const ALTERNATIVES: u32 = 32;
/// Decisions taken back in one completion.
const RETREATS: u32 = 64;

/// How a completion ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// With a complete path.
    Complete,
    /// At a node that has no completion worth having; the smallest violation met.
    DeadEnd(f64),
}

/// A decision to be taken.
pub struct Decision<'w, P: Problem> {
    /// Whose it is.
    pub problem: &'w P,
    /// Where it stands.
    pub state: &'w P::State,
    /// Decisions taken before it.
    pub depth: usize,
    /// What it is about.
    pub slot: Slot,
    /// How many options there are.
    pub options: u32,
}

/// One decision of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gene {
    /// What it is about.
    pub slot: Slot,
    /// What was decided.
    pub allele: Allele,
    /// The option taken.
    pub option: u32,
    /// How many options there were.
    pub options: u32,
}

/// A state and the path that led to it.
pub struct Walk<'p, P: Problem> {
    problem: &'p P,
    state: P::State,
    path: Vec<u32>,
    feasible: bool,
    sound: bool,
    taken_back: Vec<(usize, u32)>,
}

impl<P: Problem> Clone for Walk<'_, P> {
    fn clone(&self) -> Self {
        let Self { problem, feasible, sound, .. } = *self;
        let (state, path, taken_back) = (self.state.clone(), self.path.clone(), self.taken_back.clone());
        Self { problem, state, path, feasible, sound, taken_back }
    }
}

impl<'p, P: Problem> Walk<'p, P> {
    /// Stands at the root of `problem`.
    pub fn new(problem: &'p P) -> Self {
        let state = problem.root();
        let feasible = problem.bound(&state) != Bound::Infeasible;
        Self { problem, state, path: Vec::new(), feasible, sound: true, taken_back: Vec::new() }
    }

    /// The options taken so far.
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// Where it stands.
    pub fn state(&self) -> &P::State {
        &self.state
    }

    /// What stands here.
    pub fn node(&self) -> Node {
        self.problem.node(&self.state)
    }

    /// What the complete path means.
    pub fn solution(&self) -> P::Solution {
        self.problem.solution(&self.state)
    }

    /// Takes option `option`.
    pub fn push(&mut self, option: u32) {
        self.problem.push(&mut self.state, option);
        self.path.push(option);
    }

    /// Takes back the last option.
    pub fn pop(&mut self) -> Option<u32> {
        let last = self.path.pop();
        if last.is_some() {
            self.problem.pop(&mut self.state);
        }
        last
    }

    /// Takes back all but the first `depth` options.
    pub fn back_to(&mut self, depth: usize) {
        while self.path.len() > depth {
            self.pop();
        }
    }

    /// Goes back to where the first decisions were `kept` and tells all decisions, those and the ones taken back, in the
    /// order in which they were taken.
    pub fn unwind(&mut self, kept: &[Gene]) -> Vec<Gene> {
        let depth = kept.len();
        let mut genes = Vec::with_capacity(self.path.len().max(depth));
        genes.extend_from_slice(kept);
        while self.path.len() > depth
            && let Some(option) = self.pop()
        {
            if let Node::Choose { slot, options } = self.node() {
                let allele = self.problem.allele(&self.state, option);
                genes.push(Gene { slot, allele, option, options });
            }
        }
        genes[depth..].reverse();
        genes
    }

    /// Whether the last completion never had to take an option that leads nowhere.
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// A lower bound on every completion from here; infinite where none is feasible, though some are elsewhere.
    pub fn bound(&self) -> f64 {
        match self.problem.bound(&self.state) {
            Bound::AtLeast(b) => b,
            Bound::Infeasible if self.feasible => f64::INFINITY,
            Bound::Infeasible => f64::NEG_INFINITY,
        }
    }

    /// Whether a completion from here can be feasible and below `cutoff`, as far as is known.
    pub fn is_promising(&self, cutoff: Option<f64>) -> bool {
        self.promises(self.node(), cutoff)
    }

    fn promises(&self, here: Node, cutoff: Option<f64>) -> bool {
        !matches!(here, Node::DeadEnd(_)) && self.bound() < cutoff.unwrap_or(f64::INFINITY)
    }

    /// Completes the path by the options that `choose` names, replacing those that lead nowhere by their neighbours
    /// and taking back a bounded number of decisions. Keeps below `cutoff` as long as it can, and feasible as long as it
    /// can after that.
    pub fn complete(&mut self, cutoff: Option<f64>, choose: impl FnMut(Decision<'_, P>) -> u32) -> End {
        self.complete_above(self.path.len(), cutoff, choose)
    }

    /// As [`Walk::complete`], with all but the first `floor` decisions free to be taken back.
    pub fn complete_above(
        &mut self,
        floor: usize,
        mut cutoff: Option<f64>,
        mut choose: impl FnMut(Decision<'_, P>) -> u32,
    ) -> End {
        self.sound = true;
        let mut retreats = RETREATS;
        let mut least = f64::INFINITY;
        self.taken_back.clear();
        let mut here = self.node();
        loop {
            let (slot, options) = match here {
                Node::Complete => return End::Complete,
                Node::DeadEnd(violation) => {
                    least = least.min(violation);
                    if !self.retreat(floor, &mut retreats) {
                        return End::DeadEnd(least);
                    }
                    here = self.node();
                    continue;
                }
                Node::Choose { slot, options } => (slot, options),
            };
            let depth = self.path.len();
            if depth >= MAX_DEPTH || options == 0 {
                return End::DeadEnd(least);
            }
            let decision = Decision { problem: self.problem, state: &self.state, depth, slot, options };
            let wanted = choose(decision).min(options - 1);
            if let Some(next) = self.step(wanted, options, cutoff) {
                here = next;
                continue;
            }
            if cutoff.take().is_some()
                && let Some(next) = self.step(wanted, options, None)
            {
                here = next;
                continue;
            }
            if !self.retreat(floor, &mut retreats) {
                self.sound = false;
                self.push(wanted);
            }
            here = self.node();
        }
    }

    /// Takes `wanted`, or the option nearest to it that leads somewhere: what stands there.
    fn step(&mut self, wanted: u32, options: u32, cutoff: Option<f64>) -> Option<Node> {
        self.try_option(wanted, cutoff).or_else(|| {
            around(wanted, options)
                .take(ALTERNATIVES as usize)
                .skip(1)
                .find_map(|option| self.try_option(option, cutoff))
        })
    }

    fn try_option(&mut self, option: u32, cutoff: Option<f64>) -> Option<Node> {
        if self.taken_back.contains(&(self.path.len(), option)) {
            return None;
        }
        self.push(option);
        let here = self.node();
        if self.promises(here, cutoff) {
            return Some(here);
        }
        self.pop();
        None
    }

    fn retreat(&mut self, floor: usize, left: &mut u32) -> bool {
        if *left == 0 || self.path.len() == floor {
            return false;
        }
        *left -= 1;
        if let Some(option) = self.pop() {
            let depth = self.path.len();
            self.taken_back.retain(|(d, _)| *d <= depth);
            self.taken_back.push((depth, option));
        }
        true
    }
}

/// `wanted`, then the others by their distance from it.
fn around(wanted: u32, options: u32) -> impl Iterator<Item = u32> {
    let reach = wanted.max(options - 1 - wanted);
    std::iter::once(wanted).chain((1..=reach).flat_map(move |d| {
        let up = wanted.checked_add(d).filter(|o| *o < options);
        let down = wanted.checked_sub(d);
        up.into_iter().chain(down)
    }))
}

/// Draws options by the problem's prior.
#[derive(Debug, Clone, Default)]
pub struct PriorSampler {
    weights: Vec<f32>,
}

impl PriorSampler {
    /// The prior weights of a decision.
    pub fn weights<P: Problem>(&mut self, decision: &Decision<'_, P>) -> &[f32] {
        self.weights.clear();
        self.weights.resize(decision.options as usize, 0.0);
        decision.problem.prior(decision.state, &mut self.weights);
        &self.weights
    }

    /// An option with probability proportional to its prior weight.
    pub fn draw<P: Problem>(&mut self, decision: &Decision<'_, P>, stream: &mut Stream) -> u32 {
        if decision.options < 2 {
            return 0;
        }
        stream.weighted(self.weights(decision)) as u32
    }

    /// The option of largest prior weight; the first of several.
    pub fn best<P: Problem>(&mut self, decision: &Decision<'_, P>) -> u32 {
        self.preferred(decision).unwrap_or(0)
    }

    /// The option of largest prior weight, the first of several; none where all weigh the same.
    pub fn preferred<P: Problem>(&mut self, decision: &Decision<'_, P>) -> Option<u32> {
        if decision.options < 2 {
            return None;
        }
        let (mut best, mut least) = ((0, f64::NEG_INFINITY), f64::INFINITY);
        for (i, weight) in self.weights(decision).iter().enumerate() {
            let weight = super::stream::usable(*weight);
            least = least.min(weight);
            if weight > best.1 {
                best = (i as u32, weight);
            }
        }
        (best.1 > least).then_some(best.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neighbours_of_an_option_are_all_the_others_nearest_first() {
        assert_eq!(around(1, 5).collect::<Vec<_>>(), [1, 2, 0, 3, 4]);
        assert_eq!(around(0, 1).collect::<Vec<_>>(), [0]);
        assert_eq!(
            around(u32::MAX - 1, u32::MAX).take(3).collect::<Vec<_>>(),
            [u32::MAX - 1, u32::MAX - 2, u32::MAX - 3]
        );
    }
}
