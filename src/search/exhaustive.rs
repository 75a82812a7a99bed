//! Every path, in the order of the tree: the oracle of small spaces.
//!
//! Depth first; prefixes whose bound does not beat the best are left out.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, parameter};
use super::problem::{Node, Problem};
use super::walk::Walk;
use serde::{Deserialize, Serialize};

/// Parameters of exhaustive search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exhaustive {
    /// Paths priced together.
    pub batch: usize,
    /// Whether prefixes that a bound rules out are left out.
    pub bounded: bool,
    /// Prefixes looked at in all.
    pub steps: u64,
}

impl Default for Exhaustive {
    fn default() -> Self {
        Self { batch: 64, bounded: true, steps: 5_000_000 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "every path, in the order of the tree",
    source: "folklore",
    when: "As an oracle on spaces of at most some millions of paths. On larger ones it sees one corner only and may lose to \
           random search. The seed changes nothing.",
    presets: &[],
    parameters: &[
        parameter("batch", "paths priced together", "a socket's cores"),
        parameter("bounded", "whether prefixes that a bound rules out are left out", "branch and bound"),
        parameter("steps", "prefixes looked at in all; then it ends", "a minute of one core"),
    ],
};

struct Level {
    depth: usize,
    next: u32,
    options: u32,
}

impl Exhaustive {
    fn run<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut walk = Walk::new(problem);
        let mut levels: Vec<Level> = Vec::new();
        let mut batch = Vec::new();
        let mut steps = 0u64;
        let mut enter = true;
        loop {
            steps += 1;
            if steps > self.steps {
                evaluator.ask(batch)?;
                return Ok(Stop::Exhausted);
            }
            if steps.is_multiple_of(1_024) {
                evaluator.poll()?;
            }
            if std::mem::take(&mut enter) {
                match walk.node() {
                    Node::DeadEnd(violation) => evaluator.dead_end(violation)?,
                    Node::Complete => {
                        batch.push(evaluator.candidate(walk.solution(), Some(walk.path())));
                        if batch.len() >= self.batch.max(1) {
                            evaluator.ask(std::mem::take(&mut batch))?;
                        }
                    }
                    Node::Choose { options, .. } => {
                        levels.push(Level { depth: walk.path().len(), next: 0, options });
                    }
                }
            }
            let Some(level) = levels.last_mut() else { break };
            walk.back_to(level.depth);
            if level.next == level.options {
                levels.pop();
                continue;
            }
            walk.push(level.next);
            level.next += 1;
            let cutoff = evaluator.cutoff().filter(|_| self.bounded);
            enter = matches!(walk.node(), Node::DeadEnd(_)) || walk.is_promising(cutoff);
        }
        evaluator.ask(batch)?;
        evaluator.proved();
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, evaluator).unwrap_or_else(|stop| stop)
    }
}
