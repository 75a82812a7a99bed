//! Searches schedules for the questions of the reference cases, a line of JSON each: best published, found, bound.
//!
//! `schedule_campaign OUT.jsonl [all | N] [FILTER]` appends to `OUT.jsonl` and leaves out what is there already; `N`
//! questions are spread over all sizes. A question is one (devices, micro-batches, times, hop, placement, limit).

use espalier::pipeline::bounds::Backward;
use espalier::pipeline::{Costs, Placement};
use espalier::search::budget::Interrupt;
use espalier::space::schedule::shape::{Case, Shape};
use espalier::space::schedule::{Objective, ScheduleOptions, solve};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

#[derive(Clone)]
struct Asked {
    p: usize,
    m: usize,
    times: [f64; 3],
    hop: f64,
    vee: bool,
    chunks: usize,
    limit: f64,
    best: f64,
    by: String,
}

fn questions(cases: &[Value]) -> BTreeMap<String, Asked> {
    let ok: Vec<&Value> = cases.iter().filter(|case| case["status"] == "ok" && case["peak_w"].is_number()).collect();
    let number = |case: &Value, key: &str| case[key].as_f64().unwrap_or(f64::NAN);
    let class = |case: &Value| {
        let keys = ["p", "m", "F", "B", "W", "comm", "placement", "v"];
        keys.map(|key| case[key].to_string().replace('"', "")).join(" ")
    };
    let mut by_class: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for case in ok {
        by_class.entry(class(case)).or_default().push(case);
    }
    let mut asked = BTreeMap::new();
    for (name, group) in by_class {
        let limits: BTreeSet<u64> = group.iter().map(|case| (number(case, "peak_w") * 1e6).round() as u64).collect();
        for limit in limits {
            let limit = limit as f64 / 1e6;
            let fits = group.iter().filter(|case| number(case, "peak_w") <= limit + 1e-6);
            let Some(best) = fits.min_by(|a, b| number(a, "makespan").total_cmp(&number(b, "makespan"))) else {
                continue;
            };
            let case = group[0];
            asked.insert(
                format!("{name} {limit}"),
                Asked {
                    p: number(case, "p") as usize,
                    m: number(case, "m") as usize,
                    times: ["F", "B", "W"].map(|key| number(case, key)),
                    hop: number(case, "comm"),
                    vee: case["placement"] == "v",
                    chunks: number(case, "v") as usize,
                    limit,
                    best: number(best, "makespan"),
                    by: best["scheduler"].as_str().unwrap_or_default().to_owned(),
                },
            );
        }
    }
    asked
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(out) = arguments.first() else { return Err("expected the file to append to".into()) };
    let Some(path) = espalier::reference::path("pipeline/reference_cases.json") else { return Ok(()) };
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let asked = questions(all["cases"].as_array().ok_or("no cases")?);
    let filter = arguments.get(2).cloned().unwrap_or_default();
    let names: Vec<&String> = asked.keys().filter(|name| name.starts_with(&filter)).collect();
    let chosen: Vec<&String> = match arguments.get(1).and_then(|n| n.parse::<usize>().ok()) {
        Some(n) if n < names.len() => (0..n).map(|i| names[i * names.len() / n]).collect(),
        _ => names,
    };
    let done = std::fs::read_to_string(out).unwrap_or_default();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(out)?;
    for name in chosen {
        if done.contains(&format!("\"question\":\"{name}\"")) {
            continue;
        }
        let q = &asked[name];
        let placement = if q.vee { Placement::vee(q.p) } else { Placement::looped(q.p, q.chunks) };
        let [f, b, w] = q.times;
        let costs = Costs::table(&placement, &[], f, b, w, q.hop).with_limit(q.limit);
        let shapes = vec![Shape::new(placement, costs, Backward::Split, q.m)];
        let case = Case { shapes, microbatches: q.m, objective: Objective::Makespan };
        let answer = solve(case, &ScheduleOptions::default(), Interrupt::default(), None)?;
        let seed = answer.compared.first().map_or(f64::NAN, |known| known.makespan);
        let line = json!({
            "question": name, "p": q.p, "m": q.m, "limit": q.limit, "published": q.best, "by": q.by, "seed": seed,
            "found": answer.value, "bound": answer.bound, "gap": answer.gap, "seconds": answer.search.wall_s,
            "evaluations": answer.search.evaluations, "stop": answer.search.stop_reason,
        });
        writeln!(file, "{line}")?;
    }
    Ok(())
}
