//! Flags of Megatron-Core for a schedule that it can run. It reads no orders, only sizes: 1F1B, or interleaved 1F1B with
//! micro-batch groups of `p` (`core/pipeline_parallel/schedules.py`, read 2026-11); and a layout string of the layers by
//! stage (`E` embedding, `t` layers, `L` loss, `|` between stages).

use crate::pipeline::dsl::Question;
use crate::pipeline::generators::shipped;
use crate::pipeline::schedule::Schedule;

/// Why Megatron cannot run it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MegatronError {
    /// Another map than the loop.
    #[error("Megatron-Core places stage x on rank x mod p; this schedule has {0} stages placed otherwise")]
    Placement(&'static str),
    /// An order of its own.
    #[error("Megatron-Core runs 1F1B or interleaved 1F1B only, and this schedule has another order")]
    Order,
    /// Fewer layers than stages.
    #[error("{layers} layers do not fill {stages} stages")]
    Layers {
        /// Layers.
        layers: usize,
        /// Stages.
        stages: usize,
    },
}

/// The flags, a line each, for a model of `layers` layers dealt to the stages as evenly as possible, earlier stages first.
///
/// # Errors
/// [`MegatronError`].
pub fn flags(schedule: &Schedule, layers: usize) -> Result<String, MegatronError> {
    let (p, stages) = (schedule.devices(), schedule.placement.stages());
    let v = stages / p;
    if schedule.placement.shape() != "loop" && !(p == 1 && v == 1) {
        return Err(MegatronError::Placement(schedule.placement.shape()));
    }
    let question = Question { chunks: Some(v), ..Question::new(p, schedule.microbatches) };
    let name = if v == 1 { "1f1b" } else { "interleaved_1f1b" };
    if shipped(name, &question).map(|known| known.orders) != Ok(schedule.orders.clone()) {
        return Err(MegatronError::Order);
    }
    if layers < stages {
        return Err(MegatronError::Layers { layers, stages });
    }
    let part = |x: usize| {
        let n = layers / stages + usize::from(x < layers % stages);
        let (first, last) = (if x == 0 { "E" } else { "" }, if x + 1 == stages { "L" } else { "" });
        format!("{first}{}{last}", "t".repeat(n))
    };
    let parts: Vec<String> = (0..stages).map(part).collect();
    let mut lines = vec![
        format!("--pipeline-model-parallel-size {p}"),
        format!("--pipeline-model-parallel-layout \"{}\"", parts.join("|")),
    ];
    if v > 1 {
        lines.push(format!("--microbatch-group-size-per-virtual-pipeline-stage {p}"));
    }
    Ok(lines.join("\n") + "\n")
}
