//! The machines that tables name: a device, how many, how many to a node, and the network as far as it is stated.

use super::cells::Unreadable;
use super::left_out::LeftOut;
use super::table::Row;
use crate::cluster::fabric::{self, Fabric};
use crate::cluster::{Pool, devices, instances};
use crate::units::BytesPerSecond;

/// Devices of a rack that train together: 64 of 72 are used (DGXC recipes run on 64, 128, 256, ...).
const RACK: u64 = 64;

/// The machine around a device, where a table names only the device.
static AROUND: &[(&str, &str)] = &[
    ("H100-SXM5-80GB", "h100x8"),
    ("H200-SXM-141GB", "h200x8"),
    ("H800-SXM-80GB", "h800x8"),
    ("H20-96GB", "h20x8"),
    ("A100-SXM4-80GB", "a100x8"),
    ("A100-SXM4-40GB", "a100-40x8"),
    ("A100-PCIe-80GB", "a100-pciex8"),
    ("A800-SXM4-80GB", "a800x8"),
    ("V100-SXM2-32GB", "v100x8"),
    ("V100-SXM2-16GB", "v100-16x8"),
    ("T4-16GB", "t4x4"),
    ("B200-SXM", "b200x8"),
    ("B300-SXM", "b300x8"),
    ("GB200", "gb200x4"),
    ("GB300", "gb300x4"),
    ("GH200-96GB", "gh200x4"),
    ("MI300X", "mi300x8"),
    ("MI325X", "mi325x8"),
    ("MI355X", "mi355x8"),
    ("MI250X-GCD", "mi250x8"),
    ("L40S", "l40sx8"),
];

/// Our name of the device that a table's words mean.
pub fn device(text: &str) -> Option<&'static str> {
    let plain = text.split('(').next().unwrap_or(text).trim();
    let found = devices::find(plain).ok()?;
    devices::names().find(|name| *name == found.name)
}

/// The pool of a row.
///
/// # Errors
/// When its device is not known, or of several kinds, or their number is not stated.
pub fn pool(row: &Row) -> Result<Pool, LeftOut> {
    let name = row.text("gpu").ok_or(LeftOut::Unknown("gpu"))?;
    if name.contains("mixed") || name.contains('+') {
        return Err(LeftOut::Mixed);
    }
    let unknown = || LeftOut::Device(name.to_owned());
    let plain = name.split('(').next().unwrap_or(name).trim();
    let device = devices::find(plain).map_err(|_| unknown())?;
    let count = row.count("gpu_count").ok_or(LeftOut::Unknown("gpu_count"))?;
    let machine = AROUND.iter().find(|(d, _)| *d == device.name).map(|(_, m)| *m).ok_or_else(unknown)?;
    let base = instances::pool(machine).map_err(|_| unknown())?;
    let rack = machine.starts_with("gb");
    let node = row.count("gpus_per_node").unwrap_or(base.devices_per_node).min(count);
    let domain = if rack { RACK.min(count) } else { node };
    if !count.is_multiple_of(domain) {
        return Err(LeftOut::Inconsistent("gpu_count is no multiple of the devices of a node"));
    }
    let shorthand = format!("{machine}:2");
    let two = instances::pool(&shorthand).map_err(|_| unknown())?;
    let mut levels = Vec::new();
    if domain > 1 {
        let inner = base.levels.first().ok_or_else(unknown)?;
        levels.push(crate::cluster::Level { devices: domain, ..inner.clone() });
    }
    if count > domain {
        let mut outer = two.levels.last().ok_or_else(unknown)?.clone();
        let scale = domain as f64 / base.devices_per_node as f64;
        outer.uplink = outer.uplink * scale;
        let text = row.or_blank("inter_bw");
        if let Some((fabric, node_rate, nic)) = network(text, node)? {
            let level = fabric.level(count, node_rate * (domain as f64 / node as f64), nic.min(node_rate));
            outer = level;
        }
        outer.devices = count;
        levels.push(outer);
    }
    Ok(Pool { name: machine.to_owned(), devices: count, devices_per_node: node, levels, device, ..base })
}

/// The network that a table describes in words: kind, rate of a node and rate that one device drives; none where no rate is
/// stated, or only that of something else than a network.
fn network(text: &str, node: u64) -> Result<Option<(Fabric, BytesPerSecond, BytesPerSecond)>, LeftOut> {
    let Some((nics, rate)) = rates(text).map_err(|()| {
        LeftOut::Unreadable(Unreadable::new("inter_bw", text, "a positive rate in Gb/s, e.g. `8x400 Gb/s per node`"))
    })?
    else {
        return Ok(None);
    };
    let lower = text.to_lowercase();
    let fabric = match () {
        () if lower.contains("efa") => fabric::EFA,
        () if lower.contains("roce") => fabric::ROCE,
        () if lower.contains("omnipath") => fabric::OMNIPATH,
        () if lower.contains("t4") || lower.contains("aws") => fabric::ETHERNET,
        () => fabric::INFINIBAND,
    };
    let bits = |gbit: f64| BytesPerSecond(gbit * 1e9 / 8.0);
    let total = if lower.contains("per gpu") { rate * node as f64 } else { nics * rate };
    // Each device drives the NICs next to it, at least one.
    let near = if nics > 1.0 { (nics / node as f64).max(1.0) * rate } else { total / node as f64 };
    Ok(Some((fabric, bits(total), bits(near))))
}

/// Number of ports and Gb/s of each: of `4x100 Gb/s`, `8x ConnectX-7 IB NDR 400Gb/s`, `800 Gb/s per node`, `50 GB/s per GPU`. An
/// error where a rate is none, or in another unit.
fn rates(text: &str) -> Result<Option<(f64, f64)>, ()> {
    const UNITS: [(&str, f64); 6] =
        [("Gb/s", 1.0), ("Gbps", 1.0), ("Gbit/s", 1.0), ("gb/s", 1.0), ("GB/s", 8.0), ("GBps", 8.0)];
    let found = UNITS.iter().filter_map(|(unit, bits)| Some((text.find(unit)?, *bits))).min_by_key(|(at, _)| *at);
    let Some((at, bits)) = found else {
        let other = ["b/s", "bps"].iter().any(|unit| text.to_lowercase().contains(unit));
        return if other { Err(()) } else { Ok(None) };
    };
    // Bytes per second are told of buses, too.
    if bits > 1.0 && text[..at].contains("PCIe") {
        return Ok(None);
    }
    let before = text[..at].trim_end();
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let digits = |s: &str| s.len() - s.trim_end_matches(is_part).len();
    let rate: f64 = before[before.len() - digits(before)..].parse().map_err(|_| ())?;
    let rest = &before[..before.len() - digits(before)];
    if !(rate > 0.0 && rate.is_finite()) || rest.ends_with('-') {
        return Err(());
    }
    // The last `x` that stands behind a number.
    let nics = rest.match_indices('x').rev().find_map(|(at, _)| {
        let head = &rest[..at];
        head[head.len() - digits(head)..].parse::<f64>().ok()
    });
    match nics {
        Some(nics) if nics <= 0.0 => Err(()),
        _ => Ok(Some((nics.unwrap_or(1.0), rate * bits))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_tables_write_them() {
        assert_eq!(rates("4x100 Gb/s OmniPath per node"), Ok(Some((4.0, 100.0))));
        assert_eq!(rates("8x ConnectX-7 IB NDR 400Gb/s"), Ok(Some((8.0, 400.0))));
        assert_eq!(rates("800 gb/s per node"), Ok(Some((1.0, 800.0))));
        assert_eq!(rates("50 GB/s per GPU"), Ok(Some((1.0, 400.0))));
        assert_eq!(rates("12.5 GBps"), Ok(Some((1.0, 100.0))));
        for nothing in ["nvlink", "", "RoCE; GPU-PCIe: 504 GB/s"] {
            assert_eq!(rates(nothing), Ok(None), "{nothing}");
        }
        for wrong in ["0 Gb/s", "-5 Gb/s", "nan Gb/s", "0x400 Gb/s", "1 Mb/s", "400 Tb/s", "Gb/s"] {
            assert_eq!(rates(wrong), Err(()), "{wrong}");
        }
        let (_, node, near) = network("AWS p5 EFA 3200 Gb/s per node", 8).unwrap().unwrap();
        assert_eq!((node.get(), near.get()), (400e9, 50e9));
        let (_, node, _) = network("400 Gb/s per GPU RoCE", 8).unwrap().unwrap();
        assert_eq!(node.get(), 400e9);
    }

    #[test]
    fn a_pool_has_the_devices_of_the_row_and_the_levels_between() {
        let row = Row::new([("gpu", "A100-SXM-80GB"), ("gpu_count", "384"), ("gpus_per_node", "8")]);
        let pool = pool(&row).unwrap();
        assert_eq!((pool.devices, pool.levels.len(), pool.levels[1].devices), (384, 2, 384));
        let rack = Row::new([("gpu", "GB200"), ("gpu_count", "256"), ("gpus_per_node", "4")]);
        assert_eq!(super::pool(&rack).unwrap().levels[0].devices, 64);
        let mixed = Row::new([("gpu", "mixed (T4, V100)"), ("gpu_count", "16")]);
        assert_eq!(super::pool(&mixed), Err(LeftOut::Mixed));
    }
}
