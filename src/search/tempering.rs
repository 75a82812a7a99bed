//! Parallel tempering: chains at fixed temperatures side by side, neighbours exchanging their solutions.
//!
//! Swendsen and Wang 1986, "Replica Monte Carlo simulation of spin glasses"; Geyer 1991, "Markov chain Monte Carlo maximum
//! likelihood", section 6. Temperatures are a geometric ladder, relative to the objective.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::local::{Ground, Place, price, unit, worse};
use super::manual::{Page, Range, parameter};
use super::problem::Problem;
use super::stream::Stream;
use serde::{Deserialize, Serialize};

/// Parameters of parallel tempering.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tempering {
    /// Chains side by side.
    pub chains: usize,
    /// Highest temperature, as a share of the objective.
    pub hot: f64,
    /// Lowest temperature, as a share of the objective.
    pub cold: f64,
    /// Rounds between two exchanges.
    pub exchange: u64,
}

impl Default for Tempering {
    fn default() -> Self {
        Self { chains: 8, hot: 0.03, cold: 1e-4, exchange: 5 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "chains at fixed temperatures side by side, neighbours exchanging their solutions",
    source: "Swendsen and Wang 1986; Geyer 1991",
    when: "Coupled problems with many local optima, when the budget is not known beforehand: unlike annealing it has no \
           schedule to be cut short.",
    presets: &[],
    parameters: &[
        parameter("chains", "chains side by side", "this engine").within(Range::Whole(3, 20)),
        parameter("hot", "highest temperature, as a share of the objective", "as annealing, with room above")
            .within(Range::Log(0.003, 0.2)),
        parameter("cold", "lowest temperature, as a share of the objective", "as annealing")
            .within(Range::Log(1e-5, 1e-3)),
        parameter("exchange", "rounds between two exchanges", "this engine").within(Range::Whole(1, 40)),
    ],
};

impl Tempering {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let n = self.chains.max(1);
        let mut ground = Ground::new(problem);
        let begun = ground.begin(n, (seed, 0), evaluator)?;
        let mut chains: Vec<Place<P::Solution>> = begun.iter().cycle().take(n).cloned().collect();
        let ladder = |i: usize| self.cold * (self.hot / self.cold).powf(i as f64 / (n - 1).max(1) as f64);
        for round in 1.. {
            let (mut asked, mut steps, mut whose) = (Vec::new(), Vec::new(), Vec::new());
            for (number, chain) in chains.iter().enumerate() {
                let mut stream = Stream::new(seed, number as u64 + 1, round, 0);
                if let Some(step) = ground.propose(chain, &mut asked, &mut stream, evaluator)? {
                    whose.push((number, step.operator, stream.unit()));
                    steps.push(step);
                }
            }
            let unit = unit(evaluator);
            for ((number, operator, luck), place) in whose.into_iter().zip(price(steps, evaluator)?) {
                let by = worse(chains[number].score, place.score, unit);
                ground.selector.credit(operator, by < 0.0);
                if by <= 0.0 || luck < (-by / ladder(number)).exp() {
                    chains[number] = place;
                }
            }
            if round % self.exchange.max(1) == 0 {
                let mut stream = Stream::new(seed, 0, round, 1);
                for low in (0..n - 1).rev() {
                    // The colder chain gains by what the warmer one holds, or loses with a chance.
                    let by = worse(chains[low].score, chains[low + 1].score, unit);
                    let odds = by * (1.0 / ladder(low + 1) - 1.0 / ladder(low));
                    if by <= 0.0 || stream.unit() < odds.exp() {
                        chains.swap(low, low + 1);
                    }
                }
            }
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Tempering {
    fn name(&self) -> &'static str {
        "tempering"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
