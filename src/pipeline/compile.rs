//! A schedule and its costs, flattened for the simulator: operations with a duration, at most two messages they wait
//! for and at most two they send.

use super::action::{Action, Pass, Step};
use super::costs::{Costs, Pairing};
use super::memory;
use super::placement::Placement;
use super::schedule::Schedule;
use super::validate::input;

/// No message.
pub(super) const NONE: u32 = u32::MAX;

/// What a device runs without interruption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Op {
    pub duration: f64,
    /// Messages that must have arrived.
    pub needs: [u32; 2],
    /// Messages that are sent at the end.
    pub gives: [u32; 2],
    /// Least time after the start of the operation before (a copy back from the host).
    pub after_start: f64,
    /// Least time after the end of the operation before the one before (a copy to the host).
    pub after_end: f64,
}

/// A way between two stages. Messages of one micro-batch and direction are numbered by the stage that receives them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    pub latency: f64,
    pub occupancy: f64,
    /// Directed pair of devices, or `NONE` within a device.
    pub link: u32,
}

/// Flattened schedule.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    /// Operations of all devices, one device after the other.
    pub ops: Vec<Op>,
    /// Where each device starts, and the end.
    pub starts: Vec<usize>,
    /// By (direction, receiving stage): `ways[direction * stages + stage]`.
    pub ways: Vec<Way>,
    /// Number of directed pairs of devices.
    pub links: usize,
    pub microbatches: usize,
    pub messages: usize,
    /// Whether any message occupies its link.
    pub queues: bool,
}

impl Program {
    pub fn new(schedule: &Schedule, costs: &Costs) -> Self {
        let (stages, m) = (schedule.placement.stages(), schedule.microbatches);
        let mut program = Self {
            ways: ways(&schedule.placement, costs),
            links: schedule.devices() * schedule.devices(),
            microbatches: m,
            messages: 2 * stages * m,
            ..Self::default()
        };
        program.queues = program.ways.iter().any(|w| w.link != NONE && w.occupancy > 0.0);
        for device in 0..schedule.orders.len() {
            program.starts.push(program.ops.len());
            program.add_device(schedule, costs, device);
        }
        program.starts.push(program.ops.len());
        program
    }

    /// The way that a message takes.
    pub fn way(&self, message: u32) -> Way {
        self.ways[message as usize / self.microbatches]
    }

    fn add_device(&mut self, schedule: &Schedule, costs: &Costs, device: usize) {
        let offloads = memory::offloads(schedule, costs, device);
        // Operation that each step starts and ends with, to place copies.
        let mut span = Vec::with_capacity(schedule.orders[device].len());
        for step in &schedule.orders[device] {
            let first = self.ops.len();
            match (*step, costs.pairing) {
                (Step::Pair { forward, backward }, Pairing::Joint { overlap }) => {
                    let (f, b) = (op(schedule, costs, forward), op(schedule, costs, backward));
                    let duration = f.duration.max(b.duration) + (1.0 - overlap) * f.duration.min(b.duration);
                    self.ops.push(Op {
                        duration,
                        needs: [f.needs[0], b.needs[0]],
                        gives: [f.gives[0], b.gives[0]],
                        ..f
                    });
                }
                (step, _) => self.ops.extend(step.actions().map(|action| op(schedule, costs, action))),
            }
            span.push((first, self.ops.len() - 1));
        }
        for (leaves, returns, _) in offloads {
            let copy = |position: usize| {
                let actions = schedule.orders[device][position].actions();
                actions.map(|a| costs.stages[a.stage as usize].copy).fold(0.0, f64::max)
            };
            // The activation of step `leaves - 1` must be gone before step `leaves + 1`.
            if let Some((first, _)) = span.get(leaves + 1) {
                self.ops[*first].after_end = self.ops[*first].after_end.max(copy(leaves - 1));
            }
            let (first, _) = span[returns + 1];
            self.ops[first].after_start = self.ops[first].after_start.max(copy(returns + 1));
        }
    }
}

fn op(schedule: &Schedule, costs: &Costs, action: Action) -> Op {
    let (stages, m) = (schedule.placement.stages(), schedule.microbatches);
    let stage = action.stage as usize;
    let (cost, flags) = (&costs.stages[stage], schedule.flags[stage]);
    let again = if flags.recompute { cost.forward } else { 0.0 };
    let duration = match action.pass {
        Pass::F => cost.forward,
        Pass::B => cost.backward + again,
        Pass::W => cost.weight,
        Pass::BW => cost.backward + cost.weight + again,
    };
    let message =
        |direction: usize, stage: usize| ((direction * stages + stage) * m + action.microbatch as usize) as u32;
    let placement = &schedule.placement;
    let needs = input(schedule, action).map(|_| message(usize::from(action.pass != Pass::F), stage));
    let gives = match action.pass {
        Pass::F => match placement.next(stage) {
            Some(next) => Some(message(0, next)),
            None if flags.forward_only => None,
            None => Some(message(1, stage)),
        },
        Pass::B | Pass::BW => {
            placement.previous(stage).filter(|x| !schedule.flags[*x].forward_only).map(|x| message(1, x))
        }
        Pass::W => None,
    };
    let or_none = |message: Option<u32>| [message.unwrap_or(NONE), NONE];
    Op { duration, needs: or_none(needs), gives: or_none(gives), after_start: 0.0, after_end: 0.0 }
}

fn ways(placement: &Placement, costs: &Costs) -> Vec<Way> {
    let within = Way { latency: 0.0, occupancy: 0.0, link: NONE };
    let way = |from: Option<usize>, to: usize, hop: usize, backward: bool| match from {
        Some(from) if placement.device(from) != placement.device(to) => {
            let transfer = if backward { costs.backward_hops[hop] } else { costs.forward_hops[hop] };
            let link = (placement.device(from) * placement.devices() + placement.device(to)) as u32;
            Way { latency: transfer.latency, occupancy: transfer.occupancy, link }
        }
        _ => within,
    };
    let forward = (0..placement.stages()).map(|x| way(placement.previous(x), x, x.wrapping_sub(1), false));
    let backward = (0..placement.stages()).map(|x| way(placement.next(x), x, x, true));
    forward.chain(backward).collect()
}
