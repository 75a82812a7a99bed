//! Where time and memory of each stage go.

use super::number::gigabytes;
use super::{Align, Style, Table, percent};
use crate::estimate::{Estimate, StageEstimate};

/// Stages listed; of longer pipelines the first and the last ones, the slowest and the fullest.
const LISTED: usize = 20;
/// Stages at either end of a long pipeline.
const ENDS: usize = 7;

/// Consecutive stages whose cells are alike.
struct Alike {
    first: u32,
    last: u32,
    cells: Vec<String>,
    waiting: f64,
    bytes: f64,
}

/// Rows with runs of like ones as one; `None` stands for rows left out.
fn rows(estimate: &Estimate, cells: impl Fn(&StageEstimate) -> Vec<String>) -> Vec<Option<Vec<String>>> {
    let mut list: Vec<Alike> = Vec::new();
    for s in &estimate.stages {
        let cells = cells(s);
        match list.last_mut() {
            Some(known) if known.cells == cells => known.last = s.stage,
            _ => list.push(Alike {
                first: s.stage,
                last: s.stage,
                cells,
                waiting: s.time.bubble_s,
                bytes: s.memory.reserved_bytes,
            }),
        }
    }
    let most = |f: fn(&Alike) -> f64| {
        (0..list.len()).max_by(|a, b| f(&list[*a]).total_cmp(&f(&list[*b])).then(b.cmp(a))).unwrap_or(0)
    };
    let (slowest, fullest) = (most(|r| -r.waiting), most(|r| r.bytes));
    let shown = |i: usize| list.len() <= LISTED || i < ENDS || i + ENDS >= list.len() || i == slowest || i == fullest;
    let mut out = Vec::new();
    for (i, row) in list.iter().enumerate() {
        if shown(i) {
            let Alike { first, last, cells, .. } = row;
            let stage = if first == last { first.to_string() } else { format!("{first}-{last}") };
            out.push(Some(std::iter::once(stage).chain(cells.iter().cloned()).collect()));
        } else if out.last().is_some_and(Option::is_some) {
            out.push(None);
        }
    }
    out
}

fn table(columns: &[&str], rows: Vec<Option<Vec<String>>>, nothing: &str, style: Style) -> String {
    let columns: Vec<(&str, Align)> =
        columns.iter().enumerate().map(|(i, c)| (*c, if i == 0 { Align::Left } else { Align::Right })).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(row.unwrap_or_else(|| vec!["...".into()]));
    }
    table.without(|cell| cell == nothing || cell == "...").render(style)
}

/// Time of one iteration by stage and cause.
pub(super) fn time(estimate: &Estimate, style: Style) -> String {
    let total = estimate.iteration_time_s;
    let (unit, factor) = if total < 1.0 { ("milliseconds", 1e3) } else { ("seconds", 1.0) };
    let digits = match total * factor {
        x if x >= 1000.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    let say = |s: f64| format!("{:.digits$}", s * factor);
    let rows = rows(estimate, |s| {
        let t = &s.time;
        let causes =
            [t.compute_s, t.tp_s, t.cp_s, t.ep_s, t.reshard_s, t.pp_s, t.bubble_s, t.dp_s, t.optimizer_s, t.jitter_s];
        causes.into_iter().chain([causes.iter().sum()]).map(say).collect()
    });
    let columns =
        ["stage", "compute", "TP", "CP", "EP", "reshard", "PP", "bubble", "exposed DP", "optimizer", "jitter", "total"];
    let title = style.title(&format!("Time of one iteration, {unit}"));
    format!("{title}\n{}", table(&columns, rows, &say(0.0), style))
}

/// Gigabytes of one device of each stage by kind.
pub(super) fn memory(estimate: &Estimate, style: Style) -> String {
    let rows = rows(estimate, |s| {
        let m = &s.memory;
        let outside = m.reserved_bytes - m.allocated_bytes;
        let kinds = [
            m.weights_bytes,
            m.gradients_bytes,
            m.optimizer_bytes,
            m.activations_bytes,
            m.head_bytes,
            m.buffers_bytes,
            outside,
            m.reserved_bytes,
        ];
        kinds.into_iter().map(gigabytes).chain([percent(s.margin)]).collect()
    });
    let columns =
        ["stage", "weights", "gradients", "optimizer", "activations", "head", "buffers", "allocator", "total", "free"];
    table(&columns, rows, "0.0", style)
}
