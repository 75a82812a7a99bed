//! torchtitan: a Python module that returns a `Trainer.Config` with `ParallelismConfig` (0.3.0), and the same as flags for
//! versions that still read them.

use super::bundle::{Bundle, Lines};
use super::ranks;
use super::view::{Recomputed, View};
use crate::job::Precision;

/// The fields of `ParallelismConfig`.
pub fn fields(view: &View<'_>, bundle: &mut Bundle) -> Lines {
    let s = &view.main;
    let mut f = Lines::default();
    let (dp, cp) = (view.dp(), u64::from(s.cp));
    let shard = if s.zero == 0 { 1 } else { dp };
    f.put(format!("data_parallel_replicate_degree={},", dp / shard.max(1)), "copies of the weights");
    f.put(
        format!("data_parallel_shard_degree={shard},"),
        if s.zero == 0 { "nothing is cut" } else { "weights, gradients and states are cut" },
    );
    match s.zero {
        1 => bundle
            .lose("optimizer states cut alone (ZeRO-1)", "FSDP without resharding after the forward pass (ZeRO-2)"),
        0 if dp > 1 && (s.tp > 1 || cp > 1) => {
            bundle.lose(
                "plain data parallelism beside tensor or context parallelism",
                "it needs data_parallel_shard_degree above 1",
            );
        }
        _ => {}
    }
    let (reshard, why) = match s.zero {
        3 => ("always", "gathered again for the backward pass (ZeRO-3)"),
        _ => ("never", "weights stay gathered between the passes"),
    };
    f.put(format!("fsdp_reshard_after_forward=\"{reshard}\","), why);
    f.put(format!("tensor_parallel_degree={},", s.tp), "ways that cut every layer's weights");
    f.put(
        format!("enable_sequence_parallel={},", if s.tp > 1 && !s.sequence_parallel { "False" } else { "True" }),
        "norms and residuals are cut too",
    );
    f.put(format!("pipeline_parallel_degree={},", view.pp()), "stages");
    if view.pp() > 1 {
        let schedule = if view.chunks() > 1 { "Interleaved1F1B" } else { "1F1B" };
        f.put(format!("pipeline_parallel_schedule=\"{schedule}\","), "order of passes");
        f.put(format!("pipeline_parallel_microbatch_size={},", view.micro_batch()), "sequences of a micro-batch");
        f.put(format!("module_fqns_per_model_part={},", parts(view)), "what each stage holds, in order of traversal");
    }
    f.put(format!("context_parallel_degree={cp},"), "ways that cut the sequence");
    if s.ulysses > 1 {
        bundle
            .lose(format!("heads exchanged over {} ranks (Ulysses)", s.ulysses), "nothing: choose context parallelism");
    }
    f.put(format!("expert_parallel_degree={},", s.ep), "ways that share out the experts, out of dp_shard * cp * tp");
    if s.etp > 1 && s.etp != s.tp {
        bundle.lose(format!("experts cut {} ways", s.etp), "uncut experts");
    }
    let cut = shard * cp * u64::from(s.tp);
    if s.ep > 1 && !cut.is_multiple_of(u64::from(s.ep)) {
        bundle.lose(
            format!("EP {} out of {cut} ranks", s.ep),
            "torchtitan takes it and leaves ranks out: choose a divisor",
        );
    }
    f
}

/// Names of the modules of each stage.
fn parts(view: &View<'_>) -> String {
    let mut next = 0;
    let last = view.split.len().saturating_sub(1);
    let stages: Vec<String> = view
        .split
        .iter()
        .enumerate()
        .map(|(x, n)| {
            let mut names = Vec::new();
            if x == 0 {
                names.push("\"tok_embeddings\"".to_owned());
            }
            names.extend((next..next + n).map(|i| format!("\"layers.{i}\"")));
            next += n;
            if x == last {
                names.extend(["\"norm\"".to_owned(), "\"output\"".to_owned()]);
            }
            format!("[{}]", names.join(", "))
        })
        .collect();
    format!("[{}]", stages.join(", "))
}

fn recompute(view: &View<'_>, bundle: &mut Bundle) -> (&'static str, &'static str) {
    match view.recompute() {
        Recomputed::None => ("none", "nothing is recomputed"),
        Recomputed::Selective { exact } => {
            if !exact {
                bundle.lose("selective recomputation of some layers", "of all layers");
            }
            ("selective", "what is cheap to redo")
        }
        Recomputed::Full => ("full", "only the input of a layer is kept"),
        Recomputed::Block { layers, .. } => {
            bundle.lose(format!("full recomputation of {layers} layers of each chunk"), "of all layers");
            ("full", "only the input of a layer is kept")
        }
    }
}

/// The module and the flags.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {}", view.main));
    }
    let fields = fields(view, &mut bundle);
    let (mode, why) = recompute(view, &mut bundle);
    let class = match mode {
        "full" => "FullAC.Config()",
        "selective" => "SelectiveAC.Config()",
        _ => "None",
    };
    let job = view.job;
    if job.precision == Precision::Fp8 {
        bundle.lose("fp8 matrix products", "bf16; add the Float8 converter of your version");
    }
    // Without a pipeline, micro-batches are steps whose gradients accumulate: the global batch says how many.
    let per_rank = view.micro_batch() * if view.pp() > 1 { view.plan.micro_batches } else { 1 };
    let mut text = format!(
        "\"\"\"{}: the parallelism of one plan.\n\nBase it on the config function of your model:\n",
        ranks::machines(view)
    );
    text.push_str("torchrun .. -m torchtitan.train --module this_file --config plan\n\"\"\"\n\n");
    text.push_str("from torchtitan.config import ParallelismConfig\n\n\n");
    text.push_str("PARALLELISM = ParallelismConfig(\n");
    text.push_str(&fields.text("    ", "#"));
    text.push_str(")\n\n");
    let mut rest = Lines::default();
    rest.put(format!("ACTIVATION_CHECKPOINT = \"{mode}\""), format!("{why} ({class} in newer versions)"));
    rest.put(format!("SEQUENCE = {}", job.sequence), "tokens of a sequence");
    rest.put(format!("LOCAL_BATCH = {per_rank}"), "sequences of a step on one data-parallel rank");
    rest.put(format!("GLOBAL_BATCH = {}", job.global_batch), "sequences of a step");
    rest.put(format!("TOKENS_PER_STEP = {}", job.global_batch * job.sequence), "num_tokens_per_train_step");
    rest.put(
        format!("TOKENS_PER_MICROBATCH = {}", view.micro_batch() * job.sequence),
        "num_tokens_per_microbatch_per_dp_rank",
    );
    text.push_str(&rest.text("", "#"));
    bundle.file("torchtitan_plan.py", text);
    let stages = view.pp() * view.chunks();
    let each = layers_per_stage(view.layers.len() as u64, stages).filter(|_| view.chunks() > 1);
    if view.chunks() > 1 && each.is_none() {
        bundle.lose(
            format!("{stages} stages, in flags"),
            "two chunks per stage; the module says which layers each holds",
        );
    }
    bundle.file("torchtitan_flags.sh", flags(view, &fields, (mode, each), per_rank));
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}

/// Layers of a virtual stage that make so many stages, ends not counted.
fn layers_per_stage(layers: u64, stages: u64) -> Option<u64> {
    let each = layers.div_ceil(stages.max(1));
    (each > 0 && layers.div_ceil(each) == stages).then_some(each)
}

fn flags(view: &View<'_>, fields: &Lines, (mode, each): (&str, Option<u64>), per_rank: u64) -> String {
    let mut list = Vec::new();
    for field in fields.lines() {
        let (name, value) = field.trim_end_matches(',').split_once('=').unwrap_or((field, ""));
        if name == "module_fqns_per_model_part" {
            continue;
        }
        let value = value.trim_matches('"');
        let flag = name.to_owned();
        list.push(match value {
            "True" => format!("--parallelism.{flag}"),
            "False" => format!("--parallelism.no_{flag}"),
            value => format!("--parallelism.{flag} {value}"),
        });
    }
    if let Some(each) = each {
        list.push("--parallelism.pipeline_parallel_first_stage_less_layers 0".to_owned());
        list.push("--parallelism.pipeline_parallel_last_stage_less_layers 0".to_owned());
        list.push(format!("--parallelism.pipeline_parallel_layers_per_stage {each}"));
    }
    list.push(format!("--activation_checkpoint.mode {mode}"));
    list.push(format!("--training.seq_len {}", view.job.sequence));
    list.push(format!("--training.local_batch_size {per_rank}"));
    list.push(format!("--training.global_batch_size {}", view.job.global_batch));
    format!(
        "#!/bin/bash\n# For versions of torchtitan that read flags. {}\ntorchrun --nnodes {} --nproc-per-node {} -m torchtitan.train \\\n    {}\n",
        ranks::machines(view),
        view.nodes(),
        view.per_node(),
        list.join(" \\\n    ")
    )
}
