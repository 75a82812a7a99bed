//! Layer-wise plan and schedule together: which plan is best once its passes may run in any order.
//!
//! A schedule changes what a plan costs in two ways: there is less waiting, and memory follows the order, so that plans
//! that 1F1B has no room for may fit. Candidates are the best plan, its runners-up, the uniform plans, and uniform plans
//! of frames that the bubble of 1F1B rules out but a schedule without bubble would not. They are searched best bound
//! first, with one budget each, until no bound is below the incumbent. Times in seconds, memory in bytes.

use super::file::Written;
use super::known::as_shape;
use super::of_plan::{Interleaved, PlanCase};
use super::question::Objective;
use super::refit::refit;
use super::solve::{ScheduleError, ScheduleOptions, solve};
use crate::error::{InputError, Kind};
use crate::estimate::{Estimate, Estimator};
use crate::pipeline::{Schedule, simulate};
use crate::plan::{Plan, Recompute};
use crate::search::budget::Interrupt;
use crate::space::planner::PlanError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Instant;

/// A plan whose schedule may be worth a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The plan.
    pub plan: Plan,
    /// Where it comes from.
    pub source: Source,
    /// No schedule makes it faster than this.
    pub ideal_s: f64,
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The best plan under 1F1B and interleaved 1F1B.
    BestPlan,
    /// Another layer-wise plan of the search.
    RunnerUp,
    /// One of the best uniform plans.
    Uniform,
    /// The best uniform plan of a frame if nothing ever waited.
    WithoutBubble,
}

/// How to search.
#[derive(Debug, Clone)]
pub struct JointOptions {
    /// Everything random follows from it.
    pub seed: u64,
    /// Most solutions that are evaluated per candidate; a number that suits the size if absent.
    pub evaluations: Option<u64>,
    /// Share by which input and weight gradients apart take longer than both in one.
    pub split_penalty: f64,
    /// Kinds of recomputation that chunks may change to once the schedule is known.
    pub recompute: Vec<Recompute>,
    /// When to stop.
    pub deadline: Option<Instant>,
    /// The flag that stops it.
    pub interrupt: Interrupt,
}

/// A candidate and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Where it comes from.
    pub source: Source,
    /// Stages.
    pub pipeline: u32,
    /// Micro-batches.
    pub micro_batches: u64,
    /// Chunks per stage of the plan as it came; a schedule may have others.
    pub chunks_per_stage: u32,
    /// No schedule makes its iteration shorter.
    pub bound_s: f64,
    /// Iteration time under 1F1B or interleaved 1F1B, where that runs.
    pub planned_s: Option<f64>,
    /// Whether it fits then.
    pub planned_fits: bool,
    /// Iteration time under the best schedule found; absent where memory admits none or none was searched.
    pub found_s: Option<f64>,
}

/// A known schedule on the candidate that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownTime {
    /// What it is called.
    pub name: String,
    /// Its shape in words.
    pub shape: String,
    /// End of its last pass.
    pub passes_s: f64,
    /// Largest peak of all devices.
    pub peak_memory_bytes: f64,
}

/// Why no more candidates were searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// No other candidate has a bound below the best found.
    Bound,
    /// As many as are looked at were searched.
    Candidates,
    /// The time was used up.
    Deadline,
    /// It was interrupted.
    Interrupted,
}

/// The schedule of a plan, as an answer tells it and a plan file holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSchedule {
    /// What runs when; the stages are the chunks of the plan.
    pub order: Written,
    /// Share by which input and weight gradients apart take longer than both in one.
    pub split_penalty: f64,
    /// Its shape in words.
    pub shape: String,
    /// Iteration time under it.
    pub iteration_time_s: f64,
    /// Iteration time of the best plan under 1F1B or interleaved 1F1B; absent where none fits.
    pub planned_iteration_time_s: Option<f64>,
    /// Share by which it is shorter.
    pub gain: Option<f64>,
    /// No schedule of this plan, whatever its cuts, makes the iteration shorter as long as it recomputes what it did
    /// before its schedule was found.
    pub bound_s: f64,
    /// `(iteration time - bound) / bound`.
    pub gap: f64,
    /// Idle share of all devices' time in the pipeline.
    pub bubble: f64,
    /// Reserved memory by device of the pipeline.
    pub peak_memory_bytes: Vec<f64>,
    /// Interleaved 1F1B of the same layers with the number of chunks that suits it best.
    pub interleaved: Option<Interleaved>,
    /// Known schedules of the same layers that fit, best first.
    pub compared: Vec<KnownTime>,
    /// Plans that were looked at, in the order of their bounds.
    pub candidates: Vec<Tried>,
    /// Schedules that were evaluated.
    pub evaluations: u64,
    /// Why no more candidates were searched.
    pub ended: Ended,
}

/// A plan with its schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct JointAnswer {
    /// The plan, its chunks those of the schedule.
    pub plan: Plan,
    /// Its price under the schedule.
    pub estimate: Estimate,
    /// The candidate that it comes from.
    pub origin: Plan,
    /// The schedule.
    pub schedule: PlanSchedule,
    /// CPU seconds of all searches.
    pub cpu_s: f64,
}

/// What a plan file must say of its schedule; the rest is for people.
#[derive(Deserialize)]
struct Stored {
    order: Written,
    #[serde(default)]
    split_penalty: f64,
}

/// The schedule that a plan file holds, proven valid, and the penalty of split gradients.
///
/// # Errors
/// [`InputError`] names the field, from the schedule's root; of a wrong order also device and position.
pub fn stored(value: &Value) -> Result<(Schedule, f64), InputError> {
    let Stored { order, split_penalty } = serde_path_to_error::deserialize(value)
        .map_err(|e| InputError::new(Kind::InvalidValue).at(e.path().to_string()).expected(e.inner()))?;
    if !(split_penalty.is_finite() && split_penalty >= 0.0) {
        let error = InputError::new(Kind::InvalidValue).at("split_penalty").found(split_penalty);
        return Err(error.expected("a fraction of at least 0, e.g. 0.03"));
    }
    for (field, stages) in
        [("recompute", &order.recompute), ("offload", &order.offload), ("forward_only", &order.forward_only)]
    {
        if !stages.is_empty() {
            let error = InputError::new(Kind::Unsupported).at(format!("order.{field}"));
            return Err(error.expected("no stages: the strategies of the plan say what is recomputed"));
        }
    }
    let schedule = order.schedule().map_err(|e| e.inside("order"))?;
    Ok((schedule, split_penalty))
}

/// Candidates whose case is built, and those of them that are searched.
const LOOKED_AT: usize = 32;
const SEARCHED: usize = 12;
/// Passes that the policies of one candidate may schedule, and the least and most policies: a second of one thread.
const PASSES: u64 = 4_000_000;
const EVALUATIONS: std::ops::RangeInclusive<u64> = 96..=1_600;
/// The candidate that is chosen gets this many times the budget in the end.
const REFINED: u64 = 4;
/// Known schedules that are told.
const TOLD: usize = 8;
/// Differences below this are rounding.
const ROUNDING: f64 = 1e-9;

#[derive(Default)]
struct Spent {
    evaluations: u64,
    cpu_s: f64,
}

struct Found {
    number: usize,
    shape: usize,
    schedule: Schedule,
    iteration_s: f64,
    compared: Vec<KnownTime>,
}

/// Searches; `planned` is the iteration time of the best plan under 1F1B and interleaved 1F1B, infinite where none
/// fits; `allowed` says which numbers of chunks per stage may be. `None` when no schedule was found that fits.
///
/// # Errors
/// [`PlanError`] for a fault of this program: every candidate is a plan of the question.
pub fn search(
    estimator: &Estimator<'_>,
    mut candidates: Vec<Candidate>,
    planned: f64,
    allowed: &dyn Fn(u32) -> bool,
    options: &JointOptions,
) -> Result<Option<JointAnswer>, PlanError> {
    // The best plan is looked at whatever its bound.
    candidates.sort_by(|a, b| {
        let rest = |c: &Candidate| c.source != Source::BestPlan;
        rest(a).cmp(&rest(b)).then(a.ideal_s.total_cmp(&b.ideal_s))
    });
    let mut cases: Vec<(f64, Candidate, PlanCase)> = Vec::new();
    let mut known = Vec::new();
    for candidate in candidates {
        let Plan { pipeline, micro_batches, chunks_per_stage, .. } = candidate.plan;
        let first = candidate.source == Source::BestPlan;
        // One of a kind per outer decision: cuts move anyway.
        let kind = (pipeline, micro_batches, chunks_per_stage, candidate.source);
        // Where nothing fits yet, plans of one kind with other strategies may.
        let again = if planned.is_finite() {
            known.contains(&kind)
        } else {
            cases.iter().any(|(_, other, _)| other.plan == candidate.plan)
        };
        if again || !first && (cases.len() >= LOOKED_AT || candidate.ideal_s >= planned) {
            continue;
        }
        known.push(kind);
        match PlanCase::new(estimator, &candidate.plan, Objective::Makespan, options.split_penalty) {
            Ok(mut case) => {
                case.keep(allowed);
                cases.push((case.bound(), candidate, case));
            }
            // Too many passes to simulate.
            Err(PlanError::Input(_)) => {}
            Err(other) => return Err(other),
        }
    }
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut tried: Vec<Tried> = cases.iter().map(|(bound, candidate, case)| tried(*bound, candidate, case)).collect();
    let mut best: Option<Found> = None;
    let (mut spent, mut searched, mut ended) = (Spent::default(), 0, Ended::Bound);
    let own = cases.iter().position(|(_, candidate, _)| candidate.source == Source::BestPlan);
    for number in own.into_iter().chain((0..cases.len()).filter(|number| Some(*number) != own)) {
        let (bound, _, case) = &cases[number];
        let incumbent = best.as_ref().map_or(planned, |found| found.iteration_s.min(planned));
        if best.is_some() && *bound >= incumbent * (1.0 - ROUNDING) {
            continue;
        }
        if let Some(why) = stopped(options).or((searched == SEARCHED).then_some(Ended::Candidates)) {
            ended = why;
            break;
        }
        searched += 1;
        let Some(found) = schedule_of(number, case, options, 1, &mut spent)? else { continue };
        tried[number].found_s = Some(found.iteration_s);
        if best.as_ref().is_none_or(|known| found.iteration_s < known.iteration_s) {
            best = Some(found);
        }
    }
    let Some(mut best) = best else { return Ok(None) };
    let (bound, candidate, case) = &cases[best.number];
    if best.iteration_s > bound * (1.0 + ROUNDING) && stopped(options).is_none() {
        let again = schedule_of(best.number, case, options, REFINED, &mut spent)?;
        if let Some(again) = again.filter(|again| again.iteration_s < best.iteration_s) {
            tried[best.number].found_s = Some(again.iteration_s);
            best = again;
        }
    }
    let map = &best.schedule.placement;
    let plan = Plan {
        chunks_per_stage: (map.stages() / map.devices()) as u32,
        chunks: case.chunks[best.shape].clone(),
        ..candidate.plan.clone()
    };
    let estimate = estimator.estimate_under(&plan, &best.schedule, options.split_penalty)?;
    let over = || stopped(options).is_some();
    let penalty = options.split_penalty;
    let (plan, estimate) = refit(estimator, (plan, estimate), &best.schedule, penalty, &options.recompute, &over);
    let iteration_time_s = estimate.iteration_time_s;
    let bound_s = bound.min(iteration_time_s);
    Ok(Some(JointAnswer {
        schedule: PlanSchedule {
            order: Written::from(&best.schedule),
            split_penalty: options.split_penalty,
            shape: case.case.shapes[best.shape].name(),
            iteration_time_s,
            planned_iteration_time_s: planned.is_finite().then_some(planned),
            gain: planned.is_finite().then_some(1.0 - iteration_time_s / planned),
            bound_s,
            gap: iteration_time_s / bound_s - 1.0,
            bubble: estimate.bubble,
            peak_memory_bytes: estimate.stages.iter().map(|stage| stage.memory.reserved_bytes).collect(),
            interleaved: case.interleaved,
            compared: best.compared,
            candidates: tried,
            evaluations: spent.evaluations,
            ended,
        },
        origin: candidate.plan.clone(),
        plan,
        estimate,
        cpu_s: spent.cpu_s,
    }))
}

fn tried(bound: f64, candidate: &Candidate, case: &PlanCase) -> Tried {
    Tried {
        source: candidate.source,
        pipeline: candidate.plan.pipeline,
        micro_batches: candidate.plan.micro_batches,
        chunks_per_stage: candidate.plan.chunks_per_stage,
        bound_s: bound,
        planned_s: case.planned.as_ref().map(|estimate| estimate.iteration_time_s),
        planned_fits: case.planned.as_ref().is_some_and(|estimate| estimate.fits),
        found_s: None,
    }
}

fn stopped(options: &JointOptions) -> Option<Ended> {
    if options.interrupt.is_raised() {
        return Some(Ended::Interrupted);
    }
    options.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(Ended::Deadline)
}

/// The best schedule of a case with `times` the budget; `None` when memory admits none, or none was found in time.
fn schedule_of(
    number: usize,
    case: &PlanCase,
    options: &JointOptions,
    times: u64,
    spent: &mut Spent,
) -> Result<Option<Found>, PlanError> {
    let usual = (PASSES / case.case.passes().max(1) as u64).clamp(*EVALUATIONS.start(), *EVALUATIONS.end());
    let search = ScheduleOptions {
        seed: options.seed,
        max_evaluations: Some(options.evaluations.unwrap_or(usual) * times),
        max_time: options.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        ..ScheduleOptions::default()
    };
    let answer = match solve(case.case.clone(), &search, options.interrupt.clone(), None) {
        Ok(answer) => answer,
        Err(ScheduleError::Input(e)) => return Err(e.into()),
        Err(ScheduleError::None(_) | ScheduleError::Stopped(_)) => return Ok(None),
    };
    spent.evaluations += answer.search.evaluations;
    spent.cpu_s += answer.search.cpu_s;
    // Shapes that no schedule fits are left out of the answer's.
    let wanted = &answer.case.shapes[answer.shape];
    let same = |s: &super::shape::Shape| {
        s.placement == wanted.placement && s.costs == wanted.costs && s.backward == wanted.backward
    };
    let Some(shape) = case.case.shapes.iter().position(same) else { return Ok(None) };
    // Whether gradients are apart decides what they cost.
    let parted = as_shape(&answer.schedule, wanted.backward).filter(|_| options.split_penalty > 0.0);
    let schedule = parted.unwrap_or(answer.schedule);
    let Ok(run) = simulate(&schedule, &wanted.costs) else { return Ok(None) };
    let known = |k: &super::solve::Compared| KnownTime {
        name: k.name.clone(),
        shape: k.shape.clone(),
        passes_s: k.makespan,
        peak_memory_bytes: k.peak,
    };
    Ok(Some(Found {
        number,
        shape,
        iteration_s: case.iteration(shape, &run),
        schedule,
        compared: answer.compared.iter().take(TOLD).map(known).collect(),
    }))
}
