//! The question of a schedule without a plan: devices, micro-batches, times F:B:W, hops, memory.
//!
//! Times are those of all layers of one device for one micro-batch, in any unit; a hop is a latency in the same unit;
//! memory counts activations of all layers of one device for one micro-batch, held at once until W.

use super::shape::{Case, Shape};
use crate::error::{InputError, Kind};
use crate::pipeline::bounds::Backward;
use crate::pipeline::{Costs, Placement, StageFlags};
use serde::{Deserialize, Serialize};

/// What is to be short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// From the first start to the last end: the optimizer waits for all devices.
    #[default]
    Makespan,
    /// The largest time between first start and last end of one device (Qi 2024, "Zero bubble pipeline parallelism",
    /// section 4: the optimizer does not wait).
    Span,
}

/// Which maps from stages to devices are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Placements {
    /// Stage `x` on device `x mod p`.
    Loop,
    /// Down and up alternately.
    V,
    /// Both.
    #[default]
    Any,
}

/// Which backwards are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Backwards {
    /// B and W apart (torch.compile refuses that).
    Split,
    /// Both gradients in one pass.
    Fused,
    /// Both.
    #[default]
    Any,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleQuestion {
    /// Devices.
    pub devices: usize,
    /// Micro-batches.
    pub micro_batches: usize,
    /// Times of F, B and W.
    pub times: [f64; 3],
    /// Latency of a hop between devices.
    #[serde(default)]
    pub comm: f64,
    /// Most activations of a device; none is no limit.
    #[serde(default)]
    pub memory: Option<f64>,
    /// Chunks of a device; none tries several.
    #[serde(default)]
    pub chunks: Option<usize>,
    /// Maps.
    #[serde(default)]
    pub placement: Placements,
    /// Backwards.
    #[serde(default)]
    pub backward: Backwards,
    /// Share by which B and W apart take longer than both in one.
    #[serde(default)]
    pub split_penalty: f64,
    /// Share of its activation that a stage keeps if it recomputes; none lets no stage recompute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<f64>,
    /// What is to be short.
    #[serde(default)]
    pub objective: Objective,
}

/// Most passes of a schedule, which bounds memory (tens of bytes each) and time.
pub const MOST_PASSES: usize = 2_000_000;
/// Longest time, in any unit: sums of them must stay numbers.
const MOST_TIME: f64 = 1e15;
/// Chunks tried in a loop if the question names none; two chunks in a V.
const USUAL_CHUNKS: [usize; 3] = [1, 2, 4];
/// Most chunks of a device.
const MOST_CHUNKS: usize = 64;

impl ScheduleQuestion {
    /// Refuses numbers that make no sense.
    ///
    /// # Errors
    /// [`InputError`] names the flag.
    pub fn check(&self) -> Result<(), InputError> {
        let invalid = |field: &str| InputError::new(Kind::InvalidValue).at(field);
        for (field, n) in [("devices", self.devices), ("micro-batches", self.micro_batches)] {
            if n == 0 {
                return Err(invalid(field).found(n).expected("at least 1"));
            }
        }
        for (name, time) in ["F", "B", "W"].into_iter().zip(self.times) {
            let least = if name == "W" { 0.0 } else { f64::MIN_POSITIVE };
            if !(least..=MOST_TIME).contains(&time) {
                let least = if name == "W" { "not negative" } else { "above zero" };
                let expected = format!("a time that is {least}, at most {MOST_TIME:e}");
                return Err(invalid(&format!("times.{name}")).found(time).expected(expected));
            }
        }
        for (field, value) in [("comm", self.comm), ("split-penalty", self.split_penalty)] {
            if !(0.0..=MOST_TIME).contains(&value) {
                return Err(invalid(field).found(value).expected(format!("0 to {MOST_TIME:e}")));
            }
        }
        if let Some(memory) = self.memory.filter(|memory| !(memory.is_finite() && *memory > 0.0)) {
            return Err(invalid("memory").found(memory).expected("a number above zero"));
        }
        if let Some(share) = self.recompute.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(invalid("recompute").found(share).expected("a share from 0 to 1"));
        }
        match (self.chunks, self.placement) {
            (Some(v), _) if !(1..=MOST_CHUNKS).contains(&v) => {
                return Err(invalid("chunks").found(v).expected(format!("1 to {MOST_CHUNKS}")));
            }
            (Some(1), Placements::V) => {
                return Err(invalid("chunks").found(1).expected("at least 2: a V goes down and up"));
            }
            _ => {}
        }
        let chunks = self.chunks.unwrap_or(1).max(if self.placement == Placements::V { 2 } else { 1 });
        let stages = self.devices.checked_mul(3 * chunks);
        let passes = stages.and_then(|n| n.checked_mul(self.micro_batches));
        if passes.is_none_or(|n| n > MOST_PASSES) {
            let most = MOST_PASSES / stages.unwrap_or(usize::MAX).max(1);
            let found = format!("{} devices with {} micro-batches", self.devices, self.micro_batches);
            let error = invalid("micro-batches").found(found);
            let error = error.expected(format!("at most {MOST_PASSES} passes"));
            return Err(match most {
                0 => error,
                most => error.help(format!(
                    "at most {most} micro-batches; more of them repeat the middle of the schedule, each taking {} more",
                    self.times.iter().sum::<f64>()
                )),
            });
        }
        Ok(())
    }

    /// The least memory with which some schedule runs: one activation of every chunk of a device.
    pub const LEAST_MEMORY: f64 = 1.0;

    /// Everything that a schedule may look like.
    ///
    /// # Errors
    /// As [`ScheduleQuestion::check`].
    pub fn case(&self) -> Result<Case, InputError> {
        self.check()?;
        let fits = |v: &usize| 3 * self.devices * v * self.micro_batches <= MOST_PASSES;
        let loops: Vec<usize> = match (self.chunks, self.placement) {
            (_, Placements::V) => Vec::new(),
            (Some(v), _) => vec![v],
            (None, Placements::Loop) => vec![1],
            (None, Placements::Any) => USUAL_CHUNKS.into_iter().filter(fits).collect(),
        };
        let vees: Vec<usize> = match (self.chunks, self.placement) {
            (_, Placements::Loop) => Vec::new(),
            (Some(v), _) => vec![v],
            (None, _) => vec![2],
        };
        let vees = vees.into_iter().filter(|v| *v > 1).filter(fits);
        let maps = loops.into_iter().map(|v| Placement::looped(self.devices, v));
        let maps = maps.chain(vees.map(|v| Placement::wave(self.devices, v)));
        // Split backwards are never slower than fused ones at the same times: W may follow its B at once.
        let kinds: &[Backward] = match self.backward {
            Backwards::Split => &[Backward::Split],
            Backwards::Fused => &[Backward::Fused],
            Backwards::Any if self.split_penalty > 0.0 => &[Backward::Split, Backward::Fused],
            Backwards::Any => &[Backward::Split],
        };
        let recomputes = self.recompute.is_some() && self.memory.is_some();
        let patterns = |map: Placement| {
            let flags = if recomputes { recomputing(&map) } else { vec![Vec::new()] };
            flags.into_iter().map(move |flags| (map.clone(), flags))
        };
        let shapes = maps
            .flat_map(patterns)
            .flat_map(|(map, flags)| kinds.iter().map(move |kind| (map.clone(), flags.clone(), *kind)));
        let shapes = shapes.map(|(placement, flags, kind)| {
            let slower = if kind == Backward::Split { 1.0 + self.split_penalty } else { 1.0 };
            let [f, b, w] = self.times;
            let costs = Costs::table(&placement, &flags, f, b * slower, w * slower, self.comm);
            let costs = costs.with_kept(self.recompute.unwrap_or(0.0));
            let costs = match self.memory {
                Some(memory) => costs.with_limit(memory),
                None => costs,
            };
            Shape::flagged(placement, flags, costs, kind, self.micro_batches)
        });
        Ok(Case { shapes: shapes.collect(), microbatches: self.micro_batches, objective: self.objective })
    }
}

/// Which stages may recompute: none, or the first ones of the pipeline, whose activations are held longest, by quarters and
/// halves of a chunk of every device and by whole chunks.
fn recomputing(map: &Placement) -> Vec<Vec<StageFlags>> {
    let (p, stages) = (map.devices(), map.stages());
    let mut counts: Vec<usize> = vec![0, p.div_ceil(4)];
    counts.extend((0..stages / p).flat_map(|c| [c * p + p.div_ceil(2), (c + 1) * p]));
    counts.sort_unstable();
    counts.dedup();
    let first = |n: usize| (0..stages).map(|x| StageFlags { recompute: x < n, ..StageFlags::default() }).collect();
    counts.into_iter().map(|n| if n == 0 { Vec::new() } else { first(n) }).collect()
}
