//! Two prices side by side, and where a price stands among those of all uniform plans.

use super::planner::Inputs;
use super::uniform;
use crate::error::InputError;
use crate::estimate::{Estimate, StageMemory, StageTime};
use serde::Serialize;

/// One term of two prices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Term {
    /// What it is.
    pub term: &'static str,
    /// `s` or `bytes`.
    pub unit: &'static str,
    /// In the first plan: for time the mean over stages, for memory its fullest stage.
    pub first: f64,
    /// In the second.
    pub second: f64,
}

type TimeTerm = (&'static str, fn(&StageTime) -> f64);
type MemoryTerm = (&'static str, fn(&StageMemory) -> f64);

const TIMES: [TimeTerm; 10] = [
    ("compute", |t| t.compute_s),
    ("tensor parallelism", |t| t.tp_s),
    ("context parallelism", |t| t.cp_s),
    ("expert parallelism", |t| t.ep_s),
    ("resharding", |t| t.reshard_s),
    ("pipeline transfers", |t| t.pp_s),
    ("bubble", |t| t.bubble_s),
    ("exposed data parallelism", |t| t.dp_s),
    ("optimizer", |t| t.optimizer_s),
    ("jitter", |t| t.jitter_s),
];

const MEMORY: [MemoryTerm; 7] = [
    ("weights", |m| m.weights_bytes),
    ("gradients", |m| m.gradients_bytes),
    ("optimizer states", |m| m.optimizer_bytes),
    ("activations", |m| m.activations_bytes),
    ("head", |m| m.head_bytes),
    ("buffers", |m| m.buffers_bytes),
    ("allocator and context", |m| m.reserved_bytes - m.allocated_bytes),
];

/// Every term of both prices. Times of a stage sum to the iteration, so the means over stages do too.
pub fn terms(first: &Estimate, second: &Estimate) -> Vec<Term> {
    let mean = |e: &Estimate, of: fn(&StageTime) -> f64| {
        e.stages.iter().map(|s| of(&s.time)).sum::<f64>() / e.stages.len().max(1) as f64
    };
    let fullest = |e: &Estimate| {
        let most = e.stages.iter().max_by(|a, b| a.memory.reserved_bytes.total_cmp(&b.memory.reserved_bytes));
        most.map(|s| s.memory).unwrap_or_default()
    };
    let (a, b) = (fullest(first), fullest(second));
    let times =
        TIMES.iter().map(|(term, of)| Term { term, unit: "s", first: mean(first, *of), second: mean(second, *of) });
    let bytes = MEMORY.iter().map(|(term, of)| Term { term, unit: "bytes", first: of(&a), second: of(&b) });
    times.chain(bytes).collect()
}

/// Where a time stands among the uniform plans that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    /// One more than the plans that are faster.
    pub rank: usize,
    /// How many plans were compared: those within 10 % of the best.
    pub of: usize,
}

/// How many plans are compared.
const COMPARED: usize = 64;

impl Place {
    /// The place of `time` (seconds) among the uniform plans of the question.
    ///
    /// # Errors
    /// As planning.
    pub fn of(inputs: &Inputs, time: f64) -> Result<Self, InputError> {
        inputs.with_space(|space| {
            let first = uniform::probe(&space);
            let list = uniform::best(&space, COMPARED, first.as_ref(), &|| false);
            let times: Vec<f64> = list
                .iter()
                .filter_map(|u| space.estimator.estimate(&u.plan(&space)).ok())
                .map(|e| e.iteration_time_s)
                .collect();
            Self { rank: 1 + times.iter().filter(|t| **t < time * (1.0 - 1e-9)).count(), of: times.len() }
        })
    }
}
