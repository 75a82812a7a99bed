//! Recorded paths followed again: the instance is made anew, every path is taken on it and priced, and the price must be the
//! recorded best.

use super::ExperimentError;
use super::instance::{Identity, Instance};
use super::manifest::{InstanceRecord, digest};
use super::record::Run;
use super::results::Results;
use crate::search::budget::{Budget, Interrupt, Stop};
use crate::search::erased::Erased;
use crate::search::evaluator::{Evaluator, Setup};
use crate::search::problem::{Fidelity, Node};
use crate::search::walk::Walk;
use serde::Serialize;
use std::path::Path;

/// What following the paths showed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Repriced {
    /// Paths that lead to the recorded value.
    pub right: usize,
    /// What does not, in words.
    pub wrong: Vec<String>,
    /// Runs that record no path to their best value.
    pub without: usize,
    /// Instances that cannot be made again, and why.
    pub left_out: Vec<String>,
}

/// Relative differences below this are rounding: of another processor or mathematical library.
const ROUNDING: f64 = 1e-9;

/// Follows the path of every run. Question files are looked for from `suite_folder`.
pub fn reprice(results: &Results, suite_folder: &Path) -> Result<Repriced, ExperimentError> {
    let mut all = Repriced::default();
    for record in &results.manifest.instances {
        let runs: Vec<&Run> = results.runs.iter().filter(|run| run.instance == record.id).collect();
        let instance = match again(results, record, suite_folder) {
            Ok(instance) => instance,
            Err(Unmade::NotThere(why)) => {
                all.left_out.push(format!("{}: {why}", record.id));
                continue;
            }
            Err(Unmade::Another) => {
                all.wrong.push(format!("{}: made again it is another problem than the one recorded", record.id));
                continue;
            }
        };
        instance.with(|problem| runs.iter().for_each(|run| follow(problem, run, &mut all)))?;
    }
    Ok(all)
}

enum Unmade {
    NotThere(String),
    Another,
}

fn again(results: &Results, record: &InstanceRecord, suite_folder: &Path) -> Result<Instance, Unmade> {
    let spec = results.manifest.suite.instances.iter().find(|spec| spec.id == record.id).ok_or(Unmade::Another)?;
    let made = spec.make(suite_folder).map_err(|e| Unmade::NotThere(e.to_string()))?;
    let instance = made.ok_or_else(|| Unmade::NotThere("its data is not there".to_owned()))?;
    let identity = instance.with(Identity::of).map_err(|e| Unmade::NotThere(e.to_string()))?;
    if digest(spec, &identity) == record.digest { Ok(instance) } else { Err(Unmade::Another) }
}

fn follow(problem: &Erased<'_>, run: &Run, all: &mut Repriced) {
    let Some(path) = &run.path else {
        all.without += usize::from(run.best.is_some());
        return;
    };
    let found = match price(problem, path) {
        Err(why) => why,
        Ok(found) if same(found, run.best) => {
            all.right += 1;
            return;
        }
        Ok(found) => format!("its path leads to {}, not to {}", words(found), words(run.best)),
    };
    all.wrong.push(format!("{} {} seed {}: {found}", run.instance, run.backend, run.seed));
}

fn words(objective: Option<f64>) -> String {
    objective.map_or("nothing feasible".to_owned(), |objective| format!("{objective:?}"))
}

fn same(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= ROUNDING * b.abs(),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The objective at the end of a path, or why it has none.
fn price(problem: &Erased<'_>, path: &[u32]) -> Result<Option<f64>, String> {
    let mut walk = Walk::new(problem);
    for (depth, option) in path.iter().enumerate() {
        match walk.node() {
            Node::Choose { options, .. } if *option < options => walk.push(*option),
            Node::Choose { options, .. } => {
                return Err(format!("decision {depth} of its path is option {option} of {options}"));
            }
            Node::Complete | Node::DeadEnd(_) => return Err(format!("its path goes on behind decision {depth}")),
        }
    }
    if walk.node() != Node::Complete {
        return Err(format!("its path ends after {} decisions, before the end", path.len()));
    }
    let setup = Setup {
        cache: None,
        fidelity: Fidelity::Exact,
        budget: Budget::default(),
        interrupt: Interrupt::default(),
        observer: None,
        archive: 1,
    };
    let mut evaluator = Evaluator::new(problem, "verify", setup);
    let candidate = evaluator.candidate(walk.solution(), Some(path));
    // Limits that the one price meets are none here.
    let stop = evaluator.ask(vec![candidate]).err().unwrap_or(Stop::Evaluations);
    let best = evaluator.finish(stop).best;
    Ok(best.and_then(|best| best.score.objective()))
}
