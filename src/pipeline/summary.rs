//! Where the time and the memory of each device go.

use super::action::Pass;
use super::costs::Costs;
use super::memory::change;
use super::schedule::Schedule;
use super::simulate::Run;

/// One device of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSummary {
    /// Sum of its steps.
    pub busy: f64,
    /// Idle until its first backward starts: the pipeline fills.
    pub idle_warm_up: f64,
    /// Idle from then until its last forward ends.
    pub idle_steady: f64,
    /// Idle from then until its last step ends: the pipeline drains.
    pub idle_cool_down: f64,
    /// Idle from then until the last device ends.
    pub idle_after: f64,
    /// Peak memory, residents included.
    pub peak: f64,
    /// Who holds it: stage and memory, stages without any left out.
    pub held_by: Vec<(usize, f64)>,
}

/// Summaries of all devices.
pub fn summary(schedule: &Schedule, costs: &Costs, run: &Run) -> Vec<DeviceSummary> {
    (0..schedule.devices()).map(|device| of_device(schedule, costs, run, device)).collect()
}

fn of_device(schedule: &Schedule, costs: &Costs, run: &Run, device: usize) -> DeviceSummary {
    let steps = &run.timeline[device];
    let has =
        |pass: fn(Pass) -> bool| move |timed: &&super::simulate::Timed| timed.step.actions().any(|a| pass(a.pass));
    let first_backward = steps.iter().find(has(Pass::is_backward)).map_or(run.makespan, |timed| timed.start);
    let last_forward = steps.iter().rev().find(has(|pass| pass == Pass::F)).map_or(0.0, |timed| timed.end);
    let end = steps.last().map_or(0.0, |timed| timed.end);
    // All forwards may come before the first backward; then nothing is between.
    let (fills, drains) = (first_backward.min(end), last_forward.max(first_backward).min(end));
    let idle = |from: f64, to: f64| {
        let within = |timed: &super::simulate::Timed| (timed.end.min(to) - timed.start.max(from)).max(0.0);
        (to - from - steps.iter().map(within).sum::<f64>()).max(0.0)
    };
    DeviceSummary {
        busy: run.busy[device],
        idle_warm_up: idle(0.0, fills),
        idle_steady: idle(fills, drains),
        idle_cool_down: idle(drains, end),
        idle_after: run.makespan - end,
        peak: run.peaks[device].value,
        held_by: held_by(schedule, costs, device, run.peaks[device].position),
    }
}

/// Memory by stage during a step (an offloaded activation counts where it was made).
fn held_by(schedule: &Schedule, costs: &Costs, device: usize, position: usize) -> Vec<(usize, f64)> {
    let mut held = vec![0.0; schedule.placement.stages()];
    for (i, step) in schedule.orders[device].iter().enumerate().take(position + 1) {
        for action in step.actions() {
            let stage = action.stage as usize;
            let (takes, frees) = change(&costs.stages[stage], schedule.flags[stage], action.pass);
            held[stage] += if i < position { takes + frees } else { takes };
        }
    }
    held.into_iter().enumerate().filter(|(_, held)| *held > 1e-12).collect()
}
