//! How far a plan can be trusted: whether the choice stands within its intervals, what keeps it from running out of memory, and
//! the nearest run that somebody measured.

mod cli;
mod planning;

use cli::{espalier, folder, run, small};
use espalier::accuracy::Quantity;
use espalier::accuracy::held_out::held_out;
use espalier::accuracy::table;
use espalier::job::Job;
use espalier::plan::Spine;
use espalier::reference;
use espalier::space::answer::Alternative;
use espalier::space::stability::{What, stability};
use planning::{Recipe, machines, preset, price, question, strategy};
use serde_json::Value;

/// Two plans of one question: tensor parallelism within nodes without a pipeline, and a pipeline.
fn rivals() -> (espalier::space::planner::Inputs, [espalier::plan::Plan; 2]) {
    let inputs = question(preset("llama2-7b"), machines("h100x8:4"), Job::new(128, 4096));
    let plans =
        [(8, 1), (1, 4)].map(|(tp, stages)| Recipe::even(&inputs, strategy(tp, 1, 1), stages, 1, 1).plan(&inputs));
    (inputs, plans)
}

#[test]
fn a_choice_is_stable_unless_a_rival_overtakes_it_in_a_world_within_the_intervals() {
    let (inputs, [tensor, stages]) = rivals();
    let spine = Spine::new(&inputs.model, &inputs.job);
    let alternative = |plan: &espalier::plan::Plan| Alternative {
        plan: plan.clone(),
        estimate: price(&inputs, plan),
        uniform: true,
        slower: 0.0,
        near_tie: false,
        gives_up: String::new(),
    };
    let judge = |inputs: &_, best: &_, rival: &_| {
        stability(inputs, &spine, &inputs_pool(inputs), (best, &price(inputs, best)), &[alternative(rival)]).unwrap()
    };
    let (t, s) = (price(&inputs, &tensor).iteration_time_s, price(&inputs, &stages).iteration_time_s);
    let (best, worse) = if t < s { (&tensor, &stages) } else { (&stages, &tensor) };
    // The worse plan is overtaken by the better one in every world, the better one in none: they are far apart.
    assert!((t / s).ln().abs() > 0.2, "{t} {s}");
    let (kept, lost) = (judge(&inputs, best, worse), judge(&inputs, worse, best));
    assert!(kept.stable && kept.rivals == 1 && kept.overtaken.is_empty(), "{kept:?}");
    assert!(!lost.stable && lost.overtaken.len() == 4, "{lost:?}");
    assert!(lost.overtaken.iter().any(|o| o.what == What::Links) && lost.overtaken.iter().all(|o| o.by == *best));
    // Where links may be four times slower, the plan with fewer messages wins however the first came out.
    let mut wide = inputs.clone();
    wide.cost.software.time_spread = [0.02, 50.0];
    let [one, other] = [judge(&wide, &tensor, &stages), judge(&wide, &stages, &tensor)];
    assert!(!one.stable && one.overtaken.iter().any(|o| o.what == What::Links && o.times > 1.0), "{one:?}");
    assert!(other.overtaken.iter().all(|o| o.what != What::Links || o.times < 1.0), "{other:?}");
}

fn inputs_pool(inputs: &espalier::space::planner::Inputs) -> espalier::cluster::Pool {
    inputs.cluster.pools[0].clone()
}

#[test]
fn memory_is_judged_at_its_upper_mark_and_the_limit_keeps_it() {
    let answer = run(&small("plan", &["--json"])).json();
    let stability = &answer["stability"];
    let of = |v: &Value, key: &str| v[key].as_f64().unwrap_or_else(|| panic!("{key} in {v}"));
    let memory = &stability["memory"];
    assert_eq!(of(memory, "p90_bytes"), answer["estimate"]["peak_memory_p10_p90_bytes"][1].as_f64().unwrap());
    assert_eq!(memory["kept"], of(memory, "p90_bytes") <= of(memory, "shown_bytes"));
    // A plan that fills the limit to its safe share has its upper mark at what the device shows.
    let limit = of(memory, "limit_bytes");
    assert!((limit * 0.95 * 1.06 / of(memory, "shown_bytes") - 1.0).abs() < 1e-6, "{memory}");
    let text = run(&small("plan", &[])).out;
    assert!(text.contains("(p90)") && (text.contains("stable:") || text.contains("not stable")), "{text}");
}

#[test]
fn following_the_advice_on_memory_once_is_enough() {
    let mut followed = 0;
    for config in ["mixtral_8x22b_64k_64xh100", "qwen3_30b_a3b_64xh100"] {
        let file = format!("search_configs/{config}.ron");
        let text = run(&["plan", &file]).out;
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let times = text.lines().find(|line| line.contains("per iteration")).unwrap();
        assert!(times.contains("p10 to p90"), "{times}");
        let Some(at) = flat.find("; --memory ") else { continue };
        followed += 1;
        let advice: String = flat[at + "; --memory ".len()..].chars().take_while(|c| *c != ' ').collect();
        let answer = run(&["plan", &file, "--memory", &advice, "--json"]).json();
        let memory = &answer["stability"]["memory"];
        assert_eq!(memory["kept"], true, "{config} {advice}: {memory}");
        // The device is the same, whatever was planned for.
        assert!(memory["shown_bytes"].as_f64().unwrap() > memory["limit_bytes"].as_f64().unwrap(), "{memory}");
    }
    assert!(followed >= 1, "no plan of these is tight");
}

#[test]
fn the_nearest_measured_run_stands_beside_the_plan() {
    let Some(root) = reference::root() else { return };
    let asked = [
        "--model",
        "llama2-7b",
        "--cluster",
        "a100x8:2",
        "--global-batch",
        "64",
        "--seq",
        "2048",
        "--target-gap",
        "20%",
    ];
    let mut command = espalier(&[&["plan", "--against", "published", "--json"], &asked[..]].concat());
    let out = command.env("ESPALIER_REFERENCE", &root).output().unwrap();
    let answer: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e} {}", String::from_utf8_lossy(&out.stderr)));
    let near = &answer["against"];
    for key in ["id", "source", "model", "gpu", "measured_s", "priced_s", "tokens_per_s_per_device", "distance"] {
        assert!(!near[key].is_null(), "{key} in {near}");
    }
    let parameters = near["parameters"].as_f64().unwrap();
    assert!((2e9..20e9).contains(&parameters) && near["gpu"].as_str().unwrap().contains("A100"), "{near}");
    let ratio = near["priced_s"].as_f64().unwrap() / near["measured_s"].as_f64().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{near}");
    // The file that holds it is a plan file.
    let folder = folder("against");
    let path = folder.join("plan.json");
    std::fs::write(&path, &out.stdout).unwrap();
    assert_eq!(run(&["check", &path.display().to_string(), "--json"]).code, 0);
    // Without the table it says what to give.
    let mut command = espalier(&[&["plan", "--against", "published", "--json"], &asked[..]].concat());
    let out = command.env_remove("ESPALIER_REFERENCE").output().unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && error.contains("ESPALIER_REFERENCE"), "{error}");
    assert_eq!(run(&[&["plan", "--against", "no such.csv", "--json"], &asked[..]].concat()).code, 2);
}

/// Runs of two frameworks on two devices; `slow` of one source only.
fn sources(slow: f64) -> String {
    let mut text = String::from(
        "id,source,usable,framework,model_name,layers,hidden,heads,ffn,vocab,seq_len,gpu,gpu_count,gpus_per_node,precision,\
         global_batch,micro_batch,tp,pp,sp,zero_fsdp,recompute,iter_time_s\n",
    );
    for (source, gpu, factor) in [("one", "H100", 1.0), ("two", "H100", 1.0), ("three", "H100", slow)] {
        for i in 0..12u64 {
            let (layers, tp) = (8 + 4 * (i % 4), 1 << (i % 3));
            let row = |seconds: f64| {
                format!(
                    "{source}{i},{source},True,Megatron-LM,llama,{layers},4096,32,11008,32000,4096,{gpu},8,8,bf16,64,1,{tp},1,True,\
                     zero1,none,{seconds}"
                )
            };
            let header = text.lines().next().unwrap();
            let rows = table::parse(&format!("{header}\n{}\n", row(1e3))).unwrap();
            let case = espalier::accuracy::Case::read(&rows[0]).unwrap();
            let line = row(case.estimate().unwrap().iteration_time_s * factor);
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

#[test]
fn a_source_held_out_is_predicted_from_the_others_and_met_when_some_of_it_is_seen() {
    let found = held_out(&table::parse(&sources(1.5)).unwrap(), Quantity::Time);
    let of = |name: &str| found.iter().find(|s| s.source == name).unwrap();
    let odd = of("three");
    assert_eq!((odd.entirely.rows, odd.calibrating, odd.fitted_on), (12, 6, 24));
    // The others are met by the constants in use; nobody knows from them that the third is half as slow again.
    assert!(of("one").seen_all.mape < 1e-9 && odd.seen_all.mape > 0.3, "{found:?}");
    assert!((0.2..0.45).contains(&odd.entirely.mape), "{odd:?}");
    assert!(odd.calibrated.unwrap().mape < 0.06, "{odd:?}");
    assert!(of("one").entirely.mape < 0.25, "{found:?}");
}
