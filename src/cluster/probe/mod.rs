//! Clusters from what machines print: `nvidia-smi topo -m`, tables of nccl-tests, NCCL's topology XML, Slurm's node lists
//! and node records, `nvidia-smi --query-gpu`, `ibstat`.

pub mod compose;
pub mod devices;
pub mod hostlist;
pub mod nccl;
pub mod ranks;
pub mod slurm;
pub mod topo;
pub mod xml;

use crate::error::{InputError, Kind};
use serde::Serialize;

/// How near two devices stand, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// The device itself.
    Same,
    /// This many NVLinks, or xGMI links.
    Nvlink(u64),
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
}

/// A network card and the devices next to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nic {
    /// Its name, e.g. `mlx5_0`.
    pub name: String,
    /// Gb/s per direction, where it is said and believable.
    pub gigabits: Option<f64>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Node {
    /// Accelerators.
    pub devices: u64,
    /// What they are, if it is said.
    pub device: Option<String>,
    /// Links between each two accelerators.
    pub paths: Vec<Vec<Path>>,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// From each accelerator to each card.
    pub to_nics: Vec<Vec<Path>>,
    /// NUMA node of each accelerator, where it is said.
    pub numa: Vec<Option<u64>>,
    /// What was seen and not believed, or left out.
    pub notes: Vec<String>,
}

impl Node {
    /// The cards nearest to each accelerator.
    pub fn nearest_nics(&self) -> Vec<Vec<usize>> {
        let nearest = |paths: &Vec<Path>| {
            let best = paths.iter().min();
            paths.iter().enumerate().filter(|(_, p)| Some(*p) == best).map(|(i, _)| i).collect()
        };
        self.to_nics.iter().map(nearest).collect()
    }

    /// Groups of accelerators joined by NVLinks, with the links of each accelerator. One group of all with as many links
    /// everywhere is a switch.
    pub fn nvlink_groups(&self) -> Vec<(Vec<u64>, u64)> {
        let n = self.paths.len();
        let mut seen = vec![false; n];
        let mut groups = Vec::new();
        for start in 0..n {
            if seen[start] {
                continue;
            }
            let (mut group, mut open) = (Vec::new(), vec![start]);
            seen[start] = true;
            while let Some(i) = open.pop() {
                group.push(i as u64);
                for (j, path) in self.paths[i].iter().enumerate() {
                    if matches!(path, Path::Nvlink(_)) && !std::mem::replace(&mut seen[j], true) {
                        open.push(j);
                    }
                }
            }
            group.sort_unstable();
            let links = self.links_of(&group);
            groups.push((group, links));
        }
        groups
    }

    /// Links that one accelerator of a group has towards the others. Where every pair says the same number and there are
    /// more than two, they go to a switch and are the same links each time.
    fn links_of(&self, group: &[u64]) -> u64 {
        let Some(first) = group.first() else { return 0 };
        let counts: Vec<u64> = group
            .iter()
            .filter(|other| *other != first)
            .filter_map(|other| match self.paths[*first as usize].get(*other as usize) {
                Some(Path::Nvlink(n)) => Some(*n),
                _ => None,
            })
            .collect();
        let whole = counts.len() + 1 == group.len();
        match counts.first() {
            None => 0,
            Some(n) if whole && counts.iter().all(|c| c == n) && *n > counts.len() as u64 => *n,
            Some(_) => counts.iter().sum(),
        }
    }
}

/// Without the escapes that terminals read.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    // Parameters up to the letter that ends the sequence.
                    while chars.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
                    chars.next();
                }
            }
            '\u{feff}' | '\r' => {}
            c => out.push(c),
        }
    }
    out
}

/// An empty file says nothing.
pub(crate) fn not_empty(text: &str, what: &str) -> Result<(), InputError> {
    if text.trim().is_empty() {
        return Err(InputError::new(Kind::Syntax).found("an empty file").expected(what));
    }
    Ok(())
}
