//! Simulated annealing by several chains side by side, on genomes and with the problem's own moves.
//!
//! Each chain proposes several neighbours, all are priced in one batch, each chain accepts them or not, one after another
//! (Kirkpatrick et al. 1983; neighbours tried ahead of what may be accepted before them: Witte, Chamberlain and Franklin
//! 1991, "Parallel simulated annealing using speculative computation", which throws away what came too late). The
//! temperature is relative to the objective and falls geometrically over the evaluations left; now and then the worst
//! chain goes on from the best one. Chains that find hardly anything new begin anew, one of them where the best was found.

use super::attempts::{Attempts, Keys};
use super::backend::Backend;
use super::budget::Stop;
use super::desks::Desks;
use super::evaluator::{Evaluator, Question};
use super::genome::{Decoder, Genome, Wish};
use super::problem::Problem;
use super::score::Score;
use super::stream::Stream;
use super::vary::{Operator, Selector, vary};
use serde::{Deserialize, Serialize};

/// Parameters of annealing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Anneal {
    /// Chains side by side.
    pub chains: usize,
    /// Neighbours of a chain that are priced together; fewer where the budget allows less than fifty rounds.
    pub proposals: usize,
    /// First temperature, as a share of the objective.
    pub hot: f64,
    /// Last temperature, as a share of the objective.
    pub cold: f64,
    /// Rounds between two returns of every chain to the best, as a share of all rounds and 1 000 at most; zero: never.
    pub reset: f64,
    /// Rounds between two replacements of the worst chain by the best, as a share of all rounds.
    pub exchange: f64,
}

impl Default for Anneal {
    fn default() -> Self {
        // Hot enough to accept one percent of the objective at first, cold enough to tell a hundredth of a percent at
        // last: the sizes of a resharding and of a rounding in a plan of tens of layers. Few chains: each gets a
        // share of the evaluations only. Neighbours: enough for a socket's cores; 8 to 32 per chain were as good as one on
        // chains and pipelines (2 000 evaluations, 20 seeds), 32 the best with 20 000.
        Self { chains: 4, proposals: 32, hot: 0.01, cold: 1e-4, reset: 0.0, exchange: 0.02 }
    }
}

/// Evaluations over which the temperature falls where the budget does not limit them; then it starts again.
const USUAL_BUDGET: u64 = 20_000;
/// Rounds that a budget should allow.
const ROUNDS: u64 = 50;
/// Most rounds between two returns to the best (FlexFlow).
const MOST_RESET: u64 = 1_000;
/// Share of the last neighbours that are known where the chains are taken to be frozen: they begin anew, hot.
const FROZEN: f64 = 0.5;
/// Neighbours over which that share is taken.
const MEMORY: f64 = 64.0;
/// Attempts at a neighbour that has not been priced yet.
const ATTEMPTS: usize = 4;

#[derive(Clone)]
struct Chain<S> {
    genome: Genome,
    solution: S,
    score: Score,
}

impl Anneal {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let chains = self.chains.max(1);
        let selector = Selector::new(Operator::neighbours(problem));
        let mut ground = Ground { problem, desks: Desks::new(Decoder::new(problem)), selector };
        let mut visit = 0;
        for cycle in 0.. {
            let budget = evaluator.remaining().unwrap_or(USUAL_BUDGET);
            let affordable = usize::try_from(budget / ROUNDS).unwrap_or(usize::MAX) / chains;
            let proposals = self.proposals.min(affordable).max(1);
            let rounds = (budget / (chains * proposals) as u64).max(1);
            let mut all = self.begin(ground.desks.first(), seed, cycle, evaluator)?;
            ground.selector = Selector::new(Operator::neighbours(problem));
            let exchange = ((rounds as f64 * self.exchange) as u64).max(1);
            let reset = ((rounds as f64 * self.reset) as u64).clamp(1, MOST_RESET);
            let Some(mut best) = all.iter().min_by_key(|chain| chain.score).cloned() else { continue };
            let mut frozen = 0.0;
            for round in 1..=rounds {
                visit += 1;
                let temperature = self.hot * (self.cold / self.hot).powf(round as f64 / rounds as f64);
                let known = self.round(&mut ground, &mut all, (seed, visit), (temperature, proposals), evaluator)?;
                frozen += (known - frozen) * ((chains * proposals) as f64 / MEMORY).min(1.0);
                if frozen > FROZEN {
                    break;
                }
                if round.is_multiple_of(exchange) {
                    replace_worst(&mut all);
                }
                if let Some(found) = all.iter().min_by_key(|chain| chain.score).filter(|found| found.score < best.score)
                {
                    best = found.clone();
                }
                if self.reset > 0.0 && round.is_multiple_of(reset) {
                    all.fill(best.clone());
                }
            }
        }
        Ok(Stop::Exhausted)
    }

    fn begin<P: Problem>(
        &self,
        decoder: &mut Decoder<'_, P>,
        seed: u64,
        cycle: u64,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Chain<P::Solution>>, Stop> {
        let mut founders = Vec::new();
        let handed: Vec<_> = evaluator.archive().iter().take(self.chains.max(1)).cloned().collect();
        for index in 0..self.chains.max(1) {
            let mut stream = Stream::new(seed, 0, cycle, index as u64);
            // After the first cycle what is handed in is what was found: one chain goes on from it.
            let made = match handed.get(index % handed.len().max(1)).filter(|_| cycle == 0 || index == 0) {
                Some(entry) => match &entry.path {
                    Some(path) => decoder.follow(path),
                    None => decoder.encode(&entry.solution, &mut stream),
                },
                None if index == 0 => kept(decoder.greedy(), evaluator)?,
                None => None,
            };
            let made = match made {
                Some(made) => Some(made),
                None => kept(decoder.decode(&mut stream, |_, _| Wish::Likely), evaluator)?,
            };
            founders.extend(made);
        }
        let candidates = founders.iter().map(|(g, x)| evaluator.candidate(x.clone(), Some(&g.path()))).collect();
        let scores = evaluator.ask(candidates)?;
        Ok(founders
            .into_iter()
            .zip(scores)
            .map(|((genome, solution), score)| Chain { genome, solution, score })
            .collect())
    }

    /// Neighbours of all chains, priced together; each chain then goes through its own in order. The share of
    /// the neighbours that were known.
    fn round<P: Problem>(
        &self,
        ground: &mut Ground<'_, P>,
        chains: &mut [Chain<P::Solution>],
        (seed, visit): (u64, u64),
        (temperature, each): (f64, usize),
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<f64, Stop> {
        let (problem, selector) = (ground.problem, &ground.selector);
        let propose = |decoder: &mut Decoder<'_, P>, number: usize, stream: &mut Stream| {
            let chain = &chains[number / each];
            let (operator, kind) = selector.draw(stream);
            let made = vary(problem, decoder, kind, (&chain.genome, &chain.solution), &chain.genome, stream);
            Some(made.map(|(genome, solution)| {
                let (key, luck) = (problem.key(&solution), stream.unit());
                (Proposal { operator, genome, solution, luck }, key)
            }))
        };
        let record = evaluator.record();
        let mut all = ground.desks.make(chains.len() * each, |decoder, number| {
            let stream = Stream::new(seed, (number / each) as u64 + 1, visit, (number % each) as u64);
            let mut attempts = Attempts::new(ATTEMPTS, stream);
            attempts.go_on(&|key| record.seen(key).is_some(), |_, stream| propose(decoder, number, stream));
            attempts
        });
        let mut proposed = Keys::default();
        let mut proposals = Vec::with_capacity(all.len());
        let (mut known, count) = (0u32, all.len());
        for (number, mut attempts) in all.drain(..).enumerate() {
            attempts.disown(|key| proposed.contains(&key));
            if !attempts.is_new() {
                let is_known = |key| evaluator.seen(key).is_some() || proposed.contains(&key);
                let decoder = ground.desks.first();
                attempts.go_on(&is_known, |_, stream| propose(decoder, number, stream));
            }
            attempts.count(evaluator)?;
            known += u32::from(!attempts.is_new());
            if let Some((proposal, key, _)) = attempts.made {
                proposed.insert(key);
                proposals.push((number / each, proposal, key));
            }
        }
        let questions: Vec<_> =
            proposals.iter().map(|(_, made, key)| Question::bred(&made.solution, *key, &made.genome)).collect();
        let scores = evaluator.ask_about(&questions)?;
        let unit = evaluator.cutoff().map_or(1.0, f64::abs).max(f64::MIN_POSITIVE);
        for ((number, Proposal { operator, genome, solution, luck }, _), score) in proposals.into_iter().zip(scores) {
            let chain = &mut chains[number];
            ground.selector.credit(operator, score < chain.score);
            if accepts(chain.score, score, temperature, unit, luck) {
                *chain = Chain { genome, solution, score };
            }
        }
        Ok(f64::from(known) / count.max(1) as f64)
    }
}

/// What a search works with.
struct Ground<'p, P: Problem> {
    problem: &'p P,
    desks: Desks<Decoder<'p, P>>,
    selector: Selector,
}

/// A neighbour to be priced, the number of the operator that made it, and a random number for its acceptance.
struct Proposal<S> {
    operator: usize,
    genome: Genome,
    solution: S,
    luck: f64,
}

/// A path, or a dead end counted.
fn kept<P: Problem, T>(made: Result<T, f64>, evaluator: &mut Evaluator<'_, P>) -> Result<Option<T>, Stop> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(violation) => evaluator.dead_end(violation).map(|()| None),
    }
}

/// Metropolis' rule among feasible scores (differences as shares of `unit`) and among infeasible ones (differences of
/// violations); never from feasible to infeasible.
fn accepts(old: Score, new: Score, temperature: f64, unit: f64, luck: f64) -> bool {
    let worse = match (old, new) {
        (Score::Feasible(old), Score::Feasible(new)) => (new - old) / unit,
        (Score::Infeasible(old), Score::Infeasible(new)) => new - old,
        _ => return new <= old,
    };
    worse <= 0.0 || luck < (-worse / temperature).exp()
}

fn replace_worst<S: Clone>(chains: &mut [Chain<S>]) {
    let by_score = |i: &usize| (chains[*i].score, *i);
    let best = (0..chains.len()).min_by_key(by_score);
    let worst = (0..chains.len()).max_by_key(by_score);
    if let (Some(best), Some(worst)) = (best, worst)
        && best != worst
    {
        let Chain { genome, solution, score } = &chains[best];
        chains[worst] = Chain { genome: genome.clone(), solution: solution.clone(), score: *score };
    }
}

impl<P: Problem> Backend<P> for Anneal {
    fn name(&self) -> &'static str {
        "anneal"
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
    fn better_is_always_accepted_and_infeasible_never_replaces_feasible() {
        let (hot, unit) = (1e9, 1.0);
        assert!(accepts(Score::Feasible(2.0), Score::Feasible(1.0), 1e-9, unit, 0.999));
        assert!(accepts(Score::Infeasible(2.0), Score::Feasible(9.0), 1e-9, unit, 0.999));
        assert!(accepts(Score::Feasible(1.0), Score::Feasible(2.0), hot, unit, 0.999));
        assert!(!accepts(Score::Feasible(1.0), Score::Feasible(2.0), 1e-9, unit, 0.5));
        assert!(!accepts(Score::Feasible(1.0), Score::Infeasible(0.1), hot, unit, 0.0));
        assert!(!accepts(Score::Feasible(1.0), Score::Failed, hot, unit, 0.0));
    }
}
