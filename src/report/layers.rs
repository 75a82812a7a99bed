//! A plan in words: one line for its shape, and stage by stage which parts run under which strategy.

use super::{Align, Style, Table, grouped};
use crate::job::Job;
use crate::model::Stream;
use crate::plan::{Chunk, LayerStrategy, PartKind, Plan, Recompute, Spine};
use std::collections::BTreeMap;

/// The shape of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Stages and chunks: `PP4 x 5 chunks`.
    pub pipeline: String,
    /// The strategy of most layers: `TP4+SP CP2 DP2 ZeRO-1`.
    pub strategy: String,
    /// How many strategies the layers have between them.
    pub strategies: usize,
    /// Micro-batches per step.
    pub micro_batches: u64,
    /// Sequences of a micro-batch on one rank.
    pub samples: u64,
}

/// A strategy as people write it, with the data parallelism that follows from `devices` per stage.
pub(super) fn strategy(s: &LayerStrategy, devices: u64) -> String {
    let mut words = Vec::new();
    if s.tp > 1 {
        words.push(format!("TP{}{}", s.tp, if s.sequence_parallel { "+SP" } else { "" }));
    }
    for (name, ways) in [("Ulysses", s.ulysses), ("CP", s.cp), ("EP", s.ep), ("ETP", s.etp)] {
        if ways > 1 {
            words.push(format!("{name}{ways}"));
        }
    }
    let dp = devices / s.model_ways().max(1);
    words.push(format!("DP{dp}"));
    if s.zero > 0 {
        words.push(format!("ZeRO-{}", s.zero));
    }
    match s.recompute {
        Recompute::None => {}
        Recompute::Selective => words.push("selective recompute".into()),
        Recompute::Full => words.push("full recompute".into()),
    }
    words.join(" ")
}

/// The shape of `plan`.
pub fn shape(plan: &Plan, spine: &Spine, job: &Job) -> Shape {
    let mut layers: BTreeMap<LayerStrategy, usize> = BTreeMap::new();
    for (part, s) in plan.chunks.iter().flat_map(Chunk::parts) {
        if spine.class_of(part).kind == PartKind::Layer {
            *layers.entry(*s).or_default() += 1;
        }
    }
    let n = plan.stage_devices();
    let most = layers.iter().max_by_key(|(s, count)| (**count, std::cmp::Reverse(**s))).map(|(s, _)| *s);
    let most = most.unwrap_or(LayerStrategy::PLAIN);
    let samples = job.global_batch / (plan.micro_batches * (n / most.model_ways())).max(1);
    Shape {
        pipeline: match (plan.pipeline, plan.chunks_per_stage) {
            (p, 1) => format!("PP{p}"),
            (p, v) => format!("PP{p} VPP{v}"),
        },
        strategy: strategy(&most, n),
        strategies: layers.len(),
        micro_batches: plan.micro_batches,
        samples,
    }
}

impl Shape {
    /// The micro-batches in words: `512 micro-batches of 1 sequence`.
    pub fn batches(&self) -> String {
        format!(
            "{} micro-batch{} of {} sequence{}",
            grouped(self.micro_batches as f64),
            if self.micro_batches == 1 { "" } else { "es" },
            grouped(self.samples as f64),
            if self.samples == 1 { "" } else { "s" }
        )
    }

    /// All but the micro-batches, in one line.
    pub fn line(&self) -> String {
        match self.strategies {
            0 | 1 => format!("{} · {}", self.pipeline, self.strategy),
            n => format!("{} · mostly {} ({n} strategies)", self.pipeline, self.strategy),
        }
    }
}

/// What of a strategy the sides of the model share with the layers beside them.
fn frame(s: &LayerStrategy) -> (crate::plan::Layout, u8) {
    (s.layout(), s.zero)
}

/// Consecutive parts of one kind.
struct Span {
    kind: PartKind,
    stream: Stream,
    name: String,
    first: usize,
    last: usize,
}

/// Names of parts: the index of a layer counts within its own tower.
fn spans(spine: &Spine, parts: impl Iterator<Item = usize>, index: &[usize]) -> Vec<Span> {
    let mut list: Vec<Span> = Vec::new();
    for part in parts {
        let class = spine.class_of(part);
        match list.last_mut() {
            Some(s) if s.kind == class.kind && s.stream == class.stream && s.last + 1 == index[part] => {
                s.last = index[part];
            }
            _ => list.push(Span {
                kind: class.kind,
                stream: class.stream,
                name: class.name.clone(),
                first: index[part],
                last: index[part],
            }),
        }
    }
    list
}

fn say(spans: &[Span]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut streams: Option<Stream> = None;
    for s in spans {
        let one = s.first == s.last;
        let range = if one { s.first.to_string() } else { format!("{}-{}", s.first, s.last) };
        let layers = if one { "layer" } else { "layers" };
        let word = match (s.kind, s.stream) {
            (PartKind::Layer, stream) if streams == Some(stream) => range,
            (PartKind::Layer, Stream::Text) => format!("{layers} {range}"),
            (PartKind::Layer, Stream::Encoder) => format!("encoder {layers} {range}"),
            (PartKind::Layer, Stream::Vision) => format!("vision {layers} {range}"),
            (PartKind::Mtp, _) if one => "MTP module".to_owned(),
            (PartKind::Mtp, _) => format!("MTP modules {range}"),
            _ => s.name.clone(),
        };
        streams = (s.kind == PartKind::Layer).then_some(s.stream);
        words.push(word);
    }
    words.join(", ")
}

/// Index of each part among its like: layers count within their tower.
fn indices(spine: &Spine) -> Vec<usize> {
    let mut counts: BTreeMap<(Stream, bool), usize> = BTreeMap::new();
    spine
        .parts
        .iter()
        .map(|c| {
            let class = &spine.classes[*c as usize];
            let slot = counts.entry((class.stream, class.kind == PartKind::Layer)).or_default();
            let index = *slot;
            *slot += 1;
            index
        })
        .collect()
}

/// One stage: for each strategy, the parts under it.
type StageRow = Vec<(LayerStrategy, Vec<usize>)>;

fn stage_row(plan: &Plan, spine: &Spine, stage: u32) -> StageRow {
    let mut rows: StageRow = Vec::new();
    let chunks = plan.chunks.iter().skip(stage as usize).step_by(plan.pipeline as usize);
    let mut sides: Vec<(LayerStrategy, usize)> = Vec::new();
    for (part, s) in chunks.flat_map(Chunk::parts) {
        if spine.class_of(part).kind != PartKind::Layer {
            sides.push((*s, part));
            continue;
        }
        match rows.iter_mut().find(|(known, _)| known == s) {
            Some((_, parts)) => parts.push(part),
            None => rows.push((*s, vec![part])),
        }
    }
    for (s, part) in sides {
        // Beside layers of the same frame: what differs does not apply to embedding and head.
        match rows.iter_mut().find(|(known, _)| frame(known) == frame(&s)) {
            Some((_, parts)) => parts.push(part),
            None => rows.push((s, vec![part])),
        }
    }
    for (_, parts) in &mut rows {
        parts.sort_unstable();
    }
    rows.sort_by_key(|(_, parts)| parts.first().copied());
    rows
}

/// The plan stage by stage.
pub(super) fn stages(plan: &Plan, spine: &Spine, style: Style) -> String {
    let index = indices(spine);
    let n = plan.stage_devices();
    let rows: Vec<StageRow> = (0..plan.pipeline).map(|s| stage_row(plan, spine, s)).collect();
    let uniform = rows.iter().flatten().map(|(s, _)| *s).collect::<std::collections::BTreeSet<_>>().len() == 1;
    let alike = |a: &StageRow, b: &StageRow| {
        let counts = |r: &StageRow| r.iter().map(|(s, parts)| (*s, parts.len())).collect::<Vec<_>>();
        let plain =
            |r: &StageRow| r.iter().flat_map(|(_, parts)| parts).all(|p| spine.class_of(*p).kind == PartKind::Layer);
        plain(a) && plain(b) && counts(a) == counts(b)
    };
    let mut table = Table::new(&[
        ("stage", Align::Left),
        ("devices", Align::Left),
        ("strategy", Align::Left),
        ("parts", Align::Left),
    ]);
    let mut first = 0;
    while first < rows.len() {
        let mut last = first;
        // Long pipelines of like stages are one line.
        while plan.pipeline as usize > LISTED_STAGES && last + 1 < rows.len() && alike(&rows[first], &rows[last + 1]) {
            last += 1;
        }
        let range = |a: u64, b: u64| if a == b { a.to_string() } else { format!("{a}-{b}") };
        for (i, (s, parts)) in rows[first].iter().enumerate() {
            let mut text = say(&spans(spine, parts.iter().copied(), &index));
            if last > first {
                let all = rows[first..=last].iter().filter_map(|r| r.get(i)).flat_map(|(_, parts)| parts).copied();
                let all: std::collections::BTreeSet<usize> = all.collect();
                text = format!("{} ({} each)", say(&spans(spine, all.into_iter(), &index)), parts.len());
            }
            let (stage, devices) = match i {
                0 => (range(first as u64, last as u64), range(first as u64 * n, (last as u64 + 1) * n - 1)),
                _ => (String::new(), String::new()),
            };
            table.row([stage, devices, strategy(s, n), text]);
        }
        first = last + 1;
    }
    let table = if uniform { table.without_column("strategy") } else { table };
    table.render(style)
}

/// Pipelines up to this length are listed stage by stage even where stages are alike.
const LISTED_STAGES: usize = 8;
