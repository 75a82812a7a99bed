//! How many devices it takes.

use super::number::gigabytes;
use super::plan::{notes, question_on};
use super::table::paragraph;
use super::{Align, Style, Table, grouped, layers, percent, seconds, shape};
use crate::plan::Spine;
use crate::space::min_gpus::{Count, MinGpus, SENSIBLE};
use crate::space::planner::Inputs;
use std::fmt::Write;

/// Numbers that do not do, from the largest down.
const LISTED: usize = 4;

/// The whole report.
pub fn min_gpus(found: &MinGpus, inputs: &Inputs, style: Style) -> String {
    let spine = Spine::new(&inputs.model, &inputs.job);
    let device = inputs.cluster.pools.first().map_or("", |p| p.device.name.as_str());
    let mut out = paragraph("", &question_on(inputs, device));
    let nodes = |c: &Count| format!("{} node{}", grouped(c.nodes as f64), if c.nodes == 1 { "" } else { "s" });
    let say = |c: &Count| format!("{} {device} ({})", style.title(&grouped(c.devices as f64)), nodes(c));
    let _ = writeln!(out, "\n{} {}", style.title("Smallest that trains:"), say(&found.smallest));
    let mut text = match found.states_need_devices {
        1 => "The model's states fit one device".to_owned(),
        n => format!("The model's states alone, sharded over all devices, need {}", grouped(n as f64)),
    };
    let refused = found.too_few.iter().rev().take(LISTED).map(|t| match t.needed_bytes {
        Some(b) => format!("{} devices would need {} GB each", grouped(t.devices as f64), gigabytes(b)),
        None => format!("{} devices cannot divide the model and the batch", grouped(t.devices as f64)),
    });
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() {
        let _ = write!(text, "; {}, {} GB usable", refused.join(", "), gigabytes(found.usable_bytes));
    }
    if !found.exact {
        text.push_str("; not every smaller number was looked at");
    }
    out.push_str(&paragraph("  ", &format!("{text}.")));
    let _ = writeln!(
        out,
        "\n{} {}",
        style.title(&format!(
            "Smallest that is sensible ({:.0} % of the best throughput per device):",
            100.0 * SENSIBLE
        )),
        say(&found.sensible)
    );
    out.push('\n');
    let rate = |c: &Count| c.estimate.tokens_per_s_per_device;
    let best = found.counts.iter().map(rate).fold(0.0, f64::max);
    let mut table = Table::new(&[
        ("devices", Align::Right),
        ("s/iteration", Align::Right),
        ("tokens/s/device", Align::Right),
        ("of best", Align::Right),
        ("GB", Align::Right),
        ("free", Align::Right),
        ("plan", Align::Left),
    ]);
    for c in &found.counts {
        let free = c.estimate.stages.iter().map(|s| s.margin).fold(1.0, f64::min);
        let shape = shape(&c.plan, &spine, &inputs.job);
        table.row([
            grouped(c.devices as f64),
            seconds(c.estimate.iteration_time_s),
            grouped(rate(c)),
            percent(rate(c) / best),
            gigabytes(c.estimate.peak_memory_bytes),
            percent(free),
            format!("{}, {}", shape.line(), shape.batches()),
        ]);
    }
    out.push_str(&table.render(style));
    let mut plans = vec![("Plan on the smallest", &found.smallest)];
    if found.sensible.devices != found.smallest.devices {
        plans.push(("Plan on the smallest that is sensible", &found.sensible));
    }
    for (title, c) in plans {
        let _ = writeln!(out, "\n{}", style.title(&format!("{title}: {} devices", grouped(c.devices as f64))));
        let shape = shape(&c.plan, &spine, &inputs.job);
        out.push_str(&paragraph("  ", &format!("{}, {} per rank", shape.line(), shape.batches())));
        out.push_str(&layers::stages(&c.plan, &spine, style));
    }
    notes(&mut out, &found.notes, style);
    out
}
