//! What the greedy zero-bubble schedulers share: their question, and the state of a partial schedule.

use crate::pipeline::action::{Action, Pass, Step};

/// Costs of the passes of one stage, and what they do to memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassCosts {
    /// Time of F, B and W.
    pub time: [f64; 3],
    /// Memory that F takes (positive) and B and W give back (negative or zero).
    pub memory: [f64; 3],
}

/// Rounding of memory sums.
pub(super) const SLACK: f64 = 1e-9;

/// F, B or W as an index.
pub(super) fn kind(pass: Pass) -> usize {
    match pass {
        Pass::F => 0,
        Pass::B | Pass::BW => 1,
        Pass::W => 2,
    }
}

/// One device of a partial schedule.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    /// When it is free.
    pub clock: f64,
    /// Memory held.
    pub memory: f64,
    /// Idle time since its first pass.
    pub bubble: f64,
    /// Passes so far.
    pub steps: Vec<Step>,
}

impl Device {
    /// Runs a pass once its input is there; returns its end.
    pub fn run(&mut self, action: Action, costs: &PassCosts, ready: f64) -> f64 {
        let kind = kind(action.pass);
        let start = self.clock.max(ready);
        if !self.steps.is_empty() {
            self.bubble += start - self.clock;
        }
        self.clock = start + costs.time[kind];
        self.memory += costs.memory[kind];
        self.steps.push(Step::One(action));
        self.clock
    }
}

/// Largest idle time of all devices.
pub(super) fn largest_bubble(devices: &[Device]) -> f64 {
    devices.iter().map(|device| device.bubble).fold(0.0, f64::max)
}
