//! A Gantt chart as SVG: a row per device, a box per pass with its micro-batch, forwards blue, backwards green, weight
//! passes amber; later chunks darker. The costs that it was drawn for stand below, because pictures travel alone.

use crate::pipeline::action::{Action, Pass};
use crate::pipeline::costs::Costs;
use crate::pipeline::schedule::Schedule;
use crate::pipeline::simulate::Run;
use std::fmt::Write;

const ROW: f64 = 26.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 30.0;

/// The chart, `width` pixels wide.
pub fn gantt(schedule: &Schedule, costs: &Costs, run: &Run, width: f64) -> String {
    let devices = schedule.devices();
    let scale = (width - LEFT - 10.0).max(1.0) / if run.makespan > 0.0 { run.makespan } else { 1.0 };
    let height = TOP + devices as f64 * ROW + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{}</text>\n",
        escape(&title(schedule, run)),
    );
    for (device, timeline) in run.timeline.iter().enumerate() {
        let y = TOP + device as f64 * ROW;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">device {device}</text>", y + 16.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"#f1f3f5\"/>",
            run.makespan * scale,
            ROW - 4.0
        );
        for timed in timeline {
            let actions: Vec<Action> = timed.step.actions().collect();
            let (x, whole) = (LEFT + timed.start * scale, (timed.end - timed.start) * scale);
            // The halves of a pair share its time, one above the other.
            let height = (ROW - 4.0) / actions.len() as f64;
            for (i, action) in actions.iter().enumerate() {
                let chunk = schedule.placement.chunks(device).position(|s| s == action.stage as usize).unwrap_or(0);
                let (fill, ink) = colours(action.pass, chunk);
                let top = y + i as f64 * height;
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{top:.1}\" width=\"{whole:.2}\" height=\"{height:.1}\" fill=\"{fill}\" \
                     stroke=\"white\" stroke-width=\"0.6\"><title>{action}: {} to {}</title></rect>",
                    timed.start, timed.end
                );
                // A number needs about seven pixels per digit.
                let label = action.microbatch.to_string();
                if whole >= 7.0 * label.len() as f64 + 2.0 {
                    let _ = write!(
                        svg,
                        "<text x=\"{:.2}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{ink}\">{label}</text>",
                        x + whole / 2.0,
                        top + height / 2.0 + 4.0
                    );
                }
                svg.push('\n');
            }
        }
    }
    let y = TOP + devices as f64 * ROW + 16.0;
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y:.1}\" fill=\"#495057\">{}</text>", escape(&stamp(costs)));
    svg.push_str("</svg>\n");
    svg
}

fn title(schedule: &Schedule, run: &Run) -> String {
    format!(
        "{}: {} devices, {} micro-batches, makespan {}, bubble {:.1} %, peak memory {}",
        schedule.name,
        schedule.devices(),
        schedule.microbatches,
        run.makespan,
        100.0 * run.bubble(),
        run.peak_memory()
    )
}

/// Smallest and largest of every cost.
fn stamp(costs: &Costs) -> String {
    let range = |name: &str, values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            format!("{name} -")
        } else if low == high {
            format!("{name} {low}")
        } else {
            format!("{name} {low} to {high}")
        }
    };
    let hops = || costs.forward_hops.iter().chain(&costs.backward_hops);
    [
        range("costs per stage: F", &mut costs.stages.iter().map(|s| s.forward)),
        range("B", &mut costs.stages.iter().map(|s| s.backward)),
        range("W", &mut costs.stages.iter().map(|s| s.weight)),
        range("hop", &mut hops().map(|h| h.latency + h.occupancy)),
        range("activation", &mut costs.stages.iter().map(|s| s.activation)),
    ]
    .join(", ")
}

/// Fill and text; each chunk is a shade darker.
fn colours(pass: Pass, chunk: usize) -> (String, &'static str) {
    let (r, g, b) = match pass {
        Pass::F => (147, 190, 236),
        Pass::B => (140, 205, 160),
        Pass::BW => (110, 190, 150),
        Pass::W => (245, 205, 120),
    };
    let shade = 0.72f64.powi(chunk.min(6) as i32);
    let darker = |c: i32| (f64::from(c) * shade) as u8;
    let ink = if chunk == 0 { "#212529" } else { "#ffffff" };
    (format!("#{:02x}{:02x}{:02x}", darker(r), darker(g), darker(b)), ink)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
