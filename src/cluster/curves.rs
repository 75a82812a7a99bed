//! How much of a device's peak its kernels sustain in training, by architecture.
//!
//! Every curve is `eta(x) = plateau * x / (x + half_at)`. The size `x` of a curve is, for `gemm`, the FLOP of one
//! matrix product; for `grouped_gemm`, the FLOP of one expert's product; for `attention`, the FLOP of one kernel with
//! causal positions counted once (half of the square) and the backward pass counted 2.5 times the forward; for
//! `streaming`, the bytes read and written by one kernel.
//!
//! Measured: the operator tables that SimuMax ships (MooreThreads/SimuMax@4dcaae5, `configs/system`, read 2026-11),
//! fitted here by least squares on the relative error:
//!
//! | kernel | A100-PCIe-80GB | B200 |
//! |---|---|---|
//! | gemm | 0.733, 7.9 GFLOP, rms 8 % (183 shapes) | 0.489, 12.6 GFLOP, rms 17 % (514) |
//! | grouped gemm, per expert | 0.681, 1.6 GFLOP (12) | 0.457, 10 GFLOP (108) |
//! | attention forward | 0.598, 20 GFLOP (12) | 0.503, 71 GFLOP (32) |
//! | attention backward, 2.5 x | 0.551, 12 GFLOP (12) | 0.472, 35 GFLOP (32) |
//!
//! On both devices the grouped plateau is 0.93 of the dense one, a grouped product reaches half of it after
//! 4.4 to 5.1 us of peak work, and attention after about 35 us. Where a device has no table these ratios are used.
//!
//! Short bursts reach more (mamf-finder, stas00/ml-engineering@744d01e `compute/accelerator`, read 2026-11: A100 0.869,
//! H100 0.803, B200 0.776 of peak), but power limits hold long runs down: A100 sustains 0.84 to 0.90 of its burst.

use super::Efficiency;
use crate::units::Seconds;

/// The curves of one architecture. Half points are in seconds of work at peak, so that they scale with the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curves {
    /// Plateau of dense matrix products.
    pub gemm: f64,
    /// Half point of dense matrix products.
    pub gemm_half: Seconds,
    /// Plateau of grouped products of experts.
    pub grouped: f64,
    /// Plateau of fused attention.
    pub attention: f64,
    /// Plateau of memory-bound kernels.
    pub streaming: f64,
    /// What the plateaus rest on.
    pub source: &'static str,
}

/// Half point of grouped products: mean of A100 (5.1 us) and B200 (4.4 us), see the head of this file.
const GROUPED_HALF: Seconds = Seconds(4.7e-6);
/// Half point of attention: between A100 (47 us, forward and backward) and B200 (20 us), see the head of this file.
const ATTENTION_HALF: Seconds = Seconds(35e-6);
/// Half point of memory-bound kernels: one to two microseconds to fill and drain the memory pipeline (assumed, 2026-11).
const STREAMING_HALF: Seconds = Seconds(1.5e-6);
/// Grouped over dense plateau: A100 0.929, B200 0.935, see the head of this file.
const GROUPED_OVER_DENSE: f64 = 0.93;
/// Half point of dense products where no table exists: geometric mean of A100 (25 us) and B200 (5.6 us).
const GEMM_HALF: Seconds = Seconds(12e-6);

/// What the half points rest on; see the head of this file.
pub const HALF_SOURCE: &str =
    "SimuMax@4dcaae5 operator tables of A100-PCIe and B200, or between both; streaming assumed";
/// What [`LAUNCH`] rests on.
pub const LAUNCH_SOURCE: &str = "common microbenchmark figure, 4 to 6 us on CUDA and HIP";
/// When these were read.
pub const DATE: &str = "2026-11";

/// Time to launch one kernel when the queue is not ahead: 4 to 6 us on CUDA and HIP (common microbenchmark figure, 2026-11).
pub const LAUNCH: Seconds = Seconds(5e-6);

const fn assumed(gemm: f64, attention: f64, streaming: f64, source: &'static str) -> Curves {
    Curves { gemm, gemm_half: GEMM_HALF, grouped: gemm * GROUPED_OVER_DENSE, attention, streaming, source }
}

/// Volta and Turing.
pub const VOLTA: Curves = assumed(
    0.70,
    0.35,
    0.80,
    "plateau assumed: no operator table; no fused attention of the later kind on these devices",
);
/// A100 in all its forms.
pub const AMPERE: Curves = Curves {
    gemm: 0.733,
    gemm_half: Seconds(25e-6),
    grouped: 0.681,
    // Time-weighted over forward (2 units at 0.598) and backward (5 units at 0.551).
    attention: 0.564,
    streaming: 0.91,
    source: "SimuMax a100_pcie.json operator tables, 300 W PCIe card; the SXM card bursts 7 % higher",
};
/// A100 on SXM boards.
///
/// Korthikanti 2022, table 5, and vTrain's runs of width 8,192 and 12,288 need 0.84 of the peak in their matrix products, 1.15
/// times the table of the 300 W PCIe card; bursts reach 0.869.
pub const AMPERE_SXM: Curves = Curves {
    gemm: 0.84,
    grouped: 0.78,
    source: "SimuMax a100_pcie.json operator tables; matrix products from Korthikanti 2022 table 5 and vTrain's widest models",
    ..AMPERE
};
/// H100, H800, H200.
///
/// Llama-3-70B at 14.66 s for 128 sequences of 8,192 on 64 H100 (NVIDIA DGXC recipes) is 508 TFLOP/s, 0.51 of peak. With
/// 4.7 % bubble, about 10 % exposed communication, 8 % memory-bound kernels and attention at 0.55 for 7 % of the FLOP, the
/// matrix products must sustain about 0.70; llm-foundry's best H100 run (MPT-13B, full recompute) executes 0.58 overall.
pub const HOPPER: Curves = assumed(
    0.70,
    0.55,
    0.80,
    "gemm from tuned runs (DGXC llama3-70b 14.66 s on 64 H100), burst 0.803; attention FlashAttention-3 (arXiv 2407.08608) less sustained clocks; streaming between A100 and B200",
);
/// H20: a Hopper with a sixth of the matrix units, so never held down by power.
pub const HOPPER_H20: Curves =
    assumed(0.85, 0.65, 0.85, "plateau assumed: Hopper memory system with 148 TFLOP/s, no table");
/// B200, B300 in air-cooled nodes.
///
/// Grouped products: the table's median is 0.30 of the peak, its plateau 0.457; 0.43 meets its DeepSeek runs.
///
/// SimuMax's table sustains 0.489 on one 8-GPU box, and explains that box's runs to 6 %; liquid-cooled GB200 racks execute
/// 0.44 of peak end to end (Llama-3.1-405B BF16, DGXC), which needs 0.60. Other B200 boxes lie between.
pub const BLACKWELL: Curves = Curves {
    gemm: 0.55,
    gemm_half: Seconds(5.6e-6),
    grouped: 0.43,
    attention: 0.481,
    streaming: 0.67,
    source: "SimuMax b200_bf16_ceperm.json operator tables (gemm 0.489) and DGXC GB200 runs (gemm 0.60): between",
};
/// GB200, GB300 in liquid-cooled racks.
pub const BLACKWELL_RACK: Curves = Curves {
    gemm: 0.60,
    grouped: 0.47,
    source: "gemm from DGXC Llama-3.1-405B BF16 on GB200 (0.44 of peak end to end); the rest as B200",
    ..BLACKWELL
};
/// GB300: 1,400 W to a device in place of 1,200. Llama-3.1-405B in FP8 runs 1.23 times as fast as on GB200 (Megatron-Bridge
/// performance summary 26.04: 1,036 to 842 tokens/s).
pub const BLACKWELL_ULTRA_RACK: Curves = Curves {
    gemm: 0.73,
    grouped: 0.57,
    source: "as GB200, matrix products scaled by 1.22 after Megatron-Bridge 26.04 Llama-3.1-405B FP8",
    ..BLACKWELL_RACK
};
/// Ada and Ampere without HBM.
pub const WORKSTATION: Curves = assumed(0.75, 0.55, 0.85, "plateau assumed: no operator table");
/// MI250X, MI300X, MI325X: their burst rate (mamf-finder 0.51 and 0.60) is also about what they sustain.
pub const CDNA: Curves = assumed(
    0.48,
    0.35,
    0.70,
    "mamf-finder MI300X 668 and MI325X 785 of 1,307 TFLOP/s, less sustained clocks; rest assumed",
);
/// MI355X.
pub const CDNA4: Curves =
    assumed(0.55, 0.40, 0.70, "mamf-finder 1,565 of 2,500 TFLOP/s less sustained clocks; rest assumed");
/// Gaudi, Ascend, TPU, Trainium, MUSA.
pub const OTHER: Curves = assumed(0.65, 0.45, 0.75, "plateau assumed: no operator table");

impl Curves {
    /// The curves as [`Efficiency`], for a device of `peak` FLOP/s and `bandwidth` bytes/s:
    /// gemm, grouped gemm, attention, streaming.
    pub fn scale(&self, peak: f64, bandwidth: f64) -> [Efficiency; 4] {
        let curve = |plateau, half: Seconds, rate| Efficiency { plateau, half_at: half.get() * rate };
        [
            curve(self.gemm, self.gemm_half, peak),
            curve(self.grouped, GROUPED_HALF, peak),
            curve(self.attention, ATTENTION_HALF, peak),
            curve(self.streaming, STREAMING_HALF, bandwidth),
        ]
    }
}
