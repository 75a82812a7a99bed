//! What Slurm says beside lists of hosts: tasks per node, node records, topology files.

use super::{hostlist, not_empty, plain};
use crate::error::{InputError, Kind};
use serde::Serialize;

/// `8(x4),4`: tasks of each node.
///
/// # Errors
/// Anything else.
pub fn tasks_per_node(text: &str) -> Result<Vec<u64>, InputError> {
    let refuse =
        || InputError::new(Kind::Syntax).at("SLURM_TASKS_PER_NODE").found(text).expected("a list such as `8(x4),4`");
    let mut list = Vec::new();
    for part in text.trim().split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, rest)) => (tasks, rest.strip_suffix(')').ok_or_else(refuse)?),
            None => (part, "1"),
        };
        let number = |s: &str| s.trim().parse::<u64>().ok();
        let (tasks, times) =
            (number(tasks).ok_or_else(refuse)?, number(times).filter(|n| *n <= 1_000_000).ok_or_else(refuse)?);
        list.extend(std::iter::repeat_n(tasks, times as usize));
    }
    Ok(list)
}

/// A node of `scontrol show node`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Kind of accelerator, if it is said.
    pub device: Option<String>,
    /// Accelerators.
    pub devices: u64,
    /// Host memory in bytes: `RealMemory` is in MiB.
    pub memory_bytes: u64,
}

/// Reads `scontrol show node`.
///
/// # Errors
/// No node, numbers that are none.
pub fn nodes(text: &str) -> Result<Vec<Record>, InputError> {
    not_empty(text, "what `scontrol show node` prints")?;
    let text = plain(text);
    let mut list: Vec<Record> = Vec::new();
    for word in text.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else { continue };
        if key == "NodeName" {
            list.push(Record { name: value.to_owned(), device: None, devices: 0, memory_bytes: 0 });
            continue;
        }
        let Some(record) = list.last_mut() else { continue };
        match key {
            "RealMemory" => {
                let mib: u64 = value
                    .parse()
                    .map_err(|_| InputError::new(Kind::InvalidValue).at("RealMemory").found(value).expected("MiB"))?;
                record.memory_bytes = mib.saturating_mul(1 << 20);
            }
            "Gres" => {
                // gpu:h100:8(S:0-1)
                let gpu = value.split(',').find(|g| g.starts_with("gpu"));
                for part in gpu.unwrap_or_default().split('(').next().unwrap_or_default().split(':').skip(1) {
                    match part.parse() {
                        Ok(n) => record.devices = n,
                        Err(_) => record.device = Some(part.to_owned()),
                    }
                }
            }
            _ => {}
        }
    }
    if list.is_empty() {
        return Err(InputError::new(Kind::Syntax).found("no NodeName=").expected("what `scontrol show node` prints"));
    }
    Ok(list)
}

/// A switch or a block of a topology file with the nodes below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// All nodes below it.
    pub nodes: Vec<String>,
    /// Whether it is a block (`topology/block`): one scale-up domain.
    pub block: bool,
}

/// Reads a `topology.conf` of trees or of blocks.
///
/// # Errors
/// Lines that name nothing, switches below others that are not defined.
pub fn topology(text: &str) -> Result<Vec<Switch>, InputError> {
    not_empty(text, "a topology.conf")?;
    let mut list: Vec<Switch> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let field = |key: &str| {
            line.split_whitespace()
                .find_map(|w| w.split_once('=').filter(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v))
        };
        let block = field("BlockName");
        let Some(name) = field("SwitchName").or(block) else { continue };
        let at = |e: InputError| e.at(format!("line {}", number + 1));
        let nodes = match (field("Nodes"), field("Switches")) {
            (Some(nodes), _) => hostlist::expand(nodes).map_err(at)?,
            (None, Some(below)) => {
                let mut nodes = Vec::new();
                for name in hostlist::expand(below).map_err(at)? {
                    let known = list.iter().find(|s| s.name == name).ok_or_else(|| {
                        at(InputError::new(Kind::UnknownName).found(&name).expected("a switch defined before"))
                    })?;
                    nodes.extend(known.nodes.iter().cloned());
                }
                nodes
            }
            (None, None) => {
                return Err(at(InputError::new(Kind::MissingField).found(line.trim()).expected("Nodes= or Switches=")));
            }
        };
        list.push(Switch { name: name.to_owned(), nodes, block: block.is_some() });
    }
    if list.is_empty() {
        return Err(InputError::new(Kind::Syntax)
            .found("no switch and no block")
            .expected("SwitchName= or BlockName= lines"));
    }
    Ok(list)
}
