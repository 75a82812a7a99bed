//! The question of a schedule for a plan: true times, memory and links of its chunks. The cuts may move: beside the plan's
//! own chunks stand balanced ones, in loops and in a V, and those of the best interleaved 1F1B.

use super::question::{MOST_PASSES, Objective};
use super::shape::{Case, Shape};
use super::split::balance;
use crate::error::{InputError, Kind};
use crate::estimate::chunks::ChunkCost;
use crate::estimate::scheduled::{costs, iteration_after, iteration_at_least};
use crate::estimate::{Estimate, EstimateError, Estimator};
use crate::pipeline::bounds::Backward;
use crate::pipeline::{Placement, Run};
use crate::plan::{Chunk, LayerStrategy, Plan, Spine};
use crate::space::planner::{Inputs, PlanError};
use crate::space::tasks::splits;
use serde::Serialize;

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
    /// The plan under 1F1B, or interleaved 1F1B if it has several chunks per stage; `None` where that does not run.
    pub planned: Option<Estimate>,
    /// Interleaved 1F1B with the number of chunks that suits it best, where one fits.
    pub interleaved: Option<Interleaved>,
}

/// The best interleaved 1F1B of a plan's layers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interleaved {
    /// Chunks per stage.
    pub chunks_per_stage: u32,
    /// Its iteration time.
    pub iteration_time_s: f64,
}

/// Most chunks per stage that interleaved 1F1B is tried with: more of them only add traffic where 8 do not pay.
const MOST_INTERLEAVED: u32 = 8;
/// Stages up to which cuts are balanced one by one.
const MOST_BALANCED: usize = 96;

/// The case of a plan that was given; split gradients take `penalty` longer than joint ones.
///
/// # Errors
/// [`PlanError`] for a plan that is none of the question.
pub fn case_of(inputs: &Inputs, plan: &Plan, objective: Objective, penalty: f64) -> Result<PlanCase, PlanError> {
    crate::space::check::check(inputs, plan)?;
    let pool = inputs.pool()?;
    let spine = Spine::new(&inputs.model, &inputs.job);
    let estimator = Estimator::new(&inputs.model, &spine, pool, &inputs.job, inputs.cost);
    PlanCase::new(&estimator, plan, objective, penalty)
}

impl PlanCase {
    /// As [`case_of`], for a plan that is known to be one of the question.
    ///
    /// # Errors
    /// As [`case_of`].
    pub fn new(
        estimator: &Estimator<'_>,
        plan: &Plan,
        objective: Objective,
        penalty: f64,
    ) -> Result<PlanCase, PlanError> {
        let (p, m) = (plan.pipeline as usize, plan.micro_batches as usize);
        let own = Placement::looped(p, plan.chunks_per_stage as usize);
        if 3 * own.stages() * m > MOST_PASSES {
            let error = InputError::new(Kind::Unsupported).at("plan.micro_batches").found(m);
            return Err(error.expected(format!("at most {MOST_PASSES} passes")).into());
        }
        let parts: Vec<LayerStrategy> =
            plan.chunks.iter().flat_map(Chunk::parts).map(|(_, strategy)| *strategy).collect();
        let mut all = PlanCase {
            case: Case { shapes: Vec::new(), microbatches: m, objective },
            chunks: Vec::new(),
            costs: Vec::new(),
            jitter: estimator.jitter(),
            planned: estimator.estimate(plan).ok(),
            interleaved: None,
        };
        all.add(estimator, plan, own.clone(), plan.chunks.clone(), penalty)?;
        if plan.chunks_per_stage == 2 {
            all.add(estimator, plan, Placement::vee(p), plan.chunks.clone(), penalty)?;
        }
        let load = loads(estimator, plan, &parts);
        for map in [own, Placement::looped(p, 1), Placement::looped(p, 2), Placement::vee(p)] {
            if 3 * map.stages() * m > MOST_PASSES {
                continue;
            }
            let Some(sizes) = even(estimator.spine, &load, &map) else { continue };
            all.add(estimator, plan, map, cut(&parts, sizes), penalty)?;
        }
        if let Some((best, time)) = interleaved(estimator, plan, &parts) {
            let chunks_per_stage = best.chunks_per_stage;
            all.interleaved = Some(Interleaved { chunks_per_stage, iteration_time_s: time });
            all.add(estimator, plan, Placement::looped(p, chunks_per_stage as usize), best.chunks, penalty)?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        estimator: &Estimator<'_>,
        plan: &Plan,
        map: Placement,
        chunks: Vec<Chunk>,
        penalty: f64,
    ) -> Result<(), EstimateError> {
        if self.case.shapes.iter().zip(&self.chunks).any(|(shape, own)| shape.placement == map && *own == chunks) {
            return Ok(());
        }
        // Every chunk alone tells what it weighs.
        let per_stage = (map.stages() / map.devices()) as u32;
        let alone = Plan { chunks_per_stage: per_stage, chunks: chunks.clone(), ..plan.clone() };
        let alone = estimator.chunk_costs(&alone, map.device_of())?;
        // Without a penalty W may follow its B at once, so that joint gradients are never faster.
        let kinds: &[Backward] = if penalty > 0.0 { &[Backward::Split, Backward::Fused] } else { &[Backward::Split] };
        for &kind in kinds {
            let slower = if kind == Backward::Split { penalty } else { 0.0 };
            let costs = costs(&map, &alone, estimator.allocatable(), slower);
            self.case.shapes.push(Shape::new(map.clone(), costs, kind, self.case.microbatches));
            self.chunks.push(chunks.clone());
            self.costs.push(alone.clone());
        }
        Ok(())
    }

    /// Leaves out shapes with other numbers of chunks than are `allowed`; that of the plan stays.
    pub fn keep(&mut self, allowed: &dyn Fn(u32) -> bool) {
        let own = self.case.shapes[0].chunks();
        let stays: Vec<bool> =
            self.case.shapes.iter().map(|s| s.chunks() == own || allowed(s.chunks() as u32)).collect();
        let mut which = stays.iter();
        self.case.shapes.retain(|_| which.next().is_none_or(|stays| *stays));
        let mut which = stays.iter();
        self.chunks.retain(|_| which.next().is_none_or(|stays| *stays));
        let mut which = stays.iter();
        self.costs.retain(|_| which.next().is_none_or(|stays| *stays));
    }

    /// Iteration time under a simulated schedule on a shape: passes, reduction of gradients, optimizer, stragglers.
    pub fn iteration(&self, shape: usize, run: &Run) -> f64 {
        iteration_after(&self.case.shapes[shape].placement, &self.costs[shape], run) * self.jitter
    }

    /// No schedule of the case has a shorter iteration.
    pub fn bound(&self) -> f64 {
        let of = |(shape, costs): (&Shape, &Vec<ChunkCost>)| {
            iteration_at_least(&shape.placement, costs, shape.bounds.makespan.time) * self.jitter
        };
        self.case.shapes.iter().zip(&self.costs).map(of).fold(f64::INFINITY, f64::min)
    }
}

/// Work of every part for one micro-batch, seconds.
fn loads(estimator: &Estimator<'_>, plan: &Plan, parts: &[LayerStrategy]) -> Vec<f64> {
    let mesh = crate::cost::Mesh {
        stage_devices: plan.stage_devices(),
        pipeline: plan.pipeline,
        micro_batches: plan.micro_batches,
    };
    let of = |(part, strategy): (usize, &LayerStrategy)| {
        let price = estimator.pricer.price(estimator.spine.class_of(part), strategy, mesh);
        (price.forward.total() + price.backward.total()).0
    };
    parts.iter().enumerate().map(of).collect()
}

/// Sizes of chunks that load the devices of `map` evenly.
fn even(spine: &Spine, load: &[f64], map: &Placement) -> Option<Vec<usize>> {
    if map.stages() <= MOST_BALANCED {
        return balance(load, map);
    }
    let busiest = |sizes: &[u32]| {
        let mut of_device = vec![0.0; map.devices()];
        let mut rest = load;
        for (x, n) in sizes.iter().enumerate() {
            let (own, later) = rest.split_at(*n as usize);
            of_device[map.device(x)] += own.iter().sum::<f64>();
            rest = later;
        }
        of_device.into_iter().fold(0.0, f64::max)
    };
    let sizes = splits(spine, map.stages() as u64).into_iter().filter(|sizes| sizes.iter().all(|n| *n > 0));
    let sizes = sizes.min_by(|a, b| busiest(a).total_cmp(&busiest(b)))?;
    Some(sizes.into_iter().map(|n| n as usize).collect())
}

/// Chunks of these sizes.
fn cut(parts: &[LayerStrategy], sizes: impl IntoIterator<Item = usize>) -> Vec<Chunk> {
    let mut first = 0;
    let chunk = |n: usize| {
        let chunk = Plan::encode(first as u32, &parts[first..first + n]);
        first += n;
        chunk
    };
    sizes.into_iter().map(chunk).collect()
}

/// The plan's layers under interleaved 1F1B with the number of chunks and the cuts that are fastest and fit.
fn interleaved(estimator: &Estimator<'_>, plan: &Plan, parts: &[LayerStrategy]) -> Option<(Plan, f64)> {
    let (p, m) = (u64::from(plan.pipeline), plan.micro_batches);
    if p < 2 || !m.is_multiple_of(p) {
        return None;
    }
    let mut best: Option<(Plan, f64)> = None;
    for v in 2..=MOST_INTERLEAVED {
        if 3 * p * u64::from(v) * m > MOST_PASSES as u64 {
            break;
        }
        for sizes in splits(estimator.spine, p * u64::from(v)) {
            if sizes.contains(&0) {
                continue;
            }
            let chunks = cut(parts, sizes.into_iter().map(|n| n as usize));
            let plan = Plan { chunks_per_stage: v, chunks, ..plan.clone() };
            let Ok(estimate) = estimator.estimate(&plan) else { continue };
            let time = estimate.iteration_time_s;
            if estimate.fits && best.as_ref().is_none_or(|(_, known)| time < *known) {
                best = Some((plan, time));
            }
        }
    }
    best
}
