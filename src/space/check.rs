//! The price of a given plan, without a search: whether it is a plan of the question at all, whether it fits, and what is
//! too much where.

use super::planner::{Inputs, PlanError};
use super::strategies::Divisors;
use crate::error::{InputError, Kind};
use crate::estimate::{Estimate, EstimateError, Estimator, StageMemory};
use crate::pipeline::Schedule;
use crate::pipeline::bounds::{Backward, bounds};
use crate::pipeline::timing::TimingError;
use crate::plan::{LayerStrategy, Plan, Spine, validate};
use serde::Serialize;

/// The moment at which a device needs most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Micro-batches in flight, a backward pass running.
    SteadyState,
    /// Logits and loss.
    Head,
}

/// A stage whose devices would need more than they may use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overflow {
    /// Pipeline rank.
    pub stage: u32,
    /// First device and number of devices.
    pub devices: [u64; 2],
    /// When.
    pub moment: Moment,
    /// Needed by each of its devices.
    pub needed_bytes: f64,
    /// What each may use.
    pub usable_bytes: f64,
    /// Made of what.
    pub memory: StageMemory,
}

/// A plan that was given, priced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub estimate: Estimate,
    /// Whether it fits with its margin.
    pub fits: bool,
    /// The one strategy of all layers, if there is one.
    pub uniform: Option<LayerStrategy>,
    /// Stages that do not fit, the fullest first.
    pub overflows: Vec<Overflow>,
    /// The schedule that the plan came with; the price is that of the plan under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<CheckedSchedule>,
}

/// The schedule of a plan that was given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedSchedule {
    /// What it is called.
    pub name: String,
    /// Whether input and weight gradients are passes of their own.
    pub splits_backward: bool,
    /// Share by which they then take longer.
    pub split_penalty: f64,
    /// Iteration time of the plan without it, under 1F1B or interleaved 1F1B, where that runs.
    pub planned_iteration_time_s: Option<f64>,
    /// Idle share of all devices' time in the pipeline.
    pub bubble: f64,
    /// Reserved memory by device of the pipeline.
    pub peak_memory_bytes: Vec<f64>,
    /// No order of these passes within this memory makes the iteration shorter.
    pub bound_s: f64,
}

/// Prices `plan` as an answer to the question.
///
/// # Errors
/// [`PlanError::Input`] names the field of a plan that is no answer to the question, from the plan's root.
pub fn check(inputs: &Inputs, plan: &Plan) -> Result<Checked, PlanError> {
    priced(inputs, plan, None)
}

/// As [`check`], under the schedule of the plan; split gradients take `penalty` longer.
///
/// # Errors
/// As [`check`], and for a schedule that is none of the plan.
pub fn check_under(inputs: &Inputs, plan: &Plan, schedule: &Schedule, penalty: f64) -> Result<Checked, PlanError> {
    priced(inputs, plan, Some((schedule, penalty)))
}

fn priced(inputs: &Inputs, plan: &Plan, under: Option<(&Schedule, f64)>) -> Result<Checked, PlanError> {
    inputs.job.validate().map_err(|e| InputError::from(e).inside("question.job"))?;
    let pool = inputs.pool()?;
    let spine = Spine::new(&inputs.model, &inputs.job);
    validate(plan, &spine, &inputs.job, pool.devices).map_err(|e| e.inside("plan"))?;
    divisible(inputs, plan, &spine)?;
    let estimator = Estimator::new(&inputs.model, &spine, pool, &inputs.job, inputs.cost);
    let estimate = match under {
        Some((schedule, penalty)) => estimator.estimate_under(plan, schedule, penalty),
        None => estimator.estimate(plan),
    };
    let estimate = estimate.map_err(|e| match e {
        EstimateError::Timing(TimingError::Deadlock { .. }) => PlanError::Input(
            InputError::new(Kind::Inconsistent)
                .at("plan.micro_batches")
                .found(plan.micro_batches)
                .expected(format!("a multiple of the {} stages, as there are several chunks per stage", plan.pipeline)),
        ),
        EstimateError::Mismatch(why) if under.is_some() => {
            PlanError::Input(InputError::new(Kind::Inconsistent).at("schedule").expected(why))
        }
        EstimateError::Schedule(why) => PlanError::Input(InputError::new(Kind::InvalidValue).at("schedule").help(why)),
        EstimateError::Mismatch(why) => PlanError::Input(InputError::new(Kind::Inconsistent).at("plan").expected(why)),
        other => other.into(),
    })?;
    let mut overflows: Vec<Overflow> = estimate
        .stages
        .iter()
        .filter(|s| s.memory.reserved_bytes > estimate.usable_memory_bytes * (1.0 + 1e-12))
        .map(|s| Overflow {
            stage: s.stage,
            devices: s.devices,
            moment: if s.memory.head_bytes > 0.0 { Moment::Head } else { Moment::SteadyState },
            needed_bytes: s.memory.reserved_bytes,
            usable_bytes: estimate.usable_memory_bytes,
            memory: s.memory,
        })
        .collect();
    overflows.sort_by(|a, b| b.needed_bytes.total_cmp(&a.needed_bytes).then(a.stage.cmp(&b.stage)));
    let schedule = match under {
        Some((schedule, penalty)) => Some(checked(&estimator, plan, schedule, penalty, &estimate)?),
        None => None,
    };
    let uniform = plan.uniform(&spine);
    Ok(Checked { fits: estimate.fits, uniform, plan: plan.clone(), estimate, overflows, schedule })
}

fn checked(
    estimator: &Estimator<'_>,
    plan: &Plan,
    schedule: &Schedule,
    penalty: f64,
    estimate: &Estimate,
) -> Result<CheckedSchedule, PlanError> {
    let (map, splits_backward) = (&schedule.placement, schedule.splits_backward());
    let costs = estimator.schedule_costs(plan, schedule, penalty)?;
    let kind = if splits_backward { Backward::Split } else { Backward::Fused };
    let bound = bounds(map, &schedule.flags, &costs, schedule.microbatches, kind).makespan.time;
    let bound = estimator.iteration_at_least(map, &estimator.chunk_costs(plan, map.device_of())?, bound);
    Ok(CheckedSchedule {
        name: schedule.name.clone(),
        splits_backward,
        split_penalty: penalty,
        planned_iteration_time_s: estimator.estimate(plan).ok().map(|usual| usual.iteration_time_s),
        bubble: estimate.bubble,
        peak_memory_bytes: estimate.stages.iter().map(|stage| stage.memory.reserved_bytes).collect(),
        // A schedule that exceeds memory may be faster than any that fits.
        bound_s: bound.min(estimate.iteration_time_s),
    })
}

/// Whether heads, features, experts and sequence divide by their cuts.
fn divisible(inputs: &Inputs, plan: &Plan, spine: &Spine) -> Result<(), InputError> {
    let divisors: Vec<Divisors> = spine.classes.iter().map(|c| Divisors::of(c, &inputs.job)).collect();
    for (c, chunk) in plan.chunks.iter().enumerate() {
        for (r, run) in chunk.runs.iter().enumerate() {
            for part in run.first..run.first + run.count {
                let class = spine.parts[part as usize] as usize;
                let d = &divisors[class];
                let s = &run.strategy;
                if !d.allow(s) {
                    let name = &spine.classes[class].name;
                    return Err(InputError::new(Kind::Inconsistent)
                        .at(format!("plan.chunks[{c}].runs[{r}].strategy"))
                        .found(s)
                        .expected(format!("cuts that divide part {part} (`{name}`): {}", sizes(d))));
                }
            }
        }
    }
    Ok(())
}

fn sizes(d: &Divisors) -> String {
    let mut words = Vec::new();
    for (what, n) in [
        ("heads", d.heads),
        ("key/value heads", d.kv_heads),
        ("feature groups", d.features),
        ("experts", d.experts),
        ("expert width", d.expert_width),
        ("tokens", d.sequence),
    ] {
        if n > 0 {
            words.push(format!("{n} {what}"));
        }
    }
    if d.experts > 0 {
        words.push("sequence parallelism beside tensor parallelism".into());
    }
    words.join(", ")
}
