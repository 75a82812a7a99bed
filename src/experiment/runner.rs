//! Runs a suite: in interleaved order, every run on one thread with a cold cache of its own, each recorded when it ends.

use super::instance::Instance;
use super::journal::Journal;
use super::lock::Lock;
use super::manifest::{Cell, InstanceRecord, Manifest, backends};
use super::record::Run;
use super::results::{JOURNAL, RUNS, Results, TRACE, finished};
use super::suite::Suite;
use super::tuning::TUNING;
use super::{ExperimentError, resume, tuning, unwritable};
use crate::error::{InputError, Kind};
use crate::search::budget::{Budget, Interrupt, Stop};
use crate::search::erased::Erased;
use crate::search::registry::build;
use crate::search::run::{Request, solve};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

/// How to run a suite.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Go on from what is recorded in the folder.
    pub resume: bool,
    /// Runs at a time; more than cores spoils the clocks, never the results.
    pub jobs: usize,
    /// Stops it.
    pub interrupt: Interrupt,
}

/// Runs `suite` into `folder`. `progress` is told runs recorded and runs in all.
///
/// # Errors
/// A folder that holds results, unless it is to go on; one that another race writes into; a suite that would leave recorded runs
/// without a place (module `resume`): nothing is touched then.
pub fn run(
    suite: &Suite,
    folder: &Path,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Results, ExperimentError> {
    let recorded = |name: &&&str| folder.join(name).exists();
    if let Some(name) = RECORDED.iter().find(recorded)
        && !options.resume
    {
        let found = folder.join(name);
        let error = InputError::new(Kind::Inconsistent).at("--output").found(found.display());
        return Err(error.expected("a folder without results").help("or go on with --resume").into());
    }
    std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
    let _held = Lock::take(folder)?;
    let before = folder.join("manifest.json").exists();
    let old = if before { Some(Manifest::load(folder)?) } else { None };
    if let Some(old) = &old {
        resume::check(old, suite)?;
    }
    let (mut manifest, mut made) = Manifest::of(suite, old.as_ref(), &options.interrupt)?;
    if let Some(old) = &old {
        manifest.clocks = old.clocks.clone();
    }
    let tuned;
    let suite = match &suite.tuning {
        None => suite,
        Some(tuning) => {
            if !before {
                manifest.save(folder)?;
            }
            let (suite, record) = tuning::tune(suite, tuning, &mut made, folder, options, progress)?;
            manifest.instances = made.iter().map(|(record, _)| record.clone()).collect();
            manifest.backends = backends(&suite)?;
            manifest.runs = (made.len() * manifest.backends.len()) as u64 * suite.seeds.count;
            manifest.tuned = Some(record);
            tuned = suite;
            &tuned
        }
    };
    let mut known = BTreeMap::new();
    let over = folder.join(TRACE).exists();
    if over {
        known.extend(finished(folder)?.into_iter().map(|run| (run.cell.clone(), run)));
    }
    let (mut journal, unfinished) = Journal::open(&folder.join(JOURNAL))?;
    let in_journal: BTreeSet<String> = unfinished.iter().map(|run| run.cell.clone()).collect();
    known.extend(unfinished.into_iter().map(|run| (run.cell.clone(), run)));
    let cells = manifest.plan();
    resume::nothing_lost(&known, &cells)?;
    let missing: Vec<&Cell> = cells.iter().filter(|cell| !known.contains_key(&cell.name)).collect();
    if let Some(old) = old.filter(|old| *old != manifest || !missing.is_empty()) {
        // The journal has everything before anything else goes; a kill in between costs nothing.
        for run in known.values().filter(|run| !in_journal.contains(&run.cell)) {
            journal.append(run)?;
        }
        let runs = runs_of(&old, &old.plan(), &known);
        // Tables are written once all runs are there, and not before.
        if runs.len() as u64 == old.runs {
            Results { manifest: old, runs }.withdraw(folder)?;
        }
    }
    manifest.save(folder)?;
    let mut recorded = cells.len() - missing.len();
    progress(recorded, cells.len());
    work(suite, &made, &missing, options, &mut |run| {
        journal.append(&run)?;
        known.insert(run.cell.clone(), run);
        recorded += 1;
        progress(recorded, cells.len());
        Ok(())
    })?;
    let runs = runs_of(&manifest, &cells, &known);
    let results = Results { runs, manifest };
    results.save(folder)?;
    drop(journal);
    std::fs::remove_file(folder.join(JOURNAL)).map_err(unwritable(folder))?;
    Ok(results)
}

/// What a race has on record: one of these files in a folder, and nothing is begun there anew.
const RECORDED: [&str; 5] = ["manifest.json", RUNS, TRACE, JOURNAL, TUNING];

/// The runs of a plan that are known, in its order.
fn runs_of(manifest: &Manifest, cells: &[Cell], known: &BTreeMap<String, Run>) -> Vec<Run> {
    let run = |cell: &Cell| {
        // Backends that search alike share their runs.
        let mut run = known.get(&cell.name)?.clone();
        // A cell may have been recorded under another name of the same instance or backend.
        run.instance.clone_from(&manifest.instances[cell.instance].id);
        run.backend.clone_from(&manifest.backends[cell.backend].name);
        Some(run)
    };
    cells.iter().filter_map(run).collect()
}

pub(super) fn work(
    suite: &Suite,
    made: &[(InstanceRecord, Instance)],
    cells: &[&Cell],
    options: &RunOptions,
    record: &mut dyn FnMut(Run) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let next = AtomicUsize::new(0);
    let stop = Interrupt::default();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..options.jobs.max(1) {
            let (send, next, stop) = (send.clone(), &next, stop.clone());
            scope.spawn(move || {
                // One thread for every run, whatever else runs: clocks of evaluations then compare.
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
                while let Some(cell) = cells.get(next.fetch_add(1, Relaxed)) {
                    if stop.is_raised() || options.interrupt.is_raised() {
                        break;
                    }
                    let (record, instance) = &made[cell.instance];
                    let race = || one(suite, &record.id, instance, cell, &options.interrupt);
                    let done = match &pool {
                        Ok(pool) => pool.install(race),
                        Err(e) => Err(ExperimentError::Internal(e.to_string())),
                    };
                    if send.send(done).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut result = Ok(());
        for done in receive {
            if result.is_ok() {
                result = done.and_then(|run| run.map_or(Err(ExperimentError::Interrupted), &mut *record));
                if result.is_err() {
                    stop.raise();
                }
            }
        }
        if result.is_ok() && options.interrupt.is_raised() {
            result = Err(ExperimentError::Interrupted);
        }
        result
    })
}

fn one(
    suite: &Suite,
    id: &str,
    instance: &Instance,
    cell: &Cell,
    interrupt: &Interrupt,
) -> Result<Option<Run>, ExperimentError> {
    let internal = |e: &dyn std::fmt::Display| ExperimentError::Internal(e.to_string());
    let contestant = &suite.backends[cell.backend];
    instance.with(|problem| {
        let backend = build::<Erased<'_>>(&contestant.choice()).map_err(|e| internal(&e))?;
        let budget = Budget::evaluations(suite.evaluations);
        let request = Request { interrupt: interrupt.clone(), ..Request::new(cell.seed, budget) };
        let outcome = solve(problem, backend.as_ref(), request).map_err(|e| internal(&e))?;
        let run = Run::of(cell.name.clone(), id, contestant.label(), cell.seed, &outcome);
        Ok((outcome.stop != Stop::Interrupted).then_some(run))
    })?
}
