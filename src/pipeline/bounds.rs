//! Lower bounds on makespan and span that hold for every order of the actions: only placement, costs, memory limit and
//! the kind of backward are given. `O(stages + devices)` list operations, whatever the number of micro-batches.
//!
//! For every device: its work; the idle time before its first backward, when only the forwards that fit into memory can
//! run; the idle time after its last forward, when only what is in memory can be worked off; Little's law on activations
//! (activation-seconds fit into memory times span); and the flow from the first stage through the device and back to the
//! first stage, together with the weight passes that memory demands before the last forward. Their derivations are at
//! the functions. A schedule whose time equals its bound is optimal.

use super::costs::{Costs, Pairing};
use super::placement::Placement;
use super::schedule::StageFlags;

/// Which backward a schedule may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backward {
    /// B and W apart, W free to move (W directly after B is one of its orders).
    Split,
    /// BW only: the stage before waits for both gradients.
    Fused,
}

/// What gives a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Work of a device and its idle time at both ends.
    Work,
    /// Little's law: memory holds only so many activation-seconds.
    Memory,
    /// The way to a device, its work, and the way back.
    Flow,
    /// The way of one micro-batch.
    OneMicrobatch,
}

/// A bound with what gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// No schedule takes less, in the unit of the costs. Infinite when a single activation exceeds memory.
    pub time: f64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub device: usize,
}

/// Bounds on both objectives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// On the end of the last action.
    pub makespan: Bound,
    /// On the largest time between first start and last end of a device.
    pub span: Bound,
}

/// Costs of a stage as the bounds see them.
#[derive(Debug, Clone, Copy)]
struct Stage {
    forward: f64,
    /// Until the stage before may go on.
    backward: f64,
    /// What may come later.
    weight: f64,
    /// Memory from F to the backward, during it, and from then to W.
    held: f64,
    during: f64,
    residue: f64,
    microbatches: usize,
    trains: bool,
}

/// Bounds for `m` micro-batches. `costs` must fit the placement (see [`Costs::check`]).
pub fn bounds(placement: &Placement, flags: &[StageFlags], costs: &Costs, m: usize, backward: Backward) -> Bounds {
    let stages: Vec<Stage> = (0..placement.stages()).map(|x| stage(placement, flags, costs, m, backward, x)).collect();
    let paths = Paths::new(placement, costs, &stages);
    let start = Bound { time: 0.0, reason: Reason::OneMicrobatch, device: 0 };
    let mut bounds = Bounds { makespan: start, span: start };
    let mut raise = |makespan: f64, span: f64, reason: Reason, device: usize| {
        for (bound, time) in [(&mut bounds.makespan, makespan), (&mut bounds.span, span)] {
            if time > bound.time {
                *bound = Bound { time, reason, device };
            }
        }
    };
    // A micro-batch starts and ends on the device of stage 0, unless there are several routes or passes without backward.
    let returns = placement.routes() == 1 && stages.first().is_some_and(|stage| stage.trains);
    for route in 0..placement.routes() {
        let first = placement.route(route).start;
        if stages[first].microbatches > 0 {
            let last = placement.route(route).find(|x| stages[*x].trains);
            let way = paths.until_last[first] + last.map_or(0.0, |x| paths.back[x] + paths.home[x]);
            raise(way, if returns { way } else { 0.0 }, Reason::OneMicrobatch, placement.device(first));
        }
    }
    for d in 0..placement.devices() {
        let own: Vec<usize> = placement.chunks(d).filter(|x| stages[*x].microbatches > 0).collect();
        let device = Device { own: &own, stages: &stages, paths: &paths, placement, memory: free_memory(costs, d) };
        let Some(terms) = device.terms(overlap(costs)) else {
            let all = Bound { time: f64::INFINITY, reason: Reason::Memory, device: d };
            return Bounds { makespan: all, span: all };
        };
        raise(terms.head + terms.work, terms.work, Reason::Work, d);
        raise(terms.head + terms.little, terms.little, Reason::Memory, d);
        raise(terms.flow, if returns { terms.flow } else { 0.0 }, Reason::Flow, d);
    }
    // The sums here and the simulation's round differently.
    let additions = stages.iter().map(|stage| stage.microbatches).sum::<usize>() + 64;
    let rounding = 1.0 - additions as f64 * f64::EPSILON;
    bounds.makespan.time *= rounding;
    bounds.span.time *= rounding;
    bounds
}

fn stage(placement: &Placement, flags: &[StageFlags], costs: &Costs, m: usize, backward: Backward, x: usize) -> Stage {
    let (cost, flags) = (&costs.stages[x], flags.get(x).copied().unwrap_or_default());
    let again = if flags.recompute { cost.forward } else { 0.0 };
    let (both, trains) = (backward == Backward::Fused, !flags.forward_only);
    let of_training = |value: f64| if trains { value } else { 0.0 };
    let kept = if flags.recompute { cost.kept } else { cost.activation };
    Stage {
        forward: cost.forward,
        backward: of_training(cost.backward + again + if both { cost.weight } else { 0.0 }),
        weight: of_training(if both { 0.0 } else { cost.weight }),
        held: of_training(if flags.offload { 0.0 } else { kept }),
        during: of_training(cost.activation),
        residue: of_training(if both { cost.activation } else { cost.residue }),
        microbatches: placement.microbatches(x, m).len(),
        trains,
    }
}

fn free_memory(costs: &Costs, d: usize) -> f64 {
    // A limit of one must hold three thirds.
    costs.limit.as_ref().map_or(f64::INFINITY, |limit| (limit[d] - costs.resident[d]) * (1.0 + 1e-9))
}

/// Largest share of a forward or backward that an overlapped pair hides.
fn overlap(costs: &Costs) -> f64 {
    match costs.pairing {
        Pairing::Sequential => 0.0,
        Pairing::Joint { overlap } => overlap,
    }
}

/// Least times along the routes, by stage.
struct Paths {
    /// From the start of the route to the start of F.
    head: Vec<f64>,
    /// From the start of F to the end of the route's last F.
    until_last: Vec<f64>,
    /// From the end of the route's last F to the start of the backward.
    back: Vec<f64>,
    /// From the start of the backward to the end of the route's last pass.
    home: Vec<f64>,
}

impl Paths {
    fn new(placement: &Placement, costs: &Costs, stages: &[Stage]) -> Self {
        let n = stages.len();
        let (mut head, mut until_last, mut back, mut home) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let hop = |hops: &[super::Transfer], x: usize| {
            let apart = placement.device(x) != placement.device(x + 1);
            if apart { hops[x].latency + hops[x].occupancy } else { 0.0 }
        };
        for x in 0..n {
            if let Some(before) = placement.previous(x) {
                head[x] = head[before] + stages[before].forward + hop(&costs.forward_hops, before);
            }
            home[x] = stages[x].backward
                + match placement.previous(x).filter(|before| stages[*before].trains) {
                    Some(before) => hop(&costs.backward_hops, before) + home[before],
                    None => stages[x].weight,
                };
        }
        for x in (0..n).rev() {
            until_last[x] = stages[x].forward;
            if let Some(after) = placement.next(x) {
                until_last[x] += hop(&costs.forward_hops, x) + until_last[after];
                back[x] = back[after] + stages[after].backward + hop(&costs.backward_hops, x);
            }
        }
        Self { head, until_last, back, home }
    }
}

struct Device<'a> {
    /// Its stages.
    own: &'a [usize],
    stages: &'a [Stage],
    paths: &'a Paths,
    placement: &'a Placement,
    memory: f64,
}

/// Stages of a device on one route.
struct Ends {
    first: usize,
    first_training: Option<usize>,
    last_training: Option<usize>,
}

struct Terms {
    head: f64,
    work: f64,
    little: f64,
    flow: f64,
}

impl Device<'_> {
    /// `None` when a single activation does not fit.
    fn terms(&self, overlap: f64) -> Option<Terms> {
        let all = || self.own.iter().map(|x| &self.stages[*x]);
        let training = || all().filter(|stage| stage.trains);
        if training().any(|stage| stage.during.max(stage.held) > self.memory) {
            return None;
        }
        let sum = |of: &dyn Fn(&Stage) -> f64| all().map(|stage| stage.microbatches as f64 * of(stage)).sum::<f64>();
        let (forward, backward) = (sum(&|s| s.forward), sum(&|s| s.backward));
        let weight = sum(&|s| s.weight);
        let hidden = overlap * forward.min(backward + weight);
        let head = self.least(|ends| Some(self.paths.head[ends.first])).unwrap_or(f64::INFINITY);
        // `home` starts at the backward of the first stage that trains; its own backward is in the sum already.
        let home = |x: usize| self.paths.home[x] - self.stages[x].backward;
        let drain = self.least(|ends| Some(ends.first_training.map_or(0.0, home))).unwrap_or(0.0);
        if !head.is_finite() {
            return Some(Terms { head: 0.0, work: 0.0, little: 0.0, flow: 0.0 });
        }
        let warm = self.warm();
        let (tail, tail_of_backwards) = self.tail();
        Some(Terms {
            head,
            work: forward + backward + weight - hidden + warm + tail,
            little: self.little(),
            flow: head + warm + forward + backward - hidden
                + self.weights_before_last_forward()
                + tail_of_backwards
                + drain,
        })
    }

    /// The least over the routes of this device.
    fn least(&self, of: impl Fn(&Ends) -> Option<f64>) -> Option<f64> {
        let routes = (0..self.placement.routes()).filter_map(|route| self.ends(route));
        routes.filter_map(|ends| of(&ends)).reduce(f64::min)
    }

    fn ends(&self, route: usize) -> Option<Ends> {
        let on_route = || self.own.iter().copied().filter(|x| self.placement.route_of(*x) == route);
        let training = || on_route().filter(|x| self.stages[*x].trains);
        Some(Ends {
            first: on_route().next()?,
            first_training: training().next(),
            last_training: training().next_back(),
        })
    }

    /// Idle time before the first backward. The device's first action is the forward of its first stage; the earliest
    /// backward is that of its last stage that trains, after the way to the route's end and back. Until then only forwards run, and
    /// no more than fit into memory.
    fn warm(&self) -> f64 {
        let way = |ends: &Ends| Some(self.paths.until_last[ends.first] + self.paths.back[ends.last_training?]);
        let Some(window) = self.least(way) else { return 0.0 };
        let items = self.own.iter().map(|x| {
            let stage = &self.stages[*x];
            Item { value: stage.forward, size: stage.held, count: stage.microbatches }
        });
        (window - most(self.memory, items.collect())).max(0.0)
    }

    /// Idle time after the last forward, over all passes and over forwards and backwards only. That forward is of the
    /// device's last stage; the backward of its first stage, for the same micro-batch, comes last. Until then only
    /// passes run whose activations are in memory, and all chunks of this micro-batch are. Nothing is claimed when all
    /// forwards could come before the first backward, or when forwards without backward could fill the time.
    fn tail(&self) -> (f64, f64) {
        let all = || self.own.iter().map(|x| &self.stages[*x]);
        let everything: f64 = all().map(|stage| stage.microbatches as f64 * stage.held).sum();
        if everything <= self.memory || all().any(|stage| !stage.trains) || self.placement.routes() > 1 {
            return (0.0, 0.0);
        }
        let way = |ends: &Ends| {
            let last = ends.last_training?;
            Some(self.paths.until_last[last] - self.stages[last].forward + self.paths.back[ends.first])
        };
        let Some(window) = self.least(way) else { return (0.0, 0.0) };
        let held: f64 = all().map(|stage| stage.held).sum();
        let rest = self.memory - held;
        let own = |of: &dyn Fn(&Stage) -> f64| self.own[1..].iter().map(|x| of(&self.stages[*x])).sum::<f64>();
        let others = |stage: &Stage| stage.microbatches.saturating_sub(1);
        let both = all().map(|s| Item { value: s.backward + s.weight, size: s.held.min(s.during), count: others(s) });
        // A weight pass that is due holds less than an activation: more of them may be in memory.
        let due = all().filter(|s| s.residue < s.held && s.weight > 0.0);
        let due = due.map(|s| Item { value: s.weight, size: s.residue, count: others(s) });
        let passes = own(&|s| s.backward + s.weight) + most(rest, both.chain(due).collect());
        let backwards = all().map(|s| Item { value: s.backward, size: s.held, count: others(s) });
        let backwards = own(&|s| s.backward) + most(rest, backwards.collect());
        ((window - passes).max(0.0), (window - backwards).max(0.0))
    }

    /// Weight passes that must be done before the last forward, because all activations together exceed memory.
    fn weights_before_last_forward(&self) -> f64 {
        let training = || self.own.iter().map(|x| &self.stages[*x]).filter(|stage| stage.trains);
        let total = |of: &dyn Fn(&Stage) -> f64| training().map(|s| s.microbatches as f64 * of(s)).sum::<f64>();
        // What backwards free by themselves needs no weight pass.
        let needed = total(&|s| s.held) - self.memory - total(&|s| (s.held - s.residue).max(0.0));
        let items = training().map(|s| Item { value: s.weight, size: s.residue, count: s.microbatches });
        least(needed, items.collect())
    }

    /// Little's law: every activation is held from its forward until its backward is back, its residue until W.
    fn little(&self) -> f64 {
        let seconds: f64 = self
            .own
            .iter()
            .filter(|x| self.stages[**x].trains)
            .map(|&x| {
                let s = &self.stages[x];
                let waits = self.paths.until_last[x] + self.paths.back[x];
                s.microbatches as f64 * (s.held * waits + s.during * s.backward + s.residue * s.weight)
            })
            .sum();
        let sizes: Vec<f64> = self.own.iter().map(|x| self.stages[*x]).filter(|s| s.trains).map(|s| s.held).collect();
        // Activations of one size use memory in whole pieces only.
        let usable = match sizes.first() {
            Some(&size) if size > 0.0 && self.is_of_one_size(size) => (self.memory / size).floor() * size,
            _ => self.memory,
        };
        if usable > 0.0 { seconds / usable } else { 0.0 }
    }

    fn is_of_one_size(&self, size: f64) -> bool {
        let equal = |value: f64| (value - size).abs() <= size * 1e-12;
        self.own
            .iter()
            .map(|x| self.stages[*x])
            .filter(|s| s.trains)
            .all(|s| equal(s.held) && equal(s.during) && (equal(s.residue) || s.weight == 0.0))
    }
}

struct Item {
    value: f64,
    size: f64,
    count: usize,
}

fn is_uniform(items: &[Item]) -> bool {
    items.windows(2).all(|pair| (pair[0].size - pair[1].size).abs() <= pair[0].size * 1e-12)
}

/// The most value that fits into `room`: exact for items of one size, else with the last item cut.
fn most(room: f64, mut items: Vec<Item>) -> f64 {
    let whole = is_uniform(&items);
    let density = |item: &Item| if item.size > 0.0 { item.value / item.size } else { f64::INFINITY };
    items.sort_by(|a, b| density(b).total_cmp(&density(a)));
    let (mut room, mut sum) = (room.max(0.0), 0.0);
    for item in items {
        let fit = if item.size > 0.0 { room / item.size } else { f64::INFINITY };
        let taken = (if whole { fit.floor() } else { fit }).min(item.count as f64);
        sum += taken * item.value;
        room -= taken * item.size;
    }
    sum
}

/// The least value whose sizes reach `needed`: exact for items of one size, else with the last item cut.
fn least(needed: f64, mut items: Vec<Item>) -> f64 {
    let whole = is_uniform(&items);
    items.retain(|item| item.size > 0.0);
    items.sort_by(|a, b| (a.value / a.size).total_cmp(&(b.value / b.size)));
    let (mut needed, mut sum) = (needed, 0.0);
    for item in items {
        if needed <= 0.0 {
            break;
        }
        let fit = needed / item.size;
        // A rounding error must not demand one more.
        let taken = (if whole { (fit - 1e-6).ceil() } else { fit }).min(item.count as f64);
        sum += taken * item.value;
        needed -= taken * item.size;
    }
    sum
}
