//! The prior's favourite path, then paths that depart from it once, twice, and so on: greedy construction continued by
//! limited discrepancy search.
//!
//! Harvey and Ginsberg 1995, "Limited discrepancy search"; Korf 1996, "Improved limited discrepancy search" (every path
//! once). Taking an option other than the prior's favourite is one discrepancy; the favourite is the first that is no dead end
//! and not known to be infeasible. Prefixes whose bound does not beat the best are left out, so a tree that is searched
//! to its end is proven. Where the very first path leads nowhere, it is completed by taking decisions back.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, parameter};
use super::problem::{Node, Problem};
use super::stream::usable;
use super::walk::{Decision, End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};

/// Parameters of greedy search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Greedy {
    /// Paths priced together.
    pub batch: usize,
    /// Prefixes looked at in all.
    pub steps: u64,
}

impl Default for Greedy {
    fn default() -> Self {
        Self { batch: 16, steps: 200_000 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "the prior's favourite path, then paths that depart from it once, twice, and so on",
    source: "Harvey and Ginsberg 1995; Korf 1996",
    when: "To see how much of an answer is the prior's, and with a handful of evaluations. The seed changes nothing.",
    presets: &[],
    parameters: &[
        parameter("batch", "paths priced together", "a batch for sixteen threads"),
        parameter("steps", "prefixes looked at in all; then it ends", "seconds of one core"),
    ],
};

/// A node under way.
struct Level {
    depth: usize,
    /// Options in the prior's order; the favourite alone until more are needed.
    order: Vec<u32>,
    options: u32,
    tried: usize,
    /// Options entered, or that would have been but for their bound.
    taken: usize,
    /// Discrepancies left here and below.
    left: usize,
}

impl Greedy {
    fn run<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        if walk.complete(None, |decision| priors.best(&decision)) == End::Complete {
            let first = evaluator.candidate(walk.solution(), Some(walk.path()));
            evaluator.ask(vec![first])?;
        }
        let mut steps = 0;
        for allowed in 0.. {
            match self.wave(problem, allowed, &mut steps, evaluator)? {
                _ if steps > self.steps => return Ok(Stop::Exhausted),
                true => {}
                false => break,
            }
        }
        evaluator.proved();
        Ok(Stop::Exhausted)
    }

    /// Every path of exactly `allowed` discrepancies; whether there may be paths of more.
    fn wave<P: Problem>(
        &self,
        problem: &P,
        allowed: usize,
        steps: &mut u64,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<bool, Stop> {
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        let mut levels: Vec<Level> = Vec::new();
        let mut batch = Vec::new();
        let (mut more, mut left) = (false, allowed);
        let mut enter = true;
        loop {
            *steps += 1;
            if *steps > self.steps {
                break;
            }
            if steps.is_multiple_of(1_024) {
                evaluator.poll()?;
            }
            if std::mem::take(&mut enter) {
                match walk.node() {
                    Node::DeadEnd(violation) => evaluator.dead_end(violation)?,
                    Node::Complete => {
                        if left == 0 {
                            batch.push(evaluator.candidate(walk.solution(), Some(walk.path())));
                            if batch.len() >= self.batch.max(1) || allowed == 0 {
                                evaluator.ask(std::mem::take(&mut batch))?;
                            }
                        }
                    }
                    Node::Choose { slot, options } => {
                        let depth = walk.path().len();
                        let decision = Decision { problem, state: walk.state(), depth, slot, options };
                        let order = vec![priors.best(&decision)];
                        more |= left == 0 && options > 1;
                        levels.push(Level { depth, order, options, tried: 0, taken: 0, left });
                    }
                }
            }
            let Some(level) = levels.last_mut() else { break };
            walk.back_to(level.depth);
            let wants_more = level.taken == 0 || level.left > 0;
            if wants_more && level.tried == 1 && level.order.len() < level.options as usize {
                let (slot, depth) = (0, level.depth);
                let decision = Decision { problem, state: walk.state(), depth, slot, options: level.options };
                level.order = ranked(priors.weights(&decision), level.order[0]);
            }
            let Some(option) = level.order.get(level.tried).filter(|_| wants_more) else {
                levels.pop();
                continue;
            };
            level.tried += 1;
            walk.push(*option);
            let below = level.left - usize::from(level.taken > 0);
            if let Node::DeadEnd(violation) = walk.node() {
                if below == 0 {
                    evaluator.dead_end(violation)?;
                }
            } else if walk.is_promising(None) {
                level.taken += 1;
                left = below;
                enter = walk.is_promising(evaluator.cutoff());
            }
        }
        evaluator.ask(batch)?;
        Ok(more)
    }
}

/// `first`, then the other options by falling weight; equal ones in order.
fn ranked(weights: &[f32], first: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    let weight = |option: u32| if option == first { f64::INFINITY } else { usable(weights[option as usize]) };
    order.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
    order
}

impl<P: Problem> Backend<P> for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, evaluator).unwrap_or_else(|stop| stop)
    }
}
