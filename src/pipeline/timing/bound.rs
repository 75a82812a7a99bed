//! A closed form that no simulation of the same schedule undercuts: `O(p^2 + p v^2)` steps, whatever the number of
//! micro-batches.
//!
//! For every device: nothing before the first micro-batch arrives, all its work, nothing after its last backward but
//! the way of that gradient to stage 0; and in between, forced idle time. Between a forward and a backward of the same
//! micro-batch the data must travel to the last stage and back, but the fixed order lets only a known set of actions
//! run meanwhile; what these do not fill is idle. Such windows add up where they are disjoint in the order: one at the
//! start, one at the end, and in the steady state as many rings between two devices as fit. The critical path of one micro-batch bounds as well.
//! For GPipe with one chunk per device the two phases are flow shops of identical jobs and the form is exact.

use super::order::Order;
use super::{Kind, StageTimes, TimingError, check};

/// A lower bound on the makespan that [`super::Simulator`] finds, in seconds.
///
/// # Errors
/// [`TimingError`], as for the simulation (a deadlock excepted).
pub fn lower_bound(kind: Kind, p: usize, v: usize, m: usize, times: &StageTimes) -> Result<f64, TimingError> {
    check(kind, p, v, m, times)?;
    let paths = Paths::new(times, p * v);
    let one_microbatch = paths.forward + paths.backward;
    let bound = match Order::new(kind, p, v, m) {
        None => breadth_first(p, v, m, times, &paths),
        Some(order) => {
            let neighbours = Neighbours::new(p, v, times);
            let mut scratch = Scratch::default();
            let mut bound = one_microbatch;
            for d in 0..p {
                bound = bound.max(device(&order, d, times, &paths, &neighbours, &mut scratch));
            }
            bound
        }
    };
    // Both this form and the simulation round each of their additions by at most 2^-53 of the result.
    let additions = 2 * m * v + 8 * p * v + 16;
    Ok(bound * (1.0 - additions as f64 * f64::EPSILON))
}

/// Prefix sums along the way of a micro-batch.
struct Paths {
    /// `head[x]`: from the start of the first forward to the arrival at stage `x`.
    head: Vec<f64>,
    /// `tail[x]`: from the end of a backward on stage `x` to the end of that on stage 0.
    tail: Vec<f64>,
    /// All forwards and their hops.
    forward: f64,
    /// All backwards and their hops.
    backward: f64,
}

impl Paths {
    fn new(times: &StageTimes, stages: usize) -> Self {
        let prefix = |work: &[f64], hops: &[f64]| {
            let mut sums = Vec::with_capacity(stages);
            let mut sum = 0.0;
            for x in 0..stages {
                sums.push(sum);
                sum += work[x] + if x + 1 < stages { hops[x] } else { 0.0 };
            }
            (sums, sum)
        };
        let (head, forward) = prefix(&times.forward, &times.hop_forward);
        let (tail, backward) = prefix(&times.backward, &times.hop_backward);
        Self { head, tail, forward, backward }
    }

    /// Least time between the end of a forward on stage `x` and the start of the same micro-batch's backward on `y`.
    fn turnaround(&self, times: &StageTimes, x: usize, y: usize) -> f64 {
        (self.forward - self.head[x] - times.forward[x]) + (self.backward - self.tail[y] - times.backward[y])
    }
}

/// All forwards end on the last stage before the first backward starts there; each phase is bounded on its own.
fn breadth_first(p: usize, v: usize, m: usize, times: &StageTimes, paths: &Paths) -> f64 {
    let m = m as f64;
    let phase = |work: &[f64], total: f64, edges: &dyn Fn(usize) -> f64| {
        let slowest = work.iter().copied().fold(0.0, f64::max);
        let devices = (0..p).map(|d| m * (d..p * v).step_by(p).map(|x| work[x]).sum::<f64>() + edges(d));
        devices.fold(total + (m - 1.0) * slowest, f64::max)
    };
    let stages = p * v;
    let forward = phase(&times.forward[..stages], paths.forward, &|d| {
        let last = (v - 1) * p + d;
        paths.head[d] + paths.forward - paths.head[last] - times.forward[last]
    });
    let backward = phase(&times.backward[..stages], paths.backward, &|d| {
        let last = (v - 1) * p + d;
        paths.tail[d] + paths.backward - paths.tail[last] - times.backward[last]
    });
    forward + backward
}

/// Head, work, forced idle time and tail of device `d`.
fn device(
    order: &Order,
    d: usize,
    times: &StageTimes,
    paths: &Paths,
    neighbours: &Neighbours,
    scratch: &mut Scratch,
) -> f64 {
    let Order { p, v, m, .. } = *order;
    let (total, w) = (order.total(), order.warmup(d));
    let stage = |chunk: usize| chunk * p + d;
    let forwards = |k: usize| order.sum_until(k, |chunk| times.forward[stage(chunk)]);
    let backwards = |k: usize| order.sum_until(k, |chunk| times.backward[stage(v - 1 - chunk)]);
    // Idle time between forward `k` (chunk `from`) and backward `j` (chunk `to`) of one micro-batch.
    let idle = |k: usize, from: usize, j: usize, to: usize| {
        let busy = forwards(total.min(j + w + 1)) - forwards(k + 1) + backwards(j) - backwards(k.saturating_sub(w));
        (paths.turnaround(times, stage(from), stage(to)) - busy).max(0.0)
    };
    scratch.rings.clear();
    scratch
        .rings
        .extend((0..p).filter(|t| *t != d).map(|t| neighbours.ring(order, d, t)).filter(|ring| ring.idle > 0.0));
    scratch.last.clear();
    scratch.last.extend((0..v).map(|from| {
        let k = order.index(from, m - 1);
        (k, idle(k, from, total - 1, 0))
    }));
    let mut forced: f64 = 0.0;
    for to in 0..v {
        let j = order.index(v - 1 - to, 0);
        let first = idle(0, 0, j, to);
        for &(k, last) in &scratch.last {
            // In the order, backward `j` comes before forward `k`.
            let together = if j + w < k {
                let steady = scratch.rings.iter().map(|ring| ring.idle_between(j, k)).fold(0.0, f64::max);
                first + steady + last
            } else {
                first.max(last)
            };
            forced = forced.max(together);
        }
    }
    paths.head[d] + forwards(total) + backwards(total) + forced + paths.tail[d]
}

#[derive(Default)]
struct Scratch {
    rings: Vec<Ring>,
    /// Index and idle time of the windows at the end, by chunk.
    last: Vec<(usize, f64)>,
}

/// What rings are made of, by device.
struct Neighbours {
    /// Sum of the shortest forward and backward among the chunks of all devices before.
    shortest_before: Vec<f64>,
    /// Sum of the shortest hops, there and back, between all devices before.
    hops_before: Vec<f64>,
    /// Longest forward and backward among the chunks.
    longest: Vec<f64>,
}

impl Neighbours {
    fn new(p: usize, v: usize, times: &StageTimes) -> Self {
        let (mut shortest, mut hops) = (0.0, 0.0);
        let mut all = Self { shortest_before: vec![0.0], hops_before: vec![0.0], longest: Vec::with_capacity(p) };
        for d in 0..p {
            let over = |list: &[f64], pick: fn(f64, f64) -> f64| {
                (d..p * v).step_by(p).filter_map(|x| list.get(x).copied()).reduce(pick).unwrap_or(0.0)
            };
            let sum = |pick| over(&times.forward, pick) + over(&times.backward, pick);
            shortest += sum(f64::min);
            if d + 1 < p {
                hops += over(&times.hop_forward, f64::min) + over(&times.hop_backward, f64::min);
            }
            all.shortest_before.push(shortest);
            all.hops_before.push(hops);
            all.longest.push(sum(f64::max));
        }
        all
    }

    fn ring(&self, order: &Order, d: usize, t: usize) -> Ring {
        let (w, other) = (order.warmup(d), order.warmup(t));
        let (near, far) = (d.min(t), d.max(t));
        let others = if t > d { near + 1..far + 1 } else { near..far };
        let path = self.shortest_before[others.end] - self.shortest_before[others.start] + self.hops_before[far]
            - self.hops_before[near];
        let apart = w.abs_diff(other);
        let margin = if t > d { 2 * w + 1 - other } else { other };
        Ring { idle: (path - apart as f64 * self.longest[d]).max(0.0), step: apart + 1, margin }
    }
}

/// The ring of dependencies between two devices in the steady state. Device `d` runs forward `k`, the further device
/// `t` runs it too and then, by its order, a backward that `d` waits for. What `d` does meanwhile is known, and the
/// rest of the way is idle: slow links cost a round trip per ring, not only once. The same holds with the roles of
/// forward and backward swapped when `t` comes before `d`.
struct Ring {
    /// Idle time of `d` per window.
    idle: f64,
    /// Table indices from one window to the next that is disjoint from it.
    step: usize,
    /// Indices lost at both ends of the range.
    margin: usize,
}

impl Ring {
    /// Idle time of disjoint windows after backward `j` and before forward `k`.
    fn idle_between(&self, j: usize, k: usize) -> f64 {
        let windows = k.saturating_sub(j + self.margin).div_ceil(self.step);
        windows as f64 * self.idle
    }
}
