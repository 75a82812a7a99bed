//! Random streams that depend on what they are for, never on who draws from them.
//!
//! A stream is ChaCha8 (Bernstein 2008, "ChaCha, a variant of Salsa20") keyed by (seed, island, visit, index). Integers,
//! shuffles and choices are made here rather than by a library, so that the same seed gives the same search in
//! every release.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of one purpose: `island` numbers what runs side by side, `visit` the generation or visit, and
    /// `index` the child or path within it.
    pub fn new(seed: u64, island: u64, visit: u64, index: u64) -> Self {
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([seed, island, visit, index]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A uniform 64-bit word.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform integer below `n`; zero when `n` is zero. Lemire 2019, "Fast random integer generation in an interval".
    pub fn below(&mut self, n: u64) -> u64 {
        if n < 2 {
            return 0;
        }
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.word()) * u128::from(n);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform index below `n`; zero when `n` is zero.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A uniform permutation in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.index(i + 1);
            items.swap(i, j);
        }
    }

    /// An index with probability proportional to its weight; uniform when no weight is usable.
    pub fn weighted(&mut self, weights: &[f32]) -> usize {
        let total: f64 = weights.iter().map(|w| usable(*w)).sum();
        if total <= 0.0 || !total.is_finite() {
            return self.index(weights.len());
        }
        let mut rest = self.unit() * total;
        let mut last = 0;
        for (i, weight) in weights.iter().enumerate() {
            let weight = usable(*weight);
            if weight > 0.0 {
                if rest < weight {
                    return i;
                }
                rest -= weight;
                last = i;
            }
        }
        last
    }
}

/// A weight as it counts: negative, NaN and infinite ones are zero.
pub(super) fn usable(weight: f32) -> f64 {
    if weight.is_finite() && weight > 0.0 { f64::from(weight) } else { 0.0 }
}

/// Mixes words into one (the finaliser of SplitMix64, Steele et al. 2014), for ties that must be broken without drawing.
pub fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, word| {
        let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_purpose_draws_the_same_numbers_in_every_release() {
        let mut stream = Stream::new(1, 2, 3, 4);
        let words: Vec<u64> = (0..3).map(|_| stream.word()).collect();
        let small: Vec<u64> = (0..8).map(|_| stream.below(10)).collect();
        let mut order = [0, 1, 2, 3, 4, 5];
        stream.shuffle(&mut order);
        let unit = stream.unit();
        assert_eq!(words, [0x10fb_f7e8_ae24_33fc, 0x5862_c07f_a87d_368e, 0x4042_b86e_e70f_e64d]);
        assert_eq!(small, [2, 2, 1, 4, 7, 8, 3, 3]);
        assert_eq!(order, [5, 2, 4, 3, 0, 1]);
        assert_eq!(unit, 0.360_834_616_911_499_2);
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let first = |a, b, c, d| Stream::new(a, b, c, d).word();
        let all = [first(0, 0, 0, 0), first(1, 0, 0, 0), first(0, 1, 0, 0), first(0, 0, 1, 0), first(0, 0, 0, 1)];
        for i in 0..all.len() {
            for j in 0..i {
                assert_ne!(all[i], all[j]);
            }
        }
    }

    #[test]
    fn integers_are_uniform() {
        let mut stream = Stream::new(5, 0, 0, 0);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[stream.index(6)] += 1;
        }
        // Five standard deviations of a binomial with n = 60 000, p = 1/6.
        assert!(seen.iter().all(|n| n.abs_diff(10_000) < 457), "{seen:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn unusable_weights_are_never_drawn_and_none_at_all_means_uniform() {
        let mut stream = Stream::new(6, 0, 0, 0);
        for _ in 0..1_000 {
            assert_eq!(stream.weighted(&[0.0, f32::NAN, 2.0, -1.0, f32::INFINITY]), 2);
        }
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[stream.weighted(&[0.0, f32::NAN, 0.0])] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
