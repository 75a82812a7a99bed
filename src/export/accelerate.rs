//! Hugging Face accelerate: the YAML of `accelerate launch --config_file` with an n-dimensional mesh (1.15.0).

use super::bundle::{Bundle, Lines};
use super::ranks;
use super::view::{Recomputed, View};
use crate::job::Precision;

/// The file and what is lost.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {}", view.main));
    }
    let s = &view.main;
    let mut dp = view.dp();
    if view.pp() > 1 {
        bundle.lose(
            format!("a pipeline of {} stages", view.pp()),
            "as many more data-parallel ranks: check that it fits with ZeRO-3",
        );
        dp *= view.pp();
    }
    if s.ep > 1 || s.etp > 1 {
        bundle.lose(format!("expert parallelism of {} ways", s.ep), "experts cut like all other weights (FSDP)");
    }
    let cp = u64::from(s.cp);
    let sharded = s.zero > 0 || view.pp() > 1;
    if s.zero == 1 {
        bundle.lose("optimizer states cut alone (ZeRO-1)", "FSDP2 without resharding after the forward pass (ZeRO-2)");
    }
    let shard = if sharded { dp } else { 1 };
    let use_fsdp = shard * cp > 1;
    let mut y = Lines::default();
    y.put("compute_environment: LOCAL_MACHINE", "");
    y.put(
        format!("distributed_type: {}", if use_fsdp { "FSDP" } else { "MULTI_GPU" }),
        if use_fsdp { "weights are cut" } else { "a shard dimension of 1 has no FSDP" },
    );
    y.put(
        format!(
            "mixed_precision: {}",
            match view.job.precision {
                Precision::Fp16 => "fp16",
                Precision::Fp8 => "fp8",
                Precision::Fp32 => "\"no\"",
                Precision::Bf16 => "bf16",
            }
        ),
        "precision",
    );
    y.put(format!("num_machines: {}", view.nodes()), "nodes");
    y.put(format!("num_processes: {}", view.plan.devices), "ranks in all");
    y.put("machine_rank: 0", "set on each node");
    y.put("main_training_function: main", "");
    if use_fsdp {
        y.put("fsdp_config:", "");
        y.put("  fsdp_version: 2", "");
        y.put("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP", "a unit per layer");
        y.put(
            format!("  fsdp_reshard_after_forward: {}", s.zero == 3),
            if s.zero == 3 {
                "gathered again for the backward pass (ZeRO-3)"
            } else {
                "weights stay gathered between the passes"
            },
        );
        y.put(
            format!("  fsdp_activation_checkpointing: {}", view.recompute() != Recomputed::None),
            "recomputation of whole layers",
        );
    }
    if !matches!(view.recompute(), Recomputed::None | Recomputed::Full) {
        bundle.lose("recomputation of a part", "of whole layers, all of them");
    }
    let replicate = dp / shard.max(1);
    let mesh = s.tp > 1 || cp > 1 || s.ulysses > 1;
    if mesh || (use_fsdp && replicate > 1) {
        y.put("parallelism_config:", "");
        y.put(format!("  parallelism_config_dp_replicate_size: {replicate}"), "copies of the weights");
        y.put(format!("  parallelism_config_dp_shard_size: {shard}"), "ways that cut them");
        y.put(format!("  parallelism_config_tp_size: {}", s.tp), "ways that cut every layer's weights");
        y.put(format!("  parallelism_config_cp_size: {cp}"), "ways that cut the sequence");
        if s.ulysses > 1 {
            y.put(format!("  parallelism_config_sp_size: {}", s.ulysses), "heads exchanged around attention");
        }
        if replicate > 1 && shard == 1 && (s.tp > 1 || cp > 1) {
            bundle.lose("copies beside tensor or context parallelism", "it needs dp_shard above 1");
        }
    }
    if s.tp > 1 && s.sequence_parallel {
        bundle.lose("sequence parallelism beside tensor parallelism", "what the model's tp_plan says");
    }
    let text = format!(
        "# accelerate 1.15.0 on {}\n# accelerate launch --config_file accelerate.yaml train.py\n{}",
        ranks::machines(view),
        y.text("", "#")
    );
    bundle.file("accelerate.yaml", text);
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
