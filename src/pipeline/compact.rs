//! Compaction of a building block: the actions of a periodic pattern are moved as early as dependencies and the
//! pattern's own peak of memory allow, weight passes fill the gaps.
//!
//! The greedy of "Pipeline parallelism with controllable memory" (Qi 2024, arXiv 2405.15362, section 4 and the
//! authors' published scheduler, read 2026-11): squeeze warm-up and cool-down with weight passes in place; then, with
//! them taken out again, the cool-down once more; then deal the weight passes to the gaps, last chunk first. One slot is
//! one pass; a forward takes one unit of memory until its weight pass.

use super::action::{Action, Pass, Step};
use super::placement::Placement;

/// Slots of one device: forwards by chunk, then backwards from the last chunk to the first; increasing in each row.
type Rows = Vec<Vec<usize>>;

/// Compacts the pattern of every device (slot and action; forwards and backwards only) into orders.
///
/// # Errors
/// A text that says what the pattern should be.
pub(super) fn compact(
    placement: &Placement,
    m: usize,
    slots: Vec<Vec<(i64, Action)>>,
) -> Result<Vec<Vec<Step>>, String> {
    let chunks = placement.stages() / placement.devices();
    if placement.routes() != 1 || (0..placement.devices()).any(|d| placement.chunks(d).count() != chunks) {
        return Err("one route and equally many chunks on every device".to_owned());
    }
    let grid = Grid::new(placement, m, chunks);
    let mut rows = grid.rows(slots)?;
    grid.check(&rows)?;
    grid.squeeze(&mut rows, true);
    grid.squeeze(&mut rows, false);
    Ok(rows.iter().enumerate().map(|(d, rows)| grid.order(d, rows)).collect())
}

struct Grid<'a> {
    placement: &'a Placement,
    m: usize,
    chunks: usize,
    /// Device and chunk of each stage.
    home: Vec<(usize, usize)>,
    /// Stages of each device.
    stages: Vec<Vec<usize>>,
}

impl<'a> Grid<'a> {
    fn new(placement: &'a Placement, m: usize, chunks: usize) -> Self {
        let stages: Vec<Vec<usize>> = (0..placement.devices()).map(|d| placement.chunks(d).collect()).collect();
        let mut home = vec![(0, 0); placement.stages()];
        for (d, stages) in stages.iter().enumerate() {
            for (chunk, &stage) in stages.iter().enumerate() {
                home[stage] = (d, chunk);
            }
        }
        Self { placement, m, chunks, home, stages }
    }

    fn row(&self, pass: Pass, chunk: usize) -> usize {
        if pass == Pass::F { chunk } else { 2 * self.chunks - 1 - chunk }
    }

    fn rows(&self, slots: Vec<Vec<(i64, Action)>>) -> Result<Vec<Rows>, String> {
        let mut all = Vec::with_capacity(slots.len());
        for (device, slots) in slots.into_iter().enumerate() {
            let mut rows = vec![vec![usize::MAX; self.m]; 2 * self.chunks];
            for (slot, action) in slots {
                let row = match action.pass {
                    Pass::F | Pass::B => self.row(action.pass, self.home[action.stage as usize].1),
                    other => return Err(format!("only F and B in slots (device {device} has {})", other.name())),
                };
                let slot = usize::try_from(slot).map_err(|_| format!("slots from 0 (device {device} has {slot})"))?;
                rows[row][action.microbatch as usize] = slot;
            }
            if rows.iter().flatten().any(|slot| *slot == usize::MAX) {
                return Err(format!("every F and B of device {device} in a slot"));
            }
            all.push(rows);
        }
        Ok(all)
    }

    /// Where the input of a pass is made: the same micro-batch of this device and row.
    fn input(&self, device: usize, row: usize) -> Option<(usize, usize)> {
        if row < self.chunks {
            let stage = self.placement.previous(self.stages[device][row])?;
            let (device, chunk) = self.home[stage];
            Some((device, self.row(Pass::F, chunk)))
        } else {
            let stage = self.stages[device][2 * self.chunks - 1 - row];
            let (pass, stage) = self.placement.next(stage).map_or((Pass::F, stage), |next| (Pass::B, next));
            let (device, chunk) = self.home[stage];
            Some((device, self.row(pass, chunk)))
        }
    }

    fn check(&self, all: &[Rows]) -> Result<(), String> {
        for (device, rows) in all.iter().enumerate() {
            let mut used: Vec<usize> = rows.iter().flatten().copied().collect();
            used.sort_unstable();
            if let Some(pair) = used.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(format!("one action per slot (device {device} has two in slot {})", pair[0]));
            }
            for (row, slots) in rows.iter().enumerate() {
                let late = |i: &usize| self.input(device, row).is_some_and(|(d, r)| all[d][r][*i] >= slots[*i]);
                if slots.windows(2).any(|pair| pair[0] >= pair[1]) || (0..self.m).any(|i| late(&i)) {
                    return Err(format!("micro-batches in order and inputs in earlier slots (device {device})"));
                }
            }
        }
        Ok(())
    }

    /// One pass of the greedy. `with_weights` moves everything of the warm-up and the cool-down, weight passes
    /// included; without, only the cool-down moves and weight passes are thought to fill the gaps.
    fn squeeze(&self, all: &mut [Rows], with_weights: bool) {
        let weight_row = 2 * self.chunks;
        if with_weights {
            for rows in all.iter_mut() {
                let weights = self.weights_in_gaps(rows, 1);
                rows.extend(weights);
            }
        }
        let memory = |rows: &Rows| self.memory(rows);
        let limit = all.iter().flat_map(|rows| memory(rows).into_iter().max()).max().unwrap_or(0);
        let mut held: Vec<Vec<i64>> = all.iter().map(|rows| self.memory(rows)).collect();
        let mut taken: Vec<Vec<bool>> = held.iter().map(|held| vec![false; held.len()]).collect();
        let (mut warm_up, mut steady) = (true, false);
        for (now, device, row, i) in in_order(all) {
            if row + 1 == weight_row && device == 0 && warm_up {
                (warm_up, steady) = (false, true);
            }
            if steady || (warm_up && !with_weights) {
                taken[device][now] = true;
                // The steady state ends with the last forward of a first chunk.
                steady = steady && !(row == 0 && i + 1 == self.m);
                continue;
            }
            let earliest = self.earliest(all, device, row, i);
            let free = (earliest..now).filter(|slot| !taken[device][*slot]);
            let slot = if with_weights {
                let rise = if row < self.chunks { 1 } else { 0 };
                let blocked = (earliest..now).rev().find(|slot| held[device][*slot] + rise > limit);
                let from = blocked.map_or(earliest, |slot| slot + 1);
                free.filter(|slot| *slot >= from || rise == 0).min()
            } else {
                let mut trial = all[device].clone();
                free.into_iter().find(|slot| {
                    trial[row][i] = *slot;
                    self.memory(&trial).into_iter().all(|held| held <= limit)
                })
            };
            let slot = slot.unwrap_or(now);
            all[device][row][i] = slot;
            taken[device][slot] = true;
            if with_weights {
                let change = if row < self.chunks {
                    1
                } else if row == weight_row {
                    -1
                } else {
                    0
                };
                held[device][slot..now].iter_mut().for_each(|held| *held += change);
            }
        }
        if !with_weights {
            for rows in all.iter_mut() {
                let weights = self.weights_in_gaps(rows, 1);
                rows.extend(weights);
            }
        }
        self.close_gaps(all);
        all.iter_mut().for_each(|rows| rows.truncate(weight_row));
    }

    /// First slot after what a pass needs.
    fn earliest(&self, all: &[Rows], device: usize, row: usize, i: usize) -> usize {
        let rows = &all[device];
        let own = if i > 0 { rows[row][i - 1] + 1 } else { 0 };
        let input = if row == 2 * self.chunks {
            let mut backwards: Vec<usize> = rows[self.chunks..2 * self.chunks].iter().flatten().copied().collect();
            backwards.select_nth_unstable(i);
            Some(backwards[i])
        } else {
            self.input(device, row).map(|(d, r)| all[d][r][i])
        };
        own.max(input.map_or(0, |slot| slot + 1))
    }

    /// Weight passes in the gaps between forwards and backwards, as early as possible; dealt to `kinds` rows, of which
    /// earlier ones go first.
    fn weights_in_gaps(&self, rows: &Rows, kinds: usize) -> Rows {
        let mut weights = vec![Vec::new(); kinds];
        let mut due = vec![0usize; kinds];
        let events = events(rows);
        let last = events.last().map_or(0, |(slot, _)| *slot);
        let mut next = events.iter().peekable();
        for slot in 0..=last {
            if let Some((_, row)) = next.next_if(|(at, _)| *at == slot) {
                if let Some(kind) = row.checked_sub(self.chunks) {
                    due[kind.min(kinds - 1)] += 1;
                }
            } else if let Some(kind) = due.iter().position(|due| *due > 0) {
                weights[kind].push(slot);
                due[kind] -= 1;
            }
        }
        let mut slot = last;
        for (weights, due) in weights.iter_mut().zip(due) {
            weights.extend((slot + 1..).take(due));
            slot += due;
        }
        weights
    }

    /// Memory after each slot. Without weight rows, a gap frees what is due.
    fn memory(&self, rows: &Rows) -> Vec<i64> {
        let events = events(rows);
        let last = events.last().map_or(0, |(slot, _)| *slot);
        let (mut held, mut due) = (0, 0);
        let mut next = events.iter().peekable();
        let after = (0..=last).map(|slot| {
            match next.next_if(|(at, _)| *at == slot) {
                Some((_, row)) if *row < self.chunks => held += 1,
                Some((_, row)) if *row >= 2 * self.chunks => held -= 1,
                Some(_) => due += 1,
                None if rows.len() == 2 * self.chunks && due > 0 => {
                    held -= 1;
                    due -= 1;
                }
                None => {}
            }
            held
        });
        after.collect()
    }

    /// Keeps every order and moves all as early as inputs allow.
    fn close_gaps(&self, all: &mut [Rows]) {
        let mut next = vec![0usize; all.len()];
        for (_, device, row, i) in in_order(all) {
            let input =
                if row < 2 * self.chunks { self.input(device, row).map(|(d, r)| all[d][r][i] + 1) } else { None };
            let slot = next[device].max(input.unwrap_or(0));
            all[device][row][i] = slot;
            next[device] = slot + 1;
        }
    }

    fn order(&self, device: usize, rows: &Rows) -> Vec<Step> {
        let mut rows = rows.clone();
        let weights = self.weights_in_gaps(&rows, self.chunks);
        rows.extend(weights);
        let mut counts = vec![0; rows.len()];
        let step = |(_, row): (usize, usize)| {
            let (pass, chunk) = match row / self.chunks {
                0 => (Pass::F, row),
                1 => (Pass::B, 2 * self.chunks - 1 - row),
                _ => (Pass::W, 3 * self.chunks - 1 - row),
            };
            counts[row] += 1;
            Step::One(Action::new(pass, self.stages[device][chunk], counts[row] - 1))
        };
        events(&rows).into_iter().map(step).collect()
    }
}

/// Slot and row of everything, in order.
fn events(rows: &Rows) -> Vec<(usize, usize)> {
    let mut events: Vec<(usize, usize)> =
        rows.iter().enumerate().flat_map(|(row, slots)| slots.iter().map(move |slot| (*slot, row))).collect();
    events.sort_unstable();
    events
}

/// Slot, device, row and index of everything on all devices, in that order.
fn in_order(all: &[Rows]) -> Vec<(usize, usize, usize, usize)> {
    let mut order = Vec::new();
    for (device, rows) in all.iter().enumerate() {
        for (row, slots) in rows.iter().enumerate() {
            order.extend(slots.iter().enumerate().map(|(i, slot)| (*slot, device, row, i)));
        }
    }
    order.sort_unstable();
    order
}
