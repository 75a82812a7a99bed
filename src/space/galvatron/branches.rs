//! What the decision tree offers at each node, prepared once per task.

use super::problem::GalvatronSpace;
use super::stage::TaskView;
use crate::cost::galvatron::{DpType, Strategy};
use crate::search::problem::Allele;

/// Strategies for layers of one type on one stage, by rising memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Stage.
    pub stage: u32,
    /// Layer type.
    pub kind: u32,
    /// Strategies as (number in the table, MB of one layer).
    pub choices: Vec<(u32, u32)>,
    /// Least compute of one layer, ms.
    pub least_ms: f64,
}

/// What a task offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Number of the task.
    pub task: u32,
    /// Layers by stage and type under Galvatron's partition.
    pub counts: Vec<Vec<u32>>,
    /// By stage, then type.
    pub groups: Vec<Group>,
    /// Strategies of the embedding beside which the layers can fit, with the memory left on each stage.
    pub embeddings: Vec<(u32, Vec<u64>)>,
    /// Lower bound on the objective, seconds.
    pub bound_s: f64,
}

/// Tasks that share a way to cut the batch and a number of stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Trunk {
    /// Its tasks.
    pub branches: Vec<Branch>,
    /// Lower bound on the objective, seconds.
    pub bound_s: f64,
}

/// The first decisions of the tree; tasks in which nothing fits are left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Branches {
    /// By way to cut the batch and number of stages.
    pub trunks: Vec<Trunk>,
    /// Distinct solutions, as a decimal logarithm, memory aside.
    pub space_log10: f64,
}

impl Branches {
    /// Prepares all of it.
    pub fn of(space: &GalvatronSpace) -> Self {
        let mut trunks: Vec<Trunk> = Vec::new();
        let mut last = None;
        let mut logs: Vec<f64> = Vec::new();
        for task in 0..space.tasks.len() {
            let view = TaskView::new(space, task);
            logs.push(solutions_log10(&view));
            let Some(branch) = Branch::of(space, &view) else { continue };
            let t = &space.tasks[task];
            let key = (t.micro, t.pp);
            if last != Some(key) {
                trunks.push(Trunk { branches: Vec::new(), bound_s: f64::INFINITY });
                last = Some(key);
            }
            if let Some(trunk) = trunks.last_mut() {
                trunk.bound_s = trunk.bound_s.min(branch.bound_s);
                trunk.branches.push(branch);
            }
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let space_log10 = most + logs.iter().map(|l| 10f64.powf(l - most)).sum::<f64>().log10();
        Self { trunks, space_log10 }
    }
}

impl Branch {
    fn of(space: &GalvatronSpace, view: &TaskView) -> Option<Self> {
        let types = view.table.rows.len();
        let mut groups = Vec::with_capacity(view.stages() * types);
        for stage in 0..view.stages() {
            for kind in 0..types {
                let sizes = view.table.memory_mb(kind, stage as u32);
                let mut choices: Vec<(u32, u32)> =
                    view.narrow(stage, kind).into_iter().map(|id| (id, sizes[id as usize])).collect();
                choices.sort_by_key(|c| (c.1, c.0));
                let least_ms = view.least_compute_ms(kind)?;
                groups.push(Group { stage: stage as u32, kind: kind as u32, choices, least_ms });
            }
        }
        let least_mb = |stage: usize| -> u64 {
            (0..types)
                .map(|kind| u64::from(view.counts[stage][kind]) * u64::from(groups[stage * types + kind].choices[0].1))
                .sum()
        };
        let embeddings: Vec<(u32, Vec<u64>)> = view
            .embeddings
            .iter()
            .filter_map(|&e| {
                let caps: Vec<u64> = (0..view.stages()).map(|s| view.cap_mb(e, s)).collect::<Option<_>>()?;
                caps.iter().enumerate().all(|(s, &cap)| least_mb(s) <= cap).then_some((e, caps))
            })
            .collect();
        if embeddings.is_empty() {
            return None;
        }
        let bound_s = space.objective_s(view.task, super::exact::least_ms(view)?);
        Some(Self { task: view.task as u32, counts: view.counts.clone(), groups, embeddings, bound_s })
    }
}

/// Multisets of strategies for every group of layers, times strategies of the embedding.
fn solutions_log10(view: &TaskView) -> f64 {
    let choose = |n: u32, k: u32| (1..=k).map(|i| (f64::from(n - k + i) / f64::from(i)).log10()).sum::<f64>();
    let groups: f64 = view
        .counts
        .iter()
        .flatten()
        .filter(|&&n| n > 0 && !view.strategies.is_empty())
        .map(|&n| {
            let s = view.strategies.len() as u32;
            choose(n + s - 1, n.min(s - 1))
        })
        .sum();
    groups + (view.embeddings.len().max(1) as f64).log10()
}

/// What a strategy means, apart from the number of stages: it can be carried from one task to another.
pub fn strategy_allele(s: &Strategy) -> Allele {
    let log = |n: u32| u64::from(n.max(1).ilog2());
    let zero3 = u64::from(s.dp_type == DpType::Zero3);
    log(s.tp) | log(s.sp) << 8 | log(s.cp) << 16 | zero3 << 24 | u64::from(s.checkpoint) << 25
}

/// How unlike two strategies are.
pub fn strategy_distance(a: Allele, b: Allele) -> u64 {
    let field = |x: Allele, at: u32| x >> at & 0xff;
    let degrees: u64 = [0, 8, 16].iter().map(|&at| field(a, at).abs_diff(field(b, at))).sum();
    let bit = |at: u32| u64::from((a ^ b) >> at & 1 == 1);
    4 * degrees + bit(24) + 3 * bit(25)
}
