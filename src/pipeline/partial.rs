//! A schedule in the making, pass by pass in the order of time, with undo: what a decision tree walks over.
//!
//! At every point the device that can start first decides: one of the passes whose input is made (and, for forwards,
//! that memory admits), or to wait until another input is made. A forward is admitted only with room for one
//! activation of each later chunk of its device, so that no device is ever stuck (see [`super::decode`]). Micro-batches
//! are alike: a row runs in order.

use super::PipelineError;
use super::bounds::Backward;
use super::costs::Costs;
use super::placement::Placement;
use super::rows::{KINDS, Rows};
use super::schedule::StageFlags;

/// What never changes.
#[derive(Debug, Clone)]
pub struct Yard {
    rows: Rows,
    m: usize,
    total: usize,
    /// By device: memory that forwards may fill.
    memory: Vec<f64>,
    /// By stage: memory that F leaves held; stages of its device; what each of those must be left.
    held: Vec<f64>,
    chunks: Vec<Vec<u32>>,
    /// By row: least time from the end of its last pass to the end of all.
    way_home: Vec<f64>,
    work: Vec<f64>,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The next pass of a row.
    Run(u32),
    /// The device waits for another input.
    Wait,
}

/// What a decision changed.
#[derive(Debug, Clone)]
enum Undo {
    Ran { row: u32, clock: f64, first: f64, waits: bool, woken: Option<u32> },
    Waited { device: u32 },
}

/// Passes done so far.
#[derive(Debug, Clone)]
pub struct Partial {
    clock: Vec<f64>,
    first_start: Vec<f64>,
    held: Vec<f64>,
    done: Vec<u32>,
    made: Vec<u32>,
    arrival: Vec<f64>,
    waits: Vec<bool>,
    left: Vec<f64>,
    ran: Vec<Vec<u32>>,
    count: usize,
    undo: Vec<Undo>,
}

impl Yard {
    /// Prepares for `m` micro-batches.
    ///
    /// # Errors
    /// As [`super::decode::Decoder::new`].
    pub fn new(
        placement: &Placement,
        flags: &[StageFlags],
        costs: &Costs,
        m: usize,
        backward: Backward,
    ) -> Result<Self, PipelineError> {
        // It refuses what cannot be scheduled.
        super::decode::Decoder::new(placement, flags, costs, m, backward)?;
        let rows = Rows::new(placement, flags, costs, m, backward);
        let row = |x: usize, kind: usize| &rows.rows[KINDS * x + kind];
        let held: Vec<f64> = (0..placement.stages()).map(|x| row(x, 0).takes + row(x, 0).frees).collect();
        let memory = (0..placement.devices()).map(|d| {
            let limit = costs.limit.as_ref().map_or(f64::INFINITY, |limit| limit[d]);
            let more = placement.chunks(d).map(|x| (row(x, 0).takes - held[x]).max(row(x, 1).takes));
            (limit - costs.resident[d]) * (1.0 + 1e-9) - more.fold(0.0, f64::max)
        });
        let memory = memory.collect();
        let chunks = (0..placement.stages())
            .map(|x| placement.chunks(placement.device(x)).map(|y| y as u32).collect())
            .collect();
        let mut way_home = vec![f64::NAN; rows.rows.len()];
        (0..rows.rows.len()).for_each(|row| {
            way(&rows, row, &mut way_home);
        });
        let work = rows.of_device.iter().map(|own| {
            own.iter().map(|row| &rows.rows[*row as usize]).map(|row| f64::from(row.count) * row.duration).sum()
        });
        let work = work.collect();
        let total = rows.rows.iter().map(|row| row.count as usize).sum();
        Ok(Self { m, total, memory, held, chunks, way_home, work, rows })
    }

    /// Nothing done yet.
    pub fn start(&self) -> Partial {
        let (devices, rows) = (self.memory.len(), self.rows.rows.len());
        let made = self.rows.rows.iter().enumerate();
        let made = made.map(|(row, info)| if !info.needs && row % KINDS < 2 { info.count } else { 0 });
        Partial {
            clock: vec![0.0; devices],
            first_start: vec![-1.0; devices],
            held: vec![0.0; rows / KINDS],
            done: vec![0; rows],
            made: made.collect(),
            arrival: vec![0.0; rows * self.m],
            waits: vec![false; devices],
            left: self.work.clone(),
            ran: vec![Vec::new(); devices],
            count: 0,
            undo: Vec::new(),
        }
    }

    fn beginning(&self, s: &Partial, row: usize) -> f64 {
        let clock = s.clock[self.rows.rows[row].device as usize];
        if row % KINDS == 2 { clock } else { clock.max(s.arrival[row * self.m + s.done[row] as usize]) }
    }

    fn can_run(&self, s: &Partial, row: usize) -> bool {
        if s.done[row] >= s.made[row] {
            return false;
        }
        if !row.is_multiple_of(KINDS) {
            return true;
        }
        let stage = row / KINDS;
        let mut held = self.held[stage];
        for &other in &self.chunks[stage] {
            let least = if other as usize > stage { self.held[other as usize] } else { 0.0 };
            held += s.held[other as usize].max(least);
        }
        held <= self.memory[self.rows.rows[row].device as usize]
    }

    /// The device that decides and what it may choose; `None` when all is done.
    pub fn choices(&self, s: &Partial, out: &mut Vec<Choice>) -> Option<usize> {
        out.clear();
        let mut first: Option<(f64, usize)> = None;
        let mut others_can = false;
        for (device, own) in self.rows.of_device.iter().enumerate() {
            if s.waits[device] {
                continue;
            }
            let starts = own.iter().filter(|row| self.can_run(s, **row as usize));
            let start = starts.map(|row| self.beginning(s, *row as usize)).fold(f64::INFINITY, f64::min);
            if start < f64::INFINITY {
                others_can |= first.is_some();
                if first.is_none_or(|(best, _)| start < best) {
                    first = Some((start, device));
                }
            }
        }
        let (_, device) = first?;
        let own = &self.rows.of_device[device];
        out.extend(own.iter().filter(|row| self.can_run(s, **row as usize)).map(|row| Choice::Run(*row)));
        let expects =
            own.iter().map(|row| *row as usize).any(|row| row % KINDS < 2 && s.made[row] < self.rows.rows[row].count);
        if others_can && expects {
            out.push(Choice::Wait);
        }
        Some(device)
    }

    /// Does what was chosen by `device`.
    pub fn push(&self, s: &mut Partial, device: usize, choice: Choice) {
        let Choice::Run(row) = choice else {
            s.waits[device] = true;
            s.undo.push(Undo::Waited { device: device as u32 });
            return;
        };
        let r = row as usize;
        let info = &self.rows.rows[r];
        let (clock, first, waits) = (s.clock[device], s.first_start[device], s.waits[device]);
        let start = self.beginning(s, r);
        let end = start + info.duration;
        s.clock[device] = end;
        if first < 0.0 {
            s.first_start[device] = start;
        }
        s.held[r / KINDS] += info.takes + info.frees;
        s.left[device] -= info.duration;
        s.done[r] += 1;
        s.count += 1;
        s.ran[device].push(row);
        if r % KINDS == 1 && self.rows.rows[r + 1].count > 0 {
            s.made[r + 1] += 1;
        }
        let mut woken = None;
        if let Some((to, hop)) = info.feeds {
            let to = to as usize;
            s.arrival[to * self.m + s.made[to] as usize] = end + hop;
            s.made[to] += 1;
            let receiver = self.rows.rows[to].device as usize;
            if s.waits[receiver] {
                s.waits[receiver] = false;
                woken = Some(receiver as u32);
            }
        }
        s.undo.push(Undo::Ran { row, clock, first, waits, woken });
    }

    /// Takes back the last decision.
    pub fn pop(&self, s: &mut Partial) {
        match s.undo.pop() {
            None => {}
            Some(Undo::Waited { device }) => s.waits[device as usize] = false,
            Some(Undo::Ran { row, clock, first, waits, woken }) => {
                let r = row as usize;
                let info = &self.rows.rows[r];
                let device = info.device as usize;
                if let Some((to, _)) = info.feeds {
                    s.made[to as usize] -= 1;
                }
                if let Some(receiver) = woken {
                    s.waits[receiver as usize] = true;
                }
                if r % KINDS == 1 && self.rows.rows[r + 1].count > 0 {
                    s.made[r + 1] -= 1;
                }
                (s.clock[device], s.first_start[device], s.waits[device]) = (clock, first, waits);
                s.held[r / KINDS] -= info.takes + info.frees;
                s.left[device] += info.duration;
                s.done[r] -= 1;
                s.count -= 1;
                s.ran[device].pop();
            }
        }
    }

    /// Bounds on makespan and span of every completion.
    pub fn bound(&self, s: &Partial) -> (f64, f64) {
        let (mut makespan, mut span) = (0.0f64, 0.0f64);
        for (device, own) in self.rows.of_device.iter().enumerate() {
            let first = s.first_start[device];
            let mut end = s.clock[device] + s.left[device];
            for &row in own {
                let row = row as usize;
                let info = &self.rows.rows[row];
                let left = info.count - s.done[row];
                if left > 0 {
                    let start = if s.done[row] < s.made[row] { self.beginning(s, row) } else { s.clock[device] };
                    let all = start + f64::from(left) * info.duration;
                    makespan = makespan.max(all + self.way_home[row]);
                    end = end.max(all);
                }
            }
            makespan = makespan.max(end);
            if first >= 0.0 {
                span = span.max(end - first);
            }
        }
        // Sums in another order round differently.
        let less = 1.0 - (self.total + 64) as f64 * f64::EPSILON;
        (makespan * less, span * less)
    }

    /// How long the start of a choice lies after the device became free; zero for waiting.
    pub fn delay(&self, s: &Partial, choice: Choice) -> f64 {
        match choice {
            Choice::Run(row) => self.beginning(s, row as usize) - s.clock[self.rows.rows[row as usize].device as usize],
            Choice::Wait => 0.0,
        }
    }
}

impl Partial {
    /// Rows that each device has run, in order.
    pub fn ran(&self) -> &[Vec<u32>] {
        &self.ran
    }

    /// Decisions so far.
    pub fn depth(&self) -> usize {
        self.undo.len()
    }
}

fn way(rows: &Rows, row: usize, known: &mut [f64]) -> f64 {
    if known[row].is_nan() {
        let weight = &rows.rows[row - row % KINDS + 2];
        let own = if row % KINDS == 1 && weight.count > 0 { weight.duration } else { 0.0 };
        let ahead = rows.rows[row]
            .feeds
            .map_or(0.0, |(to, hop)| hop + rows.rows[to as usize].duration + way(rows, to as usize, known));
        known[row] = own.max(ahead);
    }
    known[row]
}
