//! Why a plan is as it is: what each dimension's neighbours would cost, and which links its groups use.

use super::answer::{Reason, StagePlacement};
use super::layerwise::LayerwiseSpace;
use super::planner::Inputs;
use super::strategies::Divisors;
use crate::cost::Group;
use crate::estimate::Estimate;
use crate::plan::{Chunk, LayerStrategy, Layout, PartKind, Plan, Recompute, Run};
use crate::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// The strategy that most layers have.
pub fn commonest(space: &LayerwiseSpace, plan: &Plan) -> LayerStrategy {
    let spine = space.estimator.spine;
    let mut counts: BTreeMap<LayerStrategy, usize> = BTreeMap::new();
    for (part, strategy) in plan.chunks.iter().flat_map(Chunk::parts) {
        if spine.class_of(part).kind == PartKind::Layer {
            *counts.entry(*strategy).or_default() += 1;
        }
    }
    let most = counts.iter().max_by_key(|(s, n)| (**n, std::cmp::Reverse(**s)));
    most.map_or(LayerStrategy::PLAIN, |(s, _)| *s)
}

/// What makes two plans the same kind of plan: alternatives of one shape are one alternative.
pub fn shape(space: &LayerwiseSpace, plan: &Plan) -> (u32, u32, u64, Layout, u32, u32) {
    let s = commonest(space, plan);
    (plan.pipeline, plan.chunks_per_stage, plan.micro_batches, s.layout(), s.ep, s.etp)
}

/// Terms of the slowest stage in which two estimates differ most, as a line.
pub fn difference(best: &Estimate, other: &Estimate) -> String {
    type Term = (&'static str, fn(&crate::estimate::StageTime) -> f64);
    const TERMS: [Term; 10] = [
        ("compute", |t| t.compute_s),
        ("TP", |t| t.tp_s),
        ("CP", |t| t.cp_s),
        ("EP", |t| t.ep_s),
        ("resharding", |t| t.reshard_s),
        ("pipeline transfers", |t| t.pp_s),
        ("bubble", |t| t.bubble_s),
        ("exposed DP", |t| t.dp_s),
        ("optimizer", |t| t.optimizer_s),
        ("jitter", |t| t.jitter_s),
    ];
    let mean = |e: &Estimate, f: fn(&crate::estimate::StageTime) -> f64| {
        e.stages.iter().map(|s| f(&s.time)).sum::<f64>() / e.stages.len() as f64
    };
    let mut terms: Vec<(&str, f64)> = TERMS.iter().map(|(n, f)| (*n, mean(other, *f) - mean(best, *f))).collect();
    terms.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let signed = |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "+" }, Seconds(x.abs()));
    let noticed = terms.iter().take(3).filter(|t| t.1.abs() > 1e-3 * best.iteration_time_s);
    let mut words: Vec<String> = noticed.map(|(name, x)| format!("{name} {}", signed(*x))).collect();
    let memory = other.peak_memory_bytes - best.peak_memory_bytes;
    if memory.abs() > 1e9 {
        words.push(format!("peak memory {}{}", if memory < 0.0 { "-" } else { "+" }, Bytes(memory.abs())));
    }
    if words.is_empty() { "no term differs by 0.1 % of the iteration".into() } else { words.join(", ") }
}

/// The plan with `change` applied to the strategy of every part, if that is a plan of this question.
fn variant(space: &LayerwiseSpace, plan: &Plan, change: &dyn Fn(&mut LayerStrategy)) -> Option<Plan> {
    let estimator = &space.estimator;
    let mut new = plan.clone();
    let n = plan.stage_devices();
    for run in new.chunks.iter_mut().flat_map(|c| &mut c.runs) {
        change(&mut run.strategy);
        if run.strategy.tp == 1 {
            run.strategy.sequence_parallel = false;
        }
    }
    // Runs may span classes; every part must still be able to take its strategy.
    let mut chunks = Vec::with_capacity(new.chunks.len());
    for chunk in &new.chunks {
        let mut list = Vec::new();
        for (part, strategy) in chunk.parts() {
            let class = estimator.spine.class_of(part);
            let d = Divisors::of(class, estimator.job);
            let s = class.adapt(strategy);
            if !n.is_multiple_of(s.model_ways())
                || !n.is_multiple_of(u64::from(s.ep) * u64::from(s.etp))
                || !d.allow(&s)
            {
                return None;
            }
            list.push(s);
        }
        let first = chunk.runs.first().map_or(0, |r: &Run| r.first);
        chunks.push(Plan::encode(first, &list));
    }
    new.chunks = chunks;
    Some(new)
}

fn verdict(base: &Estimate, space: &LayerwiseSpace, plan: Option<Plan>) -> Option<String> {
    let e = space.estimator.estimate(&plan?).ok()?;
    let delta = e.iteration_time_s / base.iteration_time_s - 1.0;
    let time = format!("{}{:.1} %", if delta < 0.0 { "-" } else { "+" }, 100.0 * delta.abs());
    Some(if e.fits {
        format!("{time} time ({})", difference(base, &e))
    } else {
        format!("{time} time, but {} do not fit {}", Bytes(e.peak_memory_bytes), Bytes(e.usable_memory_bytes))
    })
}

/// The outermost links that a group crosses, with the bandwidth of one device on them.
fn link(space: &LayerwiseSpace, plan: &Plan, group: Group) -> Option<String> {
    let pool = space.estimator.pool;
    let level = &pool.levels[pool.place(group, plan.devices).outermost()?];
    Some(format!("`{}` ({} per device)", level.name, level.per_device))
}

/// `1 chunk`, `2 chunks`.
fn count(n: u64, one: &str, more: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { more })
}

/// One line per dimension.
pub fn reasons(inputs: &Inputs, space: &LayerwiseSpace, plan: &Plan, estimate: &Estimate) -> Vec<Reason> {
    let s = commonest(space, plan);
    let pool = space.estimator.pool;
    let n = plan.stage_devices();
    let mut reasons = Vec::new();
    let try_change = |change: &dyn Fn(&mut LayerStrategy)| verdict(estimate, space, variant(space, plan, change));
    let say = |parts: Vec<Option<String>>| -> String { parts.into_iter().flatten().collect::<Vec<_>>().join("; ") };
    let slow = pool.levels.iter().min_by(|a, b| a.per_device.0.total_cmp(&b.per_device.0));

    let inside = (s.tp > 1).then(|| link(space, plan, Group { size: u64::from(s.tp), stride: 1 })).flatten();
    let keeps = inside.map(|l| match slow {
        Some(level) if pool.levels.len() > 1 && !l.contains(&format!("`{}`", level.name)) => format!(
            "TP{} stays on {l} because the slow link `{}` has {} per device and TP sends activations twice per layer and pass",
            s.tp, level.name, level.per_device
        ),
        _ => format!("TP{} uses {l}", s.tp),
    });
    let wider = try_change(&|x| {
        x.tp *= 2;
        x.sequence_parallel = true;
    });
    let narrower = (s.tp > 1).then(|| try_change(&|x| x.tp = (x.tp / 2).max(1))).flatten();
    reasons.push(Reason {
        dimension: "tp",
        reason: say(vec![
            keeps.or((s.tp == 1).then(|| "TP1: no tensor parallelism is needed to fit".into())),
            wider.map(|v| format!("TP{}: {v}", s.tp * 2)),
            narrower.map(|v| format!("TP{}: {v}", s.tp / 2)),
        ]),
    });
    if s.tp > 1 {
        let other = try_change(&|x| x.sequence_parallel = !x.sequence_parallel);
        let state = |on: bool| if on { "on" } else { "off" };
        reasons.push(Reason {
            dimension: "sp",
            reason: say(vec![
                Some(format!("sequence parallelism is {}", state(s.sequence_parallel))),
                other.map(|v| format!("{}: {v}", state(!s.sequence_parallel))),
            ]),
        });
    }
    let cp = |x: &mut LayerStrategy, to: u32| x.cp = to;
    reasons.push(Reason {
        dimension: "cp",
        reason: say(vec![
            Some(if s.cp == 1 && s.ulysses == 1 {
                "no context parallelism: a sequence's activations fit without it".into()
            } else {
                let ways = u64::from(s.cp) * u64::from(s.ulysses);
                let on = link(space, plan, Group { size: ways, stride: u64::from(s.tp) }).unwrap_or_default();
                format!("the sequence is cut {ways} times (CP{} Ulysses{}) over {on}", s.cp, s.ulysses)
            }),
            try_change(&|x| cp(x, x.cp * 2)).map(|v| format!("CP{}: {v}", s.cp * 2)),
            (s.cp > 1)
                .then(|| try_change(&|x| cp(x, (x.cp / 2).max(1))))
                .flatten()
                .map(|v| format!("CP{}: {v}", s.cp / 2)),
        ]),
    });
    if s.ep > 1 || space.estimator.spine.classes.iter().any(|c| Divisors::of(c, &inputs.job).experts > 0) {
        let on = link(space, plan, Group { size: u64::from(s.ep), stride: u64::from(s.etp) });
        reasons.push(Reason {
            dimension: "ep",
            reason: say(vec![
                Some(match on {
                    Some(on) => format!("EP{} sends tokens over {on}", s.ep),
                    None => "EP1: all experts are on every rank".into(),
                }),
                try_change(&|x| x.ep *= 2).map(|v| format!("EP{}: {v}", s.ep * 2)),
                (s.ep > 1)
                    .then(|| try_change(&|x| x.ep = (x.ep / 2).max(1)))
                    .flatten()
                    .map(|v| format!("EP{}: {v}", s.ep / 2)),
            ]),
        });
    }
    let batches = count(plan.micro_batches, "micro-batch", "es");
    let crossing = |p: &Plan| -> Option<String> {
        if p.pipeline == 1 {
            return None;
        }
        link(space, p, Group { size: u64::from(p.pipeline), stride: p.stage_devices() })
    };
    reasons.push(Reason {
        dimension: "pp",
        reason: match crossing(plan) {
            None => format!("PP1: one stage of {n} devices holds the model, no bubble"),
            Some(on) => format!(
                "PP{} crosses {on} with one boundary tensor per micro-batch and pass; bubble {:.2} % with {} and {} per stage",
                plan.pipeline,
                100.0 * estimate.bubble,
                batches,
                count(u64::from(plan.chunks_per_stage), "chunk", "s")
            ),
        },
    });
    reasons.push(Reason {
        dimension: "zero",
        reason: say(vec![
            Some(format!("ZeRO-{} over the {} ranks that hold the same weights", s.zero, n / u64::from(s.tp))),
            (s.zero > 0)
                .then(|| try_change(&|x| x.zero = x.zero.saturating_sub(1)))
                .flatten()
                .map(|v| format!("ZeRO-{}: {v}", s.zero - 1)),
            (s.zero < 3)
                .then(|| try_change(&|x| x.zero = (x.zero + 1).min(3)))
                .flatten()
                .map(|v| format!("ZeRO-{}: {v}", s.zero + 1)),
        ]),
    });
    let name = |r: Recompute| match r {
        Recompute::None => "no recomputation",
        Recompute::Selective => "selective recomputation",
        Recompute::Full => "full recomputation",
    };
    let (less, more) = match s.recompute {
        Recompute::None => (None, Some(Recompute::Selective)),
        Recompute::Selective => (Some(Recompute::None), Some(Recompute::Full)),
        Recompute::Full => (Some(Recompute::Selective), None),
    };
    let with =
        |r: Option<Recompute>| r.and_then(|r| try_change(&|x| x.recompute = r).map(|v| format!("{}: {v}", name(r))));
    reasons.push(Reason {
        dimension: "recompute",
        reason: say(vec![Some(name(s.recompute).into()), with(less), with(more)]),
    });
    let samples = inputs.job.global_batch / (plan.micro_batches * (n / s.model_ways()));
    let regrouped = |micro_batches: u64| {
        let mut p = plan.clone();
        p.micro_batches = micro_batches;
        p
    };
    reasons.push(Reason {
        dimension: "micro_batch",
        reason: say(vec![
            Some(format!("{} per rank and micro-batch, {}", count(samples, "sequence", "s"), batches)),
            plan.micro_batches
                .is_multiple_of(2)
                .then(|| verdict(estimate, space, Some(regrouped(plan.micro_batches / 2))))
                .flatten()
                .map(|v| format!("{}: {v}", count(plan.micro_batches / 2, "micro-batch", "es"))),
        ]),
    });
    reasons
}

/// Devices and tensor-parallel groups of every stage, if there are at most `most` devices.
pub fn placement(space: &LayerwiseSpace, plan: &Plan, most: u64) -> Vec<StagePlacement> {
    if plan.devices > most {
        return Vec::new();
    }
    let pool = space.estimator.pool;
    let n = plan.stage_devices();
    let tp = u64::from(commonest(space, plan).tp).max(1);
    (0..plan.pipeline)
        .map(|stage| {
            let devices: Vec<u64> = (0..n).map(|i| pool.device_at(u64::from(stage) * n + i)).collect();
            let tp_groups = devices.chunks(tp as usize).map(<[u64]>::to_vec).collect();
            StagePlacement { stage, devices, tp_groups }
        })
        .collect()
}
