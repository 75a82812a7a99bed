//! Races: killed and resumed, run twice, verified from their traces, compared; and what the command line says of backends.

#[path = "../cli/mod.rs"]
mod cli;

mod folders;
mod refusals;

use espalier::experiment::compare::{compare, not_compared};
use espalier::experiment::reference_value::Reference;
use espalier::experiment::results::{JOURNAL, RUNS, Results, TRACE, Verified};
use espalier::experiment::runner::{RunOptions, run};
use espalier::experiment::suite::Suite;
use espalier::experiment::tuning::TUNING;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SUITE: &str = r#"(
    name: "test",
    instances: [
        (id: "chain", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1)),
        (id: "pipe", source: Chain(items: 8, options: 4, segments: 3, rounds: 8, tightness: 0.4, seed: 2)),
        (id: "knapsack", source: Knapsack(items: 14, dimensions: 2, seed: 1)),
        (id: "tour", source: Salesman(cities: 8, seed: 1)),
        (id: "ft06", source: NamedJobShop("ft06")),
        (id: "schedule", source: Schedule(question: (devices: 2, micro_batches: 4, times: (1.0, 1.0, 1.0)))),
        (id: "orders", source: Schedule(tree: order, question: (devices: 2, micro_batches: 4, times: (1.0, 1.0, 1.0)))),
    ],
    backends: [(backend: "random"), (backend: "anneal"), (name: "hot", backend: "anneal", parameters: {"hot": 0.5})],
    seeds: (first: 7, count: 4), evaluations: 120, budgets: [30],
)"#;

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("espalier-bench-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn suite() -> Suite {
    Suite::parse(SUITE, "test.ron").unwrap()
}

fn race(folder: &Path, jobs: usize, resume: bool) -> Results {
    let options = RunOptions { jobs, resume, ..RunOptions::default() };
    run(&suite(), folder, &options, &mut |_, _| {}).unwrap()
}

/// Every file below `folder`, with what clocks say left out.
fn without_clocks(folder: &Path) -> BTreeMap<PathBuf, String> {
    fn collect(folder: &Path, root: &Path, files: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, files);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let file = name.file_name().unwrap().to_str().unwrap();
            if file.starts_with("clocks") || file.ends_with("_wall.svg") || file == TUNING {
                continue;
            }
            let text = match file {
                RUNS => text
                    .lines()
                    .map(|line| {
                        let mut run: Value = serde_json::from_str(line).unwrap();
                        (run["wall_s"], run["cpu_s"]) = (Value::Null, Value::Null);
                        format!("{run}\n")
                    })
                    .collect(),
                TRACE => text
                    .lines()
                    .map(|line| {
                        let mut cells: Vec<&str> = line.split(',').collect();
                        cells.drain(5..7);
                        cells.join(",") + "\n"
                    })
                    .collect(),
                "manifest.json" => {
                    let mut manifest: Value = serde_json::from_str(&text).unwrap();
                    manifest["clocks"] = Value::Null;
                    manifest.to_string()
                }
                "report.html" => text.split("<section class=\"clocks\">").next().unwrap().to_owned(),
                _ => text,
            };
            files.insert(name, text);
        }
    }
    let mut files = BTreeMap::new();
    collect(folder, folder, &mut files);
    files
}

#[test]
fn a_race_run_twice_and_by_two_jobs_is_the_same_but_for_its_clocks() {
    let (a, b) = (scratch("twice-a"), scratch("twice-b"));
    let results = race(&a, 1, false);
    race(&b, 2, false);
    let (left, right) = (without_clocks(&a), without_clocks(&b));
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (path, text) in &left {
        assert!(right[path] == *text, "{} differs", path.display());
    }
    assert_eq!(results.runs.len(), 7 * 3 * 4);
    assert!(left.len() > 30 && left.contains_key(Path::new("tables/ert_0.01.tex")), "{:?}", left.keys());

    // What is recorded reads back as it was, and every file follows from it.
    let read = Results::load(&a).unwrap();
    assert_eq!(read, results);
    assert_eq!(read.verify(&a).unwrap(), Verified { differing: Vec::new(), left_out: Vec::new() });
    let info = left.keys().find(|path| path.starts_with("coco") && path.extension().is_some_and(|e| e == "tdat"));
    let runs = left.keys().find(|path| path.starts_with("ioh") && path.extension().is_some_and(|e| e == "dat"));
    for touched in [Path::new("tables/area.md"), info.unwrap(), runs.unwrap()] {
        let text = std::fs::read_to_string(a.join(touched)).unwrap();
        std::fs::write(a.join(touched), text.replacen("0.", "0,", 1)).unwrap();
        assert_eq!(read.verify(&a).unwrap().differing, [touched]);
        std::fs::write(a.join(touched), text).unwrap();
    }
    std::fs::write(a.join("tables/old.md"), "").unwrap();
    std::fs::remove_dir_all(a.join("ioh")).unwrap();
    let verified = read.verify(&a).unwrap();
    assert_eq!((verified.differing, verified.left_out), (vec![PathBuf::from("tables/old.md")], vec!["ioh"]));
    let trace = std::fs::read_to_string(a.join(TRACE)).unwrap();
    let last = trace.trim_end().rfind('\n').unwrap();
    std::fs::write(a.join(TRACE), &trace[..=last]).unwrap();
    assert!(Results::load(&a).unwrap_err().to_string().contains("contradiction"), "a trace that lost a row is refused");

    // The same results are nowhere better or worse.
    let rows = compare(&results, &Results::load(&b).unwrap());
    assert_eq!(rows.len(), 7 * 3);
    assert!(rows.iter().all(|row| row.verdict == "cannot tell" && row.a12 == 0.5));
    assert!(run(&suite(), &b, &RunOptions::default(), &mut |_, _| {}).unwrap_err().to_string().contains("--resume"));
    for folder in [a, b] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn references_are_optima_where_they_are_called_so_and_nothing_is_below() {
    let folder = scratch("references");
    let results = race(&folder, 2, false);
    let kinds: Vec<String> = results
        .manifest
        .instances
        .iter()
        .map(|i| format!("{} {}", i.id, i.reference.as_ref().unwrap().provenance.words()))
        .collect();
    assert_eq!(kinds[..5], ["chain", "pipe", "knapsack", "tour", "ft06"].map(|id| format!("{id} optimal")));
    for run in &results.runs {
        let reference = results.manifest.instance(&run.instance).unwrap().reference.as_ref().unwrap();
        assert!(run.best.is_none_or(|best| reference.distance(best) >= 0.0), "{} is below its reference", run.instance);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn a_race_that_is_killed_goes_on_and_runs_nothing_twice() {
    let (whole, killed) = (scratch("whole"), scratch("killed"));
    race(&whole, 1, false);
    let file = killed.join("suite.ron");
    std::fs::write(&file, SUITE).unwrap();
    let folder = killed.join("results");
    let journal = folder.join(JOURNAL);
    let mut kept = 0;
    for _ in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_espalier"))
            .args(["bench", "--resume", "-o"])
            .args([&folder, &file])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while lines(&journal) < kept + 9 && !folder.join(TRACE).exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if folder.join(TRACE).exists() {
            break;
        }
        let now = lines(&journal);
        assert!(now >= kept, "{now} runs are kept of {kept}");
        kept = now;
    }
    // What a kill in the middle of a write leaves.
    let mut torn = std::fs::read(&journal).unwrap_or_default();
    if !torn.is_empty() {
        torn.extend_from_slice(b"{\"cell\":\"0");
        std::fs::write(&journal, torn).unwrap();
    }
    let before: Vec<String> =
        std::fs::read_to_string(&journal).unwrap_or_default().lines().map(str::to_owned).collect();
    let resumed = race(&folder, 2, true);
    // Clocks and all: what was recorded before the kill is recorded still.
    let recorded: Vec<Value> = before.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for run in &recorded {
        let same = resumed.runs.iter().find(|r| r.cell == run["cell"].as_str().unwrap()).unwrap();
        assert_eq!(Some(same.wall_s), run["wall_s"].as_f64());
    }
    assert!(!journal.exists());
    let (a, b) = (without_clocks(&whole), without_clocks(&folder));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (path, text) in &a {
        assert!(b[path] == *text, "{} differs", path.display());
    }
    // A race that is over is not run again.
    let mut counts = Vec::new();
    let options = RunOptions { resume: true, jobs: 1, ..RunOptions::default() };
    let again = run(&suite(), &folder, &options, &mut |done, all| counts.push((done, all))).unwrap();
    assert_eq!(counts, [(84, 84)]);
    assert_eq!(again.runs, resumed.runs);
    for folder in [whole, killed] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn the_command_line_runs_verifies_and_compares() {
    let folder = cli::folder("bench");
    let file = folder.join("small.ron");
    std::fs::write(&file, SUITE.replace("count: 4", "count: 2").replace("evaluations: 120", "evaluations: 40"))
        .unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (suite, a) = (path("small.ron"), path("a"));
    let answer = cli::run(&["--json", "bench", &suite, "-o", &a, "--jobs", "2"]).json();
    assert_eq!((answer["schema"].as_str(), answer["runs"].as_u64()), (Some("espalier/bench/1"), Some(42)));
    assert_eq!(cli::run(&["--json", "bench", "verify", &a]).json()["verified"], true);
    let compared = cli::run(&["--json", "bench", "compare", &a, &a]).json();
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 21);
    assert!(cli::run(&["bench", "compare", &a, &a]).out.contains("0 better, 0 worse, 21 cannot tell"));
    std::fs::write(folder.join("a/plots/profile.svg"), "").unwrap();
    let refused = cli::run(&["--json", "bench", "verify", &a]);
    assert_eq!((refused.code, &refused.json()["differs"][0]), (3, &Value::from("plots/profile.svg")));
    // Mistakes say where.
    let twice = cli::run(&["--json", "bench", &suite, "-o", &a]);
    assert_eq!((twice.code, twice.error()["kind"].as_str()), (2, Some("inconsistent")));
    let missing = cli::run(&["--json", "bench", &path("none.ron")]);
    assert_eq!((missing.code, missing.error()["kind"].as_str()), (2, Some("unreadable")));
    std::fs::write(&file, SUITE.replace("\"anneal\", p", "\"aneal\", p")).unwrap();
    let unknown = cli::run(&["--json", "bench", &suite]);
    assert_eq!((unknown.code, unknown.error()["field"].as_str()), (2, Some("backends[2].backend")));
}

#[test]
fn every_backend_is_explained() {
    let all = cli::run(&["--json", "backends"]).json();
    let all = all["backends"].as_array().unwrap();
    assert!(all.len() >= 7);
    for backend in all {
        let name = backend["name"].as_str().unwrap();
        for key in ["summary", "source", "when"] {
            assert!(backend[key].as_str().is_some_and(|text| text.len() > 5), "{name} {key}");
        }
        for parameter in backend["parameters"].as_array().unwrap() {
            assert!(
                !parameter["default"].is_null() && !parameter["source"].as_str().unwrap().is_empty(),
                "{parameter}"
            );
        }
        let page = cli::run(&["backends", name]).out;
        assert!(page.lines().all(|line| line.chars().count() <= 110), "{page}");
        assert!(page.contains("when"), "{page}");
    }
    assert_eq!(cli::run(&["--json", "backends", "mcts.uct"]).json()["backends"][0]["name"], "mcts");
    assert_eq!(cli::run(&["backends", "mcts.utc"]).code, 2);
    let unknown = cli::run(&["--json", "backends", "gentic"]);
    assert_eq!(unknown.code, 2);
    assert_eq!(unknown.error()["help"], "did you mean `genetic`?");
}

const OTHERS: &str = r#"(
    name: "others",
    instances: [
        (id: "circle", source: Circle(cities: 9, seed: 3)),
        (id: "chain", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1)),
        (id: "relabelled", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1), disguise: labels),
        (id: "misled", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1), disguise: prior),
        (id: "uninformed", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1), disguise: silent),
        (id: "orders", source: Schedule(tree: order, question: (devices: 2, micro_batches: 4, times: (1.0, 1.0, 1.0)))),
        (id: "nanotron", source: Runs(
            only: {"model_name": "llama-like 8B", "gpu_count": "128", "seq_len": "4096", "global_batch": "256"},
            decisions: ["tp", "pp", "micro_batch", "zero_fsdp"],
        )),
    ],
    backends: [(backend: "random"), (backend: "anneal"), (name: "uct", backend: "mcts.uct")],
    seeds: (count: 3), evaluations: 150,
)"#;

#[test]
fn runs_circles_and_disguises_are_raced_and_best_known_values_only_improve() {
    let folder = scratch("others");
    let suite = Suite::parse(OTHERS, "others.ron").unwrap();
    let results = run(&suite, &folder.join("a"), &RunOptions::default(), &mut |_, _| {}).unwrap();
    let instances = &results.manifest.instances;
    let digests: std::collections::BTreeSet<_> = instances.iter().map(|i| &i.digest).collect();
    assert_eq!(digests.len(), instances.len());
    for instance in instances.iter().filter(|i| i.id != "orders") {
        let reference = instance.reference.as_ref().unwrap();
        assert_eq!(reference.provenance.words(), "optimal", "{}", instance.id);
        let best = results.runs.iter().filter(|run| run.instance == instance.id).filter_map(|run| run.best);
        let distance = best.map(|best| reference.distance(best)).fold(f64::INFINITY, f64::min);
        assert!((0.0..0.2).contains(&distance), "{} {distance}", instance.id);
    }
    let value = |id: &str| results.manifest.instance(id).unwrap().reference.as_ref().unwrap().value;
    assert!(["relabelled", "misled", "uninformed"].iter().all(|id| value(id) == value("chain")));
    if results.manifest.skipped.is_empty() {
        let of_runs = results.runs.iter().filter(|run| run.instance == "nanotron");
        assert!(of_runs.clone().any(|run| run.trace.iter().any(|point| !point.score.is_feasible())), "runs crash");
        assert!(of_runs.clone().all(|run| run.best.is_some()));
    }

    let table = folder.join("best.json");
    let (a, table_path) = (folder.join("a").display().to_string(), table.display().to_string());
    let improve = || cli::run(&["--json", "bench", "best-known", &a, &table_path]).json();
    let first = improve();
    assert_eq!(first["improved"][0]["instance"], "orders");
    let text = std::fs::read_to_string(&table).unwrap();
    assert_eq!(improve()["improved"], Value::Array(Vec::new()));
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    // A better value is kept, a worse one is replaced.
    let best = first["improved"][0]["now"].as_f64().unwrap();
    for (written, improved) in [(best - 1.0, 0), (best + 1.0, 1)] {
        let mut values: BTreeMap<String, Reference> = serde_json::from_str(&text).unwrap();
        values.values_mut().for_each(|reference| reference.value = written);
        std::fs::write(&table, serde_json::to_string(&values).unwrap()).unwrap();
        assert_eq!(improve()["improved"].as_array().unwrap().len(), improved);
    }

    // Nothing below a proven bound is believed, neither of a table nor of runs.
    let mut values: BTreeMap<String, Reference> = serde_json::from_str(&text).unwrap();
    values.values_mut().for_each(|reference| reference.value = 1e-3);
    std::fs::write(&table, serde_json::to_string(&values).unwrap()).unwrap();
    let mut lied_to = Suite::parse(OTHERS, "others.ron").unwrap();
    (lied_to.best_known, lied_to.folder) = (Some("best.json".into()), folder.clone());
    let refused = run(&lied_to, &folder.join("b"), &RunOptions::default(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(refused.contains("the proven bound") && refused.contains("orders"), "{refused}");
    let files = [RUNS, TRACE].map(|name| (folder.join("a").join(name), name));
    let texts = files.clone().map(|(path, _)| std::fs::read_to_string(path).unwrap());
    for ((path, _), text) in files.iter().zip(&texts) {
        std::fs::write(path, text.replace(&format!("{best:?}"), "0.001")).unwrap();
    }
    let lied = cli::run(&["--json", "bench", "best-known", &a, &table_path]);
    assert_eq!((lied.code, &lied.error()["kind"]), (2, &"inconsistent".into()), "{}", lied.err);
    // Nor are numbers that no run writes.
    for wrong in ["nan", "inf", "1e999"] {
        let (path, text) = (&files[1].0, &texts[1]);
        let at = text.trim_end().rfind(',').unwrap();
        std::fs::write(path, format!("{}{wrong}\n", &text[..=at])).unwrap();
        assert!(Results::load(&folder.join("a")).unwrap_err().to_string().contains("line "), "{wrong}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_compared_is_named() {
    let folder = scratch("unlike");
    let chain = |seed: u64| format!("(id: \"p\", source: Chain(items: 6, options: 3, tightness: 0.4, seed: {seed}))");
    let suite = |name: &str, more: String| {
        let same = "(id: \"c\", source: Chain(items: 7, options: 3, tightness: 0.4, seed: 1))";
        let text = format!(
            "(name: \"u\", instances: [{same}, {more}], backends: [(backend: \"random\")], seeds: (count: 2), evaluations: 30)"
        );
        run(&Suite::parse(&text, "u.ron").unwrap(), &folder.join(name), &RunOptions::default(), &mut |_, _| {}).unwrap()
    };
    let (a, b) = (suite("a", chain(5)), suite("b", chain(6)));
    assert_eq!(not_compared(&a, &b), ["`p` is another problem in the second"]);
    assert!(not_compared(&a, &a).is_empty());
    let path = |name: &str| folder.join(name).display().to_string();
    assert!(cli::run(&["bench", "compare", &path("a"), &path("b")]).out.contains("Not compared: `p` is another"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_suite_that_is_told_of_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut read = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "ron") {
            let suite = Suite::load(&path).unwrap_or_else(|e| panic!("{e}"));
            for instance in &suite.instances {
                if let espalier::experiment::instance::Source::Layerwise(question) = &instance.source {
                    espalier::question::Question::load(&folder.join(question)).unwrap_or_else(|e| panic!("{e}"));
                }
            }
            read += 1;
        }
    }
    assert!(read >= 5, "{read}");
}

const TUNED: &str = r#"(
    name: "tuned",
    instances: [
        (id: "chain-a", source: Chain(items: 10, options: 5, segments: 2, rounds: 4, tightness: 0.4, seed: 1)),
        (id: "tour-a", source: Salesman(cities: 8, seed: 1)),
        (id: "chain-b", source: Chain(items: 10, options: 5, segments: 2, rounds: 4, tightness: 0.4, seed: 2)),
        (id: "tour-b", source: Salesman(cities: 8, seed: 2)),
    ],
    backends: [(backend: "anneal"), (backend: "genetic"), (backend: "exact"), (name: "uct", backend: "mcts.uct")],
    seeds: (count: 2), evaluations: 60,
    tuning: (train: ["chain-a", "tour-a"], trials: 4),
)"#;

#[test]
fn contestants_are_tuned_alike_on_some_instances_and_race_on_the_others() {
    let tuned = |folder: &Path, resume| {
        let options = RunOptions { jobs: 2, resume, ..RunOptions::default() };
        run(&Suite::parse(TUNED, "tuned.ron").unwrap(), folder, &options, &mut |_, _| {}).unwrap()
    };
    let (a, b) = (scratch("tuned-a"), scratch("tuned-b"));
    let results = tuned(&a, false);
    let record = results.manifest.tuned.as_ref().unwrap();
    let ids = |instances: &[espalier::experiment::manifest::InstanceRecord]| {
        instances.iter().map(|i| i.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&record.instances), ["chain-a", "tour-a"]);
    assert_eq!(ids(&results.manifest.instances), ["chain-b", "tour-b"]);
    assert_eq!(results.runs.len(), 2 * 4 * 2);
    assert!(results.runs.iter().all(|run| run.instance.ends_with("-b")), "what was tuned on does not race");
    let trials: Vec<usize> = record.contestants.iter().map(|c| c.trials.len()).collect();
    assert_eq!(trials, [4, 4, 1, 4], "there is nothing to tune in exact search");
    for (contestant, backend) in record.contestants.iter().zip(&results.manifest.backends) {
        let best = &contestant.trials[contestant.chosen];
        assert!(contestant.trials.iter().all(|trial| trial.area <= best.area), "{contestant:?}");
        if let Some(hot) = best.parameters.get("hot") {
            assert!(backend.identity.contains(&format!("hot: {hot}")), "{} {hot}", backend.identity);
        }
    }
    assert!(record.contestants.iter().any(|c| c.chosen > 0), "{record:?}");
    let table = std::fs::read_to_string(a.join("tables/tuning.md")).unwrap();
    assert!(table.contains("chain-a, tour-a") && table.lines().count() >= 8, "{table}");
    assert!(Results::load(&a).unwrap().verify(&a).unwrap().differing.is_empty());

    // Killed in the middle of tuning: what is recorded stays, the rest is the same.
    let journal = std::fs::read_to_string(a.join(TUNING)).unwrap();
    assert_eq!(journal.lines().count(), 13 * 2 * 2);
    let half: Vec<&str> = journal.lines().take(20).collect();
    std::fs::write(b.join(TUNING), half.join("\n") + "\n{\"cell\": ").unwrap();
    let resumed = tuned(&b, true);
    assert_eq!(resumed.manifest.tuned, results.manifest.tuned);
    assert!(std::fs::read_to_string(b.join(TUNING)).unwrap().starts_with(&half.join("\n")));
    let (left, right) = (without_clocks(&a), without_clocks(&b));
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (path, text) in &left {
        assert!(right[path] == *text, "{} differs", path.display());
    }
    // Resumed when all is done: nothing is run again.
    assert_eq!(tuned(&b, true).runs, resumed.runs);
    for (from, to, field) in [
        (r#"["chain-a", "tour-a"]"#, r#"["chain"]"#, "tuning.train"),
        (r#"["chain-a", "tour-a"]"#, "[]", "tuning.train"),
        (r#"["chain-a", "tour-a"]"#, r#"["chain-a", "tour-a", "chain-b", "tour-b"]"#, "tuning.train"),
        ("trials: 4", "trials: 0", "tuning.trials"),
    ] {
        let error = Suite::parse(&TUNED.replace(from, to), "tuned.ron").unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
    for folder in [a, b] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn plans_with_their_schedules_race_in_one_tree_and_teach_the_case_base() {
    let folder = cli::folder("joint");
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut suite = Suite::load(&experiments.join("joint.ron")).unwrap();
    suite.backends.retain(|contestant| ["random", "mcts", "genetic"].contains(&contestant.label()));
    suite.instances.truncate(2);
    (suite.seeds.count, suite.evaluations, suite.budgets, suite.best_known) = (2, 150, Vec::new(), None);
    let results = run(&suite, &folder.join("a"), &RunOptions { jobs: 2, ..RunOptions::default() }, &mut |_, _| {});
    let results = results.unwrap();
    for instance in &results.manifest.instances {
        let reference = instance.reference.as_ref().unwrap();
        assert_eq!((instance.family.as_str(), reference.provenance.words()), ("plan and schedule", "bound"));
        let of = |backend: &str| {
            let runs = results.runs.iter().filter(|r| r.instance == instance.id && r.backend == backend);
            runs.filter_map(|run| run.best).fold(f64::INFINITY, f64::min)
        };
        let (random, mcts) = (of("random"), of("mcts"));
        println!("{}: bound {} random {random} mcts {mcts} genetic {}", instance.id, reference.value, of("genetic"));
        assert!(reference.value > 0.0 && reference.distance(mcts) >= 0.0 && mcts < random, "{}", instance.id);
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let suite_folder = experiments.display().to_string();
    let learn = ["--json", "bench", "learn", &path("a"), &path("cases.ron"), "--suite-folder", &suite_folder];
    let learned = cli::run(&learn).json();
    assert_eq!((learned["cases"].as_u64(), learned["taken"].as_array().unwrap().len()), (Some(2), 2));
    let again = cli::run(&learn).json();
    assert_eq!((again["cases"].as_u64(), again["taken"].as_array().unwrap().len()), (Some(2), 0));
    // Whoever begins with the cases begins where the others ended.
    let cases = serde_json::json!(path("cases.ron"));
    suite.backends.truncate(1);
    suite.backends[0].backend = "rules".to_owned();
    suite.backends[0].parameters = [("cases".to_owned(), cases)].into_iter().collect();
    (suite.seeds.count, suite.evaluations) = (1, 3);
    let informed = run(&suite, &folder.join("b"), &RunOptions::default(), &mut |_, _| {}).unwrap();
    for run in &informed.runs {
        let others = results.runs.iter().filter(|r| r.instance == run.instance).filter_map(|r| r.best);
        assert!(run.best.unwrap() <= others.fold(f64::INFINITY, f64::min) * (1.0 + 1e-12), "{}", run.instance);
    }
}
