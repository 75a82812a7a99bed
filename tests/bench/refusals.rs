//! What is refused, with the field, what was found and what would be right; and what is said of runs that fail.

use super::cli;
use serde_json::Value;

const HEAD: &str = r#"name: "s", instances: [(id: "c", source: Chain(items: 8, options: 4, tightness: 0.4, seed: 1))],
    backends: [(backend: "random"), (backend: "mcts")], seeds: (count: 3), evaluations: 50, budgets: [20], targets: [0.03],"#;

#[test]
fn sizes_beyond_measure_are_refused_with_field_value_and_maximum() {
    let folder = cli::folder("bench-sizes");
    let source = "Chain(items: 8, options: 4, tightness: 0.4, seed: 1)";
    let most = "9223372036854775807";
    let cases: Vec<(&str, String, &str)> = vec![
        ("count: 3", "count: 100000000000".into(), "seeds.count"),
        ("count: 3", "first: 18446744073709551615, count: 2".into(), "seeds.first"),
        ("evaluations: 50", "evaluations: 18446744073709551615".into(), "evaluations"),
        (
            "count: 3), evaluations: 50",
            "count: 10000), evaluations: 10000000".into(),
            "seeds x instances x backends x evaluations",
        ),
        ("budgets: [20]", "budgets: [0]".into(), "budgets[0]"),
        ("budgets: [20]", "budgets: [51]".into(), "budgets[0]"),
        ("budgets: [20]", "budgets: [20, 20]".into(), "budgets[1]"),
        ("targets: [0.03]", "targets: [0.03, inf]".into(), "targets[1]"),
        ("targets: [0.03]", "targets: [NaN]".into(), "targets[0]"),
        ("targets: [0.03]", "targets: [0.03, 0.01, 0.03]".into(), "targets[2]"),
        ("items: 8", "items: 1000000000".into(), "instances[0].source.items"),
        ("options: 4", format!("options: {most}"), "instances[0].source.options"),
        ("items: 8", "items: 8, segments: 9".into(), "instances[0].source.segments"),
        ("items: 8", format!("items: 8, rounds: {most}"), "instances[0].source.rounds"),
        ("tightness: 0.4", "tightness: NaN".into(), "instances[0].source.tightness"),
        (source, format!("Knapsack(items: {most}, dimensions: 1, seed: 1)"), "instances[0].source.items"),
        (source, format!("Knapsack(items: 1, dimensions: {most}, seed: 1)"), "instances[0].source.dimensions"),
        (source, format!("Salesman(cities: {most}, seed: 1)"), "instances[0].source.cities"),
        (source, format!("Circle(cities: {most}, seed: 1)"), "instances[0].source.cities"),
        (source, format!("JobShop(jobs: {most}, machines: 1, seed: 1)"), "instances[0].source.jobs"),
        (source, "JobShop(jobs: 1000, machines: 1000, seed: 1)".into(), "instances[0].source.machines"),
        (
            source,
            format!("Schedule(question: (devices: {most}, micro_batches: 2, times: (1.0, 1.0, 1.0)))"),
            "instances[0].source.question.micro-batches",
        ),
        (
            source,
            format!("Schedule(question: (devices: 2, micro_batches: {most}, times: (1.0, 1.0, 1.0)))"),
            "instances[0].source.question.micro-batches",
        ),
        (source, "Runs(only: {}, decisions: [])".into(), "instances[0].source.decisions"),
        (
            "(backend: \"mcts\")",
            format!("(backend: \"mcts\", parameters: {{\"batch\": {most}}})"),
            "backends[1].parameters.batch",
        ),
        (
            "(backend: \"mcts\")",
            "(backend: \"genetic\", parameters: {\"population\": 100000000})".into(),
            "backends[1].parameters.population",
        ),
        (
            "(backend: \"mcts\")",
            "(backend: \"mcts\", parameters: {\"batch\": -1})".into(),
            "backends[1].parameters.batch",
        ),
        (
            "(backend: \"mcts\")",
            "(backend: \"mcts\", parameters: {\"nosuch\": 1})".into(),
            "backends[1].parameters.nosuch",
        ),
        ("count: 3)", "count: 3), tuning: (train: [\"c\"], trials: 1)".into(), "tuning.train"),
    ];
    for (from, to, field) in cases {
        let file = folder.join("s.ron");
        let text = format!("({})", HEAD.replace(from, &to));
        assert!(text.contains(&to));
        std::fs::write(&file, text).unwrap();
        let ran = cli::run(&["--json", "bench", file.to_str().unwrap(), "-o", folder.join("r").to_str().unwrap()]);
        let error = ran.error();
        assert_eq!((ran.code, error["field"].as_str()), (2, Some(field)), "{to}: {}", ran.err);
        assert!(!error["found"].is_null() && !error["expected"].is_null(), "{to}: {}", ran.err);
    }
    assert!(!folder.join("r").exists());
}

#[test]
fn texts_of_errors_speak_of_the_files_and_not_of_the_language() {
    let folder = cli::folder("bench-texts");
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(folder.join("s.ron"), format!("({HEAD})")).unwrap();
    std::fs::write(folder.join("negative.ron"), format!("({})", HEAD.replace("evaluations: 50", "evaluations: -1")))
        .unwrap();
    let error = cli::run(&["--json", "bench", &path("negative.ron")]).error();
    assert_eq!((&error["field"], &error["found"]), (&"evaluations".into(), &"-1".into()), "{error}");
    assert_eq!(error["expected"], "a whole number, 0 to 18446744073709551615");
    // A file in place of the folder.
    std::fs::write(folder.join("file"), "mine").unwrap();
    let error = cli::run(&["--json", "bench", &path("s.ron"), "-o", &path("file")]).error();
    assert_eq!(error["kind"], "unwritable", "{error}");
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "mine");

    let results = path("r");
    let ran = cli::run(&["bench", &path("s.ron"), "-o", &results]);
    assert!(ran.out.contains("more is better") && ran.out.contains("In brackets"), "{}", ran.out);
    for command in ["best-known", "learn"] {
        let ran = cli::run(&["--json", "bench", command, &results, &path("nowhere/x.json")]);
        assert_eq!((ran.code, ran.error()["kind"].as_str()), (2, Some("unwritable")), "{}", ran.err);
        assert!(!folder.join("nowhere").exists());
    }
    let trace = folder.join("r/trace.csv");
    let text = std::fs::read_to_string(&trace).unwrap();
    std::fs::write(&trace, text.lines().take(1).collect::<String>() + "\n").unwrap();
    let said = cli::run(&["bench", "verify", &results]).err;
    assert!(said.contains("found `nothing feasible`") && !said.contains("Some(") && !said.contains("None"), "{said}");
}

#[test]
fn runs_that_fail_are_told_of_wherever_somebody_looks() {
    let folder = cli::folder("bench-failing");
    let file = folder.join("s.ron");
    let failing = r#"(backend: "rules", parameters: {"command": "/no/such/program"})"#;
    std::fs::write(&file, format!("({})", HEAD.replace("(backend: \"mcts\")", failing))).unwrap();
    let (file, results) = (file.display().to_string(), folder.join("r").display().to_string());
    let ran = cli::run(&["--json", "bench", &file, "-o", &results]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("3 runs of `rules` on `c` failed: rules: command: "), "{}", ran.err);
    let document = ran.json();
    let failed = &document["failed"][0];
    assert_eq!((&failed["backend"], &failed["instance"], &failed["runs"]), (&"rules".into(), &"c".into(), &3.into()));
    let table = std::fs::read_to_string(folder.join("r/tables/failures.md")).unwrap();
    assert!(table.contains("| rules | c | rules: command: ") && table.contains("cannot be started"), "{table}");
    assert!(!folder.join("r/tables/refusals.md").exists(), "a failure is no refusal");
    let report = std::fs::read_to_string(folder.join("r/report.html")).unwrap();
    assert!(report.contains("Failed runs"));
    // Again from the record.
    let again = cli::run(&["bench", &file, "-o", &results, "--resume"]);
    assert!(again.out.contains("3 of 6 runs failed") && again.err.contains("3 runs of `rules`"), "{}", again.out);
    assert_eq!(cli::run(&["--json", "bench", "verify", &results]).json()["verified"], Value::Bool(true));
}

#[test]
fn too_few_seeds_for_the_instances_are_said_to_tell_nothing() {
    let folder = cli::folder("bench-few");
    let file = folder.join("s.ron");
    let table = |count: u64, name: &str| {
        let text = HEAD.replace("count: 3", &format!("count: {count}")).replace("items: 8", "items: 12");
        std::fs::write(&file, format!("({text})")).unwrap();
        let results = folder.join(count.to_string());
        if !results.exists() {
            cli::run(&["bench", file.to_str().unwrap(), "-o", results.to_str().unwrap()]);
        }
        std::fs::read_to_string(results.join(format!("tables/{name}.md"))).unwrap()
    };
    // The smallest p of three against three is 2 / C(6, 3) = 0.1; of four 2 / 70 = 0.029, of five 2 / 252 = 0.0079.
    let few = table(3, "duels");
    assert!(
        few.contains("| random |  | cannot tell ") && few.contains("is 0.100") && few.contains("4 seeds are needed"),
        "{few}"
    );
    assert!(table(3, "floor").contains("| mcts | cannot tell |"));
    assert!(table(4, "floor").contains("cannot tell") && !table(4, "duels").contains("cannot tell"));
    let enough = table(5, "floor");
    assert!(!enough.contains("cannot tell") && enough.contains("| mcts | no | 1 | 0 | 1 |"), "{enough}");
}
