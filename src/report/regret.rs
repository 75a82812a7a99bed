//! What the planner's choices among measured rivals were worth.

use super::{Align, Style, Table, percent};
use crate::accuracy::regret::Regret;
use std::fmt::Write;

/// The whole report.
pub fn regret(regret: &Regret, style: Style) -> String {
    let mut out = format!("{}\n", style.title("Regret: tokens/s lost by the choice, of the fastest rival"));
    let mut table = Table::new(&[
        ("source", Align::Left),
        ("groups", Align::Right),
        ("ours", Align::Right),
        ("second best", Align::Right),
        ("rule of thumb", Align::Right),
        ("random", Align::Right),
        ("crashes", Align::Right),
        ("left out", Align::Right),
    ]);
    for s in &regret.by_source {
        let shown = |x: f64| if s.groups == 0 { String::new() } else { percent(x) };
        table.row([
            s.source.chars().take(44).collect(),
            s.groups.to_string(),
            shown(s.mean_regret),
            shown(s.second_best),
            shown(s.rule_of_thumb),
            shown(s.random),
            s.crash_picks.to_string(),
            s.left_out.to_string(),
        ]);
    }
    out.push_str(&table.render(style));
    if !regret.unreadable.is_empty() || !regret.unreadable_runs.is_empty() {
        let (names, runs) = (regret.unreadable.len(), regret.unreadable_runs.len());
        let _ = writeln!(out, "\n  unreadable: {names} names or groups, {runs} runs");
    }
    let _ = writeln!(out, "\n  mean over sources: {}", percent(regret.mean_regret));
    out
}
