//! Nested rollout policy adaptation, generalised by a bias: a policy is drawn towards the best sequence of every level.
//!
//! Rosin 2011, "Nested rollout policy adaptation for Monte Carlo tree search"; Cazenave 2020, "Generalized nested rollout policy
//! adaptation" (arXiv 2003.10024): the prior enters as a bias of the softmax. Several playouts share an adaptation on the
//! lowest level (Cazenave, Sevestre and Toulemont 2021, "Stabilized nested rollout policy adaptation").

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Allele, Node, Problem, Slot};
use super::score::Score;
use super::stream::{Stream, usable};
use super::walk::{Decision, End, PriorSampler, Walk};
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Parameters of nested rollout policy adaptation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nested {
    /// Levels.
    pub level: u32,
    /// Recursive calls per level.
    pub iterations: u64,
    /// Step of an adaptation.
    pub alpha: f64,
    /// Weight of the logarithm of the prior in the softmax; zero is Rosin's method.
    pub bias: f64,
    /// Playouts per adaptation on the lowest level.
    pub playouts: usize,
    /// Calls in which a level's best sequence may stay the same before the level ends; zero: no limit.
    pub max_repeats: u64,
}

impl Default for Nested {
    fn default() -> Self {
        Self { level: 3, iterations: 40, alpha: 1.0, bias: 1.0, playouts: 4, max_repeats: 10 }
    }
}

/// Levels beyond which no budget reaches.
const MOST_LEVELS: u32 = 12;
/// Options beyond which a decision is left to chance.
const MOST_OPTIONS: u32 = 4_096;

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "adapts a rollout policy, biased by the prior, towards the best sequence of every level (NRPA, GNRPA)",
    source: "Rosin 2011; Cazenave 2020, 2021",
    when: "Long sequences whose decisions mean the same wherever they stand, such as orders of passes, with tens of thousands \
           of evaluations. A playout costs a softmax per decision.",
    presets: &[],
    parameters: &[
        parameter("level", "levels of nesting", "2 to 3 on schedules and chains (drafts, 2026-11)")
            .within(Range::Whole(1, 4)),
        parameter("iterations", "recursive calls per level", "100 in Rosin 2011; fewer fit small budgets")
            .within(Range::Whole(10, 120)),
        parameter("alpha", "step of an adaptation", "Rosin 2011").within(Range::Log(0.2, 4.0)),
        parameter("bias", "weight of the prior's logarithm; zero is plain NRPA", "Cazenave 2020")
            .within(Range::Real(0.0, 3.0)),
        parameter("playouts", "playouts per adaptation on the lowest level", "Cazenave 2021")
            .within(Range::Whole(1, 16)),
        parameter(
            "max_repeats",
            "calls in which a best sequence may stay the same; zero: no limit",
            "Cazenave 2024, arXiv 2401.10420",
        )
        .within(Range::Whole(2, 60)),
    ],
};

type Policy = HashMap<(Slot, Allele), f64, FixedState>;

struct Found {
    score: Score,
    path: Vec<u32>,
}

struct Search<'p, P: Problem> {
    settings: &'p Nested,
    problem: &'p P,
    walk: Walk<'p, P>,
    priors: PriorSampler,
    logits: Vec<f64>,
    seed: u64,
    visit: u64,
    /// Whether the last playouts led to nothing new.
    stale: bool,
}

impl<P: Problem> Search<'_, P> {
    /// A playout by `policy`; without one, any path alike.
    fn playout(&mut self, policy: Option<&Policy>) -> End {
        self.visit += 1;
        let mut stream = Stream::new(self.seed, 0, self.visit, 0);
        self.walk.back_to(0);
        let (priors, logits, bias) = (&mut self.priors, &mut self.logits, self.settings.bias);
        self.walk.complete(None, |decision| {
            if decision.options < 2 {
                return 0;
            }
            let Some(policy) = policy.filter(|_| decision.options <= MOST_OPTIONS) else {
                return stream.below(u64::from(decision.options)) as u32;
            };
            softmax(policy, priors, logits, bias, &decision);
            draw(logits, &mut stream)
        })
    }

    /// Draws `policy` towards `path`.
    fn adapt(&mut self, policy: &mut Policy, path: &[u32]) {
        let mut steps: Vec<((Slot, Allele), f64)> = Vec::new();
        self.walk.back_to(0);
        for (depth, option) in path.iter().enumerate() {
            let Node::Choose { slot, options } = self.walk.node() else { break };
            if (2..=MOST_OPTIONS).contains(&options) {
                let decision = Decision { problem: self.problem, state: self.walk.state(), depth, slot, options };
                softmax(policy, &mut self.priors, &mut self.logits, self.settings.bias, &decision);
                for (other, p) in self.logits.iter().enumerate() {
                    let allele = self.problem.allele(self.walk.state(), other as u32);
                    let wanted = f64::from(u8::from(other as u32 == *option));
                    steps.push(((slot, allele), self.settings.alpha * (wanted - p)));
                }
            }
            self.walk.push(*option);
        }
        for (decided, step) in steps {
            *policy.entry(decided).or_insert(0.0) += step;
        }
    }

    fn level(&mut self, level: u32, policy: &Policy, evaluator: &mut Evaluator<'_, P>) -> Result<Option<Found>, Stop> {
        if level == 0 {
            return self.playouts(Some(policy), evaluator);
        }
        let mut policy = policy.clone();
        let mut best: Option<Found> = None;
        let mut same = 0;
        for _ in 0..self.settings.iterations.max(1) {
            let found = self.level(level - 1, &policy, evaluator)?;
            let changes =
                |found: &Found| best.as_ref().is_none_or(|best| found.score <= best.score && found.path != best.path);
            if let Some(found) = found.filter(changes) {
                best = Some(found);
                same = 0;
            } else {
                same += 1;
            }
            if self.settings.max_repeats > 0 && same >= self.settings.max_repeats {
                break;
            }
            if let Some(best) = &best {
                self.adapt(&mut policy, &best.path);
            }
        }
        Ok(best)
    }

    fn playouts(&mut self, policy: Option<&Policy>, evaluator: &mut Evaluator<'_, P>) -> Result<Option<Found>, Stop> {
        let (mut candidates, mut paths) = (Vec::new(), Vec::new());
        for index in 0..self.settings.playouts.max(1) {
            match self.playout(policy.filter(|_| index > 0 || !self.stale)) {
                End::Complete => {
                    candidates.push(evaluator.candidate(self.walk.solution(), Some(self.walk.path())));
                    paths.push(self.walk.path().to_vec());
                }
                End::DeadEnd(violation) => evaluator.dead_end(violation)?,
            }
        }
        let before = evaluator.evaluations();
        let scores = evaluator.ask(candidates)?;
        self.stale = evaluator.evaluations() == before;
        let found = scores.into_iter().zip(paths).map(|(score, path)| Found { score, path });
        Ok(found.min_by(|a, b| a.score.cmp(&b.score)))
    }
}

/// Probabilities of the options of a decision.
fn softmax<P: Problem>(
    policy: &Policy,
    priors: &mut PriorSampler,
    out: &mut Vec<f64>,
    bias: f64,
    decision: &Decision<'_, P>,
) {
    out.clear();
    let weights = priors.weights(decision);
    out.extend(weights.iter().map(|weight| bias * usable(*weight).max(1e-12).ln()));
    for (option, logit) in out.iter_mut().enumerate() {
        let allele = decision.problem.allele(decision.state, option as u32);
        *logit += policy.get(&(decision.slot, allele)).copied().unwrap_or(0.0);
    }
    let most = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    out.iter_mut().for_each(|logit| *logit = (*logit - most).exp());
    let total: f64 = out.iter().sum();
    out.iter_mut().for_each(|p| *p /= total);
}

fn draw(p: &[f64], stream: &mut Stream) -> u32 {
    let mut rest = stream.unit();
    for (option, p) in p.iter().enumerate() {
        rest -= p;
        if rest < 0.0 {
            return option as u32;
        }
    }
    p.len() as u32 - 1
}

impl<P: Problem> Backend<P> for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        let mut search = Search {
            settings: self,
            problem,
            walk: Walk::new(problem),
            priors: PriorSampler::default(),
            logits: Vec::new(),
            seed,
            visit: 0,
            stale: false,
        };
        loop {
            // What a policy never comes to is found by chance, so that small spaces are seen whole.
            let chance = search.playouts(None, evaluator);
            if let Err(stop) =
                chance.and_then(|_| search.level(self.level.min(MOST_LEVELS), &Policy::default(), evaluator))
            {
                return stop;
            }
        }
    }
}
