//! Chrome trace events (Perfetto, chrome://tracing): a process per device with threads for computation, sends and
//! receives, arrows from F to F and from B to B, and a counter of memory. Times become microseconds by `per_unit`.
//!
//! Format: "Trace Event Format" (Google, 2016 revision).

use crate::pipeline::action::{Pass, Step};
use crate::pipeline::costs::Costs;
use crate::pipeline::schedule::Schedule;
use crate::pipeline::simulate::{Run, Timed};
use crate::pipeline::{memory, slack::slack};
use serde_json::{Value, json};

const COMPUTE: u32 = 0;
const SENDS: u32 = 1;
const RECEIVES: u32 = 2;

/// The trace of a run. `per_unit` is the number of microseconds in one unit of time of `costs`.
pub fn trace(schedule: &Schedule, costs: &Costs, run: &Run, per_unit: f64) -> Value {
    let at = |time: f64| time * per_unit;
    let mut events = Vec::new();
    for device in 0..schedule.devices() {
        let name = |name: &str, tid: Option<u32>, value: String| {
            let mut event = json!({"ph": "M", "pid": device, "name": name, "args": {"name": value}});
            if let Some(tid) = tid {
                event["tid"] = tid.into();
            }
            event
        };
        events.push(name("process_name", None, format!("device {device}")));
        for (tid, thread) in [(COMPUTE, "computation"), (SENDS, "sends"), (RECEIVES, "receives")] {
            events.push(name("thread_name", Some(tid), thread.to_owned()));
        }
    }
    let slack = slack(schedule, run);
    for (device, timeline) in run.timeline.iter().enumerate() {
        for (timed, slack) in timeline.iter().zip(&slack[device]) {
            let actions: Vec<Value> = timed
                .step
                .actions()
                .map(|a| json!({"pass": a.pass.name(), "stage": a.stage, "microbatch": a.microbatch}))
                .collect();
            let (kind, colour) = look(timed.step);
            events.push(json!({
                "ph": "X", "pid": device, "tid": COMPUTE, "name": timed.step.to_string(), "cat": kind, "cname": colour,
                "ts": at(timed.start), "dur": at(timed.end - timed.start),
                "args": {"actions": actions, "slack": at(*slack), "critical": *slack <= run.makespan * 1e-9},
            }));
        }
        let held = memory::profile(schedule, costs, device);
        for (start, held) in step_starts(schedule, timeline, device).into_iter().zip(held) {
            let args = json!({"memory": held});
            events.push(json!({"ph": "C", "pid": device, "name": "memory", "ts": at(start), "args": args}));
        }
    }
    for (id, message) in run.messages.iter().enumerate() {
        let (name, cat) = (format!("{} to {}", message.from, message.to), "transfer");
        let (departs, duration) = (at(message.departs), at(message.arrives - message.departs));
        for (pid, tid) in [(message.sender, SENDS), (message.receiver, RECEIVES)] {
            events.push(json!({
                "ph": "X", "pid": pid, "tid": tid, "name": name, "cat": cat, "ts": departs, "dur": duration,
            }));
        }
        // An arrow is bound to the slice that contains its time on that thread.
        events.push(json!({
            "ph": "s", "id": id, "pid": message.sender, "tid": SENDS, "name": cat, "cat": cat, "ts": departs,
        }));
        events.push(json!({
            "ph": "f", "bp": "e", "id": id, "pid": message.receiver, "tid": RECEIVES, "name": cat, "cat": cat,
            "ts": departs + duration,
        }));
    }
    json!({
        "displayTimeUnit": "ms",
        "otherData": {"schedule": schedule.name, "makespan": run.makespan, "span": run.span, "bubble": run.bubble()},
        "traceEvents": events,
    })
}

/// When each step of the schedule starts: a pair may be two entries of the timeline.
fn step_starts(schedule: &Schedule, timeline: &[Timed], device: usize) -> Vec<f64> {
    let mut timeline = timeline.iter();
    let mut starts = Vec::with_capacity(schedule.orders[device].len());
    for step in &schedule.orders[device] {
        let Some(first) = timeline.next() else { break };
        starts.push(first.start);
        if matches!(step, Step::Pair { .. }) && matches!(first.step, Step::One(_)) {
            timeline.next();
        }
    }
    starts
}

/// Category and colour (names that the trace viewers know).
fn look(step: Step) -> (&'static str, &'static str) {
    match step {
        Step::Pair { .. } => ("F&B", "thread_state_iowait"),
        Step::One(action) => match action.pass {
            Pass::F => ("F", "thread_state_running"),
            Pass::B => ("B", "thread_state_runnable"),
            Pass::BW => ("BW", "rail_response"),
            Pass::W => ("W", "good"),
        },
    }
}
