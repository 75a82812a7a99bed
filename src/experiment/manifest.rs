//! What a race was: suite, instances with digests and references, backends with parameters, program, machine.

use super::instance::{Identity, Instance, InstanceSpec};
use super::machine::{self, Machine};
use super::reference_value::{self, BestKnown, Reference};
use super::suite::{Seeds, Suite};
use super::tuning::Tuned;
use super::{ExperimentError, best_known, resume};
use crate::error::{InputError, Kind};
use crate::read;
use crate::search::budget::Interrupt;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_128;

/// Name and version of the format.
pub const SCHEMA: &str = "espalier/bench/1";

/// The manifest of recorded results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub version: String,
    /// The suite as written.
    pub suite: Suite,
    /// Its instances.
    pub instances: Vec<InstanceRecord>,
    /// Its backends.
    pub backends: Vec<BackendRecord>,
    /// How they were tuned, where the suite says so; then `backends` are the tuned ones, `instances` those that raced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
    /// Instances left out because their data is not there.
    pub skipped: Vec<String>,
    /// Runs in all.
    pub runs: u64,
    /// What differs between two recordings of the same.
    pub clocks: Circumstances,
}

/// When and where.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Circumstances {
    /// Seconds since 1970 when it began.
    pub began_unix_s: u64,
    /// The machine.
    pub machine: Machine,
}

/// An instance of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// Its name.
    pub id: String,
    /// What kind of problem it is.
    pub family: String,
    /// Equal digests are equal problems.
    pub digest: String,
    /// Decisions of a path.
    pub depth: usize,
    /// Decimal logarithm of the number of paths, if known.
    pub size_log10: Option<f64>,
    /// What objectives are compared with.
    pub reference: Option<Reference>,
}

/// A backend of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendRecord {
    /// Its name in the suite.
    pub name: String,
    /// Name and parameters in full.
    pub identity: String,
}

/// Instances with the problems they are.
pub type Made = Vec<(InstanceRecord, Instance)>;

impl Manifest {
    /// Makes the instances of a suite and finds their references. References of `before`, where the instance is the same,
    /// are taken over: they were proven once. Where one of them is another now, or not there, it is refused.
    pub fn of(
        suite: &Suite,
        before: Option<&Manifest>,
        interrupt: &Interrupt,
    ) -> Result<(Self, Made), ExperimentError> {
        let table = known(suite)?;
        let (mut made, mut skipped) = (Made::new(), Vec::new());
        for spec in &suite.instances {
            if interrupt.is_raised() {
                return Err(ExperimentError::Interrupted);
            }
            let old = before.and_then(|before| before.recorded(&spec.id));
            let Some(instance) = spec.make(&suite.folder)? else {
                if old.is_some() {
                    return Err(lost(&spec.id, "its data is not there").into());
                }
                skipped.push(spec.id.clone());
                continue;
            };
            let identity = instance.with(Identity::of)?;
            let digest = digest(spec, &identity);
            if old.is_some_and(|old| old.digest != digest) {
                return Err(lost(&spec.id, "another problem than the one recorded").into());
            }
            let reference = match old {
                Some(old) if spec.reference.is_none() => old.reference.clone(),
                _ => reference_value::find(spec, &instance, &digest, &table, interrupt)?,
            };
            if interrupt.is_raised() {
                return Err(ExperimentError::Interrupted);
            }
            let record = InstanceRecord {
                id: spec.id.clone(),
                family: spec.family().to_owned(),
                digest,
                depth: identity.depth,
                size_log10: identity.size_log10,
                reference,
            };
            made.push((record, instance));
        }
        if made.is_empty() {
            let error = InputError::new(Kind::Unsupported).at("instances");
            return Err(error.help("none of them can be made: their data is not there").into());
        }
        let backends = backends(suite)?;
        let began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let manifest = Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: made.len() as u64 * backends.len() as u64 * suite.seeds.count,
            suite: suite.clone(),
            instances: made.iter().map(|(record, _)| record.clone()).collect(),
            backends,
            tuned: None,
            skipped,
            clocks: Circumstances { began_unix_s, machine: machine::look() },
        };
        Ok((manifest, made))
    }

    /// Reads `manifest.json` of a folder.
    pub fn load(folder: &Path) -> Result<Self, ExperimentError> {
        let manifest: Self = read::file(&folder.join("manifest.json"))?;
        if manifest.schema != SCHEMA {
            let error = InputError::new(Kind::Unsupported).in_file(folder.join("manifest.json").display()).at("schema");
            return Err(error.found(manifest.schema).expected(SCHEMA).into());
        }
        Ok(manifest)
    }

    /// Writes it.
    pub fn save(&self, folder: &Path) -> Result<(), ExperimentError> {
        let text = serde_json::to_string_pretty(self).map_err(|e| ExperimentError::Internal(e.to_string()))?;
        super::write(&folder.join("manifest.json"), &format!("{text}\n"))
    }

    /// The runs in the order in which they are made: seeds outside, instances within, backends in turn, so that drift of the
    /// machine falls on all alike.
    pub fn plan(&self) -> Vec<Cell> {
        cells(&self.instances, &self.backends, self.suite.seeds, self.suite.evaluations)
    }

    /// The instance called `id`, be it one that was tuned on.
    fn recorded(&self, id: &str) -> Option<&InstanceRecord> {
        let trained = self.tuned.iter().flat_map(|tuned| &tuned.instances);
        self.instances.iter().chain(trained).find(|instance| instance.id == id)
    }

    /// The instance called `id`.
    pub fn instance(&self, id: &str) -> Option<&InstanceRecord> {
        self.instances.iter().find(|instance| instance.id == id)
    }
}

/// Equal for instances that are the same.
pub(super) fn digest(spec: &InstanceSpec, identity: &Identity) -> String {
    let digest = match spec.disguise {
        // The path that the prior likes may be the same in disguise.
        Some(disguise) => xxh3_128(format!("{:032x} {disguise:?}", identity.digest).as_bytes()),
        None => identity.digest,
    };
    format!("{digest:032x}")
}

fn lost(id: &str, found: &str) -> InputError {
    let error = InputError::new(Kind::Inconsistent).at(format!("instance `{id}`")).found(found);
    error.expected("the recorded problem").help(resume::ADVICE)
}

/// Every seed on every instance by every backend.
pub(super) fn cells(
    instances: &[InstanceRecord],
    backends: &[BackendRecord],
    seeds: Seeds,
    evaluations: u64,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for seed in seeds.all() {
        for (i, instance) in instances.iter().enumerate() {
            for (b, backend) in backends.iter().enumerate() {
                let words = format!("{}\n{}\n{seed}\n{evaluations}", instance.digest, backend.identity);
                let name = format!("{:032x}", xxh3_128(words.as_bytes()));
                cells.push(Cell { instance: i, backend: b, seed, name });
            }
        }
    }
    cells
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Index of the instance.
    pub instance: usize,
    /// Index of the backend.
    pub backend: usize,
    /// Seed.
    pub seed: u64,
    /// Digest of all that its result depends on.
    pub name: String,
}

/// The backends of a suite.
pub(super) fn backends(suite: &Suite) -> Result<Vec<BackendRecord>, InputError> {
    let backend = |contestant: &super::suite::Contestant| {
        Ok(BackendRecord { name: contestant.label().to_owned(), identity: contestant.identity()? })
    };
    suite.backends.iter().map(backend).collect()
}

fn known(suite: &Suite) -> Result<BestKnown, ExperimentError> {
    suite.best_known.as_ref().map_or(Ok(BestKnown::new()), |name| best_known::load(&suite.folder.join(name)))
}
