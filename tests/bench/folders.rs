//! Folders of results: one race at a time, suites that go on, tables that go, paths that are followed, hints that are whole.

use super::{SUITE, cli, scratch};
use espalier::experiment::results::{JOURNAL, RUNS, Results, TRACE};
use espalier::experiment::runner::{RunOptions, run};
use espalier::experiment::suite::Suite;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SMALL: &str = r#"(
    name: "small",
    instances: [
        (id: "chain", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1)),
        (id: "tour", source: Salesman(cities: 8, seed: 1)),
    ],
    backends: [(backend: "random"), (backend: "mcts")],
    seeds: (first: 3, count: 3), evaluations: 60, budgets: [20, 40], targets: [0.03, 0.01],
)"#;

fn race(text: &str, folder: &Path, resume: bool) -> Result<Results, String> {
    let suite = Suite::parse(text, "small.ron").map_err(|e| e.to_string())?;
    let options = RunOptions { resume, ..RunOptions::default() };
    run(&suite, folder, &options, &mut |_, _| {}).map_err(|e| e.to_string())
}

/// Every file below `folder`, byte by byte.
fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_suite_that_would_lose_recorded_runs_is_refused_by_name_and_nothing_is_touched() {
    let folder = scratch("lost");
    race(SMALL, &folder, false).unwrap();
    let before = all(&folder);
    let others = [
        ("evaluations: 60", "evaluations: 50", "evaluations: contradiction: found `50`, expected 60, as recorded"),
        ("first: 3, count: 3", "first: 3, count: 2", "seeds"),
        ("first: 3, count: 3", "first: 4, count: 9", "seeds: contradiction: found `9 from 4`"),
        ("items: 8", "items: 9", "instances[0].source"),
        ("cities: 8, seed: 1)", "cities: 8, seed: 1), disguise: labels", "instances[1].disguise"),
        ("id: \"tour\"", "id: \"trip\"", "`tour` among them, as recorded"),
        ("(backend: \"random\"), ", "", "backends: contradiction: found `mcts`, expected `random` among them"),
        ("(backend: \"mcts\")", "(backend: \"mcts\", parameters: {\"c\": 0.25})", "backends[1].parameters.c"),
        ("(backend: \"mcts\")", "(name: \"mcts\", backend: \"mcts.uct\")", "backends[1].backend"),
        ("evaluations: 60", "evaluations: 60, tuning: (train: [\"tour\"], trials: 2)", "tuning"),
    ];
    for (from, to, said) in others {
        let other = SMALL.replace(from, to);
        assert_ne!(other, SMALL);
        let refused = race(&other, &folder, true).unwrap_err();
        assert!(refused.contains(said) && refused.contains("would lose"), "{to}: {refused}");
        assert!(all(&folder) == before, "{to}: something was touched");
    }
    // Another suite altogether, killed and finished races alike.
    for journal in [false, true] {
        if journal {
            let runs = std::fs::read(folder.join(RUNS)).unwrap();
            std::fs::write(folder.join(JOURNAL), runs).unwrap();
            std::fs::remove_file(folder.join(TRACE)).unwrap();
        }
        let before = all(&folder);
        assert!(race(SUITE, &folder, true).unwrap_err().contains("would lose"));
        assert!(all(&folder) == before);
    }
    // A manifest that is gone does not free its runs.
    std::fs::remove_file(folder.join("manifest.json")).unwrap();
    assert!(race(SMALL, &folder, false).unwrap_err().contains("--resume"));
    let refused = race(&SMALL.replace("evaluations: 60", "evaluations: 50"), &folder, true).unwrap_err();
    assert!(refused.contains("12 recorded runs of others"), "{refused}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_suite_that_gains_keeps_every_run_and_takes_its_own_stale_tables_away() {
    let folder = scratch("gains");
    let first = race(SMALL, &folder, false).unwrap();
    std::fs::write(folder.join("tables/mine.txt"), "mine").unwrap();
    let gained = SMALL
        .replace("first: 3, count: 3", "first: 2, count: 5")
        .replace("(id: \"chain\"", "(id: \"new\", source: Knapsack(items: 8, dimensions: 2, seed: 1)), (id: \"chain\"")
        .replace("[(backend: \"random\")", "[(backend: \"anneal\"), (backend: \"random\")")
        .replace("budgets: [20, 40], targets: [0.03, 0.01]", "budgets: [30], targets: [0.02]");
    let second = race(&gained, &folder, true).unwrap();
    assert_eq!((first.runs.len(), second.runs.len()), (12, 45));
    for run in &first.runs {
        assert!(second.runs.contains(run), "{run:?}");
    }
    assert!(!folder.join("tables/distance_20.md").exists() && folder.join("tables/distance_30.md").exists());
    assert_eq!(std::fs::read_to_string(folder.join("tables/mine.txt")).unwrap(), "mine", "what is not ours stays");
    std::fs::remove_file(folder.join("tables/mine.txt")).unwrap();
    assert!(Results::load(&folder).unwrap().verify(&folder).unwrap().differing.is_empty());
    // The same as if it had been so from the beginning, clocks apart.
    let whole = scratch("gains-whole");
    race(&gained, &whole, false).unwrap();
    let (a, b) = (super::without_clocks(&whole), super::without_clocks(&folder));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    assert!(a.iter().all(|(path, text)| b[path] == *text));
    for folder in [folder, whole] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn two_races_in_one_folder_are_one_too_many_and_a_killed_one_leaves_no_lock() {
    let folder = cli::folder("bench-lock");
    let file = folder.join("long.ron");
    let long = SMALL.replace("evaluations: 60", "evaluations: 5000").replace("count: 3", "count: 400");
    std::fs::write(&file, long).unwrap();
    let (file, results) = (file.display().to_string(), folder.join("r"));
    let output = results.display().to_string();
    let mut first = cli::espalier(&["bench", &file, "-o", &output]).spawn().unwrap();
    wait_for(|| results.join(JOURNAL).exists());
    let begun = Instant::now();
    for more in [&["--resume"][..], &[]] {
        let second = cli::run(&[&["--json", "bench", &file, "-o", &output], more].concat());
        assert_eq!((second.code, second.error()["field"].as_str()), (2, Some("--output")), "{}", second.err);
    }
    let said = cli::run(&["bench", &file, "-o", &output, "--resume"]).err;
    assert!(said.contains("no other race writes into"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(5), "it is refused at its start");
    first.kill().unwrap();
    first.wait().unwrap();
    let small = SMALL.replace("evaluations: 60", "evaluations: 5000").replace("count: 3", "count: 400");
    let kept = std::fs::read_to_string(results.join(JOURNAL)).unwrap().matches('\n').count();
    // Goes on, though only until it is told to stop: the whole command to go on with is said, quoted for a shell.
    let spaced = folder.join("it's long.ron");
    std::fs::write(&spaced, small).unwrap();
    let mut third =
        cli::espalier(&["--json", "bench", spaced.to_str().unwrap(), "-o", &output, "--jobs", "2", "--resume"]);
    let third = third.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for(|| std::fs::read_to_string(results.join(JOURNAL)).unwrap().matches('\n').count() > kept + 3);
    interrupt(third.id());
    let ended = third.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let quoted = spaced.display().to_string().replace('\'', "'\\''");
    let whole = format!("espalier --json bench '{quoted}' -o {output} --jobs 2 --resume");
    assert!(ended.status.code() == Some(130) && said.contains(&whole), "{said}");
    assert!(!results.join("lock").exists());
}

fn wait_for(there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What Ctrl-C does.
fn interrupt(process: u32) {
    assert!(std::process::Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap().success());
}

#[test]
fn making_instances_is_interrupted_like_anything_else() {
    let folder = cli::folder("bench-making");
    // Branch and bound over a tree, and labels of a question whose proof takes half a minute.
    let knapsack = "Knapsack(items: 300, dimensions: 30, seed: 1)".to_owned();
    let question = concat!(env!("CARGO_MANIFEST_DIR"), "/search_configs/qwen3_30b_a3b_64xh100.ron");
    for (name, source) in [("knapsack", knapsack), ("question", format!("Layerwise({question:?})"))] {
        let file = folder.join(format!("{name}.ron"));
        let rest = &SMALL[SMALL.find("backends:").unwrap()..];
        std::fs::write(&file, format!(r#"(name: "m", instances: [(id: "i", source: {source})], {rest}"#)).unwrap();
        let output = folder.join(name);
        let mut bench = cli::espalier(&["bench", file.to_str().unwrap(), "-o", output.to_str().unwrap()]);
        let child = bench.stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let begun = Instant::now();
        interrupt(child.id());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(130) && said.contains("--resume"), "{name}: {said}");
        println!("{name}: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(1), "{name}: {:?}", begun.elapsed());
        assert!(!output.join("manifest.json").exists(), "{name} was still being made");
    }
}

#[test]
fn recorded_paths_are_followed_and_tampered_ones_found() {
    let folder = cli::folder("bench-paths");
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut suite = Suite::parse(SUITE, "test.ron").unwrap();
    let joint = r#"(name: "j", instances: [
        (id: "joint", source: Joint("../search_configs/four_devices.ron")),
        (id: "tight", source: Chain(items: 8, options: 4, tightness: 0.0, seed: 1)),
        (id: "relabelled", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1), disguise: labels),
    ], backends: [(backend: "random")], seeds: (count: 1), evaluations: 1)"#;
    suite.instances.extend(Suite::parse(joint, "joint.ron").unwrap().instances);
    suite.backends.truncate(1);
    suite.backends.extend(Suite::parse(SMALL, "small.ron").unwrap().backends.pop());
    (suite.seeds.count, suite.evaluations, suite.folder) = (2, 60, experiments.clone());
    let results = folder.join("r");
    run(&suite, &results, &RunOptions::default(), &mut |_, _| {}).unwrap();
    let (results, experiments) = (results.display().to_string(), experiments.display().to_string());
    let verify = || cli::run(&["--json", "bench", "verify", &results, "--suite-folder", &experiments]);
    let right = verify();
    let document = right.json();
    assert_eq!((right.code, &document["verified"]), (0, &Value::Bool(true)), "{}", right.out);
    assert_eq!(document["paths"]["right"], 40, "{document:#}");
    // From elsewhere the question is not found, and that is said.
    let elsewhere = cli::run(&["--json", "bench", "verify", &results]);
    assert_eq!((elsewhere.code, elsewhere.json()["paths"]["left_out"].as_array().unwrap().len()), (0, 1));

    let file = Path::new(&results).join(RUNS);
    let whole = std::fs::read_to_string(&file).unwrap();
    let tampered = |change: &dyn Fn(&mut Value)| {
        let line = |line: &str| {
            let mut run: Value = serde_json::from_str(line).unwrap();
            change(&mut run);
            format!("{run}\n")
        };
        std::fs::write(&file, whole.lines().map(line).collect::<String>()).unwrap();
        let ran = verify();
        assert_eq!(ran.code, 3, "{}", ran.out);
        ran.json()
    };
    let zeros = tampered(&|run| {
        run["path"].as_array_mut().unwrap().iter_mut().for_each(|option| *option = 0.into());
    });
    assert!(zeros["paths"]["wrong"].as_array().unwrap().len() > 20, "{zeros:#}");
    let short = tampered(&|run| drop(run["path"].as_array_mut().unwrap().pop()));
    assert!(short["paths"]["wrong"][0].as_str().unwrap().contains("before the end"), "{short:#}");
    let long = tampered(&|run| run["path"].as_array_mut().unwrap().push(0.into()));
    assert!(long["paths"]["wrong"][0].as_str().unwrap().contains("goes on"), "{long:#}");
    let far = tampered(&|run| run["path"][0] = 1_000_000.into());
    assert!(far["paths"]["wrong"][0].as_str().unwrap().contains("option 1000000 of"), "{far:#}");
    // A run of another cell, and one run twice in place of another.
    let other = tampered(&|run| run["cell"] = "0".into());
    assert_eq!((other["missing_runs"].as_u64(), other["unplanned_runs"].as_array().unwrap().len()), (Some(40), 40));
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(verify().code, 0);
}

#[test]
fn a_folder_without_its_runs_says_what_it_lacks() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/campaign").display().to_string();
    let ran = cli::run(&["bench", "verify", &recorded]);
    assert!(ran.code == 2 && ran.err.contains("manifest.json, runs.jsonl and trace.csv"), "{}", ran.err);
    assert!(ran.err.contains("kept without its runs"), "{}", ran.err);
    let folder = cli::folder("bench-lacks");
    let said = |folder: &Path| cli::run(&["bench", "verify", folder.to_str().unwrap()]).err;
    assert!(said(&folder.join("none")).contains("no such folder"));
    assert!(said(&folder).contains("makes one"));
    std::fs::write(folder.join(JOURNAL), "").unwrap();
    assert!(said(&folder).contains("go on with"));
}
