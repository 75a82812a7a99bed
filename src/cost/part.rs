//! Price of one part of the model under one strategy: time of its forward and backward pass for one micro-batch, of its
//! communication, and the memory it holds.
//!
//! Sources, with the symbols of the field (b micro-batch, s sequence, h width, t tensor, c context, e expert ways):
//! arithmetic and communication volumes after Narayanan 2021 (SC21) section 3.2, Korthikanti 2022 sections 4.2 and 5,
//! ZeRO section 7, Liu 2023 (ring attention), Jacobs 2023 (Ulysses); memory by the lists of tensors that each operator
//! keeps for its backward pass.

use super::collective::{Group, Network};
use super::kernel::{ATTENTION_BACKWARD_FLOPS, Kernels};
use super::options::{self, CostOptions};
use super::software::Software;
use super::states::{StateBytes, States};
use crate::cluster::Pool;
use crate::job::{Job, Precision};
use crate::model::{Masked, Op, OpKind, Shard, Span, Stream, Sublayer, SublayerKind};
use crate::plan::{LayerStrategy, Layout, PartClass, PartKind, Recompute, Spine};
use crate::units::{Bytes, Flops, Seconds};
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul};

/// Time of one pass of one micro-batch, by cause; communication as far as it is not hidden.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PassTime {
    /// Kernels, recomputation included.
    pub compute: Seconds,
    /// Tensor-parallel (and vocabulary-parallel) collectives.
    pub tensor: Seconds,
    /// Context-parallel and Ulysses exchanges.
    pub context: Seconds,
    /// Expert dispatch and combine.
    pub expert: Seconds,
    /// Gathers and scatters of ZeRO-2 and ZeRO-3 within the micro-batch.
    pub data: Seconds,
    /// Resharding between unlike neighbours.
    pub reshard: Seconds,
    /// Slow-down by boundary tensors that travel meanwhile.
    pub pipeline: Seconds,
}

impl PassTime {
    /// All of it.
    pub fn total(&self) -> Seconds {
        self.compute + self.tensor + self.context + self.expert + self.data + self.reshard + self.pipeline
    }
}
impl Add for PassTime {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            compute: self.compute + o.compute,
            tensor: self.tensor + o.tensor,
            context: self.context + o.context,
            expert: self.expert + o.expert,
            data: self.data + o.data,
            reshard: self.reshard + o.reshard,
            pipeline: self.pipeline + o.pipeline,
        }
    }
}
impl AddAssign for PassTime {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}
impl Mul<f64> for PassTime {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        Self {
            compute: self.compute * k,
            tensor: self.tensor * k,
            context: self.context * k,
            expert: self.expert * k,
            data: self.data * k,
            reshard: self.reshard * k,
            pipeline: self.pipeline * k,
        }
    }
}

/// Price of one part.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PartPrice {
    /// Forward pass of one micro-batch.
    pub forward: PassTime,
    /// Backward pass of one micro-batch, recomputation included.
    pub backward: PassTime,
    /// Gradient reduction at the end of the step, as far as it is not hidden.
    pub reduce: Seconds,
    /// Gather of updated weights after the optimizer (ZeRO-1 and 2), as far as it is not hidden.
    pub gather: Seconds,
    /// Optimizer update.
    pub optimizer: Seconds,
    /// Model states.
    pub states: States,
    /// Kept for the backward pass, per micro-batch in flight.
    pub activations: Bytes,
    /// Held for a moment while this part runs backward: recomputed tensors, gathered weights, gradients of activations, logits.
    pub transient: Bytes,
    /// Parameters held by one rank before ZeRO cuts.
    pub parameters: f64,
}

/// Everything that prices depend on and that stays the same for all parts of a question.
#[derive(Debug, Clone)]
pub struct Pricer<'a> {
    job: &'a Job,
    kernels: Kernels<'a>,
    network: Network<'a>,
    per: StateBytes,
    options: CostOptions,
    memory_bandwidth: f64,
    /// The distinct layers, whose buffers are alive while the head runs.
    layers: Vec<PartClass>,
}

/// The frame in which parts are priced: the same for all parts of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// Devices of one stage.
    pub stage_devices: u64,
    /// Stages.
    pub pipeline: u32,
    /// Micro-batches per step.
    pub micro_batches: u64,
}

/// Tokens and cuts of one part on one rank.
#[derive(Debug, Clone, Copy)]
struct Cut {
    tp: f64,
    cp: f64,
    ulysses: f64,
    ep: f64,
    etp: f64,
    sequence_parallel: bool,
    /// Samples of the micro-batch on one rank.
    samples: f64,
    /// Tokens that tensor-parallel products see.
    tokens: f64,
    /// Tokens of norms, residuals and replicated products.
    own_tokens: f64,
}

/// What one pass over operators adds up to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    forward: Seconds,
    backward: Seconds,
    /// Forward time of what selective recomputation redoes.
    redo: Seconds,
    /// Time of attention kernels, forward.
    attention: Seconds,
    /// Bytes kept for backward, and the part that selective recomputation drops.
    kept: f64,
    droppable: f64,
    /// Time of products that expand a latent into heads.
    expansion: Seconds,
    /// Parameters of one rank: dense ones and those of routed experts.
    dense: f64,
    experts: f64,
    /// Bytes of keys and values of one rank (context parallelism passes them on) and of all heads (Ulysses).
    key_value: f64,
    heads: f64,
    /// Bytes that a rank dispatches to experts, every copy counted, and copies per token.
    dispatch: f64,
    copies: f64,
    has_tensor_cut: bool,
}

impl<'a> Pricer<'a> {
    /// Prices on the devices of `pool`.
    pub fn new(pool: &'a Pool, job: &'a Job, options: CostOptions) -> Self {
        Self {
            job,
            kernels: Kernels::new(&pool.device, job.precision, options.software),
            network: Network::new(pool, options.nic_sharing),
            per: StateBytes::of(job).with_optimizer(options.software.extra_optimizer),
            options,
            memory_bandwidth: pool.device.memory_bandwidth.0,
            layers: Vec::new(),
        }
    }

    /// The same beside the layers of `spine`: what of theirs stays while the head runs is counted with the head.
    pub fn beside(self, spine: &Spine) -> Self {
        let layers = spine.classes.iter().filter(|c| c.kind == PartKind::Layer).cloned().collect();
        Self { layers, ..self }
    }

    /// Bytes of buffers for weight gradients of the largest layer under the head's cuts.
    fn layer_buffers(&self, strategy: &LayerStrategy, mesh: Mesh) -> f64 {
        let per = self.software().gradient_buffers;
        if per == 0.0 {
            return 0.0;
        }
        let samples = self.samples(strategy, mesh);
        let dense = |class: &PartClass| {
            let cut = self.cut(class, strategy, samples);
            class.sublayers.iter().map(|s| self.sublayer(s, &cut).dense).sum::<f64>()
        };
        per * self.layers.iter().map(dense).fold(0.0, f64::max)
    }

    /// Time in which the host issues the forward pass of `part`.
    fn host(&self, part: &PartClass, strategy: &LayerStrategy, mesh: Mesh) -> Seconds {
        let software = self.software();
        let waits = mesh.pipeline > 1 && strategy.tp > 1;
        match part.kind {
            PartKind::Layer | PartKind::Mtp => {
                let issue = software.host_s * if routed(part) { ROUTED_HOST } else { 1.0 };
                Seconds(issue + if waits { software.host_tensor_s * f64::from(strategy.tp) } else { 0.0 })
            }
            _ => Seconds::ZERO,
        }
    }

    fn software(&self) -> &Software {
        &self.options.software
    }

    /// The switches in force.
    pub fn options(&self) -> CostOptions {
        self.options
    }

    /// Time to bring the boundary tensor in front of `part` from layout `from` into layout `to`, one way.
    ///
    /// Both cut batch and sequence into blocks. Of its new block a device already holds the share by which its old block
    /// covers it along each axis; the rest comes from the devices that the coarser of both layouts mixes.
    pub fn reshard(&self, part: &PartClass, from: Layout, to: Layout, mesh: Mesh) -> Seconds {
        if from == to {
            return Seconds::ZERO;
        }
        let n = mesh.stage_devices as f64;
        let axes = |l: &Layout| (n / l.model_ways() as f64, l.sequence_ways() as f64);
        let ((batch_from, sequence_from), (batch_to, sequence_to)) = (axes(&from), axes(&to));
        let held = (batch_to / batch_from).min(1.0) * (sequence_to / sequence_from).min(1.0);
        let micro_batch = self.job.global_batch as f64 / mesh.micro_batches as f64;
        let whole = micro_batch * Spine::tokens(part.stream, self.job) as f64 * part.boundary as f64;
        let block = whole * self.kernels.element / (batch_to * sequence_to);
        let span = mesh.stage_devices / (batch_from.min(batch_to) as u64).max(1);
        self.network.gather(Bytes(block * (1.0 - held)), Group { size: span.max(2), stride: 1 })
    }

    /// What a hop of `latency` costs the stage itself: it runs beside computation, which slows down meanwhile.
    pub fn hop_interference(&self, latency: Seconds) -> Seconds {
        latency * if self.options.overlap { options::HOP_SLOWDOWN - 1.0 } else { 1.0 }
    }

    /// Latency of the boundary tensor from the stage before `stage` into its first part, one way.
    pub fn hop(&self, part: &PartClass, layout: Layout, mesh: Mesh, stage: u64) -> Seconds {
        let dp = mesh.stage_devices as f64 / layout.model_ways() as f64;
        let samples = self.job.global_batch as f64 / (mesh.micro_batches as f64 * dp);
        let mut tokens = Spine::tokens(part.stream, self.job) as f64;
        if part.sublayers.iter().any(|s| s.kind == SublayerKind::CrossAttention) {
            // The encoder's output travels along.
            tokens += Spine::tokens(Stream::Encoder, self.job) as f64;
        }
        let values = samples * tokens * part.boundary as f64 / layout.sequence_ways() as f64;
        let n = mesh.stage_devices;
        let pipeline = u64::from(mesh.pipeline);
        let from = (stage + pipeline - 1) % pipeline * n;
        // Back to the first stage is as far as the whole pipeline but one stage.
        let distance = if stage == 0 { n * (pipeline - 1) } else { n };
        self.network.shift(Bytes(values * self.kernels.element), from.min(stage * n), distance, n)
    }

    /// Samples of one micro-batch that a rank sees: `global_batch / (micro_batches * dp)`.
    pub fn samples(&self, strategy: &LayerStrategy, mesh: Mesh) -> f64 {
        let dp = mesh.stage_devices as f64 / strategy.model_ways() as f64;
        self.job.global_batch as f64 / (mesh.micro_batches as f64 * dp)
    }

    /// Prices `part` under `strategy` in the frame of `mesh`.
    pub fn price(&self, part: &PartClass, strategy: &LayerStrategy, mesh: Mesh) -> PartPrice {
        self.base(part, strategy, mesh).finish(strategy.zero, strategy.recompute)
    }

    /// All of a price that neither ZeRO nor recomputation changes: kernels and communication of the strategy's mesh.
    pub fn base(&self, part: &PartClass, strategy: &LayerStrategy, mesh: Mesh) -> BasePrice {
        let mut base = BasePrice {
            kind: part.kind,
            price: PartPrice::default(),
            whole: Tally::default(),
            largest_redo: 0.0,
            boundary: 0.0,
            gathered: 0.0,
            shards: [Shards::default(); 2],
            per: self.per,
            update_rate: self.memory_bandwidth * options::OPTIMIZER_EFFICIENCY,
            overlap: self.options.overlap,
            data_overlap: self.options.overlap && self.software().data_overlap,
            buffers: 0.0,
            kept_factor: self.software().activations,
            host: self.host(part, strategy, mesh),
        };
        let head_like = matches!(part.kind, PartKind::Head | PartKind::Embedding);
        if head_like && !self.options.head {
            return base;
        }
        let samples = self.samples(strategy, mesh);
        let cut = self.cut(part, strategy, samples);
        let tp_group = Group { size: u64::from(strategy.tp), stride: 1 };
        for sublayer in &part.sublayers {
            let tally = self.sublayer(sublayer, &cut);
            self.communicate(part, &tally, strategy, &cut, &mut base.price);
            base.largest_redo = base.largest_redo.max(tally.droppable);
            base.whole.add(&tally);
        }
        if let Some(vocab) = part.vocab {
            let copy = part.owns_vocab || mesh.pipeline > 1;
            self.vocabulary(part, vocab, copy, tp_group, &cut, &mut base.whole, &mut base.price);
        }
        base.buffers = match part.kind {
            PartKind::Head => self.software().head_buffers * base.whole.dense + self.layer_buffers(strategy, mesh),
            _ => self.software().gradient_buffers * base.whole.dense,
        };
        base.boundary = part.boundary as f64 * cut.own_tokens * self.kernels.element;
        base.gathered = part.boundary as f64 * cut.tokens * self.kernels.element;
        base.shards = self.shards(strategy, mesh.stage_devices, &base.whole);
        base
    }

    fn cut(&self, part: &PartClass, s: &LayerStrategy, samples: f64) -> Cut {
        let sequence = Spine::tokens(part.stream, self.job) as f64 / part.gathers as f64;
        let tokens = samples * sequence / (f64::from(s.cp) * f64::from(s.ulysses));
        Cut {
            tp: f64::from(s.tp),
            cp: f64::from(s.cp),
            ulysses: f64::from(s.ulysses),
            ep: f64::from(s.ep),
            etp: f64::from(s.etp),
            sequence_parallel: s.sequence_parallel,
            samples,
            tokens,
            own_tokens: if s.sequence_parallel { tokens / f64::from(s.tp) } else { tokens },
        }
    }

    /// Kernels, kept tensors and parameters of a residual branch.
    fn sublayer(&self, sublayer: &Sublayer, cut: &Cut) -> Tally {
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
                let time = k.streaming(Bytes(element * values * (reads as f64 + 1.0)));
                tally.forward += time;
                tally.backward += k.streaming(Bytes(element * values * (2.0 * reads as f64 + 1.0)));
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
            OpKind::Experts { experts, top_k, input, ffn, gated, bias } => {
                let (e, i) = (experts as f64, input as f64);
                let f = ffn as f64 / cut.etp;
                let products = if gated { 3.0 } else { 2.0 };
                let local = (e / cut.ep).max(1.0);
                let copies = cut.own_tokens * top_k as f64 * cut.etp * self.job.expert_imbalance;
                let each = copies / local;
                let up = k.grouped_gemm(local, each, i, f * (products - 1.0));
                let down = k.grouped_gemm(local, each, f, i);
                let act = k.streaming(Bytes(element * copies * f * products));
                // Permutation into expert order and back: a read and a write of every copy each, scattered.
                let moved = 4.0 * element * cut.own_tokens * top_k as f64 * i;
                let permute = k.streaming(Bytes(moved * SCATTERED));
                tally.forward += up + down + act + permute;
                tally.backward += (up + down) * 2.0 + act * 1.5 + permute;
                if self.software().selective.expert_activations {
                    tally.redo += act;
                    tally.droppable += copies * f * product_element;
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
        let product = k.gemm(tokens, q * heads, context) + k.gemm(tokens, context, v * heads);
        let scores = tokens * context * heads;
        // Written by the product, read and written by softmax, read by the next product; dropout reads, writes, and masks.
        let passes = k.element * if software.score_dropout { 6.5 } else { 4.0 };
        let traffic = k.streaming(Bytes(scores * passes));
        (product + traffic, product * 2.0 + traffic * 1.5)
    }

    /// Exposed communication of one residual branch.
    fn communicate(&self, part: &PartClass, tally: &Tally, strategy: &LayerStrategy, cut: &Cut, price: &mut PartPrice) {
        let element = self.kernels.element;
        let hidden = |f: f64| if self.options.overlap { 1.0 - f } else { 1.0 };
        if strategy.tp > 1 && tally.has_tensor_cut && part.kind != PartKind::Side {
            let group = Group { size: u64::from(strategy.tp), stride: 1 };
            let streams = part.boundary as f64;
            let whole = Bytes(cut.tokens * streams * element);
            // Forward a gather and a scatter; backward the same plus the gather of the products' inputs again
            // (Korthikanti 2022, section 4.2.2). Without sequence parallelism an all-reduce each way, hidden by nothing.
            if strategy.sequence_parallel {
                // Pieces of products and of messages take turns over the innermost links only.
                let near = u64::from(strategy.tp) <= self.network.innermost();
                let overlap = if near && self.software().tensor_overlap { options::TENSOR_OVERLAP } else { 0.0 };
                let one = self.network.gather(whole, group);
                price.forward.tensor += one * (2.0 * hidden(overlap));
                // Backward, the gather runs behind the input gradient and the scatter behind the weight gradient in any case.
                let overlap = if near && self.software().backward_overlap { options::TENSOR_OVERLAP } else { 0.0 };
                price.backward.tensor += one * (3.0 * hidden(overlap));
            } else {
                let one = self.network.all_reduce(whole, group);
                price.forward.tensor += one;
                price.backward.tensor += one;
            }
        }
        if strategy.ulysses > 1 && tally.heads > 0.0 {
            let group = Group { size: u64::from(strategy.ulysses), stride: u64::from(strategy.tp) };
            let exchange = self.network.all_to_all(Bytes(tally.heads), group);
            price.forward.context += exchange;
            price.backward.context += exchange;
        }
        if strategy.cp > 1 && tally.key_value > 0.0 {
            let stride = u64::from(strategy.tp) * u64::from(strategy.ulysses);
            let step = self.network.ring_step(Bytes(tally.key_value), Group { size: u64::from(strategy.cp), stride });
            let ring = step * (f64::from(strategy.cp) - 1.0);
            // Keys and values forward; backward they go round again with their gradients.
            price.forward.context += self.exposed(ring, tally.attention);
            price.backward.context += self.exposed(ring * 2.0, tally.attention * ATTENTION_BACKWARD_FLOPS);
        }
        if tally.dispatch > 0.0 && strategy.ep > 1 {
            let group = Group { size: u64::from(strategy.ep), stride: u64::from(strategy.etp) };
            // Tokens leave in fp8 where products are fp8, and come back in the activations' format.
            let out = if self.job.precision == Precision::Fp8 { 0.5 } else { 1.0 };
            let tokens = tally.dispatch / tally.copies * self.job.expert_imbalance;
            let full = self.network.dispatch(Bytes(tokens), tally.copies, group);
            let dispatch = self.network.dispatch(Bytes(tokens * out), tally.copies, group);
            price.forward.expert += dispatch + full;
            price.backward.expert += full + full;
        }
        if tally.dispatch > 0.0 && strategy.etp > 1 {
            let group = Group { size: u64::from(strategy.etp), stride: 1 };
            let one = self.network.gather(Bytes(tally.dispatch * f64::from(strategy.etp)), group);
            price.forward.expert += one * 2.0;
            price.backward.expert += one * 2.0;
        }
    }

    /// Embedding look-up, or head and loss. A tied head or an MTP module holds a copy of the matrix as soon as there is a
    /// pipeline: its owner is on another stage.
    #[allow(clippy::too_many_arguments)]
    fn vocabulary(
        &self,
        part: &PartClass,
        vocab: u64,
        copy: bool,
        group: Group,
        cut: &Cut,
        whole: &mut Tally,
        price: &mut PartPrice,
    ) {
        let k = &self.kernels;
        let element = k.element;
        // Megatron pads the vocabulary to a multiple of 128 times the tensor-parallel ways.
        let unit = 128.0 * cut.tp;
        let rows = (vocab as f64 / unit).ceil() * unit / cut.tp;
        let width = part.boundary as f64;
        if copy {
            whole.dense += rows * width;
        }
        let tokens_whole = Bytes(cut.tokens * width * element);
        if part.kind == PartKind::Embedding {
            let time = k.streaming(Bytes(2.0 * element * cut.tokens * width));
            whole.forward += time;
            whole.backward += time * 2.0;
            if cut.tp > 1.0 {
                let one = if cut.sequence_parallel {
                    self.network.gather(tokens_whole, group)
                } else {
                    self.network.all_reduce(tokens_whole, group)
                };
                price.forward.tensor += one;
                price.backward.tensor += if cut.sequence_parallel { one } else { Seconds::ZERO };
            }
            return;
        }
        let time = k.gemm(cut.tokens, width, rows);
        whole.forward += time;
        whole.backward += time + k.weight_gradient(cut.tokens, width, rows);
        // The loss reads and writes the logits: cast, maximum, exponent and sum forward, gradient backward.
        whole.forward += k.streaming(Bytes(cut.tokens * rows * 10.0));
        whole.backward += k.streaming(Bytes(cut.tokens * rows * 6.0));
        whole.kept += cut.own_tokens * width * element;
        price.transient += Bytes(self.software().loss_bytes * cut.tokens * rows);
        if cut.tp > 1.0 {
            let one = if cut.sequence_parallel {
                self.network.gather(tokens_whole, group)
            } else {
                self.network.all_reduce(tokens_whole, group)
            };
            let reductions = self.network.all_reduce(Bytes(4.0 * cut.tokens), group) * 3.0;
            price.forward.tensor += reductions + if cut.sequence_parallel { one } else { Seconds::ZERO };
            price.backward.tensor += one * if cut.sequence_parallel { 2.0 } else { 1.0 };
        }
    }

    /// The data-parallel groups of dense and of expert parameters.
    fn shards(&self, strategy: &LayerStrategy, stage_devices: u64, whole: &Tally) -> [Shards; 2] {
        let tp = u64::from(strategy.tp);
        let block = u64::from(strategy.ep) * u64::from(strategy.etp);
        let of = |parameters: f64, stride: u64| {
            if parameters == 0.0 {
                return Shards::default();
            }
            let group = Group { size: stage_devices / stride, stride };
            let time = |bytes: f64| {
                if group.size == 1 { Seconds::ZERO } else { self.network.gather(Bytes(parameters * bytes), group) }
            };
            Shards {
                parameters,
                ways: group.size as f64,
                scatter: time(self.per.gradients),
                gather: time(self.per.weights),
            }
        };
        [of(whole.dense, tp), of(whole.experts, block)]
    }

    /// What `communication` adds to `computation` that runs at the same time.
    fn exposed(&self, communication: Seconds, computation: Seconds) -> Seconds {
        exposed(self.options.overlap, communication, computation)
    }
}

/// Bytes kept per attention score: what softmax gave, and with dropout a mask and what it let through (Korthikanti 2022,
/// section 4.1).
fn score_bytes(software: &Software, element: f64) -> f64 {
    if software.score_dropout { 2.0 * element + 1.0 } else { element }
}

/// What `communication` adds to `computation` that runs at the same time: both slow down while they overlap, and what does
/// not fit stands alone (Miao 2022, Galvatron, section 3.4).
fn exposed(overlap: bool, communication: Seconds, computation: Seconds) -> Seconds {
    if !overlap {
        return communication;
    }
    let together = communication.min(computation);
    together * (options::OVERLAP_SLOWDOWN - 1.0) + (communication - together)
}

/// Whether tokens are routed to experts.
fn routed(part: &PartClass) -> bool {
    part.sublayers.iter().any(|s| s.kind == SublayerKind::Moe)
}

/// How much longer the host takes to issue a layer with routed experts: 9.2 ms forward and backward on H100 and on B200 alike
/// (Megatron-Bridge, Qwen3-30B-A3B at micro-batch 1 without graphs: 29.45 and 28.19 s for 64 passes through 48 layers) against
/// 2.4 of a dense one.
const ROUTED_HOST: f64 = 3.75;

/// A pass takes no less than the host takes to issue it: the device waits where its kernels are shorter. Kernels and issue
/// mix, so that near the crossing neither hides the other: the fourth root of the sum of fourth powers.
fn issue(pass: &mut PassTime, host: Seconds) {
    if host.0 <= 0.0 {
        return;
    }
    let device = pass.total().0;
    pass.compute += Seconds((device.powi(4) + host.0.powi(4)).sqrt().sqrt() - device);
}

/// Parameters that one data-parallel group shares, and what it takes to reduce or gather them.
#[derive(Debug, Clone, Copy, Default)]
struct Shards {
    parameters: f64,
    ways: f64,
    scatter: Seconds,
    gather: Seconds,
}

/// A price before ZeRO and recomputation.
#[derive(Debug, Clone, Copy)]
pub struct BasePrice {
    kind: PartKind,
    price: PartPrice,
    whole: Tally,
    largest_redo: f64,
    boundary: f64,
    /// The boundary tensor of all tensor-parallel ranks together, as products read it.
    gathered: f64,
    shards: [Shards; 2],
    per: StateBytes,
    update_rate: f64,
    overlap: bool,
    data_overlap: bool,
    /// Bytes of buffers for weight gradients.
    buffers: f64,
    /// Bytes kept over the bytes needed.
    kept_factor: f64,
    /// Time in which the host issues a forward pass.
    host: Seconds,
}

impl BasePrice {
    /// The price under ZeRO stage `zero` and `recompute`.
    pub fn finish(&self, zero: u8, recompute: Recompute) -> PartPrice {
        let mut price = self.price;
        if self.whole.is_empty() {
            return price;
        }
        let mut whole = self.whole;
        whole.kept *= self.kept_factor;
        whole.droppable *= self.kept_factor;
        price.forward.compute += whole.forward;
        price.backward.compute += whole.backward;
        // The input of a part is kept by its first norm or product; full recomputation keeps nothing else.
        match recompute {
            Recompute::Selective => {
                price.activations = Bytes(whole.kept - whole.droppable);
                price.backward.compute += whole.redo;
                price.transient += Bytes(self.largest_redo * self.kept_factor);
            }
            Recompute::Full if self.kind == PartKind::Layer => {
                price.activations = Bytes(self.boundary);
                price.backward.compute += whole.forward;
                price.backward.tensor += price.forward.tensor;
                price.backward.context += price.forward.context;
                price.backward.expert += price.forward.expert;
                price.transient += Bytes(whole.kept);
            }
            Recompute::None | Recompute::Full => price.activations = Bytes(whole.kept),
        }
        let redone = if recompute == Recompute::Full && self.kind == PartKind::Layer { 1.0 } else { 0.0 };
        issue(&mut price.forward, self.host);
        issue(&mut price.backward, self.host * (2.0 + redone));
        // Gradients of the activations around the running operators.
        price.transient += Bytes((4.0 * self.boundary).max(3.0 * self.gathered) + self.buffers);
        self.data_parallel(zero, &mut price);
        price
    }

    /// States, gradient reduction, weight gathers and the optimizer.
    fn data_parallel(&self, zero: u8, price: &mut PartPrice) {
        let per = self.per;
        for shards in self.shards.iter().filter(|s| s.parameters > 0.0) {
            let Shards { parameters, ways, scatter, gather } = *shards;
            price.parameters += parameters;
            price.states += States::new(parameters, per, zero, ways);
            let shard = parameters / if zero >= 1 { ways } else { 1.0 };
            let traffic = 2.0 * (per.weights + per.optimizer) + per.gradients;
            price.optimizer += Seconds(shard * traffic / self.update_rate);
            if ways == 1.0 {
                continue;
            }
            match zero {
                0 => price.reduce += scatter * 2.0,
                1 => {
                    price.reduce += scatter;
                    price.gather += gather;
                }
                2 => {
                    price.backward.data += scatter;
                    price.gather += gather;
                    price.transient += Bytes(parameters * per.gradients);
                }
                _ => {
                    price.forward.data += gather;
                    price.backward.data += gather + scatter;
                    price.transient += Bytes(parameters * (2.0 * per.weights + per.gradients));
                }
            }
        }
        // Gathers are prefetched and scatters left behind while neighbouring layers compute; reductions run behind the
        // backward pass of the last micro-batch, gathers of updated weights behind the first forward pass.
        let hide = |communication, computation| exposed(self.overlap, communication, computation);
        price.forward.data = hide(price.forward.data, price.forward.compute);
        price.backward.data = hide(price.backward.data, price.backward.compute);
        if self.data_overlap {
            price.reduce = hide(price.reduce, price.backward.compute);
            price.gather = hide(price.gather, price.forward.compute);
        }
    }
}

/// How much longer scattered rows take to move than contiguous ones: the tables of SimuMax's B200 have 0.19 to 0.51 of the
/// memory bandwidth for permutations and 0.67 for element-wise operators (v1.2, read 2026-11).
const SCATTERED: f64 = 0.67 / 0.35;

/// Chunk length of the gated delta rule's kernels (flash-linear-attention, 2025).
const LINEAR_CHUNK: f64 = 64.0;

impl Tally {
    fn is_empty(&self) -> bool {
        self.forward == Seconds::ZERO && self.dense == 0.0 && self.experts == 0.0
    }

    fn has_attention(&self) -> bool {
        self.heads > 0.0
    }

    fn add(&mut self, o: &Tally) {
        self.forward += o.forward;
        self.backward += o.backward;
        self.redo += o.redo;
        self.kept += o.kept;
        self.droppable += o.droppable;
        self.dense += o.dense;
        self.experts += o.experts;
    }
}
