//! Layer-wise planning as a set of tasks: outer decisions fixed per task, the rest a chain that exact methods solve.

use super::fast::{Choice, Frame};
use super::outer::Outer;
use super::table::{Allowed, ClassTable, Table, at};
use super::tasks::{self, TaskKey};
use crate::cost::Mesh;
use crate::estimate::closed::{ClosedForm, Folded, StageCost};
use crate::estimate::{Estimator, in_flight};
use crate::plan::{Chunk, LayerStrategy, PartClass, Plan};
use crate::search::decompose::{
    COSTS, Chain, ChainSolution, Combine, Cost, Cuts, Decompose, FixedItem, Fold, Linear, Segment, Transition,
};
use crate::search::problem::Bound;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

/// Tells plans without an order from those under the usual ones: any constant does.
const FREE_ORDER: u128 = 0x6a09_e667_f3bc_c908_b2fb_1366_ea95_7d3e;

/// Version of the cost model: to be raised whenever a price changes.
const COST_VERSION: u32 = 1;

/// The space of layer-wise plans of one question.
pub struct LayerwiseSpace<'a> {
    /// Prices plans.
    pub estimator: Estimator<'a>,
    /// Outer decisions, all of them.
    pub tasks: Vec<TaskKey>,
    pub(super) outer: Outer,
    /// Frames, and the frame of each task.
    frames: Vec<Mesh>,
    frame_of: Vec<usize>,
    tables: Vec<OnceLock<Option<Arc<Table>>>>,
    fast: Vec<OnceLock<Option<Frame>>>,
    allowed: &'a Allowed<'a>,
    /// Parts of each class.
    pub(super) class_sizes: Vec<f64>,
    /// Seconds that the whole model takes for one sample on one device at the best efficiency.
    ideal: f64,
    seeds: Vec<(usize, ChainSolution)>,
    digest: u128,
    /// Whether the order of the passes is still to be decided.
    free_order: bool,
}

impl<'a> LayerwiseSpace<'a> {
    /// The space of all plans that `allowed` and `task_allowed` let through; `limits` says what these are, so that two
    /// questions that differ in them never share a price.
    pub fn new(
        estimator: Estimator<'a>,
        allowed: &'a Allowed<'a>,
        task_allowed: &dyn Fn(&TaskKey) -> bool,
        limits: &str,
    ) -> Self {
        let devices = estimator.pool.devices;
        let mut tasks = tasks::all(estimator.spine, estimator.job, devices);
        tasks.retain(|t| task_allowed(t));
        let mut frames: Vec<Mesh> = Vec::new();
        let mut index: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        let frame_of = tasks
            .iter()
            .map(|t| {
                *index.entry((t.pipeline, t.micro_batches)).or_insert_with(|| {
                    frames.push(Mesh {
                        stage_devices: devices / u64::from(t.pipeline),
                        pipeline: t.pipeline,
                        micro_batches: t.micro_batches,
                    });
                    frames.len() - 1
                })
            })
            .collect();
        let tables = frames.iter().map(|_| OnceLock::new()).collect();
        let fast = tasks.iter().map(|_| OnceLock::new()).collect();
        // Everything that prices depend on, so that a shared or saved cache never mixes two questions.
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        let (classes, pool, job, options) =
            (&estimator.spine.classes, estimator.pool, estimator.job, estimator.pricer.options());
        digest.update(format!("{COST_VERSION} {limits} {classes:?} {pool:?} {job:?} {options:?}").as_bytes());
        (&estimator.spine.parts, &tasks).hash(&mut digest);
        let digest = digest.digest128();
        let mut class_sizes = vec![0.0; estimator.spine.classes.len()];
        for class in &estimator.spine.parts {
            class_sizes[*class as usize] += 1.0;
        }
        // Kernels only get less efficient when work is cut smaller, so one device with the whole batch is the ideal.
        let whole = Mesh { stage_devices: 1, pipeline: 1, micro_batches: 1 };
        let ideal = estimator
            .spine
            .classes
            .iter()
            .zip(&class_sizes)
            .map(|(part, n)| {
                let price = estimator.pricer.price(part, &LayerStrategy::PLAIN, whole);
                n * (price.forward.compute + price.backward.compute).0 / estimator.job.global_batch as f64
            })
            .sum();
        let mut space = Self {
            estimator,
            outer: Outer::new(&[], Vec::new()),
            tasks,
            frames,
            frame_of,
            tables,
            fast,
            allowed,
            class_sizes,
            ideal,
            seeds: Vec::new(),
            digest,
            free_order: false,
        };
        space.bound_tasks();
        space
    }

    /// The same plans for schedules that are still to be decided: bounds are those of work that never waits, and a stage has
    /// room for a plan if one activation of each of its chunks fits, less than which no schedule holds.
    pub fn with_free_order(mut self) -> Self {
        self.free_order = true;
        self.fast = self.tasks.iter().map(|_| OnceLock::new()).collect();
        self.digest ^= FREE_ORDER;
        self.bound_tasks();
        self
    }

    fn bound_tasks(&mut self) {
        let floor = |t: usize| {
            if self.free_order {
                let Mesh { pipeline, micro_batches, .. } = self.frame(t);
                return self.ideal_work(t) * micro_batches as f64 / f64::from(pipeline) * self.estimator.jitter();
            }
            self.closed_form(t).at_least(self.ideal_work(t))
        };
        let floors = (0..self.tasks.len()).map(floor).collect();
        self.outer = Outer::new(&self.tasks, floors);
    }

    /// Identity of the question and of the cost model.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Prices of the frame of `task`, made when first asked for.
    pub fn table(&self, task: usize) -> Option<Arc<Table>> {
        self.frame_table(self.frame_of[task])
    }

    fn frame_table(&self, frame: usize) -> Option<Arc<Table>> {
        self.tables[frame]
            .get_or_init(|| Table::new(&self.estimator, self.frames[frame], self.allowed).map(Arc::new))
            .clone()
    }

    /// Frames with their tasks.
    pub fn frames(&self) -> impl Iterator<Item = (usize, Mesh, Vec<usize>)> + '_ {
        self.frames
            .iter()
            .enumerate()
            .map(|(f, mesh)| (f, *mesh, (0..self.tasks.len()).filter(|&t| self.frame_of[t] == f).collect()))
    }

    /// The frame of `task`.
    pub fn frame(&self, task: usize) -> Mesh {
        self.frames[self.frame_of[task]]
    }

    /// Whether the question allows `strategy` for `part`, which has routed experts or not.
    pub fn allows(&self, strategy: &LayerStrategy, part: &PartClass, experts: bool, mesh: Mesh) -> bool {
        (self.allowed)(strategy, part, experts, mesh)
    }

    /// Gives exact methods a first incumbent.
    pub fn set_seeds(&mut self, seeds: Vec<(usize, ChainSolution)>) {
        self.seeds = seeds;
    }

    /// The closed form of `task`.
    pub fn closed_form(&self, task: usize) -> ClosedForm {
        let key = &self.tasks[task];
        ClosedForm::new(key.pipeline, key.chunks, key.micro_batches, self.estimator.jitter())
    }

    /// A bound on every plan of `task`.
    pub fn task_floor(&self, task: usize) -> f64 {
        self.outer.floors[task]
    }

    /// Least time of all parts for one micro-batch, summed over stages, in the frame of `task`.
    pub fn ideal_work(&self, task: usize) -> f64 {
        let mesh = self.frames[self.frame_of[task]];
        let samples = self.estimator.job.global_batch as f64 / mesh.micro_batches as f64;
        self.ideal * samples / mesh.stage_devices as f64
    }

    /// Decimal logarithm of the number of distinct plans: for every task the ways to cut times the strategies of each
    /// part, before dominance.
    pub fn size_log10(&self) -> f64 {
        let parts = &self.estimator.spine.parts;
        let counts: Vec<Option<f64>> = (0..self.frames.len())
            .into_par_iter()
            .map(|f| {
                let mut log = 0.0;
                let per_class: Vec<f64> =
                    self.estimator.spine.classes.iter().map(|c| self.strategies(c, self.frames[f]) as f64).collect();
                for class in parts {
                    let count = per_class[*class as usize];
                    if count == 0.0 {
                        return None;
                    }
                    log += count.log10();
                }
                Some(log)
            })
            .collect();
        let mut logs: Vec<f64> = Vec::new();
        for (task, key) in self.tasks.iter().enumerate() {
            if let Some(log) = counts[self.frame_of[task]] {
                let cuts = if key.split.is_some() {
                    0.0
                } else {
                    log10_choose(parts.len() as f64 - 1.0, f64::from(key.pipeline) - 1.0)
                };
                logs.push(log + cuts);
            }
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + logs.iter().map(|l| 10f64.powf(l - most)).sum::<f64>().log10()
    }

    /// Strategies of a part in a frame, before dominance.
    pub(super) fn strategies(&self, class: &PartClass, mesh: Mesh) -> u64 {
        let experts = super::strategies::Divisors::of(class, self.estimator.job).experts > 0;
        let mut count = 0;
        super::strategies::enumerate(class, self.estimator.job, mesh, &mut |plain, zeros, recomputes| {
            for &zero in zeros {
                for &recompute in recomputes {
                    let s = LayerStrategy { zero, recompute, ..plain };
                    count += u64::from((self.allowed)(&s, class, experts, mesh));
                }
            }
        });
        count
    }

    /// Parts of each chunk of a task with a fixed split, as ranges.
    pub fn chunk_ranges(split: &[u32]) -> Vec<std::ops::Range<u32>> {
        let mut next = 0;
        split
            .iter()
            .map(|n| {
                next += n;
                next - n..next
            })
            .collect()
    }

    /// A plan from the strategy of each part and the number of parts of each chunk.
    pub fn plan(&self, task: usize, split: &[u32], strategy_of: &dyn Fn(u32) -> LayerStrategy) -> Plan {
        let key = &self.tasks[task];
        let chunks: Vec<Chunk> = Self::chunk_ranges(split)
            .into_iter()
            .map(|r| Plan::encode(r.start, &r.clone().map(strategy_of).collect::<Vec<_>>()))
            .collect();
        Plan {
            devices: self.estimator.pool.devices,
            pipeline: key.pipeline,
            chunks_per_stage: key.chunks,
            micro_batches: key.micro_batches,
            chunks,
        }
    }

    /// The plan that a choice means.
    pub fn plan_of(&self, choice: &Choice) -> Plan {
        let parts = &self.estimator.spine.parts;
        let table = self.table(choice.task as usize);
        let strategy_of = |part: u32| {
            let class = parts[part as usize] as usize;
            let option = choice.options[part as usize] as usize;
            table.as_ref().map_or(LayerStrategy::PLAIN, |t| t.classes[class].strategies[option])
        };
        self.plan(choice.task as usize, &choice.sizes, &strategy_of)
    }

    /// What the closed form of `task` needs; `None` when some part has no strategy there.
    pub fn fast(&self, task: usize) -> Option<&Frame> {
        self.fast[task].get_or_init(|| Frame::new(self, task)).as_ref()
    }

    /// Live micro-batches by stage and chunk: of the usual schedule, or the fewest of any where the order is free.
    pub fn live(&self, task: usize) -> Vec<Vec<f64>> {
        let key = &self.tasks[task];
        if self.free_order {
            return vec![vec![1.0; key.chunks as usize]; key.pipeline as usize];
        }
        (0..key.pipeline).map(|s| in_flight::at_warm_up(key.pipeline, key.chunks, key.micro_batches, s)).collect()
    }
}

fn log10_choose(n: f64, k: f64) -> f64 {
    (statrs::function::factorial::ln_factorial(n as u64)
        - statrs::function::factorial::ln_factorial(k as u64)
        - statrs::function::factorial::ln_factorial((n - k) as u64))
        / std::f64::consts::LN_10
}

struct PipelineFold(ClosedForm);

impl PipelineFold {
    /// One stage is busy all the time: its objective is `m (F + B)`, the reduction and the tail, added up.
    fn is_sum(&self) -> bool {
        self.0.pipeline == 1 && self.0.chunks_per_stage == 1
    }
}

fn to_folded(f: &Fold) -> Folded {
    Folded { path: f[0], done: f[1], reduced: f[2], tail: f[3], last: f[4] }
}
fn to_fold(f: Folded) -> Fold {
    [f.path, f.done, f.reduced, f.tail, f.last, 0.0]
}

fn stage_cost(cost: &Cost) -> StageCost {
    StageCost {
        forward: cost[at::FORWARD],
        backward: cost[at::BACKWARD],
        reduce: cost[at::REDUCE],
        tail: cost[at::TAIL],
        hop: cost[at::HOP],
        lead_hop: cost[at::LEAD_HOP],
        lead_forward: cost[at::LEAD_FORWARD],
        lead_backward: cost[at::LEAD_BACKWARD],
    }
}

impl Combine for PipelineFold {
    fn start(&self) -> Fold {
        to_fold(Folded::default())
    }
    fn push(&self, state: &Fold, segment: usize, cost: &Cost) -> Fold {
        to_fold(self.0.push(&to_folded(state), segment, &stage_cost(cost)))
    }
    fn finish(&self, state: &Fold) -> f64 {
        self.0.finish(&to_folded(state))
    }
    fn primary(&self, cost: &Cost) -> f64 {
        let work = cost[at::FORWARD] + cost[at::BACKWARD];
        if self.is_sum() { work + (cost[at::REDUCE] + cost[at::TAIL]) / self.0.micro_batches as f64 } else { work }
    }
    fn push_relaxed(&self, state: &Fold, segment: usize, primary: f64, floor: &Cost) -> Fold {
        if self.is_sum() {
            let all = self.0.micro_batches as f64 * primary.max(self.primary(floor));
            return to_fold(Folded { done: all, reduced: all, ..Folded::default() });
        }
        to_fold(self.0.push_relaxed(&to_folded(state), segment, primary, &stage_cost(floor)))
    }
    fn primary_limit(&self, objective: f64) -> f64 {
        objective / (self.0.jitter * self.0.micro_batches as f64)
    }
    fn complete(&self, state: &Fold, segments: usize, primary: f64) -> f64 {
        self.0.complete(&to_folded(state), segments, primary)
    }
    fn weights(&self) -> Cost {
        let (j, m) = (self.0.jitter, self.0.micro_batches as f64);
        let mut w = [0.0; COSTS];
        w[at::FORWARD] = j * (m + 1.0);
        w[at::BACKWARD] = j * m;
        w[at::REDUCE] = j;
        w[at::TAIL] = j;
        w[at::HOP] = 2.0 * j * m;
        w[at::LEAD_HOP] = 3.0 * j;
        w[at::LEAD_FORWARD] = j * (m + 1.0);
        w[at::LEAD_BACKWARD] = j;
        if self.is_sum() {
            w[at::FORWARD] = j * m;
        }
        w
    }
    fn linear(&self) -> Linear {
        let mut linear = Linear { sum: self.least_weights(), largest: [0.0; COSTS] };
        if !self.is_sum() {
            // Every stage is busy with all micro-batches.
            let all = self.0.jitter * self.0.micro_batches as f64;
            (linear.largest[at::FORWARD], linear.largest[at::BACKWARD]) = (all, all);
        }
        linear
    }
    fn least_weights(&self) -> Cost {
        let mut w = [0.0; COSTS];
        if self.is_sum() {
            let (j, m) = (self.0.jitter, self.0.micro_batches as f64);
            (w[at::FORWARD], w[at::BACKWARD], w[at::REDUCE], w[at::TAIL]) = (j * m, j * m, j, j);
        }
        w
    }
}

struct Boundaries {
    table: Arc<Table>,
}

impl Transition for Boundaries {
    fn between(&self, class: u32, from: u16, to: u16) -> Cost {
        let n = self.table.layouts.len();
        let time = self.table.reshard[class as usize][from as usize * n + to as usize];
        let mut cost = [0.0; COSTS];
        cost[at::FORWARD] = time;
        cost[at::BACKWARD] = time;
        cost
    }
    fn entry(&self, segment: usize, class: u32, layout: u16) -> Cost {
        let mut cost = self.rejoin(segment, class, layout);
        if segment > 0 {
            cost[at::LEAD_HOP] = cost[at::HOP];
            cost[at::LEAD_FORWARD] = cost[at::FORWARD];
            cost[at::LEAD_BACKWARD] = cost[at::BACKWARD];
            cost
        } else {
            [0.0; COSTS]
        }
    }
    fn rejoin(&self, segment: usize, class: u32, layout: u16) -> Cost {
        let hop = self.table.hop[segment][class as usize][layout as usize];
        let mut cost = [0.0; COSTS];
        cost[at::FORWARD] = hop * self.table.interference;
        cost[at::BACKWARD] = cost[at::FORWARD];
        cost[at::HOP] = hop;
        cost
    }
}

impl Decompose for LayerwiseSpace<'_> {
    type Solution = Choice;

    fn tasks(&self) -> usize {
        self.tasks.len()
    }

    fn task_bound(&self, task: usize) -> Bound {
        Bound::AtLeast(self.task_floor(task))
    }

    fn priced_bound(&self, task: usize) -> Bound {
        let Some(table) = self.table(task) else { return Bound::Infeasible };
        let fold = PipelineFold(self.closed_form(task));
        let least = |class: &ClassTable| {
            if !fold.is_sum() {
                return class.least_work;
            }
            class.options.iter().map(|o| fold.primary(&o.cost)).fold(f64::INFINITY, f64::min)
        };
        let work = self.class_sizes.iter().zip(&table.classes).map(|(n, class)| n * least(class)).sum();
        Bound::AtLeast(fold.complete(&fold.start(), self.tasks[task].pipeline as usize, work))
    }

    fn chain(&self, task: usize) -> Option<Chain<'_>> {
        let table = self.table(task)?;
        let key = &self.tasks[task];
        let cap = self.estimator.allocatable();
        let live = self.live(task);
        let segments = live.iter().map(|l| Segment { multiplier: l[0], cap }).collect();
        let cuts = match &key.split {
            None => Cuts::Free { min_items: 1 },
            Some(split) => {
                let ranges = Self::chunk_ranges(split);
                let p = key.pipeline as usize;
                Cuts::Fixed(
                    (0..p)
                        .map(|d| {
                            let chunks = || (0..key.chunks as usize).map(|c| (c, ranges[c * p + d].clone()));
                            let mut items = Vec::with_capacity(chunks().map(|(_, range)| range.len()).sum());
                            for (c, range) in chunks() {
                                let (first, multiplier) = (range.start, live[d][c]);
                                items.extend(range.map(|item| FixedItem {
                                    item,
                                    multiplier,
                                    lead: c == 0,
                                    follows: item > first,
                                }));
                            }
                            items
                        })
                        .collect(),
                )
            }
        };
        Some(Chain {
            items: self.estimator.spine.parts.clone(),
            options: table.classes.iter().map(|c| c.options.clone()).collect(),
            cuts,
            segments,
            combine: Arc::new(PipelineFold(self.closed_form(task))),
            transition: Arc::new(Boundaries { table }),
        })
    }

    fn assemble(&self, task: usize, solution: &ChainSolution) -> Choice {
        let sizes: Box<[u32]> = match &self.tasks[task].split {
            Some(split) => split.clone().into(),
            None => solution.segments.iter().map(|s| s.len() as u32).collect(),
        };
        Choice { task: task as u32, sizes, options: solution.options.iter().map(|o| *o as u16).collect() }
    }

    fn disassemble(&self, x: &Choice) -> Option<(usize, ChainSolution)> {
        let frame = self.fast(x.task as usize)?;
        let (time, excess) = frame.price(&x.sizes, &x.options);
        (excess <= 1e-12).then(|| (x.task as usize, frame.chain_solution(&x.sizes, &x.options, time)))
    }

    fn value(&self, task: usize, solution: &ChainSolution) -> f64 {
        match self.estimator.estimate(&self.plan_of(&self.assemble(task, solution))) {
            Ok(e) if e.fits => e.iteration_time_s.max(solution.objective),
            _ => f64::INFINITY,
        }
    }

    fn seeds(&self) -> Vec<(usize, ChainSolution)> {
        self.seeds.clone()
    }
}
