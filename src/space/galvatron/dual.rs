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

/// One set of weights: per stage the weights of compute and sync, the least sum of both, and the bound on the whole.
struct Relaxed {
    alpha: Vec<f64>,
    beta: Vec<f64>,
    least: Vec<f64>,
    bound: f64,
}

/// Steps of the ascent.
const STEPS: usize = 24;

/// Weighs, starting from `cheapest`, the fillings with the least compute. `upper_ms`: what is known to be reachable.
pub fn weigh(view: &TaskView, embedding: u32, cheapest: &[StageFilling], upper_ms: f64) -> Weighed {
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
    let mut relaxations = Vec::with_capacity(STEPS);
    let mut theta = vec![0.0; p];
    theta[argmax(&late)] = 1.0;
    for _ in 0..STEPS {
        let alpha: Vec<f64> = (0..p)
            .map(|j| {
                let head: f64 = omega.iter().zip(heads).map(|(w, a)| w * a[j]).sum();
                head - theta[j + 1..].iter().sum::<f64>()
            })
            .collect();
        let mut bound: f64 = (0..p).map(|j| alpha[j] * other[j] - theta[j] * other[j]).sum();
        let mut least = vec![0.0; p];
        for j in 0..p {
            match minimise(view, embedding, j, alpha[j], theta[j]) {
                Some((value, filling)) => {
                    bound += value;
                    least[j] = value;
                    if let Some(filling) = filling {
                        keep(&mut pools[j], &filling);
                        current[j] = filling;
                    }
                }
                None => return best,
            }
        }
        best.bound_ms = best.bound_ms.max(bound);
        relaxations.push(Relaxed { alpha, beta: theta.clone(), least, bound });
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
        let step = (upper_ms.min(best.time_ms) - bound).max(0.0) / norm;
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
        close(view, embedding, &relaxations, goal, &mut best);
    }
    best
}

/// Enumerates, for every stage, the fillings that a plan below `goal` could have, and combines them.
fn close(view: &TaskView, embedding: u32, relaxations: &[Relaxed], goal: f64, best: &mut Weighed) {
    let p = view.stages();
    let mut fronts: Vec<Vec<StageFilling>> = Vec::with_capacity(p);
    for stage in 0..p {
        // The relaxation under which the stage has the least room.
        let room = |r: &Relaxed| (goal - r.bound) / r.alpha[stage];
        let Some(tightest) =
            relaxations.iter().filter(|r| r.alpha[stage] > 0.0).min_by(|a, b| room(a).total_cmp(&room(b)))
        else {
            return;
        };
        let (Some(cap), Some(knapsack)) =
            (view.cap_mb(embedding, stage), view.narrow_knapsack(stage, tightest.alpha[stage], tightest.beta[stage]))
        else {
            return;
        };
        let mut front = Vec::new();
        let limit = tightest.least[stage] + (goal - tightest.bound);
        let complete = knapsack.within(cap, limit, &mut |counts| {
            let filling = view.counted(counts);
            let inside = |r: &Relaxed| {
                let cost = r.alpha[stage] * filling.compute_ms + r.beta[stage] * filling.sync_ms;
                cost <= r.least[stage] + (goal - r.bound) + 1e-9 * goal
            };
            if relaxations.iter().all(inside) {
                keep(&mut front, &filling);
            }
        });
        if !complete {
            return;
        }
        fronts.push(front);
    }
    let slowest: Vec<f64> =
        (0..p).map(|s| view.slowest_ms(s) + view.table.other_ms(embedding as usize, s as u32)).collect();
    let fold = PipelineFold::new(&view.objective, view.embedding_ms(embedding), slowest, 1.0);
    let mut states: Vec<(Fold, Vec<usize>)> = vec![(fold.start(), Vec::new())];
    for (stage, front) in fronts.iter().enumerate().rev() {
        let mut next: Vec<(Fold, Vec<usize>)> = Vec::new();
        for (state, chosen) in &states {
            for (i, filling) in front.iter().enumerate() {
                let mut cost = [0.0; COSTS];
                (cost[0], cost[1]) = (filling.compute_ms, filling.sync_ms);
                let pushed = fold.push(state, stage, &cost);
                if fold.complete(&pushed, stage, 0.0) <= goal * (1.0 + 1e-9) {
                    let mut chosen = chosen.clone();
                    chosen.push(i);
                    insert_fold(&mut next, pushed, chosen);
                }
            }
        }
        states = next;
    }
    // Plans below the goal, if any, are among these: none folds to less than the least of them.
    let mut bound = goal;
    for (state, chosen) in &states {
        bound = bound.min(fold.finish(state));
        let fillings: Vec<&StageFilling> = fronts.iter().zip(chosen.iter().rev()).map(|(f, &i)| &f[i]).collect();
        let time = view.time_ms(embedding, &fillings);
        if time < best.time_ms {
            best.time_ms = time;
            best.fillings = fillings.into_iter().cloned().collect();
        }
    }
    best.bound_ms = best.bound_ms.max(bound);
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
    if alpha > 0.0 {
        let (filling, bound) = view.minimise(stage, &view.counts[stage], cap, alpha, beta)?;
        return Some((bound, Some(filling)));
    }
    // Compute does not count here, or counts in favour: bounded by the slowest strategy of every layer.
    let slowest = view.slowest_ms(stage);
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
