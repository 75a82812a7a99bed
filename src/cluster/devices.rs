//! The accelerators we know, by every name that vendors, drivers and clouds give them.
//!
//! Peaks are dense (no sparsity) with fp32 accumulation. Vendor figures as collected in stas00/ml-engineering@744d01e
//! `compute/accelerator` (read 2026-11), for devices marked `RECALLED` from vendor data sheets that were not re-read.
//! Memory is what a framework sees: the "total capacity" that PyTorch prints when it runs out of memory in public logs
//! (read 2026-11), where such a log was found; else the nominal size at 1e9 bytes per GB.

use super::curves::{self, Curves, LAUNCH};
use super::{ClusterError, Device, Peak, Sourced};
use crate::job::Precision;
use crate::units::{Bytes, BytesPerSecond, Dollars, FlopsPerSecond};

const GIB: f64 = (1u64 << 30) as f64;

/// What the memory size rests on.
#[derive(Clone, Copy)]
enum Memory {
    /// GiB that PyTorch reports.
    Seen(f64),
    /// Nominal GB.
    Nominal(f64),
}
use Memory::{Nominal, Seen};

struct Row {
    name: &'static str,
    aliases: &'static [&'static str],
    /// TFLOP/s in bf16 (fp16 where there is no bf16), fp8 (0: none), fp32 or tf32.
    tflops: [f64; 3],
    memory: Memory,
    /// TB/s.
    bandwidth: f64,
    curves: &'static Curves,
    source: &'static str,
}

const SPEC: &str = "stas00/ml-engineering@744d01e compute/accelerator/README.md";
const RECALLED: &str = "vendor data sheet, not re-read";
/// When the table was compiled.
const DATE: &str = "2026-11";

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    tflops: [f64; 3],
    memory: Memory,
    bandwidth: f64,
    curves: &'static Curves,
    source: &'static str,
) -> Row {
    Row { name, aliases, tflops, memory, bandwidth, curves, source }
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("V100-SXM2-16GB", &["V100", "V100-16GB", "V100-SXM2"],          [125.0, 0.0, 15.7], Seen(15.77), 0.9, &curves::VOLTA, RECALLED),
    row("V100-SXM2-32GB", &["V100-32GB", "V100-SXM3-32GB"],             [125.0, 0.0, 15.7], Seen(31.73), 0.9, &curves::VOLTA, RECALLED),
    row("T4-16GB", &["T4"],                                             [65.0, 0.0, 8.1], Seen(14.75), 0.32, &curves::VOLTA, RECALLED),
    row("Titan RTX", &[],                                               [130.0, 0.0, 16.3], Nominal(24.0), 0.672, &curves::VOLTA, RECALLED),
    row("A100-SXM4-40GB", &["A100-40", "A100-40GB", "A100-SXM-40GB"],   [312.0, 0.0, 156.0], Seen(39.39), 1.555, &curves::AMPERE_SXM, SPEC),
    row("A100-SXM4-80GB", &["A100", "A100-80", "A100-80GB", "A100-SXM-80GB", "A100-SXM4", "A100-SXM"],
                                                                        [312.0, 0.0, 156.0], Seen(79.25), 2.039, &curves::AMPERE_SXM, SPEC),
    row("A100-PCIe-80GB", &["A100-PCIe", "A100 80GB PCIe"],             [312.0, 0.0, 156.0], Seen(79.15), 1.94, &curves::AMPERE, SPEC),
    row("A800-SXM4-80GB", &["A800", "A800-80GB", "A800-SXM-80GB"],      [312.0, 0.0, 156.0], Seen(79.25), 2.0, &curves::AMPERE_SXM, RECALLED),
    row("L40S", &["L40S-48GB"],                                         [362.0, 733.0, 181.0], Seen(44.40), 0.864, &curves::WORKSTATION, SPEC),
    row("L4-24GB", &["L4"],                                             [121.0, 242.0, 60.0], Seen(22.06), 0.30, &curves::WORKSTATION, RECALLED),
    row("A10G", &["A10G-24GB"],                                         [70.0, 0.0, 35.0], Seen(22.06), 0.60, &curves::WORKSTATION, RECALLED),
    row("A6000-48GB", &["A6000", "RTX A6000"],                          [154.8, 0.0, 77.4], Seen(47.50), 0.768, &curves::WORKSTATION, RECALLED),
    row("RTX 4090", &["GeForce RTX 4090", "4090"],                      [165.2, 330.3, 82.6], Seen(23.64), 1.008, &curves::WORKSTATION, RECALLED),
    row("RTX 3090", &["GeForce RTX 3090", "3090"],                      [71.0, 0.0, 35.6], Seen(23.69), 0.936, &curves::WORKSTATION, RECALLED),
    row("H100-SXM5-80GB", &["H100", "H100-80GB", "H100-SXM", "H100-SXM5", "H100-SXM-80GB", "H100-SXM-80GB-700W", "H100 80GB HBM3"],
                                                                        [989.0, 1979.0, 494.5], Seen(79.18), 3.35, &curves::HOPPER, SPEC),
    row("H100-SXM-96GB-HBM2e-500W", &["H100-96GB", "H100-SXM-96GB"],    [989.0, 1979.0, 494.5], Seen(94.50), 2.4, &curves::HOPPER, "torchtitan benchmark notes, peak nominal"),
    row("H100-PCIe-80GB", &["H100-PCIe", "H100 PCIe"],                  [756.0, 1513.0, 378.0], Seen(79.18), 2.0, &curves::HOPPER, SPEC),
    row("H800-SXM-80GB", &["H800", "H800-80GB", "H800-SXM"],            [989.0, 1979.0, 494.5], Seen(79.18), 3.35, &curves::HOPPER, RECALLED),
    row("H20-96GB", &["H20", "H20-SXM", "H20-SXM-96GB"],                [148.0, 296.0, 74.0], Seen(95.00), 4.0, &curves::HOPPER_H20, RECALLED),
    row("GH200-96GB", &["GH200", "GH200 480GB"],                        [989.0, 1979.0, 494.5], Seen(94.50), 4.0, &curves::HOPPER, SPEC),
    row("H200-SXM-141GB", &["H200", "H200-SXM", "H200-141GB"],          [989.0, 1979.0, 494.5], Seen(139.80), 4.8, &curves::HOPPER, SPEC),
    row("B100-SXM", &["B100"],                                          [1750.0, 3500.0, 875.0], Nominal(192.0), 8.0, &curves::BLACKWELL, RECALLED),
    row("B200-SXM", &["B200", "B200-180GB", "B200-SXM-180GB"],          [2250.0, 4500.0, 1125.0], Seen(178.35), 7.7, &curves::BLACKWELL, SPEC),
    row("B300-SXM", &["B300", "B300 SXM6 AC"],                          [2250.0, 4500.0, 1125.0], Seen(267.69), 7.7, &curves::BLACKWELL, SPEC),
    row("GB200", &["GB200-186GB", "GB200-NVL72"],                       [2500.0, 5000.0, 1250.0], Seen(184.31), 8.0, &curves::BLACKWELL_RACK, SPEC),
    row("GB300", &["GB300-279GB", "GB300-NVL72"],                       [2500.0, 5000.0, 1250.0], Seen(276.50), 8.0, &curves::BLACKWELL_ULTRA_RACK, SPEC),
    // One of the two dies of the card: the driver shows each as a device, with half of everything.
    row("MI250X-GCD", &["MI250X", "MI250"],                             [191.5, 0.0, 47.9], Seen(63.98), 1.64, &curves::CDNA, SPEC),
    row("MI300X", &["MI300X-192GB", "MI300"],                           [1307.4, 2614.9, 653.7], Seen(191.98), 5.3, &curves::CDNA, SPEC),
    row("MI325X", &["MI325X-256GB", "MI325"],                           [1307.4, 2614.9, 653.7], Seen(255.98), 6.0, &curves::CDNA, SPEC),
    row("MI355X", &["MI355X-288GB", "MI355"],                           [2500.0, 5000.0, 157.3], Seen(287.98), 8.0, &curves::CDNA4, SPEC),
    row("Gaudi2", &["HL-225"],                                          [432.0, 865.0, 108.0], Nominal(96.0), 2.46, &curves::OTHER, SPEC),
    row("Gaudi3", &["HL-325"],                                          [1677.0, 1677.0, 229.0], Nominal(128.0), 3.7, &curves::OTHER, SPEC),
    row("Ascend 910B2", &["910B", "910B2", "Ascend 910B"],              [376.0, 0.0, 94.0], Nominal(64.0), 1.6, &curves::OTHER, RECALLED),
    row("MTT S4000", &["S4000"],                                        [100.0, 0.0, 25.0], Nominal(48.0), 0.768, &curves::OTHER, RECALLED),
    row("TPU v5p", &["v5p"],                                            [459.0, 0.0, 114.7], Nominal(95.0), 2.76, &curves::OTHER, SPEC),
    row("Trainium2", &["Trn2"],                                         [667.0, 1299.0, 181.0], Nominal(96.0), 2.9, &curves::OTHER, SPEC),
];

/// Devices whose numbers are not public, and which number is missing.
static REFUSED: &[(&str, &[&str], &str)] = &[
    ("RTX 2080", &["GeForce RTX 2080"], "no half-precision rate with fp32 accumulation is published"),
    ("MTT S5000", &["S5000"], "no peak rates are published"),
    ("Ascend 950DT", &["950DT"], "its memory size and bandwidth are not published"),
    ("Rubin (VR200)", &["Rubin", "VR200"], "it is not released: its memory bandwidth is not published"),
];

/// Devices without bf16 matrix units: a bf16 job cannot run on them at the table's rate.
static NO_BF16: &[&str] = &["V100-SXM2-16GB", "V100-SXM2-32GB", "T4-16GB", "Titan RTX"];

/// Published prices of one device for one hour on demand: device, dollars, where.
#[rustfmt::skip]
static PRICES: &[(&str, f64, &str)] = &[
    ("V100-SXM2-16GB", 2.86, "GCP list as in Sailor simulations/constants.py"),
    ("A100-SXM4-40GB", 1.29, "Lambda, skypilot-catalog v7/lambda/vms.csv@1158013"),
    ("L40S", 1.55, "Nebius, skypilot-catalog v7/nebius/vms.csv@22fd1fe"),
    ("H100-SXM5-80GB", 2.95, "Nebius, skypilot-catalog v7/nebius/vms.csv@22fd1fe"),
    ("GH200-96GB", 11.06, "GCP list as in Sailor simulations/constants.py"),
    ("H200-SXM-141GB", 3.5, "Nebius, skypilot-catalog v7/nebius/vms.csv@22fd1fe"),
    ("B200-SXM", 5.5, "Nebius, skypilot-catalog v7/nebius/vms.csv@22fd1fe"),
];

/// Capitals, blanks, `-`, `_` and the vendor's name do not count.
fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut rest = lower.trim();
    for vendor in
        ["nvidia ", "nvidia-", "amd ", "intel ", "huawei ", "google ", "aws ", "tesla ", "tesla-", "instinct "]
    {
        rest = rest.strip_prefix(vendor).unwrap_or(rest);
    }
    rest.chars().filter(|c| c.is_alphanumeric()).collect()
}

fn named(wanted: &str, name: &str, aliases: &[&str]) -> bool {
    plain(name) == wanted || aliases.iter().any(|alias| plain(alias) == wanted)
}

impl Row {
    fn device(&self) -> Device {
        let [half, fp8, single] = self.tflops.map(|t| FlopsPerSecond(t * 1e12));
        let bandwidth = BytesPerSecond(self.bandwidth * 1e12);
        let [gemm, grouped_gemm, attention, streaming] = self.curves.scale(half.get(), bandwidth.get());
        let (memory, seen) = match self.memory {
            Seen(gib) => (Bytes(gib * GIB), "memory as PyTorch reports it"),
            Nominal(gb) => (Bytes(gb * 1e9), "memory nominal"),
        };
        Device {
            name: self.name.to_owned(),
            peak: Peak { half, fp8: (fp8 > FlopsPerSecond::ZERO).then_some(fp8), single },
            memory,
            memory_bandwidth: bandwidth,
            gemm,
            grouped_gemm,
            attention,
            streaming,
            launch: LAUNCH,
            source: format!("{}; {seen}; efficiency: {}", self.source, self.curves.source),
            date: DATE.to_owned(),
        }
    }
}

/// The device of that name: ours, a vendor's, a driver's; capitals and punctuation do not count.
pub fn find(name: &str) -> Result<Device, ClusterError> {
    let wanted = plain(name);
    if let Some(row) = TABLE.iter().find(|row| named(&wanted, row.name, row.aliases)) {
        return Ok(row.device());
    }
    if let Some((known, _, why)) = REFUSED.iter().find(|(known, aliases, _)| named(&wanted, known, aliases)) {
        return Err(ClusterError::Unpublished { device: (*known).to_owned(), why: (*why).to_owned() });
    }
    Err(ClusterError::unknown("a device", name, names()))
}

/// Our names of all devices, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.name)
}

/// What one hour of one such device costs on demand, where a price is published.
pub fn price(device: &str) -> Option<Sourced<Dollars>> {
    PRICES.iter().find(|(name, ..)| *name == device).map(|&(_, dollars, source)| Sourced {
        value: Dollars(dollars),
        source: source.to_owned(),
        date: DATE.to_owned(),
    })
}

impl Device {
    /// Dense peak in a precision; `None` where the device has no such matrix units.
    pub fn peak_in(&self, precision: Precision) -> Option<FlopsPerSecond> {
        match precision {
            Precision::Bf16 if NO_BF16.contains(&self.name.as_str()) => None,
            Precision::Bf16 | Precision::Fp16 => Some(self.peak.half),
            Precision::Fp8 => self.peak.fp8,
            Precision::Fp32 => Some(self.peak.single),
        }
    }
}
