//! `espalier calibrate`: what runs and tests teach, what they must not, and how it is undone.

mod cli;

use cli::{Ran, folder, run};
use espalier::accuracy::{Case, table};
use espalier::cluster::{Pool, instances};
use espalier::cost::{Group, Network};
use espalier::estimate::Estimator;
use espalier::reference;
use espalier::units::Bytes;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const HEADER: &str = "id,usable,framework,model_name,layers,hidden,heads,ffn,vocab,seq_len,gpu,gpu_count,gpus_per_node,precision,\
                      global_batch,micro_batch,tp,pp,sp,zero_fsdp,recompute,iter_time_s";

/// 40 runs of three sizes on one to eight nodes of H100, every time made by `time` of the index and the honest price.
fn runs(truth: &dyn Fn(&Case) -> f64, spoil: &dyn Fn(usize, f64) -> f64) -> String {
    let mut text = format!("{HEADER}\n");
    let shapes =
        [("llama2-7b", 32, 4096, 32, 11008), ("llama2-13b", 40, 5120, 40, 13824), ("llama2-7b", 16, 8192, 64, 28672)];
    for i in 0..40usize {
        let (name, layers, hidden, heads, ffn) = shapes[i % 3];
        let (tp, pp) = [(1, 1), (2, 1), (4, 2), (8, 1), (4, 4)][i % 5];
        let nodes = [1, 2, 4, 8][i / 3 % 4];
        let gpus = 8 * nodes * if tp * pp > 8 { 2 } else { 1 };
        let batch = gpus * 2;
        let row = |seconds: f64| {
            format!(
                "run{i},True,Megatron-LM,{name},{layers},{hidden},{heads},{ffn},32000,4096,H100,{gpus},8,bf16,{batch},1,{tp},{pp},\
                 True,zero1,none,{seconds}"
            )
        };
        let rows = table::parse(&format!("{HEADER}\n{}\n", row(1e3))).unwrap();
        let case = Case::read(&rows[0]).unwrap();
        let jitter = 1.0 + 0.005 * (((i * 7) % 5) as f64 - 2.0);
        let _ = writeln!(text, "{}", row(spoil(i, truth(&case) * jitter)));
    }
    text
}

/// Matrix products at 0.8 of what is assumed, the network at half.
fn slower(case: &Case) -> f64 {
    let mut pool: Pool = case.pool.clone();
    pool.device.gemm.plateau *= 0.8;
    if pool.levels.len() > 1 {
        pool.levels[1].efficiency *= 0.5;
    }
    let estimator = Estimator::new(&case.model, &case.spine, &pool, &case.job, case.cost);
    estimator.estimate(&case.plan).unwrap().iteration_time_s
}

/// Four of forty off by ten times, either way.
fn spoiled(i: usize, seconds: f64) -> f64 {
    match i {
        3 | 25 => seconds * 10.0,
        14 | 36 => seconds / 10.0,
        _ => seconds,
    }
}

fn factor(ran: &Ran, name: &str) -> f64 {
    let document = ran.json();
    let constants = document["measured"][0]["constants"].as_array().unwrap();
    constants.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name}"))["factor"].as_f64().unwrap()
}

fn chosen(cluster: &str) -> Value {
    let question = ["--model", "llama2-7b", "--global-batch", "64", "--seq", "4096", "--target-gap", "1%", "--json"];
    let ran = run(&[&["plan", "--cluster", cluster], &question[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.json()["plan"].clone()
}

#[test]
fn a_tenth_of_the_samples_off_by_ten_times_does_not_change_the_chosen_plan() {
    let folder = folder("calibrate-runs");
    let calibrated = |name: &str, spoil: &dyn Fn(usize, f64) -> f64| {
        let csv = file(&folder, &format!("{name}.csv"), &runs(&slower, spoil));
        let out = folder.join(format!("{name}.json")).display().to_string();
        let ran = run(&["calibrate", "--runs", &csv, "--cluster", "h100x8:2", "-o", &out, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.json()["measured"][0]["accepted"], true, "{}", ran.out);
        (ran, out)
    };
    let (clean, honest) = calibrated("clean", &|_, s| s);
    let (dirty, robust) = calibrated("dirty", &spoiled);
    for ran in [&clean, &dirty] {
        let (gemm, network) = (factor(ran, "device.gemm.plateau"), factor(ran, "link[1].infiniband.efficiency"));
        assert!((gemm / 0.8 - 1.0).abs() < 0.04 && (network / 0.5 - 1.0).abs() < 0.2, "{gemm} {network}");
    }
    // All four are named: two as outliers; of those ten times too fast some pass the peak and never get that far.
    let text = dirty.out.clone();
    for name in ["run3", "run14", "run25", "run36"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name} {text}");
    }
    assert!(clean.json()["measured"][0]["quarantined"].as_array().unwrap().is_empty());
    assert_eq!(chosen(&honest), chosen(&robust));
}

#[test]
fn bad_tables_of_runs_are_reported_and_never_absorbed() {
    let folder = folder("calibrate-bad");
    let out = folder.join("cluster.json");
    let calibrate = |name: &str, text: &str| {
        let csv = file(&folder, name, text);
        run(&["calibrate", "--runs", &csv, "--cluster", "h100x8:2", "-o", &out.display().to_string(), "--json"])
    };
    // Milliseconds where seconds are meant.
    let odd = calibrate("ms.csv", &runs(&slower, &|_, s| s * 1000.0));
    assert_eq!(odd.code, 2, "{}", odd.out);
    assert!(odd.error()["help"].as_str().unwrap().contains("other units"), "{}", odd.err);
    // Half of it no numbers.
    let nan = calibrate("nan.csv", &runs(&slower, &|i, s| if i % 2 == 0 { f64::NAN } else { s }));
    assert_eq!(nan.json()["measured"][0]["left_out"].as_array().unwrap().len(), 20, "{}", nan.err);
    // Faster than the peak, all of it.
    let fast = calibrate("fast.csv", &runs(&slower, &|_, s| s / 1000.0));
    assert!(fast.code == 2 && fast.error()["help"].as_str().unwrap().contains("0 usable"), "{}", fast.err);
    // Cut off in the middle of a row.
    let whole = runs(&slower, &|_, s| s);
    let cut = calibrate("cut.csv", &whole[..whole.len() - 60]);
    assert!(cut.code == 2 && cut.error()["field"].as_str().unwrap().starts_with("line"), "{}", cut.err);
    // Another device's runs.
    let other = calibrate("other.csv", &whole.replace(",H100,", ",A100,"));
    assert!(other.code == 2, "{}", other.out);
    // Prices that are right already are not touched.
    std::fs::remove_file(&out).unwrap_or_default();
    let honest = calibrate("same.csv", &runs(&|case| case.estimate().unwrap().iteration_time_s, &|_, s| s));
    assert_eq!(honest.json()["changed"], false, "{}", honest.out);
    assert!(!out.exists());
}

/// A table of an all-reduce over one node, as nccl-tests prints it, with links at these shares of what is assumed.
fn nccl(ranks: u64, efficiency: f64, spoil: &dyn Fn(usize, f64) -> f64) -> String {
    let mut pool = instances::pool("h100x8").unwrap();
    pool.levels[0].efficiency *= efficiency;
    pool.levels[0].latency = pool.levels[0].latency * 2.0;
    pool.levels[0].half_at = pool.levels[0].half_at * 2.0;
    let network = Network::new(&pool, true);
    let mut text = String::from("# nThread 1\n");
    for rank in 0..ranks {
        let _ = writeln!(text, "#  Rank  {rank} Group  0 Pid 7 on node0 device  {rank} [0x1b] NVIDIA H100 80GB HBM3");
    }
    text.push_str("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n");
    for (i, power) in (10..=33).enumerate() {
        let bytes = f64::from(2u32).powi(power);
        let seconds = spoil(i, network.all_reduce(Bytes(bytes), Group { size: ranks, stride: 1 }).get());
        let (time, alg) = (seconds * 1e6, bytes / seconds / 1e9);
        let bus = alg * 2.0 * (ranks as f64 - 1.0) / ranks as f64;
        let half = format!("{time:10.3} {alg:8.4} {bus:8.4}      0");
        let _ = writeln!(text, "{bytes:12.0} {:12.0}     float     sum      -1 {half} {half}", bytes / 4.0);
    }
    text
}

#[test]
fn links_are_fitted_to_tables_of_nccl_tests_and_outliers_are_named() {
    let folder = folder("calibrate-nccl");
    let calibrate = |name: &str, text: &str| {
        let table = file(&folder, name, text);
        run(&["calibrate", "--nccl", &table, "--cluster", "h100x8:2", "--json"])
    };
    let clean = calibrate("clean.txt", &nccl(8, 0.7, &|_, s| s));
    let dirty = calibrate(
        "dirty.txt",
        &nccl(8, 0.7, &|i, s| {
            if i == 9 {
                s * 10.0
            } else if i == 20 {
                s / 10.0
            } else {
                s
            }
        }),
    );
    for ran in [&clean, &dirty] {
        let document = ran.json();
        assert_eq!(document["measured"][0]["accepted"], true, "{document}");
        let (efficiency, latency) = (factor(ran, "link[0].nvlink.efficiency"), factor(ran, "link[0].nvlink.latency"));
        assert!((efficiency / 0.7 - 1.0).abs() < 0.05 && (latency / 2.0 - 1.0).abs() < 0.05, "{efficiency} {latency}");
        assert!(document["measured"][0]["error_after"].as_f64().unwrap() < 0.05);
    }
    let document = dirty.json();
    let left: Vec<(&str, &str)> = document["measured"][0]["quarantined"]
        .as_array()
        .unwrap()
        .iter()
        .map(|q| (q["name"].as_str().unwrap(), q["why"].as_str().unwrap()))
        .collect();
    assert_eq!(left, [("524288 bytes", "outlier"), ("1073741824 bytes", "beyond_physics")]);
    // Cut off, NaN, more ranks than the cluster has, no links between nodes.
    let text = nccl(8, 0.7, &|_, s| s);
    assert_eq!(calibrate("cut.txt", &text[..text.len() - 30]).code, 2);
    let nan = calibrate("nan.txt", &nccl(8, 0.7, &|i, s| if i == 12 { f64::NAN } else { s }));
    assert_eq!(nan.json()["measured"][0]["left_out"][0][0], "1 lines", "{}", nan.out);
    let many = calibrate("many.txt", &nccl(16, 0.7, &|_, s| s));
    assert!(many.error()["help"].as_str().unwrap().contains("16 ranks"), "{}", many.err);
}

#[test]
fn a_published_table_calibrates_its_own_machine() {
    let folder = "hardware_samples/nccl_tests";
    let calibrate = |name: &str, cluster: &str| {
        let path = reference::path(&format!("{folder}/{name}"))?;
        Some(run(&["calibrate", "--nccl", &path.display().to_string(), "--cluster", cluster, "--json"]))
    };
    let Some(ran) = calibrate("all_reduce_dgxc_readme.txt", "h100x8:2") else { return };
    let document = ran.json();
    let fit = &document["measured"][0];
    assert!(fit["accepted"] == true && fit["error_after"].as_f64().unwrap() < 0.2, "{fit}");
    assert!(fit["constants"][0]["after"].as_f64().unwrap() <= 1.0);
    // 480 GB/s over links of 450: the switch reduces, so that this is no wonder. And one small message took five times as long
    // as its neighbours.
    let why = |name: &str| {
        let all = fit["quarantined"].as_array().unwrap();
        all.iter().find(|q| q["name"] == name).map(|q| q["why"].as_str().unwrap().to_owned())
    };
    assert_eq!(why("17179869184 bytes"), None);
    assert_eq!(why("32 bytes").as_deref(), Some("outlier"));
    assert_eq!(why("16777216 bytes"), None);
    // One rank uses no link, one to three lines show no curve.
    for (name, cluster) in [
        ("alltoall_b200_single_rank.txt", "b200x8"),
        ("alltoall_b200_1node_u32.txt", "b200x8"),
        ("all_reduce_b200_1node.txt", "b200x8"),
        ("all_reduce_h200_1node_a3ultra.txt", "h200x8"),
    ] {
        let Some(ran) = calibrate(name, cluster) else { return };
        assert_eq!(ran.code, 2, "{}", ran.out);
    }
}

/// `table` without its list of ranks.
fn unlisted(table: &str) -> String {
    table.lines().filter(|line| !line.contains("Rank")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_ranks_of_a_table_are_those_of_its_bandwidths_or_it_is_refused() {
    let folder = folder("calibrate-ranks");
    let calibrate = |text: &str, cluster: &str| {
        run(&["calibrate", "--nccl", &file(&folder, "t.txt", text), "--cluster", cluster, "--json"])
    };
    let help = |ran: &Ran| ran.error()["help"].as_str().unwrap().to_owned();
    let of_eight = nccl(8, 0.7, &|_, s| s);
    assert_eq!(calibrate(&unlisted(&of_eight), "h100x8:2").json()["measured"][0]["accepted"], true);
    // Listed as others than the bandwidths say.
    let lying = of_eight.replacen("#  Rank  7", "#", 1);
    let ran = calibrate(&lying, "h100x8");
    assert!(ran.code == 2 && help(&ran).contains("lists 7 ranks, but its bandwidths are those of 8"), "{}", ran.err);
    // The links of a device that the cluster does not have.
    let ran = calibrate(&of_eight.replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"), "h100x8");
    assert!(ran.code == 2 && help(&ran).contains("A100-SXM4-80GB"), "{} {}", ran.err, ran.out);
    // Bandwidths of no number of ranks, and none at all.
    let mut twisted = String::new();
    for (i, line) in of_eight.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let alike = if words.len() == 13 && i % 2 == 0 { line.replace(words[7], words[6]) } else { line.to_owned() };
        let _ = writeln!(twisted, "{alike}");
    }
    let ran = calibrate(&twisted, "h100x8");
    assert!(ran.code == 2 && help(&ran).contains("no number of ranks"), "{}", ran.err);
    let small: String = unlisted(&of_eight).lines().take(8).map(|line| format!("{line}\n")).collect();
    let ran = calibrate(&small, "h100x8");
    assert!(ran.code == 2 && help(&ran).contains("# Rank"), "{}", ran.err);
    let ran = calibrate(&of_eight.replace("#       size", "#  (B) (ms)\n#       size"), "h100x8");
    assert!(ran.code == 2 && ran.err.contains("(us)"), "{}", ran.err);
    let Some(path) = reference::path("hardware_samples/nccl_tests/coreweave_readme.txt") else { return };
    let table = path.display().to_string();
    for (cluster, said) in [("h100x8", "96 ranks"), ("h100x8:2", "96 ranks")] {
        let ran = run(&["calibrate", "--nccl", &table, "--cluster", cluster, "--json"]);
        assert!(ran.code == 2 && help(&ran).contains(said), "{} {}", ran.err, ran.out);
    }
    let ran = run(&["calibrate", "--nccl", &table, "--cluster", "h100x8:12", "--json"]);
    assert!(factor(&ran, "link[1].infiniband.efficiency") > 0.0, "{}", ran.out);
}

#[test]
fn lines_of_corrupted_data_are_named_and_left_out() {
    let folder = folder("calibrate-wrong");
    let mut text = nccl(8, 0.7, &|_, s| s);
    let line = text.lines().rev().nth(3).unwrap().to_owned();
    text = text.replace(&line, &format!("{}17", line.strip_suffix('0').unwrap()));
    let ran = run(&["calibrate", "--nccl", &file(&folder, "t.txt", &text), "--cluster", "h100x8", "--json"]);
    let left = ran.json()["measured"][0]["left_out"].clone();
    assert_eq!(left[0][0], "1073741824 bytes", "{left}");
    assert!(left[0][1].as_str().unwrap().contains("corrupted"), "{left}");
}

/// A line of a log, of its index and its seconds.
type Line<'a> = &'a dyn Fn(usize, f64) -> String;

/// A plan, its priced seconds, and a log of 30 lines with `line` of the index and those seconds.
fn logged(folder: &Path, line: Line) -> (String, String) {
    let plan = folder.join("plan.json").display().to_string();
    if !Path::new(&plan).is_file() {
        let question = ["--model", "llama2-7b", "--cluster", "h100x8", "--global-batch", "64", "--seq", "4096"];
        assert_eq!(run(&[&["plan", "-o", &plan, "--target-gap", "10%"], &question[..]].concat()).code, 0);
    }
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&plan).unwrap()).unwrap();
    let seconds = document["estimate"]["iteration_time_s"].as_f64().unwrap();
    let log: String = (0..30).map(|i| line(i, seconds * (1.1 + 0.001 * (i % 3) as f64)) + "\n").collect();
    (plan, file(folder, "run.log", &log))
}

#[test]
fn logs_are_judged_by_the_rule_of_tables_and_say_why_they_are_not_used() {
    let folder = folder("calibrate-logs");
    let calibrate = |line: Line| {
        let (plan, log) = logged(&folder, line);
        run(&["calibrate", "--log", &log, "--plan", &plan, "--json"])
    };
    let megatron = |unit: &'static str, times: f64, batch: u64| {
        move |i: usize, s: f64| {
            format!(
                " iteration {i}/ 100 | elapsed time per iteration ({unit}): {:.1} | global batch size: {batch} |",
                s * times
            )
        }
    };
    let good = calibrate(&megatron("ms", 1e3, 64)).json();
    assert_eq!(good["changed"], true, "{good}");
    // Milliseconds called seconds, seconds called milliseconds, another batch, another unit, signs, no numbers.
    let refused: [(Line, &[&str]); 6] = [
        (&megatron("s", 1e3, 64), &["other units"]),
        (&megatron("ms", 1.0, 64), &["30 left out: faster than physics", "line 1", "no run takes less than"]),
        (
            &megatron("ms", 1e3, 32),
            &["30 left out: another global batch than the plan's 64", "line 1", "global batch size 32"],
        ),
        (&megatron("us", 1e6, 64), &["30 left out", "line 1", "(us)"]),
        (&megatron("ms", -1e3, 64), &["30 left out", "line 1", ": -"]),
        (&megatron("ms", f64::NAN, 64), &["30 left out", "line 1", "NaN"]),
    ];
    for (line, said) in refused {
        let ran = calibrate(line);
        assert_eq!(ran.code, 2, "{said:?}: {}", ran.out);
        let error = ran.error();
        let help = error["help"].as_str().unwrap();
        assert!(said.iter().all(|said| help.contains(said)), "{said:?}: {help}");
    }
    // An error that falls by less than a tenth is chance: the same refusal, with the rule.
    let (plan, log) = logged(&folder, &|i, s| {
        let spread = if i % 2 == 0 { 1.0 } else { 0.8 };
        format!("elapsed time per iteration (ms): {:.1} |", 1e3 * s / 1.1 * spread * (1.0 + 0.01 * (i % 7) as f64))
    });
    let ran = run(&["calibrate", "--log", &log, "--plan", &plan]);
    let accepted = ran.out.contains("accepted");
    assert!(accepted || ran.out.contains("must fall by 10.0 %"), "{}", ran.out);
    // Rows of another device say so, and how many.
    let csv = file(&folder, "runs.csv", &runs(&slower, &|_, s| s));
    let ran = run(&["calibrate", "--runs", &csv, "--cluster", "b200x8", "--json"]);
    let error = ran.error();
    let help = error["help"].as_str().unwrap();
    assert!(help.contains("40 left out: ran on H100-SXM5-80GB, the cluster has B200-SXM"), "{help}");
    assert!(help.contains("run0"), "{help}");
}

#[test]
fn rows_without_a_price_are_left_out_with_the_reason_and_no_price_is_no_number() {
    let Some(path) = reference::path("measured/runs.csv") else { return };
    // Two sources are enough, and a tenth of the work.
    let mut lines = std::fs::read_to_string(path).unwrap();
    let wanted = |line: &&str| ["id,", "mega01", "nvid06"].iter().any(|start| line.starts_with(start));
    lines = lines.lines().filter(wanted).map(|line| format!("{line}\n")).collect();
    let csv = file(&folder("calibrate-published"), "runs.csv", &lines);
    let ran = run(&["calibrate", "--runs", &csv, "--cluster", "h100x8", "--json"]);
    let document = ran.json();
    let fit = &document["measured"][0];
    for sample in fit["quarantined"].as_array().unwrap() {
        assert!(sample["price_s"].as_f64().is_some_and(|s| s > 0.0), "{sample}");
    }
    let left = fit["left_out"].as_array().unwrap();
    let of = |why: &str| left.iter().filter(|row| row[1].as_str().unwrap().contains(why)).count();
    assert!(of("contradict each other") >= 4 && of("the cluster has H100-SXM5-80GB") > 50, "{fit}");
}

#[test]
fn what_stood_before_is_kept_and_comes_back() {
    let folder = folder("calibrate-undo");
    let out: PathBuf = folder.join("cluster.json");
    let name = out.display().to_string();
    let read = || std::fs::read_to_string(&out).unwrap();
    let calibrate = |efficiency: f64, cluster: &str| {
        let table = file(&folder, "table.txt", &nccl(8, efficiency, &|_, s| s));
        let ran = run(&["calibrate", "--nccl", &table, "--cluster", cluster, "-o", &name, "--json"]);
        assert_eq!((ran.code, ran.json()["changed"].as_bool()), (0, Some(true)), "{}", ran.err);
    };
    calibrate(0.7, "h100x8:2");
    let first = read();
    // Again from what was written: the second measurement stands beside the first.
    calibrate(0.5, &name);
    assert_ne!(read(), first);
    assert_eq!(std::fs::read_to_string(folder.join("cluster.json.1")).unwrap(), first);
    assert_eq!(run(&["calibrate", "--undo", &name]).code, 0);
    assert_eq!(read(), first);
    assert_eq!(run(&["calibrate", "--undo", &name, "--json"]).error()["file"], name.as_str());
    // The written file is a cluster that plans.
    let planned = run(&[
        "plan",
        "--cluster",
        &name,
        "--model",
        "gpt2-xl",
        "--global-batch",
        "64",
        "--seq",
        "1024",
        "--target-gap",
        "20%",
    ]);
    assert_eq!(planned.code, 0, "{}", planned.err);
}

#[test]
fn nothing_to_calibrate_by_is_an_error_that_says_what_to_give() {
    assert_eq!(run(&["calibrate", "--json"]).error()["field"], "--log");
    assert_eq!(run(&["calibrate", "--cluster", "h100x8", "--json"]).error()["field"], "--runs");
    let folder = folder("calibrate-none");
    let table = file(&folder, "table.txt", &nccl(8, 0.7, &|_, s| s));
    assert_eq!(run(&["calibrate", "--nccl", &table, "--json"]).error()["field"], "--cluster");
    assert_eq!(run(&["calibrate", "--nccl", "no such file", "--cluster", "h100x8", "--json"]).code, 2);
}

#[test]
fn the_topology_of_a_node_gives_its_links_and_refuses_another_node() {
    let Some(samples) = reference::path("hardware_samples/topo_m") else { return };
    let (mut read, mut refused) = (0, 0);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(samples).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.display().to_string();
        let ran = run(&["calibrate", "--topo", &name, "--cluster", "a100x8:2", "--json"]);
        match ran.code {
            0 => {
                read += 1;
                let document = ran.json();
                let changes = document["topology"].as_array().unwrap().len();
                assert_eq!(document["topology_agrees"], changes == 0, "{document}");
                let text = run(&["calibrate", "--topo", &name, "--cluster", "a100x8:2"]).out;
                assert_eq!(text.contains("agrees"), changes == 0, "{text}");
            }
            2 => {
                refused += 1;
                assert!(ran.error()["file"].as_str().is_some(), "{}", ran.err);
            }
            other => panic!("{name}: {other} {}", ran.err),
        }
    }
    assert!(read >= 1 && refused >= 1, "{read} {refused}");
}
