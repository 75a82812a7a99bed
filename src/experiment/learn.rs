//! What recorded runs teach the case base of `rules`: the best path of every instance that they solved.

use super::ExperimentError;
use super::record::Run;
use super::results::Results;
use crate::error::{InputError, Kind};
use crate::search::rules::cases::{Case, CaseBase};
use std::path::{Path, PathBuf};

/// What was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Cases that are new or better now, by their source.
    pub taken: Vec<String>,
    /// Instances of which no run has a path that leads to its answer.
    pub without: Vec<String>,
}

/// Reads a case base; an empty one where there is no file yet.
pub fn load(path: &Path) -> Result<CaseBase, ExperimentError> {
    Ok(if path.exists() { CaseBase::load(path)? } else { CaseBase::default() })
}

/// Writes it.
pub fn save(base: &CaseBase, path: &Path) -> Result<(), ExperimentError> {
    let text = base.text().map_err(|e| ExperimentError::Internal(e.to_string()))?;
    super::in_a_folder(path)?;
    super::write(path, &text)
}

/// Adds to `base` what `results` solved. The instances are made again: questions are looked for from `suite_folder`.
pub fn learn(base: &mut CaseBase, results: &Results, suite_folder: &Path) -> Result<Learned, ExperimentError> {
    let mut learned = Learned { taken: Vec::new(), without: Vec::new() };
    let folder: PathBuf = suite_folder.to_owned();
    for record in &results.manifest.instances {
        let best = results.runs.iter().filter(|run| run.instance == record.id && run.path.is_some());
        let of = |run: &&Run| run.best.unwrap_or(f64::INFINITY);
        let best = best.filter(|run| run.best.is_some()).min_by(|a, b| of(a).total_cmp(&of(b)));
        let spec = results.manifest.suite.instances.iter().find(|spec| spec.id == record.id);
        let made = spec.map(|spec| spec.make(&folder)).transpose()?.flatten();
        let (Some(Run { path: Some(path), best: Some(objective), .. }), Some(instance)) = (best, made) else {
            learned.without.push(record.id.clone());
            continue;
        };
        let source = format!("{} {}", record.id, record.digest);
        let case = instance.with(|problem| Case::of(problem, &source, path, *objective))?;
        let Some(case) = case else {
            let error = InputError::new(Kind::Inconsistent).at(format!("instance `{}`", record.id));
            return Err(error.expected("the instance that the recorded path is one of").into());
        };
        if base.learn(case) {
            learned.taken.push(source);
        }
    }
    Ok(learned)
}
