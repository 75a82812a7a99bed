//! Plans of one strategy over an even cut, for tests.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod drawn;

use espalier::cluster::{Pool, instances};
use espalier::job::Job;
use espalier::model::{Model, presets};
use espalier::plan::{Chunk, LayerStrategy, PartKind, Plan, Spine};
use espalier::rules::megatron::offers::even_split;

/// A question with its parts.
pub struct Case {
    pub model: Model,
    pub job: Job,
    pub pool: Pool,
    pub spine: Spine,
}

/// A built-in model on built-in machines.
pub fn case(model: &str, machines: &str, batch: u64, sequence: u64) -> Case {
    let model = presets::find(model).unwrap();
    let mut job = Job::new(batch, sequence);
    job.mtp = !model.mtp.is_empty();
    let pool = instances::cluster(machines).unwrap().pools.remove(0);
    let spine = Spine::new(&model, &job);
    Case { model, job, pool, spine }
}

/// `main` as far as it applies to part `i`.
pub fn adapted(spine: &Spine, i: usize, main: &LayerStrategy) -> LayerStrategy {
    spine.class_of(i).adapt(main)
}

/// The plan over an even cut; `None` where there are fewer layers than stages.
pub fn even_plan(c: &Case, pipeline: u32, chunks: u32, micro_batches: u64, main: &LayerStrategy) -> Option<Plan> {
    let layers = c.spine.parts.iter().filter(|p| c.spine.classes[**p as usize].kind == PartKind::Layer).count() as u64;
    let stages = u64::from(pipeline * chunks);
    if layers < stages {
        return None;
    }
    let split = even_split(layers, stages);
    let mut next = 0usize;
    let mut list: Vec<Chunk> = Vec::new();
    for (x, n) in split.iter().enumerate() {
        let (mut strategies, mut seen, first) = (Vec::new(), 0, next);
        while next < c.spine.parts.len() {
            let layer = c.spine.class_of(next).kind == PartKind::Layer;
            if seen == *n && (layer || x + 1 < split.len()) {
                break;
            }
            strategies.push(adapted(&c.spine, next, main));
            seen += u64::from(layer);
            next += 1;
        }
        list.push(Plan::encode(first as u32, &strategies));
    }
    Some(Plan { devices: c.pool.devices, pipeline, chunks_per_stage: chunks, micro_batches, chunks: list })
}
