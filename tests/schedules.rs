//! Schedules against the results of the published schedulers under one cost model.

use espalier::pipeline::bounds::{Backward, bounds};
use espalier::pipeline::dsl::Question;
use espalier::pipeline::generators::{self, PassCosts};
use espalier::pipeline::{Costs, Placement, Schedule, simulate};
use serde_json::Value;
use std::collections::BTreeMap;

fn cases() -> Option<Vec<Value>> {
    let path = espalier::reference::path("pipeline/reference_cases.json")?;
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(cases) = all["cases"].take() else { panic!("no cases") };
    Some(cases)
}

fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap_or_else(|| panic!("{key} in {case}"))
}

/// The schedule of a case, if it is one that we generate.
fn generate(case: &Value) -> Option<Schedule> {
    let (p, m) = (number(case, "p") as usize, number(case, "m") as usize);
    let mut question = Question::new(p, m);
    let name = match case["scheduler"].as_str().unwrap() {
        "gpipe" => "gpipe",
        "1f1b" => "1f1b",
        "interleaved_1f1b_v2" => "interleaved_1f1b",
        "torch_interleaved_zb_v2" => "interleaved_zb",
        "torch_zbv" => "zb_v",
        "torch_dualpipev" => "dualpipe_v",
        "zb_h1" => "zb_h1",
        "zb_h2" => "zb_h2",
        "v_half" => "v_half",
        "v_min" => "v_min",
        "group_interleaved_v2_g=p" => "group_interleaved",
        "group_interleaved_v2_g=p/2" => {
            question.parameters.insert("g".to_owned(), p as i64 / 2);
            "group_interleaved"
        }
        "1f1b_v" => return Some(generators::v_1f1b(p, m).unwrap()),
        scheduler @ ("zb_auto" | "zbv_auto") => {
            let chunks = number(case, "v");
            let (w, residue) = (number(case, "W"), if case["memmodel"] == "zb" { number(case, "mw") } else { 1.0 });
            let chunk = PassCosts {
                time: [number(case, "F"), number(case, "B"), w].map(|t| t / chunks),
                memory: [1.0, residue - 1.0, -residue].map(|a| a / chunks),
            };
            let (hop, limit) = (number(case, "comm"), number(case, "limit_units"));
            let schedule = match scheduler {
                "zb_auto" => generators::zero_bubble(&vec![chunk; p], m, hop, limit),
                _ => generators::zero_bubble_v(p, m, chunk, hop, limit),
            };
            return Some(schedule.unwrap_or_else(|e| panic!("{case}: {e}")));
        }
        _ => return None,
    };
    Some(generators::shipped(name, &question).unwrap_or_else(|e| panic!("{name} p={p} m={m}: {e}")))
}

#[test]
fn named_schedules_cost_what_the_published_schedulers_cost() {
    let Some(cases) = cases() else { return };
    let mut reproduced: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for case in cases.iter().filter(|case| case["status"] == "ok") {
        let Some(schedule) = generate(case) else { continue };
        let costs = Costs::table(
            &schedule.placement,
            &schedule.flags,
            number(case, "F"),
            number(case, "B"),
            number(case, "W"),
            number(case, "comm"),
        );
        let run = simulate(&schedule, &costs).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
        let peaks = case["peak_w_per_dev"].as_array().unwrap();
        let zb = costs.clone().with_residue(number(case, "mw"));
        let zb_run = simulate(&schedule, &zb).unwrap();
        let same = close(run.makespan, number(case, "makespan"))
            && close(run.span, number(case, "span_max"))
            && run.peaks.iter().zip(peaks).all(|(peak, expected)| close(peak.value, expected.as_f64().unwrap()))
            && close(zb_run.peak_memory(), number(case, "peak_zb"));
        let entry = reproduced.entry(case["scheduler"].as_str().unwrap().to_owned()).or_default();
        entry.1 += 1;
        if same {
            entry.0 += 1;
        } else if entry.1 - entry.0 < 3 {
            eprintln!(
                "{} p={} m={} {} c={}: makespan {} ({}), span {} ({}), peaks {:?} ({:?}) zb {} ({})",
                case["scheduler"],
                case["p"],
                case["m"],
                case["triple"],
                case["comm"],
                run.makespan,
                case["makespan"],
                run.span,
                case["span_max"],
                run.peaks.iter().map(|p| p.value).collect::<Vec<_>>(),
                peaks,
                zb_run.peak_memory(),
                case["peak_zb"]
            );
        }
    }
    eprintln!("{reproduced:#?}");
    assert!(reproduced.values().all(|(same, all)| same == all));
}

#[test]
fn no_bound_exceeds_a_published_schedule_or_a_certified_optimum() {
    let Some(path) = espalier::reference::path("pipeline/reference_cases.json") else { return };
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut above, mut equal, mut below) = (0, 0, 0);
    for case in all["cases"].as_array().unwrap().iter().filter(|case| case["status"] == "ok") {
        let (p, v) = (number(case, "p") as usize, number(case, "v") as usize);
        let placement = if case["placement"] == "v" { Placement::vee(p) } else { Placement::looped(p, v) };
        let peak = case["peak_w_per_dev"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).fold(0.0, f64::max);
        let [f, b, w, c] = ["F", "B", "W", "comm"].map(|key| number(case, key));
        let costs = Costs::table(&placement, &[], f, b, w, c).with_limit(peak);
        let backward = if case["fused_bw"] == true { Backward::Fused } else { Backward::Split };
        let found = bounds(&placement, &[], &costs, number(case, "m") as usize, backward);
        assert!(found.makespan.time <= number(case, "makespan") * (1.0 + 1e-9), "{found:?} {case}");
        assert!(found.span.time <= number(case, "span_max") * (1.0 + 1e-9), "{found:?} {case}");
        for (found, key) in [(found.span.time, "lb_span"), (found.makespan.time, "lb_makespan")] {
            if let Some(published) = case[key].as_f64() {
                match found / published - 1.0 {
                    x if x > 1e-6 => above += 1,
                    x if x < -1e-6 => below += 1,
                    _ => equal += 1,
                }
            }
        }
    }
    eprintln!("bounds better than the closed form {above}, equal {equal}, worse {below}");
    let (mut tight, mut cases, mut was) = (0, 0, 0);
    for case in all["exact_small_cpsat"].as_array().unwrap() {
        let (p, m) = (number(case, "p") as usize, number(case, "M") as usize);
        let is_v = case["placement"] == "v";
        let placement = if is_v { Placement::vee(p) } else { Placement::looped(p, 1) };
        let [f, b, w, c] = ["F", "B", "W", "comm"].map(|key| number(case, key));
        let limit = number(case, "L");
        let costs = Costs::table(&placement, &[], f, b, w, c).with_limit(limit);
        let found = bounds(&placement, &[], &costs, m, Backward::Split);
        let found = if case["objective"] == "span" { found.span.time } else { found.makespan.time };
        let value = number(case, "value");
        assert!(found <= value * (1.0 + 1e-9), "{found} {case}");
        if case["status"] == "OPTIMAL" {
            cases += 1;
            was += usize::from((number(case, "lb_formula") / value - 1.0).abs() < 1e-6);
            tight += usize::from((found / value - 1.0).abs() < 1e-6);
            if (found / value - 1.0).abs() > 1e-6 {
                eprintln!(
                    "{} {} {} {} c{} L{} {}: {found} {} ({})",
                    p, m, case["placement"], case["triple"], c, limit, case["objective"], value, case["lb_formula"]
                );
            }
        }
    }
    eprintln!("tight {tight} of {cases}, closed form {was}");
}

#[test]
fn certified_optima_agree_with_a_constraint_solver() {
    let Some(path) = espalier::reference::path("pipeline/reference_cases.json") else { return };
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut optimal, mut cases) = (0, 0);
    for case in all["exact_small_cpsat"].as_array().unwrap() {
        if case["status"] != "OPTIMAL" || case["objective"] != "global" {
            continue;
        }
        let (p, m) = (number(case, "p") as usize, number(case, "M") as usize);
        let is_v = case["placement"] == "v";
        let placement = if is_v { Placement::vee(p) } else { Placement::looped(p, 1) };
        let [f, b, w, c] = ["F", "B", "W", "comm"].map(|key| number(case, key));
        let limit = number(case, "L");
        let costs = Costs::table(&placement, &[], f, b, w, c).with_limit(limit);
        let t = std::time::Instant::now();
        let found = espalier::pipeline::exact::certify(&placement, &[], &costs, m, Backward::Split, 200_000).unwrap();
        eprintln!(
            "{} {} {} {} c{} L{}: {} {} of {} nodes {} {:?}",
            p,
            m,
            case["placement"],
            case["triple"],
            c,
            limit,
            found.is_optimal(),
            found.makespan,
            case["value"],
            found.nodes,
            t.elapsed()
        );
        cases += 1;
        if found.is_optimal() {
            optimal += 1;
            assert!((found.makespan - number(case, "value")).abs() < 1e-6);
        } else {
            assert!(found.makespan <= number(case, "value") + 1e-6);
        }
    }
    eprintln!("certified {optimal} of {cases}");
}
