//! Predictions against measurements, by group.

use super::table::paragraph;
use super::{Align, Style, Table, percent};
use crate::accuracy::{Quantity, Set};
use std::fmt::Write;

/// The whole report.
pub fn accuracy(sets: &[Set], style: Style) -> String {
    let what = match sets.first().map(|s| s.quantity) {
        Some(Quantity::Memory) => "Peak memory",
        _ => "Iteration time",
    };
    let mut out = format!("{}\n", style.title(&format!("{what}: predicted against measured")));
    let mut table = Table::new(&[
        ("set", Align::Left),
        ("rows", Align::Right),
        ("mean", Align::Right),
        ("median", Align::Right),
        ("95 %", Align::Right),
        ("worst", Align::Right),
        ("bias", Align::Right),
        ("tau", Align::Right),
        ("inside", Align::Right),
        ("20 seen", Align::Right),
        ("auc", Align::Right),
        ("left out", Align::Right),
    ]);
    for set in sets {
        let e = &set.errors;
        let shown = |x: f64| if e.rows == 0 { String::new() } else { percent(x) };
        table.row([
            set.name.chars().take(30).collect(),
            e.rows.to_string(),
            shown(e.mape),
            shown(e.median),
            shown(e.p95),
            shown(e.worst),
            shown(e.bias),
            set.kendall_tau.map(|t| format!("{t:.2}")).unwrap_or_default(),
            set.coverage.map(percent).unwrap_or_default(),
            set.calibrated.map(|c| percent(c.errors.mape)).unwrap_or_default(),
            set.crash_auc.map(|a| format!("{a:.2}")).unwrap_or_default(),
            set.left_out.values().sum::<usize>().to_string(),
        ]);
    }
    out.push_str(&table.render(style));
    out.push_str(&paragraph(
        "  ",
        "inside: share of measurements within the p10 to p90 of their predictions; 20 seen: mean error of the other rows when \
         half of a set, at most 20, scales its prices; auc: crashes told from runs by their price above half of the device",
    ));
    if let Some(all) = sets.first().filter(|s| !s.left_out.is_empty()) {
        let _ = writeln!(out, "\n{}", style.title("Left out"));
        let mut reasons: Vec<(&String, &usize)> = all.left_out.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (why, count) in reasons {
            out.push_str(&paragraph("  ", &format!("{count} {why}")));
        }
    }
    out
}
