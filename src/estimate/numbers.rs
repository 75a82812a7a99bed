//! Which constants carry an answer, and how much of it hangs on each.
//!
//! The weight of a constant is an elasticity: the relative change of an answer per relative change of the constant, measured by
//! pricing the plan twice more with the constant 1 % up and 1 % down, by the estimator itself. Two weights of 1 and -0.5 mean
//! that 1 % more of the first makes the answer 1 % larger, 1 % more of the second half a percent smaller.

mod list;

pub use list::{Constant, list};

use super::Estimate;
use crate::cluster::Pool;
use crate::cost::CostOptions;
use serde::Serialize;

/// Relative step by which a constant is moved either way.
pub const STEP: f64 = 0.01;
/// Elasticities below this are nothing: rounding, or far below what any constant is known to.
pub const NOTHING: f64 = 1e-6;

/// What a plan is priced with: all that holds constants.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// Devices and links.
    pub pool: Pool,
    /// The cost model and the framework.
    pub cost: CostOptions,
}

/// A constant with what hangs on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Weighed {
    /// What it is called, e.g. `device.gemm.plateau`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, empty for ratios.
    pub unit: &'static str,
    /// Publication, file or measurement.
    pub source: String,
    /// When it was published or read, `YYYY-MM`.
    pub date: String,
    /// Elasticity of the iteration time.
    pub time: f64,
    /// Elasticity of the peak memory.
    pub memory: f64,
    /// Elasticity of the share of the usable memory that the peak takes.
    pub fullness: f64,
}

impl Weighed {
    /// The larger of what time and memory hang on it.
    pub fn weight(&self) -> f64 {
        self.time.abs().max(self.memory.abs()).max(self.fullness.abs())
    }

    /// Whether nothing hangs on it.
    pub fn is_idle(&self) -> bool {
        self.weight() < NOTHING
    }
}

/// Logarithms of the answers: time, memory, fullness.
fn answers(estimate: &Estimate) -> [f64; 3] {
    let fullness = estimate.peak_memory_bytes / estimate.usable_memory_bytes;
    [estimate.iteration_time_s, estimate.peak_memory_bytes, fullness].map(f64::ln)
}

/// Every constant of `world` with its weights in what `price` says, the heaviest first.
///
/// # Errors
/// Those of `price`.
pub fn weigh<E>(world: &World, price: impl Fn(&World) -> Result<Estimate, E>) -> Result<Vec<Weighed>, E> {
    let mut weighed = Vec::new();
    for constant in list(world) {
        let mut moved = world.clone();
        let value = constant.of(world);
        let mut at = |factor: f64| -> Result<[f64; 3], E> {
            if let Some(place) = constant.place(&mut moved) {
                *place = value * factor;
            }
            Ok(answers(&price(&moved)?))
        };
        let [time, memory, fullness] = if value == 0.0 {
            [0.0; 3]
        } else {
            let (up, down) = (at(1.0 + STEP)?, at(1.0 - STEP)?);
            let width = (1.0 + STEP).ln() - (1.0 - STEP).ln();
            [0, 1, 2].map(|i| (up[i] - down[i]) / width)
        };
        let tidy = |x: f64| if x.abs() < NOTHING { 0.0 } else { x };
        weighed.push(Weighed {
            value,
            time: tidy(time),
            memory: tidy(memory),
            fullness: tidy(fullness),
            name: constant.name,
            unit: constant.unit,
            source: constant.source.text,
            date: constant.source.date,
        });
    }
    weighed.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then_with(|| a.name.cmp(&b.name)));
    Ok(weighed)
}
