//! How much later each step could end without delaying the whole: zero along the critical path.

use super::action::{Action, Pass};
use super::schedule::Schedule;
use super::simulate::Run;
use super::validate::input;
use std::collections::HashMap;

/// Slack of every step of `run.timeline`, for the given order of steps and eager sends.
pub fn slack(schedule: &Schedule, run: &Run) -> Vec<Vec<f64>> {
    let mut steps: Vec<(usize, usize)> = Vec::new();
    let mut home: HashMap<Action, (usize, usize)> = HashMap::new();
    for (device, timeline) in run.timeline.iter().enumerate() {
        for (position, timed) in timeline.iter().enumerate() {
            steps.push((device, position));
            for action in timed.step.actions() {
                let made = if action.pass == Pass::BW { Action { pass: Pass::B, ..action } } else { action };
                home.insert(made, (device, position));
            }
        }
    }
    let delays: HashMap<Action, f64> = run.messages.iter().map(|m| (m.to, m.arrives - m.departs)).collect();
    let mut latest: Vec<Vec<f64>> = run.timeline.iter().map(|steps| vec![run.makespan; steps.len()]).collect();
    // From the last to the first: whoever waits for a step starts no earlier than it ends. Ties (steps of no length)
    // are broken by the order on the device.
    steps.sort_by(|a, b| {
        let start = |(d, i): &(usize, usize)| run.timeline[*d][*i].start;
        start(b).total_cmp(&start(a)).then(b.1.cmp(&a.1))
    });
    for (device, position) in steps {
        let timed = run.timeline[device][position];
        let start = latest[device][position] - (timed.end - timed.start);
        let mut limit = |(d, i): (usize, usize), at: f64| latest[d][i] = latest[d][i].min(at);
        if position > 0 {
            limit((device, position - 1), start);
        }
        for action in timed.step.actions() {
            if let Some(maker) = input(schedule, action).and_then(|from| home.get(&from)) {
                limit(*maker, start - delays.get(&action).copied().unwrap_or(0.0));
            }
        }
    }
    let of = |(steps, latest): (&Vec<super::simulate::Timed>, Vec<f64>)| {
        steps.iter().zip(latest).map(|(timed, latest)| (latest - timed.end).max(0.0)).collect()
    };
    run.timeline.iter().zip(latest).map(of).collect()
}
