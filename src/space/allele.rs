//! What a decision means, as 64 bits that keep their meaning from one frame to another.

use crate::plan::{LayerStrategy, Recompute};
use crate::search::problem::Allele;

/// A strategy as an allele.
pub fn of_strategy(s: &LayerStrategy) -> Allele {
    let log = |n: u32| u64::from(n.min(u32::from(u16::MAX)));
    // Degrees up to 1,023 in ten bits each; larger ones do not occur (see `strategies::WIDEST`).
    log(s.tp) & 1023
        | (log(s.ulysses) & 1023) << 10
        | (log(s.cp) & 1023) << 20
        | (log(s.ep) & 1023) << 30
        | (log(s.etp) & 1023) << 40
        | u64::from(s.zero) << 50
        | u64::from(s.sequence_parallel) << 53
        | (match s.recompute {
            Recompute::None => 0u64,
            Recompute::Selective => 1,
            Recompute::Full => 2,
        }) << 54
}

/// How unlike two strategies are, given as alleles: octaves between degrees, and steps of the other settings.
pub fn distance(a: Allele, b: Allele) -> f64 {
    let degree = |x: Allele, shift: u32| ((x >> shift & 1023).max(1) as f64).log2();
    let mut d = 0.0;
    for shift in [0, 10, 20, 30, 40] {
        d += (degree(a, shift) - degree(b, shift)).abs();
    }
    let field = |x: Allele, shift: u32, mask: u64| (x >> shift & mask) as f64;
    d += 0.5 * (field(a, 50, 7) - field(b, 50, 7)).abs();
    d += 0.5 * (field(a, 53, 1) - field(b, 53, 1)).abs();
    d + (field(a, 54, 3) - field(b, 54, 3)).abs()
}
