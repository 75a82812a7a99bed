//! What one residual branch runs, keeps and holds, operator by operator.

use super::eager::{CLAMPS, EXPERT_BIAS, ROTARY, Traffic};
use super::{Cut, Pricer, Tally};
use crate::cost::kernel::ATTENTION_BACKWARD_FLOPS;
use crate::cost::software::Software;
use crate::job::Precision;
use crate::model::ops::SCALED_ROTARY;
use crate::model::{Masked, Op, OpKind, Shard, Span, Stream, Sublayer};
use crate::plan::Spine;
use crate::units::{Bytes, Flops, Seconds};

impl Pricer<'_> {
    /// Kernels, kept tensors and parameters of a residual branch.
    pub(super) fn sublayer(&self, sublayer: &Sublayer, cut: &Cut) -> Tally {
        let mut tally = Tally::default();
        let mut inputs_kept: Vec<u64> = Vec::new();
        let hidden = sublayer.ops.iter().find_map(|o| match o.kind {
            OpKind::Linear { input, .. } => Some(input),
            _ => None,
        });
        let ratio = Spine::tokens(Stream::Encoder, self.job) as f64 / self.job.sequence as f64;
        for op in &sublayer.ops {
            if sublayer.reads_encoder(op) {
                let cut = Cut { tokens: cut.tokens * ratio, own_tokens: cut.own_tokens * ratio, ..*cut };
                self.operator(op, &cut, hidden, &mut inputs_kept, &mut tally);
            } else {
                self.operator(op, cut, hidden, &mut inputs_kept, &mut tally);
            }
        }
        tally
    }

    fn operator(&self, op: &Op, cut: &Cut, hidden: Option<u64>, inputs_kept: &mut Vec<u64>, tally: &mut Tally) {
        let k = &self.kernels;
        let element = k.element;
        let product_element = if self.job.precision == Precision::Fp8 { 1.0 } else { element };
        let ways = |shard: Shard| match shard {
            Shard::Column { units } | Shard::Row { units } => cut.tp.min(units as f64),
            Shard::Replicated => 1.0,
        };
        let tokens_of = |shard: Shard| if shard == Shard::Replicated { cut.own_tokens } else { cut.tokens };
        match op.kind {
            OpKind::Linear { input, output, bias, shard } => {
                let (i, o) = (input as f64, output as f64);
                let w = ways(shard);
                let (m, kk, n) = match shard {
                    Shard::Column { .. } => (cut.tokens, i, o / w),
                    Shard::Row { .. } => (cut.tokens, i / w, o),
                    Shard::Replicated => (cut.own_tokens, i, o),
                };
                let time = k.gemm(m, kk, n);
                tally.forward += time;
                tally.backward += time + k.weight_gradient(m, kk, n);
                if self.job.precision == Precision::Fp8 {
                    // Inputs are written in fp8 twice, as rows and as columns, by the operator before; gradients of outputs are
                    // read and written twice.
                    tally.forward += k.streaming(Bytes(2.0 * m * kk));
                    tally.backward += k.streaming(Bytes((element + 2.0) * m * n));
                }
                tally.dense += i * o / w;
                if bias {
                    tally.dense += if matches!(shard, Shard::Row { .. }) { o } else { o / w };
                }
                tally.has_tensor_cut |= shard != Shard::Replicated;
                // Products from a narrower tensor than the residual stream are MLA's up-projections.
                if matches!(shard, Shard::Column { .. }) && hidden.is_some_and(|h| input < h) {
                    tally.expansion += time;
                }
                match shard {
                    // The input of a row cut is the output of an activation or of attention: its own tensor.
                    Shard::Row { .. } => {
                        let bytes = m * kk * product_element;
                        tally.kept += bytes;
                        // What attention gave is dear to redo, what an activation gave is cheap.
                        if !tally.has_attention() && self.software().selective.activations {
                            tally.droppable += bytes;
                        }
                    }
                    // Products of one width read one tensor: q, k and v, or gate and up.
                    _ if !inputs_kept.contains(&input) => {
                        inputs_kept.push(input);
                        let bytes = cut.own_tokens * i * product_element;
                        tally.kept += bytes;
                        if self.software().selective.norms {
                            tally.droppable += bytes;
                        }
                    }
                    _ => {}
                }
            }
            OpKind::Norm { width, instances, parameters, shard } => {
                let values = width as f64 * instances as f64 / ways(shard) * tokens_of(shard);
                let time = k.streaming(Bytes(2.0 * element * values));
                tally.forward += time;
                if self.software().selective.norms {
                    tally.redo += time;
                }
                tally.backward += k.streaming(Bytes(4.0 * element * values));
                tally.kept += element * values;
                tally.dense += parameters as f64;
            }
            OpKind::Attention { heads, kv_heads, qk_dim, v_dim, span } => {
                self.attention(cut, heads, kv_heads, qk_dim, v_dim, span, tally);
            }
            OpKind::LinearAttention { k_heads, v_heads, k_dim, v_dim } => {
                let heads = v_heads as f64 / cut.tp.min(v_heads as f64) / cut.ulysses;
                let tokens = cut.tokens * cut.ulysses;
                let (kd, vd) = (k_dim as f64, v_dim as f64);
                // Chunked gated delta rule (Yang 2024, section 3.3) with chunks of 64: state update and read
                // 2 * 2 k v, within a chunk 2 * 64 (2 k + 2 v) per token and head.
                let flops = heads * tokens * (4.0 * kd * vd + 2.0 * LINEAR_CHUNK * 2.0 * (kd + vd));
                let values = tokens * heads * (2.0 * kd * k_heads as f64 / v_heads as f64 + 2.0 * vd);
                let time = k.attention(Flops(flops), vd, Bytes(element * values));
                tally.forward += time;
                tally.backward += time * ATTENTION_BACKWARD_FLOPS;
                tally.attention += time;
                tally.kept += element * values;
                // The recurrent state goes from rank to rank instead of keys and values.
                tally.key_value += element * heads * kd * vd * cut.samples;
                tally.heads += element * values / 2.0;
            }
            OpKind::Indexer { heads, dim, ratio } => {
                let context = self.job.sequence as f64 / 2.0 / ratio as f64;
                let flops = 2.0 * heads as f64 * dim as f64 * context * cut.tokens;
                let bytes = Bytes(element * cut.tokens * heads as f64 * dim as f64);
                let time = k.attention(Flops(flops), dim as f64, bytes);
                tally.forward += time;
                tally.backward += time * 2.0;
                tally.kept += element * cut.tokens * heads as f64 * dim as f64;
            }
            OpKind::Elementwise { width, reads, shard } => {
                let values = width as f64 / ways(shard) * tokens_of(shard);
                let (time, back) = if self.software().eager && op.name == SCALED_ROTARY {
                    self.eager(ROTARY, values)
                } else {
                    let moved = |tensors: f64| k.streaming(Bytes(element * values * tensors));
                    (moved(reads as f64 + 1.0), moved(2.0 * reads as f64 + 1.0))
                };
                tally.forward += time;
                tally.backward += back;
                // Residual sums and rotations need nothing for their backward pass; activations and gates keep their inputs.
                if shard != Shard::Replicated && !op.name.contains("rotary") && !op.name.contains("rope") {
                    tally.kept += element * values * reads as f64;
                    if self.software().selective.activations {
                        tally.redo += time;
                    }
                } else if op.name == "residual" && self.software().dropout {
                    // A mask of one byte.
                    tally.kept += values;
                }
            }
            OpKind::Weights { parameters, shard } => tally.dense += parameters as f64 / ways(shard),
            OpKind::Experts { experts, top_k, input, ffn, gated, bias, clamped } => {
                let (e, i) = (experts as f64, input as f64);
                let f = ffn as f64 / cut.etp;
                let products = if gated { 3.0 } else { 2.0 };
                let local = (e / cut.ep).max(1.0);
                let copies = cut.own_tokens * top_k as f64 * cut.etp * self.job.expert_imbalance;
                let each = copies / local;
                let up = k.grouped_gemm(local, each, i, f * (products - 1.0));
                let down = k.grouped_gemm(local, each, f, i);
                let act = k.streaming(Bytes(element * copies * f * products));
                let eager = |is: bool, traffic, values| {
                    if is && self.software().eager { self.eager(traffic, values) } else { Default::default() }
                };
                let (clamps, clamps_back) = eager(clamped, CLAMPS, copies * f * (products - 1.0));
                let (biases, biases_back) = eager(bias, EXPERT_BIAS, copies * i);
                // Permutation into expert order and back: a read and a write of every copy each, scattered.
                let moved = 4.0 * element * cut.own_tokens * top_k as f64 * i;
                let permute = k.streaming(Bytes(moved * self.options.figures.scattered));
                tally.forward += up + down + act + clamps + biases + permute;
                tally.backward += (up + down) * 2.0 + act * 1.5 + clamps_back + biases_back + permute;
                // Clamps keep what they read, the activation what they gave.
                let clamped =
                    if clamped && self.software().eager { copies * f * (products - 1.0) * element } else { 0.0 };
                tally.kept += clamped;
                if self.software().selective.expert_activations {
                    tally.redo += act + clamps;
                    tally.droppable += copies * f * product_element + clamped;
                }
                tally.experts += local * (products * i * f + if bias { f * (products - 1.0) + i } else { 0.0 });
                tally.dispatch += cut.own_tokens * top_k as f64 * i * element;
                tally.copies = (top_k as f64).max(1.0);
                tally.kept += copies * i * (product_element + element * self.software().expert_copies);
                tally.kept += copies * f * (products - 1.0) * element;
                tally.kept += copies * f * product_element;
                if self.software().expert_outputs {
                    tally.kept += cut.own_tokens * top_k as f64 * i * element;
                }
            }
        }
    }

    /// Both passes of an operator that runs step by step.
    fn eager(&self, traffic: Traffic, values: f64) -> (Seconds, Seconds) {
        let k = &self.kernels;
        let time = |bytes: f64| k.streaming(Bytes(bytes * values * k.element / 2.0));
        (time(traffic.forward), time(traffic.backward))
    }

    #[allow(clippy::too_many_arguments)]
    fn attention(&self, cut: &Cut, heads: u64, kv_heads: u64, qk_dim: u64, v_dim: u64, span: Span, tally: &mut Tally) {
        let element = self.kernels.element;
        let (q, v) = (qk_dim as f64, v_dim as f64);
        let a = heads as f64 / cut.tp.min(heads as f64) / cut.ulysses;
        let g = (kv_heads as f64 / cut.tp.min(kv_heads as f64) / cut.ulysses).max(1.0).min(a.max(1.0));
        let tokens = cut.tokens * cut.ulysses;
        let sequence = tokens * cut.cp / cut.samples;
        let encoder = Spine::tokens(Stream::Encoder, self.job);
        let software = self.software();
        let whole = span.keys(sequence.round() as u64, encoder, Masked::Counted);
        let context = span.keys(sequence.round() as u64, encoder, Masked::Skipped);
        let (time, back) = if software.scores {
            self.unfused(tokens, whole, a, q, v)
        } else {
            let flops = 2.0 * tokens * context * a * (q + v);
            let bytes = element * tokens * (a * (q + v) + g * (q + v));
            let time = self.kernels.attention(Flops(flops), v, Bytes(bytes));
            (time, time * ATTENTION_BACKWARD_FLOPS)
        };
        tally.forward += time;
        tally.backward += back;
        tally.attention += time;
        if software.selective.scores {
            tally.redo += time;
        }
        // q, k, v and the fp32 log-sum-exp; the output is the input of the output projection.
        let keys = element * tokens * (a * q + g * (q + v));
        if software.scores {
            let scores = tokens * whole * a * score_bytes(software, element);
            tally.kept += keys + scores;
            if software.selective.scores {
                tally.droppable += scores;
            }
        } else {
            tally.kept += keys + 4.0 * tokens * a;
        }
        if tally.expansion.0 > 0.0 && software.selective.latent {
            tally.droppable += keys;
            tally.redo += tally.expansion;
        }
        let reach = match span {
            Span::Sliding { window } => (window as f64 / (sequence / cut.cp)).min(1.0),
            Span::Chunked { chunk: reach } | Span::Blocks { block: reach } => {
                (reach as f64 / (sequence / cut.cp)).min(1.0)
            }
            _ => 1.0,
        };
        tally.key_value += element * tokens * g * (q + v) * reach;
        tally.heads += element * tokens * (a * (q + v) + g * (q + v));
    }

    /// Attention that writes its scores: forward two products over the whole matrix and memory passes for the products'
    /// sides, softmax and dropout; backward four products and as many passes again and half (Korthikanti 2022, figure 3).
    fn unfused(&self, tokens: f64, context: f64, heads: f64, q: f64, v: f64) -> (Seconds, Seconds) {
        let software = self.software();
        let k = &self.kernels;
        let aligned = |width: f64| if k.element * width % ALIGNMENT == 0.0 { 1.0 } else { WITHOUT_TENSOR_CORES };
        let product = k.gemm(tokens, q * heads, context) * aligned(q) + k.gemm(tokens, context, v * heads) * aligned(v);
        let scores = tokens * context * heads;
        // Written by the product, read and written by softmax, read by the next product; dropout reads, writes, and masks.
        let passes = k.element * if software.score_dropout { 6.5 } else { 4.0 };
        let traffic = k.streaming(Bytes(scores * passes));
        (product + traffic, product * 2.0 + traffic * 1.5)
    }
}

/// Bytes that the rows of a product's factors must be multiples of to run on tensor cores (NVIDIA, "Matrix multiplication
/// background user's guide", requirements to use tensor cores, read 2026-12). Fused attention fills heads up instead.
const ALIGNMENT: f64 = 16.0;
/// How much longer products take outside of tensor cores: 312 over 19.5 TFLOP/s (NVIDIA A100 data sheet, 2021). BLOOM's trials with
/// heads of 108 take 1.4 times as long as those of 104, 112 and 144, which is this factor on their attention.
const WITHOUT_TENSOR_CORES: f64 = 16.0;

/// Bytes kept per attention score: what softmax gave, and with dropout a mask and what it let through (Korthikanti 2022,
/// section 4.1).
fn score_bytes(software: &Software, element: f64) -> f64 {
    if software.score_dropout { 2.0 * element + 1.0 } else { element }
}

/// How much longer scattered rows take to move than contiguous ones: the tables of SimuMax's B200 have 0.19 to 0.51 of the
/// memory bandwidth for permutations and 0.67 for element-wise operators (v1.2, read 2026-11).
pub const SCATTERED: f64 = 0.67 / 0.35;

/// Chunk length of the gated delta rule's kernels (flash-linear-attention, 2025).
const LINEAR_CHUNK: f64 = 64.0;
