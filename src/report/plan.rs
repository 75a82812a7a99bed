//! The answer of planning.

use super::number::{gigabytes, power_of_ten};
use super::table::paragraph;
use super::{Align, Style, Table, breakdown, grouped, layers, percent, seconds, shape, short_count};
use crate::estimate::Estimate;
use crate::plan::{Plan, Spine};
use crate::search::budget::Stop;
use crate::space::answer::{Answer, NEAR_TIE, Reason, WORTH_IT};
use crate::space::planner::Inputs;
use crate::space::stability::What;
use crate::units::Seconds;
use std::fmt::Write;

/// Clusters up to this size are listed device by device even where devices stand in their own order.
const LISTED_DEVICES: u64 = 16;

/// What was asked, in one line.
pub(super) fn question(inputs: &Inputs) -> String {
    let pools = inputs.cluster.pools.iter().map(|p| format!("{} {}", grouped(p.devices as f64), p.device.name));
    question_on(inputs, &pools.collect::<Vec<_>>().join(" + "))
}

/// What was asked, on these devices.
pub(super) fn question_on(inputs: &Inputs, devices: &str) -> String {
    let (model, job) = (&inputs.model, &inputs.job);
    let total = model.parameters_total() as f64;
    let active = model.parameters_active() as f64;
    let size = if active < total {
        format!("{} parameters, {} active", short_count(total), short_count(active))
    } else {
        format!("{} parameters", short_count(total))
    };
    format!(
        "{} ({size}) on {devices}, global batch {}, sequence {}, {}",
        model.name,
        grouped(job.global_batch as f64),
        grouped(job.sequence as f64),
        job.precision
    )
}

/// The two or three lines that matter most of a price.
pub(super) fn headline(estimate: &Estimate, inputs: &Inputs, style: Style) -> String {
    let fits = if estimate.fits { style.good("fits") } else { style.bad("does not fit") };
    let free = estimate.stages.iter().map(|s| s.margin).fold(1.0, f64::min);
    let shown = inputs.cluster.pools.first().map_or(0.0, |p| inputs.job.memory_limit.unwrap_or(p.device.memory).0);
    let memory = if estimate.fits {
        format!("{} of {} GB in use, {} free", gigabytes(estimate.peak_memory_bytes), gigabytes(shown), percent(free))
    } else {
        format!(
            "{} GB needed, {} GB usable of {} GB",
            gigabytes(estimate.peak_memory_bytes),
            gigabytes(estimate.usable_memory_bytes),
            gigabytes(shown)
        )
    };
    let money = estimate.dollars_per_1e9_tokens.map_or(String::new(), |d| format!(", ${d:.0} per 1e9 tokens"));
    let mut out = String::new();
    let _ = writeln!(
        out,
        "  {} per iteration (p10 to p90: {} to {} s)\n  {} tokens/s ({} per device){money}",
        style.title(&format!("{} s", seconds(estimate.iteration_time_s))),
        seconds(estimate.iteration_time_p10_p90_s[0]),
        seconds(estimate.iteration_time_p10_p90_s[1]),
        grouped(estimate.tokens_per_s),
        grouped(estimate.tokens_per_s_per_device)
    );
    let _ = writeln!(
        out,
        "  MFU {} counting causal attention, {} counting full attention; bubble {}",
        percent(estimate.mfu),
        percent(estimate.mfu_full_attention),
        percent(estimate.bubble)
    );
    let _ = writeln!(out, "  {fits}: {memory}");
    out
}

/// A plan and its price under a title.
pub(super) fn priced(plan: &Plan, estimate: &Estimate, inputs: &Inputs, spine: &Spine, style: Style) -> String {
    let shape = shape(plan, spine, &inputs.job);
    let mut out = paragraph("  ", &format!("{}, {} per rank", shape.line(), shape.batches()));
    out.push_str(&headline(estimate, inputs, style));
    out.push('\n');
    out.push_str(&layers::stages(plan, spine, style));
    let _ = write!(out, "\n{}", breakdown::time(estimate, style));
    let _ = writeln!(out, "\n{}", style.title("Memory of one device, GB"));
    out.push_str(&breakdown::memory(estimate, style));
    out
}

/// The whole report.
pub fn plan(answer: &Answer, inputs: &Inputs, style: Style) -> String {
    let spine = Spine::new(&inputs.model, &inputs.job);
    let mut out = paragraph("", &question(inputs));
    let _ = writeln!(out, "\n{}", style.title("Best plan"));
    out.push_str(&priced(&answer.plan, &answer.estimate, inputs, &spine, style));
    if let Some(schedule) = &answer.schedule {
        out.push_str(&super::joint::schedule(schedule, answer, style));
    }
    out.push('\n');
    out.push_str(&uniform(answer, inputs, &spine, style));
    out.push_str(&alternatives(answer, inputs, &spine, style));
    out.push_str(&why(&answer.reasons, style));
    out.push_str(&placement(answer, style));
    let _ = writeln!(out, "\n{}", style.title("How sure"));
    out.push_str(&search(answer, inputs, style));
    out.push_str(&stability(answer, inputs, &spine, style));
    notes(&mut out, &answer.notes, style);
    out
}

/// Why each dimension is as it is.
pub(super) fn why(reasons: &[Reason], style: Style) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    for r in reasons {
        table.row([r.dimension.to_owned(), r.reason.clone()]);
    }
    format!("\n{}\n{}", style.title("Why"), table.render(style))
}

/// Remarks at the end of a report.
pub(super) fn notes(out: &mut String, notes: &[String], style: Style) {
    if notes.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", style.title("Notes"));
    for note in notes {
        out.push_str(&paragraph("  - ", note));
    }
}

fn uniform(answer: &Answer, inputs: &Inputs, spine: &Spine, style: Style) -> String {
    let mut out =
        format!("{}\n", style.title("Best uniform plan (one strategy for all layers, which every framework runs)"));
    let Some(u) = &answer.uniform else {
        out.push_str(&paragraph("  ", "None fits: only a plan with several strategies does."));
        return out;
    };
    let gain = answer.layerwise_gain.unwrap_or(0.0);
    if u.plan == answer.plan {
        out.push_str("  It is the plan above: layer-wise strategies gain nothing.\n");
        return out;
    }
    let shape = shape(&u.plan, spine, &inputs.job);
    out.push_str(&paragraph("  ", &format!("{}, {} per rank", shape.line(), shape.batches())));
    let _ = writeln!(
        out,
        "  {} s per iteration, {} tokens/s per device, {} GB",
        seconds(u.estimate.iteration_time_s),
        grouped(u.estimate.tokens_per_s_per_device),
        gigabytes(u.estimate.peak_memory_bytes)
    );
    let verdict = if answer.recommended == "uniform" {
        style.warn(&format!(
            "recommended: layer-wise strategies gain {}, less than {}",
            percent(gain),
            percent(WORTH_IT)
        ))
    } else {
        style.good(&format!("layer-wise strategies gain {} over it", percent(gain)))
    };
    let _ = writeln!(out, "  {verdict}");
    out.push_str(&layers::stages(&u.plan, spine, style));
    out
}

fn alternatives(answer: &Answer, inputs: &Inputs, spine: &Spine, style: Style) -> String {
    if answer.alternatives.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.title("Alternatives"));
    let mut table = Table::new(&[
        ("", Align::Right),
        ("slower", Align::Right),
        ("GB", Align::Right),
        ("", Align::Left),
        ("plan", Align::Left),
    ]);
    for (i, a) in answer.alternatives.iter().enumerate() {
        let shape = shape(&a.plan, spine, &inputs.job);
        table.row([
            format!("{}.", i + 2),
            percent(a.slower),
            gigabytes(a.estimate.peak_memory_bytes),
            if a.near_tie { "near-tie".into() } else { String::new() },
            format!("{}, {}", shape.line(), shape.batches()),
        ]);
        table.row([String::new(), String::new(), String::new(), String::new(), a.gives_up.clone()]);
    }
    out.push_str(&table.render(style));
    if answer.alternatives.iter().any(|a| a.near_tie) {
        let near = format!("Near-ties are within {:.0} %: no cost model tells them apart.", 100.0 * NEAR_TIE);
        out.push_str(&paragraph("  ", &near));
    }
    out
}

fn placement(answer: &Answer, style: Style) -> String {
    let title = style.title("Placement");
    let in_order = answer.placement.iter().flat_map(|s| &s.devices).copied().eq(0..answer.plan.devices);
    if answer.placement.is_empty() || (in_order && answer.plan.devices > LISTED_DEVICES) {
        // The table of stages says it all.
        return String::new();
    }
    let mut out = format!("\n{title}\n");
    let mut table =
        Table::new(&[("stage", Align::Left), ("devices", Align::Left), ("tensor-parallel groups", Align::Left)]);
    for s in &answer.placement {
        let groups = if s.tp_groups.iter().all(|g| g.len() == 1) {
            "none".to_owned()
        } else {
            s.tp_groups.iter().map(|g| format!("[{}]", list(g))).collect::<Vec<_>>().join(" ")
        };
        table.row([s.stage.to_string(), list(&s.devices), groups]);
    }
    out.push_str(&table.render(style));
    out
}

/// Numbers with runs as `a-b`.
fn list(numbers: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let say = |(a, b): &(u64, u64)| match b - a {
        0 => a.to_string(),
        1 => format!("{a} {b}"),
        _ => format!("{a}-{b}"),
    };
    runs.iter().map(say).collect::<Vec<_>>().join(" ")
}

/// Why a search stopped, in words.
pub(super) fn stopped(stop: Stop, asked: Option<u64>) -> &'static str {
    match stop {
        Stop::Evaluations if asked.is_none() => "as many evaluations as are usual were made (--max-evals for more)",
        Stop::Optimal => "the best plan meets the bound",
        Stop::Exhausted => "nothing was left to try",
        Stop::Target => "the gap asked for was reached",
        Stop::Evaluations => "the evaluations were used up",
        Stop::Deadline => "the time was used up",
        Stop::Interrupted => "it was interrupted",
        Stop::Stalled => "nothing improved any more",
        Stop::Failed => "evaluations failed",
    }
}

/// Whether the choice stands within its intervals, and what keeps it from running out of memory.
fn stability(answer: &Answer, inputs: &Inputs, spine: &Spine, style: Style) -> String {
    let s = &answer.stability;
    let either =
        |t: f64| if t < 1.0 { format!("{} faster", percent(1.0 - t)) } else { format!("{} slower", percent(t - 1.0)) };
    let [low, high] = s.times.map(either);
    let mut out = match s.overtaken.iter().max_by(|a, b| a.faster.total_cmp(&b.faster)) {
        _ if s.rivals == 0 => String::new(),
        None => {
            let text = format!(
                "{}: the fastest of {} plans as well where kernels alone, or links alone, are {low} or {high} than assumed \
                 (p10 and p90 of published runs)",
                style.good("stable"),
                s.rivals + 1
            );
            paragraph("  ", &text)
        }
        Some(worst) => {
            let what = match worst.what {
                What::Kernels => "kernels",
                What::Links => "links",
            };
            let shape = shape(&worst.by, spine, &inputs.job);
            let text = format!(
                "{}: with {what} {} than assumed (within p10 to p90 of published runs) {}, {} per rank, is {} faster",
                style.warn("not stable"),
                either(worst.times),
                shape.line(),
                shape.batches(),
                percent(worst.faster)
            );
            paragraph("  ", &text)
        }
    };
    let m = &s.memory;
    let text = if m.kept {
        format!(
            "Memory: nine runs in ten stay within {} GB (p90), which leaves {} GB of the {} GB that a device shows",
            gigabytes(m.p90_bytes),
            gigabytes(m.shown_bytes - m.p90_bytes),
            gigabytes(m.shown_bytes)
        )
    } else {
        format!(
            "{}: one run in ten needs more than {} GB (p90), and a device shows {} GB; --memory {:.1}GB plans with that margin",
            style.warn("memory may not do"),
            gigabytes(m.p90_bytes),
            gigabytes(m.shown_bytes),
            // Rounded down: following it once is enough.
            (m.limit_bytes / 1e8).floor() / 10.0
        )
    };
    out.push_str(&paragraph("  ", &text));
    out
}

fn search(answer: &Answer, inputs: &Inputs, style: Style) -> String {
    let mut out = String::new();
    let s = &answer.search;
    match &answer.bound {
        Some(b) => {
            let gap = if b.gap < 5e-5 {
                "optimal for this cost model".to_owned()
            } else {
                format!("optimal for this cost model to {}", percent(b.gap))
            };
            let text =
                format!("{}: no plan of the space is faster than {} s", style.good(&gap), seconds(b.objective_s));
            out.push_str(&paragraph("  ", &text));
        }
        None => out.push_str(&paragraph("  ", "No bound was proven: this search only samples the space.")),
    }
    let text = format!(
        "{} plans in the space; {} searched with {} evaluations ({} cache hits) in {}; it stopped because {}",
        power_of_ten(answer.space_size_log10),
        s.backend,
        grouped(s.evaluations as f64),
        grouped(s.cache_hits as f64),
        Seconds(s.wall_s),
        stopped(s.stop_reason, inputs.search.max_evals)
    );
    out.push_str(&paragraph("  ", &text));
    out
}
