//! `espalier regret`: whether the best price is that of the fastest plan.

use super::output::Output;
use super::tables::tell;
use super::{ANSWERED, Ended, input};
use crate::accuracy::{regret, table};
use crate::error::{InputError, Kind};
use crate::report;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `regret`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Table of groups of rival runs: a path, or `ranking_groups.csv` of the folder `measured` where ESPALIER_REFERENCE
    /// points [default: that one]
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Table of the runs; unless given, `runs.csv` beside it
    #[arg(long, value_name = "CSV")]
    runs: Option<PathBuf>,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let data = input::published(args.data.as_deref(), "ranking_groups.csv").map_err(|e| e.at("--data"))?;
    let groups = table::load(&data)?;
    if groups.iter().all(|g| g.text("row_ids").is_none()) {
        let error = InputError::new(Kind::MissingField).at("row_ids").in_file(data.display());
        return Err(error.expected("groups whose column `row_ids` names runs, separated by `;`").into());
    }
    let runs = args.runs.clone().unwrap_or_else(|| data.with_file_name("runs.csv"));
    let found = regret::regret(&groups, &table::load(&runs)?);
    tell(&data, &found.unreadable, output);
    tell(&runs, &found.unreadable_runs, output);
    if found.groups.is_empty() {
        let error = InputError::new(Kind::Inconsistent).at("row_ids").in_file(data.display());
        return Err(error.expected(format!("rows of {} with times that can be priced", runs.display())).into());
    }
    let mut document = json!({ "schema": "espalier/regret/1" });
    document["groups"] = json!(found.groups);
    document["mean_regret"] = json!(found.mean_regret);
    document["by_source"] = json!(found.by_source);
    document["crash_picks"] = json!(found.crash_picks);
    document["unreadable"] = json!(found.unreadable);
    document["unreadable_runs"] = json!(found.unreadable_runs);
    output.answer(&document, |style| report::regret(&found, style))?;
    Ok(ANSWERED)
}
