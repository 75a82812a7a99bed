//! Every schedule that the literature names and that applies to a shape, within its memory: where a search starts, and
//! what it is compared with.

use super::shape::{Case, Shape};
use crate::pipeline::bounds::Backward;
use crate::pipeline::dsl::Question;
use crate::pipeline::generators::{PassCosts, shipped, v_1f1b, zero_bubble, zero_bubble_v};
use crate::pipeline::{Action, Pass, Schedule, StageFlags, Step, simulate};

/// A known schedule on a shape.
#[derive(Debug, Clone)]
pub struct Known {
    /// Which shape of the case.
    pub shape: usize,
    /// The schedule as it is known.
    pub schedule: Schedule,
    /// What it is worth.
    pub makespan: f64,
    /// As above.
    pub span: f64,
    /// Largest peak of all devices.
    pub peak: f64,
}

/// Programs that are tried on every shape; those of another shape say so.
const PROGRAMS: [&str; 12] = [
    "gpipe",
    "1f1b",
    "looped_bfs",
    "interleaved_1f1b",
    "group_interleaved",
    "interleaved_zb",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "v_half",
    "v_min",
    "dualpipe_v",
];

/// All that run within memory, shape by shape.
pub fn known(case: &Case) -> Vec<Known> {
    let mut all = Vec::new();
    for (number, shape) in case.shapes.iter().enumerate() {
        all.extend(candidates(shape, case.microbatches).into_iter().filter_map(|schedule| on(number, shape, schedule)));
    }
    all
}

/// A schedule on those shapes of the case that have its map, where it runs within memory.
pub fn on_shapes(case: &Case, schedule: &Schedule) -> Vec<Known> {
    let recomputes = |flags: &[StageFlags], x: usize| flags.get(x).is_some_and(|flags| flags.recompute);
    let alike = case.shapes.iter().enumerate().filter(|(_, shape)| {
        shape.placement == schedule.placement
            && case.microbatches == schedule.microbatches
            && (0..shape.placement.stages()).all(|x| recomputes(&shape.flags, x) == recomputes(&schedule.flags, x))
    });
    alike.filter_map(|(number, shape)| on(number, shape, schedule.clone())).collect()
}

fn on(number: usize, shape: &Shape, mut schedule: Schedule) -> Option<Known> {
    schedule.flags[..shape.flags.len()].copy_from_slice(&shape.flags);
    let run = simulate(&as_shape(&schedule, shape.backward)?, &shape.costs).ok()?;
    let peak = run.peak_memory();
    Some(Known { shape: number, schedule, makespan: run.makespan, span: run.span, peak })
}

/// The schedule with the backwards of a shape: whole ones are split where B and W are apart; split ones are not for a
/// shape with both in one.
pub fn as_shape(schedule: &Schedule, backward: Backward) -> Option<Schedule> {
    match backward {
        Backward::Fused => (!schedule.splits_backward()).then(|| schedule.clone()),
        Backward::Split => {
            let split = |action: Action| match action.pass {
                Pass::BW => [Some(Action { pass: Pass::B, ..action }), Some(Action { pass: Pass::W, ..action })],
                _ => [Some(action), None],
            };
            let orders = schedule.orders.iter().map(|order| {
                let actions = order.iter().flat_map(|step| step.actions());
                actions.flat_map(split).flatten().map(Step::One).collect()
            });
            Some(Schedule { orders: orders.collect(), ..schedule.clone() })
        }
    }
}

fn candidates(shape: &Shape, m: usize) -> Vec<Schedule> {
    let (p, v) = (shape.placement.devices(), shape.chunks());
    let mut all = Vec::new();
    let mut program = |name: &str, group: Option<usize>| {
        let mut question = Question { chunks: Some(v), ..Question::new(p, m) };
        question.parameters.extend(group.map(|g| ("g".to_owned(), g as i64)));
        if let Ok(schedule) = shipped(name, &question)
            && schedule.placement == shape.placement
        {
            all.push(schedule);
        }
    };
    let is_interleaved = |name: &str| name.contains("interleaved") || name == "looped_bfs";
    // With one chunk, interleaved programs are 1F1B and ZB-H1 under other names.
    for name in PROGRAMS.into_iter().filter(|name| v > 1 || !is_interleaved(name)) {
        program(name, None);
    }
    if p >= 2 && v > 1 {
        program("group_interleaved", Some(p / 2));
    }
    let stage = |x: usize| {
        let cost = &shape.costs.stages[x];
        let recompute = shape.flags.get(x).is_some_and(|flags| flags.recompute);
        let (again, kept) = if recompute { (cost.forward, cost.kept) } else { (0.0, cost.activation) };
        PassCosts {
            time: [cost.forward, cost.backward + again, cost.weight],
            memory: [kept, cost.residue - kept, -cost.residue],
        }
    };
    let limit = shape.costs.limit.iter().flatten().zip(&shape.costs.resident).map(|(limit, used)| limit - used);
    let limit = limit.fold(f64::INFINITY, f64::min);
    let hop = shape.costs.forward_hops.iter().map(|hop| hop.latency + hop.occupancy).fold(0.0, f64::max);
    if shape.placement == crate::pipeline::Placement::looped(p, 1) {
        let stages: Vec<PassCosts> = (0..p).map(stage).collect();
        all.extend(zero_bubble(&stages, m, hop, limit).ok());
    }
    if shape.placement == crate::pipeline::Placement::vee(p) {
        all.extend(v_1f1b(p, m).ok());
        all.extend(zero_bubble_v(p, m, stage(0), hop, limit).ok());
    }
    all
}
