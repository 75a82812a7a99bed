//! A cluster file from what was read: the levels of links with their rates, said or measured.

use super::nccl::Table;
use super::{Node, Path};
use crate::cluster::devices;
use crate::cluster::file::{ClusterFile, DeviceEntry, LinkFile, PoolEntry, PoolFile};
use crate::error::{InputError, Kind};
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// One node.
    pub node: Option<Node>,
    /// Tables of nccl-tests.
    pub tables: Vec<Table>,
    /// Nodes.
    pub nodes: Option<u64>,
    /// Accelerators of a node, where no topology says so.
    pub devices: Option<u64>,
    /// The accelerator.
    pub device: Option<String>,
    /// Host memory of a node in bytes.
    pub host_memory: Option<f64>,
    /// Gb/s of one network card, where no file says so.
    pub nic_gigabits: Option<f64>,
}

/// GB/s per NVLink and direction: 25 from V100 to H200, 50 on B200 and B300, 14 on consumer boards of Ampere (NVIDIA's
/// architecture papers: 300 GB/s of 12 links A100, 900 of 18 H100, 1800 of 18 B200 both ways; read 2026-11).
fn per_link(device: Option<&str>) -> f64 {
    match device.map(str::to_ascii_uppercase) {
        Some(d) if ["B200", "B300", "GB200", "GB300"].iter().any(|n| d.contains(n)) => 50.0,
        Some(d) if d.contains("3090") || d.contains("A6000") => 14.0,
        _ => 25.0,
    }
}

/// Bandwidth of PCIe per device where nothing better joins devices: PCIe 4.0 x16 of one direction (2 GB/s per lane).
const PCIE: f64 = 31.5;

/// A fraction of nominal above this is in-network reduction or a wrong rate: efficiencies are of plain rings.
const MOST_EFFICIENCY: f64 = 1.0;

/// The cluster file, with remarks.
///
/// # Errors
/// Nothing that says how many devices a node has, an accelerator that is not known by name, several nodes whose network
/// nothing says anything of.
pub fn compose(seen: &Seen) -> Result<(ClusterFile, Vec<String>), InputError> {
    let mut notes: Vec<String> = seen.node.iter().flat_map(|n| n.notes.clone()).collect();
    let of_tables = seen.tables.iter().find_map(|t| Some(t.ranks? / t.nodes?.max(1)));
    let devices = seen.node.as_ref().map(|n| n.devices).or(seen.devices).or(of_tables).ok_or_else(|| {
        let error = InputError::new(Kind::MissingField).at("--topo");
        error.expected("a topology, a table with its ranks, or a list of devices: something that says what a node has")
    })?;
    let from_table = || seen.tables.iter().find_map(|t| t.device.clone());
    let named = seen.device.clone().or_else(|| seen.node.as_ref()?.device.clone()).or_else(from_table);
    let Some(named) = named else {
        return Err(InputError::new(Kind::MissingField)
            .at("--device")
            .expected("what the accelerators are, e.g. `--device H100`: the files do not say"));
    };
    let device = find(&named)?;
    let nodes = seen.nodes.or_else(|| seen.tables.iter().filter_map(|t| t.nodes).max()).unwrap_or(1);
    let mut links = inner(seen, devices, &named, &mut notes);
    if nodes > 1 {
        links.push(network(seen, devices, &mut notes)?);
    }
    let pool = PoolFile {
        device: Some(DeviceEntry::Named(device)),
        nodes: Some(nodes),
        devices_per_node: Some(devices),
        links: Some(links),
        host_memory: seen.host_memory.map(Bytes),
        ..PoolFile::default()
    };
    Ok((
        ClusterFile {
            name: Some("probed".into()),
            pools: vec![PoolEntry::Described(Box::new(pool))],
            between_pools: None,
            between_sites: None,
        },
        notes,
    ))
}

/// Our name of a device that a driver calls `NVIDIA H100 80GB HBM3`, or Slurm `h100`.
fn find(named: &str) -> Result<String, InputError> {
    let short = named.trim().trim_start_matches("NVIDIA ").trim_start_matches("AMD ");
    let first = short.split(' ').next().unwrap_or(short);
    let tries = [named, short, first];
    if let Some(device) = tries.iter().find_map(|name| devices::find(name).ok()) {
        return Ok(device.name);
    }
    devices::find(short).map(|d| d.name).map_err(|e| InputError::from(e).at("--device"))
}

/// The links inside a node.
fn inner(seen: &Seen, devices: u64, named: &str, notes: &mut Vec<String>) -> Vec<LinkFile> {
    let measured =
        seen.tables.iter().filter(|t| t.nodes.unwrap_or(1) == 1).max_by(|a, b| a.plateau().total_cmp(&b.plateau()));
    let groups = seen.node.as_ref().map(Node::nvlink_groups).unwrap_or_default();
    let joined: Vec<&(Vec<u64>, u64)> = groups.iter().filter(|(g, _)| g.len() > 1).collect();
    let mut links = Vec::new();
    if let Some((group, count)) = joined.first() {
        let nominal = *count as f64 * per_link(Some(named)) * 1e9;
        let even = joined.iter().all(|(g, n)| g.len() == group.len() && n == count)
            && group.len() * joined.len() == devices as usize;
        let mut link = LinkFile {
            name: Some("nvlink".into()),
            bandwidth: Some(BytesPerSecond(nominal)),
            latency: Some(Seconds(2e-6)),
            ..LinkFile::default()
        };
        if group.len() as u64 == devices {
            link.devices = Some(devices);
        } else if even {
            link.groups = Some(joined.iter().map(|(g, _)| g.clone()).collect());
        }
        if even || group.len() as u64 == devices {
            if let Some(table) = measured.filter(|_| group.len() as u64 == devices) {
                fit(&mut link, table, nominal, notes);
            }
            links.push(link);
        } else {
            notes.push("NVLink groups of unlike size are left out: devices are joined by PCIe".to_owned());
        }
    }
    let whole = links.first().is_some_and(|l| l.devices == Some(devices));
    if !whole && devices > 1 {
        let across = seen.node.as_ref().is_some_and(|n| n.paths.iter().flatten().any(|p| *p == Path::Sys));
        let mut link = LinkFile {
            name: Some("pcie".into()),
            devices: Some(devices),
            bandwidth: Some(BytesPerSecond(PCIE * 1e9)),
            latency: Some(Seconds(if across { 8e-6 } else { 5e-6 })),
            ..LinkFile::default()
        };
        match measured {
            Some(table) if joined.is_empty() && seen.node.is_none() => {
                // Nothing says what the links are: the measured plateau is the rate.
                link.name = Some("measured".into());
                link.bandwidth = Some(BytesPerSecond(table.plateau()));
                link.efficiency = Some(1.0);
                link.half_at = table.half_at().map(Bytes);
            }
            Some(table) if joined.is_empty() => fit(&mut link, table, PCIE * 1e9, notes),
            _ => notes.push("PCIe 4.0 x16 is assumed between devices without NVLink".to_owned()),
        }
        links.push(link);
    }
    links
}

/// Efficiency and half point from a table.
fn fit(link: &mut LinkFile, table: &Table, nominal: f64, notes: &mut Vec<String>) {
    let share = table.plateau() / nominal;
    if share > MOST_EFFICIENCY {
        notes.push(format!(
            "the measured {:.0} GB/s pass the wire rate of {:.0}: reduction inside the switch (NVLS, SHARP), or a wrong rate",
            table.plateau() / 1e9,
            nominal / 1e9
        ));
    }
    // A table that stops at small messages shows latency, not the plateau.
    let largest = table.rows.last().map_or(0.0, |r| r.bytes);
    if largest < 16e6 {
        notes.push(format!("a table that stops at {largest:.0} bytes shows latency, not bandwidth: it is not used"));
        return;
    }
    link.efficiency = Some(share.min(MOST_EFFICIENCY));
    link.half_at = table.half_at().map(Bytes);
}

/// The network between nodes.
fn network(seen: &Seen, devices: u64, notes: &mut Vec<String>) -> Result<LinkFile, InputError> {
    let nics = seen.node.as_ref().map(|n| n.nics.as_slice()).unwrap_or_default();
    // Cards for storage and management stand farther from every accelerator than the others.
    let near: Vec<usize> = match &seen.node {
        Some(node) => {
            let best: Vec<Path> = (0..nics.len()).filter_map(|c| node.to_nics.iter().map(|row| row[c]).min()).collect();
            let nearest = best.iter().min().copied();
            (0..best.len()).filter(|c| Some(best[*c]) == nearest || best[*c] <= Path::Pxb).collect()
        }
        None => Vec::new(),
    };
    if near.len() < nics.len() {
        notes.push(format!(
            "{} of {} cards stand next to no accelerator and are left out",
            nics.len() - near.len(),
            nics.len()
        ));
    }
    let said = near.iter().find_map(|c| nics[*c].gigabits).or(seen.nic_gigabits);
    let table = seen
        .tables
        .iter()
        .filter(|t| t.nodes.is_some_and(|n| n > 1))
        .max_by(|a, b| a.plateau().total_cmp(&b.plateau()));
    let mut link = LinkFile { name: Some("network".into()), latency: Some(Seconds(10e-6)), ..LinkFile::default() };
    match (near.len(), said, table) {
        (n, Some(gigabits), table) if n > 0 => {
            link.nics = Some(n as u64);
            link.nic = Some(BytesPerSecond(gigabits * 1e9 / 8.0));
            if let Some(table) = table {
                // Bus bandwidth is per rank of a ring; a node's cards carry it for all of its devices together.
                fit(&mut link, table, gigabits * 1e9 / 8.0 * n as f64, notes);
            }
        }
        (_, _, Some(table)) => {
            link.bandwidth = Some(BytesPerSecond(table.plateau()));
            link.efficiency = Some(1.0);
            link.half_at = table.half_at().map(Bytes);
        }
        (_, Some(_), None) => {
            return Err(InputError::new(Kind::MissingField)
                .at("--topo")
                .expected(
                    "the output of `nvidia-smi topo -m`, or --xml: nothing says how many network cards a node has",
                )
                .help(format!("{devices} devices per node and the rate of a card are known")));
        }
        _ => {
            return Err(InputError::new(Kind::MissingField)
                .at("--nic")
                .expected("the rate of a network card, e.g. `--nic 400Gb/s`, or a table over several nodes: nothing says how nodes are joined")
                .help(format!("{devices} devices per node, {} cards seen", nics.len())));
        }
    }
    Ok(link)
}
