//! Files that are not ours to overwrite, limits beyond all measure, sizes that must not be simulated one by one.

mod cli;

use cli::{folder, run, small};

#[test]
fn nothing_that_is_no_checkpoint_of_this_search_is_overwritten() {
    let dir = folder("safety");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let search =
        |more: &[&str]| run(&small("plan", &[&["--json", "--backend", "genetic", "--max-evals", "50"], more].concat()));

    let text = path("notes.txt");
    std::fs::write(&text, "mine").unwrap();
    let ran = search(&["--checkpoint", &text]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unwritable")), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "mine");

    let kept = path("kept.ck");
    assert_eq!(search(&["--checkpoint", &kept]).code, 0);
    let before = std::fs::read(&kept).unwrap();
    let again = search(&["--checkpoint", &kept]);
    assert!(again.code == 2 && again.err.contains("resume"), "{}", again.err);
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    assert_eq!(search(&["--checkpoint", &kept, "--resume"]).code, 0);
    assert_eq!(search(&["--checkpoint", &path("same"), "-o", &path("same")]).code, 2);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_devices_left_alone() {
    let dir = folder("links");
    let (link, target) = (dir.join("link.ck"), dir.join("target.ck"));
    std::os::unix::fs::symlink("target.ck", &link).unwrap();
    let ran = run(&small(
        "plan",
        &["--json", "--backend", "genetic", "--max-evals", "50", "--checkpoint", link.to_str().unwrap()],
    ));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(target.is_file() && link.is_symlink());
    let ran = run(&small("plan", &["--json", "--checkpoint", "/dev/null"]));
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = run(&["model", "/dev/zero", "--json"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unreadable")), "{}", ran.err);
}

#[test]
fn a_question_is_not_overwritten_by_its_plan() {
    let file = folder("question").join("q.ron");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/four_devices.ron"), &file).unwrap();
    let before = std::fs::read_to_string(&file).unwrap();
    let file = file.to_str().unwrap();
    let ran = run(&["plan", file, "-o", file, "--json"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("inconsistent")), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(file).unwrap(), before);
}

#[test]
fn limits_on_time_beyond_measure_are_no_limits() {
    for time in ["1e30", "99999999999999999999999", "18446744073709551615"] {
        let ran = run(&small("plan", &["--json", "--max-time", time]));
        assert_eq!(ran.code, 0, "{time}: {}", ran.err);
    }
}

#[test]
fn a_batch_of_a_billion_is_priced_without_simulating_every_micro_batch() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/four_devices.ron");
    for batch in ["1000000", "1000000000"] {
        let ran = run(&["plan", file, "--global-batch", batch, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let time = ran.json()["estimate"]["iteration_time_s"].as_f64().unwrap();
        let one = run(&["plan", file, "--global-batch", "64", "--json"]).json()["estimate"]["iteration_time_s"]
            .as_f64()
            .unwrap();
        let ratio = time / (one / 64.0 * batch.parse::<f64>().unwrap());
        assert!((0.8..1.02).contains(&ratio), "{batch}: {ratio}");
    }
}

#[test]
fn flags_that_change_nothing_are_told() {
    let ran = run(&small(
        "plan",
        &[
            "--json",
            "--max-evals",
            "50",
            "--vision-tokens",
            "100",
            "--fix",
            "ep=8",
            "--expert-imbalance",
            "2",
            "--memory",
            "900GB",
        ],
    ));
    let notes = ran.json()["notes"].to_string();
    for word in ["vision_tokens", "ep=8", "expert_imbalance", "planned for 900 GB"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
}

#[test]
fn rates_and_times_that_leave_the_range_of_numbers_are_refused() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/four_devices.ron")).unwrap();
    let file = folder("rates").join("q.ron");
    std::fs::write(&file, text.replace("\"150TFLOP/s\"", "1e-300")).unwrap();
    let ran = run(&["plan", file.to_str().unwrap(), "--json"]);
    assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("invalid_value")), "{}", ran.err);
    let ran = run(&["schedule", "--devices", "4", "--micro-batches", "8", "--times", "1e308:1e308:1e308", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_calibration_replaces_clusters_only() {
    let dir = folder("calibrated");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (plan, notes) = (path("plan.json"), path("notes.txt"));
    assert_eq!(run(&small("plan", &["-o", &plan])).code, 0);
    std::fs::write(&notes, "mine").unwrap();
    let before = std::fs::read_to_string(&plan).unwrap();
    for target in [&plan, &notes] {
        let ran = run(&["calibrate", "--cluster", "h100x8", "--nccl", "absent", "-o", target, "--json"]);
        assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unwritable")), "{}", ran.err);
        assert_eq!(ran.error()["file"].as_str(), Some(target.as_str()));
    }
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), before);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
}

#[test]
fn every_flag_that_names_a_file_spares_inputs_and_files_of_another_kind() {
    let dir = folder("outputs");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (plan, schedule, notes, csv, out) =
        (path("plan.json"), path("schedule.json"), path("notes.txt"), path("runs.csv"), path("out"));
    assert_eq!(run(&small("plan", &["-o", &plan])).code, 0);
    let question = ["--devices", "2", "--micro-batches", "4", "--times", "1:1:1", "--max-evals", "50"];
    assert_eq!(run(&[&["schedule"], &question[..], &["-o", &schedule]].concat()).code, 0);
    std::fs::write(&notes, "mine").unwrap();
    std::fs::write(
        &csv,
        "id,framework,model_name,layers,hidden,heads,ffn,vocab,seq_len,gpu,gpu_count,precision,global_batch,micro_batch,tp,pp,\
         zero_fsdp,recompute,iter_time_s\n\
         x,Megatron-LM,llama2-7b,32,4096,32,11008,32000,4096,H100,8,bf16,8,1,1,1,FSDP,none,0.9\n",
    )
    .unwrap();
    std::fs::create_dir(&out).unwrap();
    let kept = [&plan, &schedule, &notes, &csv];
    let before: Vec<String> = kept.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let small_plan = small("plan", &["-o"]);
    let page = ["accuracy", "--data", &csv, "--html"];
    let search = [&["schedule"], &question[..], &["-o"]].concat();
    let judge = ["schedule", &schedule, "-o"];
    let probe =
        ["probe", "--device", "h100", "--nic", "400Gb/s", "--hostlist", "n[1-4]", "--tasks-per-node", "8(x4)", "-o"];
    let export = ["export", &schedule, "--to", "torch-csv", "-o"];
    let trace = ["export", &schedule, "--to", "perfetto", "-o"];
    // Each with the one file that it may replace, unless that is what it reads.
    let commands: [(&[&str], Option<&str>); 7] = [
        (&small_plan, Some(&plan)),
        (&page, None),
        (&search, Some(&schedule)),
        (&judge, None),
        (&probe, None),
        (&export, None),
        (&trace, None),
    ];
    for (command, own) in commands {
        for target in kept {
            if own == Some(target.as_str()) {
                continue;
            }
            let ran = run(&[command, &[target, "--json"]].concat());
            assert_eq!(ran.code, 2, "{command:?} {target}: {}", ran.out);
            let error = ran.error();
            assert!(
                matches!(error["kind"].as_str(), Some("unwritable" | "inconsistent")),
                "{command:?} {target}: {error}"
            );
            assert_eq!(error["file"].as_str(), Some(target.as_str()), "{error}");
        }
        if command[0] == "probe" {
            // It has no topology to write of.
            continue;
        }
        // A new name is written, and written again.
        let fresh = path("fresh");
        for _ in 0..2 {
            let ran = run(&[command, &[&fresh, "--json"]].concat());
            assert_eq!(ran.code, 0, "{command:?}: {}", ran.err);
        }
        std::fs::remove_file(&fresh).unwrap();
    }
    // Files in a folder of launch files.
    let export = |to: &str| run(&["export", &plan, "--to", to, "-o", &out, "--json"]);
    assert_eq!((export("deepspeed").code, export("deepspeed").code), (0, 0));
    for entry in std::fs::read_dir(&out).unwrap() {
        std::fs::write(entry.unwrap().path(), "mine").unwrap();
    }
    assert_eq!(export("deepspeed").error()["kind"], "unwritable");
    let after: Vec<String> = kept.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert_eq!(before, after);
}

#[test]
fn a_search_that_made_its_usual_evaluations_says_so() {
    let text = run(&small("plan", &["--backend", "random"])).out;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!flat.contains("the evaluations were used up"), "{flat}");
}
