//! Price of a plan whose passes run in a given order: any map from chunks to ranks, input and weight gradients apart or
//! in one. Times in seconds, memory in bytes.

use super::chunks::{ChunkCost, chunk_cost};
use super::{Estimate, EstimateError, Estimator, Rank};
use crate::pipeline::bounds::{Backward, bounds};
use crate::pipeline::summary::summary;
use crate::pipeline::{Costs, Pairing, Placement, Run, Schedule, Sends, StageCost, Transfer, simulate};
use crate::plan::Plan;

/// Chunks as the stages of a schedule, on ranks that may allocate `limit`. Gradients that are passes of their own take
/// `penalty` longer, as a share (0 where they are not).
pub fn costs(map: &Placement, chunks: &[ChunkCost], limit: f64, penalty: f64) -> Costs {
    let stage = |c: &ChunkCost| StageCost {
        forward: c.forward_s,
        backward: c.backward_s * (1.0 + penalty),
        weight: c.weight_s * (1.0 + penalty),
        activation: c.activation_bytes,
        residue: c.activation_bytes,
        kept: 0.0,
        copy: 0.0,
    };
    let hops: Vec<Transfer> = chunks[1..].iter().map(|c| Transfer { latency: c.hop_s, occupancy: 0.0 }).collect();
    let resident = |d: usize| {
        let own = || map.chunks(d).map(|x| &chunks[x]);
        own().map(|c| c.states_bytes).sum::<f64>() + own().map(|c| c.transient_bytes).fold(0.0, f64::max)
    };
    Costs {
        stages: chunks.iter().map(stage).collect(),
        forward_hops: hops.clone(),
        backward_hops: hops,
        sends: Sends::Eager,
        pairing: Pairing::Sequential,
        resident: (0..map.devices()).map(resident).collect(),
        limit: Some(vec![limit; map.devices()]),
    }
}

impl Estimator<'_> {
    /// Costs of the stages of `schedule`, which are the chunks of `plan`.
    ///
    /// # Errors
    /// [`EstimateError::Mismatch`] when ranks, chunks or micro-batches of the two differ, or the plan is none of the
    /// question.
    pub fn schedule_costs(&self, plan: &Plan, schedule: &Schedule, penalty: f64) -> Result<Costs, EstimateError> {
        let map = &schedule.placement;
        for (what, has, needed) in [
            ("devices", map.devices() as u64, u64::from(plan.pipeline)),
            ("stages", map.stages() as u64, plan.chunks.len() as u64),
            ("micro-batches", schedule.microbatches as u64, plan.micro_batches),
            ("routes", map.routes() as u64, 1),
        ] {
            if has != needed {
                return Err(EstimateError::Mismatch(format!("the schedule has {has} {what}, the plan {needed}")));
            }
        }
        let chunks = self.chunk_costs(plan, map.device_of())?;
        let penalty = if schedule.splits_backward() { penalty } else { 0.0 };
        Ok(costs(map, &chunks, self.allocatable(), penalty))
    }

    /// Estimates `plan` under `schedule`; where it needs more memory than there is, the estimate says so.
    ///
    /// # Errors
    /// As [`Estimator::schedule_costs`]; [`EstimateError::Schedule`] for an order that does not run.
    pub fn estimate_under(&self, plan: &Plan, schedule: &Schedule, penalty: f64) -> Result<Estimate, EstimateError> {
        let limited = self.schedule_costs(plan, schedule, penalty)?;
        let free = Costs { limit: None, ..limited.clone() };
        let run = simulate(schedule, &free)?;
        let map = &schedule.placement;
        let sums = self.chunk_sums(plan, map.device_of())?;
        let share = self.weight_share();
        let chunks: Vec<ChunkCost> = sums.iter().map(|sum| chunk_cost(sum, share)).collect();
        let penalty = if schedule.splits_backward() { penalty } else { 0.0 };
        let summaries = summary(schedule, &free, &run);
        let rank = |d: usize| {
            let own: Vec<usize> = map.chunks(d).collect();
            let held = |x: &usize| {
                let held = summaries[d].held_by.iter().find(|(stage, _)| stage == x).map_or(0.0, |(_, held)| *held);
                if chunks[*x].activation_bytes > 0.0 { held / chunks[*x].activation_bytes } else { 0.0 }
            };
            let apart = |x: &usize| penalty * (chunks[*x].backward_s + chunks[*x].weight_s);
            Rank {
                last_end: run.timeline[d].last().map_or(0.0, |timed| timed.end),
                live: run.peaks[d].value - free.resident[d],
                in_flight: own.iter().map(held).collect(),
                apart: own.iter().map(apart).sum::<f64>() * plan.micro_batches as f64,
                own,
            }
        };
        let backward = if schedule.splits_backward() { Backward::Split } else { Backward::Fused };
        let bound = bounds(map, &schedule.flags, &free, schedule.microbatches, backward).makespan.time;
        let ranks = (0..map.devices()).map(rank).collect();
        let closed_form = self.iteration_at_least(map, &chunks, bound);
        Ok(self.compose(plan, &sums, ranks, closed_form, run.bubble()))
    }

    /// Iteration time after `run` of all passes: gradients are reduced as each rank ends, then all take their step.
    pub fn iteration_after(&self, map: &Placement, chunks: &[ChunkCost], run: &Run) -> f64 {
        iteration_after(map, chunks, run) * self.jitter()
    }

    /// Least iteration time when no order of the passes ends before `makespan`.
    pub fn iteration_at_least(&self, map: &Placement, chunks: &[ChunkCost], makespan: f64) -> f64 {
        iteration_at_least(map, chunks, makespan) * self.jitter()
    }
}

fn sum(map: &Placement, chunks: &[ChunkCost], device: usize, of: fn(&ChunkCost) -> f64) -> f64 {
    map.chunks(device).map(|x| of(&chunks[x])).sum()
}

fn tail(map: &Placement, chunks: &[ChunkCost]) -> f64 {
    (0..map.devices()).map(|d| sum(map, chunks, d, |c| c.tail_s)).fold(0.0, f64::max)
}

/// Iteration time after simulated passes: they, then the reduction of gradients, then the optimizer; without stragglers.
pub fn iteration_after(map: &Placement, chunks: &[ChunkCost], run: &Run) -> f64 {
    let end = |d: usize| run.timeline[d].last().map_or(0.0, |timed| timed.end);
    let reduced = |d: usize| end(d) + sum(map, chunks, d, |c| c.reduce_s);
    (0..map.devices()).map(reduced).fold(0.0, f64::max) + tail(map, chunks)
}

/// Least iteration time when no order of the passes ends before `makespan`; without stragglers.
pub fn iteration_at_least(map: &Placement, chunks: &[ChunkCost], makespan: f64) -> f64 {
    let reduce = (0..map.devices()).map(|d| sum(map, chunks, d, |c| c.reduce_s)).fold(f64::INFINITY, f64::min);
    makespan + reduce + tail(map, chunks)
}
