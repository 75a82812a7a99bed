//! Certified optima of small questions, by branch and bound over all orders.
//!
//! Micro-batches are alike, so each row of passes may run in order of micro-batch: the k-th run of a row can always use
//! the k-th input to arrive. A state is then a count per row and the times that matter. At every node the pass that can
//! start first either runs next on its device or is put off until the device has run another; every semi-active
//! schedule is one path. A node is cut when its bound (work left, ways left to the end) exceeds the threshold, when a
//! pass that frees memory would fit into the gap it leaves, or when a state with the same counts was nowhere later.
//!
//! The threshold starts at the closed form of [`super::bounds`] and rises to the least bound that was cut (as in
//! iterative deepening A*): every threshold without a solution is a proof that the optimum is above it, and the first
//! solution found is optimal.

use super::PipelineError;
use super::bounds::{Backward, bounds};
use super::costs::{Costs, Pairing, Sends};
use super::placement::Placement;
use super::rows::{KINDS, Rows};
use super::schedule::{Schedule, StageFlags};
use std::collections::HashMap;

/// What is known after a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// An optimal schedule, if one was found.
    pub schedule: Option<Schedule>,
    /// No schedule has a smaller makespan. With a schedule, its makespan.
    pub makespan: f64,
    /// Nodes visited.
    pub nodes: u64,
}

impl Certificate {
    /// Whether the makespan is that of a schedule.
    pub fn is_optimal(&self) -> bool {
        self.schedule.is_some()
    }
}

/// Searches for a schedule of least makespan, visiting at most `nodes` nodes. The answer depends on nothing else.
///
/// # Errors
/// [`PipelineError::Costs`] for costs that do not fit; [`PipelineError::Unsupported`] for offloaded stages, queues on
/// links, sends that wait and pairs that run jointly; [`PipelineError::Memory`] when no schedule fits into memory.
pub fn certify(
    placement: &Placement,
    flags: &[StageFlags],
    costs: &Costs,
    m: usize,
    backward: Backward,
    nodes: u64,
) -> Result<Certificate, PipelineError> {
    costs.check(placement)?;
    let queues = costs.forward_hops.iter().chain(&costs.backward_hops).any(|hop| hop.occupancy > 0.0);
    let joint = matches!(costs.pairing, Pairing::Joint { overlap } if overlap > 0.0);
    let offload = flags.iter().any(|flags| flags.offload);
    if let Some(what) = [(queues, "links with queues"), (joint, "joint pairs"), (offload, "offloaded stages")]
        .into_iter()
        .find_map(|(is, what)| is.then_some(what))
        .or((costs.sends != Sends::Eager).then_some("sends that wait"))
    {
        let why = format!("{what} are not supported");
        return Err(PipelineError::Unsupported { schedule: "exact search".to_owned(), why });
    }
    let passes = placement.stages() * m * KINDS;
    if passes > MOST_PASSES {
        let why = format!("{passes} passes; it is meant for small questions of at most {MOST_PASSES}");
        return Err(PipelineError::Unsupported { schedule: "exact search".to_owned(), why });
    }
    let too_small = |why: &str| PipelineError::Memory { schedule: "exact search".to_owned(), why: why.to_owned() };
    let root = bounds(placement, flags, costs, m, backward).makespan.time;
    if root == f64::INFINITY {
        return Err(too_small("a single activation exceeds the limit"));
    }
    let rows = Rows::new(placement, flags, costs, m, backward);
    let mut search = Search::new(&rows, costs, m, nodes);
    let mut threshold = root;
    loop {
        search.threshold = threshold * (1.0 + 1e-9);
        search.least_cut = f64::INFINITY;
        search.seen.clear();
        let outcome = search.visit();
        match outcome {
            Outcome::Found => {
                let schedule = search.schedule(placement, flags);
                return Ok(Certificate { schedule: Some(schedule), makespan: search.makespan(), nodes: search.nodes });
            }
            Outcome::Exhausted if search.least_cut == f64::INFINITY => {
                return Err(too_small("every order runs out of memory before it ends"));
            }
            Outcome::Exhausted => threshold = search.least_cut,
            Outcome::OutOfNodes => {
                return Ok(Certificate { schedule: None, makespan: threshold, nodes: search.nodes });
            }
        }
    }
}

/// How a subtree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Found,
    Exhausted,
    OutOfNodes,
}

/// The search recurses once per pass, and is hopeless long before this.
const MOST_PASSES: usize = 3000;
/// States remembered at most; further ones are searched without.
const MOST_STATES: usize = 1_000_000;

/// Passes done by row, and passes put off by device.
type Counts = (Vec<u32>, Vec<u64>);
/// Clocks, and arrivals that nobody has taken yet.
type Times = Box<[f64]>;

struct Search<'a> {
    rows: &'a Rows,
    m: usize,
    memory: Vec<f64>,
    /// By row: least time from the end of its last pass to the end of all.
    way_home: Vec<f64>,
    nodes: u64,
    most_nodes: u64,
    threshold: f64,
    least_cut: f64,
    clock: Vec<f64>,
    held: Vec<f64>,
    done: Vec<u32>,
    made: Vec<u32>,
    arrival: Vec<f64>,
    /// Rows that a device may not run next.
    put_off: Vec<u64>,
    work_left: Vec<f64>,
    ran: Vec<Vec<u32>>,
    seen: HashMap<Counts, Vec<Times>>,
    states: usize,
}

impl<'a> Search<'a> {
    fn new(rows: &'a Rows, costs: &Costs, m: usize, most_nodes: u64) -> Self {
        let devices = rows.of_device.len();
        let memory = (0..devices).map(|d| {
            let limit = costs.limit.as_ref().map_or(f64::INFINITY, |limit| limit[d]);
            (limit - costs.resident[d]) * (1.0 + 1e-9)
        });
        let count = rows.rows.len();
        let mut way_home = vec![f64::NAN; count];
        (0..count).for_each(|row| {
            Self::way_home(rows, row, &mut way_home);
        });
        let made = rows.rows.iter().enumerate().map(|(row, info)| {
            let is_source = !info.needs && row % KINDS < 2;
            if is_source { info.count } else { 0 }
        });
        let work = rows.of_device.iter().map(|own| {
            own.iter().map(|row| &rows.rows[*row as usize]).map(|row| f64::from(row.count) * row.duration).sum()
        });
        Self {
            rows,
            m,
            memory: memory.collect(),
            way_home,
            nodes: 0,
            most_nodes,
            threshold: 0.0,
            least_cut: f64::INFINITY,
            clock: vec![0.0; devices],
            held: vec![0.0; devices],
            done: vec![0; count],
            made: made.collect(),
            arrival: vec![0.0; count * m],
            put_off: vec![0; devices],
            work_left: work.collect(),
            ran: vec![Vec::new(); devices],
            seen: HashMap::new(),
            states: 0,
        }
    }

    fn way_home(rows: &Rows, row: usize, known: &mut [f64]) -> f64 {
        if known[row].is_nan() {
            let weight = &rows.rows[row - row % KINDS + 2];
            let own = if row % KINDS == 1 && weight.count > 0 { weight.duration } else { 0.0 };
            let ahead = rows.rows[row].feeds.map_or(0.0, |(to, hop)| {
                hop + rows.rows[to as usize].duration + Self::way_home(rows, to as usize, known)
            });
            known[row] = own.max(ahead);
        }
        known[row]
    }

    fn makespan(&self) -> f64 {
        self.clock.iter().copied().fold(0.0, f64::max)
    }

    fn start(&self, row: usize) -> f64 {
        let (info, done) = (&self.rows.rows[row], self.done[row]);
        let arrival = if row % KINDS == 2 { 0.0 } else { self.arrival[row * self.m + done as usize] };
        self.clock[info.device as usize].max(arrival)
    }

    fn can_run(&self, row: usize) -> bool {
        let info = &self.rows.rows[row];
        let device = info.device as usize;
        self.done[row] < self.made[row] && self.held[device] + info.takes <= self.memory[device]
    }

    /// No completion ends before this.
    fn bound(&self) -> f64 {
        let mut bound = self.makespan();
        for (device, own) in self.rows.of_device.iter().enumerate() {
            bound = bound.max(self.clock[device] + self.work_left[device]);
            for &row in own {
                let row = row as usize;
                let info = &self.rows.rows[row];
                let left = info.count - self.done[row];
                if left == 0 {
                    continue;
                }
                let start = if self.done[row] < self.made[row] { self.start(row) } else { self.clock[device] };
                bound = bound.max(start + f64::from(left) * info.duration + self.way_home[row]);
            }
        }
        bound
    }

    fn visit(&mut self) -> Outcome {
        self.nodes += 1;
        if self.nodes > self.most_nodes {
            return Outcome::OutOfNodes;
        }
        let bound = self.bound();
        if bound > self.threshold {
            self.least_cut = self.least_cut.min(bound);
            return Outcome::Exhausted;
        }
        let mut chosen: Option<(f64, usize)> = None;
        let mut all_done = true;
        for (device, own) in self.rows.of_device.iter().enumerate() {
            for (bit, &row) in own.iter().enumerate() {
                let row = row as usize;
                all_done &= self.done[row] == self.rows.rows[row].count;
                if self.put_off[device] >> bit & 1 == 1 || !self.can_run(row) {
                    continue;
                }
                let start = self.start(row);
                if chosen.is_none_or(|(best, _)| start < best) {
                    chosen = Some((start, row));
                }
            }
        }
        if all_done {
            return Outcome::Found;
        }
        let Some((start, row)) = chosen else { return Outcome::Exhausted };
        if self.is_dominated() {
            return Outcome::Exhausted;
        }
        let device = self.rows.rows[row].device as usize;
        if !self.leaves_gap(device, start) {
            let undo = self.run(row, start);
            let outcome = self.visit();
            if outcome != Outcome::Exhausted {
                return outcome;
            }
            self.undo(row, undo);
        }
        let bit = self.rows.of_device[device].iter().position(|r| *r as usize == row).unwrap_or(0);
        self.put_off[device] |= 1 << bit;
        let outcome = self.visit();
        if outcome == Outcome::Exhausted {
            self.put_off[device] &= !(1 << bit);
        }
        outcome
    }

    /// Whether a pass that takes no memory fits into the idle time before `start`: running it there is never worse.
    fn leaves_gap(&self, device: usize, start: f64) -> bool {
        self.rows.of_device[device].iter().any(|&other| {
            let other = other as usize;
            let info = &self.rows.rows[other];
            info.takes == 0.0
                && !other.is_multiple_of(KINDS)
                && self.done[other] < self.made[other]
                && self.start(other) + info.duration <= start
        })
    }

    fn run(&mut self, row: usize, start: f64) -> (f64, u64) {
        let info = &self.rows.rows[row];
        let device = info.device as usize;
        let before = (self.clock[device], self.put_off[device]);
        let end = start + info.duration;
        self.clock[device] = end;
        self.put_off[device] = 0;
        self.held[device] += info.takes + info.frees;
        self.work_left[device] -= info.duration;
        self.done[row] += 1;
        self.ran[device].push(row as u32);
        if row % KINDS == 1 && self.rows.rows[row + 1].count > 0 {
            self.made[row + 1] += 1;
        }
        if let Some((to, hop)) = info.feeds {
            let to = to as usize;
            self.arrival[to * self.m + self.made[to] as usize] = end + hop;
            self.made[to] += 1;
        }
        before
    }

    fn undo(&mut self, row: usize, (clock, put_off): (f64, u64)) {
        let info = &self.rows.rows[row];
        let device = info.device as usize;
        self.clock[device] = clock;
        self.put_off[device] = put_off;
        self.held[device] -= info.takes + info.frees;
        self.work_left[device] += info.duration;
        self.done[row] -= 1;
        self.ran[device].pop();
        if row % KINDS == 1 && self.rows.rows[row + 1].count > 0 {
            self.made[row + 1] -= 1;
        }
        if let Some((to, _)) = info.feeds {
            self.made[to as usize] -= 1;
        }
    }

    /// Whether a state with the same counts and the same passes put off was visited with no time later; else remembers
    /// this one.
    fn is_dominated(&mut self) -> bool {
        let mut times: Vec<f64> = self.clock.clone();
        for (row, info) in self.rows.rows.iter().enumerate().filter(|(_, info)| info.needs) {
            let clock = self.clock[info.device as usize];
            let waiting = self.done[row]..self.made[row];
            times.extend(waiting.map(|i| self.arrival[row * self.m + i as usize].max(clock)));
        }
        let times = times.into_boxed_slice();
        let known = self.seen.entry((self.done.clone(), self.put_off.clone())).or_default();
        if known.iter().any(|known| known.iter().zip(&times).all(|(a, b)| a <= b)) {
            return true;
        }
        if self.states < MOST_STATES {
            self.states += 1;
            known.push(times);
        }
        false
    }

    fn schedule(&self, placement: &Placement, flags: &[StageFlags]) -> Schedule {
        let orders = self.rows.steps(&self.ran);
        let mut schedule = Schedule::new("certified", placement.clone(), self.m, orders);
        schedule.flags[..flags.len()].copy_from_slice(flags);
        schedule
    }
}
