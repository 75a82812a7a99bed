//! The question: what model, on which machines, as what job, searched for how.
//!
//! A question is a RON or JSON file; only `model`, `cluster` and `job` must be given:
//!
//! ```ron
//! (
//!     model: "llama3-70b",              // a preset, a config.json, or (config: { .. }) in place
//!     cluster: "h100x8:8",                // machines, a cluster file, or its fields in place
//!     job: (global_batch: 1024, sequence: 8192),
//!     search: (seed: 1, fix: ["tp=4|8"], forbid: ["recompute=full"]),
//! )
//! ```
//!
//! Paths are relative to the question's file.

mod constraint;
mod options;
mod source;

pub use constraint::{Constraint, Dim, Values};
pub use options::{ScheduleChoice, SearchOptions};
pub use source::{ClusterSource, ModelSource};

use crate::cluster::Cluster;
use crate::error::{InputError, Kind};
use crate::job::Job;
use crate::model::Model;
use crate::read;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A question as asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is trained.
    pub model: ModelSource,
    /// Where.
    pub cluster: ClusterSource,
    /// The work.
    pub job: Job,
    /// How to look for a plan.
    #[serde(default, skip_serializing_if = "SearchOptions::is_default")]
    pub search: SearchOptions,
    /// Folder that relative paths start from; that of the file it was read from.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Question {
    /// Reads a question file.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let question = Self::parse(&read::text(path)?, &path.display().to_string())?;
        Ok(Self { folder: path.parent().unwrap_or(Path::new("")).to_owned(), ..question })
    }

    /// Reads the text of a question file; `name` is the file to name in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self, InputError> {
        let question: Self = read::parse(text, name)?;
        question.validate().map_err(|e| e.in_file(name))?;
        Ok(question)
    }

    /// Whether job and search options are in their ranges. Model and cluster are checked when they are resolved.
    pub fn validate(&self) -> Result<(), InputError> {
        self.job.validate().map_err(|e| InputError::from(e).inside("job"))?;
        self.search.validate().map_err(|e| e.inside("search"))
    }

    /// The model that the question means.
    pub fn model(&self) -> Result<Model, InputError> {
        self.model.resolve(&self.folder)
    }

    /// Model and cluster that the question means, and whether the device can do what the job asks.
    pub fn resolve(&self) -> Result<(Model, Cluster), InputError> {
        let (model, cluster) = (self.model()?, self.cluster()?);
        for pool in &cluster.pools {
            if pool.device.peak_in(self.job.precision).is_none() {
                return Err(InputError::new(Kind::Unsupported)
                    .at("job.precision")
                    .found(self.job.precision)
                    .expected(format!("a precision that {} computes in", pool.device.name)));
            }
        }
        Ok((model, cluster))
    }

    /// The cluster that the question means.
    pub fn cluster(&self) -> Result<Cluster, InputError> {
        self.cluster.resolve(&self.folder)
    }

    /// The question as a RON text that reads back as the same question.
    pub fn to_ron(&self) -> Result<String, InputError> {
        let pretty = ron::ser::PrettyConfig::new();
        read::ron_options()
            .to_string_pretty(self, pretty)
            .map_err(|e| InputError::new(Kind::Unsupported).help(format!("cannot be written: {e}")))
    }
}
