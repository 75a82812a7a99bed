//! The commands `schedule` and `export` as a user meets them.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn espalier(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_espalier")).args(arguments).output().unwrap()
}

fn answer(arguments: &[&str]) -> Value {
    let output = espalier(arguments);
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code and the error object.
fn refused(arguments: &[&str]) -> (i32, Value) {
    let output = espalier(arguments);
    let error: Value = serde_json::from_slice(&output.stderr)
        .unwrap_or_else(|_| panic!("{arguments:?} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), error["error"].clone())
}

fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("espalier-schedule-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

const SMALL: [&str; 8] = ["--devices", "4", "--micro-batches", "8", "--memory", "4", "--placement", "loop"];

#[test]
fn a_search_answers_with_every_key_that_others_rely_on() {
    let found = answer(&[&["schedule", "--json", "--times", "1:1:1"], &SMALL[..]].concat());
    assert_eq!(found["schema"], "espalier/schedule/1");
    assert_eq!((found["makespan"].as_f64(), found["bound"].as_f64()), (Some(27.0), Some(27.0)));
    assert_eq!((found["gap"].as_f64(), &found["optimal"], &found["valid"]), (Some(0.0), &true.into(), &true.into()));
    assert_eq!(found["peak_memory"].as_array().unwrap().len(), 4);
    assert!(found["span"].is_number() && found["search"]["evaluations"].is_number());
    let text = espalier(&[&["schedule", "--times", "1:1:1"], &SMALL[..]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("optimal: no schedule has a smaller makespan") && text.contains("critical path"), "{text}");
}

#[test]
fn a_schedule_file_reads_back_as_it_was_written_and_exports() {
    let path = temporary("found.json");
    let file = path.to_str().unwrap();
    let found = answer(&[&["schedule", "--json", "--times", "1:1.2:0.8", "-o", file], &SMALL[..]].concat());
    let again = answer(&["schedule", "--json", file]);
    for key in ["schedule", "makespan", "span", "peak_memory", "question"] {
        assert_eq!(found[key], again[key], "{key}");
    }
    let csv = temporary("found.csv");
    let csv = csv.to_str().unwrap();
    assert!(espalier(&["export", file, "--to", "torch-csv", "-o", csv]).status.success());
    let imported = answer(&["schedule", "--json", "--csv", csv, "--times", "1:1.2:0.8"]);
    assert_eq!(imported["makespan"], found["makespan"]);
    assert_eq!(imported["schedule"]["orders"], found["schedule"]["orders"]);
    let trace: Value = serde_json::from_slice(&espalier(&["export", file, "--to", "perfetto"]).stdout).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 96);
    let svg = String::from_utf8(espalier(&["export", file, "--to", "svg"]).stdout).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let grid = String::from_utf8(espalier(&["export", file, "--to", "grid"]).stdout).unwrap();
    assert_eq!(grid.lines().count(), 4);
    let nodes: Value = serde_json::from_slice(&espalier(&["export", file, "--to", "zb-runtime"]).stdout).unwrap();
    assert_eq!(nodes.as_array().unwrap().iter().map(|d| d.as_array().unwrap().len()).sum::<usize>(), 96);
    assert_eq!(nodes[1][0]["recv_peer_stage"], 0);
    // Its order is not one that Megatron-Core has.
    let (code, error) = refused(&["export", "--json", file, "--to", "megatron-layout", "--layers", "32"]);
    assert!(code == 5 && error["help"].as_str().unwrap().contains("another order"), "{error}");
}

#[test]
fn what_megatron_runs_is_written_as_its_flags() {
    let path = temporary("1f1b.json");
    let file = path.to_str().unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/schedules/1f1b.sched");
    answer(&["schedule", "--json", "--dsl", program, "--devices", "4", "--micro-batches", "8", "-o", file]);
    let flags = espalier(&["export", file, "--to", "megatron-layout", "--layers", "10"]);
    let flags = String::from_utf8(flags.stdout).unwrap();
    assert!(flags.contains("--pipeline-model-parallel-layout \"Ettt|ttt|tt|ttL\""), "{flags}");
    let (code, error) = refused(&["export", "--json", file, "--to", "megatron-layout"]);
    assert!(code == 2 && error["field"] == "--layers", "{error}");
}

#[test]
fn given_schedules_are_judged() {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/schedules/");
    // Four devices, eight micro-batches, F = B = W = 1.
    for (name, makespan, span) in [
        ("gpipe", 33.0, 33.0),
        ("1f1b", 33.0, 33.0),
        ("interleaved_1f1b", 28.5, 28.5),
        ("zb_h1", 27.0, 27.0),
        ("zb_h2", 27.0, 24.0),
    ] {
        let program = format!("{programs}{name}.sched");
        let judged = answer(&["schedule", "--json", "--dsl", &program, "--devices", "4", "--micro-batches", "8"]);
        assert_eq!((judged["makespan"].as_f64(), judged["span"].as_f64()), (Some(makespan), Some(span)), "{name}");
        assert!(judged["bound"].as_f64().unwrap() <= makespan && judged["valid"] == true);
        assert!(!judged["critical_path"].as_array().unwrap().is_empty());
    }
    let program = format!("{programs}gpipe.sched");
    let small = ["schedule", "--json", "--dsl", &program, "--devices", "4", "--micro-batches", "8", "--memory", "5"];
    let output = espalier(&small);
    assert_eq!(output.status.code(), Some(3));
    let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(judged["valid"] == false && judged["exceeds"].as_str().unwrap().contains("the limit is 5"), "{judged}");
}

#[test]
fn bad_input_is_named() {
    let question = |flag: &str, value: &str| {
        let mut arguments = vec!["schedule", "--json", "--devices", "4", "--micro-batches", "8", "--times", "1:1:1"];
        arguments.retain(|a| *a != flag);
        let _ = flag;
        let owned: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let mut owned: Vec<String> = owned;
        // The value that stood behind the flag goes with it.
        let defaults = [("--devices", "4"), ("--micro-batches", "8"), ("--times", "1:1:1")];
        if let Some((_, old)) = defaults.iter().find(|(f, _)| *f == flag)
            && let Some(at) = owned.iter().position(|a| a == old)
        {
            owned.remove(at);
        }
        owned.extend([format!("{flag}={value}")]);
        let borrowed: Vec<&str> = owned.iter().map(String::as_str).collect();
        refused(&borrowed)
    };
    for (flag, value, code, field) in [
        ("--devices", "0", 2, "--devices"),
        ("--micro-batches", "0", 2, "--micro-batches"),
        ("--micro-batches", "1000000", 2, "--micro-batches"),
        ("--times", "1:1", 2, "--times"),
        ("--times", "0:1:1", 2, "--times.F"),
        ("--times", "1:-1:1", 2, "--times.B"),
        ("--times", "1:1:nan", 2, "--times.W"),
        ("--comm", "-1", 2, "--comm"),
        ("--memory", "0", 2, "--memory"),
        ("--memory", "0.5", 3, "--memory"),
        ("--chunks", "0", 2, "--chunks"),
        ("--backend", "genetics", 2, "--backend"),
    ] {
        let (found, error) = question(flag, value);
        assert_eq!(found, code, "{flag} {value} {error}");
        assert_eq!(error["field"], field, "{flag} {value} {error}");
    }
    let (_, error) = question("--memory", "0.5");
    assert!(error["expected"].as_str().unwrap().contains("at least 1"), "{error}");
    let tiny = ["schedule", "--json", "--devices", "4", "--micro-batches", "8", "--recompute", "0", "--memory", "0.1"];
    let (code, error) = refused(&tiny);
    assert!(code == 3 && error["field"] == "--memory" && error["found"] == "0.1", "{error}");
    let (code, error) = refused(&["schedule", "--json", "--times", "1:1:1"]);
    assert!(code == 2 && error["field"] == "--devices", "{error}");
}

#[test]
fn the_smallest_questions_have_answers() {
    for (p, m) in [("1", "1"), ("1", "4"), ("4", "1"), ("8", "3")] {
        let found = answer(&[
            "schedule",
            "--json",
            "--devices",
            p,
            "--micro-batches",
            m,
            "--times",
            "1:1:1",
            "--max-evals",
            "200",
        ]);
        assert!(found["valid"] == true && found["makespan"].as_f64() >= found["bound"].as_f64(), "{p} {m}");
    }
}

#[test]
fn wrong_files_are_named_with_their_place() {
    let Some(folder) = espalier::reference::path("pipeline/torch") else { return };
    let wrong = folder.join("torch_1F1B_p4v1_m8.csv");
    let (code, error) = refused(&["schedule", "--json", "--csv", wrong.to_str().unwrap()]);
    assert!(code == 2 && error["help"].as_str().unwrap().contains("0F8 is missing"), "{error}");
    let program = temporary("wrong.sched");
    std::fs::write(&program, "schedule x\ndevices 2\nmicrobatches 2\ndevice { F F F G }\n").unwrap();
    let (code, error) = refused(&["schedule", "--json", "--dsl", program.to_str().unwrap()]);
    assert!(code == 2 && error["field"].as_str().unwrap().starts_with("line 4"), "{error}");
    let stuck = temporary("stuck.csv");
    std::fs::write(&stuck, "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n").unwrap();
    let (code, error) = refused(&["schedule", "--json", "--csv", stuck.to_str().unwrap()]);
    assert!(code == 2 && error["help"].as_str().unwrap().contains("deadlock: device"), "{error}");
    let file = temporary("wrong.json");
    std::fs::write(&file, "{\"schema\": \"espalier/schedule/1\", \"question\": {\"devices\": 1, \"micro_batches\": 1, \"times\": [1, 1, 1]}, \"schedule\": {\"name\": \"x\", \"micro_batches\": 1, \"device_of_stage\": [0], \"orders\": [[\"0F0\", \"0X0\"]]}}").unwrap();
    let (code, error) = refused(&["schedule", "--json", file.to_str().unwrap()]);
    assert!(code == 2 && error["field"] == "schedule.orders[0][1]", "{error}");
}

#[test]
fn a_plan_gets_a_schedule_of_its_own_that_is_never_slower() {
    let (plan, found) = (temporary("plan.json"), temporary("of_plan.json"));
    let (plan, found) = (plan.to_str().unwrap(), found.to_str().unwrap());
    let asked =
        ["--model", "llama3-8b", "--cluster", "h100x8", "--global-batch", "64", "--seq", "4096", "--fix", "pp=4"];
    answer(&[&["plan", "--json", "--max-evals", "200", "-o", plan], &asked[..]].concat());
    let of_plan = answer(&["schedule", "--json", "--plan", plan, "--max-evals", "200", "-o", found]);
    let seconds = |key: &str| of_plan[key].as_f64().unwrap();
    assert!(seconds("iteration_time_s") <= seconds("planned_iteration_time_s") * (1.0 + 1e-9), "{of_plan}");
    assert!(seconds("makespan") >= seconds("bound"));
    // The file says the costs of every stage: it is judged and drawn without the plan.
    let again = answer(&["schedule", "--json", found]);
    assert_eq!(again["makespan"], of_plan["makespan"]);
    assert!(espalier(&["export", found, "--to", "svg"]).status.success());
    let (code, error) = refused(&["schedule", "--json", found, "--times", "1:1:1"]);
    assert!(code == 2 && error["field"] == "--times", "{error}");
}
