//! What a configuration of DeepSpeed means (0.19.8): its degrees, batches and formats. Which layers recompute, and how long
//! sequences are, the training program says.

use super::even::{self, Degrees, Meant, decided, degree};
use crate::error::{InputError, Kind};
use crate::job::{Job, Optimizer, Precision, Storage};
use crate::model::Model;
use crate::plan::{LayerStrategy, PartClass, Recompute, Spine};
use crate::rules::deepspeed::Config;

/// Optimizers with two moments.
const ADAM: [&str; 8] = ["adam", "adamw", "fusedadam", "cpuadam", "lamb", "onebitadam", "zerooneadam", "lion"];

/// The job and the plan of a configuration for a model with sequences of so many tokens.
///
/// # Errors
/// Ranks or batches that are not decided, degrees that do not suit the model.
pub fn meant(config: &Config, model: &Model, sequence: u64) -> Result<Meant, InputError> {
    let mut notes = Vec::new();
    let (batch, _, micro_batches) = decided(config.batches(), "train_batch_size")?;
    let dp = decided(config.dp(), "--world")?;
    let mut job = Job::new(batch, sequence);
    job.precision = match (config.on("bf16.enabled") || config.on("bfloat16.enabled"), config.on("fp16.enabled")) {
        (true, _) => Precision::Bf16,
        (_, true) => Precision::Fp16,
        _ => Precision::Fp32,
    };
    // Without `grad_accum_dtype` gradients have the format of the model (docs/_pages/config-json.md).
    job.gradients = match config.text("data_types.grad_accum_dtype") {
        None if job.precision != Precision::Fp32 => Storage::Bf16,
        Some("bf16" | "fp16") => Storage::Bf16,
        _ => Storage::Fp32,
    };
    let optimizer = config.text("optimizer.type").map(str::to_ascii_lowercase);
    if let Some(name) = optimizer.filter(|name| !ADAM.contains(&name.as_str())) {
        notes.push(format!("the optimizer {name} is priced as one with one moment"));
        job.optimizer = Optimizer::Sgd;
    }
    let tp = config.number("tensor_parallel.autotp_size").unwrap_or(1).max(1);
    let ulysses = config.number("sequence_parallel_size").unwrap_or(1).max(1);
    let pipeline = config.number("pipeline.stages").unwrap_or(1).max(1);
    let recomputes = config.has("activation_checkpointing");
    notes.push(if recomputes {
        "activation_checkpointing says how, the model says where: every layer is taken to be recomputed".to_owned()
    } else {
        "the file says nothing of recomputation: none is taken".to_owned()
    });
    if config.offloads("offload_param") {
        notes.push("weights in host memory are priced as weights on the devices".to_owned());
    }
    for key in ["zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"] {
        if config.on(key) {
            notes.push(format!("{key}: traffic is priced unquantized"));
        }
    }
    if config.number("zero_optimization.zero_hpz_partition_size").is_some_and(|n| n > 1) {
        notes.push("zero_hpz_partition_size: a second copy of the weights is not priced".to_owned());
    }
    let spine = Spine::new(model, &job);
    if spine.classes.iter().any(PartClass::routes) {
        notes.push("the file says nothing of expert parallelism: every rank is taken to hold all experts".to_owned());
    }
    let stage = config.stage();
    let zero = u8::try_from(stage).ok().filter(|stage| *stage <= 3);
    let zero = zero.ok_or_else(|| {
        InputError::new(Kind::InvalidValue).at("zero_optimization.stage").found(stage).expected("0, 1, 2 or 3")
    })?;
    let strategy = LayerStrategy {
        tp: degree("tensor_parallel.autotp_size", tp)?,
        ulysses: degree("sequence_parallel_size", ulysses)?,
        // ZeRO shards over the sequence ranks as well.
        zero: if dp.saturating_mul(ulysses) > 1 { zero } else { 0 },
        recompute: if recomputes { Recompute::Full } else { Recompute::None },
        ..LayerStrategy::PLAIN
    };
    let devices = decided(config.world, "--world")?;
    let plan = even::plan(&spine, &Degrees { devices, pipeline, chunks: 1, micro_batches, strategy })?;
    let ratio = config.real("zero_optimization.offload_optimizer.ratio").unwrap_or(1.0).clamp(0.0, 1.0);
    let offloaded = (config.offloads("offload_optimizer") && stage > 0).then_some(ratio);
    Ok(Meant { job, plan, offloaded, notes })
}
