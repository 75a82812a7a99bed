//! The counts follow from the families' rules and not from the files: every reference config, with its sizes changed,
//! equals a closed formula written here from the papers, apart from the import.

use espalier::model::import::from_json;
use espalier::reference;
use serde_json::{Map, Value, json};

type Config = Map<String, Value>;

fn get(c: &Config, key: &str) -> Option<u64> {
    c.get(key).and_then(Value::as_u64)
}
fn need(c: &Config, key: &str) -> u64 {
    get(c, key).unwrap_or_else(|| panic!("{key}"))
}
fn flag(c: &Config, key: &str, default: bool) -> u64 {
    u64::from(c.get(key).and_then(Value::as_bool).unwrap_or(default))
}

/// Total and active parameters.
type Count = (u64, u64);

/// Gated experts behind a router, `shared` further columns of shared experts.
fn moe(h: u64, experts: u64, top_k: u64, f: u64, shared: u64) -> Count {
    let rest = h * experts + 3 * h * shared;
    (rest + experts * 3 * h * f, rest + top_k * 3 * h * f)
}

fn add(a: Count, b: Count, times: u64) -> Count {
    (a.0 + times * b.0, a.1 + times * b.1)
}

fn both(n: u64) -> Count {
    (n, n)
}

/// Embedding, final norm and a head of its own unless tied.
fn frame(c: &Config, tied_by_default: bool, h: u64) -> Count {
    let tables = 2 - flag(c, "tie_word_embeddings", tied_by_default);
    both(tables * need(c, "vocab_size") * h + h)
}

fn grouped(c: &Config) -> (u64, u64, u64, u64) {
    let (h, a) = (need(c, "hidden_size"), need(c, "num_attention_heads"));
    let k = get(c, "num_key_value_heads").unwrap_or(a);
    (h, a, k, get(c, "head_dim").unwrap_or(h / a))
}

/// Q, K, V, O of grouped-query attention without biases.
fn projections(c: &Config) -> u64 {
    let (h, a, k, d) = grouped(c);
    2 * h * d * (a + k)
}

fn latent_layer(c: &Config) -> u64 {
    let (h, a) = (need(c, "hidden_size"), need(c, "num_attention_heads"));
    let (nope, rope, v) = (need(c, "qk_nope_head_dim"), need(c, "qk_rope_head_dim"), need(c, "v_head_dim"));
    let kv = need(c, "kv_lora_rank");
    let q = get(c, "q_lora_rank").map_or(h * a * (nope + rope), |r| h * r + r + r * a * (nope + rope));
    q + h * (kv + rope) + kv + kv * a * (nope + v) + a * v * h + 2 * h
}

fn latent(c: &Config) -> Count {
    let (h, layers) = (need(c, "hidden_size"), need(c, "num_hidden_layers"));
    let dense = get(c, "first_k_dense_replace").unwrap_or(0);
    let dense = match c.get("mlp_layer_types").and_then(Value::as_array) {
        Some(list) => list.iter().filter(|t| *t == "dense").count() as u64,
        None => dense,
    };
    let f = need(c, "moe_intermediate_size");
    let experts = (need(c, "n_routed_experts"), need(c, "num_experts_per_tok"));
    let routed = moe(h, experts.0, experts.1, f, need(c, "n_shared_experts") * f);
    let indexers = match (c.get("indexer_types").and_then(Value::as_array), get(c, "index_n_heads")) {
        (Some(list), _) => list.iter().filter(|t| *t == "full").count() as u64,
        (None, Some(_)) => layers,
        (None, None) => 0,
    };
    let indexer = |c: &Config| {
        let (n, d) = (need(c, "index_n_heads"), need(c, "index_head_dim"));
        need(c, "q_lora_rank") * n * d + h * d + 2 * d + h * n
    };
    let mut sum = add(frame(c, false, h), both(latent_layer(c)), layers);
    sum = add(sum, both(3 * h * need(c, "intermediate_size")), dense);
    sum = add(sum, routed, layers - dense);
    if indexers > 0 { add(sum, both(indexer(c)), indexers) } else { sum }
}

/// The closed formula of the families that have one of moderate length.
fn formula(c: &Config) -> Option<Count> {
    let family = c["model_type"].as_str()?;
    if matches!(family, "gpt2" | "bloom") {
        let h = get(c, "n_embd").or(get(c, "hidden_size"))?;
        let f = get(c, "n_inner").unwrap_or(4 * h);
        let layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h;
        let beside = if family == "gpt2" { need(c, "n_positions") * h } else { 2 * h };
        return Some(both(need(c, "n_layer") * layer + beside + frame(c, true, h).0 + h));
    }
    if family == "gpt_neox" {
        let (h, f) = (need(c, "hidden_size"), need(c, "intermediate_size"));
        let layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h;
        return Some(both(need(c, "num_hidden_layers") * layer + frame(c, false, h).0 + h));
    }
    if family == "t5" {
        let (h, inner, f) = (need(c, "d_model"), need(c, "d_kv") * need(c, "num_heads"), need(c, "d_ff"));
        let gated = c.get("feed_forward_proj").is_some_and(|v| v.as_str().unwrap().starts_with("gated"));
        let feed = if gated { 3 } else { 2 } * h * f + h;
        let attention = 4 * h * inner + h;
        let encoders = need(c, "num_layers");
        let decoders = get(c, "num_decoder_layers").unwrap_or(encoders);
        let layers = encoders * (attention + feed) + decoders * (2 * attention + feed);
        return Some(both(layers + 2 * 32 * need(c, "num_heads") + h + frame(c, true, h).0));
    }
    if matches!(family, "deepseek_v2" | "deepseek_v3" | "kimi_k2" | "deepseek_v32" | "glm_moe_dsa") {
        return Some(latent(c));
    }
    get(c, "hidden_size")?;
    let (h, a, k, d) = grouped(c);
    let layers = need(c, "num_hidden_layers");
    let (q, kv) = (a * d, k * d);
    let f = get(c, "intermediate_size");
    let dense = || both(3 * h * f.unwrap());
    let attention = projections(c) + 2 * h;
    let uniform = |extra: u64, feed: Count, tied: bool| {
        Some(add(add(frame(c, tied, h), both(attention + extra), layers), feed, layers))
    };
    let experts = |key: &str, f: u64, shared: u64| moe(h, need(c, key), need(c, "num_experts_per_tok"), f, shared);
    let bias = flag(c, "attention_bias", false);
    match family {
        "llama" => uniform(bias * (q + 2 * kv + h) + flag(c, "mlp_bias", false) * (2 * f? + h), dense(), false),
        "mistral" | "phi3" => uniform(0, dense(), false),
        "qwen2" => uniform(q + 2 * kv, dense(), false),
        "qwen3" => uniform(2 * d + bias * (q + 2 * kv + h), dense(), false),
        "glm" => uniform(flag(c, "attention_bias", true) * (q + 2 * kv), dense(), false),
        "gemma2" => uniform(2 * h, dense(), true),
        "mixtral" => uniform(0, experts("num_local_experts", f?, 0), false),
        "olmoe" => uniform(q + kv, experts("num_experts", f?, 0), false),
        "minimax_m2" => uniform(q + kv, experts("num_local_experts", f?, 0), false),
        "qwen3_moe" => uniform(2 * d, experts("num_experts", need(c, "moe_intermediate_size"), 0), false),
        "gpt_oss" => {
            let (e, top) = (need(c, "num_local_experts"), need(c, "num_experts_per_tok"));
            let biases = (e + e * (2 * f? + h), e + top * (2 * f? + h));
            let routed = add(experts("num_local_experts", f?, 0), biases, 1);
            uniform(a + q + 2 * kv + h, routed, false)
        }
        "glm4_moe" => {
            let f = need(c, "moe_intermediate_size");
            let routed = experts("n_routed_experts", f, f * need(c, "n_shared_experts"));
            let first = need(c, "first_k_dense_replace");
            let extra = bias * (q + 2 * kv) + flag(c, "use_qk_norm", false) * 2 * d;
            let sum = add(frame(c, false, h), both(attention + extra), layers);
            Some(add(add(sum, dense(), first), routed, layers - first))
        }
        _ => None,
    }
}

/// Keys with a value per layer, cut or repeated along with the number of layers.
fn fit_lists(c: &mut Config, layers: u64) {
    for key in ["layer_types", "mlp_layer_types", "indexer_types"] {
        if let Some(Value::Array(list)) = c.get_mut(key) {
            *list = list.iter().cycle().take(layers as usize).cloned().collect();
        }
    }
}

/// A named change to a config.
type Change = (&'static str, Box<dyn Fn(&mut Config)>);

fn changes() -> Vec<Change> {
    fn set(key: &'static str, to: impl Fn(u64) -> u64 + 'static) -> Change {
        (
            key,
            Box::new(move |c: &mut Config| {
                if let Some(n) = get(c, key) {
                    c.insert(key.into(), to(n).into());
                }
            }),
        )
    }
    let layers = |key: &'static str, to: u64| -> Change {
        (
            key,
            Box::new(move |c: &mut Config| {
                if c.contains_key(key) {
                    c.insert(key.into(), to.into());
                    fit_lists(c, to);
                }
            }),
        )
    };
    let flip: Change = (
        "tie_word_embeddings",
        Box::new(|c| {
            let tied = c.get("tie_word_embeddings").is_some_and(|v| v == true);
            c.insert("tie_word_embeddings".into(), json!(!tied));
        }),
    );
    let untie: Change = ("no tie", Box::new(|c| drop(c.remove("tie_word_embeddings"))));
    vec![
        ("nothing", Box::new(|_| {})),
        layers("num_hidden_layers", 7),
        layers("num_hidden_layers", 129),
        layers("n_layer", 5),
        set("num_layers", |n| n + 3),
        set("num_decoder_layers", |_| 11),
        set("vocab_size", |n| n + 77),
        set("intermediate_size", |n| n + 64),
        set("moe_intermediate_size", |n| 2 * n),
        set("d_ff", |n| n / 2),
        set("d_kv", |_| 40),
        set("head_dim", |_| 80),
        set("hidden_size", |n| 2 * n),
        set("n_embd", |n| 2 * n),
        set("num_key_value_heads", |n| n / 2 + n % 2),
        set("num_experts", |n| n + 16),
        set("num_local_experts", |n| n + 16),
        set("n_routed_experts", |n| n / 2),
        set("num_experts_per_tok", |n| n + 1),
        set("n_shared_experts", |n| n + 1),
        set("first_k_dense_replace", |n| n + 1),
        set("kv_lora_rank", |n| n + 32),
        set("q_lora_rank", |n| n + 32),
        set("v_head_dim", |n| n + 8),
        set("qk_nope_head_dim", |n| n + 8),
        set("index_n_heads", |n| n / 2),
        flip,
        untie,
    ]
}

#[test]
fn changed_configs_follow_the_closed_formula_of_their_family() {
    let Some(folder) = reference::path("hf/configs") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let (mut wrong, mut checked, mut with_formula) = (Vec::new(), 0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let base: Config = serde_json::from_str(&text).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if formula(&base).is_none() {
            continue;
        }
        with_formula += 1;
        for (what, change) in changes() {
            let mut config = base.clone();
            change(&mut config);
            let expected = formula(&config).unwrap();
            match from_json(&name, &Value::Object(config).to_string(), None) {
                Ok(model) => {
                    let found = (model.parameters_total(), model.parameters_active());
                    if found != expected {
                        wrong.push(format!("{name}, {what}: {found:?}, expected {expected:?}"));
                    }
                    checked += 1;
                }
                Err(e) => wrong.push(format!("{name}, {what}: {e}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(with_formula >= 38, "only {with_formula} files have a formula");
}

/// Vision-language and hybrid files: what one change adds to the whole is what it adds to the part that it changes.
#[test]
fn changes_inside_text_and_vision_parts_add_what_they_should() {
    let Some(folder) = reference::path("hf/configs") else { return };
    let total = |config: &Value| from_json("changed", &config.to_string(), None).unwrap().parameters_total();
    for (file, section) in [
        ("Qwen__Qwen2-VL-7B-Instruct.json", None),
        ("Qwen__Qwen3-VL-2B-Instruct.json", Some("text_config")),
        ("Qwen__Qwen3-VL-32B-Instruct.json", Some("text_config")),
        ("Qwen__Qwen3.5-27B.json", Some("text_config")),
        ("meta-llama__Llama-4-Maverick-17B-128E-Instruct.json", Some("text_config")),
        ("google__gemma-4-26B-A4B.json", Some("text_config")),
    ] {
        let base: Value = serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap();
        let part = |c: &Value| section.map_or(c.clone(), |s| c[s].clone());
        let h = part(&base)["hidden_size"].as_u64().unwrap();
        let edit = |key: &str, to: u64| {
            let mut changed = base.clone();
            match section {
                Some(s) => changed[s][key] = to.into(),
                None => changed[key] = to.into(),
            }
            changed
        };
        // One more token costs a row of the embedding, and a row of the head unless tied.
        let vocab = part(&base)["vocab_size"].as_u64().unwrap();
        let tied = base["tie_word_embeddings"] == true;
        assert_eq!(total(&edit("vocab_size", vocab + 1)) - total(&base), if tied { h } else { 2 * h }, "{file}");
        // One more column of a dense MLP costs three rows in every dense layer.
        let dense_key = if file.contains("Llama-4") { "intermediate_size_mlp" } else { "intermediate_size" };
        let dense_layers =
            if file.contains("Llama-4") { 24 } else { part(&base)["num_hidden_layers"].as_u64().unwrap() };
        let width = part(&base)[dense_key].as_u64().unwrap();
        assert_eq!(total(&edit(dense_key, width + 1)) - total(&base), 3 * h * dense_layers, "{file}");
        // One more layer of the tower costs its four projections, its MLP and its norms.
        let Some(depth) = base["vision_config"]["depth"].as_u64() else { continue };
        let vision = |key: &str| base["vision_config"][key].as_u64();
        let v = vision("embed_dim").or(vision("hidden_size")).unwrap();
        let f = vision("mlp_ratio").map_or_else(|| vision("intermediate_size").unwrap(), |r| r * v);
        let mut deeper = base.clone();
        deeper["vision_config"]["depth"] = (depth + 1).into();
        let layer = 4 * v * v + 4 * v + 2 * v * f + f + v + 4 * v;
        assert_eq!(total(&deeper) - total(&base), layer, "{file}");
    }
}
