//! What planning answers: the plan and its price, what it was compared with, how good it is proven to be, and why.

use super::stability::Stability;
use crate::cost::CostOptions;
use crate::estimate::Estimate;
use crate::plan::Plan;
use crate::space::schedule::joint::PlanSchedule;
use serde::Serialize;

/// A plan with its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Priced {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub estimate: Estimate,
}

/// A plan beside the best one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alternative {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub estimate: Estimate,
    /// Whether all layers have one strategy.
    pub uniform: bool,
    /// Iteration time over that of the best plan, minus one.
    pub slower: f64,
    /// Within [`NEAR_TIE`] of the best plan.
    pub near_tie: bool,
    /// What it gives up against the best plan and what it gains, term by term.
    pub gives_up: String,
}

/// Plans this close are not told apart by any cost model (COST 1.3: time below 5 % across versions is not meaningful).
pub const NEAR_TIE: f64 = 0.03;

/// Layer-wise plans that gain less than this over the best uniform one are not worth a framework that can run them.
pub const WORTH_IT: f64 = 0.01;

/// A proven bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProvenBound {
    /// No plan of the space is faster than this under this cost model.
    pub objective_s: f64,
    /// `(best - bound) / bound`.
    pub gap: f64,
}

/// How the search went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchReport {
    /// The algorithm.
    pub backend: String,
    /// Its seed.
    pub seed: u64,
    /// Distinct plans asked for.
    pub evaluations: u64,
    /// Plans asked for.
    pub requests: u64,
    /// Of the distinct ones, those that the cache knew.
    pub cache_hits: u64,
    /// Wall seconds of the whole planning.
    pub wall_s: f64,
    /// CPU seconds of this process so far.
    pub cpu_s: f64,
    /// Seconds until the first plan that fits.
    pub first_plan_s: Option<f64>,
    /// Why it stopped.
    pub stop_reason: crate::search::budget::Stop,
}

/// Why a dimension is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The dimension.
    pub dimension: &'static str,
    /// One line.
    pub reason: String,
}

/// Devices of one stage and how its ranks group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StagePlacement {
    /// Pipeline rank.
    pub stage: u32,
    /// Physical devices in rank order.
    pub devices: Vec<u64>,
    /// Tensor-parallel groups of the commonest strategy.
    pub tp_groups: Vec<Vec<u64>>,
}

/// The answer of `plan`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The best plan found.
    pub plan: Plan,
    /// Its price.
    pub estimate: Estimate,
    /// Whether it fits with its margin.
    pub fits: bool,
    /// The best plan with one strategy for all layers.
    pub uniform: Option<Priced>,
    /// What layer-wise planning gains over it, as a fraction of the uniform plan's time.
    pub layerwise_gain: Option<f64>,
    /// `layerwise` or `uniform`.
    pub recommended: &'static str,
    /// The proven bound, if the search has one.
    pub bound: Option<ProvenBound>,
    /// Number of distinct plans in the space, as a decimal logarithm.
    pub space_size_log10: f64,
    /// The same as a number, if it is one.
    pub space_size: Option<f64>,
    /// How the search went.
    pub search: SearchReport,
    /// Other plans, best first.
    pub alternatives: Vec<Alternative>,
    /// Whether the choice stands within what prices are known to.
    pub stability: Stability,
    /// Why each dimension is as it is.
    pub reasons: Vec<Reason>,
    /// Where the stages stand, for clusters small enough to list.
    pub placement: Vec<StagePlacement>,
    /// The schedule of the plan, where one was searched; the price is that of the plan under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<PlanSchedule>,
    /// What the cost model took into account.
    pub cost_options: CostOptions,
    /// Assumptions and remarks.
    pub notes: Vec<String>,
}

/// A change that makes an infeasible question feasible, verified by planning it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fix {
    /// What to change, as a user would say it.
    pub change: String,
    /// Iteration time of the best plan found with it.
    pub iteration_time_s: f64,
    /// Its peak memory.
    pub peak_memory_bytes: f64,
}

/// Why nothing fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Infeasible {
    /// The constraint that the leanest plan misses by least.
    pub tightest: String,
    /// What the leanest plan needs on its fullest device.
    pub needed_bytes: Option<f64>,
    /// What there is.
    pub available_bytes: f64,
    /// Changes that help, cheapest first.
    pub fixes: Vec<Fix>,
}
