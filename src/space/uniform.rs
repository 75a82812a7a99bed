//! Plans with one strategy for all layers, which every framework runs: the yardstick of layer-wise planning and the first
//! incumbent of exact search.

use super::fast::Choice;
use super::layerwise::LayerwiseSpace;
use super::strategies::Divisors;
use super::tasks::splits;
use crate::cost::Mesh;
use crate::estimate::closed::{ClosedForm, StageCost};
use crate::plan::{LayerStrategy, Plan, Recompute};
use crate::search::decompose::ChainSolution;
use rayon::prelude::*;

/// A uniform plan with its closed-form price.
#[derive(Debug, Clone, PartialEq)]
pub struct Uniform {
    /// Index into [`LayerwiseSpace::tasks`].
    pub task: usize,
    /// Parts of each chunk.
    pub sizes: Vec<u32>,
    /// The strategy of all layers.
    pub strategy: LayerStrategy,
    /// Closed-form iteration time.
    pub objective: f64,
}

/// How much worse than the best a uniform plan may be and still be listed.
const LISTED: f64 = 1.1;

/// Frames looked at together; independent of the number of threads.
const BATCH: usize = 8;

/// Sums over the parts of one stage.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    cost: StageCost,
    memory: f64,
    peak: f64,
}

/// A first plan in no time: one sample per rank, no context parallelism, a handful of strategies per number of stages.
pub fn probe(space: &LayerwiseSpace) -> Option<Uniform> {
    let spine = space.estimator.spine;
    let divisors: Vec<Divisors> = spine.classes.iter().map(|c| Divisors::of(c, space.estimator.job)).collect();
    let experts: Vec<bool> = divisors.iter().map(|d| d.experts > 0).collect();
    let most_experts = divisors.iter().map(|d| d.experts).max().unwrap_or(0);
    let node = space.estimator.pool.devices_per_node;
    let run_ends = run_ends(&spine.parts);
    let mut best: Option<Uniform> = None;
    for (_, mesh, tasks) in space.frames() {
        let Some(&task) = tasks.iter().find(|t| space.tasks[**t].chunks == 1) else { continue };
        let of = OfTask::new(space, task);
        let n = mesh.stage_devices;
        for tp in (0..).map(|e| 1u64 << e).take_while(|t| *t <= n.min(node)) {
            // One sample per rank: other numbers of micro-batches are left to the search.
            if space.estimator.job.global_batch != mesh.micro_batches * (n / tp).max(1) || n % tp != 0 {
                continue;
            }
            let ep = (0..)
                .map(|e| 1u64 << e)
                .take_while(|e| n % e == 0 && most_experts % e == 0 && *e <= most_experts)
                .last();
            for zero in [1, 3] {
                for recompute in [Recompute::None, Recompute::Full] {
                    let strategy = LayerStrategy {
                        tp: tp as u32,
                        sequence_parallel: tp > 1,
                        ep: if most_experts > 0 { ep.unwrap_or(1) as u32 } else { 1 },
                        zero: if n / tp > 1 { zero } else { 0 },
                        recompute,
                        ..LayerStrategy::PLAIN
                    };
                    let Some(parts) = prices(space, &strategy, &experts, mesh) else { continue };
                    if !has_room(space, &parts, mesh) {
                        continue;
                    }
                    let laid = Laid { hops: hops(space, &parts, mesh), parts, run_ends: &run_ends };
                    for sizes in splits(spine, u64::from(mesh.pipeline)) {
                        let Some(objective) = evaluate(space, &of, &sizes, &laid) else { continue };
                        if best.as_ref().is_none_or(|b| objective < b.objective) {
                            best = Some(Uniform { task, sizes, strategy, objective });
                        }
                    }
                }
            }
        }
    }
    best
}

/// The best uniform plans that fit, best first, at most `keep` of them, one per (task, strategy). Nothing much slower than
/// `known` is looked for; `stop` ends the search early.
pub fn best(space: &LayerwiseSpace, keep: usize, known: Option<&Uniform>, stop: &dyn Fn() -> bool) -> Vec<Uniform> {
    let spine = space.estimator.spine;
    let experts: Vec<bool> = spine.classes.iter().map(|c| Divisors::of(c, space.estimator.job).experts > 0).collect();
    let mut found: Vec<Uniform> = Vec::new();
    let mut frames: Vec<(usize, Mesh, Vec<usize>, f64)> = space
        .frames()
        .map(|(f, mesh, tasks)| {
            let bound = tasks.iter().map(|t| space.task_floor(*t)).fold(f64::INFINITY, f64::min);
            (f, mesh, tasks, bound)
        })
        .collect();
    frames.sort_by(|a, b| a.3.total_cmp(&b.3).then(a.0.cmp(&b.0)));
    let mut best = known.map_or(f64::INFINITY, |k| k.objective);
    found.extend(known.cloned());
    for batch in frames.chunks(BATCH) {
        if stop() {
            break;
        }
        let open: Vec<_> = batch.iter().filter(|(_, _, _, bound)| *bound < best).collect();
        let lists: Vec<Vec<Uniform>> =
            open.par_iter().map(|(_, mesh, tasks, _)| of_frame(space, *mesh, tasks, &experts, best)).collect();
        found.extend(lists.into_iter().flatten());
        best = found.iter().map(|u| u.objective).fold(best, f64::min);
    }
    found.retain(|u| u.objective < best * LISTED);
    found.sort_by(|a, b| {
        a.objective.total_cmp(&b.objective).then(a.task.cmp(&b.task)).then(a.strategy.cmp(&b.strategy))
    });
    // The closed form counts memory at the end of the warm-up; with unlike chunks the peak may come later.
    let simulated = |u: Uniform| {
        let cuts = match space.tasks[u.task].split {
            Some(_) => vec![u.sizes.clone()],
            None => splits(spine, u64::from(space.tasks[u.task].pipeline)),
        };
        let priced = cuts.into_iter().filter_map(|sizes| {
            let u = Uniform { sizes, ..u.clone() };
            let e = space.estimator.estimate(&u.plan(space)).ok()?;
            e.fits.then_some((e.iteration_time_s, u))
        });
        priced.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, u)| u)
    };
    found.into_iter().filter_map(simulated).take(keep).collect()
}

fn of_frame(space: &LayerwiseSpace, mesh: Mesh, tasks: &[usize], experts: &[bool], known: f64) -> Vec<Uniform> {
    let spine = space.estimator.spine;
    let mut found = Vec::new();
    let mut best = known;
    let Some(table) = tasks.first().and_then(|t| space.table(*t)) else { return found };
    let plain = splits(spine, u64::from(mesh.pipeline));
    let candidates = table.of_layers(spine);
    let run_ends = run_ends(&spine.parts);
    let tasks: Vec<OfTask> = tasks.iter().map(|t| OfTask::new(space, *t)).collect();
    for strategy in candidates {
        let Some(parts) = prices(space, &strategy, experts, mesh) else { continue };
        if !has_room(space, &parts, mesh) {
            continue;
        }
        let laid = Laid { hops: hops(space, &parts, mesh), parts, run_ends: &run_ends };
        let parts = &laid.parts;
        let work: f64 = space.class_sizes.iter().zip(parts).map(|(n, (work, ..))| n * work).sum();
        for of in &tasks {
            let key = &space.tasks[of.task];
            if of.form.at_least(work) >= best * LISTED {
                continue;
            }
            let options: &[Vec<u32>] = match &key.split {
                Some(split) => std::slice::from_ref(split),
                None => &plain,
            };
            let candidates = options.iter().filter_map(|sizes| evaluate(space, of, sizes, &laid).map(|t| (t, sizes)));
            let Some((objective, sizes)) = candidates.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            if objective < best * LISTED {
                best = best.min(objective);
                found.push(Uniform { task: of.task, sizes: sizes.clone(), strategy, objective });
            }
        }
    }
    found
}

pub(super) type ClassPrice = (f64, crate::cost::PartPrice, LayerStrategy);

/// Hops by stage and class.
type Hops = Vec<Vec<f64>>;

/// One strategy over all parts.
struct Laid<'r> {
    parts: Vec<ClassPrice>,
    hops: Hops,
    /// For every part, the first part behind it of another class.
    run_ends: &'r [usize],
}

fn run_ends(parts: &[u32]) -> Vec<usize> {
    let mut ends = Vec::with_capacity(parts.len());
    for run in parts.chunk_by(|a, b| a == b) {
        ends.resize(ends.len() + run.len(), ends.len() + run.len());
    }
    ends
}

fn hops(space: &LayerwiseSpace, parts: &[ClassPrice], mesh: Mesh) -> Hops {
    let pricer = &space.estimator.pricer;
    let classes = || space.estimator.spine.classes.iter().zip(parts);
    (0..u64::from(mesh.pipeline))
        .map(|s| classes().map(|(part, p)| pricer.hop(part, p.2.layout(), mesh, s).0).collect())
        .collect()
}

/// Whether the states alone leave any stage room, were they spread evenly.
fn has_room(space: &LayerwiseSpace, parts: &[ClassPrice], mesh: Mesh) -> bool {
    let least: f64 = space
        .class_sizes
        .iter()
        .zip(parts)
        .map(|(n, (_, price, _))| n * (price.states.total().0 + price.activations.0))
        .sum();
    least <= space.estimator.allocatable() * f64::from(mesh.pipeline)
}

/// Work (F + B), price and strategy by class; `None` when some part cannot take the strategy.
pub(super) fn prices(
    space: &LayerwiseSpace,
    strategy: &LayerStrategy,
    experts: &[bool],
    mesh: Mesh,
) -> Option<Vec<ClassPrice>> {
    let estimator = &space.estimator;
    let mut list = Vec::with_capacity(experts.len());
    for (part, &experts) in estimator.spine.classes.iter().zip(experts) {
        let adapted = part.adapt(strategy);
        if !Divisors::of(part, estimator.job).allow(&adapted) || !space.allows(&adapted, part, experts, mesh) {
            return None;
        }
        let price = estimator.pricer.price(part, &adapted, mesh);
        list.push(((price.forward.total() + price.backward.total()).0, price, adapted));
    }
    Some(list)
}

/// What of a task does not depend on the strategy.
struct OfTask {
    task: usize,
    form: ClosedForm,
    live: Vec<Vec<f64>>,
}

impl OfTask {
    fn new(space: &LayerwiseSpace, task: usize) -> Self {
        Self { task, form: space.closed_form(task), live: space.live(task) }
    }
}

fn evaluate(space: &LayerwiseSpace, of: &OfTask, sizes: &[u32], laid: &Laid<'_>) -> Option<f64> {
    let key = &space.tasks[of.task];
    let (p, v) = (key.pipeline as usize, key.chunks as usize);
    let spine = space.estimator.spine;
    let cap = space.estimator.allocatable();
    let interference = space.estimator.pricer.hop_interference(crate::units::Seconds(1.0)).0;
    let mut stages = vec![Sum::default(); p];
    let mut next = 0usize;
    for (x, &size) in sizes.iter().enumerate() {
        let (s, c) = (x % p, x / p);
        let stage = &mut stages[s];
        let (mut forward, mut backward) = (0.0, 0.0);
        let (first, end) = (next, next + size as usize);
        while next < end {
            let class = spine.parts[next] as usize;
            let (_, price, _) = &laid.parts[class];
            let run = laid.run_ends[next].min(end) - next;
            let n = run as f64;
            forward += n * price.forward.total().0;
            backward += n * price.backward.total().0;
            stage.cost.reduce += n * price.reduce.0;
            stage.cost.tail += n * (price.optimizer.0 + price.gather.0);
            stage.memory += n * (price.states.total().0 + of.live[s][c] * price.activations.0);
            stage.peak = stage.peak.max(price.transient.0);
            if next == first && x > 0 {
                let hop = laid.hops[s][class];
                forward += hop * interference;
                backward += hop * interference;
                stage.cost.hop += hop;
                if c == 0 {
                    stage.cost.lead_hop = hop;
                }
            }
            next += run;
        }
        if stage.memory + stage.peak > cap {
            return None;
        }
        stage.cost.forward += forward;
        stage.cost.backward += backward;
        if v > 1 && c == 0 {
            stage.cost.lead_forward = forward;
            stage.cost.lead_backward = backward;
        }
    }
    if stages.iter().any(|s| s.memory + s.peak > cap) {
        return None;
    }
    let costs: Vec<StageCost> = stages.iter().map(|s| s.cost).collect();
    Some(of.form.iteration(&costs))
}

impl Uniform {
    /// As a plan.
    pub fn plan(&self, space: &LayerwiseSpace) -> Plan {
        let spine = space.estimator.spine;
        let strategies: Vec<LayerStrategy> = spine.classes.iter().map(|class| class.adapt(&self.strategy)).collect();
        space.plan(self.task, &self.sizes, &|part| strategies[spine.parts[part as usize] as usize])
    }

    /// As a choice of the layer-wise space: parts whose strategy was left out there take the best option that fits in
    /// its place. `None` if that is no longer feasible.
    pub fn choice(&self, space: &LayerwiseSpace) -> Option<(Choice, f64)> {
        let frame = space.fast(self.task)?;
        let spine = space.estimator.spine;
        let mut option_of = Vec::with_capacity(spine.classes.len());
        for (class, table) in spine.classes.iter().zip(&frame.table().classes) {
            let wanted = class.adapt(&self.strategy);
            let price = space.estimator.pricer.price(class, &wanted, space.frame(self.task));
            let same = table.strategies.iter().position(|s| *s == wanted);
            let fitting = || {
                table.options.iter().position(|o| {
                    o.fixed <= price.states.total().0 && o.scaled <= price.activations.0 && o.peak <= price.transient.0
                })
            };
            option_of.push(same.or_else(fitting)? as u16);
        }
        let options: Vec<u16> = spine.parts.iter().map(|c| option_of[*c as usize]).collect();
        let objective = frame.score(&self.sizes, &options).objective()?;
        let choice = Choice { task: self.task as u32, sizes: self.sizes.clone().into(), options: options.into() };
        Some((choice, objective))
    }
}

/// The listed uniform plans as first incumbents.
pub fn seeds(space: &LayerwiseSpace, uniform: &[Uniform]) -> Vec<(usize, ChainSolution)> {
    uniform
        .iter()
        .filter_map(|u| {
            let (choice, objective) = u.choice(space)?;
            let frame = space.fast(u.task)?;
            Some((u.task, frame.chain_solution(&choice.sizes, &choice.options, objective)))
        })
        .collect()
}
