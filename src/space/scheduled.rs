//! An answer of planning with a schedule of its own: candidates from the search, then plan and schedule together.

use super::answer::{Answer, NEAR_TIE, ProvenBound};
use super::explain;
use super::fast::Choice;
use super::layerwise::LayerwiseSpace;
use super::planner::{Inputs, LISTED_DEVICES, PlanError};
use super::schedule::joint::{Candidate, JointAnswer, JointOptions, Source, search};
use super::uniform::Uniform;
use super::without_bubble::{LEAST_HELD, ideal_of, without_bubble};
use crate::plan::Recompute;
use crate::question::Dim;
use crate::search::budget::{Interrupt, Stop};
use crate::search::outcome::Outcome;
use std::time::Instant;

/// Searches the schedule of `answer`, and of the plans beside it that a schedule may make better.
///
/// # Errors
/// See [`PlanError`].
pub fn schedule(
    inputs: &Inputs,
    space: &LayerwiseSpace<'_>,
    outcome: &Outcome<Choice>,
    uniform: &[Uniform],
    answer: &mut Answer,
    (interrupt, deadline): (Interrupt, Option<Instant>),
) -> Result<(), PlanError> {
    let planned = answer.estimate.iteration_time_s;
    let is_over = || interrupt.is_raised() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let free = without_bubble(space, planned, LEAST_HELD, &is_over);
    let candidate = |plan, source| Candidate { ideal_s: ideal_of(space, &plan), plan, source };
    let mut candidates = vec![candidate(answer.plan.clone(), Source::BestPlan)];
    let found = outcome.archive.iter().filter(|entry| entry.score.is_feasible());
    candidates.extend(found.map(|entry| candidate(space.plan_of(&entry.solution), Source::RunnerUp)));
    candidates.extend(uniform.iter().map(|u| candidate(u.plan(space), Source::Uniform)));
    candidates.extend(free.uniform.iter().map(|(_, u)| candidate(u.plan(space), Source::WithoutBubble)));
    let options = options(inputs, (interrupt.clone(), deadline));
    let allowed = |chunks: u32| inputs.search.admits(Dim::Vpp, u64::from(chunks));
    let joint = search(&space.estimator, candidates, planned, &allowed, &options)?;
    let bound = free.bound_s.min(planned);
    let proven = |time: f64| ProvenBound { objective_s: bound.min(time), gap: time / bound.min(time) - 1.0 };
    answer.bound = Some(proven(planned));
    let Some(joint) = joint.filter(|joint| joint.estimate.iteration_time_s <= planned) else {
        answer.notes.push("no schedule was found that beats the usual one of this plan".to_owned());
        return Ok(());
    };
    if joint.origin != answer.plan
        && let Ok(usual) = space.estimator.estimate(&joint.origin)
    {
        answer.reasons = explain::reasons(inputs, space, &joint.origin, &usual);
    }
    answer.placement = explain::placement(space, &joint.plan, LISTED_DEVICES);
    answer.bound = Some(proven(joint.estimate.iteration_time_s));
    for other in &mut answer.alternatives {
        other.slower = other.estimate.iteration_time_s / joint.estimate.iteration_time_s - 1.0;
        other.near_tie = other.slower.abs() <= NEAR_TIE;
        other.gives_up = explain::difference(&joint.estimate, &other.estimate);
    }
    if let Some(target) = &inputs.search.target {
        answer.notes.push(format!("`{target}` runs orders of its own: the schedule needs an executor of given orders"));
    }
    answer.fits = joint.estimate.fits;
    answer.plan = joint.plan;
    answer.estimate = joint.estimate;
    answer.schedule = Some(joint.schedule);
    if interrupt.is_raised() {
        answer.search.stop_reason = Stop::Interrupted;
    }
    Ok(())
}

fn options(inputs: &Inputs, (interrupt, deadline): (Interrupt, Option<Instant>)) -> JointOptions {
    JointOptions {
        seed: inputs.search.seed,
        evaluations: inputs.search.schedule_evals,
        split_penalty: inputs.search.split_penalty,
        recompute: recompute(inputs),
        deadline,
        interrupt,
    }
}

/// What chunks may recompute; nothing else than the plan says for a target, whose rules know recomputation.
fn recompute(inputs: &Inputs) -> Vec<Recompute> {
    let kinds = [(Recompute::None, "none"), (Recompute::Selective, "selective"), (Recompute::Full, "full")];
    let allowed = kinds.into_iter().filter(|(_, name)| inputs.search.admits_name(Dim::Recompute, name));
    allowed.map(|(kind, _)| kind).filter(|_| inputs.search.target.is_none()).collect()
}

/// Activations with room for which plans are looked for where none fits under the usual schedules, as shares of the stages.
const HELD: [f64; 3] = [LEAST_HELD, 0.5, 0.75];

/// The best uniform plan with a schedule where nothing fits under the usual ones, and a bound on all plans. `None` if no
/// schedule was found that fits.
///
/// # Errors
/// See [`PlanError`].
pub fn only(
    inputs: &Inputs,
    space: &LayerwiseSpace<'_>,
    (interrupt, deadline): (Interrupt, Option<Instant>),
) -> Result<Option<(JointAnswer, f64)>, PlanError> {
    let is_over = || interrupt.is_raised() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    // With room for more activations plans are slower, schedules shorter and likelier to fit.
    let looked = HELD.map(|held| without_bubble(space, f64::INFINITY, held, &is_over));
    let candidate = |u: &Uniform| {
        let plan = u.plan(space);
        Candidate { ideal_s: ideal_of(space, &plan), plan, source: Source::WithoutBubble }
    };
    let candidates = looked.iter().flat_map(|free| free.uniform.iter().map(|(_, u)| candidate(u))).collect();
    let allowed = |chunks: u32| inputs.search.admits(Dim::Vpp, u64::from(chunks));
    let options = options(inputs, (interrupt.clone(), deadline));
    let joint = search(&space.estimator, candidates, f64::INFINITY, &allowed, &options)?;
    Ok(joint.filter(|joint| joint.estimate.fits).map(|joint| (joint, looked[0].bound_s)))
}
