//! From a policy to a schedule: an event-driven list scheduler whose rules do not depend on the number of micro-batches.
//!
//! At every step the device that can act first runs, of the passes it could start, the one its policy ranks highest.
//! A policy has a few numbers per stage, so that search spaces are small and a policy found for few micro-batches
//! serves for many. Every policy gives a valid schedule within the memory limit: a forward may only take memory if
//! each later chunk of its device can still get one activation. Then a device is never stuck: of the stages where a
//! forward waits for memory take the last; all activations at and behind it have been freed, and what the chunks before
//! it hold was admitted only with room for it.
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
    /// By device: memory for activations, rounding included.
    memory: Vec<f64>,
    /// By stage: memory that later chunks of the device need besides (indices of their stages).
    later: Vec<Vec<u32>>,
    earlier: Vec<Vec<u32>>,
    /// By stage: memory that F leaves held.
    held_by: Vec<f64>,
    state: State,
}

/// A partial schedule.
#[derive(Debug, Clone, Default)]
struct State {
    clock: Vec<f64>,
    first_start: Vec<f64>,
    /// Memory held by each stage.
    held: Vec<f64>,
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
        let mut memory = Vec::with_capacity(placement.devices());
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
            let room = (limit - costs.resident[d]) * (1.0 + 1e-9) - while_running;
            let need: f64 = placement.chunks(d).map(|x| held_by[x]).sum();
            if need > room {
                let why = format!("one activation of every chunk of device {d} takes {need}, there is room for {room}");
                return Err(PipelineError::Memory { schedule: "list scheduler".to_owned(), why });
            }
            memory.push(room);
        }
        let others = |keep: fn(usize, usize) -> bool| -> Vec<Vec<u32>> {
            let of = |x: usize| {
                let own = placement.chunks(placement.device(x));
                own.filter(|y| keep(*y, x)).map(|y| y as u32).collect()
            };
            (0..placement.stages()).map(of).collect()
        };
        Ok(Self {
            placement: placement.clone(),
            flags: flags.to_vec(),
            microbatches: m,
            memory,
            later: others(|y, x| y > x),
            earlier: others(|y, x| y <= x),
            held_by,
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

    /// Runs the next pass of a row; the device that gets its output.
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
        Some(self.rows.rows[to].device as usize)
    }

    /// Finds what a device runs next.
    fn choose(&mut self, device: usize, policy: &Policy) {
        let state = &self.state;
        let phase = if state.forwards_left[device] == 0 { 2 } else { usize::from(state.backwards_done[device] > 0) };
        let clock = state.clock[device];
        // Highest rank first; a later start is accepted within the hold of the stage that is waited for.
        let (mut earliest, mut best, mut best_rank) = (f64::INFINITY, NO_ROW, f32::NEG_INFINITY);
        let mut best_start = f64::INFINITY;
        for pass in 0..2 {
            for &row in &self.rows.of_device[device] {
                let (stage, kind) = (row as usize / KINDS, row as usize % KINDS);
                let done = state.done[row as usize];
                if done >= state.made[row as usize] {
                    continue;
                }
                let start = if kind == 2 { clock } else { self.arrived(row, done).max(clock) };
                if pass == 0 {
                    if start < earliest && (kind != 0 || self.admits(stage, &policy[stage])) {
                        earliest = start;
                    }
                    continue;
                }
                let rules = &policy[stage];
                if start > earliest + rules.hold || (kind == 0 && !self.admits(stage, rules)) {
                    continue;
                }
                let is_due = kind == 2 && state.made[row as usize] - done >= rules.due.max(1);
                // `max` turns NaN into a number.
                let rank = if is_due { f32::MAX } else { rules.rank[phase][kind].max(f32::MIN) };
                if rank > best_rank || (rank == best_rank && start < best_start) {
                    (best, best_rank, best_start) = (row, rank, start);
                }
            }
        }
        self.state.next[device] = (best_start, best);
    }

    fn arrived(&self, row: u32, done: u32) -> f64 {
        self.state.arrival[row as usize * self.microbatches + done as usize]
    }

    /// Whether a forward may take memory: within its cap, and with room for one activation of each later chunk.
    fn admits(&self, stage: usize, rules: &StagePolicy) -> bool {
        let state = &self.state;
        // In flight until the last pass of the stage: W if it has one, else the backward.
        let last = if self.rows.rows[KINDS * stage + 2].count > 0 { 2 } else { 1 };
        let in_flight = state.done[KINDS * stage] - state.done[KINDS * stage + last];
        let trains = self.rows.rows[KINDS * stage + 1].count > 0;
        if trains && in_flight >= rules.cap.max(1) {
            return false;
        }
        let earlier: f64 = self.earlier[stage].iter().map(|y| state.held[*y as usize]).sum();
        let later = self.later[stage].iter().map(|y| state.held[*y as usize].max(self.held_by[*y as usize]));
        earlier + self.held_by[stage] + later.sum::<f64>() <= self.memory[self.rows.rows[KINDS * stage].device as usize]
    }
}
