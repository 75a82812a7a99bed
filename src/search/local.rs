//! What local searches share: solutions to stand on, and neighbours that have not been priced yet.

use super::budget::Stop;
use super::evaluator::{Evaluator, Question};
use super::genome::{Decoder, Genome, Wish};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use super::vary::{Operator, Selector, vary};

/// Attempts at a neighbour that has not been priced yet.
const ATTEMPTS: usize = 4;

/// A solution with its price.
#[derive(Debug, Clone)]
pub(super) struct Place<S> {
    pub genome: Genome,
    pub solution: S,
    pub key: Key128,
    pub score: Score,
}

/// A solution to be priced, and the number of the operator that made it.
pub(super) struct Step<S> {
    pub genome: Genome,
    pub solution: S,
    pub key: Key128,
    pub operator: usize,
}

/// The moves of one search.
pub(super) struct Ground<'p, P: Problem> {
    pub problem: &'p P,
    pub decoder: Decoder<'p, P>,
    pub selector: Selector,
}

impl<'p, P: Problem> Ground<'p, P> {
    pub fn new(problem: &'p P) -> Self {
        let selector = Selector::new(Operator::neighbours(problem));
        Self { problem, decoder: Decoder::new(problem), selector }
    }

    /// At least one and at most `n` places: solutions handed in, then the prior's favourite, then draws by the prior.
    pub fn begin(
        &mut self,
        n: usize,
        (seed, cycle): (u64, u64),
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Place<P::Solution>>, Stop> {
        let mut made: Vec<(Genome, P::Solution)> = Vec::new();
        if cycle == 0 {
            let mut stream = Stream::new(seed, 0, 0, 1 << 32);
            for entry in evaluator.archive().iter().take(n).cloned().collect::<Vec<_>>() {
                made.extend(match &entry.path {
                    Some(path) => self.decoder.follow(path),
                    None => self.decoder.encode(&entry.solution, &mut stream),
                });
            }
            if made.is_empty() {
                match self.decoder.greedy() {
                    Ok(found) => made.push(found),
                    Err(violation) => evaluator.dead_end(violation)?,
                }
            }
        }
        for index in 0.. {
            if made.len() >= n || (index >= n && !made.is_empty()) {
                break;
            }
            let mut stream = Stream::new(seed, 0, cycle, index as u64);
            match self.decoder.decode(&mut stream, |_, _| Wish::Likely) {
                Ok(found) => made.push(found),
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        let steps = made.into_iter().map(|(genome, solution)| {
            let key = self.problem.key(&solution);
            Step { genome, solution, key, operator: 0 }
        });
        price(steps.collect(), evaluator)
    }

    /// A neighbour of `from`, new if a few attempts find a new one; `None` where every attempt ended in a dead end.
    pub fn propose(
        &mut self,
        from: &Place<P::Solution>,
        asked: &mut Vec<Key128>,
        stream: &mut Stream,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Option<Step<P::Solution>>, Stop> {
        let mut step = None;
        for _ in 0..ATTEMPTS {
            let (operator, kind) = self.selector.draw(stream);
            let parent = (&from.genome, &from.solution);
            match vary(self.problem, &mut self.decoder, kind, parent, &from.genome, stream) {
                Ok((genome, solution)) => {
                    let key = self.problem.key(&solution);
                    let new = evaluator.seen(key).is_none() && !asked.contains(&key);
                    step = Some(Step { genome, solution, key, operator });
                    if new {
                        break;
                    }
                    evaluator.repeated();
                }
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        evaluator.poll()?;
        asked.extend(step.as_ref().map(|step| step.key));
        Ok(step)
    }
}

/// Prices steps, in order.
pub(super) fn price<P: Problem>(
    steps: Vec<Step<P::Solution>>,
    evaluator: &mut Evaluator<'_, P>,
) -> Result<Vec<Place<P::Solution>>, Stop> {
    let questions: Vec<_> = steps.iter().map(|step| Question::bred(&step.solution, step.key, &step.genome)).collect();
    let scores = evaluator.ask_about(&questions)?;
    let place = |(step, score): (Step<P::Solution>, Score)| Place {
        genome: step.genome,
        solution: step.solution,
        key: step.key,
        score,
    };
    Ok(steps.into_iter().zip(scores).map(place).collect())
}

/// By how much `new` is worse than `old`, as a share of `unit` among feasible scores; infinite where only the old one is
/// feasible, negative infinite where only the new one is.
pub(super) fn worse(old: Score, new: Score, unit: f64) -> f64 {
    match (old, new) {
        (Score::Feasible(old), Score::Feasible(new)) => (new - old) / unit,
        (Score::Infeasible(old), Score::Infeasible(new)) => new - old,
        _ if new <= old => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    }
}

/// The objective that differences are measured by.
pub(super) fn unit<P: Problem>(evaluator: &Evaluator<'_, P>) -> f64 {
    evaluator.cutoff().map_or(1.0, f64::abs).max(f64::MIN_POSITIVE)
}
