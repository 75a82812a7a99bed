//! Exact search over decomposed problems: best-first branch and bound over tasks, dynamic programming inside each.
//!
//! Every task carries a lower bound that only rises: first the problem's own, then the relaxation of its chain, then the
//! optimum of the labels. The task with the lowest bound is refined next (best-first branch and bound; Lawler and Wood
//! 1966). The lowest bound left is a proven bound on the whole problem at any moment.

pub mod labels;
pub mod relax;

use super::decompose::{ChainSolution, Decompose};
use super::problem::Bound;
use labels::{LabelLimits, LabelOutcome};
use rayon::prelude::*;
use relax::Relaxation;

/// Settings of the exact solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExactSettings {
    /// Stop when the incumbent is proven within this of the optimum: `(best - bound) / bound`.
    pub target_gap: f64,
    /// Most labels per window before a task is solved only heuristically.
    pub max_labels: usize,
    /// Most label extensions per task.
    pub max_extensions: u64,
    /// Tasks refined together. It does not depend on the number of threads, so the answer does not either.
    pub batch: usize,
}

impl Default for ExactSettings {
    fn default() -> Self {
        Self { target_gap: 0.0, max_labels: 4096, max_extensions: 20_000_000, batch: 8 }
    }
}

/// How far the solver got.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactOutcome {
    /// Best task, its solution and objective.
    pub best: Option<(usize, ChainSolution)>,
    /// Nothing in the whole problem is below this.
    pub bound: f64,
    /// Solutions met on the way, best first, at most one per task.
    pub runners_up: Vec<(usize, ChainSolution)>,
    /// Tasks in all.
    pub tasks: usize,
    /// Tasks whose chain was looked at.
    pub relaxed: usize,
    /// Tasks whose labels were run.
    pub solved: usize,
    /// Label extensions in all.
    pub extensions: u64,
    /// Whether it was told to stop.
    pub stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refined {
    /// Only the problem's own bound is known.
    No,
    /// The chain's relaxation is known.
    Relaxed,
    /// Labels were run with a tolerance or a limit: nothing more to gain here.
    Done,
}

/// Refines tasks until the gap is closed, nothing is left, or `should_stop` says so. `progress` gets (best, bound).
pub fn solve<D: Decompose + ?Sized>(
    problem: &D,
    settings: &ExactSettings,
    should_stop: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(Option<f64>, f64),
) -> ExactOutcome {
    let tasks = problem.tasks();
    let bounds: Vec<f64> = (0..tasks)
        .into_par_iter()
        .map(|t| match problem.task_bound(t) {
            Bound::AtLeast(b) => b,
            Bound::Infeasible => f64::INFINITY,
        })
        .collect();
    let mut open: Vec<(f64, usize, Refined)> =
        bounds.iter().enumerate().filter(|(_, b)| b.is_finite()).map(|(t, b)| (*b, t, Refined::No)).collect();
    let mut outcome = ExactOutcome {
        best: None,
        bound: 0.0,
        runners_up: Vec::new(),
        tasks,
        relaxed: 0,
        solved: 0,
        extensions: 0,
        stopped: false,
    };
    for (task, solution) in problem.seeds() {
        accept(&mut outcome, task, solution);
    }
    loop {
        open.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let incumbent = incumbent(&outcome);
        outcome.bound = open.first().map_or(incumbent, |o| o.0.min(incumbent));
        progress(outcome.best.as_ref().map(|b| b.1.objective), outcome.bound);
        open.retain(|o| o.0 < incumbent);
        if open.is_empty() || incumbent <= outcome.bound * (1.0 + settings.target_gap) {
            break;
        }
        if should_stop() {
            outcome.stopped = true;
            break;
        }
        // Tasks that are done keep their bound; the others may still hold something better.
        let chosen: Vec<(f64, usize, Refined)> =
            open.iter().filter(|o| o.2 != Refined::Done).take(settings.batch).copied().collect();
        if chosen.is_empty() {
            break;
        }
        let refined: Vec<Step> = chosen
            .par_iter()
            .map(|&(bound, task, state)| refine(problem, settings, task, state, bound, incumbent))
            .collect();
        for step in refined {
            outcome.relaxed += usize::from(step.was == Refined::No);
            outcome.solved += usize::from(step.was == Refined::Relaxed);
            outcome.extensions += step.extensions;
            let Some(entry) = open.iter_mut().find(|o| o.1 == step.task) else { continue };
            entry.0 = entry.0.max(step.bound);
            entry.2 = step.now;
            if let Some(solution) = step.solution {
                accept(&mut outcome, step.task, solution);
            }
        }
        open.retain(|o| o.0.is_finite());
    }
    outcome
}

fn incumbent(outcome: &ExactOutcome) -> f64 {
    outcome.best.as_ref().map_or(f64::INFINITY, |b| b.1.objective)
}

fn accept(outcome: &mut ExactOutcome, task: usize, solution: ChainSolution) {
    let better = solution.objective < incumbent(outcome);
    if better {
        outcome.best = Some((task, solution.clone()));
    }
    outcome.runners_up.retain(|(t, s)| *t != task || s.objective < solution.objective);
    if !outcome.runners_up.iter().any(|(t, _)| *t == task) {
        outcome.runners_up.push((task, solution));
    }
    outcome.runners_up.sort_by(|a, b| a.1.objective.total_cmp(&b.1.objective).then(a.0.cmp(&b.0)));
}

struct Step {
    task: usize,
    was: Refined,
    now: Refined,
    bound: f64,
    solution: Option<ChainSolution>,
    extensions: u64,
}

fn refine<D: Decompose + ?Sized>(
    problem: &D,
    settings: &ExactSettings,
    task: usize,
    was: Refined,
    bound: f64,
    incumbent: f64,
) -> Step {
    let closed = Step { task, was, now: Refined::Done, bound: f64::INFINITY, solution: None, extensions: 0 };
    let Some(chain) = problem.chain(task) else { return closed };
    // What is not below this cannot matter.
    let Some(relaxation) = Relaxation::new(&chain, incumbent) else { return Step { bound: incumbent, ..closed } };
    if was == Refined::No {
        return match relaxation.bound(&chain, incumbent) {
            Some(value) => Step { now: Refined::Relaxed, bound: value, ..closed },
            None => Step { bound: incumbent, ..closed },
        };
    }
    // Half of the target gap may be lost by near-dominance, the other half is for bounds that do not close.
    let tolerance = if incumbent.is_finite() { 0.5 * settings.target_gap * bound } else { 0.0 };
    let limits =
        LabelLimits { incumbent, tolerance, max_labels: settings.max_labels, max_extensions: settings.max_extensions };
    let LabelOutcome { best, complete, extensions } = labels::solve(&chain, &relaxation, limits);
    let value = best.as_ref().map_or(incumbent, |b| b.objective);
    let proven = if complete { (value - tolerance).max(bound) } else { bound };
    Step { task, was, now: Refined::Done, bound: proven, solution: best, extensions }
}
