//! Why a plan costs what it costs, and the constants that this hangs on.

use super::plan::{question, why};
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds};
use crate::estimate::Estimate;
use crate::estimate::numbers::Weighed;
use crate::space::answer::Reason;
use crate::space::planner::Inputs;
use crate::units::Bytes;
use std::fmt::Write;

/// Constants named where not all are asked for.
const HEAVIEST: usize = 8;

/// Reasons and the heaviest constants.
pub fn explain(reasons: &[Reason], constants: &[Weighed], style: Style) -> String {
    let mut out = why(reasons, style);
    let _ = writeln!(out, "\n{}", style.title("What it hangs on most"));
    out.push_str(&table(constants.iter().filter(|c| !c.is_idle()).take(HEAVIEST), style));
    let carrying = constants.iter().filter(|c| !c.is_idle()).count();
    let more = format!(
        "{carrying} constants carry the answer; --numbers lists them with their sources. A weight of 0.5 means: 1 % more of \
         the constant makes the answer 0.5 % larger."
    );
    out.push_str(&paragraph("  ", &more));
    out
}

/// Every constant, the heaviest first, and those on which nothing hangs counted by name.
pub fn numbers(constants: &[Weighed], inputs: &Inputs, estimate: &Estimate, style: Style) -> String {
    let mut out = paragraph("", &question(inputs));
    let _ = writeln!(
        out,
        "\n{} s per iteration, {} of {} usable",
        seconds(estimate.iteration_time_s),
        Bytes(estimate.peak_memory_bytes),
        Bytes(estimate.usable_memory_bytes)
    );
    let _ = writeln!(out, "\n{}", style.title("Constants that carry it"));
    let (idle, carrying): (Vec<&Weighed>, Vec<&Weighed>) = constants.iter().partition(|c| c.is_idle());
    out.push_str(&table(carrying.iter().copied(), style));
    out.push_str(&paragraph(
        "  ",
        "time, memory, fill: relative change of the iteration time, of the peak memory, and of the share of usable memory it \
         takes, per relative change of the constant, from pricing the plan again with the constant 1 % up and down.",
    ));
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|c| c.name.as_str()).collect();
        let _ = writeln!(out, "\n{}", style.title(&format!("{} constants on which nothing hangs here", idle.len())));
        out.push_str(&paragraph("  ", &names.join(", ")));
    }
    let software = &inputs.cost.software;
    let ratio = |[low, high]: [f64; 2]| format!("{} to {}", percent(low - 1.0), percent(high - 1.0));
    let _ = writeln!(out, "\n{}", style.title("Intervals"));
    out.push_str(&paragraph(
        "  ",
        &format!(
            "four of five published runs lie within {} of such a time and {} of such a memory",
            ratio(software.time_spread),
            ratio(software.memory_spread)
        ),
    ));
    out
}

fn table<'w>(constants: impl Iterator<Item = &'w Weighed>, style: Style) -> String {
    let mut table = Table::new(&[
        ("constant", Align::Left),
        ("value", Align::Right),
        ("time", Align::Right),
        ("memory", Align::Right),
        ("fill", Align::Right),
        ("date", Align::Left),
        ("source", Align::Left),
    ]);
    let weight = |x: f64| if x == 0.0 { "0".to_owned() } else { format!("{x:+.3}") };
    for c in constants {
        table.row([
            c.name.clone(),
            value(c.value, c.unit),
            weight(c.time),
            weight(c.memory),
            weight(c.fullness),
            c.date.clone(),
            c.source.clone(),
        ]);
    }
    table.render(style)
}

/// A value with its unit, in the prefix that people use.
fn value(x: f64, unit: &str) -> String {
    if unit.is_empty() {
        let text = format!("{x:.4}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let scales: &[(f64, &str)] = match unit {
        "s" => &[(1.0, ""), (1e-3, "m"), (1e-6, "u")],
        _ => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
    };
    let last = scales.last().copied().unwrap_or((1.0, ""));
    let (scale, prefix) = scales.iter().copied().find(|(scale, _)| x.abs() >= *scale).unwrap_or(last);
    let text = format!("{:.2}", x / scale);
    format!("{} {prefix}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_read_as_people_write_them() {
        assert_eq!(value(989e12, "FLOP/s"), "989 TFLOP/s");
        assert_eq!(value(1.2e-6, "s"), "1.2 us");
        assert_eq!(value(0.7, ""), "0.7");
        assert_eq!(value(9.8, "B"), "9.8 B");
        assert_eq!(value(0.0, "B"), "0 B");
    }
}
