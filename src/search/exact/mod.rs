//! Exact search over decomposed problems: best-first branch and bound over tasks, dynamic programming inside each.
//!
//! Every task carries a lower bound that only rises: first the problem's own, then the relaxation of its chain, then the
//! optimum of the labels. The task with the lowest bound is refined next (best-first branch and bound; Lawler and Wood
//! 1966). The lowest bound left is a proven bound on the whole problem at any moment.

pub mod backend;
pub mod labels;
pub mod relax;
pub mod round;

use super::decompose::{Chain, ChainSolution, Decompose, FixedItem};
use super::problem::Bound;
use labels::{LabelLimits, LabelOutcome};
use rayon::prelude::*;
use relax::Relaxation;
use serde::{Deserialize, Serialize};

/// Settings of the exact solver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExactSettings {
    /// Stop when the incumbent is proven within this of the optimum: `(best - bound) / bound`.
    pub target_gap: f64,
    /// Most labels per window before a run over a task is only heuristic.
    pub max_labels: usize,
    /// Most steps (label extensions and dominance tests) of the first run over a task; a second may take
    /// [`SECOND_RUN`] times as many.
    pub max_steps: u64,
    /// Most steps of all runs together: the budget of a search whose gap does not close.
    pub all_steps: u64,
    /// Tasks refined together. It does not depend on the number of threads, so the answer does not either.
    pub batch: usize,
}

impl Default for ExactSettings {
    fn default() -> Self {
        Self { target_gap: 0.0, max_labels: 4096, max_steps: 1 << 18, all_steps: 1 << 32, batch: 8 }
    }
}

/// How much longer than the first the second run over a task may take.
pub const SECOND_RUN: u64 = 64;

/// A solution with what it is worth in the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Whose it is.
    pub task: usize,
    /// The solution.
    pub solution: ChainSolution,
    /// [`Decompose::value`] of it.
    pub value: f64,
}

/// How far the solver got.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactOutcome {
    /// The best solution.
    pub best: Option<Found>,
    /// Nothing in the whole problem is below this.
    pub bound: f64,
    /// Solutions met on the way, best first, at most one per task.
    pub runners_up: Vec<Found>,
    /// Tasks in all.
    pub tasks: usize,
    /// Tasks whose chain was looked at.
    pub relaxed: usize,
    /// Tasks whose labels were run.
    pub solved: usize,
    /// Label extensions in all.
    pub steps: u64,
    /// Whether it was told to stop.
    pub stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refined {
    /// Only the problem's own bound is known.
    No,
    /// The bound by the prices of its options is within the target gap of the incumbent.
    Priced,
    /// The chain's relaxation is known.
    Relaxed,
    /// A short run of labels did not suffice.
    Tried,
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
        steps: 0,
        stopped: false,
    };
    for (task, solution) in problem.seeds() {
        let value = problem.value(task, &solution);
        accept(&mut outcome, Found { task, solution, value });
    }
    loop {
        open.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let incumbent = incumbent(&outcome);
        outcome.bound = open.first().map_or(incumbent, |o| o.0.min(incumbent));
        progress(outcome.best.as_ref().map(|b| b.value), outcome.bound);
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
            open.iter().filter(|o| o.2 != Refined::Done).take(settings.batch.max(1)).copied().collect();
        // Good solutions first: no long run while a cheaper step on another task is at hand.
        let cheapest = chosen.iter().map(|o| o.2).min();
        let chosen: Vec<(f64, usize, Refined)> = chosen.into_iter().filter(|o| Some(o.2) == cheapest).collect();
        if chosen.is_empty() || outcome.steps > settings.all_steps {
            break;
        }
        // Every run of this batch gets an equal part of what is left.
        let steps = (settings.all_steps - outcome.steps) / chosen.len() as u64;
        let refined: Vec<Step> = chosen
            .par_iter()
            .map(|&(bound, task, state)| match should_stop() {
                true => Step::none(task, state, bound),
                false => refine(problem, settings, steps, (task, state, bound), incumbent, should_stop),
            })
            .collect();
        for step in refined {
            outcome.relaxed += usize::from(step.looked);
            outcome.solved += usize::from(step.was == Refined::Tried);
            outcome.steps += step.steps;
            let Some(entry) = open.iter_mut().find(|o| o.1 == step.task) else { continue };
            entry.0 = entry.0.max(step.bound);
            entry.2 = step.now;
            if let Some((solution, value)) = step.solution {
                accept(&mut outcome, Found { task: step.task, solution, value });
            }
        }
        open.retain(|o| o.0.is_finite());
    }
    outcome
}

fn incumbent(outcome: &ExactOutcome) -> f64 {
    outcome.best.as_ref().map_or(f64::INFINITY, |b| b.value)
}

fn accept(outcome: &mut ExactOutcome, found: Found) {
    if !found.value.is_finite() {
        return;
    }
    if found.value < incumbent(outcome) {
        outcome.best = Some(found.clone());
    }
    match outcome.runners_up.iter_mut().find(|f| f.task == found.task) {
        Some(known) if known.value <= found.value => {}
        Some(known) => *known = found,
        None => outcome.runners_up.push(found),
    }
    outcome.runners_up.sort_by(|a, b| a.value.total_cmp(&b.value).then(a.task.cmp(&b.task)));
}

struct Step {
    task: usize,
    was: Refined,
    now: Refined,
    /// Whether its chain was looked at for the first time.
    looked: bool,
    bound: f64,
    solution: Option<(ChainSolution, f64)>,
    steps: u64,
}

impl Step {
    /// A task left as it is.
    fn none(task: usize, was: Refined, bound: f64) -> Self {
        Self { task, was, now: was, looked: false, bound, solution: None, steps: 0 }
    }
}

fn refine<D: Decompose + ?Sized>(
    problem: &D,
    settings: &ExactSettings,
    steps_left: u64,
    (task, was, bound): (usize, Refined, f64),
    incumbent: f64,
    should_stop: &(dyn Fn() -> bool + Sync),
) -> Step {
    let closed = Step { task, was, now: Refined::Done, looked: false, bound: f64::INFINITY, solution: None, steps: 0 };
    let worth = |solution: ChainSolution| {
        let value = problem.value(task, &solution);
        (solution, value)
    };
    // Most tasks fall here already, without a look at their chains.
    if was == Refined::No {
        match problem.priced_bound(task) {
            Bound::Infeasible => return closed,
            // What is within the target gap of the incumbent already cannot gain more than that.
            Bound::AtLeast(bound) if bound * (1.0 + settings.target_gap) >= incumbent => {
                return Step { now: Refined::Priced, bound, ..closed };
            }
            Bound::AtLeast(_) => {}
        }
    }
    let first_look = matches!(was, Refined::No | Refined::Priced);
    let closed = Step { looked: first_look, ..closed };
    let Some(chain) = problem.chain(task) else { return closed };
    // What is not below this cannot matter.
    let Some(relaxation) = Relaxation::new(&chain, incumbent) else { return Step { bound: incumbent, ..closed } };
    if first_look {
        return match relaxation.bound(&chain, incumbent) {
            Some((value, lists)) => {
                let promising = value * (1.0 + settings.target_gap) < incumbent;
                let solution = promising.then(|| rounded(&chain, &lists)).flatten();
                let solution = solution.filter(|s| s.objective < incumbent).map(worth);
                Step { now: Refined::Relaxed, bound: value, solution, ..closed }
            }
            None => Step { bound: incumbent, ..closed },
        };
    }
    // Half of the target gap may be lost by near-dominance, the other half is for bounds that do not close.
    let tolerance = if incumbent.is_finite() { 0.5 * settings.target_gap * bound } else { 0.0 };
    let first = was == Refined::Relaxed;
    let limits = LabelLimits {
        incumbent,
        tolerance,
        max_labels: settings.max_labels,
        max_steps: settings.max_steps.saturating_mul(if first { 1 } else { SECOND_RUN }).min(steps_left),
    };
    let LabelOutcome { best, complete, steps } = labels::solve(&chain, &relaxation, limits, should_stop);
    let value = best.as_ref().map_or(incumbent, |b| b.objective);
    let proven = if complete { (value - tolerance).max(bound) } else { bound };
    let now = if first && !complete { Refined::Tried } else { Refined::Done };
    Step { now, bound: proven, solution: best.map(worth), steps, ..closed }
}

/// A solution with the given cuts, every segment filled by rounding its relaxation.
fn rounded(chain: &Chain, lists: &[Vec<FixedItem>]) -> Option<ChainSolution> {
    let mut options = vec![0u32; chain.items.len()];
    for (s, items) in lists.iter().enumerate() {
        let filled = round::fill(chain, s, items)?;
        items.iter().zip(&filled.options).for_each(|(item, option)| options[item.item as usize] = *option);
    }
    Some(round::fold(chain, lists, &options).0)
}
