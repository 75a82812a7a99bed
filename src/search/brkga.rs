//! A biased random-key genetic algorithm: a member is a key per decision, a key says which option, an elite parent gives
//! most of the keys.
//!
//! Goncalves and Resende 2011, "Biased random-key genetic algorithms for combinatorial optimization", section 2. The option
//! of key k is where k falls on the cumulated prior, so that equal keys are likely options; keys of decisions that a member has
//! never met are drawn from the member's own stream.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Problem, Slot};
use super::score::Score;
use super::stream::{Stream, mix, usable};
use super::walk::{End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of the biased random-key genetic algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Brkga {
    /// Members; fewer where the budget is below ten generations.
    pub population: usize,
    /// Share that survives.
    pub elite: f64,
    /// Share that is drawn anew.
    pub mutants: f64,
    /// Probability that a key is the elite parent's.
    pub rho: f64,
    /// Share of the prior in what a key means; the rest is uniform.
    pub prior: f64,
}

impl Default for Brkga {
    fn default() -> Self {
        Self { population: 100, elite: 0.2, mutants: 0.15, rho: 0.7, prior: 0.5 }
    }
}

/// Generations without an improvement after which the population is drawn anew ("reset" in Resende's C++ interface,
/// Toso and Resende 2015).
const PATIENCE: u64 = 60;
/// Options beyond which a key falls on even shares: adding up a million weights for one key pays nothing.
const MOST_OPTIONS: u32 = 4_096;

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "breeds vectors of random keys that a decoder turns into paths; an elite parent gives most keys",
    source: "Goncalves and Resende 2011",
    when: "As a baseline that needs no moves. Slower than genetic search on sequences of layers; keys know nothing of runs.",
    presets: &[],
    parameters: &[
        parameter(
            "population",
            "members; fewer where the budget is below ten generations",
            "Goncalves and Resende 2011",
        )
        .within(Range::Whole(20, 300)),
        parameter("elite", "share that survives", "Goncalves and Resende 2011: 0.10 to 0.25")
            .within(Range::Share(0.1, 0.25)),
        parameter("mutants", "share that is drawn anew", "Goncalves and Resende 2011: 0.10 to 0.30")
            .within(Range::Share(0.1, 0.3)),
        parameter("rho", "probability that a key is the elite parent's", "Goncalves and Resende 2011: 0.5 to 0.8")
            .within(Range::Share(0.5, 0.8)),
        parameter("prior", "share of the prior in what a key means", "this engine; zero is the published method")
            .within(Range::Share(0.0, 1.0)),
    ],
};

/// Keys by slot, in order.
type Keys = BTreeMap<Slot, f64>;

#[derive(Clone)]
struct Member {
    keys: Keys,
    score: Score,
    number: u64,
}

impl Brkga {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let affordable = evaluator.remaining().map_or(usize::MAX, |n| (n / 10) as usize);
        let n = self.population.min(affordable).max(4);
        let elite = ((self.elite * n as f64).ceil() as usize).clamp(1, n - 2);
        let mutants = ((self.mutants * n as f64).ceil() as usize).clamp(1, n - elite);
        let (mut walk, mut priors) = (Walk::new(problem), PriorSampler::default());
        let mut population: Vec<Member> = Vec::new();
        let (mut best, mut improved) = (Score::Failed, 0);
        for generation in 0.. {
            evaluator.poll()?;
            if generation - improved > PATIENCE {
                population.clear();
                (best, improved) = (Score::Failed, generation);
            }
            let kept = elite.min(population.len());
            let (mut candidates, mut brood) = (Vec::new(), Vec::new());
            for index in kept..n {
                let mut stream = Stream::new(seed, 1, generation, index as u64);
                let number = mix(&[seed, generation, index as u64]);
                let mut keys = match population.split_at(kept) {
                    (good, others) if !good.is_empty() && !others.is_empty() && index < n - mutants => {
                        let (a, b) = (stream.index(good.len()), stream.index(others.len()));
                        cross(&good[a].keys, &others[b].keys, self.rho, &mut stream)
                    }
                    _ => Keys::new(),
                };
                walk.back_to(0);
                let end = walk.complete(None, |decision| {
                    let key = *keys
                        .entry(decision.slot)
                        .or_insert_with(|| (mix(&[number, decision.slot]) >> 11) as f64 / (1u64 << 53) as f64);
                    if decision.options > MOST_OPTIONS {
                        return (key * f64::from(decision.options)) as u32;
                    }
                    option_of(key, priors.weights(&decision), self.prior)
                });
                match end {
                    End::Complete => {
                        candidates.push(evaluator.candidate(walk.solution(), Some(walk.path())));
                        brood.push((keys, number));
                    }
                    End::DeadEnd(violation) => evaluator.dead_end(violation)?,
                }
            }
            let scores = evaluator.ask(candidates)?;
            population.truncate(kept);
            let children = brood.into_iter().zip(scores);
            population.extend(children.map(|((keys, number), score)| Member { keys, score, number }));
            population.sort_by_key(|member| (member.score, member.number));
            if let Some(first) = population.first()
                && first.score < best
            {
                (best, improved) = (first.score, generation);
            }
        }
        Ok(Stop::Exhausted)
    }
}

/// A key per slot of the elite parent: its own with probability `rho`, else the other parent's.
fn cross(elite: &Keys, other: &Keys, rho: f64, stream: &mut Stream) -> Keys {
    let one = |(slot, key): (&Slot, &f64)| {
        let from_elite = stream.chance(rho);
        (*slot, if from_elite { *key } else { other.get(slot).copied().unwrap_or(*key) })
    };
    elite.iter().map(one).collect()
}

/// Where `key` falls on the options' shares.
fn option_of(key: f64, weights: &[f32], prior: f64) -> u32 {
    let total: f64 = weights.iter().map(|w| usable(*w)).sum();
    let even = 1.0 / weights.len().max(1) as f64;
    let mut rest = key;
    for (option, weight) in weights.iter().enumerate() {
        let likely = if total > 0.0 && total.is_finite() { usable(*weight) / total } else { even };
        rest -= prior * likely + (1.0 - prior) * even;
        if rest < 0.0 {
            return option as u32;
        }
    }
    weights.len().saturating_sub(1) as u32
}

impl<P: Problem> Backend<P> for Brkga {
    fn name(&self) -> &'static str {
        "brkga"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_falls_on_the_share_of_its_option() {
        assert_eq!([0.0, 0.74, 0.76, 0.999].map(|key| option_of(key, &[3.0, 1.0], 1.0)), [0, 0, 1, 1]);
        assert_eq!([0.49, 0.51].map(|key| option_of(key, &[3.0, 1.0], 0.0)), [0, 1]);
        assert_eq!(option_of(0.9, &[f32::NAN, f32::NAN], 1.0), 1);
    }
}
