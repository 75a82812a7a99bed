//! What a user can rely on of plans with a schedule of their own: never slower than under 1F1B, priced the same again,
//! refused when broken, the same on any number of threads.

mod cli;

use cli::{folder, run, run_with};
use serde_json::{Value, json};

/// Four stages with eight micro-batches: a bubble that a schedule can shorten.
const ASKED: [&str; 16] = [
    "plan",
    "--model",
    "gpt2-xl",
    "--cluster",
    "h100x4",
    "--global-batch",
    "8",
    "--seq",
    "1024",
    "--fix",
    "pp=4",
    "--schedule-evals",
    "48",
    "--schedule",
    "auto",
    "--json",
];

fn asked(more: &[&str]) -> Value {
    let ran = run(&[&ASKED[..], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.json()
}

/// Without what depends on the clock.
fn timeless(mut document: Value) -> Value {
    for key in ["wall_s", "cpu_s", "first_plan_s", "cache_hits"] {
        document["search"].as_object_mut().unwrap().remove(key);
    }
    document["question"] = Value::Null;
    document
}

fn number(document: &Value, path: &str) -> f64 {
    document.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {document}"))
}

#[test]
fn a_searched_schedule_is_shorter_fits_and_is_priced_the_same_again() {
    let plan = asked(&["--threads", "1"]);
    assert_eq!(timeless(plan.clone()), timeless(asked(&["--threads", "2"])));
    let found = number(&plan, "/schedule/iteration_time_s");
    assert_eq!(found, number(&plan, "/estimate/iteration_time_s"));
    let usual = number(&plan, "/schedule/planned_iteration_time_s");
    assert!(found < usual * 0.99, "{found} {usual}");
    let bound = number(&plan, "/schedule/bound_s");
    assert!(bound <= found && number(&plan, "/bound/objective_s") <= bound);
    // Interleaved 1F1B is among what it was compared with.
    assert!(number(&plan, "/schedule/interleaved/iteration_time_s") >= found);
    let usable = number(&plan, "/estimate/usable_memory_bytes");
    let peaks = plan["schedule"]["peak_memory_bytes"].as_array().unwrap();
    assert!(peaks.len() == 4 && peaks.iter().all(|peak| peak.as_f64().unwrap() <= usable));
    // Its price again, from the file.
    let checked = run_with(&["check", "-", "--json"], &plan.to_string());
    assert_eq!(checked.code, 0, "{}", checked.err);
    let checked = checked.json();
    assert_eq!(checked["estimate"], plan["estimate"]);
    assert_eq!(number(&checked, "/schedule/bubble"), number(&plan, "/schedule/bubble"));
    // It is the plan that is exported, in its own seconds.
    let trace = run_with(&["export", "-", "--to", "perfetto"], &plan.to_string());
    let trace: Value = serde_json::from_str(&trace.out).unwrap();
    let ends = trace["traceEvents"].as_array().unwrap().iter();
    let last = ends.filter_map(|e| Some(e["ts"].as_f64()? + e["dur"].as_f64()?)).fold(0.0, f64::max);
    assert!(last > 0.5e6 * found && last <= 1e6 * found, "{last} {found}");
    let csv = run_with(&["export", "-", "--to", "torch-csv"], &plan.to_string());
    assert_eq!(csv.out.lines().count(), 4, "{}", csv.out);
}

#[test]
fn a_broken_schedule_of_a_plan_is_refused_by_device_and_position() {
    let plan = asked(&[]);
    let refused = |edit: &dyn Fn(&mut Value)| {
        let mut broken = plan.clone();
        edit(&mut broken["schedule"]["order"]);
        let ran = run_with(&["check", "-", "--json"], &broken.to_string());
        assert_eq!(ran.code, 2, "{} {}", ran.out, ran.err);
        ran.error()
    };
    let error = refused(&|order| order["orders"][2][1] = json!("2Q0"));
    assert_eq!(error["field"], "schedule.order.orders[2][1]", "{error}");
    // The first forward of a device twice.
    let error = refused(&|order| order["orders"][1][1] = order["orders"][1][0].clone());
    let said = error["expected"].as_str().unwrap();
    assert!(error["field"] == "schedule.order.orders" && said.contains("device 1, step 1"), "{error}");
    let error = refused(&|order| {
        let _ = order["orders"][3].as_array_mut().unwrap().pop();
    });
    assert!(error["expected"].as_str().unwrap().contains("device 3"), "{error}");
    let error = refused(&|order| order["recompute"] = json!([0]));
    assert_eq!(error["field"], "schedule.order.recompute", "{error}");
    let mut other = plan.clone();
    let has = plan["plan"]["micro_batches"].as_u64().unwrap();
    other["plan"]["micro_batches"] = json!(if has == 8 { 4 } else { 8 });
    let ran = run_with(&["check", "-", "--json"], &other.to_string());
    assert!(ran.code == 2 && ran.err.contains("micro-batches"), "{}", ran.err);
}

#[test]
fn gradients_that_are_dear_apart_stay_in_one() {
    let cheap = asked(&[]);
    let dear = asked(&["--split-penalty", "50%"]);
    let names = |plan: &Value| plan["schedule"]["shape"].as_str().unwrap().to_owned();
    assert!(names(&dear).contains("in one"), "{}", names(&dear));
    assert!(number(&dear, "/schedule/iteration_time_s") >= number(&cheap, "/schedule/iteration_time_s"));
    assert!(dear["schedule"]["compared"].as_array().unwrap().iter().any(|k| k["name"] == "interleaved_1f1b"));
    let checked = run_with(&["check", "-", "--json"], &dear.to_string()).json();
    assert_eq!(checked["estimate"], dear["estimate"]);
}

#[test]
fn the_usual_schedules_can_be_asked_for() {
    for (schedule, chunks) in [("1f1b", 1..=1), ("interleaved", 2..=64)] {
        let ran = run(&[&ASKED[..14], &[schedule, "--json"]].concat());
        let plan = ran.json();
        assert!(chunks.contains(&plan["plan"]["chunks_per_stage"].as_u64().unwrap()), "{schedule}");
        assert!(plan.get("schedule").is_none());
        let grid = run_with(&["export", "-", "--to", "grid"], &plan.to_string());
        assert_eq!(grid.out.lines().count(), 4, "{}", grid.out);
    }
}

#[test]
fn a_schedule_makes_a_plan_fit_that_no_usual_order_has_room_for() {
    // Eight stages without recomputation on 45 GB: 1F1B needs 52 GB on its first stage.
    let folder = folder("schedule_only");
    let file = folder.join("plan.json");
    let question = [
        "plan",
        "--model",
        "llama3-8b",
        "--cluster",
        "h100x8",
        "--global-batch",
        "64",
        "--seq",
        "8192",
        "--memory",
        "45GB",
        "--fix",
        "pp=8",
        "--forbid",
        "recompute=full",
        "--forbid",
        "recompute=selective",
        "--json",
    ];
    let usual = run(&[&question[..], &["--schedule", "1f1b"]].concat());
    assert_eq!(usual.code, 3, "{}", usual.err);
    let path = file.to_str().unwrap();
    let found = run(&[&question[..], &["--schedule", "auto", "-o", path]].concat());
    assert_eq!(found.code, 0, "{}", found.err);
    let plan = found.json();
    assert_eq!(plan["fits"], true);
    assert_eq!(plan["schedule"]["planned_iteration_time_s"], Value::Null);
    let peaks = plan["schedule"]["peak_memory_bytes"].as_array().unwrap();
    let usable = number(&plan, "/estimate/usable_memory_bytes");
    assert!(peaks.iter().all(|peak| peak.as_f64().unwrap() <= usable), "{peaks:?} {usable}");
    assert!(number(&plan, "/bound/objective_s") <= number(&plan, "/estimate/iteration_time_s"));
    let checked = run(&["check", path, "--json"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    // A further search starts from the schedule that the plan holds.
    let further = run(&["schedule", "--plan", path, "--max-evals", "40", "--json"]).json();
    let time = number(&further, "/iteration_time_s");
    assert!(time <= number(&plan, "/schedule/iteration_time_s") * (1.0 + 1e-9), "{time}");
}

#[test]
fn a_tree_of_plans_and_orders_is_priced_by_simulation_and_never_below_its_bounds() {
    use espalier::question::Question;
    use espalier::search::problem::{Bound, Fidelity, Node, Problem};
    use espalier::search::stream::Stream;
    use espalier::search::walk::{PriorSampler, Walk};
    use espalier::space::joint_tree::JointSpace;
    use espalier::space::planner::Inputs;

    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, penalty) in [
        ("search_configs/four_devices.ron", 0.03),
        ("experiments/joint/llama2_13b_16xa100_40.ron", 0.0),
        ("experiments/joint/llama3_8b_128k_16xh100.ron", 0.03),
        ("experiments/joint/qwen3_30b_a3b_16xh100.ron", 0.0),
    ] {
        let question = Question::load(&root.join(file)).unwrap();
        let (model, cluster) = question.resolve().unwrap();
        let (job, search) = (question.job.clone(), question.search.clone());
        let inputs = Inputs { model, cluster, job, search, cost: Default::default() };
        let (mut feasible, mut spent, mut apart) = (0, std::time::Duration::ZERO, 0);
        inputs
            .with_space(|space| {
                let joint = JointSpace::new(space, penalty);
                let mut priors = PriorSampler::default();
                for index in 0..60 {
                    let mut stream = Stream::new(1, 0, 0, index);
                    let mut walk = Walk::new(&joint);
                    walk.complete(None, |decision| match index % 3 {
                        0 => stream.below(u64::from(decision.options)) as u32,
                        _ => priors.draw(&decision, &mut stream),
                    });
                    if walk.node() != Node::Complete {
                        continue;
                    }
                    let x = walk.solution();
                    let begun = std::time::Instant::now();
                    let score = joint.score(&x, Fidelity::Exact);
                    spent += begun.elapsed();
                    let (plan, schedule) = (joint.plan_of(&x), joint.schedule_of(&x).unwrap());
                    apart += usize::from(schedule.splits_backward());
                    let estimate = joint.estimator().estimate_under(&plan, &schedule, penalty).unwrap();
                    let time = score.objective().unwrap_or_else(|| panic!("{file}: {score:?}"));
                    assert!((time / estimate.iteration_time_s - 1.0).abs() < 1e-9, "{file}: {time} {estimate:?}");
                    assert!(estimate.fits, "{file}: {estimate:?}");
                    let money = joint.measures(&x);
                    assert_eq!(money[0], estimate.peak_memory_bytes);
                    assert_eq!(money.get(1).copied(), estimate.dollars_per_1e9_tokens);
                    feasible += 1;
                    let path = walk.path().to_vec();
                    loop {
                        match joint.bound(walk.state()) {
                            Bound::AtLeast(bound) => assert!(bound <= time, "{file} {path:?}: {bound} {time}"),
                            Bound::Infeasible => panic!("{file}: {path:?} is called infeasible at {:?}", walk.path()),
                        }
                        if walk.pop().is_none() {
                            break;
                        }
                    }
                }
            })
            .unwrap();
        println!("{file}: {feasible} of 60, {apart} apart, {:?} each", spent / feasible.max(1) as u32);
        assert!(feasible >= 5 && apart > 0 && apart < feasible, "{file}: {feasible} {apart}");
        assert!(spent / (feasible as u32) < std::time::Duration::from_millis(5), "{file}: {spent:?}");
    }
}
