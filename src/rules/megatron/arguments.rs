//! What Megatron checks when it reads its arguments, in its order.

use super::derived::Cut;
use super::launch::Launch;
use super::layout::Layout;
use super::offers;
use crate::rules::{Fault, Finding, divides, fault_if, rules};

/// An argument that must be a positive number.
fn positive(value: Option<i64>, name: &str) -> Finding {
    match value {
        None => Ok(Some(Fault::new(format!("{name} is not given")).instead(format!("{name} 1")))),
        Some(n) => Ok((n <= 0).then(|| Fault::new(format!("{name} is {n}")).instead(format!("{name} 1")))),
    }
}

fn shards(given: Option<i64>, ways: u64, name: &str) -> Finding {
    let Some(n) = given else { return Ok(None) };
    let fits = u64::try_from(n).is_ok_and(|n| n >= ways && divides(n, ways));
    fault_if(!fits, || format!("{name} {n} is no multiple of the {ways} tensor-parallel ways"))
}

fn connections(l: &Launch) -> Finding {
    let sharded = l.torch_fsdp2()? || l.megatron_fsdp()? || l.ep_overlap()?;
    if (l.tp()? == 1 && l.cp()? == 1) || sharded || l.arch? >= 10 {
        return Ok(None);
    }
    let found = l.variable("CUDA_DEVICE_MAX_CONNECTIONS")?;
    Ok((found != Some("1")).then(|| {
        let found = found.map_or_else(|| "not set".to_owned(), |n| format!("`{n}`"));
        Fault::new(format!("it is {found}, with TP {} and CP {}", l.tp().unwrap_or(1), l.cp().unwrap_or(1)))
            .instead("CUDA_DEVICE_MAX_CONNECTIONS=1")
    }))
}

fn connections_of_fsdp(l: &Launch) -> Finding {
    let one = l.variable("CUDA_DEVICE_MAX_CONNECTIONS")? == Some("1");
    Ok(one.then(|| {
        Fault::new("it is 1")
            .instead("CUDA_DEVICE_MAX_CONNECTIONS=32")
            .instead("leave CUDA_DEVICE_MAX_CONNECTIONS unset")
    }))
}

fn even_layers(l: &Launch) -> Finding {
    let needs = match l.cut()? {
        Cut::Layout | Cut::Chunks(_) => false,
        Cut::LayersPerChunk(_) | Cut::Plain => l.first_layers()?.is_none() && l.last_layers()?.is_none(),
    };
    if !needs || l.num_layers()?.is_none() || !l.hybrid_layer_pattern()?.is_empty() {
        return Ok(None);
    }
    let (layers, pp) = (l.counted_layers()?, l.pp()?);
    Ok((!divides(layers, pp)).then(|| offers::uneven(l, Fault::new(format!("{layers} layers over {pp} stages")))))
}

fn interleaved(l: &Launch) -> Finding {
    if l.vpp()?.is_none() || !l.overlap_p2p()? {
        return Ok(None);
    }
    let pp = l.pp()?;
    Ok((pp <= 1).then(|| {
        Fault::new(format!("{} chunks per rank with PP {pp}", l.vpp().ok().flatten().unwrap_or(0)))
            .instead("one chunk per rank")
            .instead("--pipeline-model-parallel-size 2")
    }))
}

fn both<'a>(first: bool, second: bool, names: &'a str) -> impl FnOnce() -> Finding + 'a {
    move || fault_if(first && second, || format!("{names} are given together"))
}

fn layout_symbols(l: &Launch) -> Finding {
    let text = l.layout()?;
    if text.is_empty() {
        return Ok(None);
    }
    let Err(error) = Layout::parse(text) else { return Ok(None) };
    let mut fault = Fault::new(error.to_string());
    let close: String = text.chars().filter(|c| !c.is_whitespace()).map(|c| if c == 'l' { 'L' } else { c }).collect();
    if Layout::parse(&close).is_ok() {
        fault = fault.instead(format!("--pipeline-model-parallel-layout \"{close}\""));
    } else {
        fault = offers::uneven(l, fault);
    }
    Ok(Some(fault))
}

fn layers_per_chunk(l: &Launch) -> Finding {
    let Cut::LayersPerChunk(size) = l.cut()? else { return Ok(None) };
    let (layers, pp) = (l.counted_layers()?, l.pp()?);
    if !divides(layers, pp) {
        return Ok(None);
    }
    let per_rank = layers / pp;
    let fits = u64::try_from(size).is_ok_and(|n| divides(per_rank, n));
    Ok((!fits).then(|| {
        let why = format!("{per_rank} layers per rank, {size} per chunk");
        offers::divisors(Fault::new(why), "--num-layers-per-virtual-pipeline-stage", per_rank, size.max(1) as u64)
    }))
}

fn batch(l: &Launch) -> Finding {
    let (micro, dp) = (l.micro_batch_size()?, l.dp()?);
    let (eval_micro, eval) = (l.eval_micro_batch_size()?.or(micro), l.eval_global_batch_size()?);
    let (Some(micro), Some(eval_micro)) = (micro, eval_micro) else { return Ok(None) };
    let global = l.global_batch_size()?;
    let fits = |batch: i64, micro: i64| matches!((u64::try_from(batch), u64::try_from(micro)), (Ok(b), Ok(m)) if divides(b, m.saturating_mul(dp)));
    let eval_batch = eval.unwrap_or(global);
    if !fits(eval_batch, eval_micro) && (eval.is_some() || fits(global, micro)) {
        let why = format!("evaluation batch {eval_batch}, micro-batch {eval_micro}, {dp} data-parallel ranks");
        let step = eval_micro.max(1) as u64 * dp;
        return Ok(Some(offers::multiples(
            Fault::new(why),
            "--eval-global-batch-size",
            step,
            eval_batch.max(1) as u64,
        )));
    }
    Ok((!fits(global, micro)).then(|| {
        let why = format!("batch {global}, micro-batch {micro}, {dp} data-parallel ranks");
        let step = micro.max(1) as u64 * dp;
        offers::multiples(Fault::new(why), "--global-batch-size", step, global.max(1) as u64)
    }))
}

fn sequence_over_cp(l: &Launch) -> Finding {
    let (Some(sequence), cp) = (l.seq_length()?, l.cp()?) else { return Ok(None) };
    let fits = cp <= 1 || u64::try_from(sequence).is_ok_and(|n| divides(n, 2 * cp));
    Ok((!fits).then(|| {
        let fault = Fault::new(format!("{sequence} tokens, CP {cp}"));
        offers::multiples(fault, "--seq-length", 2 * cp, sequence.max(1) as u64)
    }))
}

fn positions(l: &Launch) -> Finding {
    let Some(most) = l.max_position_embeddings()? else { return Ok(None) };
    let longest = l.sequence()?.max(l.decoder_seq_length()?.unwrap_or(0));
    Ok((most < longest).then(|| {
        Fault::new(format!("{most} positions for {longest} tokens"))
            .instead(format!("--max-position-embeddings {longest}"))
    }))
}

fn required(l: &Launch) -> Finding {
    let layers = if l.num_layers()?.is_some() { l.num_layers()? } else { l.encoder_num_layers()? };
    let missing = [
        ("--num-layers", layers),
        ("--hidden-size", l.hidden_size()?),
        ("--num-attention-heads", l.heads()?),
        ("--max-position-embeddings", l.max_position_embeddings()?),
        ("--seq-length", if l.seq_length()?.is_some() { l.seq_length()? } else { l.encoder_seq_length()? }),
    ];
    let hybrid = !l.hybrid_layer_pattern()?.is_empty();
    let names: Vec<&str> =
        missing.iter().filter(|(n, v)| v.is_none() && !(hybrid && *n == "--num-layers")).map(|(n, _)| *n).collect();
    fault_if(!names.is_empty(), || format!("not given: {}", names.join(", ")))
}

fn world_over_model(l: &Launch) -> Finding {
    let (world, size) = (l.world?, l.model_size()?);
    Ok((world == 0 || !divides(world, size)).then(|| {
        let gtp = l.gtp().unwrap_or(1);
        let more = if gtp > 1 { format!(" * weight shards {gtp}") } else { String::new() };
        let ways = |x: crate::rules::Known<u64>| x.unwrap_or(1);
        let why = format!(
            "{world} ranks are no multiple of TP {} * PP {} * CP {}{more} = {size}",
            ways(l.tp()),
            ways(l.pp()),
            ways(l.cp())
        );
        offers::world(l, Fault::new(why))
    }))
}

fn hierarchical(l: &Launch) -> Finding {
    let Some(sizes) = l.hierarchical_cp()? else { return Ok(None) };
    let product = sizes.iter().filter_map(|n| n.parse::<u64>().ok()).fold(1u64, u64::saturating_mul);
    let cp = l.cp()?;
    Ok((product != cp).then(|| {
        let fault = Fault::new(format!("the product of {} is {product}, CP is {cp}", sizes.join(" x ")));
        match crate::rules::nearest((2..cp).filter(|d| divides(cp, *d)), 2, 1).first() {
            Some(d) => fault.instead(format!("--hierarchical-context-parallel-sizes {d} {}", cp / d)),
            None => fault,
        }
    }))
}

fn distribute(l: &Launch, broken: fn(&Launch) -> crate::rules::Known<bool>, why: &str) -> Finding {
    Ok((l.distribute_saved_activations()? && broken(l)?).then(|| Fault::new(why).instead("leave it out")))
}

fn experts_over_ep(l: &Launch) -> Finding {
    let ep = l.ep()?;
    let Some(experts) = l.experts()? else { return Ok(None) };
    let n = u64::try_from(experts).unwrap_or(0);
    Ok((ep > 1 && !divides(n, ep)).then(|| {
        offers::divisors(Fault::new(format!("{experts} experts, EP {ep}")), "--expert-model-parallel-size", n, ep)
    }))
}

fn sources(l: &Launch) -> Finding {
    let split = [l.train_data_path()?, l.valid_data_path()?, l.test_data_path()?];
    let given = |list: Option<&[String]>| list.is_some_and(|l| !l.is_empty());
    let count = u8::from(l.mock_data()?) + u8::from(given(l.data_path()?)) + u8::from(split.into_iter().any(given));
    fault_if(count > 1, || "more than one of --mock-data, --data-path and the paths by split is given".to_owned())
}

fn hybrid(l: &Launch) -> Finding {
    let pattern = l.hybrid_layer_pattern()?;
    if pattern.is_empty() {
        return Ok(None);
    }
    let main = pattern.split('/').next().unwrap_or_default();
    let cut = l.first_layers()?.is_some() || l.last_layers()?.is_some();
    let others = [
        (main.contains('|') && cut, "--decoder-first/last-pipeline-num-layers"),
        (l.layers_per_chunk()?.is_some(), "--num-layers-per-virtual-pipeline-stage"),
        (l.chunks_per_rank()?.is_some(), "--num-virtual-stages-per-pipeline-rank"),
        (!l.layout()?.is_empty(), "--pipeline-model-parallel-layout"),
        (l.account_for_embedding()?, "--account-for-embedding-in-pipeline-split"),
        (l.account_for_loss()?, "--account-for-loss-in-pipeline-split"),
    ];
    if let Some((_, flag)) = others.into_iter().find(|(given, _)| *given) {
        return Ok(Some(Fault::new(format!("{flag} beside a pattern")).instead("cut the pattern with `|`")));
    }
    let (stages, pp) = (main.split('|').count() as u64, l.pp()?);
    fault_if(stages > 1 && !divides(stages, pp), || format!("{stages} stages of the pattern over PP {pp}"))
}

rules! {
    /// The rules of `validate_args`.
    RULES: Launch, ValidateArgs, "megatron/training/arguments.py validate_args";
    weight_shards_multiple_of_tp: "weight shards are a multiple of TP" =>
        |l| shards(l.weight_shards()?, l.tp()?, "--tensor-parallel-num-weight-shards");
    world_divisible_by_tp_pp_cp: "the world divides by TP * PP * CP; the quotient is DP" => world_over_model;
    hierarchical_cp_product: "the sizes of hierarchical context parallelism multiply to CP" => hierarchical;
    a2a_p2p_needs_hierarchical_cp: "a2a+p2p needs --hierarchical-context-parallel-sizes" => |l| {
        let mixed = l.cp_comm_type()?.is_some_and(|list| list.iter().any(|t| t == "a2a+p2p"));
        Ok((mixed && l.hierarchical_cp()?.is_none()).then(|| {
            Fault::new("no sizes are given").instead("--cp-comm-type p2p").instead(
                "--hierarchical-context-parallel-sizes A B with A * B = CP, A inside a node")
        }))
    };
    micro_batch_size_positive: "a micro-batch of at least one sequence" =>
        |l| positive(l.micro_batch_size()?, "--micro-batch-size");
    batch_schedule_excludes_batch: "a schedule of batch sizes or one batch size" => |l|
        both(!l.step_batch_size_schedule()?.is_empty(), l.given_global_batch_size()?.is_some(),
            "--step-batch-size-schedule and --global-batch-size")();
    global_batch_size_positive: "a batch of at least one sequence" => |l| match l.given_global_batch_size()? {
        None => Ok(None),
        some => positive(some, "--global-batch-size"),
    };
    gbs_divisible_by_mbs_dp: "the batch, and the one of evaluation, divide by micro-batch * DP" => batch;
    hybrid_pattern_cuts_alone: "a hybrid layer pattern says all about the cut, in a multiple of PP stages" => hybrid;
    mtp_position_embedding: "multi-token prediction needs rope or no position embedding" => |l| {
        let kind = l.position_embedding_type()?;
        let mtp = l.mtp()?.is_some_and(|n| n != 0);
        Ok((mtp && kind != "rope" && kind != "none").then(|| {
            Fault::new(format!("the position embedding is {kind}")).instead("--position-embedding-type rope")
        }))
    };
    only_one_vpp_source: "at most one of layout, layers per virtual stage, virtual stages per rank" => |l| {
        let given = [
            (l.layers_per_chunk()?.is_some(), "--num-layers-per-virtual-pipeline-stage"),
            (l.chunks_per_rank()?.is_some(), "--num-virtual-stages-per-pipeline-rank"),
            (!l.layout()?.is_empty(), "--pipeline-model-parallel-layout"),
        ];
        let names: Vec<&str> = given.iter().filter(|g| g.0).map(|g| g.1).collect();
        Ok((names.len() > 1).then(|| {
            let fault = Fault::new(format!("{} are given", names.join(" and ")));
            names.iter().fold(fault, |fault, name| fault.instead(format!("{name} alone")))
        }))
    };
    layout_bad_symbol: "a layout holds E, t, m, L, |, commas and repetitions only, no blanks" => layout_symbols;
    layout_stages_divisible_by_pp: "the stages of a layout are a multiple of PP" => |l| {
        let Some(layout) = l.parsed_layout()? else { return Ok(None) };
        let (stages, pp) = (layout.stages.len() as u64, l.pp()?);
        Ok((!divides(stages, pp)).then(|| {
            offers::uneven(l, Fault::new(format!("{stages} stages over PP {pp}")))
        }))
    };
    uneven_needs_vstages_flag: "uneven ends with chunks need --num-virtual-stages-per-pipeline-rank" => |l| {
        let uneven = l.first_layers()?.is_some() || l.last_layers()?.is_some();
        Ok((uneven && matches!(l.cut()?, Cut::LayersPerChunk(_))).then(|| {
            Fault::new("--num-layers-per-virtual-pipeline-stage beside --decoder-first/last-pipeline-num-layers")
                .instead("--num-virtual-stages-per-pipeline-rank 2")
                .instead("a --pipeline-model-parallel-layout")
        }))
    };
    layers_divisible_by_pp: "the layers, with embedding and loss where they count, divide by PP" => even_layers;
    layers_per_rank_divisible_by_layers_per_vstage: "the layers of a rank divide by those of a chunk" => layers_per_chunk;
    interleaved_needs_pp_gt_1: "several chunks per rank need PP > 1" => interleaved;
    interleaved_no_overlap_needs_pp_gt_2: "several chunks per rank without p2p overlap need PP > 2" => |l| {
        let bad = l.vpp()?.is_some() && !l.overlap_p2p()? && l.pp()? <= 2;
        Ok(bad.then(|| {
            Fault::new(format!("PP {}", l.pp().unwrap_or(1)))
                .instead("leave out --no-overlap-p2p-communication")
                .instead("--pipeline-model-parallel-size 4")
        }))
    };
    param_gather_overlap_needs_sharded_optimizer: "--overlap-param-gather needs a sharded optimizer" => |l| {
        let sharded = l.distributed_optimizer()? || l.megatron_fsdp()? || l.optimizer()? == "dist_muon";
        Ok((l.overlap_param_gather()? && !sharded)
            .then(|| Fault::new("the optimizer is not sharded").instead("--use-distributed-optimizer")))
    };
    param_gather_overlap_needs_grad_reduce_overlap: "--overlap-param-gather needs --overlap-grad-reduce" => |l|
        Ok((l.overlap_param_gather()? && !l.overlap_grad_reduce()?)
            .then(|| Fault::new("gradients are reduced without overlap").instead("--overlap-grad-reduce")));
    fsdp2_excludes_pp: "torch FSDP2 has no pipeline" => |l|
        fault_if(l.torch_fsdp2()? && l.pp()? != 1, || format!("PP {}", l.pp().unwrap_or(1)));
    fsdp2_excludes_ep: "torch FSDP2 has no expert parallelism" => |l|
        fault_if(l.torch_fsdp2()? && l.ep()? != 1, || format!("EP {}", l.ep().unwrap_or(1)));
    fsdp2_excludes_distopt: "torch FSDP2 excludes the distributed optimizer" => |l|
        both(l.torch_fsdp2()?, l.distributed_optimizer()?, "--use-torch-fsdp2 and --use-distributed-optimizer")();
    fsdp2_excludes_wgrad_fusion: "torch FSDP2 needs --no-gradient-accumulation-fusion" => |l|
        Ok((l.torch_fsdp2()? && l.gradient_accumulation_fusion()?).then(|| {
            Fault::new("gradient accumulation is fused").instead("--no-gradient-accumulation-fusion")
        }));
    fsdp2_needs_dist_ckpt: "torch FSDP2 needs the checkpoint format torch_dist or torch_dcp" => |l|
        Ok((l.torch_fsdp2()? && !matches!(l.ckpt_format()?, "torch_dist" | "torch_dcp")).then(|| {
            Fault::new("another checkpoint format").instead("--ckpt-format torch_dist")
        }));
    fsdp2_needs_untied_embeddings: "torch FSDP2 needs --untie-embeddings-and-output-weights" => |l|
        fault_if(l.torch_fsdp2()? && !l.untie_embeddings()?, || "the head shares the embedding's weights".to_owned());
    fsdp2_excludes_fp16: "torch FSDP2 has no fp16" => |l| both(l.torch_fsdp2()?, l.fp16()?, "--use-torch-fsdp2 and --fp16")();
    fsdp2_forbids_max_connections_1: "torch FSDP2 needs CUDA_DEVICE_MAX_CONNECTIONS above 1 or unset" => |l|
        if l.torch_fsdp2()? { connections_of_fsdp(l) } else { Ok(None) };
    param_gather_with_step_needs_sharded_optimizer: "gathering with the optimizer step needs the distributed optimizer" =>
        |l| Ok((l.param_gather_with_step()? && !l.distributed_optimizer()?)
            .then(|| Fault::new("the optimizer is not sharded").instead("--use-distributed-optimizer")));
    param_gather_with_step_needs_overlap: "gathering with the optimizer step needs --overlap-param-gather" => |l|
        Ok((l.param_gather_with_step()? && !l.overlap_param_gather()?)
            .then(|| Fault::new("parameters are gathered without overlap").instead("--overlap-param-gather")));
    param_gather_with_step_needs_vpp: "gathering with the optimizer step needs several chunks per rank" => |l|
        Ok((l.param_gather_with_step()? && l.vpp()?.is_none()).then(|| {
            Fault::new("one chunk per rank")
                .instead("leave out --overlap-param-gather-with-optimizer-step")
                .instead("--num-virtual-stages-per-pipeline-rank 2")
        }));
    param_gather_with_step_excludes_dist_ckpt: "gathering with the optimizer step needs --ckpt-format torch" => |l|
        Ok((l.param_gather_with_step()? && l.ckpt_format()? != "torch")
            .then(|| Fault::new("a distributed checkpoint format").instead("--ckpt-format torch")));
    fp8_param_gather_needs_sharded_optimizer: "--fp8-param-gather needs a sharded optimizer" => |l| {
        let sharded = l.distributed_optimizer()? || l.torch_fsdp2()? || l.megatron_fsdp()?;
        Ok((l.fp8_param_gather()? && !l.torch_fsdp2()? && !sharded)
            .then(|| Fault::new("the optimizer is not sharded").instead("--use-distributed-optimizer")))
    };
    fp4_excludes_fp8: "fp4 or fp8" => |l| both(!l.fp4()?.is_empty(), !l.fp8()?.is_empty(), "--fp4-format and --fp8-format")();
    fp4_param_gather_needs_fp4: "--fp4-param-gather needs --fp4-format" => |l|
        fault_if(l.fp4_param_gather()? && l.fp4()?.is_empty(), || "no fp4 format is given".to_owned());
    mfsdp_excludes_single_grouped_weight: "Megatron-FSDP has no single grouped expert weight" => |l|
        both(l.megatron_fsdp()?, l.single_grouped_weight()?, "--use-megatron-fsdp and --moe-single-grouped-weight")();
    mfsdp_needs_adam_or_sgd: "Megatron-FSDP runs adam and sgd" => |l|
        fault_if(l.megatron_fsdp()? && !matches!(l.optimizer()?, "adam" | "sgd"), || "another optimizer".to_owned());
    fsdp_forbids_max_connections_1: "Megatron-FSDP needs CUDA_DEVICE_MAX_CONNECTIONS above 1 or unset" => |l|
        if l.megatron_fsdp()? { connections_of_fsdp(l) } else { Ok(None) };
    mfsdp_needs_dtensor_ckpt: "Megatron-FSDP needs --ckpt-format fsdp_dtensor" => |l|
        Ok((l.megatron_fsdp()? && l.ckpt_format()? != "fsdp_dtensor")
            .then(|| Fault::new("another checkpoint format").instead("--ckpt-format fsdp_dtensor")));
    mfsdp_meta_device_needs_sharding: "initialisation on the meta device needs sharded weights" => |l|
        fault_if(l.megatron_fsdp()? && l.meta_device()? && l.sharding()? == "no_shard",
            || "the sharding strategy is no_shard".to_owned());
    fsdp_registration_needs_mfsdp: "--fsdp-manual-registration needs --use-megatron-fsdp and --nccl-ub" => |l|
        fault_if(l.fsdp_manual_registration()? && !(l.megatron_fsdp()? && l.nccl_ub()?), || "one is missing".to_owned());
    fp16_excludes_bf16: "fp16 or bf16" => |l| Ok((l.fp16()? && l.bf16()?)
        .then(|| Fault::new("--fp16 and --bf16 are given together").instead("--bf16").instead("--fp16")));
    grads_fp32_needs_fp32_main_grads: "accumulation in fp32 needs fp32 main gradients" => |l|
        fault_if(l.bf16()? && l.accumulate_in_fp32()? && l.main_grads_dtype()? != "fp32",
            || "--main-grads-dtype is not fp32".to_owned());
    iterations_or_samples: "training by iterations or by samples" => |l| {
        if l.skip_train()? {
            return Ok(None);
        }
        let given = |n: Option<i64>| n.is_some_and(|n| n != 0);
        let (iters, samples) = (given(l.train_iters()?), given(l.train_samples()?));
        let mixed = iters && (l.train_samples()?.is_some() || l.lr_decay_samples()?.is_some() || given(l.lr_warmup_samples()?))
            || samples && (l.train_iters()?.is_some() || l.lr_decay_iters()?.is_some() || given(l.lr_warmup_iters()?));
        let twice = l.lr_warmup_fraction()?.is_some()
            && (iters && given(l.lr_warmup_iters()?) || samples && given(l.lr_warmup_samples()?));
        fault_if(mixed || twice, || "arguments of both kinds are given".to_owned())
    };
    layers_given_once: "--num-layers or --encoder-num-layers" => |l|
        both(l.num_layers()?.is_some(), l.encoder_num_layers()?.is_some(), "--num-layers and --encoder-num-layers")();
    required_arguments: "layers, width, heads, positions and sequence length are given" => required;
    hidden_divisible_by_heads: "the width divides by the heads where --kv-channels is not given" => |l| {
        let (Some(hidden), Some(heads)) = (l.hidden_size()?, l.heads()?) else { return Ok(None) };
        let fits = l.given_kv_channels()?.is_some() || heads != 0 && hidden % heads == 0;
        Ok((!fits).then(|| Fault::new(format!("width {hidden}, {heads} heads")).instead("--kv-channels 128")))
    };
    seq_divisible_by_2cp: "the sequence divides by 2 * CP where CP > 1" => sequence_over_cp;
    max_pos_ge_seq: "as many positions as tokens of a sequence" => positions;
    min_lr_le_lr: "the least learning rate is not above the rate" => |l| {
        let (Some(lr), least) = (l.lr()?, l.min_lr()?.unwrap_or(0.0)) else { return Ok(None) };
        fault_if(least > lr, || format!("--min-lr {least} above --lr {lr}"))
    };
    save_needs_interval: "--save needs --save-interval" => |l| {
        let every = l.save_interval()?;
        Ok((!l.save()?.is_empty() && every.is_none_or(|n| n <= 0))
            .then(|| Fault::new("no interval is given").instead("--save-interval 1000")))
    };
    fp16_cross_entropy_needs_fp16: "--fp16-lm-cross-entropy needs --fp16" => |l|
        fault_if(l.fp16_lm_cross_entropy()? && !l.fp16()?, || "the precision is not fp16".to_owned());
    fp32_residual_needs_half: "--fp32-residual-connection needs fp16 or bf16" => |l|
        fault_if(l.fp32_residual_connection()? && !l.fp16()? && !l.bf16()?, || "the precision is fp32".to_owned());
    grouped_gemm_needs_ampere: "--moe-grouped-gemm needs compute capability 8" => |l|
        fault_if(l.grouped_gemm()? && l.arch? < 8, || format!("compute capability {}", l.arch.unwrap_or(0)));
    distribute_needs_tp: "--distribute-saved-activations needs TP > 1" =>
        |l| distribute(l, |l| Ok(l.tp()? <= 1), "TP is 1");
    distribute_needs_full_recompute: "--distribute-saved-activations needs full recomputation with a method" =>
        |l| distribute(l, |l| Ok(l.recompute()? != "full" || l.recompute_method()?.is_empty()),
            "recomputation is not full, or has no method");
    selective_excludes_method: "selective recomputation has no --recompute-method" => |l|
        Ok((l.recompute()? == "selective" && !l.recompute_method()?.is_empty()).then(|| {
            Fault::new("a method is given").instead("leave out --recompute-method").instead("--recompute-granularity full")
        }));
    tp_comm_overlap_needs_sp: "--tp-comm-overlap needs sequence parallelism (and TP > 1)" => |l|
        Ok((l.tp_comm_overlap()? && !l.sequence_parallel()?).then(|| {
            Fault::new("sequence parallelism is off").instead("--sequence-parallel with TP > 1").instead("leave it out")
        }));
    hybrid_cp_excludes: "hybrid context parallelism has no pipeline and no Megatron-FSDP, and needs the single loader and \
        --calculate-per-token-loss" => |l| {
        if !l.hybrid_context_parallel()? {
            return Ok(None);
        }
        let loader = !matches!(l.dataloader_type()?, "" | "single");
        fault_if(l.pp()? > 1 || l.megatron_fsdp()? || loader || !l.calculate_per_token_loss()?,
            || "one of them does not hold".to_owned())
    };
    max_connections_1_pre_blackwell: "CUDA_DEVICE_MAX_CONNECTIONS is 1 where TP or CP > 1 before Blackwell" => connections;
    position_embedding_flag: "--no-position-embedding is of old; --position-embedding-type none" => |l|
        fault_if(!l.add_position_embedding()? && l.position_embedding_type()? != "rope", || "it is given".to_owned());
    relative_positions_need_te: "relative positions need the transformer_engine implementation" => |l|
        fault_if(l.position_embedding_type()? == "relative" && l.transformer_impl()? != "transformer_engine",
            || "another implementation".to_owned());
    mrope_needs_section: "mrope needs --mrope-section" => |l|
        fault_if(l.position_embedding_type()? == "mrope" && l.mrope_section()?.is_none(), || "it is not given".to_owned());
    ep_needs_experts: "EP > 1 needs --num-experts" => |l|
        Ok((l.ep()? > 1 && l.experts()?.is_none())
            .then(|| Fault::new("the model has no experts").instead("--expert-model-parallel-size 1")));
    experts_divisible_by_ep: "the experts divide by EP" => experts_over_ep;
    torch_dcp_needs_fsdp2: "--ckpt-format torch_dcp needs --use-torch-fsdp2 without TP and PP" => |l|
        fault_if(l.ckpt_format()? == "torch_dcp" && (!l.torch_fsdp2()? || l.tp()? > 1 || l.pp()? > 1),
            || "one of them does not hold".to_owned());
    fsdp_dtensor_needs_mfsdp: "--ckpt-format fsdp_dtensor needs --use-megatron-fsdp" => |l|
        Ok((l.ckpt_format()? == "fsdp_dtensor" && !l.megatron_fsdp()?)
            .then(|| Fault::new("Megatron-FSDP is off").instead("--ckpt-format torch_dist")));
    one_data_source: "one source of data" => sources;
    cross_entropy_excludes_te: "fused cross entropy in the native implementation" => |l|
        fault_if(l.cross_entropy_loss_fusion()? && l.cross_entropy_fusion_impl()? == "te",
            || "--cross-entropy-fusion-impl te".to_owned());
    new_optimizers_exclude_fsdp: "other optimizers than adam and sgd have no FSDP and need torch or torch_dist checkpoints" =>
        |l| fault_if(!matches!(l.optimizer()?, "adam" | "sgd")
            && (l.torch_fsdp2()? || l.megatron_fsdp()? || !matches!(l.ckpt_format()?, "torch" | "torch_dist")),
            || format!("optimizer {}", l.optimizer().unwrap_or_default()));
    no_gloo_needs_dist_ckpt: "the distributed optimizer without gloo groups needs a distributed checkpoint format" => |l|
        fault_if(!l.use_gloo_process_groups()? && l.distributed_optimizer()? && l.ckpt_format()? == "torch",
            || "--ckpt-format torch".to_owned());
    optimizer_offload_needs_precision_aware: "--optimizer-cpu-offload needs --use-precision-aware-optimizer" => |l|
        Ok((l.optimizer_cpu_offload()? && !l.precision_aware_optimizer()?)
            .then(|| Fault::new("it is off").instead("--use-precision-aware-optimizer")));
    optimizer_offload_needs_delayed_fp8: "optimizer offload with fp8 parameters needs --fp8-recipe delayed" => |l|
        fault_if(l.optimizer_cpu_offload()? && l.fp8_param_gather()? && l.fp8_recipe()? != "delayed",
            || "another recipe".to_owned());
    delay_wgrad_needs_te: "--delay-wgrad-compute needs the transformer_engine implementation" => |l|
        fault_if(l.delay_wgrad()? && l.transformer_impl()? != "transformer_engine", || "another implementation".to_owned());
    fine_offload_needs_te: "fine-grained offloading needs the transformer_engine implementation" => |l|
        fault_if(l.fine_grained_offloading()? && l.transformer_impl()? != "transformer_engine",
            || "another implementation".to_owned());
    fine_offload_needs_variable: "fine-grained offloading needs NVTE_CPU_OFFLOAD_V1=1 with TransformerEngine 2.10" => |l|
        Ok((l.fine_grained_offloading()? && l.variable("NVTE_CPU_OFFLOAD_V1")? != Some("1"))
            .then(|| Fault::new("it is not 1").instead("NVTE_CPU_OFFLOAD_V1=1")));
    mla_excludes_gqa: "latent attention has no query groups" => |l|
        Ok((l.mla()? && l.group_query_attention()?).then(|| {
            Fault::new("--multi-latent-attention and --group-query-attention are given together")
                .instead("leave out --group-query-attention and --num-query-groups")
        }));
    mla_down_proj_fusion_needs_mla: "--mla-down-proj-fusion needs --multi-latent-attention" => |l|
        fault_if(l.mla_down_proj_fusion()? && !l.mla()?, || "the attention is not latent".to_owned());
    latent_size_needs_experts: "--moe-latent-size is positive and needs experts" => |l|
        fault_if(l.latent_size()?.is_some_and(|n| n <= 0) || l.latent_size()?.is_some() && l.experts()?.is_none(),
            || "it is not".to_owned());
}
