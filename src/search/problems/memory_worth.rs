//! What a unit of memory is worth to a run of items: the multiplier of the cap, at which the items' own best trades of
//! time for memory just about fit it (Lagrange relaxation of the multiple-choice knapsack; Sinha and Zoltners 1979). What
//! neighbours cost each other is left out of it.

use std::ops::Range;

/// Worths of a chain of items.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryWorth {
    /// Worths, increasing, in seconds per unit.
    worth: Vec<f64>,
    /// At each worth, the memory that the items before each item then take.
    taken: Vec<Vec<u64>>,
}

impl MemoryWorth {
    /// As many worths as this are told apart.
    const GRADES: usize = 64;

    /// Of items with these times and needs, `[item][option]`.
    pub fn of(time: &[Vec<f64>], memory: &[Vec<u32>]) -> Self {
        let mut rates = Vec::new();
        for (time, memory) in time.iter().zip(memory) {
            for (a, b) in (0..time.len()).flat_map(|a| (0..time.len()).map(move |b| (a, b))) {
                if memory[a] > memory[b] && time[a] < time[b] {
                    rates.push((time[b] - time[a]) / f64::from(memory[a] - memory[b]));
                }
            }
        }
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let grades = rates.len().min(Self::GRADES);
        let worth: Vec<f64> =
            std::iter::once(0.0).chain((1..=grades).map(|g| rates[(g * rates.len() / grades) - 1])).collect();
        let taken = worth.iter().map(|worth| {
            let mut sum = 0;
            let need = |(time, memory): (&Vec<f64>, &Vec<u32>)| {
                let cost = |o: &usize| time[*o] + worth * f64::from(memory[*o]);
                let best = (0..time.len()).min_by(|a, b| cost(a).total_cmp(&cost(b)).then(memory[*a].cmp(&memory[*b])));
                sum += best.map_or(0, |o| u64::from(memory[o]));
                sum
            };
            std::iter::once(0).chain(time.iter().zip(memory).map(need)).collect()
        });
        let taken = taken.collect();
        Self { worth, taken }
    }

    /// The least worth at which `items` fit into `free` units, else the greatest.
    pub fn of_unit(&self, items: Range<usize>, free: u32) -> f64 {
        let fits = |taken: &Vec<u64>| taken[items.end] - taken[items.start] <= u64::from(free);
        let grade = self.taken.partition_point(|taken| !fits(taken));
        self.worth.get(grade).or(self.worth.last()).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryWorth;

    #[test]
    fn the_worth_is_the_least_at_which_the_best_trades_fit() {
        // A unit saves one second in the first item, a quarter of a second in the second.
        let worth = MemoryWorth::of(&[vec![3.0, 1.0], vec![2.0, 1.0]], &[vec![1, 3], vec![1, 5]]);
        assert_eq!(worth.of_unit(0..2, 8), 0.0);
        assert_eq!(worth.of_unit(0..2, 7), 0.25);
        assert_eq!(worth.of_unit(0..2, 4), 0.25);
        assert_eq!(worth.of_unit(0..2, 2), 1.0);
        assert_eq!(worth.of_unit(1..2, 4), 0.25);
        // What fits nowhere is worth the most there is.
        assert_eq!(worth.of_unit(0..2, 1), 1.0);
        assert_eq!(MemoryWorth::of(&[vec![1.0]], &[vec![4]]).of_unit(0..1, 0), 0.0);
    }
}
