//! `espalier probe`: a cluster file from what machines print.

use super::output::{Output, say};
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, Failure, input};
use crate::cluster::file::ClusterFile;
use crate::cluster::probe::compose::{Seen, compose};
use crate::cluster::probe::{Node, devices, hostlist, nccl, slurm, topo, xml};
use crate::error::{InputError, Kind};
use crate::read;
use crate::units::BytesPerSecond;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `probe`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Args {
    /// What `nvidia-smi topo -m` prints
    #[arg(long, value_name = "FILE")]
    topo: Option<PathBuf>,
    /// What a test of nccl-tests prints, or its JSON; may be given several times
    #[arg(long, value_name = "FILE")]
    nccl: Vec<PathBuf>,
    /// NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or what a cloud ships)
    #[arg(long, value_name = "FILE")]
    xml: Option<PathBuf>,
    /// Slurm's list of hosts, e.g. 'n[1-4]'
    #[arg(long, value_name = "LIST")]
    hostlist: Option<String>,
    /// What `scontrol show node` prints
    #[arg(long, value_name = "FILE")]
    scontrol: Option<PathBuf>,
    /// Slurm's topology.conf
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// SLURM_TASKS_PER_NODE, e.g. '8(x4)'
    #[arg(long, value_name = "LIST")]
    tasks_per_node: Option<String>,
    /// What `nvidia-smi --query-gpu=name,.. --format=csv` prints
    #[arg(long, value_name = "FILE")]
    query: Option<PathBuf>,
    /// What `ibstat` prints
    #[arg(long, value_name = "FILE")]
    ibstat: Option<PathBuf>,
    /// The accelerator, where no file says it
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Rate of one network card, where no file says it, e.g. 400Gb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    nic: Option<BytesPerSecond>,
    /// Write the cluster file here
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

fn rate(text: &str) -> Result<BytesPerSecond, InputError> {
    let rate: BytesPerSecond = text.parse().map_err(|e: crate::units::ParseUnitError| {
        InputError::new(Kind::InvalidValue).found(e.found).expected(e.expected)
    })?;
    if rate.0 > 0.0 {
        Ok(rate)
    } else {
        Err(InputError::new(Kind::InvalidValue).found(text).expected("a rate above zero"))
    }
}

/// The text of a file, read by `parse`; errors name the file.
fn of<T>(path: &Path, parse: impl Fn(&str) -> Result<T, InputError>) -> Result<T, InputError> {
    parse(&input::text(path)?).map_err(|e| e.in_file(path.display()))
}

fn told(node: &Node) -> Value {
    let near: Vec<Vec<&str>> =
        node.nearest_nics().iter().map(|list| list.iter().map(|i| node.nics[*i].name.as_str()).collect()).collect();
    let nvlink: Vec<Value> =
        node.nvlink_groups().iter().map(|(devices, links)| json!({ "devices": devices, "links": links })).collect();
    json!({
        "devices": node.devices, "nvlink_groups": nvlink, "nics": node.nics, "nearest_nics": near,
        "numa": node.numa, "paths": node.paths,
    })
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    if let Some(path) = &args.output {
        let one = [&args.topo, &args.xml, &args.scontrol, &args.topology, &args.query, &args.ibstat];
        let inputs: Vec<&Path> = one.into_iter().flatten().chain(&args.nccl).map(PathBuf::as_path).collect();
        may_write(path, Written::Cluster, &inputs)?;
    }
    let mut seen =
        Seen { device: args.device.clone(), nic_gigabits: args.nic.map(|r| r.0 * 8.0 / 1e9), ..Seen::default() };
    let matrix = args.topo.as_deref().map(|p| of(p, topo::parse)).transpose()?;
    let dump = args.xml.as_deref().map(|p| of(p, xml::parse)).transpose()?;
    seen.node = joined(matrix, dump)?;
    seen.tables = args.nccl.iter().map(|p| of(p, nccl::parse)).collect::<Result<_, _>>()?;
    let hosts = args.hostlist.as_deref().map(hostlist::expand).transpose()?;
    let mut switches = Vec::new();
    if let Some(path) = &args.topology {
        switches = of(path, slurm::topology)?;
    }
    let most = switches.iter().map(|s| s.nodes.len() as u64).max();
    seen.nodes = hosts.as_ref().map(|h| h.len() as u64).or(most);
    if let Some(text) = &args.tasks_per_node {
        let tasks = slurm::tasks_per_node(text).map_err(|e| e.at("--tasks-per-node"))?;
        if let Some(nodes) = seen.nodes.filter(|n| *n != tasks.len() as u64) {
            let error =
                InputError::new(Kind::Inconsistent).at("--tasks-per-node").found(format!("{} nodes", tasks.len()));
            return Err(error.expected(format!("{nodes}, as the list of hosts has")).into());
        }
        seen.nodes = Some(tasks.len() as u64);
        if tasks.contains(&0) {
            let error = InputError::new(Kind::InvalidValue).at("--tasks-per-node").found(text);
            return Err(error.expected("at least one task on every node").into());
        }
        seen.devices = tasks.first().copied();
        if tasks.iter().any(|t| Some(t) != tasks.first()) {
            let error = InputError::new(Kind::Unsupported).at("--tasks-per-node").found(text);
            return Err(error.expected("as many tasks on every node: unlike nodes are pools of their own").into());
        }
    }
    if let Some(path) = &args.scontrol {
        let records = of(path, slurm::nodes)?;
        let first = records.first();
        seen.host_memory = first.map(|r| r.memory_bytes as f64).filter(|b| *b > 0.0);
        seen.devices = seen.devices.or(first.map(|r| r.devices).filter(|n| *n > 0));
        seen.device = seen.device.or_else(|| first.and_then(|r| r.device.clone()));
        seen.nodes = seen.nodes.or(Some(records.len() as u64));
    }
    if let Some(path) = &args.query {
        let (devices, name) = of(path, devices::query)?;
        seen.device = seen.device.or(Some(name));
        if let Some(node) = seen.node.as_ref().filter(|n| n.devices != devices) {
            let error = InputError::new(Kind::Inconsistent).at("--query").found(format!("{devices} accelerators"));
            return Err(error.expected(format!("{}, as the topology has", node.devices)).into());
        }
        seen.devices = Some(devices);
    }
    if let Some(path) = &args.ibstat {
        let cards = of(path, devices::ibstat)?;
        let fastest = cards.iter().filter_map(|c| c.gigabits).fold(0.0, f64::max);
        seen.nic_gigabits = seen.nic_gigabits.or((fastest > 0.0).then_some(fastest));
        if let Some(node) = &mut seen.node {
            for nic in &mut node.nics {
                nic.gigabits = nic.gigabits.or_else(|| cards.iter().find(|c| c.name == nic.name)?.gigabits);
            }
        }
    }
    let (file, notes) = compose(&seen)?;
    // What is written must read back as a cluster.
    let cluster = file.cluster("probed").map_err(InputError::from)?;
    let text = ron(&file)?;
    if let Some(path) = &args.output {
        std::fs::write(path, &text).map_err(|e| InputError::new(Kind::Unwritable).in_file(path.display()).help(e))?;
    }
    let levels: Vec<Value> = cluster
        .pools
        .iter()
        .flat_map(|p| &p.levels)
        .map(|l| {
            json!({
                "name": l.name, "devices": l.devices, "uplink_bytes_per_s": l.uplink.0,
                "per_device_bytes_per_s": l.per_device.0, "efficiency": l.efficiency, "half_at_bytes": l.half_at.0,
            })
        })
        .collect();
    let document = json!({
        "schema": "espalier/probe/1",
        "cluster": file,
        "levels": levels,
        "node": seen.node.as_ref().map(told),
        "tables": seen.tables.iter().map(|t| json!({
            "ranks": t.ranks, "nodes": t.nodes, "reduces": t.reduces, "plateau_bytes_per_s": t.plateau(), "half_at_bytes": t.half_at(),
        })).collect::<Vec<_>>(),
        "hosts": hosts,
        "switches": switches,
        "notes": notes,
    });
    if args.output.is_none() || output.json {
        output.answer(&document, |_| text.clone())?;
    }
    if !output.json {
        for note in &notes {
            say(&format!("note: {note}"));
        }
        if let Some(path) = &args.output {
            say(&format!("written to {}", path.display()));
        }
    }
    Ok(ANSWERED)
}

/// The matrix says paths as the driver sees them, the dump rates of cards: both say one node.
fn joined(matrix: Option<Node>, dump: Option<Node>) -> Result<Option<Node>, InputError> {
    Ok(match (matrix, dump) {
        (Some(mut a), Some(b)) => {
            if a.devices != b.devices {
                let error =
                    InputError::new(Kind::Inconsistent).at("--xml").found(format!("{} accelerators", b.devices));
                return Err(error.expected(format!("{}, as the matrix has", a.devices)));
            }
            for nic in &mut a.nics {
                nic.gigabits = b.nics.iter().find(|n| n.name == nic.name).and_then(|n| n.gigabits);
            }
            if a.nics.is_empty() {
                (a.nics, a.to_nics) = (b.nics, b.to_nics);
            }
            Some(a)
        }
        (a, b) => a.or(b),
    })
}

fn ron(file: &ClusterFile) -> Result<String, Failure> {
    let pretty = ron::ser::PrettyConfig::new();
    let text = read::ron_options().to_string_pretty(file, pretty).map_err(|e| Failure::Internal(e.to_string()))?;
    Ok(format!("{text}\n"))
}
