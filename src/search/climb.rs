//! A few solutions side by side, each improved by the problem's own moves: for problems whose moves are searches of their
//! own, and whose solutions no path leads to.
//!
//! In every round each place of a batch draws a solution of the archive, the best ones more often, and asks for a neighbour
//! (Aldous and Vazirani 1994, "Go with the winners" algorithms). It needs solutions to start from.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::problem::Problem;
use super::score::Score;
use super::stream::Stream;
use serde::{Deserialize, Serialize};

/// Parameters of climbing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Climb {
    /// Solutions kept.
    pub population: usize,
    /// Neighbours asked for at once.
    pub batch: usize,
}

impl Default for Climb {
    fn default() -> Self {
        // A batch keeps up to sixteen threads busy; half of it would go to waste if the population were smaller still.
        Self { population: 8, batch: 16 }
    }
}

impl Climb {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let Some(moves) = problem.moves().filter(|moves| moves.kinds() > 0) else { return Ok(Stop::Exhausted) };
        let feasible = evaluator.archive().iter().filter(|entry| entry.score.is_feasible());
        let mut population: Vec<(Score, P::Solution)> =
            feasible.take(self.population.max(1)).map(|entry| (entry.score, entry.solution.clone())).collect();
        if population.is_empty() {
            return Ok(Stop::Exhausted);
        }
        for round in 0.. {
            evaluator.poll()?;
            let mut batch = Vec::new();
            let mut parents = Vec::new();
            for place in 0..self.batch.max(1) {
                let mut stream = Stream::new(seed, 0, round, place as u64);
                // The smaller of two draws: the best ones more often.
                let rank = stream.index(population.len()).min(stream.index(population.len()));
                let kind = stream.below(u64::from(moves.kinds())) as u32;
                match moves.neighbour(&population[rank].1, kind, &mut || stream.word()) {
                    Some(x) => {
                        parents.push(rank);
                        batch.push(evaluator.candidate(x, None));
                    }
                    None => evaluator.repeated(),
                }
            }
            let children: Vec<P::Solution> = batch.iter().map(|candidate| candidate.solution.clone()).collect();
            let scores = evaluator.ask(batch)?;
            for ((child, score), parent) in children.into_iter().zip(scores).zip(parents) {
                // A child takes its parent's place unless it is worse: plateaus are crossed, and kinds stay apart.
                if score <= population[parent].0 {
                    population[parent] = (score, child);
                }
            }
            population.sort_by_key(|(score, _)| *score);
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Climb {
    fn name(&self) -> &'static str {
        "climb"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
