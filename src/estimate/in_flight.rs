//! How many micro-batches each chunk of a stage keeps alive when its first backward begins.
//!
//! 1F1B keeps `min(m, p - s)` (Narayanan 2021, section 2.2). Interleaved 1F1B runs `2 (p - d - 1) + (v - 1) p` forwards and
//! one more before its first backward, in groups of `p` micro-batches per chunk (Megatron-LM `schedules.py`).

/// Live micro-batches by chunk of device `stage`, at the end of its warm-up.
pub fn at_warm_up(pipeline: u32, chunks: u32, micro_batches: u64, stage: u32) -> Vec<f64> {
    let (p, v, d) = (u64::from(pipeline), u64::from(chunks), u64::from(stage));
    if chunks == 1 {
        return vec![micro_batches.min(p - d) as f64];
    }
    let total = (2 * (p - d - 1) + (v - 1) * p + 1).min(micro_batches * v);
    let mut live = vec![0u64; chunks as usize];
    // Rounds of `p` micro-batches; the last may be shorter.
    let mut left = total;
    let mut micro_batch = 0;
    while left > 0 {
        let group = p.min(micro_batches - micro_batch);
        for slot in &mut live {
            let now = group.min(left);
            *slot += now;
            left -= now;
        }
        micro_batch += group;
    }
    live.into_iter().map(|n| n as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::timing::{Kind, peak_live};

    #[test]
    fn the_end_of_warm_up_is_the_peak_of_equal_chunks() {
        for (p, v) in [(2u32, 2u32), (4, 3), (8, 2), (3, 5)] {
            for m in [1u64, 2, 4, 8, 24] {
                for d in 0..p {
                    let ours: f64 = at_warm_up(p, v, m, d).iter().sum();
                    let kind = Kind::Interleaved { group: p as usize };
                    let exact = peak_live(kind, p as usize, v as usize, m as usize, d as usize, &vec![1.0; v as usize]);
                    assert_eq!(Ok(ours), exact, "p {p} v {v} m {m} device {d}");
                }
            }
        }
    }
}
