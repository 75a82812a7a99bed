//! `espalier regret`: whether the best price is that of the fastest plan.

use super::output::Output;
use super::{ANSWERED, Ended};
use crate::accuracy::{regret, table};
use crate::error::{InputError, Kind};
use crate::report;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `regret`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Table of groups of rival runs
    #[arg(long, value_name = "CSV")]
    data: PathBuf,
    /// Table of the runs; unless given, `runs.csv` beside it
    #[arg(long, value_name = "CSV")]
    runs: Option<PathBuf>,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let groups = table::load(&args.data)?;
    if groups.iter().all(|g| g.text("row_ids").is_none()) {
        let error = InputError::new(Kind::MissingField).at("row_ids").in_file(args.data.display());
        return Err(error.expected("groups whose column `row_ids` names runs, separated by `;`").into());
    }
    let runs = args.runs.clone().unwrap_or_else(|| args.data.with_file_name("runs.csv"));
    let found = regret::regret(&groups, &table::load(&runs)?);
    let mut document = json!({ "schema": "espalier/regret/1" });
    document["groups"] = json!(found.groups);
    document["mean_regret"] = json!(found.mean_regret);
    document["by_source"] = json!(found.by_source);
    document["crash_picks"] = json!(found.crash_picks);
    output.answer(&document, |style| report::regret(&found, style))?;
    Ok(ANSWERED)
}
