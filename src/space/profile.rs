//! What a model is before any question is asked of it: parameters, arithmetic, and memory under the usual strategies.
//!
//! Memory is that of one device with one sequence per rank and micro-batch, all layers in one stage: what pipeline
//! parallelism divides further. Devices differ in nothing that matters here.

use super::strategies::Divisors;
use crate::cluster::{ClusterError, instances};
use crate::cost::{CostOptions, Mesh, Pricer};
use crate::error::InputError;
use crate::job::Job;
use crate::model::{Masked, Model, Stream};
use crate::plan::{LayerStrategy, Recompute, Spine};
use serde::Serialize;

/// Layers that cost the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassProfile {
    /// Its name.
    pub name: String,
    /// Which tokens run through it.
    pub stream: Stream,
    /// How many such layers there are.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Parameters of one layer.
    pub parameters: u64,
    /// Those that one token meets.
    pub parameters_active: u64,
    /// Forward FLOPs of one layer per token of its stream, causal attention counted.
    pub forward_flops_per_token: f64,
}

/// Memory of one device under one strategy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryProfile {
    /// Devices in all.
    pub devices: u64,
    /// The strategy of all layers.
    pub strategy: LayerStrategy,
    /// Weights, gradients and optimizer state.
    pub states_bytes: f64,
    /// Kept for the backward pass of one sequence per rank, without recomputation.
    pub activations_bytes: f64,
    /// The same with selective recomputation.
    pub activations_selective_bytes: f64,
    /// The same with full recomputation.
    pub activations_full_bytes: f64,
}

/// What a model is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its family.
    pub family: String,
    /// All parameters; multi-token-prediction modules not counted.
    pub parameters_total: u64,
    /// Those that one token meets.
    pub parameters_active: u64,
    /// The token table.
    pub parameters_embedding: u64,
    /// The head, where it has weights of its own.
    pub parameters_head: u64,
    /// Vision towers.
    pub parameters_vision: u64,
    /// Multi-token-prediction modules.
    pub parameters_mtp: u64,
    /// Layers of all towers.
    pub layers: u64,
    /// Longest sequence of the config.
    pub max_positions: Option<u64>,
    /// Tokens of the sequence for which arithmetic and activations are given.
    pub sequence: u64,
    /// Forward and backward FLOPs per token, counting causal attention (half of the square).
    pub flops_per_token: f64,
    /// The same counting the full square of attention.
    pub flops_per_token_full_attention: f64,
    /// Bytes of weights, gradients and optimizer state per parameter.
    pub state_bytes_per_parameter: f64,
    /// Layers by class.
    pub layer_classes: Vec<ClassProfile>,
    /// Memory per strategy.
    pub memory: Vec<MemoryProfile>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A machine to hang prices on; memory does not depend on it.
const MACHINE: &str = "h100x8";
/// Nodes for which memory is shown.
const NODES: [u64; 2] = [1, 8];

/// Profiles `model`; of `job`, the lengths and formats matter.
///
/// # Errors
/// When the job is not valid.
pub fn profile(model: &Model, job: &Job) -> Result<Profile, InputError> {
    job.validate().map_err(|e| InputError::from(e).inside("job"))?;
    let lengths = Spine::lengths(model, job);
    let flops = |masked| model.flops_per_token(&lengths, masked, job.mtp).get();
    let layers_of =
        |class: usize| model.towers.iter().flat_map(|t| &t.layers).filter(|id| id.0 as usize == class).count() as u64;
    let layer_classes = model
        .classes
        .iter()
        .enumerate()
        .map(|(i, c)| ClassProfile {
            name: c.name.clone(),
            stream: c.stream,
            layers: layers_of(i),
            hidden: c.hidden,
            parameters: c.parameters(),
            parameters_active: c.parameters_active(),
            forward_flops_per_token: c.forward_flops_per_token(&lengths, Masked::Skipped).get(),
        })
        .collect();
    let per = crate::cost::StateBytes::of(job);
    let mut memory = Vec::new();
    for nodes in NODES {
        memory.extend(memory_on(model, job, nodes).map_err(InputError::from)?);
    }
    Ok(Profile {
        name: model.name.clone(),
        family: model.family.clone(),
        parameters_total: model.parameters_total(),
        parameters_active: model.parameters_active(),
        parameters_embedding: model.parameters_embedding(),
        parameters_head: model.parameters_head(),
        parameters_vision: model.parameters_vision(),
        parameters_mtp: model.parameters_mtp(),
        layers: model.layers_total(),
        max_positions: model.max_positions,
        sequence: job.sequence,
        flops_per_token: flops(Masked::Skipped),
        flops_per_token_full_attention: flops(Masked::Counted),
        state_bytes_per_parameter: per.total(),
        layer_classes,
        memory,
        notes: model.notes.clone(),
    })
}

fn memory_on(model: &Model, job: &Job, nodes: u64) -> Result<Vec<MemoryProfile>, ClusterError> {
    let cluster = instances::cluster(&format!("{MACHINE}:{nodes}"))?;
    let Some(pool) = cluster.pools.first() else { return Ok(Vec::new()) };
    let n = pool.devices;
    let plain = LayerStrategy::PLAIN;
    let zero = |zero: u8| LayerStrategy { zero, ..plain };
    let tensor = |tp: u32, zero: u8| LayerStrategy { tp, sequence_parallel: true, zero, ..plain };
    let expert = |ep: u32| LayerStrategy { ep, zero: 1, ..plain };
    let most = pool.devices_per_node as u32;
    let asked = [zero(0), zero(1), zero(2), zero(3), tensor(most, 0), tensor(most, 1), expert(most), expert(n as u32)];
    let spine = Spine::new(model, job);
    let divisors: Vec<Divisors> = spine.classes.iter().map(|c| Divisors::of(c, job)).collect();
    let mut list: Vec<MemoryProfile> = Vec::new();
    for s in asked {
        let experts = divisors.iter().any(|d| d.experts > 0);
        let replicas = n / s.model_ways();
        let idle = (s.ep > 1 && !experts) || (replicas == 1 && s.zero > 0);
        if idle || list.iter().any(|row| row.strategy == s) {
            continue;
        }
        let job = Job { global_batch: replicas, ..job.clone() };
        let pricer = Pricer::new(pool, &job, CostOptions::default());
        let mesh = Mesh { stage_devices: n, pipeline: 1, micro_batches: 1 };
        let mut row = MemoryProfile {
            devices: n,
            strategy: s,
            states_bytes: 0.0,
            activations_bytes: 0.0,
            activations_selective_bytes: 0.0,
            activations_full_bytes: 0.0,
        };
        let mut possible = true;
        for part in &spine.parts {
            let (class, d) = (&spine.classes[*part as usize], &divisors[*part as usize]);
            let price = |recompute| {
                let s = class.adapt(&LayerStrategy { recompute, ..s });
                d.allow(&s).then(|| pricer.price(class, &s, mesh))
            };
            let (Some(none), Some(selective), Some(full)) =
                (price(Recompute::None), price(Recompute::Selective), price(Recompute::Full))
            else {
                possible = false;
                break;
            };
            row.states_bytes += none.states.total().get();
            row.activations_bytes += none.activations.get();
            row.activations_selective_bytes += selective.activations.get();
            row.activations_full_bytes += full.activations.get();
        }
        if possible {
            list.push(row);
        }
    }
    Ok(list)
}
