//! The pipeline formula seen by a search: a maximum of linear functions of stage times, plus a late gradient reduction.
//!
//! With `C` the compute of a stage (embedding included), `E` the embedding's part of it and `S` what reducing its layers'
//! gradients adds, an iteration takes `max_k sum_j a_kj C_j + max(0, max_i T_i)` with `T_i = S_i - E_i - sum_{j<i} C_j`
//! (a rewriting of Galvatron's formula, whose `R_i - sum_{j<=i} C_j` is `T_i`).

use crate::cost::galvatron::pipeline_ms;

/// The formula for one number of stages and micro-batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    pub(super) chunks: u32,
    pub(super) slow_stage_seen: bool,
    /// The linear functions `a`.
    pub heads: Vec<Vec<f64>>,
}

impl Objective {
    /// For `pp` stages and `chunks` micro-batches; `slow_stage_seen` as in [`crate::cost::galvatron::Repair::SlowStage`].
    pub fn new(pp: u32, chunks: u32, slow_stage_seen: bool) -> Self {
        let (n, m) = (pp as usize, f64::from(chunks));
        let mut heads = Vec::new();
        if slow_stage_seen {
            for slow in 0..n {
                heads.push((0..n).map(|j| if j == slow { m } else { 1.0 }).collect());
            }
        } else {
            heads.push((0..n).map(|j| if j + 1 == n { m } else { 1.0 }).collect());
            if n > 1 {
                // max(q/3, r/3) + max(2q/3, 2r/3) is max(q, r).
                let lead = (m + 1.0 - n as f64).max(0.0);
                let ahead = (n as f64 - 1.0).min(m - 1.0);
                heads.push((0..n).map(|j| if j == 0 { ahead + lead } else { 0.0 }).collect());
                heads.push((0..n).map(|j| if j == 0 { lead } else { 1.0 }).collect());
            }
        }
        Self { chunks, slow_stage_seen, heads }
    }

    /// Time of an iteration, ms, exactly as plans are priced. `sync` is `S`, `embedding` is `E`.
    pub fn exact_ms(&self, compute: &[f64], sync: &[f64], embedding: &[f64]) -> f64 {
        let synced: Vec<f64> = compute.iter().zip(sync).zip(embedding).map(|((c, s), e)| c - e + s).collect();
        pipeline_ms(compute, &synced, self.chunks, self.slow_stage_seen)
    }

    /// The same without any late reduction: a lower bound that rises with every stage time.
    pub fn steady_ms(&self, compute: &[f64]) -> f64 {
        self.heads.iter().map(|a| a.iter().zip(compute).map(|(a, c)| a * c).sum()).fold(0.0, f64::max)
    }

    /// `T_i` of every stage.
    pub fn late_ms(&self, compute: &[f64], sync: &[f64], embedding: &[f64]) -> Vec<f64> {
        let mut before = 0.0;
        (0..compute.len())
            .map(|i| {
                let late = sync[i] - embedding[i] - before;
                before += compute[i];
                late
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rewriting_equals_the_formula(
            stages in prop::collection::vec((1.0f64..9.0, 0.0f64..20.0, 0.0f64..1.0), 1..9),
            chunks in 1u32..40,
            slow in any::<bool>(),
        ) {
            let embedding: Vec<f64> = stages.iter().map(|s| s.2).collect();
            let compute: Vec<f64> = stages.iter().map(|s| s.0 + s.2).collect();
            let sync: Vec<f64> = stages.iter().map(|s| s.1).collect();
            let objective = Objective::new(stages.len() as u32, chunks, slow);
            let late = objective.late_ms(&compute, &sync, &embedding).into_iter().fold(0.0, f64::max);
            let exact = objective.exact_ms(&compute, &sync, &embedding);
            prop_assert!((objective.steady_ms(&compute) + late - exact).abs() < 1e-9 * exact);
        }
    }
}
