//! What a search leaves behind so that it can go on: the scores it has paid for.
//!
//! A search is a function of (question, seed, budget, scores): run again from its start with the paid scores at hand
//! it retraces its steps without evaluating anything, and then goes on. So the file holds no state of any backend, a
//! resumed run equals an uninterrupted one by construction, and the budget may be larger the second time.

use super::score::Score;
use crate::memo::file::{self, FileError, Header};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEADER: Header = Header { kind: *b"srch", version: 1 };

/// Where and how often a search saves itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpointing {
    /// The file.
    pub path: PathBuf,
    /// Time between saves; the search also saves itself when it stops.
    pub every: Duration,
    /// Go on from the file if it is there.
    pub resume: bool,
}

/// Why a search may not save itself where it was told to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointRefused {
    /// A folder, a device, a pipe.
    #[error("it is not a file")]
    NoFile,
    /// Something else would be lost.
    #[error("it is there and no checkpoint; a search would overwrite it")]
    Foreign,
    /// It would be found out after the search.
    #[error("no file can be made there: {0}")]
    NoPlace(String),
    /// A checkpoint would be lost.
    #[error("a checkpoint is there: go on from it (resume), or name another file")]
    Present,
}

impl Checkpointing {
    /// Whether nothing that is at its path would be lost.
    ///
    /// # Errors
    /// [`CheckpointRefused`]
    pub fn check(&self) -> Result<(), CheckpointRefused> {
        let Ok(metadata) = std::fs::metadata(&self.path) else { return self.can_be_made() };
        if !metadata.is_file() {
            return Err(CheckpointRefused::NoFile);
        }
        // Whether it is one of this question is told when it is read.
        match (metadata.len() > 0 && !file::is_of_kind(&self.path, HEADER), self.resume) {
            (true, _) => Err(CheckpointRefused::Foreign),
            (false, false) if metadata.len() > 0 => Err(CheckpointRefused::Present),
            (false, _) => Ok(()),
        }
    }
}

impl Checkpointing {
    /// Whether its folder takes a file: found out before the search, not after it.
    fn can_be_made(&self) -> Result<(), CheckpointRefused> {
        let refused = |e: std::io::Error| Err(CheckpointRefused::NoPlace(e.to_string()));
        match std::fs::OpenOptions::new().write(true).create_new(true).open(&self.path) {
            Ok(_) => std::fs::remove_file(&self.path).or_else(refused),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => refused(e),
        }
    }
}

/// The content of a checkpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Wall time spent so far.
    pub elapsed: Duration,
    /// Distinct evaluations so far.
    pub evaluations: u64,
    /// Every score paid for, by key and fidelity, in the order of the keys.
    pub scores: Vec<(u128, Score)>,
}

impl Checkpoint {
    /// Writes it to `path`, whole or not at all. `question` identifies problem, backend, parameters and seed.
    pub fn save(&self, path: &Path, question: u128) -> Result<(), FileError> {
        file::write(path, HEADER, question, self)
    }

    /// Reads a checkpoint of the same question.
    pub fn load(path: &Path, question: u128) -> Result<Self, FileError> {
        file::read(path, HEADER, question)
    }
}
