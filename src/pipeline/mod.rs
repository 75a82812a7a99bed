//! Pipelines: which device runs which pass of which micro-batch when, what that costs, and what no order can beat.
//!
//! Two levels of detail. [`timing`] knows the fixed orders of training frameworks (GPipe, 1F1B, interleaved 1F1B) for
//! stages of unequal cost, fast enough for the inner loop of a planner. The rest knows any order: a [`Schedule`] is made
//! by a program of the schedule language ([`dsl`]), a generator or the list scheduler ([`decode`]), proven valid
//! ([`validate()`]), simulated ([`simulate()`]), compared with lower bounds ([`bounds`], [`exact`]) and exported.

mod action;
pub mod block;
pub mod bounds;
mod compact;
mod compile;
pub mod costs;
pub mod decode;
pub mod dsl;
pub mod evaluate;
pub mod exact;
pub mod export;
pub mod generators;
pub mod memory;
pub mod partial;
mod placement;
mod rows;
mod schedule;
pub mod simulate;
pub mod slack;
pub mod summary;
pub mod timing;
pub mod validate;

pub use action::{Action, Pass, Step};
pub use costs::{Costs, Pairing, Sends, StageCost, Transfer};
pub use placement::Placement;
pub use schedule::{Schedule, StageFlags};
pub use simulate::{Run, simulate};
pub use validate::{Fault, validate};

/// Why a question about a pipeline has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PipelineError {
    /// A map from stages to devices makes no sense.
    #[error("placement: {why}")]
    Placement {
        /// What is wrong.
        why: String,
    },
    /// Costs that do not fit the placement or are no numbers.
    #[error("costs: {field} is {found}, expected {expected}")]
    Costs {
        /// Which field.
        field: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The schedule is not valid.
    #[error(transparent)]
    Invalid(#[from] Fault),
    /// A generator cannot serve these numbers.
    #[error("{schedule}: {why}")]
    Unsupported {
        /// Which schedule.
        schedule: String,
        /// What it needs.
        why: String,
    },
    /// The memory limit admits no schedule of the kind asked for.
    #[error("{schedule} does not fit into the memory limit: {why}")]
    Memory {
        /// Which schedule.
        schedule: String,
        /// What is missing.
        why: String,
    },
}

#[cfg(test)]
mod tests;
