//! Tabu search: the best of a sample of neighbours is taken, better or worse, but no solution of the recent past.
//!
//! Glover 1989, "Tabu search, part I". What is tabu is the solution itself, for a while that is drawn anew each time
//! (Taillard 1991, "Robust taboo search"); one that beats everything is always taken (aspiration).

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::local::{Ground, price};
use super::manual::{Page, Range, parameter};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of tabu search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tabu {
    /// Neighbours looked at in a round.
    pub sample: usize,
    /// Rounds for which a solution is tabu, at most; at least half of them.
    pub tenure: u64,
    /// Rounds without an improvement after which it goes on from a fresh solution.
    pub patience: u64,
}

impl Default for Tabu {
    fn default() -> Self {
        Self { sample: 16, tenure: 30, patience: 60 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "takes the best of a sample of neighbours, better or worse, but none of the recent past",
    source: "Glover 1989; Taillard 1991",
    when: "Problems whose own moves are good and whose landscape is smooth. Weak where neighbours are mostly infeasible.",
    presets: &[],
    parameters: &[
        parameter("sample", "neighbours looked at in a round", "a batch for sixteen threads")
            .within(Range::Whole(4, 64)),
        parameter("tenure", "rounds for which a solution is tabu, at most", "this engine").within(Range::Whole(5, 200)),
        parameter("patience", "rounds without an improvement before a fresh start", "this engine")
            .within(Range::Whole(10, 300)),
    ],
};

impl Tabu {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut ground = Ground::new(problem);
        let mut round = 0;
        for cycle in 0.. {
            let begun = ground.begin(1, (seed, cycle), evaluator)?;
            let Some(mut here) = begun.into_iter().next() else { return Ok(Stop::Exhausted) };
            let mut until: BTreeMap<Key128, u64> = BTreeMap::new();
            let (mut best, mut improved): (Score, u64) = (here.score, round);
            while round - improved <= self.patience {
                round += 1;
                let (mut asked, mut steps) = (Vec::new(), Vec::new());
                for index in 0..self.sample.max(1) {
                    let mut stream = Stream::new(seed, 1, round, index as u64);
                    steps.extend(ground.propose(&here, &mut asked, &mut stream, evaluator)?);
                }
                let operators: Vec<usize> = steps.iter().map(|step| step.operator).collect();
                let places = price(steps, evaluator)?;
                for (place, operator) in places.iter().zip(operators) {
                    ground.selector.credit(operator, place.score < here.score);
                }
                let free = |key: Key128, score: Score| {
                    key != here.key && (score < best || until.get(&key).is_none_or(|end| *end < round))
                };
                let next = places.into_iter().filter(|p| free(p.key, p.score)).min_by_key(|p| (p.score, p.key));
                let tenure = self.tenure / 2 + Stream::new(seed, 2, round, 0).below(self.tenure / 2 + 1);
                until.insert(here.key, round + tenure);
                until.retain(|_, end| *end >= round);
                if let Some(next) = next {
                    here = next;
                }
                if here.score < best {
                    (best, improved) = (here.score, round);
                }
            }
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Tabu {
    fn name(&self) -> &'static str {
        "tabu"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
