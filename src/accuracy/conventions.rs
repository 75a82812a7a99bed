//! What frameworks do unless told otherwise, and what the words of a table's flags mean for memory and overlap.
//!
//! Read off the frameworks' documentation and code (2026-11): Megatron-LM (`docs/`, `arguments.py`), DeepSpeed (`docs/_pages/
//! config-json.md`), NeMo and Megatron-Bridge (recipes' defaults), Nanotron (`config/`), Composer and PyTorch FSDP.

use super::cells::Unreadable;
use super::layout::Cut;
use super::left_out::LeftOut;
use super::megatron::Arguments;
use super::table::Row;
use crate::cost::{Selective, Software};
use crate::job::Storage;
use crate::plan::Recompute;

/// What a framework makes of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conventions {
    /// The framework, without its version.
    pub framework: &'static str,
    /// Its conventions for memory and overlap.
    pub software: Software,
    /// Format of accumulated gradients.
    pub gradients: Storage,
    /// ZeRO stage.
    pub zero: u8,
    /// What is recomputed.
    pub recompute: Recompute,
    /// Layers per chunk that are recomputed fully, where not all are.
    pub recomputed_layers: Option<u64>,
    /// Sequence parallelism where the table does not say.
    pub sequence_parallel: bool,
    /// Context parallelism by exchanges of heads instead of a ring.
    pub ulysses: bool,
    /// Experts are cut like the rest by tensor parallelism unless stated.
    pub experts_follow_tensor: bool,
    /// How layers are cut.
    pub cut: Option<Cut>,
    /// Of the device.
    pub generation: Generation,
    /// A release of the long-term branch, older than its date.
    pub long_term: bool,
}

/// What libraries tell apart of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Before Hopper.
    Earlier,
    /// Hopper.
    Hopper,
    /// After it.
    Later,
}

/// The generation of a device by its name.
pub fn generation(gpu: &str) -> Generation {
    match gpu {
        _ if ["H1", "H2", "H8", "GH"].iter().any(|p| gpu.starts_with(p)) => Generation::Hopper,
        _ if ["B1", "B2", "B3", "GB"].iter().any(|p| gpu.starts_with(p)) => Generation::Later,
        _ => Generation::Earlier,
    }
}

/// Names in tables, and ours, looked through in order.
static FRAMEWORKS: &[(&str, &str)] = &[
    ("nanotron", "nanotron"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("deepspeed", "megatron-deepspeed"),
    ("megatron-bridge", "megatron-bridge"),
    ("maxtext", "jax"),
    ("paxml", "jax"),
    ("nemo", "nemo"),
    ("megatron", "megatron-lm"),
    ("llm-foundry", "llm-foundry"),
    ("fsdp", "fsdp"),
    ("torchtitan", "torchtitan"),
    ("meta internal", "meta"),
    ("mist", "mist"),
    ("internevo", "internevo"),
    ("oneflow", "oneflow"),
    ("colossal", "colossal-ai"),
    ("aceso", "megatron-lm"),
];

/// The framework that a table's words mean.
pub fn framework(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    FRAMEWORKS.iter().find(|(name, _)| lower.contains(name)).map(|(_, ours)| *ours)
}

/// The conventions of a row.
///
/// # Errors
/// When it does not say what decides its price, or runs in a way that is not modelled.
pub fn of(row: &Row, arguments: Option<&Arguments>) -> Result<Conventions, LeftOut> {
    let framework = framework(row.or_blank("framework")).ok_or(LeftOut::Unknown("framework"))?;
    let flags = format!("{} {}", row.or_blank("other_flags"), row.or_blank("notes")).to_lowercase();
    unmodelled(&flags)?;
    let half = row.or_blank("precision").to_lowercase().starts_with("fp16");
    let megatron = matches!(framework, "megatron-lm" | "nemo" | "megatron-bridge" | "megatron-deepspeed");
    let mut software = software(framework, row, &flags, half && megatron);
    let (recompute, recomputed_layers, selective) = recompute(row.text("recompute"), framework)?;
    if let Some(selective) = selective {
        software.selective = selective;
    }
    let mut conventions = Conventions {
        framework,
        software,
        gradients: gradients(framework, &flags, half && megatron),
        zero: zero(row)?,
        recompute,
        recomputed_layers,
        sequence_parallel: matches!(framework, "nemo" | "megatron-bridge"),
        ulysses: flags.contains("a2a (ulysses") || flags.contains("cp a2a"),
        experts_follow_tensor: megatron,
        cut: cut(framework, row, &flags)?,
        generation: generation(row.or_blank("gpu")),
        long_term: row.or_blank("framework").ends_with("lts"),
    };
    if let Some(arguments) = arguments {
        arguments.apply(&mut conventions)?;
    }
    Ok(conventions)
}

fn unmodelled(flags: &str) -> Result<(), LeftOut> {
    for (word, what) in [
        ("offload=true", "offload"),
        ("cpu_offloading_num_layers", "offload"),
        ("offload true", "offload"),
        ("muon", "the Muon optimizer"),
        ("lora", "LoRA"),
    ] {
        if flags.contains(word) {
            return Err(LeftOut::Software(what));
        }
    }
    Ok(())
}

/// Megatron-LM without the recipes of NeMo reaches less of Blackwell: matrix products sustain 0.489 of the peak in SimuMax's
/// table of an 8-GPU box, against the 0.55 between that and DGX (see `cluster::curves`).
const PLAIN_ON_BLACKWELL: f64 = 0.86;

/// Seconds in which the host issues a layer's forward pass, read off the floor below which smaller layers run no faster:
/// 3.3 ms a layer and micro-batch forward and backward (Nanotron, tensor ways 2 to 8, micro-batch 1), 3.3 ms with
/// recomputation (vTrain's Megatron-DeepSpeed, width 1,024). Others are taken as Megatron's.
pub(super) fn host(framework: &str) -> f64 {
    match framework {
        "nanotron" => 1.1e-3,
        _ => 0.8e-3,
    }
}

/// What CUDA graphs hold of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Graphs {
    /// Nothing that matters. Router and preprocessing alone do not: 28.2 and 27.1 s against 29.5 without any (Megatron-Bridge
    /// 25.11 to 26.04, Qwen3-30B-A3B at micro-batch 1).
    None,
    /// Most of every layer. Experts that take a fixed number of tokens belong to it, as nothing waits for the router's counts:
    /// 14.5 s (25.09).
    Layers,
    /// All of it.
    Iteration,
}

fn graphs(flags: &str) -> Graphs {
    let stated = |key: &str| {
        let text = flags.split(key).nth(1)?.trim_start();
        Some(text.split([']', ';']).next().unwrap_or_default())
    };
    let Some(kind) = stated("cuda_graph_impl=").filter(|kind| !kind.starts_with("none")) else { return Graphs::None };
    let scope = stated("cuda_graph_scope=").unwrap_or_default();
    let drops = flags.contains("token-drop") && !flags.contains("token-dropless");
    match () {
        () if [kind, scope].iter().any(|text| text.starts_with("full_iteration")) => Graphs::Iteration,
        () if drops || scope.contains("attn") || !scope.contains("moe_router") => Graphs::Layers,
        () => Graphs::None,
    }
}

/// Kept tensors over those that fused kernels keep: 20 bytes per token and width and 8 per token and inner width of a layer for
/// 16 and 6. The output of SiLU is kept (huggingface/nanotron@03b83fc `models/llama.py`, `MLP`, whose activation is unfused), and two tensors as
/// wide as the boundary that the code does not show: 1.29, which meets jobs without tensor ways to 2 % in the median. The rest stands for what
/// hosts that run ahead hold in pipelines, where some jobs do and some do not (fitted to Nanotron's 1,125 peaks, 2026-12).
const STEP_BY_STEP: f64 = 1.37;

/// See [`Software::run_ahead`]: 60 on jobs without a pipeline, whatever the ways and the micro-batch, beside the 6 of what runs
/// (fitted to Nanotron's 312 of them, 2026-12). Jobs that crawl hold none of it.
const RUN_AHEAD: f64 = 60.0;

/// Replicas of a row's model.
fn replicas(row: &Row) -> Option<u64> {
    let model: u64 = ["tp", "pp", "cp"].iter().map(|c| row.count(c).unwrap_or(1)).product();
    row.count("gpu_count")?.checked_div(model)
}

/// Micro-batches of a row's iteration.
fn micro_batches(row: &Row) -> Option<u64> {
    row.count("global_batch")?.checked_div(row.count("micro_batch")?)?.checked_div(replicas(row)?)
}

/// Reserved over allocated memory where nothing reins in fragmentation. Of Nanotron's runs the safe share then refuses 417 that
/// crashed and 32 that ran, and lets pass 65 and 1,093; factors from 1.04 to 1.16 separate them nearly alike, and from 1.08 to 1.18
/// the same plans are chosen (2026-12).
const FRAGMENTED: f64 = 1.10;

/// Seconds of the host for a layer's forward pass and each tensor-parallel rank, where a pipeline leaves the node: 10, 15, 25 and
/// 50 ms a layer, micro-batch and both passes with 2, 4, 8 and 16 ways, whatever the width and the micro-batch, as long as
/// the device is not slower than that; 5 ms within one node (Nanotron's sweep of 1B, 8B and 80B; read off in 2026-11).
const HOST_TENSOR: f64 = 0.8e-3;

/// Seconds until the next stage has a boundary tensor, on jobs of [`slow_hops`]: 217 of their 218 pipelined runs take 0.5 s more
/// for each tensor that a stage receives, whatever the model, the cuts and the micro-batch (Nanotron's sweep, read off in
/// 2026-11). Its receiver reads the tensor's shape back from the device number by number (huggingface/nanotron@3024b46
/// `pipeline_parallel/p2p.py`, `_recv_meta`); why each read should wait so long there and not elsewhere is not known.
const SLOW_HOP: f64 = 0.55;

/// More than 256 devices, or tensor groups over more than two nodes. (Of the other pipelined runs 68 of 146 on 256 devices do the
/// same, 41 of 374 on 32 to 128, and nothing in the table tells them apart.)
fn slow_hops(row: &Row) -> bool {
    row.count("gpu_count").is_some_and(|n| n > 256) || row.count("tp").is_some_and(|n| n > 16)
}

/// Measured over predicted time and memory, 10 % and 90 % quantiles, of the framework's published runs (2026-11).
fn spread(framework: &str) -> ([f64; 2], [f64; 2]) {
    let usual = Software::default();
    match framework {
        "llm-foundry" => ([0.935, 1.154], usual.memory_spread),
        "nemo" => ([0.910, 1.128], usual.memory_spread),
        "megatron-bridge" => ([0.934, 1.472], [0.828, 0.995]),
        "megatron-deepspeed" => ([0.887, 1.142], [0.930, 1.058]),
        "megatron-lm" => ([1.001, 1.098], [0.983, 1.025]),
        "nanotron" => ([0.875, 2.325], [0.897, 1.190]),
        _ => (usual.time_spread, usual.memory_spread),
    }
}

/// Bytes per token and vocabulary entry at the loss: the logits in the activations' format and once more in fp32
/// (Megatron-LM `core/tensor_parallel/cross_entropy.py`; SkyRL issue 1841 measured 6.1).
const LOSS: f64 = 6.0;
/// The same with Megatron's own fused loss, which writes fp32 copies in between (SkyRL issue 1841 measured 9.8).
const NATIVE_FUSED_LOSS: f64 = 9.8;
/// The same where the cast to fp32 is a block of its own, and the loss shifts it into another tensor: 2 + 4 + 4
/// (huggingface/nanotron@00708b8 `parallel/tensor_parallel/functional.py`, `_ShardedCrossEntropy`).
const CAST_LOSS: f64 = 10.0;
/// More of it from the second micro-batch of an iteration on: the fp32 logits of the one before (Nanotron's 1B without any cut holds
/// 4.3 GB more with two micro-batches of 8,192 tokens than with one, which is 4 bytes per logit; read off in 2026-12).
const LOSS_BEFORE: f64 = 4.0;
/// The same with Transformer Engine's, in place: 2 of logits and 2 of their gradients.
const FUSED_LOSS: f64 = 4.0;
/// Bytes per parameter of one layer, and of the head, that buffers of weight gradients take: 2 and a little for the
/// placeholders that Transformer Engine returns. Fitted to 15 allocator peaks (SimuMax v1.2 B200, all within 0.5 %; 2026-11).
const GRADIENT_BUFFERS: (f64, f64) = (2.6, 1.2);

/// What a fused loss holds, by `--cross-entropy-fusion-impl`.
pub(super) fn fused_loss(implementation: &str) -> f64 {
    if implementation == "te" { FUSED_LOSS } else { NATIVE_FUSED_LOSS }
}

fn software(framework: &str, row: &Row, flags: &str, half: bool) -> Software {
    let fused = row.flag("flash_attn").unwrap_or(true);
    let says = |words: &[&str]| words.iter().any(|w| flags.contains(w));
    let apart = says(&["no comm overlap", "no overlap"]);
    let tensor = match framework {
        _ if apart || says(&["no tp overlap", "no tp-overlap", "tp_comm_overlap=false"]) => false,
        "nanotron" | "meta" | "torchtitan" | "megatron-bridge" => true,
        _ => says(&["tp_comm_overlap", "tp-comm-overlap"]),
    };
    let data = match framework {
        _ if apart || says(&["no gradient bucketing overlap"]) => false,
        // Its ZeRO reduces and gathers after the backward pass; plain data parallelism uses the hooks of PyTorch.
        "nanotron" => zero(row).is_ok_and(|stage| stage == 0),
        "megatron-deepspeed" | "megatron-lm" => says(&["overlap grad", "overlap-grad-reduce"]),
        _ => true,
    };
    let graphs = graphs(flags);
    let later = generation(row.or_blank("gpu")) == Generation::Later;
    let transformer_engine = matches!(framework, "megatron-lm" | "nemo" | "megatron-bridge");
    Software {
        loss_bytes: match framework {
            _ if flags.contains("ce fusion on") => FUSED_LOSS,
            "megatron-lm" | "nemo" | "megatron-bridge" | "megatron-deepspeed" => LOSS,
            "nanotron" => CAST_LOSS + if micro_batches(row).is_some_and(|m| m > 1) { LOSS_BEFORE } else { 0.0 },
            _ => Software::default().loss_bytes,
        },
        gradient_buffers: if transformer_engine { GRADIENT_BUFFERS.0 } else { 0.0 },
        head_buffers: if transformer_engine { GRADIENT_BUFFERS.1 } else { 0.0 },
        expert_outputs: !transformer_engine,
        scores: !fused,
        // The classic recipes of GPT-3 train with dropout of 0.1.
        dropout: !fused,
        score_dropout: !fused,
        activations: if framework == "nanotron" { STEP_BY_STEP } else { 1.0 },
        attention: match framework {
            // FlashAttention 1 and early 2: a 0.6 of what came later on the same device, and on Hopper without its own
            // instructions two thirds of that (llm-foundry's rows from 16,384 tokens on; 2026-11).
            "llm-foundry" if generation(row.or_blank("gpu")) == Generation::Hopper => 0.4,
            "llm-foundry" => 0.6,
            "megatron-lm" if later => PLAIN_ON_BLACKWELL,
            _ => 1.0,
        },
        elementwise: match framework {
            "llm-foundry" => 2.5,
            "nanotron" => 2.6,
            "nemo" | "megatron-bridge" => 1.2,
            "megatron-lm" if later => 1.0 / PLAIN_ON_BLACKWELL,
            _ => 1.0,
        },
        gemm: match framework {
            "megatron-lm" if later => PLAIN_ON_BLACKWELL,
            // Sustained in BLOOM's and vTrain's runs alike.
            "megatron-deepspeed" => 0.94,
            "llm-foundry" => 0.96,
            "nanotron" => 0.82,
            _ => 1.0,
        },
        backward_overlap: !apart,
        // A graph of the whole iteration has no room for what goes expert by expert: their sizes are not known to the host.
        eager: transformer_engine
            && graphs != Graphs::Iteration
            && !says(&["cutedsl_fused_grouped_mlp=true", "use_transformer_engine_op_fuser=true"]),
        // Graphs are issued whole; about a third of the kernels stay outside (dispatch, experts).
        host_s: host(framework)
            * match graphs {
                Graphs::None => 1.0,
                Graphs::Layers => 0.35,
                Graphs::Iteration => 0.0,
            },
        allocator: if framework == "nanotron" { FRAGMENTED } else { Software::default().allocator },
        time_spread: spread(framework).0,
        memory_spread: spread(framework).1,
        host_tensor_s: if framework == "nanotron" { HOST_TENSOR } else { 0.0 },
        hop_s: if framework == "nanotron" && slow_hops(row) { SLOW_HOP } else { 0.0 },
        workspace: match framework {
            // What its figures hold beyond states and activations.
            "nanotron" => 0.2e9,
            // Buckets of 5e8 elements for reducing and for gathering, 2 GB; the rest is what its figures, taken from outside as
            // nvidia-smi takes them, hold beside the allocator (fitted to BigScience's 54 peaks, 2026-12).
            "megatron-deepspeed" => 6e9,
            _ => 0.0,
        },
        extra_optimizer: if half { 4.0 } else { 0.0 },
        // Its optimizer for bf16 adds them to an fp32 buffer behind the backward pass, and drops them before the next one
        // (microsoft/DeepSpeed@06e39a5 `runtime/bf16_optimizer.py`, `backward`).
        narrow_gradients: match framework {
            "megatron-deepspeed" if !half => 2.0,
            // PyTorch's replicas keep them in buckets, in the weights' format, beside its own fp32 ones.
            "nanotron" if replicas(row).is_some_and(|d| d > 1) => 2.0,
            _ => 0.0,
        },
        run_ahead: if framework == "nanotron" { RUN_AHEAD } else { 0.0 },
        tensor_overlap: tensor,
        data_overlap: data,
        ..Software::default()
    }
}

fn gradients(framework: &str, flags: &str, half: bool) -> Storage {
    let narrow = ["grad bf16", "grad_sync bf16", "grads bf16", "mp mode pure"];
    match framework {
        _ if half => Storage::Fp16,
        "megatron-bridge" => Storage::Bf16,
        _ if narrow.iter().any(|w| flags.contains(w)) => Storage::Bf16,
        _ => Storage::Fp32,
    }
}

fn zero(row: &Row) -> Result<u8, LeftOut> {
    let Some(text) = row.text("zero_fsdp") else {
        let model = ["tp", "pp", "cp"].iter().map(|c| row.count(c).unwrap_or(1)).product::<u64>();
        return match row.count("gpu_count") {
            Some(n) if n == model => Ok(0),
            _ => Err(LeftOut::Unknown("zero_fsdp")),
        };
    };
    let lower = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    if has(&["hsdp", "+ dp"]) {
        return Err(LeftOut::Software("sharding inside groups of replicas"));
    }
    if let Some(ways) = lower.strip_prefix("fsdp=").and_then(|t| t.split_whitespace().next()) {
        return match ways.parse::<u64>() {
            Ok(1) => Ok(0),
            Ok(n) if Some(n) == row.count("gpu_count") => Ok(3),
            _ => Err(LeftOut::Software("sharding inside groups of replicas")),
        };
    }
    match () {
        () if has(&["shard_grad_op", "zero-2", "zero2", "no reshard"]) => Ok(2),
        () if has(&["fsdp", "full_shard", "zero-3", "zero3", "gemini"]) => Ok(3),
        () if has(&["distributed optimizer", "distributedoptimizer", "zero-1", "zero1", "optimizer shard"]) => Ok(1),
        () if has(&["none", "zero-0", "ddp"]) => Ok(0),
        () => Err(LeftOut::Unreadable(Unreadable::new("zero_fsdp", text, "none, ZeRO-0 to ZeRO-3, FSDP, ..."))),
    }
}

type Recomputed = (Recompute, Option<u64>, Option<Selective>);

fn recompute(text: Option<&str>, framework: &str) -> Result<Recomputed, LeftOut> {
    let Some(text) = text else {
        // JAX programs choose what to keep by a policy that tables do not name.
        return Err(LeftOut::Unknown("recompute"));
    };
    let lower = text.to_lowercase();
    if lower == "none" {
        return Ok((Recompute::None, None, None));
    }
    if let Some(rest) = lower.strip_prefix("full") {
        let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
        return Ok((Recompute::Full, digits.parse().ok(), None));
    }
    if lower.contains("fraction") || lower.contains("partial") {
        return Err(LeftOut::Software("recomputing a part of the layers"));
    }
    if !lower.starts_with("selective") {
        let expected = "none, full, full (N layers), selective or selective: modules";
        return Err(LeftOut::Unreadable(Unreadable::new("recompute", text, expected)));
    }
    let modules = lower.split_once(':').map_or("core_attn", |(_, m)| m);
    let selective = selective(modules);
    let _ = framework;
    Ok((Recompute::Selective, None, Some(selective)))
}

/// Megatron's names of what is recomputed (`--recompute-modules`); names that mean more than is modelled are passed over.
pub(super) fn selective(modules: &str) -> Selective {
    Selective::of_modules(modules.split(|c: char| !(c.is_alphanumeric() || c == '_'))).0
}

fn cut(framework: &str, row: &Row, flags: &str) -> Result<Option<Cut>, LeftOut> {
    if let Some(at) = flags.find("pipeline partition [") {
        let list = &flags[at + "pipeline partition [".len()..];
        let bounds: Vec<u64> =
            list.split(']').next().unwrap_or_default().split(',').filter_map(|n| n.trim().parse().ok()).collect();
        return partition(&bounds, row.count("layers").unwrap_or(0)).map(Some);
    }
    if flags.contains("pp_layout=") {
        let layout = flags.split("pp_layout=").nth(1).unwrap_or_default();
        let layout = layout.split([',', ';', ' ']).next().unwrap_or_default();
        return super::megatron::layers_of_layout(layout).map(|list| Some(Cut::Listed(list)));
    }
    let width = |column: &'static str| row.count(column).ok_or(LeftOut::Unknown(column));
    Ok(match framework {
        "nanotron" => {
            let (h, ffn, vocab) = (width("hidden")?, width("ffn")?, width("vocab")?);
            let heads = width("heads")?;
            Some(Cut::ByWork { layer: h * (4 * heads * (h / heads) + 3 * ffn), head: vocab * h })
        }
        "megatron-deepspeed" if flags.contains("transformer|embedding") => Some(Cut::EvenWithEnds),
        "megatron-deepspeed" => Some(Cut::Filled),
        "nemo" | "megatron-bridge" => Some(Cut::EvenWithEnds),
        _ => None,
    })
}

/// DeepSpeed's Megatron wraps the layers in two entries before (embedding, transpose) and four behind (transpose, norm, head,
/// cast); a partition lists the bounds of stages in entries.
fn partition(bounds: &[u64], layers: u64) -> Result<Cut, LeftOut> {
    let before = 2;
    let layer = |entry: u64| entry.saturating_sub(before).min(layers);
    let counts: Vec<u64> = bounds.windows(2).map(|w| layer(w[1]) - layer(w[0].min(w[1]))).collect();
    if bounds.last() != Some(&(layers + 6)) || counts.iter().sum::<u64>() != layers {
        return Err(LeftOut::Inconsistent("the stated cut does not hold all layers"));
    }
    Ok(Cut::Listed(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_from_the_words_of_tables() {
        let of = |text: &str| zero(&Row::new([("zero_fsdp", text), ("gpu_count", "256")]));
        assert_eq!(of("FSDP FULL_SHARD"), Ok(3));
        assert_eq!(of("FSDP SHARD_GRAD_OP"), Ok(2));
        assert_eq!(of("distributed optimizer (ZeRO-1)"), Ok(1));
        assert_eq!(of("none (DDP)"), Ok(0));
        assert_eq!(of("FSDP=256 DP=1"), Ok(3));
        assert!(of("FSDP=128 + DP").is_err() && of("HSDP (shard within node)").is_err());
        assert_eq!(zero(&Row::new([("gpu_count", "8"), ("tp", "8")])), Ok(0));
        assert_eq!(zero(&Row::new([("gpu_count", "16"), ("tp", "8")])), Err(LeftOut::Unknown("zero_fsdp")));
    }

    #[test]
    fn graphs_are_told_by_what_they_hold() {
        let te = "cuda_graph_impl=transformer_engine, cuda_graph_scope=";
        for (flags, expected) in [
            ("", Graphs::None),
            ("cuda_graph_impl=none, cuda_graph_scope=full_iteration", Graphs::None),
            (&format!("{te}['moe_router', 'moe_preprocess'], moe: token-dropless attn"), Graphs::None),
            (&format!("{te}['moe_router', 'moe_preprocess'] variant: tokendrop; moe: token-drop"), Graphs::Layers),
            (&format!("{te}['attn', 'moe_router']"), Graphs::Layers),
            (&format!("{te}[]"), Graphs::Layers),
            ("cuda_graph_impl=local, cuda_graph_scope=full_iteration", Graphs::Iteration),
            ("cuda_graph_impl=full_iteration, cuda_graph_scope=[]", Graphs::Iteration),
        ] {
            assert_eq!(graphs(flags), expected, "{flags}");
        }
    }

    #[test]
    fn what_is_recomputed_is_read_or_refused() {
        assert_eq!(recompute(Some("none"), "").unwrap().0, Recompute::None);
        assert_eq!(recompute(Some("full (1 layers)"), "").unwrap(), (Recompute::Full, Some(1), None));
        let (kind, _, modules) = recompute(Some("selective: layernorm+moe_act"), "").unwrap();
        let modules = modules.unwrap();
        assert!(kind == Recompute::Selective && modules.norms && modules.expert_activations && !modules.scores);
        assert!(recompute(None, "").is_err() && recompute(Some("partial: 5 of 12"), "").is_err());
    }

    #[test]
    fn partitions_count_entries_around_the_layers() {
        assert_eq!(partition(&[0, 8, 14, 20, 30], 24), Ok(Cut::Listed(vec![6, 6, 6, 6])));
        assert_eq!(partition(&[0, 30], 24), Ok(Cut::Listed(vec![24])));
        assert_eq!(partition(&[0, 20], 24), Err(LeftOut::Inconsistent("the stated cut does not hold all layers")));
    }
}
