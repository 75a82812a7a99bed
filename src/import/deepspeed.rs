//! What a configuration of DeepSpeed means (0.19.8): its degrees, batches and formats. Which layers recompute, and how long
//! sequences are, the training program says.

use super::deepspeed_estimator::{Asked, estimated};
use super::even::{self, Degrees, Meant, decided, degree};
use crate::cost::Software;
use crate::error::{InputError, Kind};
use crate::estimate::host::{Duties, Gather};
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
    let offloaded = (config.offloads("offload_optimizer"), config.offloads("offload_param"));
    for key in ["zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"] {
        if config.on(key) {
            notes.push(format!("{key}: traffic is priced unquantized"));
        }
    }
    if config.number("zero_optimization.zero_hpz_partition_size").is_some_and(|n| n > 1) {
        notes.push("zero_hpz_partition_size: a second copy of the weights is not priced".to_owned());
    }
    let spine = Spine::new(model, &job);
    let stage = config.stage();
    if spine.classes.iter().any(PartClass::routes) {
        notes.push("the file says nothing of expert parallelism: every rank is taken to hold all experts".to_owned());
        notes.extend(experts_move(model, &job, (stage, dp), micro_batches));
    }
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
    let gathers = ["stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save"]
        .iter()
        .chain(&["gather_16bit_weights_on_model_save"])
        .any(|key| config.on(&format!("zero_optimization.{key}")));
    let (live_bytes, workspace) = buckets(config, stage);
    let duties = Duties {
        optimizer: if offloaded.0 && stage > 0 { ratio } else { 0.0 },
        weights: offloaded.1 && stage == 3,
        live_bytes,
        // ZeRO-3 builds the model in pieces (`zero.Init`), others on every rank.
        whole_model: (1..3).contains(&stage) && tp * pipeline == 1,
        gather: (gathers && stage == 3).then_some(Gather::Weights),
        loader: None,
    };
    if stage > 1 {
        let asked = Asked { stage, optimizer: offloaded.0, weights: duties.weights, ranks: devices };
        notes.push(estimated(model, &asked));
    }
    let software = Software { workspace, ..Software::default() };
    Ok(Meant { job, plan, software, duties, notes })
}

/// Bytes of weights that live on a device for a while under ZeRO-3, and of buckets of reductions and gathers, two bytes a value.
/// Defaults are those of `deepspeed/runtime/zero/config.py` (0.19.8, read 2026-11).
fn buckets(config: &Config, stage: u64) -> (f64, f64) {
    let of = |keys: [&str; 2], usual: f64| {
        2.0 * keys.iter().find_map(|key| config.real(&format!("zero_optimization.{key}"))).unwrap_or(usual).max(0.0)
    };
    let reduce = of(["reduce_bucket_size", "reduce_bucket_size"], 5e8);
    match stage {
        0 => (0.0, 0.0),
        3 => {
            let live = of(["stage3_max_live_parameters", "max_live_parameters"], 1e9);
            let prefetch = of(["stage3_prefetch_bucket_size", "prefetch_bucket_size"], 5e7);
            (live, reduce + prefetch)
        }
        _ => (0.0, reduce),
    }
}

/// Two bytes a value: weights and dispatched tokens alike.
const HALF: f64 = 2.0;

/// What experts on every rank cost, in bytes of a layer and a micro-batch: ZeRO-3 gathers all weights twice and scatters their
/// gradients once (Rajbhandari 2020, section 7), expert parallelism sends every token to its experts and back, forward and
/// backward; weights that are not cut stay whole whatever the number of ranks.
fn experts_move(model: &Model, job: &Job, (stage, dp): (u64, u64), micro_batches: u64) -> Option<String> {
    let sizes = crate::export::megatron::Sizes::of(model);
    let (experts, top_k) = sizes.experts.map(|e| (e.0 as f64, e.1 as f64)).filter(|_| dp > 1)?;
    let gb = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
    let weights = HALF * model.parameters_total() as f64;
    if stage < 3 {
        return Some(format!(
            "ZeRO-{stage} keeps all {} of weights on every rank, however many there are: expert parallelism (Megatron-LM) or ZeRO-3 \
             cuts them",
            gb(weights)
        ));
    }
    let of_layer = 3.0 * weights / sizes.layers.max(1) as f64;
    let tokens = job.tokens_per_step() / (dp as f64 * micro_batches.max(1) as f64);
    let moved = 4.0 * tokens * top_k * sizes.hidden as f64 * HALF * (experts - 1.0) / experts;
    Some(format!(
        "ZeRO-3 moves {} of weights and gradients for a layer and micro-batch of {tokens:.0} tokens, expert parallelism would move at \
         most {}{}",
        gb(of_layer),
        gb(moved),
        if moved < of_layer { ": use it (Megatron-LM)" } else { "" }
    ))
}
