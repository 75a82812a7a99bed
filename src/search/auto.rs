//! The default: prove what can be proven, search the rest.
//!
//! Where the problem falls into chains an exact backend runs first; if it closes the gap that is the answer, otherwise
//! the portfolio goes on from what it found, under the bound it proved.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::portfolio::Portfolio;
use super::problem::Problem;

/// An exact backend where there is one, then a portfolio.
pub struct Auto<'p, P: Problem> {
    /// Asked first on problems that decompose.
    pub exact: Option<Box<dyn Backend<P> + 'p>>,
    /// Goes on from there.
    pub portfolio: Portfolio<'p, P>,
}

impl<P: Problem> Backend<P> for Auto<'_, P> {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn identity(&self) -> String {
        let exact = self.exact.as_ref().map(|exact| exact.identity());
        format!("Auto {exact:?} {}", self.portfolio.identity())
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        if let Some(exact) = self.exact.as_ref().filter(|_| problem.decompose().is_some()) {
            evaluator.begin_stage(exact.name(), None, None);
            let stop = exact.search(problem, seed, evaluator);
            let closed = evaluator.is_optimal() || evaluator.is_infeasible();
            if closed || !matches!(stop, Stop::Exhausted | Stop::Stalled) {
                return stop;
            }
        }
        self.portfolio.search(problem, seed, evaluator)
    }
}
