//! What a calibration found.

use super::table::paragraph;
use super::{Align, Style, Table, percent};
use crate::accuracy::calibrate::robust::Fit;
use crate::accuracy::calibrate::{BETTER, Calibration, Skipped};
use crate::accuracy::log::Times;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A file of measurements and what it changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The file.
    pub file: String,
    /// The fit.
    #[serde(flatten)]
    pub fit: Fit,
    /// What was left out before it, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Mean error of held-out samples beyond which a calibration says that it does not explain them: the upper end of the usual interval
/// of times is 1.19 (`cost::Software`).
const FAR: f64 = 0.19;

/// Names listed before the rest is counted.
const LISTED: usize = 12;

fn verdict(fitted: usize, held_out: usize, after: f64, before: f64, accepted: bool) -> String {
    let verdict = if accepted {
        "accepted".to_owned()
    } else {
        format!("refused, nothing changes: the error must fall by {} at least, less is chance", percent(1.0 - BETTER))
    };
    let mut text = format!(
        "{fitted} samples fitted it; {held_out} that it has not seen are off by {} (before: {}): {verdict}",
        percent(after),
        percent(before)
    );
    let remains = if accepted { after } else { before };
    if remains > FAR {
        text.push_str(&format!(
            ". Prices stay {} off: more than their intervals allow, so that something other than these constants decides \
             here; do not choose between plans that differ by less",
            percent(remains)
        ));
    }
    text
}

/// A calibration by the log of one plan.
pub fn calibration(found: &Calibration, times: &Times, style: Style) -> String {
    let mut out = format!("{}\n", style.title("Calibration"));
    let _ = writeln!(out, "  kernels sustain {:.3} times what was assumed", found.factor);
    let text = verdict(found.fitted, found.held_out, found.error_after, found.error_before, found.accepted);
    let _ = writeln!(out, "  {text}");
    if found.quarantined.len() > LISTED {
        let _ = writeln!(out, "  {} lines left out, the first of them:", found.quarantined.len());
    }
    for (i, seconds, reason) in found.quarantined.iter().take(LISTED) {
        let _ = writeln!(out, "  {} left out: {seconds:.4} s, {reason}", times.name(*i));
    }
    let mut reasons: BTreeMap<&str, Vec<&Skipped>> = BTreeMap::new();
    times.skipped.iter().for_each(|line| reasons.entry(&line.why).or_default().push(line));
    for (why, lines) in reasons {
        let text = format!("{} lines not used, the first {}, `{}`: {why}", lines.len(), lines[0].name, lines[0].value);
        out.push_str(&paragraph("  ", &text));
    }
    out
}

/// Calibrations by topology (what it changed, where one was given), tests and runs.
pub fn measured(topology: Option<&[String]>, files: &[Measured], style: Style) -> String {
    let mut out = String::new();
    if let Some(changes) = topology {
        let _ = writeln!(out, "{}", style.title("Topology"));
        changes.iter().for_each(|change| out.push_str(&paragraph("  ", change)));
        if changes.is_empty() {
            out.push_str("  it agrees with the cluster: nothing changes\n");
        }
    }
    for Measured { file, fit, left_out } in files {
        let _ = writeln!(out, "{}", style.title(file));
        let mut table = Table::new(&[
            ("constant", Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("factor", Align::Right),
        ]);
        let number = |x: f64| if (1e-3..1e4).contains(&x) { format!("{x:.4}") } else { format!("{x:.3e}") };
        for c in &fit.constants {
            table.row([c.name.clone(), number(c.before), number(c.after), format!("{:.3}", c.factor)]);
        }
        out.push_str(&table.render(style));
        let text = verdict(fit.fitted, fit.held_out, fit.error_after, fit.error_before, fit.accepted);
        out.push_str(&paragraph("  ", &text));
        for q in fit.quarantined.iter().take(LISTED) {
            let measured = q.measured_s.map_or("no number".to_owned(), |s| format!("{s:.6} s"));
            let text = format!("{} left out: {measured} against {:.6} s, {}", q.name, q.price_s, q.why);
            out.push_str(&paragraph("  ", &text));
        }
        if fit.quarantined.len() > LISTED {
            let _ = writeln!(out, "  and {} more", fit.quarantined.len() - LISTED);
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        left_out.iter().for_each(|(name, why)| reasons.entry(why).or_default().push(name));
        for (why, names) in reasons {
            let more = if names.len() > LISTED { format!(" and {} more", names.len() - LISTED) } else { String::new() };
            let text = format!("not used: {}{more}: {why}", names[..names.len().min(LISTED)].join(", "));
            out.push_str(&paragraph("  ", &text));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_calibration_leaves_unexplained_is_said() {
        let told = |after, before, accepted| verdict(20, 20, after, before, accepted);
        assert!(told(0.30, 0.60, true).contains("Prices stay 30"), "{}", told(0.30, 0.60, true));
        assert!(told(0.55, 0.56, false).contains("Prices stay 56"), "{}", told(0.55, 0.56, false));
        assert!(!told(0.05, 0.60, true).contains("stay") && !told(0.06, 0.07, false).contains("stay"));
    }
}
