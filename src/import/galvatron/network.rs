//! The hardware profiles: all-reduce and point-to-point bandwidths, times of collectives by size, overlap.

use super::document::Document;
use super::error::GalvatronImportError;
use super::files::Shelf;
use crate::cost::galvatron::Setting;
use crate::cost::galvatron::fit::Line;
use crate::cost::galvatron::profiles::{ByDegree, CollectiveTime, CollectiveTimes, Network};

/// Sizes that Galvatron asks of every group of a collective.
const LEAST_SIZES: usize = 8;

/// The network and the overlap coefficient for `setting`.
pub(super) fn read(shelf: &Shelf, setting: &Setting) -> Result<(Network, f64), GalvatronImportError> {
    let shape = format!("{}nodes_{}gpus_per_node.json", setting.nodes, setting.devices_per_node);
    let file = |kind: &str| Document::read(shelf.required(&format!("{kind}_{shape}"), kind)?);
    let mut network = Network::default();
    let world = setting.world();
    if world > 1 {
        all_reduce(&file("allreduce_bandwidth")?, world, setting, &mut network)?;
    }
    let stages = if setting.limits.pp { setting.limits.max_pp.min(world) } else { 1 };
    if stages > 1 {
        p2p(&file("p2p_bandwidth")?, stages, &mut network)?;
    }
    let tp = if setting.limits.tp { setting.limits.max_tp.min(world) } else { 1 };
    let sp = if setting.limits.sp { setting.limits.max_sp.min(world) } else { 1 };
    if tp.max(sp) > 1 {
        let times = file("sp_time")?;
        let all_reduce = collectives(&times, "allreduce", tp)?;
        network.all_gather = CollectiveTimes(all_reduce.0.iter().map(|t| t.as_ref().map(|t| t.times(0.5))).collect());
        network.all_to_all = collectives(&times, "all2all", sp)?;
    }
    let overlap = Document::read(shelf.required("overlap_coefficient.json", "overlap")?)?;
    let key = "overlap_coe";
    let value = overlap.object.get(key).ok_or_else(|| overlap.missing(key, "a number of at least 1"))?;
    Ok((network, overlap.number(key, value, 1.0, false)?))
}

fn all_reduce(
    file: &Document,
    world: u32,
    setting: &Setting,
    network: &mut Network,
) -> Result<(), GalvatronImportError> {
    for (key, value) in &file.object {
        let parsed = key.strip_prefix("allreduce_size_").and_then(|rest| {
            let (size, order) = rest.split_once("_consec_")?;
            Some((size.parse::<u32>().ok()?, order))
        });
        let bandwidth = file.number(key, value, 0.0, true)?;
        let known = match parsed {
            Some((size, "1")) => network.consecutive_ms_per_mb.set(size, 1.0 / bandwidth),
            Some((size, "0")) => network.strided_ms_per_mb.set(size, 1.0 / bandwidth),
            _ => false,
        };
        if !known {
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: key.clone(),
                help: "expected `allreduce_size_{g}_consec_{0,1}`, g a power of two".to_owned(),
            });
        }
    }
    let strided = setting.limits.tp && setting.limits.max_tp > 1;
    for size in powers(world) {
        if network.consecutive_ms_per_mb.get(size).is_none() {
            return Err(file.missing(&format!("allreduce_size_{size}_consec_1"), "a bandwidth in MB/ms"));
        }
        if strided && size < world && network.strided_ms_per_mb.get(size).is_none() {
            return Err(file.missing(&format!("allreduce_size_{size}_consec_0"), "a bandwidth in MB/ms"));
        }
    }
    Ok(())
}

fn p2p(file: &Document, stages: u32, network: &mut Network) -> Result<(), GalvatronImportError> {
    let mut table = ByDegree::default();
    for (key, value) in &file.object {
        let bandwidth = file.number(key, value, 0.0, true)?;
        let size = key.strip_prefix("pp_size_").and_then(|n| n.parse().ok());
        if !size.is_some_and(|size| table.set(size, 1.0 / bandwidth)) {
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: key.clone(),
                help: "expected `pp_size_{p}`, p a power of two".to_owned(),
            });
        }
    }
    if let Some(size) = powers(stages).find(|&size| table.get(size).is_none()) {
        return Err(file.missing(&format!("pp_size_{size}"), "a bandwidth in MB/ms (or a smaller max_pp_deg)"));
    }
    network.p2p_ms_per_mb = table;
    Ok(())
}

/// Times `{name}_size_{g}_{m}MB_time` for every group up to `most`.
fn collectives(file: &Document, name: &str, most: u32) -> Result<CollectiveTimes, GalvatronImportError> {
    let mut points: Vec<Vec<(f64, f64)>> = Vec::new();
    for (key, value) in &file.object {
        let Some(rest) = key.strip_prefix(name).and_then(|r| r.strip_prefix("_size_")) else {
            if key.starts_with("allreduce_size_") || key.starts_with("all2all_size_") {
                continue;
            }
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: key.clone(),
                help: "expected `allreduce_size_{g}_{m}MB_time` or `all2all_size_{g}_{m}MB_time`".to_owned(),
            });
        };
        let parsed = rest.split_once('_').and_then(|(size, rest)| {
            let mb = rest.strip_suffix("MB_time")?.parse::<f64>().ok().filter(|m| m.is_finite() && *m > 0.0)?;
            Some((size.parse::<u32>().ok().filter(|s| s.is_power_of_two())?, mb))
        });
        let Some((size, mb)) = parsed else {
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: key.clone(),
                help: format!("expected `{name}_size_{{g}}_{{m}}MB_time`, g a power of two"),
            });
        };
        let at = size.trailing_zeros() as usize;
        if points.len() <= at {
            points.resize(at + 1, Vec::new());
        }
        points[at].push((mb, file.number(key, value, 0.0, true)?));
    }
    let mut out = Vec::with_capacity(points.len());
    for mut group in points {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
        let line = Line::through(&group);
        out.push(line.filter(|_| group.len() >= LEAST_SIZES).map(|line| CollectiveTime { points: group, line }));
    }
    let out = CollectiveTimes(out);
    if let Some(size) = powers(most).find(|&size| out.get(size).is_none()) {
        let expected = format!("at least {LEAST_SIZES} sizes m (or smaller max_tp_deg and max_sp_deg)");
        return Err(file.missing(&format!("{name}_size_{size}_{{m}}MB_time"), expected));
    }
    Ok(out)
}

/// 2, 4, ... up to `most`.
fn powers(most: u32) -> impl Iterator<Item = u32> {
    (1..=most.ilog2()).map(|i| 1 << i)
}
