//! Runs that failed, and what backends declined: told by backend, instance and reason.

use super::analysis::{View, strings};
use super::record::Run;
use super::results::Results;
use super::tables::Table;
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs of one backend on one instance that share a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fate {
    /// The backend.
    pub backend: String,
    /// The instance.
    pub instance: String,
    /// Why, in its words.
    pub why: String,
    /// How many runs.
    pub runs: usize,
}

fn fates<'r>(runs: &'r [Run], why: impl Fn(&'r Run) -> Option<&'r str>) -> Vec<Fate> {
    let mut all: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for run in runs {
        if let Some(why) = why(run) {
            *all.entry([&run.backend, &run.instance, why]).or_default() += 1;
        }
    }
    let fate = |([backend, instance, why], runs): ([&str; 3], usize)| {
        let [backend, instance, why] = [backend, instance, why].map(str::to_owned);
        Fate { backend, instance, why, runs }
    };
    all.into_iter().map(fate).collect()
}

/// Runs that failed: by backend, instance and reason.
pub fn failed(results: &Results) -> Vec<Fate> {
    fates(&results.runs, Run::failed_because)
}

fn told(name: &str, title: &str, note: &str, fates: Vec<Fate>) -> Option<Table> {
    let mut table = Table::new(name, title, note, 3, strings(["backend", "instance", "why", "runs"]));
    table.rows = fates.into_iter().map(|f| vec![f.backend, f.instance, f.why, f.runs.to_string()]).collect();
    (!table.rows.is_empty()).then_some(table)
}

/// Runs that failed as a whole.
pub(super) fn failures(view: &View<'_>) -> Option<Table> {
    let note = "Runs that stopped because something failed, and why. They count in every table with what they had found by then: \
                nothing, where they failed at once.";
    told("failures", "Failed runs", note, failed(view.results))
}

/// What backends would not do, in their words.
pub(super) fn refusals(view: &View<'_>) -> Option<Table> {
    let note = "Instances that a backend declined, wholly or in part, and why; in how many of its runs.";
    let declined = |run: &'_ Run| run.failed_because().is_none();
    let all = fates(&view.results.runs, |run| run.refused.as_deref().filter(|_| declined(run)));
    told("refusals", "Refusals", note, all)
}
