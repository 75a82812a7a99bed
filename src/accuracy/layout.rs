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
    /// As even as it goes, the earlier chunks taking one more.
    Balanced,
    /// Layers of each chunk.
    Listed(Vec<u64>),
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
        Cut::Balanced => (0..chunks).map(|c| layers / chunks + u64::from(c < layers % chunks)).collect(),
        Cut::Listed(counts) => counts.clone(),
    };
    if counts.len() as u64 != chunks || counts.iter().sum::<u64>() != layers {
        return Err(LeftOut::Inconsistent);
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
    let counts = deal(layers, chunks, &degrees.cut)?;
    let plain = LayerStrategy { recompute: Recompute::None, ..degrees.strategy };
    let mut next = 0usize;
    let mut made = Vec::with_capacity(counts.len());
    for (c, count) in counts.iter().enumerate() {
        let first = next;
        let mut strategies = Vec::new();
        let mut taken = 0;
        let last = c + 1 == counts.len();
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
        if strategies.is_empty() {
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
        assert_eq!(deal(10, 4, &Cut::Balanced), Ok(vec![3, 3, 2, 2]));
        assert_eq!(deal(10, 2, &Cut::Listed(vec![3, 3])), Err(LeftOut::Inconsistent));
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
