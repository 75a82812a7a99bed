//! The smallest number of devices of a pool on which a model trains, and the smallest that makes sense.
//!
//! Counts are the divisors of a node, then whole nodes one by one, from the first that could hold the model states if
//! they were sharded over all devices; so that the first that fits is the smallest. "Makes sense" is a share of the
//! best throughput per device among larger counts.

use super::answer::{Fix, Infeasible};
use super::diagnose::leanest;
use super::planner::{Inputs, PlanError, Watch, idle, plan};
use super::tasks::divisors;
use crate::cluster::{MOST_DEVICES, Pool};
use crate::cost::StateBytes;
use crate::cost::options::{ALLOCATOR_FACTOR, CONTEXT_MEMORY, SAFE_SHARE};
use crate::error::InputError;
use crate::estimate::Estimate;
use crate::plan::Plan;
use crate::question::SearchOptions;
use crate::search::budget::{Interrupt, Stop};
use crate::units::Bytes;
use serde::Serialize;

/// Throughput per device, as a share of the best, from which a number of devices is called sensible.
pub const SENSIBLE: f64 = 0.8;
/// Gap at which a plan is good enough to compare numbers of devices.
const QUICK_GAP: f64 = 0.05;
/// Numbers of nodes looked at beyond the smallest, as multiples of it: what people rent.
const MULTIPLES: [f64; 3] = [4.0 / 3.0, 2.0, 4.0];
/// Node counts tried one by one; beyond that in steps of a sixteenth, and the answer says so.
const ONE_BY_ONE: usize = 96;
/// A leanest plan this much above what there is leaves no hope for plans that are cut less evenly.
const HOPELESS: f64 = 1.25;

/// A number of devices with the best plan found on them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Count {
    /// Devices.
    pub devices: u64,
    /// Nodes, begun ones counted.
    pub nodes: u64,
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub estimate: Estimate,
}

/// A number of devices on which nothing fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TooFew {
    /// Devices.
    pub devices: u64,
    /// What the leanest plan needs on its fullest device; absent where no plan satisfies the divisibility rules.
    pub needed_bytes: Option<f64>,
}

/// How many devices it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MinGpus {
    /// The smallest number on which it trains.
    pub smallest: Count,
    /// The smallest with at least [`SENSIBLE`] of the best throughput per device.
    pub sensible: Count,
    /// All that were planned, ascending.
    pub counts: Vec<Count>,
    /// Smaller numbers that do not do, ascending.
    pub too_few: Vec<TooFew>,
    /// Devices below which not even the sharded states fit.
    pub states_need_devices: u64,
    /// What a device may use.
    pub usable_bytes: f64,
    /// Whether every smaller number was looked at.
    pub exact: bool,
    /// Whether it was stopped before every number was planned.
    pub interrupted: bool,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Where the question stands: who may stop it, and who is told which number is being looked at.
pub struct Observed<'w> {
    /// The flag that stops it.
    pub interrupt: Interrupt,
    /// Told each number before it is planned.
    pub tell: &'w mut dyn FnMut(u64),
}

/// Finds how many devices of the question's pool it takes, up to `most`.
///
/// # Errors
/// [`PlanError::Infeasible`] when `most` devices are too few.
pub fn min_gpus(inputs: &Inputs, most: u64, observed: Observed<'_>) -> Result<MinGpus, PlanError> {
    let Observed { interrupt, tell } = observed;
    let found = smallest(inputs, most, &interrupt, tell);
    let Sizes { smallest, too_few, least, usable, exact } = match found {
        Err(PlanError::Infeasible(mut none)) => {
            none.fixes = proposals(inputs, most, &interrupt, tell);
            return Err(PlanError::Infeasible(none));
        }
        other => other?,
    };
    let pool = inputs.pool()?;
    let counts = larger(inputs, smallest.clone(), most, &interrupt, tell)?;
    let rate = |c: &Count| c.estimate.tokens_per_s_per_device;
    let best = counts.iter().map(rate).fold(0.0, f64::max);
    let sensible = counts.iter().find(|c| rate(c) >= SENSIBLE * best).unwrap_or(&smallest).clone();
    let mut notes = inputs.model.notes.clone();
    notes.extend(idle(inputs));
    notes.extend(loaded_whole(inputs, usable));
    if smallest.devices > pool.devices {
        notes.push(format!("the cluster given has {} devices: fewer than the smallest number", pool.devices));
    }
    let interrupted = interrupt.is_raised();
    if interrupted {
        notes.push("interrupted: larger numbers were not planned, or not to their end".to_owned());
    }
    let states_need_devices = least;
    Ok(MinGpus {
        smallest,
        sensible,
        counts,
        too_few,
        states_need_devices,
        usable_bytes: usable,
        exact,
        interrupted,
        notes,
    })
}

/// A model whose weights alone exceed a device cannot be loaded onto each before it is cut.
fn loaded_whole(inputs: &Inputs, usable: f64) -> Option<String> {
    let weights = inputs.model.parameters_total() as f64 * StateBytes::of(&inputs.job).weights;
    (weights > usable).then(|| {
        format!(
            "the whole weights take {}, a device may use {}: build the model in pieces (on the meta device), not whole on every rank \
             before it is cut",
            Bytes(weights),
            Bytes(usable)
        )
    })
}

/// How many times as many devices as allowed are looked at for a proposal.
const PROPOSED_TIMES: u64 = 16;

/// What would let it train when `most` devices do not: more of them, or the whole memory of each.
fn proposals(inputs: &Inputs, most: u64, interrupt: &Interrupt, tell: &mut dyn FnMut(u64)) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let mut offer = |change: &dyn Fn(u64) -> String, inputs: &Inputs, most: u64| {
        if let Ok(Sizes { smallest, .. }) = smallest(inputs, most, interrupt, tell) {
            fixes.push(Fix {
                change: change(smallest.devices),
                iteration_time_s: smallest.estimate.iteration_time_s,
                peak_memory_bytes: smallest.estimate.peak_memory_bytes,
            });
        }
    };
    if let Some(limit) = inputs.job.memory_limit {
        let mut whole = inputs.clone();
        whole.job.memory_limit = None;
        offer(&|n| format!("lift the memory limit of {limit}: {n} devices"), &whole, most);
    }
    offer(&|n| format!("allow {n} devices (--max-devices {n})"), inputs, most.saturating_mul(PROPOSED_TIMES));
    fixes
}

/// The smallest number and what was seen on the way to it.
struct Sizes {
    smallest: Count,
    too_few: Vec<TooFew>,
    least: u64,
    usable: f64,
    exact: bool,
}

fn smallest(inputs: &Inputs, most: u64, interrupt: &Interrupt, tell: &mut dyn FnMut(u64)) -> Result<Sizes, PlanError> {
    inputs.job.validate().map_err(|e| InputError::from(e).inside("job"))?;
    let pool = inputs.pool()?;
    let usable = inputs.job.memory_limit.unwrap_or(pool.device.memory).get() * SAFE_SHARE;
    let allocatable = ((usable - CONTEXT_MEMORY.get()) / ALLOCATOR_FACTOR).max(0.0);
    let per = StateBytes::of(&inputs.job);
    let parameters = inputs.model.parameters_total() as f64
        + if inputs.job.mtp { inputs.model.parameters_mtp() as f64 } else { 0.0 };
    let states = parameters * per.total();
    let least = if allocatable > 0.0 { (states / allocatable).ceil().max(1.0) } else { f64::INFINITY };
    if least > most.min(MOST_DEVICES) as f64 {
        return Err(too_small(inputs, usable, states, least, most));
    }
    let least = least as u64;
    let mut too_few = Vec::new();
    let mut smallest = None;
    let (mut tried, mut last) = (0, 0);
    let mut leanest_needs: Option<f64> = None;
    let mut n = first(pool, least);
    while let Some(devices) = n.filter(|n| *n <= most) {
        if interrupt.is_raised() {
            return Err(PlanError::NoPlan(Stop::Interrupted));
        }
        n = next(pool, devices, tried);
        tried += usize::from(devices >= pool.devices_per_node);
        last = devices;
        let Some(sized) = with_devices(inputs, devices) else { continue };
        tell(devices);
        let need = sized.with_space(|space| leanest(&space).map(|l| l.0))?;
        if let Some(need) = need.filter(|need| *need <= allocatable * HOPELESS) {
            match quick_plan(&sized, interrupt) {
                Ok(count) => {
                    smallest = Some(count);
                    break;
                }
                Err(PlanError::Infeasible(_) | PlanError::Input(_)) => {
                    leanest_needs = Some(need);
                }
                Err(other) => return Err(other),
            }
        }
        leanest_needs = need.or(leanest_needs);
        too_few.push(TooFew { devices, needed_bytes: need.map(|b| b * ALLOCATOR_FACTOR + CONTEXT_MEMORY.get()) });
    }
    let Some(smallest) = smallest else {
        let needed = leanest_needs.map(|b| b * ALLOCATOR_FACTOR + CONTEXT_MEMORY.get());
        let more = if last < most { format!(" (nothing says how more than {last} are joined)") } else { String::new() };
        return Err(PlanError::Infeasible(Box::new(Infeasible {
            tightest: match needed {
                Some(b) => format!(
                    "{last} devices are too few{more}: the leanest plan needs {} on its fullest device, {} are usable",
                    Bytes(b),
                    Bytes(usable)
                ),
                None => format!("no plan on up to {last} devices satisfies the constraints and divisibility rules"),
            },
            needed_bytes: needed,
            available_bytes: usable,
            fixes: Vec::new(),
        })));
    };
    Ok(Sizes { smallest, too_few, least, usable, exact: tried <= ONE_BY_ONE })
}

fn too_small(inputs: &Inputs, usable: f64, states: f64, least: f64, most: u64) -> PlanError {
    let tightest = if least.is_finite() {
        format!(
            "the states of {} take {}: {least:.0} devices of {} usable each, {most} are allowed",
            inputs.model.name,
            Bytes(states),
            Bytes(usable)
        )
    } else {
        format!("{} are usable on a device, less than its context takes", Bytes(usable))
    };
    PlanError::Infeasible(Box::new(Infeasible {
        tightest,
        needed_bytes: Some(states / most.max(1) as f64),
        available_bytes: usable,
        fixes: Vec::new(),
    }))
}

/// The first number of devices that is at least `least`: a part of a node, or whole nodes.
fn first(pool: &Pool, least: u64) -> Option<u64> {
    let node = pool.devices_per_node;
    let part = divisors(node).into_iter().find(|d| *d >= least);
    part.or_else(|| least.div_ceil(node).checked_mul(node))
}

fn next(pool: &Pool, devices: u64, tried: usize) -> Option<u64> {
    let node = pool.devices_per_node;
    if devices < node {
        return divisors(node).into_iter().find(|d| *d > devices);
    }
    let step = if tried < ONE_BY_ONE { 1 } else { (devices / node / 16).max(1) };
    devices.checked_add(node.checked_mul(step)?)
}

fn with_devices(inputs: &Inputs, devices: u64) -> Option<Inputs> {
    let mut sized = inputs.clone();
    let pool = sized.cluster.pools.first_mut()?;
    *pool = pool.resized(devices)?;
    Some(sized)
}

fn quick_plan(inputs: &Inputs, interrupt: &Interrupt) -> Result<Count, PlanError> {
    let search = SearchOptions {
        target_gap: Some(inputs.search.target_gap.unwrap_or(QUICK_GAP)),
        top: 1,
        ..inputs.search.clone()
    };
    let quick = Inputs { search, ..inputs.clone() };
    let watch = Watch { interrupt: interrupt.clone(), quick: true, ..Watch::default() };
    let answer = plan(&quick, watch)?;
    let pool = inputs.pool()?;
    let nodes = pool.devices.div_ceil(pool.devices_per_node.max(1));
    // Where one strategy for all layers does as well, it is what one would run.
    let (plan, estimate) = match answer.uniform {
        Some(u) if answer.recommended == "uniform" => (u.plan, u.estimate),
        _ => (answer.plan, answer.estimate),
    };
    Ok(Count { devices: pool.devices, nodes, plan, estimate })
}

/// The smallest number and larger ones that people use, with their plans.
fn larger(
    inputs: &Inputs,
    smallest: Count,
    most: u64,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(u64),
) -> Result<Vec<Count>, PlanError> {
    let pool = inputs.pool()?;
    let node = pool.devices_per_node;
    let start = smallest.devices;
    let mut counts = vec![smallest];
    let mut wanted: Vec<u64> = MULTIPLES
        .iter()
        .map(|k| {
            let n = (start as f64 * k).round() as u64;
            if n < node { n.next_power_of_two() } else { n.div_ceil(node) * node }
        })
        .chain([pool.devices])
        .filter(|n| *n > start && *n <= most)
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    for devices in wanted {
        if interrupt.is_raised() {
            break;
        }
        let Some(sized) = with_devices(inputs, devices) else { continue };
        tell(devices);
        match quick_plan(&sized, interrupt) {
            Ok(count) => counts.push(count),
            Err(PlanError::Infeasible(_) | PlanError::Input(_) | PlanError::NoPlan(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(counts)
}
