//! Validity as a proof: every action exactly once, on its device, after what it needs, with no cycle of waiting and
//! within the memory limit. What fails is named with its place; a deadlock is given as the cycle itself.

use super::action::{Action, Pass, Step};
use super::costs::Costs;
use super::memory;
use super::schedule::Schedule;
use std::fmt;

/// One link of a cycle of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The device that waits.
    pub device: usize,
    /// The action it cannot start (or, with blocking sends, whose output it cannot hand over).
    pub action: Action,
    /// What it waits for.
    pub needs: Action,
    /// The device that should do it.
    pub on: usize,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "device {} at {} waits for {} on device {}", self.device, self.action, self.needs, self.on)
    }
}

/// What is wrong with a schedule. Positions count the steps of a device from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Not one list per device, or not one set of flags per stage.
    #[error("found {found} {what}, expected {expected}")]
    Shape {
        /// Lists of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// An action of a stage that does not exist.
    #[error("device {device}, step {position}: {action}: stages are 0 to {last}")]
    Stage {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// The last stage.
        last: usize,
    },
    /// An action on a device that does not hold the stage.
    #[error("device {device}, step {position}: {action}: stage {} is on device {expected}", action.stage)]
    Device {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// Device that holds the stage.
        expected: usize,
    },
    /// An action for a micro-batch that does not exist or takes another route.
    #[error("device {device}, step {position}: {action}: micro-batches of this stage are {first} to {last}")]
    Microbatch {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// First micro-batch of the stage's route.
        first: usize,
        /// Last one.
        last: usize,
    },
    /// A backward of a stage that has none.
    #[error("device {device}, step {position}: {action}: stage {} runs forward only", action.stage)]
    ForwardOnly {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
    },
    /// The same gradient or output twice (B and BW count as the same backward).
    #[error("device {device}, step {position}: {action} was done at step {earlier} already")]
    Twice {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// Where in the order it was done first.
        earlier: usize,
    },
    /// An action that never happens.
    #[error("device {device}: {action} is missing")]
    Missing {
        /// Device of the stage.
        device: usize,
        /// What.
        action: Action,
    },
    /// An action before what it needs on its own device.
    #[error("device {device}, step {position}: {action} before {needs} (step {later})")]
    Early {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// What should come before it.
        needs: Action,
        /// Where that is.
        later: usize,
    },
    /// A pair that is no forward with a backward.
    #[error("device {device}, step {position}: {step}: a pair is one F with one B or BW")]
    Pair {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        step: String,
    },
    /// Devices wait for each other.
    #[error("deadlock: {}", cycle.iter().map(Wait::to_string).collect::<Vec<_>>().join("; "))]
    Deadlock {
        /// The cycle, each link waiting for the next, the last for the first.
        cycle: Vec<Wait>,
    },
    /// More memory than there is.
    #[error("device {device}, step {position}: {action} raises memory to {found}, the limit is {limit}")]
    Memory {
        /// Where.
        device: usize,
        /// Where in the order.
        position: usize,
        /// What.
        action: Action,
        /// Memory then.
        found: f64,
        /// Memory there is.
        limit: f64,
    },
}

/// Proves that a schedule can run, whatever its times, as long as sends are buffered ([`super::Sends::Eager`]); the
/// simulation finds deadlocks of stricter sends.
///
/// # Errors
/// The first [`Fault`] found: shape, then actions in order, then missing ones, then deadlocks.
pub fn validate(schedule: &Schedule) -> Result<(), Fault> {
    let positions = Positions::new(schedule)?;
    positions.check_complete(schedule)?;
    acyclic(schedule, &positions)
}

/// [`validate`], and the memory limit of `costs` besides.
///
/// # Errors
/// As [`validate`], then [`Fault::Memory`].
pub fn validate_with_memory(schedule: &Schedule, costs: &Costs) -> Result<(), Fault> {
    validate(schedule)?;
    within_limit(schedule, costs)
}

/// Whether memory stays within the limit, on the first device where it does not.
pub(super) fn within_limit(schedule: &Schedule, costs: &Costs) -> Result<(), Fault> {
    let Some(limits) = &costs.limit else { return Ok(()) };
    for (device, &limit) in limits.iter().enumerate() {
        let peak = memory::peak(schedule, costs, device);
        // Sums of fractions of a unit (1/3 + 1/3 + 1/3) must not fail a limit of one by their rounding.
        if peak.value > limit * (1.0 + 1e-9) {
            let action = schedule.orders[device][peak.position].actions().next();
            let action = action.unwrap_or(Action::new(Pass::F, 0, 0));
            return Err(Fault::Memory { device, position: peak.position, action, found: peak.value, limit });
        }
    }
    Ok(())
}

/// Where every output is made: F, B and W of each stage and micro-batch.
struct Positions {
    microbatches: usize,
    stages: usize,
    position: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Positions {
    fn new(schedule: &Schedule) -> Result<Self, Fault> {
        let placement = &schedule.placement;
        let (stages, m) = (placement.stages(), schedule.microbatches);
        for (what, found, expected) in [
            ("lists of steps", schedule.orders.len(), placement.devices()),
            ("sets of stage flags", schedule.flags.len(), stages),
        ] {
            if found != expected {
                return Err(Fault::Shape { what, found, expected });
            }
        }
        let mut positions = Self { microbatches: m, stages, position: vec![NOWHERE; 3 * stages * m] };
        for (device, order) in schedule.orders.iter().enumerate() {
            for (position, step) in order.iter().enumerate() {
                if let Step::Pair { forward, backward } = step
                    && (forward.pass != Pass::F || !backward.pass.is_backward())
                {
                    return Err(Fault::Pair { device, position, step: step.to_string() });
                }
                for action in step.actions() {
                    positions.enter(schedule, device, position, action)?;
                }
            }
        }
        Ok(positions)
    }

    fn enter(&mut self, schedule: &Schedule, device: usize, position: usize, action: Action) -> Result<(), Fault> {
        let placement = &schedule.placement;
        let stage = action.stage as usize;
        if stage >= self.stages {
            return Err(Fault::Stage { device, position, action, last: self.stages - 1 });
        }
        let expected = placement.device(stage);
        if expected != device {
            return Err(Fault::Device { device, position, action, expected });
        }
        let range = placement.microbatches(stage, self.microbatches);
        if !range.contains(&(action.microbatch as usize)) {
            let (first, last) = (range.start, range.end.saturating_sub(1));
            return Err(Fault::Microbatch { device, position, action, first, last });
        }
        if schedule.flags[stage].forward_only && action.pass != Pass::F {
            return Err(Fault::ForwardOnly { device, position, action });
        }
        for &made in outputs(action.pass) {
            let needs = match made {
                Pass::F => None,
                Pass::W if action.pass == Pass::W => Some(Pass::B),
                _ => Some(Pass::F),
            };
            // What is not there yet comes later or is missing; the latter is found when all is entered.
            if let Some(pass) = needs
                && self.get(pass, action) == NOWHERE
                && let Some(later) = find(&schedule.orders[device], Action { pass, ..action })
            {
                return Err(Fault::Early { device, position, action, needs: Action { pass, ..action }, later });
            }
            let index = self.index(made, action);
            if self.position[index] != NOWHERE {
                let earlier = self.position[index] as usize;
                return Err(Fault::Twice { device, position, action, earlier });
            }
            self.position[index] = position as u32;
        }
        Ok(())
    }

    fn index(&self, pass: Pass, action: Action) -> usize {
        let kind = match pass {
            Pass::F => 0,
            Pass::B | Pass::BW => 1,
            Pass::W => 2,
        };
        (kind * self.stages + action.stage as usize) * self.microbatches + action.microbatch as usize
    }

    fn get(&self, pass: Pass, action: Action) -> u32 {
        self.position[self.index(pass, action)]
    }

    fn check_complete(&self, schedule: &Schedule) -> Result<(), Fault> {
        for stage in 0..self.stages {
            let passes: &[Pass] =
                if schedule.flags[stage].forward_only { &[Pass::F] } else { &[Pass::F, Pass::B, Pass::W] };
            for microbatch in schedule.placement.microbatches(stage, self.microbatches) {
                for &pass in passes {
                    let action = Action::new(pass, stage, microbatch);
                    if self.get(pass, action) == NOWHERE {
                        return Err(Fault::Missing { device: schedule.placement.device(stage), action });
                    }
                }
            }
        }
        Ok(())
    }
}

fn outputs(pass: Pass) -> &'static [Pass] {
    match pass {
        Pass::F => &[Pass::F],
        Pass::B => &[Pass::B],
        Pass::W => &[Pass::W],
        Pass::BW => &[Pass::B, Pass::W],
    }
}

fn find(order: &[Step], wanted: Action) -> Option<usize> {
    let makes = |a: Action| {
        a.stage == wanted.stage && a.microbatch == wanted.microbatch && outputs(a.pass).contains(&wanted.pass)
    };
    order.iter().position(|step| step.actions().any(makes))
}

/// What an action waits for from another place in the pipeline: the stage before for F, the stage after for backwards
/// (or the last stage's own forward).
pub(super) fn input(schedule: &Schedule, action: Action) -> Option<Action> {
    let stage = action.stage as usize;
    match action.pass {
        Pass::F => schedule.placement.previous(stage).map(|x| Action { stage: x as u32, ..action }),
        Pass::B | Pass::BW => Some(match schedule.placement.next(stage) {
            Some(x) => Action { pass: Pass::B, stage: x as u32, ..action },
            None => Action { pass: Pass::F, ..action },
        }),
        Pass::W => None,
    }
}

/// Runs the devices one after the other, each as far as it goes; if all get stuck, follows the waiting to its cycle.
fn acyclic(schedule: &Schedule, positions: &Positions) -> Result<(), Fault> {
    let placement = &schedule.placement;
    let order: Vec<Vec<(Action, usize)>> = schedule
        .orders
        .iter()
        .map(|steps| steps.iter().enumerate().flat_map(|(i, step)| step.actions().map(move |a| (a, i))).collect())
        .collect();
    let mut next = vec![0usize; order.len()];
    let mut done = vec![false; positions.position.len()];
    loop {
        let mut moved = false;
        for (device, order) in order.iter().enumerate() {
            while let Some(&(action, _)) = order.get(next[device]) {
                if input(schedule, action).is_some_and(|needed| !done[positions.index(needed.pass, needed)]) {
                    break;
                }
                for &made in outputs(action.pass) {
                    done[positions.index(made, action)] = true;
                }
                next[device] += 1;
                moved = true;
            }
        }
        let Some(stuck) = (0..order.len()).find(|d| next[*d] < order[*d].len()) else { return Ok(()) };
        if !moved {
            let mut waits: Vec<Wait> = Vec::new();
            let mut device = stuck;
            loop {
                let (action, _) = order[device][next[device]];
                let needs = input(schedule, action).unwrap_or(action);
                let on = placement.device(needs.stage as usize);
                if let Some(start) = waits.iter().position(|w| w.device == device) {
                    return Err(Fault::Deadlock { cycle: waits.split_off(start) });
                }
                waits.push(Wait { device, action, needs, on });
                device = on;
            }
        }
    }
}
