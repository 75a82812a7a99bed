//! Planning, checking and exporting in Galvatron's terms, as a user does it.

mod cli;

use cli::{folder, run};
use espalier::reference;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A case, if the reference is there; otherwise that is said on standard error.
fn case(name: &str) -> Option<PathBuf> {
    reference::path(&format!("galvatron/{name}"))
}

fn file(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn seconds(answer: &Value) -> f64 {
    answer["estimate"]["iteration_time_s"].as_f64().unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b
}

#[test]
fn a_plan_is_optimal_beats_galvatron_and_survives_export_and_check() {
    let Some(case) = case("c01_llama2-7b_8g_16gb_b32") else { return };
    let folder = folder("galvatron-round");
    let at = |name: &str| folder.join(name).display().to_string();
    let dir = case.to_str().unwrap();
    let ran = run(&["plan", "--galvatron", dir, "--json", "-o", &at("plan.json")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan = ran.json();
    let known = file(&case.join("galvatron_result.json"))["iteration_time_s"].as_f64().unwrap();
    let headroom = file(&case.join("headroom.json"))["best_time_s"].as_f64().unwrap();
    assert!(seconds(&plan) < known && seconds(&plan) <= headroom * (1.0 + 1e-9), "{}", seconds(&plan));
    assert_eq!((&plan["schema"], &plan["bound"]["gap"]), (&json!("espalier/plan/1"), &json!(0.0)));
    assert_eq!((&plan["fits"], &plan["search"]["stop_reason"]), (&json!(true), &json!("optimal")));
    for key in ["legal", "broken_rules", "space_size", "alternatives"] {
        assert!(plan.get(key).is_some(), "{key}");
    }
    let layers: u64 =
        plan["estimate"]["stages"].as_array().unwrap().iter().map(|s| s["layers"].as_u64().unwrap()).sum();
    assert_eq!(layers, 32);

    let ran = run(&["export", &at("plan.json"), "--to", "galvatron", "-o", &at("galvatron_config.json")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(file(&folder.join("galvatron_config.json")), plan["plan"]);
    for name in ["plan.json", "galvatron_config.json"] {
        let checked = run(&["check", &at(name), "--galvatron", dir, "--json"]).json();
        assert_eq!((&checked["estimate"], &checked["plan"]), (&plan["estimate"], &plan["plan"]), "{name}");
        assert_eq!(checked["bound"]["gap"], 0.0);
        let ran = run(&["check", &at(name), "--json"]);
        assert_eq!((ran.code, &ran.error()["field"]), (2, &json!("--galvatron")));
    }
}

#[test]
fn galvatrons_own_plan_is_priced_as_galvatron_does_and_its_distance_from_the_best_is_said() {
    let Some(case) = case("c02_llama2-7b_8g_24gb_b64") else { return };
    let known = file(&case.join("galvatron_result.json"));
    let path = folder("galvatron-own").join("galvatron_config.json");
    std::fs::write(&path, known["plan"].to_string()).unwrap();
    let ran = run(&["check", path.to_str().unwrap(), "--galvatron", case.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let checked = ran.json();
    let galvatron = known["iteration_time_s"].as_f64().unwrap();
    assert!(close(seconds(&checked), galvatron), "{} {galvatron}", seconds(&checked));
    let bound = checked["bound"]["objective_s"].as_f64().unwrap();
    let gap = checked["bound"]["gap"].as_f64().unwrap();
    assert!((gap - (galvatron - bound) / bound).abs() < 1e-6, "{gap}");
    let little =
        ["check", path.to_str().unwrap(), "--galvatron", case.to_str().unwrap(), "--set", "memory_constraint=16"];
    let ran = run(&little);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out.contains("does not fit"), "{}", ran.out);
}

#[test]
fn people_read_runs_by_stage_and_that_it_is_optimal() {
    let Some(case) = case("c02_llama2-7b_8g_24gb_b64") else { return };
    let ran = run(&["plan", "--galvatron", case.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.contains("optimal") && ran.out.contains("x4-"), "{}{}", ran.out, ran.err);
}

#[test]
fn arguments_and_repairs_change_the_question_and_nonsense_is_told() {
    let Some(case) = case("c03_llama2-7b_8g_36gb_b16") else { return };
    let dir = case.to_str().unwrap();
    let plan = |more: &[&str]| run(&[&["plan", "--galvatron", dir, "--json"], more].concat());
    let published = seconds(&plan(&[]).json());
    let roomy = seconds(&plan(&["--set", "memory_constraint=80"]).json());
    assert!(roomy < published, "{roomy} {published}");
    let repaired = plan(&["--cost-model", "galvatron-repaired"]).json();
    assert_eq!(repaired["repairs"].as_array().unwrap().len(), 7);
    assert_eq!(plan(&["--repairs", "slow-stage"]).json()["repairs"], json!(["slow-stage"]));

    let ran = plan(&["--set", "memory_constraint=2"]);
    let error = ran.error();
    assert_eq!((ran.code, &error["kind"]), (3, &json!("infeasible")));
    let help = error["help"].as_str().unwrap();
    let enough = help.split_once(' ').unwrap().0;
    assert_eq!(plan(&["--set", enough]).code, 0, "{help}");

    for (arguments, field) in [
        (vec!["--repairs", "slow"], "--repairs"),
        (vec!["--set", "memory"], "--set"),
        (vec!["--set", "memory_constrain=3"], "memory_constrain"),
        (vec!["--cost-model", "galvatron", "--repairs", "all"], "--repairs"),
        (vec!["--set", "fine_grained_mode=0", "--backend", "mcts"], "--backend"),
        (vec!["--model", "gpt2-xl"], "--galvatron"),
        (vec!["--top", "3"], "--galvatron"),
    ] {
        let ran = plan(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        let error = ran.error();
        let told = error["field"].as_str().unwrap_or_default();
        assert!(told.starts_with(field) || told == arguments[0], "{arguments:?}: {error}");
    }
    assert_eq!(plan(&["--set", "fine_grained_mode=0"]).code, 0);
}

#[test]
fn other_backends_search_the_same_space_and_answer_alike_for_any_number_of_threads() {
    let Some(case) = case("c03_llama2-7b_8g_36gb_b16") else { return };
    let plan = |backend: &str, threads: &str| {
        let arguments = ["plan", "--galvatron", case.to_str().unwrap(), "--json", "--backend", backend];
        let ran = run(&[&arguments[..], &["--max-evals", "500", "--seed", "3", "--threads", threads]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        cli::without_clocks(ran.json())
    };
    let best = seconds(&run(&["plan", "--galvatron", case.to_str().unwrap(), "--json"]).json());
    for backend in ["mcts", "genetic"] {
        let one = plan(backend, "1");
        assert_eq!(one, plan(backend, "2"));
        assert!(seconds(&one) >= best * (1.0 - 1e-12) && seconds(&one) < best * 1.05, "{backend} {}", seconds(&one));
        assert_eq!(one["search"]["backend"], backend);
    }
}
