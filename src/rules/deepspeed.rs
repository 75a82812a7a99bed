//! DeepSpeed's `ds_config.json` (0.19.8, read 2026-11): what `DeepSpeedConfig` refuses, what the engine refuses later, and
//! what is ignored without a word. Top-level keys are read one by one, so a misspelt one is never seen; the section
//! `zero_optimization` refuses unknown keys.

use super::{Book, Fault, Finding, Known, Undecided, divides, fault_if, rules};
use crate::error::{InputError, Kind, nearest};
use serde_json::{Map, Value};

/// Keys that something reads at the top of the file.
const KEYS: [&str; 64] = [
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer",
    "scheduler",
    "zero_optimization",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "fp16",
    "bf16",
    "bfloat16",
    "torch_autocast",
    "amp",
    "data_types",
    "communication_data_type",
    "seq_parallel_communication_data_type",
    "gradient_clipping",
    "gradient_predivide_factor",
    "gradient_allreduce_op",
    "prescale_gradients",
    "managed_gradient_accumulation",
    "graph_harvesting",
    "sparse_gradients",
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "disable_allgather",
    "disable_python_gc",
    "dataloader_drop_last",
    "use_data_before_expert_parallelism",
    "log_level",
    "vocabulary_size",
    "checkpoint",
    "activation_checkpointing",
    "pipeline",
    "tensor_parallel",
    "sequence_parallel_size",
    "data_parallel_size",
    "hybrid_engine",
    "compile",
    "comms_logger",
    "flops_profiler",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "monitor_config",
    "elasticity",
    "autotuning",
    "nebula",
    "aio",
    "sparse_attention",
    "data_efficiency",
    "curriculum_learning",
    "progressive_layer_drop",
    "compression_training",
    "eigenvalue",
    "weight_quantization",
    "timers",
    "load_universal",
    "zenflow",
    "expert_parallel",
    "tensor_parallel_size",
];

/// Keys that say how large a step is; the first two alone suffice.
const BATCHES: [&str; 3] = ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"];

/// Keys of `zero_optimization`.
const ZERO_KEYS: [&str; 50] = [
    "stage",
    "allgather_bucket_size",
    "allgather_partitions",
    "allgather_sequential",
    "compute_grad_norm",
    "contiguous_gradients",
    "cpu_offload",
    "cpu_offload_param",
    "cpu_offload_use_pin_memory",
    "elastic_checkpoint",
    "enable_sanity_checks",
    "gather_16bit_weights_on_model_save",
    "ignore_unused_parameters",
    "leaf_module",
    "legacy_stage1",
    "load_from_fp32_weights",
    "log_trace_cache_warnings",
    "max_live_parameters",
    "max_reuse_distance",
    "memory_efficient_linear",
    "model_persistence_threshold",
    "module_granularity_threshold",
    "offload_optimizer",
    "offload_param",
    "overlap_comm",
    "override_module_apply",
    "param_persistence_threshold",
    "parameter_alignment",
    "pipeline_loading_checkpoint",
    "prefetch_bucket_size",
    "reduce_bucket_size",
    "reduce_scatter",
    "round_robin_gradients",
    "save_muon_momentum_buffer_in_memory",
    "stage3_allgather_sequential",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_model_persistence_threshold",
    "stage3_module_granularity_threshold",
    "stage3_param_persistence_threshold",
    "stage3_prefetch_bucket_size",
    "stage3_use_all_reduce_for_fetch_params",
    "sub_group_size",
    "use_all_reduce_for_fetch_params",
    "use_multi_rank_bucket_allreduce",
    "mics_shard_size",
    "mics_hierarchical_params_gather",
    "zenflow",
];

/// Further keys of `zero_optimization`.
const ZERO_MORE: [&str; 4] = [
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
];

/// A configuration with the ranks that it is for.
#[derive(Debug, Clone)]
pub struct Config {
    fields: Map<String, Value>,
    /// Ranks in all, if known.
    pub world: Known<u64>,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// An empty or truncated text, anything but an object.
    pub fn parse(text: &str, world: Option<u64>) -> Result<Self, InputError> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Err(InputError::new(Kind::Syntax).found("an empty file").expected("a configuration of DeepSpeed"));
        }
        let value: Value = serde_json::from_str(text).map_err(|e| {
            let error = InputError::new(Kind::Syntax).found(&e).expected("one JSON object");
            if e.is_eof() { error.help("the file ends too early: is it truncated?") } else { error }
        })?;
        match value {
            Value::Object(fields) => Ok(Self { fields, world: world.ok_or(Undecided) }),
            other => Err(InputError::new(Kind::Syntax).found(other).expected("one JSON object")),
        }
    }

    fn field(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let first = self.fields.get(parts.next()?)?;
        parts.try_fold(first, |value, key| value.get(key))
    }

    /// A number of the file, where it is one.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.field(path)
            .and_then(|v| v.as_u64().or_else(|| v.as_f64().filter(|x| x.fract() == 0.0 && *x >= 0.0).map(|x| x as u64)))
    }

    /// A text of the file; none for `auto`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.field(path).and_then(Value::as_str).filter(|text| *text != "auto")
    }

    /// A number of the file that need not be whole.
    pub fn real(&self, path: &str) -> Option<f64> {
        self.field(path).and_then(Value::as_f64)
    }

    /// Whether the file has a field.
    pub fn has(&self, path: &str) -> bool {
        self.field(path).is_some()
    }

    /// Whether a part of ZeRO lies outside the devices: `offload_optimizer` or `offload_param`.
    pub fn offloads(&self, part: &str) -> bool {
        self.text(&format!("zero_optimization.{part}.device")).is_some_and(|device| device != "none")
    }

    /// Whether a switch of the file is on.
    pub fn on(&self, path: &str) -> bool {
        self.field(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// ZeRO stage.
    pub fn stage(&self) -> u64 {
        self.number("zero_optimization.stage").unwrap_or(0)
    }

    fn ways(&self) -> u64 {
        let tp = self.number("tensor_parallel.autotp_size").unwrap_or(1).max(1);
        let sp = self.number("sequence_parallel_size").unwrap_or(1).max(1);
        let pp = self.number("pipeline.stages").unwrap_or(1).max(1);
        tp.saturating_mul(sp).saturating_mul(pp)
    }

    /// Data-parallel ranks; undecided where the world does not divide.
    pub fn dp(&self) -> Known<u64> {
        let (world, ways) = (self.world?, self.ways());
        if divides(world, ways) && world > 0 { Ok(world / ways) } else { Err(Undecided) }
    }

    /// Batch, micro-batch, accumulation; the third follows from two.
    pub fn batches(&self) -> Known<(u64, u64, u64)> {
        let dp = self.dp()?;
        let (batch, micro, steps) = (
            self.number("train_batch_size"),
            self.number("train_micro_batch_size_per_gpu"),
            self.number("gradient_accumulation_steps"),
        );
        let over = |a: u64, b: u64| a.checked_div(b).ok_or(Undecided);
        match (batch, micro, steps) {
            (Some(b), Some(m), Some(g)) => Ok((b, m, g)),
            (Some(b), Some(m), None) => Ok((b, m, over(b, m.saturating_mul(dp))?)),
            (Some(b), None, Some(g)) => Ok((b, over(b, g.saturating_mul(dp))?, g)),
            (None, Some(m), g) => {
                let g = g.unwrap_or(1);
                Ok((m.saturating_mul(g).saturating_mul(dp), m, g))
            }
            (Some(b), None, None) => Ok((b, over(b, dp)?, 1)),
            (None, None, _) => Err(Undecided),
        }
    }

    /// Every key with `auto` as its value, as a path.
    fn automatic(&self) -> Vec<String> {
        fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
            match value {
                Value::String(text) if text == "auto" => found.push(path.to_owned()),
                Value::Object(fields) => {
                    for (key, value) in fields {
                        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                        walk(value, &path, found);
                    }
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        for (key, value) in &self.fields {
            walk(value, key, &mut found);
        }
        found
    }
}

/// Keys that nobody knows, with the nearest that somebody does.
fn unknown(keys: impl Iterator<Item = String>, known: &[&str]) -> Option<Fault> {
    let bad: Vec<String> = keys.filter(|key| !known.contains(&key.as_str())).collect();
    let first = bad.first()?;
    let near = nearest(first, known.iter().copied()).map(|n| format!("`{n}`"));
    let fault = Fault::new(format!("`{}`", bad.join("`, `")));
    Some(match near {
        Some(near) => fault.instead(near),
        None => fault,
    })
}

/// Whether something reads `key` at the top of a configuration.
pub fn reads(key: &str) -> bool {
    KEYS.contains(&key)
}

fn zero_keys(c: &Config) -> Finding {
    let Some(Value::Object(zero)) = c.field("zero_optimization") else { return Ok(None) };
    let known: Vec<&str> = ZERO_KEYS.into_iter().chain(ZERO_MORE).collect();
    Ok(unknown(zero.keys().cloned(), &known))
}

fn batch(c: &Config) -> Finding {
    let (b, m, g) = c.batches()?;
    let dp = c.dp()?;
    let product = m.saturating_mul(g).saturating_mul(dp);
    Ok((b != product || product == 0).then(|| {
        Fault::new(format!("batch {b}, micro-batch {m} * accumulation {g} * {dp} data-parallel ranks = {product}"))
            .instead(format!("train_batch_size {product}"))
            .instead("leave out one of the three: it follows")
    }))
}

rules! {
    /// What `DeepSpeedConfig` refuses.
    CONFIG: Config, ValidateArgs, "deepspeed/runtime/config.py";
    auto_needs_hf: "`auto` is for the HF integration, which fills it in" => |c| {
        let list = c.automatic();
        Ok((!list.is_empty()).then(|| Fault::new(list.join(", ")).instead("numbers, unless transformers or accelerate reads the file")))
    };
    zero_key_unknown: "keys of zero_optimization by their names" => zero_keys;
    zero_stage_range: "ZeRO stage 0 to 3" => |c| fault_if(c.stage() > 3, || format!("stage {}", c.stage()));
    world_divisible_by_parallel_sizes: "the world divides by pipeline stages * autotp_size * sequence_parallel_size" => |c| {
        let (world, ways) = (c.world?, c.ways());
        Ok((!divides(world, ways)).then(|| Fault::new(format!("{world} ranks, {ways} ways"))
            .instead(format!("a world of {}", world.div_ceil(ways.max(1)) * ways))))
    };
    batch_sizes_given: "train_batch_size or train_micro_batch_size_per_gpu is given" => |c| {
        let given = BATCHES[..2].iter().any(|k| c.fields.contains_key(*k));
        Ok((!given).then(|| Fault::new("neither is").instead("train_micro_batch_size_per_gpu 1")))
    };
    batch_sizes_positive: "batch sizes and accumulation are numbers above zero" => |c| {
        let bad = BATCHES.into_iter().find(|k| c.real(k).is_some_and(|n| n < 1.0));
        Ok(bad.map(|k| Fault::new(format!("{k} {}", c.real(k).unwrap_or(0.0))).instead(format!("{k} 1"))))
    };
    batch_is_micro_times_steps_times_dp: "train_batch_size = micro-batch * gradient_accumulation_steps * data-parallel ranks" => batch;
    fp16_excludes_bf16: "fp16 or bf16" => |c| fault_if(
        c.on("fp16.enabled") && (c.on("bf16.enabled") || c.on("bfloat16.enabled")), || "both are enabled".to_owned());
    offload_param_needs_stage_3: "offload_param needs ZeRO-3" => |c| {
        let device = c.field("zero_optimization.offload_param.device").and_then(Value::as_str);
        Ok((device.is_some_and(|d| d != "none") && c.stage() != 3)
            .then(|| Fault::new(format!("stage {}", c.stage())).instead("\"stage\": 3")))
    };
    hpz_divides_dp: "zero_hpz_partition_size divides the data-parallel ranks" => |c| {
        let Some(n) = c.number("zero_optimization.zero_hpz_partition_size").filter(|n| *n > 1) else { return Ok(None) };
        let dp = c.dp()?;
        fault_if(!divides(dp, n), || format!("{n} of {dp} ranks"))
    };
}

rules! {
    /// What the engine refuses later.
    ENGINE: Config, Build, "deepspeed/runtime/pipe/engine.py";
    pipeline_excludes_zero_2_3: "PipelineModule with ZeRO-1 at most" => |c| {
        let pipeline = c.number("pipeline.stages").is_some_and(|n| n > 1);
        Ok((pipeline && c.stage() > 1).then(|| Fault::new(format!("ZeRO-{} with a pipeline", c.stage())).instead("\"stage\": 1")))
    };
}

rules! {
    /// What is ignored or does less than it says.
    SILENT: Config, Run, "deepspeed/runtime/config.py reads keys one by one";
    key_silently_ignored: "keys at the top that something reads" => |c| Ok(unknown(c.fields.keys().cloned(), &KEYS));
    offload_optimizer_needs_zero: "offload_optimizer does nothing without ZeRO" => |c| {
        let device = c.field("zero_optimization.offload_optimizer.device").and_then(Value::as_str);
        fault_if(device.is_some_and(|d| d != "none") && c.stage() == 0, || "stage 0".to_owned())
    };
}

rules! {
    /// What runs and does not do what it seems to.
    ADVICE_RULES: Config, Run, "Rajbhandari 2020, ZeRO, section 5; deepspeedai/DeepSpeed issue 237";
    zero_saves_across_dp: "ZeRO saves across data-parallel ranks only" => |c| {
        let dp = c.dp()?;
        fault_if(c.stage() > 0 && dp == 1, || "one data-parallel rank".to_owned())
    };
}

/// The version that the rules were read from.
pub const VERSION: &str = "0.19.8";

/// What DeepSpeed refuses.
pub const BOOK: Book<Config> =
    Book { framework: "deepspeed", version: VERSION, date: "2026-11", chapters: &[CONFIG, ENGINE] };

/// What runs and does not do what it seems to.
pub const ADVICE: Book<Config> =
    Book { framework: "deepspeed", version: VERSION, date: "2026-11", chapters: &[ADVICE_RULES] };

/// What it does not check.
pub const UNCHECKED: Book<Config> =
    Book { framework: "deepspeed", version: VERSION, date: "2026-11", chapters: &[SILENT] };

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str, world: u64) -> Vec<&'static str> {
        let config = Config::parse(text, Some(world)).unwrap();
        BOOK.broken(&config).iter().chain(&UNCHECKED.broken(&config)).map(|b| b.id).collect()
    }

    #[test]
    fn batches_stages_and_misspellings_are_found() {
        let good = r#"{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
            "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}"#;
        assert!(ids(good, 8).is_empty());
        assert_eq!(ids(good, 4), ["batch_is_micro_times_steps_times_dp"]);
        assert_eq!(ids(r#"{"train_batch_size": 8, "zero_optimisation": {"stage": 3}}"#, 8), ["key_silently_ignored"]);
        assert_eq!(ids(r#"{"train_batch_size": 8, "zero_optimization": {"stages": 3}}"#, 8), ["zero_key_unknown"]);
        assert_eq!(
            ids(r#"{"train_batch_size": 8, "pipeline": {"stages": 2}, "zero_optimization": {"stage": 2}}"#, 8),
            ["pipeline_excludes_zero_2_3"]
        );
        assert_eq!(ids(r#"{"train_batch_size": "auto"}"#, 8), ["auto_needs_hf"]);
        let config = Config::parse(r#"{"train_batch_size": 8, "zero_optimisation": {}}"#, Some(8)).unwrap();
        assert_eq!(UNCHECKED.broken(&config)[0].instead, ["`zero_optimization`"]);
    }

    #[test]
    fn broken_files_say_so() {
        for bad in ["", "{", "[]", "{\"a\": "] {
            assert!(Config::parse(bad, None).is_err(), "{bad}");
        }
        let partial = Config::parse(r#"{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 3}"#, None).unwrap();
        assert!(BOOK.broken(&partial).is_empty(), "the world is not known");
    }
}
