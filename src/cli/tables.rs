//! Tables of runs: read, looked through for what they lack, and their unreadable rows told.

use super::output::{Output, say};
use crate::accuracy::cells::{self, BadRow};
use crate::accuracy::table::{self, Row};
use crate::accuracy::{Comparison, Quantity};
use crate::error::{InputError, Kind};
use std::path::Path;

/// Unreadable rows that are listed before the rest is counted.
const LISTED: usize = 10;
/// Reasons that an error names.
const REASONS: usize = 4;

/// The rows of a table of runs; empty cells are filled from `runs.csv` beside it.
pub(super) fn runs(path: &Path, quantity: Quantity) -> Result<Vec<Row>, InputError> {
    let mut rows = table::load(path)?;
    let beside = path.with_file_name("runs.csv");
    if beside != path && beside.is_file() {
        table::complete(&mut rows, &table::load(&beside)?);
    }
    match cells::missing(&rows, quantity) {
        Some((column, expected)) => {
            Err(InputError::new(Kind::MissingField).at(column).in_file(path.display()).expected(expected))
        }
        None => Ok(rows),
    }
}

/// Lists unreadable rows on standard error: the first few, then how many. With `--json` they are in the answer.
pub(super) fn tell(path: &Path, bad: &[BadRow], output: &Output) {
    if output.json {
        return;
    }
    for row in bad.iter().take(LISTED) {
        say(&format!("{}: {row}: left out", path.display()));
    }
    if bad.len() > LISTED {
        say(&format!("{}: {} in all", path.display(), bad.len()));
    }
}

/// The error of a table none of whose rows can be compared.
pub(super) fn none_compared(path: &Path, comparison: &Comparison) -> InputError {
    let reasons: Vec<String> =
        comparison.reasons().into_iter().take(REASONS).map(|(why, count)| format!("{count} {why}")).collect();
    let mut help = format!("left out: {}", reasons.join("; "));
    if let Some(first) = comparison.unreadable().first() {
        help.push_str(&format!("; the first unreadable one: {first}"));
    }
    let error = InputError::new(Kind::Inconsistent).in_file(path.display()).help(help);
    error
        .found(format!("{} rows", comparison.left_out.len()))
        .expected("at least one that can be priced and was measured")
}
