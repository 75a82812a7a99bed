//! From a case to the best schedule found, what it was compared with, and how good it is proven to be.
//!
//! `auto` goes from cheap to dear and stops as soon as the bound is met: known schedules, a certified optimum where the
//! question is small, building blocks and policies adapted by nested search, policies bred by genetic search, then walks from
//! the best of all.

use super::block::BlockSpace;
use super::known::{Known, known, on_shapes};
use super::order::OrderSpace;
use super::policy::PolicySpace;
use super::polish::Polish;
use super::question::Objective;
use super::shape::Case;
use super::solution::{Solution, Workshop};
use crate::error::InputError;
use crate::pipeline::exact::certify;
use crate::pipeline::{PipelineError, Schedule, simulate};
use crate::search::archive::{Archive, Entry};
use crate::search::backend::Backend;
use crate::search::budget::{Budget, Interrupt, Stop};
use crate::search::climb::Climb;
use crate::search::genetic::Genetic;
use crate::search::mcts::Mcts;
use crate::search::nested::Nested;
use crate::search::outcome::{Counters, Observer, Outcome, gap};
use crate::search::problem::Problem;
use crate::search::random::Random;
use crate::search::run::{Request, solve as search};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Names that `--backend` takes: `genetic`, `mcts`, `nested` and `random` choose policies, `blocks` breeds building blocks,
/// `orders` is tree search pass by pass, `climb` changes the order of passes.
pub const BACKENDS: [&str; 8] = ["auto", "genetic", "mcts", "nested", "random", "blocks", "orders", "climb"];

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleOptions {
    /// One of [`BACKENDS`].
    pub backend: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// Most distinct solutions to evaluate; without it and without a time, a number that suits the size.
    pub max_evaluations: Option<u64>,
    /// Most time.
    pub max_time: Option<Duration>,
    /// Gap at which to stop.
    pub target_gap: f64,
    /// Whether to start from known schedules.
    pub known: bool,
    /// A schedule to start from, and to compare with, in any case.
    pub given: Option<Schedule>,
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        Self {
            backend: "auto".to_owned(),
            seed: 0,
            max_evaluations: None,
            max_time: None,
            target_gap: 0.0,
            known: true,
            given: None,
        }
    }
}

/// How the search went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleSearch {
    /// The algorithm.
    pub backend: String,
    /// Its seed.
    pub seed: u64,
    /// Distinct solutions asked for.
    pub evaluations: u64,
    /// Solutions asked for.
    pub requests: u64,
    /// Of the distinct ones, those that the cache knew.
    pub cache_hits: u64,
    /// Wall seconds.
    pub wall_s: f64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Why it stopped.
    pub stop_reason: Stop,
}

/// A known schedule and its worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it is called.
    pub name: String,
    /// Its shape in words.
    pub shape: String,
    /// End of the last pass.
    pub makespan: f64,
    /// Largest time between first start and last end of a device.
    pub span: f64,
    /// Largest peak of all devices.
    pub peak: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleAnswer {
    /// The best schedule.
    pub schedule: Schedule,
    /// Which shape of the case it is on.
    pub shape: usize,
    /// The case, bounds raised by what was proven on the way.
    pub case: Case,
    /// Value of the objective.
    pub value: f64,
    /// No schedule of the case has a smaller one.
    pub bound: f64,
    /// Relative distance, zero where the schedule is proven optimal.
    pub gap: f64,
    /// Known schedules that run within memory, best first.
    pub compared: Vec<Compared>,
    /// Share by which the answer is shorter than the best of them.
    pub gain: Option<f64>,
    /// How the search went.
    pub search: ScheduleSearch,
}

/// Why there is no schedule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// The question is wrong.
    #[error("{0}")]
    Input(#[from] InputError),
    /// No order exists on any shape.
    #[error("no schedule exists: {0}")]
    None(#[from] PipelineError),
    /// The search was stopped before it found one.
    #[error("the search stopped ({0:?}) before it had a schedule")]
    Stopped(Stop),
}

/// Gaps below this are rounding.
const ROUNDING: f64 = 1e-9;
/// Passes up to which an optimum is looked for exactly, and the nodes that may take, shape by shape.
const SMALL: usize = 200;
const NODES: u64 = 100_000;
/// Passes scheduled by policies in all, and the least and most policies: some seconds of one thread.
const POLICY_PASSES: u64 = 80_000_000;
const POLICIES: std::ops::RangeInclusive<u64> = 400..=36_000;
/// Passes timed in one walk, and in all walks.
const WALK_PASSES: u64 = 3_000_000;
const ALL_WALKS_PASSES: u64 = 640_000_000;
const STEPS: std::ops::RangeInclusive<u64> = 800..=20_000;
/// Share of a time limit that policies get.
const POLICY_TIME: f64 = 0.3;
/// Evaluations without a better one before a breed ends early.
const PATIENCE: u64 = 5_000;
/// A kind of genome and how it is searched.
#[derive(Debug, Clone, Copy)]
enum Breed {
    NestedBlocks,
    NestedPolicies,
    GeneticPolicies,
}
/// What `auto` breeds, the share of all policies that each may make, and the share of [`POLICY_TIME`] of what is left then.
/// Against genetic search alone it was shorter on 6 of 60 questions (by 0.05 to 1.0 %) and longer on 2 (0.1 and 0.5 %), in
/// half of the time (2026-11-30). Nested search uses one thread only, so genetic search gets as much as both.
const BREEDS: [(Breed, f64, f64); 3] =
    [(Breed::NestedBlocks, 0.25, 0.4), (Breed::NestedPolicies, 0.25, 0.5), (Breed::GeneticPolicies, 0.5, 0.6)];
/// Solutions that walks start from.
const STARTS: usize = 16;
/// Evaluations that a walk counts for where they are limited.
const WALK_SHARE: u64 = 16;
/// Walks without an improvement after which they end.
const STALL: u64 = 160;

/// What remains between the phases of a search.
struct Progress<'o> {
    started: Instant,
    deadline: Option<Instant>,
    counters: Counters,
    cpu_s: f64,
    stop: Stop,
    best: Vec<Entry<Solution>>,
    interrupt: Interrupt,
    observer: Option<&'o mut dyn Observer>,
    seed: u64,
    target: f64,
}

impl Progress<'_> {
    fn phase<P: Problem<Solution = Solution>>(
        &mut self,
        problem: &P,
        backend: &dyn Backend<P>,
        evaluations: Option<u64>,
        stall: Option<u64>,
        share: f64,
    ) -> Result<(), InputError> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).mul_f64(share));
        let budget = Budget {
            max_evaluations: evaluations.map(|n| n + self.best.len() as u64),
            max_time: left,
            target_gap: Some(self.target.max(ROUNDING)),
            stall,
            ..Budget::default()
        };
        let request = Request {
            seeds: self.best.iter().map(|entry| entry.solution.clone()).collect(),
            interrupt: self.interrupt.clone(),
            observer: self.observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer),
            ..Request::new(self.seed, budget)
        };
        let outcome = search(problem, backend, request)
            .map_err(|e| InputError::new(crate::error::Kind::Unreadable).at("checkpoint").help(e))?;
        self.take(outcome);
        Ok(())
    }

    fn take(&mut self, outcome: Outcome<Solution>) {
        let Counters { evaluations, requests, cache_hits, .. } = outcome.counters;
        self.counters.evaluations += evaluations;
        self.counters.requests += requests;
        self.counters.cache_hits += cache_hits;
        self.cpu_s += outcome.cpu_s;
        self.stop = outcome.stop;
        self.best = outcome.archive;
        self.best.retain(|entry| entry.score.is_feasible());
    }

    /// Adds solutions of another phase.
    fn merge(&mut self, others: Vec<Entry<Solution>>) {
        let mut all = Archive::new(STARTS);
        self.best.drain(..).chain(others).for_each(|entry| {
            all.offer(entry);
        });
        self.best = all.entries().to_vec();
    }

    fn is_over(&self) -> bool {
        matches!(self.stop, Stop::Optimal | Stop::Target | Stop::Interrupted)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Searches.
///
/// # Errors
/// See [`ScheduleError`].
pub fn solve(
    case: Case,
    options: &ScheduleOptions,
    interrupt: Interrupt,
    observer: Option<&mut dyn Observer>,
) -> Result<ScheduleAnswer, ScheduleError> {
    let started = Instant::now();
    let mut workshop = Workshop::new(case)?;
    let mut compared = known(&workshop.case);
    let given = options.given.as_ref().map(|schedule| on_shapes(&workshop.case, schedule)).unwrap_or_default();
    let mut seeds: Vec<Solution> = given.iter().filter_map(|k| workshop.solution_of(k.shape, &k.schedule)).collect();
    compared.extend(given);
    let objective = workshop.case.objective;
    let value = |k: &Known| if objective == Objective::Makespan { k.makespan } else { k.span };
    compared.sort_by(|a, b| value(a).total_cmp(&value(b)).then(a.peak.total_cmp(&b.peak)));
    if options.known {
        seeds.extend(compared.iter().filter_map(|k| workshop.solution_of(k.shape, &k.schedule)));
    }
    let best_known = compared.first().map(value);
    let met = |workshop: &Workshop| {
        best_known.filter(|_| options.known).is_some_and(|v| v <= workshop.case.bound() * (1.0 + ROUNDING))
    };
    let auto = options.backend == "auto";
    if auto && options.known && !met(&workshop) {
        seeds.extend(prove(&mut workshop));
    }
    let mut progress = Progress {
        started,
        deadline: options.max_time.map(|limit| started + limit),
        counters: Counters::default(),
        cpu_s: 0.0,
        stop: Stop::Exhausted,
        best: Vec::new(),
        interrupt,
        observer,
        seed: options.seed,
        target: options.target_gap,
    };
    run(&workshop, options, seeds, &mut progress)?;
    compose(&workshop, options, &compared, best_known, progress)
}

/// Certified optima of small shapes; raises their bounds.
fn prove(workshop: &mut Workshop) -> Vec<Solution> {
    let m = workshop.case.microbatches;
    let mut found = Vec::new();
    if workshop.case.objective != Objective::Makespan {
        return found;
    }
    for number in 0..workshop.case.shapes.len() {
        let shape = &mut workshop.case.shapes[number];
        if 3 * shape.placement.stages() * m > SMALL {
            continue;
        }
        let Ok(certificate) = certify(&shape.placement, &shape.flags, &shape.costs, m, shape.backward, NODES) else {
            continue;
        };
        shape.bounds.makespan.time = shape.bounds.makespan.time.max(certificate.makespan * (1.0 - 1e-12));
        if let Some(schedule) = &certificate.schedule {
            found.extend(workshop.solution_of(number, schedule));
        }
    }
    found
}

fn run(
    workshop: &Workshop,
    options: &ScheduleOptions,
    seeds: Vec<Solution>,
    progress: &mut Progress<'_>,
) -> Result<(), ScheduleError> {
    let passes = workshop.case.passes() as u64;
    let steps = (WALK_PASSES / passes).clamp(*STEPS.start(), *STEPS.end());
    let policies = (POLICY_PASSES / passes).clamp(*POLICIES.start(), *POLICIES.end());
    let walks = (ALL_WALKS_PASSES / (steps * passes)).max(16);
    let free = options.max_evaluations.is_none() && options.max_time.is_some();
    // Of a limit on evaluations, walks get as small a share as of the usual numbers: one is worth many policies.
    let sized = |usual: u64, share: u64| match options.max_evaluations {
        Some(n) => Some((n / share).max(1)),
        None if free => None,
        None => Some(usual),
    };
    let key = |solution: Solution| Entry {
        score: workshop.score(&solution),
        key: workshop.key(&solution),
        path: None,
        solution,
    };
    progress.best = seeds.into_iter().map(key).filter(|entry| entry.score.is_feasible()).collect();
    let policy = PolicySpace::new(workshop);
    let blocks = BlockSpace::new(workshop);
    let polish = Polish { workshop, steps: steps as u32 };
    match options.backend.as_str() {
        "auto" => {
            // Breeding may settle on a rule that walks cannot leave: every breed starts from the known schedules.
            let known = progress.best.clone();
            for (number, (breed, part, share)) in BREEDS.into_iter().enumerate() {
                let bred = std::mem::replace(&mut progress.best, known.clone());
                let evaluations = sized(policies, 1).map(|n| ((n as f64 * part) as u64).max(1));
                let time = POLICY_TIME * share;
                // Half of them without a better one, and no few, say that this kind has no more to give.
                let stall = evaluations.map(|n| n.div_ceil(2).max(PATIENCE));
                match breed {
                    Breed::NestedBlocks => progress.phase(&blocks, &Nested::default(), evaluations, stall, time)?,
                    Breed::NestedPolicies => progress.phase(&policy, &Nested::default(), evaluations, stall, time)?,
                    Breed::GeneticPolicies => progress.phase(&policy, &Genetic::default(), evaluations, stall, time)?,
                }
                progress.seed = options.seed.wrapping_add(number as u64 + 1);
                progress.merge(bred);
                if progress.is_over() {
                    break;
                }
            }
            progress.seed = options.seed;
            if !progress.is_over() && !progress.best.is_empty() {
                let stall = (!free && options.max_evaluations.is_none()).then_some(STALL);
                progress.phase(&polish, &Climb::default(), sized(walks, WALK_SHARE), stall, 1.0)?;
            }
        }
        "genetic" => progress.phase(&policy, &Genetic::default(), sized(policies, 1), None, 1.0)?,
        "random" => progress.phase(&policy, &Random::default(), sized(policies, 1), None, 1.0)?,
        "climb" => progress.phase(&polish, &Climb::default(), sized(walks, 1), None, 1.0)?,
        "mcts" => progress.phase(&policy, &Mcts::default(), sized(policies, 1), None, 1.0)?,
        "nested" => progress.phase(&policy, &Nested::default(), sized(policies, 1), None, 1.0)?,
        "blocks" => progress.phase(&blocks, &Genetic::default(), sized(policies, 1), None, 1.0)?,
        "orders" => progress.phase(&OrderSpace::new(workshop)?, &Mcts::default(), sized(policies, 1), None, 1.0)?,
        name => return Err(InputError::unknown_name(name, "a backend", BACKENDS).at("backend").into()),
    }
    Ok(())
}

fn compose(
    workshop: &Workshop,
    options: &ScheduleOptions,
    compared: &[Known],
    best_known: Option<f64>,
    progress: Progress<'_>,
) -> Result<ScheduleAnswer, ScheduleError> {
    let objective = workshop.case.objective;
    let of = |makespan: f64, span: f64| if objective == Objective::Makespan { makespan } else { span };
    let found = progress.best.first();
    let found_value = found.and_then(|entry| entry.score.objective());
    // A known schedule that nothing beats is the answer under its own name.
    let named = compared.first().filter(|k| options.known && found_value.is_none_or(|v| of(k.makespan, k.span) <= v));
    let (shape, schedule) = match (named, found) {
        (Some(known), _) => {
            let shape = &workshop.case.shapes[known.shape];
            let whole = simulate(&known.schedule, &shape.costs).ok();
            let whole = whole.is_some_and(|run| of(run.makespan, run.span) <= of(known.makespan, known.span));
            let split = super::known::as_shape(&known.schedule, shape.backward);
            (known.shape, split.filter(|_| !whole).unwrap_or_else(|| known.schedule.clone()))
        }
        (None, Some(entry)) => (entry.solution.shape(), workshop.schedule(&entry.solution, "found")),
        (None, None) => return Err(ScheduleError::Stopped(progress.stop)),
    };
    let run = simulate(&schedule, &workshop.case.shapes[shape].costs)?;
    let value = of(run.makespan, run.span);
    let bound = workshop.case.bound().min(value);
    let distance = gap(value, bound).unwrap_or(0.0);
    let distance = if distance <= ROUNDING { 0.0 } else { distance };
    let stop = if distance == 0.0 { Stop::Optimal } else { progress.stop };
    Ok(ScheduleAnswer {
        schedule,
        shape,
        case: workshop.case.clone(),
        value,
        bound: if distance == 0.0 { value } else { bound },
        gap: distance,
        compared: compared
            .iter()
            .map(|k| Compared {
                name: k.schedule.name.clone(),
                shape: workshop.case.shapes[k.shape].name(),
                makespan: k.makespan,
                span: k.span,
                peak: k.peak,
            })
            .collect(),
        gain: best_known.map(|known| (1.0 - value / known).max(0.0)),
        search: ScheduleSearch {
            backend: options.backend.clone(),
            seed: options.seed,
            evaluations: progress.counters.evaluations,
            requests: progress.counters.requests,
            cache_hits: progress.counters.cache_hits,
            wall_s: progress.started.elapsed().as_secs_f64(),
            cpu_s: progress.cpu_s,
            stop_reason: stop,
        },
    })
}
