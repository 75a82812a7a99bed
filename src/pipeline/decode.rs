//! From a policy to a schedule: an event-driven list scheduler whose rules do not depend on the number of micro-batches.
//!
//! At every step the device that can act first runs, of the passes it could start, the one its policy ranks highest.
//! A policy has a few numbers per stage, so that search spaces are small and a policy found for few micro-batches
//! serves for many. Every policy gives a valid schedule within the memory limit: a forward may only take memory if
//! each later chunk of its device can still get one activation. Then the devices are never stuck: of the stages where a
//! forward waits for memory take the last; all activations at and behind it have been freed, and what the chunks before
//! it hold was admitted only with room for it. (Where a backward waits for memory, a weight pass is due.)
//!
//! FlexPipe (arXiv 2510.05112, abstract) also schedules by priorities of pass kinds and stages.

use super::PipelineError;
use super::bounds::Backward;
use super::costs::Costs;
use super::placement::Placement;
use super::rows::{KINDS, Rows};
use super::schedule::{Schedule, StageFlags};

/// Phases of a device: before its first backward, in between, after its last forward.
pub const PHASES: usize = 3;

/// Rules for one stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StagePolicy {
    /// Most activations of this stage at once, at least 1.
    pub cap: u32,
    /// Weight passes that may be due before they outrank everything, at least 1.
    pub due: u32,
    /// How long the device may wait for this stage's next pass rather than start one of lower rank, in time units.
    pub hold: f64,
    /// Rank of F, B and W by phase; higher goes first.
    pub rank: [[f32; KINDS]; PHASES],
}

impl Default for StagePolicy {
    /// Backwards first, then forwards, weight passes into gaps.
    fn default() -> Self {
        Self { cap: u32::MAX, due: u32::MAX, hold: 0.0, rank: [[1.0, 2.0, 0.0]; PHASES] }
    }
}

/// Rules for all stages.
pub type Policy = [StagePolicy];

/// Times of a decoded schedule. With latencies only (no queues), the simulation finds the same.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Decoded {
    /// End of the last pass.
    pub makespan: f64,
    /// Largest time between first start and last end of a device.
    pub span: f64,
}

/// A list scheduler for one question; keeps its buffers between policies.
#[derive(Debug, Clone)]
pub struct Decoder {
    placement: Placement,
    flags: Vec<StageFlags>,
    microbatches: usize,
    rows: Rows,
    /// By device: memory for activations, rounding included, and what of it forwards may fill.
    limit: Vec<f64>,
    memory: Vec<f64>,
    /// By stage.
    homes: Vec<Home>,
    state: State,
    /// Passes that a device could start now, and when.
    starts: Vec<(f64, u32)>,
}

/// What admitting a forward depends on.
#[derive(Debug, Clone)]
struct Home {
    /// Memory that F leaves held.
    held: f64,
    /// Stages of the device, and what must stay free for each of them: one activation of those that come later.
    chunks: Vec<u32>,
    reserve: Vec<f64>,
    /// The row that frees an activation for good.
    last_row: u32,
    trains: bool,
}

/// A partial schedule.
#[derive(Debug, Clone, Default)]
struct State {
    clock: Vec<f64>,
    first_start: Vec<f64>,
    /// Memory held by each stage, and by each device.
    held: Vec<f64>,
    held_by_device: Vec<f64>,
    /// By row: passes done, and inputs made.
    done: Vec<u32>,
    made: Vec<u32>,
    /// Arrival of inputs, by row and micro-batch.
    arrival: Vec<f64>,
    /// By device: forwards and backwards to come, to know the phase.
    forwards_left: Vec<u32>,
    backwards_done: Vec<u32>,
    /// By device: next pass and its start.
    next: Vec<(f64, u32)>,
    /// Rows in the order in which they ran, by device.
    ran: Vec<Vec<u32>>,
}

const NO_ROW: u32 = u32::MAX;

impl Decoder {
    /// Prepares for `m` micro-batches. Queues on links, rendezvous and overlapped pairs are not known here: a transfer
    /// takes its latency and its occupancy.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] for costs that do not fit; [`PipelineError::Memory`] when one activation of every chunk
    /// does not fit on some device; [`PipelineError::Unsupported`] for offloaded stages.
    pub fn new(
        placement: &Placement,
        flags: &[StageFlags],
        costs: &Costs,
        m: usize,
        backward: Backward,
    ) -> Result<Self, PipelineError> {
        costs.check(placement)?;
        if flags.iter().any(|flags| flags.offload) {
            let why = "offloaded stages are not supported".to_owned();
            return Err(PipelineError::Unsupported { schedule: "list scheduler".to_owned(), why });
        }
        let rows = Rows::new(placement, flags, costs, m, backward);
        let held_by: Vec<f64> =
            (0..placement.stages()).map(|x| rows.rows[KINDS * x].takes + rows.rows[KINDS * x].frees).collect();
        let (mut limits, mut memory) = (Vec::new(), Vec::new());
        for d in 0..placement.devices() {
            let limit = costs.limit.as_ref().map_or(f64::INFINITY, |limit| limit[d]);
            // Passes may need more while they run than they leave behind.
            let while_running = placement
                .chunks(d)
                .map(|x| {
                    let forward = &rows.rows[KINDS * x];
                    (forward.takes - held_by[x]).max(rows.rows[KINDS * x + 1].takes)
                })
                .fold(0.0, f64::max);
            let limit = (limit - costs.resident[d]) * (1.0 + 1e-9);
            let room = limit - while_running;
            let need: f64 = placement.chunks(d).map(|x| held_by[x]).sum();
            if need > room {
                let why = format!("one activation of every chunk of device {d} takes {need}, there is room for {room}");
                return Err(PipelineError::Memory { schedule: "list scheduler".to_owned(), why });
            }
            limits.push(limit);
            memory.push(room);
        }
        let home = |x: usize| {
            let chunks: Vec<u32> = placement.chunks(placement.device(x)).map(|y| y as u32).collect();
            let reserve = chunks.iter().map(|y| if *y as usize > x { held_by[*y as usize] } else { 0.0 }).collect();
            let last = if rows.rows[KINDS * x + 2].count > 0 { 2 } else { 1 };
            let trains = rows.rows[KINDS * x + 1].count > 0;
            Home { held: held_by[x], chunks, reserve, last_row: (KINDS * x + last) as u32, trains }
        };
        Ok(Self {
            placement: placement.clone(),
            flags: flags.to_vec(),
            microbatches: m,
            limit: limits,
            memory,
            homes: (0..placement.stages()).map(home).collect(),
            starts: Vec::new(),
            rows,
            state: State::default(),
        })
    }

    /// Schedules by a policy with one entry per stage.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] when there is not one entry per stage.
    pub fn decode(&mut self, policy: &Policy) -> Result<Decoded, PipelineError> {
        if policy.len() != self.placement.stages() {
            return Err(PipelineError::Costs {
                field: "policy".to_owned(),
                found: format!("{} entries", policy.len()),
                expected: format!("{} entries, one per stage", self.placement.stages()),
            });
        }
        self.reset();
        let mut left: u64 = self.rows.rows.iter().map(|row| u64::from(row.count)).sum();
        for d in 0..self.memory.len() {
            self.choose(d, policy);
        }
        while left > 0 {
            let (mut device, mut best) = (0, (f64::INFINITY, NO_ROW));
            for (d, next) in self.state.next.iter().enumerate() {
                if next.0 < best.0 {
                    (device, best) = (d, *next);
                }
            }
            debug_assert!(best.1 != NO_ROW, "reservations keep some device able to act");
            if best.1 == NO_ROW {
                let why = "no device can act".to_owned();
                return Err(PipelineError::Memory { schedule: "list scheduler".to_owned(), why });
            }
            let receiver = self.run(device, best);
            left -= 1;
            self.choose(device, policy);
            if let Some(receiver) = receiver.filter(|receiver| *receiver != device) {
                self.choose(receiver, policy);
            }
        }
        let state = &self.state;
        let spans = state.clock.iter().zip(&state.first_start).map(|(end, start)| end - start);
        Ok(Decoded { makespan: state.clock.iter().copied().fold(0.0, f64::max), span: spans.fold(0.0, f64::max) })
    }

    /// The schedule of the last policy.
    pub fn schedule(&self, name: &str) -> Schedule {
        let orders = self.rows.steps(&self.state.ran);
        let mut flags = self.flags.clone();
        flags.resize(self.placement.stages(), StageFlags::default());
        let (placement, microbatches) = (self.placement.clone(), self.microbatches);
        Schedule { name: name.to_owned(), placement, microbatches, orders, flags }
    }

    fn reset(&mut self) {
        let (devices, rows, m) = (self.memory.len(), self.rows.rows.len(), self.microbatches);
        let fill = |buffer: &mut Vec<f64>, length: usize, value: f64| {
            buffer.clear();
            buffer.resize(length, value);
        };
        let zero = |buffer: &mut Vec<u32>, length: usize| {
            buffer.clear();
            buffer.resize(length, 0);
        };
        let state = &mut self.state;
        fill(&mut state.clock, devices, 0.0);
        fill(&mut state.first_start, devices, -1.0);
        fill(&mut state.held, rows / KINDS, 0.0);
        fill(&mut state.held_by_device, devices, 0.0);
        state.arrival.resize(rows * m, 0.0);
        zero(&mut state.done, rows);
        zero(&mut state.made, rows);
        zero(&mut state.backwards_done, devices);
        zero(&mut state.forwards_left, devices);
        for (row, info) in self.rows.rows.iter().enumerate() {
            if row % KINDS == 0 {
                state.forwards_left[info.device as usize] += info.count;
            }
            if row % KINDS < 2 && !info.needs {
                state.made[row] = info.count;
                state.arrival[row * m..row * m + info.count as usize].fill(0.0);
            }
        }
        state.next.clear();
        state.next.resize(devices, (f64::INFINITY, NO_ROW));
        state.ran.iter_mut().for_each(Vec::clear);
        state.ran.resize(devices, Vec::new());
    }

    /// Runs the next pass of a row; the device that may now choose otherwise.
    fn run(&mut self, device: usize, (start, row): (f64, u32)) -> Option<usize> {
        let (state, row) = (&mut self.state, row as usize);
        let info = &self.rows.rows[row];
        let end = start + info.duration;
        state.clock[device] = end;
        if state.first_start[device] < 0.0 {
            state.first_start[device] = start;
        }
        state.ran[device].push(row as u32);
        state.done[row] += 1;
        state.held[row / KINDS] += info.takes + info.frees;
        state.held_by_device[device] += info.takes + info.frees;
        match row % KINDS {
            0 => state.forwards_left[device] -= 1,
            1 => {
                state.backwards_done[device] += 1;
                state.made[row + 1] += 1;
            }
            _ => {}
        }
        let (to, hop) = info.feeds?;
        let to = to as usize;
        state.arrival[to * self.microbatches + state.made[to] as usize] = end + hop;
        state.made[to] += 1;
        // Inputs queue up in order: behind another one this changes nothing for the receiver.
        (state.made[to] == state.done[to] + 1).then_some(self.rows.rows[to].device as usize)
    }

    /// Finds what a device runs next.
    fn choose(&mut self, device: usize, policy: &Policy) {
        let mut starts = std::mem::take(&mut self.starts);
        starts.clear();
        let state = &self.state;
        let phase = if state.forwards_left[device] == 0 { 2 } else { usize::from(state.backwards_done[device] > 0) };
        let clock = state.clock[device];
        let mut earliest = f64::INFINITY;
        for &row in &self.rows.of_device[device] {
            let (stage, kind) = (row as usize / KINDS, row as usize % KINDS);
            let (done, made) = (state.done[row as usize], state.made[row as usize]);
            if done >= made {
                continue;
            }
            let fits = match kind {
                0 => self.admits(stage, device, &policy[stage]),
                // A backward that recomputes takes memory; weight passes that are due make room for it.
                1 => state.held_by_device[device] + self.rows.rows[row as usize].takes <= self.limit[device],
                _ => true,
            };
            if !fits {
                continue;
            }
            let start = if kind == 2 { clock } else { self.arrived(row, done).max(clock) };
            earliest = if start < earliest { start } else { earliest };
            starts.push((start, row));
        }
        // Highest rank first; a later start is accepted within the hold of the stage that is waited for.
        let mut best = (f64::INFINITY, NO_ROW);
        let mut best_rank = f32::NEG_INFINITY;
        for &(start, row) in &starts {
            let (stage, kind) = (row as usize / KINDS, row as usize % KINDS);
            let rules = &policy[stage];
            if start > earliest + rules.hold {
                continue;
            }
            let is_due = kind == 2 && state.made[row as usize] - state.done[row as usize] >= rules.due.max(1);
            // `max` turns NaN into a number.
            let rank = if is_due { f32::MAX } else { rules.rank[phase][kind].max(f32::MIN) };
            if rank > best_rank || (rank == best_rank && start < best.0) {
                best_rank = rank;
                best = (start, row);
            }
        }
        self.state.next[device] = best;
        self.starts = starts;
    }

    fn arrived(&self, row: u32, done: u32) -> f64 {
        self.state.arrival[row as usize * self.microbatches + done as usize]
    }

    /// Whether a forward may take memory: within its cap, and with room for one activation of each later chunk.
    fn admits(&self, stage: usize, device: usize, rules: &StagePolicy) -> bool {
        let state = &self.state;
        let home = &self.homes[stage];
        // In flight until the last pass of the stage: W if it has one, else the backward.
        let in_flight = state.done[KINDS * stage] - state.done[home.last_row as usize];
        if home.trains && in_flight >= rules.cap.max(1) {
            return false;
        }
        let mut held = home.held;
        for (&other, &size) in home.chunks.iter().zip(&home.reserve) {
            held += state.held[other as usize].max(size);
        }
        held <= self.memory[device]
    }
}
