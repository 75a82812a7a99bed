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

/// A chain of steps from the start to the end of a run, each starting when what it waits for is there: device and
/// position in the timeline, in order of time.
pub fn critical_path(schedule: &Schedule, run: &Run) -> Vec<(usize, usize)> {
    let mut home: HashMap<Action, (usize, usize)> = HashMap::new();
    for (device, timeline) in run.timeline.iter().enumerate() {
        for (position, timed) in timeline.iter().enumerate() {
            for action in timed.step.actions() {
                let made = if action.pass == Pass::BW { Action { pass: Pass::B, ..action } } else { action };
                home.insert(made, (device, position));
            }
        }
    }
    let delays: HashMap<Action, f64> = run.messages.iter().map(|m| (m.to, m.arrives - m.departs)).collect();
    let ends = run.timeline.iter().enumerate().filter_map(|(d, steps)| Some((steps.last()?.end, d, steps.len() - 1)));
    let last = ends.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut path: Vec<(usize, usize)> = last.into_iter().map(|(_, d, i)| (d, i)).collect();
    let tolerance = 1e-9 * run.makespan.max(f64::MIN_POSITIVE);
    while let Some(&(device, position)) = path.last() {
        let timed = run.timeline[device][position];
        // Of what it waited for, what came last.
        let before = position.checked_sub(1).map(|i| (run.timeline[device][i].end, (device, i)));
        let inputs = timed.step.actions().filter_map(|action| {
            let maker = *home.get(&input(schedule, action)?)?;
            Some((run.timeline[maker.0][maker.1].end + delays.get(&action).copied().unwrap_or(0.0), maker))
        });
        let latest = before.into_iter().chain(inputs).reduce(|a, b| if b.0 > a.0 { b } else { a });
        match latest.filter(|(at, _)| *at > -tolerance && timed.start > tolerance) {
            Some((_, step)) => path.push(step),
            None => break,
        }
    }
    path.reverse();
    path
}
