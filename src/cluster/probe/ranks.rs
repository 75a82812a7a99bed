//! How many ranks a table of nccl-tests is of, by its two bandwidths: bus bandwidth is algorithm bandwidth times `2(n-1)/n` for
//! all-reduce and `(n-1)/n` for all-gather, reduce-scatter and all-to-all (NVIDIA/nccl-tests `doc/PERFORMANCE.md`, read 2026-11).

/// Both are printed in GB/s with two decimals, so that each is known to half of the last one, in bytes per second.
const ROUNDED: f64 = 0.005e9 * 1.001;
/// Most ranks that a table is asked for.
const MOST: f64 = 1e6;

/// The formula of a table and the ranks that agree with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told {
    /// Whether it is the all-reduce's.
    pub all_reduce: bool,
    /// Fewest ranks that the printed digits allow.
    pub least: u64,
    /// Most.
    pub most: u64,
}

impl Told {
    /// The ranks, where the digits leave one number.
    pub fn exactly(&self) -> Option<u64> {
        (self.least == self.most).then_some(self.least)
    }

    /// Whether `ranks` agree with the digits.
    pub fn allows(&self, ranks: u64) -> bool {
        (self.least..=self.most).contains(&ranks)
    }
}

/// The bandwidths of a table follow no formula: lines that print them large enough contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction;

/// What pairs of algorithm and bus bandwidth tell, in bytes per second; `reduces`: the elements are reduced. Nothing where no
/// pair is large enough to tell, or where both bandwidths are the same without a reduction (broadcasts and pairs, whatever the
/// ranks).
///
/// # Errors
/// When no number of ranks has these bandwidths.
pub fn told(pairs: impl IntoIterator<Item = [f64; 2]>, reduces: bool) -> Result<Option<Told>, Contradiction> {
    let (mut low, mut high) = (0.0f64, f64::INFINITY);
    for [algorithm, bus] in pairs {
        // Of less than that no digit is left.
        if !(algorithm.is_finite() && bus.is_finite()) || algorithm < 20.0 * ROUNDED || bus < 20.0 * ROUNDED {
            continue;
        }
        low = low.max((bus - ROUNDED) / (algorithm + ROUNDED));
        high = high.min((bus + ROUNDED) / (algorithm - ROUNDED));
    }
    if low <= 0.0 {
        return Ok(None);
    }
    if low > high {
        return Err(Contradiction);
    }
    // `2(n-1)/n` begins at 1 with two ranks, `(n-1)/n` never reaches it.
    let all_reduce = reduces && high >= 1.0;
    if !all_reduce && high >= 1.0 {
        return Ok(None);
    }
    let ways = if all_reduce { 2.0 } else { 1.0 };
    let ranks = |ratio: f64| if ratio < ways { ways / (ways - ratio) } else { MOST };
    let (least, most) = (ranks(low).min(MOST).ceil().max(2.0), ranks(high).min(MOST).floor());
    if least > most {
        return Err(Contradiction);
    }
    Ok(Some(Told { all_reduce, least: least as u64, most: most as u64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ranks: f64, ways: f64) -> Vec<[f64; 2]> {
        let printed = |x: f64| (x * 100.0).round() / 100.0 * 1e9;
        [0.004f64, 0.3, 12.0, 88.0, 195.31].map(|a| [printed(a), printed(a * ways * (ranks - 1.0) / ranks)]).to_vec()
    }

    #[test]
    fn ranks_follow_from_both_bandwidths_by_the_formula_of_the_collective() {
        for ranks in [2u32, 3, 4, 8, 16, 64, 96] {
            let told = told(table(f64::from(ranks), 2.0), true).unwrap().unwrap();
            assert!(told.all_reduce && told.allows(u64::from(ranks)), "{ranks}: {told:?}");
            assert!(ranks > 64 || told.exactly() == Some(u64::from(ranks)), "{ranks}: {told:?}");
        }
        for ranks in [2u32, 4, 8, 32] {
            for reduces in [false, true] {
                let told = told(table(f64::from(ranks), 1.0), reduces).unwrap().unwrap();
                assert!(!told.all_reduce && told.exactly() == Some(u64::from(ranks)), "{ranks}: {told:?}");
            }
        }
    }

    #[test]
    fn small_contradictory_and_rooted_tables_tell_nothing() {
        assert_eq!(told([[0.01e9, 0.02e9]], true), Ok(None));
        assert_eq!(told([[100e9, 175e9], [100e9, 150e9]], true), Err(Contradiction));
        assert_eq!(told([[100e9, 140e9]], true), Err(Contradiction));
        assert_eq!(told([[100e9, 100e9]], false), Ok(None));
        assert_eq!(told([], true), Ok(None));
    }
}
