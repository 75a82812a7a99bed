//! Tables of probabilities that follow the best samples: cross-entropy (every decision for itself) and a chain model that
//! looks at the decision before (an estimation-of-distribution method).
//!
//! Rubinstein 1999, "The cross-entropy method for combinatorial and continuous optimization"; de Boer, Kroese, Mannor and
//! Rubinstein 2005, "A tutorial on the cross-entropy method" (smoothing, elite share); De Bonet, Isbell and Viola 1997, "MIMIC:
//! finding optima by estimating probability densities" (the chain, here in the order of the path).

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Allele, Node, Problem, Slot};
use super::score::Score;
use super::stream::{Stream, usable};
use super::walk::{End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Parameters of the cross-entropy method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrossEntropy {
    /// Samples of a round; fewer where the budget is below twenty rounds.
    pub samples: usize,
    /// Share of the samples that probabilities follow.
    pub elite: f64,
    /// How far probabilities move in a round.
    pub smoothing: f64,
    /// Rounds without an improvement after which probabilities are forgotten.
    pub patience: u64,
}

impl Default for CrossEntropy {
    fn default() -> Self {
        Self { samples: 60, elite: 0.1, smoothing: 0.3, patience: 25 }
    }
}

/// Parameters of the chain model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Distribution {
    /// Samples of a round; fewer where the budget is below twenty rounds.
    pub samples: usize,
    /// Share of the samples that probabilities follow.
    pub elite: f64,
    /// How far probabilities move in a round.
    pub smoothing: f64,
    /// Rounds without an improvement after which probabilities are forgotten.
    pub patience: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { samples: 60, elite: 0.2, smoothing: 0.3, patience: 25 }
    }
}

/// The manual's page of cross-entropy.
pub const PAGE: Page = Page {
    summary: "samples from a table of probabilities that follows the best samples, every decision for itself",
    source: "Rubinstein 1999; de Boer et al. 2005",
    when: "A stand-in for policy gradients without a network: many evaluations, decisions that matter one by one.",
    presets: &[],
    parameters: TEXTS,
};

/// The manual's page of the chain model.
pub const CHAIN_PAGE: Page = Page {
    summary: "samples from probabilities given the decision before, which follow the best samples",
    source: "De Bonet, Isbell and Viola 1997 (MIMIC); de Boer et al. 2005",
    when: "As cross-entropy, where neighbours on the path depend on each other: resharding between layers.",
    presets: &[],
    parameters: TEXTS,
};

const TEXTS: &[super::manual::Parameter] = &[
    parameter("samples", "samples of a round; fewer where the budget is below twenty rounds", "this engine")
        .within(Range::Whole(20, 300)),
    parameter("elite", "share of the samples that probabilities follow", "de Boer et al. 2005: 0.01 to 0.1")
        .within(Range::Log(0.02, 0.4)),
    parameter(
        "smoothing",
        "how far probabilities move in a round",
        "de Boer et al. 2005: 0.3 to 0.7 for discrete choices",
    )
    .within(Range::Share(0.05, 0.8)),
    parameter("patience", "rounds without an improvement before a fresh table", "this engine")
        .within(Range::Whole(8, 80)),
];

/// Samples that a round's elite is topped up from: so many rounds of the past.
const KEPT: usize = 2;
/// Share of every distribution that stays as the prior has it.
const FLOOR: f64 = 0.05;

struct Table {
    samples: usize,
    elite: f64,
    smoothing: f64,
    patience: u64,
    /// Whether the decision before counts.
    chained: bool,
}

/// What is decided, and what was decided before it where that counts.
type Place = (Slot, Allele);

/// Probabilities by place, of the alleles that elites have had, and the mass left to the prior.
type Model = BTreeMap<Place, (BTreeMap<Allele, f64>, f64)>;

impl Table {
    fn search<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let affordable = evaluator.remaining().map_or(usize::MAX, |n| (n / 20) as usize);
        let samples = self.samples.min(affordable).max(4);
        let elite = ((self.elite * samples as f64).ceil() as usize).clamp(1, samples);
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        let mut model = Model::new();
        let (mut best, mut improved) = (Score::Failed, 0);
        let mut past: VecDeque<Vec<(Score, Vec<u32>)>> = VecDeque::new();
        for round in 0u64.. {
            evaluator.poll()?;
            let (mut candidates, mut paths) = (Vec::new(), Vec::new());
            for index in 0..samples {
                evaluator.poll()?;
                let mut stream = Stream::new(seed, 0, round, index as u64);
                walk.back_to(0);
                let mut trail: Vec<(usize, Allele)> = Vec::new();
                let chained = self.chained;
                let end = walk.complete(None, |decision| {
                    while trail.last().is_some_and(|(depth, _)| *depth >= decision.depth) {
                        trail.pop();
                    }
                    let before = trail.last().filter(|_| chained).map_or(0, |(_, allele)| allele.wrapping_add(1));
                    let option = match model.get(&(decision.slot, before)) {
                        Some((known, left)) => {
                            drawn(known, *left, &mut stream).map(|allele| problem.nearest(decision.state, allele))
                        }
                        None => None,
                    };
                    let option =
                        option.unwrap_or_else(|| priors.draw(&decision, &mut stream)).min(decision.options - 1);
                    trail.push((decision.depth, problem.allele(decision.state, option)));
                    option
                });
                match end {
                    End::Complete => {
                        candidates.push(evaluator.candidate(walk.solution(), Some(walk.path())));
                        paths.push(walk.path().to_vec());
                    }
                    End::DeadEnd(violation) => evaluator.dead_end(violation)?,
                }
            }
            let scores = evaluator.ask(candidates)?;
            past.push_back(scores.into_iter().zip(paths).collect());
            if past.len() > KEPT {
                past.pop_front();
            }
            let mut ranked: Vec<&(Score, Vec<u32>)> = past.iter().flatten().collect();
            ranked.sort_by_key(|found| found.0);
            if let Some((score, _)) = ranked.first()
                && *score < best
            {
                (best, improved) = (*score, round);
            }
            ranked.truncate(elite);
            self.follow(&ranked, &mut walk, problem, &mut model);
            if round - improved >= self.patience {
                (best, improved) = (Score::Failed, round);
                model.clear();
                past.clear();
            }
        }
        Ok(Stop::Exhausted)
    }

    fn follow<P: Problem>(&self, elite: &[&(Score, Vec<u32>)], walk: &mut Walk<'_, P>, problem: &P, model: &mut Model) {
        let mut counts: BTreeMap<Place, BTreeMap<Allele, f64>> = BTreeMap::new();
        for (_, path) in elite {
            walk.back_to(0);
            let mut before = 0;
            for option in path {
                let Node::Choose { slot, .. } = walk.node() else { break };
                let allele = problem.allele(walk.state(), *option);
                *counts.entry((slot, before)).or_default().entry(allele).or_default() += 1.0;
                before = if self.chained { allele.wrapping_add(1) } else { 0 };
                walk.push(*option);
            }
        }
        for (place, counts) in counts {
            let total: f64 = counts.values().sum();
            let (known, left) = model.entry(place).or_insert_with(|| (BTreeMap::new(), 1.0));
            known.values_mut().for_each(|p| *p *= 1.0 - self.smoothing);
            *left = (*left * (1.0 - self.smoothing)).max(FLOOR);
            for (allele, count) in counts {
                *known.entry(allele).or_default() += self.smoothing * count / total;
            }
        }
    }
}

/// An allele by its probability; `None` for the share left to the prior.
fn drawn(known: &BTreeMap<Allele, f64>, left: f64, stream: &mut Stream) -> Option<Allele> {
    let total: f64 = known.values().sum::<f64>() + left;
    let mut rest = stream.unit() * total;
    for (allele, p) in known {
        rest -= usable(*p as f32);
        if rest < 0.0 {
            return Some(*allele);
        }
    }
    None
}

impl<P: Problem> Backend<P> for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        let Self { samples, elite, smoothing, patience } = *self;
        let table = Table { samples, elite, smoothing, patience, chained: false };
        table.search(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}

impl<P: Problem> Backend<P> for Distribution {
    fn name(&self) -> &'static str {
        "distribution"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        let Self { samples, elite, smoothing, patience } = *self;
        let table = Table { samples, elite, smoothing, patience, chained: true };
        table.search(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
