//! Which strategies a part may have on a stage: divisibility and head-count rules that every framework shares.

use crate::cost::Mesh;
use crate::job::Job;
use crate::model::{OpKind, Shard};
use crate::plan::{LayerStrategy, PartClass, PartKind, Recompute, Spine};

/// Sizes of a part that cuts must divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisors {
    /// Attention heads; tensor times Ulysses ways must divide them. 0 without attention.
    pub heads: u64,
    /// Key/value heads; must divide or be divided by the tensor ways.
    pub kv_heads: u64,
    /// Greatest common divisor of the feature groups of all cut products but key/value ones.
    pub features: u64,
    /// Routed experts; 0 without.
    pub experts: u64,
    /// Inner width of an expert.
    pub expert_width: u64,
    /// Tokens of one sample.
    pub sequence: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Divisors {
    /// Reads them off the operators of `part`.
    pub fn of(part: &PartClass, job: &Job) -> Self {
        let mut d = Divisors {
            heads: 0,
            kv_heads: 0,
            features: 0,
            experts: 0,
            expert_width: 0,
            sequence: Spine::tokens(part.stream, job),
        };
        for op in part.sublayers.iter().flat_map(|s| &s.ops) {
            match op.kind {
                OpKind::Attention { heads, kv_heads, .. } => {
                    d.heads = gcd(d.heads, heads);
                    d.kv_heads = gcd(d.kv_heads, kv_heads);
                }
                OpKind::LinearAttention { k_heads, v_heads, .. } => {
                    d.heads = gcd(gcd(d.heads, v_heads), k_heads);
                    d.kv_heads = gcd(d.kv_heads, k_heads);
                }
                OpKind::Linear { shard: Shard::Row { units }, .. } => d.features = gcd(d.features, units),
                OpKind::Experts { experts, ffn, .. } => {
                    d.experts = experts;
                    d.expert_width = ffn;
                }
                _ => {}
            }
        }
        d
    }

    /// Whether `s` respects them.
    pub fn allow(&self, s: &LayerStrategy) -> bool {
        let (t, u, c) = (u64::from(s.tp), u64::from(s.ulysses), u64::from(s.cp));
        let divides = |n: u64, by: u64| n == 0 || n.is_multiple_of(by);
        divides(self.heads, t * u)
            && (divides(self.kv_heads, t) || t % self.kv_heads == 0)
            && divides(self.features, t)
            // Zig-zag context parallelism deals two chunks to each rank; every cut of the sequence is even.
            && (c == 1 || self.sequence.is_multiple_of(2 * c))
            && self.sequence.is_multiple_of(s.sequence_ways())
            && (s.ep == 1 || (self.experts > 0 && self.experts.is_multiple_of(u64::from(s.ep))))
            && (s.etp == 1 || (self.experts > 0 && self.expert_width.is_multiple_of(u64::from(s.etp))))
            // Tokens must lie cut when experts are spread over tensor-parallel ranks.
            && (self.experts == 0 || s.tp == 1 || s.sequence_parallel)
    }
}

fn divisors(n: u64, most: u64) -> Vec<u32> {
    (1..=n.min(most)).filter(|d| n.is_multiple_of(*d)).map(|d| d as u32).collect()
}

/// Widest tensor and Ulysses cuts that are looked at: published plans stop at 32 (Nanotron sweep, 2025).
const WIDEST: u64 = 64;

/// Fewest tokens of a sequence that a rank keeps: less than a tile of a matrix product (128 rows) is never worth a rank.
const FEWEST_TOKENS: u64 = 128;

/// Takes a strategy with the ZeRO stages and recomputations to combine it with.
pub type Found<'a> = dyn FnMut(LayerStrategy, &[u8], &[Recompute]) + 'a;

/// Calls `found` with every layout and expert mesh of `part` in `mesh`, as a strategy with ZeRO-0 and no recomputation, and
/// with the ZeRO stages and recomputations to combine it with.
pub fn enumerate(part: &PartClass, job: &Job, mesh: Mesh, found: &mut Found<'_>) {
    let n = mesh.stage_devices;
    let d = Divisors::of(part, job);
    let micro_batch = job.global_batch / mesh.micro_batches;
    let recomputes: &[Recompute] = match part.kind {
        PartKind::Layer => &[Recompute::None, Recompute::Selective, Recompute::Full],
        PartKind::Mtp => &[Recompute::None, Recompute::Selective],
        _ => &[Recompute::None],
    };
    for tp in divisors(n, WIDEST) {
        for ulysses in divisors(n / u64::from(tp), if d.heads > 0 { WIDEST } else { n }) {
            let longest = d.sequence / (FEWEST_TOKENS * u64::from(tp) * u64::from(ulysses));
            for cp in divisors(n / u64::from(tp) / u64::from(ulysses), longest.max(1)) {
                let dp = n / (u64::from(tp) * u64::from(ulysses) * u64::from(cp));
                if !micro_batch.is_multiple_of(dp) {
                    continue;
                }
                for sequence_parallel in if tp > 1 { &[true, false][..] } else { &[false][..] } {
                    let experts: Vec<(u32, u32)> = if d.experts == 0 {
                        vec![(1, 1)]
                    } else {
                        let etps = if tp > 1 { vec![1, tp] } else { vec![1] };
                        etps.iter()
                            .flat_map(|&etp| {
                                divisors(gcd(n / u64::from(etp), d.experts), n).into_iter().map(move |ep| (ep, etp))
                            })
                            .collect()
                    };
                    for &(ep, etp) in &experts {
                        let base = LayerStrategy {
                            tp,
                            sequence_parallel: *sequence_parallel,
                            ulysses,
                            cp,
                            ep,
                            etp,
                            zero: 0,
                            recompute: Recompute::None,
                        };
                        if !d.allow(&base) {
                            continue;
                        }
                        let replicas = n / u64::from(tp) > 1;
                        found(base, if replicas { &[0, 1, 2, 3] } else { &[0] }, recomputes);
                    }
                }
            }
        }
    }
}
