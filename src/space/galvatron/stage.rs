//! One task seen stage by stage: what its layers may choose, what embedding and head cost, and how much memory is left.

use super::arrange::{arrange, least_change_ms};
use super::knapsack::{Choice, Counts, Knapsack};
use super::objective::Objective;
use super::problem::GalvatronSpace;
use super::solution::Solution;
use super::table::Table;
use crate::cost::galvatron::Repair;

/// Time and gradient reduction of the layers of one stage, and how they are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFilling {
    /// Compute of the layers, ms.
    pub compute_ms: f64,
    /// What their gradient reduction adds, ms.
    pub sync_ms: f64,
    /// (type, strategy, number of layers).
    pub counts: Counts,
}

/// A task, prepared.
#[derive(Debug, Clone)]
pub struct TaskView<'a> {
    /// Its number.
    pub task: usize,
    /// The prices it sees.
    pub table: &'a Table,
    /// The pipeline formula.
    pub objective: Objective,
    /// Layers by stage and type.
    pub counts: Vec<Vec<u32>>,
    /// Strategies that it admits, as indices into the table.
    pub strategies: Vec<u32>,
    /// Strategies of embedding and head that it admits and that no other beats in everything.
    pub embeddings: Vec<u32>,
    usable_mb: u64,
    buffer_mb: u64,
}

impl<'a> TaskView<'a> {
    /// Prepares task number `task` under Galvatron's partition.
    pub fn new(space: &'a GalvatronSpace, task: usize) -> Self {
        let t = &space.tasks[task];
        let counts = space.stage_counts(t.pp);
        Self::with_counts(space, task, counts)
    }

    /// Prepares task number `task` with `counts` layers by stage and type.
    pub fn with_counts(space: &'a GalvatronSpace, task: usize, counts: Vec<Vec<u32>>) -> Self {
        let t = &space.tasks[task];
        let table = space.table(task);
        let repairs = space.model.repairs;
        let admitted = |i: &u32| t.admits(&table.strategies[*i as usize], repairs);
        let strategies = (0..table.strategies.len() as u32).filter(admitted).collect();
        let mut embeddings: Vec<u32> = (0..table.embeddings.len() as u32)
            .filter(|&i| t.admits(&table.embeddings[i as usize].strategy, repairs))
            .collect();
        let all = embeddings.clone();
        embeddings.retain(|&i| !all.iter().any(|&j| beats(table, j, i)));
        Self {
            task,
            table,
            objective: Objective::new(t.pp, t.micro.chunks, repairs.has(Repair::SlowStage)),
            counts,
            strategies,
            embeddings,
            usable_mb: space.model.usable_mb(),
            buffer_mb: space.buffer_mb(task),
        }
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.counts.len()
    }

    /// Memory left for the layers of `stage` beside `embedding`, MB.
    pub fn cap_mb(&self, embedding: u32, stage: usize) -> Option<u64> {
        let other = u64::from(self.table.other_mb(embedding as usize, stage as u32)) + self.buffer_mb;
        self.usable_mb.checked_sub(other)
    }

    /// Time of embedding and head by stage, ms.
    pub fn embedding_ms(&self, embedding: u32) -> Vec<f64> {
        (0..self.stages()).map(|s| self.table.other_ms(embedding as usize, s as u32)).collect()
    }

    /// The knapsack of `stage` with `counts` layers by type for minimising `alpha` x compute + `beta` x sync with
    /// strategies of `degrees` (a bit set); `None` if a type has no strategy.
    pub fn knapsack(&self, stage: usize, counts: &[u32], alpha: f64, beta: f64, degrees: u32) -> Option<Knapsack> {
        self.knapsack_of(stage, counts, alpha, beta, |_, id| degrees & 1 << self.table.degree(id) != 0)
    }

    /// Strategies for layers of type `kind` on `stage` that no other beats in size, compute and sync (and, where changing
    /// degrees costs something, of the same degree).
    pub fn narrow(&self, stage: usize, kind: usize) -> Vec<u32> {
        let reshards = self.table.reshards();
        let sizes = self.table.memory_mb(kind, stage as u32);
        let rows = &self.table.rows[kind];
        let beats = |a: u32, b: u32| {
            let (i, j) = (a as usize, b as usize);
            let (x, y) = (&rows[i], &rows[j]);
            let no_worse = sizes[i] <= sizes[j] && x.compute_ms <= y.compute_ms && x.sync_ms <= y.sync_ms;
            let equal = sizes[i] == sizes[j] && x == y;
            let alike = !reshards || self.table.degree(a) == self.table.degree(b);
            alike && no_worse && (!equal || a < b)
        };
        self.strategies.iter().copied().filter(|&id| !self.strategies.iter().any(|&o| beats(o, id))).collect()
    }

    /// As [`TaskView::knapsack`] of the stage's own layers with the strategies of [`TaskView::narrow`].
    pub fn narrow_knapsack(&self, stage: usize, alpha: f64, beta: f64) -> Option<Knapsack> {
        let narrow: Vec<Vec<u32>> = (0..self.table.rows.len()).map(|kind| self.narrow(stage, kind)).collect();
        self.knapsack_of(stage, &self.counts[stage], alpha, beta, |kind, id| narrow[kind].contains(&id))
    }

    fn knapsack_of(
        &self,
        stage: usize,
        counts: &[u32],
        alpha: f64,
        beta: f64,
        keep: impl Fn(usize, u32) -> bool,
    ) -> Option<Knapsack> {
        Knapsack::new(counts.iter().enumerate().map(|(kind, &count)| {
            let mut choices = Vec::new();
            if count > 0 {
                let sizes = self.table.memory_mb(kind, stage as u32);
                let rows = &self.table.rows[kind];
                choices.extend(self.strategies.iter().filter(|&&i| keep(kind, i)).map(|&i| {
                    let row = &rows[i as usize];
                    Choice { cost: alpha * row.compute_ms + beta * row.sync_ms, size: sizes[i as usize], id: i }
                }));
            }
            (count, choices)
        }))
    }

    /// The filling of `stage` with `counts` layers by type within `cap` MB that minimises `alpha` x compute + `beta` x sync, and a
    /// lower bound on that. Where changing degrees costs something, `alpha` must be positive, and every set of degrees is
    /// tried.
    pub fn minimise(
        &self,
        stage: usize,
        counts: &[u32],
        cap: u64,
        alpha: f64,
        beta: f64,
    ) -> Option<(StageFilling, f64)> {
        if !self.table.reshards() {
            let found = self.knapsack(stage, counts, alpha, beta, u32::MAX)?.solve(cap)?;
            let bound = found.bound;
            return Some((self.counted(found.counts), bound));
        }
        let used = self.strategies.iter().fold(0u32, |set, &i| set | 1 << self.table.degree(i));
        let mut best: Option<(StageFilling, f64)> = None;
        let mut bound = f64::INFINITY;
        for degrees in (1..=used).filter(|d| d & !used == 0) {
            let change = alpha * least_change_ms(self.table, degrees);
            let Some(found) = self.knapsack(stage, counts, alpha, beta, degrees).and_then(|k| k.solve(cap)) else {
                continue;
            };
            bound = bound.min(found.bound + change);
            let filling = self.counted(found.counts);
            let value = alpha * filling.compute_ms + beta * filling.sync_ms;
            if best.as_ref().is_none_or(|b| value < b.1) {
                best = Some((filling, value));
            }
        }
        best.map(|(filling, _)| (filling, bound))
    }

    /// The most that the layers of `stage` can compute, ms.
    pub fn slowest_ms(&self, stage: usize) -> f64 {
        self.counts[stage]
            .iter()
            .enumerate()
            .map(|(kind, &n)| {
                let rows = &self.table.rows[kind];
                let most = self.strategies.iter().map(|&i| rows[i as usize].compute_ms).fold(0.0, f64::max);
                let change = self.table.resharding_ms[kind].iter().copied().fold(0.0, f64::max);
                f64::from(n) * (most + change)
            })
            .sum()
    }

    /// Time and sync of counts, in their cheapest order.
    pub fn counted(&self, counts: Counts) -> StageFilling {
        let (mut compute_ms, mut sync_ms) = (0.0, 0.0);
        for &(kind, id, n) in &counts {
            let row = &self.table.rows[kind as usize][id as usize];
            compute_ms += f64::from(n) * row.compute_ms;
            sync_ms += f64::from(n) * row.sync_ms;
        }
        if self.table.reshards() {
            compute_ms += arrange(self.table, &counts).0;
        }
        StageFilling { compute_ms, sync_ms, counts }
    }

    /// Least compute of any layer of type `kind`, whatever its memory; `None` without a strategy.
    pub fn least_compute_ms(&self, kind: usize) -> Option<f64> {
        self.strategies.iter().map(|&i| self.table.rows[kind][i as usize].compute_ms).min_by(f64::total_cmp)
    }

    /// Time of an iteration with these fillings, ms.
    pub fn time_ms(&self, embedding: u32, fillings: &[&StageFilling]) -> f64 {
        let other = self.embedding_ms(embedding);
        let compute: Vec<f64> = fillings.iter().zip(&other).map(|(f, e)| f.compute_ms + e).collect();
        let sync: Vec<f64> = fillings.iter().map(|f| f.sync_ms).collect();
        self.objective.exact_ms(&compute, &sync, &other)
    }

    /// The solution with these fillings.
    pub fn solution(&self, embedding: u32, fillings: &[StageFilling]) -> Solution {
        let stages = fillings.iter().map(|f| f.counts.clone()).collect();
        Solution { task: self.task as u32, embedding, stages }
    }
}

/// Whether embedding `a` is at least as good as `b` in all that matters, and better or earlier.
fn beats(table: &Table, a: u32, b: u32) -> bool {
    let (x, y) = (&table.embeddings[a as usize], &table.embeddings[b as usize]);
    let no_worse =
        x.first_ms <= y.first_ms && x.last_ms <= y.last_ms && x.first_mb <= y.first_mb && x.last_mb <= y.last_mb;
    let equal =
        x.first_ms == y.first_ms && x.last_ms == y.last_ms && x.first_mb == y.first_mb && x.last_mb == y.last_mb;
    no_worse && (!equal || a < b)
}
