//! Machines one can rent or buy, by name: `h100x8:4` is four HGX nodes of eight H100.
//!
//! Numbers of NICs, their rates and host memory are the usual configurations as of 2026-11 after cloud instance pages and
//! DGX and HGX data sheets, entered by hand: a machine of yours may differ, and a cluster file says how. Scale-up rates per direction are those of stas00/ml-engineering@744d01e `network`.
//! Nodes of eight can also be asked for in part: `h100x4` is four devices of an HGX node with the NICs next to them.

use super::fabric::{self, Fabric};
use super::{Cluster, ClusterError, Level, MOST_DEVICES, Pool, Sourced, devices};
use crate::units::{Bytes, BytesPerSecond, Dollars};

/// One kind of machine.
#[derive(Debug, Clone, Copy)]
struct Instance {
    /// Our name first, then the vendor's.
    names: &'static [&'static str],
    device: &'static str,
    /// Devices of one node.
    node: u64,
    /// Devices that one unit of the shorthand stands for: a node, or a rack.
    unit: u64,
    /// Devices of a scale-up domain.
    domain: u64,
    scale_up: Fabric,
    /// GB/s per device and direction.
    scale_up_rate: f64,
    network: Fabric,
    /// NICs of a node.
    nics: u64,
    /// Gb/s per NIC and direction.
    nic: f64,
    /// GB (1e9) of a node.
    host_memory: f64,
    /// GB/s between a device and the host.
    host_link: f64,
    /// Dollars per device and hour, where this machine has its own price.
    price: Option<(f64, &'static str)>,
}

const PCIE3: f64 = 15.75;
const PCIE4: f64 = 31.5;
const PCIE5: f64 = 63.0;
/// NVLink-C2C: 450 GB/s per Grace and direction, shared by two devices on GB200 and GB300.
const C2C_SHARED: f64 = 225.0;
/// NVLink-C2C of GH200.
const C2C: f64 = 450.0;
/// What the rates of machines rest on; see the head of this file.
pub const SOURCE: &str = "cloud instance pages and vendor data sheets, by hand; scale-up rates ml-engineering@744d01e";
/// When machines and prices were read.
pub const DATE: &str = "2026-11";
const GIB: f64 = 1.073_741_824;

struct ScaleUp(Fabric, f64);
const NVLINK2: ScaleUp = ScaleUp(fabric::NVLINK2, 150.0);
const NVLINK3: ScaleUp = ScaleUp(fabric::NVLINK3, 300.0);
const NVLINK3_CUT: ScaleUp = ScaleUp(fabric::NVLINK3, 200.0);
const NVLINK4: ScaleUp = ScaleUp(fabric::NVLINK4, 450.0);
const NVLINK4_CUT: ScaleUp = ScaleUp(fabric::NVLINK4, 200.0);
const NVLINK5: ScaleUp = ScaleUp(fabric::NVLINK5, 900.0);
const NVL72: ScaleUp = ScaleUp(fabric::NVL72, 900.0);
const ON_PCIE3: ScaleUp = ScaleUp(fabric::PCIE, 15.75);
const ON_PCIE4: ScaleUp = ScaleUp(fabric::PCIE, 31.0);
const ON_PCIE5: ScaleUp = ScaleUp(fabric::PCIE, 63.0);

/// A node of `n` devices in one scale-up domain. NICs: how many, of how many Gb/s.
const fn node(
    names: &'static [&'static str],
    device: &'static str,
    n: u64,
    ScaleUp(scale_up, scale_up_rate): ScaleUp,
    network: Fabric,
    (nics, nic): (u64, f64),
    (host_memory, host_link): (f64, f64),
) -> Instance {
    Instance {
        names,
        device,
        node: n,
        unit: n,
        domain: n,
        scale_up,
        scale_up_rate,
        network,
        nics,
        nic,
        host_memory,
        host_link,
        price: None,
    }
}

/// Trays of four in an NVL72 rack; one unit of the shorthand is `unit` devices.
const fn rack(
    names: &'static [&'static str],
    device: &'static str,
    unit: u64,
    network: Fabric,
    nic: f64,
    host: f64,
) -> Instance {
    Instance { unit, domain: 72, ..node(names, device, 4, NVL72, network, (4, nic), (host, C2C_SHARED)) }
}

const fn priced(instance: Instance, dollars: f64, source: &'static str) -> Instance {
    Instance { price: Some((dollars, source)), ..instance }
}

use fabric::{EFA, ETHERNET, INFINIBAND, ROCE, SLINGSHOT, TCPX};

#[rustfmt::skip]
static TABLE: &[Instance] = &[
    node(&["h100x8", "hgx-h100", "dgx-h100"], "H100", 8, NVLINK4, INFINIBAND, (8, 400.0), (2048.0, PCIE5)),
    node(&["h200x8", "hgx-h200", "dgx-h200"], "H200", 8, NVLINK4, INFINIBAND, (8, 400.0), (2048.0, PCIE5)),
    node(&["h800x8"], "H800", 8, NVLINK4_CUT, INFINIBAND, (8, 400.0), (2048.0, PCIE5)),
    node(&["h20x8"], "H20", 8, NVLINK4, INFINIBAND, (8, 400.0), (2048.0, PCIE5)),
    node(&["a100x8", "a100-80x8", "hgx-a100", "dgx-a100"], "A100-80", 8, NVLINK3, INFINIBAND, (8, 200.0), (2048.0, PCIE4)),
    node(&["a100-40x8", "dgx-a100-40"], "A100-40", 8, NVLINK3, INFINIBAND, (8, 200.0), (1024.0, PCIE4)),
    node(&["a800x8"], "A800", 8, NVLINK3_CUT, INFINIBAND, (8, 200.0), (2048.0, PCIE4)),
    node(&["v100x8", "v100-32x8", "dgx-1", "dgx1"], "V100-32GB", 8, NVLINK2, INFINIBAND, (4, 100.0), (512.0, PCIE3)),
    node(&["v100-16x8"], "V100-16GB", 8, NVLINK2, INFINIBAND, (4, 100.0), (512.0, PCIE3)),
    node(&["b200x8", "hgx-b200", "dgx-b200"], "B200", 8, NVLINK5, INFINIBAND, (8, 400.0), (2048.0, PCIE5)),
    node(&["b300x8", "hgx-b300", "dgx-b300"], "B300", 8, NVLINK5, INFINIBAND, (8, 800.0), (2048.0, PCIE5 * 2.0)),
    rack(&["gb200x72", "gb200-nvl72"], "GB200", 72, INFINIBAND, 400.0, 960.0),
    rack(&["gb200x4"], "GB200", 4, INFINIBAND, 400.0, 960.0),
    rack(&["gb300x72", "gb300-nvl72"], "GB300", 72, INFINIBAND, 800.0, 960.0),
    rack(&["gb300x4"], "GB300", 4, INFINIBAND, 800.0, 960.0),
    node(&["gh200x4", "alps"], "GH200", 4, NVLINK4, SLINGSHOT, (4, 200.0), (480.0, C2C)),
    node(&["mi300x8", "mi300xx8"], "MI300X", 8, ScaleUp(fabric::XGMI, 448.0), ROCE, (8, 400.0), (2304.0, PCIE5)),
    node(&["mi325x8", "mi325xx8"], "MI325X", 8, ScaleUp(fabric::XGMI, 448.0), ROCE, (8, 400.0), (2304.0, PCIE5)),
    node(&["mi355x8", "mi355xx8"], "MI355X", 8, ScaleUp(fabric::XGMI, 535.5), ROCE, (8, 400.0), (3072.0, PCIE5)),
    node(&["mi250x8", "mi250xx8", "frontier"], "MI250X", 8, ScaleUp(fabric::XGMI, 175.0), SLINGSHOT, (4, 200.0), (512.0, 36.0)),
    node(&["l40sx8"], "L40S", 8, ON_PCIE4, ROCE, (4, 200.0), (1024.0, PCIE4)),
    node(&["a100-pciex8"], "A100-PCIe", 8, ON_PCIE4, INFINIBAND, (4, 200.0), (1024.0, PCIE4)),
    node(&["h100-pciex8"], "H100-PCIe", 8, ON_PCIE5, INFINIBAND, (4, 400.0), (1024.0, PCIE5)),
    node(&["rtx4090x8"], "RTX 4090", 8, ON_PCIE4, ETHERNET, (1, 100.0), (512.0, PCIE4)),
    node(&["rtx3090x8"], "RTX 3090", 8, ON_PCIE4, ETHERNET, (1, 100.0), (512.0, PCIE4)),
    node(&["a6000x8"], "A6000", 8, ON_PCIE4, ETHERNET, (1, 100.0), (512.0, PCIE4)),
    // Three of a Gaudi's 24 ports leave the node, 21 join its siblings.
    node(&["gaudi2x8"], "Gaudi2", 8, ScaleUp(fabric::OTHER_SCALE_UP, 262.5), ROCE, (24, 100.0), (1024.0, PCIE4)),
    node(&["gaudi3x8"], "Gaudi3", 8, ScaleUp(fabric::OTHER_SCALE_UP, 525.0), ROCE, (24, 200.0), (1024.0, PCIE5)),
    node(&["910bx8"], "910B2", 8, ScaleUp(fabric::OTHER_SCALE_UP, 196.0), ROCE, (8, 200.0), (1536.0, PCIE4)),
    // AWS
    node(&["p3.16xlarge"], "V100-16GB", 8, NVLINK2, ETHERNET, (1, 25.0), (488.0 * GIB, PCIE3)),
    node(&["p3dn", "p3dn.24xlarge"], "V100-32GB", 8, NVLINK2, EFA, (1, 100.0), (768.0 * GIB, PCIE3)),
    node(&["g4dn.12xlarge", "t4x4"], "T4", 4, ON_PCIE3, ETHERNET, (1, 50.0), (192.0 * GIB, PCIE3)),
    node(&["g5.48xlarge", "a10gx8"], "A10G", 8, ON_PCIE4, EFA, (1, 100.0), (768.0 * GIB, PCIE4)),
    node(&["p4d", "p4d.24xlarge"], "A100-40", 8, NVLINK3, EFA, (4, 100.0), (1152.0 * GIB, PCIE4)),
    node(&["p4de", "p4de.24xlarge"], "A100-80", 8, NVLINK3, EFA, (4, 100.0), (1152.0 * GIB, PCIE4)),
    priced(node(&["p5", "p5.48xlarge"], "H100", 8, NVLINK4, EFA, (32, 100.0), (2048.0 * GIB, PCIE5)), 6.88, "AWS us-east-1 list 2025, not re-read"),
    node(&["p5e", "p5e.48xlarge"], "H200", 8, NVLINK4, EFA, (32, 100.0), (2048.0 * GIB, PCIE5)),
    node(&["p5en", "p5en.48xlarge"], "H200", 8, NVLINK4, EFA, (16, 200.0), (2048.0 * GIB, PCIE5)),
    node(&["p6-b200", "p6-b200.48xlarge"], "B200", 8, NVLINK5, EFA, (8, 400.0), (2048.0 * GIB, PCIE5)),
    rack(&["p6e-gb200", "u-p6e-gb200x72"], "GB200", 72, EFA, 400.0, 960.0),
    node(&["trn2x16", "trn2.48xlarge"], "Trainium2", 16, ScaleUp(fabric::OTHER_SCALE_UP, 640.0), EFA, (16, 200.0), (2048.0 * GIB, PCIE5)),
    // Google Cloud
    priced(node(&["a2-high", "a2-highgpu-8g"], "A100-40", 8, NVLINK3, ETHERNET, (1, 100.0), (680.0, PCIE4)), 3.67, "GCP list as in Sailor simulations/constants.py"),
    node(&["a2-ultra", "a2-ultragpu-8g"], "A100-80", 8, NVLINK3, ETHERNET, (1, 100.0), (1360.0, PCIE4)),
    node(&["a3-high", "a3-highgpu-8g"], "H100", 8, NVLINK4, TCPX, (4, 200.0), (1872.0, PCIE5)),
    node(&["a3-mega", "a3-megagpu-8g"], "H100", 8, NVLINK4, TCPX, (8, 200.0), (1872.0, PCIE5)),
    node(&["a3-ultra", "a3-ultragpu-8g"], "H200", 8, NVLINK4, ROCE, (8, 400.0), (2952.0, PCIE5)),
    node(&["a4", "a4-highgpu-8g"], "B200", 8, NVLINK5, ROCE, (8, 400.0), (3968.0, PCIE5)),
    rack(&["a4x", "a4x-highgpu-4g"], "GB200", 4, ROCE, 400.0, 884.0),
    // Azure
    node(&["ndv2", "nd40rs_v2"], "V100-32GB", 8, NVLINK2, INFINIBAND, (1, 100.0), (672.0 * GIB, PCIE3)),
    node(&["ndv4-40", "nd96asr_v4"], "A100-40", 8, NVLINK3, INFINIBAND, (8, 200.0), (900.0 * GIB, PCIE4)),
    node(&["ndv4", "nd96amsr_a100_v4"], "A100-80", 8, NVLINK3, INFINIBAND, (8, 200.0), (1900.0 * GIB, PCIE4)),
    node(&["ndv5", "nd96isr_h100_v5"], "H100", 8, NVLINK4, INFINIBAND, (8, 400.0), (1900.0 * GIB, PCIE5)),
    node(&["ndv5-h200", "nd96isr_h200_v5"], "H200", 8, NVLINK4, INFINIBAND, (8, 400.0), (1850.0 * GIB, PCIE5)),
    // Oracle
    node(&["oci-a100", "bm.gpu.a100-v2.8"], "A100-80", 8, NVLINK3, ROCE, (16, 100.0), (2048.0, PCIE4)),
    node(&["oci-h100", "bm.gpu.h100.8"], "H100", 8, NVLINK4, ROCE, (8, 400.0), (2048.0, PCIE5)),
    node(&["oci-h200", "bm.gpu.h200.8"], "H200", 8, NVLINK4, ROCE, (8, 400.0), (3072.0, PCIE5)),
    node(&["oci-b200", "bm.gpu.b200.8"], "B200", 8, NVLINK5, ROCE, (8, 400.0), (4096.0, PCIE5)),
];

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Our names of all machines, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|instance| instance.names[0])
}

impl Instance {
    fn find(name: &str) -> Result<Self, ClusterError> {
        let wanted = plain(name);
        let exact = |wanted: &str| TABLE.iter().find(|i| i.names.iter().any(|known| plain(known) == wanted));
        if let Some(instance) = exact(&wanted) {
            return Ok(*instance);
        }
        if let Some((base, count)) = name.trim().rsplit_once(['x', 'X'])
            && let (Ok(count), Some(whole)) = (count.parse::<u64>(), exact(&plain(&format!("{base}x8"))))
            && (1..whole.node).contains(&count)
        {
            return Ok(whole.part(count));
        }
        let known = TABLE.iter().flat_map(|i| i.names);
        let error = ClusterError::unknown("a machine", name, known.copied());
        match (error, devices::find(name)) {
            (ClusterError::Unknown { what, found, known, .. }, Ok(device)) => {
                let with = TABLE.iter().find(|i| devices::find(i.device).is_ok_and(|d| d.name == device.name));
                let help = with.map_or_else(
                    || format!("`{found}` is a device: describe the machine around it in a cluster file"),
                    |i| format!("`{found}` is a device; `{}:2` is two machines of {} of them", i.names[0], i.unit),
                );
                Err(ClusterError::Unknown { what, found, known, help: Some(help) })
            }
            (_, Err(refused @ ClusterError::Unpublished { .. })) => Err(refused),
            (error, _) => Err(error),
        }
    }

    /// `count` devices of a node, with their share of its NICs and host memory.
    fn part(self, count: u64) -> Self {
        let nics = (self.nics * count / self.node).max(1);
        let host_memory = self.host_memory * count as f64 / self.node as f64;
        Self { node: count, unit: count, domain: count, nics, host_memory, ..self }
    }

    fn pool(&self, name: &str, devices: u64) -> Result<Pool, ClusterError> {
        let device = devices::find(self.device)?;
        let nic = BytesPerSecond(self.nic * 1e9 / 8.0);
        let mut levels = Vec::new();
        let domain = self.domain.min(devices);
        if domain > 1 {
            let rate = BytesPerSecond(self.scale_up_rate * 1e9);
            levels.push(self.scale_up.level(domain, rate, rate));
        }
        if devices > domain {
            let nodes_of_domain = (domain / self.node) as f64;
            let near = (self.nics / self.node).max(1) as f64;
            levels.push(self.network.level(devices, nic * self.nics as f64 * nodes_of_domain, nic * near));
        }
        let price = match self.price {
            Some((dollars, source)) => {
                Some(Sourced { value: Dollars(dollars), source: source.to_owned(), date: DATE.to_owned() })
            }
            None => devices::price(&device.name),
        };
        Ok(Pool {
            name: name.to_owned(),
            site: String::new(),
            device,
            devices,
            devices_per_node: self.node,
            levels,
            host_memory: Some(Bytes(self.host_memory * 1e9)),
            host_link: Some(BytesPerSecond(self.host_link * 1e9)),
            price,
            order: None,
        })
    }
}

impl Fabric {
    /// A level of this kind of link.
    pub fn level(&self, devices: u64, uplink: BytesPerSecond, per_device: BytesPerSecond) -> Level {
        Level {
            name: self.name.to_owned(),
            devices,
            uplink,
            per_device,
            latency: self.latency,
            efficiency: self.efficiency,
            half_at: self.half_at,
        }
    }
}

/// The pool that a shorthand such as `h100x8:4` stands for; without `:count` it is one machine.
pub fn pool(shorthand: &str) -> Result<Pool, ClusterError> {
    let text = shorthand.trim();
    let (name, count) = match text.rsplit_once(':') {
        None => (text, 1),
        Some((name, count)) => {
            let machines = count.trim().parse::<u64>().ok().filter(|&n| n > 0).ok_or_else(|| {
                ClusterError::value(
                    "cluster",
                    text,
                    "`name:machines` with a whole number of at least 1, e.g. `h100x8:8`",
                )
            })?;
            (name.trim(), machines)
        }
    };
    let instance = Instance::find(name)?;
    let devices = count.checked_mul(instance.unit).filter(|&n| n <= MOST_DEVICES).ok_or_else(|| {
        ClusterError::value("cluster", text, format!("at most {MOST_DEVICES} devices, `{name}` has {}", instance.unit))
    })?;
    instance.pool(name, devices)
}

/// `devices` of a machine named without a count.
pub(super) fn sized(name: &str, devices: u64) -> Result<Pool, ClusterError> {
    Instance::find(name)?.pool(name, devices)
}

/// The cluster of one pool that a shorthand stands for.
pub fn cluster(shorthand: &str) -> Result<Cluster, ClusterError> {
    let pool = pool(shorthand)?;
    Ok(Cluster { name: shorthand.trim().to_owned(), pools: vec![pool], between_pools: None, between_sites: None })
}
