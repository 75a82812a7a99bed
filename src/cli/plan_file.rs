//! A plan file with the question that it answers, ready to be priced.

use super::input;
use super::kinds::{FileKind, otherwise};
use super::question::inputs;
use crate::cost::CostOptions;
use crate::error::{InputError, Kind};
use crate::plan::file::PlanFile;
use crate::question::Question;
use crate::space::planner::Inputs;
use std::path::Path;

/// Reads the plan file at `path`; its question is resolved.
pub(super) fn read(path: &Path) -> Result<(PlanFile, Inputs), InputError> {
    parse(&input::text(path)?, path)
}

/// Reads `text`, which came from `path`.
pub(super) fn parse(text: &str, path: &Path) -> Result<(PlanFile, Inputs), InputError> {
    let name = path.display().to_string();
    let file = PlanFile::parse(text, &name).map_err(|e| otherwise(e, text, FileKind::Plan, &name))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let question = Question { folder, ..file.question };
    let cost = match &file.cost_options {
        Some(written) => serde_json::from_value(written.clone())
            .map_err(|e| InputError::new(Kind::InvalidValue).at("cost_options").expected(e).in_file(&name))?,
        None => CostOptions::default(),
    };
    let inputs =
        inputs(&question, cost).map_err(|e| if e.file.is_some() { e } else { e.inside("question").in_file(&name) })?;
    Ok((PlanFile { question, ..file }, inputs))
}
