//! The coupled outer decisions: stages, micro-batches, chunks per stage, and how chunks are filled when there are several.

use crate::job::Job;
use crate::plan::{PartKind, Spine};

/// One choice of the outer decisions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskKey {
    /// Stages.
    pub pipeline: u32,
    /// Chunks per stage.
    pub chunks: u32,
    /// Micro-batches.
    pub micro_batches: u64,
    /// Parts of each chunk in order of traversal, for several chunks per stage; free cuts for one.
    pub split: Option<Vec<u32>>,
}

/// Chunks per stage up to here are all looked at, further ones only where they divide the layers evenly.
const MANY_CHUNKS: u64 = 8;

/// Most chunks per stage: published plans stop at 12 (NVIDIA Megatron-Bridge recipes, 2026).
const MOST_CHUNKS: u64 = 20;

/// Divisors of `n` in ascending order.
pub fn divisors(n: u64) -> Vec<u64> {
    let mut low: Vec<u64> = (1..).take_while(|d| d * d <= n).filter(|d| n.is_multiple_of(*d)).collect();
    let high: Vec<u64> = low.iter().rev().map(|d| n / d).filter(|d| d * d > n).collect();
    low.extend(high);
    low
}

/// Every task: stages dividing the devices, micro-batches dividing the batch, chunks per stage with their splits.
pub fn all(spine: &Spine, job: &Job, devices: u64) -> Vec<TaskKey> {
    let parts = spine.parts.len() as u64;
    let layers = spine.parts.iter().filter(|c| spine.classes[**c as usize].kind == PartKind::Layer).count() as u64;
    let mut tasks = Vec::new();
    let mut known: std::collections::BTreeMap<u64, Vec<Vec<u32>>> = std::collections::BTreeMap::new();
    for pipeline in divisors(devices).into_iter().filter(|p| *p <= parts) {
        for micro_batches in divisors(job.global_batch) {
            let key =
                |chunks: u64, split| TaskKey { pipeline: pipeline as u32, chunks: chunks as u32, micro_batches, split };
            tasks.push(key(1, None));
            // Interleaving needs a pipeline and micro-batches in groups of its length (Narayanan 2021, section 2.2).
            if pipeline == 1 || micro_batches % pipeline != 0 {
                continue;
            }
            for chunks in 2..=(layers / pipeline).min(MOST_CHUNKS) {
                if chunks > MANY_CHUNKS && !layers.is_multiple_of(pipeline * chunks) {
                    continue;
                }
                let number = pipeline * chunks;
                for split in known.entry(number).or_insert_with(|| splits(spine, number)).iter() {
                    tasks.push(key(chunks, Some(split.clone())));
                }
            }
        }
    }
    tasks
}

/// Ways to deal the parts to `chunks` chunks: layers evenly, the first chunk with up to one and the last with up to three
/// layers fewer (they also hold the embedding and the head), the remainder spread over the chunks in between.
pub fn splits(spine: &Spine, chunks: u64) -> Vec<Vec<u32>> {
    let is_layer = |c: &u32| spine.classes[*c as usize].kind == PartKind::Layer;
    let layers = spine.parts.iter().filter(|c| is_layer(c)).count() as u64;
    let mut found: Vec<Vec<u32>> = Vec::new();
    if chunks == 0 || layers < chunks {
        return found;
    }
    for first_less in 0..=1u64 {
        for last_less in 0..=3u64 {
            let Some(layers_of) = even(layers, chunks, first_less, last_less) else { continue };
            let split = with_other_parts(spine, &layers_of);
            if !found.contains(&split) {
                found.push(split);
            }
        }
    }
    found
}

/// Layers per chunk when the first has `first_less` and the last `last_less` fewer than the others.
fn even(layers: u64, chunks: u64, first_less: u64, last_less: u64) -> Option<Vec<u64>> {
    let virtual_layers = layers + first_less + last_less;
    let (base, more) = (virtual_layers / chunks, virtual_layers % chunks);
    // Chunks with one more stand in the middle, where neither embedding nor head is.
    let start = (chunks - more) / 2;
    let mut of: Vec<u64> = (0..chunks).map(|x| base + u64::from(x >= start && x < start + more)).collect();
    let last = of.len() - 1;
    of[0] = of[0].checked_sub(first_less)?;
    of[last] = of[last].checked_sub(last_less)?;
    Some(of)
}

/// Turns layers per chunk into parts per chunk: what stands before the first layer goes with it, what stands after a
/// layer with that layer.
fn with_other_parts(spine: &Spine, layers_of: &[u64]) -> Vec<u32> {
    let mut sizes = vec![0u32; layers_of.len()];
    let (mut chunk, mut layers) = (0usize, 0u64);
    for class in &spine.parts {
        if spine.classes[*class as usize].kind == PartKind::Layer {
            while chunk + 1 < layers_of.len() && layers >= layers_of[chunk] {
                chunk += 1;
                layers = 0;
            }
            layers += 1;
        } else if chunk + 1 < layers_of.len()
            && layers >= layers_of[chunk]
            && layers_of[chunk + 1..].iter().all(|l| *l == 0)
        {
            // A last chunk without layers holds the head.
            chunk = layers_of.len() - 1;
        }
        sizes[chunk] += 1;
    }
    sizes
}
