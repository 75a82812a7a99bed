//! Monte Carlo tree search for one player: PUCT with the problem's prior, batches, bounds.
//!
//! Selection is PUCT (Rosin 2011, "Multi-armed bandits with episode context"; Silver 2017) over costs brought to [0, 1],
//! with visits under way counted as visits (WU-UCT, Liu 2020). What is fully explored is closed (MCTS-Solver, Winands
//! 2008), and so is what a bound says cannot beat the best. A tree that finds nothing new gives way to a fresh one.
//! Of prefixes that meet only the cheapest may go on: a table as in Childs, Brodeur and Kocsis 2008, "Transpositions and move
//! groups in Monte Carlo tree search", which closes what is dominated instead of sharing values: exact, and still a tree. Instead of PUCT: UCT (Kocsis and Szepesvari 2006), with the bonus for spread of SP-MCTS (Schadd et al. 2008,
//! "Single-player Monte-Carlo tree search", equation 2), and sequential halving at the root (Karnin et al. 2013; Cazenave
//! 2015, "Sequential halving applied to trees").
//!
//! Roll-outs follow the best path but for a few decisions, in several drafts of which the most promising is priced (module
//! `rollout`). Half of a batch makes the best path anew anywhere, from the root on, and is backed up along what the tree has
//! of it: what was decided early is mended late, which descents alone, whose prefixes grow longer and longer, do not do.

mod rollout;
mod tree;
mod value;

pub use value::ScaleKind;

use super::backend::Backend;
use super::budget::Stop;
use super::drafts;
use super::evaluator::Evaluator;
use super::problem::Problem;
use super::score::Score;
use super::stream::{Stream, mix};
use super::walk::{End, Walk};
use rollout::{Manner, RollOuts};
use serde::{Deserialize, Serialize};
use tree::{Reached, Tree};

/// Nodes of one tree, at about 200 bytes and its options each.
const MAX_NODES: usize = 2_000_000;

/// How visits are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// By the prior, less so the more often an option was visited (Rosin 2011, Silver 2017).
    Puct,
    /// Every option once, then by UCB1 (Kocsis and Szepesvari 2006, "Bandit based Monte-Carlo planning").
    Uct,
}

/// Parameters of tree search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcts {
    /// Weight of exploration.
    pub c: f64,
    /// How visits are shared.
    pub select: Select,
    /// Weight of a bonus for nodes whose visits were worth very different things.
    pub spread: f64,
    /// Whether the root's options are halved again and again, by what they were worth.
    pub halving: bool,
    /// Whether roll-outs and the order of options follow the prior.
    pub guided: bool,
    /// Share of the best in a node's value, the rest is the mean; in every second tree the other way round.
    pub mix: f64,
    /// How costs are brought to [0, 1].
    pub scale: ScaleKind,
    /// How much less than its parent an unvisited child is taken to be worth.
    pub first_play_reduction: f64,
    /// Descents before their solutions are priced together.
    pub batch: usize,
    /// Whether completions keep below the bound of what is known, where they can.
    pub bounded: bool,
    /// Evaluations without an improvement after which a fresh tree is grown; zero: an eighth of the budget.
    pub patience: u64,
    /// Share of noise in the priors of all trees but the first.
    pub noise: f32,
    /// Whether a prefix that meets another which spent no more is closed, where the problem says what meets.
    pub transposition: bool,
    /// Drafts of a completion, of which the most promising is priced, where the budget is small; fewer where it is large. One:
    /// the prior's draw.
    pub drafts: usize,
    /// Share of a batch that makes the best path anew in some places instead of descending the tree.
    pub polish: f64,
}

impl Default for Mcts {
    fn default() -> Self {
        Self {
            // c = 0.5, batches of 16 and restarts after an eighth of the budget were best or equal on sequences of layers
            // and on schedules; batches up to 64 lose nothing. Backing up the best came closer than the mean on layer-wise
            // plans and as close on chains (experiments/search_quality).
            c: 0.5,
            select: Select::Puct,
            spread: 0.0,
            halving: false,
            guided: true,
            mix: 1.0,
            scale: ScaleKind::Minmax,
            first_play_reduction: 0.0,
            batch: 16,
            bounded: true,
            patience: 0,
            noise: 0.25,
            transposition: false,
            drafts: 16,
            polish: 0.5,
        }
    }
}

/// An eighth of this many evaluations is the patience where the budget does not limit them.
const USUAL_BUDGET: u64 = 20_000;

impl Mcts {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let patience = match self.patience {
            0 => (evaluator.remaining().unwrap_or(USUAL_BUDGET) / 8).max(1),
            given => given,
        };
        let mut visits = 0;
        let mut rollouts = RollOuts::default();
        let drafts = drafts::affordable(self.drafts, evaluator.remaining());
        for number in 0.. {
            let noise = if number == 0 { 0.0 } else { self.noise };
            let mix_here = if number % 2 == 0 { self.mix } else { 1.0 - self.mix };
            let config = Self { mix: mix_here, drafts, ..self.clone() };
            let mut search = Search {
                config: &config,
                problem,
                tree: Tree::new(&config, mix(&[seed, number]), noise, 2 * patience),
                walk: Walk::new(problem),
                rollouts: &mut rollouts,
                seed,
                number,
                visits,
            };
            let mut best = f64::INFINITY;
            let mut improved = evaluator.evaluations();
            while evaluator.evaluations() - improved < patience && search.tree.len() < MAX_NODES {
                let reached = search.batch(evaluator)?;
                if reached < best {
                    (best, improved) = (reached, evaluator.evaluations());
                }
                if search.tree.is_closed() {
                    evaluator.proved();
                    return Ok(Stop::Exhausted);
                }
            }
            visits = search.visits;
        }
        Ok(Stop::Exhausted)
    }
}

struct Search<'p, P: Problem> {
    config: &'p Mcts,
    problem: &'p P,
    tree: Tree,
    walk: Walk<'p, P>,
    rollouts: &'p mut RollOuts,
    seed: u64,
    number: u64,
    visits: u64,
}

impl<P: Problem> Search<'_, P> {
    /// One batch of descents; the best objective among them.
    fn batch(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<f64, Stop> {
        let cutoff = evaluator.cutoff();
        let mut candidates = Vec::with_capacity(self.config.batch);
        let mut ways = Vec::with_capacity(self.config.batch);
        let batch = self.config.batch.max(1);
        // At least one descends, or nothing would ever be proven.
        let polished = match self.config.drafts > 1 && self.rollouts.has_best() {
            true => ((self.config.polish * batch as f64) as usize).min(batch - 1),
            false => 0,
        };
        let (descents, mut descended) = (batch - polished, 0);
        for index in 0..batch {
            let polish = index >= descents;
            // Where descents lead to nothing worth a price, neither would a change of the best path.
            if polish && (index - descents) * descents >= descended * polished {
                break;
            }
            let descent = match polish {
                true => {
                    self.walk.back_to(0);
                    Some((self.tree.stay(), Reached::Open))
                }
                false => self.tree.descend(self.config, &mut self.walk, self.problem, cutoff),
            };
            let Some((mut way, reached)) = descent else { break };
            self.visits += 1;
            let end = match reached {
                Reached::Complete => End::Complete,
                Reached::DeadEnd(violation) => End::DeadEnd(violation),
                Reached::Open => self.roll_out(cutoff, evaluator),
                Reached::Closing => {
                    evaluator.poll()?;
                    continue;
                }
            };
            match end {
                End::Complete => {
                    match polish {
                        true => self.tree.follow(&mut way, self.walk.path()),
                        false => descended += 1,
                    }
                    candidates.push(evaluator.candidate(self.walk.solution(), Some(self.walk.path())));
                    let genes = if self.config.drafts > 1 { self.walk.unwind(0) } else { Vec::new() };
                    ways.push((way, genes));
                }
                End::DeadEnd(violation) => {
                    self.tree.back_up(&way, violation.is_finite().then_some(Err(violation)));
                    evaluator.dead_end(violation)?;
                }
            }
        }
        let mut best = f64::INFINITY;
        for ((way, genes), score) in ways.into_iter().zip(evaluator.ask(candidates)?) {
            let cost = match score {
                Score::Feasible(objective) => Ok(objective),
                Score::Infeasible(violation) => Err(violation),
                Score::Failed => Err(f64::INFINITY),
            };
            best = cost.map_or(best, |objective| best.min(objective));
            self.tree.back_up(&way, Some(cost));
            if let Ok(objective) = cost
                && self.config.drafts > 1
            {
                self.rollouts.learn(genes, objective);
            }
        }
        debug_assert_eq!(self.tree.pending(), 0, "every visit that began has ended");
        Ok(best)
    }

    fn roll_out(&mut self, cutoff: Option<f64>, evaluator: &Evaluator<'_, P>) -> End {
        let mut stream = Stream::new(self.seed, self.number, self.visits, 1);
        let cutoff = cutoff.filter(|_| self.config.bounded);
        let Mcts { guided, drafts, .. } = *self.config;
        let problem = self.problem;
        let is_known = |state: &P::State| evaluator.seen(problem.key(&problem.solution(state))).is_some();
        self.rollouts.complete(&mut self.walk, Manner { guided, cutoff, drafts }, &is_known, &mut stream)
    }
}

impl<P: Problem> Backend<P> for Mcts {
    fn name(&self) -> &'static str {
        "mcts"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
