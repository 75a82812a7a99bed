//! Beam search, again and again with twice the width: prefixes of one length side by side, the best of which go on.
//!
//! Lowerre 1976, "The HARPY speech recognition system"; Zhang 1998, "Complete anytime beam search". Half of the prefixes that
//! go on are those of the lowest bound, half those that the prior likes best: bounds may be blind to what a prior sees,
//! such as memory that later decisions will need. A pass that had to drop nothing has proven its answer.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Bound, Node, Problem};
use super::stream::usable;
use super::walk::{Decision, End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};

/// Parameters of beam search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Beam {
    /// Prefixes of the first pass.
    pub width: usize,
    /// Prefixes beyond which passes do not widen.
    pub widest: usize,
}

impl Default for Beam {
    fn default() -> Self {
        Self { width: 4, widest: 1 << 10 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "prefixes side by side, the best of which go on; again with twice the width",
    source: "Lowerre 1976; Zhang 1998",
    when: "Tight bounds along the whole path. Few evaluations are made for much work, so not where only evaluations tell \
           good from bad. The seed changes nothing.",
    presets: &[],
    parameters: &[
        parameter("width", "prefixes of the first pass", "this engine").within(Range::Whole(1, 64)),
        parameter(
            "widest",
            "prefixes beyond which passes do not widen",
            "work: every pass extends as many prefixes at every decision",
        )
        .within(Range::Whole(64, 4096)),
    ],
};

/// Children of a prefix that are looked at, as a multiple of the width.
const CHILDREN: usize = 4;

struct Prefix<S> {
    state: S,
    path: Vec<u32>,
    /// Negative logarithm of the prior so far.
    surprise: f64,
}

struct Child {
    bound: f64,
    surprise: f64,
    parent: usize,
    option: u32,
}

impl Beam {
    fn run<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        // An answer before the first pass ends.
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        if walk.complete(None, |decision| priors.best(&decision)) == End::Complete {
            let first = evaluator.candidate(walk.solution(), Some(walk.path()));
            evaluator.ask(vec![first])?;
        }
        let mut width = self.width.max(1);
        loop {
            if !self.pass(problem, width, evaluator)? {
                evaluator.proved();
                return Ok(Stop::Exhausted);
            }
            if width >= self.widest {
                return Ok(Stop::Exhausted);
            }
            width *= 2;
        }
    }

    /// One pass; whether anything was dropped that might have been good.
    fn pass<P: Problem>(&self, problem: &P, width: usize, evaluator: &mut Evaluator<'_, P>) -> Result<bool, Stop> {
        let root = problem.root();
        let somewhere = problem.bound(&root) != Bound::Infeasible;
        let bound_of = |state: &P::State| match problem.bound(state) {
            Bound::AtLeast(bound) => bound,
            Bound::Infeasible if somewhere => f64::INFINITY,
            Bound::Infeasible => f64::NEG_INFINITY,
        };
        let mut priors = PriorSampler::default();
        let mut front = vec![Prefix { state: root, path: Vec::new(), surprise: 0.0 }];
        let mut dropped = false;
        while !front.is_empty() {
            evaluator.poll()?;
            let (mut leaves, mut children) = (Vec::new(), Vec::new());
            let cutoff = evaluator.cutoff().unwrap_or(f64::INFINITY);
            for (parent, prefix) in front.iter_mut().enumerate() {
                let (slot, options) = match problem.node(&prefix.state) {
                    Node::Complete => {
                        leaves.push(evaluator.candidate(problem.solution(&prefix.state), Some(&prefix.path)));
                        continue;
                    }
                    Node::DeadEnd(violation) => {
                        evaluator.dead_end(violation)?;
                        continue;
                    }
                    Node::Choose { slot, options } => (slot, options),
                };
                let depth = prefix.path.len();
                let decision = Decision { problem, state: &prefix.state, depth, slot, options };
                let weights: Vec<f64> = priors.weights(&decision).iter().map(|w| usable(*w)).collect();
                let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
                let mut order: Vec<u32> = (0..options).collect();
                let most = CHILDREN * width;
                if order.len() > most {
                    dropped = true;
                    let heavier =
                        |a: &u32, b: &u32| weights[*b as usize].total_cmp(&weights[*a as usize]).then(a.cmp(b));
                    order.select_nth_unstable_by(most, heavier);
                    order.truncate(most);
                    order.sort_unstable();
                }
                for option in order {
                    problem.push(&mut prefix.state, option);
                    let bound = bound_of(&prefix.state);
                    let dead = matches!(problem.node(&prefix.state), Node::DeadEnd(_));
                    problem.pop(&mut prefix.state);
                    if bound < cutoff || dead {
                        let likely = (weights[option as usize] / total).max(f64::MIN_POSITIVE);
                        children.push(Child { bound, surprise: prefix.surprise - likely.ln(), parent, option });
                    }
                }
            }
            evaluator.ask(leaves)?;
            let place = |a: &Child, b: &Child| (a.parent, a.option).cmp(&(b.parent, b.option));
            children.sort_by(|a, b| {
                a.bound.total_cmp(&b.bound).then(a.surprise.total_cmp(&b.surprise)).then_with(|| place(a, b))
            });
            if children.len() > width {
                dropped = true;
                children[width.div_ceil(2)..].sort_by(|a, b| {
                    a.surprise.total_cmp(&b.surprise).then(a.bound.total_cmp(&b.bound)).then_with(|| place(a, b))
                });
                children.truncate(width);
            }
            front = children
                .into_iter()
                .map(|child| {
                    let parent = &front[child.parent];
                    let (mut state, mut path) = (parent.state.clone(), parent.path.clone());
                    problem.push(&mut state, child.option);
                    path.push(child.option);
                    Prefix { state, path, surprise: child.surprise }
                })
                .collect();
        }
        Ok(dropped)
    }
}

impl<P: Problem> Backend<P> for Beam {
    fn name(&self) -> &'static str {
        "beam"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, evaluator).unwrap_or_else(|stop| stop)
    }
}
