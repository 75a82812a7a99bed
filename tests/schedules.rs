//! Schedules against the results of the published schedulers, of a constraint solver and of torch, under one cost model.

use espalier::pipeline::bounds::{Backward, bounds};
use espalier::pipeline::dsl::Question;
use espalier::pipeline::exact::certify;
use espalier::pipeline::export::torch_csv;
use espalier::pipeline::generators::{self, PassCosts};
use espalier::pipeline::{Costs, Placement, Schedule, simulate};
use serde_json::Value;
use std::collections::BTreeMap;

fn reference(key: &str) -> Option<Vec<Value>> {
    let path = espalier::reference::path("pipeline/reference_cases.json")?;
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(cases) = all[key].take() else { panic!("no {key}") };
    Some(cases)
}

fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap_or_else(|| panic!("{key} in {case}"))
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

fn costs_of(case: &Value, placement: &Placement) -> Costs {
    let [f, b, w, hop] = ["F", "B", "W", "comm"].map(|key| number(case, key));
    Costs::table(placement, &[], f, b, w, hop)
}

fn placement_of(case: &Value) -> Placement {
    let (p, v) = (number(case, "p") as usize, number(case, "v") as usize);
    if case["placement"] == "v" { Placement::vee(p) } else { Placement::looped(p, v) }
}

/// The schedule of a case, if it is of a scheduler that we have.
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
            let residue = if case["memmodel"] == "zb" { number(case, "mw") } else { 1.0 };
            let chunk = PassCosts {
                time: ["F", "B", "W"].map(|key| number(case, key) / chunks),
                memory: [1.0, residue - 1.0, -residue].map(|amount| amount / chunks),
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
    let Some(cases) = reference("cases") else { return };
    let mut reproduced: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known: BTreeMap<String, Schedule> = BTreeMap::new();
    for case in cases.iter().filter(|case| case["status"] == "ok") {
        let name = case["scheduler"].as_str().unwrap();
        // Programs do not look at times: one schedule serves all cases of the same size.
        let looks_at_times = name.ends_with("_auto");
        let key = if looks_at_times { case.to_string() } else { format!("{name} {} {}", case["p"], case["m"]) };
        if !known.contains_key(&key) {
            let Some(schedule) = generate(case) else { continue };
            known.insert(key.clone(), schedule);
        }
        let schedule = &known[&key];
        let costs = costs_of(case, &schedule.placement);
        let run = simulate(schedule, &costs).unwrap();
        assert!(is_close(run.makespan, number(case, "makespan")), "{} {case}", run.makespan);
        assert!(is_close(run.span, number(case, "span_max")), "{} {case}", run.span);
        for (peaks, key) in
            [(run, "peak_w"), (simulate(schedule, &costs.with_residue(number(case, "mw"))).unwrap(), "peak_zb")]
        {
            let expected = case[format!("{key}_per_dev")].as_array().unwrap();
            for (peak, expected) in peaks.peaks.iter().zip(expected) {
                assert!(is_close(peak.value, expected.as_f64().unwrap()), "{key} {peak:?} {case}");
            }
            assert!(is_close(peaks.peak_memory(), number(case, key)), "{key} {case}");
        }
        *reproduced.entry(name).or_default() += 1;
    }
    eprintln!("cases reproduced: {reproduced:?}");
    assert_eq!(reproduced.len(), 15, "{reproduced:?}");
}

#[test]
fn a_scheduler_that_failed_for_lack_of_memory_is_refused_here_too() {
    let Some(cases) = reference("cases") else { return };
    let failed =
        |case: &&Value| case["scheduler"] == "zb_auto" && case["status"] == "failed:ValueError:Cannot fit memory";
    for case in cases.iter().filter(failed) {
        let p = number(case, "p") as usize;
        let costs = PassCosts { time: ["F", "B", "W"].map(|key| number(case, key)), memory: [1.0, 0.0, -1.0] };
        let costs = vec![costs; p];
        let (m, hop, limit) = (number(case, "m") as usize, number(case, "comm"), number(case, "limit_units"));
        // Where only some variants of the heuristic fail, the others still give a schedule within the limit.
        match generators::zero_bubble(&costs, m, hop, limit) {
            Err(error) => assert!(error.to_string().contains("memory limit"), "{error}"),
            Ok(schedule) => {
                let limited = costs_of(case, &schedule.placement).with_limit(limit);
                simulate(&schedule, &limited).unwrap();
            }
        }
    }
}

#[test]
fn unequal_stages_are_scheduled_like_the_measured_example() {
    let Some(path) = espalier::reference::path("pipeline/reference_cases.json") else { return };
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let anchor = &all["heterogeneous_anchor"];
    let inputs = &anchor["inputs"];
    let (p, m, hop) = (number(inputs, "p") as usize, number(inputs, "m") as usize, number(inputs, "comm_us"));
    let time = |key: &str, d: usize| inputs[key][d].as_f64().unwrap();
    let stages: Vec<PassCosts> = (0..p)
        .map(|d| PassCosts { time: ["F_us", "B_us", "W_us"].map(|key| time(key, d)), memory: [1.0, 0.0, -1.0] })
        .collect();
    for (name, schedule) in [
        ("1f1b", generators::shipped("1f1b", &Question::new(p, m)).unwrap()),
        ("zb_h1", generators::shipped("zb_h1", &Question::new(p, m)).unwrap()),
        ("zb_h2", generators::shipped("zb_h2", &Question::new(p, m)).unwrap()),
        ("zb_auto_1p(true times)", generators::zero_bubble(&stages, m, hop, 8.0).unwrap()),
        ("zb_auto_2p(true)", generators::zero_bubble(&stages, m, hop, 16.0).unwrap()),
    ] {
        let mut costs = Costs::table(&schedule.placement, &[], 0.0, 0.0, 0.0, hop);
        for (cost, stage) in costs.stages.iter_mut().zip(&stages) {
            [cost.forward, cost.backward, cost.weight] = stage.time;
        }
        let run = simulate(&schedule, &costs).unwrap();
        let expected = &anchor[name];
        assert!(is_close(run.makespan, number(expected, "makespan")), "{name} {}", run.makespan);
        assert!(is_close(run.span, number(expected, "span")), "{name} {}", run.span);
        assert!(is_close(run.peak_memory(), number(expected, "peak")), "{name}");
        let lowest = bounds(&schedule.placement, &[], &costs, m, Backward::Split);
        assert!(lowest.span.time <= run.span && lowest.makespan.time <= run.makespan);
        assert!(lowest.span.time >= number(anchor, "heaviest_stage_work") * (1.0 - 1e-9));
    }
}

#[test]
fn no_bound_exceeds_a_published_schedule_and_none_is_weaker_than_the_closed_form() {
    let Some(cases) = reference("cases") else { return };
    let (mut better, mut equal) = (0, 0);
    for case in cases.iter().filter(|case| case["status"] == "ok") {
        let placement = placement_of(case);
        let costs = costs_of(case, &placement).with_limit(number(case, "peak_w"));
        let backward = if case["fused_bw"] == true { Backward::Fused } else { Backward::Split };
        let found = bounds(&placement, &[], &costs, number(case, "m") as usize, backward);
        assert!(found.makespan.time <= number(case, "makespan"), "{found:?} {case}");
        assert!(found.span.time <= number(case, "span_max"), "{found:?} {case}");
        for (found, key) in [(found.span.time, "lb_span"), (found.makespan.time, "lb_makespan")] {
            let Some(published) = case[key].as_f64() else { continue };
            assert!(found >= published * (1.0 - 1e-6), "{found} {key} {case}");
            *(if found > published * (1.0 + 1e-6) { &mut better } else { &mut equal }) += 1;
        }
    }
    eprintln!("bounds above the closed form: {better}, equal to it: {equal}");
    assert!(better > 0);
}

#[test]
fn certified_optima_agree_with_a_constraint_solver_and_no_bound_exceeds_them() {
    let Some(cases) = reference("exact_small_cpsat") else { return };
    let (mut optimal, mut asked) = (0, 0);
    for case in &cases {
        let m = number(case, "M") as usize;
        let placement = placement_of(case);
        let costs = costs_of(case, &placement).with_limit(number(case, "L"));
        let lowest = bounds(&placement, &[], &costs, m, Backward::Split);
        let value = number(case, "value");
        if case["objective"] == "span" {
            assert!(lowest.span.time <= value, "{lowest:?} {case}");
            continue;
        }
        assert!(lowest.makespan.time <= value, "{lowest:?} {case}");
        let found = certify(&placement, &[], &costs, m, Backward::Split, 30_000).unwrap();
        asked += 1;
        assert!(found.makespan <= value + 1e-6, "{} {case}", found.makespan);
        if let Some(schedule) = &found.schedule {
            optimal += 1;
            assert!(is_close(simulate(schedule, &costs).unwrap().makespan, found.makespan));
            // Feasible values of the solver may be improved, optimal ones not.
            assert!(case["status"] != "OPTIMAL" || is_close(found.makespan, value), "{} {case}", found.makespan);
        }
    }
    eprintln!("certified {optimal} of {asked}");
    assert!(2 * optimal > asked);
}

#[test]
fn files_that_torch_ran_are_read_and_written_back_and_its_broken_dump_is_refused() {
    let Some(folder) = espalier::reference::path("pipeline/torch") else { return };
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        (torch_csv::read(name, &text), text)
    };
    for name in ["1f1b_p4_m8", "gpipe_p2_m4", "zbh1_p4_m8", "loopzb_p2v2_m8", "vzb_p2v2_m8", "rand7_p2v2_m8"] {
        let (imported, text) = read(&format!("{name}.csv"));
        let imported = imported.unwrap();
        let text = text.replace("\r\n", "\n");
        assert_eq!(torch_csv::write(&imported.schedule).unwrap().trim(), text.trim(), "{name}");
    }
    // torch's own dumps, bubbles as blank cells: the same orders as our programs make.
    for (file, name, p) in [
        ("torch_Interleaved1F1B_p2v2_m8", "interleaved_1f1b", 2),
        ("torch_InterleavedZeroBubble_p2v2_m8", "interleaved_zb", 2),
        ("torch_ZBVZeroBubble_p2v2_m8", "zb_v", 2),
        ("torch_DualPipeV_p2v2_m8", "dualpipe_v", 2),
        ("1f1b_p4_m8", "1f1b", 4),
        ("zbh1_p4_m8", "zb_h1", 4),
    ] {
        let imported = read(&format!("{file}.csv")).0.unwrap_or_else(|e| panic!("{file}: {e}"));
        let ours = generators::shipped(name, &Question::new(p, 8)).unwrap();
        assert_eq!(imported.schedule.orders, ours.orders, "{file}");
        assert_eq!(imported.schedule.placement, ours.placement, "{file}");
        assert!(imported.left_out.is_empty());
    }
    let error = read("torch_1F1B_p4v1_m8.csv").0.unwrap_err().to_string();
    assert!(error.contains("0F8 is missing"), "{error}");
    let error = read("zbh1_p4_m8_comms.csv").0.unwrap_err().to_string();
    assert!(error.contains("row 1, cell 3: found `0SEND_F0`") && error.contains("compute_comms"), "{error}");
}

#[test]
fn what_torch_lets_pass_is_refused_with_row_and_cell() {
    let good = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n";
    torch_csv::read("good", good).unwrap();
    torch_csv::read("blanks", &good.replace("0I0", ",, 0I0 ,")).unwrap();
    for (from, to, expected) in [
        ("0F1,", "0F1xyz,", "row 1, cell 2: found `0F1xyz`, expected an action"),
        ("0F1,", "0f1,", "row 1, cell 2: found `0f1`"),
        ("0F1,", "bubble,", "row 1, cell 2: found `bubble`"),
        ("0F1,", "0F99999999999,", "row 1, cell 2"),
        ("0F1,", "F1,", "row 1, cell 2"),
        ("0F1,", "0F,", "row 1, cell 2"),
        ("0F1,", "(0F1;0F0)OVERLAP_F_B,", "a pair of a forward and a backward"),
        ("0F1,", "(0F1;0I0,", "a pair such as"),
        ("0F1,", "0F5,", "0F1 is missing"),
        ("0F0,0F1", "0F0,0F0", "0F0 was done at step 0 already"),
        ("0I0,0W0", "0W0,0I0", "0W0 before 0B0"),
        ("0F0,0F1,0I0", "0I0,0F0,0F1", "0B0 before 0F0"),
        ("0W1\n", "\n", "0W1 is missing"),
        ("1F0,", "0F0,", "row 2, cell 1: stage 0 is on row 1 already"),
        ("0F0,0F1", "0F1,0F0", "ok"),
        ("1F0,1I0,1W0,1F1,1I1,1W1", "1F1,1I1,1W1,1F0,1I0,1W0", "deadlock"),
        ("1F", "3F", "stage 1 is missing"),
        ("1F0,1I0,1W0,1F1,1I1,1W1", ",,", "row 2 has no action"),
    ] {
        let mut text = good.replace(from, to);
        if expected == "stage 1 is missing" {
            text = text.replace("1I", "3I").replace("1W", "3W").replace("03", "01");
        }
        if expected == "deadlock" {
            text = text.replace("0F0,0F1,0I0,0W0,0I1,0W1", "0F0,0I0,0W0,0F1,0I1,0W1");
        }
        match torch_csv::read("bad", &text) {
            Ok(_) => assert_eq!(expected, "ok", "{text}"),
            Err(error) => assert!(error.to_string().contains(expected), "{error}\n{text}"),
        }
    }
    assert!(torch_csv::read("empty", " \n").is_err());
}
