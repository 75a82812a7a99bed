//! Searches schedules for the questions of the reference cases, a line of JSON each: best published, found, bound.
//!
//! `schedule_campaign OUT.jsonl [all | N] [FILTER]` appends to `OUT.jsonl` and leaves out what is there already; `N`
//! questions are spread over all sizes. A question is one (devices, micro-batches, times, hop, placement, limit).
//! `schedule_campaign OUT.jsonl summary` prints a table of what is there, by the template whose memory a limit is.

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

/// The known template whose peak a limit is, by the map.
fn template(p: f64, limit: f64, vee: bool, chunks: u64) -> &'static str {
    let is = |peak: f64| (limit - peak).abs() < 1e-6;
    match (vee, chunks) {
        // Qi 2024, "Pipeline parallelism with controllable memory": peaks of V-Min and V-Half.
        (true, _) if is(((p + 4.0) / 3.0).floor()) => "V, V-Min",
        (true, _) if is(((p + 2.0) / 2.0).floor()) => "V, V-Half",
        (true, _) if is(p) => "V, p",
        (true, _) => "V, another",
        (false, 1) if is(p) => "loop of 1, p",
        (false, 1) if limit >= 2.0 * p - 1.0 => "loop of 1, 2p - 1 and more",
        (false, 1) => "loop of 1, another",
        (false, _) => "loop of 2",
    }
}

fn median(mut list: Vec<f64>) -> String {
    list.sort_by(f64::total_cmp);
    match list.len() {
        0 => String::new(),
        n => format!("{:.1} %", 0.5 * (list[n / 2] + list[(n - 1) / 2])),
    }
}

/// A table of answered questions.
fn summary(lines: &str) -> Result<(), Box<dyn std::error::Error>> {
    let rows: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of = |row: &Value, key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let mut classes: BTreeMap<(&str, &str, &str), Vec<&Value>> = BTreeMap::new();
    for row in &rows {
        let words: Vec<&str> = row["question"].as_str().unwrap_or_default().split(' ').collect();
        let &[_, _, f, b, w, hop, map, chunks, _] = &words[..] else { return Err("a question of nine words".into()) };
        let (p, m) = (of(row, "p"), of(row, "m"));
        let template = template(p, of(row, "limit"), map == "v", chunks.parse()?);
        let times = if f == b && b == w && hop == "0" { "equal" } else { "unequal or hops" };
        let length = if m <= 2.0 * p { "m <= 2p" } else { "m > 2p" };
        classes.entry((template, times, length)).or_default().push(row);
    }
    println!(
        "| memory | times | | questions | worse than published | optimal | median gain | room >= 1 %: questions | median gain | of the room | left to the bound |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for ((template, times, length), rows) in &classes {
        let gain = |row: &&&Value| 100.0 * (1.0 - of(row, "found") / of(row, "published"));
        let room = |row: &&Value| of(row, "published") / of(row, "bound") - 1.0 >= 0.01;
        let closed = |row: &&&Value| {
            100.0 * (of(row, "published") - of(row, "found")) / (of(row, "published") - of(row, "bound"))
        };
        let roomy: Vec<&Value> = rows.iter().copied().filter(room).collect();
        let worse = rows.iter().filter(|row| gain(row) < -1e-7).count();
        let optimal = rows.iter().filter(|row| of(row, "gap") == 0.0).count();
        println!(
            "| {template} | {times} | {length} | {} | {worse} | {optimal} | {} | {} | {} | {} | {} |",
            rows.len(),
            median(rows.iter().map(|row| gain(&row)).collect()),
            roomy.len(),
            median(roomy.iter().map(|row| gain(&row)).collect()),
            median(roomy.iter().map(|row| closed(&row)).collect()),
            median(roomy.iter().map(|row| 100.0 * of(row, "gap")).collect()),
        );
    }
    let count = |test: &dyn Fn(&Value) -> bool| rows.iter().filter(|row| test(row)).count();
    println!(
        "\n{} questions: {} worse than published, {} optimal, {} shorter than our best known schedule, {} took more than 10 s",
        rows.len(),
        count(&|row| of(row, "found") > of(row, "published") * (1.0 + 1e-9)),
        count(&|row| of(row, "gap") == 0.0),
        count(&|row| of(row, "found") < of(row, "seed") * (1.0 - 1e-9)),
        count(&|row| of(row, "seconds") > 10.0)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(out) = arguments.first() else { return Err("expected the file to append to".into()) };
    if arguments.get(1).is_some_and(|what| what == "summary") {
        return summary(&std::fs::read_to_string(out)?);
    }
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
            "cpu_s": answer.search.cpu_s,
            "evaluations": answer.search.evaluations, "stop": answer.search.stop_reason,
        });
        writeln!(file, "{line}")?;
    }
    Ok(())
}
