//! `espalier plan`, as a user runs it.

mod cli;

use cli::{SMALL, espalier, folder, run, run_with, small, without_clocks};
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn without_arguments_it_plans_llama_70b_on_64_h100() {
    let ran = run(&["plan", "--json", "--target-gap", "10%"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let answer = ran.json();
    assert_eq!(answer["schema"], "espalier/plan/1");
    assert_eq!(answer["question"]["job"]["global_batch"], 1024);
    assert_eq!(answer["plan"]["devices"], 64);
    assert_eq!(answer["fits"], true);
    assert!(ran.err.is_empty(), "{}", ran.err);
}

#[test]
fn json_has_every_key_that_others_rely_on() {
    let answer = run(&small("plan", &["--json", "--top", "3"])).json();
    for key in [
        "schema",
        "question",
        "plan",
        "estimate",
        "fits",
        "legal",
        "broken_rules",
        "bound",
        "space_size",
        "search",
        "alternatives",
        "uniform",
        "layerwise_gain",
        "recommended",
        "reasons",
        "notes",
    ] {
        assert!(answer.get(key).is_some(), "{key}");
    }
    for key in ["iteration_time_s", "tokens_per_s", "mfu", "mfu_full_attention", "peak_memory_bytes"] {
        assert!(answer["estimate"][key].as_f64().is_some_and(|x| x > 0.0), "{key}");
    }
    for key in ["backend", "seed", "evaluations", "requests", "cache_hits", "wall_s", "cpu_s", "stop_reason"] {
        assert!(answer["search"].get(key).is_some(), "{key}");
    }
    assert!(answer["estimate"]["stages"].as_array().is_some_and(|s| !s.is_empty()));
    assert!(answer["bound"]["objective_s"].is_number() && answer["bound"]["gap"].is_number());
    assert_eq!(answer["broken_rules"], Value::Array(Vec::new()));
}

#[test]
fn the_parts_of_each_stage_sum_to_the_iteration() {
    let answer = run(&small("plan", &["--json", "--fix", "pp=4"])).json();
    let iteration = answer["estimate"]["iteration_time_s"].as_f64().unwrap();
    let stages = answer["estimate"]["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 4);
    for stage in stages {
        let sum: f64 = stage["time"].as_object().unwrap().values().map(|t| t.as_f64().unwrap()).sum();
        assert!((sum - iteration).abs() < 1e-9 * iteration, "{sum} {iteration}");
    }
}

#[test]
fn a_file_and_flags_that_ask_the_same_are_answered_alike() {
    let folder = folder("same-question");
    let ron = folder.join("question.ron");
    std::fs::write(&ron, "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 8, sequence: 1024))").unwrap();
    let json = folder.join("question.json");
    let text = r#"{"model": "gpt2-xl", "cluster": "h100x4", "job": {"global_batch": 8, "sequence": 1024}}"#;
    std::fs::write(&json, text).unwrap();
    let flags = without_clocks(run(&small("plan", &["--json"])).json());
    let from_ron = without_clocks(run(&["plan", ron.to_str().unwrap(), "--json"]).json());
    let from_json = without_clocks(run(&["plan", "--json", json.to_str().unwrap()]).json());
    let from_stdin = without_clocks(run_with(&["plan", "-", "--json"], text).json());
    assert_eq!(flags, from_ron);
    assert_eq!(flags, from_json);
    assert_eq!(flags, from_stdin);
}

#[test]
fn flags_override_the_file() {
    let folder = folder("override");
    let file = folder.join("question.ron");
    let text =
        "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 4, sequence: 512), search: (fix: [\"tp=2\"]))";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let more = ["--global-batch", "8", "--seq", "1024", "--fix", "tp=1", "--json"];
    let answer = run(&[&["plan", path], &more[..]].concat()).json();
    assert_eq!(answer["question"]["job"]["global_batch"], 8);
    assert_eq!(answer["question"]["job"]["sequence"], 1024);
    assert_eq!(answer["question"]["search"]["fix"], serde_json::json!(["tp=1"]));
    assert_eq!(answer["plan"]["chunks"][0]["runs"][0]["strategy"]["tp"], 1);
}

#[test]
fn paths_in_a_question_start_from_its_folder() {
    let folder = folder("relative");
    let config = r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}"#;
    std::fs::write(folder.join("small.json"), config).unwrap();
    std::fs::write(folder.join("pool.ron"), "(pools: [\"h100x2\"])").unwrap();
    let text = "(model: \"./small.json\", cluster: \"./pool.ron\", job: (global_batch: 4, sequence: 512))";
    std::fs::write(folder.join("question.ron"), text).unwrap();
    let ran = run(&["plan", folder.join("question.ron").to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.json()["question"]["model"]["config"]["n_layer"], 12, "the plan file needs no other file");
}

#[test]
fn threads_do_not_change_the_answer() {
    let one = without_clocks(run(&small("plan", &["--json", "--threads", "1"])).json());
    let mut four = without_clocks(run(&small("plan", &["--json", "--threads", "4"])).json());
    four["question"]["search"]["threads"] = 1.into();
    assert_eq!(one, four);
}

#[test]
fn every_backend_answers() {
    for backend in ["auto", "exact", "mcts", "mcts.halving", "genetic", "random"] {
        let ran = run(&small("plan", &["--json", "--backend", backend, "--max-evals", "300", "--seed", "7"]));
        assert_eq!(ran.code, 0, "{backend}: {}", ran.err);
        let answer = ran.json();
        assert_eq!((&answer["search"]["backend"], &answer["search"]["seed"]), (&backend.into(), &7.into()));
    }
}

#[test]
fn the_report_is_plain_text_of_at_most_110_columns() {
    let ran = run(&small("plan", &["--top", "4", "--fix", "pp=2"]));
    assert_eq!(ran.code, 0);
    for title in ["Best plan", "uniform plan", "Time of one iteration", "Memory of one device", "Why", "How sure"] {
        assert!(ran.out.contains(title), "{title} is missing in\n{}", ran.out);
    }
    for said in ["optimal for this cost model", "MFU", "causal", "full attention", "tokens/s", "plans in the space"] {
        assert!(ran.out.contains(said), "{said} is missing in\n{}", ran.out);
    }
    for line in ran.out.lines() {
        assert!(line.chars().count() <= 110, "{line}");
    }
    assert!(!ran.out.contains('\u{1b}') && ran.err.is_empty(), "a pipe gets no escapes and no progress bar");
}

#[test]
fn colours_come_when_asked_for() {
    assert!(run(&small("plan", &["--color", "always"])).out.contains('\u{1b}'));
    assert!(!run(&small("plan", &["--color", "never"])).out.contains('\u{1b}'));
    let mut command = espalier(&small("plan", &[]));
    let out = command.env("NO_COLOR", "1").output().unwrap();
    assert!(!out.stdout.contains(&0x1b));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [small("plan", &[]), small("plan", &["--json"]), vec!["--help"]] {
        let mut child = espalier(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}: {err}");
        assert!(err.is_empty(), "{err}");
    }
}

#[test]
fn the_plan_file_is_what_json_prints() {
    let folder = folder("output");
    let path = folder.join("plan.json");
    let ran = run(&small("plan", &["--json", "-o", path.to_str().unwrap()]));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(written, ran.json());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_search() {
    let folder = folder("unwritable");
    for path in [folder.clone(), folder.join("absent/plan.json")] {
        let ran = run(&small("plan", &["--json", "--backend", "random", "-o", path.to_str().unwrap()]));
        assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unwritable")), "{}", ran.err);
    }
}

#[test]
fn a_model_that_cannot_fit_gets_the_tightest_constraint_and_changes_that_help() {
    let question = ["plan", "--model", "llama3-8b", "--cluster", "h100x1", "--global-batch", "8", "--seq", "2048"];
    let ran = run(&question);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("no plan fits") && ran.err.contains("devices"), "{}", ran.err);
    let ran = run(&[&question[..], &["--json"]].concat());
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (3, Some("infeasible")));
    let why: Value = serde_json::from_str(&ran.err).unwrap();
    let fixes = why["infeasible"]["fixes"].as_array().unwrap();
    assert!(!fixes.is_empty() && fixes.iter().all(|f| f["iteration_time_s"].as_f64().unwrap() > 0.0));
    assert!(why["infeasible"]["needed_bytes"].as_f64() > why["infeasible"]["available_bytes"].as_f64());
}

#[test]
fn a_constraint_that_nothing_satisfies_is_named() {
    let ran = run(&small("plan", &["--json", "--fix", "pp=3"]));
    assert!([2, 3].contains(&ran.code), "{}", ran.err);
    assert!(ran.err.contains("pp=3"), "{}", ran.err);
}

#[test]
fn no_time_is_no_plan() {
    // What comes to mind first does not fit here, so that it takes a search.
    let ran = run(&small("plan", &["--json", "--memory", "9GB", "--max-time", "1ns"]));
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (4, Some("no_plan")), "{}", ran.err);
}

#[test]
#[cfg(unix)]
fn an_interrupt_prints_the_best_so_far() {
    let arguments = small("plan", &["--json", "--backend", "random", "--max-evals", "1000000000"]);
    let child = espalier(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["search"]["stop_reason"], "interrupted");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_search_goes_on_where_it_stopped_and_ends_like_one_that_never_did() {
    let folder = folder("resume");
    let path = folder.join("search.bin");
    let path = path.to_str().unwrap();
    let search = |evaluations: &str, more: &[&str]| {
        let arguments = ["--json", "--backend", "random", "--seed", "3", "--max-evals", evaluations];
        let ran = run(&small("plan", &[&arguments[..], more].concat()));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.json()
    };
    search("200", &["--checkpoint", path]);
    let resumed = search("600", &["--checkpoint", path, "--resume"]);
    let whole = search("600", &[]);
    assert!(resumed["search"]["cache_hits"].as_u64() >= Some(200), "{}", resumed["search"]);
    for key in ["plan", "estimate", "alternatives"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    std::fs::write(path, "not a checkpoint").unwrap();
    let ran = run(&small("plan", &["--json", "--backend", "genetic", "--checkpoint", path, "--resume"]));
    assert_eq!((ran.code, ran.error()["file"].as_str()), (2, Some(path)), "{}", ran.err);
}

#[test]
fn every_search_config_is_a_question() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("search_configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let question = espalier::question::Question::load(&path).unwrap_or_else(|e| panic!("{e}"));
        question.resolve().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        seen += 1;
    }
    assert!(seen >= 7 && SMALL.len() == 8);
}

#[test]
fn what_barely_does_not_fit_is_proven_not_to() {
    let ran = run(&["plan", "--json", "--memory", "20GB"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (3, Some("infeasible")), "{}", ran.err);
}
