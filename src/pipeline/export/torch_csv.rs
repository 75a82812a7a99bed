//! The `compute_only` schedule files of `torch.distributed.pipelining` (torch 2.7 and later): one row per device, cells
//! in order, `<stage><pass><micro-batch>` with F, B (both gradients), I (inputs) and W (weights), and
//! `(<cell>;<cell>)OVERLAP_F_B` for pairs. The map from stages to devices is what the rows say.
//!
//! torch's own loader takes what only starts like a cell, and micro-batches that do not exist (torch 2.15); here a file
//! is read whole or refused with row and cell.

use crate::pipeline::action::{Action, Pass, Step};
use crate::pipeline::placement::Placement;
use crate::pipeline::schedule::Schedule;
use crate::pipeline::{Fault, validate};

/// Why a file is not a schedule, or a schedule not a file. Rows and cells count from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CsvError {
    /// A cell that is no action.
    #[error("row {row}, cell {cell}: found `{found}`, expected {expected}")]
    Cell {
        /// Which row.
        row: usize,
        /// Which cell.
        cell: usize,
        /// The cell.
        found: String,
        /// What would have been understood.
        expected: String,
    },
    /// A stage in the rows of two devices.
    #[error("row {row}, cell {cell}: stage {stage} is on row {other} already")]
    StageTwice {
        /// Which row.
        row: usize,
        /// Which cell.
        cell: usize,
        /// The stage.
        stage: usize,
        /// Its first row.
        other: usize,
    },
    /// A stage that no row has, though a later one is there.
    #[error("stage {stage} is missing: the rows name stages up to {last}")]
    StageMissing {
        /// The stage.
        stage: usize,
        /// The last stage.
        last: usize,
    },
    /// A row without actions.
    #[error("row {row} has no action; every device needs a stage")]
    EmptyRow {
        /// Which row.
        row: usize,
    },
    /// No rows.
    #[error("the file is empty")]
    Empty,
    /// The cells are actions, but not a valid schedule.
    #[error("{0} (devices, steps, stages and micro-batches count from 0; steps are the actions of a row)")]
    Invalid(#[from] Fault),
    /// A schedule that the format cannot say.
    #[error("torch runs no schedule with {what}")]
    Unsupported {
        /// What it has.
        what: &'static str,
    },
}

/// A schedule read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The schedule, valid.
    pub schedule: Schedule,
    /// Cells about sharded weights and gradients, which do not belong to the order of passes.
    pub left_out: Vec<String>,
}

/// Actions of data parallelism that torch 2.15 writes into its dumps.
const SHARDING: [&str; 4] = ["UNSHARD", "WAIT_REDUCE_GRAD", "REDUCE_GRAD", "RESHARD"];
/// Actions of the other dialect.
const TRANSFERS: [&str; 6] = ["WAIT_SEND_F", "WAIT_SEND_B", "SEND_F", "SEND_B", "RECV_F", "RECV_B"];
/// Largest stage or micro-batch number that a cell may have.
const LARGEST: u32 = 999_999;

/// Writes a schedule.
///
/// # Errors
/// [`CsvError::Invalid`] for a schedule that is not valid; [`CsvError::Unsupported`] for several routes, stages
/// without backward, or a last stage whose forwards are not in order of micro-batch.
pub fn write(schedule: &Schedule) -> Result<String, CsvError> {
    validate(schedule)?;
    if schedule.placement.routes() > 1 {
        return Err(CsvError::Unsupported { what: "several routes through the stages" });
    }
    if schedule.flags.iter().any(|flags| flags.forward_only) {
        return Err(CsvError::Unsupported { what: "stages that run forward only" });
    }
    // Torch keeps losses as they come and takes them by micro-batch (`_maybe_compute_loss`, torch 2.15).
    let last = schedule.placement.stages() - 1;
    let forwards = schedule.orders[schedule.placement.device(last)].iter().flat_map(|step| step.actions());
    let forwards = forwards.filter(|a| a.pass == Pass::F && a.stage as usize == last).map(|a| a.microbatch);
    if !forwards.is_sorted() {
        return Err(CsvError::Unsupported { what: "a last stage whose forwards are not in order of micro-batch" });
    }
    let mut text = String::new();
    for order in &schedule.orders {
        let cells: Vec<String> = order.iter().map(|step| cell(*step)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    Ok(text)
}

fn cell(step: Step) -> String {
    let one = |action: Action| {
        let letter = match action.pass {
            Pass::F => "F",
            Pass::B => "I",
            Pass::W => "W",
            Pass::BW => "B",
        };
        format!("{}{letter}{}", action.stage, action.microbatch)
    };
    match step {
        Step::One(action) => one(action),
        Step::Pair { forward, backward } => format!("({};{})OVERLAP_F_B", one(forward), one(backward)),
    }
}

/// Reads a schedule and proves it valid.
///
/// # Errors
/// [`CsvError`]: the first cell, row or action that is wrong.
pub fn read(name: &str, text: &str) -> Result<Imported, CsvError> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.iter().all(|line| line.trim().is_empty()) {
        return Err(CsvError::Empty);
    }
    let (mut orders, mut left_out) = (Vec::new(), Vec::new());
    let mut rows_of: Vec<Option<usize>> = Vec::new();
    let mut microbatches = 0;
    for (row, line) in lines.iter().enumerate() {
        let mut order = Vec::new();
        for (column, cell) in line.split(',').enumerate() {
            let place = Place { row: row + 1, cell: column + 1 };
            let Some(step) = place.step(cell.trim(), &mut left_out)? else { continue };
            for action in step.actions() {
                let stage = action.stage as usize;
                if rows_of.len() <= stage {
                    rows_of.resize(stage + 1, None);
                }
                match rows_of[stage] {
                    Some(other) if other != row => {
                        return Err(CsvError::StageTwice { row: row + 1, cell: column + 1, stage, other: other + 1 });
                    }
                    _ => rows_of[stage] = Some(row),
                }
                microbatches = microbatches.max(action.microbatch as usize + 1);
            }
            order.push(step);
        }
        if order.is_empty() {
            return Err(CsvError::EmptyRow { row: row + 1 });
        }
        orders.push(order);
    }
    if let Some(stage) = rows_of.iter().position(Option::is_none) {
        return Err(CsvError::StageMissing { stage, last: rows_of.len() - 1 });
    }
    let device_of = rows_of.into_iter().flatten().map(|row| row as u32).collect();
    // Every row has an action and every stage a row, so this is a placement.
    let placement = Placement::explicit(orders.len(), device_of).map_err(|_| CsvError::Empty)?;
    let schedule = Schedule::new(name, placement, microbatches, orders);
    validate(&schedule)?;
    Ok(Imported { schedule, left_out })
}

struct Place {
    row: usize,
    cell: usize,
}

impl Place {
    fn refuse<T>(&self, found: &str, expected: &str) -> Result<T, CsvError> {
        let (found, expected) = (found.to_owned(), expected.to_owned());
        Err(CsvError::Cell { row: self.row, cell: self.cell, found, expected })
    }

    /// The step of a cell; `None` for a bubble or what does not belong to the order.
    fn step(&self, text: &str, left_out: &mut Vec<String>) -> Result<Option<Step>, CsvError> {
        if text.is_empty() {
            return Ok(None);
        }
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() < text.len() && SHARDING.contains(&rest) {
            left_out.push(text.to_owned());
            return Ok(None);
        }
        if rest.len() < text.len() && TRANSFERS.iter().any(|name| rest.starts_with(name)) {
            return self.refuse(text, "a pass; transfers belong to the compute_comms dialect, this is compute_only");
        }
        let Some(inner) = text.strip_prefix('(') else {
            return self.action(text).map(|action| Some(Step::One(action)));
        };
        let pair = inner.strip_suffix(")OVERLAP_F_B").and_then(|inner| inner.split_once(';'));
        let Some((first, second)) = pair else {
            return self.refuse(text, "a pair such as `(0F3;3B1)OVERLAP_F_B`");
        };
        let (forward, backward) = (self.action(first)?, self.action(second)?);
        if forward.pass != Pass::F || !backward.pass.is_backward() {
            return self.refuse(text, "a pair of a forward and a backward such as `(0F3;3B1)OVERLAP_F_B`");
        }
        Ok(Some(Step::Pair { forward, backward }))
    }

    fn action(&self, text: &str) -> Result<Action, CsvError> {
        const EXPECTED: &str = "an action such as `2F0`: stage, F, B, I or W, micro-batch";
        let letter = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (stage, rest) = text.split_at(letter);
        let mut rest = rest.chars();
        let pass = match rest.next() {
            Some('F') => Pass::F,
            Some('B') => Pass::BW,
            Some('I') => Pass::B,
            Some('W') => Pass::W,
            _ => return self.refuse(text, EXPECTED),
        };
        let microbatch = rest.as_str();
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|n| is_number && *n <= LARGEST)
        };
        match (number(stage), number(microbatch)) {
            (Some(stage), Some(microbatch)) => Ok(Action { pass, stage, microbatch }),
            _ => self.refuse(text, EXPECTED),
        }
    }
}
