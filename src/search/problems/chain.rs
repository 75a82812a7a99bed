//! A pipeline in the abstract: a chain of items cut into segments, every item with options that trade time for
//! memory, a price for unlike neighbours, a memory cap per segment.
//!
//! Objective: the sum of the segments' times plus (rounds - 1) times the largest, as a pipeline of `rounds` micro-batches
//! takes. First the cuts are decided, then the options in order. Times in seconds, memory in units.

use super::super::decompose::{
    COSTS, Chain, ChainOption, ChainSolution, Combine, Cost, Cuts, Decompose, Fold, Linear, Segment, Transition,
};
use super::super::problem::{Allele, Bound, Fidelity, Key128, Meeting, Moves, Node, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::memory_worth::MemoryWorth;
use super::{identity, key};
use std::sync::Arc;

/// How fast weights fall: a tenth of an item's least time above the best option weighs about a third.
const SHARPNESS: f32 = 10.0;

/// Size of a synthetic chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainShape {
    /// Items.
    pub items: usize,
    /// Options per item.
    pub options: usize,
    /// Segments; at least one, at most as many as items.
    pub segments: usize,
    /// Micro-batches.
    pub rounds: usize,
    /// Where between the least and the most that an average segment can need its memory cap lies, 0 to 1.
    pub tightness: f64,
}

/// A chain to be cut and assigned.
#[derive(Debug, Clone)]
pub struct LayerChain {
    shape: ChainShape,
    time: Vec<Vec<f64>>,
    memory: Vec<Vec<u32>>,
    resharding: Vec<Vec<f64>>,
    cap: u32,
    least_time: Vec<f64>,
    least_memory: Vec<u32>,
    worth: MemoryWorth,
    identity: u128,
}

/// Where segments end (exclusive), and the option of each item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlan {
    /// End of each segment; the last is the number of items.
    pub ends: Vec<u32>,
    /// Option of each item.
    pub options: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    segment: usize,
    time: f64,
    memory: u32,
    sum: f64,
    max: f64,
    /// Whether a finished segment is over its cap.
    over: bool,
}

/// Decisions so far.
#[derive(Debug, Clone)]
pub struct Partial {
    ends: Vec<u32>,
    options: Vec<u32>,
    /// After each item.
    totals: Vec<Totals>,
}

impl LayerChain {
    /// A random chain: every option is a fraction of the item's work in time and of its state in memory, faster ones
    /// needing more memory, all with 20 % noise.
    pub fn random(shape: ChainShape, seed: u64) -> Self {
        let mut stream = Stream::new(seed, 2, 0, 0);
        let ChainShape { items, options, segments, tightness, .. } = shape;
        let mut noise = |spread: f64| 1.0 + spread * (stream.unit() - 0.5);
        let trade: Vec<f64> = (0..options).map(|j| (j as f64 + 0.5) / options as f64 * noise(0.2)).collect();
        let mut time = Vec::with_capacity(items);
        let mut memory = Vec::with_capacity(items);
        for _ in 0..items {
            let (work, state) = (noise(1.0), 40.0 * noise(1.0));
            time.push(trade.iter().map(|t| work * (0.5 + t) * noise(0.4)).collect::<Vec<f64>>());
            memory.push(trade.iter().map(|t| (state * (1.2 - t) * noise(0.4)).ceil() as u32).collect::<Vec<u32>>());
        }
        let resharding = (0..options)
            .map(|a| (0..options).map(|b| if a == b { 0.0 } else { 0.15 * noise(1.0) }).collect())
            .collect();
        let least = |row: &Vec<u32>| f64::from(row.iter().copied().min().unwrap_or(0));
        let most = |row: &Vec<u32>| f64::from(row.iter().copied().max().unwrap_or(0));
        let (low, high): (f64, f64) = (memory.iter().map(least).sum(), memory.iter().map(most).sum());
        // A quarter on top: segments of whole items cannot be equal.
        let cap = (1.25 * (low + tightness * (high - low)) / segments as f64).ceil() as u32;
        Self::new(shape, time, memory, resharding, cap)
    }

    /// A chain from its tables: `time[item][option]`, `memory[item][option]`, `resharding[from][to]`.
    pub fn new(
        shape: ChainShape,
        time: Vec<Vec<f64>>,
        memory: Vec<Vec<u32>>,
        resharding: Vec<Vec<f64>>,
        cap: u32,
    ) -> Self {
        let least_time = time.iter().map(|row| row.iter().copied().fold(f64::INFINITY, f64::min)).collect();
        let least_memory = memory.iter().map(|row| row.iter().copied().min().unwrap_or(0)).collect();
        let sizes = [shape.segments as f64, shape.rounds as f64, f64::from(cap)];
        let tables = time.iter().chain(&resharding).flatten().copied();
        let numbers = sizes.into_iter().chain(tables).chain(memory.iter().flatten().map(|m| f64::from(*m)));
        let identity = identity("layer chain", numbers);
        let worth = MemoryWorth::of(&time, &memory);
        Self { shape, time, memory, resharding, cap, least_time, least_memory, worth, identity }
    }

    /// Its size.
    pub fn shape(&self) -> ChainShape {
        self.shape
    }

    fn objective(&self, sum: f64, max: f64) -> f64 {
        sum + (self.shape.rounds as f64 - 1.0) * max
    }

    fn step(&self, s: &Partial, option: u32) -> Totals {
        let item = s.options.len();
        let mut t = s.totals.last().copied().unwrap_or_default();
        let starts = t.segment > 0 && s.ends[t.segment - 1] as usize == item;
        if !starts && let Some(before) = s.options.last() {
            t.time += self.resharding[*before as usize][option as usize];
        }
        t.time += self.time[item][option as usize];
        t.memory += self.memory[item][option as usize];
        if s.ends[t.segment] as usize == item + 1 {
            t = Totals {
                segment: t.segment + 1,
                time: 0.0,
                memory: 0,
                sum: t.sum + t.time,
                max: t.max.max(t.time),
                over: t.over || t.memory > self.cap,
            };
        }
        t
    }

    /// The smallest objective, by enumerating the cuts over a table of every segment's shortest time within the cap.
    pub fn optimum(&self) -> Option<f64> {
        self.optimum_unless(&|| false)
    }

    /// The same; `None` as soon as it is told to stop.
    pub fn optimum_unless(&self, halted: &dyn Fn() -> bool) -> Option<f64> {
        let best: Option<Vec<Vec<f64>>> = (0..self.starts()).map(|start| self.shortest_from(start, halted)).collect();
        let best = best?;
        let mut least = f64::INFINITY;
        self.cut(&best, 0, self.shape.segments, 0.0, 0.0, &mut least);
        least.is_finite().then_some(least)
    }

    /// Where the segments of a plan may begin: one segment begins at the first item.
    fn starts(&self) -> usize {
        if self.shape.segments == 1 { 1 } else { self.shape.items }
    }

    /// Steps that [`LayerChain::optimum`] takes: entries of its tables times the options before each, and ways to cut.
    pub fn optimum_steps(&self) -> f64 {
        let ChainShape { items, options, segments, .. } = self.shape;
        let (n, cuts) = (items as f64, segments as f64 - 1.0);
        let rows: f64 = (0..self.starts()).map(|start| (items - start) as f64).sum();
        let table = rows * (options as f64).powi(2) * (f64::from(self.cap) + 1.0);
        // n^k bounds the ways to choose k cuts of n.
        table + n.powf(cuts)
    }

    fn cut(&self, best: &[Vec<f64>], start: usize, segments: usize, sum: f64, max: f64, least: &mut f64) {
        if segments == 0 {
            *least = least.min(self.objective(sum, max));
            return;
        }
        let last = self.shape.items - (segments - 1);
        for end in if segments == 1 { last..=last } else { start + 1..=last } {
            let time = best[start][end - start - 1];
            if time.is_finite() {
                self.cut(best, end, segments - 1, sum + time, max.max(time), least);
            }
        }
    }

    /// Shortest times of the segments that begin at `start`, by length; `None` where it was told to stop.
    fn shortest_from(&self, start: usize, halted: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let width = self.cap as usize + 1;
        let mut table = vec![vec![f64::INFINITY; width]; self.shape.options];
        let mut times = Vec::new();
        for item in start..self.shape.items {
            if halted() {
                return None;
            }
            let mut next = vec![vec![f64::INFINITY; width]; self.shape.options];
            for (to, row) in next.iter_mut().enumerate() {
                let (time, memory) = (self.time[item][to], self.memory[item][to] as usize);
                for (used, shortest) in row.iter_mut().enumerate().skip(memory) {
                    *shortest = if item == start {
                        time
                    } else {
                        let from = |from: usize| table[from][used - memory] + self.resharding[from][to];
                        time + (0..self.shape.options).map(from).fold(f64::INFINITY, f64::min)
                    };
                }
            }
            table = next;
            times.push(table.iter().map(|row| row[width - 1]).fold(f64::INFINITY, f64::min));
        }
        Some(times)
    }
}

impl Problem for LayerChain {
    type State = Partial;
    type Solution = ChainPlan;

    fn root(&self) -> Partial {
        let ends = if self.shape.segments == 1 { vec![self.shape.items as u32] } else { Vec::new() };
        Partial { ends, options: Vec::new(), totals: Vec::new() }
    }

    fn node(&self, s: &Partial) -> Node {
        let ChainShape { items, segments, options, .. } = self.shape;
        if s.ends.len() < segments {
            let start = s.ends.last().map_or(0, |e| *e as usize);
            let behind = segments - s.ends.len() - 1;
            return Node::Choose { slot: s.ends.len() as u64, options: (items - start - behind) as u32 };
        }
        match s.options.len() {
            done if done == items => Node::Complete,
            item => Node::Choose { slot: (segments + item) as u64, options: options as u32 },
        }
    }

    fn allele(&self, s: &Partial, option: u32) -> Allele {
        if s.ends.len() < self.shape.segments {
            return u64::from(s.ends.last().copied().unwrap_or(0) + 1 + option);
        }
        u64::from(option)
    }

    fn nearest(&self, s: &Partial, wanted: Allele) -> u32 {
        let Node::Choose { options, .. } = self.node(s) else { return 0 };
        let first = self.allele(s, 0);
        wanted.saturating_sub(first).min(u64::from(options) - 1) as u32
    }

    fn prior(&self, s: &Partial, out: &mut [f32]) {
        if s.ends.len() < self.shape.segments {
            let (n, p) = (self.shape.items as f64, self.shape.segments as f64);
            let ideal = n * (s.ends.len() as f64 + 1.0) / p;
            for (option, weight) in out.iter_mut().enumerate() {
                let off = (self.allele(s, option as u32) as f64 - ideal) * p / n;
                *weight = (-4.0 * off * off).exp() as f32;
            }
            return;
        }
        let item = s.options.len();
        let before = s.totals.last().copied().unwrap_or_default();
        let end = s.ends[before.segment] as usize;
        let price = self.worth.of_unit(item..end, self.cap.saturating_sub(before.memory));
        for (option, cost) in out.iter_mut().enumerate() {
            let t = self.step(s, option as u32);
            let spent = t.sum + t.time - before.sum - before.time + price * f64::from(self.memory[item][option]);
            *cost = (spent / self.least_time[item]) as f32;
        }
        let least = out.iter().copied().fold(f32::INFINITY, f32::min);
        for weight in out {
            *weight = (SHARPNESS * (least - *weight)).exp();
        }
    }

    fn push(&self, s: &mut Partial, option: u32) {
        if s.ends.len() < self.shape.segments {
            s.ends.push(self.allele(s, option) as u32);
            if s.ends.len() + 1 == self.shape.segments {
                s.ends.push(self.shape.items as u32);
            }
            return;
        }
        let totals = self.step(s, option);
        s.options.push(option);
        s.totals.push(totals);
    }

    fn pop(&self, s: &mut Partial) {
        if s.options.pop().is_some() {
            s.totals.pop();
            return;
        }
        if self.shape.segments > 1 {
            if s.ends.len() == self.shape.segments {
                s.ends.pop();
            }
            s.ends.pop();
        }
    }

    fn bound(&self, s: &Partial) -> Bound {
        let t = s.totals.last().copied().unwrap_or_default();
        let (mut item, mut sum, mut max) = (s.options.len(), t.sum, t.max);
        let (mut time, mut memory) = (t.time, t.memory);
        if t.over {
            return Bound::Infeasible;
        }
        for end in s.ends.get(t.segment..).unwrap_or_default() {
            for i in item..*end as usize {
                time += self.least_time[i];
                memory += self.least_memory[i];
            }
            if memory > self.cap {
                return Bound::Infeasible;
            }
            (item, sum, max, time, memory) = (*end as usize, sum + time, max.max(time), 0.0, 0);
        }
        let open = self.shape.segments - s.ends.len();
        if open > 0 {
            let (time, memory): (f64, u32) =
                (self.least_time[item..].iter().sum(), self.least_memory[item..].iter().sum());
            if memory > self.cap * open as u32 {
                return Bound::Infeasible;
            }
            (sum, max) = (sum + time, max.max(time / open as f64));
        }
        // Rounding: the bound must not exceed the objective summed in another order.
        Bound::AtLeast(self.objective(sum, max) * (1.0 - 1e-12))
    }

    /// With one segment: the item, the option before it, and the memory used.
    fn meeting(&self, s: &Partial) -> Option<Meeting> {
        let totals = s.totals.last().filter(|_| self.shape.segments == 1)?;
        let words = [s.options.len() as u32, *s.options.last()?, totals.memory];
        let spent = self.objective(totals.sum + totals.time, totals.max.max(totals.time));
        Some(Meeting { key: key(self.identity, words.into_iter()).0, spent })
    }

    fn solution(&self, s: &Partial) -> ChainPlan {
        ChainPlan { ends: s.ends.clone(), options: s.options.clone() }
    }

    fn key(&self, x: &ChainPlan) -> Key128 {
        key(self.identity, x.ends.iter().chain(&x.options).copied())
    }

    /// The memory of the fullest segment.
    fn measures(&self, x: &ChainPlan) -> Vec<f64> {
        let starts = std::iter::once(0).chain(x.ends.iter().map(|end| *end as usize));
        let of = |(start, end): (usize, &u32)| {
            (start..*end as usize).map(|item| self.memory[item][x.options[item] as usize]).sum::<u32>()
        };
        vec![starts.zip(&x.ends).map(of).max().map_or(0.0, f64::from)]
    }

    /// The items of the slowest segment and the cuts beside it weigh most; a segment over its memory outweighs all.
    fn strain(&self, x: &ChainPlan) -> Vec<f32> {
        let mut loads = Vec::with_capacity(x.ends.len());
        let mut start = 0;
        for end in x.ends.iter().map(|e| *e as usize) {
            let table =
                |item: usize| (self.time[item][x.options[item] as usize], self.memory[item][x.options[item] as usize]);
            let (time, memory) = (start..end).map(table).fold((0.0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
            loads.push((memory.saturating_sub(self.cap), time));
            start = end;
        }
        let worst = |a: &(u32, f64), b: &(u32, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        let Some(slowest) = loads.iter().enumerate().max_by(|a, b| worst(a.1, b.1)).map(|(s, _)| s) else {
            return Vec::new();
        };
        let weight = |beside: bool| if beside { 1.0 } else { 0.1 };
        let cuts = (0..x.ends.len() - 1).map(|cut| weight(cut == slowest || cut + 1 == slowest));
        let segment = |item: usize| x.ends.partition_point(|end| *end as usize <= item);
        cuts.chain((0..x.options.len()).map(|item| weight(segment(item) == slowest))).collect()
    }

    fn score(&self, x: &ChainPlan, _: Fidelity) -> Score {
        let (mut start, mut sum, mut max, mut over) = (0, 0.0, 0.0f64, 0.0);
        for end in x.ends.iter().map(|e| *e as usize) {
            let mut time = 0.0;
            let mut memory = 0;
            for item in start..end {
                if item > start {
                    time += self.resharding[x.options[item - 1] as usize][x.options[item] as usize];
                }
                time += self.time[item][x.options[item] as usize];
                memory += self.memory[item][x.options[item] as usize];
            }
            over += f64::from(memory.saturating_sub(self.cap)) / f64::from(self.cap);
            (start, sum, max) = (end, sum + time, max.max(time));
        }
        if over > 0.0 { Score::infeasible(over) } else { Score::feasible(self.objective(sum, max)) }
    }

    fn space_log10(&self) -> Option<f64> {
        let (n, p) = (self.shape.items as f64, self.shape.segments);
        let cuts: f64 = (1..p).map(|k| ((n - k as f64) / k as f64).log10()).sum();
        Some(cuts + n * (self.shape.options as f64).log10())
    }

    fn decompose(&self) -> Option<&dyn Decompose<Solution = ChainPlan>> {
        Some(self)
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = ChainPlan>> {
        Some(self)
    }
}

impl Moves for LayerChain {
    type Solution = ChainPlan;

    /// Move a cut by one; set a run of items to one option.
    fn kinds(&self) -> u32 {
        2
    }

    fn neighbour(&self, x: &ChainPlan, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<ChainPlan> {
        let mut y = x.clone();
        if kind == 0 {
            let cuts = x.ends.len() as u64 - 1;
            let cut = random().checked_rem(cuts)? as usize;
            let low = cut.checked_sub(1).map_or(0, |before| x.ends[before]) + 1;
            let high = x.ends[cut + 1] - 1;
            let moved = if random().is_multiple_of(2) { x.ends[cut].checked_sub(1)? } else { x.ends[cut] + 1 };
            if moved < low || moved > high {
                return None;
            }
            y.ends[cut] = moved;
        } else {
            let n = x.options.len() as u64;
            let (a, b) = ((random() % n) as usize, (random() % n) as usize);
            let option = (random() % self.shape.options as u64) as u32;
            y.options[a.min(b)..=a.max(b)].fill(option);
        }
        Some(y)
    }

    fn alleles(&self, x: &ChainPlan) -> Vec<Allele> {
        let cuts = &x.ends[..x.ends.len() - 1];
        cuts.iter().chain(&x.options).map(|v| u64::from(*v)).collect()
    }
}

impl Decompose for LayerChain {
    type Solution = ChainPlan;

    fn tasks(&self) -> usize {
        1
    }

    fn task_bound(&self, _task: usize) -> Bound {
        Problem::bound(self, &self.root())
    }

    fn chain(&self, _task: usize) -> Option<Chain<'_>> {
        let option = |item: usize, option: usize| {
            let mut cost = [0.0; COSTS];
            cost[0] = self.time[item][option];
            let fixed = f64::from(self.memory[item][option]);
            let lead = [0.0; COSTS];
            ChainOption { id: option as u32, layout: option as u16, cost, lead, fixed, scaled: 0.0, peak: 0.0 }
        };
        let segment = Segment { multiplier: 1.0, cap: f64::from(self.cap) };
        Some(Chain {
            items: (0..self.shape.items as u32).collect(),
            options: (0..self.shape.items).map(|i| (0..self.shape.options).map(|o| option(i, o)).collect()).collect(),
            cuts: Cuts::Free { min_items: 1 },
            segments: vec![segment; self.shape.segments],
            combine: Arc::new(self),
            transition: Arc::new(self),
        })
    }

    fn assemble(&self, _task: usize, solution: &ChainSolution) -> ChainPlan {
        let mut end = 0;
        let ends = solution.segments.iter().map(|items| {
            end += items.len() as u32;
            end
        });
        ChainPlan { ends: ends.collect(), options: solution.options.clone() }
    }

    fn disassemble(&self, x: &ChainPlan) -> Option<(usize, ChainSolution)> {
        let starts = std::iter::once(0).chain(x.ends.iter().copied());
        let segments = starts.zip(&x.ends).map(|(start, end)| (start..*end).collect()).collect();
        let objective = self.score(x, Fidelity::Exact).objective()?;
        Some((0, ChainSolution { segments, options: x.options.clone(), objective }))
    }
}

impl Transition for LayerChain {
    fn between(&self, _class: u32, from: u16, to: u16) -> Cost {
        let mut cost = [0.0; COSTS];
        cost[0] = self.resharding[from as usize][to as usize];
        cost
    }

    fn entry(&self, _segment: usize, _class: u32, _layout: u16) -> Cost {
        [0.0; COSTS]
    }
}

impl Combine for LayerChain {
    fn start(&self) -> Fold {
        [0.0; 6]
    }

    fn push(&self, state: &Fold, _segment: usize, cost: &Cost) -> Fold {
        let mut next = *state;
        next[0] += cost[0];
        next[1] = next[1].max(cost[0]);
        next
    }

    fn finish(&self, state: &Fold) -> f64 {
        self.objective(state[0], state[1])
    }

    fn primary(&self, cost: &Cost) -> f64 {
        cost[0]
    }

    fn push_relaxed(&self, state: &Fold, segment: usize, primary: f64, floor: &Cost) -> Fold {
        let mut cost = *floor;
        cost[0] = cost[0].max(primary);
        Combine::push(self, state, segment, &cost)
    }

    fn primary_limit(&self, objective: f64) -> f64 {
        objective / self.shape.rounds as f64
    }

    fn complete(&self, state: &Fold, segments: usize, primary: f64) -> f64 {
        self.objective(state[0] + primary, state[1].max(primary / segments.max(1) as f64))
    }

    fn linear(&self) -> Linear {
        let (mut sum, mut largest) = ([0.0; COSTS], [0.0; COSTS]);
        (sum[0], largest[0]) = (1.0, self.shape.rounds as f64 - 1.0);
        Linear { sum, largest }
    }

    fn weights(&self) -> Cost {
        let mut weights = [0.0; COSTS];
        weights[0] = self.shape.rounds as f64;
        weights
    }
}
