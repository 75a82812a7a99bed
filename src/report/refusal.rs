//! Why nothing fits, and what would.

use super::number::gigabytes;
use super::table::paragraph;
use super::{Align, Style, Table, seconds};
use crate::space::answer::Infeasible;

/// The tightest constraint and the cheapest changes.
pub fn infeasible(why: &Infeasible, style: Style) -> String {
    let mut out = paragraph(&format!("{} ", style.bad("no plan fits:")), &why.tightest);
    if why.fixes.is_empty() {
        out.push_str(&paragraph("", "No single change that was tried makes it fit."));
        return out;
    }
    out.push_str("\nWhat would fit, cheapest change first:\n");
    let mut table = Table::new(&[("s/iteration", Align::Right), ("peak GB", Align::Right), ("change", Align::Left)]);
    for fix in &why.fixes {
        table.row([seconds(fix.iteration_time_s), gigabytes(fix.peak_memory_bytes), fix.change.clone()]);
    }
    out.push_str(&table.render(style));
    out
}
