//! 1F1B on a V of two chunks with whole backwards: two thirds of 1F1B's memory (Qi 2024, "Pipeline parallelism with
//! controllable memory", the building block "V-ZB without split"; the authors' published scheduler at commit 39f2c186,
//! read 2026-11).
//!
//! A pattern of six slots per micro-batch (two forwards of one slot, two backwards of two slots each), then every pass
//! moves as early as its inputs and the pattern's peak of memory allow.

use crate::pipeline::PipelineError;
use crate::pipeline::action::{Action, Pass, Step};
use crate::pipeline::placement::Placement;
use crate::pipeline::schedule::Schedule;

/// Rows: first and second forward, first and second backward, and the second slots of the backwards.
const ROWS: usize = 6;

/// Schedules `m` micro-batches on `p` devices.
///
/// # Errors
/// [`PipelineError::Unsupported`] when there is nothing to schedule.
pub fn v_1f1b(p: usize, m: usize) -> Result<Schedule, PipelineError> {
    if p == 0 || m == 0 {
        let why = "needs a device and a micro-batch".to_owned();
        return Err(PipelineError::Unsupported { schedule: "v_1f1b".to_owned(), why });
    }
    let mut grid = Grid::new(p, m);
    grid.move_early();
    let orders = (0..p).map(|d| grid.order(d)).collect();
    Ok(Schedule::new("v_1f1b", Placement::vee(p), m, orders))
}

/// First slot of every row on every device.
fn pattern(p: usize) -> Vec<[usize; ROWS]> {
    let mut first = vec![[0; ROWS]; p];
    for (d, first) in first.iter_mut().enumerate() {
        first[0] = d;
        first[1] = 2 * p - 1 - d;
    }
    let mut slot = 2 * p + if p.is_multiple_of(3) { 3 } else { 0 };
    // After every third backward the pattern leaves three slots, so that devices do not collide.
    let mut since = (3 - (p + 2) % 3) % 3;
    for (row, d) in (0..p).map(|d| (2, d)).chain((0..p).rev().map(|d| (3, d))) {
        (first[d][row], first[d][row + 2]) = (slot, slot + 1);
        since += 1;
        slot += 2;
        if since == 3 {
            since = 0;
            slot += 3;
        }
    }
    first
}

struct Grid {
    p: usize,
    m: usize,
    /// What each slot of each device holds: row and micro-batch.
    slots: Vec<Vec<Option<(usize, usize)>>>,
    /// Slot of each device, row and micro-batch.
    place: Vec<Vec<Vec<usize>>>,
}

impl Grid {
    fn new(p: usize, m: usize) -> Self {
        let first = pattern(p);
        let length = first.iter().flatten().max().map_or(0, |slot| slot + 6 * m);
        let mut slots = vec![vec![None; length]; p];
        let mut place = vec![vec![Vec::new(); ROWS]; p];
        for d in 0..p {
            for row in 0..ROWS {
                for i in 0..m {
                    let slot = first[d][row] + 6 * i;
                    slots[d][slot] = Some((row, i));
                    place[d][row].push(slot);
                }
            }
        }
        Self { p, m, slots, place }
    }

    /// Where the input of a pass is made: device and row.
    fn input(&self, d: usize, row: usize) -> Option<(usize, usize)> {
        match row {
            0 => d.checked_sub(1).map(|before| (before, 0)),
            1 if d + 1 < self.p => Some((d + 1, 1)),
            1 => Some((d, 0)),
            // A backward is done with its second slot.
            2 if d > 0 => Some((d - 1, 4)),
            2 => Some((d, 1)),
            3 if d + 1 < self.p => Some((d + 1, 5)),
            3 => Some((d, 4)),
            _ => Some((d, row - 2)),
        }
    }

    fn move_early(&mut self) {
        let mut memory: Vec<Vec<i64>> = self.slots.iter().map(|slots| memory_after(slots)).collect();
        let peak = memory.iter().flatten().copied().max().unwrap_or(0);
        for now in 0..self.slots[0].len() {
            for (d, memory) in memory.iter_mut().enumerate() {
                let Some((row, i)) = self.slots[d][now] else { continue };
                let own = i.checked_sub(1).map(|before| self.place[d][row][before]);
                let input = self.input(d, row).map(|(device, row)| self.place[device][row][i]);
                let earliest = own.max(input).map_or(0, |slot| slot + 1);
                let slot = match row {
                    0 | 1 => {
                        let full = (earliest..now).rev().find(|slot| memory[*slot] >= peak);
                        let from = full.map_or(earliest, |slot| slot + 1);
                        (from..now).find(|slot| self.slots[d][*slot].is_none())
                    }
                    2 | 3 => {
                        (earliest..now).find(|slot| self.slots[d][*slot].is_none() && self.slots[d][slot + 1].is_none())
                    }
                    _ => (earliest..now).find(|slot| self.slots[d][*slot].is_none()),
                };
                let Some(slot) = slot else { continue };
                self.slots[d][slot] = self.slots[d][now].take();
                self.place[d][row][i] = slot;
                let change = i64::from(row < 2) - i64::from(row > 3);
                memory[slot..now].iter_mut().for_each(|held| *held += change);
            }
        }
    }

    fn order(&self, d: usize) -> Vec<Step> {
        let step = |&(row, i): &(usize, usize)| {
            let stage = if row == 0 || row == 3 { d } else { 2 * self.p - 1 - d };
            let pass = if row < 2 { Pass::F } else { Pass::BW };
            (row < 4).then(|| Step::One(Action::new(pass, stage, i)))
        };
        let order: Vec<Step> = self.slots[d].iter().flatten().filter_map(step).collect();
        debug_assert_eq!(order.len(), 4 * self.m);
        order
    }
}

/// Activations held after each slot.
fn memory_after(slots: &[Option<(usize, usize)>]) -> Vec<i64> {
    let mut held = 0;
    let after = slots.iter().map(|slot| {
        held += match slot {
            Some((0 | 1, _)) => 1,
            Some((4 | 5, _)) => -1,
            _ => 0,
        };
        held
    });
    after.collect()
}
