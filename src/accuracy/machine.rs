//! The machines that tables name: a device, how many, how many to a node, and the network as far as it is stated.

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
    let plain = name.split('(').next().unwrap_or(name).trim();
    let device = devices::find(plain).map_err(|_| LeftOut::Device)?;
    let count = row.count("gpu_count").ok_or(LeftOut::Unknown("gpu_count"))?;
    let machine = AROUND.iter().find(|(d, _)| *d == device.name).map(|(_, m)| *m).ok_or(LeftOut::Device)?;
    let base = instances::pool(machine).map_err(|_| LeftOut::Device)?;
    let rack = machine.starts_with("gb");
    let node = row.count("gpus_per_node").unwrap_or(base.devices_per_node).min(count);
    let domain = if rack { RACK.min(count) } else { node };
    if !count.is_multiple_of(domain) {
        return Err(LeftOut::Inconsistent);
    }
    let shorthand = format!("{machine}:2");
    let two = instances::pool(&shorthand).map_err(|_| LeftOut::Device)?;
    let mut levels = Vec::new();
    if domain > 1 {
        let inner = base.levels.first().ok_or(LeftOut::Device)?;
        levels.push(crate::cluster::Level { devices: domain, ..inner.clone() });
    }
    if count > domain {
        let mut outer = two.levels.last().ok_or(LeftOut::Device)?.clone();
        let scale = domain as f64 / base.devices_per_node as f64;
        outer.uplink = outer.uplink * scale;
        let text = row.or_blank("inter_bw");
        if let Some((fabric, node_rate, nic)) = network(text, node) {
            let level = fabric.level(count, node_rate * (domain as f64 / node as f64), nic.min(node_rate));
            outer = level;
        }
        outer.devices = count;
        levels.push(outer);
    }
    Ok(Pool { name: machine.to_owned(), devices: count, devices_per_node: node, levels, device, ..base })
}

/// The network that a table describes in words: kind, rate of a node and rate that one device drives.
fn network(text: &str, node: u64) -> Option<(Fabric, BytesPerSecond, BytesPerSecond)> {
    let lower = text.to_lowercase();
    let (nics, rate) = rates(&lower)?;
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
    Some((fabric, bits(total), bits(near)))
}

/// Number of ports and Gb/s of each: of `4x100 Gb/s`, `8x ConnectX-7 IB NDR 400Gb/s`, `800 Gb/s per node`.
fn rates(text: &str) -> Option<(f64, f64)> {
    let at = text.find("gb/s")?;
    let before = text[..at].trim_end();
    let digits = |s: &str| s.len() - s.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let rate: f64 = before[before.len() - digits(before)..].parse().ok()?;
    let rest = &before[..before.len() - digits(before)];
    // The last `x` that stands behind a number.
    let nics = rest.match_indices('x').rev().find_map(|(at, _)| {
        let head = &rest[..at];
        head[head.len() - digits(head)..].parse::<f64>().ok()
    });
    Some((nics.unwrap_or(1.0), rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_tables_write_them() {
        assert_eq!(rates("4x100 gb/s omnipath per node"), Some((4.0, 100.0)));
        assert_eq!(rates("8x connectx-7 ib ndr 400gb/s"), Some((8.0, 400.0)));
        assert_eq!(rates("800 gb/s per node"), Some((1.0, 800.0)));
        assert_eq!(rates("nvlink"), None);
        let (_, node, near) = network("AWS p5 EFA 3200 Gb/s per node", 8).unwrap();
        assert_eq!((node.get(), near.get()), (400e9, 50e9));
        let (_, node, _) = network("400 Gb/s per GPU RoCE", 8).unwrap();
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
