//! The constants of a price: of the device, its links, the framework and the model itself.

use super::World;
use crate::cluster::sources::{self, Of, Source};
use crate::cluster::{Device, Efficiency, Level};
use crate::cost::{Figures, Software};

type OfDevice = fn(&mut Device) -> Option<&mut f64>;
type OfLevel = fn(&mut Level) -> &mut f64;
type OfSoftware = fn(&mut Software) -> &mut f64;
type OfFigures = fn(&mut Figures) -> &mut f64;

/// Where a constant stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    Device(OfDevice),
    Level(usize, OfLevel),
    Software(OfSoftware),
    Figures(OfFigures),
}

/// A constant.
#[derive(Debug, Clone)]
pub struct Constant {
    /// What it is called.
    pub name: String,
    /// Its unit, empty for ratios.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: Source,
    place: Place,
}

impl Constant {
    /// Where it stands in `world`.
    pub fn place<'w>(&self, world: &'w mut World) -> Option<&'w mut f64> {
        match self.place {
            Place::Device(f) => f(&mut world.pool.device),
            Place::Level(i, f) => world.pool.levels.get_mut(i).map(f),
            Place::Software(f) => Some(f(&mut world.cost.software)),
            Place::Figures(f) => Some(f(&mut world.cost.figures)),
        }
    }

    /// Its value in `world`.
    pub fn of(&self, world: &World) -> f64 {
        self.place(&mut world.clone()).map_or(0.0, |x| *x)
    }
}

type Curve = fn(&Device) -> Efficiency;
const GEMM: Curve = |d| d.gemm;
const GROUPED: Curve = |d| d.grouped_gemm;
const ATTENTION: Curve = |d| d.attention;
const STREAMING: Curve = |d| d.streaming;

#[rustfmt::skip]
static OF_DEVICE: &[(&str, &str, Of, OfDevice)] = &[
    ("peak.half", "FLOP/s", Of::Sheet, |d| Some(&mut d.peak.half.0)),
    ("peak.fp8", "FLOP/s", Of::Sheet, |d| d.peak.fp8.as_mut().map(|x| &mut x.0)),
    ("peak.single", "FLOP/s", Of::Sheet, |d| Some(&mut d.peak.single.0)),
    ("memory", "B", Of::Sheet, |d| Some(&mut d.memory.0)),
    ("memory_bandwidth", "B/s", Of::Sheet, |d| Some(&mut d.memory_bandwidth.0)),
    ("gemm.plateau", "", Of::Plateau(GEMM), |d| Some(&mut d.gemm.plateau)),
    ("gemm.half_at", "FLOP", Of::Half(GEMM), |d| Some(&mut d.gemm.half_at)),
    ("grouped_gemm.plateau", "", Of::Plateau(GROUPED), |d| Some(&mut d.grouped_gemm.plateau)),
    ("grouped_gemm.half_at", "FLOP", Of::Half(GROUPED), |d| Some(&mut d.grouped_gemm.half_at)),
    ("attention.plateau", "", Of::Plateau(ATTENTION), |d| Some(&mut d.attention.plateau)),
    ("attention.half_at", "FLOP", Of::Half(ATTENTION), |d| Some(&mut d.attention.half_at)),
    ("streaming.plateau", "", Of::Plateau(STREAMING), |d| Some(&mut d.streaming.plateau)),
    ("streaming.half_at", "B", Of::Half(STREAMING), |d| Some(&mut d.streaming.half_at)),
    ("launch", "s", Of::Launch, |d| Some(&mut d.launch.0)),
];

/// The last field: whether it is a rate of the machine or the curve of the kind of link.
#[rustfmt::skip]
static OF_LEVEL: &[(&str, &str, OfLevel, bool)] = &[
    ("uplink", "B/s", |l| &mut l.uplink.0, true),
    ("per_device", "B/s", |l| &mut l.per_device.0, true),
    ("efficiency", "", |l| &mut l.efficiency, false),
    ("latency", "s", |l| &mut l.latency.0, false),
    ("half_at", "B", |l| &mut l.half_at.0, false),
];

const NEUTRAL: &str = "assumed: fused operators and a host that keeps ahead, as of frameworks of 2026";

#[rustfmt::skip]
static OF_SOFTWARE: &[(&str, &str, OfSoftware, &str)] = &[
    ("gemm", "", |s| &mut s.gemm, NEUTRAL),
    ("attention", "", |s| &mut s.attention, NEUTRAL),
    ("elementwise", "", |s| &mut s.elementwise, NEUTRAL),
    ("host_s", "s", |s| &mut s.host_s, NEUTRAL),
    ("host_tensor_s", "s", |s| &mut s.host_tensor_s, NEUTRAL),
    ("hop_s", "s", |s| &mut s.hop_s, NEUTRAL),
    ("activations", "", |s| &mut s.activations, NEUTRAL),
    ("workspace", "B", |s| &mut s.workspace, NEUTRAL),
    ("gradient_buffers", "B", |s| &mut s.gradient_buffers, NEUTRAL),
    ("head_buffers", "B", |s| &mut s.head_buffers, NEUTRAL),
    ("run_ahead", "B", |s| &mut s.run_ahead, NEUTRAL),
    ("expert_copies", "", |s| &mut s.expert_copies, NEUTRAL),
    ("extra_optimizer", "B", |s| &mut s.extra_optimizer, NEUTRAL),
    ("narrow_gradients", "B", |s| &mut s.narrow_gradients, NEUTRAL),
    ("loss_bytes", "B", |s| &mut s.loss_bytes, "SkyRL issue 1841: 5.0 GB for 8,192 tokens by 62,080 entries, fused loss"),
    ("allocator", "", |s| &mut s.allocator, "median of SimuMax's 43 B200 cases, v1.2"),
];

#[rustfmt::skip]
static OF_FIGURES: &[(&str, &str, OfFigures, &str)] = &[
    ("overlap_slowdown", "", |f| &mut f.overlap_slowdown, "Galvatron's profile, overlap_coefficient.json"),
    ("hop_slowdown", "", |f| &mut f.hop_slowdown, "Calculon's H100 systems, calculon@caa4b11"),
    ("tensor_overlap", "", |f| &mut f.tensor_overlap, "fitted to Llama-3.1-70B at 14.66 s, Megatron-Bridge performance summary"),
    ("optimizer_efficiency", "", |f| &mut f.optimizer_efficiency, "Metis sample: 39 ms for 1.2e9 parameters on one A100"),
    ("jitter_per_doubling", "", |f| &mut f.jitter_per_doubling, "median of 29 weak-scaling series, DGXC recipes 24.11 and 25.02"),
    ("weight_gradient_efficiency", "", |f| &mut f.weight_gradient_efficiency, "SimuMax v1.2 a100_pcie.json"),
    ("fp8_efficiency", "", |f| &mut f.fp8_efficiency, "mamf-finder H100, ml-engineering@744d01e"),
    ("attention_head_half", "", |f| &mut f.attention_head_half, "Shah 2024, FlashAttention-3, figure 5"),
    ("scattered", "", |f| &mut f.scattered, "SimuMax v1.2 B200 tables: permutations against element-wise operators"),
    ("routed_host", "", |f| &mut f.routed_host, "Megatron-Bridge, Qwen3-30B-A3B at micro-batch 1 without graphs"),
    ("context_bytes", "B", |f| &mut f.context_bytes, "rule of thumb, 1 to 3 GB of context and libraries"),
    ("safe_share", "", |f| &mut f.safe_share, "published safe range 0.92 to 0.95, Megatron-Bridge PR 3107"),
];

/// When the constants of software and model were read.
const DATE: &str = "2026-11";

/// Every constant of `world`, in a fixed order. A device without fp8 has no constant for it.
pub fn list(world: &World) -> Vec<Constant> {
    let mut all = Vec::new();
    let device = &world.pool.device;
    for &(name, unit, of, place) in OF_DEVICE {
        if place(&mut device.clone()).is_some() {
            let source = sources::of_device(device, of);
            all.push(Constant { name: format!("device.{name}"), unit, source, place: Place::Device(place) });
        }
    }
    for (i, level) in world.pool.levels.iter().enumerate() {
        for &(name, unit, place, rate) in OF_LEVEL {
            let source = if rate { sources::of_rate(&world.pool, i) } else { sources::of_curve(level) };
            let name = format!("link[{i}].{}.{name}", level.name);
            all.push(Constant { name, unit, source, place: Place::Level(i, place) });
        }
    }
    let usual = Software::default();
    for &(name, unit, place, text) in OF_SOFTWARE {
        let changed = *place(&mut world.cost.software.clone()) != *place(&mut usual.clone());
        let source = if changed { Source::new("the plan's cost_options", "") } else { Source::new(text, DATE) };
        all.push(Constant { name: format!("software.{name}"), unit, source, place: Place::Software(place) });
    }
    let usual = Figures::default();
    for &(name, unit, place, text) in OF_FIGURES {
        let changed = *place(&mut world.cost.figures.clone()) != *place(&mut usual.clone());
        let source = if changed { Source::new("the plan's cost_options", "") } else { Source::new(text, DATE) };
        all.push(Constant { name: format!("model.{name}"), unit, source, place: Place::Figures(place) });
    }
    all
}
