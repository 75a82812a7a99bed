//! The price of a given plan; where it does not fit: which ranks, when, made of what.

use super::number::gigabytes;
use super::plan::{notes, priced, question};
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds};
use crate::plan::Spine;
use crate::plan::file::Stated;
use crate::space::check::{Checked, Moment};
use crate::space::planner::Inputs;
use std::fmt::Write;

/// Stages that are told apart when they do not fit.
const LISTED: usize = 12;

/// A file's own figure that differs by more than this from ours was made by another version, or the plan was edited.
const SAME: f64 = 1e-9;

/// The whole report.
pub fn check(checked: &Checked, stated: Option<&Stated>, inputs: &Inputs, style: Style) -> String {
    let spine = Spine::new(&inputs.model, &inputs.job);
    let mut out = paragraph("", &question(inputs));
    let _ = writeln!(out, "\n{}", style.title("Given plan"));
    out.push_str(&priced(&checked.plan, &checked.estimate, inputs, &spine, style));
    if let Some(schedule) = &checked.schedule {
        out.push_str(&super::joint::checked(schedule, style));
    }
    if !checked.overflows.is_empty() {
        let _ = writeln!(out, "\n{}", style.bad("Does not fit"));
        let mut table = Table::new(&[
            ("stage", Align::Left),
            ("devices", Align::Left),
            ("over by", Align::Right),
            ("when", Align::Left),
        ]);
        for o in checked.overflows.iter().take(LISTED) {
            table.row([
                o.stage.to_string(),
                format!("{}-{}", o.devices[0], o.devices[0] + o.devices[1] - 1),
                format!("{} GB", gigabytes(o.needed_bytes - o.usable_bytes)),
                when(o, &checked.estimate.stages[o.stage as usize].in_flight),
            ]);
        }
        out.push_str(&table.render(style));
        if checked.overflows.len() > LISTED {
            let _ = writeln!(out, "  and {} more stages", checked.overflows.len() - LISTED);
        }
    }
    let mut remarks = Vec::new();
    if let Some(t) = stated.and_then(|s| s.iteration_time_s) {
        let ours = checked.estimate.iteration_time_s;
        if (t - ours).abs() > SAME * ours {
            remarks.push(format!(
                "the file says {} s per iteration, {} from this price: it was edited, or priced by another version",
                seconds(t),
                percent(t / ours - 1.0)
            ));
        }
    }
    remarks.extend(inputs.model.notes.iter().cloned());
    notes(&mut out, &remarks, style);
    out
}

fn when(o: &crate::space::check::Overflow, in_flight: &[f64]) -> String {
    let m = &o.memory;
    let mut kinds = [
        ("weights", m.weights_bytes),
        ("gradients", m.gradients_bytes),
        ("optimizer", m.optimizer_bytes),
        ("activations", m.activations_bytes),
        ("head", m.head_bytes),
        ("buffers", m.buffers_bytes),
    ];
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let made: Vec<String> = kinds.iter().take(3).map(|(name, b)| format!("{name} {} GB", gigabytes(*b))).collect();
    let live: f64 = in_flight.iter().sum();
    let passes = if in_flight.len() == 1 { "micro-batches" } else { "passes through its chunks" };
    let moment = match o.moment {
        Moment::SteadyState => format!("in steady state, {live:.0} {passes} in flight"),
        Moment::Head => format!("while the head computes the loss, {live:.0} {passes} in flight"),
    };
    format!("{moment}: {} of {} GB usable; {}", gigabytes(o.needed_bytes), gigabytes(o.usable_bytes), made.join(", "))
}
