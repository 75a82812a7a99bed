//! Recomputation under a schedule that is given: memory follows the order, so that chunks whose devices have room to spare
//! need not recompute, and others may have to. Chunk by chunk, as long as the iteration gets shorter.

use crate::estimate::{Estimate, Estimator};
use crate::pipeline::Schedule;
use crate::plan::{Chunk, LayerStrategy, PartKind, Plan, Recompute, Spine};

/// Times through all chunks at most.
const ROUNDS: usize = 3;
/// Passes that all simulations together may take: some seconds of one thread.
const PASSES: usize = 40_000_000;

/// The plan with the recomputation that suits `schedule`, of the kinds that are `allowed`, and its price; the plan as it is
/// where nothing is better, the best so far once it `is_over`.
pub fn refit(
    estimator: &Estimator<'_>,
    (mut plan, mut estimate): (Plan, Estimate),
    schedule: &Schedule,
    penalty: f64,
    allowed: &[Recompute],
    is_over: &dyn Fn() -> bool,
) -> (Plan, Estimate) {
    let mut left = PASSES / schedule.len().max(1);
    for _ in 0..ROUNDS {
        let mut better = false;
        for x in 0..plan.chunks.len() {
            for &recompute in allowed {
                let Some(chunk) = recomputing(&plan.chunks[x], estimator.spine, recompute) else { continue };
                if left == 0 || is_over() {
                    return (plan, estimate);
                }
                left -= 1;
                let mut other = plan.clone();
                other.chunks[x] = chunk;
                let Ok(price) = estimator.estimate_under(&other, schedule, penalty) else { continue };
                if price.fits && (!estimate.fits || price.iteration_time_s < estimate.iteration_time_s) {
                    (plan, estimate, better) = (other, price, true);
                }
            }
        }
        if !better {
            break;
        }
    }
    (plan, estimate)
}

/// The chunk with this recomputation in all layers that have such; `None` when that is what it is.
fn recomputing(chunk: &Chunk, spine: &Spine, recompute: Recompute) -> Option<Chunk> {
    let of = |(part, strategy): (usize, &LayerStrategy)| match spine.class_of(part).kind {
        PartKind::Layer => LayerStrategy { recompute, ..*strategy },
        _ => *strategy,
    };
    let strategies: Vec<LayerStrategy> = chunk.parts().map(of).collect();
    let other = Plan::encode(chunk.runs.first()?.first, &strategies);
    (other != *chunk).then_some(other)
}
