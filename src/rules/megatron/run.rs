//! What Megatron accepts and what fails in training all the same, or silently does something else.

use super::launch::Launch;
use super::offers;
use super::pattern::Pattern;
use crate::rules::{Fault, Finding, Known, divides, fault_if, rules};

fn width(l: &Launch, value: Known<u64>, ways: Known<u64>, flag: &str, what: &str) -> Finding {
    let (value, ways) = (value?, ways?);
    let _ = l;
    Ok((!divides(value, ways))
        .then(|| offers::multiples(Fault::new(format!("{value} over {ways} {what}")), flag, ways, value)))
}

fn dense_layers(l: &Launch) -> Known<bool> {
    Ok(l.experts()?.is_none() || l.layer_freq()?.spread(l.layers()?).contains(&0))
}

fn eval_groups(l: &Launch) -> Finding {
    let (Some(vpp), pp, group) = (l.vpp()?, l.pp()?, l.group_size()?) else { return Ok(None) };
    let batch = l.eval_global_batch_size()?.unwrap_or(l.global_batch_size()?);
    let micro = l.eval_micro_batch_size()?.or(l.micro_batch_size()?);
    let (Some(micro), Ok(batch)) = (micro.and_then(|n| u64::try_from(n).ok()), u64::try_from(batch)) else {
        return Ok(None);
    };
    let (step, group) = (micro.saturating_mul(l.dp()?), u64::try_from(group).unwrap_or(0));
    if pp <= 1 || vpp <= 1 || !divides(batch, step) || group == 0 {
        return Ok(None);
    }
    let (m, rest) = (batch / step, batch / step % group);
    let bad = group > m || (rest > 0 && rest < pp);
    let stated = l.is_given("eval_global_batch_size") || l.is_given("eval_micro_batch_size");
    Ok((bad && stated).then(|| {
        let why = format!("{m} micro-batches of evaluation in groups of {group}, PP {pp}");
        offers::multiples(Fault::new(why), "--eval-global-batch-size", step.saturating_mul(pp), batch)
    }))
}

fn a2a(l: &Launch) -> Known<bool> {
    Ok(l.cp()? > 1 && l.cp_comm_type()?.is_some_and(|list| list.iter().any(|t| t == "a2a")))
}

rules! {
    /// Launches that pass every check and fail in the first steps.
    RULES: Launch, Run, "FORMATS.md 2.2, not checked by Megatron";
    sp_sequence_divisible_by_tp: "with sequence parallelism the sequence over CP divides by TP" => |l| {
        let (sequence, cp, tp) = (u64::try_from(l.sequence()?).unwrap_or(0), l.cp()?.max(1), l.tp()?);
        let bad = l.sequence_parallel()? && divides(sequence, cp) && !divides(sequence / cp, tp);
        Ok(bad.then(|| offers::multiples(
            Fault::new(format!("{} tokens per rank, TP {tp}", sequence / cp)), "--seq-length", 2 * cp * tp, sequence)))
    };
    ffn_divisible_by_tp: "the width of an MLP divides by TP" => |l| {
        if !dense_layers(l)? {
            return Ok(None);
        }
        width(l, l.ffn(), l.tp(), "--ffn-hidden-size", "tensor-parallel ways")
    };
    expert_ffn_divisible_by_etp: "the width of an expert divides by ETP" => |l| {
        if l.experts()?.is_none() {
            return Ok(None);
        }
        width(l, l.expert_ffn(), l.etp(), "--moe-ffn-hidden-size", "expert-tensor-parallel ways")
    };
    shared_expert_ffn_divisible_by_tp: "the width of the shared experts divides by TP" => |l| {
        let Some(n) = l.shared_expert_ffn()? else { return Ok(None) };
        let n = u64::try_from(n).unwrap_or(0);
        width(l, Ok(n), l.tp(), "--moe-shared-expert-intermediate-size", "tensor-parallel ways")
    };
    a2a_heads_divisible_by_cp: "with --cp-comm-type a2a the heads of a rank divide by CP" => |l| {
        if !a2a(l)? {
            return Ok(None);
        }
        let (heads, tp, cp) = (u64::try_from(l.heads()?.unwrap_or(0)).unwrap_or(0), l.tp()?, l.cp()?);
        Ok((divides(heads, tp) && !divides(heads / tp, cp)).then(|| {
            let fault = Fault::new(format!("{} heads per rank, CP {cp}", heads / tp)).instead("--cp-comm-type p2p");
            offers::divisors(fault, "--context-parallel-size", heads / tp, cp)
        }))
    };
    ep_tp_needs_sp: "EP and TP above 1 need sequence parallelism in training" => |l|
        Ok((l.experts()?.is_some() && l.ep()? > 1 && l.tp()? > 1 && !l.sequence_parallel()?)
            .then(|| Fault::new(format!("EP {}, TP {}", l.ep().unwrap_or(1), l.tp().unwrap_or(1))).instead("--sequence-parallel")));
    uneven_ends_within_layers: "first and last stage hold no more layers than there are" => |l| {
        let ends = l.first_layers()?.unwrap_or(0).saturating_add(l.last_layers()?.unwrap_or(0));
        let layers = l.layers()?;
        Ok((ends > layers as i64).then(|| offers::uneven(l, Fault::new(format!("{ends} layers of {layers}")))))
    };
    eval_batch_fits_schedule: "the micro-batches of evaluation fit the interleaved schedule too" => eval_groups;
}

rules! {
    /// Launches that run and do not do what they seem to.
    ADVICE: Launch, Run, "FORMATS.md 2.2 and 3; megatron/training/arguments.py";
    sp_off_at_tp1: "sequence parallelism is switched off silently where TP is 1" => |l|
        fault_if(l.given_sequence_parallel()? && l.tp()? == 1, || "--sequence-parallel has no effect".to_owned());
    sp_off_at_tp: "activations between the layers are held whole on every tensor-parallel rank without sequence parallelism" =>
        |l| Ok((l.tp()? > 1 && !l.given_sequence_parallel()?)
            .then(|| Fault::new(format!("TP {} without it", l.tp().unwrap_or(1))).instead("--sequence-parallel")));
    etp_follows_tp: "ETP is TP when it is not given" => |l|
        Ok((l.experts()?.is_some() && l.given_etp()?.is_none() && l.tp()? > 1).then(|| {
            Fault::new(format!("experts are cut {} ways", l.tp().unwrap_or(1))).instead("--expert-tensor-parallel-size 1")
        }));
    optimizer_shards_nothing_at_dp1: "the distributed optimizer saves nothing where DP is 1" => |l|
        fault_if(l.distributed_optimizer()? && l.dp()?.saturating_mul(l.cp()?) == 1, || "DP * CP is 1".to_owned());
    expert_optimizer_shards_nothing: "the distributed optimizer saves nothing on experts where their DP is 1" => |l|
        fault_if(l.experts()?.is_some() && l.distributed_optimizer()? && l.expert_dp()? == 1 && l.dp()? > 1,
            || "ETP * EP * PP is the whole world".to_owned());
    optimizer_is_whole: "without --use-distributed-optimizer every data-parallel rank holds all optimizer states" => |l| {
        let sharded = l.distributed_optimizer()? || l.megatron_fsdp()? || l.torch_fsdp2()?;
        Ok((!sharded && l.dp()? > 1)
            .then(|| Fault::new(format!("DP {}", l.dp().unwrap_or(1))).instead("--use-distributed-optimizer")))
    };
    core_attn_recompute_is_idle: "recomputing core_attn saves nothing where attention is fused" => |l|
        Ok((l.recompute()? == "selective" && l.recompute_modules()? == ["core_attn"] && l.transformer_impl()? != "local")
            .then(|| Fault::new("core_attn alone is recomputed").instead("--recompute-modules layernorm mlp")));
    block_recompute_out_of_range: "a block of 0 layers, or of more than a stage has, is accepted silently" => |l| {
        if l.recompute()? != "full" || l.recompute_method()? != "block" {
            return Ok(None);
        }
        let layers = l.layers_by_rank()?;
        let most = layers.iter().flatten().copied().max().unwrap_or(0) as i64;
        let k = l.recompute_num_layers()?.unwrap_or(1);
        Ok((k <= 0 || k > most).then(|| Fault::new(format!("{k} layers, a chunk has at most {most}"))
            .instead(format!("--recompute-num-layers 1 to {most}"))))
    };
    empty_chunks: "a chunk without layers is allowed and idles" => |l| {
        let empty = l.layers_by_rank()?.iter().flatten().filter(|n| **n == 0).count();
        fault_if(empty > 0, || format!("{empty} chunks have no layers"))
    };
    mtp_without_layout: "without a layout the MTP modules sit in the last stage beside its layers and the loss" => |l|
        Ok((l.mtp()?.is_some_and(|n| n > 0) && l.pp()? > 1 && l.layout()?.is_empty()).then(|| {
            let fault = Fault::new("no layout is given");
            let (Ok(layers), Ok(pp)) = (l.layers(), l.pp()) else { return fault };
            let split = offers::even_split(layers + 1, pp);
            let Some(last) = split.last().copied().filter(|n| *n > 1) else { return fault };
            let mut split = split;
            if let Some(end) = split.last_mut() {
                *end = last - 1;
            }
            let modules = l.mtp().ok().flatten().unwrap_or(1).max(1) as u64;
            fault.instead(format!("--pipeline-model-parallel-layout \"{}\"", offers::layout_of(&split, modules).write()))
        }));
    few_micro_batches: "fewer micro-batches than stages leave stages idle" => |l| {
        let (m, pp) = (l.micro_batches()?, l.pp()?);
        fault_if(m < pp, || format!("{m} micro-batches, PP {pp}: idle {} of {}", pp - 1, m + pp - 1))
    };
    experts_by_layer: "every n-th layer has experts, the first included" => |l| {
        let Pattern::Every(n) = l.layer_freq()? else { return Ok(None) };
        fault_if(l.experts()?.is_some() && n > 1, || format!("layers 0, {n}, {} ...", 2 * n))
    };
}
