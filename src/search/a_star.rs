//! Best-first search by the bound: the prefix that promises most is extended next.
//!
//! Hart, Nilsson and Raphael 1968, "A formal basis for the heuristic determination of minimum cost paths"; options of a node
//! are looked at in blocks, the most promising first (partial expansion: Yoshizumi, Miura and Ishida 2000). Every prefix
//! that is extended is also completed by the prior, so that there is an answer at any time (Hansen and Zhou 2007, "Anytime
//! heuristic search"). The smallest bound that waits is a bound on everything; a queue that ends is a proof.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::manual::{Page, Range, parameter};
use super::problem::{Node, Problem};
use super::stream::usable;
use super::walk::{Decision, End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Parameters of best-first search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AStar {
    /// Prefixes extended before their completions are priced together.
    pub batch: usize,
    /// Prefixes kept in all; beyond them nothing is proven.
    pub nodes: usize,
}

impl Default for AStar {
    fn default() -> Self {
        Self { batch: 8, nodes: 200_000 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "extends the prefix of the smallest bound, and completes it by the prior",
    source: "Hart, Nilsson and Raphael 1968; Yoshizumi 2000; Hansen and Zhou 2007",
    when: "Tight bounds and paths of some tens of decisions: it proves with the fewest prefixes, and raises the bound as it \
           goes. Where bounds are loose its memory fills before it gets deep. The seed changes nothing.",
    presets: &[],
    parameters: &[
        parameter("batch", "prefixes extended before completions are priced together", "a batch for eight threads")
            .within(Range::Whole(1, 32)),
        parameter("nodes", "prefixes kept in all", "seconds of one core, tens of megabytes"),
    ],
};

/// Options of a node that are looked at first; then as many again as were.
const BLOCK: usize = 64;
const ROOT: u32 = u32::MAX;

struct Kept {
    parent: u32,
    option: u32,
    /// Options looked at so far.
    listed: u32,
    /// Negative logarithm of the prior so far.
    surprise: f64,
}

/// A prefix that waits: smallest bound first, then the longest, then the likeliest, then the oldest.
struct Waiting {
    bound: f64,
    depth: u32,
    surprise: f64,
    node: u32,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let by = self.bound.total_cmp(&other.bound).then(other.depth.cmp(&self.depth));
        by.then(self.surprise.total_cmp(&other.surprise)).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

struct Search<'p, P: Problem> {
    problem: &'p P,
    walk: Walk<'p, P>,
    priors: PriorSampler,
    kept: Vec<Kept>,
    queue: BinaryHeap<Reverse<Waiting>>,
    most: usize,
    dropped: bool,
}

impl<P: Problem> Search<'_, P> {
    fn walk_to(&mut self, node: u32) {
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            let Kept { parent, option, .. } = self.kept[at as usize];
            if parent != ROOT || at != 0 {
                path.push(option);
            }
            at = parent;
        }
        path.reverse();
        let shared = self.walk.path().iter().zip(&path).take_while(|(a, b)| a == b).count();
        self.walk.back_to(shared);
        path[shared..].iter().for_each(|option| self.walk.push(*option));
    }

    /// Puts the next options of `from` into the queue.
    fn extend(&mut self, from: Waiting, options: u32, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let cutoff = evaluator.cutoff();
        let depth = self.walk.path().len();
        let Kept { listed, surprise, .. } = self.kept[from.node as usize];
        let until = (listed as usize + BLOCK.max(listed as usize)).min(options as usize);
        let decision = Decision { problem: self.problem, state: self.walk.state(), depth, slot: 0, options };
        let weights = self.priors.weights(&decision);
        let total = weights.iter().map(|w| usable(*w)).sum::<f64>().max(f64::MIN_POSITIVE);
        let mut order: Vec<u32> = (0..options).collect();
        let heavier =
            |a: &u32, b: &u32| usable(weights[*b as usize]).total_cmp(&usable(weights[*a as usize])).then(a.cmp(b));
        if until < order.len() {
            order.select_nth_unstable_by(until, heavier);
            order.truncate(until);
        }
        order.sort_unstable_by(heavier);
        for option in order.drain(..).skip(listed as usize) {
            let likely = (usable(weights[option as usize]) / total).max(f64::MIN_POSITIVE);
            self.walk.push(option);
            if let Node::DeadEnd(violation) = self.walk.node() {
                evaluator.dead_end(violation)?;
            } else if self.walk.is_promising(cutoff) {
                if self.kept.len() >= self.most {
                    self.dropped = true;
                } else {
                    let surprise = surprise - likely.ln();
                    let node = self.kept.len() as u32;
                    self.kept.push(Kept { parent: from.node, option, listed: 0, surprise });
                    let bound = self.walk.bound();
                    self.queue.push(Reverse(Waiting { bound, depth: depth as u32 + 1, surprise, node }));
                }
            }
            self.walk.pop();
        }
        if until < options as usize {
            self.kept[from.node as usize].listed = until as u32;
            self.queue.push(Reverse(from));
        }
        Ok(())
    }
}

impl AStar {
    fn run<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut search = Search {
            problem,
            walk: Walk::new(problem),
            priors: PriorSampler::default(),
            kept: vec![Kept { parent: ROOT, option: 0, listed: 0, surprise: 0.0 }],
            queue: BinaryHeap::new(),
            most: self.nodes.max(1),
            dropped: false,
        };
        let bound = search.walk.bound();
        search.queue.push(Reverse(Waiting { bound, depth: 0, surprise: 0.0, node: 0 }));
        loop {
            let mut batch = Vec::new();
            // Nothing waits for its price here: what is not in the queue is priced or cannot beat the best.
            if let Some(Reverse(first)) = search.queue.peek()
                && !search.dropped
                && evaluator.cutoff().is_none_or(|cutoff| first.bound < cutoff)
            {
                evaluator.raise_bound(first.bound);
            }
            for _ in 0..self.batch.max(1) {
                let cutoff = evaluator.cutoff();
                let Some(Reverse(next)) = search.queue.pop() else { break };
                if cutoff.is_some_and(|cutoff| next.bound >= cutoff) {
                    search.queue.clear();
                    break;
                }
                search.walk_to(next.node);
                match search.walk.node() {
                    Node::Complete => batch.push(evaluator.candidate(search.walk.solution(), Some(search.walk.path()))),
                    Node::DeadEnd(violation) => evaluator.dead_end(violation)?,
                    Node::Choose { options, .. } => {
                        search.extend(next, options, evaluator)?;
                        let Search { walk, priors, .. } = &mut search;
                        if walk.complete(cutoff, |decision| priors.best(&decision)) == End::Complete {
                            let found = evaluator.candidate(walk.solution(), Some(walk.path()));
                            match evaluator.seen(found.key) {
                                None => batch.push(found),
                                Some(_) => evaluator.repeated(),
                            }
                        }
                    }
                }
            }
            evaluator.ask(batch)?;
            if search.queue.is_empty() {
                break;
            }
        }
        if !search.dropped {
            evaluator.proved();
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for AStar {
    fn name(&self) -> &'static str {
        "a_star"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, evaluator).unwrap_or_else(|stop| stop)
    }
}
