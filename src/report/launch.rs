//! A launch that was judged: what it breaks and what would be valid, what will fail later, what it means.

use super::number::gigabytes;
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds, shape};
use crate::plan::Spine;
use crate::rules::Broken;
use crate::space::answer::Answer;
use crate::space::host::HostMemory;
use crate::space::planner::Inputs;
use crate::space::remedies::Remedy;
use serde_json::Value;
use std::fmt::Write;

/// What is told of a launch.
pub struct LaunchReport<'a> {
    /// The framework.
    pub target: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Rules that it refuses by.
    pub refused: &'a [Broken],
    /// Rules that fail later.
    pub later: &'a [Broken],
    /// What runs and does not do what it seems to.
    pub advice: &'a [Broken],
    /// What the framework makes of the arguments.
    pub derived: &'a Value,
}

fn rules(out: &mut String, list: &[Broken]) {
    for b in list {
        let _ = writeln!(out, "  {}", b.id);
        out.push_str(&paragraph("    ", &format!("{}; here: {}", b.demands, b.why)));
        for instead in &b.instead {
            out.push_str(&paragraph("    -> ", instead));
        }
        let _ = writeln!(out, "    ({} {}, {})", b.framework, b.version, b.source);
    }
}

/// The whole report.
pub fn launch(report: &LaunchReport<'_>, style: Style) -> String {
    let mut out = String::new();
    let (name, version) = (report.target, report.version);
    if report.refused.is_empty() && report.later.is_empty() {
        let _ = writeln!(out, "{} {name} ({version}) takes this launch", style.good("legal:"));
    } else if report.refused.is_empty() {
        let n = report.later.len();
        let things = if n == 1 { "1 thing" } else { "what follows" };
        let _ = writeln!(
            out,
            "{} {name} ({version}) takes this launch without a word, and {things} in it will not do what it says",
            style.bad("not to be run:")
        );
    } else {
        let n = report.refused.len();
        let rules_word = if n == 1 { "rule is" } else { "rules are" };
        let _ =
            writeln!(out, "{} {name} ({version}) refuses this launch: {n} {rules_word} broken", style.bad("illegal:"));
        rules(&mut out, report.refused);
    }
    if !report.later.is_empty() {
        let _ = writeln!(out, "\n{}", style.bad("Not checked by the framework: ignored, or fails in training"));
        rules(&mut out, report.later);
    }
    if let Value::Object(fields) = report.derived {
        let known: Vec<String> = fields
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{} {}", k.replace('_', " "), layers(v)))
            .collect();
        if report.refused.is_empty() && !known.is_empty() {
            out.push_str(&paragraph("  ", &known.join(", ")));
        }
    }
    if !report.advice.is_empty() {
        let _ = writeln!(out, "\n{}", style.warn("Worth knowing"));
        for b in report.advice {
            let instead = if b.instead.is_empty() { String::new() } else { format!(" -> {}", b.instead.join(" or ")) };
            out.push_str(&paragraph("  ", &format!("{}: {}{instead}", b.demands, b.why)));
        }
    }
    out
}

/// A value in short: lists of lists as `7 8 8 7`, chunks joined by `+`.
fn layers(value: &Value) -> String {
    match value {
        Value::Array(ranks) => {
            let text: Vec<String> = ranks
                .iter()
                .map(|rank| match rank {
                    Value::Array(chunks) => chunks.iter().map(Value::to_string).collect::<Vec<_>>().join("+"),
                    other => other.to_string(),
                })
                .collect();
            text.join(" ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Remarks, a line each.
pub fn remarks(list: &[&str], style: Style) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.title("Remarks"));
    for remark in list {
        out.push_str(&paragraph("  ", remark));
    }
    out
}

/// Host memory of the fullest node, a line for each thing that it holds.
pub fn host(host: &HostMemory, style: Style) -> String {
    if host.items.is_empty() {
        return String::new();
    }
    let gb = |bytes: f64| format!("{} GB", gigabytes(bytes));
    let mut out = format!("\n{}\n", style.title("Host memory of a node"));
    for item in &host.items {
        let when = match item.moment {
            crate::estimate::host::Moment::Loading => " (while loading)",
            crate::estimate::host::Moment::Training => "",
            crate::estimate::host::Moment::Saving => " (while saving)",
        };
        let _ = writeln!(out, "  {:>9}  {}{when}", gb(item.bytes), item.what);
    }
    let text = match (host.available_bytes, host.fits) {
        (Some(has), Some(false)) => format!(
            "{} {} at the peak, a node has {}: host memory is the tightest constraint; at least {} are needed",
            style.bad("does not fit:"),
            gb(host.peak_bytes),
            gb(has),
            gb(host.peak_bytes)
        ),
        (Some(has), _) => format!("{} at the peak of the {} that a node has", gb(host.peak_bytes), gb(has)),
        (None, _) => format!("{} at the peak; what a node has is not known (--host-memory)", gb(host.peak_bytes)),
    };
    out.push_str(&paragraph("  ", &text));
    out
}

/// Single changes that help.
pub fn changes(changes: &[Remedy], style: Style) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.title("One change that would help"));
    let mut table = Table::new(&[
        ("change", Align::Left),
        ("s/iteration", Align::Right),
        ("slower", Align::Right),
        ("GB", Align::Right),
        ("free", Align::Right),
        ("host GB", Align::Right),
    ]);
    for c in changes {
        table.row([
            c.change.clone(),
            seconds(c.iteration_time_s),
            percent(c.slower),
            gigabytes(c.peak_memory_bytes),
            percent(c.margin),
            gigabytes(c.host_memory_bytes),
        ]);
    }
    out.push_str(&table.render(style));
    out
}

/// The best plan for the same target.
pub fn better(answer: &Answer, faster: f64, inputs: &Inputs, style: Style) -> String {
    let spine = Spine::new(&inputs.model, &inputs.job);
    let shape = shape(&answer.plan, &spine, &inputs.job);
    let mut out = format!("\n{}\n", style.title("What would be better"));
    let gain = if faster > 0.0 { format!("{} faster", percent(faster)) } else { "it fits".to_owned() };
    let text = format!(
        "{}, {} per rank: {} s per iteration, {gain}",
        shape.line(),
        shape.batches(),
        seconds(answer.estimate.iteration_time_s)
    );
    out.push_str(&paragraph("  ", &text));
    out
}
