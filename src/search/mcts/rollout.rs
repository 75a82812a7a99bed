//! Completions of what the tree has reached, several drafts each, of which the most promising is priced.
//!
//! A draft is drawn by the prior, or follows the best path found so far but for a window of decisions made anew: nested Monte Carlo
//! search follows the best sequence it remembers (Cazenave 2009, "Nested Monte-Carlo search"), large-neighbourhood search
//! says what to make anew (Shaw 1998). What a draft is worth is guessed from what changes of decisions were worth, as a
//! linear value function (Silver, Sutton and Mueller 2012, "Temporal-difference search in computer Go", on linear features
//! in roll-outs; here they are learned from differences, module `effects`).

use super::super::drafts;
use super::super::effects::{Change, Effects};
use super::super::genome::{Gene, Genome};
use super::super::problem::Problem;
use super::super::stream::Stream;
use super::super::walk::{Decision, End, PriorSampler, Walk};
use std::ops::Range;

/// Decisions of a window, at most (as the largest windows of large-neighbourhood search here).
const WINDOW: usize = 10;
/// Share of the windows that are runs; the others are scattered.
const RUNS: f64 = 0.5;
/// Share of the drafts that follow the best path.
const FOLLOW: f64 = 0.95;

/// The best path so far and its objective.
struct Best {
    genome: Genome,
    objective: f64,
}

/// A way to complete a path.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// By the prior instead of any option alike.
    pub guided: bool,
    /// The objective to keep below, where that can be.
    pub cutoff: Option<f64>,
    /// Drafts at most; with one only, nothing is followed.
    pub drafts: usize,
}

/// Where a path is completed.
pub(super) struct Desk<'p, P: Problem> {
    pub walk: Walk<'p, P>,
    priors: PriorSampler,
}

impl<'p, P: Problem> Desk<'p, P> {
    pub fn new(problem: &'p P) -> Self {
        Self { walk: Walk::new(problem), priors: PriorSampler::default() }
    }

    /// Stands at the end of `path`.
    pub fn stand(&mut self, path: &[u32]) {
        let shared = path.iter().zip(self.walk.path()).take_while(|(a, b)| a == b).count();
        self.walk.back_to(shared);
        path[shared..].iter().for_each(|option| self.walk.push(*option));
    }
}

impl<P: Problem> Clone for Desk<'_, P> {
    fn clone(&self) -> Self {
        Self { walk: self.walk.clone(), priors: self.priors.clone() }
    }
}

/// What has been learned from paths that were priced.
#[derive(Default)]
pub(super) struct RollOuts {
    effects: Effects,
    best: Option<Best>,
}

impl RollOuts {
    /// Whether there is a path to follow.
    pub fn has_best(&self) -> bool {
        self.best.is_some()
    }

    /// Completes the path on which a desk stands. `is_known` tells what was asked for before.
    pub fn complete<P: Problem>(
        &self,
        Desk { walk, priors }: &mut Desk<'_, P>,
        manner: Manner,
        is_known: &dyn Fn(&P::State) -> bool,
        stream: &mut Stream,
    ) -> End {
        let Some(best) = self.best.as_ref().filter(|_| manner.drafts > 1) else {
            return draw(walk, priors, manner, |_| None, stream);
        };
        let wanted = drafts::next(manner.drafts, stream);
        let depth = walk.path().len();
        let prefix = walk.unwind(&[]);
        prefix.iter().for_each(|gene| walk.push(gene.option));
        let goal = best.genome.genes();
        let mut chosen: Option<(bool, f64, Vec<Gene>)> = None;
        let mut violation = f64::INFINITY;
        for number in 0..manner.drafts {
            // One draft more than was wanted, and again, as long as all of them are known.
            if number >= wanted && chosen.as_ref().is_some_and(|(known, ..)| !known) {
                break;
            }
            let open = Window::draw(depth.min(goal.len())..goal.len(), stream);
            let follows = stream.chance(FOLLOW);
            let kept = |decision: &Decision<'_, P>| {
                let at = best.genome.find(decision.slot, decision.depth)?;
                (follows && !open.has(at)).then(|| decision.problem.nearest(decision.state, goal[at].allele))
            };
            match draw(walk, priors, manner, kept, stream) {
                End::Complete => {
                    let known = is_known(walk.state());
                    let genes = walk.unwind(&prefix);
                    let guess = self.effects.guess(goal, &genes);
                    if chosen.as_ref().is_none_or(|(before, least, _)| (known, guess) < (*before, *least)) {
                        chosen = Some((known, guess, genes));
                    }
                }
                End::DeadEnd(least) => {
                    violation = violation.min(least);
                    walk.back_to(depth);
                }
            }
        }
        let Some((.., genes)) = chosen else { return End::DeadEnd(violation) };
        genes[depth..].iter().for_each(|gene| walk.push(gene.option));
        End::Complete
    }

    /// Learns what a path costs.
    pub fn learn(&mut self, genes: Vec<Gene>, objective: f64) {
        if let Some(best) = &self.best {
            self.effects.learn(&Change::between(best.genome.genes(), &genes), objective - best.objective);
        }
        if self.best.as_ref().is_none_or(|best| objective < best.objective) {
            self.best = Some(Best { genome: Genome::new(genes), objective });
        }
    }
}

/// Decisions to be made anew: a run, or scattered ones.
struct Window {
    run: Range<usize>,
    scattered: Vec<usize>,
}

impl Window {
    fn draw(within: Range<usize>, stream: &mut Stream) -> Self {
        let size = (1 + stream.index(WINDOW)).min(within.len());
        if stream.chance(RUNS) {
            let start = within.start + stream.index(within.len() - size + 1);
            return Self { run: start..start + size, scattered: Vec::new() };
        }
        let scattered = (0..size).map(|_| within.start + stream.index(within.len())).collect();
        Self { run: 0..0, scattered }
    }

    fn has(&self, at: usize) -> bool {
        self.run.contains(&at) || self.scattered.contains(&at)
    }
}

fn draw<P: Problem>(
    walk: &mut Walk<'_, P>,
    priors: &mut PriorSampler,
    manner: Manner,
    kept: impl Fn(&Decision<'_, P>) -> Option<u32>,
    stream: &mut Stream,
) -> End {
    walk.complete(manner.cutoff, |decision| match kept(&decision) {
        Some(option) => option,
        None if manner.guided => priors.draw(&decision, stream),
        None => stream.below(u64::from(decision.options)) as u32,
    })
}
