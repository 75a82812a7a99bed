//! Memory of a device along its order. It depends on the order only: a device holds what it made until it used it up.
//!
//! F adds the activation of its stage (only what is kept, for a stage that recomputes), B leaves the residue, W and BW
//! free the rest. Recomputed activations are there from the start of the backward until W (not only during the
//! backward). An offloaded activation leaves during the step after its F and comes back during the step before its
//! backward.

use super::action::Pass;
use super::costs::{Costs, StageCost};
use super::schedule::{Schedule, StageFlags};

/// The most memory that a device uses, residents included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peak {
    /// How much.
    pub value: f64,
    /// During which step of the device.
    pub position: usize,
}

/// Memory used during each step of a device, residents included; one entry per step.
pub fn profile(schedule: &Schedule, costs: &Costs, device: usize) -> Vec<f64> {
    let order = &schedule.orders[device];
    // Change before each step and change after it.
    let mut before = vec![0.0; order.len()];
    let mut after = vec![0.0; order.len()];
    for (position, step) in order.iter().enumerate() {
        for action in step.actions() {
            let stage = action.stage as usize;
            let (add, free) = change(&costs.stages[stage], schedule.flags[stage], action.pass);
            before[position] += add;
            after[position] += free;
        }
    }
    for (leaves, returns, amount) in offloads(schedule, costs, device) {
        after[leaves] -= amount;
        before[returns] += amount;
    }
    let mut held = costs.resident[device];
    let during = before.iter().zip(&after).map(|(add, free)| {
        held += add;
        let during = held;
        held += free;
        during
    });
    during.collect()
}

/// Peak memory of one device.
pub fn peak(schedule: &Schedule, costs: &Costs, device: usize) -> Peak {
    let start = Peak { value: costs.resident[device], position: 0 };
    profile(schedule, costs, device)
        .into_iter()
        .enumerate()
        .fold(start, |peak, (position, value)| if value > peak.value { Peak { value, position } } else { peak })
}

/// Memory that a pass takes at its start and (negative) gives back at its end.
pub(super) fn change(cost: &StageCost, flags: StageFlags, pass: Pass) -> (f64, f64) {
    let held = if flags.recompute { cost.kept } else { cost.activation };
    match pass {
        Pass::F if flags.forward_only => (cost.activation, -cost.activation),
        Pass::F if flags.recompute => (cost.activation, cost.kept - cost.activation),
        Pass::F => (cost.activation, 0.0),
        Pass::B => (cost.activation - held, cost.residue - cost.activation),
        Pass::W => (0.0, -cost.residue),
        Pass::BW => (cost.activation - held, -cost.activation),
    }
}

/// Steps after which an offloaded activation is gone, before which it is back, and its size; those whose backward comes
/// too soon are not offloaded.
pub(super) fn offloads(schedule: &Schedule, costs: &Costs, device: usize) -> Vec<(usize, usize, f64)> {
    if !schedule.flags.iter().any(|f| f.offload) {
        return Vec::new();
    }
    let mut made = std::collections::BTreeMap::new();
    let mut result = Vec::new();
    for (position, step) in schedule.orders[device].iter().enumerate() {
        for action in step.actions().filter(|a| schedule.flags[a.stage as usize].offload) {
            if action.pass == Pass::F {
                made.insert((action.stage, action.microbatch), position);
            } else if action.pass.is_backward()
                && let Some(forward) = made.get(&(action.stage, action.microbatch))
                && forward + 2 < position
            {
                let (cost, flags) = (&costs.stages[action.stage as usize], schedule.flags[action.stage as usize]);
                let held = if flags.recompute { cost.kept } else { cost.activation };
                result.push((forward + 1, position - 1, held));
            }
        }
    }
    result
}
