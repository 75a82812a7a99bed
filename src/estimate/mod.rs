//! Plan to Estimate: composes the prices of parts, the pipeline and memory. No search needed.
//!
//! Memory is the maximum over stages and moments: states and the activations of all micro-batches in flight, with the
//! largest momentary need (recomputed tensors, gathered weights, logits) on top; not a sum of maxima.

pub mod chunks;
pub mod closed;
pub mod host;
pub mod in_flight;
pub mod numbers;
pub mod scheduled;

use crate::cluster::Pool;
use crate::cost::{CostOptions, Figures, Mesh, PartPrice, PassTime, Pricer, States};
use crate::job::Job;
use crate::model::{Masked, Model};
use crate::pipeline::PipelineError;
use crate::pipeline::timing::{Kind, StageTimes, TimingError, peak_live, simulate};
use crate::plan::{LayerStrategy, Layout, PartKind, Plan, Spine};
use crate::units::{Bytes, Dollars, Seconds};
use closed::{ClosedForm, StageCost};
use serde::Serialize;
use std::collections::BTreeMap;

/// Why a plan has no estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// The plan does not belong to the question.
    #[error("{0}")]
    Mismatch(String),
    /// The schedule could not be timed.
    #[error("schedule: {0}")]
    Timing(#[from] TimingError),
    /// The schedule given with the plan does not run.
    #[error("schedule: {0}")]
    Schedule(#[from] PipelineError),
}

/// Bytes of one stage at its worst moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StageMemory {
    /// Working weights.
    pub weights_bytes: f64,
    /// Accumulated gradients.
    pub gradients_bytes: f64,
    /// Master weights and moments.
    pub optimizer_bytes: f64,
    /// Tensors kept for backward passes, all micro-batches in flight.
    pub activations_bytes: f64,
    /// Logits and loss, when they make the peak.
    pub head_bytes: f64,
    /// Recomputed tensors, gathered weights, gradients of activations.
    pub buffers_bytes: f64,
    /// All of the above: what the framework's allocator hands out.
    pub allocated_bytes: f64,
    /// With the allocator's own loss and everything outside it.
    pub reserved_bytes: f64,
}

/// Seconds of one iteration of one stage, by cause; they sum to the iteration time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StageTime {
    /// Kernels, recomputation included.
    pub compute_s: f64,
    /// Exposed tensor-parallel communication.
    pub tp_s: f64,
    /// Exposed context-parallel and Ulysses communication.
    pub cp_s: f64,
    /// Exposed expert-parallel communication.
    pub ep_s: f64,
    /// Resharding between unlike layers.
    pub reshard_s: f64,
    /// Slow-down by boundary tensors that travel meanwhile.
    pub pp_s: f64,
    /// Waiting for other stages.
    pub bubble_s: f64,
    /// Exposed ZeRO traffic and gradient reduction.
    pub dp_s: f64,
    /// Optimizer update.
    pub optimizer_s: f64,
    /// Stragglers and jitter.
    pub jitter_s: f64,
}

/// One stage of an estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageEstimate {
    /// Pipeline rank.
    pub stage: u32,
    /// First device and number of devices.
    pub devices: [u64; 2],
    /// Where its time goes.
    pub time: StageTime,
    /// Where its memory goes.
    pub memory: StageMemory,
    /// Live micro-batches by chunk.
    pub in_flight: Vec<f64>,
    /// Share of the usable memory that stays free.
    pub margin: f64,
}

/// Price of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Time of one optimizer step.
    pub iteration_time_s: f64,
    /// Between these it lies in four of five published runs: 10 % and 90 % quantiles.
    pub iteration_time_p10_p90_s: [f64; 2],
    /// The closed form of the same, never above.
    pub closed_form_s: f64,
    /// Tokens of the decoder per second, all devices.
    pub tokens_per_s: f64,
    /// Tokens per second and device.
    pub tokens_per_s_per_device: f64,
    /// Model FLOPs utilisation counting causal attention half.
    pub mfu: f64,
    /// The same counting the full attention matrix.
    pub mfu_full_attention: f64,
    /// Idle share of all devices' time in the pipeline.
    pub bubble: f64,
    /// Reserved memory of the fullest stage.
    pub peak_memory_bytes: f64,
    /// Its 10 % and 90 % quantiles.
    pub peak_memory_p10_p90_bytes: [f64; 2],
    /// What a device may use before the margin: [`crate::cost::options::SAFE_SHARE`] of what it shows.
    pub usable_memory_bytes: f64,
    /// Whether every stage keeps the margin.
    pub fits: bool,
    /// Dollars per 1e9 tokens, where the pool has a price.
    pub dollars_per_1e9_tokens: Option<f64>,
    /// By stage.
    pub stages: Vec<StageEstimate>,
}

/// Everything that estimates of one question share.
#[derive(Debug, Clone)]
pub struct Estimator<'a> {
    /// The model.
    pub model: &'a Model,
    /// Its parts.
    pub spine: &'a Spine,
    /// Where it runs.
    pub pool: &'a Pool,
    /// The job.
    pub job: &'a Job,
    /// Prices of parts.
    pub pricer: Pricer<'a>,
    /// Operations of one token, masked attention skipped and counted.
    flops_per_token: [f64; 2],
}

/// Sums over the parts of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkSum {
    forward: PassTime,
    backward: PassTime,
    reduce: f64,
    gather: f64,
    optimizer: f64,
    hop: f64,
    states: States,
    activations: f64,
    transient: f64,
    /// The transient is that of a head or MTP module.
    transient_is_head: bool,
}

/// What timing says of one pipeline rank.
struct Rank {
    /// Its chunks.
    own: Vec<usize>,
    /// End of its last pass.
    last_end: f64,
    /// Bytes of activations at the worst moment.
    live: f64,
    /// Live micro-batches by chunk.
    in_flight: Vec<f64>,
    /// What input and weight gradients as passes of their own cost, seconds.
    apart: f64,
}

impl<'a> Estimator<'a> {
    /// Estimates of `model` in `pool`.
    pub fn new(model: &'a Model, spine: &'a Spine, pool: &'a Pool, job: &'a Job, options: CostOptions) -> Self {
        let lengths = Spine::lengths(model, job);
        let flops = |masked| model.flops_per_token(&lengths, masked, job.mtp).0;
        let flops_per_token = [flops(Masked::Skipped), flops(Masked::Counted)];
        Self { model, spine, pool, job, pricer: Pricer::new(pool, job, options).beside(spine), flops_per_token }
    }

    /// Memory that a plan may allocate on one device so that it is safe: see [`crate::cost::options::SAFE_SHARE`].
    pub fn allocatable(&self) -> f64 {
        let workspace = self.pricer.options().software.workspace;
        ((self.usable() - self.figures().context_bytes) / self.pricer.options().software.allocator - workspace).max(0.0)
    }

    fn usable(&self) -> f64 {
        self.job.memory_limit.unwrap_or(self.pool.device.memory).0 * self.figures().safe_share
    }

    fn figures(&self) -> Figures {
        self.pricer.options().figures
    }

    /// Growth of the iteration by stragglers.
    pub fn jitter(&self) -> f64 {
        let nodes = (self.pool.devices as f64 / self.pool.devices_per_node as f64).max(1.0);
        1.0 + self.figures().jitter_per_doubling * nodes.log2()
    }

    /// Checks that `plan` covers the spine in order on the pool's devices.
    fn check(&self, plan: &Plan) -> Result<(), EstimateError> {
        let mismatch = |text: String| Err(EstimateError::Mismatch(text));
        let chunks = plan.pipeline as usize * plan.chunks_per_stage as usize;
        if plan.pipeline == 0 || plan.chunks_per_stage == 0 || plan.micro_batches == 0 || plan.devices == 0 {
            return mismatch("pipeline, chunks_per_stage, micro_batches and devices must be at least 1".into());
        }
        if plan.chunks.len() != chunks {
            return mismatch(format!("{} chunks are listed, {chunks} needed", plan.chunks.len()));
        }
        if plan.devices > self.pool.devices || !plan.devices.is_multiple_of(u64::from(plan.pipeline)) {
            return mismatch(format!(
                "{} devices in {} stages do not fit {} devices of pool `{}`",
                plan.devices, plan.pipeline, self.pool.devices, self.pool.name
            ));
        }
        let mut next = 0;
        let mut checked = None;
        for (part, strategy) in plan.chunks.iter().flat_map(|c| c.parts()) {
            if part != next || part >= self.spine.parts.len() {
                return mismatch(format!("part {part} stands where part {next} of {} is due", self.spine.parts.len()));
            }
            next += 1;
            if checked == Some(strategy) {
                continue;
            }
            checked = Some(strategy);
            let ways = strategy.model_ways();
            let experts = u64::from(strategy.ep) * u64::from(strategy.etp);
            let n = plan.stage_devices();
            if ways == 0 || experts == 0 || !n.is_multiple_of(ways) || !n.is_multiple_of(experts) {
                return mismatch(format!(
                    "part {part}: strategy `{strategy}` does not tile the {n} devices of a stage"
                ));
            }
            if !self.job.global_batch.is_multiple_of(plan.micro_batches * (n / ways)) {
                return mismatch(format!(
                    "part {part}: a global batch of {} does not divide into {} micro-batches over {} data-parallel ranks",
                    self.job.global_batch,
                    plan.micro_batches,
                    n / ways
                ));
            }
        }
        if next != self.spine.parts.len() {
            return mismatch(format!("the plan ends after {next} of {} parts", self.spine.parts.len()));
        }
        Ok(())
    }

    /// Estimates `plan`.
    ///
    /// # Errors
    /// When the plan does not cover the model or does not tile the devices.
    pub fn estimate(&self, plan: &Plan) -> Result<Estimate, EstimateError> {
        self.check(plan)?;
        let mesh =
            Mesh { stage_devices: plan.stage_devices(), pipeline: plan.pipeline, micro_batches: plan.micro_batches };
        let (p, v, m) = (plan.pipeline as usize, plan.chunks_per_stage as usize, plan.micro_batches);
        let mut prices: BTreeMap<(u32, LayerStrategy), PartPrice> = BTreeMap::new();
        let chunks: Vec<ChunkSum> =
            plan.chunks.iter().enumerate().map(|(x, c)| self.sum(c.parts(), x % p, x > 0, mesh, &mut prices)).collect();
        let total = |pass: &PassTime| pass.total().0;
        let times = StageTimes {
            forward: chunks.iter().map(|c| total(&c.forward)).collect(),
            backward: chunks.iter().map(|c| total(&c.backward)).collect(),
            hop_forward: chunks[1..].iter().map(|c| c.hop).collect(),
            hop_backward: chunks[1..].iter().map(|c| c.hop).collect(),
        };
        let kind = if v == 1 { Kind::OneF1B } else { Kind::Interleaved { group: p } };
        let timeline = simulate(kind, p, v, m as usize, &times)?;
        let costs: Vec<StageCost> = (0..p).map(|s| stage_cost(s, p, v, &chunks)).collect();
        let form = ClosedForm::new(plan.pipeline, plan.chunks_per_stage, m, self.jitter());
        let mut ranks = Vec::with_capacity(p);
        for s in 0..p {
            let own: Vec<usize> = (0..v).map(|c| c * p + s).collect();
            let weights: Vec<f64> = own.iter().map(|x| chunks[*x].activations).collect();
            ranks.push(Rank {
                last_end: timeline.devices[s].last_end,
                live: peak_live(kind, p, v, m as usize, s, &weights)?,
                in_flight: in_flight::at_warm_up(plan.pipeline, plan.chunks_per_stage, m, s as u32),
                apart: 0.0,
                own,
            });
        }
        Ok(self.compose(plan, &chunks, ranks, form.iteration(&costs), timeline.bubble()))
    }

    /// The estimate of a plan whose passes were timed; `closed_form` never exceeds the iteration.
    fn compose(&self, plan: &Plan, chunks: &[ChunkSum], ranks: Vec<Rank>, closed_form: f64, bubble: f64) -> Estimate {
        let m = plan.micro_batches;
        let reduced = |r: &Rank| r.last_end + r.own.iter().map(|x| chunks[*x].reduce).sum::<f64>();
        let reduced = ranks.iter().map(reduced).fold(0.0, f64::max);
        let tail = |r: &Rank| r.own.iter().map(|x| chunks[*x].optimizer + chunks[*x].gather).sum();
        let tail = ranks.iter().map(tail).fold(0.0, f64::max);
        let iteration = (reduced + tail) * self.jitter();
        let mut stages = Vec::with_capacity(ranks.len());
        for (s, rank) in ranks.into_iter().enumerate() {
            let mut time = StageTime { compute_s: rank.apart, ..StageTime::default() };
            for &x in &rank.own {
                let both = (chunks[x].forward + chunks[x].backward) * m as f64;
                time.compute_s += both.compute.0;
                time.tp_s += both.tensor.0;
                time.cp_s += both.context.0;
                time.ep_s += both.expert.0;
                time.reshard_s += both.reshard.0;
                time.pp_s += both.pipeline.0;
                time.dp_s += both.data.0 + chunks[x].reduce + chunks[x].gather;
                time.optimizer_s += chunks[x].optimizer;
            }
            let busy = time.compute_s
                + time.tp_s
                + time.cp_s
                + time.ep_s
                + time.reshard_s
                + time.pp_s
                + time.dp_s
                + time.optimizer_s;
            time.bubble_s = (reduced + tail - busy).max(0.0);
            time.jitter_s = iteration - (reduced + tail);
            let memory = self.memory(rank.own.iter().map(|x| &chunks[*x]), rank.live);
            stages.push(StageEstimate {
                stage: s as u32,
                devices: [s as u64 * plan.stage_devices(), plan.stage_devices()],
                time,
                memory,
                in_flight: rank.in_flight,
                margin: 1.0 - memory.reserved_bytes / (self.usable() / self.figures().safe_share),
            });
        }
        let peak = stages.iter().map(|s| s.memory.reserved_bytes).fold(0.0, f64::max);
        let tokens = self.job.global_batch as f64 * self.job.sequence as f64;
        let device_seconds = iteration * plan.devices as f64;
        let [mfu, mfu_full_attention] =
            self.flops_per_token.map(|f| f * tokens / (device_seconds * self.pool.device.peak.half.0));
        let software = self.pricer.options().software;
        Estimate {
            iteration_time_s: iteration,
            iteration_time_p10_p90_s: software.time_spread.map(|ratio| iteration * ratio),
            closed_form_s: closed_form,
            tokens_per_s: tokens / iteration,
            tokens_per_s_per_device: tokens / device_seconds,
            mfu,
            mfu_full_attention,
            bubble: bubble.max(0.0),
            peak_memory_bytes: peak,
            peak_memory_p10_p90_bytes: software.memory_spread.map(|ratio| peak * ratio),
            usable_memory_bytes: self.usable(),
            fits: peak <= self.usable() * (1.0 + 1e-12),
            dollars_per_1e9_tokens: self.pool.price.as_ref().map(|p| {
                let Dollars(hour) = p.value;
                hour * device_seconds / 3600.0 / tokens * 1e9
            }),
            stages,
        }
    }

    fn sum<'p>(
        &self,
        parts: impl Iterator<Item = (usize, &'p LayerStrategy)>,
        stage: usize,
        enters: bool,
        mesh: Mesh,
        prices: &mut BTreeMap<(u32, LayerStrategy), PartPrice>,
    ) -> ChunkSum {
        let mut sum = ChunkSum::default();
        let mut before: Option<Layout> = None;
        let mut last: Option<((u32, LayerStrategy), PartPrice)> = None;
        for (part, strategy) in parts {
            let class = self.spine.class_of(part);
            let key = (self.spine.parts[part], *strategy);
            let price = match last {
                Some((known, price)) if known == key => price,
                _ => *prices.entry(key).or_insert_with(|| self.pricer.price(class, strategy, mesh)),
            };
            last = Some((key, price));
            match before {
                Some(layout) => {
                    let reshard = self.pricer.reshard(class, layout, strategy.layout(), mesh);
                    sum.forward.reshard += reshard;
                    sum.backward.reshard += reshard;
                }
                None if enters => {
                    let hop = self.pricer.hop(class, strategy.layout(), mesh, stage as u64);
                    let beside = self.pricer.hop_interference(hop);
                    sum.hop = hop.0;
                    sum.forward.pipeline += beside;
                    sum.backward.pipeline += beside;
                }
                None => {}
            }
            before = Some(strategy.layout());
            sum.forward += price.forward;
            sum.backward += price.backward;
            sum.reduce += price.reduce.0;
            sum.gather += price.gather.0;
            sum.optimizer += price.optimizer.0;
            sum.states += price.states;
            sum.activations += price.activations.0;
            if !self.pricer.options().moments {
                sum.transient += price.transient.0;
            } else if price.transient.0 > sum.transient {
                sum.transient = price.transient.0;
                sum.transient_is_head = matches!(class.kind, PartKind::Head | PartKind::Mtp);
            }
        }
        sum
    }

    fn memory<'c>(&self, chunks: impl Iterator<Item = &'c ChunkSum>, live: f64) -> StageMemory {
        let mut memory = StageMemory { activations_bytes: live, ..StageMemory::default() };
        let (mut transient, mut is_head) = (0.0, false);
        for c in chunks {
            memory.weights_bytes += c.states.weights.0;
            memory.gradients_bytes += c.states.gradients.0;
            memory.optimizer_bytes += c.states.optimizer.0;
            if !self.pricer.options().moments {
                transient += c.transient;
            } else if c.transient > transient {
                (transient, is_head) = (c.transient, c.transient_is_head);
            }
        }
        if is_head {
            memory.head_bytes = transient;
        } else {
            memory.buffers_bytes = transient;
        }
        memory.allocated_bytes = memory.weights_bytes
            + memory.gradients_bytes
            + memory.optimizer_bytes
            + live
            + transient
            + self.pricer.options().software.workspace;
        memory.reserved_bytes =
            memory.allocated_bytes * self.pricer.options().software.allocator + self.figures().context_bytes;
        memory
    }
}

fn stage_cost(s: usize, p: usize, v: usize, chunks: &[ChunkSum]) -> StageCost {
    let mut cost = StageCost { lead_hop: chunks[s].hop, ..StageCost::default() };
    for c in 0..v {
        let chunk = &chunks[c * p + s];
        cost.forward += chunk.forward.total().0;
        cost.backward += chunk.backward.total().0;
        cost.reduce += chunk.reduce;
        cost.tail += chunk.optimizer + chunk.gather;
        cost.hop += chunk.hop;
    }
    if v > 1 {
        cost.lead_forward = chunks[s].forward.total().0;
        cost.lead_backward = chunks[s].backward.total().0;
    }
    cost
}

/// Bytes and seconds as plain numbers are what reports serialise; these keep the types in reach.
impl Estimate {
    /// Iteration time.
    pub fn iteration(&self) -> Seconds {
        Seconds(self.iteration_time_s)
    }
    /// Peak memory.
    pub fn peak(&self) -> Bytes {
        Bytes(self.peak_memory_bytes)
    }
}
