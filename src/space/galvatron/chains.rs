//! The space as chains for the engine's exact methods: one task per task of the outer loop and strategy of the embedding.
//!
//! [`GalvatronSpace`] itself answers with what [`super::exact`] proves, which leaves the engine nothing to do but to check
//! it; [`Plain`] gives no more than cheap bounds and lets the engine work.

use super::exact::{self, ExactAnswer};
use super::fold::PipelineFold;
use super::problem::{GalvatronSpace, Partition};
use super::solution::Solution;
use super::stage::TaskView;
use crate::search::decompose::{
    COSTS, Chain, ChainOption, ChainSolution, Cost, Cuts, Decompose, FixedItem, Segment, Transition,
};
use crate::search::problem::Bound;
use std::sync::Arc;

/// Cost of changing degrees, by class and larger degree.
struct Resharding(Vec<Vec<f64>>);

impl Transition for Resharding {
    fn between(&self, class: u32, from: u16, to: u16) -> Cost {
        let mut out = [0.0; COSTS];
        if from != to {
            out[0] = self.0[class as usize][usize::from(from.max(to))];
        }
        out
    }

    fn entry(&self, _segment: usize, _class: u32, _layout: u16) -> Cost {
        [0.0; COSTS]
    }
}

impl GalvatronSpace {
    /// Tasks of the outer loop with each strategy of the embedding worth a look.
    pub(super) fn pairs(&self) -> &[(u32, u32)] {
        self.pairs.get_or_init(|| {
            (0..self.tasks.len())
                .flat_map(|task| {
                    let embeddings = TaskView::new(self, task).embeddings;
                    embeddings.into_iter().map(move |e| (task as u32, e))
                })
                .collect()
        })
    }

    /// What the exact search of this space finds, found once.
    pub fn answer(&self) -> &ExactAnswer {
        self.answer.get_or_init(|| exact::solve(self))
    }

    fn pair_chain(&self, pair: usize) -> Option<Chain<'_>> {
        // Rounded memory is not linear in micro-batches in flight, as free cuts of a chain would need it.
        if self.partition == Partition::Free {
            return None;
        }
        let (task, embedding) = self.pairs()[pair];
        let view = TaskView::new(self, task as usize);
        let table = view.table;
        let types = table.rows.len();
        let reshards = table.reshards();
        let mut options = Vec::new();
        let mut changes = Vec::new();
        let mut items = Vec::new();
        let mut lists = Vec::new();
        let mut segments = Vec::new();
        for (stage, counts) in view.counts.iter().enumerate() {
            let mut list = Vec::new();
            for (kind, &count) in counts.iter().enumerate() {
                let sizes = table.memory_mb(kind, stage as u32);
                let of_class: Vec<ChainOption> = view
                    .narrow(stage, kind)
                    .into_iter()
                    .map(|id| {
                        let row = &table.rows[kind][id as usize];
                        let mut cost = [0.0; COSTS];
                        (cost[0], cost[1]) = (row.compute_ms, row.sync_ms);
                        ChainOption {
                            id,
                            layout: if reshards { table.degree(id) as u16 } else { 0 },
                            cost,
                            lead: [0.0; COSTS],
                            fixed: f64::from(sizes[id as usize]),
                            scaled: 0.0,
                            peak: 0.0,
                        }
                    })
                    .collect();
                if count > 0 && of_class.is_empty() {
                    return None;
                }
                options.push(Arc::from(of_class));
                changes.push(table.resharding_ms[kind].clone());
                for _ in 0..count {
                    list.push(FixedItem { item: items.len() as u32, multiplier: 1.0, lead: false, follows: true });
                    items.push((stage * types + kind) as u32);
                }
            }
            lists.push(list);
            segments.push(Segment { multiplier: 1.0, cap: view.cap_mb(embedding, stage)? as f64 });
        }
        let other = view.embedding_ms(embedding);
        let slowest = (0..view.stages()).map(|s| view.slowest_ms(s) + other[s]).collect();
        let scale = self.objective_s(task as usize, 1.0);
        Some(Chain {
            items,
            options,
            cuts: Cuts::Fixed(lists),
            segments,
            combine: Arc::new(PipelineFold::rising(&view.objective, other, slowest, scale)),
            transition: Arc::new(Resharding(changes)),
        })
    }

    fn pair_solution(&self, pair: usize, x: &ChainSolution) -> Solution {
        let (task, embedding) = self.pairs()[pair];
        let kinds = self.model.setting.layer_kinds();
        let stages = x
            .segments
            .iter()
            .map(|items| {
                let mut counts: Vec<(u32, u32, u32)> = Vec::new();
                for &item in items {
                    let (kind, id) = (kinds[item as usize] as u32, x.options[item as usize]);
                    match counts.iter_mut().find(|c| (c.0, c.1) == (kind, id)) {
                        Some(c) => c.2 += 1,
                        None => counts.push((kind, id, 1)),
                    }
                }
                counts.sort_unstable();
                counts
            })
            .collect();
        Solution { task, embedding, stages }
    }

    /// The formula's value of a chain's solution, which its fold may lie below.
    fn pair_value(&self, pair: usize, x: &ChainSolution) -> f64 {
        let worth = self.worth(&self.pair_solution(pair, x));
        if worth.excess > 0.0 { f64::INFINITY } else { worth.objective_s.max(x.objective) }
    }

    fn chain_solution(&self, x: &Solution, objective: f64) -> ChainSolution {
        let mut options = Vec::new();
        let mut segments = Vec::with_capacity(x.stages.len());
        for counts in &x.stages {
            let begin = options.len() as u32;
            for (_, id, n) in self.ordered(x.task as usize, counts, segments.len()) {
                options.extend(std::iter::repeat_n(id, n as usize));
            }
            segments.push((begin..options.len() as u32).collect());
        }
        ChainSolution { segments, options, objective }
    }
}

impl Decompose for GalvatronSpace {
    type Solution = Solution;

    fn tasks(&self) -> usize {
        self.pairs().len()
    }

    fn task_bound(&self, pair: usize) -> Bound {
        let bound = self.answer().task_bounds_s[self.pairs()[pair].0 as usize];
        if bound.is_finite() { Bound::AtLeast(bound) } else { Bound::Infeasible }
    }

    fn chain(&self, pair: usize) -> Option<Chain<'_>> {
        self.pair_chain(pair)
    }

    fn assemble(&self, pair: usize, solution: &ChainSolution) -> Solution {
        self.pair_solution(pair, solution)
    }

    fn value(&self, pair: usize, solution: &ChainSolution) -> f64 {
        match &self.answer().best {
            // The very number that the bounds are compared with, not one that differs from it in the last digit.
            Some((best, objective)) if self.pair_solution(pair, solution) == *best => *objective,
            _ => self.pair_value(pair, solution),
        }
    }

    fn seeds(&self) -> Vec<(usize, ChainSolution)> {
        let Some((x, objective)) = &self.answer().best else { return Vec::new() };
        let Some(pair) = self.pairs().iter().position(|p| *p == (x.task, x.embedding)) else { return Vec::new() };
        vec![(pair, self.chain_solution(x, *objective))]
    }
}

/// The same chains without the help of [`super::exact`].
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a>(pub &'a GalvatronSpace);

impl Decompose for Plain<'_> {
    type Solution = Solution;

    fn tasks(&self) -> usize {
        self.0.pairs().len()
    }

    fn task_bound(&self, pair: usize) -> Bound {
        let task = self.0.pairs()[pair].0 as usize;
        match exact::least_ms(&TaskView::new(self.0, task)) {
            Some(ms) => Bound::AtLeast(self.0.objective_s(task, ms)),
            None => Bound::Infeasible,
        }
    }

    fn chain(&self, pair: usize) -> Option<Chain<'_>> {
        self.0.pair_chain(pair)
    }

    fn assemble(&self, pair: usize, solution: &ChainSolution) -> Solution {
        self.0.pair_solution(pair, solution)
    }

    fn value(&self, pair: usize, solution: &ChainSolution) -> f64 {
        self.0.pair_value(pair, solution)
    }
}
