//! The launch script of Megatron-LM: environment, arguments in groups, torchrun.

use super::model::model_arguments;
use crate::error::InputError;
use crate::export::bundle::{Bundle, Lines};
use crate::export::ranks;
use crate::export::view::{Recomputed, View};
use crate::job::{Optimizer, Precision, Storage};
use crate::rules::megatron::offers::layout_of;
use crate::rules::megatron::{Launch, parse};
use std::collections::BTreeMap;

/// How the pipeline is cut, and why so.
fn cut(view: &View<'_>, a: &mut Lines) {
    let (pp, chunks) = (view.pp(), view.chunks());
    a.put(format!("--pipeline-model-parallel-size {pp}"), "stages");
    if pp == 1 {
        return;
    }
    let split = &view.split;
    let first = split.first().copied().unwrap_or(0);
    let even = split.iter().all(|n| *n == first);
    if even && view.mtp == 0 {
        if chunks > 1 {
            a.put(format!("--num-virtual-stages-per-pipeline-rank {chunks}"), "chunks of a stage, interleaved");
        }
        return;
    }
    let inner = &split[1..split.len() - 1];
    let last = split.last().copied().unwrap_or(0);
    let middle = inner.first().copied();
    let ends =
        chunks == 1 && view.mtp == 0 && first > 0 && last > 0 && inner.iter().all(|n| Some(*n) == middle && *n > 0);
    if ends {
        a.put(format!("--decoder-first-pipeline-num-layers {first}"), "the first stage also holds the embedding");
        let why = match middle {
            Some(n) => format!("the last one the head; {n} layers in between"),
            None => "the last one the head".to_owned(),
        };
        a.put(format!("--decoder-last-pipeline-num-layers {last}"), why);
        return;
    }
    let layout = layout_of(split, view.mtp);
    let stages: Vec<String> = split.iter().map(u64::to_string).collect();
    let why = if stages.len() > 16 {
        "layers of each stage in order".to_owned()
    } else {
        format!("layers: {}", stages.join(" "))
    };
    a.put(format!("--pipeline-model-parallel-layout \"{}\"", layout.write()), why);
}

fn parallel(view: &View<'_>, bundle: &mut Bundle) -> Lines {
    let s = &view.main;
    let mut a = Lines::default();
    let mut cp = u64::from(s.cp);
    a.put(format!("--tensor-model-parallel-size {}", s.tp), "ways that cut every layer's weights");
    if s.tp > 1 && s.sequence_parallel {
        a.put("--sequence-parallel", "norms and residuals are cut too: saves activations");
    }
    cut(view, &mut a);
    let mut comm = None;
    if s.ulysses > 1 {
        // Whole weights and exchanged heads are context parallelism by all-to-all there.
        cp *= u64::from(s.ulysses);
        comm = Some(if s.cp > 1 { "a2a+p2p" } else { "a2a" });
    }
    a.put(format!("--context-parallel-size {cp}"), "ways that cut the sequence");
    if let Some(comm) = comm {
        a.put(format!("--cp-comm-type {comm}"), "heads are exchanged around attention");
        if s.cp > 1 {
            a.put(
                format!("--hierarchical-context-parallel-sizes {} {}", s.ulysses, s.cp),
                "exchange inside, ring outside",
            );
        }
    }
    if view.has_experts() {
        a.put(format!("--expert-model-parallel-size {}", s.ep), "ways that share out the experts");
        a.put(format!("--expert-tensor-parallel-size {}", s.etp), "ways inside an expert; it would be TP if not given");
    }
    match s.zero {
        0 => {}
        1 => {
            a.put("--use-distributed-optimizer", "optimizer states are cut over the data-parallel ranks (ZeRO-1)");
            a.put("--overlap-grad-reduce", "gradients are reduced during the backward pass");
            a.put("--overlap-param-gather", "weights are gathered during the forward pass");
        }
        n => {
            a.put("--use-megatron-fsdp", format!("ZeRO-{n}"));
            let (strategy, why) = if n == 2 {
                ("optim_grads", "states and gradients are cut")
            } else {
                ("optim_grads_params", "weights too")
            };
            a.put(format!("--data-parallel-sharding-strategy {strategy}"), why);
            a.put("--ckpt-format fsdp_dtensor", "the only one of Megatron-FSDP");
            a.put("--overlap-grad-reduce", "gradients are reduced during the backward pass");
        }
    }
    match view.recompute() {
        Recomputed::None => {}
        Recomputed::Selective { exact } => {
            selective(view, &mut a);
            if !exact {
                bundle.lose("selective recomputation of some layers", "of all layers");
            }
        }
        Recomputed::Full => {
            a.put("--recompute-granularity full", "only the input of a layer is kept");
            a.put("--recompute-method uniform --recompute-num-layers 1", "layer by layer");
        }
        Recomputed::Block { layers, exact } => {
            a.put("--recompute-granularity full", "only the input of a layer is kept");
            a.put(
                format!("--recompute-method block --recompute-num-layers {layers}"),
                "for the first layers of each chunk",
            );
            if !exact {
                bundle.lose(
                    "full recomputation of layers that differ between chunks",
                    format!("of the first {layers} layers of each chunk"),
                );
            }
        }
    }
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {s}"));
    }
    a
}

fn selective(view: &View<'_>, a: &mut Lines) {
    let mut modules = vec!["layernorm"];
    if view.has_experts() {
        modules.push("moe_act");
    }
    if super::Sizes::of(view.model).latent.is_some() {
        modules.push("mla_up_proj");
    }
    // The activation of a dense MLP alone is no module: recomputing the MLP would cost a product.
    a.put(
        format!("--recompute-granularity selective --recompute-modules {}", modules.join(" ")),
        "what is cheap to redo; attention is fused",
    );
}

fn training(view: &View<'_>, bundle: &mut Bundle) -> Lines {
    let job = view.job;
    let mut a = Lines::default();
    a.put(format!("--seq-length {}", job.sequence), "tokens of a sequence");
    a.put(format!("--micro-batch-size {}", view.micro_batch()), "sequences of a micro-batch on one rank");
    a.put(
        format!("--global-batch-size {}", job.global_batch),
        format!("{} micro-batches on {} data-parallel ranks", view.plan.micro_batches, view.dp()),
    );
    if view.chunks() > 1 {
        let step = view.micro_batch() * view.dp() * view.pp();
        let batch = job.global_batch.div_ceil(step).clamp(1, 4) * step;
        a.put(format!("--eval-global-batch-size {batch}"), "evaluation needs whole groups of micro-batches too");
    }
    match job.precision {
        Precision::Bf16 => a.put("--bf16", "precision"),
        Precision::Fp16 => a.put("--fp16", "precision"),
        Precision::Fp8 => {
            a.put("--bf16", "weights and activations");
            a.put("--fp8-format hybrid --fp8-recipe tensorwise", "matrix products in fp8");
        }
        Precision::Fp32 => {}
    }
    match job.optimizer {
        Optimizer::Adam => a.put("--optimizer adam", "two moments per parameter"),
        Optimizer::Sgd => a.put("--optimizer sgd", "one moment per parameter"),
    }
    if job.gradients != Storage::Fp32 || job.moments != Storage::Fp32 {
        let dtype = |s: Storage| if s == Storage::Fp16 { "fp16".to_owned() } else { s.to_string() };
        a.put("--use-precision-aware-optimizer", "formats of its own for gradients and moments");
        if view.main.zero == 0 {
            bundle.lose(
                "gradients and moments in low precision without a sharded optimizer",
                "Megatron needs --use-distributed-optimizer for them",
            );
        }
        if job.gradients == Storage::Bf16 {
            a.put("--main-grads-dtype bf16", "accumulated gradients");
        } else if job.gradients != Storage::Fp32 {
            bundle.lose(format!("gradients in {}", job.gradients), "fp32");
        }
        a.put(format!("--exp-avg-dtype {0} --exp-avg-sq-dtype {0}", dtype(job.moments)), "moments");
    }
    a.put("--lr 3e-4 --min-lr 3e-5 --train-iters 100", "to be set by you");
    a.put("--mock-data --tokenizer-type NullTokenizer", "to be replaced by --data-path and a tokenizer");
    a
}

/// The environment, with reasons.
pub(in crate::export) fn environment(view: &View<'_>) -> Lines {
    let mut e = Lines::default();
    let name = &view.pool.device.name;
    let s = &view.main;
    if s.zero >= 2 {
        e.put("export CUDA_DEVICE_MAX_CONNECTIONS=32", "FSDP refuses 1: gathers and kernels must run side by side");
    } else {
        let blackwell = ["B200", "B300"].iter().any(|n| name.contains(n));
        let why = if blackwell {
            "not needed on Blackwell, harmless"
        } else {
            "kernels keep their order, so that TP and CP overlap"
        };
        e.put("export CUDA_DEVICE_MAX_CONNECTIONS=1", why);
    }
    e.put("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "less memory lost to fragments");
    e.put("export NCCL_NVLS_ENABLE=0", "gives back the memory that NVLink SHARP takes");
    if view.nodes() > 1 {
        e.put("export NCCL_IB_TIMEOUT=22", "long enough for a slow node at start-up");
    }
    e
}

/// Every argument, group by group: model, parallel, training.
pub fn argument_lines(view: &View<'_>, bundle: &mut Bundle) -> [(&'static str, Lines); 3] {
    [
        ("MODEL", model_arguments(view.model, view.job, view.mtp, bundle)),
        ("PARALLEL", parallel(view, bundle)),
        ("TRAINING", training(view, bundle)),
    ]
}

/// The launch that the arguments mean, for the rules.
///
/// # Errors
/// An argument that Megatron does not know would be a fault of ours.
pub fn launch(view: &View<'_>) -> Result<Launch, InputError> {
    let mut bundle = Bundle::default();
    let groups = argument_lines(view, &mut bundle);
    let line: Vec<&str> = groups.iter().flat_map(|(_, lines)| lines.lines()).collect();
    let mut launch = parse::parse(&parse::words(&line.join(" "))?, view.plan.devices)?;
    launch.environment = Some(BTreeMap::from([(
        "CUDA_DEVICE_MAX_CONNECTIONS".to_owned(),
        if view.main.zero >= 2 { "32" } else { "1" }.to_owned(),
    )]));
    launch.arch = Ok(arch(&view.pool.device.name));
    Ok(launch)
}

/// Major compute capability of a device by its name (NVIDIA's table of CUDA GPUs, read 2026-11); 9 for others.
pub(crate) fn arch(device: &str) -> u64 {
    let known = [
        ("V100", 7),
        ("A100", 8),
        ("A800", 8),
        ("A10", 8),
        ("L40", 8),
        ("H100", 9),
        ("H200", 9),
        ("B200", 10),
        ("B300", 10),
    ];
    known.iter().find(|(name, _)| device.contains(name)).map_or(9, |(_, arch)| *arch)
}

/// The script, the map of ranks, and what is lost.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    let groups = argument_lines(view, &mut bundle);
    let mut text = String::from("#!/bin/bash\n");
    text.push_str(&format!("# Megatron-LM ({}) on {}\n", crate::rules::megatron::VERSION, ranks::machines(view)));
    text.push_str(&format!("# machines: {}\n", view.pool.name));
    text.push_str("# NODE_RANK and MASTER_ADDR are set by whoever starts this on each node.\n\n");
    text.push_str(&environment(view).text("", "#"));
    for (name, lines) in &groups {
        text.push_str(&format!("\n{name}_ARGS=(\n{})\n", lines.text("    ", "#")));
    }
    text.push_str(&format!(
        "\ntorchrun --nnodes {} --nproc-per-node {} --node-rank ${{NODE_RANK:-0}} \\\n    \
         --rdzv-backend c10d --rdzv-endpoint ${{MASTER_ADDR:-localhost}}:29500 \\\n    \
         pretrain_gpt.py \"${{MODEL_ARGS[@]}}\" \"${{PARALLEL_ARGS[@]}}\" \"${{TRAINING_ARGS[@]}}\"\n",
        view.nodes(),
        view.per_node()
    ));
    bundle.file("megatron.sh", text);
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
