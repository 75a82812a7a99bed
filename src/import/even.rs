//! Plans of launches that name degrees only: one strategy for all layers, layers spread evenly over the stages.

use crate::cost::Software;
use crate::error::{InputError, Kind};
use crate::estimate::host::Duties;
use crate::job::Job;
use crate::plan::{LayerStrategy, PartKind, Plan, Spine};
use crate::rules::Known;
use crate::rules::megatron::offers::even_split;

/// What a launch means.
#[derive(Debug, Clone, PartialEq)]
pub struct Meant {
    /// The job.
    pub job: Job,
    /// The plan.
    pub plan: Plan,
    /// Conventions of the framework under these settings.
    pub software: Software,
    /// What lies in host memory.
    pub duties: Duties,
    /// What is priced otherwise than it runs, and what was assumed.
    pub notes: Vec<String>,
}

/// Degrees of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Degrees {
    /// Ranks in all.
    pub devices: u64,
    /// Stages.
    pub pipeline: u64,
    /// Chunks of a stage.
    pub chunks: u64,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// Strategy of all layers.
    pub strategy: LayerStrategy,
}

/// The plan with these degrees.
///
/// # Errors
/// More chunks than layers; degrees beyond 32 bits.
pub fn plan(spine: &Spine, degrees: &Degrees) -> Result<Plan, InputError> {
    let is_layer = |part: usize| spine.class_of(part).kind == PartKind::Layer;
    let parts = spine.parts.len();
    let layers = (0..parts).filter(|part| is_layer(*part)).count() as u64;
    let stages = degrees.pipeline.saturating_mul(degrees.chunks);
    if stages == 0 || stages > layers {
        let error = InputError::new(Kind::Inconsistent).at("stages").found(stages);
        return Err(error.expected(format!("1 to {layers}: every stage holds a layer")));
    }
    let small = |what: &str, n: u64| {
        u32::try_from(n).map_err(|_| InputError::new(Kind::InvalidValue).at(what).found(n).expected("a smaller number"))
    };
    let mut next = 0;
    let mut chunks = Vec::with_capacity(stages as usize);
    let split = even_split(layers, stages);
    for (x, wanted) in split.iter().enumerate() {
        let first = next;
        let mut held = 0;
        // What stands between layers goes with the layer before it, what stands in front of all with the first.
        while next < parts && (x + 1 == split.len() || held < *wanted || !is_layer(next)) {
            held += u64::from(is_layer(next));
            next += 1;
        }
        let strategy = |part: usize| spine.class_of(part).adapt(&degrees.strategy);
        chunks.push(Plan::encode(first as u32, &(first..next).map(strategy).collect::<Vec<_>>()));
    }
    Ok(Plan {
        devices: degrees.devices,
        pipeline: small("stages", degrees.pipeline)?,
        chunks_per_stage: small("chunks", degrees.chunks)?,
        micro_batches: degrees.micro_batches,
        chunks,
    })
}

/// A number that a launch must decide.
///
/// # Errors
/// It does not.
pub fn decided<T>(value: Known<T>, what: &str) -> Result<T, InputError> {
    value.map_err(|_| InputError::new(Kind::MissingField).at(what).help("nothing that was given decides it"))
}

/// A degree.
///
/// # Errors
/// Zero, or beyond 32 bits.
pub fn degree(what: &str, n: u64) -> Result<u32, InputError> {
    let wrong = || InputError::new(Kind::InvalidValue).at(what).found(n).expected("a number from 1 to 4294967295");
    u32::try_from(n).ok().filter(|n| *n > 0).ok_or_else(wrong)
}
