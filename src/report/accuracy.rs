//! Predictions against measurements, by group.

use super::table::paragraph;
use super::{Align, Style, Table, percent};
use crate::accuracy::held_out::{HeldOut, SEEN};
use crate::accuracy::{Quantity, Repeats, Set};
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
        ("noise", Align::Right),
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
            set.noise.map(noise).unwrap_or_default(),
            set.coverage.map(percent).unwrap_or_default(),
            set.calibrated.map(|c| percent(c.errors.mape)).unwrap_or_default(),
            set.crash_auc.map(|a| format!("{a:.2}")).unwrap_or_default(),
            set.left_out.values().sum::<usize>().to_string(),
        ]);
    }
    out.push_str(&table.render(style));
    out.push_str(&paragraph(
        "  ",
        "set: the rows of one source, device or framework (--by); rows: those that were compared; mean, median, 95 %, worst: of \
         the errors' sizes, (predicted - measured) / measured, 95 % being the size that 95 of 100 rows stay below; bias: mean of \
         the errors with their sign, below zero where predictions are too small; tau: how well rival plans of one question are \
         ranked, Kendall's rank correlation, 1 for the same order, 0 for chance, -1 for the reverse; noise: least mean error of \
         any one number for runs that are priced alike, how many those are, and tau of their medians; inside: share of \
         measurements within the p10 to p90 of their predictions, 80 % where those are right; 20 seen: mean error of the other \
         rows when half of a set, at most 20, scales its prices; auc: of a run that crashed and one that did not, both priced \
         above half of their device's memory, the chance that the crashed one has the higher price, 1 at best, 0.5 for a guess; \
         left out: rows that were not compared, for the reasons below",
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

fn noise(noise: Repeats) -> String {
    let tau = noise.kendall_tau.map(|t| format!(", {t:.2}")).unwrap_or_default();
    format!("{} of {}{tau}", percent(noise.mape), noise.rows)
}

/// Sources as if no constant had seen them; nothing where that was not asked for.
pub fn held_out(sources: &[HeldOut], style: Style) -> String {
    if sources.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.title("Held out by source, constants fitted anew to the others"));
    let mut table = Table::new(&[
        ("set", Align::Left),
        ("rows", Align::Right),
        ("in use", Align::Right),
        ("some seen", Align::Right),
        ("none seen", Align::Right),
        ("median", Align::Right),
        ("bias", Align::Right),
        ("fitted on", Align::Right),
    ]);
    for s in sources {
        table.row([
            s.source.chars().take(40).collect(),
            s.entirely.rows.to_string(),
            percent(s.seen_all.mape),
            s.calibrated.map(|c| percent(c.mape)).unwrap_or_default(),
            percent(s.entirely.mape),
            percent(s.entirely.median),
            percent(s.entirely.bias),
            s.fitted_on.to_string(),
        ]);
    }
    out.push_str(&table.render(style));
    let text = format!(
        "mean errors with the constants in use, which have seen every source; with constants fitted to the other sources and to \
         half of the source's rows, at most {SEEN}, on the rest of them; and with constants fitted to the other sources alone \
         (with its median and bias)"
    );
    out.push_str(&paragraph("  ", &text));
    out
}
