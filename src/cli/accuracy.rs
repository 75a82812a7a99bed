//! `espalier accuracy`: predictions against published measurements.

use super::output::Output;
use super::tables::{self, none_compared, tell};
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, input};
use crate::accuracy::cells::described;
use crate::accuracy::held_out::held_out;
use crate::accuracy::{By, Constants, Quantity, compare};
use crate::error::{InputError, Kind};
use crate::memo::file::replace;
use crate::report;
use clap::ValueEnum;
use serde_json::json;
use std::path::PathBuf;

/// By what rows are grouped.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grouping {
    /// Publication
    Source,
    /// Device
    Gpu,
    /// Framework
    Framework,
}

/// What is compared.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compared {
    /// Iteration time
    Time,
    /// Peak memory
    Memory,
}

/// Arguments of `accuracy`.
#[derive(Debug, clap::Args)]
#[command(after_help = described())]
pub(super) struct Args {
    /// Table of measured runs, one a row: a path, or `runs.csv` or `memory.csv` of the folder `measured` where
    /// ESPALIER_REFERENCE points [default: runs.csv there]
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Compare times or memory; unless given, memory where the file's name says so
    #[arg(long, value_enum)]
    quantity: Option<Compared>,
    /// Group rows
    #[arg(long, value_enum, default_value_t = Grouping::Source)]
    by: Grouping,
    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leave out the numbers that were fitted to each framework's runs: as for a framework never seen
    #[arg(long)]
    neutral: bool,
    /// Fit the constants anew without each source, and predict it as if never seen (takes minutes)
    #[arg(long, conflicts_with = "neutral")]
    held_out: bool,
    /// List every row with its prediction, of memory also how full the devices of crashed runs were (with --json)
    #[arg(long)]
    rows: bool,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let data = input::published(args.data.as_deref(), "runs.csv").map_err(|e| e.at("--data"))?;
    if args.rows && !output.json {
        let error = InputError::new(Kind::Inconsistent).at("--rows").found("given without --json");
        return Err(error.expected("--json as well: only the object has a list of rows").into());
    }
    let beside = data.with_file_name("runs.csv");
    if let Some(path) = &args.html {
        may_write(path, Written::Page, &[&data, &beside])?;
    }
    let named_memory = data.file_stem().is_some_and(|s| s.to_string_lossy().contains("memory"));
    let quantity = match args.quantity {
        Some(Compared::Time) => Quantity::Time,
        Some(Compared::Memory) => Quantity::Memory,
        None if named_memory => Quantity::Memory,
        None => Quantity::Time,
    };
    let rows = tables::runs(&data, quantity)?;
    let constants = if args.neutral { Constants::Neutral } else { Constants::Fitted };
    let comparison = compare(&rows, quantity, constants);
    let unreadable = comparison.unreadable();
    tell(&data, &unreadable, output);
    if comparison.rows.is_empty() {
        return Err(none_compared(&data, &comparison).into());
    }
    let by = match args.by {
        Grouping::Source => By::Source,
        Grouping::Gpu => By::Gpu,
        Grouping::Framework => By::Framework,
    };
    let sets = comparison.sets(by, quantity);
    let mut document = json!({ "schema": "espalier/accuracy/1", "sets": sets, "unreadable": unreadable });
    let never_seen = if args.held_out { held_out(&rows, quantity) } else { Vec::new() };
    if args.held_out {
        document["held_out"] = json!(never_seen);
    }
    if args.rows {
        document["rows"] = json!(comparison.rows);
        document["fullness"] = json!(comparison.full);
        document["left_out"] = json!(
            comparison
                .left_out
                .iter()
                .map(|(row, why)| json!({ "id": row.id, "source": row.source, "why": why.to_string() }))
                .collect::<Vec<_>>()
        );
    }
    if let Some(path) = &args.html {
        let page = report::accuracy_html(&sets, &comparison);
        replace(path, &[page.as_bytes()])
            .map_err(|e| InputError::new(Kind::Unwritable).in_file(path.display()).help(e))?;
    }
    output.answer(&document, |style| {
        let mut text = report::accuracy(&sets, style);
        text.push_str(&report::held_out(&never_seen, style));
        text
    })?;
    Ok(ANSWERED)
}
