//! Cluster files: RON or JSON, as friendly as a description of machines can be.
//!
//! ```ron
//! (
//!     name: "four devices in two pairs",
//!     pools: [(
//!         device: (name: "accelerator", half: "150TFLOP/s", memory: "80GB", memory_bandwidth: "2TB/s"),
//!         devices_per_node: 4,
//!         links: [
//!             (name: "bridge", groups: [[0, 1], [2, 3]], bandwidth: "250GB/s", latency: "5us"),
//!             (name: "slow", bandwidth: "10Gb/s", latency: "10us"),
//!         ],
//!     )],
//! )
//! ```
//!
//! A pool is a shorthand (`"h100x8:4"`), a machine with changes (`instance: "h100x8", nodes: 4, price: 2.5`), or written
//! out in full. Links go from the inside out; the bandwidth of a link is what one child unit (a device, a pair, a node)
//! has towards its siblings per direction, as one number or as `nics` of `nic`.

mod build;
mod write;

use super::{Cluster, ClusterError, Efficiency};
use crate::error::InputError;
use crate::read;
use crate::units::{Bytes, BytesPerSecond, Dollars, FlopsPerSecond, Seconds};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A cluster as a file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Cluster")]
pub struct ClusterFile {
    /// Its name; the file's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its pools.
    pub pools: Vec<PoolEntry>,
    /// Between pools of one site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_pools: Option<BetweenFile>,
    /// Between sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_sites: Option<BetweenFile>,
}

/// A shorthand or a description.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PoolEntry {
    /// E.g. `h100x8:4`.
    Shorthand(String),
    /// Written out, or a machine with changes.
    Described(Box<PoolFile>),
}

/// A pool as a file describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename = "Pool")]
pub struct PoolFile {
    /// Its name; `pool0`, `pool1`, ... if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its site; all pools without one stand together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// A built-in machine to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The accelerator, by name or in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceEntry>,
    /// Number of nodes, 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Devices of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_per_node: Option<u64>,
    /// Devices in all: `nodes * devices_per_node`, said once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<u64>,
    /// Links from the inside out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<LinkFile>>,
    /// Host memory of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_memory: Option<Bytes>,
    /// Bandwidth between a device and its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_link: Option<BytesPerSecond>,
    /// Dollars per device and hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Dollars>,
    /// Where the price was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_source: Option<String>,
    /// When the price was read, `YYYY-MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_date: Option<String>,
    /// Physical device at each position, instead of `groups` of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<u64>>,
}

/// A device by name or in full.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DeviceEntry {
    /// A built-in device.
    Named(String),
    /// A device of one's own, or a built-in one with changes.
    Described(Box<DeviceFile>),
}

/// A device as a file describes it. What is absent comes from `like`, or is assumed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename = "Device")]
pub struct DeviceFile {
    /// What to call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A built-in device to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Dense peak in bf16 or fp16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half: Option<FlopsPerSecond>,
    /// Dense peak in fp8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8: Option<FlopsPerSecond>,
    /// Dense peak in fp32 or tf32; half of `half` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<FlopsPerSecond>,
    /// Memory that a framework sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Memory bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<BytesPerSecond>,
    /// Dense matrix products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gemm: Option<Efficiency>,
    /// Grouped matrix products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouped_gemm: Option<Efficiency>,
    /// Fused attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Efficiency>,
    /// Memory-bound kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<Efficiency>,
    /// Time to launch one kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<Seconds>,
    /// Where its numbers come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When they were read, `YYYY-MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// A level of links as a file describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename = "Link")]
pub struct LinkFile {
    /// What to call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Devices that it joins; a node for an inner link, the pool for the last, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<u64>,
    /// Which devices it joins, by number, in the pool or in one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Vec<u64>>>,
    /// What one child unit has towards its siblings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BytesPerSecond>,
    /// Number of NICs of one child unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<u64>,
    /// Bandwidth of one NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<BytesPerSecond>,
    /// The most that one device drives; all NICs next to it, or everything, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_device: Option<BytesPerSecond>,
    /// Latency of one hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Seconds>,
    /// Fraction of the bandwidth that large collectives reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// Message size at which half of that is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_at: Option<Bytes>,
}

/// A link between pools or sites as a file describes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Between")]
pub struct BetweenFile {
    /// In all, per direction.
    pub bandwidth: BytesPerSecond,
    /// One way.
    #[serde(default)]
    pub latency: Seconds,
}

/// Reads a text, or fields as `T`.
struct TextOr<T>(&'static str, std::marker::PhantomData<T>);

enum TextOrFields<T> {
    Text(String),
    Fields(T),
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOr<T> {
    type Value = TextOrFields<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrFields::Text(text.to_owned()))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOrFields::Fields)
    }
}

impl<'de> Deserialize<'de> for PoolEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let expected = "a machine such as \"h100x8:4\" or the fields of a pool";
        Ok(match d.deserialize_any(TextOr::<PoolFile>(expected, std::marker::PhantomData))? {
            TextOrFields::Text(text) => Self::Shorthand(text),
            TextOrFields::Fields(fields) => Self::Described(Box::new(fields)),
        })
    }
}

impl<'de> Deserialize<'de> for DeviceEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let expected = "the name of a device or its fields";
        Ok(match d.deserialize_any(TextOr::<DeviceFile>(expected, std::marker::PhantomData))? {
            TextOrFields::Text(text) => Self::Named(text),
            TextOrFields::Fields(fields) => Self::Described(Box::new(fields)),
        })
    }
}

/// Reads a cluster file.
pub fn load(path: &Path) -> Result<Cluster, ClusterError> {
    parse(&read::text(path)?, &path.display().to_string())
}

/// Reads the text of a cluster file; `name` is the file to name in errors.
pub fn parse(text: &str, name: &str) -> Result<Cluster, ClusterError> {
    let file: ClusterFile = read::parse(text, name)?;
    let stem = Path::new(name).file_stem().map_or_else(|| name.to_owned(), |s| s.to_string_lossy().into_owned());
    file.cluster(&stem).map_err(|e| InputError::from(e).in_file(name).into())
}
