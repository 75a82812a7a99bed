//! Whether a plan is one of a question at all: it covers the model in order and tiles the devices and the batch.
//!
//! Plans come from files that anybody may edit, so every number is looked at before anything is computed from it.
//! Sizes of the model that cuts must divide are not looked at here.

use super::{LayerStrategy, Plan, Spine};
use crate::error::{InputError, Kind};
use crate::job::Job;
use std::fmt::Display;

fn refuse(field: impl Display, found: impl Display, expected: impl Display) -> InputError {
    InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected)
}

/// Checks `plan` against the parts, the job and the devices there are.
///
/// # Errors
/// Names the field, from the plan's own root, e.g. `chunks[2].runs[0].strategy.tp`.
pub fn validate(plan: &Plan, spine: &Spine, job: &Job, devices: u64) -> Result<(), InputError> {
    if !(1..=devices).contains(&plan.devices) {
        return Err(refuse("devices", plan.devices, format!("1 to {devices}, the devices of the pool")));
    }
    let pipeline = u64::from(plan.pipeline);
    if pipeline == 0 || !plan.devices.is_multiple_of(pipeline) {
        return Err(refuse("pipeline", pipeline, format!("a divisor of the {} devices", plan.devices)));
    }
    if plan.chunks_per_stage == 0 {
        return Err(refuse("chunks_per_stage", 0, "at least 1"));
    }
    let batch = job.global_batch;
    if plan.micro_batches == 0 || !batch.is_multiple_of(plan.micro_batches) {
        return Err(refuse("micro_batches", plan.micro_batches, format!("a divisor of the global batch of {batch}")));
    }
    let chunks = pipeline * u64::from(plan.chunks_per_stage);
    if plan.chunks.len() as u64 != chunks {
        let expected = format!("{chunks} chunks: {pipeline} stages of {} each", plan.chunks_per_stage);
        return Err(InputError::new(Kind::Inconsistent)
            .at("chunks")
            .found(format!("{} chunks", plan.chunks.len()))
            .expected(expected));
    }
    let parts = spine.parts.len() as u64;
    let mut next = 0u64;
    for (c, chunk) in plan.chunks.iter().enumerate() {
        if chunk.runs.is_empty() {
            return Err(refuse(format!("chunks[{c}].runs"), "none", "at least one run of parts"));
        }
        for (r, run) in chunk.runs.iter().enumerate() {
            let field = format!("chunks[{c}].runs[{r}]");
            if u64::from(run.first) != next {
                return Err(refuse(format!("{field}.first"), run.first, format!("{next}: parts stand in order")));
            }
            if run.count == 0 || next + u64::from(run.count) > parts {
                let expected = format!("1 to {}: the model has {parts} parts", parts - next);
                return Err(refuse(format!("{field}.count"), run.count, expected));
            }
            next += u64::from(run.count);
            strategy(&run.strategy, plan, batch).map_err(|e| e.inside(format!("{field}.strategy")))?;
        }
    }
    if next != parts {
        let found = format!("{next} parts");
        return Err(InputError::new(Kind::Inconsistent)
            .at("chunks")
            .found(found)
            .expected(format!("all {parts} parts of the model")));
    }
    Ok(())
}

fn strategy(s: &LayerStrategy, plan: &Plan, batch: u64) -> Result<(), InputError> {
    let n = plan.stage_devices();
    let mut ways = 1u64;
    for (field, value) in [("tp", s.tp), ("ulysses", s.ulysses), ("cp", s.cp)] {
        let value = u64::from(value);
        if value == 0 || !(n / ways).is_multiple_of(value) || !n.is_multiple_of(ways) {
            let expected =
                format!("a divisor of {}: tp * ulysses * cp must divide the {n} devices of a stage", n / ways);
            return Err(refuse(field, value, expected));
        }
        ways *= value;
    }
    let mut expert_ways = 1u64;
    for (field, value) in [("ep", s.ep), ("etp", s.etp)] {
        let value = u64::from(value);
        if value == 0 || !(n / expert_ways).is_multiple_of(value) {
            let expected = format!("a divisor of {}: ep * etp must divide the {n} devices of a stage", n / expert_ways);
            return Err(refuse(field, value, expected));
        }
        expert_ways *= value;
    }
    if s.zero > 3 {
        return Err(refuse("zero", s.zero, "0, 1, 2 or 3"));
    }
    let dp = n / ways;
    let micro_batch = batch / plan.micro_batches;
    if !micro_batch.is_multiple_of(dp) {
        return Err(InputError::new(Kind::Inconsistent)
            .found(format!("{dp} data-parallel ranks ({n} devices of a stage over {ways})"))
            .expected(format!(
                "a divisor of the {micro_batch} sequences of a micro-batch ({batch} in {} micro-batches)",
                plan.micro_batches
            )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::presets;
    use crate::plan::{Chunk, Run};

    fn spine_and_job() -> (Spine, Job) {
        let job = Job::new(64, 4096);
        (Spine::new(&presets::find("llama2-7b").unwrap(), &job), job)
    }

    fn plan(parts: u32) -> Plan {
        let strategy = LayerStrategy { tp: 2, sequence_parallel: true, zero: 1, ..LayerStrategy::PLAIN };
        let run = |first, count| Chunk { runs: vec![Run { first, count, strategy }] };
        Plan {
            devices: 16,
            pipeline: 2,
            chunks_per_stage: 1,
            micro_batches: 16,
            chunks: vec![run(0, 17), run(17, parts - 17)],
        }
    }

    #[test]
    fn every_wrong_number_is_refused_by_its_name() {
        let (spine, job) = spine_and_job();
        let good = plan(spine.parts.len() as u32);
        assert_eq!(validate(&good, &spine, &job, 16), Ok(()));
        type Edit = fn(&mut Plan);
        let edits: [(Edit, &str); 16] = [
            (|p| p.devices = 0, "devices"),
            (|p| p.devices = 17, "devices"),
            (|p| p.pipeline = 0, "pipeline"),
            (|p| p.pipeline = 3, "pipeline"),
            (|p| p.chunks_per_stage = 0, "chunks_per_stage"),
            (|p| p.chunks_per_stage = u32::MAX, "chunks"),
            (|p| p.micro_batches = 0, "micro_batches"),
            (|p| p.micro_batches = u64::MAX, "micro_batches"),
            (|p| p.chunks[1].runs.clear(), "chunks[1].runs"),
            (|p| p.chunks[1].runs[0].first = 18, "chunks[1].runs[0].first"),
            (|p| p.chunks[0].runs[0].count = u32::MAX, "chunks[0].runs[0].count"),
            (|p| p.chunks[1].runs[0].count -= 1, "chunks"),
            (|p| p.chunks[0].runs[0].strategy.tp = 3, "chunks[0].runs[0].strategy.tp"),
            (|p| p.chunks[0].runs[0].strategy.cp = u32::MAX, "chunks[0].runs[0].strategy.cp"),
            (|p| p.chunks[0].runs[0].strategy.etp = 0, "chunks[0].runs[0].strategy.etp"),
            (|p| p.chunks[0].runs[0].strategy.zero = 4, "chunks[0].runs[0].strategy.zero"),
        ];
        for (edit, field) in edits {
            let mut bad = good.clone();
            edit(&mut bad);
            let error = validate(&bad, &spine, &job, 16).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
        let mut bad = good.clone();
        bad.micro_batches = 64;
        assert!(validate(&bad, &spine, &job, 16).unwrap_err().to_string().contains("data-parallel"));
    }
}
