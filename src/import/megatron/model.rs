//! The model and the job of a launch, in the words of a `config.json`.

use crate::error::{InputError, Kind};
use crate::job::{Job, Optimizer, Precision, Storage};
use crate::rules::Known;
use crate::rules::megatron::Launch;
use serde_json::{Value, json};

fn number(value: Known<Option<i64>>, flag: &str) -> Result<u64, InputError> {
    let missing = || InputError::new(Kind::MissingField).at(flag).expected("a number above zero");
    let n = value.map_err(|_| missing())?.ok_or_else(missing)?;
    u64::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| missing().found(n))
}

fn decided<T>(value: Known<T>, what: &str) -> Result<T, InputError> {
    value.map_err(|_| InputError::new(Kind::MissingField).at(what).help("the arguments do not decide it"))
}

/// A config that means the model of the launch, with remarks on what it leaves out.
///
/// # Errors
/// A size that is not given, a kind of model that no family of ours has.
pub fn model_config(l: &Launch) -> Result<(Value, Vec<String>), InputError> {
    let mut notes = Vec::new();
    let (layers, hidden) = (number(l.num_layers(), "--num-layers")?, number(l.hidden_size(), "--hidden-size")?);
    let heads = number(l.heads(), "--num-attention-heads")?;
    if !decided(l.hybrid_layer_pattern(), "--hybrid-layer-pattern")?.is_empty() {
        return Err(InputError::new(Kind::Unsupported)
            .at("--hybrid-layer-pattern")
            .expected("a model of attention layers; give --model for this one"));
    }
    let vocabulary = match l.vocab_size() {
        Ok(Some(n)) if n > 0 => n as u64,
        _ => {
            return Err(InputError::new(Kind::MissingField)
                .at("--vocab-size")
                .expected("the rows of the vocabulary, or --model"));
        }
    };
    let bias = decided(l.add_bias_linear(), "--disable-bias-linear")?;
    let gated = decided(l.swiglu(), "--swiglu")? || decided(l.quick_geglu(), "--quick-geglu")?;
    let ffn = decided(l.ffn(), "--ffn-hidden-size")?;
    let mut config = json!({
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocabulary,
        "max_position_embeddings": number(l.max_position_embeddings(), "--max-position-embeddings")?,
        "tie_word_embeddings": !decided(l.untie_embeddings(), "--untie-embeddings-and-output-weights")?,
        "attention_bias": bias,
    });
    let mut put = |key: &str, value: Value| config[key] = value;
    let mtp = decided(l.mtp(), "--mtp-num-layers")?.unwrap_or(0).max(0);
    if mtp > 0 {
        put("num_nextn_predict_layers", json!(mtp));
    }
    let experts = decided(l.experts(), "--num-experts")?;
    let pattern = decided(l.layer_freq(), "--moe-layer-freq")?.spread(layers);
    let dense: Vec<usize> = pattern.iter().enumerate().filter(|(_, n)| **n == 0).map(|(i, _)| i).collect();
    let leading = dense.iter().enumerate().all(|(i, layer)| i == *layer);
    if let Some(n) = experts {
        let width = decided(l.expert_ffn(), "--moe-ffn-hidden-size")?;
        put("num_experts_per_tok", json!(decided(l.topk(), "--moe-router-topk")?.unwrap_or(2)));
        put("moe_intermediate_size", json!(width));
        if !gated {
            notes.push("experts are taken to have a gate: no family has experts without one".to_owned());
        }
        let shared =
            decided(l.shared_expert_ffn(), "--moe-shared-expert-intermediate-size")?.unwrap_or(0).max(0) as u64;
        if decided(l.mla(), "--multi-latent-attention")? || shared > 0 && shared.is_multiple_of(width.max(1)) && leading
        {
            if !leading {
                return Err(InputError::new(Kind::Unsupported)
                    .at("--moe-layer-freq")
                    .expected("dense layers in front only, with latent attention; give --model for this one"));
            }
            put("n_routed_experts", json!(n));
            put("n_shared_experts", json!(shared / width.max(1)));
            put("first_k_dense_replace", json!(dense.len()));
            put("model_type", json!("dots1"));
        } else {
            put("num_experts", json!(n));
            put("decoder_sparse_step", json!(1));
            put("mlp_only_layers", json!(dense));
            if shared > 0 {
                put("shared_expert_intermediate_size", json!(shared));
            }
            put("model_type", json!(if shared > 0 { "qwen2_moe" } else { "qwen3_moe" }));
        }
    } else if first_generation(l, gated, bias)? {
        // GPT-2: learned positions, biases everywhere, as many key/value heads as query heads.
        put("model_type", json!("gpt2"));
        for (key, value) in [("n_layer", layers), ("n_embd", hidden), ("n_head", heads), ("n_inner", ffn)] {
            put(key, json!(value));
        }
        put("n_positions", json!(number(l.max_position_embeddings(), "--max-position-embeddings")?));
        for key in
            ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings"]
        {
            if let Some(fields) = config.as_object_mut() {
                fields.remove(key);
            }
        }
        if let Some(fields) = config.as_object_mut() {
            fields.remove("attention_bias");
        }
        return Ok((config, notes));
    } else if gated {
        put("model_type", json!("llama"));
        put("mlp_bias", json!(bias));
    } else {
        put("model_type", json!("nemotron"));
        put("mlp_bias", json!(bias));
    }
    if decided(l.mla(), "--multi-latent-attention")? {
        put("model_type", json!("deepseek_v3"));
        if experts.is_none() {
            put("n_routed_experts", json!(1));
            put("num_experts_per_tok", json!(1));
            put("moe_intermediate_size", json!(ffn));
            put("first_k_dense_replace", json!(layers));
        }
        let rank = decided(l.q_lora_rank(), "--q-lora-rank")?;
        put("q_lora_rank", rank.map_or(Value::Null, |n| json!(n)));
        put("kv_lora_rank", json!(number(l.kv_lora_rank(), "--kv-lora-rank")?));
        put("qk_nope_head_dim", json!(number(l.qk_head_dim(), "--qk-head-dim")?));
        put("qk_rope_head_dim", json!(number(l.qk_pos_emb_head_dim(), "--qk-pos-emb-head-dim")?));
        put("v_head_dim", json!(number(l.v_head_dim(), "--v-head-dim")?));
        put("num_key_value_heads", json!(heads));
    } else {
        put("num_key_value_heads", json!(decided(l.kv_groups(), "--num-query-groups")?));
        put("head_dim", json!(decided(l.kv_channels(), "--kv-channels")?));
    }
    Ok((config, notes))
}

/// Whether the arguments mean a block of GPT-2.
fn first_generation(l: &Launch, gated: bool, bias: bool) -> Result<bool, InputError> {
    let learned = decided(l.position_embedding_type(), "--position-embedding-type")? == "learned_absolute";
    let whole = decided(l.kv_groups(), "--num-query-groups").ok() == l.heads().ok().flatten();
    let wide = match (l.hidden_size(), l.heads(), l.kv_channels()) {
        (Ok(Some(hidden)), Ok(Some(heads)), Ok(channels)) => heads as u64 * channels == hidden as u64,
        _ => false,
    };
    let mla = decided(l.mla(), "--multi-latent-attention")?;
    Ok(learned && bias && !gated && whole && wide && !mla)
}

/// The job of a launch, with remarks.
///
/// # Errors
/// A batch or a sequence that is not decided.
pub fn job(l: &Launch) -> Result<(Job, Vec<String>), InputError> {
    let mut notes = Vec::new();
    let positive = |value: Known<i64>, flag: &str| {
        let missing = || InputError::new(Kind::MissingField).at(flag).expected("a number above zero");
        value.ok().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(missing)
    };
    let mut job =
        Job::new(positive(l.global_batch_size(), "--global-batch-size")?, positive(l.sequence(), "--seq-length")?);
    let on = |value: Known<bool>| value.unwrap_or(false);
    job.precision = match (l.fp8().is_ok_and(|f| !f.is_empty()), on(l.bf16()), on(l.fp16())) {
        (true, ..) => Precision::Fp8,
        (_, true, _) => Precision::Bf16,
        (_, _, true) => Precision::Fp16,
        _ => Precision::Fp32,
    };
    if on(l.grad_reduce_in_bf16()) && job.precision != Precision::Fp32 {
        job.gradients = Storage::Bf16;
    }
    let aware = on(l.precision_aware_optimizer());
    if aware && l.main_grads_dtype().is_ok_and(|d| d == "bf16") {
        job.gradients = Storage::Bf16;
    }
    if aware {
        job.moments = match l.exp_avg_dtype() {
            Ok("bf16") => Storage::Bf16,
            Ok("fp16") => Storage::Fp16,
            Ok("fp8") => Storage::Fp8,
            _ => Storage::Fp32,
        };
    }
    job.optimizer = match l.optimizer() {
        Ok("adam") => Optimizer::Adam,
        Ok("sgd") => Optimizer::Sgd,
        Ok(other) => {
            notes.push(format!("the optimizer {other} is priced as one with one moment"));
            Optimizer::Sgd
        }
        Err(_) => Optimizer::Adam,
    };
    job.mtp = l.mtp().is_ok_and(|n| n.is_some_and(|n| n > 0));
    Ok((job, notes))
}
