//! A point of the space: task, embedding, and how many layers of each type each stage gives each strategy.
//!
//! Layers of one type cost the same wherever they stand within their stage, so counts are the whole truth, and plans that
//! differ only in that order are one solution.

use super::arrange::arrange;
use super::knapsack::Counts;
use super::objective::Objective;
use super::problem::GalvatronSpace;
use crate::cost::galvatron::{Plan, Repair};

/// A solution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Solution {
    /// Number of the task.
    pub task: u32,
    /// Number of the strategy of embedding and head in the task's table.
    pub embedding: u32,
    /// By stage: (type, strategy, layers), sorted.
    pub stages: Vec<Counts>,
}

/// What a solution is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
    /// Objective, seconds.
    pub objective_s: f64,
    /// Memory beyond what there is, over all stages, relative to it; 0 when everything fits.
    pub excess: f64,
}

impl GalvatronSpace {
    /// Prices a solution from the tables.
    pub fn worth(&self, x: &Solution) -> Worth {
        let task = x.task as usize;
        let table = self.table(task);
        let reshards = table.reshards();
        let usable = self.model.usable_mb();
        let buffer = self.buffer_mb(task);
        let stages = x.stages.len();
        let (mut compute, mut sync, mut other) =
            (Vec::with_capacity(stages), Vec::with_capacity(stages), Vec::with_capacity(stages));
        let mut excess = 0.0;
        for (stage, counts) in x.stages.iter().enumerate() {
            let e = table.other_ms(x.embedding as usize, stage as u32);
            let mut memory = u64::from(table.other_mb(x.embedding as usize, stage as u32)) + buffer;
            let (mut c, mut s) = (e, 0.0);
            for &(kind, id, n) in counts {
                let row = &table.rows[kind as usize][id as usize];
                c += f64::from(n) * row.compute_ms;
                s += f64::from(n) * row.sync_ms;
                memory += u64::from(n) * u64::from(table.memory_mb(kind as usize, stage as u32)[id as usize]);
            }
            if reshards {
                c += arrange(table, counts).0;
            }
            compute.push(c);
            sync.push(s);
            other.push(e);
            excess += memory.saturating_sub(usable) as f64 / usable.max(1) as f64;
        }
        let objective = Objective::new(table.pp, table.micro.chunks, self.model.repairs.has(Repair::SlowStage));
        let ms = objective.exact_ms(&compute, &sync, &other);
        Worth { objective_s: self.objective_s(task, ms), excess }
    }

    /// Runs of a stage in model order: within a type strategies by rising degree, then rising memory, or in the order that
    /// changes degrees at the least cost.
    pub(super) fn ordered(&self, task: usize, counts: &Counts, stage: usize) -> Counts {
        let table = self.table(task);
        let mut runs = counts.clone();
        runs.sort_by_key(|&(kind, id, _)| {
            let memory = table.memory_mb(kind as usize, stage as u32)[id as usize];
            (kind, table.degree(id), memory, id)
        });
        if table.reshards() { arrange(table, &runs).1 } else { runs }
    }

    /// The plan.
    pub fn plan(&self, x: &Solution) -> Plan {
        let table = self.table(x.task as usize);
        let mut layers = Vec::new();
        for (stage, counts) in x.stages.iter().enumerate() {
            for (_, id, n) in self.ordered(x.task as usize, counts, stage) {
                layers.extend(std::iter::repeat_n(table.strategies[id as usize], n as usize));
            }
        }
        Plan {
            pp: table.pp,
            micro: table.micro,
            partition: x.stages.iter().map(|c| c.iter().map(|r| r.2).sum()).collect(),
            layers,
            embedding: table.embeddings[x.embedding as usize].strategy,
        }
    }
}
