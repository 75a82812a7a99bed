//! Whether searches from random starts find known schedules again: ZB-H1, ZB-V and V-Half for 8 devices and 16
//! micro-batches of equal times, each within its own memory.
//!
//! `schedule_refind [SEEDS] [EVALUATIONS]` prints a line per schedule and backend: in how many seeds it was met or beaten.

use espalier::pipeline::bounds::Backward;
use espalier::pipeline::{Costs, Placement};
use espalier::search::budget::Interrupt;
use espalier::space::schedule::known::known;
use espalier::space::schedule::shape::{Case, Shape};
use espalier::space::schedule::{Objective, ScheduleOptions, solve};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let seeds = arguments.next().transpose()?.unwrap_or(30);
    let evaluations = arguments.next().transpose()?;
    let (p, m) = (8, 16);
    for (name, placement) in
        [("zb_h1", Placement::looped(p, 1)), ("zb_v", Placement::vee(p)), ("v_half", Placement::vee(p))]
    {
        let case = |limit: f64| {
            let costs = Costs::table(&placement, &[], 1.0, 1.0, 1.0, 0.0).with_limit(limit);
            let shapes = vec![Shape::new(placement.clone(), costs, Backward::Split, m)];
            Case { shapes, microbatches: m, objective: Objective::Makespan }
        };
        let schedule = known(&case(f64::MAX)).into_iter().find(|known| known.schedule.name == name);
        let Some(schedule) = schedule else { return Err(format!("{name} does not apply").into()) };
        for backend in ["genetic", "mcts"] {
            let started = Instant::now();
            let (mut met, mut values) = (0, Vec::new());
            for seed in 0..seeds {
                let options = ScheduleOptions {
                    backend: backend.to_owned(),
                    seed,
                    max_evaluations: evaluations,
                    known: false,
                    target_gap: schedule.makespan / case(schedule.peak).bound() - 1.0,
                    ..ScheduleOptions::default()
                };
                let Ok(answer) = solve(case(schedule.peak), &options, Interrupt::default(), None) else { continue };
                met += u64::from(answer.value <= schedule.makespan * (1.0 + 1e-9));
                values.push(answer.value);
            }
            values.sort_by(f64::total_cmp);
            println!(
                "{name} ({} in memory {}): {backend} {met} of {seeds}, best {:?}, median {:?}, {:.1} s per seed",
                schedule.makespan,
                schedule.peak,
                values.first(),
                values.get(values.len() / 2),
                started.elapsed().as_secs_f64() / seeds as f64
            );
        }
    }
    Ok(())
}
