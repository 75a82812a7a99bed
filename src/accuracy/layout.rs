//! From degrees of parallelism to a plan: the same strategy in every layer, the cut of the layers as the framework makes it.

use super::left_out::LeftOut;
use crate::plan::{LayerStrategy, PartKind, Plan, Recompute, Spine};

/// How layers are dealt to chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// As many in each; the layers must divide.
    Even,
    /// Embedding and head count as a layer each, where that divides and the layers alone do not.
    EvenWithEnds,
    /// Every chunk takes the least number with which all layers find a place, so that the last one may hold few
    /// (microsoft/DeepSpeed@2ef4fd5 `runtime/utils.py`, `partition_balanced` by `type:transformer`).
    Filled,
    /// Layers of each chunk.
    Listed(Vec<u64>),
    /// Blocks in order of the forward pass: the next stage begins behind the block with which the work so far exceeds the
    /// stages' even share, so that earlier stages hold more; norm, cast and loss are blocks without work
    /// (huggingface/nanotron@01de8d9 `models/base.py`, `build_model`).
    ByWork {
        /// Work of a layer: its weights.
        layer: u64,
        /// Work of the head.
        head: u64,
    },
}

/// Degrees of parallelism of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degrees {
    /// Devices.
    pub devices: u64,
    /// Stages.
    pub pipeline: u32,
    /// Chunks per stage.
    pub chunks: u32,
    /// Micro-batches per step.
    pub micro_batches: u64,
    /// How layers are spread.
    pub strategy: LayerStrategy,
    /// Layers per chunk that are recomputed fully, the first ones; `None`: as the strategy says.
    pub recomputed: Option<u64>,
    /// The cut.
    pub cut: Cut,
}

/// Layers of each stage and the stage of the head, by work; without an answer where a stage would have no block at all.
fn by_work(layers: u64, stages: u64, layer: u64, head: u64) -> Option<(Vec<u64>, usize)> {
    let whole = u128::from(layers) * u128::from(layer) + u128::from(head);
    let mut counts = vec![0u64; usize::try_from(stages).ok()?];
    let (mut stage, mut done, mut head_on) = (0usize, 0u128, 0usize);
    let blocks = std::iter::once(0).chain((0..layers).map(|_| layer)).chain([0, head, 0, 0]);
    let end = layers as usize + 4;
    for (i, work) in blocks.enumerate() {
        done += u128::from(work);
        let on = counts.get_mut(stage)?;
        match i {
            _ if (1..=layers as usize).contains(&i) => *on += 1,
            _ if i == layers as usize + 2 => head_on = stage,
            _ => {}
        }
        if i < end && done * u128::from(stages) > whole * (stage as u128 + 1) {
            stage += 1;
        }
    }
    (stage as u64 + 1 == stages).then_some((counts, head_on))
}

/// Layers of each of `chunks` chunks.
fn deal(layers: u64, chunks: u64, cut: &Cut) -> Result<Vec<u64>, LeftOut> {
    let even = |n: u64| (n.is_multiple_of(chunks)).then(|| vec![n / chunks; chunks as usize]);
    let with_ends = || {
        let mut counts = even(layers + 2)?;
        let last = counts.len() - 1;
        counts[0] = counts[0].checked_sub(1)?;
        counts[last] = counts[last].checked_sub(1)?;
        Some(counts)
    };
    let counts = match cut {
        Cut::Even => even(layers).ok_or(LeftOut::Cut)?,
        Cut::EvenWithEnds => even(layers).or_else(with_ends).ok_or(LeftOut::Cut)?,
        Cut::Filled => {
            let each = layers.div_ceil(chunks);
            (0..chunks).map(|c| layers.saturating_sub(c * each).min(each)).collect()
        }
        Cut::Listed(counts) => counts.clone(),
        Cut::ByWork { layer, head } => by_work(layers, chunks, *layer, *head).ok_or(LeftOut::EmptyStage)?.0,
    };
    if counts.len() as u64 != chunks || counts.iter().sum::<u64>() != layers {
        return Err(LeftOut::Inconsistent("the stated cut does not hold all layers"));
    }
    Ok(counts)
}

/// The plan.
///
/// # Errors
/// When the layers cannot be cut as stated.
pub fn plan(degrees: &Degrees, spine: &Spine) -> Result<Plan, LeftOut> {
    let kind = |part: usize| spine.class_of(part).kind;
    let layers = (0..spine.parts.len()).filter(|p| kind(*p) == PartKind::Layer).count() as u64;
    let chunks = u64::from(degrees.pipeline) * u64::from(degrees.chunks);
    // A stage or a chunk holds a layer, the embedding or the head; the slack is that of frameworks that keep more apart.
    if chunks > layers + 4 {
        let by_work = matches!(degrees.cut, Cut::ByWork { .. });
        return Err(if by_work { LeftOut::EmptyStage } else { LeftOut::Cut });
    }
    let counts = deal(layers, chunks, &degrees.cut)?;
    // The head stands on the last chunk, unless cast and loss have that for themselves.
    let head_on = match degrees.cut {
        Cut::ByWork { layer, head } => by_work(layers, chunks, layer, head).map_or(counts.len() - 1, |cut| cut.1),
        _ => counts.len() - 1,
    };
    let plain = LayerStrategy { recompute: Recompute::None, ..degrees.strategy };
    let mut next = 0usize;
    let mut made = Vec::with_capacity(counts.len());
    for (c, count) in counts.iter().enumerate() {
        let first = next;
        let mut strategies = Vec::new();
        let mut taken = 0;
        let last = c == head_on;
        while next < spine.parts.len() && (last || taken < *count || kind(next) != PartKind::Layer) {
            let is_layer = kind(next) == PartKind::Layer;
            // What stands behind the last layer belongs to the last chunk.
            if !is_layer && !last && taken == *count && c > 0 {
                break;
            }
            let recomputed = is_layer && degrees.recomputed.is_none_or(|n| taken < n);
            strategies.push(if recomputed { degrees.strategy } else { plain });
            taken += u64::from(is_layer);
            next += 1;
        }
        if strategies.is_empty() && !matches!(degrees.cut, Cut::ByWork { .. }) {
            return Err(LeftOut::Cut);
        }
        made.push(Plan::encode(first as u32, &strategies));
    }
    Ok(Plan {
        devices: degrees.devices,
        pipeline: degrees.pipeline,
        chunks_per_stage: degrees.chunks,
        micro_batches: degrees.micro_batches,
        chunks: made,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::model::presets;

    #[test]
    fn layers_are_dealt_as_frameworks_do() {
        assert_eq!(deal(32, 4, &Cut::Even), Ok(vec![8; 4]));
        assert_eq!(deal(126, 16, &Cut::EvenWithEnds).unwrap()[..2], [7, 8]);
        assert_eq!(deal(126, 16, &Cut::Even), Err(LeftOut::Cut));
        assert_eq!(deal(10, 4, &Cut::Filled), Ok(vec![3, 3, 3, 1]));
        assert_eq!(deal(78, 12, &Cut::Filled).unwrap()[10..], [7, 1]);
        assert_eq!(deal(12, 4, &Cut::Filled), Ok(vec![3; 4]));
        assert_eq!(
            deal(10, 2, &Cut::Listed(vec![3, 3])),
            Err(LeftOut::Inconsistent("the stated cut does not hold all layers"))
        );
    }

    #[test]
    fn blocks_fill_stages_by_work() {
        // 16 layers of width 2,048 and 131,072 entries: the head is as much work as four layers.
        assert_eq!(by_work(16, 4, 1, 4), Some((vec![6, 5, 5, 0], 3)));
        assert_eq!(by_work(16, 8, 1, 4), Some((vec![3, 3, 2, 3, 2, 3, 0, 0], 6)));
        assert_eq!(by_work(16, 1, 1, 4), Some((vec![16], 0)));
        // Sixteen stages leave the last without a block.
        assert_eq!(deal(16, 16, &Cut::ByWork { layer: 1, head: 4 }), Err(LeftOut::EmptyStage));
        assert_eq!(deal(80, 4, &Cut::ByWork { layer: 28, head: 8 }), Ok(vec![21, 20, 20, 19]));
    }

    #[test]
    fn embedding_and_head_stand_at_the_ends() {
        let spine = Spine::new(&presets::find("llama2-7b").unwrap(), &Job::new(8, 4096));
        let degrees = Degrees {
            devices: 8,
            pipeline: 4,
            chunks: 2,
            micro_batches: 8,
            strategy: LayerStrategy { recompute: Recompute::Full, ..LayerStrategy::PLAIN },
            recomputed: Some(1),
            cut: Cut::Even,
        };
        let plan = plan(&degrees, &spine).unwrap();
        let lengths: Vec<usize> = plan.chunks.iter().map(|c| c.len()).collect();
        assert_eq!(lengths, [5, 4, 4, 4, 4, 4, 4, 5]);
        let recomputed = plan.chunks[0].parts().filter(|(_, s)| s.recompute == Recompute::Full).count();
        assert_eq!(recomputed, 1);
    }
}
