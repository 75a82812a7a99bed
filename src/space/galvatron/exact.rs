//! Exact search: best-first over tasks and embeddings, every stage a counting knapsack.
//!
//! Bounds rise in three steps: least compute of every layer whatever its memory (a task), linear relaxation of the stages'
//! knapsacks (a task with an embedding), their integer optima with the gradient reduction brought in by duality. What is
//! popped first has the lowest bound, so nothing is refined that the optimum would not have to rule out anyway.

use super::dual::{self, Effort};
use super::knapsack::Knapsack;
use super::problem::{GalvatronSpace, Partition};
use super::solution::Solution;
use super::stage::{StageFilling, TaskView};
use super::{free, uniform};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The best plan and what is proven about it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactAnswer {
    /// The best solution with its objective, seconds.
    pub best: Option<(Solution, f64)>,
    /// No plan of the space is below this, seconds; infinite if none is feasible.
    pub bound_s: f64,
    /// Tasks in all.
    pub tasks: usize,
    /// Tasks whose stages were relaxed.
    pub relaxed: usize,
    /// Pairs of task and embedding that were solved.
    pub solved: usize,
    /// What is known about every task.
    pub task_bounds_s: Vec<f64>,
    /// Those of them in which the gradient reduction had to be weighed against compute.
    pub weighed: usize,
}

impl ExactAnswer {
    /// Before anything is known.
    pub(super) fn nothing(space: &GalvatronSpace) -> Self {
        Self {
            best: None,
            bound_s: f64::INFINITY,
            tasks: space.tasks.len(),
            relaxed: 0,
            solved: 0,
            weighed: 0,
            task_bounds_s: vec![f64::INFINITY; space.tasks.len()],
        }
    }

    /// (best - bound) / bound.
    pub fn gap(&self) -> Option<f64> {
        self.best.as_ref().map(|b| ((b.1 - self.bound_s) / self.bound_s).max(0.0))
    }
}

/// What is refined next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    bound_s: f64,
    task: u32,
    /// `None`: the task as a whole.
    embedding: Option<u32>,
    /// What is spent on the pair.
    effort: Effort,
}

impl Eq for Open {}
impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Open {
    /// The greatest is the one with the lowest bound; then pairs before tasks, then the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .bound_s
            .total_cmp(&self.bound_s)
            .then(self.embedding.is_some().cmp(&other.embedding.is_some()))
            .then(other.task.cmp(&self.task))
            .then(other.embedding.cmp(&self.embedding))
            .then(other.effort.steps.cmp(&self.effort.steps))
    }
}

/// A task whose stages were relaxed.
struct Prepared<'a> {
    view: TaskView<'a>,
    knapsacks: Vec<Knapsack>,
    /// Cheapest fillings found, by stage and memory.
    known: Vec<Vec<(u64, Option<StageFilling>, f64)>>,
}

impl Prepared<'_> {
    /// The filling of `stage` with the least compute beside `embedding`, and a bound on that compute.
    fn cheapest(&mut self, embedding: u32, stage: usize) -> Option<(StageFilling, f64)> {
        let cap = self.view.cap_mb(embedding, stage)?;
        if let Some((_, filling, bound)) = self.known[stage].iter().find(|k| k.0 == cap) {
            return filling.clone().map(|f| (f, *bound));
        }
        let found = if self.view.table.reshards() {
            self.view.minimise(stage, &self.view.counts[stage], cap, 1.0, 0.0)
        } else {
            self.knapsacks[stage].solve(cap).map(|f| {
                let bound = f.bound;
                (self.view.counted(f.counts), bound)
            })
        };
        let bound = found.as_ref().map_or(f64::INFINITY, |f| f.1);
        let filling = found.map(|f| f.0);
        self.known[stage].push((cap, filling.clone(), bound));
        filling.map(|f| (f, bound))
    }
}

/// Searches the whole space.
pub fn solve(space: &GalvatronSpace) -> ExactAnswer {
    if !space.model.setting.limits.per_layer {
        return uniform::solve(space);
    }
    let even = solve_even(space);
    match space.partition {
        Partition::Even => even,
        Partition::Free => free::solve(space, even),
    }
}

/// Searches all plans with Galvatron's partition.
fn solve_even(space: &GalvatronSpace) -> ExactAnswer {
    let mut answer = ExactAnswer::nothing(space);
    let mut open = BinaryHeap::new();
    for task in 0..space.tasks.len() {
        if let Some(ms) = least_ms(&TaskView::new(space, task)) {
            open.push(Open {
                bound_s: space.objective_s(task, ms),
                task: task as u32,
                embedding: None,
                effort: Effort::FIRST,
            });
        }
    }
    let mut prepared: Vec<Option<Prepared>> = (0..space.tasks.len()).map(|_| None).collect();
    let mut best: Option<Solution> = None;
    let mut best_s = f64::INFINITY;
    // Pairs that could not be closed keep their bound.
    let mut unclosed_s = f64::INFINITY;
    while let Some(node) = open.pop() {
        if node.bound_s >= best_s {
            open.push(node);
            break;
        }
        let task = node.task as usize;
        match node.embedding {
            None => {
                answer.relaxed += 1;
                let Some((now, pairs)) = relax(TaskView::new(space, task)) else { continue };
                for (embedding, ms) in pairs {
                    let bound_s = space.objective_s(task, ms);
                    open.push(Open { bound_s, task: node.task, embedding: Some(embedding), effort: Effort::FIRST });
                }
                prepared[task] = Some(now);
            }
            Some(embedding) => {
                let Some(now) = prepared[task].as_mut() else { continue };
                answer.solved += usize::from(node.effort == Effort::FIRST);
                let stages = now.view.stages();
                let Some(cheapest) = (0..stages).map(|s| now.cheapest(embedding, s)).collect::<Option<Vec<_>>>() else {
                    continue;
                };
                let other = now.view.embedding_ms(embedding);
                let least: Vec<f64> = cheapest.iter().zip(&other).map(|(c, e)| c.1 + e).collect();
                let steady_s = space.objective_s(task, now.view.objective.steady_ms(&least));
                let mut bound_s = steady_s.max(node.bound_s);
                let mut fillings: Vec<StageFilling> = cheapest.into_iter().map(|c| c.0).collect();
                let mut value_s =
                    space.objective_s(task, now.view.time_ms(embedding, &fillings.iter().collect::<Vec<_>>()));
                if value_s > bound_s * (1.0 + SAME) && bound_s < best_s {
                    answer.weighed += usize::from(node.effort == Effort::FIRST);
                    let upper_ms = best_s.min(value_s) / space.objective_s(task, 1.0);
                    let weighed = dual::weigh(&now.view, embedding, &fillings, upper_ms, node.effort);
                    bound_s = bound_s.max(space.objective_s(task, weighed.bound_ms));
                    value_s = space.objective_s(task, weighed.time_ms);
                    fillings = weighed.fillings;
                }
                if value_s < best_s {
                    best_s = value_s;
                    best = Some(now.view.solution(embedding, &fillings));
                }
                if bound_s >= value_s * (1.0 - SAME) {
                    bound_s = value_s;
                } else if bound_s < best_s && node.effort == Effort::FIRST {
                    open.push(Open { bound_s, effort: Effort::SECOND, ..node });
                    continue;
                } else {
                    unclosed_s = unclosed_s.min(bound_s);
                }
                let known = &mut answer.task_bounds_s[task];
                *known = known.min(bound_s);
            }
        }
    }
    let left_s = open.peek().map_or(f64::INFINITY, |o| o.bound_s);
    answer.bound_s = best_s.min(left_s).min(unclosed_s);
    for node in &open {
        let known = &mut answer.task_bounds_s[node.task as usize];
        *known = known.min(node.bound_s);
    }
    answer.best = best.map(|x| (x, best_s));
    answer
}

/// Relative difference of objectives that rounding explains.
pub(super) const SAME: f64 = 1e-12;

/// Time if every layer could have its fastest strategy and memory were no matter, ms.
pub(super) fn least_ms(view: &TaskView) -> Option<f64> {
    let least: Vec<f64> = (0..view.table.rows.len()).map(|k| view.least_compute_ms(k)).collect::<Option<_>>()?;
    let first = view.embeddings.iter().map(|&e| view.table.other_ms(e as usize, 0)).min_by(f64::total_cmp)?;
    let last_stage = view.table.pp - 1;
    let last = view.embeddings.iter().map(|&e| view.table.other_ms(e as usize, last_stage)).min_by(f64::total_cmp)?;
    let compute: Vec<f64> = view
        .counts
        .iter()
        .enumerate()
        .map(|(s, counts)| {
            let layers: f64 = counts.iter().zip(&least).map(|(&n, c)| f64::from(n) * c).sum();
            let other = if s == 0 {
                first
            } else if s as u32 == last_stage {
                last
            } else {
                0.0
            };
            layers + other
        })
        .collect();
    Some(view.objective.steady_ms(&compute))
}

/// Time of embedding and head on all stages, ms.
pub(super) fn first_last_ms(view: &TaskView, embedding: u32) -> f64 {
    view.embedding_ms(embedding).iter().sum()
}

/// Stages relaxed, and a bound for every embedding that leaves enough memory.
fn relax(view: TaskView<'_>) -> Option<(Prepared<'_>, Vec<(u32, f64)>)> {
    let stages = view.stages();
    let knapsacks: Vec<Knapsack> =
        (0..stages).map(|s| view.knapsack(s, &view.counts[s], 1.0, 0.0, u32::MAX)).collect::<Option<_>>()?;
    let mut pairs = Vec::with_capacity(view.embeddings.len());
    let mut middle: Vec<Option<f64>> = vec![None; stages];
    for (s, least) in middle.iter_mut().enumerate().take(stages.saturating_sub(1)).skip(1) {
        *least = Some(knapsacks[s].bound(view.cap_mb(0, s)?)?);
    }
    for &embedding in &view.embeddings {
        let compute: Option<Vec<f64>> = (0..stages)
            .map(|s| {
                let layers = match middle[s] {
                    Some(ms) => ms,
                    None => knapsacks[s].bound(view.cap_mb(embedding, s)?)?,
                };
                Some(layers + view.table.other_ms(embedding as usize, s as u32))
            })
            .collect();
        if let Some(compute) = compute {
            pairs.push((embedding, view.objective.steady_ms(&compute)));
        }
    }
    let known = vec![Vec::new(); stages];
    Some((Prepared { view, knapsacks, known }, pairs))
}
