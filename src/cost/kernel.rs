//! Time of single kernels by roofline: the larger of arithmetic at a size-dependent efficiency and memory traffic.
//!
//! `t = max((x + half_at) / (plateau * peak), bytes / (eta_bw * bandwidth), launch)`; the curve `plateau * x / (x + half_at)`
//! is that of [`crate::cluster::Efficiency`] (COST: published GEMM tables are flat at large sizes and fall off below).

use super::figures::Figures;
use super::options::CostOptions;
use super::software::Software;
use crate::cluster::{Device, Efficiency};
use crate::job::Precision;
use crate::units::{Bytes, Flops, FlopsPerSecond, Seconds};

/// Weight-gradient products accumulate in fp32 and reach a little less than forward ones: 0.704 against 0.738 of the peak
/// on A100 (SimuMax v1.2 system file `a100_pcie.json`, read 2026-11).
pub const WEIGHT_GRADIENT_EFFICIENCY: f64 = 0.954;

/// How much less of its peak fp8 reaches than bf16: H100 bursts of 1,402.6 of 1,979 against 794.5 of 989 TFLOP/s
/// (mamf-finder, stas00/ml-engineering@744d01e, read 2026-11).
pub const FP8_EFFICIENCY: f64 = (1402.6 / 1979.0) / (794.5 / 989.0);

/// A backward pass of fused attention does 5 products for the forward's 2 (Dao 2023, FlashAttention-2, section 3.2).
pub const ATTENTION_BACKWARD_FLOPS: f64 = 2.5;

/// Width of a head for which plateaus of attention are told.
const USUAL_HEAD: f64 = 128.0;
/// Width of a head at which attention reaches half of what it would reach with very wide ones: 0.76 and 1.15 of the rate at 128
/// for widths of 64 and 256 (Shah 2024, FlashAttention-3, figure 5, causal, 16k).
pub const HEAD_HALF: f64 = 45.0;

/// Kernel times on one device in one precision.
#[derive(Debug, Clone, Copy)]
pub struct Kernels<'a> {
    device: &'a Device,
    gemm_peak: FlopsPerSecond,
    half_peak: FlopsPerSecond,
    software: Software,
    figures: Figures,
    /// Bytes of one activation element.
    pub element: f64,
}

impl<'a> Kernels<'a> {
    /// Kernels of `device` for matrix products in `precision`. fp8 falls back to the half-precision rate on devices
    /// without it; attention never runs in fp8.
    pub fn new(device: &'a Device, precision: Precision, options: &CostOptions) -> Self {
        let CostOptions { software, figures, .. } = *options;
        let half = device.peak.half;
        let (gemm_peak, half_peak, element) = match precision {
            Precision::Bf16 | Precision::Fp16 => (half, half, 2.0),
            Precision::Fp8 => (device.peak.fp8.map_or(half, |fp8| half.max(fp8 * figures.fp8_efficiency)), half, 2.0),
            Precision::Fp32 => (device.peak.single, device.peak.single, 4.0),
        };
        Self {
            device,
            gemm_peak: gemm_peak * software.gemm,
            half_peak: half_peak * software.attention,
            software,
            figures,
            element,
        }
    }

    fn roofline(&self, flops: Flops, eta: Efficiency, peak: FlopsPerSecond, bytes: Bytes) -> Seconds {
        if flops.0 <= 0.0 {
            return Seconds::ZERO;
        }
        let arithmetic = Flops(flops.0 + eta.half_at) / (peak * eta.plateau);
        arithmetic.max(self.traffic(bytes)).max(self.device.launch)
    }

    fn traffic(&self, bytes: Bytes) -> Seconds {
        let eta = self.device.streaming;
        Bytes(bytes.0 + eta.half_at) / (self.device.memory_bandwidth * eta.plateau)
    }

    /// A dense product of `m x k` by `k x n`, forward or input gradient.
    pub fn gemm(&self, m: f64, k: f64, n: f64) -> Seconds {
        let bytes = Bytes(self.element * (m * k + k * n + m * n));
        self.roofline(Flops(2.0 * m * k * n), self.device.gemm, self.gemm_peak, bytes)
    }

    /// The product that gives the gradient of the `k x n` weights.
    pub fn weight_gradient(&self, m: f64, k: f64, n: f64) -> Seconds {
        self.gemm(m, k, n) / self.figures.weight_gradient_efficiency
    }

    /// `experts` equal products of `m x k` by `k x n` in one grouped kernel.
    pub fn grouped_gemm(&self, experts: f64, m: f64, k: f64, n: f64) -> Seconds {
        let bytes = Bytes(self.element * experts * (m * k + k * n + m * n));
        let flops = Flops(experts * 2.0 * m * k * n);
        let eta = self.device.grouped_gemm;
        // The curve is over the size of each expert's product: small experts leave tiles empty.
        let eta = Efficiency { half_at: eta.half_at * experts, ..eta };
        self.roofline(flops, eta, self.gemm_peak, bytes)
    }

    /// Fused attention of `flops` forward arithmetic over heads of width `head`, moving `bytes`.
    pub fn attention(&self, flops: Flops, head: f64, bytes: Bytes) -> Seconds {
        let half = self.figures.attention_head_half;
        let narrow = head / (head + half) * (USUAL_HEAD + half) / USUAL_HEAD;
        self.roofline(flops, self.device.attention, self.half_peak * narrow, bytes)
    }

    /// A memory-bound kernel that moves `bytes`.
    pub fn streaming(&self, bytes: Bytes) -> Seconds {
        if bytes.0 <= 0.0 {
            return Seconds::ZERO;
        }
        self.traffic(bytes * self.software.elementwise).max(self.device.launch)
    }
}
