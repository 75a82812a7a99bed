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
use super::candidate::Way;
use super::desks::Desks;
use super::drafts;
use super::evaluator::{Evaluator, Question};
use super::genome::Gene;
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::{Stream, mix};
use super::walk::{End, Walk};
use rollout::{Desk, Manner, RollOuts};
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
        let mut desks = Desks::new(Desk::new(problem));
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
                desks: &mut desks,
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

struct Search<'s, 'p, P: Problem> {
    config: &'s Mcts,
    problem: &'p P,
    tree: Tree,
    walk: Walk<'p, P>,
    rollouts: &'s mut RollOuts,
    desks: &'s mut Desks<Desk<'p, P>>,
    seed: u64,
    number: u64,
    visits: u64,
}

impl<P: Problem> Search<'_, '_, P> {
    /// One batch of descents; the best objective among them.
    fn batch(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<f64, Stop> {
        let cutoff = evaluator.cutoff();
        let batch = self.config.batch.max(1);
        // At least one descends, or nothing would ever be proven.
        let polished = match self.config.drafts > 1 && self.rollouts.has_best() {
            true => ((self.config.polish * batch as f64) as usize).min(batch - 1),
            false => 0,
        };
        let descents = batch - polished;
        let (begun, is_whole) = self.descend(descents, cutoff, evaluator)?;
        let mut leaves = self.complete(begun, cutoff, evaluator)?;
        // Where descents lead to nothing worth a price, neither would a change of the best path.
        if is_whole {
            let worth = (0..polished).take_while(|number| number * descents < leaves.len() * polished).count();
            let stays = (0..worth).map(|_| {
                self.visits += 1;
                Begun { way: self.tree.stay(), path: Vec::new(), visit: self.visits, reached: Reached::Open }
            });
            let stays = stays.collect();
            let mut polished = self.complete(stays, cutoff, evaluator)?;
            polished.iter_mut().for_each(|leaf| self.tree.follow(&mut leaf.way, &leaf.path));
            leaves.append(&mut polished);
        }
        let questions: Vec<_> = leaves
            .iter()
            .map(|Leaf { solution, key, path, .. }| Question { solution, key: *key, way: Way::Options(path) })
            .collect();
        let scores = evaluator.ask_about(&questions)?;
        let mut best = f64::INFINITY;
        for (Leaf { way, genes, .. }, score) in leaves.into_iter().zip(scores) {
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

    /// At most `count` ways down the tree, and whether they are as many.
    fn descend(
        &mut self,
        count: usize,
        cutoff: Option<f64>,
        evaluator: &Evaluator<'_, P>,
    ) -> Result<(Vec<Begun>, bool), Stop> {
        let mut begun = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((way, reached)) = self.tree.descend(self.config, &mut self.walk, self.problem, cutoff) else {
                return Ok((begun, false));
            };
            self.visits += 1;
            match reached {
                Reached::Closing => evaluator.poll()?,
                _ => begun.push(Begun { way, path: self.walk.path().to_vec(), visit: self.visits, reached }),
            }
        }
        Ok((begun, true))
    }

    /// Completes what was begun, side by side. Dead ends are counted and backed up.
    fn complete(
        &mut self,
        begun: Vec<Begun>,
        cutoff: Option<f64>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Leaf<P::Solution>>, Stop> {
        let Mcts { guided, drafts, bounded, .. } = *self.config;
        let manner = Manner { guided, cutoff: cutoff.filter(|_| bounded), drafts };
        let (problem, rollouts, record) = (self.problem, &*self.rollouts, evaluator.record());
        let (seed, number) = (self.seed, self.number);
        let is_known = |state: &P::State| record.seen(problem.key(&problem.solution(state))).is_some();
        let ends = self.desks.make(begun.len(), |desk, index| {
            let Begun { path, visit, reached, .. } = &begun[index];
            desk.stand(path);
            let end = match reached {
                Reached::Complete => End::Complete,
                Reached::DeadEnd(violation) => End::DeadEnd(*violation),
                Reached::Open | Reached::Closing => {
                    let mut stream = Stream::new(seed, number, *visit, 1);
                    rollouts.complete(desk, manner, &is_known, &mut stream)
                }
            };
            match end {
                End::DeadEnd(violation) => Err(violation),
                End::Complete => {
                    let solution = desk.walk.solution();
                    let (key, path) = (problem.key(&solution), desk.walk.path().to_vec());
                    let genes = if drafts > 1 { desk.walk.unwind(&[]) } else { Vec::new() };
                    Ok(Leaf { way: Vec::new(), solution, key, path, genes })
                }
            }
        });
        let mut leaves = Vec::with_capacity(ends.len());
        for (Begun { way, .. }, end) in begun.into_iter().zip(ends) {
            match end {
                Ok(leaf) => leaves.push(Leaf { way, ..leaf }),
                Err(violation) => {
                    self.tree.back_up(&way, violation.is_finite().then_some(Err(violation)));
                    evaluator.dead_end(violation)?;
                }
            }
        }
        Ok(leaves)
    }
}

/// A visit under way.
struct Begun {
    /// The nodes visited.
    way: Vec<u32>,
    /// The options that lead there.
    path: Vec<u32>,
    /// Its number.
    visit: u64,
    reached: Reached,
}

/// A solution at the end of a visit.
struct Leaf<S> {
    way: Vec<u32>,
    solution: S,
    key: Key128,
    path: Vec<u32>,
    /// Its decisions, where something is learned from them.
    genes: Vec<Gene>,
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
