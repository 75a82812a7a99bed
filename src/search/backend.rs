//! A search algorithm, as the rest of the engine sees it.

use super::budget::Stop;
use super::evaluator::Evaluator;
use super::problem::Problem;

/// A search algorithm with its parameters.
///
/// What it does may depend on the problem, its parameters, the seed, the scores it is given and what the evaluator
/// already holds when it begins ([`Evaluator::archive`]: solutions to start from). It must not depend on clocks,
/// or threads. It may depend on the limits in evaluations.
pub trait Backend<P: Problem>: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Name and parameters: two backends of equal identity search alike.
    fn identity(&self) -> String;

    /// Searches until the evaluator says stop, or until there is nothing left to do.
    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop;
}
