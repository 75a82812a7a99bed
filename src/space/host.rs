//! Optimizer states kept in host memory: what leaves the devices, and what a node's host must hold.
//!
//! States are the 12 bytes per parameter of fp32 master weights and two moments, as priced. Beside them the host holds
//! gradients, weights and pinned copies: a run of Qwen3-30B-A3B took 820 GB for 30.5e9 parameters, 26.9 bytes each
//! (THUDM/slime #1851, read 2026-11), 2.24 times the states.

use super::check::Checked;
use crate::cluster::Pool;
use serde::Serialize;

/// Peak host memory over the states themselves (measured, see above).
const PEAK: f64 = 26.9 / 12.0;

/// Host memory of the fullest node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostMemory {
    /// The states alone.
    pub states_bytes: f64,
    /// With gradients, weights and pinned copies, at the second step.
    pub peak_bytes: f64,
    /// What a node has, if known.
    pub available_bytes: Option<f64>,
    /// Whether the peak fits, if it is known.
    pub fits: Option<bool>,
}

/// Moves `fraction` of the optimizer states of every device to its host; the host's share of it all.
pub fn offload(checked: &mut Checked, fraction: f64, pool: &Pool) -> HostMemory {
    let usable = checked.estimate.usable_memory_bytes;
    let mut most = 0.0f64;
    for stage in &mut checked.estimate.stages {
        let moved = stage.memory.optimizer_bytes * fraction.clamp(0.0, 1.0);
        most = most.max(moved);
        stage.memory.optimizer_bytes -= moved;
        stage.memory.allocated_bytes -= moved;
        stage.memory.reserved_bytes -= moved;
        stage.margin = 1.0 - stage.memory.reserved_bytes / (usable / crate::cost::options::SAFE_SHARE);
    }
    let stages = &checked.estimate.stages;
    checked.estimate.peak_memory_bytes = stages.iter().map(|s| s.memory.reserved_bytes).fold(0.0, f64::max);
    let over = |bytes: f64| bytes > usable * (1.0 + 1e-12);
    checked.fits = !stages.iter().any(|s| over(s.memory.reserved_bytes));
    checked.estimate.fits = checked.fits;
    checked.overflows.retain_mut(|o| {
        let stage = checked.estimate.stages.iter().find(|s| s.stage == o.stage);
        let memory = stage.map_or(o.memory, |s| s.memory);
        (o.memory, o.needed_bytes) = (memory, memory.reserved_bytes);
        over(o.needed_bytes)
    });
    let states_bytes = most * pool.devices_per_node.min(checked.plan.devices) as f64;
    let peak_bytes = states_bytes * PEAK;
    let available_bytes = pool.host_memory.map(|b| b.0);
    HostMemory { states_bytes, peak_bytes, available_bytes, fits: available_bytes.map(|b| peak_bytes <= b) }
}
