//! A pool's links from tables of nccl-tests, and from the topology that the driver prints: of a level its efficiency, and its
//! latency together with its half point.

use super::CalibrationError;
use super::robust::{Fit, Knob, Sample, fit};
use super::runs::MOST;
use crate::accuracy::conventions::{Generation, generation};
use crate::cluster::devices;
use crate::cluster::fabric::{INFINIBAND, NVLINK4};
use crate::cluster::probe::Node;
use crate::cluster::probe::compose::{Seen, compose};
use crate::cluster::probe::nccl::Table;
use crate::cluster::{Level, Pool};
use crate::cost::{Group, Network};
use crate::error::{InputError, Kind};
use crate::units::Bytes;

/// Links are this much slower at the worst: a cable at a tenth of its rate is broken, not slow.
const LEAST: f64 = 0.1;

/// What came of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct OfTable {
    /// Index of the level.
    pub level: usize,
    /// Ranks.
    pub ranks: u64,
    /// The fit.
    pub fit: Fit,
    /// The pool with its new constants, or as it was where they were refused.
    pub pool: Pool,
}

/// The switches between devices reduce what passes them (NVLink SHARP), from Hopper's generation of NVLink on: all-reduce is then
/// told faster than any ring over the same links, 480 GB/s of bus bandwidth over eight H100 with 450 GB/s each (NVIDIA/nccl-tests
/// issue 212, 2024-05; dgxc-benchmarking's table; read 2026-11).
fn switch_reduces(pool: &Pool, own: &Level) -> bool {
    own.name == NVLINK4.name && generation(&pool.device.name) != Generation::Earlier
}

/// Bytes that must pass the narrowest wire in one direction, in messages. A ring of all-reduce sends `2 (n - here) / n` of the
/// message past it, `here` being the ranks on its side; where the switches reduce, a device sends its message and one share of
/// the sum, `1 + 1/n` (NVIDIA/nccl issue 2140), a node its message (SHARP of InfiniBand). Gathers and scatters move
/// `(n - here) / n` whatever the switch.
fn least_passed(reduces: bool, n: f64, here: f64, in_switch: bool, across: bool) -> f64 {
    let ring = (n - here) / n;
    match (reduces, in_switch) {
        (false, _) => ring,
        (true, false) => 2.0 * ring,
        (true, true) => (2.0 * ring).min(if across { 1.0 } else { 1.0 + 1.0 / n }),
    }
}

/// Ranks and nodes of a table: as it lists them, else as both bandwidths tell.
fn placed(pool: &Pool, table: &Table) -> Result<(u64, u64), CalibrationError> {
    let refused = |why: String| Err(CalibrationError::Mismatch(why));
    let own = pool.device.name.as_str();
    if let Some(device) = table.device.as_deref().and_then(|text| devices::find(text).ok()).filter(|d| d.name != own) {
        return refused(format!("the table is of {}, the cluster has {own}", device.name));
    }
    let Ok(told) = table.told() else {
        return refused("the table's algbw and busbw are those of no number of ranks".into());
    };
    let ranks = match (table.ranks, told) {
        (Some(listed), Some(told)) if !told.allows(listed) => {
            return refused(format!(
                "the table lists {listed} ranks, but its bandwidths are those of {}",
                told.exactly().map_or_else(|| format!("{} to {}", told.least, told.most), |n| n.to_string())
            ));
        }
        (Some(listed), _) => listed,
        (None, Some(told)) => match told.exactly() {
            Some(ranks) => ranks,
            None => {
                return refused(format!(
                    "the table lists no ranks, and its bandwidths are those of {} to {}: give it with its `# Rank` lines",
                    told.least, told.most
                ));
            }
        },
        (None, None) => {
            return refused(
                "the table lists no ranks, and its algbw and busbw do not tell them: give it with its `# Rank` lines"
                    .into(),
            );
        }
    };
    let joined = pool.levels.first().map_or(0, |level| level.devices);
    let nodes = match table.nodes {
        Some(nodes) => nodes,
        None if ranks <= joined => 1,
        None if ranks.is_multiple_of(pool.devices_per_node) => ranks / pool.devices_per_node,
        None => {
            return refused(format!(
                "the table is of {ranks} ranks, which are no whole nodes of {} devices",
                pool.devices_per_node
            ));
        }
    };
    Ok((ranks, nodes))
}

fn scaled(pool: &Pool, index: usize, factors: &[f64]) -> Pool {
    let mut pool = pool.clone();
    if let Some(level) = pool.levels.get_mut(index) {
        *level = Level {
            efficiency: (level.efficiency * factors[0]).min(1.0),
            latency: level.latency * factors[1],
            half_at: level.half_at * factors[1],
            ..level.clone()
        };
    }
    pool
}

/// Fits the links that `table` ran over to its lines: those inside a node if it ran on one, else those between nodes.
///
/// # Errors
/// As [`fit`], and when the pool has no such links or fewer devices than the table has ranks.
pub fn of_table(pool: &Pool, table: &Table) -> Result<OfTable, CalibrationError> {
    let (ranks, nodes) = placed(pool, table)?;
    // A rack of many nodes is one domain.
    let joined = pool.levels.first().map_or(0, |l| l.devices);
    let across = nodes > 1 && (ranks > joined || joined <= pool.devices_per_node);
    let level = if across { pool.levels.len().saturating_sub(1) } else { 0 };
    let inside = pool.levels.get(level).map_or(0, |l| if across { pool.devices } else { l.devices });
    let refused = |why: String| Err(CalibrationError::Mismatch(why));
    if inside < 2 || (across && pool.levels.len() < 2) {
        let links = if across { "between nodes" } else { "inside a node" };
        return refused(format!("the table has {ranks} ranks, the cluster has no links {links}"));
    }
    if ranks > inside || ranks < 2 {
        return refused(format!("the table has {ranks} ranks, the cluster's links join {inside} devices"));
    }
    let reduces = table.told().ok().flatten().map_or(table.reduces, |told| told.all_reduce);
    let (n, group) = (ranks as f64, Group { size: ranks, stride: 1 });
    let moved = if reduces { 2.0 } else { 1.0 } * (n - 1.0) / n;
    let own = &pool.levels[level];
    // What a device, or a node, must receive of the message passes its own wires.
    let here = if across { n / nodes as f64 } else { 1.0 };
    let wire = if across { own.uplink.0.min(own.per_device.0 * here) } else { own.per_device.0 };
    let in_switch = switch_reduces(pool, own) || across && own.name == INFINIBAND.name;
    let through = least_passed(reduces, n, here, in_switch, across);
    let samples: Vec<Sample> = table
        .rows
        .iter()
        .map(|row| Sample {
            name: format!("{} bytes", row.bytes),
            measured: if row.time_s > 0.0 { row.time_s } else { row.bytes * moved / row.bus_bytes_per_s },
            least: row.bytes * through / wire,
        })
        .collect();
    let knob =
        |what: &str, value: f64, limits| Knob { name: format!("link[{level}].{}.{what}", own.name), value, limits };
    let knobs = [
        knob("efficiency", own.efficiency, [LEAST, (1.0 / own.efficiency).max(1.0)]),
        // Latency and half point are both what a small message waits: over one group a table tells their sum only, so that
        // they are scaled together.
        knob("latency", own.latency.0, [1.0 / MOST, MOST]),
    ];
    let price = |i: usize, factors: &[f64]| {
        let pool = scaled(pool, level, factors);
        let network = Network::unplaced(&pool, true);
        let bytes = Bytes(table.rows[i].bytes);
        if reduces { network.all_reduce(bytes, group).0 } else { network.gather(bytes, group).0 }
    };
    let fit = fit(&samples, &knobs, &price)?;
    let pool = scaled(pool, level, &fit.factors());
    Ok(OfTable { level, ranks, fit, pool })
}

/// The pool with the rates of its innermost links as the driver counts them, and what changed.
///
/// # Errors
/// When the topology is that of another node: it has other numbers of devices, or its links do not join them all.
pub fn of_topology(pool: &Pool, node: &Node) -> Result<(Pool, Vec<String>), InputError> {
    let inconsistent = |found: String, expected: String| {
        Err(InputError::new(Kind::Inconsistent).at("--topo").found(found).expected(expected))
    };
    if node.devices != pool.devices_per_node {
        return inconsistent(
            format!("{} accelerators", node.devices),
            format!("{}, as a node of the cluster has", pool.devices_per_node),
        );
    }
    let seen =
        Seen { node: Some(node.clone()), device: Some(pool.device.name.clone()), nodes: Some(1), ..Seen::default() };
    let (file, _) = compose(&seen)?;
    let told = file.cluster("topology").map_err(InputError::from)?;
    let (Some(told), Some(own)) = (told.pools.first().and_then(|p| p.levels.first()), pool.levels.first()) else {
        return inconsistent("no links between accelerators".into(), "links that join them".into());
    };
    if told.devices != own.devices {
        return inconsistent(
            format!("links that join {} accelerators", told.devices),
            format!("{}; `espalier probe` writes a cluster of such a node", own.devices),
        );
    }
    let mut changes = Vec::new();
    if told.per_device != own.per_device {
        changes
            .push(format!("link[0].{}: {} per device, the cluster had {}", own.name, told.per_device, own.per_device));
    }
    let mut changed = pool.clone();
    if let Some(level) = changed.levels.first_mut() {
        (level.uplink, level.per_device) = (told.uplink, told.per_device);
    }
    Ok((changed, changes))
}
