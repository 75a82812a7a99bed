//! From a policy to a schedule: an event-driven list scheduler whose rules do not depend on the number of micro-batches.
//!
//! At every step the device that can act first runs, of the passes it could start, the one its policy ranks highest.
//! A policy has a few numbers per stage, so that search spaces are small and a policy found for few micro-batches
//! serves for many. Every policy gives a valid schedule within the memory limit: a forward may only take memory if
//! each later chunk of its device can still get one activation. Then the devices are never stuck: of the stages where a
//! forward waits for memory take the last; all activations at and behind it have been freed, and what the chunks before
//! it hold was admitted only with room for it. (Where a backward waits for memory, a weight pass is due.)
//!
//! FlexPipe (arXiv 2510.05112, abstract) also schedules by priorities of pass kinds and stages. A [`Guide`] ranks passes one
//! by one instead: the order of an unrolled building block, which the scheduler follows as far as inputs and memory allow.

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
    /// The same until the device has run a backward: the length of the warm-up, at least 1.
    pub warm: u32,
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
        Self { cap: u32::MAX, warm: u32::MAX, due: u32::MAX, hold: 0.0, rank: [[1.0, 2.0, 0.0]; PHASES] }
    }
}

/// Rules for all stages.
pub type Policy = [StagePolicy];

/// An order of forwards and backwards to follow. Weight passes fill gaps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Guide {
    /// By row and micro-batch, `row * m + k`: the place of the pass in the order of its device; earlier goes first.
    pub place: Vec<u32>,
    /// Likewise, for forwards: backwards that the device must have run before.
    pub before: Vec<u32>,
    /// How long a device may wait for a pass of higher place, in time units.
    pub hold: f64,
    /// Weight passes that may be due before they go first, at least 1.
    pub due: u32,
}

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
    /// By row.
    lanes: Vec<Lane>,
    state: State,
    /// Passes that a device could start now.
    starts: Vec<Start>,
    /// What is followed in place of ranks.
    guide: Option<Guide>,
}

/// What the inner loop reads of a row and its rules.
#[derive(Debug, Clone, Copy)]
struct Lane {
    duration: f64,
    takes: f64,
    /// Memory that remains at its end.
    leaves: f64,
    hop: f64,
    hold: f64,
    /// The lane that waits for its output; [`NO_ROW`] for none.
    feeds: u32,
    stage: u32,
    device: u32,
    kind: u32,
    cap: u32,
    warm: u32,
    due: u32,
    rank: [f32; PHASES],
}

/// A pass that a device could start.
#[derive(Debug, Clone, Copy)]
struct Start {
    time: f64,
    /// How long the device may wait for it.
    hold: f64,
    rank: f32,
    row: u32,
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
    /// By device: start of its next pass, its row, and the earliest start of all it could run.
    next: Vec<f64>,
    next_row: Vec<u32>,
    earliest: Vec<f64>,
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
        let lane = |(number, row): (usize, &super::rows::Row)| Lane {
            duration: row.duration,
            takes: row.takes,
            leaves: row.takes + row.frees,
            hop: row.feeds.map_or(0.0, |(_, hop)| hop),
            hold: 0.0,
            feeds: row.feeds.map_or(NO_ROW, |(to, _)| to),
            stage: (number / KINDS) as u32,
            device: row.device,
            kind: (number % KINDS) as u32,
            cap: u32::MAX,
            warm: u32::MAX,
            due: u32::MAX,
            rank: [0.0; PHASES],
        };
        Ok(Self {
            placement: placement.clone(),
            flags: flags.to_vec(),
            microbatches: m,
            limit: limits,
            memory,
            homes: (0..placement.stages()).map(home).collect(),
            lanes: rows.rows.iter().enumerate().map(lane).collect(),
            starts: Vec::new(),
            guide: None,
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
        self.obey(policy);
        self.guide = None;
        self.schedule_all()
    }

    /// Schedules by a guide.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] when it has not one entry per row and micro-batch; [`PipelineError::Memory`] when forwards
    /// wait for backwards that memory has no room for.
    pub fn follow(&mut self, guide: Guide) -> Result<Decoded, PipelineError> {
        let expected = self.lanes.len() * self.microbatches;
        if guide.place.len() != expected || guide.before.len() != expected {
            return Err(PipelineError::Costs {
                field: "guide".to_owned(),
                found: format!("{} places, {} numbers of backwards", guide.place.len(), guide.before.len()),
                expected: format!("{expected} of each, one per row and micro-batch"),
            });
        }
        self.reset();
        let rules = StagePolicy { due: guide.due, hold: guide.hold, ..StagePolicy::default() };
        self.obey(&vec![rules; self.placement.stages()]);
        self.guide = Some(guide);
        self.schedule_all()
    }

    fn schedule_all(&mut self) -> Result<Decoded, PipelineError> {
        let mut left: u64 = self.rows.rows.iter().map(|row| u64::from(row.count)).sum();
        for d in 0..self.memory.len() {
            self.choose(d);
        }
        while left > 0 {
            let (mut device, mut start) = (0, f64::INFINITY);
            for (d, next) in self.state.next.iter().enumerate() {
                (device, start) = if *next < start { (d, *next) } else { (device, start) };
            }
            debug_assert!(start < f64::INFINITY || self.guide.is_some(), "reservations keep some device able to act");
            if start == f64::INFINITY {
                let why = "no device can act".to_owned();
                return Err(PipelineError::Memory { schedule: "list scheduler".to_owned(), why });
            }
            let receiver = self.run(device, start);
            left -= 1;
            self.choose(device);
            if let Some(receiver) = receiver.filter(|receiver| *receiver != device) {
                self.choose(receiver);
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
        fill(&mut state.next, devices, f64::INFINITY);
        fill(&mut state.earliest, devices, f64::INFINITY);
        zero(&mut state.next_row, devices);
        state.ran.iter_mut().for_each(Vec::clear);
        state.ran.resize(devices, Vec::new());
    }

    /// Copies the rules of a policy to the rows.
    fn obey(&mut self, policy: &Policy) {
        for (lanes, rules) in self.lanes.chunks_exact_mut(KINDS).zip(policy) {
            for (kind, lane) in lanes.iter_mut().enumerate() {
                lane.hold = rules.hold;
                lane.cap = rules.cap.max(1);
                lane.warm = rules.warm.clamp(1, lane.cap);
                lane.due = rules.due.max(1);
                // `max` turns NaN into a number.
                lane.rank = std::array::from_fn(|phase| rules.rank[phase][kind].max(f32::MIN));
            }
        }
    }

    /// Runs the next pass of a device from `start` on; the device that may now choose otherwise.
    fn run(&mut self, device: usize, start: f64) -> Option<usize> {
        let state = &mut self.state;
        let row = state.next_row[device] as usize;
        let lane = &self.lanes[row];
        let end = start + lane.duration;
        state.clock[device] = end;
        if state.first_start[device] < 0.0 {
            state.first_start[device] = start;
        }
        state.ran[device].push(row as u32);
        state.done[row] += 1;
        state.held[lane.stage as usize] += lane.leaves;
        state.held_by_device[device] += lane.leaves;
        match lane.kind {
            0 => state.forwards_left[device] -= 1,
            1 => {
                state.backwards_done[device] += 1;
                state.made[row + 1] += 1;
            }
            _ => {}
        }
        let to = lane.feeds as usize;
        let next = self.lanes.get(to)?;
        let arrival = end + lane.hop;
        state.arrival[to * self.microbatches + state.made[to] as usize] = arrival;
        state.made[to] += 1;
        let receiver = next.device as usize;
        // Inputs queue up in order: behind another one this changes nothing for the receiver; nor does one that comes
        // later than the receiver would wait for it.
        let is_next = state.made[to] == state.done[to] + 1;
        let in_time = arrival <= state.earliest[receiver] + next.hold.max(0.0);
        (is_next && in_time).then_some(receiver)
    }

    /// Finds what a device runs next.
    fn choose(&mut self, device: usize) {
        let mut starts = std::mem::take(&mut self.starts);
        starts.clear();
        let state = &self.state;
        let phase = if state.forwards_left[device] == 0 { 2 } else { usize::from(state.backwards_done[device] > 0) };
        let clock = state.clock[device];
        let mut earliest = f64::INFINITY;
        for &row in &self.rows.of_device[device] {
            let number = row as usize;
            let (done, made) = (state.done[number], state.made[number]);
            if done >= made {
                continue;
            }
            let lane = &self.lanes[number];
            let pass = number * self.microbatches + done as usize;
            let by_rule = match &self.guide {
                Some(guide) if lane.kind < 2 => -(guide.place[pass] as f32),
                Some(_) => f32::MIN,
                None => lane.rank[phase],
            };
            let too_early = |guide: &Guide| state.backwards_done[device] < guide.before[pass];
            let (time, rank) = match lane.kind {
                0 if self.guide.as_ref().is_some_and(too_early) || !self.admits(lane, device) => continue,
                // A backward that recomputes takes memory; weight passes that are due make room for it.
                1 if state.held_by_device[device] + lane.takes > self.limit[device] => continue,
                2 => (clock, if made - done >= lane.due { f32::MAX } else { by_rule }),
                _ => (state.arrival[pass].max(clock), by_rule),
            };
            earliest = if time < earliest { time } else { earliest };
            starts.push(Start { time, hold: lane.hold, rank, row });
        }
        // Highest rank first; a later start is accepted within the hold of the stage that is waited for.
        let mut best = Start { time: f64::INFINITY, hold: 0.0, rank: f32::NEG_INFINITY, row: NO_ROW };
        for start in &starts {
            if start.time > earliest + start.hold {
                continue;
            }
            if start.rank > best.rank || (start.rank == best.rank && start.time < best.time) {
                best = *start;
            }
        }
        self.state.next[device] = best.time;
        self.state.next_row[device] = best.row;
        self.state.earliest[device] = earliest;
        self.starts = starts;
    }

    /// Whether a forward may take memory: within its cap, and with room for one activation of each later chunk.
    fn admits(&self, lane: &Lane, device: usize) -> bool {
        let (state, stage) = (&self.state, lane.stage as usize);
        let home = &self.homes[stage];
        // In flight until the last pass of the stage: W if it has one, else the backward.
        let in_flight = state.done[KINDS * stage] - state.done[home.last_row as usize];
        let cap = if state.backwards_done[device] == 0 { lane.warm } else { lane.cap };
        if home.trains && in_flight >= cap {
            return false;
        }
        let mut held = home.held;
        for (&other, &size) in home.chunks.iter().zip(&home.reserve) {
            held += state.held[other as usize].max(size);
        }
        held <= self.memory[device]
    }
}
