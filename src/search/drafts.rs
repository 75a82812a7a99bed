//! How many drafts of one solution are worth making before one of them is priced.

use super::stream::Stream;

/// Evaluations up to which a search affords all drafts; beyond it their number falls with the root of the budget. With
/// 2 000 evaluations of chains of 24 layers 16 to 32 drafts came closest, with 20 000 five to ten were enough (2026-11).
const FEW: f64 = 2_000.0;
/// The budget where evaluations do not limit a search.
const USUAL_BUDGET: u64 = 20_000;

/// The most drafts that a search with `remaining` evaluations makes, of `most` with few.
pub(super) fn affordable(most: usize, remaining: Option<u64>) -> usize {
    let left = remaining.unwrap_or(USUAL_BUDGET).max(1) as f64;
    ((most as f64 * (FEW / left).sqrt().min(1.0)).round() as usize).max(1)
}

/// Drafts of the next solution, of `most` at most: one, a quarter, or all of them. A guess that is wrong must not decide
/// about everything.
pub(super) fn next(most: usize, stream: &mut Stream) -> usize {
    [1, most.div_ceil(4), most][stream.index(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_all_there_with_few_evaluations_and_fewer_with_many() {
        let of = |left| affordable(32, left);
        assert_eq!([of(Some(0)), of(Some(2_000)), of(Some(8_000)), of(Some(u64::MAX))], [32, 32, 16, 1]);
        assert_eq!(of(None), of(Some(USUAL_BUDGET)));
        assert_eq!(affordable(0, Some(5)), 1);
    }
}
