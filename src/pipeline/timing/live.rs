//! Activations that a device holds: a forward adds one of its chunk, the matching backward frees it.

use super::order::Order;
use super::{Kind, TimingError, check_counts};

/// Largest number of micro-batches whose activations `device` holds at once, by chunk. The chunks need not peak at the
/// same moment; see [`peak_live`] for sums.
///
/// # Errors
/// [`TimingError`] when a count is zero or 1F1B has several chunks.
pub fn in_flight(kind: Kind, p: usize, v: usize, m: usize, device: usize) -> Result<Vec<usize>, TimingError> {
    let mut peak = vec![0; v];
    walk(kind, p, v, m, device, |live| {
        for (peak, &live) in peak.iter_mut().zip(live) {
            *peak = live.max(*peak);
        }
    })?;
    Ok(peak)
}

/// Largest sum of `weights[chunk]` over the activations that `device` holds at once: with bytes per micro-batch and
/// chunk as weights, its peak of activation memory.
///
/// # Errors
/// [`TimingError`] when a count is zero, 1F1B has several chunks, or there is not one weight per chunk.
pub fn peak_live(kind: Kind, p: usize, v: usize, m: usize, device: usize, weights: &[f64]) -> Result<f64, TimingError> {
    if weights.len() != v {
        return Err(TimingError::Length { field: "weights", found: weights.len(), expected: v });
    }
    let mut peak: f64 = 0.0;
    walk(kind, p, v, m, device, |live| {
        peak = peak.max(live.iter().zip(weights).map(|(&n, w)| n as f64 * w).sum());
    })?;
    Ok(peak)
}

/// Shows the numbers of live activations by chunk at every moment when one was added, steady repetitions left out.
fn walk(
    kind: Kind,
    p: usize,
    v: usize,
    m: usize,
    device: usize,
    mut visit: impl FnMut(&[usize]),
) -> Result<(), TimingError> {
    check_counts(kind, p, v, m)?;
    if device >= p {
        return Err(TimingError::Device { device, devices: p });
    }
    let mut live = vec![0; v];
    let Some(mut order) = Order::new(kind, p, v, m) else {
        live.fill(m);
        visit(&live);
        return Ok(());
    };
    // Warm-up, two periods of the steady state and the end show everything that more micro-batches would.
    let groups = order.warmup(device) / (order.group * v) + 3;
    if m / order.group > groups {
        order = order.with_microbatches(groups * order.group + m % order.group);
    }
    let warmup = order.warmup(device);
    for k in 0..order.total() {
        if k > warmup {
            live[v - 1 - order.chunk(k - warmup - 1)] -= 1;
        }
        live[order.chunk(k)] += 1;
        visit(&live);
    }
    Ok(())
}
