//! The closed-form price of one layer-wise plan from table look-ups: the inner loop of every search.

use super::allele;
use super::layerwise::LayerwiseSpace;
use super::table::{ClassTable, Table, at};
use super::worth::Trade;
use crate::estimate::closed::{ClosedForm, Folded, StageCost};
use crate::search::decompose::{ChainOption, ChainSolution};
use crate::search::problem::Allele;
use crate::search::score::Score;
use std::sync::OnceLock;

/// A plan as indices: which task, how many parts each chunk holds, which option of its class each part takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Index into [`LayerwiseSpace::tasks`].
    pub task: u32,
    /// Parts of each chunk in order of traversal.
    pub sizes: Box<[u32]>,
    /// Option of each part.
    pub options: Box<[u16]>,
}

/// What of a task prices need, ready for the inner loop.
#[derive(Debug, Clone)]
pub struct Frame {
    form: ClosedForm,
    rows: Vec<Vec<Row>>,
    /// Class of each part.
    parts: Vec<u32>,
    /// Live micro-batches, `stage * chunks + chunk`.
    live: Vec<f64>,
    cap: f64,
    mean_work: f64,
    /// `[class][option]`.
    alleles: Vec<Vec<Allele>>,
    /// `[class][stage * chunks + chunk]`.
    least: Vec<Vec<Least>>,
    /// As they are asked for, `[class][stage * chunks + chunk]`.
    trades: Vec<Vec<OnceLock<Trade>>>,
    table: std::sync::Arc<Table>,
}

/// The least that any option of a class needs.
#[derive(Debug, Clone, Copy)]
pub struct Least {
    /// Bytes, momentary needs left out.
    pub memory: f64,
    /// Seconds of one micro-batch.
    pub work: f64,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    forward: f64,
    backward: f64,
    reduce: f64,
    tail: f64,
    fixed: f64,
    scaled: f64,
    peak: f64,
    layout: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stage {
    cost: StageCost,
    memory: f64,
    peak: f64,
}

impl Frame {
    /// The frame of `task`; `None` when some part has no strategy there.
    pub fn new(space: &LayerwiseSpace, task: usize) -> Option<Self> {
        let table = space.table(task)?;
        let rows = table
            .classes
            .iter()
            .map(|class| {
                let row = |o: &ChainOption| Row {
                    forward: o.cost[at::FORWARD],
                    backward: o.cost[at::BACKWARD],
                    reduce: o.cost[at::REDUCE],
                    tail: o.cost[at::TAIL],
                    fixed: o.fixed,
                    scaled: o.scaled,
                    peak: o.peak,
                    layout: u32::from(o.layout),
                };
                class.options.iter().map(row).collect()
            })
            .collect();
        let live = space.live(task).concat();
        let of_class = |class: &ClassTable| -> Vec<Least> {
            let least = |f: &dyn Fn(&ChainOption) -> f64| class.options.iter().map(f).fold(f64::INFINITY, f64::min);
            live.iter().map(|n| Least { memory: least(&|o| o.fixed + n * o.scaled), work: class.least_work }).collect()
        };
        let alleles = table.classes.iter().map(|c| c.strategies.iter().map(allele::of_strategy).collect()).collect();
        let parts = space.estimator.spine.parts.clone();
        let mean_work =
            parts.iter().map(|c| table.classes[*c as usize].least_work).sum::<f64>() / parts.len().max(1) as f64;
        Some(Self {
            form: space.closed_form(task),
            rows,
            parts,
            alleles,
            least: table.classes.iter().map(of_class).collect(),
            trades: vec![vec![OnceLock::new(); live.len()]; table.classes.len()],
            live,
            cap: space.estimator.allocatable(),
            mean_work,
            table,
        })
    }

    /// The table behind it.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Memory that a stage may allocate.
    pub fn cap(&self) -> f64 {
        self.cap
    }

    /// Micro-batches of a step.
    pub fn micro_batches(&self) -> f64 {
        self.form.micro_batches as f64
    }

    /// Least work of a part for one micro-batch, the mean over all parts. Seconds.
    pub fn mean_work(&self) -> f64 {
        self.mean_work
    }

    /// Live micro-batches of a chunk.
    pub fn live(&self, stage: usize, chunk: usize) -> f64 {
        self.live[stage * self.form.chunks_per_stage as usize + chunk]
    }

    /// The least that an option of `class` needs in a chunk.
    pub fn least(&self, class: usize, stage: usize, chunk: usize) -> Least {
        self.least[class][stage * self.form.chunks_per_stage as usize + chunk]
    }

    /// How the options of `class` trade memory for time in a chunk.
    pub fn trade(&self, class: usize, stage: usize, chunk: usize) -> &Trade {
        let of = || Trade::of(&self.table.classes[class].options, self.live(stage, chunk), self.micro_batches());
        self.trades[class][stage * self.form.chunks_per_stage as usize + chunk].get_or_init(of)
    }

    /// Every option of `class` as an allele.
    pub fn alleles(&self, class: usize) -> &[Allele] {
        &self.alleles[class]
    }

    /// Closed-form iteration time and the total relative excess of memory over all stages (0 when it fits).
    pub fn price(&self, sizes: &[u32], options: &[u16]) -> (f64, f64) {
        let (p, v) = (self.form.pipeline as usize, self.form.chunks_per_stage as usize);
        let n = self.table.layouts.len();
        let mut state = Folded::default();
        let mut excess = 0.0;
        let mut small = [Stage::default(); 16];
        let mut large = Vec::new();
        let stages: &mut [Stage] = if p <= small.len() {
            &mut small[..p]
        } else {
            large.resize(p, Stage::default());
            &mut large
        };
        let mut part = 0usize;
        for (x, &size) in sizes.iter().enumerate() {
            let (s, c) = (x % p, x / p);
            let live = self.live[s * v + c];
            let stage = &mut stages[s];
            let mut before = u32::MAX;
            let (mut forward, mut backward) = (0.0, 0.0);
            let end = part + size as usize;
            for (class, option) in self.parts[part..end].iter().zip(&options[part..end]) {
                let class = *class as usize;
                let row = &self.rows[class][*option as usize];
                forward += row.forward;
                backward += row.backward;
                stage.cost.reduce += row.reduce;
                stage.cost.tail += row.tail;
                stage.memory += row.fixed + live * row.scaled;
                stage.peak = stage.peak.max(row.peak);
                if row.layout != before {
                    if before != u32::MAX {
                        let reshard = self.table.reshard[class][before as usize * n + row.layout as usize];
                        forward += reshard;
                        backward += reshard;
                    } else if x > 0 {
                        let hop = self.table.hop[s][class][row.layout as usize];
                        forward += hop * self.table.interference;
                        backward += hop * self.table.interference;
                        stage.cost.hop += hop;
                        if c == 0 {
                            stage.cost.lead_hop = hop;
                        }
                    }
                    before = row.layout;
                }
            }
            part = end;
            stage.cost.forward += forward;
            stage.cost.backward += backward;
            if v > 1 && c == 0 {
                stage.cost.lead_forward = forward;
                stage.cost.lead_backward = backward;
            }
        }
        for (s, stage) in stages.iter().enumerate().rev() {
            state = self.form.push(&state, s, &stage.cost);
            excess += ((stage.memory + stage.peak) / self.cap - 1.0).max(0.0);
        }
        (self.form.finish(&state), excess)
    }

    /// The same as a score.
    pub fn score(&self, sizes: &[u32], options: &[u16]) -> Score {
        let (time, excess) = self.price(sizes, options);
        if excess > 1e-12 || excess.is_nan() { Score::infeasible(excess) } else { Score::feasible(time) }
    }

    /// A choice as the solution of the task's chain, for seeding exact methods.
    pub fn chain_solution(&self, sizes: &[u32], options: &[u16], objective: f64) -> ChainSolution {
        let (p, v) = (self.form.pipeline as usize, self.form.chunks_per_stage as usize);
        let ranges = LayerwiseSpace::chunk_ranges(sizes);
        let segments = (0..p).map(|s| (0..v).flat_map(|c| ranges[c * p + s].clone()).collect()).collect();
        ChainSolution { segments, options: options.iter().map(|o| u32::from(*o)).collect(), objective }
    }
}
