//! What a suite may change when its race goes on: everything but what recorded runs came of. Seeds, instances, backends, targets
//! and budgets may be added; what would leave recorded runs without a place is refused, and the difference named.

use super::ExperimentError;
use super::manifest::{Cell, Manifest};
use super::record::Run;
use super::suite::{Contestant, Seeds, Suite};
use crate::error::{InputError, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// What to do about it.
pub(super) const ADVICE: &str =
    "runs are recorded that this would lose: take another folder (-o), or the suite as it was";

fn changed(field: impl Display, found: impl Display, expected: impl Display) -> InputError {
    InputError::new(Kind::Inconsistent).at(field).found(found).expected(expected).help(ADVICE)
}

/// Refuses `suite` where it differs from the recorded one in what decides runs.
pub(super) fn check(old: &Manifest, suite: &Suite) -> Result<(), InputError> {
    let before = &old.suite;
    if suite.evaluations != before.evaluations {
        return Err(changed("evaluations", suite.evaluations, format!("{}, as recorded", before.evaluations)));
    }
    if !suite.seeds.contain(before.seeds) {
        let words = |seeds: Seeds| format!("{} from {}", seeds.count, seeds.first);
        let expected = format!("the recorded seeds among them: {}", words(before.seeds));
        return Err(changed("seeds", words(suite.seeds), expected));
    }
    if suite.tuning != before.tuning {
        let words = |there: bool| if there { "another one" } else { "none" };
        let expected = if before.tuning.is_some() { "the recorded tuning" } else { "none, as recorded" };
        return Err(changed("tuning", words(suite.tuning.is_some()), expected));
    }
    for spec in before.instances.iter().filter(|spec| !old.skipped.contains(&spec.id)) {
        match suite.instances.iter().position(|now| now.id == spec.id) {
            None => return Err(missing("instances", &spec.id, suite.instances.iter().map(|i| i.id.as_str()))),
            Some(i) if suite.instances[i].source != spec.source => {
                let field = format!("instances[{i}].source");
                return Err(changed(field, format!("another source of `{}`", spec.id), "the recorded one"));
            }
            Some(i) if suite.instances[i].disguise != spec.disguise => {
                let field = format!("instances[{i}].disguise");
                return Err(changed(field, format!("another disguise of `{}`", spec.id), "the recorded one"));
            }
            Some(_) => {}
        }
    }
    for contestant in &before.backends {
        match suite.backends.iter().position(|now| now.label() == contestant.label()) {
            None => {
                let labels = suite.backends.iter().map(Contestant::label);
                return Err(missing("backends", contestant.label(), labels));
            }
            Some(i) if suite.backends[i].identity().ok() != contestant.identity().ok() => {
                return Err(another(contestant, &suite.backends[i]).inside(format!("backends[{i}]")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn missing<'a>(field: &str, name: &str, there: impl Iterator<Item = &'a str>) -> InputError {
    changed(field, there.collect::<Vec<_>>().join(", "), format!("`{name}` among them, as recorded"))
}

/// What differs between two backends of one name.
fn another(before: &Contestant, now: &Contestant) -> InputError {
    if before.backend != now.backend {
        return changed("backend", &now.backend, format!("`{}`, as recorded", before.backend));
    }
    let names: BTreeSet<&String> = before.parameters.keys().chain(now.parameters.keys()).collect();
    let differing = names.into_iter().find(|name| before.parameters.get(*name) != now.parameters.get(*name));
    let Some(name) = differing else { return changed("backend", &now.backend, "the recorded one") };
    let words = |of: &Contestant| of.parameters.get(name).map_or("its default".to_owned(), ToString::to_string);
    changed(format!("parameters.{name}"), words(now), format!("{}, as recorded", words(before)))
}

/// Refuses a plan without a place for runs that are recorded.
pub(super) fn nothing_lost(known: &BTreeMap<String, Run>, plan: &[Cell]) -> Result<(), ExperimentError> {
    let planned: BTreeSet<&String> = plan.iter().map(|cell| &cell.name).collect();
    let mut lost = known.values().filter(|run| !planned.contains(&run.cell));
    let Some(first) = lost.next() else { return Ok(()) };
    let found =
        format!("{} recorded runs of others, such as {} on {}", lost.count() + 1, first.backend, first.instance);
    Err(changed("--output", found, "runs of this suite, as this program makes them").into())
}
