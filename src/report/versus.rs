//! Two prices side by side.

use super::number::gigabytes;
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds, shape};
use crate::estimate::Estimate;
use crate::plan::Spine;
use crate::space::answer::Answer;
use crate::space::planner::Inputs;
use crate::space::why_not::{Place, Term};
use std::fmt::Write;

fn signed(text: String, x: f64) -> String {
    if x < 0.0 { text } else { format!("+{text}") }
}

/// A table of terms, of which those that are nothing in both are left out.
pub fn sides((first, second): (&Estimate, &Estimate), rows: &[Term], style: Style) -> String {
    let mut table = Table::new(&[
        ("term", Align::Left),
        ("first", Align::Right),
        ("second", Align::Right),
        ("difference", Align::Right),
    ]);
    let time = |x: f64| format!("{} s", seconds(x));
    let total = second.iteration_time_s - first.iteration_time_s;
    table.row([
        "iteration".into(),
        time(first.iteration_time_s),
        time(second.iteration_time_s),
        signed(time(total), total),
    ]);
    let bytes = |x: f64| format!("{} GB", gigabytes(x));
    let mut memory = false;
    for row in rows {
        let d = row.second - row.first;
        let least = if row.unit == "s" { 1e-6 * first.iteration_time_s } else { 1e6 };
        if row.first.abs().max(row.second.abs()) < least {
            continue;
        }
        if row.unit == "bytes" && !memory {
            memory = true;
            let d = second.peak_memory_bytes - first.peak_memory_bytes;
            let (a, b) = (bytes(first.peak_memory_bytes), bytes(second.peak_memory_bytes));
            table.row(["fullest device".into(), a, b, signed(bytes(d), d)]);
        }
        let show = |x: f64| if row.unit == "s" { time(x) } else { bytes(x) };
        table.row([format!("  {}", row.term), show(row.first), show(row.second), signed(show(d), d)]);
    }
    table.render(style)
}

/// A variant against the plan.
pub fn versus(
    asked: &str,
    (first, second): (&Estimate, &Estimate),
    rows: &[Term],
    (answer, inputs): (&Answer, &Inputs),
    place: Place,
    style: Style,
) -> String {
    let slower = second.iteration_time_s / first.iteration_time_s - 1.0;
    let verdict =
        if slower > 0.0 { format!("{} slower", percent(slower)) } else { format!("{} faster", percent(-slower)) };
    let mut out = format!("{asked}: legal and fits; the best such plan is {}\n", style.title(&verdict));
    let spine = Spine::new(&inputs.model, &inputs.job);
    let shape = shape(&answer.plan, &spine, &inputs.job);
    out.push_str(&paragraph("  ", &format!("{}, {} per rank", shape.line(), shape.batches())));
    let _ = writeln!(out, "  place {} among {} uniform plans near the best\n", place.rank, place.of);
    out.push_str(&sides((first, second), rows, style));
    out
}
