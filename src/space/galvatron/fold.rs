//! The pipeline formula folded from the last stage to the first: what exact methods combine stages with.
//!
//! One combination of Galvatron's formula falls when a middle stage gets slower: the first stage bounds the steady part
//! and a later stage's gradient reduction is hidden behind the middle one. There the fold can take the slowest the middle
//! stage could be, which makes it a lower bound that rises with every stage time, or its true time, which makes it the
//! formula itself and still rises with its own state. Everywhere else both are the formula.

use super::objective::Objective;
use crate::search::decompose::{Combine, Cost, Fold};

/// The formula for one task and embedding. Costs are `[compute of layers, sync of layers, ...]` in ms.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineFold {
    chunks: f64,
    /// Weight of the first stage when it waits for nothing, and beside the others.
    lead: f64,
    ahead: f64,
    slow_stage_seen: bool,
    embedding_ms: Vec<f64>,
    /// Most compute of each stage; its true compute is taken where there is none.
    slowest_ms: Option<Vec<f64>>,
    /// Objective per ms of an iteration.
    scale: f64,
}

const SUM: usize = 0;
/// What the slowest (or last) stage adds in the steady part.
const TAIL: usize = 1;
/// Largest of reduction and what runs after it: `S_i - E_i + sum_{j>=i} C_j`.
const AFTER: usize = 2;
/// Largest of reduction less what hides it at most: `S_i - E_i - sum_{j<i} slowest_j`.
const HIDDEN: usize = 3;
const VALUE: usize = 4;

impl PipelineFold {
    /// For stages with these embedding times and this slowest possible compute, embedding included: rises with every cost.
    pub fn rising(objective: &Objective, embedding_ms: Vec<f64>, slowest_ms: Vec<f64>, scale: f64) -> Self {
        Self { slowest_ms: Some(slowest_ms), ..Self::exact(objective, embedding_ms, scale) }
    }

    /// The formula itself, which rises with the state but not with every cost.
    pub fn exact(objective: &Objective, embedding_ms: Vec<f64>, scale: f64) -> Self {
        let (n, m) = (embedding_ms.len() as f64, f64::from(objective.chunks));
        Self {
            chunks: m,
            lead: (m + 1.0 - n).max(0.0),
            ahead: (n - 1.0).min(m - 1.0),
            slow_stage_seen: objective.slow_stage_seen,
            embedding_ms,
            slowest_ms: None,
            scale,
        }
    }
}

impl Combine for PipelineFold {
    fn start(&self) -> Fold {
        [0.0; 6]
    }

    fn push(&self, state: &Fold, segment: usize, cost: &Cost) -> Fold {
        let e = self.embedding_ms[segment];
        let c = cost[0] + e;
        let late = cost[1] - e;
        let last = segment + 1 == self.embedding_ms.len();
        let mut next = *state;
        next[SUM] += c;
        next[AFTER] = state[AFTER].max(late + next[SUM]);
        if self.slow_stage_seen {
            next[TAIL] = state[TAIL].max(c * (self.chunks - 1.0));
        } else if last {
            next[TAIL] = c * (self.chunks - 1.0);
        }
        if segment > 0 {
            let hides = self.slowest_ms.as_ref().map_or(c, |s| s[segment]);
            next[HIDDEN] = late.max(state[HIDDEN] - hides).max(0.0);
            return next;
        }
        let mut value = next[TAIL] + next[SUM].max(next[AFTER]);
        if !self.slow_stage_seen && !last {
            let hides = if self.lead >= 1.0 { c } else { self.slowest_ms.as_ref().map_or(c, |s| s[0]) };
            let rest = state[SUM].max(state[SUM] + late).max(state[AFTER] - hides);
            let first = late.max(state[HIDDEN] - c).max(0.0);
            value = value.max(self.lead * c + rest).max((self.lead + self.ahead) * c + first);
        }
        next[VALUE] = value * self.scale;
        next
    }

    fn finish(&self, state: &Fold) -> f64 {
        state[VALUE]
    }

    fn primary(&self, cost: &Cost) -> f64 {
        cost[0]
    }

    fn push_relaxed(&self, state: &Fold, segment: usize, primary: f64, floor: &Cost) -> Fold {
        let mut cost = [0.0; crate::search::decompose::COSTS];
        (cost[0], cost[1]) = (primary.max(floor[0]), floor[1]);
        self.push(state, segment, &cost)
    }

    fn primary_limit(&self, objective: f64) -> f64 {
        objective / self.scale
    }

    fn complete(&self, state: &Fold, segments: usize, primary: f64) -> f64 {
        if segments == 0 {
            return state[VALUE];
        }
        let before: f64 = self.embedding_ms[..segments].iter().sum::<f64>() + primary;
        (state[TAIL] + (state[SUM] + before).max(state[AFTER])) * self.scale
    }

    fn weights(&self) -> Cost {
        let mut out = [0.0; crate::search::decompose::COSTS];
        out[0] = self.chunks * self.scale;
        out[1] = self.scale;
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fold(f: &PipelineFold, costs: &[(f64, f64)]) -> f64 {
        let mut state = f.start();
        for (i, &(compute, sync)) in costs.iter().enumerate().rev() {
            let mut cost = [0.0; crate::search::decompose::COSTS];
            (cost[0], cost[1]) = (compute, sync);
            state = f.push(&state, i, &cost);
        }
        f.finish(&state)
    }

    proptest! {
        #[test]
        fn the_fold_never_exceeds_the_formula_and_rises_with_every_time(
            stages in prop::collection::vec((1.0f64..9.0, 0.0f64..30.0, 0.0f64..1.0), 1..9),
            more in 0u32..30,
            slow in any::<bool>(),
            raised in any::<prop::sample::Index>(),
            by in (0.0f64..2.0, 0.0f64..2.0),
        ) {
            let chunks = stages.len() as u32 + more;
            let objective = Objective::new(stages.len() as u32, chunks, slow);
            let e: Vec<f64> = stages.iter().map(|s| s.2).collect();
            let slowest: Vec<f64> = stages.iter().map(|s| s.0 + s.2 + 2.0).collect();
            let f = PipelineFold::rising(&objective, e.clone(), slowest, 1.0);
            let mut costs: Vec<(f64, f64)> = stages.iter().map(|s| (s.0, s.1)).collect();
            let compute: Vec<f64> = costs.iter().zip(&e).map(|(c, e)| c.0 + e).collect();
            let sync: Vec<f64> = costs.iter().map(|c| c.1).collect();
            let exact = objective.exact_ms(&compute, &sync, &e);
            let value = fold(&f, &costs);
            prop_assert!(value <= exact * (1.0 + 1e-12), "{value} {exact}");
            let itself = fold(&PipelineFold::exact(&objective, e.clone(), 1.0), &costs);
            prop_assert!((itself - exact).abs() <= 1e-9 * exact, "{itself} {exact}");
            let late = objective.late_ms(&compute, &sync, &e);
            if slow || late.iter().skip(2).all(|&t| t <= 0.0) {
                prop_assert!((value - exact).abs() <= 1e-9 * exact, "{value} {exact}");
            }
            let i = raised.index(costs.len());
            costs[i].0 += by.0;
            costs[i].1 += by.1;
            prop_assert!(fold(&f, &costs) >= value * (1.0 - 1e-12));
        }

        #[test]
        fn completing_a_partial_fold_never_exceeds_its_value(
            stages in prop::collection::vec((1.0f64..9.0, 0.0f64..30.0, 0.0f64..1.0), 2..9),
            cut in any::<prop::sample::Index>(),
            slow in any::<bool>(),
        ) {
            let objective = Objective::new(stages.len() as u32, stages.len() as u32 + 3, slow);
            let e: Vec<f64> = stages.iter().map(|s| s.2).collect();
            let f = PipelineFold::rising(&objective, e, stages.iter().map(|s| s.0 + s.2).collect(), 1.0);
            let costs: Vec<(f64, f64)> = stages.iter().map(|s| (s.0, s.1)).collect();
            let cut = 1 + cut.index(costs.len() - 1);
            let mut state = f.start();
            for i in (cut..costs.len()).rev() {
                let mut cost = [0.0; crate::search::decompose::COSTS];
                (cost[0], cost[1]) = costs[i];
                state = f.push(&state, i, &cost);
            }
            let primary: f64 = costs[..cut].iter().map(|c| c.0).sum();
            prop_assert!(f.complete(&state, cut, primary) <= fold(&f, &costs) * (1.0 + 1e-12));
        }
    }
}
