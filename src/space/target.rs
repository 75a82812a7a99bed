//! The rules of a target framework as a limit of the space: a strategy that it refuses is never looked at.

use crate::cost::Mesh;
use crate::error::InputError;
use crate::export::bundle::Bundle;
use crate::export::megatron::{Sizes, model_arguments};
use crate::job::{Job, Precision};
use crate::model::Model;
use crate::plan::{LayerStrategy, Recompute};
use crate::rules::megatron::offers::{even_split, layout_of};
use crate::rules::megatron::{BOOK, Launch, UNCHECKED, Value, parse};
use crate::rules::targets::{Shape, Target};
use dashmap::DashMap;

/// What decides whether Megatron takes a strategy.
type Key = (LayerStrategy, u32, u64);

/// The rules of one target for one question.
pub struct TargetRules {
    target: Target,
    layers: u64,
    mtp: u64,
    global_batch: u64,
    /// The model and the job in Megatron's arguments; degrees are set on top.
    base: Option<Launch>,
    known: DashMap<Key, bool>,
}

impl TargetRules {
    /// The rules of the target called `name`.
    ///
    /// # Errors
    /// A name that is no target.
    pub fn new(name: &str, model: &Model, job: &Job) -> Result<Self, InputError> {
        let target: Target = name.parse().map_err(|e: InputError| e.at("search.target"))?;
        let mtp = if job.mtp { model.mtp.len() as u64 } else { 0 };
        let base = if target.is_megatron() { Some(base(model, job, mtp)?) } else { None };
        let layers = Sizes::of(model).layers;
        Ok(Self { target, layers, mtp, global_batch: job.global_batch, base, known: DashMap::new() })
    }

    /// The target.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Whether the target can cut a pipeline into these stages and chunks.
    pub fn allows_task(&self, pipeline: u32, chunks: u32, micro_batches: u64) -> bool {
        let p = u64::from(pipeline);
        let interleaved = chunks > 1;
        (pipeline == 1 || self.target != Target::Accelerate)
            && (!interleaved || self.target.interleaves() && pipeline > 1 && micro_batches.is_multiple_of(p))
    }

    /// Whether the target runs a layer with strategy `s` in `mesh`.
    pub fn allows(&self, s: &LayerStrategy, experts: bool, mesh: Mesh) -> bool {
        let shape = Shape { pipeline: mesh.pipeline, stage_devices: mesh.stage_devices, strategy: *s, experts };
        if self.target.refuses(&shape).is_some() {
            return false;
        }
        let Some(base) = &self.base else { return true };
        // Recomputation breaks no rule of its own.
        let key = (LayerStrategy { recompute: Recompute::None, ..*s }, mesh.pipeline, mesh.micro_batches);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let verdict = self.accepts(base, s, mesh);
        self.known.insert(key, verdict);
        verdict
    }

    fn accepts(&self, base: &Launch, s: &LayerStrategy, mesh: Mesh) -> bool {
        let mut launch = base.clone();
        let dp = mesh.stage_devices / s.model_ways().max(1);
        let micro = self.global_batch / (mesh.micro_batches * dp).max(1);
        launch.world = Ok(mesh.stage_devices * u64::from(mesh.pipeline));
        let sizes = [
            ("tensor_model_parallel_size", u64::from(s.tp)),
            ("context_parallel_size", u64::from(s.cp)),
            ("pipeline_model_parallel_size", u64::from(mesh.pipeline)),
            ("expert_model_parallel_size", u64::from(s.ep)),
            ("expert_tensor_parallel_size", u64::from(s.etp)),
            ("micro_batch_size", micro),
            ("global_batch_size", self.global_batch),
        ];
        for (name, n) in sizes {
            launch.set(name, Value::Int(i64::try_from(n).unwrap_or(i64::MAX)));
        }
        launch.set("sequence_parallel", Value::Switch(s.sequence_parallel));
        launch.set("use_distributed_optimizer", Value::Switch(s.zero > 0));
        // Any cut can be said by a layout; an even one stands for all.
        if mesh.pipeline > 1 && self.layers >= u64::from(mesh.pipeline) {
            let layout = layout_of(&even_split(self.layers, u64::from(mesh.pipeline)), self.mtp);
            launch.set("pipeline_model_parallel_layout", Value::Text(layout.write()));
        }
        BOOK.first_broken(&launch).is_none() && UNCHECKED.first_broken(&launch).is_none()
    }
}

fn base(model: &Model, job: &Job, mtp: u64) -> Result<Launch, InputError> {
    let lines = model_arguments(model, job, mtp, &mut Bundle::default());
    let line: Vec<&str> = lines.lines().collect();
    let mut launch = parse::parse(&parse::words(&line.join(" "))?, 1)?;
    launch.set("seq_length", Value::Int(i64::try_from(job.sequence).unwrap_or(i64::MAX)));
    launch.set("bf16", Value::Switch(matches!(job.precision, Precision::Bf16 | Precision::Fp8)));
    launch.set("fp16", Value::Switch(job.precision == Precision::Fp16));
    Ok(launch)
}
