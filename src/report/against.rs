//! A plan beside the nearest run that somebody measured.

use super::number::gigabytes;
use super::table::paragraph;
use super::{Align, Style, Table, grouped, percent, seconds, short_count};
use crate::accuracy::nearest::Nearest;
use crate::space::answer::Answer;
use std::fmt::Write;

/// The section, also where no run of the table can be priced.
pub fn against(answer: &Answer, nearest: Option<&Nearest>, style: Style) -> String {
    let mut out = format!("\n{}\n", style.title("Against the nearest measured run"));
    let Some(n) = nearest else {
        out.push_str("  No run of the table states all that a price needs.\n");
        return out;
    };
    let what = format!(
        "{} ({} parameters) on {} {}, global batch {}, sequence {}: {} by {}",
        n.model,
        short_count(n.parameters as f64),
        grouped(n.devices as f64),
        n.gpu,
        grouped(n.global_batch as f64),
        grouped(n.sequence as f64),
        n.source,
        n.framework
    );
    out.push_str(&paragraph("  ", &what));
    let chunks = if n.pipeline[1] > 1 { format!(" of {} chunks", n.pipeline[1]) } else { String::new() };
    let how = format!("{} stages{chunks}, micro-batch {}, {}", n.pipeline[0], n.micro_batch, n.strategy);
    out.push_str(&paragraph("  ", &how));
    let mut table = Table::new(&[
        ("", Align::Left),
        ("this plan", Align::Right),
        ("that run, priced", Align::Right),
        ("measured", Align::Right),
    ]);
    let e = &answer.estimate;
    let rate = |s: f64| grouped(n.tokens_per_s_per_device * n.measured_s / s);
    table.row([
        "seconds per iteration".into(),
        seconds(e.iteration_time_s),
        seconds(n.priced_s),
        seconds(n.measured_s),
    ]);
    table.row(["tokens/s per device".into(), grouped(e.tokens_per_s_per_device), rate(n.priced_s), rate(n.measured_s)]);
    if let (Some(priced), Some(measured)) = (n.priced_peak_bytes, n.measured_peak_bytes) {
        table.row(["peak memory, GB".into(), gigabytes(e.peak_memory_bytes), gigabytes(priced), gigabytes(measured)]);
    }
    out.push_str(&table.render(style));
    let off = n.priced_s / n.measured_s - 1.0;
    let word = if off < 0.0 { "faster" } else { "slower" };
    let _ = writeln!(out, "  Its price is {} {word} than what was measured.", percent(off.abs()));
    out
}
