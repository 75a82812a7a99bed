//! Exact event simulation, without an event queue: the schedules are regular, so their actions can be visited in an
//! order in which every input is known.
//!
//! 1F1B: iteration `i` visits the devices in order; device `s` runs backward `i - (p - s)`, then forward `i`.
//! Interleaved 1F1B: iteration `t` visits backward `t - C + d` on every device `d`, `C = 2(p-1) + (v-1)g + 1`, then
//! forward `t - d`; every input was made in an earlier iteration if groups have at least `p` micro-batches. Smaller
//! groups are simulated by visiting the devices until none can go on.
//!
//! Beyond [`STEADY`] micro-batches the steady state only repeats itself: the rate between two shorter runs that end alike
//! continues it to a few parts in a million (a max-plus linear system is periodic after a transient; Baccelli et al. 1992, theorem 3.28).

use super::order::Order;
use super::{DeviceTime, Kind, StageTimes, Timeline, TimingError, check};

/// Micro-batches that are simulated one by one; there must also be this many times as many as devices before any are not.
pub const STEADY: usize = 1 << 14;
const PER_DEVICE: usize = 64;

/// The lengths of two runs that end as `m` micro-batches do, the longer first, where `m` is beyond simulating.
fn shorter(kind: Kind, p: usize, m: usize) -> Option<(usize, usize)> {
    let group = match kind {
        Kind::Gpipe => return None,
        Kind::OneF1B => 1,
        Kind::Interleaved { group } => group,
    };
    // Whole groups and whole turns of the devices.
    let step = group.checked_mul(p)?;
    let rounds = STEADY.max(PER_DEVICE * p).div_ceil(step).max(2);
    let rest = m % step;
    let long = rounds.checked_mul(step)?.checked_add(rest)?;
    (long < m).then(|| (long, rounds / 2 * step + rest))
}

/// Simulates; keeps its buffers, so that a further run of the same size allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct Simulator {
    timeline: Timeline,
    clock: Vec<f64>,
    forward_ready: Vec<f64>,
    backward_ready: Vec<f64>,
    forward_wrap: Vec<f64>,
    backward_wrap: Vec<f64>,
    chunk_base: Vec<usize>,
}

/// One simulation; see [`Simulator`] for many.
///
/// # Errors
/// See [`Simulator::run`].
pub fn simulate(kind: Kind, p: usize, v: usize, m: usize, times: &StageTimes) -> Result<Timeline, TimingError> {
    let mut simulator = Simulator::default();
    simulator.run(kind, p, v, m, times)?;
    Ok(simulator.timeline)
}

impl Simulator {
    /// Runs `m` micro-batches through `p` devices with `v` chunks each.
    ///
    /// # Errors
    /// [`TimingError`]: counts of zero, lists of the wrong length, times that are no times, an order that deadlocks.
    pub fn run(
        &mut self,
        kind: Kind,
        p: usize,
        v: usize,
        m: usize,
        times: &StageTimes,
    ) -> Result<&Timeline, TimingError> {
        check(kind, p, v, m, times)?;
        match shorter(kind, p, m) {
            None => self.clocks(kind, p, v, m, times)?,
            Some((long, short)) => {
                self.clocks(kind, p, v, short, times)?;
                let before = self.clock.clone();
                self.clocks(kind, p, v, long, times)?;
                let more = (m - long) as f64 / (long - short) as f64;
                for (clock, before) in self.clock.iter_mut().zip(before) {
                    *clock += more * (*clock - before);
                }
            }
        }
        self.timeline.devices.clear();
        self.timeline.devices.resize(p, DeviceTime::default());
        let makespan = self.clock.iter().copied().fold(0.0, f64::max);
        self.timeline.makespan = makespan;
        let mut first = 0.0;
        for d in 0..p {
            let work: f64 = (d..p * v).step_by(p).map(|x| times.forward[x] + times.backward[x]).sum();
            let device = &mut self.timeline.devices[d];
            device.first_start = first;
            device.last_end = self.clock[d];
            device.busy = m as f64 * work;
            device.bubble = if makespan > 0.0 { 1.0 - device.busy / makespan } else { 0.0 };
            // Micro-batch 0 is the first action of every device, so its first start is known.
            first += times.forward[d] + times.hop_forward.get(d).copied().unwrap_or(0.0);
        }
        Ok(&self.timeline)
    }

    /// When every device ends its last backward.
    fn clocks(&mut self, kind: Kind, p: usize, v: usize, m: usize, times: &StageTimes) -> Result<(), TimingError> {
        reset(&mut self.clock, p, 0.0);
        match Order::new(kind, p, v, m) {
            None => self.breadth_first(p, v, m, times),
            Some(_) if kind == Kind::OneF1B => self.one_f1b(p, m, times),
            Some(order) if order.is_wavefront() => self.interleaved(&order, times),
            Some(order) => self.by_turns(&order, times)?,
        }
        Ok(())
    }

    fn breadth_first(&mut self, p: usize, v: usize, m: usize, times: &StageTimes) {
        reset(&mut self.forward_ready, m, 0.0);
        let ready = &mut self.forward_ready[..m];
        let stages = p * v;
        for x in 0..stages {
            pass(&mut self.clock[x % p], ready, times.forward[x], times.hop_forward.get(x).copied().unwrap_or(0.0));
        }
        ready.fill(0.0);
        for x in (0..stages).rev() {
            let hop = if x > 0 { times.hop_backward[x - 1] } else { 0.0 };
            pass(&mut self.clock[x % p], ready, times.backward[x], hop);
        }
    }

    fn one_f1b(&mut self, p: usize, m: usize, times: &StageTimes) {
        reset(&mut self.backward_ready, p + 1, 0.0);
        reset(&mut self.forward_ready, 2 * p, 0.0);
        // Hops padded to one per device: forward hops first, then the hop that a backward of device `s` takes.
        let (hop_forward, hop_backward) = self.forward_ready.split_at_mut(p);
        hop_forward[..p - 1].copy_from_slice(&times.hop_forward[..p - 1]);
        hop_backward[1..].copy_from_slice(&times.hop_backward[..p - 1]);
        let (clock, ready) = (&mut self.clock[..p], &mut self.backward_ready[..=p]);
        let (f, b) = (&times.forward[..p], &times.backward[..p]);
        for i in 0..m + p {
            let first_backward = p.saturating_sub(i);
            if i < m {
                let mut arrived = 0.0;
                for s in 0..first_backward {
                    clock[s] = later(clock[s], arrived) + f[s];
                    arrived = clock[s] + hop_forward[s];
                }
                for s in first_backward..p {
                    let done = later(clock[s], ready[s + 1]) + b[s];
                    ready[s] = done + hop_backward[s];
                    clock[s] = later(done, arrived) + f[s];
                    arrived = clock[s] + hop_forward[s];
                }
            } else {
                for s in first_backward..(m + p - i) {
                    clock[s] = later(clock[s], ready[s + 1]) + b[s];
                    ready[s] = clock[s] + hop_backward[s];
                }
            }
        }
    }

    #[expect(clippy::needless_range_loop, reason = "many arrays run along the devices, over ranges that may be empty")]
    fn interleaved(&mut self, order: &Order, times: &StageTimes) {
        let (p, v, total) = (order.p, order.v, order.total());
        let last_base = (v - 1) * p;
        let lead = order.nominal_warmup(0) + 1;
        self.chunk_base.clear();
        self.chunk_base.extend((0..total).map(|k| order.chunk(k) * p));
        reset(&mut self.forward_ready, p + 1, 0.0);
        reset(&mut self.backward_ready, p + 1, 0.0);
        reset(&mut self.forward_wrap, total, 0.0);
        reset(&mut self.backward_wrap, total, 0.0);
        let (base, clock) = (&self.chunk_base[..total], &mut self.clock[..p]);
        let (f, b) = (&times.forward[..], &times.backward[..]);
        let (hf, hb) = (&times.hop_forward[..], &times.hop_backward[..]);
        for t in 0..total + lead {
            for d in lead.saturating_sub(t)..p.min(total + lead - t) {
                let j = t + d - lead;
                let x = last_base - base[j] + d;
                let arrived = if d + 1 < p {
                    self.backward_ready[d + 1]
                } else if base[j] == 0 {
                    0.0
                } else {
                    self.backward_wrap[j - order.group_at(j)]
                };
                clock[d] = later(clock[d], arrived) + b[x];
                let sent = if x > 0 { clock[d] + hb[x - 1] } else { clock[d] };
                self.backward_ready[d] = sent;
                if d == 0 {
                    self.backward_wrap[j] = sent;
                }
            }
            for d in ((t + 1).saturating_sub(total)..p.min(t + 1)).rev() {
                let k = t - d;
                let x = base[k] + d;
                let arrived = if d > 0 {
                    self.forward_ready[d]
                } else if base[k] == 0 {
                    0.0
                } else {
                    self.forward_wrap[k - order.group_at(k)]
                };
                clock[d] = later(clock[d], arrived) + f[x];
                let sent = clock[d] + hf.get(x).copied().unwrap_or(0.0);
                self.forward_ready[d + 1] = sent;
                if d + 1 == p {
                    self.forward_wrap[k] = sent;
                }
            }
        }
    }

    /// The general case: devices take turns, each going on until its next input is unknown.
    fn by_turns(&mut self, order: &Order, times: &StageTimes) -> Result<(), TimingError> {
        let (p, v, m, total) = (order.p, order.v, order.m, order.total());
        // Arrival of the input of each pass, by stage and micro-batch.
        reset(&mut self.forward_ready, p * v * m, f64::INFINITY);
        reset(&mut self.backward_ready, p * v * m, f64::INFINITY);
        self.forward_ready[..m].fill(0.0);
        let mut next = vec![(0usize, 0usize); p];
        loop {
            let (mut moved, mut finished) = (false, true);
            for (d, (forwards, backwards)) in next.iter_mut().enumerate() {
                let warmup = order.warmup(d);
                while *backwards < total {
                    if *forwards < total && *forwards <= warmup + *backwards {
                        let (x, i) = (order.chunk(*forwards) * p + d, order.microbatch(*forwards));
                        let arrived = self.forward_ready[x * m + i];
                        if arrived == f64::INFINITY {
                            break;
                        }
                        self.clock[d] = later(self.clock[d], arrived) + times.forward[x];
                        if x + 1 < p * v {
                            self.forward_ready[(x + 1) * m + i] = self.clock[d] + times.hop_forward[x];
                        } else {
                            self.backward_ready[x * m + i] = self.clock[d];
                        }
                        *forwards += 1;
                    } else {
                        let (x, i) = ((v - 1 - order.chunk(*backwards)) * p + d, order.microbatch(*backwards));
                        let arrived = self.backward_ready[x * m + i];
                        if arrived == f64::INFINITY {
                            break;
                        }
                        self.clock[d] = later(self.clock[d], arrived) + times.backward[x];
                        if x > 0 {
                            self.backward_ready[(x - 1) * m + i] = self.clock[d] + times.hop_backward[x - 1];
                        }
                        *backwards += 1;
                    }
                    moved = true;
                }
                finished &= *backwards == total;
            }
            if finished {
                return Ok(());
            }
            if !moved {
                let (devices, chunks, microbatches) = (p, v, m);
                return Err(TimingError::Deadlock { devices, chunks, microbatches, group: order.group });
            }
        }
    }
}

/// One stage runs one pass of every micro-batch in order.
fn pass(clock: &mut f64, ready: &mut [f64], duration: f64, hop: f64) {
    for at in ready {
        *clock = later(*clock, *at) + duration;
        *at = *clock + hop;
    }
}

/// Maximum of two numbers neither of which is NaN; one instruction, unlike `f64::max`.
fn later(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

fn reset(buffer: &mut Vec<f64>, length: usize, value: f64) {
    buffer.clear();
    buffer.resize(length, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_steady_state_a_run_is_continued_as_if_simulated() {
        for (kind, p, v, m) in [
            (Kind::OneF1B, 4, 1, 40_003),
            (Kind::OneF1B, 7, 1, 50_000),
            (Kind::Interleaved { group: 4 }, 4, 3, 40_000),
            (Kind::Interleaved { group: 6 }, 6, 2, 60_000),
        ] {
            let mut times = StageTimes::uniform(p * v, 1.0, 2.0);
            for (x, t) in times.forward.iter_mut().chain(&mut times.backward).enumerate() {
                *t *= 1.0 + 0.37 * ((x * 7919) % 11) as f64 / 11.0;
            }
            times.hop_forward.iter_mut().chain(&mut times.hop_backward).for_each(|t| *t = 0.45);
            let continued = simulate(kind, p, v, m, &times).unwrap();
            let mut whole = Simulator::default();
            whole.clocks(kind, p, v, m, &times).unwrap();
            let makespan = whole.clock.iter().copied().fold(0.0, f64::max);
            assert!((continued.makespan / makespan - 1.0).abs() < 1e-5, "{kind:?} {}, {makespan}", continued.makespan);
        }
    }
}
