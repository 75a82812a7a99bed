//! Exact search as a backend: by decomposition where the problem has one, by branch and bound over its tree otherwise.

use super::ExactSettings;
use crate::search::backend::Backend;
use crate::search::budget::Stop;
use crate::search::evaluator::Evaluator;
use crate::search::problem::{Node, Problem};
use crate::search::score::Score;
use crate::search::walk::Walk;

/// The backend `exact`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Exact {
    /// Limits of the decomposition.
    pub settings: ExactSettings,
}

impl<P: Problem> Backend<P> for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn identity(&self) -> String {
        format!("exact {:?}", self.settings)
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        match problem.decompose() {
            Some(_) => match self.by_tasks(problem, evaluator) {
                Ok(()) if evaluator.is_optimal() => Stop::Optimal,
                Ok(()) => Stop::Exhausted,
                Err(stop) => stop,
            },
            None => match branch(problem, evaluator) {
                Ok(()) => {
                    evaluator.proved();
                    if evaluator.is_optimal() { Stop::Optimal } else { Stop::Exhausted }
                }
                Err(stop) => stop,
            },
        }
    }
}

impl Exact {
    /// Solves the decomposition, then asks for the price of the best solution of every task met on the way.
    fn by_tasks<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let Some(tasks) = problem.decompose() else { return Ok(()) };
        let settings = ExactSettings {
            target_gap: evaluator.budget().target_gap.unwrap_or(self.settings.target_gap),
            ..self.settings
        };
        let outcome = {
            let halt = evaluator.halt();
            super::solve(tasks, &settings, &halt, &mut |_, _| {})
        };
        if outcome.bound == f64::INFINITY {
            evaluator.proved_infeasible();
        }
        evaluator.raise_bound(outcome.bound);
        evaluator.looked_up(outcome.steps);
        let candidates = outcome
            .runners_up
            .iter()
            .take(FINALISTS)
            .map(|found| evaluator.candidate(tasks.assemble(found.task, &found.solution), None))
            .collect();
        evaluator.ask(candidates)?;
        evaluator.poll()
    }
}

/// Solutions of different tasks that are priced after a run: enough for every list of alternatives.
const FINALISTS: usize = 24;

/// Leaves priced together: a fixed number, so that the order of the search does not depend on threads.
const LEAVES: usize = 256;

/// Depth-first branch and bound; children in order of their bounds, leaves in batches.
pub(in crate::search) fn branch<P: Problem>(problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
    let mut search = Branch { walk: Walk::new(problem), leaves: Vec::new(), steps: 0 };
    search.descend(evaluator)?;
    search.flush(evaluator)
}

struct Branch<'p, P: Problem> {
    walk: Walk<'p, P>,
    leaves: Vec<(P::Solution, Vec<u32>)>,
    steps: u64,
}

impl<P: Problem> Branch<'_, P> {
    fn descend(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        // An explicit stack: trees may be deeper than the machine's.
        let mut stack: Vec<Vec<u32>> = Vec::new();
        loop {
            self.steps += 1;
            if self.steps.is_multiple_of(1024) {
                evaluator.poll()?;
            }
            let node = self.walk.node();
            match node {
                Node::Complete => {
                    self.leaves.push((self.walk.solution(), self.walk.path().to_vec()));
                    if self.leaves.len() == LEAVES || evaluator.cutoff().is_none() {
                        self.flush(evaluator)?;
                    }
                }
                Node::DeadEnd(violation) => evaluator.dead_end(violation)?,
                Node::Choose { options, .. } => {
                    let mut children: Vec<(f64, u32)> = Vec::new();
                    evaluator.looked_up(u64::from(options));
                    for option in 0..options {
                        self.walk.push(option);
                        let bound = self.walk.bound();
                        if bound < f64::INFINITY {
                            children.push((bound, option));
                        }
                        self.walk.pop();
                    }
                    // The best bound is taken from the end.
                    children.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
                    stack.push(children.into_iter().map(|c| c.1).collect());
                }
            }
            if !matches!(node, Node::Choose { .. }) {
                self.walk.pop();
            }
            loop {
                let Some(children) = stack.last_mut() else { return Ok(()) };
                match children.pop() {
                    Some(option) => {
                        self.walk.push(option);
                        if self.walk.bound() < evaluator.cutoff().unwrap_or(f64::INFINITY) {
                            break;
                        }
                        self.walk.pop();
                    }
                    None => {
                        stack.pop();
                        if stack.is_empty() {
                            return Ok(());
                        }
                        self.walk.pop();
                    }
                }
            }
        }
    }

    fn flush(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let candidates = self.leaves.drain(..).map(|(x, path)| evaluator.candidate(x, Some(&path))).collect();
        let _: Vec<Score> = evaluator.ask(candidates)?;
        Ok(())
    }
}
