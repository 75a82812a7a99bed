//! Where it is trained: pools of like devices, links by level, memory and price.
//!
//! Bandwidths are per direction. A level's unit is a set of devices that share its links: a device pair, a scale-up
//! domain (NVLink, xGMI), the nodes of a pool, a site. Levels are ordered from the inside out, each unit made of whole
//! units of the level before.

pub mod curves;
pub mod devices;
mod error;
pub mod fabric;
pub mod file;
pub mod groups;
pub mod instances;
pub mod probe;
mod resize;
pub mod sources;
mod validate;

pub use error::ClusterError;
pub use validate::MOST_DEVICES;

use crate::units::{Bytes, BytesPerSecond, Dollars, FlopsPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// A number with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// Publication, file or measurement.
    pub source: String,
    /// When it was published or read, `YYYY-MM`.
    pub date: String,
}

/// Dense peak rates (no sparsity) by precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Matrix products with bf16 or fp16 inputs and fp32 accumulation.
    pub half: FlopsPerSecond,
    /// Matrix products with fp8 inputs, where the device has them.
    pub fp8: Option<FlopsPerSecond>,
    /// Matrix products with fp32 (or tf32) inputs.
    pub single: FlopsPerSecond,
}

/// Efficiency curve of a kind of kernel: `eta(x) = plateau * x / (x + half_at)` of the peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Fraction of the dense peak that large kernels sustain.
    pub plateau: f64,
    /// Size (in FLOP for arithmetic, bytes for memory) at which half the plateau is reached.
    pub half_at: f64,
}

impl Efficiency {
    /// Fraction of the peak at size `x`; zero at zero.
    pub fn at(&self, x: f64) -> f64 {
        if x > 0.0 { self.plateau * x / (x + self.half_at) } else { 0.0 }
    }
}

/// One accelerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// As vendors call it, e.g. `H100-SXM5-80GB`.
    pub name: String,
    /// Dense peaks.
    pub peak: Peak,
    /// Memory that a framework can see (an "80 GB" H100 shows 85.0e9 bytes).
    pub memory: Bytes,
    /// Main-memory bandwidth.
    pub memory_bandwidth: BytesPerSecond,
    /// Dense matrix products; `half_at` in FLOP of one product.
    pub gemm: Efficiency,
    /// Grouped matrix products of experts; `half_at` in FLOP of one expert's product.
    pub grouped_gemm: Efficiency,
    /// Fused attention; FLOP with causal positions counted once (half of the square), backward 2.5 times the forward.
    pub attention: Efficiency,
    /// Memory-bound kernels, fraction of `memory_bandwidth`.
    pub streaming: Efficiency,
    /// Time to launch one kernel when the queue is not ahead.
    pub launch: Seconds,
    /// Where its numbers come from.
    pub source: String,
    /// When they were read, `YYYY-MM`.
    pub date: String,
}

/// The links that join the units of one level into the unit of the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// `pair`, `nvlink`, `network`, `site`, ...
    pub name: String,
    /// Devices in one unit of this level.
    pub devices: u64,
    /// Bandwidth with which one child unit (a device at the innermost level, a node at the network level) reaches its
    /// siblings: the sum over its NICs or links.
    pub uplink: BytesPerSecond,
    /// The most that one device alone can drive of it (the NICs next to it).
    pub per_device: BytesPerSecond,
    /// Latency of one hop, software included.
    pub latency: Seconds,
    /// Fraction of the nominal bandwidth that large collectives reach (bus bandwidth over nominal).
    pub efficiency: f64,
    /// Message size per rank at which a collective reaches half its plateau.
    pub half_at: Bytes,
}

/// Like devices, alike connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Where it stands; pools of one site are joined by [`Cluster::between_pools`], sites by [`Cluster::between_sites`].
    pub site: String,
    /// The accelerator.
    pub device: Device,
    /// How many.
    pub devices: u64,
    /// Devices of one node (shares host memory and the price of a machine).
    pub devices_per_node: u64,
    /// Links from the inside out; the last level's unit is the pool.
    pub levels: Vec<Level>,
    /// Host memory of a node.
    pub host_memory: Option<Bytes>,
    /// Bandwidth between a device and host memory.
    pub host_link: Option<BytesPerSecond>,
    /// Price of one device for one hour.
    pub price: Option<Sourced<Dollars>>,
    /// Physical device at each position of the level tree; `None` is the identity. A renumbering of the devices changes
    /// this and nothing else.
    pub order: Option<Vec<u64>>,
}

/// A link between pools or sites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Total bandwidth per direction.
    pub bandwidth: BytesPerSecond,
    /// Latency.
    pub latency: Seconds,
}

/// All pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The pools.
    pub pools: Vec<Pool>,
    /// Between pools of one site.
    pub between_pools: Option<Link>,
    /// Between sites.
    pub between_sites: Option<Link>,
}
