//! Equal tuning: every contestant gets the same number of configurations, is judged on the training instances alone, and
//! races on the others with its best.
//!
//! Trial 0 is the contestant as written; the others draw what it leaves open from the ranges that the parameters declare, from
//! streams of (contestant, trial). A trial is worth the mean, over training instances, of the area under the ECDF of its runs
//! (the measure of the race itself); of equal ones the first. Tuning on some instances and testing on others: Eggensperger,
//! Lindauer and Hutter 2019, "Pitfalls and best practices in algorithm configuration", section 3.

use super::instance::Instance;
use super::journal::Journal;
use super::limits::{self, within};
use super::manifest::{Cell, InstanceRecord, Made, backends, cells};
use super::measure::{area, pairs};
use super::record::Run;
use super::runner::{RunOptions, work};
use super::suite::{Contestant, Seeds, Suite};
use super::{ExperimentError, tables};
use crate::error::{InputError, Kind};
use crate::search::erased::Erased;
use crate::search::registry::entries;
use crate::search::stream::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Runs of the trials, a line each.
pub const TUNING: &str = "tuning.jsonl";

/// How a suite tunes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Instances that configurations are judged on; they do not race.
    pub train: Vec<String>,
    /// Configurations of every contestant, its own counted.
    pub trials: u64,
    /// Seeds of a trial; those of the suite if absent.
    #[serde(default)]
    pub seeds: Option<Seeds>,
    /// Evaluations of a run of a trial; those of the suite if absent.
    #[serde(default)]
    pub evaluations: Option<u64>,
}

impl Tuning {
    /// Refuses what leaves nothing to tune on or to race on.
    pub fn validate(&self, ids: &[&str]) -> Result<(), InputError> {
        let wrong = |field: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(InputError::new(Kind::InvalidValue).at(format!("tuning.{field}")).found(found).expected(expected))
        };
        if let Some(unknown) = self.train.iter().find(|id| !ids.contains(&id.as_str())) {
            let error = InputError::unknown_name(unknown, "an instance of the suite", ids.iter().copied());
            return Err(error.at("tuning.train"));
        }
        if self.train.is_empty() {
            return wrong("train", &"none", "at least one instance");
        }
        if ids.iter().all(|id| self.train.iter().any(|own| own == id)) {
            return wrong("train", &"all instances", "some that are left to race on");
        }
        within("tuning.trials", self.trials, 1..=limits::TRIALS)?;
        if let Some(seeds) = self.seeds {
            seeds.validate("tuning.seeds")?;
        }
        if let Some(evaluations) = self.evaluations {
            within("tuning.evaluations", evaluations, 1..=limits::EVALUATIONS)?;
        }
        Ok(())
    }
}

/// What tuning did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The training instances.
    pub instances: Vec<InstanceRecord>,
    /// By contestant.
    pub contestants: Vec<TunedContestant>,
}

/// A contestant's trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunedContestant {
    /// Its name in the suite.
    pub name: String,
    /// Its configurations; the first is that of the suite.
    pub trials: Vec<Trial>,
    /// Which of them races.
    pub chosen: usize,
}

/// A configuration and what it was worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it sets.
    pub parameters: Map<String, Value>,
    /// Mean area under the ECDF over the training instances.
    pub area: f64,
}

/// The configurations of a contestant: its own, then drawn ones, no two alike.
fn configurations(contestant: &Contestant, trials: u64) -> Vec<Map<String, Value>> {
    let mut all = vec![contestant.parameters.clone()];
    let (name, preset) = match contestant.backend.split_once('.') {
        Some((name, preset)) => (name, Some(preset)),
        None => (contestant.backend.as_str(), None),
    };
    let known = entries::<Erased<'_>>();
    let Some(entry) = known.iter().find(|entry| entry.name == name) else { return all };
    let preset = entry.page.presets.iter().find(|p| Some(p.name) == preset);
    // What a preset or the suite says makes the contestant what it is.
    let set: Map<String, Value> = preset.and_then(|p| serde_json::from_str(p.parameters).ok()).unwrap_or_default();
    let open = || entry.page.parameters.iter().filter(|p| !set.contains_key(p.name));
    for trial in 1..trials {
        let mut drawn = contestant.parameters.clone();
        for parameter in open() {
            let purpose = [xxh3_64(contestant.label().as_bytes()), xxh3_64(parameter.name.as_bytes())];
            let mut stream = Stream::new(0, purpose[0], trial, purpose[1]);
            if let Some(value) = parameter.range.draw(&mut stream)
                && !contestant.parameters.contains_key(parameter.name)
            {
                drawn.insert(parameter.name.to_owned(), value);
            }
        }
        if !all.contains(&drawn) {
            all.push(drawn);
        }
    }
    all
}

/// Tunes the contestants of `suite` and gives the suite that races: they with their best configurations. The training instances
/// go from `made` into the record.
pub(super) fn tune(
    suite: &Suite,
    tuning: &Tuning,
    made: &mut Made,
    folder: &Path,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Suite, Tuned), ExperimentError> {
    let (train, race): (Made, Made) =
        std::mem::take(made).into_iter().partition(|(record, _)| tuning.train.contains(&record.id));
    *made = race;
    let unable = |what: &str| {
        let error = InputError::new(Kind::Unsupported).at("tuning.train");
        ExperimentError::from(error.help(what.to_owned()))
    };
    if train.is_empty() {
        return Err(unable("none of its instances can be made: their data is not there"));
    }
    if made.is_empty() {
        return Err(unable("no instance is left to race on: the data of the others is not there"));
    }
    if let Some((record, _)) = train.iter().find(|(record, _)| record.reference.is_none()) {
        return Err(unable(&format!("nothing is known that `{}` could be compared with", record.id)));
    }
    let trials: Vec<(usize, Contestant)> = suite
        .backends
        .iter()
        .enumerate()
        .flat_map(|(i, contestant)| {
            let all = configurations(contestant, tuning.trials).into_iter().enumerate();
            all.map(move |(t, parameters)| {
                let name = Some(format!("{}-{t}", contestant.label()));
                (i, Contestant { name, parameters, ..contestant.clone() })
            })
        })
        .collect();
    let trial_suite = Suite {
        backends: trials.iter().map(|(_, contestant)| contestant.clone()).collect(),
        evaluations: tuning.evaluations.unwrap_or(suite.evaluations),
        ..suite.clone()
    };
    let names = backends(&trial_suite)?;
    let instances: Vec<InstanceRecord> = train.iter().map(|(record, _)| record.clone()).collect();
    let seeds = tuning.seeds.unwrap_or(suite.seeds);
    let plan = cells(&instances, &names, seeds, trial_suite.evaluations);
    let runs = run(&trial_suite, &train, &plan, &folder.join(TUNING), options, progress)?;
    let mut contestants: Vec<TunedContestant> = suite
        .backends
        .iter()
        .map(|contestant| TunedContestant { name: contestant.label().to_owned(), trials: Vec::new(), chosen: 0 })
        .collect();
    for (number, (contestant, trial)) in trials.into_iter().enumerate() {
        let worth = |(i, record): (usize, &InstanceRecord)| {
            let own = plan.iter().filter(|cell| cell.backend == number && cell.instance == i);
            let own: Vec<&Run> = own.filter_map(|cell| runs.get(&cell.name)).collect();
            let Some(reference) = &record.reference else { return 0.0 };
            let (reached, all) = pairs(own.into_iter().map(|run| (run, reference)));
            area(&reached, all, trial_suite.evaluations)
        };
        let area = instances.iter().enumerate().map(worth).sum::<f64>() / instances.len() as f64;
        contestants[contestant].trials.push(Trial { parameters: trial.parameters, area });
    }
    let mut tuned = suite.clone();
    for (contestant, own) in contestants.iter_mut().zip(&mut tuned.backends) {
        let best = contestant.trials.iter().map(|trial| trial.area).fold(f64::NEG_INFINITY, f64::max);
        contestant.chosen = contestant.trials.iter().position(|trial| trial.area >= best).unwrap_or(0);
        own.parameters = contestant.trials[contestant.chosen].parameters.clone();
    }
    Ok((tuned, Tuned { instances, contestants }))
}

/// Runs what of `plan` is not in the journal yet; all runs by cell.
fn run(
    suite: &Suite,
    made: &[(InstanceRecord, Instance)],
    plan: &[Cell],
    path: &Path,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<BTreeMap<String, Run>, ExperimentError> {
    let (mut journal, finished) = Journal::open(path)?;
    let mut known: BTreeMap<String, Run> = finished.into_iter().map(|run| (run.cell.clone(), run)).collect();
    let missing: Vec<&Cell> = plan.iter().filter(|cell| !known.contains_key(&cell.name)).collect();
    let mut recorded = plan.len() - missing.len();
    progress(recorded, plan.len());
    work(suite, made, &missing, options, &mut |run| {
        journal.append(&run)?;
        known.insert(run.cell.clone(), run);
        recorded += 1;
        progress(recorded, plan.len());
        Ok(())
    })?;
    Ok(known)
}

/// What tuning brought.
pub(super) fn table(tuned: &Tuned) -> tables::Table {
    let ids: Vec<&str> = tuned.instances.iter().map(|instance| instance.id.as_str()).collect();
    let note = format!(
        "Every contestant was tried in as many configurations, drawn from the ranges of its parameters, on {}, which did not race. \
         Worth of a configuration: mean area under the ECDF there. The best one raced; trial 0 is the contestant as written.",
        ids.join(", ")
    );
    let columns = ["backend", "what it changes", "trials", "trial", "as written", "chosen"].map(str::to_owned).to_vec();
    let mut table = tables::Table::new("tuning", "Tuning", &note, 2, columns);
    for contestant in &tuned.contestants {
        let area = |trial: usize| contestant.trials.get(trial).map_or(f64::NAN, |trial| trial.area);
        let set =
            contestant.trials.get(contestant.chosen).map(|trial| Value::Object(trial.parameters.clone()).to_string());
        table.rows.push(vec![
            contestant.name.clone(),
            if contestant.chosen == 0 { "nothing".to_owned() } else { set.unwrap_or_default() },
            contestant.trials.len().to_string(),
            contestant.chosen.to_string(),
            format!("{:.4}", area(0)),
            format!("{:.4}", area(contestant.chosen)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contestant(text: &str) -> Contestant {
        ron::from_str(text).unwrap()
    }

    #[test]
    fn configurations_keep_what_is_written_and_draw_the_rest_from_the_ranges() {
        let hot = contestant(r#"(backend: "anneal", parameters: {"hot": 0.5})"#);
        let all = configurations(&hot, 12);
        assert_eq!((all.len(), &all[0]), (12, &hot.parameters));
        assert_eq!(all, configurations(&hot, 12));
        for drawn in &all {
            assert_eq!(drawn["hot"], 0.5);
        }
        let uct = configurations(&contestant(r#"(backend: "mcts.uct")"#), 5);
        assert!(uct.iter().all(|drawn| !drawn.contains_key("select")), "a preset stays what it is: {uct:?}");
        let exact = configurations(&contestant(r#"(backend: "exact")"#), 5);
        assert_eq!(exact.len(), 1, "there is nothing to draw");
    }

    #[test]
    fn every_value_of_every_range_is_taken() {
        for entry in entries::<Erased<'_>>() {
            let own = contestant(&format!(r#"(backend: "{}")"#, entry.name));
            for parameters in configurations(&own, 40) {
                let made = Contestant { parameters: parameters.clone(), ..own.clone() }.identity();
                assert!(made.is_ok(), "{} {parameters:?}: {made:?}", entry.name);
            }
        }
    }
}
