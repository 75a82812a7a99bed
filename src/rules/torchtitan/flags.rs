//! Names of torchtitan's flags, `--section.field`: those of `Trainer.Config` (0.3.0, `trainer.py`, `config/configs.py`,
//! `components/`), those that versions of 2025 read from `job_config.py`, and those of main of autumn 2026 that FORMATS.md
//! names (all read 2026-11).

use crate::error::{InputError, Kind, nearest};

/// A section with its fields, those of older versions behind the bar.
const TREE: &[(&str, &str)] = &[
    (
        "parallelism",
        "data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward enable_fsdp_symm_mem \
         tensor_parallel_degree enable_sequence_parallel spmd_backend pipeline_parallel_degree module_fqns_per_model_part \
         pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers \
         pipeline_parallel_layers_per_stage pipeline_parallel_schedule pipeline_parallel_schedule_csv \
         pipeline_parallel_microbatch_size context_parallel_degree context_parallel_load_balancer \
         context_parallel_ptrr_mask_key expert_parallel_degree num_pp_microbatches | disable_loss_parallel \
         enable_async_tensor_parallel pipeline_parallel_split_points context_parallel_rotate_method \
         expert_tensor_parallel_degree expert_parallel_comm_backend",
    ),
    (
        "training",
        "local_batch_size global_batch_size seq_len max_norm steps enable_cpu_offload disable_cuda_graphs dtype \
         mixed_precision_param mixed_precision_reduce gc_freq gc_debug num_tokens_per_microbatch_per_dp_rank \
         num_tokens_per_train_step | dataset dataset_path seed deterministic debug_moe_force_load_balance",
    ),
    (
        "checkpoint",
        "enable folder interval initial_load_path initial_load_model_only initial_load_in_hf \
         initial_load_in_hf_quantized last_save_model_only last_save_in_hf export_dtype keep_latest_k load_step \
         exclude_from_loading enable_first_step_checkpoint create_seed_checkpoint load_only async_mode | \
         enable_checkpoint enable_ft_dataloader_checkpoints last_save_model_weights_only",
    ),
    (
        "activation_checkpoint",
        "preserve_rng_state determinism_check debug force_recompute_mm_shapes_by_fqns memory_budget \
         visualize_memory_budget_pareto | mode selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop",
    ),
    ("compile", "enable enable_async_tensor_parallel components backend"),
    (
        "comm",
        "init_timeout_seconds train_timeout_seconds trace_buf_size save_traces_folder save_traces_file_prefix mode",
    ),
    (
        "debug",
        "seed spmd_typechecking deterministic deterministic_warn_only moe_force_load_balance detect_anomaly batch_invariant \
         print_config save_config_file enable_structured_logging",
    ),
    ("override", "imports"),
    ("dataloader", "dataset dataset_path num_workers persistent_workers pin_memory prefetch_factor"),
    ("loss", "global_vocab_size num_chunks loss_fn"),
    ("metrics", "log_freq enable_tensorboard disable_color_printing save_tb_folder save_for_all_ranks enable_wandb"),
    ("lr_scheduler", "warmup_steps total_steps decay_ratio decay_type min_lr_factor | lr_min"),
    (
        "optimizer",
        "param_groups implementation optimizer_factory_kwargs_by_name | name lr beta1 beta2 eps weight_decay \
         early_step_in_backward",
    ),
    ("tokenizer", "image_token video_token vision_start_token vision_end_token pad_token"),
    (
        "validator",
        "enable steps freq dataloader.dataset dataloader.dataset_path dataloader.num_workers dataloader.persistent_workers \
         dataloader.pin_memory dataloader.prefetch_factor",
    ),
    (
        "profiler",
        "enable_profiling save_traces_folder profile_freq profiler_repeat profiler_skip_first profiler_skip_first_wait \
         profiler_active profiler_warmup enable_memory_snapshot memory_snapshot_freq save_memory_snapshot_folder \
         memory_snapshot_max_entries",
    ),
    (
        "profiling",
        "| enable_profiling save_traces_folder profile_freq profiler_active profiler_warmup enable_memory_snapshot \
         save_memory_snapshot_folder",
    ),
    ("validation", "| enable dataset dataset_path local_batch_size seq_len freq steps"),
    ("job", "| config_file dump_folder description print_config print_args save_config_file custom_config_module"),
    ("model", "| name flavor hf_assets_path tokenizer_path converters print_after_conversion"),
    ("memory_estimation", "| enabled enable disable_fake_mode"),
    (
        "fault_tolerance",
        "| enable process_group process_group_timeout_ms replica_id group_size min_replica_size semi_sync_method",
    ),
    ("experimental", "| custom_import custom_args_module"),
    (
        "float8",
        "| enable_fsdp_float8_all_gather precompute_float8_dynamic_scale_for_fsdp recipe_name filter_fqns emulate \
         moe_fqns_prototype",
    ),
    ("mx", "| mxfp8_dim1_cast_kernel_choice recipe_name filter_fqns moe_fqns_prototype"),
    (
        "quantize",
        "| linear.float8.enable_fsdp_float8_all_gather linear.float8.precompute_float8_dynamic_scale_for_fsdp \
         linear.float8.recipe_name linear.float8.filter_fqns linear.float8.emulate linear.mx.mxfp8_dim1_cast_kernel_choice \
         linear.mx.recipe_name linear.mx.filter_fqns grouped_mm.float8.fqns grouped_mm.mx.fqns grouped_mm.mx.recipe_name",
    ),
];

/// Fields that hold a whole number, in whatever section.
const WHOLE_NUMBERS: &str = "data_parallel_replicate_degree data_parallel_shard_degree tensor_parallel_degree \
    pipeline_parallel_degree pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers \
    pipeline_parallel_layers_per_stage pipeline_parallel_microbatch_size context_parallel_degree expert_parallel_degree \
    num_pp_microbatches expert_tensor_parallel_degree local_batch_size global_batch_size seq_len steps gc_freq \
    num_tokens_per_microbatch_per_dp_rank num_tokens_per_train_step seed interval keep_latest_k load_step \
    init_timeout_seconds train_timeout_seconds trace_buf_size num_workers prefetch_factor global_vocab_size num_chunks \
    log_freq warmup_steps total_steps freq dataloader.num_workers dataloader.prefetch_factor profile_freq profiler_repeat \
    profiler_skip_first profiler_skip_first_wait profiler_active profiler_warmup memory_snapshot_freq \
    memory_snapshot_max_entries process_group_timeout_ms replica_id group_size min_replica_size";
/// Of those the ones that count something which is always there.
const COUNTS: &str = "local_batch_size seq_len num_pp_microbatches pipeline_parallel_microbatch_size";
/// Fields that hold a number.
const NUMBERS: &str = "max_norm memory_budget decay_ratio min_lr_factor lr_min lr beta1 beta2 eps weight_decay";
/// Fields that are on or off.
const SWITCHES: &str = "enable_fsdp_symm_mem enable_sequence_parallel disable_loss_parallel enable_async_tensor_parallel \
    enable_cpu_offload disable_cuda_graphs gc_debug deterministic debug_moe_force_load_balance enable \
    initial_load_model_only initial_load_in_hf initial_load_in_hf_quantized last_save_model_only last_save_in_hf \
    enable_first_step_checkpoint create_seed_checkpoint load_only enable_checkpoint enable_ft_dataloader_checkpoints \
    last_save_model_weights_only preserve_rng_state early_stop visualize_memory_budget_pareto deterministic_warn_only \
    moe_force_load_balance detect_anomaly batch_invariant print_config enable_structured_logging persistent_workers \
    pin_memory dataloader.persistent_workers dataloader.pin_memory enable_tensorboard disable_color_printing \
    save_for_all_ranks enable_wandb early_step_in_backward enable_profiling enable_memory_snapshot print_args \
    print_after_conversion enabled disable_fake_mode";

/// Whether `value` is of the kind that `field` holds, where that is known; `None` leaves any field to its default.
///
/// # Errors
/// What the field holds.
pub(super) fn of_kind(field: &str, value: &str) -> Result<(), InputError> {
    let is = |list: &'static str| fields(list).any(|known| known == field);
    let whole = value.parse::<i64>().ok();
    let number = value.parse::<f64>().ok().filter(|x| x.is_finite());
    let (right, expected) = match () {
        () if value == "None" => return Ok(()),
        () if is(COUNTS) => (whole.is_some_and(|n| n >= 1), "a whole number, at least 1"),
        () if is(WHOLE_NUMBERS) => (whole.is_some(), "a whole number"),
        () if is(NUMBERS) => (number.is_some(), "a number"),
        () if is(SWITCHES) => {
            let said = ["true", "false", "1", "0", "yes", "no", "on", "off"];
            (said.iter().any(|word| value.eq_ignore_ascii_case(word)), "True or False, or no value")
        }
        () => return Ok(()),
    };
    if right { Ok(()) } else { Err(InputError::new(Kind::InvalidValue).found(value).expected(expected)) }
}

/// Flags without a section: which function makes the configuration, and fields of the configuration itself.
const WHOLE: [&str; 6] = ["module", "config", "model", "help", "hf_assets_path", "dump_folder"];

/// A flag's name, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag<'a> {
    /// Without a section.
    Whole,
    /// Section and field; whether it is switched off (`no_`).
    Field(&'a str, &'a str, bool),
}

fn fields(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split_whitespace().filter(|word| *word != "|")
}

/// Looks up `name`, which stands in `word`.
///
/// # Errors
/// A name that no version has, with the nearest of its section, or the section that has it.
pub(super) fn known<'a>(name: &'a str, word: &str) -> Result<Flag<'a>, InputError> {
    let Some((section, field)) = name.split_once('.') else {
        if WHOLE.contains(&name) {
            return Ok(Flag::Whole);
        }
        let error = InputError::unknown_name(name, "a flag without a section", WHOLE).at(word);
        return Err(match elsewhere(name) {
            Some(section) => error.help(format!("did you mean `--{section}.{name}`?")),
            None => error,
        });
    };
    let Some((_, list)) = TREE.iter().find(|(known, _)| *known == section) else {
        let sections = TREE.iter().map(|(section, _)| *section);
        return Err(InputError::unknown_name(section, "a section of torchtitan", sections).at(word));
    };
    let has = |field: &str| fields(list).any(|known| known == field);
    match field.strip_prefix("no_") {
        _ if has(field) => Ok(Flag::Field(section, field, false)),
        Some(positive) if has(positive) => Ok(Flag::Field(section, positive, true)),
        _ => {
            let error = InputError::new(Kind::UnknownName).at(word).found(field);
            let error = error.expected(format!("a field of torchtitan's `{section}`"));
            // The same name in another section is nearer than another name in this one.
            let near = match elsewhere(field) {
                Some(section) => Some(format!("{section}.{field}")),
                None => nearest(field, fields(list)).map(|near| format!("{section}.{near}")),
            };
            Err(match near {
                Some(near) => error.help(format!("did you mean `--{near}`?")),
                None => error,
            })
        }
    }
}

/// The section that has a field of this name.
fn elsewhere(field: &str) -> Option<&'static str> {
    TREE.iter().find(|(_, list)| fields(list).any(|known| known == field)).map(|(section, _)| *section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_whose_kind_is_known_is_in_the_tree_and_refuses_other_kinds() {
        let known = |field: &str| TREE.iter().any(|(_, list)| fields(list).any(|f| f == field));
        for list in [WHOLE_NUMBERS, COUNTS, NUMBERS, SWITCHES] {
            for field in fields(list) {
                assert!(known(field), "{field}");
                for wrong in ["1e9x", "many", "nan"] {
                    assert!(of_kind(field, wrong).is_err(), "{field}={wrong}");
                }
            }
        }
        for field in fields(WHOLE_NUMBERS) {
            for wrong in ["1e9", "1.5", "True", ""] {
                assert!(of_kind(field, wrong).is_err(), "{field}={wrong}");
            }
            assert!(of_kind(field, "8").is_ok() && of_kind(field, "None").is_ok(), "{field}");
        }
        assert!(of_kind("local_batch_size", "0").is_err() && of_kind("data_parallel_shard_degree", "-1").is_ok());
        assert!(of_kind("lr", "3e-4").is_ok() && of_kind("enable", "True").is_ok() && of_kind("mode", "full").is_ok());
    }

    #[test]
    fn flags_of_every_section_are_known_and_misspelt_ones_are_not() {
        for name in [
            "training.seq_len",
            "checkpoint.async_mode",
            "validator.dataloader.dataset",
            "module",
            "metrics.no_enable_wandb",
        ] {
            assert!(known(name, name).is_ok(), "{name}");
        }
        for (name, near) in [
            ("training.seq_length", "--training.seq_len"),
            ("training.local_batchsize", "--training.local_batch_size"),
            ("activation_checkpoint.modes", "--activation_checkpoint.mode"),
            ("training.tensor_parallel_degree", "--parallelism.tensor_parallel_degree"),
            ("seq_len", "--training.seq_len"),
            ("trainig.seq_len", "training"),
        ] {
            let error = known(name, name).unwrap_err();
            assert!(error.help.as_deref().is_some_and(|help| help.contains(near)), "{name}: {error}");
        }
    }
}
