//! What the exports promise.

use super::{chrome, grid, svg, torch_csv};
use crate::pipeline::dsl::Question;
use crate::pipeline::generators::{SHIPPED, shipped};
use crate::pipeline::{Costs, Run, Schedule, simulate};

fn example(name: &str) -> (Schedule, Costs, Run) {
    let schedule = shipped(name, &Question::new(2, 4)).unwrap();
    let costs = Costs::table(&schedule.placement, &schedule.flags, 2.0, 2.0, 2.0, 0.5);
    let run = simulate(&schedule, &costs).unwrap();
    (schedule, costs, run)
}

#[test]
fn a_trace_has_every_step_every_transfer_with_its_arrow_and_the_memory() {
    for program in SHIPPED {
        let (schedule, costs, run) = example(program.name);
        let trace = chrome::trace(&schedule, &costs, &run, 1000.0);
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |ph: &str, tid: u64| {
            events.iter().filter(|e| e["ph"] == ph && e["tid"].as_u64() == Some(tid)).collect::<Vec<_>>()
        };
        assert_eq!(of("X", 0).len(), schedule.len(), "{}", program.name);
        assert_eq!((of("X", 1).len(), of("X", 2).len()), (run.messages.len(), run.messages.len()));
        let (starts, ends) = (of("s", 1), of("f", 2));
        assert_eq!(starts.len(), run.messages.len());
        for (start, end) in starts.iter().zip(&ends) {
            assert_eq!(start["id"], end["id"]);
            assert!(end["ts"].as_f64().unwrap() - start["ts"].as_f64().unwrap() > 499.0);
        }
        let counters: Vec<_> = events.iter().filter(|e| e["ph"] == "C" && e["pid"] == 0).collect();
        let peak = counters.iter().map(|e| e["args"]["memory"].as_f64().unwrap()).fold(0.0, f64::max);
        assert_eq!(peak, run.peaks[0].value);
        assert!(of("X", 0).iter().any(|e| e["args"]["critical"] == true));
    }
}

#[test]
fn a_chart_draws_every_pass_once_and_says_its_costs() {
    let (schedule, costs, mut run) = example("zb_v");
    let picture = svg::gantt(&schedule, &costs, &run, 900.0);
    assert_eq!(picture.matches("<title>").count(), schedule.len());
    assert_eq!(picture.matches("<rect").count(), picture.matches("/>").count() + picture.matches("</rect>").count());
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("F 1, B 1, W 1, hop 0.5, activation 0.5"), "{picture}");
    run.makespan = 0.0;
    assert!(!svg::gantt(&schedule, &costs, &run, 1.0).contains("NaN"));
}

#[test]
fn a_grid_shows_who_does_what_when() {
    let schedule = shipped("gpipe", &Question::new(2, 2)).unwrap();
    let costs = Costs::table(&schedule.placement, &schedule.flags, 1.0, 1.0, 1.0, 0.0);
    let text = grid::grid(&simulate(&schedule, &costs).unwrap());
    assert_eq!(
        text,
        "   0  0F0  0F1  .    .    .    0BW0 -    0BW1 -\n   1  .    1F0  1F1  1BW0 -    1BW1 -    .    .\n"
    );
    let (_, _, run) = example("v_half");
    assert_eq!(grid::grid(&run).lines().count(), 2);
}

#[test]
fn losses_that_torch_would_mix_up_are_not_exported() {
    let text = "0F0,0F1,0I0,0I1,0W0,0W1\n1F1,1F0,1I0,1I1,1W0,1W1\n";
    let read = torch_csv::read("swapped", text).unwrap();
    let refused = torch_csv::write(&read.schedule).unwrap_err();
    assert!(refused.to_string().contains("order of micro-batch"), "{refused}");
    // Elsewhere the order is free.
    let text = "0F1,0F0,0I0,0I1,0W1,0W0\n1F0,1F1,1I0,1I1,1W1,1W0\n";
    let read = torch_csv::read("first", text).unwrap();
    assert!(torch_csv::write(&read.schedule).is_ok());
}
