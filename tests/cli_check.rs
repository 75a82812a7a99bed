//! `espalier check`, as a user runs it, and plan files that somebody edited.

mod cli;

use cli::{folder, run, run_with, small};
use espalier::cost::CostOptions;
use espalier::plan::file::PlanFile;
use espalier::space::check::check;
use espalier::space::planner::{Inputs, PlanError};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

fn planned() -> &'static Value {
    static PLANNED: OnceLock<Value> = OnceLock::new();
    PLANNED.get_or_init(|| run(&small("plan", &["--json", "--fix", "pp=2"])).json())
}

#[test]
fn a_plan_costs_what_planning_said() {
    let folder = folder("check-equals-plan");
    let path = folder.join("plan.json");
    std::fs::write(&path, planned().to_string()).unwrap();
    let ran = run(&["check", path.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let checked = ran.json();
    assert_eq!(checked["schema"], "espalier/check/1");
    for key in ["plan", "estimate", "fits", "question"] {
        assert_eq!(checked[key], planned()[key], "{key}");
    }
    assert!(checked.get("legal").is_some());
    assert_eq!((&checked["broken_rules"], &checked["overflows"]), (&json!([]), &json!([])));
    let text = run(&["check", path.to_str().unwrap()]).out;
    assert!(text.contains("Given plan") && !text.contains("was edited"), "{text}");
}

#[test]
fn a_plan_can_be_piped_in() {
    let ran = run_with(&["check", "-", "--json"], &planned().to_string());
    assert_eq!((ran.code, &ran.json()["estimate"]), (0, &planned()["estimate"]));
}

#[test]
fn what_was_left_out_of_the_cost_model_stays_left_out() {
    let plan = run(&small("plan", &["--json", "--without", "overlap,head"]));
    let checked = run_with(&["check", "-", "--json"], &plan.out).json();
    assert_eq!(checked["estimate"], plan.json()["estimate"]);
}

#[test]
fn too_little_memory_names_stage_devices_moment_and_what_it_is_made_of() {
    let mut file = planned().clone();
    file["question"]["job"]["memory_limit"] = json!(9e9);
    let ran = run_with(&["check", "-", "--json"], &file.to_string());
    assert_eq!(ran.code, 3, "{}", ran.err);
    let checked = ran.json();
    assert_eq!(checked["fits"], false);
    let overflow = &checked["overflows"][0];
    assert!(overflow["stage"].is_u64() && overflow["devices"][1] == 2, "{overflow}");
    assert!(["steady_state", "head"].contains(&overflow["moment"].as_str().unwrap()));
    assert!(overflow["needed_bytes"].as_f64() > overflow["usable_bytes"].as_f64());
    assert!(overflow["memory"]["weights_bytes"].as_f64() > Some(0.0));
    let text = run_with(&["check", "-"], &file.to_string());
    assert_eq!(text.code, 3);
    assert!(text.out.contains("Does not fit") && text.out.contains("in flight"), "{}", text.out);
}

#[test]
fn a_price_that_was_edited_is_noticed() {
    let mut file = planned().clone();
    file["estimate"]["iteration_time_s"] = json!(1e-3);
    assert!(run_with(&["check", "-"], &file.to_string()).out.contains("was edited"));
}

type Edit = fn(&mut Value);

#[test]
fn a_plan_that_is_none_is_refused_by_its_field() {
    let edits: [(Edit, &str, &str); 14] = [
        (|v| v["schema"] = json!("espalier/model/1"), "unsupported", "schema"),
        (|v| v["schema"] = json!(3), "unsupported", "schema"),
        (|v| drop(v.as_object_mut().unwrap().remove("plan")), "missing_field", "plan"),
        (|v| drop(v.as_object_mut().unwrap().remove("schema")), "missing_field", "schema"),
        (|v| v["esimate"] = json!({}), "unknown_field", "esimate"),
        (|v| v["plan"]["pipeline"] = json!("two"), "invalid_value", "plan.pipeline"),
        (|v| v["plan"]["pipeline"] = json!(3), "invalid_value", "plan.pipeline"),
        (|v| v["plan"]["micro_batches"] = json!(5), "invalid_value", "plan.micro_batches"),
        (|v| v["plan"]["chunks"] = json!([]), "inconsistent", "plan.chunks"),
        (|v| v["plan"]["tpp"] = json!(1), "unknown_field", "plan.tpp"),
        (|v| v["question"]["job"]["sequence"] = json!(0), "invalid_value", "question.job.sequence"),
        (|v| v["question"]["cluster"]["pools"] = json!([]), "invalid_value", "question.cluster.pools"),
        (
            |v| v["plan"]["chunks"][0]["runs"][0]["strategy"]["tp"] = json!(3),
            "invalid_value",
            "plan.chunks[0].runs[0].strategy.tp",
        ),
        (|v| v["cost_options"] = json!({"heads": 1}), "invalid_value", "cost_options"),
    ];
    for (edit, kind, field) in edits {
        let mut file = planned().clone();
        edit(&mut file);
        let ran = run_with(&["check", "-", "--json"], &file.to_string());
        assert_eq!(ran.code, 2, "{field}: {} {}", ran.out, ran.err);
        let error = ran.error();
        assert_eq!((error["kind"].as_str(), error["field"].as_str()), (Some(kind), Some(field)), "{error}");
    }
}

#[test]
fn files_that_are_no_plans_are_refused() {
    let folder = folder("no-plans");
    let text = planned().to_string();
    for (name, content) in [
        ("empty.json", ""),
        ("cut.json", &text[..text.len() / 2]),
        ("list.json", "[]"),
        ("null.json", "null"),
        ("noise.json", "\u{0}\u{1}{}"),
        ("twice.json", r#"{"schema": "espalier/plan/1", "schema": "espalier/plan/1"}"#),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        let ran = run(&["check", path.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.err);
        assert!(ran.error()["file"].as_str().is_some_and(|f| f.ends_with(name)), "{}", ran.err);
    }
    for path in [folder.clone(), folder.join("absent.json")] {
        assert_eq!(run(&["check", path.to_str().unwrap(), "--json"]).error()["kind"], "unreadable");
    }
}

/// Paths to every value below `value`, as JSON pointers.
fn pointers(value: &Value, here: &str, list: &mut Vec<String>) {
    list.push(here.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, v)| pointers(v, &format!("{here}/{key}"), list)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{here}/{i}"), list));
        }
        _ => {}
    }
}

fn absurd() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        prop_oneof![Just(0u64), Just(1), Just(2), Just(3), Just(7), Just(64), Just(1 << 32), Just(u64::MAX)]
            .prop_map(|n| Some(json!(n))),
        prop_oneof![Just(-1.0), Just(0.5), Just(1e-300), Just(1e300)].prop_map(|x| Some(json!(x))),
        prop_oneof![Just(""), Just("x"), Just("80GB"), Just("full")].prop_map(|s| Some(json!(s))),
        Just(Some(json!([]))),
        Just(Some(json!({}))),
        Just(Some(json!(true))),
    ]
}

fn price(file: &PlanFile) -> Result<(), PlanError> {
    let (model, cluster) = file.question.resolve()?;
    let inputs = Inputs {
        model,
        cluster,
        job: file.question.job.clone(),
        search: file.question.search.clone(),
        cost: CostOptions::default(),
    };
    check(&inputs, &file.plan).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_edit_of_a_plan_file_is_answered_by_a_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), absurd()), 1..3)) {
        let whole = planned();
        let mut file = json!({"schema": whole["schema"], "question": whole["question"], "plan": whole["plan"]});
        for (which, to) in edits {
            let mut list = Vec::new();
            pointers(&file, "", &mut list);
            let pointer = which.get(&list).clone();
            match (to, pointer.rsplit_once('/')) {
                (None, Some((parent, key))) => match file.pointer_mut(parent) {
                    Some(Value::Object(map)) => drop(map.remove(key)),
                    Some(Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
                    _ => {}
                },
                (to, _) => *file.pointer_mut(&pointer).unwrap() = to.unwrap_or(Value::Null),
            }
        }
        match PlanFile::parse(&file.to_string(), "edited.json") {
            Ok(read) => match price(&read) {
                Ok(()) => {}
                Err(PlanError::Input(e)) => {
                    prop_assert!(e.field.is_some() || e.file.is_some() || e.found.is_some(), "{e:?}");
                }
                Err(other) => prop_assert!(false, "{other}"),
            },
            Err(e) => prop_assert_eq!(e.file.as_deref(), Some("edited.json")),
        }
    }
}
