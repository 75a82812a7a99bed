//! The schedule of a plan: what it gains over the usual ones, what it was compared with, what else was looked at.

use super::number::gigabytes;
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds};
use crate::space::answer::Answer;
use crate::space::check::CheckedSchedule;
use crate::space::schedule::joint::{Ended, PlanSchedule, Source, Tried};
use std::fmt::Write;

/// Devices, known schedules and candidates that are listed.
const LISTED: usize = 64;
const SHOWN_KNOWN: usize = 5;
const SHOWN_CANDIDATES: usize = 12;

/// The schedule of an answer.
pub(super) fn schedule(s: &PlanSchedule, answer: &Answer, style: Style) -> String {
    let mut out = format!("\n{}\n", style.title("Schedule"));
    let shape = format!("{}, {}, {} micro-batches", s.order.name, s.shape, s.order.micro_batches);
    out.push_str(&paragraph("  ", &shape));
    let usual = match (s.planned_iteration_time_s, s.gain) {
        (Some(usual), Some(gain)) => {
            let shorter =
                if gain > 0.0 { style.good(&format!("{} shorter", percent(gain))) } else { "no shorter".into() };
            format!("{} s is the best plan under 1F1B or interleaved 1F1B: {shorter}", seconds(usual))
        }
        _ => style.good("no plan fits under 1F1B or interleaved 1F1B"),
    };
    let text = format!("{} s per iteration; {usual}", seconds(s.iteration_time_s));
    out.push_str(&paragraph("  ", &text));
    if let Some(known) = &s.interleaved {
        let text = format!(
            "interleaved 1F1B of these layers is best with {} chunks per stage: {} s",
            known.chunks_per_stage,
            seconds(known.iteration_time_s)
        );
        out.push_str(&paragraph("  ", &text));
    }
    let bound = if s.gap < 5e-5 {
        style.good("optimal for this plan: no schedule of it is faster")
    } else {
        format!("no schedule of this plan is faster than {} s: gap {}", seconds(s.bound_s), percent(s.gap))
    };
    let penalty = match s.split_penalty {
        0.0 => String::new(),
        penalty => format!("; input and weight gradients apart take {} longer", percent(penalty)),
    };
    out.push_str(&paragraph("  ", &format!("bubble {}; {bound}{penalty}", percent(s.bubble))));
    out.push_str(&memory(&s.peak_memory_bytes, answer.estimate.usable_memory_bytes));
    known(&mut out, s, style);
    candidates(&mut out, s, style);
    out
}

fn memory(peaks: &[f64], usable: f64) -> String {
    let listed: Vec<String> = peaks.iter().take(LISTED).map(|bytes| gigabytes(*bytes)).collect();
    let more = if peaks.len() > LISTED { format!(" and {} more", peaks.len() - LISTED) } else { String::new() };
    paragraph("  ", &format!("peak memory by stage, of {} GB usable: {}{more}", gigabytes(usable), listed.join(" ")))
}

fn known(out: &mut String, s: &PlanSchedule, style: Style) {
    if s.compared.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nKnown schedules of these layers that fit");
    let mut table = Table::new(&[
        ("schedule", Align::Left),
        ("passes, s", Align::Right),
        ("GB", Align::Right),
        ("shape", Align::Left),
    ]);
    for known in s.compared.iter().take(SHOWN_KNOWN) {
        table.row([
            known.name.clone(),
            seconds(known.passes_s),
            gigabytes(known.peak_memory_bytes),
            known.shape.clone(),
        ]);
    }
    out.push_str(&table.render(style));
}

fn candidates(out: &mut String, s: &PlanSchedule, style: Style) {
    let _ = writeln!(out, "\nPlans whose schedule was searched, by bound");
    let mut table = Table::new(&[
        ("plan", Align::Left),
        ("stages", Align::Right),
        ("chunks", Align::Right),
        ("micro-batches", Align::Right),
        ("bound, s", Align::Right),
        ("1F1B, s", Align::Right),
        ("found, s", Align::Right),
    ]);
    for tried in s.candidates.iter().filter(|tried| tried.found_s.is_some()).take(SHOWN_CANDIDATES) {
        table.row([
            source(tried.source).to_owned(),
            tried.pipeline.to_string(),
            tried.chunks_per_stage.to_string(),
            tried.micro_batches.to_string(),
            seconds(tried.bound_s),
            usual(tried),
            tried.found_s.map_or_else(String::new, seconds),
        ]);
    }
    out.push_str(&table.render(style));
    let ended = match s.ended {
        Ended::Bound => "no other plan has a bound below what was found",
        Ended::Candidates => "as many plans were searched as are looked at; others have bounds below what was found",
        Ended::Deadline => "the time was used up",
        Ended::Interrupted => "it was interrupted",
    };
    let text = format!("{} plans looked at, {} schedules evaluated; {ended}", s.candidates.len(), s.evaluations);
    out.push_str(&paragraph("  ", &text));
}

fn usual(tried: &Tried) -> String {
    match tried.planned_s {
        Some(time) if tried.planned_fits => seconds(time),
        Some(_) => "does not fit".to_owned(),
        None => "does not run".to_owned(),
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::BestPlan => "best plan",
        Source::RunnerUp => "runner-up",
        Source::Uniform => "uniform",
        Source::WithoutBubble => "uniform, if nothing waited",
    }
}

/// The schedule of a plan that was given.
pub(super) fn checked(s: &CheckedSchedule, style: Style) -> String {
    let mut out = format!("\n{}\n", style.title("Schedule"));
    let usual = s.planned_iteration_time_s.map_or_else(
        || "the plan does not run under interleaved 1F1B".to_owned(),
        |time| format!("{} s under 1F1B or interleaved 1F1B", seconds(time)),
    );
    let apart = match (s.splits_backward, s.split_penalty) {
        (false, _) => "input and weight gradients in one".to_owned(),
        (true, 0.0) => "input and weight gradients apart".to_owned(),
        (true, penalty) => format!("input and weight gradients apart, {} longer", percent(penalty)),
    };
    out.push_str(&paragraph("  ", &format!("the plan's own, `{}`, {apart}; {usual}", s.name)));
    let bound = format!("no order of these passes is faster than {} s", seconds(s.bound_s));
    out.push_str(&paragraph("  ", &format!("bubble {}; {bound}", percent(s.bubble))));
    out
}
