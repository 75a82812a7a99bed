//! What Megatron checks when it makes its model configuration of the arguments, in its order.

use super::launch::Launch;
use super::layout::Layout;
use super::offers;
use super::pattern::Pattern;
use crate::rules::{Fault, Finding, Known, divides, fault_if, nearest, rules};

fn heads(l: &Launch) -> Finding {
    let (Some(heads), tp) = (l.heads()?, l.tp()?) else { return Ok(None) };
    let n = u64::try_from(heads).unwrap_or(0);
    Ok((!divides(n, tp)).then(|| {
        let groups = l.kv_groups().ok().and_then(|g| u64::try_from(g).ok()).unwrap_or(n);
        let allowed = (1..=n).filter(|t| divides(n, *t) && kv_fits(groups, *t));
        let valid = crate::rules::listed(&nearest(allowed, tp, 4));
        Fault::new(format!("{n} heads, TP {tp}")).instead(format!("--tensor-model-parallel-size one of {valid}"))
    }))
}

fn kv_fits(groups: u64, tp: u64) -> bool {
    divides(groups, tp) || divides(tp, groups)
}

fn kv_groups(l: &Launch) -> Finding {
    let (groups, tp) = (u64::try_from(l.kv_groups()?).unwrap_or(0), l.tp()?);
    Ok((!kv_fits(groups, tp)).then(|| {
        let heads = l.heads().ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(groups);
        let valid = nearest((1..=heads).filter(|t| divides(heads, *t) && kv_fits(groups, *t)), tp, 4);
        Fault::new(format!("{groups} key/value groups, TP {tp}"))
            .instead(format!("--tensor-model-parallel-size one of {}", crate::rules::listed(&valid)))
    }))
}

fn linear_attention(l: &Launch) -> Finding {
    if l.attention_variant()? != "gated_delta_net" {
        return Ok(None);
    }
    let sizes = [
        ("--linear-conv-kernel-dim", l.linear_conv_kernel_dim()?),
        ("--linear-key-head-dim", l.linear_key_head_dim()?),
        ("--linear-value-head-dim", l.linear_value_head_dim()?),
        ("--linear-num-key-heads", l.linear_key_heads()?),
        ("--linear-num-value-heads", l.linear_value_heads()?),
    ];
    if l.linear_attention_freq()?.is_empty() {
        return Ok(Some(Fault::new("--linear-attention-freq is not given")));
    }
    if let Some((name, _)) = sizes.iter().find(|(_, value)| value.is_none()) {
        return Ok(Some(Fault::new(format!("{name} is not given"))));
    }
    let number = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let (key, value, ways) = (number(l.linear_key_heads()?), number(l.linear_value_heads()?), l.tp()? * l.cp()?);
    let fits = divides(value, key) && divides(key, ways) && divides(value, ways);
    Ok((!fits).then(|| {
        let both = (1..=key).filter(|w| divides(key, *w) && divides(value, *w));
        Fault::new(format!("{key} key heads, {value} value heads, TP * CP = {ways}"))
            .instead(format!("TP * CP one of {}", crate::rules::listed(&nearest(both, ways, 4))))
    }))
}

fn bf16_ends(l: &Launch) -> Finding {
    if l.fp8()?.is_empty() || !l.first_last_layers_bf16()? {
        return Ok(None);
    }
    let most = l.layers()? / l.pp()?.max(1);
    let outside = [l.bf16_layers_at_start()?, l.bf16_layers_at_end()?]
        .into_iter()
        .flatten()
        .any(|n| u64::try_from(n).map_or(true, |n| n > most));
    fault_if(outside, || format!("more than the {most} layers of a stage"))
}

/// Offloading of whole layers is on.
fn layers_offloaded(l: &Launch) -> Known<Option<i64>> {
    Ok(l.cpu_offloading_num_layers()?.filter(|n| *n > 0))
}

fn selective(l: &Launch, module: &str) -> Known<bool> {
    Ok(l.recompute()? == "selective" && l.recompute_modules()?.contains(&module))
}

const MODULES: [&str; 8] =
    ["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "gdn_norm_out"];
const OFFLOADS: [&str; 8] =
    ["core_attn", "attn_proj", "expert_fc1", "fused_group_mlp", "moe_act", "attn_norm", "mlp_norm", "qkv_linear"];

fn module_names(l: &Launch) -> Finding {
    if l.recompute()? != "selective" {
        return Ok(None);
    }
    let modules = l.recompute_modules()?;
    let bad: Vec<&str> = modules.into_iter().filter(|m| !MODULES.contains(m)).collect();
    Ok((!bad.is_empty()).then(|| {
        let near = bad.first().and_then(|b| crate::error::nearest(b, MODULES)).unwrap_or(MODULES[0]);
        Fault::new(format!("no such module: {}", bad.join(", ")))
            .instead(format!("--recompute-modules {near}"))
            .instead(format!("any of {}", MODULES.join(" ")))
    }))
}

fn offload_modules(l: &Launch) -> Finding {
    if !l.fine_grained_offloading()? {
        return Ok(None);
    }
    let Some(modules) = l.offload_modules()?.filter(|m| !m.is_empty()) else {
        return Ok(Some(Fault::new("--offload-modules is not given")));
    };
    let has = |name: &str| modules.iter().any(|m| m == name);
    if let Some(bad) = modules.iter().find(|m| !OFFLOADS.contains(&m.as_str())) {
        return Ok(Some(Fault::new(format!("no such module: {bad}")).instead(OFFLOADS.join(" "))));
    }
    if has("attn_proj") && !has("core_attn") {
        return Ok(Some(Fault::new("attn_proj without core_attn").instead("--offload-modules core_attn attn_proj")));
    }
    let inside = ["moe_act", "expert_fc1", "fused_group_mlp"].into_iter().find(|m| has(m));
    if let Some(inside) = inside.filter(|_| selective(l, "moe").unwrap_or(false)) {
        return Ok(Some(Fault::new(format!("{inside} is inside the recomputed moe"))));
    }
    let fused = has("fused_group_mlp") && (!l.op_fuser()? || has("expert_fc1") || has("moe_act"));
    fault_if(fused, || "fused_group_mlp needs the op fuser and stands alone".to_owned())
}

/// Layers and stages between the ends that are given.
struct Middle {
    layers: i64,
    stages: i64,
}

fn middle(l: &Launch) -> Known<Option<Middle>> {
    let (first, last) = (l.first_layers()?, l.last_layers()?);
    if !l.layout()?.is_empty() || (first.is_none() && last.is_none()) {
        return Ok(None);
    }
    let ends = i64::from(first.is_some()) + i64::from(last.is_some());
    Ok(Some(Middle {
        layers: l.layers()? as i64 - first.unwrap_or(0) - last.unwrap_or(0),
        stages: l.pp()? as i64 - ends,
    }))
}

fn end_over_chunks(l: &Launch, end: Option<i64>, flag: &str) -> Finding {
    let (Some(n), Some(vpp)) = (end, l.vpp()?) else { return Ok(None) };
    if !l.layout()?.is_empty() {
        return Ok(None);
    }
    let layers = u64::try_from(n).unwrap_or(0);
    Ok((!divides(layers, vpp))
        .then(|| offers::multiples(Fault::new(format!("{n} layers, {vpp} chunks")), flag, vpp, layers.max(1))))
}

fn remainder(value: i64, by: i64) -> bool {
    by != 0 && value % by != 0
}

/// Runs `broken` on the layout, if there is one that can be read.
fn layout(l: &Launch, broken: impl FnOnce(&Layout) -> Finding) -> Finding {
    match l.parsed_layout()? {
        Some(layout) if divides(layout.stages.len() as u64, l.pp()?) => broken(&layout),
        _ => Ok(None),
    }
}

fn offer(l: &Launch, bad: bool, why: impl FnOnce() -> String) -> Finding {
    Ok(bad.then(|| offers::uneven(l, Fault::new(why()))))
}

fn mtp_of(l: &Launch) -> Known<u64> {
    Ok(l.mtp()?.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
}

fn split_flags(l: &Launch) -> Known<bool> {
    Ok(l.first_layers()?.is_some()
        || l.last_layers()?.is_some()
        || l.account_for_embedding()?
        || l.account_for_loss()?)
}

fn mtp_place(l: &Launch, layout: &Layout) -> Finding {
    let pp = l.pp()? as usize;
    let last = layout.stages.len().saturating_sub(pp);
    let early = layout.stages.iter().take(last).position(|s| s.contains('m'));
    offer(l, early.is_some(), || format!("stage {} holds m and is not the last chunk of its rank", early.unwrap_or(0)))
}

fn overlap(l: &Launch, broken: bool, why: &str, instead: &str) -> Finding {
    Ok((l.ep_overlap()? && broken).then(|| Fault::new(why).instead(instead)))
}

fn router_groups(l: &Launch) -> Finding {
    let Some(keep) = l.router_group_topk()?.filter(|n| *n != 0) else { return Ok(None) };
    let experts = l.experts()?.unwrap_or(0);
    let Some(groups) = l.router_groups()?.filter(|n| *n != 0) else {
        return Ok(Some(Fault::new("--moe-router-num-groups is not given")));
    };
    let n = u64::try_from(experts).unwrap_or(0);
    let wanted = u64::try_from(groups).unwrap_or(1);
    if groups < 0 || !divides(n, wanted) {
        let fault = Fault::new(format!("{experts} experts, {groups} groups"));
        return Ok(Some(offers::divisors(fault, "--moe-router-num-groups", n, wanted)));
    }
    fault_if(keep > groups, || format!("{keep} of {groups} groups"))
}

rules! {
    /// The rules of `TransformerConfig` and its parents.
    RULES: Launch, TransformerConfig, "megatron/core/transformer/transformer_config.py __post_init__";
    defer_wgrad_needs_pp: "--defer-embedding-wgrad-compute needs PP > 1 and fused gradient accumulation" => |l|
        fault_if(l.defer_embedding_wgrad()? && (l.pp()? == 1 || !l.gradient_accumulation_fusion()?
            || l.wgrad_deferral_limit()?.is_some_and(|n| n < 0)), || "one of them does not hold".to_owned());
    p2p_warmup_overlap_needs_p2p_overlap: "overlap in warm-up and flush needs the overlap of the interleaved schedule" =>
        |l| fault_if(l.overlap_p2p_warmup()? && (!l.overlap_p2p()? || l.vpp()?.is_none()),
            || "p2p communication is not overlapped".to_owned());
    heads_divisible_by_tp: "the heads divide by TP" => heads;
    kv_groups_multiple_or_divisor_of_tp: "the key/value groups are a multiple or a divisor of TP" => kv_groups;
    linear_attention_heads: "gated delta nets say their sizes, and their heads divide by TP * CP" => linear_attention;
    fp8_delayed_excludes_bf16_ends: "delayed scaling has no first and last layers in bf16" => |l|
        Ok((!l.fp8()?.is_empty() && l.first_last_layers_bf16()? && l.fp8_recipe()? == "delayed").then(|| {
            Fault::new("the recipe is delayed").instead("--fp8-recipe tensorwise").instead("leave out --first-last-layers-bf16")
        }));
    fp8_bf16_ends_inside_stages: "the bf16 layers at an end are at most those of a stage" => bf16_ends;
    fp8_param_gather_needs_fp8: "--fp8-param-gather needs --fp8-format" => |l|
        Ok((l.fp8_param_gather()? && l.fp8()?.is_empty()).then(|| {
            Fault::new("no fp8 format is given").instead("--fp8-format hybrid").instead("leave it out")
        }));
    fp8_output_proj_needs_mxfp8: "--fp8-output-proj needs fp8 with --fp8-recipe mxfp8" => |l|
        fault_if(l.fp8_output_proj()? && (l.fp8()?.is_empty() || l.fp8_recipe()? != "mxfp8"),
            || "another precision".to_owned());
    experts_positive: "a positive number of experts" => |l|
        fault_if(l.experts()?.is_some_and(|n| n < 0), || format!("{} experts", l.experts().ok().flatten().unwrap_or(0)));
    expert_ffn_needs_experts: "--moe-ffn-hidden-size needs --num-experts" => |l| {
        let mixed = match l.layer_freq()? {
            Pattern::Every(n) => n > 1,
            Pattern::List(list) => list.contains(&0),
        };
        Ok((l.given_expert_ffn()?.is_some() && l.experts()?.is_none() && !mixed)
            .then(|| Fault::new("the model has no experts").instead("leave it out")))
    };
    single_grouped_weight_needs_grouped_gemm: "--moe-single-grouped-weight needs --moe-grouped-gemm and the op fuser" => |l|
        fault_if(l.single_grouped_weight()? && (!l.grouped_gemm()? || !l.op_fuser()?), || "one is off".to_owned());
    deepep_needs_flex: "DeepEP needs the flex dispatcher, as do hybridep and ncclep" => |l| {
        let bad = l.enable_deepep()? && (l.dispatcher()? != "flex" || l.flex_backend()? == "hybridep")
            || l.flex_backend()? == "ncclep" && l.dispatcher()? != "flex";
        Ok(bad.then(|| {
            Fault::new(format!("dispatcher {}", l.dispatcher().unwrap_or_default()))
                .instead("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep")
        }))
    };
    shared_expert_ffn_positive: "a positive width of the shared experts" => |l|
        fault_if(l.shared_expert_ffn()?.is_some_and(|n| n <= 0), || "it is not".to_owned());
    shared_overlap_needs_alltoall_or_flex: "--moe-shared-expert-overlap needs the alltoall or flex dispatcher" => |l| {
        let bad = l.shared_expert_ffn()?.is_some() && l.shared_expert_overlap()?
            && !matches!(l.dispatcher()?, "alltoall" | "flex");
        Ok(bad.then(|| Fault::new(format!("dispatcher {}", l.dispatcher().unwrap_or_default()))
            .instead("--moe-token-dispatcher-type alltoall").instead("leave it out")))
    };
    aux_loss_list_length: "as many auxiliary-loss coefficients as kinds of balancing" => |l| {
        let kinds = l.load_balancing()?.map_or(0, <[String]>::len);
        let coefficients = l.aux_loss_coeff()?.map_or(1, <[String]>::len);
        fault_if(kinds > 1 && kinds != coefficients, || format!("{kinds} kinds, {coefficients} coefficients"))
    };
    capacity_needs_aux_loss: "a capacity factor needs auxiliary-loss balancing or none" => |l| {
        let known = ["aux_loss", "seq_aux_loss", "global_aux_loss", "none"];
        let other = l.load_balancing()?.is_some_and(|list| list.iter().any(|k| !known.contains(&k.as_str())));
        fault_if(l.capacity_factor()?.is_some() && other, || "another kind of balancing".to_owned())
    };
    padding_needs_capacity: "padding to capacity needs a capacity factor" => |l|
        fault_if(l.pad_to_capacity()? && l.capacity_factor()?.is_none_or(|c| c < 0.0), || "none is given".to_owned());
    cpu_offload_layers_lt_L: "fewer layers are offloaded than there are" => |l| {
        let Some(n) = layers_offloaded(l)? else { return Ok(None) };
        let layers = l.layers()?;
        Ok((n >= layers as i64).then(|| Fault::new(format!("{n} of {layers} layers"))
            .instead(format!("--cpu-offloading-num-layers {}", layers.saturating_sub(1)))))
    };
    cpu_offload_excludes_pp: "offloading of layers has no pipeline" => |l|
        Ok((layers_offloaded(l)?.is_some() && l.pp()? > 1).then(|| {
            Fault::new(format!("PP {}", l.pp().unwrap_or(1)))
                .instead("--pipeline-model-parallel-size 1").instead("--fine-grained-activation-offloading")
        }));
    cpu_offload_excludes_recompute: "offloading of layers excludes recomputation" => |l|
        Ok((layers_offloaded(l)?.is_some() && !l.recompute()?.is_empty()).then(|| {
            Fault::new(format!("{} recomputation", l.recompute().unwrap_or_default())).instead("leave out one of them")
        }));
    full_recompute_needs_method: "full recomputation needs --recompute-method" => |l|
        Ok((l.recompute()? == "full" && l.recompute_method()?.is_empty()).then(|| {
            Fault::new("no method is given").instead("--recompute-method uniform --recompute-num-layers 1")
        }));
    full_recompute_needs_num_layers: "full recomputation needs --recompute-num-layers" => |l|
        Ok((l.recompute()? == "full" && l.recompute_num_layers()?.is_none())
            .then(|| Fault::new("it is not given").instead("--recompute-num-layers 1")));
    selective_excludes_num_layers: "selective recomputation has no --recompute-num-layers" => |l|
        Ok((l.recompute()? == "selective" && l.recompute_num_layers()?.is_some()).then(|| {
            Fault::new("it is given").instead("leave it out").instead("--recompute-granularity full --recompute-method block")
        }));
    distribute_excludes_sp: "--distribute-saved-activations excludes sequence parallelism" => |l|
        Ok((!l.recompute()?.is_empty() && l.distribute_saved_activations()? && l.sequence_parallel()?)
            .then(|| Fault::new("sequence parallelism is on and saves as much").instead("leave it out")));
    recompute_module_name: "modules of recomputation by their names" => module_names;
    moe_act_needs_grouped_gemm: "recomputing moe_act needs --moe-grouped-gemm" => |l|
        Ok((selective(l, "moe_act")? && !l.grouped_gemm()?)
            .then(|| Fault::new("it is off").instead("--moe-grouped-gemm").instead("--recompute-modules mlp")));
    mla_up_proj_needs_mla: "recomputing mla_up_proj needs --multi-latent-attention" => |l|
        Ok((selective(l, "mla_up_proj")? && !l.mla()?)
            .then(|| Fault::new("the attention is not latent").instead("--recompute-modules layernorm")));
    gdn_norm_out_needs_gdn: "recomputing gdn_norm_out needs gated delta nets" => |l|
        fault_if(selective(l, "gdn_norm_out")? && l.attention_variant()? != "gated_delta_net",
            || "another attention".to_owned());
    shared_recompute_excludes_overlap: "recomputing shared_experts excludes --moe-shared-expert-overlap" => |l|
        fault_if(selective(l, "shared_experts")? && l.shared_expert_ffn()?.is_some() && l.shared_expert_overlap()?,
            || "the overlap is on".to_owned());
    fp8_delayed_excludes_act_recompute: "delayed scaling excludes recomputing moe_act and layernorm" => |l| {
        let either = selective(l, "moe_act")? || selective(l, "layernorm")?;
        Ok((!l.fp8()?.is_empty() && l.fp8_recipe()? == "delayed" && either)
            .then(|| Fault::new("the recipe is delayed").instead("--fp8-recipe tensorwise")))
    };
    moe_layer_recompute_excludes_full: "--moe-layer-recompute excludes full recomputation" => |l|
        fault_if(l.moe_layer_recompute()? && l.recompute()? == "full", || "recomputation is full".to_owned());
    offload_module_names: "modules of fine-grained offloading, in combinations that work" => offload_modules;
    uneven_excludes_account: "uneven ends exclude counting embedding and loss as layers" => |l| {
        let uneven = l.first_layers()?.is_some() || l.last_layers()?.is_some();
        Ok((uneven && (l.account_for_embedding()? || l.account_for_loss()?)).then(|| {
            Fault::new("both are given").instead("--decoder-first/last-pipeline-num-layers alone")
                .instead("--account-for-*-in-pipeline-split alone")
        }))
    };
    layout_excludes_other_split_flags: "a layout excludes every other flag that cuts the pipeline" => |l|
        Ok((!l.layout()?.is_empty() && split_flags(l)?).then(|| {
            Fault::new("--decoder-first/last-pipeline-num-layers or --account-for-*-in-pipeline-split beside it")
                .instead("the layout alone")
        }));
    layout_starts_with_E: "a layout starts with E" => |l| layout(l, |x| {
        let first = x.stages.iter().find_map(|s| s.chars().next());
        offer(l, first != Some('E'), || format!("it starts with {}", first.map_or('|', |c| c)))
    });
    layout_ends_with_L: "a layout ends with L" => |l| layout(l, |x| {
        let last = x.stages.iter().rev().find_map(|s| s.chars().next_back());
        offer(l, last != Some('L'), || format!("it ends with {}", last.map_or('|', |c| c)))
    });
    layout_one_E: "a layout has E once" => |l| layout(l, |x| {
        offer(l, x.count('E') != 1, || format!("E stands {} times", x.count('E')))
    });
    layout_one_L: "a layout has L once" => |l| layout(l, |x| {
        offer(l, x.count('L') != 1, || format!("L stands {} times", x.count('L')))
    });
    layout_decoder_count: "a layout has a t per layer" => |l| layout(l, |x| {
        let layers = l.layers()?;
        offer(l, x.count('t') != layers, || format!("{} t for {layers} layers", x.count('t')))
    });
    layout_mtp_count: "a layout has an m per module of multi-token prediction" => |l| layout(l, |x| {
        let modules = mtp_of(l)?;
        offer(l, x.count('m') != modules, || format!("{} m for {modules} modules", x.count('m')))
    });
    layout_mtp_after_decoders: "every m stands after every t" => |l| layout(l, |x| {
        let joined = x.stages.concat();
        let late = joined.find('m').is_some_and(|at| joined[at..].contains('t'));
        offer(l, late, || "a t stands behind an m".to_owned())
    });
    layout_mtp_last_vstage: "m stands in the last chunk of its rank" => |l| layout(l, |x| mtp_place(l, x));
    layout_mtp_together: "every m stands in one stage" => |l| layout(l, |x| {
        let with = x.stages.iter().filter(|s| s.contains('m')).count();
        offer(l, with > 1, || format!("{with} stages hold m"))
    });
    uneven_first_positive: "a positive number of layers in the first stage" => |l|
        fault_if(middle(l)?.is_some() && l.first_layers()?.is_some_and(|n| n <= 0),
            || "--decoder-first-pipeline-num-layers is not above 0".to_owned());
    uneven_first_divisible_by_vpp: "the layers of the first stage divide by its chunks" => |l|
        end_over_chunks(l, l.first_layers()?, "--decoder-first-pipeline-num-layers");
    uneven_last_positive: "a positive number of layers in the last stage" => |l|
        fault_if(middle(l)?.is_some() && l.last_layers()?.is_some_and(|n| n <= 0),
            || "--decoder-last-pipeline-num-layers is not above 0".to_owned());
    uneven_last_divisible_by_vpp: "the layers of the last stage divide by its chunks" => |l|
        end_over_chunks(l, l.last_layers()?, "--decoder-last-pipeline-num-layers");
    uneven_sum_without_middle: "ends without stages between them hold all layers; stages between them hold some" => |l| {
        let Some(m) = middle(l)? else { return Ok(None) };
        offer(l, (m.layers != 0) != (m.stages != 0),
            || format!("{} layers are left for {} stages in the middle", m.layers, m.stages))
    };
    uneven_middle_divisible: "the layers of the middle divide by its stages" => |l| {
        let Some(m) = middle(l)? else { return Ok(None) };
        let bad = remainder(m.layers, m.stages);
        offer(l, bad, || format!("{} layers over {} stages in the middle", m.layers, m.stages))
    };
    uneven_middle_divisible_by_vpp: "the layers of a middle stage divide by its chunks" => |l| {
        let (Some(m), Some(vpp)) = (middle(l)?, l.vpp()?) else { return Ok(None) };
        let each = if m.stages > 0 { m.layers / m.stages } else { 0 };
        offer(l, m.stages > 0 && remainder(each, vpp as i64), || format!("{each} layers, {vpp} chunks"))
    };
    account_layers_divisible_by_pp: "the layers with embedding and loss divide by PP" => |l| {
        let counted = l.layout()?.is_empty() && middle(l)?.is_none() && (l.account_for_embedding()? || l.account_for_loss()?);
        let (layers, pp) = (l.counted_layers()?, l.pp()?);
        offer(l, counted && !divides(layers, pp), || format!("{layers} over {pp} stages"))
    };
    account_layers_divisible_by_vpp: "the layers of a rank, with embedding and loss, divide by its chunks" => |l| {
        let counted = l.layout()?.is_empty() && middle(l)?.is_none() && (l.account_for_embedding()? || l.account_for_loss()?);
        let Some(vpp) = l.vpp()? else { return Ok(None) };
        let (layers, pp) = (l.counted_layers()?, l.pp()?);
        offer(l, counted && divides(layers, pp) && !divides(layers / pp, vpp),
            || format!("{} layers of a rank, {vpp} chunks", layers / pp.max(1)))
    };
    bias_fusion_activation: "a fused bias needs gelu, swiglu or quick_geglu" => |l|
        Ok((l.squared_relu()? && !l.swiglu()? && l.add_bias_linear()? && l.bias_gelu_fusion()?)
            .then(|| Fault::new("--squared-relu").instead("--no-bias-gelu-fusion").instead("--disable-bias-linear")));
    one_activation: "one activation function" => |l|
        fault_if(l.swiglu()? && (l.squared_relu()? || l.quick_geglu()?), || "several are given".to_owned());
    fused_residual_needs_rmsnorm: "--fused-residual-rmsnorm needs --normalization RMSNorm" => |l|
        fault_if(l.fused_residual_rmsnorm()? && l.normalization()? != "RMSNorm", || "another norm".to_owned());
    mla_excludes_interleaved_rotary: "latent attention has no interleaved rotary embedding" => |l|
        fault_if(l.mla()? && l.rotary_interleaved()?, || "--rotary-interleaved is given".to_owned());
    moe_bias_needs_etp1: "biases of experts need ETP 1" => |l|
        Ok((l.experts()?.is_some() && l.add_bias_linear()? && l.etp()? != 1).then(|| {
            Fault::new(format!("ETP {}", l.etp().unwrap_or(1)))
                .instead("--disable-bias-linear").instead("--expert-tensor-parallel-size 1")
        }));
    expert_bias_needs_sigmoid: "an expert bias needs the score function sigmoid or sqrtsoftplus" => |l|
        Ok((l.expert_bias()? && !matches!(l.score_function()?, "sigmoid" | "sqrtsoftplus"))
            .then(|| Fault::new("the score function is softmax").instead("--moe-router-score-function sigmoid")));
    padding_needs_quantization: "padding for quantisation needs fp8 or fp4 and another dispatcher than allgather" => |l| {
        let wanted = l.padding_for_quantization()? || l.padding_for_fp8()?;
        let quantised = !l.fp8()?.is_empty() || !l.fp4()?.is_empty();
        fault_if(wanted && (!quantised || l.dispatcher()? == "allgather"), || "one does not hold".to_owned())
    };
    topk1_needs_presoftmax: "top-1 routing by softmax needs --moe-router-pre-softmax" => |l| {
        let sinkhorn = l.load_balancing()?.is_some_and(|list| list == ["sinkhorn"]);
        Ok((l.topk()? == Some(1) && l.score_function()? == "softmax" && !l.pre_softmax()? && !sinkhorn)
            .then(|| Fault::new("softmax over one value has no gradient").instead("--moe-router-pre-softmax")))
    };
    experts_divisible_by_router_groups: "the experts divide by the groups of the router" => router_groups;
    full_recompute_excludes_partial_graphs: "full recomputation needs graphs of the whole iteration, or none" => |l|
        fault_if(l.recompute()? == "full" && matches!(l.cuda_graph_impl()?, "local" | "transformer_engine"),
            || "--cuda-graph-impl of parts".to_owned());
    ep_overlap_pp_needs_vpp: "overlap of expert parallelism with PP > 1 needs several chunks per rank" => |l|
        overlap(l, l.pp()? > 1 && l.vpp()?.is_none(), "one chunk per rank", "--num-virtual-stages-per-pipeline-rank 2");
    ep_overlap_needs_ep: "overlap of expert parallelism needs EP > 1" =>
        |l| overlap(l, l.ep()? <= 1, "EP is 1", "leave it out");
    ep_overlap_needs_alltoall_or_flex: "overlap of expert parallelism needs the alltoall or flex dispatcher" => |l|
        overlap(l, !matches!(l.dispatcher()?, "alltoall" | "flex"), "another dispatcher",
            "--moe-token-dispatcher-type alltoall");
    ep_overlap_excludes_full_recompute: "overlap of expert parallelism excludes full recomputation" => |l|
        overlap(l, l.recompute()? == "full" || !l.recompute_method()?.is_empty() || l.recompute_num_layers()?.is_some(),
            "recomputation is full", "--recompute-granularity selective");
    ep_overlap_excludes_moe_recompute: "overlap of expert parallelism excludes recomputing moe" => |l|
        overlap(l, l.recompute_modules()?.contains(&"moe"), "moe is recomputed", "--recompute-modules moe_act");
    ep_overlap_needs_half: "overlap of expert parallelism needs bf16 or fp16" => |l|
        overlap(l, !l.bf16()? && !l.fp16()?, "the precision is fp32", "--bf16");
    ep_overlap_excludes_shared_overlap: "overlap of expert parallelism excludes --moe-shared-expert-overlap" => |l|
        overlap(l, l.shared_expert_overlap()?, "both are given", "leave out --moe-shared-expert-overlap");
    ep_overlap_one_mtp: "overlap of expert parallelism with at most one MTP module" => |l|
        overlap(l, mtp_of(l)? > 1, "more modules", "--mtp-num-layers 1");
    delay_wgrad_needs_ep_overlap: "--delay-wgrad-compute needs --overlap-moe-expert-parallel-comm" => |l|
        Ok((l.delay_wgrad()? && !l.ep_overlap()?)
            .then(|| Fault::new("it is off").instead("--overlap-moe-expert-parallel-comm").instead("leave it out")));
    dispatch_overlap_excludes_ep_overlap: "one of the overlaps of expert gradients" => |l|
        fault_if(l.dispatch_wgrad_overlap()? && (l.ep_overlap()? || l.delay_wgrad()?), || "several are given".to_owned());
    early_release_needs_ep_overlap: "early release of attention memory needs --overlap-moe-expert-parallel-comm" => |l|
        fault_if(l.early_attention_release()? && !l.ep_overlap()?, || "it is off".to_owned());
    cp_comm_type_list_length: "a list of --cp-comm-type has an entry per layer" => |l| {
        let entries = l.cp_comm_type()?.map_or(1, <[String]>::len);
        let layers = l.layers()?;
        Ok((l.cp()? > 1 && entries != 1 && entries as u64 != layers)
            .then(|| Fault::new(format!("{entries} entries for {layers} layers")).instead("--cp-comm-type p2p")))
    };
    mla_rope_fusion_needs_yarn: "fused rotary embedding of latent attention needs --rope-type yarn" => |l|
        Ok((l.mla()? && l.rope_fusion()? && l.rope_type()? == "rope")
            .then(|| Fault::new("--rope-type rope").instead("--no-rope-fusion").instead("--rope-type yarn")));
}
