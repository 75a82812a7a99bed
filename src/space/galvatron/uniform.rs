//! One strategy for all layers and the embedding (`fine_grained_mode=0`): few enough to price each.

use super::exact::ExactAnswer;
use super::problem::GalvatronSpace;
use super::solution::Solution;
use super::stage::TaskView;
use crate::cost::galvatron::Strategy;

/// Prices every task with every strategy that it admits.
pub(super) fn solve(space: &GalvatronSpace) -> ExactAnswer {
    let mut answer = ExactAnswer::nothing(space);
    for task in 0..space.tasks.len() {
        let view = TaskView::new(space, task);
        for &id in &view.strategies {
            let same = Strategy { checkpoint: false, ..view.table.strategies[id as usize] };
            let Some(embedding) = view.table.embeddings.iter().position(|e| e.strategy == same) else { continue };
            let stages = view
                .counts
                .iter()
                .map(|counts| (0..).zip(counts).filter(|c| *c.1 > 0).map(|(kind, &n)| (kind, id, n)).collect())
                .collect();
            let x = Solution { task: task as u32, embedding: embedding as u32, stages };
            let worth = space.worth(&x);
            answer.solved += 1;
            if worth.excess > 0.0 {
                continue;
            }
            let known = &mut answer.task_bounds_s[task];
            *known = known.min(worth.objective_s);
            if answer.best.as_ref().is_none_or(|b| worth.objective_s < b.1) {
                answer.best = Some((x, worth.objective_s));
            }
        }
    }
    answer.bound_s = answer.best.as_ref().map_or(f64::INFINITY, |b| b.1);
    answer
}
