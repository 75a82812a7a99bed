//! Galvatron's question and plans: its search arguments, its six profile files, its plan JSON.
//!
//! File formats of PKU-DAIR/Hetu-Galvatron 2.4.1 (commit cea12ff, read 2025), with the key spellings of earlier releases.

mod arguments;
mod document;
mod error;
mod files;
mod memory;
mod network;
mod plan;
mod time;

pub use arguments::Arguments;
pub use error::GalvatronImportError;
pub use plan::PlanFile;

use crate::cost::galvatron::{CostModel, Profiles, Repairs};
use document::Document;
use files::Shelf;
use std::path::Path;

/// Reads a folder: `case.json` with `inputs/`, or profile files alone. `changes` are arguments by Galvatron's names that
/// add to those of `case.json` or replace them.
pub fn read(folder: &Path, changes: &[(String, String)], repairs: Repairs) -> Result<CostModel, GalvatronImportError> {
    let shelf = Shelf::open(folder)?;
    let mut arguments = match shelf.named("case.json") {
        Some(path) => Arguments::of_case(&Document::read(path)?)?,
        None => Arguments::default(),
    };
    for (name, value) in changes {
        arguments.set(name, value)?;
    }
    let setting = arguments.setting()?;
    let precision = setting.precision.name();
    let times = Document::read(shelf.profile("computation_profiling", precision, &setting.model)?)?;
    let (layer_time, other_time) = time::read(&times, &setting)?;
    let memories = Document::read(shelf.profile("memory_profiling", precision, &setting.model)?)?;
    let memory = memory::read(&memories, &setting)?;
    let (network, overlap) = network::read(&shelf, &setting)?;
    let profiles = Profiles {
        layer_time,
        other_time,
        layer_memory: memory.layers,
        other_memory: memory.other,
        other_memory_first: memory.first,
        other_memory_last: memory.last,
        network,
        overlap,
    };
    Ok(CostModel { setting, profiles, repairs })
}
