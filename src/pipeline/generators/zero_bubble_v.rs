//! The heuristic of the zero-bubble paper for two chunks in a V under a memory limit (Qi 2024, section 6; the authors'
//! published scheduler at commit 39f2c186, read 2026-11).
//!
//! Rounds of one backward and one forward per device, first chunk or second as their inputs allow; weight passes where
//! memory demands them, where they fit into a wait, and where the device can afford no more idle time than the worst.
//! A run that improves on the worst idle time of the run before is repeated with that run's idle times as allowance.

use super::greedy::{Device, PassCosts, SLACK, largest_bubble};
use crate::pipeline::PipelineError;
use crate::pipeline::action::{Action, Pass};
use crate::pipeline::placement::Placement;
use crate::pipeline::schedule::Schedule;
use std::collections::VecDeque;

/// Whether waits before the second chunk's forwards and backwards are filled beyond what fits.
#[derive(Debug, Clone, Copy)]
struct Choices {
    fill_forward: bool,
    fill_backward: bool,
}

/// Schedules `m` micro-batches on `p` devices of two chunks each, all alike, `hop` from device to device, within
/// `limit`. Costs are those of one chunk.
///
/// # Errors
/// [`PipelineError::Memory`] when the heuristic finds nothing within the limit, [`PipelineError::Unsupported`] when
/// there is nothing to schedule.
pub fn zero_bubble_v(p: usize, m: usize, chunk: PassCosts, hop: f64, limit: f64) -> Result<Schedule, PipelineError> {
    if p == 0 || m == 0 {
        let why = "needs a device and a micro-batch".to_owned();
        return Err(PipelineError::Unsupported { schedule: "zero_bubble_v".to_owned(), why });
    }
    let mut best: Option<(f64, Vec<Device>)> = None;
    for (fill_backward, fill_forward) in [(true, true), (true, false), (false, true), (false, false)] {
        let choices = Choices { fill_forward, fill_backward };
        let Some(found) = repeated(&|| State::new(p, m, chunk, hop, limit), choices) else { continue };
        if best.as_ref().is_none_or(|(bubble, _)| found.0 < *bubble) {
            best = Some(found);
        }
    }
    let Some((_, devices)) = best else {
        let why = format!("no weight pass is due where memory reaches {limit}");
        return Err(PipelineError::Memory { schedule: "zero_bubble_v".to_owned(), why });
    };
    let orders = devices.into_iter().map(|device| device.steps).collect();
    Ok(Schedule::new("zero_bubble_v", Placement::vee(p), m, orders))
}

/// Runs until the worst idle time no longer shrinks.
fn repeated<'a>(fresh: &dyn Fn() -> State<'a>, choices: Choices) -> Option<(f64, Vec<Device>)> {
    let mut best = fresh().run(choices, None)?;
    let mut allowance = best.1.iter().map(|device| device.bubble).collect::<Vec<_>>();
    // Like the original, a failing repetition fails the whole.
    loop {
        let before = allowance.iter().copied().fold(0.0, f64::max);
        let next = fresh().run(choices, Some(&allowance))?;
        allowance = next.1.iter().map(|device| device.bubble).collect();
        let shrinks = next.0 < before;
        if next.0 < best.0 {
            best = next;
        }
        if !shrinks {
            return Some(best);
        }
    }
}

/// Rows of passes in the order in which a micro-batch takes them: both forwards, then both backwards.
const FIRST_F: usize = 0;
const SECOND_F: usize = 1;
const FIRST_B: usize = 2;
const SECOND_B: usize = 3;

struct State<'a> {
    p: usize,
    m: usize,
    costs: PassCosts,
    hop: f64,
    limit: f64,
    devices: Vec<Device>,
    /// Ends of each row by device and micro-batch.
    ends: [Vec<Vec<f64>>; 4],
    /// Weight passes that are due: chunk and micro-batch.
    due: Vec<VecDeque<(usize, usize)>>,
    allowance: Option<&'a [f64]>,
}

impl<'a> State<'a> {
    fn new(p: usize, m: usize, costs: PassCosts, hop: f64, limit: f64) -> Self {
        let row = || vec![Vec::with_capacity(m); p];
        let ends = [row(), row(), row(), row()];
        let due = vec![VecDeque::new(); p];
        Self { p, m, costs, hop, limit, devices: vec![Device::default(); p], ends, due, allowance: None }
    }

    fn count(&self, d: usize, row: usize) -> usize {
        self.ends[row][d].len()
    }

    /// The device whose pass of the same row this one waits for: rows 0 and 2 go up the devices, 1 and 3 down.
    fn sender(&self, d: usize, row: usize) -> Option<usize> {
        match row {
            FIRST_F | FIRST_B => d.checked_sub(1),
            _ => (d + 1 < self.p).then_some(d + 1),
        }
    }

    /// When the next pass of a row could get its input; `None` when nothing has to be sent.
    fn arrival(&self, d: usize, row: usize) -> Option<f64> {
        let sender = self.sender(d, row)?;
        Some(self.ends[row][sender].get(self.count(d, row)).map_or(f64::INFINITY, |end| end + self.hop))
    }

    /// Runs the next pass of a row; `None` when its input is not made yet or memory is full.
    fn put(&mut self, d: usize, row: usize) -> Option<()> {
        let i = self.count(d, row);
        let kind = row / 2;
        let fits = self.devices[d].memory + self.costs.memory[kind] <= self.limit + SLACK;
        let is_made = row == FIRST_F || self.count(d, row - 1) > i;
        let ready = self.arrival(d, row).unwrap_or(0.0);
        if i >= self.m || !fits || !is_made || ready == f64::INFINITY {
            return None;
        }
        // Rows 0 and 3 are the first chunk (stage d), rows 1 and 2 the second.
        let stage = if row == FIRST_F || row == SECOND_B { d } else { 2 * self.p - 1 - d };
        let pass = if kind == 0 { Pass::F } else { Pass::B };
        let end = self.devices[d].run(Action::new(pass, stage, i), &self.costs, ready);
        self.ends[row][d].push(end);
        if kind == 1 {
            self.due[d].push_back((stage, i));
        }
        Some(())
    }

    fn put_weight(&mut self, d: usize) -> Option<()> {
        let (stage, i) = self.due[d].pop_front()?;
        self.devices[d].run(Action::new(Pass::W, stage, i), &self.costs, 0.0);
        Some(())
    }

    fn run(mut self, choices: Choices, allowance: Option<&'a [f64]>) -> Option<(f64, Vec<Device>)> {
        self.allowance = allowance;
        self.warm_up()?;
        for _ in 0..2 * self.m {
            for d in 0..self.p {
                self.make_room(d, 1)?;
            }
            for (d, row) in self.backwards() {
                self.fill_wait(d, row, row == SECOND_B || choices.fill_backward)?;
                self.put(d, row)?;
            }
            for d in 0..self.p {
                let Some(row) = self.forward(d) else { continue };
                self.make_room(d, 0)?;
                self.fill_wait(d, row, choices.fill_forward)?;
                self.put(d, row)?;
            }
        }
        for d in 0..self.p {
            while !self.due[d].is_empty() {
                self.put_weight(d)?;
            }
        }
        Some((largest_bubble(&self.devices), self.devices))
    }

    fn warm_up(&mut self) -> Option<()> {
        let (time, need) = (self.costs.time[0], self.costs.memory[0]);
        for d in 0..self.p {
            self.put(d, FIRST_F)?;
        }
        for d in (0..self.p).rev() {
            if d + 1 < self.p {
                let arrives = self.ends[SECOND_F][d + 1][0] + self.hop;
                while self.devices[d].memory + need * (2 + 2 * d) as f64 <= self.limit + SLACK
                    && self.devices[d].clock + time <= arrives
                    && self.count(d, FIRST_F) < self.m
                {
                    for before in 0..=d {
                        self.put(before, FIRST_F)?;
                    }
                }
            }
            self.put(d, SECOND_F)?;
        }
        let mut row = FIRST_F;
        for d in 1..self.p {
            let mut idle_turns = 0;
            loop {
                let (own, before) = (self.forwards(d), self.forwards(d - 1));
                let behind = self.count(d, SECOND_F) <= self.count(d - 1, SECOND_F);
                if !(own < before || behind && self.count(d - 1, SECOND_F) < self.m) {
                    break;
                }
                let turn = self.forwards(d);
                for later in (d..self.p).rev() {
                    if self.count(later, row) < self.m {
                        self.put(later, row)?;
                    }
                }
                row = 1 - row;
                idle_turns = if self.forwards(d) == turn { idle_turns + 1 } else { 0 };
                if idle_turns == 2 {
                    return None;
                }
            }
        }
        Some(())
    }

    fn forwards(&self, d: usize) -> usize {
        self.count(d, FIRST_F) + self.count(d, SECOND_F)
    }

    /// One backward per device: those that go down first, from the last device, then those that go up.
    fn backwards(&self) -> Vec<(usize, usize)> {
        let goes_down = |d: &usize| {
            let (up, down) = (self.count(*d, FIRST_B), self.count(*d, SECOND_B));
            if down >= up {
                return false;
            }
            *d + 1 == self.p || self.count(d + 1, SECOND_B) > down || up >= self.m
        };
        let (down, up): (Vec<usize>, Vec<usize>) = (0..self.p).partition(goes_down);
        down.into_iter().rev().map(|d| (d, SECOND_B)).chain(up.into_iter().map(|d| (d, FIRST_B))).collect()
    }

    /// The forward that a device runs in this round, if any.
    fn forward(&self, d: usize) -> Option<usize> {
        let (first, second) = (self.count(d, FIRST_F), self.count(d, SECOND_F));
        if second >= self.m {
            None
        } else if second >= first {
            Some(FIRST_F)
        } else if d + 1 == self.p || self.count(d + 1, SECOND_F) > second {
            Some(SECOND_F)
        } else if first < self.m && (d == 0 || self.count(d - 1, FIRST_F) > first) {
            Some(FIRST_F)
        } else {
            None
        }
    }

    fn make_room(&mut self, d: usize, kind: usize) -> Option<()> {
        while self.devices[d].memory + self.costs.memory[kind] > self.limit + SLACK {
            self.put_weight(d)?;
        }
        Some(())
    }

    /// Weight passes while the device waits for its next pass; one more if it can afford no further idle time.
    fn fill_wait(&mut self, d: usize, row: usize, fill: bool) -> Option<()> {
        let Some(arrives) = self.arrival(d, row) else { return Some(()) };
        while !self.due[d].is_empty() && arrives >= self.devices[d].clock + self.costs.time[2] {
            self.put_weight(d)?;
        }
        let device = &self.devices[d];
        if fill && !self.due[d].is_empty() && arrives - device.clock > self.largest_allowed(d) - device.bubble {
            self.put_weight(d)?;
        }
        Some(())
    }

    fn largest_allowed(&self, d: usize) -> f64 {
        let worst = largest_bubble(&self.devices);
        let largest = |allowance: &[f64]| allowance.iter().copied().fold(0.0, f64::max) - allowance[d];
        self.allowance.map_or(worst, |allowance| worst.max(largest(allowance)))
    }
}
