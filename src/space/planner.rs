//! From question to answer: builds the space, finds uniform plans, searches, compares and explains.

use super::answer::{Alternative, Answer, Infeasible, NEAR_TIE, Priced, ProvenBound, SearchReport, WORTH_IT};
use super::fast::Choice;
use super::layerwise::LayerwiseSpace;
use super::schedule::joint::JointAnswer;
use super::stability::{memory_margin, stability};
use super::target::TargetRules;
use super::tasks::TaskKey;
use super::uniform::{self, Uniform};
use super::{diagnose, explain};
use crate::cluster::{Cluster, Pool};
use crate::cost::{CostOptions, Mesh};
use crate::error::{InputError, Kind};
use crate::estimate::{Estimate, EstimateError, Estimator};
use crate::job::Job;
use crate::model::{Model, Stream, SublayerKind};
use crate::plan::{LayerStrategy, PartClass, PartKind, Plan, Recompute, Spine};
use crate::question::{Dim, ScheduleChoice, SearchOptions};
use crate::rules::targets::Target;
use crate::search::backend::Backend;
use crate::search::budget::{Budget, Interrupt, Stop};
use crate::search::checkpoint::Checkpointing;
use crate::search::erased::{Erased, solve};
use crate::search::exact::ExactSettings;
use crate::search::exact::backend::Exact;
use crate::search::outcome::{Observer, Outcome};
use crate::search::problem::Fidelity;
use crate::search::run::Request;
use std::time::Instant;

/// What planning needs to know.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The model.
    pub model: Model,
    /// Where it runs.
    pub cluster: Cluster,
    /// The job.
    pub job: Job,
    /// How to search.
    pub search: SearchOptions,
    /// What the cost model takes into account.
    pub cost: CostOptions,
}

/// Who watches, and who may stop it.
#[derive(Default)]
pub struct Watch<'w> {
    /// The flag that stops it.
    pub interrupt: Interrupt,
    /// Gets progress after every batch.
    pub observer: Option<&'w mut dyn Observer>,
    /// Say only that nothing fits, not what would.
    pub quick: bool,
    /// Where the search saves itself, and whether it goes on from there.
    pub checkpoint: Option<Checkpointing>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The question is wrong.
    #[error("{0}")]
    Input(#[from] InputError),
    /// Nothing fits.
    #[error("no plan fits: {}", .0.tightest)]
    Infeasible(Box<Infeasible>),
    /// The search was stopped before it had a plan.
    #[error("the search stopped ({0:?}) before it had a plan that fits")]
    NoPlan(Stop),
    /// A plan of the search could not be priced: a fault of this program.
    #[error("internal error: {0}")]
    Internal(#[from] EstimateError),
}

/// Gap at which `auto` is content.
pub const DEFAULT_GAP: f64 = 0.01;
/// Simulations of `auto`, which its portfolio uses where exact search leaves a gap.
pub const AUTO_EVALUATIONS: u64 = 96;
/// Plans that exact search has priced, seeds and finalists.
const PRICED: u64 = 64;
/// Longer models are left to exact search: growing and breeding paths gains nothing on it there (measured, 2026-11).
const AUTO_PARTS: usize = 128;
/// Evaluations of the other backends, by the closed form.
pub const DEFAULT_EVALUATIONS: u64 = 20_000;
/// Steps of exact search in `auto` (label extensions and dominance tests).
const AUTO_STEPS: u64 = 1 << 24;
/// When no uniform plan fits and the leanest layer-wise one over even cuts needs this many times the memory there is, no
/// other cut makes it fit.
const HOPELESS: f64 = 1.5;
/// Uniform plans kept as seeds and alternatives.
const UNIFORM: usize = 32;
/// Other plans that the choice is compared with where constants are off.
const RIVALS: usize = 5;
/// Clusters up to this size are listed device by device.
pub(super) const LISTED_DEVICES: u64 = 64;

impl Inputs {
    /// The one pool that is planned for.
    pub fn pool(&self) -> Result<&Pool, InputError> {
        match self.cluster.pools.as_slice() {
            [pool] => Ok(pool),
            pools => Err(InputError::new(Kind::Unsupported)
                .at("cluster.pools")
                .found(format!("{} pools", pools.len()))
                .expected("one pool: plans across unlike pools are not made yet")),
        }
    }

    /// Whether the constraints let `part` have strategy `s`. Embedding, head and the sides of towers follow the layers in
    /// all that concerns them; recomputation does not.
    pub fn admits(&self, s: &LayerStrategy, part: &PartClass, experts: bool, mesh: Mesh) -> bool {
        let o = &self.search;
        let sequence = match (s.sequence_parallel, s.ulysses) {
            (_, u) if u > 1 => "ulysses",
            (true, _) => "megatron",
            (false, _) => "off",
        };
        let recompute = match s.recompute {
            Recompute::None => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
        };
        let dp = mesh.stage_devices / s.model_ways();
        o.admits(Dim::Tp, u64::from(s.tp))
            && o.admits(Dim::Cp, u64::from(s.cp))
            && (!experts || (o.admits(Dim::Ep, u64::from(s.ep)) && o.admits(Dim::Etp, u64::from(s.etp))))
            && o.admits(Dim::Dp, dp)
            && o.admits(Dim::Zero, u64::from(s.zero))
            && (s.tp == 1 && s.ulysses == 1 || o.admits_name(Dim::Sp, sequence))
            && o.admits(Dim::MicroBatch, self.job.global_batch / (mesh.micro_batches * dp).max(1))
            && (part.kind != PartKind::Layer || o.admits_name(Dim::Recompute, recompute))
    }

    /// Whether the target holds one strategy for all layers.
    pub fn shares_layers(&self) -> Result<bool, InputError> {
        let target = self.search.target.as_deref().map(str::parse::<Target>).transpose();
        Ok(target.map_err(|e| e.at("search.target"))?.is_some_and(Target::shares_layers))
    }

    fn admits_task(&self, t: &TaskKey) -> bool {
        let usual = match self.search.schedule {
            Some(ScheduleChoice::OneF1B) => t.chunks == 1,
            Some(ScheduleChoice::Interleaved) => t.chunks > 1,
            Some(ScheduleChoice::Auto) | None => true,
        };
        usual && self.search.admits(Dim::Pp, u64::from(t.pipeline)) && self.search.admits(Dim::Vpp, u64::from(t.chunks))
    }

    /// Runs `f` on the space of the question.
    pub fn with_space<T>(&self, f: impl FnOnce(LayerwiseSpace<'_>) -> T) -> Result<T, InputError> {
        self.job.validate().map_err(|e| InputError::from(e).inside("job"))?;
        let pool = self.pool()?;
        let spine = Spine::new(&self.model, &self.job);
        let estimator = Estimator::new(&self.model, &spine, pool, &self.job, self.cost);
        let target = self.search.target.as_deref();
        let target = target.map(|name| TargetRules::new(name, &self.model, &self.job)).transpose()?;
        let allowed = |s: &LayerStrategy, part: &PartClass, experts: bool, mesh: Mesh| {
            self.admits(s, part, experts, mesh) && target.as_ref().is_none_or(|t| t.allows(s, experts, mesh))
        };
        let runs = |t: &TaskKey| target.as_ref().is_none_or(|r| r.allows_task(t.pipeline, t.chunks, t.micro_batches));
        let mut limits = format!("{:?} {:?} {:?}", self.search.fix, self.search.forbid, self.search.target);
        if let Some(usual) = self.search.schedule.filter(|schedule| *schedule != ScheduleChoice::Auto) {
            limits.push_str(&format!(" {usual:?}"));
        }
        let space = LayerwiseSpace::new(estimator, &allowed, &|t| self.admits_task(t) && runs(t), &limits);
        Ok(f(space))
    }
}

/// Plans.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(inputs: &Inputs, watch: Watch<'_>) -> Result<Answer, PlanError> {
    let started = Instant::now();
    inputs.with_space(|space| answer(inputs, space, watch, started))?
}

fn answer(
    inputs: &Inputs,
    mut space: LayerwiseSpace<'_>,
    watch: Watch<'_>,
    started: Instant,
) -> Result<Answer, PlanError> {
    if space.tasks.is_empty() {
        return Err(diagnose::no_task(inputs).into());
    }
    let Watch { interrupt, observer, quick, checkpoint } = watch;
    let deadline = inputs.search.max_time.map(|t| started + t.as_limit());
    let stop = || interrupt.is_raised() || deadline.is_some_and(|d| Instant::now() >= d);
    let backend = inputs.search.backend.as_deref().unwrap_or("auto");
    let first = uniform::probe(&space);
    let mut first_plan_s = first.is_some().then(|| started.elapsed().as_secs_f64());
    let uniform = uniform::best(&space, UNIFORM, first.as_ref(), &stop);
    if first_plan_s.is_none() && !uniform.is_empty() {
        first_plan_s = Some(started.elapsed().as_secs_f64());
    }
    // A target whose layers share one strategy runs uniform plans only. Far from fitting there is nothing to search.
    let shared = inputs.shares_layers()?;
    if uniform.is_empty() && shared && !stop() {
        return Err(PlanError::Infeasible(Box::new(diagnose::infeasible(inputs, &space, !quick))));
    }
    let limits = || (interrupt.clone(), deadline);
    if uniform.is_empty() && diagnose::leanest(&space).is_none_or(|l| l.0 > HOPELESS * space.estimator.allocatable()) {
        return nothing_fits(inputs, &space, quick, limits(), Timing { started, first_plan_s, backend });
    }
    if matches!(backend, "auto" | "exact") {
        let seeds = uniform::seeds(&space, &uniform);
        space.set_seeds(seeds);
    }
    let watched = (interrupt.clone(), observer, checkpoint);
    let outcome = search(inputs, &space, backend, &uniform, watched, started)?;
    if let Some(why) = outcome.refused.as_ref().filter(|_| outcome.best.is_none()) {
        let error = InputError::new(Kind::Unsupported).at("search.backend").found(backend);
        return Err(error.expected("a backend that can answer this question").help(why).into());
    }
    // A search that was stopped before it had a plan leaves the best uniform one.
    let found = outcome.best.as_ref().filter(|b| b.score.is_feasible()).map(|b| b.solution.clone());
    let found = found.or_else(|| uniform.iter().find_map(|u| Some(u.choice(&space)?.0)));
    let Some(best) = found else {
        if matches!(outcome.stop, Stop::Interrupted | Stop::Deadline | Stop::Evaluations | Stop::Stalled) {
            return Err(PlanError::NoPlan(outcome.stop));
        }
        return nothing_fits(inputs, &space, quick, limits(), Timing { started, first_plan_s, backend });
    };
    let mut answer = compose(inputs, &space, &outcome, &best, &uniform, Timing { started, first_plan_s, backend })?;
    answer.notes.extend(outcome.refused.clone());
    if inputs.search.schedule == Some(ScheduleChoice::Auto) {
        super::scheduled::schedule(inputs, &space, &outcome, &uniform, &mut answer, (interrupt, deadline))?;
        answer.stability.memory = memory_margin(inputs, space.estimator.pool, &answer.estimate);
        answer.search.wall_s = started.elapsed().as_secs_f64();
    }
    Ok(answer)
}

/// Nothing fits under the usual schedules; where schedules are free, another may need less memory.
fn nothing_fits(
    inputs: &Inputs,
    space: &LayerwiseSpace<'_>,
    quick: bool,
    limits: (Interrupt, Option<Instant>),
    timing: Timing<'_>,
) -> Result<Answer, PlanError> {
    let free = inputs.search.schedule == Some(ScheduleChoice::Auto);
    let found = if free { super::scheduled::only(inputs, space, limits)? } else { None };
    let Some((found, bound_s)) = found else {
        return Err(PlanError::Infeasible(Box::new(diagnose::infeasible(inputs, space, !quick))));
    };
    let JointAnswer { plan, estimate, origin, schedule, cpu_s } = found;
    let mut notes = notes(inputs, &estimate, None);
    notes.push(
        "no plan fits under 1F1B or interleaved 1F1B: plans with one strategy for all layers were searched".into(),
    );
    let bound = bound_s.min(estimate.iteration_time_s);
    let size = space.size_log10();
    Ok(Answer {
        reasons: explain::reasons(inputs, space, &origin, &estimate),
        placement: explain::placement(space, &plan, LISTED_DEVICES),
        notes,
        fits: estimate.fits,
        uniform: None,
        layerwise_gain: None,
        recommended: "uniform",
        stability: stability(inputs, space.estimator.spine, space.estimator.pool, (&plan, &estimate), &[])?,
        bound: Some(ProvenBound { objective_s: bound, gap: estimate.iteration_time_s / bound - 1.0 }),
        space_size_log10: size,
        space_size: (size < 300.0).then(|| 10f64.powf(size)),
        search: SearchReport {
            backend: timing.backend.to_owned(),
            seed: inputs.search.seed,
            evaluations: schedule.evaluations,
            requests: schedule.evaluations,
            cache_hits: 0,
            wall_s: timing.started.elapsed().as_secs_f64(),
            cpu_s,
            first_plan_s: timing.first_plan_s,
            stop_reason: Stop::Exhausted,
        },
        alternatives: Vec::new(),
        schedule: Some(schedule),
        cost_options: inputs.cost,
        plan,
        estimate,
    })
}

struct Timing<'b> {
    started: Instant,
    first_plan_s: Option<f64>,
    backend: &'b str,
}

type Watched<'w> = (Interrupt, Option<&'w mut dyn Observer>, Option<Checkpointing>);

fn search(
    inputs: &Inputs,
    space: &LayerwiseSpace<'_>,
    backend: &str,
    uniform: &[Uniform],
    (interrupt, observer, checkpoint): Watched<'_>,
    started: Instant,
) -> Result<Outcome<Choice>, PlanError> {
    let options = &inputs.search;
    let gap = options.target_gap.or((backend == "auto").then_some(DEFAULT_GAP));
    let budget = Budget {
        max_evaluations: options.max_evals.or(match backend {
            "exact" => None,
            "auto" if space.estimator.spine.parts.len() <= AUTO_PARTS => Some(AUTO_EVALUATIONS),
            "auto" => Some(PRICED),
            _ => Some(DEFAULT_EVALUATIONS),
        }),
        max_time: options.max_time.map(|t| t.as_limit().saturating_sub(started.elapsed())),
        target_gap: gap,
        ..Budget::default()
    };
    let all_steps = if backend == "auto" { AUTO_STEPS } else { ExactSettings::default().all_steps };
    let exact =
        Exact { settings: ExactSettings { target_gap: gap.unwrap_or(0.0), all_steps, ..ExactSettings::default() } };
    let backend: Box<dyn Backend<Erased<'_>>> = match backend {
        "exact" => Box::new(exact),
        name => super::backends::find(name, exact)?,
    };
    let seeds = match backend.name() {
        "exact" | "auto" => uniform.iter().filter_map(|u| Some(u.choice(space)?.0)).collect(),
        _ => Vec::new(),
    };
    let request = Request {
        fidelity: Fidelity::Fast,
        seeds,
        interrupt,
        observer,
        checkpoint,
        ..Request::new(options.seed, budget)
    };
    let file = request.checkpoint.as_ref().map(|c| c.path.display().to_string());
    solve(space, backend.as_ref(), request).map_err(|e| {
        let error = InputError::new(Kind::Unreadable).at("checkpoint").help(e.to_string());
        PlanError::Input(match file {
            Some(file) => error.in_file(file),
            None => error,
        })
    })
}

fn compose(
    inputs: &Inputs,
    space: &LayerwiseSpace<'_>,
    outcome: &Outcome<Choice>,
    best: &Choice,
    uniform: &[Uniform],
    timing: Timing<'_>,
) -> Result<Answer, PlanError> {
    let estimator = &space.estimator;
    let plan = space.plan_of(best);
    let estimate = estimator.estimate(&plan)?;
    let best_uniform = best_of(space, uniform)?;
    let gain = best_uniform.as_ref().map(|u| 1.0 - estimate.iteration_time_s / u.estimate.iteration_time_s);
    // A search that found less than the best uniform plan answers with that, as does one whose target runs no other.
    let shared = inputs.shares_layers()?;
    let (plan, estimate) = match &best_uniform {
        Some(u) if shared || u.estimate.iteration_time_s < estimate.iteration_time_s => {
            (u.plan.clone(), u.estimate.clone())
        }
        _ => (plan, estimate),
    };
    let gain = if shared { Some(0.0) } else { gain };
    let recommended = if gain.is_some_and(|g| g < WORTH_IT) { "uniform" } else { "layerwise" };
    let top = inputs.search.top;
    let mut alternatives = alternatives(space, outcome, uniform, (&plan, &estimate), top.max(RIVALS), shared)?;
    let rivals = &alternatives[..alternatives.len().min(RIVALS)];
    let stability = stability(inputs, estimator.spine, estimator.pool, (&plan, &estimate), rivals)?;
    alternatives.truncate(top.saturating_sub(1).max(1));
    let bound = outcome.bound.map(|b| {
        let b = b.min(estimate.iteration_time_s);
        ProvenBound { objective_s: b, gap: (estimate.iteration_time_s - b) / b }
    });
    let size = space.size_log10();
    let counters = outcome.counters;
    Ok(Answer {
        reasons: explain::reasons(inputs, space, &plan, &estimate),
        placement: explain::placement(space, &plan, LISTED_DEVICES),
        notes: notes(inputs, &estimate, outcome.checkpoint_error.as_deref()),
        fits: estimate.fits,
        uniform: best_uniform,
        layerwise_gain: gain.map(|g| g.max(0.0)),
        recommended,
        stability,
        bound,
        space_size_log10: size,
        space_size: (size < 300.0).then(|| 10f64.powf(size)),
        search: SearchReport {
            backend: timing.backend.to_owned(),
            seed: inputs.search.seed,
            evaluations: counters.evaluations,
            requests: counters.requests,
            cache_hits: counters.cache_hits,
            wall_s: timing.started.elapsed().as_secs_f64(),
            cpu_s: outcome.cpu_s,
            first_plan_s: timing.first_plan_s,
            stop_reason: outcome.stop,
        },
        alternatives,
        schedule: None,
        cost_options: inputs.cost,
        plan,
        estimate,
    })
}

/// Exact prices of the first uniform plans; the fastest that fits.
fn best_of(space: &LayerwiseSpace<'_>, uniform: &[Uniform]) -> Result<Option<Priced>, PlanError> {
    let mut best: Option<Priced> = None;
    for u in uniform {
        let plan = u.plan(space);
        let estimate = space.estimator.estimate(&plan)?;
        let better = |b: &Priced| estimate.iteration_time_s < b.estimate.iteration_time_s;
        if estimate.fits && best.as_ref().is_none_or(better) {
            best = Some(Priced { plan, estimate });
        }
    }
    Ok(best)
}

fn alternatives(
    space: &LayerwiseSpace<'_>,
    outcome: &Outcome<Choice>,
    uniform: &[Uniform],
    (best, estimate): (&Plan, &Estimate),
    top: usize,
    shared: bool,
) -> Result<Vec<Alternative>, PlanError> {
    let found = outcome.archive.iter().filter(|e| e.score.is_feasible()).map(|e| (space.plan_of(&e.solution), false));
    let found = found.filter(|_| !shared);
    let plans = found.chain(uniform.iter().map(|u| (u.plan(space), true)));
    // Plans of one shape are one alternative: its fastest.
    let mut shapes = vec![explain::shape(space, best)];
    let mut list: Vec<Alternative> = Vec::new();
    for (plan, uniform) in plans {
        let shape = explain::shape(space, &plan);
        if shapes.contains(&shape) {
            continue;
        }
        let price = space.estimator.estimate(&plan)?;
        if !price.fits {
            continue;
        }
        shapes.push(shape);
        let slower = price.iteration_time_s / estimate.iteration_time_s - 1.0;
        let uniform = uniform || plan.uniform(space.estimator.spine).is_some();
        let gives_up = explain::difference(estimate, &price);
        list.push(Alternative { plan, estimate: price, uniform, slower, near_tie: slower.abs() <= NEAR_TIE, gives_up });
    }
    list.sort_by(|a, b| a.estimate.iteration_time_s.total_cmp(&b.estimate.iteration_time_s));
    list.truncate(top);
    Ok(list)
}

fn notes(inputs: &Inputs, estimate: &Estimate, unsaved: Option<&str>) -> Vec<String> {
    let mut notes = inputs.model.notes.clone();
    notes.extend(unsaved.map(|why| format!("the search could not save itself: {why}")));
    let vision = inputs.model.towers.iter().any(|t| t.stream == Stream::Vision);
    if vision && inputs.job.vision_tokens.is_none() {
        let tokens = crate::plan::spine::DEFAULT_VISION_TOKENS;
        notes.push(format!("vision_tokens is not given: {tokens} patches per sample are assumed"));
    }
    if inputs.model.classes.iter().flat_map(|c| &c.sublayers).any(|s| s.kind == SublayerKind::Moe) {
        let load = inputs.job.expert_imbalance;
        notes.push(format!(
            "the busiest expert rank is taken to have {load} times the mean load (expert_imbalance){}",
            if load == 1.0 { ": forced balance" } else { "" }
        ));
    }
    if let Some(limit) = inputs.model.max_positions.filter(|m| *m < inputs.job.sequence) {
        notes.push(format!("the sequence of {} is longer than the model's {limit} positions", inputs.job.sequence));
    }
    notes.extend(idle(inputs));
    let has = inputs.cluster.pools.first().map(|pool| pool.device.memory);
    if let (Some(limit), Some(has)) = (inputs.job.memory_limit, has)
        && limit > has
    {
        notes.push(format!("planned for {limit} per device; the device shows {has}"));
    }
    let margin = estimate.stages.iter().map(|s| s.margin).fold(1.0, f64::min);
    if margin < 0.1 {
        notes.push(format!("memory is tight: {:.1} % of the fullest device stays free", 100.0 * margin));
    }
    notes
}

/// What of a question changes nothing for this model and search.
pub(super) fn idle(inputs: &Inputs) -> Vec<String> {
    let mut notes = Vec::new();
    let vision = inputs.model.towers.iter().any(|t| t.stream == Stream::Vision);
    let dense = !inputs.model.classes.iter().flat_map(|c| &c.sublayers).any(|s| s.kind == SublayerKind::Moe);
    let encoder = inputs.model.towers.iter().any(|t| t.stream == Stream::Encoder);
    for (given, what, lacks) in [
        (dense && inputs.job.expert_imbalance != 1.0, "expert_imbalance", "routed experts"),
        (!vision && inputs.job.vision_tokens.is_some(), "vision_tokens", "a vision tower"),
        (!encoder && inputs.job.encoder_sequence.is_some(), "encoder_sequence", "an encoder"),
    ] {
        if given {
            notes.push(format!("{what} changes nothing: the model lacks {lacks}"));
        }
    }
    for c in inputs.search.fix.iter().chain(&inputs.search.forbid).filter(|c| matches!(c.dim, Dim::Ep | Dim::Etp)) {
        if dense {
            notes.push(format!("the constraint {c} changes nothing: the model has no routed experts"));
        }
    }
    let search = &inputs.search;
    for (given, what) in
        [(search.split_penalty != 0.0, "split_penalty"), (search.schedule_evals.is_some(), "schedule_evals")]
    {
        if given && search.schedule != Some(ScheduleChoice::Auto) {
            notes.push(format!("{what} changes nothing: only `--schedule auto` looks at orders of passes"));
        }
    }
    notes
}
