//! Fast evaluation of explicit orders, for searches that try millions of them.
//!
//! An order is written without micro-batches: per device the sequence of rows (`3 * stage + kind`, kind 0 for F, 1 for
//! B or BW, 2 for W), the k-th occurrence of a row being its k-th micro-batch. Micro-batches are alike, so nothing is
//! lost, and every order of the same rows is a sequence worth trying.

use super::PipelineError;
use super::action::{Action, Pass, Step};
use super::bounds::Backward;
use super::costs::Costs;
use super::decode::Decoded;
use super::placement::Placement;
use super::rows::{KINDS, Rows};
use super::schedule::{Schedule, StageFlags};

/// What an order is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Worth {
    /// It runs within memory.
    Runs(Decoded),
    /// It runs, but memory exceeds the limits by this much in all, relative to them.
    Exceeds(f64),
    /// It does not run to its end: this many passes are never reached.
    Stuck(usize),
}

/// Times of an order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// End of the last pass.
    pub makespan: f64,
    /// Largest time between first start and last end of a device.
    pub span: f64,
    /// Mean end of the devices.
    pub mean_end: f64,
    /// Mean time between first start and last end.
    pub mean_span: f64,
}

/// Evaluates orders; keeps its buffers.
#[derive(Debug, Clone)]
pub struct Evaluator {
    rows: Rows,
    memory: Vec<f64>,
    placement: Placement,
    flags: Vec<StageFlags>,
    m: usize,
    total: usize,
    position: Vec<usize>,
    clock: Vec<f64>,
    first_start: Vec<f64>,
    done: Vec<u32>,
    made: Vec<u32>,
    arrival: Vec<f64>,
    /// By device: time of the passes to come.
    left: Vec<f64>,
}

impl Evaluator {
    /// Prepares for `m` micro-batches. A transfer takes its latency and its occupancy; queues, rendezvous, pairs and
    /// offloaded stages are not known here.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] for costs that do not fit.
    pub fn new(
        placement: &Placement,
        flags: &[StageFlags],
        costs: &Costs,
        m: usize,
        backward: Backward,
    ) -> Result<Self, PipelineError> {
        costs.check(placement)?;
        let rows = Rows::new(placement, flags, costs, m, backward);
        let room = |d: usize| {
            let limit = costs.limit.as_ref().map_or(f64::INFINITY, |limit| limit[d]);
            (limit - costs.resident[d]).max(0.0)
        };
        let mut all_flags = flags.to_vec();
        all_flags.resize(placement.stages(), StageFlags::default());
        Ok(Self {
            memory: (0..placement.devices()).map(room).collect(),
            total: rows.rows.iter().map(|row| row.count as usize).sum(),
            arrival: vec![0.0; rows.rows.len() * m],
            placement: placement.clone(),
            flags: all_flags,
            m,
            rows,
            position: Vec::new(),
            clock: Vec::new(),
            first_start: Vec::new(),
            done: Vec::new(),
            made: Vec::new(),
            left: Vec::new(),
        })
    }

    /// The worth of an order.
    pub fn evaluate(&mut self, orders: &[Vec<u32>]) -> Worth {
        let devices = self.memory.len();
        self.reset();
        let mut reached = 0;
        loop {
            let before = reached;
            for (device, order) in orders.iter().enumerate().take(devices) {
                let mut clock = self.clock[device];
                let from = self.position[device];
                let mut at = from;
                while let Some(&row) = order.get(at) {
                    let row = row as usize;
                    let Some(info) = self.rows.rows.get(row) else { break };
                    let done = self.done[row];
                    if done >= self.made[row] || info.device as usize != device {
                        break;
                    }
                    if row % KINDS < 2 {
                        let arrival = self.arrival[row * self.m + done as usize];
                        clock = if arrival > clock { arrival } else { clock };
                    }
                    if at == 0 {
                        self.first_start[device] = clock;
                    }
                    clock += info.duration;
                    self.done[row] = done + 1;
                    if let Some((to, hop)) = info.feeds {
                        let made = self.made[to as usize];
                        self.arrival[to as usize * self.m + made as usize] = clock + hop;
                        self.made[to as usize] = made + 1;
                    }
                    if row % KINDS == 1 {
                        self.made[row + 1] += 1;
                    }
                    at += 1;
                }
                self.clock[device] = clock;
                self.position[device] = at;
                reached += at - from;
            }
            if reached == before {
                break;
            }
        }
        if reached < self.total {
            return Worth::Stuck(self.total - reached);
        }
        let excess = self.excess(orders);
        if excess > 1e-9 {
            return Worth::Exceeds(excess);
        }
        let spans = self.clock.iter().zip(&self.first_start).map(|(end, start)| end - start);
        let makespan = self.clock.iter().copied().fold(0.0, f64::max);
        Worth::Runs(Decoded { makespan, span: spans.fold(0.0, f64::max) })
    }

    fn reset(&mut self) {
        let (devices, rows) = (self.memory.len(), self.rows.rows.len());
        self.position.clear();
        self.position.resize(devices, 0);
        for buffer in [&mut self.clock, &mut self.first_start] {
            buffer.clear();
            buffer.resize(devices, 0.0);
        }
        self.done.clear();
        self.done.resize(rows, 0);
        self.made.clear();
        // Sources have all their inputs from the start, at time zero; arrivals of other rows are written before read.
        self.made.extend(
            self.rows.rows.iter().enumerate().map(
                |(row, info)| {
                    if !info.needs && row % KINDS < 2 { info.count } else { 0 }
                },
            ),
        );
    }

    /// Sum over devices of the memory above the limit, relative to it.
    fn excess(&self, orders: &[Vec<u32>]) -> f64 {
        let mut excess = 0.0;
        for (order, &room) in orders.iter().zip(&self.memory) {
            if room == f64::INFINITY {
                continue;
            }
            let (mut held, mut peak) = (0.0f64, 0.0f64);
            for &row in order {
                let info = &self.rows.rows[row as usize];
                held += info.takes;
                peak = if held > peak { held } else { peak };
                held += info.frees;
            }
            excess += (peak - room).max(0.0) / room.max(f64::MIN_POSITIVE);
        }
        excess
    }

    /// Total time of the passes of a device.
    pub fn work(&self, device: usize) -> f64 {
        let own = self.rows.of_device.get(device).into_iter().flatten();
        own.map(|row| &self.rows.rows[*row as usize]).map(|row| f64::from(row.count) * row.duration).sum()
    }

    /// Time of one pass of a row.
    pub fn duration(&self, row: u32) -> f64 {
        self.rows.rows.get(row as usize).map_or(0.0, |row| row.duration)
    }

    /// Number of passes over all devices.
    pub fn passes(&self) -> usize {
        self.total
    }

    /// Whether the order of one device by itself could run: each W after its backward, each backward after its forward,
    /// and memory within the limit. `counts` is a buffer.
    pub fn fits(&self, device: usize, order: &[u32], counts: &mut Vec<u32>) -> bool {
        counts.clear();
        counts.resize(self.rows.rows.len(), 0);
        let room = self.memory[device] * (1.0 + 1e-9);
        let mut held = 0.0;
        for &row in order {
            let row = row as usize;
            let info = &self.rows.rows[row];
            if !row.is_multiple_of(KINDS) && counts[row] >= counts[row - 1] {
                return false;
            }
            counts[row] += 1;
            held += info.takes;
            if held > room {
                return false;
            }
            held += info.frees;
        }
        true
    }

    /// Runs an order whose devices all [`Evaluator::fits`], and notes when each pass starts. `None` when it does not run
    /// to its end, or as soon as some device is known to end later than `latest` (`by_span`: to take longer than that
    /// from its first start).
    pub fn time(&mut self, orders: &[Vec<u32>], latest: f64, by_span: bool, starts: &mut [Vec<f64>]) -> Option<Times> {
        let devices = self.memory.len();
        self.reset();
        self.left.clear();
        self.left.extend((0..devices).map(|d| {
            self.rows.of_device[d].iter().fold(0.0, |sum, row| {
                let row = &self.rows.rows[*row as usize];
                sum + f64::from(row.count) * row.duration
            })
        }));
        let mut reached = 0;
        while reached < self.total {
            let before = reached;
            for (device, order) in orders.iter().enumerate() {
                let (mut clock, from) = (self.clock[device], self.position[device]);
                let (mut at, mut busy) = (from, 0.0);
                let starts = &mut starts[device];
                while let Some(&row) = order.get(at) {
                    let row = row as usize;
                    let info = &self.rows.rows[row];
                    let done = self.done[row];
                    if done >= self.made[row] {
                        break;
                    }
                    if row % KINDS < 2 {
                        let arrival = self.arrival[row * self.m + done as usize];
                        clock = if arrival > clock { arrival } else { clock };
                    }
                    starts[at] = clock;
                    clock += info.duration;
                    busy += info.duration;
                    self.done[row] = done + 1;
                    if let Some((to, hop)) = info.feeds {
                        let made = self.made[to as usize];
                        self.arrival[to as usize * self.m + made as usize] = clock + hop;
                        self.made[to as usize] = made + 1;
                    }
                    if row % KINDS == 1 {
                        self.made[row + 1] += 1;
                    }
                    at += 1;
                }
                if at > from {
                    self.clock[device] = clock;
                    self.position[device] = at;
                    self.left[device] -= busy;
                    reached += at - from;
                    let first = if by_span { starts[0] } else { 0.0 };
                    if clock - first + self.left[device] > latest {
                        return None;
                    }
                }
            }
            if reached == before {
                return None;
            }
        }
        let mut times = Times { makespan: 0.0, span: 0.0, mean_end: 0.0, mean_span: 0.0 };
        for (clock, starts) in self.clock.iter().zip(starts) {
            let span = clock - starts.first().copied().unwrap_or(0.0);
            times.makespan = times.makespan.max(*clock);
            times.span = times.span.max(span);
            times.mean_end += clock / devices as f64;
            times.mean_span += span / devices as f64;
        }
        Some(times)
    }

    /// The order of a schedule, pairs taken apart; `None` when its actions are not those of this question.
    pub fn order_of(&self, schedule: &Schedule) -> Option<Vec<Vec<u32>>> {
        let row = |action: Action| {
            let kind = match action.pass {
                Pass::F => 0,
                Pass::B | Pass::BW => 1,
                Pass::W => 2,
            };
            let row = KINDS * action.stage as usize + kind;
            (row < self.rows.rows.len() && self.rows.pass(row) == action.pass).then_some(row as u32)
        };
        (0..schedule.orders.len()).map(|d| schedule.actions(d).map(row).collect()).collect()
    }

    /// The schedule of an order.
    pub fn schedule_of(&self, name: &str, orders: &[Vec<u32>]) -> Schedule {
        let steps = self.rows.steps(orders);
        let (placement, flags) = (self.placement.clone(), self.flags.clone());
        Schedule { name: name.to_owned(), placement, microbatches: self.m, orders: steps, flags }
    }
}

impl Rows {
    /// Orders of rows as steps: the k-th occurrence of a row is its k-th micro-batch.
    pub(super) fn steps(&self, orders: &[Vec<u32>]) -> Vec<Vec<Step>> {
        let mut done = vec![0usize; self.rows.len()];
        let mut step = |row: &u32| {
            let (row, stage) = (*row as usize, *row as usize / KINDS);
            done[row] += 1;
            Step::One(Action::new(self.pass(row), stage, self.first[stage] + done[row] - 1))
        };
        orders.iter().map(|order| order.iter().map(&mut step).collect()).collect()
    }
}
