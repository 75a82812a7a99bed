//! Price of one part of the model under one strategy: time of its forward and backward pass for one micro-batch, of its
//! communication, and the memory it holds.
//!
//! Sources, with the symbols of the field (b micro-batch, s sequence, h width, t tensor, c context, e expert ways):
//! arithmetic and communication volumes after Narayanan 2021 (SC21) section 3.2, Korthikanti 2022 sections 4.2 and 5,
//! ZeRO section 7, Liu 2023 (ring attention), Jacobs 2023 (Ulysses); memory by the lists of tensors that each operator
//! keeps for its backward pass.

mod eager;
mod finish;
mod operators;
mod pass;

pub use finish::BasePrice;
pub use pass::PassTime;

use super::collective::{Group, Network};
use super::kernel::{ATTENTION_BACKWARD_FLOPS, Kernels};
use super::options::CostOptions;
use super::software::Software;
use super::states::{StateBytes, States};
use crate::cluster::Pool;
use crate::job::{Job, Precision};
use crate::model::{Stream, SublayerKind};
use crate::plan::{LayerStrategy, Layout, PartClass, PartKind, Spine};
use crate::units::{Bytes, Seconds};
pub use finish::ROUTED_HOST;
use finish::{Shards, exposed};
pub use operators::SCATTERED;
use serde::{Deserialize, Serialize};

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
            kernels: Kernels::new(&pool.device, job.precision, &options),
            network: Network::new(pool, options.nic_sharing),
            per: StateBytes::under(job, &options.software),
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
        let spans_nodes = mesh.stage_devices * u64::from(mesh.pipeline) > self.network.innermost();
        let waits = mesh.pipeline > 1 && strategy.tp > 1 && spans_nodes;
        match part.kind {
            PartKind::Layer | PartKind::Mtp => {
                let issue = software.host_s * if part.routes() { self.options.figures.routed_host } else { 1.0 };
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
        latency * if self.options.overlap { self.options.figures.hop_slowdown - 1.0 } else { 1.0 }
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
        let handover = Seconds(self.software().hop_s);
        handover + self.network.shift(Bytes(values * self.kernels.element), from.min(stage * n), distance, n)
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
            update_rate: self.memory_bandwidth * self.options.figures.optimizer_efficiency,
            slowdown: self.options.slowdown(),
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
            let mut tally = self.sublayer(sublayer, &cut);
            let selective = self.software().selective;
            if selective.mlp && sublayer.kind == SublayerKind::Mlp {
                // What the branch reads stays, and the norm's output (Megatron-LM `--recompute-modules mlp`).
                let stays = if selective.norms { 1.0 } else { 2.0 };
                let boundary = part.boundary as f64 * cut.own_tokens * self.kernels.element;
                tally.droppable = tally.droppable.max(tally.kept - stays * boundary);
                tally.redo = tally.forward;
            }
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
        if mesh.pipeline == 1 {
            base.buffers += self.software().run_ahead * part.boundary as f64 * cut.tokens * (1.0 - 1.0 / cut.tp);
        }
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
                let overlap =
                    if near && self.software().tensor_overlap { self.options.figures.tensor_overlap } else { 0.0 };
                let one = self.network.gather(whole, group);
                price.forward.tensor += one * (2.0 * hidden(overlap));
                // Backward, the gather runs behind the input gradient and the scatter behind the weight gradient in any case.
                let overlap =
                    if near && self.software().backward_overlap { self.options.figures.tensor_overlap } else { 0.0 };
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
        exposed(self.options.slowdown(), communication, computation)
    }
}

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
