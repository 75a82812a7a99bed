//! nanotron: the YAML of its trainer (main of 2026; the package of March 2024 reads another).

use super::bundle::{Bundle, Lines};
use super::ranks;
use super::view::{Recomputed, View};

/// The file and what is lost.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    for other in view.differing() {
        bundle.lose(format!("strategies by layer ({other})"), format!("one strategy for all layers: {}", view.main));
    }
    let s = &view.main;
    let mut y = Lines::default();
    y.put("parallelism:", "");
    y.put(format!("  dp: {}", view.dp()), "data-parallel ranks");
    y.put(format!("  pp: {}", view.pp()), "stages");
    y.put(format!("  tp: {}", s.tp), "ways that cut every layer's weights");
    y.put(format!("  context_parallel_size: {}", s.cp), "ways that cut the sequence");
    y.put(format!("  expert_parallel_size: {}", s.ep), "ways that share out the experts");
    y.put("  pp_engine: 1f1b", "order of passes");
    let scatter = if s.sequence_parallel || s.tp == 1 { "REDUCE_SCATTER" } else { "ALL_REDUCE" };
    y.put(format!("  tp_mode: {scatter}"), "whether norms and residuals are cut too");
    y.put(
        format!("  tp_linear_async_communication: {}", scatter == "REDUCE_SCATTER"),
        "gathers run beside the products",
    );
    let recompute = view.recompute();
    y.put(
        format!(
            "  recompute_layer: {}",
            recompute == Recomputed::Full || matches!(recompute, Recomputed::Block { .. })
        ),
        "only the input of a layer is kept",
    );
    match recompute {
        Recomputed::Selective { .. } => bundle.lose("selective recomputation", "none: check that it fits"),
        Recomputed::Block { .. } => bundle.lose("full recomputation of some layers", "of all layers"),
        _ => {}
    }
    y.put("optimizer:", "");
    y.put(format!("  zero_stage: {}", s.zero.min(1)), "optimizer states cut over the data-parallel ranks, or not");
    if s.zero > 1 {
        bundle.lose(format!("ZeRO-{}", s.zero), "zero_stage 1");
    }
    y.put("tokens:", "");
    y.put(format!("  sequence_length: {}", view.job.sequence), "tokens of a sequence");
    y.put(format!("  micro_batch_size: {}", view.micro_batch()), "sequences of a micro-batch on one rank");
    y.put(format!("  batch_accumulation_per_replica: {}", view.plan.micro_batches), "micro-batches of a step");
    if view.chunks() > 1 {
        bundle.lose(format!("{} chunks per stage", view.chunks()), "one");
    }
    if view.split.iter().any(|n| *n != view.split[0]) {
        let list: Vec<String> = view.split.iter().map(u64::to_string).collect();
        bundle.lose(format!("stages of {} layers", list.join(", ")), "nanotron cuts by its own costs of blocks");
    }
    if s.ulysses > 1 {
        bundle
            .lose(format!("heads exchanged over {} ranks (Ulysses)", s.ulysses), "nothing: choose context parallelism");
    }
    if s.etp > 1 {
        bundle.lose(format!("experts cut {} ways", s.etp), "uncut experts");
    }
    let text = format!(
        "# nanotron on {}: merge into the config of your model\n# torchrun --nnodes {} --nproc-per-node {} run_train.py --config-file nanotron.yaml\n{}",
        ranks::machines(view),
        view.nodes(),
        view.per_node(),
        y.text("", "#")
    );
    bundle.file("nanotron.yaml", text);
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
