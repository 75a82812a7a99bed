//! Wrong arguments and wrong files: exit code 2, and an error that says which, what was found and what would be right.

mod cli;

use cli::{folder, run, small};

#[test]
fn arguments_that_are_not_understood_are_named_with_the_nearest() {
    let cases: [(&[&str], &str, &str); 22] = [
        (&["--backend", "genetics"], "--backend", "genetic"),
        (&["--backend", "mcts.frugl"], "--backend", "did you mean `mcts.frugal`"),
        (&["--fix", "tpp=2"], "--fix", "did you mean `tp`"),
        (&["--fix", "tp"], "--fix", "dimension=value"),
        (&["--fix", "tp=0"], "--fix", "1 to"),
        (&["--forbid", "recompute=ful"], "--forbid", "did you mean `full`"),
        (&["--memory", "80XB"], "--memory", "80GB"),
        (&["--memory", "0"], "--memory", "more than nothing"),
        (&["--precision", "bf61"], "--precision", "did you mean `bf16`"),
        (&["--gradients", "fp23"], "--gradients", "fp32"),
        (&["--optimizer", "adamm"], "--optimizer", "did you mean `adam`"),
        (&["--global-batch", "0"], "--global-batch", "1 to"),
        (&["--global-batch", "many"], "--global-batch", "a number"),
        (&["--seq", "-5"], "--seq", ""),
        (&["--seq", "1000000000000"], "--seq", "1 to"),
        (&["--max-time", "soon"], "--max-time", "10s"),
        (&["--target-gap", "-1%"], "--target-gap", ""),
        (&["--threads", "0"], "--threads", "1 to"),
        (&["--top", "0"], "--top", "1 to"),
        (&["--seed", "x"], "--seed", ""),
        (&["--expert-imbalance", "0.5"], "--expert-imbalance", "at least 1"),
        (&["--without", "noise"], "--without", "overlap"),
    ];
    for (arguments, flag, said) in cases {
        let ran = run(&[&["plan", "--json"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        let error = ran.error().to_string();
        assert!(error.contains(flag) && error.contains(said), "{arguments:?}: {error}");
        assert!(ran.out.is_empty());
        let text = run(&[&["plan"], arguments].concat());
        assert_eq!(text.code, 2);
        assert!(text.err.starts_with("error:") && text.err.contains(flag), "{}", text.err);
    }
}

#[test]
fn commands_and_flags_that_do_not_exist_are_refused() {
    assert_eq!(run(&["plna"]).code, 2);
    assert_eq!(run(&[]).code, 2);
    assert_eq!(run(&["check"]).code, 2);
    assert_eq!(run(&["plan", "--json", "--glob-batch", "3"]).error()["kind"], "unknown_name");
    let near = run(&["plna", "--json"]).error()["help"].as_str().unwrap().to_owned();
    assert!(near.starts_with("did you mean") && near.contains("`plan`"), "{near}");
    assert_eq!(run(&["check", "--json"]).error()["kind"], "missing_field");
}

#[test]
fn a_file_that_is_named_like_a_preset_is_told_how_to_be_named() {
    let refused = run(&["--json", "model", "tests"]);
    assert_eq!(refused.code, 2);
    assert!(refused.error()["help"].as_str().unwrap().contains("`./tests`"), "{}", refused.err);
    assert!(!run(&["--json", "model", "no such"]).err.contains("./"));
}

#[test]
fn help_and_version_are_answers() {
    for arguments in
        [&["--help"][..], &["plan", "--help"], &["check", "--help"], &["min-gpus", "--help"], &["--version"]]
    {
        let ran = run(arguments);
        assert!(ran.code == 0 && !ran.out.is_empty() && ran.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_model_of_ones_own_needs_the_rest_of_the_question() {
    for (left_out, flag) in [(2, "--cluster"), (4, "--global-batch"), (6, "--seq")] {
        let mut arguments = small("plan", &["--json"]);
        arguments.drain(left_out + 1..left_out + 3);
        let ran = run(&arguments);
        assert_eq!((ran.code, ran.error()["field"].as_str()), (2, Some(flag)), "{}", ran.err);
    }
}

#[test]
fn clusters_that_cannot_be_are_refused() {
    for (cluster, said) in [
        ("h100x8:0", "at least 1"),
        ("h100x8:125000000", "at most"),
        ("h100x8:x", "whole number"),
        ("h100x9", ""),
        ("h1000x8", "did you mean"),
        ("", ""),
        ("absent.ron", "absent.ron"),
        ("src", ""),
    ] {
        let ran = run(&["plan", "--json", "--cluster", cluster]);
        assert_eq!(ran.code, 2, "{cluster}: {}", ran.err);
        assert!(ran.error().to_string().contains(said), "{cluster}: {}", ran.err);
    }
}

#[test]
fn a_precision_that_the_device_lacks_is_refused() {
    let ran = run(&["plan", "--json", "--cluster", "a100x8:8", "--precision", "fp8"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unsupported")));
}

#[test]
fn question_files_say_what_is_wrong_with_them() {
    let folder = folder("questions");
    let cases = [
        ("empty.ron", "", "syntax", ""),
        ("cut.ron", "(model: \"gpt2-xl\", cluster: \"h100x", "syntax", ""),
        ("cut.json", "{\"model\": \"gpt2-xl\", \"clus", "syntax", ""),
        ("missing.ron", "(model: \"gpt2-xl\", job: (global_batch: 8, sequence: 1024))", "missing_field", "cluster"),
        (
            "missing2.ron",
            "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 8))",
            "missing_field",
            "job.sequence",
        ),
        (
            "typo.ron",
            "(modl: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 8, sequence: 1))",
            "unknown_field",
            "modl",
        ),
        (
            "mistyped.json",
            r#"{"model": "gpt2-xl", "cluster": "h100x4", "job": {"global_batch": "eight", "sequence": 1}}"#,
            "invalid_value",
            "job.global_batch",
        ),
        (
            "zero.ron",
            "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 0, sequence: 1))",
            "invalid_value",
            "job.global_batch",
        ),
        (
            "backend.ron",
            "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 8, sequence: 1024), search: (backend: \"exakt\"))",
            "unknown_name",
            "search.backend",
        ),
        (
            "twice.ron",
            "(model: \"gpt2-xl\", cluster: \"h100x4\", job: (global_batch: 8, sequence: 1024), search: (fix: [\"tp=2\", \"tp=4\"]))",
            "inconsistent",
            "search.fix[1]",
        ),
        (
            "nowhere.ron",
            "(model: \"gpt2-xl\", cluster: (pools: []), job: (global_batch: 8, sequence: 1024))",
            "invalid_value",
            "cluster.pools",
        ),
    ];
    for (name, text, kind, field) in cases {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        let ran = run(&["plan", path.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.err);
        let error = ran.error();
        assert_eq!(error["kind"], kind, "{name}: {error}");
        assert!(kind == "syntax" || error["field"] == field, "{name}: {error}");
        assert!(error["file"].as_str().is_some_and(|f| f.ends_with(name)), "{name}: {error}");
    }
    for path in [folder.to_str().unwrap(), "absent.ron"] {
        assert_eq!(run(&["plan", path, "--json"]).error()["kind"], "unreadable");
    }
}

#[test]
fn a_batch_that_nothing_divides_is_planned_or_explained() {
    let ran =
        run(&["plan", "--json", "--model", "gpt2-xl", "--cluster", "h100x4", "--global-batch", "7", "--seq", "1021"]);
    assert!([0, 2, 3].contains(&ran.code), "{}", ran.err);
}

#[test]
fn files_of_another_kind_are_told_with_the_command_that_takes_them() {
    let folder = folder("kinds");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let plan = path("plan.json");
    assert_eq!(run(&small("plan", &["-o", &plan])).code, 0);
    let list = path("list.json");
    std::fs::write(&list, "[]").unwrap();
    let config = path("config.json");
    std::fs::write(&config, r#"{"model_type": "llama", "num_hidden_layers": 2}"#).unwrap();
    for (arguments, found, help) in [
        (["plan", &plan].as_slice(), "a plan file", "espalier check"),
        (&["min-gpus", &plan], "a plan file", "espalier check"),
        (&["schedule", &plan], "a plan file", "schedule --plan"),
        (&["plan", &config], "config.json", "--model"),
        (&["check", &config], "config.json", "--model"),
        (&["plan", &list], "no object", ""),
        (&["check", &list], "no object", ""),
        (&["schedule", &list], "no object", ""),
        (&["diff", &list, &plan], "no object", ""),
        (&["export", &list, "--to", "megatron"], "no object", ""),
        (&["why-not", &config, "--tp", "2"], "config.json", "--model"),
    ] {
        let ran = run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.out);
        let error = ran.error();
        assert!(error["found"].as_str().is_some_and(|f| f.contains(found)), "{arguments:?}: {error}");
        assert!(help.is_empty() || error["help"].as_str().is_some_and(|h| h.contains(help)), "{arguments:?}: {error}");
        assert!(error["file"].is_string(), "{arguments:?}: {error}");
    }
}

#[test]
fn what_is_wrong_inside_a_plan_is_told_with_its_file() {
    let folder = folder("inside");
    let (plan, bad) = (folder.join("plan.json"), folder.join("bad.json"));
    let (plan, bad) = (plan.to_str().unwrap(), bad.to_str().unwrap());
    assert_eq!(run(&small("plan", &["-o", plan])).code, 0);
    let text = std::fs::read_to_string(plan).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["plan"]["pipeline"] = 3.into();
    std::fs::write(bad, document.to_string()).unwrap();
    for arguments in [
        ["check", bad].as_slice(),
        &["explain", bad],
        &["why-not", bad, "--tp", "2"],
        &["diff", bad, plan],
        &["diff", plan, bad],
        &["export", bad, "--to", "megatron"],
    ] {
        let error = run(&[arguments, &["--json"]].concat()).error();
        assert_eq!(
            (error["file"].as_str(), error["field"].as_str()),
            (Some(bad), Some("plan.pipeline")),
            "{arguments:?}"
        );
    }
    let kept = folder.join("kept.ck");
    let kept = kept.to_str().unwrap();
    let search = |batch: &str, more: &[&str]| {
        let question = ["--model", "gpt2-xl", "--cluster", "h100x4", "--seq", "1024", "--global-batch", batch];
        let how = ["--backend", "genetic", "--max-evals", "20", "--checkpoint", kept, "--json"];
        run(&[&["plan"], &question[..], &how, more].concat())
    };
    assert_eq!(search("8", &[]).code, 0);
    assert_eq!(search("16", &["--resume"]).error()["file"], kept);
}

#[test]
fn negative_and_excessive_numbers_are_refused_with_their_range() {
    let cases: [(&[&str], &str, &str); 15] = [
        (&["check", "--megatron", "--bf16", "--world", "-1"], "--world", "1 to"),
        (&["schedule", "--devices", "2", "--micro-batches", "4", "--times", "-1:1:1"], "--times.F", "above zero"),
        (&["schedule", "--devices", "2", "--micro-batches", "4", "--times", "1e308:1:1"], "--times.F", "at most 1e15"),
        (&["schedule", "--devices", "2", "--micro-batches", "4", "--seed", "-1"], "--seed", "0 to"),
        (
            &["schedule", "--devices", "2", "--micro-batches", "4", "--split-penalty", "-1"],
            "--split-penalty",
            "fraction",
        ),
        (&["schedule", "--devices", "2", "--micro-batches", "4", "--comm", "1e308"], "--comm", "0 to 1e15"),
        (&["plan", "--split-penalty", "-1"], "--split-penalty", "fraction"),
        (&["plan", "--schedule-evals", "-1"], "--schedule-evals", "1 to"),
        (&["plan", "--seed", "-1"], "--seed", "0 to"),
        (&["plan", "--expert-imbalance", "1e30"], "--expert-imbalance", "at most 10000"),
        (&["why-not", "x.json", "--tp", "-1"], "--tp", "1 to"),
        (&["export", "x.json", "--to", "svg", "--unit-us", "-1"], "--unit-us", "at most 1e9"),
        (&["export", "x.json", "--to", "svg", "--width", "1e30"], "--width", "at most 1e9"),
        (&["min-gpus", "--max-devices", "-1"], "--max-devices", "1 to"),
        (&["diff", "a", "b", "--world", "-1"], "--world", "1 to"),
    ];
    for (arguments, flag, said) in cases {
        let ran = run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.out);
        let error = ran.error();
        assert!(error["field"].as_str().is_some_and(|f| f.contains(flag)), "{arguments:?}: {error}");
        assert!(error["expected"].as_str().is_some_and(|e| e.contains(said)), "{arguments:?}: {error}");
    }
}

#[test]
fn flags_that_need_others_are_not_ignored() {
    for flag in [["--cost-model", "galvatron"], ["--set", "a=b"], ["--repairs", "all"]] {
        let ran = run(&small("plan", &[flag[0], flag[1], "--json"]));
        assert_eq!(ran.code, 2, "{flag:?}");
        assert!(ran.err.contains("--galvatron"), "{}", ran.err);
    }
    for (tasks, field) in [("0(x4)", "--tasks-per-node"), ("x", "--tasks-per-node"), ("3(x4)", "--topo")] {
        let ran = run(&[
            "probe",
            "--device",
            "h100",
            "--nic",
            "400Gb/s",
            "--hostlist",
            "n[1-4]",
            "--tasks-per-node",
            tasks,
            "--json",
        ]);
        assert_eq!((ran.code, ran.error()["field"].as_str()), (2, Some(field)), "{tasks}: {}", ran.err);
    }
}
