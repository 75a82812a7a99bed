//! Several backends one after another over one evaluator: each starts from the best that the ones before it found.
//!
//! Tree search leads while evaluations are few, breeding and annealing catch up and pass it when there are many; so the
//! default grows first, breeds from what was grown, and polishes last.

use super::anneal::Anneal;
use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::genetic::Genetic;
use super::mcts::Mcts;
use super::problem::Problem;
use super::stream::mix;

/// Evaluations of one round of all stages where the budget does not limit them; rounds are repeated.
const USUAL_BUDGET: u64 = 20_000;

/// One backend of a portfolio.
pub struct Stage<'p, P: Problem> {
    /// What runs.
    pub backend: Box<dyn Backend<P> + 'p>,
    /// Its share of the evaluations; what it leaves goes to the stages after it.
    pub share: f64,
}

/// Stages in order, repeated until the budget is used up.
pub struct Portfolio<'p, P: Problem> {
    /// The stages.
    pub stages: Vec<Stage<'p, P>>,
}

impl<'p, P: Problem + 'p> Default for Portfolio<'p, P> {
    fn default() -> Self {
        Self {
            stages: vec![
                Stage { backend: Box::new(Mcts::default()), share: 0.1 },
                Stage { backend: Box::new(Genetic::default()), share: 0.5 },
                Stage { backend: Box::new(Anneal::default()), share: 0.4 },
            ],
        }
    }
}

impl<P: Problem> Portfolio<'_, P> {
    fn run(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        for round in 0.. {
            let before = evaluator.evaluations();
            let mut left = evaluator.remaining().unwrap_or(USUAL_BUDGET);
            let mut shares: f64 = self.stages.iter().map(|stage| stage.share.max(0.0)).sum();
            let mut last = Stop::Exhausted;
            for (number, stage) in self.stages.iter().enumerate() {
                let part = if shares > 0.0 { stage.share.max(0.0) / shares } else { 1.0 };
                let granted = ((left as f64 * part).round() as u64).clamp(1, left.max(1));
                shares -= stage.share.max(0.0);
                let then = evaluator.evaluations();
                evaluator.begin_stage(stage.backend.name(), Some(granted), None);
                last = stage.backend.search(problem, mix(&[seed, round, number as u64]), evaluator);
                evaluator.begin_stage(stage.backend.name(), None, None);
                let proven = last == Stop::Exhausted && evaluator.is_optimal();
                let over =
                    matches!(last, Stop::Optimal | Stop::Target | Stop::Deadline | Stop::Interrupted | Stop::Failed);
                if over || proven {
                    return last;
                }
                if let Err(stop) = evaluator.poll() {
                    return stop;
                }
                left = left.saturating_sub(evaluator.evaluations() - then);
            }
            if evaluator.evaluations() == before {
                return last;
            }
        }
        Stop::Exhausted
    }
}

impl<P: Problem> Backend<P> for Portfolio<'_, P> {
    fn name(&self) -> &'static str {
        "portfolio"
    }

    fn identity(&self) -> String {
        let stages = self.stages.iter().map(|stage| format!("{} {}", stage.share, stage.backend.identity()));
        format!("Portfolio {:?}", stages.collect::<Vec<_>>())
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator)
    }
}
