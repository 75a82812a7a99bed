//! What an objective is compared with, and how much that is worth: an optimum, a bound, or the best that anybody has found.

use super::instance::{Instance, InstanceSpec, Source};
use crate::error::{InputError, Kind};
use crate::search::budget::{Budget, Interrupt};
use crate::search::erased::Erased;
use crate::search::exact::backend::Exact;
use crate::search::problem::{Bound, Problem};
use crate::search::problems::{NAMED_JOB_SHOPS, Salesman};
use crate::search::run::{Request, solve};
use crate::search::score::Score;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much a reference value is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Proven: nothing is below it, and something reaches it.
    Optimal,
    /// Nothing is below it.
    Bound,
    /// Somebody has reached it.
    BestKnown,
}

impl Provenance {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Provenance::Optimal => "optimal",
            Provenance::Bound => "bound",
            Provenance::BestKnown => "best known",
        }
    }
}

/// A reference value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The objective.
    pub value: f64,
    /// How much it is worth.
    pub provenance: Provenance,
    /// Who says so.
    pub source: String,
}

impl Reference {
    /// Refuses what is no number.
    pub fn validate(&self) -> Result<(), InputError> {
        if self.value.is_finite() {
            return Ok(());
        }
        Err(InputError::new(Kind::InvalidValue).at("value").found(self.value).expected("a finite number"))
    }

    /// How far `value` is above it: relative, or absolute where the reference is zero.
    pub fn distance(&self, value: f64) -> f64 {
        let off = value - self.value;
        // Sums in another order may round below the optimum.
        let off = if off.abs() <= ROUNDING * self.value.abs() { 0.0 } else { off };
        if self.value == 0.0 { off } else { off / self.value.abs() }
    }
}

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;
/// Evaluations after which a proof is given up: minutes at most.
const PROOF: u64 = 300_000;

/// Chains whose plain dynamic program takes at most so many steps are solved by it: seconds.
const MOST_STEPS: f64 = 4e9;

/// The best known values of a table, by instance digest.
pub type BestKnown = BTreeMap<String, Reference>;

/// Best objective and bound of an exact search.
fn prove(problem: &Erased<'_>, interrupt: &Interrupt) -> (Option<f64>, Option<f64>) {
    let request = Request { interrupt: interrupt.clone(), ..Request::new(0, Budget::evaluations(PROOF)) };
    match solve(problem, &Exact::default(), request) {
        Ok(outcome) => (outcome.best.as_ref().and_then(|best| best.score.objective()), outcome.bound),
        Err(_) => (None, None),
    }
}

fn root_bound(problem: &Erased<'_>) -> Option<f64> {
    match problem.bound(&problem.root()) {
        Bound::AtLeast(bound) if bound.is_finite() => Some(bound),
        _ => None,
    }
}

/// The reference of an instance: as written, as published, proven now, as best known, or at least a bound. `None` where
/// nothing is known at all. An answer under a raised `interrupt` is not to be relied on: proofs end early.
pub fn find(
    spec: &InstanceSpec,
    instance: &Instance,
    digest: &str,
    best_known: &BestKnown,
    interrupt: &Interrupt,
) -> Result<Option<Reference>, InputError> {
    let instance = match instance {
        Instance::Disguised(_, inner) => inner,
        bare => bare,
    };
    if let Some(written) = &spec.reference {
        return Ok(Some(written.clone()));
    }
    if let Source::NamedJobShop(name) = &spec.source
        && let Some((_, optimum)) = NAMED_JOB_SHOPS.iter().find(|(known, _)| known == name)
    {
        let source = "Fisher and Thompson 1963; Carlier and Pinson 1989".to_owned();
        return Ok(Some(Reference { value: *optimum, provenance: Provenance::Optimal, source }));
    }
    if let Source::Circle { cities, seed } = &spec.source {
        let source = "points in convex position: their hull".to_owned();
        let value = Salesman::on_circle(*cities, *seed).1;
        return Ok(Some(Reference { value, provenance: Provenance::Optimal, source }));
    }
    if let Instance::Galvatron(space) = instance
        && let Some((_, optimum)) = space.answer().best.as_ref()
        && space.answer().gap() == Some(0.0)
    {
        let source = "dynamic programming of Galvatron's space".to_owned();
        return Ok(Some(Reference { value: *optimum, provenance: Provenance::Optimal, source }));
    }
    if let Instance::Chain(chain) = instance
        && chain.optimum_steps() <= MOST_STEPS
        && let Some(value) = chain.optimum_unless(&|| interrupt.is_raised())
    {
        let source = "dynamic programming over memory, every cut".to_owned();
        return Ok(Some(Reference { value, provenance: Provenance::Optimal, source }));
    }
    let (best, bound) = match &spec.source {
        // Schedules are not proven by enumeration.
        Source::Schedule { .. } | Source::Joint(_) => (None, instance.with(root_bound)?),
        _ => instance.with(|problem| prove(problem, interrupt))?,
    };
    if let (Some(best), Some(bound)) = (best, bound)
        && best <= bound + ROUNDING * bound.abs()
    {
        let source = "exact search of this engine".to_owned();
        return Ok(Some(Reference { value: best, provenance: Provenance::Optimal, source }));
    }
    if let Some(known) = best_known.get(digest) {
        if let Some(bound) = bound.filter(|bound| is_below(known.value, *bound)) {
            let error = InputError::new(Kind::Inconsistent).at(format!("best known value of `{}`", spec.id));
            return Err(error.found(known.value).expected(format!("at least {bound:?}, the proven bound")));
        }
        return Ok(Some(known.clone()));
    }
    let source = "exact search of this engine, not closed".to_owned();
    Ok(bound.map(|value| Reference { value, provenance: Provenance::Bound, source }))
}

/// Whether a value is below a proven bound by more than sums in another order differ.
pub(super) fn is_below(value: f64, bound: f64) -> bool {
    value < bound - ROUNDING * bound.abs()
}

/// Whether a score reaches `distance` of the reference.
pub fn reaches(reference: &Reference, score: Score, distance: f64) -> bool {
    score.objective().is_some_and(|value| reference.distance(value) <= distance)
}
