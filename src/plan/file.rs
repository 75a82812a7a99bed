//! Plan files: JSON that holds a plan with its whole question, so that it can be priced again anywhere.
//!
//! ```json
//! { "schema": "espalier/plan/1", "question": { .. }, "plan": { .. }, "estimate": { .. }, .. }
//! ```
//!
//! It is the object that planning prints as JSON. Only `schema`, `question` and `plan` must be there; what else planning
//! says (prices, alternatives, reasons) is not read back, but a key that it never says is an error.

use super::Plan;
use crate::cluster::file::ClusterFile;
use crate::error::{InputError, Kind, nearest};
use crate::memo::file::replace;
use crate::question::{ClusterSource, ModelSource, Question};
use crate::read;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the format.
pub const SCHEMA: &str = "espalier/plan/1";

/// Every key of the format.
pub const KEYS: [&str; 22] = [
    "schema",
    "question",
    "plan",
    "estimate",
    "fits",
    "legal",
    "broken_rules",
    "bound",
    "space_size",
    "space_size_log10",
    "search",
    "alternatives",
    "uniform",
    "layerwise_gain",
    "recommended",
    "stability",
    "against",
    "reasons",
    "placement",
    "schedule",
    "cost_options",
    "notes",
];

/// What is read from a plan file.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// What was asked; it needs no other file.
    pub question: Question,
    /// The plan.
    pub plan: Plan,
    /// What the file says that the plan costs, if it does.
    pub stated: Option<Stated>,
    /// The schedule that it runs, as written; without one, 1F1B or interleaved 1F1B.
    pub schedule: Option<Value>,
    /// What the cost model took into account, as written.
    pub cost_options: Option<Value>,
}

/// What a file says about its plan.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stated {
    /// Iteration time.
    pub iteration_time_s: Option<f64>,
    /// Peak memory.
    pub peak_memory_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "schema")]
    _schema: String,
    question: Question,
    plan: Plan,
    #[serde(default)]
    estimate: Option<Stated>,
    #[serde(default)]
    schedule: Option<Value>,
    #[serde(default)]
    cost_options: Option<Value>,
}

impl PlanFile {
    /// Reads a plan file.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let file = Self::parse(&read::text(path)?, &path.display().to_string())?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { question: Question { folder, ..file.question }, ..file })
    }

    /// Reads the text of a plan file; `name` is the file to name in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self, InputError> {
        let keys: serde_json::Map<String, Value> = read::parse(text, name)?;
        if let Some(unknown) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let error = InputError::new(Kind::UnknownField).at(unknown).found(unknown).in_file(name);
            let error = error.expected(format!("one of {}", KEYS.join(", ")));
            return Err(match nearest(unknown, KEYS) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        }
        // A file of another kind is better told so than that it lacks a field.
        if let Some(found) = keys.get("schema").filter(|schema| *schema != SCHEMA) {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            return Err(InputError::new(Kind::Unsupported).at("schema").found(found).expected(SCHEMA).in_file(name));
        }
        let Document { _schema: _, question, plan, estimate, schedule, cost_options } = read::parse(text, name)?;
        question.validate().map_err(|e| e.inside("question").in_file(name))?;
        Ok(Self { question, plan, stated: estimate, schedule, cost_options })
    }
}

/// The question with everything it refers to written out in place.
///
/// # Errors
/// When a file that it refers to cannot be read.
pub fn self_contained(question: &Question) -> Result<Question, InputError> {
    let model = match &question.model {
        ModelSource::Path { path, treat_as } => {
            let path = question.folder.join(path);
            let inner = path.join("config.json");
            let file = if path.is_dir() { inner } else { path };
            let config = read::parse(&read::text(&file)?, &file.display().to_string())?;
            ModelSource::Inline { config, treat_as: treat_as.clone() }
        }
        written => written.clone(),
    };
    let cluster = ClusterSource::Inline(Box::new(ClusterFile::from(&question.cluster()?)));
    Ok(Question { model, cluster, folder: PathBuf::new(), ..question.clone() })
}

/// Writes a JSON document to `path`, whole or not at all; into a device or a pipe it is written as it is.
pub fn save(path: &Path, document: &Value) -> Result<(), InputError> {
    let text = format!("{document:#}\n");
    let written = match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()))
        }
        _ => replace(path, &[text.as_bytes()]),
    };
    written.map_err(|e| InputError::new(Kind::Unwritable).in_file(path.display()).help(e))
}

/// Whether [`save`] may succeed, so that nothing is computed in vain.
pub fn can_save(path: &Path) -> Result<(), InputError> {
    let unwritable = |why: &str| Err(InputError::new(Kind::Unwritable).in_file(path.display()).help(why));
    if path.is_dir() {
        return unwritable("it is a folder");
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.file_name().is_none() || !parent.is_dir() {
        return unwritable("its folder does not exist");
    }
    Ok(())
}
