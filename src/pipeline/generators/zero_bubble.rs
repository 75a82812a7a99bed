//! The heuristic of the zero-bubble paper for one chunk per device under a memory limit (Qi 2024, section 3.1; the
//! authors' published scheduler at commit 39f2c186, read 2026-11).
//!
//! Micro-batch by micro-batch: before the first backward as many forwards as fit into time and memory, then on every
//! device one forward and one backward; weight passes where memory demands them, where they fit into a wait, and where
//! the device can afford no more idle time than the worst. Three choices of the heuristic are tried both ways; the
//! shortest span wins.

use super::greedy::{Device, PassCosts, SLACK, largest_bubble};
use crate::pipeline::PipelineError;
use crate::pipeline::action::{Action, Pass};
use crate::pipeline::placement::Placement;
use crate::pipeline::schedule::Schedule;

/// The three choices.
#[derive(Debug, Clone, Copy)]
struct Choices {
    /// A forward before the first backward may end after the backward could start.
    late_warm_up: bool,
    /// Hold a forward back when the next device is about to send a backward.
    backward_first: bool,
    /// Fill short waits with weight passes that delay the next pass.
    fill_always: bool,
}

/// Schedules `m` micro-batches on one device per entry of `stages`, `hop` from device to device, within `limit`.
///
/// # Errors
/// [`PipelineError::Memory`] when the heuristic finds nothing within the limit, [`PipelineError::Unsupported`] when
/// there is nothing to schedule.
pub fn zero_bubble(stages: &[PassCosts], m: usize, hop: f64, limit: f64) -> Result<Schedule, PipelineError> {
    if stages.is_empty() || m == 0 {
        let why = "needs a device and a micro-batch".to_owned();
        return Err(PipelineError::Unsupported { schedule: "zero_bubble".to_owned(), why });
    }
    let mut best: Option<State> = None;
    for choice in 0..8 {
        let choices =
            Choices { late_warm_up: choice & 4 == 0, backward_first: choice & 2 == 0, fill_always: choice & 1 == 0 };
        let Some(state) = State::new(stages, m, hop, limit).run(choices) else { continue };
        if best.as_ref().is_none_or(|best| state.span() < best.span()) {
            best = Some(state);
        }
    }
    let Some(best) = best else {
        let why = format!("no weight pass is due where memory reaches {limit}");
        return Err(PipelineError::Memory { schedule: "zero_bubble".to_owned(), why });
    };
    let orders = best.devices.into_iter().map(|device| device.steps).collect();
    Ok(Schedule::new("zero_bubble", Placement::looped(stages.len(), 1), m, orders))
}

struct State<'a> {
    stages: &'a [PassCosts],
    m: usize,
    hop: f64,
    limit: f64,
    devices: Vec<Device>,
    /// Passes done, by device: F, B, W.
    done: Vec<[usize; 3]>,
    /// Ends of F and B, by device and micro-batch.
    ends: [Vec<Vec<f64>>; 2],
}

impl<'a> State<'a> {
    fn new(stages: &'a [PassCosts], m: usize, hop: f64, limit: f64) -> Self {
        let p = stages.len();
        let ends = vec![Vec::with_capacity(m); p];
        Self {
            stages,
            m,
            hop,
            limit,
            devices: vec![Device::default(); p],
            done: vec![[0; 3]; p],
            ends: [ends.clone(), ends],
        }
    }

    /// Largest time between first start and last end of a device; the first forwards never wait for anything else.
    fn span(&self) -> f64 {
        let of = |d: usize| self.devices[d].clock - self.ends[0][d][0] + self.stages[d].time[0];
        (0..self.stages.len()).map(of).fold(0.0, f64::max)
    }

    fn time(&self, d: usize, kind: usize) -> f64 {
        self.stages[d].time[kind]
    }

    /// When the input of the next F or B of a device arrives; zero where there is none.
    fn arrival(&self, d: usize, kind: usize) -> f64 {
        let i = self.done[d][kind];
        match kind {
            0 if d > 0 => self.ends[0][d - 1][i] + self.hop,
            1 if d + 1 < self.stages.len() => self.ends[1][d + 1][i] + self.hop,
            _ => 0.0,
        }
    }

    fn put(&mut self, d: usize, kind: usize) {
        let i = self.done[d][kind];
        let ready = if kind < 2 { self.arrival(d, kind) } else { 0.0 };
        let pass = [Pass::F, Pass::B, Pass::W][kind];
        let end = self.devices[d].run(Action::new(pass, d, i), &self.stages[d], ready);
        if kind < 2 {
            self.ends[kind][d].push(end);
        }
        self.done[d][kind] += 1;
    }

    fn has_weight(&self, d: usize) -> bool {
        self.done[d][2] < self.done[d][1]
    }

    fn run(mut self, choices: Choices) -> Option<Self> {
        self.warm_up(choices);
        let p = self.stages.len();
        for _ in 1..self.m {
            for d in self.forwards(choices) {
                self.make_room(d, 0)?;
                if d > 0 {
                    self.fill_wait(d, 0, choices);
                }
                self.put(d, 0);
            }
            for d in (0..p).rev() {
                self.make_room(d, 1)?;
                if d + 1 < p {
                    self.fill_wait(d, 1, choices);
                }
                if d == 0 && self.done[d][0] == self.m {
                    while self.has_weight(d) {
                        self.put(d, 2);
                    }
                }
                self.put(d, 1);
            }
        }
        for d in 0..p {
            while self.has_weight(d) {
                self.put(d, 2);
            }
        }
        Some(self)
    }

    /// First forwards, those that fit before the first backward comes back, first backwards.
    fn warm_up(&mut self, choices: Choices) {
        let p = self.stages.len();
        (0..p).for_each(|d| self.put(d, 0));
        let mut extra = vec![0usize; p];
        let mut backward_ends = self.devices[p - 1].clock + self.time(p - 1, 1);
        for d in (0..p - 1).rev() {
            let arrives = backward_ends + self.hop;
            let (mut memory, mut clock) = (self.devices[d].memory, self.devices[d].clock);
            let (need, time) = (self.stages[d].memory[0], self.time(d, 0));
            while self.done[d][0] + extra[d] < self.m && memory + need <= self.limit + SLACK {
                let too_late = if choices.late_warm_up { clock + time > arrives } else { clock >= arrives };
                if too_late {
                    break;
                }
                memory += need;
                clock += time;
                extra[d] += 1;
            }
            backward_ends = clock.max(arrives) + self.time(d, 1);
        }
        // Every device runs ahead of the next.
        for d in 1..p {
            while extra[d] > 0 && extra[d] >= extra[d - 1] && self.done[d][0] + extra[d] < self.m {
                extra[d] -= 1;
            }
        }
        for (d, extra) in extra.into_iter().enumerate() {
            (0..extra).for_each(|_| self.put(d, 0));
        }
        (0..p).rev().for_each(|d| self.put(d, 1));
    }

    /// Devices that run a forward in this round: those that want to and whose successors all do.
    fn forwards(&self, choices: Choices) -> Vec<usize> {
        let p = self.stages.len();
        let mut wants: Vec<bool> = (0..p).map(|d| self.wants_forward(d, choices)).collect();
        for d in (0..p - 1).rev() {
            wants[d] &= wants[d + 1];
        }
        (0..p).filter(|d| wants[*d]).collect()
    }

    fn wants_forward(&self, d: usize, choices: Choices) -> bool {
        let forwards = self.done[d][0];
        if forwards >= self.m {
            return false;
        }
        let is_ahead = d + 1 < self.stages.len() && forwards >= self.done[d + 1][0] + 2;
        if !choices.backward_first || !is_ahead {
            return true;
        }
        let next_backward = self.devices[d + 1].clock + self.time(d + 1, 0) + self.time(d + 1, 1) + self.hop;
        let device = &self.devices[d];
        if device.clock >= next_backward {
            return false;
        }
        let mut weights = 0;
        let mut memory = device.memory + self.stages[d].memory[0];
        while memory > self.limit + SLACK && self.done[d][2] + weights < self.done[d][1] {
            memory += self.stages[d].memory[2];
            weights += 1;
        }
        let ends = device.clock + self.time(d, 0) + weights as f64 * self.time(d, 2);
        ends <= next_backward || next_backward - device.clock > largest_bubble(&self.devices) - device.bubble
    }

    /// Weight passes until the next F or B fits into memory; `None` when none is due.
    fn make_room(&mut self, d: usize, kind: usize) -> Option<()> {
        while self.devices[d].memory + self.stages[d].memory[kind] > self.limit + SLACK {
            if !self.has_weight(d) {
                return None;
            }
            self.put(d, 2);
        }
        Some(())
    }

    /// Weight passes while the device waits for the input of its next F or B.
    fn fill_wait(&mut self, d: usize, kind: usize, choices: Choices) {
        let arrives = self.arrival(d, kind);
        while self.has_weight(d) && self.devices[d].clock + self.time(d, 2) <= arrives {
            self.put(d, 2);
        }
        let device = &self.devices[d];
        if self.has_weight(d) && device.clock < arrives {
            let affordable = arrives - device.clock <= largest_bubble(&self.devices) - device.bubble;
            if !affordable || choices.fill_always {
                self.put(d, 2);
            }
        }
    }
}
