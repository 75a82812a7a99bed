//! What Megatron checks after its configuration: process groups, the model, the schedule.

use super::derived::Cut;
use super::launch::Launch;
use super::offers;
use super::pattern::Pattern;
use crate::rules::{Fault, Finding, divides, fault_if, rules};

fn world_over_experts(l: &Launch) -> Finding {
    let (world, size) = (l.world?, l.expert_model_size()?);
    Ok((!divides(world, size)).then(|| {
        let (etp, ep, pp) = (l.etp().unwrap_or(1), l.ep().unwrap_or(1), l.pp().unwrap_or(1));
        let because = if l.given_etp() == Ok(None) && etp > 1 { " (ETP is TP when not given)" } else { "" };
        let fault =
            Fault::new(format!("ETP {etp} * EP {ep} * PP {pp} = {size} does not divide {world} ranks{because}"));
        offers::experts(l, fault)
    }))
}

fn build_even(l: &Launch) -> Finding {
    let even = l.layout()?.is_empty() && l.first_layers()?.is_none() && l.last_layers()?.is_none();
    if !even || !l.hybrid_layer_pattern()?.is_empty() {
        return Ok(None);
    }
    let (layers, pp) = (l.counted_layers()?, l.pp()?);
    Ok((!divides(layers, pp)).then(|| offers::uneven(l, Fault::new(format!("{layers} layers over {pp} stages")))))
}

fn build_chunks(l: &Launch) -> Finding {
    let (Cut::Chunks(_), Some(vpp), pp) = (l.cut()?, l.vpp()?, l.pp()?) else { return Ok(None) };
    if pp <= 1 || l.first_layers()?.is_some() || l.last_layers()?.is_some() {
        return Ok(None);
    }
    let layers = l.counted_layers()?;
    if !divides(layers, pp) {
        return Ok(None);
    }
    let each = layers / pp;
    Ok((!divides(each, vpp)).then(|| {
        let fault = Fault::new(format!("{each} layers per rank, {vpp} chunks"));
        offers::divisors(fault, "--num-virtual-stages-per-pipeline-rank", each, vpp)
    }))
}

fn ends_hold_layers(l: &Launch) -> Finding {
    if !l.layout()?.is_empty() {
        return Ok(None);
    }
    let (layers, pp) = (l.counted_layers()?, l.pp()?);
    let chunks = l.vpp()?.unwrap_or(1);
    if !divides(layers, pp) || !divides(layers / pp, chunks) {
        return Ok(None);
    }
    let each = layers / pp / chunks;
    let alone = pp == 1 && chunks == 1;
    let taken = u64::from(l.account_for_embedding()?).max(u64::from(l.account_for_loss()?))
        + u64::from(alone && l.account_for_embedding()? && l.account_for_loss()?);
    fault_if(each < taken, || format!("a chunk of {each} layers, of which {taken} would be embedding or loss"))
}

fn group(l: &Launch) -> Finding {
    if l.vpp()?.is_none() || l.pp()? <= 1 {
        return Ok(None);
    }
    let (group, pp, m) = (l.group_size()?, l.pp()?, l.micro_batches()?);
    Ok((group < pp as i64 || group > m as i64).then(|| {
        let fault = Fault::new(format!("groups of {group}, PP {pp}, {m} micro-batches"));
        offers::batch_for_groups(l, fault)
    }))
}

fn remainder(l: &Launch) -> Finding {
    if l.vpp()?.is_none() || l.pp()? <= 1 {
        return Ok(None);
    }
    let (group, pp, m) = (u64::try_from(l.group_size()?).unwrap_or(0), l.pp()?, l.micro_batches()?);
    let rest = if group > 0 { m % group } else { 0 };
    Ok((rest > 0 && rest < pp).then(|| {
        let fault = Fault::new(format!("{m} micro-batches in groups of {group} leave {rest}, PP {pp}"));
        let fault = match crate::rules::nearest((pp..=m).filter(|g| divides(m, *g)), group, 1).first() {
            Some(g) => fault.instead(format!("--microbatch-group-size-per-virtual-pipeline-stage {g}")),
            None => fault,
        };
        offers::batch_for_groups(l, fault)
    }))
}

fn instances(l: &Launch) -> Finding {
    let n = l.optimizer_instances()?;
    let ranks = l.dp()?.saturating_mul(l.cp()?);
    Ok((n != 1 && !divides(ranks, n)).then(|| {
        let fault = Fault::new(format!("{n} instances over {ranks} data-parallel ranks, CP included"));
        offers::divisors(fault, "--num-distributed-optimizer-instances", ranks, n)
    }))
}

rules! {
    /// The rules of process groups.
    GROUPS: Launch, Groups, "megatron/core/parallel_state.py initialize_model_parallel";
    world_divisible_by_etp_ep_pp: "the world divides by ETP * EP * PP; the quotient is the data parallelism of experts" =>
        world_over_experts;
    dp_divisible_by_optimizer_instances: "the data-parallel ranks divide by the instances of the optimizer" => instances;
}

rules! {
    /// The rules of building the model.
    BUILD: Launch, Build, "megatron/core/transformer/transformer_block.py get_num_layers_to_build";
    layers_divisible_by_pp: "the layers, with embedding and loss where they count, divide by PP" => build_even;
    layers_per_rank_divisible_by_vpp: "the layers of a rank divide by its chunks" => build_chunks;
    end_chunks_hold_embedding_and_loss: "the first and last chunk have room for embedding and loss" => ends_hold_layers;
    moe_layer_freq_length: "a list of --moe-layer-freq has an entry per layer" => |l| {
        let (Some(_), Pattern::List(list)) = (l.experts()?, l.layer_freq()?) else { return Ok(None) };
        let layers = l.layers()?;
        Ok((list.len() as u64 != layers).then(|| {
            let dense = list.iter().take_while(|n| **n == 0).count() as u64;
            let fault = Fault::new(format!("{} entries for {layers} layers", list.len()));
            match layers.checked_sub(dense) {
                Some(rest) => fault.instead(format!("--moe-layer-freq ([0]*{dense}+[1]*{rest})")),
                None => fault,
            }
        }))
    };
}

rules! {
    /// The rules of the interleaved schedule.
    SCHEDULE: Launch, Schedule,
        "megatron/core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving";
    interleaved_group_in_pp_m: "PP <= micro-batch group <= micro-batches" => group;
    interleaved_microbatch_remainder: "the last group of micro-batches is whole, or at least PP" => remainder;
}
