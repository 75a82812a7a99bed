//! Compute-only schedules for the zero-bubble runtime (sail-sg/zero-bubble-pipeline-parallelism,
//! `scheduler/graph.py`, class `ScheduledNode`, read 2026-11): a list per device of nodes in order. The runtime's own passes
//! add communication.
//!
//! Its `stage` is our device and its `layer_group_idx` our stage. Its nodes look for the backward of the next stage under
//! their own type, so that all backwards must be of one kind: where some are split, all are. Times are integers there:
//! thousandths of the unit.

use crate::pipeline::action::{Action, Pass};
use crate::pipeline::schedule::Schedule;
use crate::pipeline::simulate::Run;
use crate::pipeline::validate::{Fault, validate};
use serde_json::{Value, json};

/// Integer times in one unit.
const PER_UNIT: f64 = 1000.0;

/// Why the runtime cannot run a schedule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ZbRuntimeError {
    /// It is not valid.
    #[error(transparent)]
    Invalid(#[from] Fault),
    /// It has what the runtime has no word for.
    #[error("the zero-bubble runtime runs no schedule with {0}")]
    Unsupported(&'static str),
}

/// The nodes, by device.
///
/// # Errors
/// [`ZbRuntimeError`] for invalid schedules, several routes, stages without backward.
pub fn nodes(schedule: &Schedule, run: &Run) -> Result<Value, ZbRuntimeError> {
    validate(schedule)?;
    let placement = &schedule.placement;
    if placement.routes() > 1 {
        return Err(ZbRuntimeError::Unsupported("several routes through the stages"));
    }
    if schedule.flags.iter().any(|flags| flags.forward_only) {
        return Err(ZbRuntimeError::Unsupported("stages that run forward only"));
    }
    let split = schedule.splits_backward();
    let mut devices = Vec::new();
    for (device, timeline) in run.timeline.iter().enumerate() {
        let mut nodes = Vec::new();
        for timed in timeline {
            for action in timed.step.actions() {
                let kinds: &[Pass] =
                    if split && action.pass == Pass::BW { &[Pass::B, Pass::W] } else { &[action.pass] };
                for pass in kinds {
                    nodes.push(node(schedule, device, Action { pass: *pass, ..action }, timed.start, timed.end));
                }
            }
        }
        devices.push(Value::Array(nodes));
    }
    Ok(Value::Array(devices))
}

fn node(schedule: &Schedule, device: usize, action: Action, start: f64, end: f64) -> Value {
    let (placement, stage) = (&schedule.placement, action.stage as usize);
    let elsewhere = |x: Option<usize>| x.map(|x| placement.device(x)).filter(|d| *d != device);
    let (before, after) = (placement.previous(stage), placement.next(stage));
    let (from, to) = match action.pass {
        Pass::F => (before, after),
        Pass::B | Pass::BW => (after, before),
        Pass::W => (None, None),
    };
    json!({
        "type": action.pass.name(),
        "stage": device,
        "microbatch": action.microbatch,
        "chunk": placement.chunks(device).position(|x| x == stage),
        "seq_split_idx": 0,
        "layer_group_idx": stage,
        "start_time": (start * PER_UNIT).round() as i64,
        "completion_time": (end * PER_UNIT).round() as i64,
        "recv_peer_stage": elsewhere(from),
        "send_peer_stage": elsewhere(to),
    })
}
