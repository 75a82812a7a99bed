//! Building blocks: the passes of one micro-batch, repeated every period, as an order for all of them.
//!
//! Qi et al. 2024, "Pipeline parallelism with controllable memory" (arXiv 2405.15362), section 3: how long a building block
//! holds an activation over its period is the memory it needs, whatever the number of micro-batches. Here the passes of a
//! micro-batch are placed one after the other where their device is free modulo the period (modulo scheduling, Rau 1994,
//! "Iterative modulo scheduling", section 3.1), each after a wait of its own, then unrolled into an order that the list
//! scheduler follows. Times may be any: the period need not be a multiple of a
//! pass. It grows until the activations held at once fit; weight passes take what is left (section 3.3).

use super::PipelineError;
use super::bounds::Backward;
use super::costs::Costs;
use super::decode::Guide;
use super::placement::Placement;
use super::rows::{KINDS, Rows};
use super::schedule::StageFlags;

/// What a building block is made of, in time units.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Micro-batches that follow each other as fast as work allows, before memory makes the next ones wait, at least 1.
    pub burst: u32,
    /// Time from a micro-batch to the next, as a multiple of the least that work (of bursts) or work and memory (of single
    /// ones) allow, at least 1.
    pub period: f64,
    /// Wait of each row (`3 * stage + kind`, kind 0 for F, 1 for B) after its input is there; weight passes have none.
    pub waits: Vec<f64>,
    /// How long a device may wait for the next pass of the block.
    pub hold: f64,
    /// Weight passes that may be due before they go first, at least 1.
    pub due: u32,
}

/// Unrolls building blocks for one question; keeps its buffers.
#[derive(Debug, Clone)]
pub struct Unroller {
    rows: Rows,
    /// Memory of each device.
    memory: Vec<f64>,
    /// Work of the busiest device for one micro-batch.
    work: f64,
    /// Forwards and backwards of a micro-batch in the order in which they are placed: down, then up.
    chain: Vec<u32>,
    /// Stages of each device.
    stages: Vec<Vec<usize>>,
    m: usize,
    start: Vec<f64>,
    ready: Vec<f64>,
    /// By device: taken intervals modulo the period.
    taken: Vec<Vec<(f64, f64)>>,
}

/// Differences below this share of a period are rounding.
const ROUNDING: f64 = 1e-9;
/// Most times that a period grows, by how much, and halvings of the last growth: within 2 % of the least that fits.
const GROWTHS: usize = 10;
const GROWTH: f64 = 1.5;
const HALVINGS: usize = 5;

impl Unroller {
    /// Prepares for `m` micro-batches.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] for costs that do not fit; [`PipelineError::Unsupported`] for maps with several routes.
    pub fn new(
        placement: &Placement,
        flags: &[StageFlags],
        costs: &Costs,
        m: usize,
        backward: Backward,
    ) -> Result<Self, PipelineError> {
        costs.check(placement)?;
        if placement.routes() > 1 {
            let why = "a block is the way of one micro-batch, here there are several".to_owned();
            return Err(PipelineError::Unsupported { schedule: "building block".to_owned(), why });
        }
        let rows = Rows::new(placement, flags, costs, m, backward);
        let (stages, devices) = (placement.stages(), placement.devices());
        let down = (0..stages).map(|x| KINDS * x);
        let up = (0..stages).rev().map(|x| KINDS * x + 1);
        let chain = down.chain(up).filter(|row| rows.rows[*row].count > 0).map(|row| row as u32).collect();
        let room = |d: usize| {
            let limit = costs.limit.as_ref().map_or(f64::INFINITY, |limit| limit[d]);
            (limit - costs.resident[d]) * (1.0 + ROUNDING)
        };
        let work = |own: &Vec<u32>| own.iter().map(|row| rows.rows[*row as usize].duration).sum();
        let work = rows.of_device.iter().map(work).fold(f64::MIN_POSITIVE, f64::max);
        Ok(Self {
            memory: (0..devices).map(room).collect(),
            work,
            chain,
            stages: (0..devices).map(|d| placement.chunks(d).collect()).collect(),
            m,
            start: vec![0.0; rows.rows.len()],
            ready: vec![0.0; rows.rows.len()],
            taken: vec![Vec::new(); devices],
            rows,
        })
    }

    /// The order of all forwards and backwards.
    pub fn unroll(&mut self, block: &Block) -> Guide {
        let burst = (block.burst as usize).min(self.m).max(1);
        let slack = block.period.max(1.0);
        // Bursts are slack between their own micro-batches, single ones between each other.
        let mut spacing = self.work * if burst > 1 { slack } else { 1.0 };
        let mut period = self.least_period(block, burst, spacing);
        if burst == 1 {
            period *= slack;
            spacing = period;
        }
        self.place(block, spacing);
        let m = self.m;
        let mut guide = Guide {
            place: vec![0; self.rows.rows.len() * m],
            before: vec![0; self.rows.rows.len() * m],
            hold: block.hold,
            due: block.due,
        };
        for own in &self.rows.of_device {
            let slot = |row: usize, of_burst: usize| {
                let start = self.start[row] + spacing * of_burst as f64;
                let turns = (start / period + ROUNDING).floor().max(0.0);
                (start - turns * period, row, of_burst, turns as usize)
            };
            let rows = own.iter().map(|row| *row as usize).filter(|row| row % KINDS < 2);
            let mut slots: Vec<_> = rows.flat_map(|row| (0..burst).map(move |k| slot(row, k))).collect();
            slots.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let last = slots.iter().map(|slot| slot.3).max().unwrap_or(0);
            let (mut place, mut backwards) = (0, 0);
            for turn in 0..m.div_ceil(burst) + last {
                for (_, row, of_burst, turns) in slots.iter().filter(|(_, _, _, turns)| *turns <= turn) {
                    let microbatch = (turn - turns) * burst + of_burst;
                    if microbatch >= m {
                        continue;
                    }
                    let pass = row * m + microbatch;
                    (guide.place[pass], guide.before[pass]) = (place, backwards);
                    place += 1;
                    backwards += (row % KINDS) as u32;
                }
            }
        }
        guide
    }

    /// The least time between bursts with which activations fit, within rounding.
    fn least_period(&mut self, block: &Block, burst: usize, spacing: f64) -> f64 {
        let mut fits = |period: f64| {
            let spacing = if burst == 1 { period } else { spacing };
            self.place(block, spacing);
            self.excess(period, spacing, burst) <= 1.0
        };
        let mut high = spacing * burst as f64;
        if fits(high) {
            return high;
        }
        let mut low = high;
        for _ in 0..GROWTHS {
            (low, high) = (high, high * GROWTH);
            if fits(high) {
                break;
            }
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if fits(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// Starts of the passes of the first micro-batch.
    fn place(&mut self, block: &Block, period: f64) {
        self.taken.iter_mut().for_each(Vec::clear);
        self.ready.fill(0.0);
        for &row in &self.chain {
            let row = row as usize;
            let info = &self.rows.rows[row];
            let wanted = self.ready[row] + block.waits.get(row).copied().unwrap_or(0.0).max(0.0);
            let start = free_from(&mut self.taken[info.device as usize], wanted, info.duration, period);
            self.start[row] = start;
            if let Some((to, hop)) = info.feeds {
                self.ready[to as usize] = start + info.duration + hop;
            }
        }
    }

    /// The memory that activations take once the pipeline is full, over what there is, where that is most. Weight passes
    /// are taken to follow their backwards.
    fn excess(&self, period: f64, spacing: f64, burst: usize) -> f64 {
        let held = |x: usize, at: f64| {
            let rows = &self.rows.rows[KINDS * x..KINDS * (x + 1)];
            let (start, length) = (self.start[KINDS * x], rows[1].duration + rows[2].duration);
            let end = self.start[KINDS * x + 1] + length;
            let turns = |from: f64| ((at - from) / period + ROUNDING).floor();
            let in_flight = |k: usize| (turns(start + spacing * k as f64) - turns(end + spacing * k as f64)).max(0.0);
            (rows[0].takes + rows[0].frees) * (0..burst).map(in_flight).sum::<f64>()
        };
        let of = |(stages, room): (&Vec<usize>, &f64)| {
            let of_stage = |x: &usize| {
                let starts = (0..burst).map(|k| self.start[KINDS * x] + spacing * k as f64);
                starts.map(|at| stages.iter().map(|y| held(*y, at)).sum::<f64>() / room).fold(0.0, f64::max)
            };
            stages.iter().map(of_stage).fold(0.0, f64::max)
        };
        self.stages.iter().zip(&self.memory).map(of).fold(0.0, f64::max)
    }
}

/// The earliest start from `wanted` on at which `[start, start + length)` is free modulo the period, which it then takes;
/// `wanted` itself where there is no such start: the order remains, and passes wait for each other.
fn free_from(taken: &mut Vec<(f64, f64)>, wanted: f64, length: f64, period: f64) -> f64 {
    let slack = ROUNDING * period;
    if length <= slack {
        return wanted;
    }
    let phase = wanted.rem_euclid(period);
    let base = wanted - phase;
    let overlaps = |at: f64| {
        taken.iter().find(|(from, to)| {
            // Both intervals, and the second one a period later and earlier.
            [-period, 0.0, period].iter().any(|by| at + slack < to + by && from + by + slack < at + length)
        })
    };
    // Starts worth trying: the wanted one and the ends of what is taken, in the order of time from there.
    let mut ends: Vec<f64> = taken.iter().map(|(_, to)| (to - phase).rem_euclid(period)).collect();
    ends.push(0.0);
    ends.sort_by(f64::total_cmp);
    let found = ends.into_iter().find(|after| overlaps((phase + after).rem_euclid(period)).is_none());
    let start = base + phase + found.unwrap_or(0.0);
    if found.is_some() {
        let from = start.rem_euclid(period);
        taken.push((from, from + length));
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::decode::{Decoded, Decoder};

    fn times(placement: &Placement, costs: &Costs, m: usize, block: &Block) -> Option<Decoded> {
        let split = Backward::Split;
        let guide = Unroller::new(placement, &[], costs, m, split).expect("one route").unroll(block);
        Decoder::new(placement, &[], costs, m, split).expect("costs fit").follow(guide).ok()
    }

    fn plain(stages: usize) -> Block {
        Block { burst: 1, period: 1.0, waits: vec![0.0; 3 * stages], hold: 0.0, due: u32::MAX }
    }

    #[test]
    fn without_waits_a_loop_is_as_tight_as_the_pipeline_allows() {
        // F, B and W of one unit each, unlimited memory: every device is busy from its first pass on.
        let (p, m) = (4, 12);
        let placement = Placement::looped(p, 1);
        let costs = Costs::table(&placement, &[], 1.0, 1.0, 1.0, 0.0);
        let times = times(&placement, &costs, m, &plain(p)).expect("it runs");
        assert!(times.makespan <= (3 * m + 3 * (p - 1)) as f64 + 1e-9, "{times:?}");
    }

    #[test]
    fn every_block_runs_where_memory_is_free() {
        for (p, v, m) in [(1, 1, 1), (2, 2, 3), (4, 2, 7), (3, 3, 2)] {
            for map in [Placement::looped(p, v), Placement::wave(p, v)] {
                let costs = Costs::table(&map, &[], 1.0, 1.3, 0.6, 0.2);
                let waits: Vec<f64> = (0..3 * p * v).map(|row| (row * 7 % 5) as f64 * 0.3).collect();
                for (burst, period, hold, due) in
                    [(0, 0.0, 0.0, 1), (2, 1.0, 0.5, 2), (3, 1.1, 2.0, u32::MAX), (9, 3.0, 0.0, 4)]
                {
                    let block = Block { burst, period, waits: waits.clone(), hold, due };
                    assert!(times(&map, &costs, m, &block).is_some(), "{p} {v} {m} {burst} {period}");
                }
            }
        }
    }

    #[test]
    fn the_period_grows_until_activations_fit() {
        let p = 4;
        let placement = Placement::looped(p, 1);
        for limit in 1..=4 * p {
            let costs = Costs::table(&placement, &[], 1.0, 1.0, 1.0, 0.0).with_limit(limit as f64);
            let mut unroller = Unroller::new(&placement, &[], &costs, 40, Backward::Split).expect("one route");
            let period = unroller.least_period(&plain(p), 1, 3.0);
            unroller.place(&plain(p), period);
            assert!(unroller.excess(period, period, 1) <= 1.0, "limit {limit}: {period}");
            // Memory is lifespan over period (Qi 2024): the first device holds an activation for at least 2p + 1 units.
            let least = (3.0f64).max((2 * p + 1) as f64 / limit as f64);
            assert!(period >= least * (1.0 - 1e-9), "limit {limit}: {period}");
            assert!(limit < 4 * p || period == 3.0, "with ample memory work alone decides: {period}");
            assert!(times(&placement, &costs, 40, &plain(p)).is_some(), "limit {limit}");
        }
    }
}
