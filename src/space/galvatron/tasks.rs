//! Galvatron's outer loop: what it fixes before it looks at single layers.

use super::strategies::powers_up_to;
use crate::cost::galvatron::{Micro, Repair, Repairs, Setting, Strategy, TpSpMode};

/// One task of the outer loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// How the batch is cut.
    pub micro: Micro,
    /// Pipeline stages.
    pub pp: u32,
    /// Tensor parallelism, Ulysses or both.
    pub mode: TpSpMode,
    /// Largest degree allowed, which sizes the buffer for gathered activations.
    pub buffer_tp: u32,
}

impl Task {
    /// Whether a layer or an embedding of this task may use `s`.
    pub fn admits(&self, s: &Strategy, repairs: Repairs) -> bool {
        let mode = match self.mode {
            TpSpMode::TpOnly => s.sp == 1,
            TpSpMode::SpOnly => s.tp == 1,
            TpSpMode::TpWithSp => true,
        };
        mode && s.width() <= self.buffer_tp
            && self.micro.samples(s.dp) >= 1
            && (!repairs.has(Repair::DivisibleBatch) || self.micro.divides(s.dp))
    }

    /// Whether another task of the loop holds all plans of this one at the same price: tensor parallelism alone is a
    /// subset of both together under the same buffer.
    pub fn is_subset(&self, setting: &Setting) -> bool {
        self.mode == TpSpMode::TpOnly && setting.limits.sp
    }
}

/// All tasks in Galvatron's order.
pub fn tasks(setting: &Setting) -> Vec<Task> {
    let world = setting.world();
    let limits = &setting.limits;
    let mut out = Vec::new();
    for &global_batch in &setting.batches.global {
        let chunk_counts: Vec<u32> = match setting.batches.chunks {
            Some(chunks) if global_batch.is_multiple_of(chunks) => vec![chunks],
            Some(_) => Vec::new(),
            None => divisors(global_batch),
        };
        for chunks in chunk_counts {
            let micro = Micro { global_batch, chunks };
            let most = if limits.pp { limits.max_pp.min(world) } else { 1 };
            for pp in powers_up_to(most).filter(|&pp| pp <= chunks && pp <= setting.layers()) {
                let devices = world / pp;
                let max_dp = (global_batch / chunks).min(devices);
                let largest = if limits.tp { limits.max_tp } else { limits.max_sp }.min(devices);
                let buffers = || powers_up_to(largest).filter(move |&k| k * max_dp >= devices);
                let task = |mode, buffer_tp| Task { micro, pp, mode, buffer_tp };
                if limits.tp {
                    out.extend(buffers().map(|k| task(TpSpMode::TpOnly, k)));
                }
                if limits.sp {
                    out.push(task(TpSpMode::SpOnly, 1 << largest.ilog2()));
                }
                if limits.tp && limits.sp {
                    out.extend(buffers().map(|k| task(TpSpMode::TpWithSp, k)));
                }
            }
        }
    }
    out
}

/// Divisors of `n`, rising.
fn divisors(n: u32) -> Vec<u32> {
    let mut low: Vec<u32> =
        (1..).take_while(|&d| u64::from(d) * u64::from(d) <= u64::from(n)).filter(|d| n.is_multiple_of(*d)).collect();
    let high: Vec<u32> = low.iter().rev().map(|d| n / d).filter(|d| !low.contains(d)).collect();
    low.extend(high);
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_rise() {
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(16), [1, 2, 4, 8, 16]);
        assert_eq!(divisors(1), [1]);
    }
}
