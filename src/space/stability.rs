//! Whether the choice of a plan stands within what prices are known to, and what keeps it from running out of memory.
//!
//! The errors of two prices by one model are mostly the same error; what turns an order round is that one kind of cost is
//! further off than another. So kernels alone, then links alone, are made as much faster and slower as the p10 to p90 of
//! published runs, and plan and rivals are priced again.

use super::answer::Alternative;
use super::planner::Inputs;
use crate::cluster::{Device, Efficiency, Level, Pool};
use crate::estimate::{Estimate, EstimateError, Estimator};
use crate::plan::{Plan, Spine};
use serde::Serialize;

/// A rival that is faster by no more than this is no reason to choose it.
const NOTHING: f64 = 1e-3;

/// What is made faster or slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// All kernels.
    Kernels,
    /// All links.
    Links,
}

/// A world in which another plan is faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overtaken {
    /// What differs from the world that was planned for.
    pub what: What,
    /// How many times as long it takes.
    pub times: f64,
    /// The faster plan.
    pub by: Plan,
    /// By how much, as a fraction of the chosen plan's time.
    pub faster: f64,
}

/// Memory against what may come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MemoryMargin {
    /// The 90 % quantile of the peak.
    pub p90_bytes: f64,
    /// What the device shows, whatever limit was planned for.
    pub shown_bytes: f64,
    /// Whether even that peak is below it.
    pub kept: bool,
    /// A memory limit (`--memory`) under which every plan that fits also keeps this margin.
    pub limit_bytes: f64,
}

/// How far the choice can be trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stability {
    /// Whether the plan stays the fastest of those compared in every world.
    pub stable: bool,
    /// Plans it was compared with.
    pub rivals: usize,
    /// The 10 % and 90 % quantiles of published times over their prices.
    pub times: [f64; 2],
    /// Worlds in which it does not, with the rival that is fastest there.
    pub overtaken: Vec<Overtaken>,
    /// Its memory.
    pub memory: MemoryMargin,
}

/// `pool` with kernels or links that take `times` as long.
fn changed(pool: &Pool, what: What, times: f64) -> Pool {
    let slower = |e: Efficiency| Efficiency { plateau: (e.plateau / times).min(1.0), ..e };
    match what {
        What::Kernels => {
            let d = &pool.device;
            let device = Device {
                gemm: slower(d.gemm),
                grouped_gemm: slower(d.grouped_gemm),
                attention: slower(d.attention),
                streaming: slower(d.streaming),
                ..d.clone()
            };
            Pool { device, ..pool.clone() }
        }
        What::Links => {
            let slower = |l: &Level| Level {
                efficiency: (l.efficiency / times).min(1.0),
                latency: l.latency * times,
                ..l.clone()
            };
            Pool { levels: pool.levels.iter().map(slower).collect(), ..pool.clone() }
        }
    }
}

/// Judges `plan`, priced as `estimate`, against `rivals`.
///
/// # Errors
/// When a plan has no price.
pub fn stability(
    inputs: &Inputs,
    spine: &Spine,
    pool: &Pool,
    (plan, estimate): (&Plan, &Estimate),
    rivals: &[Alternative],
) -> Result<Stability, EstimateError> {
    let times = inputs.cost.software.time_spread;
    let mut overtaken = Vec::new();
    for what in [What::Kernels, What::Links] {
        for factor in times.into_iter().filter(|_| !rivals.is_empty()) {
            let pool = changed(pool, what, factor);
            let estimator = Estimator::new(&inputs.model, spine, &pool, &inputs.job, inputs.cost);
            let own = estimator.estimate(plan)?.iteration_time_s;
            let mut fastest: Option<(f64, &Plan)> = None;
            for rival in rivals {
                let time = estimator.estimate(&rival.plan)?.iteration_time_s;
                if fastest.is_none_or(|(best, _)| time < best) {
                    fastest = Some((time, &rival.plan));
                }
            }
            if let Some((time, by)) = fastest.filter(|(time, _)| *time < own * (1.0 - NOTHING)) {
                overtaken.push(Overtaken { what, times: factor, by: by.clone(), faster: 1.0 - time / own });
            }
        }
    }
    Ok(Stability {
        stable: overtaken.is_empty(),
        rivals: rivals.len(),
        times,
        overtaken,
        memory: memory_margin(inputs, pool, estimate),
    })
}

/// The memory of a plan priced as `estimate` against what may come.
pub fn memory_margin(inputs: &Inputs, pool: &Pool, estimate: &Estimate) -> MemoryMargin {
    let shown = pool.device.memory.0;
    let p90 = estimate.peak_memory_p10_p90_bytes[1];
    let share = inputs.cost.figures.safe_share * inputs.cost.software.memory_spread[1];
    MemoryMargin { p90_bytes: p90, shown_bytes: shown, kept: p90 <= shown, limit_bytes: shown * (1.0 / share).min(1.0) }
}
