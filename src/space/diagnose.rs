//! Why nothing fits, and the cheapest changes that would make it fit, each verified by planning it.

use super::answer::{Fix, Infeasible};
use super::layerwise::LayerwiseSpace;
use super::planner::{Inputs, Watch, plan};
use super::tasks::splits;
use super::uniform;
use crate::cost::StateBytes;
use crate::error::{InputError, Kind};
use crate::estimate::Estimate;
use crate::job::{Job, Storage};
use crate::plan::PartClass;
use crate::question::{ScheduleChoice, SearchOptions};
use crate::units::Bytes;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// No combination of stages and micro-batches exists at all.
pub fn no_task(inputs: &Inputs) -> InputError {
    let constraints: Vec<String> =
        inputs.search.fix.iter().chain(&inputs.search.forbid).map(ToString::to_string).collect();
    InputError::new(Kind::Inconsistent)
        .at("search")
        .found(if constraints.is_empty() { "no constraint".into() } else { constraints.join(", ") })
        .expected(
            "constraints on pp and vpp that leave a number of stages dividing the devices, with chunks for all of them",
        )
}

/// What the leanest plan allocates on its fullest device, its task and its stage, over all tasks.
pub fn leanest(space: &LayerwiseSpace) -> Option<(f64, usize, u32)> {
    let needs: Vec<Option<(f64, usize, u32)>> =
        lean_tasks(space).into_par_iter().map(|task| leanest_of(space, task)).collect();
    needs.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
}

/// Whether the leanest plan fits: as [`leanest`], but content with the first that does.
pub fn some_fits(space: &LayerwiseSpace) -> bool {
    let most = space.estimator.allocatable();
    lean_tasks(space).into_par_iter().any(|task| leanest_of(space, task).is_some_and(|l| l.0 <= most))
}

/// Tasks among which the leanest plan is.
fn lean_tasks(space: &LayerwiseSpace) -> Vec<usize> {
    let plain = |task: &usize| space.tasks[*task].chunks == 1;
    // More chunks per stage only keep more alive.
    let tasks: Vec<usize> = (0..space.tasks.len()).filter(plain).collect();
    // So do larger micro-batches: with as many ranks as a stage has, every rank still has a sequence of a smaller one.
    let whole = |task: &usize| {
        let key = &space.tasks[*task];
        let ranks = space.estimator.pool.devices / u64::from(key.pipeline);
        key.micro_batches.saturating_mul(ranks) >= space.estimator.job.global_batch
    };
    let small: Vec<usize> = tasks.iter().copied().filter(whole).collect();
    // Constraints may leave only large ones.
    let pipelines = |list: &[usize]| list.iter().map(|t| space.tasks[*t].pipeline).collect::<BTreeSet<u32>>();
    if pipelines(&small) == pipelines(&tasks) { small } else { tasks }
}

fn leanest_of(space: &LayerwiseSpace, task: usize) -> Option<(f64, usize, u32)> {
    let parts = &space.estimator.spine.parts;
    let key = &space.tasks[task];
    let table = space.table(task)?;
    let live = space.live(task);
    let mut best: Option<(f64, usize, u32)> = None;
    for sizes in splits(space.estimator.spine, u64::from(key.pipeline)) {
        let mut worst = (0.0f64, 0u32);
        for (s, range) in LayerwiseSpace::chunk_ranges(&sizes).into_iter().enumerate() {
            let (mut used, mut peak) = (0.0, 0.0f64);
            for i in range {
                let options = &table.classes[parts[i as usize] as usize].options;
                let need = |o: &crate::search::decompose::ChainOption| o.fixed + live[s][0] * o.scaled;
                if let Some(o) = options.iter().min_by(|a, b| (need(a) + a.peak).total_cmp(&(need(b) + b.peak))) {
                    used += need(o);
                    peak = peak.max(o.peak);
                }
            }
            if used + peak > worst.0 {
                worst = (used + peak, s as u32);
            }
        }
        if best.is_none_or(|b| worst.0 < b.0) {
            best = Some((worst.0, task, worst.1));
        }
    }
    best
}

/// Explains that nothing fits; looks for changes that help if `look`.
pub fn infeasible(inputs: &Inputs, space: &LayerwiseSpace, look: bool) -> Infeasible {
    use crate::cost::options::{ALLOCATOR_FACTOR, CONTEXT_MEMORY, SAFE_SHARE};
    let available = inputs.job.memory_limit.unwrap_or(space.estimator.pool.device.memory).0 * SAFE_SHARE;
    let leanest = leanest(space);
    let needed = leanest.map(|l| l.0 * ALLOCATOR_FACTOR + CONTEXT_MEMORY.0);
    let tightest = match (leanest, needed) {
        (Some((_, task, stage)), Some(needed)) => {
            let key = &space.tasks[task];
            format!(
                "memory of stage {stage} in the leanest plan (PP{}, {} micro-batches): {} needed, {} usable ({:.0} % of what there is)",
                key.pipeline,
                key.micro_batches,
                Bytes(needed),
                Bytes(available),
                100.0 * SAFE_SHARE
            )
        }
        _ => without_strategy(inputs, space),
    };
    Infeasible {
        tightest,
        needed_bytes: needed,
        available_bytes: available,
        fixes: if look { fixes(inputs, leanest.map(|l| l.0), space.estimator.allocatable()) } else { Vec::new() },
    }
}

/// Which parts have no strategy at all, whatever the number of stages, and what was asked of them.
fn without_strategy(inputs: &Inputs, space: &LayerwiseSpace) -> String {
    let meshes: Vec<_> = space.frames().map(|(_, mesh, _)| mesh).collect();
    let stuck = |part: &&PartClass| meshes.iter().all(|mesh| space.strategies(part, *mesh) == 0);
    let names: BTreeSet<&str> =
        space.estimator.spine.classes.iter().filter(stuck).map(|part| part.name.as_str()).collect();
    let parts = match names.len() {
        0 => "some part".to_owned(),
        _ => names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    let options = &inputs.search;
    let fixed = options.fix.iter().map(|c| format!("--fix {c}"));
    let asked: Vec<String> = fixed.chain(options.forbid.iter().map(|c| format!("--forbid {c}"))).collect();
    let asked = if asked.is_empty() { String::new() } else { format!("{} and ", asked.join(", ")) };
    let target = options.target.as_ref().map(|t| format!(" and the rules of {t}")).unwrap_or_default();
    format!(
        "no strategy of {parts} satisfies {asked}the rules of divisibility (heads, sizes, devices of a stage, batch){target}"
    )
}

/// A plan of a changed question: the first that comes to mind if that fits, otherwise whatever the search finds.
fn verify(change: &str, inputs: &Inputs) -> Option<Fix> {
    let fix = |estimate: &Estimate| Fix {
        change: change.to_owned(),
        iteration_time_s: estimate.iteration_time_s,
        peak_memory_bytes: estimate.peak_memory_bytes,
    };
    let (first, hopeless) = inputs
        .with_space(|space| {
            let estimate = uniform::probe(&space).and_then(|u| space.estimator.estimate(&u.plan(&space)).ok());
            let first = estimate.filter(|e| e.fits).map(|e| fix(&e));
            let hopeless = first.is_none() && !some_fits(&space);
            (first, hopeless)
        })
        .ok()?;
    if hopeless {
        return None;
    }
    // Whether a schedule of its own makes more fit is not asked for every change.
    let usual = inputs.search.schedule.filter(|schedule| *schedule != ScheduleChoice::Auto);
    let search = SearchOptions { target_gap: Some(QUICK_GAP), top: 1, schedule: usual, ..inputs.search.clone() };
    let watch = Watch { quick: true, ..Watch::default() };
    plan(&Inputs { search, ..inputs.clone() }, watch).ok().map(|answer| fix(&answer.estimate)).or(first)
}

/// Gap at which a verifying plan is good enough.
const QUICK_GAP: f64 = 0.2;

/// Changes in order of what they cost a user: constraints, then formats, then batch and sequence, then hardware.
///
/// `needed` is what the leanest plan allocates, `allocatable` what it may. A change that shrinks states to a share of what
/// they are, and activations to another, cannot shrink the leanest plan to less than the smaller share.
fn fixes(inputs: &Inputs, needed: Option<f64>, allocatable: f64) -> Vec<Fix> {
    let hopeless = |share: f64| needed.is_some_and(|n| n * share > allocatable);
    let before = StateBytes::of(&inputs.job).total();
    let states = |job: &Job| StateBytes::of(job).total() / before;
    let mut list = Vec::new();
    let mut offer = |change: String, changed: Inputs| {
        if list.len() < MOST_FIXES
            && let Some(fix) = verify(&change, &changed)
        {
            list.push(fix);
        }
    };
    for (i, c) in inputs.search.fix.iter().enumerate() {
        let mut changed = inputs.clone();
        changed.search.fix.remove(i);
        offer(format!("drop the constraint --fix {c}"), changed);
    }
    for (i, c) in inputs.search.forbid.iter().enumerate() {
        let mut changed = inputs.clone();
        changed.search.forbid.remove(i);
        offer(format!("drop the constraint --forbid {c}"), changed);
    }
    if let Some(limit) = inputs.job.memory_limit {
        let mut changed = inputs.clone();
        changed.job.memory_limit = None;
        offer(format!("lift the memory limit of {limit}"), changed);
    }
    if inputs.job.gradients == Storage::Fp32 {
        let mut changed = inputs.clone();
        changed.job.gradients = Storage::Bf16;
        if !hopeless(states(&changed.job)) {
            offer("accumulate gradients in bf16".into(), changed);
        }
    }
    if inputs.job.moments == Storage::Fp32 {
        let mut changed = inputs.clone();
        changed.job.moments = Storage::Bf16;
        changed.job.gradients = Storage::Bf16;
        if !hopeless(states(&changed.job)) {
            offer("keep gradients and optimizer moments in bf16".into(), changed);
        }
    }
    let mut sequence = inputs.job.sequence / 2;
    while sequence >= SHORTEST {
        let mut changed = inputs.clone();
        changed.job.sequence = sequence;
        let share = sequence as f64 / inputs.job.sequence as f64;
        if !hopeless(share * share)
            && let Some(fix) = verify(&format!("shorten the sequence to {sequence}"), &changed)
        {
            if list.len() < MOST_FIXES {
                list.push(fix);
            }
            break;
        }
        sequence /= 2;
    }
    if let [pool] = inputs.cluster.pools.as_slice()
        && let Some(needed) = needed
        && list.len() < MOST_FIXES
    {
        // States shrink with the devices, so that this many times as many is where to begin.
        let first = (needed / allocatable).ceil();
        let first = if first <= MOST_TIMES { (first as u64).max(2).next_power_of_two() } else { return list };
        for times in [first, first * 2, first * 4] {
            let Some(changed) = larger(inputs, times) else { break };
            let nodes = pool.devices * times / pool.devices_per_node.max(1);
            let change = format!("use {} devices ({nodes} nodes) instead of {}", pool.devices * times, pool.devices);
            if let Some(fix) = verify(&change, &changed) {
                list.push(fix);
                break;
            }
        }
    }
    list
}

/// The question on `times` as many devices: more nodes at the outermost level.
fn larger(inputs: &Inputs, times: u64) -> Option<Inputs> {
    let mut changed = inputs.clone();
    let pool = changed.cluster.pools.first_mut()?;
    let devices = pool.devices.checked_mul(times)?;
    *pool = pool.resized(devices)?;
    Some(changed)
}

/// A cluster that would have to grow more than this is not what was meant.
const MOST_TIMES: f64 = 256.0;
/// Fixes that a user reads.
const MOST_FIXES: usize = 5;
/// Sequences shorter than this are not offered.
const SHORTEST: u64 = 1024;
