//! What flags of torchtitan mean (0.3.0): degrees, batches, recomputation. Defaults are those of its configuration classes.

use super::even::{self, Degrees, Meant, decided, degree};
use crate::cost::Software;
use crate::error::{InputError, Kind};
use crate::estimate::host::Duties;
use crate::job::{Job, Precision, Storage};
use crate::model::Model;
use crate::plan::{LayerStrategy, PartClass, Recompute, Spine};
use crate::rules::torchtitan::Launch;

/// Sequences of a rank, and tokens of a sequence, unless a flag says otherwise (`config/job_config.py`, Training).
const LOCAL_BATCH: u64 = 8;
const SEQUENCE: u64 = 2048;

/// The job and the plan of a launch of a model; sequences of `sequence` tokens where no flag says.
///
/// # Errors
/// Degrees or batches that are not decided or do not divide.
pub fn meant(launch: &Launch, model: &Model, sequence: Option<u64>) -> Result<Meant, InputError> {
    let mut notes = Vec::new();
    let [replicate, shard, cp, tp, pp] = decided(launch.sizes(), "--world")?.map(|n| u64::try_from(n).unwrap_or(0));
    let devices = decided(launch.world, "--world")?;
    let given = |key: &str| launch.number(key).filter(|n| *n > 0);
    let local = given("training.local_batch_size").unwrap_or_else(|| {
        notes.push(format!("training.local_batch_size is not given: {LOCAL_BATCH}, torchtitan's default"));
        LOCAL_BATCH
    });
    let sequence = given("training.seq_len").or(sequence).unwrap_or_else(|| {
        notes.push(format!("training.seq_len is not given: {SEQUENCE}, torchtitan's default"));
        SEQUENCE
    });
    let dp = replicate.saturating_mul(shard);
    let step = local.saturating_mul(dp);
    let batch = given("training.global_batch_size").unwrap_or(step);
    if step == 0 || !batch.is_multiple_of(step) {
        let error = InputError::new(Kind::Inconsistent).at("--training.global_batch_size").found(batch);
        return Err(
            error.expected(format!("a multiple of {step}: {local} sequences on each of {dp} data-parallel ranks"))
        );
    }
    let accumulated = batch / step;
    let micro = if pp > 1 { given("parallelism.pipeline_parallel_microbatch_size").unwrap_or(1) } else { local };
    if !local.is_multiple_of(micro) {
        let error =
            InputError::new(Kind::Inconsistent).at("--parallelism.pipeline_parallel_microbatch_size").found(micro);
        return Err(error.expected(format!("a divisor of the local batch of {local}")));
    }
    if pp > 1 && accumulated > 1 {
        notes.push(format!("{accumulated} accumulated steps run the pipeline empty in between: priced as one"));
    }
    let mut job = Job::new(batch, sequence);
    job.precision = match launch.text("training.mixed_precision_param").unwrap_or("bfloat16") {
        "float32" => Precision::Fp32,
        "float16" => Precision::Fp16,
        _ => Precision::Bf16,
    };
    job.gradients = Storage::Fp32;
    let schedule = launch.schedule().to_owned();
    let single = matches!(schedule.to_ascii_lowercase().as_str(), "1f1b" | "gpipe");
    if pp > 1 && !matches!(schedule.as_str(), "1F1B" | "Interleaved1F1B") {
        let usual = if single { "1F1B" } else { "interleaved 1F1B" };
        notes.push(format!("the schedule {schedule} is priced as {usual}"));
    }
    let stages = launch.stages().ok().flatten().and_then(|n| u64::try_from(n).ok()).filter(|_| pp > 1);
    let chunks = match stages {
        Some(stages) => stages / pp.max(1),
        None if pp > 1 && !single => 2,
        None => 1,
    };
    let reshard = launch.text("parallelism.fsdp_reshard_after_forward").unwrap_or("default");
    let zero = match reshard {
        // Weights are cut over context-parallel ranks as well (`distributed/parallel_dims.py`, `fsdp_enabled`).
        _ if shard.saturating_mul(cp) <= 1 => 0,
        "always" => 3,
        "never" => 2,
        _ if pp > 1 => 2,
        _ => 3,
    };
    if pp > 1 && shard > 1 && reshard == "default" {
        notes.push(
            "weights stay gathered between the passes, torchtitan's default under a pipeline: else they are gathered again for every \
             micro-batch (--parallelism.fsdp_reshard_after_forward always)"
                .to_owned(),
        );
    }
    if replicate > 1 && shard > 1 {
        notes.push(format!("{replicate} copies of {shard} shards are priced as {dp} shards"));
    }
    let mode = launch.text("activation_checkpoint.mode").unwrap_or_else(|| {
        notes.push("activation_checkpoint.mode is not given: selective, torchtitan's default".to_owned());
        "selective"
    });
    let recompute = match mode {
        "none" => Recompute::None,
        "full" => Recompute::Full,
        "selective" => Recompute::Selective,
        other => {
            notes.push(format!("activation_checkpoint.mode {other} is priced as selective"));
            Recompute::Selective
        }
    };
    let spine = Spine::new(model, &job);
    let experts = spine.classes.iter().any(PartClass::routes);
    let of = |name: &str, n: i64| degree(name, u64::try_from(n).unwrap_or(0));
    let strategy = LayerStrategy {
        tp: degree("tensor_parallel_degree", tp)?,
        sequence_parallel: tp > 1 && launch.text("parallelism.enable_sequence_parallel") != Some("false"),
        cp: degree("context_parallel_degree", cp)?,
        ep: if experts { of("expert_parallel_degree", launch.degree("expert"))? } else { 1 },
        etp: if experts { of("expert_tensor_parallel_degree", launch.degree("expert_tensor"))? } else { 1 },
        zero,
        recompute,
        ..LayerStrategy::PLAIN
    };
    let micro_batches = local / micro * accumulated;
    let plan = even::plan(&spine, &Degrees { devices, pipeline: pp, chunks, micro_batches, strategy })?;
    // Parameters are kept in fp32 and are their own master weights; a second copy in two bytes lives only where gathered
    // weights stay (`training.dtype`, torchtitan 0.3.0 `config/configs.py`).
    let master = launch.text("training.dtype").unwrap_or("float32") == "float32";
    let half = master && job.precision != Precision::Fp32;
    let software = match (half, zero) {
        (true, 2) | (false, _) => Software::default(),
        _ => Software { extra_optimizer: -2.0, ..Software::default() },
    };
    Ok(Meant { job, plan, software, duties: Duties::default(), notes })
}
