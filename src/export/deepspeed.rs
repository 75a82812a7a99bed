//! DeepSpeed: `ds_config.json` (0.19.8), with the launch line and the reasons in a file beside it, as JSON has no comments.

use super::bundle::{Bundle, Lines};
use super::ranks;
use super::view::{Recomputed, View};
use crate::job::Precision;
use serde_json::{Value, json};

/// The configuration, with the reasons of its fields.
pub fn config(view: &View<'_>, bundle: &mut Bundle) -> (Value, Lines) {
    let s = &view.main;
    let job = view.job;
    let mut why = Lines::default();
    let micro = view.micro_batch();
    let steps = view.plan.micro_batches;
    let dp = view.dp();
    let mut config = json!({
        "train_batch_size": micro * steps * dp,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    });
    why.put("train_batch_size", format!("{micro} sequences * {steps} micro-batches * {dp} data-parallel ranks"));
    why.put("train_micro_batch_size_per_gpu", "sequences of a micro-batch on one rank");
    why.put("gradient_accumulation_steps", "micro-batches of a step");
    let half = match job.precision {
        Precision::Fp16 => "fp16",
        Precision::Fp32 => "",
        _ => "bf16",
    };
    if !half.is_empty() {
        config[half] = json!({ "enabled": true });
        why.put(half, "precision");
    }
    if job.precision == Precision::Fp8 {
        bundle.lose("fp8 matrix products", "bf16");
    }
    let mut stage = u64::from(s.zero);
    if view.pp() > 1 && stage > 1 {
        bundle.lose(
            format!("ZeRO-{stage} with a pipeline"),
            "ZeRO-1: PipelineModule refuses more when the engine starts",
        );
        stage = 1;
    }
    config["zero_optimization"] = json!({ "stage": stage, "overlap_comm": true, "contiguous_gradients": true });
    why.put("zero_optimization.stage", "what is cut over the data-parallel ranks: 1 states, 2 gradients, 3 weights");
    why.put("zero_optimization.overlap_comm", "reductions run during the backward pass");
    if s.tp > 1 {
        config["tensor_parallel"] = json!({ "autotp_size": s.tp });
        why.put("tensor_parallel.autotp_size", "ways that cut every layer's weights");
        if s.sequence_parallel {
            bundle.lose(
                "sequence parallelism beside tensor parallelism",
                "norms and residuals whole on every rank: more activations",
            );
        }
    }
    if view.pp() > 1 {
        config["pipeline"] = json!({ "stages": view.pp() });
        why.put("pipeline.stages", "read by your code when it builds PipelineModule");
        if view.chunks() > 1 {
            bundle.lose(format!("{} chunks per stage", view.chunks()), "one");
        }
        let even = view.split.iter().all(|n| *n == view.split[0]);
        if !even {
            let list: Vec<String> = view.split.iter().map(u64::to_string).collect();
            bundle.lose(
                format!("stages of {} layers", list.join(", ")),
                "PipelineModule(partition_method=\"parameters\"), which evens out parameters",
            );
        }
    }
    if s.ulysses > 1 {
        config["sequence_parallel_size"] = json!(s.ulysses);
        why.put("sequence_parallel_size", "heads exchanged around attention (Ulysses)");
    }
    if s.cp > 1 {
        bundle.lose(format!("ring attention over {} ranks", s.cp), "Ulysses over as many, where the heads allow it");
    }
    if s.ep > 1 {
        bundle.lose(
            format!("expert parallelism of {} ways", s.ep),
            format!("deepspeed.moe.layer.MoE(ep_size={}) in the model's code: no field of this file", s.ep),
        );
    }
    match view.recompute() {
        Recomputed::None => {}
        kind => {
            config["activation_checkpointing"] =
                json!({ "partition_activations": false, "contiguous_memory_optimization": false });
            why.put("activation_checkpointing", "how; which layers, your model says (gradient_checkpointing_enable())");
            if kind != Recomputed::Full {
                bundle.lose("recomputation of a part", "of whole layers, all of them");
            }
        }
    }
    config["gradient_clipping"] = json!(1.0);
    why.put("gradient_clipping", "to be set by you");
    (config, why)
}

/// The file, its reasons and the launch line.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {}", view.main));
    }
    let (config, why) = config(view, &mut bundle);
    bundle.file("ds_config.json", format!("{config:#}\n"));
    let mut text =
        format!("#!/bin/bash\n# DeepSpeed 0.19.8 on {}\n# Fields of ds_config.json:\n", ranks::machines(view));
    text.push_str(&why.text("#   ", "-"));
    text.push_str(&format!(
        "\ndeepspeed --num_nodes {} --num_gpus {} train.py --deepspeed --deepspeed_config ds_config.json\n",
        view.nodes(),
        view.per_node()
    ));
    bundle.file("deepspeed.sh", text);
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
