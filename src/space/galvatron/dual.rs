//! Weighing compute against gradient reduction, for one task and embedding: Lagrangian bounds and the plans they suggest.
//!
//! The time of an iteration is the largest of finitely many linear functions (see [`super::objective`]). Any convex
//! combination of them is a lower bound, and separates into one knapsack per stage. The weights are improved by projected
//! subgradient steps of Polyak's length (Polyak 1969; Held, Wolfe and Crowder 1974).

use super::fold::PipelineFold;
use super::stage::{StageFilling, TaskView};
use crate::search::decompose::{COSTS, Combine, Fold};
use crate::search::exact::relax::insert_fold;

/// The best fillings found, their time, and a bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// By stage.
    pub fillings: Vec<StageFilling>,
    /// Time with them, ms.
    pub time_ms: f64,
    /// Nothing with this task and embedding takes less, ms.
    pub bound_ms: f64,
}

/// Steps without a better bound after which they get shorter.
const PATIENCE: usize = 4;

/// One set of weights: per stage the weights of compute and sync, the least sum of both, and the bound on the whole.
struct Relaxed {
    alpha: Vec<f64>,
    beta: Vec<f64>,
    least: Vec<f64>,
    bound: f64,
}

/// How much is spent on one task and embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Steps of the ascent.
    pub steps: usize,
    /// Fillings of a stage looked at before closing the gap is given up.
    pub fillings: u32,
    /// Combinations of stages looked at.
    pub combinations: usize,
}

impl Effort {
    /// For everything that the search meets.
    pub const FIRST: Self = Self { steps: 24, fillings: 1 << 13, combinations: 1 << 15 };
    /// For what the first left open.
    pub const SECOND: Self = Self { steps: 160, fillings: 1 << 17, combinations: 1 << 20 };
}

/// Weighs, starting from `cheapest`, the fillings with the least compute. `upper_ms`: what is known to be reachable.
pub fn weigh(view: &TaskView, embedding: u32, cheapest: &[StageFilling], upper_ms: f64, effort: Effort) -> Weighed {
    let p = view.stages();
    let other = view.embedding_ms(embedding);
    let mut pools: Vec<Vec<StageFilling>> = cheapest.iter().map(|f| vec![f.clone()]).collect();
    let mut best = Weighed {
        fillings: cheapest.to_vec(),
        time_ms: view.time_ms(embedding, &cheapest.iter().collect::<Vec<_>>()),
        bound_ms: 0.0,
    };
    let heads = &view.objective.heads;
    let mut current: Vec<StageFilling> = cheapest.to_vec();
    // Start where the cheapest fillings are: the head that is largest there, and the latest reduction in full.
    let (compute, late) = times(view, &other, &current);
    let mut omega = vec![0.0; heads.len()];
    omega[argmax(&head_values(heads, &compute))] = 1.0;
    let mut relaxations = Vec::with_capacity(effort.steps + 1);
    let mut theta = vec![0.0; p];
    // The first head alone weighs every stage: whatever the ascent does, each stage has a window.
    let mut first = vec![0.0; heads.len()];
    first[0] = 1.0;
    match relax(view, embedding, &other, &first, &theta, &mut pools, &mut current) {
        Some(relaxed) => relaxations.push(relaxed),
        None => return best,
    }
    theta[argmax(&late)] = 1.0;
    let (mut pace, mut stale) = (1.0, 0);
    for _ in 0..effort.steps {
        let Some(relaxed) = relax(view, embedding, &other, &omega, &theta, &mut pools, &mut current) else {
            return best;
        };
        let bound = relaxed.bound;
        relaxations.push(relaxed);
        stale = if bound > best.bound_ms { 0 } else { stale + 1 };
        if stale == PATIENCE {
            (pace, stale) = (pace / 2.0, 0);
        }
        best.bound_ms = best.bound_ms.max(bound);
        combine(view, embedding, &pools, &mut best);
        if best.bound_ms >= upper_ms.min(best.time_ms) * (1.0 - 1e-12) {
            break;
        }
        // Subgradient: the values of the functions at the minimisers.
        let (compute, late) = times(view, &other, &current);
        let values = head_values(heads, &compute);
        let mean: f64 = omega.iter().zip(&values).map(|(w, v)| w * v).sum();
        let along: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let norm: f64 = along.iter().chain(&late).map(|g| g * g).sum();
        if norm == 0.0 {
            break;
        }
        let step = pace * (upper_ms.min(best.time_ms) - bound).max(0.0) / norm;
        for (w, g) in omega.iter_mut().zip(&along) {
            *w += step * g;
        }
        for (w, g) in theta.iter_mut().zip(&late) {
            *w += step * g;
        }
        onto_simplex(&mut omega, true);
        onto_simplex(&mut theta, false);
    }
    let goal = upper_ms.min(best.time_ms);
    if best.bound_ms < goal * (1.0 - 1e-12) {
        close(view, embedding, &relaxations, goal, effort, &mut best);
    }
    best
}

/// Undominated folds that are kept at most: each new one is compared with all.
const MOST_STATES: usize = 1 << 11;

/// The bound under `omega` (weights of the heads) and `theta` (weights of late reductions). The minimisers become
/// `current`, where there are any, and go into the pools.
fn relax(
    view: &TaskView,
    embedding: u32,
    other: &[f64],
    omega: &[f64],
    theta: &[f64],
    pools: &mut [Vec<StageFilling>],
    current: &mut [StageFilling],
) -> Option<Relaxed> {
    let p = view.stages();
    let alpha: Vec<f64> = (0..p)
        .map(|j| {
            let head: f64 = omega.iter().zip(&view.objective.heads).map(|(w, a)| w * a[j]).sum();
            head - theta[j + 1..].iter().sum::<f64>()
        })
        .collect();
    let mut bound: f64 = (0..p).map(|j| alpha[j] * other[j] - theta[j] * other[j]).sum();
    let mut least = vec![0.0; p];
    for j in 0..p {
        let (value, filling) = minimise(view, embedding, j, alpha[j], theta[j])?;
        bound += value;
        least[j] = value;
        if let Some(filling) = filling {
            keep(&mut pools[j], &filling);
            current[j] = filling;
        }
    }
    Some(Relaxed { alpha, beta: theta.to_vec(), least, bound })
}

/// Enumerates, for every stage, the fillings that a plan below `goal` could have, and combines them: first under the fold
/// that rises with every cost, where a filling that another beats need not be kept, then, if that lies below the formula,
/// under the formula itself.
fn close(view: &TaskView, embedding: u32, relaxations: &[Relaxed], goal: f64, effort: Effort, best: &mut Weighed) {
    let p = view.stages();
    let fronts = |exactly: bool| -> Option<Vec<Vec<StageFilling>>> {
        (0..p).map(|stage| candidates(view, embedding, relaxations, goal, effort, stage, exactly)).collect()
    };
    let other = view.embedding_ms(embedding);
    let Some(front) = fronts(false) else { return };
    let slowest = slowest_ms(view, &other, &front, goal);
    let rising = PipelineFold::rising(&view.objective, other.clone(), slowest, 1.0);
    if !combine_fronts(view, embedding, &front, &rising, goal, effort, best) {
        return;
    }
    if best.bound_ms < goal.min(best.time_ms) * (1.0 - 1e-12)
        && let Some(front) = fronts(true)
    {
        let exact = PipelineFold::exact(&view.objective, other, 1.0);
        combine_fronts(view, embedding, &front, &exact, goal, effort, best);
    }
}

/// The most that each stage can compute in a plan below `goal`, embedding included.
fn slowest_ms(view: &TaskView, other: &[f64], fronts: &[Vec<StageFilling>], goal: f64) -> Vec<f64> {
    let least: Vec<f64> = fronts
        .iter()
        .zip(other)
        .map(|(front, e)| front.iter().map(|f| f.compute_ms).fold(f64::INFINITY, f64::min) + e)
        .collect();
    (0..fronts.len())
        .map(|stage| {
            let most = view.slowest_ms(stage) + other[stage];
            view.objective.heads.iter().filter(|a| a[stage] > 0.0).fold(most, |most, a| {
                let rest: f64 = (0..fronts.len()).filter(|&i| i != stage).map(|i| a[i] * least[i]).sum();
                most.min((goal - rest) * (1.0 + 1e-12) / a[stage])
            })
        })
        .collect()
}

/// Combines one filling of each stage in every way that stays below `goal`; false if there were too many.
fn combine_fronts(
    view: &TaskView,
    embedding: u32,
    fronts: &[Vec<StageFilling>],
    fold: &PipelineFold,
    goal: f64,
    effort: Effort,
    best: &mut Weighed,
) -> bool {
    // Least compute of the stages before each.
    let mut before = vec![0.0];
    for front in fronts {
        let least = front.iter().map(|f| f.compute_ms).fold(f64::INFINITY, f64::min);
        before.push(before[before.len() - 1] + least);
    }
    let mut combinations = 0;
    let mut states: Vec<(Fold, Vec<u32>)> = vec![(fold.start(), Vec::new())];
    for (stage, front) in fronts.iter().enumerate().rev() {
        combinations += states.len() * front.len();
        if combinations > effort.combinations {
            return false;
        }
        let mut next: Vec<(Fold, (u32, u32))> = Vec::new();
        for (from, (state, _)) in states.iter().enumerate() {
            for (i, filling) in front.iter().enumerate() {
                let mut cost = [0.0; COSTS];
                (cost[0], cost[1]) = (filling.compute_ms, filling.sync_ms);
                let pushed = fold.push(state, stage, &cost);
                if fold.complete(&pushed, stage, before[stage]) <= goal * (1.0 + 1e-9) {
                    insert_fold(&mut next, pushed, (from as u32, i as u32));
                }
            }
        }
        if next.len() > MOST_STATES {
            return false;
        }
        states = next
            .into_iter()
            .map(|(state, (from, i))| {
                let mut chosen = states[from as usize].1.clone();
                chosen.push(i);
                (state, chosen)
            })
            .collect();
    }
    // Plans below the goal, if any, are among these.
    let mut bound = goal;
    for (state, chosen) in &states {
        bound = bound.min(fold.finish(state));
        let fillings: Vec<&StageFilling> =
            fronts.iter().zip(chosen.iter().rev()).map(|(f, &i)| &f[i as usize]).collect();
        let time = view.time_ms(embedding, &fillings);
        if time < best.time_ms {
            best.time_ms = time;
            best.fillings = fillings.into_iter().cloned().collect();
        }
    }
    best.bound_ms = best.bound_ms.max(bound);
    true
}

/// The fillings of `stage` that a plan below `goal` could have, as far as they differ in what matters; `None` if there are
/// too many.
fn candidates(
    view: &TaskView,
    embedding: u32,
    relaxations: &[Relaxed],
    goal: f64,
    effort: Effort,
    stage: usize,
    exactly: bool,
) -> Option<Vec<StageFilling>> {
    // A slower middle stage can hide a later reduction, so there less compute is not always better.
    let middle = exactly && stage > 0 && stage + 1 < view.stages() && !view.objective.slow_stage_seen;
    // The relaxation under which the stage has the least room.
    let room = |r: &Relaxed| (goal - r.bound) / r.alpha[stage];
    let tightest = relaxations.iter().filter(|r| r.alpha[stage] > 0.0).min_by(|a, b| room(a).total_cmp(&room(b)))?;
    let cap = view.cap_mb(embedding, stage)?;
    let (alpha, beta) = (tightest.alpha[stage], tightest.beta[stage]);
    let knapsack = if middle {
        view.knapsack(stage, &view.counts[stage], alpha, beta, u32::MAX)?
    } else {
        view.narrow_knapsack(stage, alpha, beta)?
    };
    let mut front: Vec<StageFilling> = Vec::new();
    let limit = tightest.least[stage] + (goal - tightest.bound);
    let complete = knapsack.within(cap, limit, effort.fillings, &mut |counts| {
        let filling = view.counted(counts);
        let inside = |r: &Relaxed| {
            let cost = r.alpha[stage] * filling.compute_ms + r.beta[stage] * filling.sync_ms;
            cost <= r.least[stage] + (goal - r.bound) + 1e-9 * goal
        };
        if !relaxations.iter().all(inside) {
            return;
        }
        if middle {
            front.push(filling);
        } else {
            keep(&mut front, &filling);
        }
    });
    if middle {
        // Of equal compute the least reduction.
        front.sort_by(|a, b| a.compute_ms.total_cmp(&b.compute_ms).then(a.sync_ms.total_cmp(&b.sync_ms)));
        front.dedup_by(|a, b| a.compute_ms == b.compute_ms);
    }
    complete.then_some(front)
}

/// Least `alpha` x compute + `beta` x sync of the layers of `stage`, or a bound on it; with the filling that has it.
fn minimise(
    view: &TaskView,
    embedding: u32,
    stage: usize,
    alpha: f64,
    beta: f64,
) -> Option<(f64, Option<StageFilling>)> {
    let cap = view.cap_mb(embedding, stage)?;
    if alpha > 0.0 || (alpha < 0.0 && !view.table.reshards()) {
        let (filling, bound) = view.minimise(stage, &view.counts[stage], cap, alpha, beta)?;
        return Some((bound, Some(filling)));
    }
    // Compute does not count, or counts in favour with changes of degree in it: bounded by the slowest it can be.
    let slowest = if alpha == 0.0 { 0.0 } else { view.slowest_ms(stage) };
    if beta == 0.0 {
        return Some((alpha * slowest, None));
    }
    let found = view.knapsack(stage, &view.counts[stage], 0.0, beta, u32::MAX)?.solve(cap)?;
    Some((alpha * slowest + found.bound, Some(view.counted(found.counts))))
}

fn times(view: &TaskView, other: &[f64], fillings: &[StageFilling]) -> (Vec<f64>, Vec<f64>) {
    let compute: Vec<f64> = fillings.iter().zip(other).map(|(f, e)| f.compute_ms + e).collect();
    let sync: Vec<f64> = fillings.iter().map(|f| f.sync_ms).collect();
    let late = view.objective.late_ms(&compute, &sync, other);
    (compute, late)
}

fn head_values(heads: &[Vec<f64>], compute: &[f64]) -> Vec<f64> {
    heads.iter().map(|a| a.iter().zip(compute).map(|(a, c)| a * c).sum()).collect()
}

fn argmax(values: &[f64]) -> usize {
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]).then(b.cmp(&a))).unwrap_or(0)
}

/// Adds a filling to a pool unless another is as good in both respects.
fn keep(pool: &mut Vec<StageFilling>, filling: &StageFilling) {
    let covers = |a: &StageFilling, b: &StageFilling| a.compute_ms <= b.compute_ms && a.sync_ms <= b.sync_ms;
    if pool.iter().any(|f| covers(f, filling)) {
        return;
    }
    pool.retain(|f| !covers(filling, f));
    pool.push(filling.clone());
}

/// Looks for a better combination of the pooled fillings: one stage at a time, until nothing changes.
fn combine(view: &TaskView, embedding: u32, pools: &[Vec<StageFilling>], best: &mut Weighed) {
    loop {
        let before = best.time_ms;
        for stage in 0..pools.len() {
            for filling in &pools[stage] {
                let mut trial: Vec<&StageFilling> = best.fillings.iter().collect();
                trial[stage] = filling;
                let time = view.time_ms(embedding, &trial);
                if time < best.time_ms {
                    best.time_ms = time;
                    best.fillings[stage] = filling.clone();
                }
            }
        }
        if best.time_ms >= before {
            return;
        }
    }
}

/// Euclidean projection onto the weights that are non-negative and sum to 1, or to at most 1 (Held et al. 1974).
fn onto_simplex(weights: &mut [f64], exactly_one: bool) {
    for w in weights.iter_mut() {
        *w = w.max(if exactly_one { f64::NEG_INFINITY } else { 0.0 });
    }
    if !exactly_one && weights.iter().sum::<f64>() <= 1.0 {
        return;
    }
    let mut sorted = weights.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut shift = 0.0;
    for (i, w) in sorted.iter().enumerate() {
        sum += w;
        let candidate = (sum - 1.0) / (i + 1) as f64;
        if w - candidate > 0.0 {
            shift = candidate;
        }
    }
    for w in weights {
        *w = (*w - shift).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projection_keeps_weights_on_the_simplex() {
        let mut w = vec![0.9, 0.8, -0.5];
        onto_simplex(&mut w, true);
        assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-12 && (w[0] - 0.55).abs() < 1e-12 && w[2] == 0.0);
        let mut w = vec![0.2, -0.3];
        onto_simplex(&mut w, false);
        assert_eq!(w, [0.2, 0.0]);
    }
}
