//! Layer-wise planning as a decision tree: stages, micro-batches, chunks, then cuts and strategies from front to back.
//!
//! Strategies are chosen for runs of like layers (strategy, then how many layers take it) where the model is long, layer
//! by layer where it is short. Options that would leave no room for the parts still to come on a stage are not offered.

use super::allele;
use super::fast::{Choice, Frame};
use super::layerwise::LayerwiseSpace;
use super::outer::Row;
use super::worth;
use crate::estimate::Estimate;
use crate::search::decompose::{ChainOption, Decompose};
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use crate::search::score::Score;
use xxhash_rust::xxh3::xxh3_128;

/// Parts from which on runs are decided instead of single layers.
const LONG: usize = 16;
/// How quickly the prior of an option falls with its excess time, as a fraction of the least time.
const SHARPNESS: f64 = 0.04;
/// Slots of decisions about run lengths start here, those about cuts and the outer decisions elsewhere.
const RUNS: u64 = 1 << 32;
const CUTS: u64 = 1 << 33;
const OUTER: u64 = 1 << 34;

/// A prefix of decisions.
#[derive(Debug, Clone)]
pub struct Prefix {
    pipeline: Option<u32>,
    micro_batches: Option<u64>,
    task: Option<usize>,
    /// Parts per chunk decided so far (all of them where the task fixes the split).
    sizes: Vec<u32>,
    options: Vec<u16>,
    /// Option whose run length is to be decided.
    pending: Option<u16>,
    /// Memory sums and peaks by stage.
    stages: Vec<Stage>,
    undo: Vec<Undo>,
}

impl Prefix {
    /// The outer decisions, once they are taken.
    pub(super) fn task(&self) -> Option<usize> {
        self.task
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Stage {
    used: f64,
    peak: f64,
    work: f64,
    /// Least memory and work of the parts of the decided chunks that have no strategy yet.
    due: f64,
    due_work: f64,
}

#[derive(Debug, Clone)]
enum Undo {
    Pipeline,
    MicroBatches,
    Task,
    Cut(Stage),
    Pending,
    /// Number of options before, the stage before, whether a pending option was consumed.
    Options(usize, usize, Stage, Option<u16>),
}

/// What is decided next.
enum Next {
    Pipeline,
    MicroBatches,
    Task,
    Cut { most: u32 },
    Strategy { part: usize, stage: usize },
    Run { most: u32 },
    Complete,
}

impl LayerwiseSpace<'_> {
    /// Tasks that the first decisions of `s` leave.
    fn tasks_left(&self, s: &Prefix) -> &[usize] {
        self.outer.tasks(s.pipeline.unwrap_or(1), s.micro_batches.unwrap_or(1))
    }

    /// Tasks of the number of stages decided, by number of micro-batches.
    fn rows_left(&self, s: &Prefix) -> &[Row] {
        self.outer.column(s.pipeline.unwrap_or(1)).map_or(&[], |c| &self.outer.columns[c].rows)
    }

    fn next(&self, s: &Prefix) -> Next {
        if s.pipeline.is_none() {
            return Next::Pipeline;
        }
        if s.micro_batches.is_none() {
            return Next::MicroBatches;
        }
        let Some(task) = s.task else { return Next::Task };
        let parts = self.estimator.spine.parts.len();
        let key = &self.tasks[task];
        let done = s.options.len() as u32;
        let cut_to: u32 = s.sizes.iter().sum();
        if key.split.is_none() && done == cut_to && s.sizes.len() < key.pipeline as usize {
            let left = key.pipeline as usize - s.sizes.len() - 1;
            return Next::Cut { most: parts as u32 - done - left as u32 };
        }
        if s.options.len() == parts {
            return Next::Complete;
        }
        let (chunk, end) = Self::chunk_at(&s.sizes, done);
        if s.pending.is_some() {
            return Next::Run { most: self.run_ahead(s.options.len(), end as usize) };
        }
        Next::Strategy { part: s.options.len(), stage: chunk % key.pipeline as usize }
    }

    /// Chunk that holds part `part`, and where it ends.
    fn chunk_at(sizes: &[u32], part: u32) -> (usize, u32) {
        let mut end = 0;
        for (chunk, size) in sizes.iter().enumerate() {
            end += size;
            if part < end {
                return (chunk, end);
            }
        }
        (sizes.len().saturating_sub(1), end)
    }

    /// Parts from `part` on that are of its class and in its chunk.
    fn run_ahead(&self, part: usize, end: usize) -> u32 {
        let parts = &self.estimator.spine.parts;
        (part..end).take_while(|i| parts[*i] == parts[part]).count() as u32
    }

    fn by_runs(&self) -> bool {
        self.estimator.spine.parts.len() > LONG
    }

    /// What the parts of a chunk need at least, added to the stage that holds it.
    fn owe(&self, s: &mut Prefix, frame: &Frame, chunk: usize, range: std::ops::Range<usize>) {
        let p = s.stages.len();
        for class in &self.estimator.spine.parts[range] {
            let least = frame.least(*class as usize, chunk % p, chunk / p);
            let stage = &mut s.stages[chunk % p];
            stage.due += least.memory;
            stage.due_work += least.work;
        }
    }

    /// Options of the part that leave room for what is due on its stage.
    fn open<'f>(&self, s: &Prefix, frame: &'f Frame, part: usize, stage: usize) -> impl Iterator<Item = u16> + use<'f> {
        let class = self.estimator.spine.parts[part] as usize;
        let (chunk, _) = Self::chunk_at(&s.sizes, part as u32);
        let chunk = chunk / s.stages.len();
        let live = frame.live(stage, chunk);
        let Stage { used, peak, due, .. } = s.stages[stage];
        let free = (frame.cap() - used - (due - frame.least(class, stage, chunk).memory)) * (1.0 + 1e-12);
        let fits = move |o: &&ChainOption| o.fixed + live * o.scaled + o.peak.max(peak) <= free;
        frame.table().classes[class].options.iter().filter(fits).map(|o| o.id as u16)
    }

    fn lengths(most: u32) -> Vec<u32> {
        let mut lengths: Vec<u32> =
            std::iter::successors(Some(1u32), |n| Some(n * 2)).take_while(|n| *n < most).collect();
        lengths.push(most);
        lengths
    }

    fn put(&self, s: &mut Prefix, frame: &Frame, option: u16, count: u32, pending: Option<u16>) {
        let part = s.options.len();
        let (chunk, _) = Self::chunk_at(&s.sizes, part as u32);
        let stage = chunk % s.stages.len();
        s.undo.push(Undo::Options(part, stage, s.stages[stage], pending));
        let class = self.estimator.spine.parts[part] as usize;
        let live = frame.live(stage, chunk / s.stages.len());
        let least = frame.least(class, stage, chunk / s.stages.len());
        let o = &frame.table().classes[class].options[option as usize];
        let n = f64::from(count);
        let st = &mut s.stages[stage];
        st.used += n * (o.fixed + live * o.scaled);
        st.peak = st.peak.max(o.peak);
        st.work += n * (o.cost[0] + o.cost[1]);
        st.due -= n * least.memory;
        st.due_work -= n * least.work;
        s.options.extend(std::iter::repeat_n(option, count as usize));
    }
}

impl Problem for LayerwiseSpace<'_> {
    type State = Prefix;
    type Solution = Choice;

    fn root(&self) -> Prefix {
        Prefix {
            pipeline: None,
            micro_batches: None,
            task: None,
            sizes: Vec::new(),
            options: Vec::new(),
            pending: None,
            stages: Vec::new(),
            undo: Vec::new(),
        }
    }

    fn node(&self, s: &Prefix) -> Node {
        let choose = |slot: u64, n: usize| Node::Choose { slot, options: n as u32 };
        match self.next(s) {
            Next::Pipeline => match self.outer.columns.len() {
                0 => Node::DeadEnd(1.0),
                n => choose(OUTER, n),
            },
            Next::MicroBatches => choose(OUTER + 1, self.rows_left(s).len()),
            Next::Task => {
                let tasks = self.tasks_left(s);
                if tasks.first().is_some_and(|t| self.fast(*t).is_some()) {
                    choose(OUTER + 2, tasks.len())
                } else {
                    Node::DeadEnd(f64::MAX)
                }
            }
            // The last stage takes what is left.
            Next::Cut { .. } if s.sizes.len() + 1 == s.stages.len() => choose(CUTS + s.sizes.len() as u64, 1),
            Next::Cut { most } => choose(CUTS + s.sizes.len() as u64, most as usize),
            Next::Run { most } => choose(RUNS + s.options.len() as u64, Self::lengths(most).len()),
            Next::Complete => Node::Complete,
            Next::Strategy { part, stage } => {
                let Some(frame) = s.task.and_then(|t| self.fast(t)) else { return Node::DeadEnd(f64::MAX) };
                match self.open(s, frame, part, stage).count() {
                    0 => {
                        let st = &s.stages[stage];
                        Node::DeadEnd(((st.used + st.due + st.peak) / frame.cap() - 1.0).max(f64::MIN_POSITIVE))
                    }
                    n => choose(part as u64, n),
                }
            }
        }
    }

    fn allele(&self, s: &Prefix, option: u32) -> Allele {
        let i = option as usize;
        match self.next(s) {
            Next::Pipeline => u64::from(self.outer.columns[i].pipeline),
            Next::MicroBatches => self.rows_left(s)[i].micro_batches,
            Next::Task => {
                let task = self.tasks_left(s)[i];
                u64::from(self.tasks[task].chunks) << 32 | i as u64
            }
            Next::Cut { most } if s.sizes.len() + 1 == s.stages.len() => u64::from(most),
            Next::Cut { .. } => u64::from(option) + 1,
            Next::Run { most } => u64::from(Self::lengths(most)[i]),
            Next::Strategy { part, stage } => {
                let Some(frame) = s.task.and_then(|t| self.fast(t)) else { return 0 };
                let class = self.estimator.spine.parts[part] as usize;
                self.open(s, frame, part, stage).nth(i).map_or(0, |id| frame.alleles(class)[id as usize])
            }
            Next::Complete => 0,
        }
    }

    fn nearest(&self, s: &Prefix, wanted: Allele) -> u32 {
        let Node::Choose { options, .. } = self.node(s) else { return 0 };
        let log = |x: Allele| (x.max(1) as f64).log2();
        let next = self.next(s);
        if let Next::Strategy { part, stage } = next {
            let Some(frame) = s.task.and_then(|t| self.fast(t)) else { return 0 };
            let alleles = frame.alleles(self.estimator.spine.parts[part] as usize);
            let mut nearest = (0, f64::INFINITY);
            for (option, id) in self.open(s, frame, part, stage).enumerate() {
                let allele = alleles[id as usize];
                if allele == wanted {
                    return option as u32;
                }
                let far = allele::distance(allele, wanted);
                if far < nearest.1 {
                    nearest = (option as u32, far);
                }
            }
            return nearest.0;
        }
        let distance = |a: Allele| match next {
            Next::Task => {
                let (a_split, w_split) = (a & 0xffff_ffff, wanted & 0xffff_ffff);
                (log(a >> 32) - log(wanted >> 32)).abs() * 1e3 + a_split.abs_diff(w_split) as f64
            }
            _ => (log(a) - log(wanted)).abs(),
        };
        let near = |o: &u32| distance(self.allele(s, *o));
        (0..options).min_by(|a, b| near(a).total_cmp(&near(b)).then(a.cmp(b))).unwrap_or(0)
    }

    fn prior(&self, s: &Prefix, out: &mut [f32]) {
        let costs: Vec<f64> = match self.next(s) {
            Next::Pipeline => self.outer.columns.iter().map(|c| c.floor).collect(),
            Next::MicroBatches => self.rows_left(s).iter().map(|r| r.floor).collect(),
            Next::Task => self.tasks_left(s).iter().map(|t| self.task_floor(*t)).collect(),
            Next::Cut { most } => {
                let left = s.pipeline.unwrap_or(1) as usize - s.sizes.len();
                let even = (self.estimator.spine.parts.len() - s.options.len()) as f64 / left as f64;
                (1..=most).map(|n| 1.0 + SHARPNESS * (f64::from(n) - even).abs()).collect()
            }
            Next::Run { most } => {
                // Long runs first: plans have few changes of strategy.
                Self::lengths(most).iter().map(|n| 1.0 + SHARPNESS * (f64::from(most) / f64::from(*n)).log2()).collect()
            }
            Next::Strategy { part, stage } => {
                let Some(frame) = s.task.and_then(|t| self.fast(t)) else { return out.fill(1.0) };
                let class = self.estimator.spine.parts[part] as usize;
                let (chunk, _) = Self::chunk_at(&s.sizes, part as u32);
                let chunk = chunk / s.stages.len();
                let live = frame.live(stage, chunk);
                // What is paid once per step counts for its share of a micro-batch; memory counts at what it costs the
                // parts that are still to come on the stage. Excess is measured against a mean part, so that what hardly
                // matters (an embedding's pass) decides nothing.
                let (m, mean) = (frame.micro_batches(), frame.mean_work());
                let (_, end) = Self::chunk_at(&s.sizes, part as u32);
                let due = &self.estimator.spine.parts[part..end as usize];
                let st = &s.stages[stage];
                let memory_price = worth::of_byte(frame, due, (stage, chunk), frame.cap() - st.used - st.due, st.peak);
                let options = &frame.table().classes[class].options;
                let worth = |id: u16| {
                    let o = &options[id as usize];
                    worth::work(o, m) + memory_price * (o.fixed + live * o.scaled)
                };
                let worths: Vec<f64> = self.open(s, frame, part, stage).map(worth).collect();
                let least = worths.iter().copied().fold(f64::INFINITY, f64::min);
                worths.into_iter().map(|worth| mean + worth - least).collect()
            }
            Next::Complete => return,
        };
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        for (weight, cost) in out.iter_mut().zip(costs) {
            *weight = (-(cost / least - 1.0) / SHARPNESS).exp().max(1e-6) as f32;
        }
    }

    fn push(&self, s: &mut Prefix, option: u32) {
        let i = option as usize;
        match self.next(s) {
            Next::Pipeline => {
                s.pipeline = Some(self.outer.columns[i].pipeline);
                s.undo.push(Undo::Pipeline);
            }
            Next::MicroBatches => {
                s.micro_batches = Some(self.rows_left(s)[i].micro_batches);
                s.undo.push(Undo::MicroBatches);
            }
            Next::Task => {
                let task = self.tasks_left(s)[i];
                let key = &self.tasks[task];
                s.task = Some(task);
                s.stages = vec![Stage::default(); key.pipeline as usize];
                s.undo.push(Undo::Task);
                if let (Some(split), Some(frame)) = (&key.split, self.fast(task)) {
                    s.sizes = split.clone();
                    for (chunk, range) in Self::chunk_ranges(split).into_iter().enumerate() {
                        self.owe(s, frame, chunk, range.start as usize..range.end as usize);
                    }
                }
            }
            Next::Cut { most } => {
                let chunk = s.sizes.len();
                let key_pipeline = s.stages.len();
                let size = if chunk + 1 == key_pipeline { most } else { option + 1 };
                s.undo.push(Undo::Cut(s.stages[chunk]));
                let start = s.options.len();
                s.sizes.push(size);
                if let Some(frame) = s.task.and_then(|t| self.fast(t)) {
                    self.owe(s, frame, chunk, start..start + size as usize);
                }
            }
            Next::Strategy { part, stage } => {
                let Some(frame) = s.task.and_then(|t| self.fast(t)) else { return };
                let Some(id) = self.open(s, frame, part, stage).nth(i) else { return };
                let (_, end) = Self::chunk_at(&s.sizes, part as u32);
                if self.by_runs() && self.run_ahead(part, end as usize) > 1 {
                    s.pending = Some(id);
                    s.undo.push(Undo::Pending);
                } else {
                    self.put(s, frame, id, 1, None);
                }
            }
            Next::Run { most } => {
                let (Some(frame), Some(id)) = (s.task.and_then(|t| self.fast(t)), s.pending.take()) else { return };
                self.put(s, frame, id, Self::lengths(most)[i], Some(id));
            }
            Next::Complete => {}
        }
    }

    fn pop(&self, s: &mut Prefix) {
        match s.undo.pop() {
            Some(Undo::Pipeline) => s.pipeline = None,
            Some(Undo::MicroBatches) => s.micro_batches = None,
            Some(Undo::Task) => {
                s.task = None;
                s.stages.clear();
                s.sizes.clear();
            }
            Some(Undo::Cut(stage)) => {
                s.sizes.pop();
                let chunk = s.sizes.len();
                s.stages[chunk] = stage;
            }
            Some(Undo::Pending) => s.pending = None,
            Some(Undo::Options(parts, index, stage, pending)) => {
                s.options.truncate(parts);
                s.stages[index] = stage;
                s.pending = pending;
            }
            None => {}
        }
    }

    fn bound(&self, s: &Prefix) -> Bound {
        let Some(task) = s.task else {
            let least = match (s.pipeline, s.micro_batches) {
                (None, _) => self.outer.floor,
                (Some(p), None) => self.outer.column(p).map_or(f64::INFINITY, |c| self.outer.columns[c].floor),
                (Some(p), Some(m)) => {
                    self.outer.place(p, m).map_or(f64::INFINITY, |(c, r)| self.outer.columns[c].rows[r].floor)
                }
            };
            return if least.is_finite() { Bound::AtLeast(least) } else { Bound::Infeasible };
        };
        let Some(frame) = self.fast(task) else { return Bound::Infeasible };
        let form = self.closed_form(task);
        let mut slowest = 0.0f64;
        for stage in &s.stages {
            if stage.used + stage.due + stage.peak > frame.cap() * (1.0 + 1e-9) {
                return Bound::Infeasible;
            }
            slowest = slowest.max(stage.work + stage.due_work);
        }
        // Rounding of sums that were added and taken away again.
        let slowest = form.jitter * form.micro_batches as f64 * slowest * (1.0 - 1e-9);
        Bound::AtLeast(self.task_floor(task).max(slowest))
    }

    fn solution(&self, s: &Prefix) -> Choice {
        Choice { task: s.task.unwrap_or(0) as u32, sizes: s.sizes.clone().into(), options: s.options.clone().into() }
    }

    fn key(&self, x: &Choice) -> Key128 {
        let key = &self.tasks[x.task as usize];
        let mut bytes = Vec::with_capacity(16 + 4 * x.sizes.len() + 2 * x.options.len());
        bytes.extend_from_slice(&self.digest().to_le_bytes());
        bytes.extend_from_slice(&key.pipeline.to_le_bytes());
        bytes.extend_from_slice(&key.chunks.to_le_bytes());
        bytes.extend_from_slice(&key.micro_batches.to_le_bytes());
        x.sizes.iter().for_each(|n| bytes.extend_from_slice(&n.to_le_bytes()));
        x.options.iter().for_each(|o| bytes.extend_from_slice(&o.to_le_bytes()));
        Key128(xxh3_128(&bytes))
    }

    /// Stages and micro-batches: every layer's price changes with them, so that going from one to another in one step
    /// seldom pays, however good the best plan there is.
    fn niche(&self, x: &Choice) -> u64 {
        let key = &self.tasks[x.task as usize];
        u64::from(key.pipeline) << 40 | key.micro_batches
    }

    fn score(&self, x: &Choice, fidelity: Fidelity) -> Score {
        let Some(frame) = self.fast(x.task as usize) else { return Score::Failed };
        let fast = frame.score(&x.sizes, &x.options);
        if fidelity == Fidelity::Fast || !fast.is_feasible() {
            return fast;
        }
        match self.estimator.estimate(&self.plan_of(x)) {
            Ok(e) if e.fits => Score::feasible(e.iteration_time_s),
            Ok(e) => Score::infeasible(e.peak_memory_bytes / e.usable_memory_bytes - 1.0),
            Err(_) => Score::Failed,
        }
    }

    /// Peak memory in bytes, and dollars per billion tokens where the devices have a price.
    fn measures(&self, x: &Choice) -> Vec<f64> {
        self.measured(self.estimator.estimate(&self.plan_of(x)).ok().as_ref())
    }

    fn space_log10(&self) -> Option<f64> {
        Some(self.size_log10())
    }

    fn decompose(&self) -> Option<&dyn Decompose<Solution = Choice>> {
        Some(self)
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = Choice>> {
        Some(self)
    }
}

impl LayerwiseSpace<'_> {
    /// What an estimate is measured by besides its time; infinite where there is none.
    pub(super) fn measured(&self, estimate: Option<&Estimate>) -> Vec<f64> {
        let of = |measure: fn(&Estimate) -> f64| estimate.map_or(f64::INFINITY, measure);
        let mut measures = vec![of(|e| e.peak_memory_bytes)];
        if self.estimator.pool.price.is_some() {
            measures.push(of(|e| e.dollars_per_1e9_tokens.unwrap_or(f64::INFINITY)));
        }
        measures
    }

    /// The alleles of `x` along its path.
    pub(super) fn alleles_of(&self, x: &Choice) -> Vec<Allele> {
        let mut s = self.root();
        let mut alleles = Vec::new();
        let key = &self.tasks[x.task as usize];
        let mut take = |s: &mut Prefix, option: u32| {
            alleles.push(self.allele(s, option));
            self.push(s, option);
        };
        loop {
            let option = match self.next(&s) {
                Next::Pipeline => self.outer.column(key.pipeline),
                Next::MicroBatches => self.outer.place(key.pipeline, key.micro_batches).map(|(_, row)| row),
                Next::Task => self.tasks_left(&s).iter().position(|t| *t == x.task as usize),
                Next::Cut { .. } if s.sizes.len() + 1 == s.stages.len() => Some(0),
                Next::Cut { .. } => Some(x.sizes[s.sizes.len()] as usize - 1),
                Next::Strategy { part, stage } => {
                    let open = s.task.and_then(|t| self.fast(t)).map(|f| self.open(&s, f, part, stage));
                    open.and_then(|mut open| open.position(|id| id == x.options[part]))
                }
                Next::Run { most } => {
                    let at = s.options.len();
                    let same = x.options[at..at + most as usize].iter().take_while(|o| **o == x.options[at]).count();
                    Self::lengths(most).iter().rposition(|n| *n as usize <= same)
                }
                Next::Complete => break,
            };
            // An infeasible solution has no path; what leads up to it is still of use.
            let Some(option) = option else { break };
            take(&mut s, option as u32);
        }
        alleles
    }
}
