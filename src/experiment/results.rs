//! Recorded results: a folder of `manifest.json`, `runs.jsonl` and `trace.csv`, and all that follows from them.
//!
//! `trace.csv` has a row per improvement: instance, backend, seed, the four clocks, `event` (`feasible`, `infeasible`
//! or `failed`), and `value`: the objective, or the total relative violation.

use super::journal::lines;
use super::manifest::Manifest;
use super::record::{Point, Run};
use super::tuning::TUNING;
use super::{ExperimentError, analysis, coco, file, html, ioh, plots, unwritable};
use crate::error::{InputError, Kind};
use crate::search::score::Score;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Runs that are finished while others are not.
pub const JOURNAL: &str = "journal.jsonl";
/// Finished runs.
pub const RUNS: &str = "runs.jsonl";
/// Their improvements.
pub const TRACE: &str = "trace.csv";
const HEADER: &str = "instance,backend,seed,evaluations,requests,wall_s,cpu_s,event,value";

/// A race and its runs in the order of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What it was.
    pub manifest: Manifest,
    /// What came of it.
    pub runs: Vec<Run>,
}

impl Results {
    /// Reads a folder.
    pub fn load(folder: &Path) -> Result<Self, ExperimentError> {
        for name in ["manifest.json", RUNS, TRACE] {
            if !folder.join(name).is_file() {
                return Err(incomplete(folder, name).into());
            }
        }
        Ok(Self { manifest: Manifest::load(folder)?, runs: finished(folder)? })
    }

    /// Takes away everything that follows from the runs, and last the traces: a folder without them is not finished.
    pub(super) fn withdraw(&self, folder: &Path) -> Result<(), ExperimentError> {
        let derived = self.derived().into_keys();
        for path in derived.chain([PathBuf::from(TRACE)]) {
            let path = folder.join(path);
            match std::fs::remove_file(&path) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(unwritable(&path)(why)),
                _ => {}
            }
            // A folder that is empty now; any other stays.
            let _ = path.parent().map(std::fs::remove_dir);
        }
        Ok(())
    }

    /// Writes everything.
    pub fn save(&self, folder: &Path) -> Result<(), ExperimentError> {
        let mut runs = String::new();
        for run in &self.runs {
            let bare = Run { trace: Vec::new(), ..run.clone() };
            let line = serde_json::to_string(&bare).map_err(|e| ExperimentError::Internal(e.to_string()))?;
            let _ = writeln!(runs, "{line}");
        }
        super::write(&folder.join(RUNS), &runs)?;
        for (path, text) in self.derived() {
            super::write(&folder.join(path), &text)?;
        }
        // Last: a folder that has it has everything.
        super::write(&folder.join(TRACE), &self.trace())
    }

    fn trace(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for run in &self.runs {
            for point in &run.trace {
                let Point { evaluations, requests, wall_s, cpu_s, score } = point;
                let (event, value) = match score {
                    Score::Feasible(value) => ("feasible", *value),
                    Score::Infeasible(value) => ("infeasible", *value),
                    Score::Failed => ("failed", 0.0),
                };
                let Run { instance, backend, seed, .. } = run;
                let _ = writeln!(
                    text,
                    "{instance},{backend},{seed},{evaluations},{requests},{wall_s:.9},{cpu_s:.9},{event},{value:?}"
                );
            }
        }
        text
    }

    /// Every table, plot, report and interchange file, by path in the folder.
    pub fn derived(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let tables = analysis::tables(self);
        for table in &tables {
            for (kind, text) in [("md", table.markdown()), ("csv", table.csv()), ("tex", table.tex())] {
                files.insert(Path::new("tables").join(format!("{}.{kind}", table.name)), text);
            }
        }
        let plots = plots::all(self);
        for plot in &plots {
            files.insert(Path::new("plots").join(format!("{}.svg", plot.name)), plot.svg.clone());
        }
        files.insert("report.html".into(), html::report(self, &tables, &plots));
        files.extend(ioh::files(self));
        files.extend(coco::files(self));
        files
    }

    /// Runs of the plan that are not recorded, and recorded ones that it has no place for, in words.
    pub fn strangers(&self) -> (usize, Vec<String>) {
        let manifest = &self.manifest;
        let cells = manifest.plan();
        let mut planned: BTreeSet<(&str, &str, u64, &str)> = BTreeSet::new();
        for cell in &cells {
            let (instance, backend) = (&manifest.instances[cell.instance], &manifest.backends[cell.backend]);
            planned.insert((&instance.id, &backend.name, cell.seed, &cell.name));
        }
        let mut strangers = Vec::new();
        for run in &self.runs {
            if !planned.remove(&(run.instance.as_str(), run.backend.as_str(), run.seed, run.cell.as_str())) {
                strangers.push(format!("{} {} seed {}", run.instance, run.backend, run.seed));
            }
        }
        (planned.len(), strangers)
    }

    /// Compares a folder with what the traces say.
    pub fn verify(&self, folder: &Path) -> Result<Verified, ExperimentError> {
        let mut derived = self.derived();
        let left_out: Vec<&'static str> = INTERCHANGE.into_iter().filter(|part| !folder.join(part).exists()).collect();
        derived.retain(|path, _| !left_out.iter().any(|part| path.starts_with(part)));
        let mut differing: Vec<PathBuf> = Vec::new();
        for (path, text) in &derived {
            if std::fs::read(folder.join(path)).map_or(true, |found| found != text.as_bytes()) {
                differing.push(path.clone());
            }
        }
        let mut found = Vec::new();
        for part in ["tables", "plots"].into_iter().chain(INTERCHANGE) {
            below(&folder.join(part), &mut found)?;
        }
        let found = found.iter().filter_map(|path| path.strip_prefix(folder).ok());
        differing.extend(found.filter(|path| !derived.contains_key(*path)).map(Path::to_owned));
        differing.sort();
        Ok(Verified { differing, left_out })
    }
}

/// Folders in other programs' formats: whole or not there at all.
const INTERCHANGE: [&str; 2] = ["ioh", "coco"];

/// How a folder compares with what its traces say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Paths of derived files that are not what the traces say, not there, or there without reason.
    pub differing: Vec<PathBuf>,
    /// Interchange folders that are not there.
    pub left_out: Vec<&'static str>,
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ExperimentError> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).map_err(file(folder))? {
        let path = entry.map_err(file(folder))?.path();
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The runs of a folder whose race is over.
pub(super) fn finished(folder: &Path) -> Result<Vec<Run>, ExperimentError> {
    let (runs, trace) = (folder.join(RUNS), folder.join(TRACE));
    let mut runs = lines(&runs, &std::fs::read(&runs).map_err(file(&runs))?)?;
    let mut points = read_trace(&trace, &std::fs::read_to_string(&trace).map_err(file(&trace))?)?;
    for run in &mut runs {
        run.trace = points.remove(&(run.instance.clone(), run.backend.clone(), run.seed)).unwrap_or_default();
        if let Some(late) = run.trace.iter().find(|point| point.evaluations > run.evaluations) {
            let error = InputError::new(Kind::Inconsistent).in_file(trace.display());
            let error = error.at(format!("{} {} seed {}", run.instance, run.backend, run.seed)).found(late.evaluations);
            return Err(error.expected(format!("at most {} evaluations, which {RUNS} has", run.evaluations)).into());
        }
        let said = run.trace.last().and_then(|point| point.score.objective());
        if said != run.best {
            let words = |best: Option<f64>| best.map_or("nothing feasible".to_owned(), |best| format!("{best:?}"));
            let error = InputError::new(Kind::Inconsistent).in_file(trace.display());
            let error = error.at(format!("{} {} seed {}", run.instance, run.backend, run.seed)).found(words(said));
            return Err(error.expected(format!("{}, the best value that {RUNS} has", words(run.best))).into());
        }
    }
    Ok(runs)
}

/// What a folder lacks that ought to hold recorded results.
fn incomplete(folder: &Path, name: &str) -> InputError {
    let error = InputError::new(Kind::Unreadable).in_file(folder.join(name).display());
    let error = error.expected(format!("a folder of recorded results, which holds manifest.json, {RUNS} and {TRACE}"));
    let there = |name: &str| folder.join(name).exists();
    error.help(match () {
        _ if !folder.exists() => "there is no such folder",
        _ if there(JOURNAL) || there(TUNING) => {
            "its race is not over: go on with `espalier bench SUITE -o FOLDER --resume`"
        }
        _ if there("manifest.json") => {
            "it was kept without its runs; `espalier bench SUITE -o ANOTHER_FOLDER` makes them again"
        }
        _ => "`espalier bench SUITE -o FOLDER` makes one",
    })
}

type Traces = BTreeMap<(String, String, u64), Vec<Point>>;

fn read_trace(path: &Path, text: &str) -> Result<Traces, ExperimentError> {
    let mut traces = Traces::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = || {
            let error = InputError::new(Kind::Syntax).in_file(path.display()).at(format!("line {}", number + 1));
            ExperimentError::Input(error.found(line).expected(HEADER))
        };
        if number == 0 {
            if line != HEADER {
                return Err(wrong());
            }
            continue;
        }
        let cells: Vec<&str> = line.split(',').collect();
        let [instance, backend, seed, evaluations, requests, wall_s, cpu_s, event, value] = cells[..] else {
            return Err(wrong());
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(wrong);
        let clock = |text: &str| number(text).and_then(|s| if s >= 0.0 { Ok(s) } else { Err(wrong()) });
        let count = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let score = match event {
            "feasible" => Score::feasible(number(value)?),
            "infeasible" => Score::infeasible(number(value)?),
            "failed" => Score::Failed,
            _ => return Err(wrong()),
        };
        let point = Point {
            evaluations: count(evaluations)?,
            requests: count(requests)?,
            wall_s: clock(wall_s)?,
            cpu_s: clock(cpu_s)?,
            score,
        };
        traces.entry((instance.to_owned(), backend.to_owned(), count(seed)?)).or_default().push(point);
    }
    Ok(traces)
}
