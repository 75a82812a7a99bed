//! A plan in Galvatron's terms and its price: the pipeline formula over stage sums, and memory against the budget.
//!
//! Galvatron 2.4.1, `pipeline_costmodel`. Times in ms, sizes in MB of 2^20 bytes.

use super::error::GalvatronCostError;
use super::model::{CostModel, Micro};
use super::repairs::Repair;
use super::strategy::Strategy;

/// Which strategies a task of Galvatron's outer loop admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TpSpMode {
    /// No Ulysses.
    TpOnly,
    /// No tensor parallelism, hence no buffer for gathered activations.
    SpOnly,
    /// Both.
    TpWithSp,
}

impl TpSpMode {
    /// As Galvatron writes it.
    pub const fn name(self) -> &'static str {
        match self {
            TpSpMode::TpOnly => "tp_only",
            TpSpMode::SpOnly => "sp_only",
            TpSpMode::TpWithSp => "tp_with_sp",
        }
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Pipeline stages.
    pub pp: u32,
    /// How the batch is cut.
    pub micro: Micro,
    /// Layers of each stage.
    pub partition: Vec<u32>,
    /// Strategy of each layer, in model order.
    pub layers: Vec<Strategy>,
    /// Strategy of embedding and head.
    pub embedding: Strategy,
}

/// One stage of a priced plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StagePrice {
    /// Layers of the stage, one micro-batch, gradients reduced.
    pub layers_with_sync_ms: f64,
    /// Layers, embedding and head, one micro-batch, gradients not reduced.
    pub compute_ms: f64,
    /// Embedding and head alone, gradients reduced.
    pub embedding_with_sync_ms: f64,
    /// Embedding and head alone, gradients not reduced.
    pub embedding_without_sync_ms: f64,
    /// Memory.
    pub memory_mb: f64,
    /// Memory as Galvatron rounds it for the comparison with the budget: every part up to a whole MB, the buffer down.
    pub rounded_mb: u64,
}

/// A priced plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// One iteration.
    pub time_ms: f64,
    /// By stage.
    pub stages: Vec<StagePrice>,
    /// Buffer for gathered activations, part of every stage's memory.
    pub buffer_mb: f64,
    /// What a stage may use.
    pub usable_mb: u64,
}

impl Price {
    /// Whether every stage fits.
    pub fn fits(&self) -> bool {
        self.stages.iter().all(|s| s.rounded_mb <= self.usable_mb)
    }

    /// Samples per second.
    pub fn samples_per_s(&self, micro: Micro) -> f64 {
        f64::from(micro.global_batch) / self.time_ms * 1e3
    }
}

/// Layers per stage as Galvatron cuts them: equally, the whole remainder on the last stage.
pub fn even_partition(layers: u32, pp: u32) -> Vec<u32> {
    let each = layers / pp;
    (0..pp).map(|i| if i + 1 == pp { layers - each * (pp - 1) } else { each }).collect()
}

/// Time of one iteration from stage times: `compute` without and `synced` (layers only) with reduction of gradients.
pub fn pipeline_ms(compute: &[f64], synced: &[f64], chunks: u32, slow_stage_seen: bool) -> f64 {
    let (Some(&first), Some(&last)) = (compute.first(), compute.last()) else { return 0.0 };
    let pp = compute.len() as f64;
    let chunks = f64::from(chunks);
    let sum: f64 = compute.iter().sum();
    let steady = if slow_stage_seen {
        sum + compute.iter().copied().fold(0.0, f64::max) * (chunks - 1.0)
    } else {
        let to_last = sum + last * (chunks - 1.0);
        let ahead = (pp - 1.0).min(chunks - 1.0) * first;
        let rest: f64 = compute[1..].iter().sum();
        let to_first = (ahead / 3.0).max(rest / 3.0)
            + (ahead * 2.0 / 3.0).max(rest * 2.0 / 3.0)
            + first * (chunks + 1.0 - pp).max(0.0);
        to_last.max(to_first)
    };
    let mut elapsed = 0.0;
    let mut late: f64 = 0.0;
    for (c, r) in compute.iter().zip(synced) {
        elapsed += c;
        late = late.max(r - elapsed);
    }
    steady + late
}

impl CostModel {
    /// The cheapest task of Galvatron's outer loop that admits `plan`: its mode and the degree of its buffer.
    pub fn task_of(&self, plan: &Plan) -> (TpSpMode, u32) {
        let all = || plan.layers.iter().chain(std::iter::once(&plan.embedding));
        let widest = all().map(Strategy::width).max().unwrap_or(1);
        if all().all(|s| s.tp == 1) {
            (TpSpMode::SpOnly, widest)
        } else if all().all(|s| s.sp == 1) {
            (TpSpMode::TpOnly, widest)
        } else {
            (TpSpMode::TpWithSp, widest)
        }
    }

    /// Prices `plan` as a member of the task (`mode`, `buffer_tp`), which decides the buffer for gathered activations.
    pub fn price(&self, plan: &Plan, mode: TpSpMode, buffer_tp: u32) -> Result<Price, GalvatronCostError> {
        self.check_shape(plan)?;
        let buffer_mb =
            if mode == TpSpMode::SpOnly { 0.0 } else { self.global_buffer_mb(plan.pp, buffer_tp, plan.micro) };
        let kinds = self.setting.layer_kinds();
        let mut stages = Vec::with_capacity(plan.partition.len());
        let mut begin = 0;
        for (stage, &count) in plan.partition.iter().enumerate() {
            let stage = stage as u32;
            let embedding = self.embedding(&plan.embedding, plan.micro, stage)?;
            let mut price = StagePrice {
                layers_with_sync_ms: 0.0,
                compute_ms: 0.0,
                embedding_with_sync_ms: embedding.with_sync_ms,
                embedding_without_sync_ms: embedding.without_sync_ms,
                memory_mb: embedding.total_mb() + buffer_mb,
                rounded_mb: embedding.total_mb().ceil() as u64 + buffer_mb as u64,
            };
            let end = begin + count as usize;
            let mut before: Option<&Strategy> = None;
            for (s, &kind) in plan.layers[begin..end].iter().zip(&kinds[begin..end]) {
                let time = self.layer_time(kind, s, plan.micro)?;
                let memory = self.layer_memory(kind, s, plan.micro, stage)?;
                let resharding = match before.replace(s) {
                    Some(before) => self.resharding_ms(kind, before, s, plan.micro)?,
                    None => 0.0,
                };
                price.layers_with_sync_ms += time.with_sync_ms + resharding;
                price.compute_ms += time.without_sync_ms + resharding;
                price.memory_mb += memory.total_mb();
                price.rounded_mb += memory.total_mb().ceil() as u64;
            }
            price.compute_ms += embedding.without_sync_ms;
            begin = end;
            stages.push(price);
        }
        let compute: Vec<f64> = stages.iter().map(|s| s.compute_ms).collect();
        let synced: Vec<f64> = stages.iter().map(|s| s.layers_with_sync_ms).collect();
        let time_ms = pipeline_ms(&compute, &synced, plan.micro.chunks, self.repairs.has(Repair::SlowStage));
        Ok(Price { time_ms, stages, buffer_mb, usable_mb: self.usable_mb() })
    }

    /// Whether the numbers of the plan fit together and to the setting.
    fn check_shape(&self, plan: &Plan) -> Result<(), GalvatronCostError> {
        let mismatch =
            |what, found: String, expected: String| Err(GalvatronCostError::Mismatch { what, found, expected });
        let world = self.setting.world();
        let layers = self.setting.layers();
        if plan.micro.chunks == 0 || plan.micro.global_batch == 0 {
            return mismatch("chunks and global_bsz", format!("{:?}", plan.micro), "at least 1 each".to_owned());
        }
        if plan.layers.len() as u32 != layers {
            return mismatch("number of layers", plan.layers.len().to_string(), layers.to_string());
        }
        if plan.partition.len() as u32 != plan.pp
            || plan.partition.iter().map(|&n| u64::from(n)).sum::<u64>() != u64::from(layers)
        {
            let expected = format!("{} stages that hold {layers} layers in all", plan.pp);
            return mismatch("pp_division", format!("{:?}", plan.partition), expected);
        }
        for s in plan.layers.iter().chain(std::iter::once(&plan.embedding)) {
            if s.pp != plan.pp || s.devices() != world || (s.tp > 1 && s.sp > 1) {
                let expected = format!("{} stages and degrees whose product is {world} devices", plan.pp);
                return mismatch("strategy", s.to_string(), expected);
            }
            if self.repairs.has(Repair::DivisibleBatch) && !plan.micro.divides(s.dp) {
                let expected = format!("chunks x dp that divides {}", plan.micro.global_batch);
                return mismatch("micro-batch", format!("{} chunks x dp {}", plan.micro.chunks, s.dp), expected);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_stands_on_the_last_stage() {
        assert_eq!(even_partition(28, 8), [3, 3, 3, 3, 3, 3, 3, 7]);
        assert_eq!(even_partition(32, 4), [8; 4]);
    }

    #[test]
    fn a_slow_middle_stage_is_seen_only_when_repaired() {
        let compute = [1.0, 5.0, 1.0];
        assert_eq!(pipeline_ms(&compute, &compute, 10, false), 16.0);
        assert_eq!(pipeline_ms(&compute, &compute, 10, true), 7.0 + 45.0);
    }
}
