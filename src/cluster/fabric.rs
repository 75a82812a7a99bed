//! How fast links are in practice: what collectives reach of the wire rate, and what a small message costs.
//!
//! A collective over `n` ranks takes `volume / (bandwidth * efficiency * s / (s + half_at)) + hops * latency`, with
//! `s` the bytes of a rank's message. Fits below are of nccl-tests all-reduce tables (2(n-1) hops) at 4 MiB and more,
//! by least squares on the logarithm of the time:
//!
//! | table | latency | plateau (bus bandwidth) | half at | rms |
//! |---|---|---|---|---|
//! | A100x8 (VIA-Research/vTrain@f8dda84 trace/a100) | 2 us | 229 GB/s of 300 | 5.2 MiB | 6 % |
//! | A100x4, x2 (same) | 2 us | 216, 190 | 5.7, 6.7 MiB | 4, 2 % |
//! | V100x8 (same, trace/v100) | 2 us | 134 of 150 | 5.2 MiB | 8 % |
//! | H100x8 (NVIDIA/dgxc-benchmarking nccl/README.md) | 1.2 us | 480 with NVLS, of 450 | 8.7 MiB | 9 % |
//! | H100x64 over NDR (coreweave/nccl-tests@cb86553) | | 386 of 400 with SHARP | | 1 % |
//! | GB200x72 (same) | 2.5 us | 866 with NVLS, of 900 | | 2 % |
//!
//! All read 2026-11. With hops priced apart, A100x8 reaches half its plateau at 12 MiB and H100x8 at 16 to 32 MiB, as
//! the tables say. In-switch reduction (NVLS, SHARP) serves all-reduce only: [`Fabric::efficiency`] is for all-gather
//! and reduce-scatter without it.

use crate::units::{Bytes, Seconds};

/// A kind of link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fabric {
    /// Name of the level, as in reports.
    pub name: &'static str,
    /// Fraction of the wire rate that large all-gathers and reduce-scatters reach.
    pub efficiency: f64,
    /// Latency of one hop, software included.
    pub latency: Seconds,
    /// Message size per rank at which half the plateau is reached, hops apart.
    pub half_at: Bytes,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When they were read or assumed, `YYYY-MM`.
    pub date: &'static str,
}

const MIB: f64 = (1u64 << 20) as f64;

const fn fabric(name: &'static str, efficiency: f64, latency_us: f64, half_mib: f64, source: &'static str) -> Fabric {
    Fabric {
        name,
        efficiency,
        latency: Seconds(latency_us * 1e-6),
        half_at: Bytes(half_mib * MIB),
        source,
        date: "2026-11",
    }
}

/// V100: hybrid cube mesh. Rings over all 8 reach the plateau; pairs and fours get 23 and 85 GB/s.
pub const NVLINK2: Fabric = fabric("nvlink", 0.90, 2.0, 5.2, "fit, vTrain trace/v100");
/// A100 and A800.
pub const NVLINK3: Fabric = fabric("nvlink", 0.76, 2.0, 5.2, "fit, vTrain trace/a100");
/// H100, H200, H800, H20: rings without NVLS reach about 360 of 450 GB/s (common nccl-tests figure, not in a table here).
pub const NVLINK4: Fabric = fabric("nvlink", 0.80, 1.2, 8.7, "half point and latency fit, dgxc-benchmarking nccl");
/// B200, B300: SimuMax's system file has 0.74 of 900 GB/s for rings.
pub const NVLINK5: Fabric =
    fabric("nvlink", 0.74, 1.5, 17.0, "SimuMax b200 system file; half point as H100 at twice the rate");
/// GB200, GB300 racks of 72.
pub const NVL72: Fabric =
    fabric("nvlink", 0.74, 2.5, 35.0, "plateau as B200; latency and half point fit, coreweave/nccl-tests GB200x72");
/// Full mesh of AMD nodes: 7 links of 64 GB/s and no switch, so that pairs get one link only.
pub const XGMI: Fabric = fabric("xgmi", 0.70, 3.0, 8.0, "assumed: rings of RCCL reach about 310 of 448 GB/s");
/// Devices on the PCIe tree of a host: SimuMax's A100-PCIe file has 0.42 to 0.70.
pub const PCIE: Fabric = fabric("pcie", 0.65, 5.0, 2.0, "SimuMax a100_pcie system file; latency assumed");
/// Bridges, meshes and tori of other vendors.
pub const OTHER_SCALE_UP: Fabric = fabric("scale-up", 0.75, 3.0, 8.0, "assumed as NVLink3");

/// InfiniBand: 356 to 387 of 400 GB/s per node on 64 H100 (with SHARP, which gathers do not have).
pub const INFINIBAND: Fabric = fabric("infiniband", 0.90, 5.0, 6.0, "coreweave/nccl-tests H100x64; latency assumed");
/// RoCE.
pub const ROCE: Fabric = fabric("roce", 0.85, 6.0, 6.0, "assumed: a little below InfiniBand");
/// Omni-Path: the host's processors move the bytes (assumed: half of the wire).
pub const OMNIPATH: Fabric = fabric("omni-path", 0.50, 8.0, 8.0, "assumed: PSM2 copies on the host");
/// AWS Elastic Fabric Adapter.
pub const EFA: Fabric = fabric(
    "efa",
    0.80,
    35.0,
    12.0,
    "rate and latency of a ring step fitted to tensor and data parallelism over nodes (Nanotron sweep, 2025); half point assumed",
);
/// GPUDirect-TCPX and TCPXO of Google's a3.
pub const TCPX: Fabric = fabric("tcpx", 0.75, 20.0, 16.0, "assumed: copies through a receive buffer");
/// Slingshot.
pub const SLINGSHOT: Fabric = fabric("slingshot", 0.80, 6.0, 8.0, "assumed");
/// TCP over Ethernet.
pub const ETHERNET: Fabric = fabric("ethernet", 0.60, 30.0, 4.0, "assumed: NCCL over sockets");

/// All of them, what is assumed of links that say nothing last.
pub static ALL: &[Fabric] = &[
    NVLINK2,
    NVLINK3,
    NVLINK4,
    NVLINK5,
    NVL72,
    XGMI,
    PCIE,
    OTHER_SCALE_UP,
    INFINIBAND,
    ROCE,
    OMNIPATH,
    EFA,
    TCPX,
    SLINGSHOT,
    ETHERNET,
    Fabric::UNKNOWN,
];

impl Fabric {
    /// What to assume of a link that a file describes only by its bandwidth.
    pub const UNKNOWN: Fabric = fabric("link", 0.80, 5.0, 4.0, "assumed for links that say nothing else");
}
