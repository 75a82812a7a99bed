//! The table of best known values: it improves by recorded runs and by nothing else.

use super::ExperimentError;
use super::reference_value::is_below;
use super::reference_value::{BestKnown, Provenance, Reference};
use super::results::{RUNS, Results};
use crate::error::{InputError, Kind};
use crate::read;
use serde::Serialize;
use std::path::Path;

/// A value that improved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Improved {
    /// The instance.
    pub instance: String,
    /// The value before, if there was one.
    pub before: Option<f64>,
    /// The value now.
    pub now: f64,
    /// The backend of the run.
    pub backend: String,
    /// Its seed.
    pub seed: u64,
}

/// Reads a table; an absent one is empty.
pub fn load(path: &Path) -> Result<BestKnown, ExperimentError> {
    if !path.exists() {
        return Ok(BestKnown::new());
    }
    Ok(read::file(path)?)
}

/// Writes it.
pub fn save(table: &BestKnown, path: &Path) -> Result<(), ExperimentError> {
    let text = serde_json::to_string_pretty(table).map_err(|e| ExperimentError::Internal(e.to_string()))?;
    super::in_a_folder(path)?;
    super::write(path, &format!("{text}\n"))
}

/// Takes over what recorded runs have found that is better than `table` has it. Instances whose optimum is proven are left out.
///
/// # Errors
/// When a run claims a value below what is proven to be a bound.
pub fn improve(table: &mut BestKnown, results: &Results) -> Result<Vec<Improved>, InputError> {
    let mut improved = Vec::new();
    for instance in &results.manifest.instances {
        if instance.reference.as_ref().is_some_and(|reference| reference.provenance == Provenance::Optimal) {
            continue;
        }
        let of_instance = results.runs.iter().filter(|run| run.instance == instance.id);
        let found = of_instance.filter_map(|run| Some((run.best.filter(|best| best.is_finite())?, run)));
        let Some((best, run)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let of_instance = results.runs.iter().filter(|run| run.instance == instance.id);
        let stated = instance.reference.iter().filter(|r| r.provenance == Provenance::Bound).map(|r| r.value);
        let bound = of_instance.filter_map(|run| run.bound).chain(stated).fold(f64::NEG_INFINITY, f64::max);
        if is_below(best, bound) {
            let error = InputError::new(Kind::Inconsistent).in_file(RUNS);
            let error = error.at(format!("{} {} seed {}", run.instance, run.backend, run.seed)).found(best);
            return Err(error.expected(format!("at least {bound:?}, the proven bound")));
        }
        let before = table.get(&instance.digest).map(|reference| reference.value);
        if before.is_some_and(|before| best >= before) {
            continue;
        }
        let identity = results.manifest.backends.iter().find(|b| b.name == run.backend).map_or("", |b| &b.identity);
        let source = format!("{identity}, seed {}, {} evaluations, run {}", run.seed, run.evaluations, run.cell);
        table.insert(instance.digest.clone(), Reference { value: best, provenance: Provenance::BestKnown, source });
        let (instance, backend, seed) = (instance.id.clone(), run.backend.clone(), run.seed);
        improved.push(Improved { instance, before, now: best, backend, seed });
    }
    Ok(improved)
}
