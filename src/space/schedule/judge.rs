//! What a schedule is worth: times, bubble by cause, memory and who holds it, the chain that decides, and its bound.

use super::file;
use super::question::Objective;
use crate::pipeline::bounds::{Backward, Reason, bounds};
use crate::pipeline::slack::critical_path;
use crate::pipeline::summary::{DeviceSummary, summary};
use crate::pipeline::{Costs, PipelineError, Run, Schedule, simulate};
use crate::search::outcome::gap;
use serde::Serialize;

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedDevice {
    /// Sum of its passes.
    pub busy: f64,
    /// Idle until its first backward.
    pub idle_warm_up: f64,
    /// Idle from then until its last forward ends.
    pub idle_steady: f64,
    /// Idle from then until it is done.
    pub idle_cool_down: f64,
    /// Idle until the last device is done.
    pub idle_after: f64,
    /// Peak memory.
    pub peak_memory: f64,
    /// Stages that hold it, with how much.
    pub held_by: Vec<(usize, f64)>,
}

impl From<DeviceSummary> for JudgedDevice {
    fn from(d: DeviceSummary) -> Self {
        Self {
            busy: d.busy,
            idle_warm_up: d.idle_warm_up,
            idle_steady: d.idle_steady,
            idle_cool_down: d.idle_cool_down,
            idle_after: d.idle_after,
            peak_memory: d.peak,
            held_by: d.held_by,
        }
    }
}

/// A schedule judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// What is to be short.
    pub objective: Objective,
    /// From the first start to the last end.
    pub makespan: f64,
    /// Largest time between first start and last end of a device.
    pub span: f64,
    /// Peak memory by device.
    pub peak_memory: Vec<f64>,
    /// Idle share of all devices' time.
    pub bubble: f64,
    /// No schedule of these shapes and this memory has a smaller objective.
    pub bound: f64,
    /// What gives the bound, where it is of one shape.
    pub bound_by: Option<String>,
    /// `(objective - bound) / bound`.
    pub gap: f64,
    /// Whether that is zero.
    pub optimal: bool,
    /// Every action once, in an order that runs, within memory.
    pub valid: bool,
    /// The device that exceeds memory, if one does.
    pub exceeds: Option<String>,
    /// By device.
    pub devices: Vec<JudgedDevice>,
    /// Steps of a chain without slack, from the start to the end of all.
    pub critical_path: Vec<String>,
    /// The simulation.
    #[serde(skip)]
    pub run: Run,
}

/// Gaps below this are rounding.
const ROUNDING: f64 = 1e-9;

/// Judges `schedule` against `bound` (of the shapes it was chosen from), within the limit of `costs`.
///
/// # Errors
/// [`PipelineError`] when it does not run at all.
pub fn judge(schedule: &Schedule, costs: &Costs, objective: Objective, bound: f64) -> Result<Judged, PipelineError> {
    let free = Costs { limit: None, ..costs.clone() };
    let run = simulate(schedule, &free)?;
    let exceeds = simulate(schedule, costs).err().map(|e| e.to_string());
    let value = if objective == Objective::Makespan { run.makespan } else { run.span };
    let distance = gap(value, bound.min(value)).unwrap_or(0.0);
    let distance = if distance <= ROUNDING { 0.0 } else { distance };
    let path = critical_path(schedule, &run);
    Ok(Judged {
        objective,
        makespan: run.makespan,
        span: run.span,
        peak_memory: run.peaks.iter().map(|peak| peak.value).collect(),
        bubble: run.bubble(),
        bound: if distance == 0.0 { value } else { bound },
        bound_by: None,
        gap: distance,
        optimal: distance == 0.0 && exceeds.is_none(),
        valid: exceeds.is_none(),
        exceeds,
        devices: summary(schedule, &free, &run).into_iter().map(JudgedDevice::from).collect(),
        critical_path: path.into_iter().map(|(d, i)| run.timeline[d][i].step.to_string()).collect(),
        run,
    })
}

/// Judges a given schedule. Without a memory limit its bound is that of its own peaks.
///
/// # Errors
/// As [`judge`].
pub fn judge_given(schedule: &Schedule, costs: &Costs, objective: Objective) -> Result<Judged, PipelineError> {
    let run = simulate(schedule, &Costs { limit: None, ..costs.clone() })?;
    let limited = Costs {
        limit: costs.limit.clone().or_else(|| Some(run.peaks.iter().map(|peak| peak.value).collect())),
        ..costs.clone()
    };
    let kind: Backward = file::backward(schedule);
    let all = bounds(&schedule.placement, &schedule.flags, &limited, schedule.microbatches, kind);
    let bound = if objective == Objective::Makespan { all.makespan } else { all.span };
    let mut judged = judge(schedule, costs, objective, bound.time)?;
    let why = match bound.reason {
        Reason::Work => "its work and the idle time at both ends",
        Reason::Memory => "its memory, which holds only so many activation-seconds",
        Reason::Flow => "the way to it, its work and the way back",
        Reason::OneMicrobatch => "the way of one micro-batch that starts there",
    };
    judged.bound_by = Some(format!("device {}: {why}", bound.device));
    Ok(judged)
}
