//! Late acceptance: a neighbour is taken when it is no worse than what was held some steps ago; and iterated local search:
//! when nothing improves any more, a shaken best solution is the next start.
//!
//! Burke and Bykov 2017, "The late acceptance hill-climbing heuristic"; Lourenco, Martin and Stutzle 2003, "Iterated local
//! search".

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::local::{Ground, Place, price};
use super::manual::{Page, Range, parameter};
use super::problem::Problem;
use super::score::Score;
use super::stream::Stream;
use serde::{Deserialize, Serialize};

/// Parameters of late acceptance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Late {
    /// Steps after which a score is forgotten; one is plain hill climbing.
    pub memory: usize,
    /// Neighbours priced together.
    pub batch: usize,
    /// Steps without an improvement before the best is shaken.
    pub patience: u64,
    /// Moves of a shake.
    pub shake: usize,
}

impl Default for Late {
    fn default() -> Self {
        Self { memory: 50, batch: 4, patience: 400, shake: 4 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "takes what is no worse than some steps ago; shakes the best when nothing improves (iterated local search)",
    source: "Burke and Bykov 2017; Lourenco, Martin and Stutzle 2003",
    when: "In place of annealing where the scale of the objective is unknown: it has no temperature.",
    presets: &[],
    parameters: &[
        parameter("memory", "steps after which a score is forgotten; one is hill climbing", "Burke and Bykov 2017")
            .within(Range::Whole(5, 500)),
        parameter("batch", "neighbours priced together", "few: each step waits for the batch")
            .within(Range::Whole(1, 16)),
        parameter("patience", "steps without an improvement before a shake", "eight times the memory")
            .within(Range::Whole(50, 2000)),
        parameter("shake", "moves of a shake", "Lourenco 2003: more than one move can undo")
            .within(Range::Whole(2, 12)),
    ],
};

impl Late {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut ground = Ground::new(problem);
        let begun = ground.begin(1, (seed, 0), evaluator)?;
        let Some(mut here) = begun.into_iter().next() else { return Ok(Stop::Exhausted) };
        let mut best = here.clone();
        let mut past: Vec<Score> = vec![here.score; self.memory.max(1)];
        let (mut step, mut improved) = (0u64, 0u64);
        for round in 1.. {
            let (mut asked, mut steps) = (Vec::new(), Vec::new());
            for index in 0..self.batch.max(1) {
                let mut stream = Stream::new(seed, 1, round, index as u64);
                steps.extend(ground.propose(&here, &mut asked, &mut stream, evaluator)?);
            }
            let operators: Vec<usize> = steps.iter().map(|step| step.operator).collect();
            for (place, operator) in price(steps, evaluator)?.into_iter().zip(operators) {
                step += 1;
                ground.selector.credit(operator, place.score < here.score);
                let slot = (step % past.len() as u64) as usize;
                if place.score <= here.score || place.score <= past[slot] {
                    here = place;
                }
                past[slot] = past[slot].min(here.score);
                if here.score < best.score {
                    best = here.clone();
                    improved = step;
                }
            }
            if step - improved > self.patience {
                improved = step;
                here = self.shaken(&mut ground, &best, (seed, round), evaluator)?;
                past.fill(here.score);
            }
        }
        Ok(Stop::Exhausted)
    }

    fn shaken<P: Problem>(
        &self,
        ground: &mut Ground<'_, P>,
        best: &Place<P::Solution>,
        (seed, round): (u64, u64),
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Place<P::Solution>, Stop> {
        let mut here = best.clone();
        let mut stream = Stream::new(seed, 2, round, 0);
        let mut last = None;
        for _ in 0..self.shake.max(1) {
            if let Some(step) = ground.propose(&here, &mut Vec::new(), &mut stream, evaluator)? {
                here.genome = step.genome.clone();
                here.solution = step.solution.clone();
                last = Some(step);
            }
        }
        let Some(last) = last else { return Ok(best.clone()) };
        Ok(price(vec![last], evaluator)?.into_iter().next().unwrap_or_else(|| best.clone()))
    }
}

impl<P: Problem> Backend<P> for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
