//! Exact event simulation of any schedule.
//!
//! A device runs its order, each operation as early as possible: when the device is free and the messages it needs have
//! arrived. Messages between two devices go first in, first out in each direction. With eager sends a message leaves
//! when it is made; with rendezvous it leaves once the receiver, in its own order, waits for it; with blocking sends the
//! sender waits as well. What never starts is reported as a cycle of waiting.

use super::PipelineError;
use super::action::{Action, Step};
use super::compile::{NONE, Program};
use super::costs::{Costs, Pairing, Sends};
use super::memory::{self, Peak};
use super::schedule::Schedule;
use super::validate::{Fault, Wait, input, validate, within_limit};
use std::collections::VecDeque;

/// A step with its times. The parts of a pair that run one after the other are two of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// What ran.
    pub step: Step,
    /// When it started.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// A message between two devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message {
    /// The action that made it.
    pub from: Action,
    /// The action that waits for it.
    pub to: Action,
    /// Sending device.
    pub sender: usize,
    /// Receiving device.
    pub receiver: usize,
    /// When it left.
    pub departs: f64,
    /// When it arrived.
    pub arrives: f64,
}

/// What a simulation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// End of the last step over all devices; the first step starts at zero.
    pub makespan: f64,
    /// Largest time between the first start and the last end of one device: the step time when the optimizer does not
    /// wait for all devices (the cost of the zero-bubble paper).
    pub span: f64,
    /// By device, in order.
    pub timeline: Vec<Vec<Timed>>,
    /// Sum of its steps, by device.
    pub busy: Vec<f64>,
    /// By device, residents included.
    pub peaks: Vec<Peak>,
    /// Messages between devices, by receiver in the order of need.
    pub messages: Vec<Message>,
}

impl Run {
    /// Idle share of all devices' time until the makespan.
    pub fn bubble(&self) -> f64 {
        let total = self.makespan * self.busy.len() as f64;
        if total > 0.0 { 1.0 - self.busy.iter().sum::<f64>() / total } else { 0.0 }
    }

    /// Largest peak of all devices.
    pub fn peak_memory(&self) -> f64 {
        self.peaks.iter().map(|p| p.value).fold(0.0, f64::max)
    }
}

/// Validates and simulates.
///
/// # Errors
/// [`PipelineError::Invalid`] for a schedule that is not valid, deadlocks or exceeds the limit of `costs`;
/// [`PipelineError::Costs`] for costs that do not fit it.
pub fn simulate(schedule: &Schedule, costs: &Costs) -> Result<Run, PipelineError> {
    validate(schedule)?;
    costs.check(&schedule.placement)?;
    within_limit(schedule, costs)?;
    let program = Program::new(schedule, costs);
    let mut engine = Engine::default();
    if let Err(stuck) = engine.run(&program, costs.sends) {
        return Err(Fault::Deadlock { cycle: cycle(schedule, costs, &program, &engine, stuck) }.into());
    }
    Ok(report(schedule, costs, &program, &engine))
}

/// Buffers of a simulation, kept between runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Engine {
    /// Start and end of every operation.
    pub start: Vec<f64>,
    pub end: Vec<f64>,
    /// Next operation of each device.
    next: Vec<usize>,
    /// When a message was made; then when it left and arrived.
    made: Vec<f64>,
    departs: Vec<f64>,
    arrives: Vec<f64>,
    link_free: Vec<f64>,
    queues: Vec<VecDeque<u32>>,
    /// When a device is free again: the end of its last operation or, with blocking sends, of its last delivery.
    free: Vec<f64>,
    /// The message that a blocked sender waits for.
    handing_over: Vec<u32>,
}

impl Engine {
    /// Runs all operations.
    ///
    /// # Errors
    /// A device that never finishes.
    pub fn run(&mut self, program: &Program, sends: Sends) -> Result<(), usize> {
        let devices = program.starts.len() - 1;
        for buffer in [&mut self.start, &mut self.end] {
            buffer.clear();
            buffer.resize(program.ops.len(), 0.0);
        }
        for buffer in [&mut self.made, &mut self.departs, &mut self.arrives] {
            buffer.clear();
            buffer.resize(program.messages, f64::INFINITY);
        }
        self.next.clear();
        self.next.extend(&program.starts[..devices]);
        if sends == Sends::Eager && !program.queues { self.free_links(program) } else { self.queued(program, sends) }
    }

    /// Eager sends, and nothing but latency: no message waits for another.
    fn free_links(&mut self, program: &Program) -> Result<(), usize> {
        let devices = program.starts.len() - 1;
        loop {
            let (mut moved, mut stuck) = (false, None);
            for device in 0..devices {
                let (first, last) = (program.starts[device], program.starts[device + 1]);
                let mut next = self.next[device];
                while next < last {
                    let op = &program.ops[next];
                    let mut start = if next > first { self.end[next - 1] } else { 0.0 };
                    for need in op.needs {
                        if need != NONE {
                            start = later(start, self.arrives[need as usize]);
                        }
                    }
                    if start == f64::INFINITY {
                        break;
                    }
                    start = later(start, self.after_copies(program, next, first));
                    let end = start + op.duration;
                    self.start[next] = start;
                    self.end[next] = end;
                    for give in op.gives {
                        if give != NONE {
                            self.departs[give as usize] = end;
                            self.arrives[give as usize] = end + program.way(give).latency;
                        }
                    }
                    next += 1;
                }
                moved |= next != self.next[device];
                self.next[device] = next;
                if next < last && stuck.is_none() {
                    stuck = Some(device);
                }
            }
            match stuck {
                None => return Ok(()),
                Some(device) if !moved => return Err(device),
                Some(_) => {}
            }
        }
    }

    /// Links with queues, and sends that wait for their receiver.
    fn queued(&mut self, program: &Program, sends: Sends) -> Result<(), usize> {
        let devices = program.starts.len() - 1;
        self.link_free.clear();
        self.link_free.resize(program.links, 0.0);
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.queues.resize_with(program.links, VecDeque::new);
        self.handing_over.clear();
        self.handing_over.resize(devices, NONE);
        self.free.clear();
        self.free.resize(devices, 0.0);
        loop {
            let (mut moved, mut stuck) = (false, None);
            for device in 0..devices {
                let (first, last) = (program.starts[device], program.starts[device + 1]);
                loop {
                    let next = self.next[device];
                    let waiting = self.handing_over[device];
                    if waiting != NONE {
                        if self.arrives[waiting as usize] == f64::INFINITY {
                            break;
                        }
                        let way = program.way(waiting);
                        self.free[device] = later(self.free[device], self.departs[waiting as usize] + way.occupancy);
                        self.handing_over[device] = NONE;
                        moved = true;
                    }
                    if next >= last {
                        break;
                    }
                    let op = &program.ops[next];
                    let mut start = self.free[device];
                    for need in op.needs.into_iter().filter(|need| *need != NONE) {
                        moved |= self.receive(program, need, self.free[device], sends);
                        start = later(start, self.arrives[need as usize]);
                    }
                    if start == f64::INFINITY {
                        break;
                    }
                    start = later(start, self.after_copies(program, next, first));
                    self.start[next] = start;
                    self.end[next] = start + op.duration;
                    self.free[device] = self.end[next];
                    for give in op.gives.into_iter().filter(|give| *give != NONE) {
                        self.send(program, give, device, self.free[device], sends);
                    }
                    self.next[device] += 1;
                    moved = true;
                }
                if (self.next[device] < last || self.handing_over[device] != NONE) && stuck.is_none() {
                    stuck = Some(device);
                }
            }
            match stuck {
                None => return Ok(()),
                Some(device) if !moved => return Err(device),
                Some(_) => {}
            }
        }
    }

    fn send(&mut self, program: &Program, message: u32, device: usize, at: f64, sends: Sends) {
        let (way, i) = (program.way(message), message as usize);
        self.made[i] = at;
        if way.link == NONE {
            (self.departs[i], self.arrives[i]) = (at, at);
        } else if sends == Sends::Eager {
            self.deliver(program, message, at);
        } else {
            self.queues[way.link as usize].push_back(message);
            if sends == Sends::Blocking {
                self.handing_over[device] = message;
            }
        }
    }

    /// The receiver, free since `ready`, waits for `message`: it leaves if it is the first of its queue.
    fn receive(&mut self, program: &Program, message: u32, ready: f64, sends: Sends) -> bool {
        let link = program.way(message).link;
        if sends == Sends::Eager || link == NONE || self.queues[link as usize].front() != Some(&message) {
            return false;
        }
        self.queues[link as usize].pop_front();
        self.deliver(program, message, ready);
        true
    }

    fn deliver(&mut self, program: &Program, message: u32, at: f64) {
        let (way, i) = (program.way(message), message as usize);
        let departs = later(later(at, self.made[i]), self.link_free[way.link as usize]);
        self.link_free[way.link as usize] = departs + way.occupancy;
        self.departs[i] = departs;
        self.arrives[i] = departs + way.occupancy + way.latency;
    }

    fn after_copies(&self, program: &Program, next: usize, first: usize) -> f64 {
        let op = &program.ops[next];
        let mut at = 0.0;
        if op.after_start > 0.0 && next > first {
            at = self.start[next - 1] + op.after_start;
        }
        if op.after_end > 0.0 && next > first + 1 {
            at = later(at, self.end[next - 2] + op.after_end);
        }
        at
    }
}

/// Maximum of two numbers neither of which is NaN; one instruction, unlike `f64::max`.
fn later(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The steps as the simulator runs them: pairs that run one after the other are taken apart.
fn steps(schedule: &Schedule, costs: &Costs, device: usize) -> Vec<Step> {
    let order = &schedule.orders[device];
    match costs.pairing {
        Pairing::Joint { .. } => order.clone(),
        Pairing::Sequential => order.iter().flat_map(|step| step.actions()).map(Step::One).collect(),
    }
}

fn report(schedule: &Schedule, costs: &Costs, program: &Program, engine: &Engine) -> Run {
    let devices = schedule.devices();
    let (mut makespan, mut span) = (0.0f64, 0.0f64);
    let (mut timeline, mut busy, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    for device in 0..devices {
        let range = program.starts[device]..program.starts[device + 1];
        let steps = steps(schedule, costs, device);
        let timed: Vec<Timed> = range
            .clone()
            .zip(steps)
            .map(|(i, step)| Timed { step, start: engine.start[i], end: engine.end[i] })
            .collect();
        if let (Some(first), Some(last)) = (timed.first(), timed.last()) {
            makespan = makespan.max(last.end);
            span = span.max(last.end - first.start);
        }
        busy.push(range.clone().map(|i| program.ops[i].duration).sum());
        for (i, timed) in range.zip(&timed) {
            for (to, need) in timed.step.actions().zip(program.ops[i].needs) {
                let Some(from) = input(schedule, to).filter(|_| need != NONE) else { continue };
                let way = program.way(need);
                if way.link != NONE {
                    let (sender, receiver) = (way.link as usize / devices, device);
                    let (departs, arrives) = (engine.departs[need as usize], engine.arrives[need as usize]);
                    messages.push(Message { from, to, sender, receiver, departs, arrives });
                }
            }
        }
        timeline.push(timed);
    }
    let peaks = (0..devices).map(|d| memory::peak(schedule, costs, d)).collect();
    Run { makespan, span, timeline, busy, peaks, messages }
}

/// Follows the waiting from a stuck device until it comes back.
fn cycle(schedule: &Schedule, costs: &Costs, program: &Program, engine: &Engine, stuck: usize) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    let mut device = stuck;
    while !waits.iter().any(|w| w.device == device) {
        let steps = steps(schedule, costs, device);
        let local = engine.next[device] - program.starts[device];
        let handing_over = engine.handing_over.get(device).copied().unwrap_or(NONE);
        let blocked = if handing_over != NONE { local.checked_sub(1) } else { Some(local) };
        let Some(step) = blocked.and_then(|i| steps.get(i)) else { break };
        let wait = if handing_over != NONE {
            waits_for_receiver(schedule, program, *step, handing_over)
        } else {
            step.actions().find_map(|action| waits_for_sender(schedule, program, engine, action))
        };
        let Some((action, needs)) = wait else { break };
        let on = schedule.placement.device(needs.stage as usize);
        waits.push(Wait { device, action, needs, on });
        device = on;
    }
    match waits.iter().position(|w| w.device == device) {
        Some(start) => waits.split_off(start),
        None => waits,
    }
}

/// A blocked sender waits for the action that takes its message.
fn waits_for_receiver(schedule: &Schedule, program: &Program, step: Step, message: u32) -> Option<(Action, Action)> {
    let taker = receiver_of(schedule, program, message);
    step.actions().find(|a| Some(*a) == input(schedule, taker) || a.pass.is_backward()).map(|a| (a, taker))
}

/// An action waits for its message to be made or, if it was, for the message ahead of it in the queue to be taken.
fn waits_for_sender(
    schedule: &Schedule,
    program: &Program,
    engine: &Engine,
    action: Action,
) -> Option<(Action, Action)> {
    let from = input(schedule, action)?;
    let (stages, m) = (schedule.placement.stages(), schedule.microbatches);
    let direction = usize::from(action.pass != super::Pass::F);
    let message = (direction * stages + action.stage as usize) * m + action.microbatch as usize;
    if engine.arrives[message] < f64::INFINITY {
        return None;
    }
    let link = program.way(message as u32).link;
    let ahead = (link != NONE && engine.made[message] < f64::INFINITY)
        .then(|| engine.queues.get(link as usize).and_then(|q| q.front()))
        .flatten();
    Some((action, ahead.map_or(from, |front| receiver_of(schedule, program, *front))))
}

fn receiver_of(schedule: &Schedule, program: &Program, message: u32) -> Action {
    let (stages, m) = (schedule.placement.stages(), program.microbatches);
    let (direction, stage) = (message as usize / m / stages, message as usize / m % stages);
    let pass = if direction == 0 { super::Pass::F } else { super::Pass::B };
    Action::new(pass, stage, message as usize % m)
}
