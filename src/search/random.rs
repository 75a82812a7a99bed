//! Random search: uniform descents, none twice where that can be known. The floor that every other backend must beat.
//!
//! The tree of prefixes is grown by one node per descent, and what is explored is closed. A small tree is therefore
//! enumerated and proven, a large one is sampled.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::{Candidate, Evaluator};
use super::problem::{Node, Problem};
use super::stream::Stream;
use super::walk::{End, PriorSampler, Walk};
use serde::{Deserialize, Serialize};

/// Nodes of the tree of prefixes; about 100 MB. Beyond it, repetitions are possible.
const MAX_NODES: usize = 2_000_000;
const CLOSED: u32 = u32::MAX;
/// Descents of one batch, so that it ends where all of them do at dead ends.
const MOST_DESCENTS: usize = 1_024;

/// Parameters of random search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// Draw by the problem's prior instead of uniformly below what has been visited.
    pub prior: bool,
    /// Solutions asked for at once; any number gives the same solutions in the same order.
    pub batch: usize,
}

impl Default for Random {
    fn default() -> Self {
        // Uniform: a floor that knows nothing. Batch: enough to keep a socket's cores busy.
        Self { prior: false, batch: 64 }
    }
}

struct Prefix {
    parent: u32,
    option: u32,
    open: u32,
    /// Options seen, in order, and where they lead.
    children: Vec<(u32, u32)>,
}

enum Found {
    Path,
    DeadEnd(f64),
}

struct Sampler<'p, P: Problem> {
    walk: Walk<'p, P>,
    nodes: Vec<Prefix>,
    priors: PriorSampler,
    prior: bool,
}

impl<'p, P: Problem> Sampler<'p, P> {
    fn new(problem: &'p P, prior: bool) -> Self {
        Self { walk: Walk::new(problem), nodes: Vec::new(), priors: PriorSampler::default(), prior }
    }

    fn is_exhausted(&self) -> bool {
        self.nodes.first().is_some_and(|root| root.open == 0)
    }

    /// Walks to a path that was not walked before, as far as is known.
    fn descend(&mut self, stream: &mut Stream) -> Found {
        self.walk.back_to(0);
        let (mut parent, mut via) = (CLOSED, 0);
        let mut id = 0;
        loop {
            if id == self.nodes.len() as u32 {
                match self.walk.node() {
                    Node::Choose { options, .. } if options > 0 => {
                        self.nodes.push(Prefix { parent, option: via, open: options, children: Vec::new() });
                        if options > 1 && parent != CLOSED {
                            return self.roll_out(stream);
                        }
                    }
                    leaf => {
                        self.close(parent, via);
                        return match leaf {
                            Node::DeadEnd(violation) => Found::DeadEnd(violation),
                            Node::Choose { .. } => Found::DeadEnd(f64::INFINITY),
                            Node::Complete => Found::Path,
                        };
                    }
                }
            }
            let node = &mut self.nodes[id as usize];
            let option = node.draw(stream);
            self.walk.push(option);
            let next = match node.children.binary_search_by_key(&option, |child| child.0) {
                Ok(at) => node.children[at].1,
                Err(_) if !self.walk.is_promising(None) => {
                    let found = match self.walk.node() {
                        Node::DeadEnd(violation) => violation,
                        _ => f64::INFINITY,
                    };
                    self.close(id, option);
                    return Found::DeadEnd(found);
                }
                Err(_) if self.nodes.len() >= MAX_NODES => return self.roll_out(stream),
                Err(at) => {
                    let next = self.nodes.len() as u32;
                    self.nodes[id as usize].children.insert(at, (option, next));
                    next
                }
            };
            (parent, via) = (id, option);
            id = next;
        }
    }

    fn roll_out(&mut self, stream: &mut Stream) -> Found {
        let (priors, prior) = (&mut self.priors, self.prior);
        let end = self.walk.complete(None, |decision| match prior {
            true => priors.draw(&decision, stream),
            false => stream.below(u64::from(decision.options)) as u32,
        });
        match end {
            End::Complete => Found::Path,
            End::DeadEnd(violation) => Found::DeadEnd(violation),
        }
    }

    /// Closes `option` of node `id`, and every prefix above that has nothing open any more.
    fn close(&mut self, mut id: u32, mut option: u32) {
        if id == CLOSED {
            // The root itself is a leaf.
            self.nodes.push(Prefix { parent: CLOSED, option: 0, open: 0, children: Vec::new() });
            return;
        }
        loop {
            let node = &mut self.nodes[id as usize];
            match node.children.binary_search_by_key(&option, |child| child.0) {
                Ok(at) => node.children[at].1 = CLOSED,
                Err(at) => node.children.insert(at, (option, CLOSED)),
            }
            node.open -= 1;
            if node.open > 0 || node.parent == CLOSED {
                return;
            }
            node.children = Vec::new();
            (id, option) = (node.parent, node.option);
        }
    }
}

impl Prefix {
    /// A uniform option among those that are open.
    fn draw(&self, stream: &mut Stream) -> u32 {
        let mut option = stream.below(u64::from(self.open)) as u32;
        for (seen, child) in &self.children {
            if *child == CLOSED && *seen <= option {
                option += 1;
            }
        }
        option
    }
}

/// What one descent came to: a solution and its path, or a violation.
type Descent<S> = Result<(S, Vec<u32>), f64>;

impl<P: Problem> Sampler<'_, P> {
    /// At most `count` paths, and where other descents ended between them. Nothing when all is explored.
    fn batch(&mut self, count: usize, seed: u64, visit: &mut u64) -> Vec<Descent<P::Solution>> {
        let (mut descents, mut paths) = (Vec::with_capacity(count), 0);
        while paths < count && !self.is_exhausted() && descents.len() < MOST_DESCENTS {
            let mut stream = Stream::new(seed, 0, *visit, 0);
            *visit += 1;
            match self.descend(&mut stream) {
                Found::Path => {
                    paths += 1;
                    descents.push(Ok((self.walk.solution(), self.walk.path().to_vec())));
                }
                Found::DeadEnd(violation) => descents.push(Err(violation)),
            }
        }
        descents
    }
}

impl Random {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut sampler = Sampler::new(problem, self.prior);
        let (count, mut visit) = (self.batch.max(1), 0);
        let mut descents = sampler.batch(count, seed, &mut visit);
        while !descents.is_empty() {
            let mut batch: Vec<Candidate<P::Solution>> = Vec::with_capacity(count);
            for descent in descents {
                match descent {
                    Ok((solution, path)) => batch.push(evaluator.candidate(solution, Some(&path))),
                    Err(violation) => evaluator.dead_end(violation)?,
                }
            }
            // The next batch depends on no score, so it is drawn while this one is priced.
            let (mut next, (sampler, visit)) = (Vec::new(), (&mut sampler, &mut visit));
            let asked = rayon::in_place_scope(|scope| {
                scope.spawn(|_| next = sampler.batch(count, seed, visit));
                evaluator.ask(batch)
            });
            asked?;
            descents = next;
        }
        evaluator.proved();
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
