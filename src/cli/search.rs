//! How to look for a plan: flags that override the question's `search`.

use super::values;
use crate::error::{InputError, Kind};
use crate::question::{Constraint, SearchOptions};
use crate::units::Seconds;

/// How to search.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Search")]
pub(super) struct SearchArgs {
    /// Search algorithm, or a preset of one such as mcts.frugal; `espalier backends` lists them
    #[arg(long, value_name = "NAME", value_parser = values::backend)]
    pub backend: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::seed)]
    pub seed: Option<u64>,
    /// Most distinct plans to evaluate
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::evaluations)]
    pub max_evals: Option<u64>,
    /// Most time, e.g. 10s or 2min; the answer then depends on the machine's speed
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    pub max_time: Option<Seconds>,
    /// Stop when the plan is proven to be this close to the best, e.g. 1%
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true, value_parser = values::fraction)]
    pub target_gap: Option<f64>,
    /// Plans to show, the best included
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::top)]
    pub top: Option<usize>,
    /// Fix a dimension, e.g. tp=4, tp=2|4, zero=1..2, recompute=none
    #[arg(long, value_name = "DIM=VALUES", value_parser = values::constraint)]
    pub fix: Vec<Constraint>,
    /// Forbid values of a dimension, e.g. recompute=full
    #[arg(long, value_name = "DIM=VALUES", value_parser = values::constraint)]
    pub forbid: Vec<Constraint>,
    /// Framework that is to run the plan: only what its rules accept is looked at
    #[arg(long, value_name = "NAME", value_parser = values::target)]
    pub target: Option<String>,
    /// Threads, at most one per processor (or 16); never changes the answer of a search without --max-time
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::threads)]
    pub threads: Option<usize>,
}

impl SearchArgs {
    /// Applies the flags. A dimension that is fixed here is no longer fixed as the file says.
    pub(super) fn change(&self, options: &mut SearchOptions) {
        options.backend = self.backend.clone().or(options.backend.take());
        options.seed = self.seed.unwrap_or(options.seed);
        options.max_evals = self.max_evals.or(options.max_evals);
        options.max_time = self.max_time.or(options.max_time);
        options.target_gap = self.target_gap.or(options.target_gap);
        options.top = self.top.unwrap_or(options.top);
        options.threads = self.threads.or(options.threads);
        options.target = self.target.clone().or(options.target.take());
        options.fix.retain(|old| !self.fix.iter().any(|new| new.dim == old.dim));
        options.fix.extend(self.fix.iter().cloned());
        options.forbid.extend(self.forbid.iter().cloned());
    }
}

/// Threads beyond the processors only cost time; so many are made in any case, as the answer must not depend on them.
const ALWAYS: usize = 16;

/// Makes the pool of threads, if it is to have a size of its own.
pub(super) fn threads(options: &SearchOptions) -> Result<(), InputError> {
    let Some(n) = options.threads else { return Ok(()) };
    let most = std::thread::available_parallelism().map_or(ALWAYS, |p| p.get().max(ALWAYS));
    rayon::ThreadPoolBuilder::new().num_threads(n.min(most)).build_global().map_err(|e| {
        InputError::new(Kind::Unsupported)
            .at("threads")
            .found(n)
            .expected("as many threads as the system gives")
            .help(e)
    })
}
