//! Questions: the named searches, what may be written, and every kind of bad input.

use espalier::cluster::instances;
use espalier::error::Kind;
use espalier::job::{Job, Precision, Storage};
use espalier::question::{ClusterSource, Dim, ModelSource, Question, SearchOptions};
use espalier::reference;
use espalier::units::Seconds;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const SMALL: &str = "(model: \"llama3-8b\", cluster: \"h100x8\", job: (global_batch: 8, sequence: 4096))";

fn named_searches() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("search_configs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "ron"));
    files.sort();
    files
}

fn named(stem: &str) -> Question {
    Question::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("search_configs/{stem}.ron"))).unwrap()
}

#[test]
fn every_named_search_reads_names_a_model_and_a_cluster_and_says_what_it_is_for() {
    let files = named_searches();
    assert!(files.len() >= 7);
    for file in files {
        let question = Question::load(&file).unwrap_or_else(|e| panic!("{e}"));
        question.resolve().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("// "), "{} has no comment", file.display());
    }
}

#[test]
fn questions_are_written_so_that_they_read_back_in_ron_and_json() {
    for file in named_searches() {
        let question = Question { folder: PathBuf::new(), ..Question::load(&file).unwrap() };
        let ron = question.to_ron().unwrap();
        assert_eq!(Question::parse(&ron, "q.ron").unwrap(), question, "{ron}");
        let json = serde_json::to_string(&question).unwrap();
        assert_eq!(Question::parse(&json, "q").unwrap(), question, "{json}");
    }
}

#[test]
fn the_expert_questions_are_asked_as_their_sources_ask_them() {
    let Some(path) = reference::path("cases/expert_questions.json") else { return };
    let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let asked = [
        ("llama3_70b_64xh100", "Llama-3.1-70B", 64),
        ("deepseek_v3_2048xh800", "DeepSeek-V3", 2048),
        ("llama31_405b_16384xh100", "Llama-3.1-405B", 16384),
        ("qwen3_30b_a3b_64xh100", "Qwen3-30B-A3B", 64),
    ];
    for (stem, model, devices) in asked {
        let texts = cases.as_array().unwrap().iter().map(|case| case["question"].as_str().unwrap());
        let text = texts.into_iter().find(|text| text.starts_with(model)).unwrap();
        let after = |key: &str| -> u64 {
            let rest = &text[text.find(key).unwrap() + key.len()..];
            rest.chars().skip_while(|c| *c == ' ').take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        let question = named(stem);
        assert_eq!(question.job.global_batch, after("GBS"), "{stem}");
        assert_eq!(question.job.sequence, after("seq"), "{stem}");
        assert_eq!(question.cluster().unwrap().devices(), devices, "{stem}");
        let precision = if text.contains("FP8") { Precision::Fp8 } else { Precision::Bf16 };
        assert_eq!(question.job.precision, precision, "{stem}");
    }
}

#[test]
fn what_is_not_said_has_the_usual_value() {
    let question = Question::parse(SMALL, "q").unwrap();
    assert_eq!(question.job, Job::new(8, 4096));
    assert_eq!(question.search, SearchOptions::default());
    assert_eq!(question.model, ModelSource::Preset("llama3-8b".to_owned()));
    assert_eq!(question.cluster, ClusterSource::Shorthand("h100x8".to_owned()));
    assert_eq!(question.cluster().unwrap(), instances::cluster("h100x8").unwrap());
}

#[test]
fn everything_can_be_said() {
    let text = r#"(
        model: (path: "models/mine.json", treat_as: "llama"),
        cluster: "clusters/mine.ron",
        job: (
            global_batch: 64, sequence: 4096, encoder_sequence: 512, vision_tokens: 1024, precision: fp8,
            gradients: bf16, moments: fp8, optimizer: sgd, memory_limit: "70GiB", tokens: 1e12, mtp: false,
            expert_imbalance: 1.3,
        ),
        search: (
            backend: "beam", seed: 7, max_evals: 1000, max_time: "2min", target_gap: 0.01, top: 3, threads: 2,
            target: "megatron", fix: ["tp=4|8", "zero=1..2"], forbid: ["recompute=full", "sp=ulysses"],
        ),
    )"#;
    let question = Question::parse(text, "q.ron").unwrap();
    assert_eq!(question.job.moments, Storage::Fp8);
    assert_eq!(question.search.max_time, Some(Seconds(120.0)));
    let treat_as = Some("llama".to_owned());
    assert_eq!(question.model, ModelSource::Path { path: "models/mine.json".to_owned(), treat_as });
    let search = &question.search;
    assert_eq!([1, 2, 4, 8].map(|n| search.admits(Dim::Tp, n)), [false, false, true, true]);
    assert_eq!([0, 1, 2, 3].map(|n| search.admits(Dim::Zero, n)), [false, true, true, false]);
    assert!(search.admits(Dim::Pp, 17));
    assert_eq!(["none", "full"].map(|n| search.admits_name(Dim::Recompute, n)), [true, false]);
    assert_eq!(["megatron", "ulysses"].map(|n| search.admits_name(Dim::Sp, n)), [true, false]);
}

#[test]
fn cluster_files_are_found_beside_the_question() {
    let folder = std::env::temp_dir().join(format!("espalier-question-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mine.ron"), "(pools: [\"a100x8:2\"])").unwrap();
    std::fs::write(folder.join("q.ron"), SMALL.replace("h100x8", "mine.ron")).unwrap();
    let question = Question::load(&folder.join("q.ron")).unwrap();
    assert_eq!(question.cluster().unwrap().devices(), 16);
    std::fs::write(folder.join("mine.ron"), "(pools: [\"a100x8:0\"])").unwrap();
    let error = question.cluster().unwrap_err();
    assert!(error.file.as_deref().unwrap().ends_with("mine.ron"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(question.cluster().unwrap_err().kind, Kind::Unreadable);
}

#[test]
fn a_model_can_be_written_in_place_or_lie_beside_the_question() {
    let (model, cluster) = named("four_devices").resolve().unwrap();
    assert_eq!((model.towers.last().unwrap().layers.len(), cluster.devices()), (12, 4));

    let unknown = Question::parse(&SMALL.replace("llama3-8b", "lama3-8b"), "q").unwrap().model().unwrap_err();
    assert_eq!((unknown.kind, unknown.field.as_deref()), (Kind::UnknownName, Some("model")));
    assert!(unknown.help.unwrap().contains("llama3-8b"));

    let misspelt = r#"(config: {"model_type": "gpt2", "n_layer": 12, "n_embd": 0})"#;
    let question = Question::parse(&SMALL.replace("\"llama3-8b\"", misspelt), "q").unwrap();
    let error = question.model().unwrap_err();
    assert!(error.field.as_deref().unwrap().starts_with("model.config."), "{error}");
    assert_eq!(error.file, None);

    let Some(configs) = reference::path("hf/configs") else { return };
    let mut files: Vec<PathBuf> = std::fs::read_dir(configs).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let file = files.into_iter().find(|f| f.extension().is_some_and(|e| e == "json")).unwrap();
    let model = ModelSource::from(file.to_str().unwrap()).resolve(Path::new("elsewhere"));
    assert!(!model.unwrap().classes.is_empty());
}

#[test]
fn a_precision_that_the_device_lacks_is_refused() {
    let text = std::fs::read_to_string(&named_searches()[1]).unwrap();
    assert!(text.contains("150TFLOP/s"));
    let question = Question::parse(&text.replace("precision: bf16", "precision: fp8"), "q").unwrap();
    let error = question.resolve().unwrap_err();
    assert_eq!((error.kind, error.field.as_deref()), (Kind::Unsupported, Some("job.precision")));
}

#[test]
fn every_kind_of_bad_question_is_refused_by_field() {
    let long = SMALL.replace("4096))", "4096), search: (top: 1))");
    let cases = [
        ("model: \"llama3-8b\", ", "", Kind::MissingField, "model"),
        ("model:", "modle:", Kind::UnknownField, "modle"),
        ("\"llama3-8b\"", "3", Kind::InvalidValue, "model"),
        ("\"llama3-8b\"", "(preset: \"a\", path: \"b\")", Kind::InvalidValue, "model"),
        ("\"llama3-8b\"", "(config: 3)", Kind::InvalidValue, "model"),
        ("\"llama3-8b\"", "()", Kind::InvalidValue, "model"),
        ("\"llama3-8b\"", "(prest: \"a\")", Kind::UnknownField, "model.prest"),
        ("\"h100x8\"", "(pools: [(nodse: 1)])", Kind::UnknownField, "cluster.pools[0].nodse"),
        ("global_batch: 8", "global_batch: 0", Kind::InvalidValue, "job.global_batch"),
        ("global_batch: 8", "global_batch: 2000000000", Kind::InvalidValue, "job.global_batch"),
        ("global_batch: 8", "global_batch: 8.5", Kind::Syntax, "job"),
        ("global_batch: 8", "global_batch: \"8\"", Kind::InvalidValue, "job.global_batch"),
        ("global_batch: 8, ", "", Kind::MissingField, "job.global_batch"),
        ("sequence: 4096", "sequence: 200000000", Kind::InvalidValue, "job.sequence"),
        ("sequence: 4096", "sequence: 4096, precision: bf61", Kind::UnknownName, "job.precision"),
        ("sequence: 4096", "sequence: 4096, tokens: 0.0", Kind::InvalidValue, "job.tokens"),
        ("sequence: 4096", "sequence: 4096, expert_imbalance: 0.9", Kind::InvalidValue, "job.expert_imbalance"),
        ("sequence: 4096", "sequence: 4096, memory_limit: \"0GB\"", Kind::InvalidValue, "job.memory_limit"),
        ("top: 1", "top: 0", Kind::InvalidValue, "search.top"),
        ("top: 1", "max_evals: 0", Kind::InvalidValue, "search.max_evals"),
        ("top: 1", "max_time: \"0s\"", Kind::InvalidValue, "search.max_time"),
        ("top: 1", "max_time: inf", Kind::InvalidValue, "search.max_time"),
        ("top: 1", "target_gap: NaN", Kind::InvalidValue, "search.target_gap"),
        ("top: 1", "threads: 0", Kind::InvalidValue, "search.threads"),
        ("top: 1", "fix: [\"tp=0\"]", Kind::InvalidValue, "search.fix[0]"),
        ("top: 1", "fix: [\"tp=2\", \"tp=4\"]", Kind::Inconsistent, "search.fix[1]"),
        ("top: 1", "fix: [\"tp=2\"], forbid: [\"tp=1..4\"]", Kind::Inconsistent, "search.fix[0]"),
        ("top: 1", "sede: 1", Kind::UnknownField, "search.sede"),
    ];
    for (from, to, kind, field) in cases {
        assert!(long.contains(from), "{from}");
        let error = Question::parse(&long.replace(from, to), "q.ron").unwrap_err();
        assert_eq!((error.kind, error.field.as_deref()), (kind, Some(field)), "{from} -> {to}: {error}");
        assert_eq!(error.file.as_deref(), Some("q.ron"));
    }
    let error = Question::parse(&SMALL.replace("h100x8", "h100x7000"), "q.ron").unwrap().cluster().unwrap_err();
    assert_eq!((error.kind, error.field.as_deref()), (Kind::UnknownName, Some("cluster")));
}

proptest! {
    #[test]
    fn garbage_never_panics(text in ".{0,200}", cut in 0usize..200, at in 0usize..200, junk in "[\\PC]{0,6}") {
        let _ = Question::parse(&text, "q.ron");
        let _ = Question::parse(&text, "q.json");
        let source: Vec<char> = SMALL.chars().collect();
        let (cut, at) = (cut % source.len(), at % source.len());
        let _ = Question::parse(&source[..cut].iter().collect::<String>(), "q");
        let damaged: String = source[..at].iter().copied().chain(junk.chars()).chain(source[at..].iter().copied()).collect();
        if let Ok(question) = Question::parse(&damaged, "q") {
            prop_assert!(question.validate().is_ok());
            let _ = question.cluster();
        }
    }
}
