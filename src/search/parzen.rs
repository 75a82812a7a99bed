//! Sequential optimisation by a tree of Parzen estimators: options that are common among the best answers and rare among the
//! others are tried next.
//!
//! Bergstra, Bardenet, Bengio and Kegl 2011, "Algorithms for hyper-parameter optimization", section 4 (TPE); the share of
//! the best is that of hyperopt (Bergstra, Yamins and Cox 2013): a quarter of the square root of what was seen, 25 at most.
//! Options are categories: each estimator is a count plus the prior.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Allele, Key128, Node, Problem, Slot};
use super::score::Score;
use super::stream::{Stream, usable};
use super::walk::{Decision, End, PriorSampler, Walk};
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Parameters of TPE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parzen {
    /// Answers before the first estimate.
    pub startup: usize,
    /// Share of the square root of what was seen that is called good.
    pub gamma: f64,
    /// Options drawn per decision, the most promising of which is taken.
    pub candidates: usize,
    /// Answers that the prior counts for.
    pub prior: f64,
    /// Answers asked for at once.
    pub batch: usize,
}

impl Default for Parzen {
    fn default() -> Self {
        Self { startup: 20, gamma: 0.25, candidates: 24, prior: 1.0, batch: 4 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "tries options that are common among the best answers and rare among the others (TPE)",
    source: "Bergstra et al. 2011, 2013",
    when: "Evaluations of minutes, such as trials on the real cluster, a hundred or so of them, noise included. With \
           thousands of cheap evaluations genetic search does better: decisions are modelled one by one.",
    presets: &[],
    parameters: &[
        parameter("startup", "answers before the first estimate", "hyperopt: 20").within(Range::Whole(5, 100)),
        parameter("gamma", "share of the square root of what was seen that is called good", "hyperopt: 0.25")
            .within(Range::Log(0.05, 1.0)),
        parameter("candidates", "options drawn per decision, the best of which is taken", "hyperopt: 24")
            .within(Range::Whole(4, 64)),
        parameter("prior", "answers that the prior counts for", "hyperopt: 1").within(Range::Log(0.1, 10.0)),
        parameter("batch", "answers asked for at once", "this engine").within(Range::Whole(1, 16)),
    ],
};

/// Most answers that are called good (hyperopt).
const MOST_GOOD: usize = 25;
/// Options beyond which a decision is left to chance.
const MOST_OPTIONS: u32 = 4_096;
/// Attempts at an answer that has not been priced, before one by chance.
const ATTEMPTS: usize = 4;

type Decided = Vec<(Slot, Allele)>;

/// Counts of alleles by slot.
#[derive(Default)]
struct Counts(HashMap<Slot, (BTreeMap<Allele, f64>, f64), FixedState>);

impl Counts {
    fn add(&mut self, decided: &Decided) {
        for (slot, allele) in decided {
            let (alleles, total) = self.0.entry(*slot).or_default();
            *alleles.entry(*allele).or_default() += 1.0;
            *total += 1.0;
        }
    }

    fn of(&self, slot: Slot, allele: Allele) -> f64 {
        self.0.get(&slot).and_then(|(alleles, _)| alleles.get(&allele)).copied().unwrap_or(0.0)
    }

    fn total(&self, slot: Slot) -> f64 {
        self.0.get(&slot).map_or(0.0, |(_, total)| *total)
    }

    /// An allele by its count, where `rest` is below the total.
    fn pick(&self, slot: Slot, mut rest: f64) -> Option<Allele> {
        let (alleles, _) = self.0.get(&slot)?;
        for (allele, count) in alleles {
            rest -= count;
            if rest < 0.0 {
                return Some(*allele);
            }
        }
        None
    }
}

struct Model {
    all: Counts,
    good: Counts,
    /// The best answers, best first.
    best: Vec<(Score, Key128, Decided)>,
    seen: usize,
}

impl Parzen {
    fn option<P: Problem>(
        &self,
        model: &Model,
        priors: &mut PriorSampler,
        decision: &Decision<'_, P>,
        stream: &mut Stream,
    ) -> u32 {
        let (slot, options) = (decision.slot, decision.options);
        if options > MOST_OPTIONS {
            return stream.below(u64::from(options)) as u32;
        }
        let weights = priors.weights(decision);
        let sum: f64 = weights.iter().map(|w| usable(*w)).sum();
        let share = |option: u32| match sum > 0.0 && sum.is_finite() {
            true => usable(weights[option as usize]) / sum,
            false => 1.0 / f64::from(options),
        };
        let prior = self.prior.max(1e-6);
        // Summed once: an option is drawn for every candidate.
        let mut sums: Vec<f64> = Vec::new();
        let mut by_prior = |stream: &mut Stream| {
            if !(sum > 0.0 && sum.is_finite()) {
                return stream.below(u64::from(options)) as u32;
            }
            if sums.is_empty() {
                let add = |total: &mut f64, weight: &f32| {
                    *total += usable(*weight);
                    Some(*total)
                };
                sums.extend(weights.iter().scan(0.0, add));
            }
            let at = stream.unit() * sum;
            (sums.partition_point(|total| *total <= at) as u32).min(options - 1)
        };
        let (good, all) = (model.good.total(slot), model.all.total(slot));
        let mut best = (0, f64::NEG_INFINITY);
        for _ in 0..self.candidates.max(1) {
            let at = stream.unit() * (good + prior);
            let option = match model.good.pick(slot, at) {
                Some(allele) => decision.problem.nearest(decision.state, allele).min(options - 1),
                None => by_prior(stream),
            };
            let allele = decision.problem.allele(decision.state, option);
            let in_good = model.good.of(slot, allele);
            let likely = (in_good + prior * share(option)) / (good + prior);
            let unlikely = (model.all.of(slot, allele) - in_good + prior * share(option)) / (all - good + prior);
            let ratio = likely / unlikely.max(f64::MIN_POSITIVE);
            if ratio > best.1 {
                best = (option, ratio);
            }
        }
        best.0
    }

    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        let mut model = Model { all: Counts::default(), good: Counts::default(), best: Vec::new(), seen: 0 };
        for round in 0u64.. {
            evaluator.poll()?;
            model.good = Counts::default();
            let good = (self.gamma * (model.seen as f64).sqrt()).ceil().clamp(1.0, MOST_GOOD as f64) as usize;
            model.best.iter().take(good).for_each(|(_, _, decided)| model.good.add(decided));
            let (mut candidates, mut paths, mut asked) = (Vec::new(), Vec::new(), Vec::new());
            // What cannot be paid for is not drawn.
            let affordable = evaluator.remaining().map_or(usize::MAX, |left| left.min(self.batch as u64) as usize);
            for index in 0..self.batch.min(affordable).max(1) {
                let mut stream = Stream::new(seed, 0, round, index as u64);
                let guided = model.seen >= self.startup;
                for attempt in 0..=ATTEMPTS {
                    walk.back_to(0);
                    let end = walk.complete(None, |decision| match attempt {
                        ATTEMPTS => stream.below(u64::from(decision.options)) as u32,
                        _ if guided => self.option(&model, &mut priors, &decision, &mut stream),
                        _ => priors.draw(&decision, &mut stream),
                    });
                    if let End::DeadEnd(violation) = end {
                        evaluator.dead_end(violation)?;
                        continue;
                    }
                    let found = evaluator.candidate(walk.solution(), Some(walk.path()));
                    if evaluator.seen(found.key).is_some() || asked.contains(&found.key) {
                        evaluator.repeated();
                        continue;
                    }
                    asked.push(found.key);
                    candidates.push(found);
                    paths.push(walk.path().to_vec());
                    break;
                }
            }
            let scores = evaluator.ask(candidates)?;
            for ((score, key), path) in scores.into_iter().zip(asked).zip(paths) {
                let decided = decided(problem, &mut walk, &path);
                model.seen += 1;
                model.all.add(&decided);
                let at = model.best.partition_point(|(s, k, _)| (*s, *k) < (score, key));
                model.best.insert(at, (score, key, decided));
                model.best.truncate(MOST_GOOD);
            }
        }
        Ok(Stop::Exhausted)
    }
}

fn decided<P: Problem>(problem: &P, walk: &mut Walk<'_, P>, path: &[u32]) -> Decided {
    walk.back_to(0);
    let mut decided = Decided::new();
    for option in path {
        if let Node::Choose { slot, .. } = walk.node() {
            decided.push((slot, problem.allele(walk.state(), *option)));
        }
        walk.push(*option);
    }
    decided
}

impl<P: Problem> Backend<P> for Parzen {
    fn name(&self) -> &'static str {
        "parzen"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
