//! What a person reads on a terminal: plans, prices, models and errors as aligned text of at most [`WIDTH`] columns.
//!
//! Every function here turns finished answers into text; nothing is computed that the JSON output does not also have.

mod accuracy;
mod accuracy_html;
mod against;
mod breakdown;
mod calibration;
mod check;
mod explain;
mod galvatron;
mod joint;
mod launch;
mod layers;

mod min_gpus;
mod model;
mod number;
mod plan;
mod refusal;
mod regret;
mod schedule;
mod style;
mod table;
mod versus;

pub use accuracy::{accuracy, held_out};
pub use accuracy_html::{PAGE_MARK, accuracy_html};
pub use against::against;
pub use calibration::{Measured, calibration, measured};
pub use check::check;
pub use explain::{explain, numbers};
pub use galvatron::galvatron;
pub use launch::{LaunchReport, better, changes, host, launch, remarks};
pub use layers::{Shape, shape};

pub use min_gpus::min_gpus;
pub use model::model;
pub use number::{grouped, percent, seconds, short_count};
pub use plan::plan;
pub use refusal::infeasible;
pub use regret::regret;
pub use schedule::schedule;
pub use style::Style;
pub use table::{Align, Table, paragraph};
pub use versus::{sides, versus};

/// Columns of a report.
pub const WIDTH: usize = 110;
