//! `espalier model` and `espalier min-gpus`, as a user runs them.

mod cli;

use cli::{folder, run};
use serde_json::Value;

#[test]
fn a_model_is_described_in_parameters_layers_flops_and_memory() {
    let ran = run(&["model", "llama3-70b", "--seq", "8192", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let model = ran.json();
    assert_eq!(model["schema"], "espalier/model/1");
    assert_eq!(
        (&model["parameters_total"], &model["parameters_active"]),
        (&70_553_706_496u64.into(), &70_553_706_496u64.into())
    );
    assert_eq!((&model["layers"], &model["layer_classes"][0]["layers"]), (&80.into(), &80.into()));
    let (causal, full) =
        (model["flops_per_token"].as_f64().unwrap(), model["flops_per_token_full_attention"].as_f64().unwrap());
    // 6 N without the embedding, and 6 s h per layer for attention (half of it where the mask is skipped).
    let dense = 6.0 * (70_553_706_496.0 - 128_256.0 * 8192.0);
    let attention = 12.0 * 8192.0 * 8192.0 * 80.0;
    assert!((full / (dense + attention) - 1.0).abs() < 1e-3, "{full}");
    assert!((causal / (dense + attention / 2.0) - 1.0).abs() < 1e-3, "{causal}");
    let replicated = &model["memory"][0];
    assert_eq!(replicated["states_bytes"].as_f64(), Some(70_553_706_496.0 * 18.0));
    let text = run(&["model", "llama3-70b"]).out;
    assert!(
        text.contains("70,553,706,496") && text.contains("ZeRO-3") && text.lines().all(|l| l.chars().count() <= 110)
    );
}

#[test]
fn experts_count_by_what_a_token_meets() {
    let model = run(&["model", "qwen3-30b-a3b", "--json"]).json();
    assert!(model["parameters_active"].as_f64() < model["parameters_total"].as_f64());
    assert!(model["memory"].as_array().unwrap().iter().any(|m| m["strategy"]["ep"] == 8));
}

/// Cells of a line of CSV; quoted ones may hold commas.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

#[test]
fn configs_of_the_hub_are_counted_exactly() {
    let Some(list) = espalier::reference::path("hf/params.csv") else { return };
    let text = std::fs::read_to_string(&list).unwrap();
    let configs = espalier::reference::path("hf/configs").unwrap();
    let mut rows = text.lines().map(cells);
    let header = rows.next().unwrap();
    let column = |name: &str| header.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name} in {header:?}"));
    let (file, count) = (column("file"), column("exact_total_hf_class"));
    let mut seen = 0;
    for cells in rows.step_by(9) {
        // The one family whose class unties what its config ties (note of that row).
        let Some(exact) = cells[count].parse::<u64>().ok().filter(|_| !cells[file].contains("t5-v1_1")) else {
            continue;
        };
        let path = configs.join(&cells[file]);
        let ran = run(&["model", path.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 0, "{}: {}", cells[file], ran.err);
        assert_eq!(ran.json()["parameters_total"], exact, "{}", cells[file]);
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn wrong_configs_are_refused() {
    let folder = folder("configs");
    for (name, text, kind) in [
        ("empty.json", "", "syntax"),
        ("list.json", "[]", "syntax"),
        ("cut.json", "{\"model_type\": \"llama\", \"hidden_", "syntax"),
        ("bare.json", "{}", "missing_field"),
        (
            "typed.json",
            "{\"model_type\": \"llama\", \"hidden_size\": \"big\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 2, \"vocab_size\": 2}",
            "invalid_value",
        ),
        (
            "zero.json",
            "{\"model_type\": \"llama\", \"hidden_size\": 0, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 2, \"vocab_size\": 2}",
            "invalid_value",
        ),
        ("family.json", "{\"model_type\": \"lama\"}", "unknown_name"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        let ran = run(&["model", path.to_str().unwrap(), "--json"]);
        assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some(kind)), "{name}: {}", ran.err);
    }
    assert_eq!(run(&["model", folder.to_str().unwrap(), "--json"]).error()["kind"], "unreadable");
    assert_eq!(run(&["model", "llama3-80b", "--json"]).error()["kind"], "unknown_name");
}

#[test]
fn the_smallest_number_of_devices_fits_and_the_one_below_does_not() {
    let question = ["--model", "llama3-8b", "--global-batch", "16", "--seq", "4096"];
    let ran = run(&[&["min-gpus", "--cluster", "h100x8", "--json"], &question[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = ran.json();
    assert_eq!(found["schema"], "espalier/min-gpus/1");
    // 18 bytes for each of 8.03e9 parameters are 145 GB: two devices of 80.8 GB usable are the least that could do.
    assert_eq!(found["states_need_devices"], 2);
    let smallest = found["smallest"]["devices"].as_u64().unwrap();
    assert!([2, 4].contains(&smallest), "{smallest}");
    assert!(found["sensible"]["devices"].as_u64().unwrap() >= smallest);
    assert_eq!(found["smallest"]["estimate"]["fits"], true);
    let below = format!("h100x{}", smallest / 2);
    assert_eq!(run(&[&["plan", "--cluster", &below], &question[..]].concat()).code, 3);
    let counts: Vec<u64> = found["counts"].as_array().unwrap().iter().map(|c| c["devices"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted() && counts[0] == smallest, "{counts:?}");
    let text = run(&[&["min-gpus", "--cluster", "h100x8"], &question[..]].concat()).out;
    assert!(text.contains("Smallest that trains") && text.lines().all(|l| l.chars().count() <= 110), "{text}");
}

#[test]
fn too_few_devices_allowed_is_infeasible() {
    let ran = run(&["min-gpus", "--max-devices", "8", "--json"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (3, Some("infeasible")), "{}", ran.err);
    let why: Value = serde_json::from_str(&ran.err).unwrap();
    assert!(why["infeasible"]["tightest"].as_str().unwrap().contains("8 are allowed"));
    // What would do is part of the answer, with the price that the planner gives it.
    let small = run(&["min-gpus", "--max-devices", "8", "--memory", "40GB"]);
    assert_eq!(small.code, 3, "{}", small.err);
    assert!(small.err.contains("--max-devices ") && !small.err.contains("lift"), "{}", small.err);
    let half = run(&["min-gpus", "--max-devices", "24", "--memory", "40GB"]);
    assert!(half.err.contains("lift the memory limit"), "{}", half.err);
}
