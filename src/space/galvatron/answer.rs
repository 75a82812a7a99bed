//! What planning and checking answer in Galvatron's terms.
//!
//! Without a backend the exact search of this space answers on the calling thread; any backend of the registry can be set
//! to the same problem instead.

use super::price::GalvatronEstimate;
use super::problem::{GalvatronSpace, Partition};
use super::solution::Solution;
use crate::cost::galvatron::{CostModel, GalvatronCostError, Plan, Repair};
use crate::export::galvatron::{plan_file, to_json};
use crate::memo::FileError;
use crate::search::budget::Stop;
use crate::search::erased::solve;
use crate::search::outcome::gap;
use crate::search::problem::Problem;
use crate::search::registry::{Choice, RegistryError, build};
use crate::search::run::Request;
use crate::space::answer::{ProvenBound, SearchReport};
use serde::Serialize;
use serde_json::Value;
use std::time::Instant;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GalvatronAnswerError {
    /// Something has no price.
    #[error(transparent)]
    Cost(#[from] GalvatronCostError),
    /// There is no such backend.
    #[error(transparent)]
    Backend(#[from] RegistryError),
    /// The cache could not be used.
    #[error(transparent)]
    Cache(#[from] FileError),
    /// No plan of the space fits.
    #[error("no plan of the space fits into the {usable_mb} MB of a device that may be used")]
    Infeasible {
        /// Whole MB that a plan may use.
        usable_mb: u64,
        /// The least whole `memory_constraint`, GB, found to be enough.
        enough_gb: Option<f64>,
    },
    /// One strategy for all layers leaves no tree.
    #[error("plans with one strategy for all layers are listed, not searched")]
    Coarse,
    /// The search stopped before it had a plan that fits.
    #[error("the search stopped before it had a plan that fits")]
    NoPlan(Stop),
}

/// The answer of `plan` in Galvatron's terms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GalvatronAnswer {
    /// Whose terms the plan is in.
    pub framework: &'static str,
    /// `galvatron` or `galvatron-repaired`.
    pub cost_model: &'static str,
    /// Faults of Galvatron's model that are mended.
    pub repairs: Vec<&'static str>,
    /// The plan as Galvatron's trainer reads it.
    pub plan: Value,
    /// Its price.
    pub estimate: GalvatronEstimate,
    /// Whether every stage fits.
    pub fits: bool,
    /// No rules are checked beyond those of the space.
    pub legal: Option<bool>,
    /// Nor can any be broken, then.
    pub broken_rules: [(); 0],
    /// The proven bound. Where several global batches are searched, on the time for as many samples as the largest has.
    pub bound: Option<ProvenBound>,
    /// Number of distinct plans in the space, if it is a number.
    pub space_size: Option<f64>,
    /// The same as a decimal logarithm.
    pub space_size_log10: Option<f64>,
    /// How the search went; `None` for a given plan.
    pub search: Option<SearchReport>,
    /// The exact search keeps only the best.
    pub alternatives: [(); 0],
}

impl GalvatronAnswer {
    /// Whether no plan of the space is faster.
    pub fn is_optimal(&self) -> bool {
        self.bound.is_some_and(|b| b.gap == 0.0)
    }

    fn new(model: &CostModel, plan: &Plan, task: Option<(&GalvatronSpace, usize)>) -> Result<Self, GalvatronCostError> {
        let price = match task {
            Some((space, task)) => space.price(task, plan)?,
            None => {
                let (mode, buffer_tp) = model.task_of(plan);
                model.price(plan, mode, buffer_tp)?
            }
        };
        let repairs: Vec<_> = model.repairs.iter().map(Repair::name).collect();
        Ok(Self {
            framework: "galvatron",
            cost_model: if repairs.is_empty() { "galvatron" } else { "galvatron-repaired" },
            repairs,
            plan: to_json(&plan_file(plan, &model.setting)),
            estimate: GalvatronEstimate::new(model, plan, &price),
            fits: price.fits(),
            legal: None,
            broken_rules: [],
            bound: None,
            space_size: None,
            space_size_log10: None,
            search: None,
            alternatives: [],
        })
    }
}

/// Plans by exact search.
pub fn plan_exactly(space: &GalvatronSpace, started: Instant) -> Result<GalvatronAnswer, GalvatronAnswerError> {
    let exact = space.answer();
    let Some((best, objective_s)) = &exact.best else { return Err(infeasible(space)) };
    let stop_reason = if exact.gap() == Some(0.0) { Stop::Optimal } else { Stop::Exhausted };
    let wall_s = started.elapsed().as_secs_f64();
    let search = SearchReport {
        backend: "exact".to_owned(),
        seed: 0,
        evaluations: exact.solved as u64,
        requests: exact.solved as u64,
        cache_hits: 0,
        wall_s,
        cpu_s: wall_s,
        first_plan_s: None,
        stop_reason,
    };
    answer(space, best, *objective_s, Some(exact.bound_s), search)
}

/// Plans with a backend of the registry.
pub fn plan_with(
    space: &GalvatronSpace,
    backend: &str,
    request: Request<'_, Solution>,
    started: Instant,
) -> Result<GalvatronAnswer, GalvatronAnswerError> {
    if !space.model.setting.limits.per_layer {
        return Err(GalvatronAnswerError::Coarse);
    }
    let built = build(&Choice::named(backend))?;
    let seed = request.seed;
    let outcome = solve(space, built.as_ref(), request)?;
    let best = outcome.best.as_ref().and_then(|b| Some((&b.solution, b.score.objective()?)));
    let Some((best, objective_s)) = best else {
        return Err(match outcome.stop {
            Stop::Optimal | Stop::Exhausted => infeasible(space),
            stop => GalvatronAnswerError::NoPlan(stop),
        });
    };
    let search = SearchReport {
        backend: backend.to_owned(),
        seed,
        evaluations: outcome.counters.evaluations,
        requests: outcome.counters.requests,
        cache_hits: outcome.counters.cache_hits,
        wall_s: started.elapsed().as_secs_f64(),
        cpu_s: outcome.cpu_s,
        first_plan_s: None,
        stop_reason: outcome.stop,
    };
    answer(space, best, objective_s, outcome.bound, search)
}

/// Prices a given plan; the exact search says how far it is from the best where it is about a batch of the setting.
pub fn check(model: CostModel, plan: &Plan) -> Result<GalvatronAnswer, GalvatronCostError> {
    let mut answer = GalvatronAnswer::new(&model, plan, None)?;
    if answer.fits && model.setting.batches.global.contains(&plan.micro.global_batch) {
        let space = GalvatronSpace::new(model, Partition::Even)?;
        let scale = space.model.setting.batches.global.iter().copied().max().unwrap_or(1);
        let scale = f64::from(scale) / f64::from(plan.micro.global_batch);
        answer.bound = proven(answer.estimate.iteration_time_s * scale, space.answer().bound_s);
    }
    Ok(answer)
}

fn answer(
    space: &GalvatronSpace,
    best: &Solution,
    objective_s: f64,
    bound_s: Option<f64>,
    search: SearchReport,
) -> Result<GalvatronAnswer, GalvatronAnswerError> {
    let priced = GalvatronAnswer::new(&space.model, &space.plan(best), Some((space, best.task as usize)))?;
    let size = space.space_log10();
    Ok(GalvatronAnswer {
        bound: bound_s.and_then(|bound_s| proven(objective_s, bound_s)),
        space_size: size.filter(|x| *x < 300.0).map(|x| 10f64.powf(x)),
        space_size_log10: size,
        search: Some(search),
        ..priced
    })
}

/// Relative difference of objectives that the order of a sum explains.
const SAME: f64 = 1e-12;

/// `None` for a plan below the bound: it is outside the space, and the bound says nothing about it.
fn proven(objective_s: f64, bound_s: f64) -> Option<ProvenBound> {
    let gap = if objective_s <= bound_s * (1.0 + SAME) { 0.0 } else { gap(objective_s, bound_s)? };
    (objective_s >= bound_s * (1.0 - SAME)).then_some(ProvenBound { objective_s: bound_s, gap })
}

/// Devices have less memory than this, GB.
const MOST_GB: f64 = 65536.0;

/// Says that nothing fits, and what would be enough.
fn infeasible(space: &GalvatronSpace) -> GalvatronAnswerError {
    let feasible = |gb: f64| {
        let mut model = space.model.clone();
        model.setting.memory_gb = gb;
        GalvatronSpace::new(model, space.partition).is_ok_and(|s| s.answer().best.is_some())
    };
    let mut low = space.model.setting.memory_gb.floor();
    let mut high = low.max(1.0) * 2.0;
    while high <= MOST_GB && !feasible(high) {
        low = high;
        high *= 2.0;
    }
    let enough_gb = (high <= MOST_GB).then(|| {
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0).floor();
            if feasible(middle) { high = middle } else { low = middle }
        }
        high
    });
    GalvatronAnswerError::Infeasible { usable_mb: space.model.usable_mb(), enough_gb }
}
