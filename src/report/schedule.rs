//! A schedule for people: what it is worth, where the time of each device goes, who holds its memory, what decides.

use super::{Align, Style, Table, WIDTH, percent};
use crate::pipeline::Schedule;
use crate::pipeline::export::grid::grid;
use crate::space::schedule::judge::Judged;
use crate::space::schedule::{Objective, ScheduleAnswer};
use std::fmt::Write;

/// Steps of the critical path that are shown at either end.
const SHOWN_STEPS: usize = 8;
/// Known schedules that are shown.
const SHOWN_KNOWN: usize = 8;
/// Devices that are listed.
const SHOWN_DEVICES: usize = 64;

/// Up to six digits, no zeros behind.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 1e5 { 0 } else { 4 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Memory: activations where a question counts them, bytes where a plan does, of which there are many more.
fn memory(value: f64) -> String {
    if value.abs() >= 1e6 { format!("{:.2} GB", value / 1e9) } else { number(value) }
}

/// A judged schedule; `answer` says how it was found.
pub fn schedule(schedule: &Schedule, judged: &Judged, answer: Option<&ScheduleAnswer>, style: Style) -> String {
    let mut text = String::new();
    let shape = answer.map_or_else(|| schedule.placement.shape().to_owned(), |a| a.case.shapes[a.shape].name());
    let _ = writeln!(
        text,
        "{}: {} devices, {} micro-batches, {shape}",
        style.title(&schedule.name),
        schedule.devices(),
        schedule.microbatches
    );
    let _ = writeln!(
        text,
        "makespan {}, span {}, bubble {}, peak memory {}",
        number(judged.makespan),
        number(judged.span),
        percent(judged.bubble),
        memory(judged.peak_memory.iter().copied().fold(0.0, f64::max))
    );
    let what = if judged.objective == Objective::Makespan { "makespan" } else { "span" };
    if judged.optimal {
        let _ = writeln!(text, "optimal: no schedule has a smaller {what}");
    } else {
        let _ = writeln!(text, "no {what} is below {}: gap {}", number(judged.bound), percent(judged.gap));
    }
    if let Some(why) = &judged.bound_by {
        let _ = writeln!(text, "the bound is that of {why}");
    }
    if let Some(why) = &judged.exceeds {
        let _ = writeln!(text, "{} {why}", style.bad("does not fit:"));
    }
    if let Some(answer) = answer {
        compared(&mut text, answer, what, style);
    }
    devices(&mut text, judged, style);
    let path = &judged.critical_path;
    let shown = match path.len() {
        n if n > 2 * SHOWN_STEPS => {
            format!("{} .. {}", path[..SHOWN_STEPS].join(" "), path[n - SHOWN_STEPS..].join(" "))
        }
        _ => path.join(" "),
    };
    let _ = writeln!(text, "\ncritical path, {} steps: {shown}", path.len());
    let picture = grid(&judged.run);
    if picture.lines().all(|line| line.chars().count() <= WIDTH) {
        let _ = write!(text, "\n{picture}");
    }
    text
}

fn compared(text: &mut String, answer: &ScheduleAnswer, what: &str, style: Style) {
    if let Some(gain) = answer.gain.filter(|gain| *gain > 0.0) {
        let _ = writeln!(text, "{} shorter than the best known schedule within this memory", percent(gain));
    }
    let search = &answer.search;
    let _ = writeln!(
        text,
        "searched by {}: {} evaluations in {:.1} s, seed {}",
        search.backend, search.evaluations, search.wall_s, search.seed
    );
    if answer.compared.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nknown schedules within this memory, by {what}:");
    let columns =
        [("schedule", Align::Left), ("makespan", Align::Right), ("span", Align::Right), ("peak", Align::Right)];
    let mut table = Table::new(&[&columns[..], &[("shape", Align::Left)]].concat());
    for known in answer.compared.iter().take(SHOWN_KNOWN) {
        let numbers = [number(known.makespan), number(known.span), memory(known.peak)];
        table.row(std::iter::once(known.name.clone()).chain(numbers).chain([known.shape.clone()]));
    }
    text.push_str(&table.render(style));
}

fn devices(text: &mut String, judged: &Judged, style: Style) {
    let columns = ["device", "busy", "filling", "steady", "draining", "after", "peak"];
    let columns: Vec<(&str, Align)> = columns.into_iter().map(|name| (name, Align::Right)).collect();
    let mut table = Table::new(&[&columns[..], &[("held by", Align::Left)]].concat());
    for (d, device) in judged.devices.iter().take(SHOWN_DEVICES).enumerate() {
        let held: Vec<String> =
            device.held_by.iter().map(|(x, held)| format!("stage {x}: {}", memory(*held))).collect();
        let times = [device.busy, device.idle_warm_up, device.idle_steady, device.idle_cool_down, device.idle_after]
            .map(number);
        let peak = [memory(device.peak_memory), held.join(", ")];
        table.row(std::iter::once(d.to_string()).chain(times).chain(peak));
    }
    let _ = writeln!(text, "\ntime of each device, idle time by cause:");
    text.push_str(&table.render(style));
}
