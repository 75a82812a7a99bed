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

/// What the inner loop reads and writes of a row.
#[derive(Debug, Clone, Copy)]
struct Lane {
    duration: f64,
    /// Memory taken at its start, and what of it remains at its end.
    takes: f64,
    leaves: f64,
    /// Time to the lane that waits for its output.
    hop: f64,
    /// Next arrival to read, and to write.
    read: usize,
    write: usize,
    /// The lane that waits for its output, and the weight passes that it makes due; [`NO_LANE`] for none.
    feeds: u32,
    weight: u32,
    device: u32,
}

const NO_LANE: u32 = u32::MAX;

/// Where a device is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    at: usize,
    clock: f64,
    first_start: f64,
    held: f64,
    peak: f64,
    /// Time of the passes to come.
    left: f64,
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
    /// Work of each device.
    work: Vec<f64>,
    lanes: Vec<Lane>,
    places: Vec<Place>,
    /// Arrival of inputs, by row and micro-batch; zero for rows that wait for none.
    arrival: Vec<f64>,
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
        let lane = |(number, row): (usize, &super::rows::Row)| Lane {
            duration: row.duration,
            takes: row.takes,
            leaves: row.takes + row.frees,
            hop: row.feeds.map_or(0.0, |(_, hop)| hop),
            read: 0,
            write: 0,
            feeds: row.feeds.map_or(NO_LANE, |(to, _)| to),
            weight: if number % KINDS == 1 { number as u32 + 1 } else { NO_LANE },
            device: row.device,
        };
        let work = |own: &Vec<u32>| {
            own.iter().map(|row| &rows.rows[*row as usize]).map(|row| f64::from(row.count) * row.duration).sum()
        };
        Ok(Self {
            memory: (0..placement.devices()).map(room).collect(),
            total: rows.rows.iter().map(|row| row.count as usize).sum(),
            work: rows.of_device.iter().map(work).collect(),
            lanes: rows.rows.iter().enumerate().map(lane).collect(),
            places: Vec::new(),
            arrival: vec![0.0; rows.rows.len() * m],
            placement: placement.clone(),
            flags: all_flags,
            m,
            rows,
        })
    }

    /// The worth of an order.
    pub fn evaluate(&mut self, orders: &[Vec<u32>]) -> Worth {
        self.reset();
        let mut reached = 0;
        loop {
            let before = reached;
            for (device, order) in orders.iter().enumerate().take(self.memory.len()) {
                reached += self.advance(device, order, |_, _| {});
            }
            if reached == before {
                break;
            }
        }
        if reached < self.total {
            return Worth::Stuck(self.total - reached);
        }
        let (mut excess, mut times) = (0.0, Decoded::default());
        for (place, &room) in self.places.iter().zip(&self.memory) {
            if place.peak > room {
                excess += (place.peak - room) / room.max(f64::MIN_POSITIVE);
            }
            times.makespan = times.makespan.max(place.clock);
            times.span = times.span.max(place.clock - place.first_start);
        }
        if excess > 1e-9 { Worth::Exceeds(excess) } else { Worth::Runs(times) }
    }

    /// Runs a device from where it is as far as its inputs are there; how many passes that were. `note` gets position
    /// and start of each.
    #[inline]
    fn advance(&mut self, device: usize, order: &[u32], mut note: impl FnMut(usize, f64)) -> usize {
        let Self { lanes, arrival, places, .. } = self;
        let mut place = places[device];
        let from = place.at;
        for &row in order.get(from..).unwrap_or_default() {
            let Some(lane) = lanes.get_mut(row as usize) else { break };
            if lane.read >= lane.write || lane.device as usize != device {
                break;
            }
            let ready = arrival[lane.read];
            lane.read += 1;
            let Lane { duration, takes, leaves, hop, feeds, weight, .. } = *lane;
            place.clock = if ready > place.clock { ready } else { place.clock };
            if place.at == 0 {
                place.first_start = place.clock;
            }
            note(place.at, place.clock);
            place.clock += duration;
            place.left -= duration;
            let held = place.held + takes;
            place.peak = if held > place.peak { held } else { place.peak };
            place.held += leaves;
            if let Some(next) = lanes.get_mut(feeds as usize) {
                arrival[next.write] = place.clock + hop;
                next.write += 1;
            }
            if let Some(due) = lanes.get_mut(weight as usize) {
                due.write += 1;
            }
            place.at += 1;
        }
        places[device] = place;
        place.at - from
    }

    fn reset(&mut self) {
        self.places.clear();
        self.places.extend(self.work.iter().map(|work| Place { left: *work, ..Place::default() }));
        // Sources have all their inputs from the start, at time zero; arrivals of other rows are written before read,
        // but for weight passes, which wait for their own device only.
        for (number, (lane, row)) in self.lanes.iter_mut().zip(&self.rows.rows).enumerate() {
            let is_source = !row.needs && number % KINDS < 2;
            lane.read = number * self.m;
            lane.write = lane.read + if is_source { row.count as usize } else { 0 };
        }
    }

    /// Total time of the passes of a device.
    pub fn work(&self, device: usize) -> f64 {
        self.work.get(device).copied().unwrap_or(0.0)
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
        let mut reached = 0;
        while reached < self.total {
            let before = reached;
            for (device, order) in orders.iter().enumerate() {
                let starts = &mut starts[device][..order.len()];
                let ran = self.advance(device, order, |at, start| starts[at] = start);
                if ran > 0 {
                    reached += ran;
                    let place = &self.places[device];
                    let first = if by_span { place.first_start } else { 0.0 };
                    if place.clock - first + place.left > latest {
                        return None;
                    }
                }
            }
            if reached == before {
                return None;
            }
        }
        let mut times = Times { makespan: 0.0, span: 0.0, mean_end: 0.0, mean_span: 0.0 };
        for Place { clock, first_start, .. } in &self.places {
            let span = clock - first_start;
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
