//! Single changes of a given plan: those that make it fit, or faster, with their price. The plan stays otherwise as it is, so that
//! somebody who runs it today can try one flag after the other.

use super::check::{Checked, check};
use super::host::host;
use super::planner::Inputs;
use crate::cost::Selective;
use crate::estimate::host::Duties;
use crate::import::even::{self, Degrees};
use crate::plan::{LayerStrategy, Plan, Recompute, Spine};
use crate::rules::targets::{Shape, Target};
use serde::Serialize;

/// Changes that are told.
const TOLD: usize = 6;
/// A change that gains less than this is not told of a plan that fits.
const WORTH: f64 = 0.01;
/// A plan that keeps less than this of what a device shows free fails in a part of its starts (Megatron-Bridge PR 3107): what
/// leaves more is told although it is slower. [`crate::cost::options::SAFE_SHARE`] is inside what is called fitting.
const TIGHT: f64 = 0.08;

/// A change and its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// What is changed.
    pub change: String,
    /// Time of one step.
    pub iteration_time_s: f64,
    /// Time over that of the plan, less 1; of a shorter sequence, per token.
    pub slower: f64,
    /// Reserved memory of the fullest stage.
    pub peak_memory_bytes: f64,
    /// Least share that stays free.
    pub margin: f64,
    /// Whether it fits, host memory included.
    pub fits: bool,
    /// Peak of the fullest node's host memory.
    pub host_memory_bytes: f64,
}

/// A variant of the plan.
struct Variant {
    change: String,
    inputs: Option<Inputs>,
    plan: Plan,
    duties: Duties,
}

fn margin(checked: &Checked) -> f64 {
    checked.estimate.stages.iter().map(|s| s.margin).fold(1.0, f64::min)
}

/// Changes of `given`, whose hosts hold what `duties` say: of a plan that does not fit or hardly does, those that give it room;
/// of any other, those that make it faster.
pub fn remedies(inputs: &Inputs, given: &Checked, duties: &Duties) -> Vec<Remedy> {
    let target = inputs.search.target.as_deref().and_then(|name| name.parse::<Target>().ok());
    let spine = Spine::new(&inputs.model, &inputs.job);
    let mut list: Vec<Remedy> = variants(given, duties, &spine)
        .into_iter()
        .chain(redone_mlp(inputs, given, duties, target))
        .filter(|v| target.is_none_or(|t| allows(t, &v.plan, &spine)))
        .filter_map(|v| priced(inputs, given, v))
        .collect();
    let (fits, free) = (given.fits, margin(given));
    list.retain(|r| match (fits, free < TIGHT) {
        (false, _) => r.fits,
        (true, true) => r.fits && (r.margin > free.max(TIGHT) || r.slower < -WORTH),
        (true, false) => r.fits && r.slower < -WORTH,
    });
    list.sort_by(|a, b| a.slower.total_cmp(&b.slower));
    list.truncate(TOLD);
    if !given.fits {
        list.extend(longest(inputs, given, duties));
    }
    list
}

fn allows(target: Target, plan: &Plan, spine: &Spine) -> bool {
    let mut seen: Option<LayerStrategy> = None;
    plan.chunks.iter().flat_map(|c| c.parts()).all(|(part, s)| {
        let same = seen == Some(*s);
        seen = Some(*s);
        let shape = Shape {
            pipeline: plan.pipeline,
            stage_devices: plan.stage_devices(),
            strategy: *s,
            experts: spine.class_of(part).routes(),
        };
        same || target.refuses(&shape).is_none()
    })
}

fn priced(inputs: &Inputs, given: &Checked, v: Variant) -> Option<Remedy> {
    let inputs = v.inputs.as_ref().unwrap_or(inputs);
    let mut checked = check(inputs, &v.plan).ok()?;
    let host = host(&mut checked, &v.duties, inputs).ok()?;
    let (now, before) = (&checked.estimate, &given.estimate);
    Some(Remedy {
        change: v.change,
        iteration_time_s: now.iteration_time_s,
        slower: before.tokens_per_s / now.tokens_per_s - 1.0,
        peak_memory_bytes: now.peak_memory_bytes,
        margin: margin(&checked),
        fits: checked.fits && host.fits != Some(false),
        host_memory_bytes: host.peak_bytes,
    })
}

/// The plan with every strategy changed by `change`.
fn mapped_or_same(plan: &Plan, change: impl Fn(&LayerStrategy) -> LayerStrategy) -> Plan {
    let mut new = plan.clone();
    for run in new.chunks.iter_mut().flat_map(|c| &mut c.runs) {
        run.strategy = change(&run.strategy);
    }
    new
}

/// The same; nothing where that changes none.
fn mapped(plan: &Plan, change: impl Fn(&LayerStrategy) -> LayerStrategy) -> Option<Plan> {
    Some(mapped_or_same(plan, change)).filter(|new| new != plan)
}

fn variants(given: &Checked, duties: &Duties, spine: &Spine) -> Vec<Variant> {
    let plan = &given.plan;
    let mut list = Vec::new();
    let mut put = |change: String, plan: Option<Plan>| {
        list.extend(plan.map(|plan| Variant { change, inputs: None, plan, duties: duties.clone() }));
    };
    let sequence = |s: &LayerStrategy| LayerStrategy { sequence_parallel: s.tp > 1, ..*s };
    let recompute = |to: Recompute| move |s: &LayerStrategy| LayerStrategy { recompute: to, ..*s };
    put("sequence parallelism".to_owned(), mapped(plan, sequence));
    for (to, name) in [
        (Recompute::None, "no recomputation"),
        (Recompute::Selective, "selective recomputation"),
        (Recompute::Full, "full recomputation"),
    ] {
        put(name.to_owned(), mapped(plan, recompute(to)));
        let both = |s: &LayerStrategy| recompute(to)(&sequence(s));
        if mapped(plan, sequence).is_some() && mapped(plan, recompute(to)).is_some() {
            put(format!("sequence parallelism and {name}"), mapped(plan, both));
        }
    }
    let shards = |s: &LayerStrategy| plan.stage_devices() / s.model_ways().max(1) * u64::from(s.cp) > 1;
    for stage in 1..=3u8 {
        let higher =
            |s: &LayerStrategy| LayerStrategy { zero: if shards(s) { s.zero.max(stage) } else { s.zero }, ..*s };
        put(format!("ZeRO-{stage}"), mapped(plan, higher));
    }
    let micro_batches = plan.micro_batches.saturating_mul(2);
    put("half the micro-batch".to_owned(), Some(Plan { micro_batches, ..plan.clone() }));
    if let Some(strategy) = given.uniform.filter(|_| plan.pipeline > 1) {
        for chunks in [plan.chunks_per_stage.saturating_mul(2), 2 * u32::from(plan.chunks_per_stage == 1)] {
            let degrees = Degrees {
                devices: plan.devices,
                pipeline: u64::from(plan.pipeline),
                chunks: u64::from(chunks),
                micro_batches: plan.micro_batches,
                strategy,
            };
            let cut = even::plan(spine, &degrees).ok().filter(|_| chunks > plan.chunks_per_stage);
            put(format!("{chunks} chunks per stage"), cut);
        }
    }
    list.dedup_by(|a, b| a.plan == b.plan);
    if duties.optimizer < 1.0 {
        let duties = Duties { optimizer: 1.0, ..duties.clone() };
        let change = "the optimizer in host memory (transfers are not priced)".to_owned();
        list.push(Variant { change, inputs: None, plan: plan.clone(), duties });
    }
    list
}

/// Megatron's recomputation of dense MLPs alone: less memory than its usual modules leave, for the time of their products.
fn redone_mlp(inputs: &Inputs, given: &Checked, duties: &Duties, target: Option<Target>) -> Option<Variant> {
    if !target.is_some_and(Target::is_megatron) {
        return None;
    }
    let mut changed = inputs.clone();
    changed.cost.software.selective = Selective { mlp: true, ..Selective::NONE };
    let plan = mapped_or_same(&given.plan, |s| LayerStrategy { recompute: Recompute::Selective, ..*s });
    let change = "recomputation of MLPs (--recompute-modules mlp)".to_owned();
    Some(Variant { change, inputs: Some(changed), plan, duties: duties.clone() })
}

/// The longest sequence that the plan takes: where samples are packed or of unlike length, the one number to bound.
fn longest(inputs: &Inputs, given: &Checked, duties: &Duties) -> Option<Remedy> {
    let cuts =
        given.plan.chunks.iter().flat_map(|c| c.parts()).map(|(_, s)| 2 * s.sequence_ways() * u64::from(s.tp)).max()?;
    let at = |n: u64| {
        let mut shorter = inputs.clone();
        shorter.job.sequence = n * cuts;
        let change = format!("sequences of at most {} tokens", n * cuts);
        let variant = Variant { change, inputs: Some(shorter), plan: given.plan.clone(), duties: duties.clone() };
        priced(inputs, given, variant).filter(|r| r.fits)
    };
    let (mut low, mut high) = (0, inputs.job.sequence / cuts);
    let mut best = None;
    while low + 1 < high {
        let middle = low.midpoint(high);
        match at(middle) {
            Some(found) => (low, best) = (middle, Some(found)),
            None => high = middle,
        }
    }
    best
}
