//! Megatron-Bridge: attributes of a recipe's `ConfigContainer` (0.6.2), as a Python function that changes one.

use super::bundle::{Bundle, Lines};
use super::megatron;
use super::ranks;
use super::view::{Recomputed, View};
use crate::rules::megatron::offers::layout_of;

/// The function and what is lost.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {}", view.main));
    }
    let s = &view.main;
    let mut p = Lines::default();
    let cp = u64::from(s.cp) * u64::from(s.ulysses);
    p.put(format!("cfg.model.tensor_model_parallel_size = {}", s.tp), "ways that cut every layer's weights");
    p.put(
        format!("cfg.model.sequence_parallel = {}", if s.sequence_parallel { "True" } else { "False" }),
        "norms and residuals are cut too",
    );
    p.put(format!("cfg.model.pipeline_model_parallel_size = {}", view.pp()), "stages");
    p.put(
        format!(
            "cfg.model.virtual_pipeline_model_parallel_size = {}",
            if view.chunks() > 1 { view.chunks().to_string() } else { "None".into() }
        ),
        "chunks of a stage, interleaved",
    );
    if view.pp() > 1 && (view.mtp > 0 || view.split.iter().any(|n| *n != view.split[0])) {
        let layout = layout_of(&view.split, view.mtp);
        p.put(format!("cfg.model.pipeline_model_parallel_layout = \"{}\"", layout.write()), "layers of each stage");
    }
    p.put(format!("cfg.model.context_parallel_size = {cp}"), "ways that cut the sequence");
    if s.ulysses > 1 {
        p.put("cfg.model.cp_comm_type = \"a2a\"", "heads are exchanged around attention");
    }
    if view.has_experts() {
        p.put(format!("cfg.model.expert_model_parallel_size = {}", s.ep), "ways that share out the experts");
        p.put(
            format!("cfg.model.expert_tensor_parallel_size = {}", s.etp),
            "ways inside an expert; written always, as defaults differ by version",
        );
    }
    match view.recompute() {
        Recomputed::None => p.put("cfg.model.recompute_granularity = None", "nothing is recomputed"),
        Recomputed::Selective { .. } => {
            p.put("cfg.model.recompute_granularity = \"selective\"", "what is cheap to redo");
            p.put("cfg.model.recompute_modules = [\"layernorm\"]", "attention is fused");
        }
        Recomputed::Full => {
            p.put("cfg.model.recompute_granularity = \"full\"", "only the input of a layer is kept");
            p.put("cfg.model.recompute_method = \"uniform\"", "");
            p.put("cfg.model.recompute_num_layers = 1", "layer by layer");
        }
        Recomputed::Block { layers, .. } => {
            p.put("cfg.model.recompute_granularity = \"full\"", "only the input of a layer is kept");
            p.put("cfg.model.recompute_method = \"block\"", "");
            p.put(format!("cfg.model.recompute_num_layers = {layers}"), "for the first layers of each chunk");
        }
    }
    p.put(
        format!("cfg.ddp.use_distributed_optimizer = {}", if s.zero > 0 { "True" } else { "False" }),
        "optimizer states are cut over the data-parallel ranks",
    );
    if s.zero > 1 {
        bundle.lose(format!("ZeRO-{}", s.zero), "ZeRO-1; cfg.ddp.use_megatron_fsdp is another engine");
    }
    p.put("cfg.ddp.overlap_grad_reduce = True", "gradients are reduced during the backward pass");
    p.put(
        format!("cfg.ddp.overlap_param_gather = {}", if s.zero > 0 { "True" } else { "False" }),
        "weights are gathered during the forward pass",
    );
    p.put(format!("cfg.train.global_batch_size = {}", view.job.global_batch), "sequences of a step");
    p.put(format!("cfg.train.micro_batch_size = {}", view.micro_batch()), "sequences of a micro-batch on one rank");
    p.put(format!("cfg.dataset.sequence_length = {}", view.job.sequence), "tokens of a sequence");
    p.put(format!("cfg.model.seq_length = {}", view.job.sequence), "the same for the model");
    p.put("return cfg", "");
    let text = format!(
        "\"\"\"Megatron-Bridge 0.6.2 on {}: apply to the recipe of your model.\"\"\"\n\n\ndef apply(cfg):\n{}",
        ranks::machines(view),
        p.text("    ", "#")
    );
    bundle.file("bridge_plan.py", text);
    bundle.file(
        "environment.sh",
        format!("# The recipe's own environment goes first.\n{}", megatron::environment(view).text("", "#")),
    );
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
