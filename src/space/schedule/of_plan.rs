//! The question of a schedule for a plan: true times, memory and links of its chunks. The cuts may move: beside the plan's
//! own chunks stand balanced ones, in loops and in a V.

use super::question::Objective;
use super::shape::{Case, Shape};
use super::split::balance;
use crate::error::{InputError, Kind};
use crate::estimate::chunks::ChunkCost;
use crate::estimate::{EstimateError, Estimator};
use crate::pipeline::bounds::Backward;
use crate::pipeline::{Costs, Pairing, Placement, Run, Sends, StageCost, Transfer};
use crate::plan::{Chunk, LayerStrategy, Plan, Spine};
use crate::space::planner::{Inputs, PlanError};

/// A case with the plan behind each of its shapes.
#[derive(Debug, Clone)]
pub struct PlanCase {
    /// The case; its first shape is that of the plan as it is. Times in seconds, memory in bytes.
    pub case: Case,
    /// Chunks of each shape, by stage.
    pub chunks: Vec<Vec<Chunk>>,
    costs: Vec<Vec<ChunkCost>>,
    /// Growth of the iteration by stragglers.
    jitter: f64,
    /// Iteration time under the schedule of the plan.
    pub planned_s: f64,
}

/// The case of a plan.
///
/// # Errors
/// [`PlanError`] for a plan that is none of the question.
pub fn case_of(inputs: &Inputs, plan: &Plan, objective: Objective) -> Result<PlanCase, PlanError> {
    let planned = crate::space::check::check(inputs, plan)?;
    let pool = inputs.pool()?;
    let spine = Spine::new(&inputs.model, &inputs.job);
    let estimator = Estimator::new(&inputs.model, &spine, pool, &inputs.job, inputs.cost);
    let (p, m) = (plan.pipeline as usize, plan.micro_batches as usize);
    let own = Placement::looped(p, plan.chunks_per_stage as usize);
    let passes = 3 * own.stages() * m;
    if passes > super::question::MOST_PASSES {
        let error = InputError::new(Kind::Unsupported).at("plan.micro_batches").found(m);
        return Err(error.expected(format!("at most {} passes", super::question::MOST_PASSES)).into());
    }
    let parts: Vec<LayerStrategy> = plan.chunks.iter().flat_map(Chunk::parts).map(|(_, strategy)| *strategy).collect();
    // Every part alone tells what it weighs.
    let alone = |maps: &Placement, chunks: Vec<Chunk>| -> Result<Vec<ChunkCost>, EstimateError> {
        let plan = Plan { chunks_per_stage: (maps.stages() / p) as u32, chunks, ..plan.clone() };
        estimator.chunk_costs(&plan, maps.device_of())
    };
    let mut all = PlanCase {
        case: Case { shapes: Vec::new(), microbatches: m, objective },
        chunks: Vec::new(),
        costs: Vec::new(),
        jitter: estimator.jitter(),
        planned_s: planned.estimate.iteration_time_s,
    };
    let mut add = |map: Placement, chunks: Vec<Chunk>| -> Result<(), EstimateError> {
        if all.case.shapes.iter().zip(&all.chunks).any(|(shape, own)| shape.placement == map && *own == chunks) {
            return Ok(());
        }
        let costs = alone(&map, chunks.clone())?;
        let shape = Shape::new(map.clone(), costs_of(&map, &costs, estimator.allocatable()), Backward::Split, m);
        all.case.shapes.push(shape);
        all.chunks.push(chunks);
        all.costs.push(costs);
        Ok(())
    };
    add(own.clone(), plan.chunks.clone())?;
    if plan.chunks_per_stage == 2 {
        add(Placement::vee(p), plan.chunks.clone())?;
    }
    let load = loads(&estimator, &spine, plan, &parts);
    for map in [own, Placement::looped(p, 1), Placement::looped(p, 2), Placement::vee(p)] {
        if 3 * map.stages() * m > super::question::MOST_PASSES {
            continue;
        }
        let Some(sizes) = balance(&load, &map) else { continue };
        let mut first = 0;
        let chunks = sizes.into_iter().map(|n| {
            let chunk = Plan::encode(first as u32, &parts[first..first + n]);
            first += n;
            chunk
        });
        add(map, chunks.collect())?;
    }
    Ok(all)
}

/// Work of every part for one micro-batch, seconds.
fn loads(estimator: &Estimator<'_>, spine: &Spine, plan: &Plan, parts: &[LayerStrategy]) -> Vec<f64> {
    let mesh = crate::cost::Mesh {
        stage_devices: plan.stage_devices(),
        pipeline: plan.pipeline,
        micro_batches: plan.micro_batches,
    };
    let of = |(part, strategy): (usize, &LayerStrategy)| {
        let price = estimator.pricer.price(spine.class_of(part), strategy, mesh);
        (price.forward.total() + price.backward.total()).0
    };
    parts.iter().enumerate().map(of).collect()
}

fn costs_of(map: &Placement, chunks: &[ChunkCost], limit: f64) -> Costs {
    let stage = |c: &ChunkCost| StageCost {
        forward: c.forward_s,
        backward: c.backward_s,
        weight: c.weight_s,
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

impl PlanCase {
    /// Iteration time under a simulated schedule on a shape: passes, reduction of gradients, optimizer, stragglers.
    pub fn iteration(&self, shape: usize, run: &Run) -> f64 {
        let (map, costs) = (&self.case.shapes[shape].placement, &self.costs[shape]);
        let sum = |d: usize, of: fn(&ChunkCost) -> f64| map.chunks(d).map(|x| of(&costs[x])).sum::<f64>();
        let end = |d: usize| run.timeline[d].last().map_or(0.0, |timed| timed.end);
        let reduced = (0..map.devices()).map(|d| end(d) + sum(d, |c| c.reduce_s)).fold(0.0, f64::max);
        let tail = (0..map.devices()).map(|d| sum(d, |c| c.tail_s)).fold(0.0, f64::max);
        (reduced + tail) * self.jitter
    }
}
