//! `check` of launches, `why-not`, `diff`, `export`, `schema` and `completions` as a user runs them.

mod cli;

use cli::{folder, run, small};
use serde_json::{Value, json};

const SMALL: &str = "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 1 --global-batch-size 32 --swiglu --bf16 --vocab-size 32000 --position-embedding-type rope \
    --disable-bias-linear --normalization RMSNorm --untie-embeddings-and-output-weights";

fn check(line: &str, more: &[&str]) -> cli::Ran {
    let mut arguments = vec!["check", "--megatron", line, "--world", "8", "--json"];
    arguments.extend(more);
    run(&arguments)
}

#[test]
fn a_launch_is_judged_priced_and_compared() {
    let ran =
        check(&format!("{SMALL} --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer"), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let answer = ran.json();
    assert_eq!((&answer["legal"], &answer["broken_rules"], &answer["fits"]), (&json!(true), &json!([]), &json!(true)));
    assert_eq!(answer["derived"]["data_parallel"], 4);
    assert!(answer["estimate"]["iteration_time_s"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["plan"]["micro_batches"], 8);
    // Whatever is better is legal too and faster.
    if let Some(faster) = answer["better"]["faster"].as_f64() {
        assert!(faster > 0.0);
    }
}

#[test]
fn broken_rules_are_named_with_what_would_be_valid() {
    let ran = check(&format!("{SMALL} --tensor-model-parallel-size 3"), &[]);
    assert_eq!(ran.code, 5);
    let answer = ran.json();
    assert_eq!(
        (&answer["legal"], &answer["broken_rules"][0]["id"]),
        (&json!(false), &json!("world_divisible_by_tp_pp_cp"))
    );
    assert!(answer["broken_rules"][0]["instead"].as_array().is_some_and(|list| !list.is_empty()));
    // The environment matters, and can be said.
    let tp2 = format!("{SMALL} --tensor-model-parallel-size 2 --sequence-parallel");
    let refused = check(&tp2, &["--env", "CUDA_DEVICE_MAX_CONNECTIONS=8"]).json();
    assert_eq!(refused["broken_rules"][0]["id"], "max_connections_1_pre_blackwell");
    assert_eq!(check(&tp2, &["--env", "CUDA_DEVICE_MAX_CONNECTIONS=", "--arch", "10"]).code, 0);
    // What Megatron does not check fails later.
    let later = check(&format!("{SMALL} --tensor-model-parallel-size 2 --ffn-hidden-size 5461"), &[]);
    assert_eq!((later.code, &later.json()["legal"]), (5, &json!(true)));
    assert_eq!(later.json()["fails_later"][0]["id"], "ffn_divisible_by_tp");
}

#[test]
fn bad_launches_say_what_is_wrong() {
    let ran = run(&["check", "--megatron", "--tensor-parallel-size 2", "--world", "8", "--json"]);
    assert_eq!((ran.code, ran.error()["help"].as_str()), (2, Some("did you mean `--tensor-model-parallel-size`?")));
    for (line, world) in [("", "8"), ("--num-layers", "8"), ("--num-layers x", "8"), ("--bf16 'x", "8")] {
        let ran = run(&["check", "--megatron", line, "--world", world]);
        assert_eq!(ran.code, 2, "{line}: {}", ran.out);
    }
    assert_eq!(run(&["check", "--megatron", "--bf16"]).code, 2);
    assert_eq!(run(&["check"]).code, 2);
}

#[test]
fn deepspeed_and_torchtitan_are_judged() {
    let folder = folder("launch-deepspeed");
    let path = folder.join("ds.json");
    std::fs::write(&path, r#"{"train_batch_size": 64, "zero_optimisation": {"stage": 3}}"#).unwrap();
    let ran = run(&["check", "--deepspeed", path.to_str().unwrap(), "--world", "8", "--json"]);
    assert_eq!(
        (&ran.json()["legal"], &ran.json()["fails_later"][0]["id"]),
        (&json!(true), &json!("key_silently_ignored"))
    );
    // Text, exit code and JSON agree, and the key is named.
    let text = run(&["check", "--deepspeed", path.to_str().unwrap(), "--world", "8"]);
    assert_eq!((text.code, ran.code, &ran.json()["runs"]), (5, 5, &json!(false)));
    assert!(!text.out.starts_with("legal") && text.out.contains("`zero_optimisation`"), "{}", text.out);
    std::fs::write(&path, "").unwrap();
    assert_eq!(run(&["check", "--deepspeed", path.to_str().unwrap()]).code, 2);
    let ran = run(&["check", "--torchtitan", "--parallelism.expert_parallel_degree 3", "--world", "64", "--json"]);
    assert_eq!(
        (&ran.json()["legal"], &ran.json()["fails_later"][0]["id"]),
        (&json!(true), &json!("ep_divides_shards"))
    );
}

#[test]
fn a_plan_for_megatron_is_legal_exported_and_read_back() {
    let folder = folder("launch-export");
    let plan = folder.join("plan.json");
    let path = plan.to_str().unwrap();
    let ran = run(&small("plan", &["--target", "megatron", "--fix", "pp=2", "-o", path, "--json"]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!((&ran.json()["legal"], &ran.json()["broken_rules"]), (&json!(true), &json!([])));
    let first = run(&["export", path, "--to", "megatron"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let script = folder.join("launch.sh");
    std::fs::write(&script, &first.out).unwrap();
    let judged = run(&["check", "--megatron", script.to_str().unwrap(), "--json"]);
    assert_eq!(judged.json()["legal"], true, "{}", judged.out);
    assert_eq!(judged.json()["plan"], ran.json()["plan"]);
    let again = run(&["export", script.to_str().unwrap(), "--to", "megatron"]);
    assert_eq!(again.out, first.out, "{}", again.err);
    for target in ["torchtitan", "deepspeed", "accelerate", "galvatron", "nanotron", "bridge", "slurm"] {
        let to = folder.join(target);
        let ran = run(&["export", path, "--to", target, "-o", to.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 0, "{target}: {}", ran.err);
        let files = ran.json()["files"].as_array().unwrap().clone();
        assert!(files.iter().all(|f| to.join(f["name"].as_str().unwrap()).is_file()), "{target}");
    }
}

#[test]
fn why_not_gives_a_rule_or_a_price_and_diff_adds_up() {
    let folder = folder("launch-why-not");
    let (a, b) = (folder.join("a.json"), folder.join("b.json"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    assert_eq!(run(&small("plan", &["--fix", "tp=1", "-o", a])).code, 0);
    assert_eq!(run(&small("plan", &["--fix", "pp=2", "-o", b])).code, 0);
    let rule = run(&["why-not", a, "--tp", "4", "--json"]);
    assert_eq!((rule.code, &rule.json()["answer"]), (5, &json!("illegal")), "{}", rule.err);
    assert_eq!(rule.json()["broken_rules"][0]["id"], "heads_divisible_by_tp");
    let price = run(&["why-not", a, "--pp", "2", "--json"]);
    assert_eq!(price.code, 0, "{}{}", price.err, price.out);
    assert!(price.json()["slower"].is_f64() && price.json()["rank"].is_u64());
    assert_eq!(run(&["why-not", a]).code, 2);
    let same = run(&["why-not", b, "--pp", "2", "--json"]);
    assert_eq!((same.code, &same.json()["answer"]), (0, &json!("same")), "{}", same.err);
    assert!(run(&["why-not", b, "--pp", "2"]).out.contains("has it already"));
    let diff = run(&["diff", a, b, "--json"]).json();
    for side in ["first", "second"] {
        let sum: f64 = diff["terms"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|t| t["unit"] == "s")
            .map(|t| t[side].as_f64().unwrap())
            .sum();
        let total = diff[side]["estimate"]["iteration_time_s"].as_f64().unwrap();
        assert!((sum / total - 1.0).abs() < 1e-9, "{side}: {sum} of {total}");
    }
    assert_eq!(run(&["diff", a, "nowhere.json"]).code, 2);
}

/// Keys of `value` that the schema does not know, and required ones that are missing.
fn misfits(value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
    let options = schema["oneOf"].as_array();
    if let Some(options) = options {
        let fits = options.iter().any(|o| {
            let mut inner = Vec::new();
            misfits(value, o, at, &mut inner);
            inner.is_empty()
        });
        if !fits {
            found.push(format!("{at}: none of the alternatives"));
        }
        return;
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => value.is_number(),
    };
    if !kinds.iter().any(|k| is(k)) {
        found.push(format!("{at}: {value} is no {kinds:?}"));
    }
    if let (Value::Object(fields), Some(properties)) = (value, schema["properties"].as_object()) {
        for (key, inner) in fields {
            match properties.get(key) {
                Some(schema) => misfits(inner, schema, &format!("{at}.{key}"), found),
                None => found.push(format!("{at}.{key} is not in the schema")),
            }
        }
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(key) {
                found.push(format!("{at}.{key} is missing"));
            }
        }
    }
    if let Value::Array(list) = value {
        for (i, inner) in list.iter().enumerate() {
            misfits(inner, &schema["items"], &format!("{at}[{i}]"), found);
        }
    }
}

#[test]
fn schemas_describe_what_is_written() {
    let plan = run(&small("plan", &["--json"])).json();
    let schema = run(&["schema", "plan", "--json"]).json();
    let mut found = Vec::new();
    misfits(&plan, &schema, "plan", &mut found);
    assert!(found.is_empty(), "{found:?}");
    let search = run(&["schema", "search"]).json();
    misfits(&plan["question"], &search, "question", &mut found);
    assert!(found.is_empty(), "{found:?}");
    let mut wrong = plan.clone();
    wrong["plan"]["pipelines"] = json!(2);
    misfits(&wrong, &schema, "plan", &mut found);
    assert_eq!(found.len(), 1);
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for command in ["plan", "check", "why-not", "diff", "probe", "schema", "export"] {
            assert!(ran.out.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn launches_of_deepspeed_and_torchtitan_are_priced_for_a_model() {
    let folder = folder("launch_prices");
    let path = folder.join("ds_config.json");
    let config = |extra: &str| {
        format!(
            r#"{{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "bf16": {{"enabled": true}},
                "activation_checkpointing": {{}}, "zero_optimization": {{"stage": 3{extra}}}}}"#
        )
    };
    std::fs::write(&path, config("")).unwrap();
    let deepspeed = ["check", "--deepspeed", path.to_str().unwrap(), "--world", "16", "--json"];
    // Rules alone say that the model is missing; with it, that the sequence is.
    let bare = run(&deepspeed).json();
    assert!(bare["not_priced"].as_str().unwrap().contains("--model"), "{bare}");
    let unsaid = run(&[&deepspeed[..], &["--model", "llama3-8b"]].concat());
    assert_eq!((unsaid.code, unsaid.error()["field"].as_str()), (2, Some("--seq")), "{}", unsaid.err);
    let asked = [&deepspeed[..], &["--model", "llama3-8b", "--seq", "4096", "--cluster", "h100x8:2"]].concat();
    let priced = run(&asked);
    assert_eq!(priced.code, 0, "{}", priced.err);
    let priced = priced.json();
    assert_eq!(priced["question"]["job"]["global_batch"], 64);
    assert_eq!(priced["fits"], true);
    let first = &priced["plan"]["chunks"][0];
    assert!(first.to_string().contains("\"zero\":3") && first.to_string().contains("full"), "{first}");
    // Offloaded states leave the devices and are counted on the host.
    std::fs::write(&path, config(r#", "offload_optimizer": {"device": "cpu"}"#)).unwrap();
    let offloaded = run(&asked).json();
    let peak = |d: &Value| d["estimate"]["peak_memory_bytes"].as_f64().unwrap();
    assert!(peak(&offloaded) < peak(&priced) && offloaded["host_memory"]["states_bytes"].as_f64().unwrap() > 0.0);
    // A mistyped key is named, and nothing is priced.
    std::fs::write(&path, config("").replace("bf16", "bf_16")).unwrap();
    assert_eq!(run(&asked).code, 5);

    let p = "--parallelism";
    let flags = format!(
        "{p}.tensor_parallel_degree 4 {p}.pipeline_parallel_degree 2 {p}.pipeline_parallel_schedule 1F1B \
         --training.local_batch_size 8 --training.seq_len 4096 --activation_checkpoint.mode none"
    );
    let torchtitan = ["check", "--torchtitan", &flags, "--world", "16", "--model", "llama3-8b", "--json"];
    let priced = run(&torchtitan).json();
    assert_eq!(priced["question"]["job"]["global_batch"], 16, "{priced}");
    assert_eq!((&priced["plan"]["pipeline"], &priced["plan"]["micro_batches"]), (&json!(2), &json!(8)));
    assert!(priced["plan"]["chunks"][0].to_string().contains("\"tp\":4"));
    let uneven = flags.replace("seq_len 4096", "seq_len 4096 --training.global_batch_size 17");
    let refused = run(&["check", "--torchtitan", &uneven, "--world", "16", "--model", "llama3-8b", "--json"]);
    assert_eq!(refused.code, 2, "{}", refused.out);
}

#[test]
fn flags_that_a_file_answers_itself_are_refused_and_nothing_is_ignored() {
    let folder = folder("ignored_flags");
    let plan = folder.join("plan.json");
    let path = plan.to_str().unwrap();
    let scheduled = ["--fix", "pp=2", "--schedule", "auto", "--schedule-evals", "24", "-o", path];
    assert_eq!(run(&small("plan", &scheduled)).code, 0);
    let time = |d: &Value, at: &str| d.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at}: {d}"));
    // A plan's own schedule is part of its price wherever it is compared.
    let checked = run(&["check", path, "--json"]).json();
    let diff = run(&["diff", path, path, "--json"]).json();
    let priced = time(&checked, "/estimate/iteration_time_s");
    assert_eq!(priced, time(&diff, "/first/estimate/iteration_time_s"));
    for (command, field) in [
        (&["check", path, "--world", "3"][..], "--world"),
        (&["check", path, "--model", "llama3-8b"], "--model"),
        (&["diff", path, path, "--cluster", "h100x8"], "--cluster"),
        (&["why-not", path, "--cp", "2", "--world", "3"], "--world"),
        (&["export", "--to", "megatron-layout", path, "--layers", "7"], "--layers"),
    ] {
        let ran = run(&[command, &["--json"]].concat());
        assert_eq!((ran.code, ran.error()["field"].as_str()), (2, Some(field)), "{command:?} {}{}", ran.out, ran.err);
    }
    let unknown = run(&["check", "--torchtitan", "--foo 3", "--world", "8", "--json"]);
    assert_eq!((unknown.code, unknown.error()["kind"].as_str()), (2, Some("unknown_name")), "{}", unknown.out);
    let config = folder.join("ds.json");
    for batch in ["-1", "0"] {
        let text = format!(r#"{{"train_batch_size": 32, "gradient_accumulation_steps": {batch}}}"#);
        std::fs::write(&config, text).unwrap();
        let judged = run(&["check", "--deepspeed", config.to_str().unwrap(), "--world", "8", "--json"]);
        assert!(judged.code == 5 && judged.out.contains("batch_sizes_positive"), "{}", judged.out);
    }
    let eight = run(&small("plan", &["--gradients", "fp8", "--json"]));
    assert_eq!(eight.code, 2, "{}", eight.out);
    let nowhere = folder.join("missing").join("ck");
    let unsaved = run(&small("plan", &["--checkpoint", nowhere.to_str().unwrap(), "--json"]));
    assert_eq!(unsaved.code, 2, "{}", unsaved.out);
}

#[test]
fn diff_and_why_not_take_what_runs_today() {
    let folder = folder("launch-given");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (ds, titan, plan) = (path("ds.json"), path("titan.sh"), path("plan.json"));
    let config = r#"{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 3}}"#;
    std::fs::write(&ds, config).unwrap();
    let flags = "torchrun --nproc-per-node 8 -m torchtitan.train --parallelism.tensor_parallel_degree 2 \\\n \
        --training.local_batch_size 1 --training.global_batch_size 64 --training.seq_len 2048\n";
    std::fs::write(&titan, flags).unwrap();
    let question = ["--model", "llama3-8b", "--cluster", "h100x8", "--seq", "2048"];
    let diff = run(&[&["diff", &ds, &titan, "--world", "8", "--json"], &question[..]].concat());
    assert_eq!(diff.code, 0, "{}", diff.err);
    let answer = diff.json();
    assert_eq!(answer["first"]["plan"]["chunks"][0]["runs"][0]["strategy"]["zero"], 3);
    assert_eq!(answer["second"]["plan"]["chunks"][0]["runs"][1]["strategy"]["tp"], 2);
    let rule = run(&[&["why-not", &ds, "--pp", "2", "--world", "8", "--json"], &question[..]].concat());
    assert_eq!(rule.json()["broken_rules"][0]["id"], "deepspeed_pipeline_zero_1", "{}", rule.err);
    let price = run(&[&["why-not", &titan, "--tp", "4", "--json"], &question[..]].concat());
    assert_eq!((price.code, &price.json()["target"]), (0, &json!("torchtitan")), "{}{}", price.err, price.out);
    // What is missing is asked for by name, and plan files take no such flags.
    assert_eq!(run(&["diff", &ds, &titan, "--world", "8", "--json"]).error()["field"], "--seq");
    assert_eq!(run(&["diff", &titan, &titan, "--json"]).error()["field"], "--model");
    assert_eq!(run(&small("plan", &["-o", &plan])).code, 0);
    assert_eq!(run(&["diff", &plan, &plan, "--seq", "5", "--json"]).error()["field"], "--seq");
}

#[test]
fn values_of_torchtitans_flags_are_of_their_kind() {
    for (flag, bad, expected) in [
        ("training.local_batch_size", "1e9", "a whole number"),
        ("training.local_batch_size", "0", "at least 1"),
        ("training.seq_len", "long", "a whole number"),
        ("training.steps", "1.5", "a whole number"),
        ("parallelism.tensor_parallel_degree", "two", "a whole number"),
        ("optimizer.lr", "fast", "a number"),
        ("metrics.enable_wandb", "maybe", "True or False"),
    ] {
        let ran = run(&["check", "--torchtitan", &format!("--{flag} {bad}"), "--world", "8", "--json"]);
        let error = ran.error();
        assert_eq!((ran.code, error["found"].as_str()), (2, Some(bad)), "{flag}: {error}");
        assert!(error["field"].as_str().unwrap().contains(flag), "{error}");
        assert!(error["expected"].as_str().unwrap().contains(expected), "{error}");
    }
}

#[test]
fn flags_of_torchtitan_are_known_by_name() {
    let of = |flags: &str| run(&["check", "--torchtitan", flags, "--world", "8", "--json"]);
    let all = "--module m --config c --training.seq_len 2048 --checkpoint.async_mode async --metrics.no_enable_wandb \
        --validator.dataloader.dataset c4 --lr_scheduler.warmup_steps 10 --compile.enable";
    assert_eq!(of(all).code, 0, "{}", of(all).err);
    for (flags, near) in [
        ("--training.seq_length 2048", "--training.seq_len"),
        ("--checkpoint.intervall 10", "--checkpoint.interval"),
        ("--training.tensor_parallel_degree 2", "--parallelism.tensor_parallel_degree"),
    ] {
        let ran = of(flags);
        assert_eq!(ran.code, 2, "{flags}");
        assert!(ran.error()["help"].as_str().is_some_and(|help| help.contains(near)), "{flags}: {}", ran.err);
    }
}
