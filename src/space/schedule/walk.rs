//! A walk over explicit orders: simulated annealing with moves that know where the idle time is.
//!
//! Kirkpatrick, Gelatt and Vecchi 1983, "Optimization by simulated annealing"; the bar that a step must pass is drawn
//! before it is timed, so that timing stops as soon as the step is known to fail it. Moves keep rows in order of
//! micro-batch: a pass into a gap, a pass elsewhere, two passes exchanged, a pass of every micro-batch by the same distance
//! (the middle of a schedule repeats), the same move on every device.

use super::question::Objective;
use crate::pipeline::evaluate::{Evaluator, Times};
use crate::search::stream::Stream;

/// How a walk goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Walk {
    /// Steps tried.
    pub steps: u32,
    /// Everything random follows from it.
    pub seed: u64,
}

/// Weight of the mean end of all devices beside the objective: it tells orders of one length apart.
const MEAN: f64 = 0.02;
/// Temperatures at the start, as shares of the mean pass, drawn log-uniformly between these; found by trying.
const HOTTEST: f64 = 0.4;
const COLDEST: f64 = 0.01;
/// Tries at finding a gap by drawing positions.
const LOOKS: usize = 12;

struct State<'a> {
    evaluator: &'a mut Evaluator,
    objective: Objective,
    orders: Vec<Vec<u32>>,
    starts: Vec<Vec<f64>>,
    trial: Vec<Vec<f64>>,
    counts: Vec<u32>,
    /// Orders of changed devices as they were.
    undo: Vec<(usize, Vec<u32>)>,
    stages_of_device: usize,
}

impl State<'_> {
    fn cost(&self, times: Times) -> f64 {
        match self.objective {
            Objective::Makespan => times.makespan + MEAN * times.mean_end,
            Objective::Span => times.span + MEAN * times.mean_span,
        }
    }

    fn time(&mut self, latest: f64) -> Option<Times> {
        self.evaluator.time(&self.orders, latest, self.objective == Objective::Span, &mut self.trial)
    }

    fn take_back(&mut self) {
        while let Some((device, order)) = self.undo.pop() {
            self.orders[device] = order;
        }
    }

    fn save(&mut self, device: usize) {
        if !self.undo.iter().any(|(d, _)| *d == device) {
            self.undo.push((device, self.orders[device].clone()));
        }
    }

    /// Idle time before a step of a device.
    fn gap(&self, device: usize, at: usize) -> f64 {
        let before = at.checked_sub(1);
        let free = before.map_or(0.0, |i| self.starts[device][i] + self.evaluator.duration(self.orders[device][i]));
        self.starts[device][at] - free
    }

    /// Changes the orders; whether anything changed.
    fn propose(&mut self, random: &mut Stream) -> bool {
        let devices = self.orders.len();
        let device = random.index(devices);
        let n = self.orders[device].len();
        if n < 2 {
            return false;
        }
        let reach = |random: &mut Stream, most: usize| {
            // Short distances more often: uniform below a uniform limit.
            let limit = 1 + random.index(most);
            1 + random.index(limit)
        };
        let far = (2 * self.stages_of_device * 3 + devices).min(n - 1);
        let kind = random.unit();
        let mut from = random.index(n);
        if kind < 0.35 {
            // Something later into a gap, or what stands before the gap to later.
            let Some(at) = (0..LOOKS).map(|_| random.index(n)).find(|at| self.gap(device, *at) > 1e-9) else {
                return false;
            };
            let distance = reach(random, far);
            return if random.chance(0.75) {
                from = (at + distance).min(n - 1);
                self.shift(device, from, at)
            } else {
                let Some(from) = at.checked_sub(distance) else { return false };
                self.shift(device, from, at)
            };
        }
        let distance = reach(random, far);
        let to = if random.chance(0.5) { from.saturating_sub(distance) } else { (from + distance).min(n - 1) };
        if kind < 0.65 {
            self.shift(device, from, to)
        } else if kind < 0.85 {
            let (a, b) = (self.orders[device][from], self.orders[device][to]);
            if a == b {
                return false;
            }
            self.save(device);
            self.orders[device].swap(from, to);
            true
        } else {
            let row = self.orders[device][from];
            let by = to as isize - from as isize;
            if kind < 0.95 {
                let first = self.orders[device][..from].iter().filter(|r| **r == row).count();
                let all = random.chance(0.5);
                self.shift_row(device, row, if all { 0 } else { first }, by)
            } else {
                // The same pass of the same chunk on every device: rows differ from device to device.
                let kind = row % 3;
                let occurrence = self.orders[device][..from].iter().filter(|r| **r % 3 == kind).count();
                let mut changed = false;
                for d in 0..devices {
                    let at = self.orders[d].iter().enumerate().filter(|(_, r)| **r % 3 == kind).nth(occurrence);
                    let Some((at, _)) = at else { continue };
                    let last = self.orders[d].len() - 1;
                    let to = at.saturating_add_signed(by).min(last);
                    changed |= self.shift(d, at, to);
                }
                changed
            }
        }
    }

    fn shift(&mut self, device: usize, from: usize, to: usize) -> bool {
        let order = &self.orders[device];
        let between = if from < to { &order[from..=to] } else { &order[to..=from] };
        if between.iter().all(|row| *row == order[from]) {
            return false;
        }
        self.save(device);
        let order = &mut self.orders[device];
        if from < to {
            order[from..=to].rotate_left(1)
        } else {
            order[to..=from].rotate_right(1)
        }
        true
    }

    /// Every occurrence of a row from the `first` on moves by the same distance.
    fn shift_row(&mut self, device: usize, row: u32, first: usize, by: isize) -> bool {
        self.save(device);
        let order = &mut self.orders[device];
        let places: Vec<usize> = (0..order.len()).filter(|i| order[*i] == row).skip(first).collect();
        let last = order.len() - 1;
        let mut move_one = |at: usize| {
            let to = at.saturating_add_signed(by).min(last);
            if at < to { order[at..=to].rotate_left(1) } else { order[to..=at].rotate_right(1) }
        };
        // Backwards when moving to later, so that places stay where they were found.
        if by > 0 {
            places.iter().rev().for_each(|at| move_one(*at))
        } else {
            places.iter().for_each(|at| move_one(*at))
        }
        true
    }
}

/// The best order that a walk from `orders` meets, never worse than `orders`. `evaluator` and `orders` must belong
/// together and run within memory.
pub fn walk(evaluator: &mut Evaluator, orders: &[Vec<u32>], objective: Objective, walk: Walk) -> Vec<Vec<u32>> {
    let starts: Vec<Vec<f64>> = orders.iter().map(|order| vec![0.0; order.len()]).collect();
    let passes = evaluator.passes().max(1);
    let work: f64 = (0..orders.len()).map(|d| evaluator.work(d)).sum();
    let stages_of_device = orders.iter().map(|o| o.iter().max().map_or(1, |r| *r as usize / 3 + 1)).max().unwrap_or(1);
    let mut state = State {
        evaluator,
        objective,
        orders: orders.to_vec(),
        trial: starts.clone(),
        starts,
        counts: Vec::new(),
        undo: Vec::new(),
        stages_of_device: (stages_of_device / orders.len().max(1)).max(1),
    };
    let Some(times) = state.time(f64::INFINITY) else { return orders.to_vec() };
    std::mem::swap(&mut state.starts, &mut state.trial);
    let mut now = state.cost(times);
    let mut random = Stream::new(walk.seed, 0, 0, 0);
    let hottest = work / passes as f64 * COLDEST * (HOTTEST / COLDEST).powf(random.unit());
    let (mut best, mut best_cost) = (state.orders.clone(), now);
    for step in 0..walk.steps {
        let temperature = hottest * (1.0 - f64::from(step) / f64::from(walk.steps));
        if !state.propose(&mut random) {
            state.take_back();
            continue;
        }
        let bar = now + temperature * -(1.0 - random.unit()).ln();
        let State { evaluator, orders, counts, undo, .. } = &mut state;
        let fits = undo.iter().all(|(d, _)| evaluator.fits(*d, &orders[*d], counts));
        let cost = if fits { state.time(bar).map(|times| state.cost(times)) } else { None };
        match cost.filter(|cost| *cost <= bar) {
            Some(cost) => {
                now = cost;
                state.undo.clear();
                std::mem::swap(&mut state.starts, &mut state.trial);
                if now < best_cost - 1e-12 * best_cost.abs() {
                    best_cost = now;
                    best.clone_from(&state.orders);
                }
            }
            None => state.take_back(),
        }
    }
    best
}
