//! A search algorithm, as the rest of the engine sees it; and how to add one.
//!
//! A backend is one file with its settings, what the manual says of it, and one function, and one line in the
//! [registry](super::registry). A whole one, which changes one decision of the best solution so far:
//!
//! ```
//! use espalier::search::backend::Backend;
//! use espalier::search::budget::{Budget, Stop};
//! use espalier::search::evaluator::Evaluator;
//! use espalier::search::genome::{Decoder, Wish};
//! use espalier::search::problem::Problem;
//! use espalier::search::problems::Salesman;
//! use espalier::search::run::{Request, solve};
//! use espalier::search::stream::Stream;
//! use espalier::search::vary::{Operator, vary};
//! use serde::{Deserialize, Serialize};
//!
//! /// Its parameters; `Default` is what the registry takes where a suite says nothing.
//! #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
//! #[serde(default, deny_unknown_fields)]
//! struct Climb {
//!     /// Neighbours priced together: in parallel, and with the same answer for any number of threads.
//!     batch: usize,
//! }
//!
//! impl Default for Climb {
//!     fn default() -> Self {
//!         Self { batch: 8 }
//!     }
//! }
//!
//! impl Climb {
//!     /// The `?` ends the search where the evaluator says so: budget, target, deadline, Ctrl-C, nothing new any more.
//!     fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
//!         let mut decoder = Decoder::new(problem);
//!         for round in 0.. {
//!             let best = evaluator.archive().first().and_then(|entry| entry.path.clone());
//!             let best = best.and_then(|path| decoder.follow(&path));
//!             let mut batch = Vec::new();
//!             for index in 0..self.batch.max(1) {
//!                 // Random numbers depend on what they are for, never on who draws them.
//!                 let mut stream = Stream::new(seed, 0, round, index as u64);
//!                 let made = match &best {
//!                     Some((genome, solution)) => {
//!                         vary(problem, &mut decoder, Operator::Point, (genome, solution), genome, &mut stream)
//!                     }
//!                     None => decoder.decode(&mut stream, |_, _| Wish::Likely),
//!                 };
//!                 match made {
//!                     Ok((genome, solution)) => batch.push(evaluator.candidate(solution, Some(&genome.path()))),
//!                     Err(violation) => evaluator.dead_end(violation)?,
//!                 }
//!             }
//!             evaluator.ask(batch)?;
//!         }
//!         Ok(Stop::Exhausted)
//!     }
//! }
//!
//! impl<P: Problem> Backend<P> for Climb {
//!     fn name(&self) -> &'static str {
//!         "climb"
//!     }
//!
//!     fn identity(&self) -> String {
//!         format!("{self:?}")
//!     }
//!
//!     fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
//!         self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
//!     }
//! }
//!
//! let problem = Salesman::random(12, 1);
//! let outcome = solve(&problem, &Climb::default(), Request::new(1, Budget::evaluations(2_000)))?;
//! let first = outcome.trace.improvements[0].score;
//! assert!(outcome.best.is_some_and(|best| best.score < first));
//! # Ok::<(), espalier::memo::FileError>(())
//! ```
//!
//! Its line in `registry::entries` is `of::<P, Climb>("climb", &climb::PAGE)`, where `PAGE` is a
//! [`Page`](super::manual::Page): what it does, from which paper, when to use it, what each parameter means and where its
//! default is from. From then on `plan --backend climb`, suites and `espalier backends climb` know it, and the tests over
//! the registry hold for it: same answer on any number of threads, cold or warm cache, resumed or not; budgets, deadlines,
//! NaN, panics, dead ends, nodes without options, with one or with a million, a hundred thousand decisions.

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
