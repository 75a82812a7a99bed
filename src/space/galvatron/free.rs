//! Uneven partitions: where to cut the layers into stages is decided too.
//!
//! Only sensible with the slowest stage seen ([`crate::cost::galvatron::Repair::SlowStage`]): Galvatron's own formula would
//! put all layers on a middle stage. For every task and embedding the cheapest filling of every possible window of layers
//! is folded from the last stage to the first; windows whose compute alone exceeds what the incumbent allows are left out.
//! The optimum is exact as far as gradient reductions stay hidden; where they do not, the bound is without them.

use super::dual::{self, Effort};
use super::exact::{ExactAnswer, SAME, first_last_ms};
use super::fold::PipelineFold;
use super::problem::GalvatronSpace;
use super::stage::{StageFilling, TaskView};
use crate::search::decompose::{COSTS, Combine, Fold};
use crate::search::exact::relax::insert_fold;
use std::collections::BTreeMap;

/// Windows known: by stage, memory and first layer and length.
type Known = BTreeMap<(usize, u64, Vec<u32>), Option<(StageFilling, f64)>>;

/// Searches all partitions, starting from `start`, which must be the answer for Galvatron's partition.
pub(super) fn solve(space: &GalvatronSpace, start: ExactAnswer) -> ExactAnswer {
    let mut answer = start;
    let mut best_s = answer.best.as_ref().map_or(f64::INFINITY, |b| b.1);
    let mut pairs: Vec<(f64, usize, u32)> = Vec::new();
    answer.task_bounds_s = vec![f64::INFINITY; space.tasks.len()];
    for task in 0..space.tasks.len() {
        let view = TaskView::new(space, task);
        for &embedding in &view.embeddings {
            if let Some(ms) = balanced_ms(&view, embedding) {
                pairs.push((space.objective_s(task, ms), task, embedding));
            }
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut known: BTreeMap<usize, Known> = BTreeMap::new();
    answer.bound_s = f64::INFINITY;
    for (bound_s, task, embedding) in pairs {
        let mut proven_s = bound_s;
        if bound_s < best_s {
            answer.solved += 1;
            let view = TaskView::new(space, task);
            let scale = space.objective_s(task, 1.0);
            match windows(space, &view, embedding, best_s / scale, known.entry(task).or_default()) {
                // Nothing below the incumbent.
                None => proven_s = best_s,
                Some((counts, fillings, steady_ms)) => {
                    proven_s = bound_s.max(steady_ms * scale);
                    let cut = TaskView::with_counts(space, task, counts);
                    let mut value_ms = cut.time_ms(embedding, &fillings.iter().collect::<Vec<_>>());
                    let mut fillings = fillings;
                    if value_ms > steady_ms * (1.0 + SAME) {
                        answer.weighed += 1;
                        let weighed =
                            dual::weigh(&cut, embedding, &fillings, value_ms.min(best_s / scale), Effort::FIRST);
                        (value_ms, fillings) = (weighed.time_ms, weighed.fillings);
                    }
                    if value_ms * scale < best_s {
                        best_s = value_ms * scale;
                        answer.best = Some((cut.solution(embedding, &fillings), best_s));
                    }
                    if proven_s >= value_ms * scale * (1.0 - SAME) {
                        proven_s = value_ms * scale;
                    }
                }
            }
        }
        let task_bound = &mut answer.task_bounds_s[task];
        *task_bound = task_bound.min(proven_s);
        answer.bound_s = answer.bound_s.min(proven_s);
    }
    answer.bound_s = answer.bound_s.min(best_s);
    answer
}

/// Time if every layer had its fastest strategy, memory were no matter and all stages took equally long, ms.
fn balanced_ms(view: &TaskView, embedding: u32) -> Option<f64> {
    let mut total: f64 = first_last_ms(view, embedding);
    for (kind, least) in (0..view.table.rows.len()).map(|k| (k, view.least_compute_ms(k))) {
        let layers: u32 = view.counts.iter().map(|c| c[kind]).sum();
        total += f64::from(layers) * least?;
    }
    let (p, m) = (view.stages() as f64, f64::from(view.table.micro.chunks));
    Some(total + (m - 1.0) * total / p)
}

/// The partition with the least steady time below `limit_ms`, its fillings and that time.
fn windows(
    space: &GalvatronSpace,
    view: &TaskView,
    embedding: u32,
    limit_ms: f64,
    known: &mut Known,
) -> Option<(Vec<Vec<u32>>, Vec<StageFilling>, f64)> {
    let kinds = space.model.setting.layer_kinds();
    let (n, p) = (kinds.len(), view.stages());
    let types = view.table.rows.len();
    let other = view.embedding_ms(embedding);
    let fold = PipelineFold::exact(&view.objective, other.clone(), 1.0);
    let least: Vec<f64> = (0..types).map(|k| view.least_compute_ms(k)).collect::<Option<_>>()?;
    let mut before = vec![0.0; n + 1];
    for i in 0..n {
        before[i + 1] = before[i] + least[kinds[i]];
    }
    // A stage of compute c takes at least c in each of the micro-batches.
    let longest_ms = limit_ms / f64::from(view.table.micro.chunks);
    // By first layer: fold, window chosen, position and index of the rest.
    type End = (Fold, (StageFilling, usize, usize));
    let mut ends: Vec<Vec<Vec<End>>> = vec![vec![Vec::new(); n + 1]; p + 1];
    let nothing = StageFilling { compute_ms: 0.0, sync_ms: 0.0, counts: Vec::new() };
    ends[p][n].push((fold.start(), (nothing, n, 0)));
    for s in (0..p).rev() {
        let cap = view.cap_mb(embedding, s)?;
        for j in s + 1..=n {
            if ends[s + 1][j].is_empty() {
                continue;
            }
            let mut counts = vec![0u32; types];
            for i in (s..j).rev() {
                counts[kinds[i]] += 1;
                if (before[j] - before[i]) + other[s] > longest_ms {
                    break;
                }
                if s == 0 && i > 0 {
                    continue;
                }
                let found =
                    known.entry((s, cap, counts.clone())).or_insert_with(|| view.minimise(s, &counts, cap, 1.0, 0.0));
                let Some((filling, bound)) = found else { break };
                if *bound + other[s] > longest_ms {
                    break;
                }
                let mut cost = [0.0; COSTS];
                cost[0] = *bound;
                let mut set = std::mem::take(&mut ends[s][i]);
                for (index, (state, _)) in ends[s + 1][j].iter().enumerate() {
                    let pushed = fold.push(state, s, &cost);
                    if fold.complete(&pushed, s, before[i]) < limit_ms {
                        insert_fold(&mut set, pushed, (filling.clone(), j, index));
                    }
                }
                ends[s][i] = set;
            }
        }
    }
    let start = (0..ends[0][0].len())
        .min_by(|&a, &b| fold.finish(&ends[0][0][a].0).total_cmp(&fold.finish(&ends[0][0][b].0)))?;
    let steady = fold.finish(&ends[0][0][start].0);
    let (mut at, mut index) = (0, start);
    let (mut cuts, mut fillings) = (Vec::with_capacity(p), Vec::with_capacity(p));
    for stage in ends.iter().take(p) {
        let (_, (filling, end, next)) = &stage[at][index];
        let mut counts = vec![0u32; types];
        for &kind in &kinds[at..*end] {
            counts[kind] += 1;
        }
        cuts.push(counts);
        fillings.push(filling.clone());
        (at, index) = (*end, *next);
    }
    Some((cuts, fillings, steady))
}
