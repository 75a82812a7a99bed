//! Evaluations side by side: in index order, with panics turned into failures, cut short when asked to.

use super::crew;
use super::problem::{Fidelity, Problem};
use super::score::Score;
use rayon::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Batches that take less than this in all are not worth waking another thread for (one rayon dispatch: about 5 us).
pub(super) const WORTH_SHARING_S: f64 = 30e-6;

/// One evaluation that took place.
pub(super) struct Evaluated {
    pub score: Score,
    pub seconds: f64,
    /// What the evaluation said when it panicked.
    pub panic: Option<String>,
}

/// Prices `solutions` in order. `None` where `halted` became true first. `expected_s` guesses the seconds of one.
pub(super) fn evaluate<P: Problem>(
    problem: &P,
    solutions: &[&P::Solution],
    fidelity: Fidelity,
    expected_s: f64,
    halted: &(dyn Fn() -> bool + Sync),
) -> Vec<Option<Evaluated>> {
    let one = |solution: &&P::Solution| (!halted()).then(|| evaluate_one(problem, solution, fidelity));
    let timed = |solution: &&P::Solution| {
        let start = Instant::now();
        let mut evaluated = one(solution)?;
        evaluated.seconds = start.elapsed().as_secs_f64();
        Some(evaluated)
    };
    if solutions.len() >= 2 && expected_s * (solutions.len() as f64) >= WORTH_SHARING_S {
        return crew::share(solutions.par_iter(), timed);
    }
    // Reading the clock takes as long as a short evaluation: once for all of them.
    let start = Instant::now();
    let mut all: Vec<Option<Evaluated>> = solutions.iter().map(one).collect();
    let seconds = start.elapsed().as_secs_f64() / all.iter().flatten().count().max(1) as f64;
    all.iter_mut().flatten().for_each(|evaluated| evaluated.seconds = seconds);
    all
}

fn evaluate_one<P: Problem>(problem: &P, solution: &P::Solution, fidelity: Fidelity) -> Evaluated {
    // A problem whose evaluation panicked half-way is asked again only about other solutions, through shared
    // references; what it keeps inside must survive a panic, as anything shared between threads must.
    let result = catch_unwind(AssertUnwindSafe(|| problem.score(solution, fidelity)));
    match result {
        Ok(score) => Evaluated { score: sound(score), seconds: 0.0, panic: None },
        Err(payload) => Evaluated { score: Score::Failed, seconds: 0.0, panic: Some(message(payload.as_ref())) },
    }
}

/// A score as built by its constructors, however it was built.
fn sound(score: Score) -> Score {
    match score {
        Score::Feasible(x) => Score::feasible(x),
        Score::Infeasible(v) => Score::infeasible(v),
        Score::Failed => Score::Failed,
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked without a message".into())
}
