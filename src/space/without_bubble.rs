//! What plans would cost if nothing ever waited: a bound for every schedule, and uniform plans of frames that the bubble
//! of 1F1B rules out.

use super::layerwise::LayerwiseSpace;
use super::strategies::Divisors;
use super::table::at;
use super::tasks::splits;
use super::uniform::{Uniform, prices};
use crate::plan::Plan;
use crate::search::decompose::Cost;
use rayon::prelude::*;

/// What is known of a question when schedules are free.
#[derive(Debug, Clone, PartialEq)]
pub struct WithoutBubble {
    /// No plan of the space is faster than this, whatever its schedule.
    pub bound_s: f64,
    /// Uniform plans with the time they would take if nothing ever waited, fastest first.
    pub uniform: Vec<(f64, Uniform)>,
}

/// Plans of one frame that are looked at.
const OF_FRAME: usize = 2;
/// Activations that must fit, as a share of the number of stages: with less, a schedule waits for memory even in a V
/// (Qi 2024, "Pipeline Parallelism with Controllable Memory", section 4.2, V-Min).
pub const LEAST_HELD: f64 = 1.0 / 3.0;

/// Looks at every frame that could be faster than `below`, for plans with room for activations of a share `held` of the
/// stages.
pub fn without_bubble(
    space: &LayerwiseSpace,
    below: f64,
    held: f64,
    stop: &(dyn Fn() -> bool + Sync),
) -> WithoutBubble {
    let frames: Vec<Vec<usize>> = space.frames().map(|(_, _, tasks)| tasks).collect();
    let looked: Vec<(f64, Vec<(f64, Uniform)>)> =
        frames.par_iter().map(|tasks| of_frame(space, tasks, below, held, stop)).collect();
    let bound_s = looked.iter().map(|(bound, _)| *bound).fold(below, f64::min);
    let mut uniform: Vec<(f64, Uniform)> = looked.into_iter().flat_map(|(_, list)| list).collect();
    uniform.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.task.cmp(&b.1.task)).then(a.1.strategy.cmp(&b.1.strategy)));
    WithoutBubble { bound_s, uniform }
}

/// Iteration time of `work` seconds, all micro-batches and stages together, were it spread evenly and nothing waited.
fn ideal(space: &LayerwiseSpace, task: usize, work: f64) -> f64 {
    work / f64::from(space.frame(task).pipeline) * space.estimator.jitter()
}

/// The same for the parts of a plan, which no schedule undercuts.
pub fn ideal_of(space: &LayerwiseSpace, plan: &Plan) -> f64 {
    let mesh = crate::cost::Mesh {
        stage_devices: plan.stage_devices(),
        pipeline: plan.pipeline,
        micro_batches: plan.micro_batches,
    };
    let estimator = &space.estimator;
    let work = plan.chunks.iter().flat_map(crate::plan::Chunk::parts).map(|(part, strategy)| {
        let price = estimator.pricer.price(estimator.spine.class_of(part), strategy, mesh);
        (price.forward.total() + price.backward.total()).0
    });
    work.sum::<f64>() * plan.micro_batches as f64 / f64::from(plan.pipeline) * estimator.jitter()
}

fn of_frame(
    space: &LayerwiseSpace,
    tasks: &[usize],
    below: f64,
    held: f64,
    stop: &dyn Fn() -> bool,
) -> (f64, Vec<(f64, Uniform)>) {
    let spine = space.estimator.spine;
    let Some(&task) = tasks.iter().find(|task| space.tasks[**task].chunks == 1).or(tasks.first()) else {
        return (f64::INFINITY, Vec::new());
    };
    let mesh = space.frame(task);
    let m = mesh.micro_batches as f64;
    let floor = ideal(space, task, m * space.ideal_work(task));
    if floor >= below || stop() {
        return (floor, Vec::new());
    }
    let Some(table) = space.table(task) else { return (f64::INFINITY, Vec::new()) };
    let least = |of: &dyn Fn(&Cost) -> f64| -> f64 {
        let of_class =
            |c: &super::table::ClassTable| c.options.iter().map(|o| of(&o.cost)).fold(f64::INFINITY, f64::min);
        let of_class: Vec<f64> = table.classes.iter().map(of_class).collect();
        spine.parts.iter().map(|class| of_class[*class as usize]).sum()
    };
    // The busiest rank does at least its share, of what comes once per iteration too.
    let spread = least(&|cost| m * (cost[at::FORWARD] + cost[at::BACKWARD]) + cost[at::REDUCE] + cost[at::TAIL]);
    // A micro-batch goes there and back, weight gradients aside, which take no longer than the forward.
    let way = least(&|cost| cost[at::BACKWARD]) * space.estimator.jitter();
    let bound = ideal(space, task, spread).max(way).max(floor);
    if bound >= below || space.tasks[task].chunks > 1 {
        return (bound, Vec::new());
    }
    let Some(sizes) = splits(spine, u64::from(mesh.pipeline)).into_iter().find(|sizes| !sizes.contains(&0)) else {
        return (bound, Vec::new());
    };
    let experts: Vec<bool> = spine.classes.iter().map(|c| Divisors::of(c, space.estimator.job).experts > 0).collect();
    let strategies = table.of_layers(spine);
    let held = (f64::from(mesh.pipeline).min(mesh.micro_batches as f64) * held).max(1.0);
    let room = space.estimator.allocatable() * f64::from(mesh.pipeline);
    let mut found: Vec<(f64, Uniform)> = Vec::new();
    for strategy in strategies {
        let Some(parts) = prices(space, &strategy, &experts, mesh) else { continue };
        let sum = |of: &dyn Fn(usize) -> f64| spine.parts.iter().map(|class| of(*class as usize)).sum::<f64>();
        let time = ideal(space, task, m * sum(&|class| parts[class].0));
        let memory = sum(&|class| parts[class].1.states.total().0 + held * parts[class].1.activations.0);
        if time < below && memory <= room {
            found.push((time, Uniform { task, sizes: sizes.clone(), strategy, objective: time }));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.strategy.cmp(&b.1.strategy)));
    found.truncate(OF_FRAME);
    (bound, found)
}
