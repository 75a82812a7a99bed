//! Solutions made side by side. Which desk makes which piece depends on the number of pieces only, never on threads, so that
//! even what a desk keeps between pieces is the same however many threads there are.

use super::crew;
use super::dispatch::WORTH_SHARING_S;
use rayon::prelude::*;
use std::time::Instant;

/// Desks: as many threads as a batch of a few dozen pieces keeps busy.
const DESKS: usize = 16;

/// Desks and what a piece takes.
pub(super) struct Desks<D> {
    desks: Vec<D>,
    expected_s: f64,
}

impl<D: Clone + Send> Desks<D> {
    /// Desks like `first`.
    pub fn new(first: D) -> Self {
        Self { desks: vec![first; DESKS], expected_s: 0.0 }
    }

    /// A desk for work in order.
    pub fn first(&mut self) -> &mut D {
        &mut self.desks[0]
    }

    /// Pieces `0..count` in order.
    pub fn make<T: Send>(&mut self, count: usize, work: impl Fn(&mut D, usize) -> T + Sync) -> Vec<T> {
        let each = count.div_ceil(DESKS).max(1);
        let at_desk = |(number, desk): (usize, &mut D)| {
            let begun = Instant::now();
            let pieces: Vec<T> =
                (number * each..count.min((number + 1) * each)).map(|piece| work(desk, piece)).collect();
            (pieces, begun.elapsed().as_secs_f64())
        };
        let used = &mut self.desks[..count.div_ceil(each)];
        let made: Vec<(Vec<T>, f64)> = if count < 2 || self.expected_s * (count as f64) < WORTH_SHARING_S {
            used.iter_mut().enumerate().map(at_desk).collect()
        } else {
            crew::share(used.par_iter_mut().enumerate(), at_desk)
        };
        let seconds: f64 = made.iter().map(|(_, seconds)| seconds).sum();
        self.expected_s += (seconds / count.max(1) as f64 - self.expected_s) / 4.0;
        made.into_iter().flat_map(|(pieces, _)| pieces).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_and_each_desk_has_its_own_whatever_they_take() {
        for (count, slow) in [(0, false), (1, false), (5, true), (16, false), (50, true)] {
            let mut desks = Desks::new(Vec::<usize>::new());
            for _ in 0..3 {
                let made = desks.make(count, |desk, piece| {
                    desk.push(piece);
                    if slow {
                        std::thread::sleep(std::time::Duration::from_micros(50));
                    }
                    piece * piece
                });
                assert_eq!(made, (0..count).map(|piece| piece * piece).collect::<Vec<_>>());
            }
            let each = count.div_ceil(DESKS).max(1);
            assert!(desks.desks.iter().enumerate().all(|(n, desk)| desk.iter().all(|piece| piece / each == n)));
        }
    }
}
