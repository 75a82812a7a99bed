//! A wrong config gets an error that names file, field, what was found and what would be right; nothing panics.

use espalier::model::import::{families, from_json, from_path};
use espalier::model::{Model, ModelError};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn llama() -> Value {
    json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 32})
}

fn mixtral() -> Value {
    let mut c = llama();
    merge(&mut c, json!({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}));
    c
}

fn merge(into: &mut Value, from: Value) {
    for (key, value) in from.as_object().unwrap() {
        into[key] = value.clone();
    }
}

fn import(config: &Value) -> Result<Model, ModelError> {
    from_json("some.json", &config.to_string(), None)
}

/// The error of `base` with `change`.
fn refused(mut base: Value, change: Value) -> ModelError {
    merge(&mut base, change.clone());
    match import(&base) {
        Err(e) => {
            assert_eq!(&*e.details().file, "some.json");
            e
        }
        Ok(_) => panic!("accepted {change}"),
    }
}

/// Kind, field, found, expected.
fn parts(e: &ModelError) -> (&str, &str, &str, &str) {
    let d = e.details();
    let [field, found, expected] = [&d.field, &d.found, &d.expected].map(|s| s.as_deref().unwrap_or_default());
    (e.kind(), field, found, expected)
}

#[test]
fn a_missing_field_is_named_with_the_key_that_was_perhaps_meant() {
    for key in ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"] {
        let mut config = llama();
        config.as_object_mut().unwrap().remove(key);
        let error = import(&config).unwrap_err();
        assert_eq!((error.kind(), error.details().field.as_deref()), ("missing_field", Some(key)));
    }
    let mut config = llama();
    config.as_object_mut().unwrap().remove("num_hidden_layers");
    config["num_hiden_layers"] = 2.into();
    let error = import(&config).unwrap_err();
    assert!(error.details().help.as_ref().unwrap().contains("num_hiden_layers"), "{error}");
    for key in ["num_local_experts", "num_experts_per_tok"] {
        let mut config = mixtral();
        config.as_object_mut().unwrap().remove(key);
        assert_eq!(import(&config).unwrap_err().kind(), "missing_field");
    }
}

#[test]
fn a_mistyped_field_says_what_it_is_and_what_it_should_be() {
    let range = "an integer from 1 to 10000000";
    assert_eq!(
        parts(&refused(llama(), json!({"hidden_size": "64"}))),
        ("wrong_type", "hidden_size", "the text \"64\"", range)
    );
    assert_eq!(parts(&refused(llama(), json!({"hidden_size": 64.5}))), ("wrong_type", "hidden_size", "64.5", range));
    assert_eq!(parts(&refused(llama(), json!({"hidden_size": true}))), ("wrong_type", "hidden_size", "true", range));
    assert_eq!(
        parts(&refused(llama(), json!({"hidden_size": [64]}))),
        ("wrong_type", "hidden_size", "a list of 1", range)
    );
    assert_eq!(
        parts(&refused(llama(), json!({"tie_word_embeddings": "true"}))),
        ("wrong_type", "tie_word_embeddings", "the text \"true\"", "true or false")
    );
    assert_eq!(
        parts(&refused(llama(), json!({"attention_bias": 1}))),
        ("wrong_type", "attention_bias", "1", "true or false")
    );
    assert_eq!(parts(&refused(llama(), json!({"model_type": 7}))), ("wrong_type", "model_type", "7", "a text"));
    assert_eq!(refused(llama(), json!({"model_type": "gemma2", "layer_types": "full_attention"})).kind(), "wrong_type");
}

#[test]
fn zero_negative_and_absurd_values_are_out_of_range() {
    for (key, value) in [
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(-3)),
        ("num_hidden_layers", json!(1_000_000)),
        ("hidden_size", json!(0)),
        ("hidden_size", json!(u64::MAX)),
        ("vocab_size", json!(0)),
        ("num_attention_heads", json!(0)),
        ("num_key_value_heads", json!(0)),
        ("intermediate_size", json!(-1)),
        ("head_dim", json!(100_000_000)),
    ] {
        let error = refused(llama(), json!({ key: value }));
        let (kind, field, found, expected) = parts(&error);
        assert_eq!((kind, field, found), ("out_of_range", key, value.to_string().as_str()));
        assert!(expected.starts_with("an integer from 1 to "), "{error}");
    }
    let huge = json!({"hidden_size": 10_000_000, "intermediate_size": 10_000_000, "num_hidden_layers": 10_000});
    assert_eq!(refused(llama(), huge).kind(), "out_of_range");
    assert_eq!(refused(mixtral(), json!({"num_experts_per_tok": 0})).kind(), "out_of_range");
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let kind = |base: Value, change: Value| refused(base, change).kind();
    assert_eq!(
        parts(&refused(llama(), json!({"num_key_value_heads": 3}))),
        ("contradiction", "num_key_value_heads", "3", "a divisor of num_attention_heads = 4")
    );
    assert_eq!(
        parts(&refused(llama(), json!({"num_attention_heads": 7, "num_key_value_heads": 7}))),
        ("contradiction", "num_attention_heads", "7", "a divisor of hidden_size = 64")
    );
    assert_eq!(
        parts(&refused(mixtral(), json!({"num_experts_per_tok": 9}))),
        ("contradiction", "num_experts_per_tok", "9", "at most the number of experts = 4")
    );
    assert_eq!(kind(mixtral(), json!({"num_experts": 5})), "contradiction");
    let gemma = json!({"model_type": "gemma2", "sliding_window": 8});
    let mut base = llama();
    merge(&mut base, gemma);
    assert!(import(&base).is_ok());
    let three = json!({"layer_types": ["full_attention", "sliding_attention", "full_attention"]});
    assert_eq!(parts(&refused(base.clone(), three)), ("contradiction", "layer_types", "3 entries", "2, one per layer"));
    let error = refused(base.clone(), json!({"layer_types": ["full_attention", "slidding_attention"]}));
    assert_eq!(error.details().help.as_deref(), Some("did you mean \"sliding_attention\"?"));
    let error = refused(base, json!({"sliding_window": null}));
    assert_eq!((error.kind(), error.details().field.as_deref()), ("missing_field", Some("sliding_window")));
    let qwen = json!({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 8, "mlp_only_layers": [5]});
    assert_eq!(parts(&refused(llama(), qwen)).0, "contradiction");
}

#[test]
fn a_misspelt_or_foreign_field_that_would_change_the_costs_is_not_passed_over() {
    let error = refused(llama(), json!({"num_key_value_head": 1, "num_key_value_heads": null}));
    assert_eq!(error.kind(), "unknown_field");
    assert_eq!(error.details().help.as_deref(), Some("did you mean `num_key_value_heads`?"));
    let error = refused(llama(), json!({"num_experts": 8}));
    assert_eq!((error.kind(), error.details().field.as_deref()), ("unsupported", Some("num_experts")));
    assert_eq!(refused(llama(), json!({"kv_lora_rank": 512})).kind(), "unsupported");
    let mut config = llama();
    merge(
        &mut config,
        json!({"sliding_window": 16, "rope_theta": 1e4, "quantization_config": {"quant_method": "fp8"}}),
    );
    let notes = import(&config).unwrap().notes.join("\n");
    assert!(notes.contains("sliding_window") && notes.contains("quantization_config"), "{notes}");
    assert!(!notes.contains("rope_theta"));
}

#[test]
fn a_field_of_a_section_is_named_with_its_path() {
    let mut text = llama();
    text["num_attention_heads"] = json!("4");
    let config = json!({"model_type": "qwen3_vl", "text_config": text, "vision_config": {}});
    let error = import(&config).unwrap_err();
    assert_eq!(error.details().field.as_deref(), Some("text_config.num_attention_heads"));
    let config = json!({"model_type": "qwen3_vl", "text_config": llama(), "vision_config": {"num_heads": 4}});
    let error = import(&config).unwrap_err();
    assert_eq!(error.details().field.as_deref(), Some("vision_config.depth"));
    let config = json!({"model_type": "qwen3_vl", "text_config": 3});
    assert_eq!(import(&config).unwrap_err().kind(), "wrong_type");
}

#[test]
fn an_unknown_family_names_the_nearest_and_may_be_treated_as_another() {
    for (found, near) in
        [("lama", "llama"), ("qwen4", "qwen2"), ("deepseek-v3", "deepseek_v3"), ("T5", "t5"), ("", "bert")]
    {
        let error = refused(llama(), json!({"model_type": found}));
        assert_eq!((error.kind(), error.details().field.as_deref()), ("unknown_family", Some("model_type")));
        assert!(error.details().help.as_ref().unwrap().contains(&format!("`{near}`")), "{error}");
        assert!(error.to_string().contains("treat it as `llama`"), "{error}");
    }
    let mut config = llama();
    config["model_type"] = json!("my_own_llama");
    let model = from_json("x", &config.to_string(), Some("llama")).unwrap();
    assert_eq!(model.parameters_total(), import(&llama()).unwrap().parameters_total());
    assert!(model.notes[0].contains("treated as `llama`"), "{:?}", model.notes);
    config.as_object_mut().unwrap().remove("model_type");
    assert_eq!(import(&config).unwrap_err().kind(), "missing_field");
    assert!(from_json("x", &config.to_string(), Some("llama")).is_ok());
    let error = from_json("x", &config.to_string(), Some("llamma")).unwrap_err();
    assert_eq!(error.kind(), "unknown_family");
    // The text part of a vision-language config can be planned alone.
    let both = json!({"model_type": "new_vl", "text_config": llama(), "vision_config": {"depth": 2}});
    let model = from_json("x", &both.to_string(), Some("llama")).unwrap();
    assert_eq!((model.towers.len(), model.parameters_vision()), (1, 0));
    assert!(model.notes.iter().any(|n| n.contains("vision_config")), "{:?}", model.notes);
}

/// A folder of this test alone, removed at the end.
struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("espalier-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_is_no_config_says_so() {
    let folder = Folder::new("configs");
    let error = |path: &Path| {
        let error = from_path(path, None).unwrap_err();
        assert_eq!(*error.details().file, path.display().to_string());
        error
    };
    let text = llama().to_string();
    for cut in [0, 1, 30, text.len() - 1] {
        let path = folder.file("cut.json", &text.as_bytes()[..cut]);
        let error = error(&path);
        assert_eq!(error.kind(), "syntax");
        assert!(error.to_string().contains("truncated"), "{error}");
    }
    assert_eq!(error(&folder.file("list.json", b"[1]")).kind(), "syntax");
    assert_eq!(error(&folder.file("more.json", format!("{text} 1").as_bytes())).kind(), "syntax");
    assert_eq!(error(&folder.file("twice.json", br#"{"a": 1, "a": 2}"#)).kind(), "syntax");
    assert_eq!(error(&folder.file("bytes.json", &[0xff, 0xfe, 0x00])).kind(), "unreadable");
    assert_eq!(error(&folder.file("deep.json", "[".repeat(100_000).as_bytes())).kind(), "syntax");
    assert_eq!(error(&folder.0.join("absent.json")).kind(), "unreadable");
    folder.file("config.json", text.as_bytes());
    let directory = error(&folder.0);
    assert_eq!((directory.kind(), directory.details().found.as_deref()), ("unreadable", Some("a directory")));
    assert!(directory.details().help.as_ref().unwrap().contains("config.json"), "{directory}");
    let model = from_path(&folder.0.join("config.json"), None).unwrap();
    assert_eq!(Some(model.name.as_str()), folder.0.file_name().and_then(|n| n.to_str()));
}

/// Values that a field may be given by mistake.
fn junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..70_000).prop_map(Value::from),
        (0u64..9).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_]{0,12}".prop_map(Value::from),
        prop::collection::vec(0u64..5, 0..4).prop_map(Value::from),
        prop::collection::vec("(full|sliding|chunked|linear)_attention", 0..4).prop_map(Value::from),
        Just(json!({})),
        Just(json!({"hidden_size": 8, "depth": 1, "num_heads": 2})),
    ]
}

/// Small configs of every family that the counts are held to.
fn samples() -> Vec<Value> {
    let lines = include_str!("data/hf_counts.jsonl").lines();
    lines.map(|l| serde_json::from_str::<Value>(l).unwrap()["config"].clone()).collect()
}

/// Puts `value` under the n-th key of the config or of one of its sections.
fn spoil(config: &mut Value, n: usize, value: Value) {
    let mut paths = Vec::new();
    for (key, inner) in config.as_object().unwrap() {
        paths.push((key.clone(), None));
        paths.extend(inner.as_object().into_iter().flatten().map(|(k, _)| (key.clone(), Some(k.clone()))));
    }
    match &paths[n % paths.len()] {
        (key, None) => config[key] = value,
        (key, Some(inner)) => config[key][inner] = value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_configs_are_imported_or_refused_but_never_panic(
        pick in any::<prop::sample::Index>(),
        spoils in prop::collection::vec((any::<usize>(), junk()), 1..4),
    ) {
        let samples = samples();
        let mut config = pick.get(&samples).clone();
        for (n, value) in spoils {
            spoil(&mut config, n, value);
        }
        match import(&config) {
            Ok(model) => {
                prop_assert!(model.parameters_total() > 0 && model.parameters_active() <= model.parameters_total());
            }
            Err(e) => prop_assert!(!e.to_string().is_empty() && &*e.details().file == "some.json"),
        }
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in ".{0,80}", family in prop::sample::select(families())) {
        prop_assert!(from_json("x", &text, Some(family)).is_err());
    }
}
