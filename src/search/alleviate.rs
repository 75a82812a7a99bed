//! Iterative alleviation of bottlenecks: what weighs most in the objective is changed, several changes in a row where one is
//! not enough, with a way back.
//!
//! Liu, Jia, Liu et al. 2024, "Aceso: efficient parallel DNN training through iterative bottleneck alleviation" (EuroSys),
//! sections 3 and 4: the bottleneck is found, changes of it are tried, the best of them is followed for some hops until one
//! improves on where they began; else the search backs up to the best that was never followed. Nothing is visited
//! twice. Which decisions are the bottleneck, the problem says ([`Problem::strain`]); where it does not, all are alike.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::local::{Ground, Place, Step, price};
use super::manual::{Page, Range, parameter};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use super::vary::replace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of bottleneck alleviation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alleviate {
    /// Changes in a row before it backs up.
    pub hops: usize,
    /// Changes tried at every hop.
    pub width: usize,
    /// Solutions kept to back up to.
    pub kept: usize,
    /// Share of the changes that are the problem's own moves, or those of local search.
    pub moves: f64,
}

impl Default for Alleviate {
    fn default() -> Self {
        Self { hops: 7, width: 16, kept: 500, moves: 0.3 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "changes what weighs most in the objective, several changes in a row, and backs up",
    source: "Liu et al. 2024 (Aceso), sections 3 and 4",
    when: "Pipelines whose slowest stage decides, as a copy of Aceso's search. As iterated local search where the problem \
           does not say what its bottleneck is.",
    presets: &[],
    parameters: &[
        parameter("hops", "changes in a row before it backs up", "Aceso, section 4.2: 7").within(Range::Whole(1, 14)),
        parameter("width", "changes tried at every hop", "a batch for sixteen threads").within(Range::Whole(4, 64)),
        parameter("kept", "solutions kept to back up to", "this engine").within(Range::Whole(50, 2000)),
        parameter("moves", "share of the changes that are moves of local search", "this engine")
            .within(Range::Share(0.0, 1.0)),
    ],
};

type Pool<S> = BTreeMap<(Score, Key128), Place<S>>;

impl Alleviate {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut ground = Ground::new(problem);
        let mut pool: Pool<P::Solution> = Pool::new();
        let mut visit = 0;
        for cycle in 0.. {
            let begun = ground.begin(1, (seed, cycle), evaluator)?;
            let Some(first) = begun.into_iter().next() else { return Ok(Stop::Exhausted) };
            let mut here = Some(first);
            while let Some(start) = here.take() {
                let mut at = start.clone();
                for _ in 0..self.hops.max(1) {
                    visit += 1;
                    let found = self.hop(&mut ground, &at, (seed, visit), evaluator)?;
                    let Some(best) = found.iter().min_by_key(|place| (place.score, place.key)).cloned() else { break };
                    pool.extend(found.into_iter().map(|place| ((place.score, place.key), place)));
                    while pool.len() > self.kept.max(1) {
                        pool.pop_last();
                    }
                    pool.remove(&(best.score, best.key));
                    if best.score < start.score {
                        here = Some(best);
                        break;
                    }
                    at = best;
                }
                here = here.or_else(|| pool.pop_first().map(|(_, place)| place));
            }
        }
        Ok(Stop::Exhausted)
    }

    /// Changes of the bottleneck of `at` that nobody has asked for, priced.
    fn hop<P: Problem>(
        &self,
        ground: &mut Ground<'_, P>,
        at: &Place<P::Solution>,
        (seed, visit): (u64, u64),
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Place<P::Solution>>, Stop> {
        let genes = at.genome.genes();
        let mut strain = ground.problem.strain(&at.solution);
        strain.resize(genes.len(), if strain.is_empty() { 1.0 } else { 0.0 });
        for (weight, gene) in strain.iter_mut().zip(genes) {
            if gene.options < 2 {
                *weight = 0.0;
            }
        }
        let (mut asked, mut steps) = (Vec::new(), Vec::new());
        for index in 0..self.width.max(1) {
            let mut stream = Stream::new(seed, 1, visit, index as u64);
            if stream.chance(self.moves) || genes.iter().all(|gene| gene.options < 2) {
                steps.extend(ground.propose(at, &mut asked, &mut stream, evaluator)?);
                continue;
            }
            let gene = stream.weighted(&strain);
            let (taken, options) = (genes[gene].option, genes[gene].options.max(2));
            let other = stream.below(u64::from(options) - 1) as u32;
            let option = other + u32::from(other >= taken);
            match replace(&mut ground.decoder, (&at.genome, &at.solution), &[(gene, option)], &mut stream) {
                Ok((genome, solution)) => {
                    let key = ground.problem.key(&solution);
                    if evaluator.seen(key).is_none() && !asked.contains(&key) {
                        asked.push(key);
                        steps.push(Step { genome, solution, key, operator: 0 });
                    } else {
                        evaluator.repeated();
                    }
                }
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        if steps.is_empty() {
            evaluator.repeated();
        }
        price(steps, evaluator)
    }
}

impl<P: Problem> Backend<P> for Alleviate {
    fn name(&self) -> &'static str {
        "alleviate"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
