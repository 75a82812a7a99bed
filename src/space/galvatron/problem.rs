//! The space laid out for searching: tasks, the tables they see, and what a choice of strategies is worth.

use super::branches::Branches;
use super::exact::ExactAnswer;
use super::objective::Objective;
use super::table::Table;
use super::tasks::{Task, tasks};
use crate::cost::galvatron::{CostModel, GalvatronCostError, Plan, Price, Repair, TpSpMode, even_partition};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// How layers are dealt to stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Partition {
    /// As Galvatron does: equally, the remainder on the last stage.
    #[default]
    Even,
    /// To be decided. The slowest stage is then seen whatever the repairs say: Galvatron's own formula would reward hiding
    /// all layers on a middle stage.
    Free,
}

/// Galvatron's space for one question.
///
/// The objective is the time of one iteration in seconds. Where several global batches are searched it is the time for as
/// many samples as the largest of them has, so that it ranks plans by samples per second as Galvatron does.
#[derive(Debug, Clone)]
pub struct GalvatronSpace {
    /// What prices.
    pub model: CostModel,
    /// How layers are dealt to stages.
    pub partition: Partition,
    /// The outer loop, subsets of other tasks left out.
    pub tasks: Vec<Task>,
    tables: Vec<Table>,
    table_of: Vec<usize>,
    scale_to: f64,
    pub(super) pairs: OnceLock<Vec<(u32, u32)>>,
    pub(super) answer: OnceLock<ExactAnswer>,
    pub(super) branches: OnceLock<Branches>,
    pub(super) identity: OnceLock<u128>,
}

impl GalvatronSpace {
    /// Fills the tables.
    pub fn new(mut model: CostModel, partition: Partition) -> Result<Self, GalvatronCostError> {
        if partition == Partition::Free {
            model.repairs = model.repairs.with(Repair::SlowStage);
        }
        let tasks: Vec<Task> = tasks(&model.setting).into_iter().filter(|t| !t.is_subset(&model.setting)).collect();
        let mut tables = Vec::new();
        let mut known = BTreeMap::new();
        let mut table_of = Vec::with_capacity(tasks.len());
        for task in &tasks {
            let key = (task.micro.global_batch, task.micro.chunks, task.pp);
            let index = match known.get(&key) {
                Some(&index) => index,
                None => {
                    tables.push(Table::fill(&model, task.micro, task.pp)?);
                    known.insert(key, tables.len() - 1);
                    tables.len() - 1
                }
            };
            table_of.push(index);
        }
        let scale_to = f64::from(model.setting.batches.global.iter().copied().max().unwrap_or(1));
        Ok(Self {
            model,
            partition,
            tasks,
            tables,
            table_of,
            scale_to,
            pairs: OnceLock::new(),
            answer: OnceLock::new(),
            branches: OnceLock::new(),
            identity: OnceLock::new(),
        })
    }

    /// The table that task number `task` sees.
    pub fn table(&self, task: usize) -> &Table {
        &self.tables[self.table_of[task]]
    }

    /// Objective in seconds of an iteration of `ms` in task number `task`.
    pub fn objective_s(&self, task: usize, ms: f64) -> f64 {
        ms * 1e-3 * (self.scale_to / f64::from(self.tasks[task].micro.global_batch))
    }

    /// Layers of each type on each stage under Galvatron's own partition.
    pub fn stage_counts(&self, pp: u32) -> Vec<Vec<u32>> {
        self.counts_of(&even_partition(self.model.setting.layers(), pp))
    }

    /// Layers of each type on each stage of `partition`.
    pub fn counts_of(&self, partition: &[u32]) -> Vec<Vec<u32>> {
        let types = &self.model.setting.layer_types;
        let mut kind = 0;
        let mut used = 0;
        partition
            .iter()
            .map(|&n| {
                let mut counts = vec![0; types.len()];
                let mut left = n;
                while left > 0 && kind < types.len() {
                    let take = left.min(types[kind].layers - used);
                    counts[kind] += take;
                    used += take;
                    left -= take;
                    if used == types[kind].layers {
                        kind += 1;
                        used = 0;
                    }
                }
                counts
            })
            .collect()
    }

    /// Whole MB of the buffer for gathered activations in task number `task`.
    pub fn buffer_mb(&self, task: usize) -> u64 {
        let t = &self.tasks[task];
        if t.mode == TpSpMode::SpOnly {
            return 0;
        }
        self.model.global_buffer_mb(t.pp, t.buffer_tp, t.micro) as u64
    }

    /// The pipeline formula of task number `task`.
    pub fn objective(&self, task: usize) -> Objective {
        let t = &self.tasks[task];
        Objective::new(t.pp, t.micro.chunks, self.model.repairs.has(Repair::SlowStage))
    }

    /// The price of a plan as a member of task number `task`.
    pub fn price(&self, task: usize, plan: &Plan) -> Result<Price, GalvatronCostError> {
        self.model.price(plan, self.tasks[task].mode, self.tasks[task].buffer_tp)
    }
}
