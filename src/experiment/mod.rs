//! Search algorithms raced against each other: suites, runs, statistics, tables, plots, interchange files.
//!
//! A race is (instances x backends x seeds) under one budget of distinct evaluations, every run with a cold cache of its
//! own on one thread. How fast a target is reached comes first, how good the answer is at a budget second (Hansen et al.
//! 2016, "COCO: performance assessment", arXiv 1605.03560). Optima, bounds and best known values are never mixed.

pub mod analysis;
pub mod best_known;
pub mod coco;
pub mod compare;
pub mod disguise;
mod enough;
pub mod fates;
mod html;
pub mod instance;
pub mod ioh;
pub mod journal;
pub mod learn;
pub mod limits;
mod lock;
pub mod machine;
pub mod manifest;
pub mod measure;
mod plots;
pub mod record;
pub mod reference_value;
pub mod reprice;
pub mod results;
mod resume;
pub mod runner;
pub mod stats;
pub mod suite;
mod svg;
pub mod tables;
pub mod tabular;
pub mod tuning;

use crate::error::{InputError, Kind};
use std::path::{Path, PathBuf};

/// Why a race could not be run or read.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The suite, or recorded results, are wrong.
    #[error("{0}")]
    Input(#[from] InputError),
    /// A file could not be read or written.
    #[error("{}: {why}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// Somebody stopped it; what was finished is recorded.
    #[error("interrupted; go on with --resume")]
    Interrupted,
    /// A fault of this program.
    #[error("{0}")]
    Internal(String),
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> ExperimentError + use<> {
    let path = path.to_owned();
    move |why| ExperimentError::File { path, why }
}

/// What could not be written, and why.
fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> ExperimentError + use<> {
    let error = InputError::new(Kind::Unwritable).in_file(path.display());
    move |why| error.help(why).into()
}

/// Refuses a file whose folder is not there: a folder that nobody made is a slip of the pen.
fn in_a_folder(path: &Path) -> Result<(), ExperimentError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => {
            let error = InputError::new(Kind::Unwritable).in_file(path.display()).found(folder.display());
            Err(error.expected("a folder that exists").into())
        }
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), ExperimentError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    std::fs::write(&new, text).map_err(unwritable(&new))?;
    std::fs::rename(&new, path).map_err(unwritable(path))
}
