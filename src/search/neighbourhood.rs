//! Large-neighbourhood search: a window of decisions is taken back, and made again by the prior.
//!
//! Shaw 1998, "Using constraint programming and local search methods to solve vehicle routing problems". Windows are runs of
//! decisions, or scattered ones; a new solution is taken when it is better, or by the rule of annealing at a temperature that
//! falls (Ropke and Pisinger 2006, "An adaptive large neighborhood search heuristic", section 3.5). Windows may also be
//! solved exactly (module `window`).

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::genome::Wish;
use super::local::{Ground, Place, Step, price, unit, worse};
use super::manual::{Page, Preset, Range, parameter};
use super::problem::Problem;
use super::stream::Stream;
use super::window;
use serde::{Deserialize, Serialize};

/// Parameters of large-neighbourhood search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Neighbourhood {
    /// Decisions of the smallest window.
    pub least: usize,
    /// Decisions of the largest window.
    pub most: usize,
    /// Windows priced together.
    pub batch: usize,
    /// First temperature, as a share of the objective.
    pub hot: f64,
    /// Share of the windows that are runs; the others are scattered.
    pub runs: f64,
    /// Share of the rounds that solve one window exactly before the others are drawn.
    pub exact: f64,
    /// Looks at labels, or combinations priced, of one exact window.
    pub work: u64,
}

impl Default for Neighbourhood {
    fn default() -> Self {
        Self { least: 2, most: 10, batch: 8, hot: 0.005, runs: 0.6, exact: 0.0, work: 20_000 }
    }
}

/// Evaluations over which the temperature falls where the budget does not limit them.
const USUAL_BUDGET: u64 = 20_000;
/// Last temperature over the first.
const COLD: f64 = 0.01;
/// Combinations of an exact window that is enumerated: every one is priced.
const ENUMERATED: u64 = 64;
/// Attempts at a window that leads to something new.
const ATTEMPTS: usize = 4;

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "takes back a window of decisions and makes them again by the prior",
    source: "Shaw 1998; Ropke and Pisinger 2006",
    when: "A good prior and decisions that hang together in runs: layers of a stage, operations of a device.",
    presets: &[Preset {
        name: "exact",
        meaning: "every second round solves a window by dynamic programming where the problem decomposes, else by enumeration",
        source: "Shaw 1998; window sizes as in the defaults",
        parameters: r#"{"exact": 0.5}"#,
    }],
    parameters: &[
        parameter("least", "decisions of the smallest window", "two: fewer are single moves")
            .within(Range::Whole(1, 6)),
        parameter("most", "decisions of the largest window", "6 to 12 layers re-solved at once")
            .within(Range::Whole(4, 30)),
        parameter("batch", "windows priced together", "this engine").within(Range::Whole(2, 32)),
        parameter(
            "hot",
            "first temperature, as a share of the objective",
            "Ropke and Pisinger 2006: 5 % accepted half the time, less here",
        )
        .within(Range::Log(0.0005, 0.05)),
        parameter("runs", "share of the windows that are runs", "this engine").within(Range::Share(0.0, 1.0)),
        parameter("exact", "share of the rounds that also solve one window exactly", "off: chains are for `exact`")
            .within(Range::Share(0.0, 0.5)),
        parameter("work", "label extensions of an exact window", "milliseconds of one core"),
    ],
};

impl Neighbourhood {
    fn window(&self, n: usize, stream: &mut Stream) -> Vec<bool> {
        let least = self.least.clamp(1, n.max(1));
        let size = (least + stream.index(self.most.max(least) - least + 1)).min(n);
        let mut open = vec![false; n];
        if stream.chance(self.runs) {
            let start = stream.index(n - size + 1);
            open[start..start + size].fill(true);
        } else {
            (0..size).for_each(|_| open[stream.index(n)] = true);
        }
        open
    }

    /// The best of an exact window of `here`, where that is better.
    fn solve<P: Problem>(
        &self,
        ground: &mut Ground<'_, P>,
        here: &Place<P::Solution>,
        stream: &mut Stream,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Option<Place<P::Solution>>, Stop> {
        let problem = ground.problem;
        let size = self.least.max(1) + stream.index(self.most.max(self.least) - self.least + 1);
        let made = match problem.decompose().is_some() && here.score.is_feasible() {
            true => {
                let found = window::by_chain(problem, &here.solution, size, self.work, stream, evaluator);
                let path = found.and_then(|found| ground.decoder.encode(&found, stream));
                path.into_iter().collect()
            }
            false => window::all(&mut ground.decoder, &here.genome, size, self.work.min(ENUMERATED), stream),
        };
        let mut steps: Vec<Step<P::Solution>> = Vec::new();
        for (genome, solution) in made {
            let key = problem.key(&solution);
            if evaluator.seen(key).is_none() && steps.iter().all(|step| step.key != key) {
                steps.push(Step { genome, solution, key, operator: 0 });
            }
        }
        if steps.is_empty() {
            evaluator.repeated();
            evaluator.poll()?;
            return Ok(None);
        }
        let found = price(steps, evaluator)?.into_iter().min_by_key(|place| (place.score, place.key));
        Ok(found.filter(|found| found.score < here.score))
    }

    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut ground = Ground::new(problem);
        let begun = ground.begin(1, (seed, 0), evaluator)?;
        let Some(mut here) = begun.into_iter().next() else { return Ok(Stop::Exhausted) };
        let whole = evaluator.remaining().unwrap_or(USUAL_BUDGET).max(1) as f64;
        let first = evaluator.evaluations();
        for round in 1.. {
            if self.exact > 0.0 {
                let mut stream = Stream::new(seed, 3, round, 0);
                if stream.chance(self.exact)
                    && let Some(better) = self.solve(&mut ground, &here, &mut stream, evaluator)?
                {
                    here = better;
                }
            }
            let (mut asked, mut steps) = (Vec::new(), Vec::new());
            for index in 0..self.batch.max(1) {
                let mut stream = Stream::new(seed, 1, round, index as u64);
                let n = here.genome.genes().len();
                for _ in 0..ATTEMPTS {
                    let open = self.window(n, &mut stream);
                    let likely = stream.chance(0.8);
                    let genome = &here.genome;
                    let made = ground.decoder.decode(&mut stream, |decision, _| {
                        match genome.find(decision.slot, decision.depth) {
                            Some(gene) if !open[gene] => Wish::Allele(genome.genes()[gene].allele),
                            _ if likely => Wish::Likely,
                            _ => Wish::Any,
                        }
                    });
                    match made {
                        Ok((genome, solution)) => {
                            let key = problem.key(&solution);
                            if evaluator.seen(key).is_none() && !asked.contains(&key) {
                                asked.push(key);
                                steps.push(Step { genome, solution, key, operator: 0 });
                                break;
                            }
                            evaluator.repeated();
                        }
                        Err(violation) => evaluator.dead_end(violation)?,
                    }
                }
            }
            evaluator.poll()?;
            let unit = unit(evaluator);
            let spent = (evaluator.evaluations() - first) as f64 / whole;
            let temperature = self.hot * COLD.powf(spent.min(1.0));
            for (index, place) in price(steps, evaluator)?.into_iter().enumerate() {
                let by = worse(here.score, place.score, unit);
                let luck = Stream::new(seed, 2, round, index as u64).unit();
                if by <= 0.0 || luck < (-by / temperature).exp() {
                    here = place;
                }
            }
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Neighbourhood {
    fn name(&self) -> &'static str {
        "neighbourhood"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
