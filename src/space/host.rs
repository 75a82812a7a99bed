//! Host memory of a priced plan: what leaves the devices for it, and whether a node has as much as the fullest needs.

use super::check::Checked;
use super::planner::{Inputs, PlanError};
use crate::cost::StateBytes;
use crate::estimate::host::{Duties, Item, Node, peak};
use serde::Serialize;

/// Host memory of the fullest node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostMemory {
    /// States that the devices do not hold.
    pub states_bytes: f64,
    /// The most at any moment.
    pub peak_bytes: f64,
    /// What it is made of.
    pub items: Vec<Item>,
    /// What a node has, if known.
    pub available_bytes: Option<f64>,
    /// Whether the peak fits, if it is known.
    pub fits: Option<bool>,
}

/// Takes what `duties` give to the hosts off the devices; the hosts' share of it all.
///
/// # Errors
/// A question without a pool.
pub fn host(checked: &mut Checked, duties: &Duties, inputs: &Inputs) -> Result<HostMemory, PlanError> {
    let pool = inputs.pool()?;
    let per = StateBytes::under(&inputs.job, &inputs.cost.software);
    let ranks = pool.devices_per_node.min(checked.plan.devices).max(1) as f64;
    let tensor = checked.plan.chunks.iter().flat_map(|c| c.parts()).map(|(_, s)| s.tp).max().unwrap_or(1);
    let parameters = inputs.model.parameters_total() as f64
        + if inputs.job.mtp { inputs.model.parameters_mtp() as f64 } else { 0.0 };
    let of_rank = checked.estimate.stages.iter().map(|s| s.memory.weights_bytes).fold(0.0, f64::max) / per.weights;
    let (mut states, mut weights) = (0.0f64, 0.0f64);
    let software = inputs.cost.software;
    for stage in &mut checked.estimate.stages {
        let m = &mut stage.memory;
        let moved = m.optimizer_bytes * duties.optimizer.clamp(0.0, 1.0);
        let (left, live) = if duties.weights {
            (m.weights_bytes, duties.live_bytes.min(parameters * per.weights))
        } else {
            (0.0, 0.0)
        };
        (states, weights) = (states.max(moved), weights.max(left));
        m.optimizer_bytes -= moved;
        m.weights_bytes -= left;
        m.buffers_bytes += live;
        m.allocated_bytes += live - moved - left;
        m.reserved_bytes += (live - moved - left) * software.allocator;
    }
    refit(checked);
    let per_node = |bytes: f64| bytes * ranks;
    let node = Node {
        ranks,
        readers: (ranks / f64::from(tensor)).max(1.0),
        parameters,
        of_rank,
        states: per_node(states),
        of_states: if per.optimizer > 0.0 { per_node(states) / per.optimizer } else { 0.0 },
        weights: per_node(weights),
    };
    let items = duties.items(&node);
    let peak_bytes = peak(&items);
    let available_bytes = pool.host_memory.map(|b| b.0);
    let fits = available_bytes.map(|b| peak_bytes <= b);
    Ok(HostMemory { states_bytes: node.states, peak_bytes, items, available_bytes, fits })
}

/// Whether it fits and where not, after the memory of stages has changed.
fn refit(checked: &mut Checked) {
    let usable = checked.estimate.usable_memory_bytes;
    for stage in &mut checked.estimate.stages {
        stage.margin = 1.0 - stage.memory.reserved_bytes / (usable / crate::cost::options::SAFE_SHARE);
    }
    let stages = &checked.estimate.stages;
    checked.estimate.peak_memory_bytes = stages.iter().map(|s| s.memory.reserved_bytes).fold(0.0, f64::max);
    let over = |bytes: f64| bytes > usable * (1.0 + 1e-12);
    checked.fits = !stages.iter().any(|s| over(s.memory.reserved_bytes));
    checked.estimate.fits = checked.fits;
    checked.overflows.retain_mut(|o| {
        let stage = stages.iter().find(|s| s.stage == o.stage);
        let memory = stage.map_or(o.memory, |s| s.memory);
        (o.memory, o.needed_bytes) = (memory, memory.reserved_bytes);
        over(o.needed_bytes)
    });
}
