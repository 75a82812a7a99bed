//! The tree: visits, values and what is closed because nothing in it is left to try.
//!
//! Wide nodes list their most promising options first and more of them once those are visited, so that a node of a
//! million options costs what its visits cost. All counters of visits are 64 bit.

use super::super::problem::{Meeting, Node as Kind, Problem};
use super::super::stream::{mix, usable};
use super::super::walk::{Decision, PriorSampler, Walk};
use super::value::{Scale, Value};
use super::{Mcts, Select};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Relative rounding of sums of what was spent.
const ROUNDING: f64 = 1e-12;
/// The root's parent.
const NOBODY: u32 = u32::MAX;
/// Options a node lists at first.
const LISTED: usize = 64;
/// Edges closed in one descent before the clock is looked at.
const CLOSINGS: u32 = 4_096;

struct Edge {
    option: u32,
    prior: f32,
    child: u32,
}

struct Node {
    parent: u32,
    via: u32,
    visits: u64,
    pending: u64,
    value: Value,
    bound: f64,
    /// Options, zero until expanded.
    options: u32,
    open: u32,
    closed: bool,
    /// Options visited that are not closed.
    edges: Vec<Edge>,
    /// Options listed and not visited yet, the most promising last.
    waiting: Vec<(u32, f32)>,
    /// Options listed so far.
    listed: u32,
}

/// Added to the variance of a node that was visited once, less for every visit (Schadd 2008: D, there of scores).
const SPREAD_OF_FEW: f64 = 0.1;

/// What to follow from a node.
enum Choice {
    Visited(usize),
    New,
}

/// How a descent ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reached {
    /// At a node whose completion is to be sampled.
    Open,
    /// At a complete path.
    Complete,
    /// At a node without completions; its violation.
    DeadEnd(f64),
    /// Nowhere yet: so much was closed on the way that it is time to look at the clock.
    Closing,
}

pub(super) struct Tree {
    nodes: Vec<Node>,
    scale: Scale,
    salt: u64,
    noise: f32,
    pending: u64,
    priors: PriorSampler,
    /// Whether options are listed by the prior.
    guided: bool,
    /// By what completions depend on: what the cheapest prefix to it spent, and its node.
    met: HashMap<u128, (f64, u32), FixedState>,
    /// Visits after which the root is to be down to one option, where it is halved.
    horizon: u64,
}

impl Tree {
    /// An empty tree. Different salts break ties differently; `noise` disturbs the priors; `horizon` is how many visits
    /// are to be expected.
    pub fn new(config: &Mcts, salt: u64, noise: f32, horizon: u64) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            scale: Scale::new(config.scale),
            salt,
            noise,
            pending: 0,
            priors: PriorSampler::default(),
            guided: config.guided,
            met: HashMap::default(),
            horizon: horizon.max(1),
        };
        tree.add(NOBODY, 0, f64::NEG_INFINITY);
        tree
    }

    pub fn is_closed(&self) -> bool {
        self.nodes[0].closed
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Visits under way, over all nodes.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    fn add(&mut self, parent: u32, via: u32, bound: f64) -> u32 {
        self.nodes.push(Node {
            parent,
            via,
            visits: 0,
            pending: 0,
            value: Value::default(),
            bound,
            options: 0,
            open: 0,
            closed: false,
            edges: Vec::new(),
            waiting: Vec::new(),
            listed: 0,
        });
        self.nodes.len() as u32 - 1
    }

    /// Walks from the root to a node that was not visited before, and marks the way as pending. `None` when all is closed.
    pub fn descend<P: Problem>(
        &mut self,
        config: &Mcts,
        walk: &mut Walk<'_, P>,
        problem: &P,
        cutoff: Option<f64>,
    ) -> Option<(Vec<u32>, Reached)> {
        let mut closed = 0;
        'restart: loop {
            walk.back_to(0);
            let mut way = vec![0];
            loop {
                if self.is_closed() {
                    return None;
                }
                let id = way[way.len() - 1];
                if self.nodes[id as usize].options == 0 {
                    match walk.node() {
                        Kind::Choose { options, .. } if options > 0 => {
                            self.expand(id, options, problem, walk);
                            if options > 1 && way.len() > 1 {
                                return Some((self.begin(way), Reached::Open));
                            }
                        }
                        leaf => {
                            self.close(id);
                            let reached = match leaf {
                                Kind::DeadEnd(violation) => Reached::DeadEnd(violation),
                                Kind::Choose { .. } => Reached::DeadEnd(f64::INFINITY),
                                Kind::Complete => Reached::Complete,
                            };
                            return Some((self.begin(way), reached));
                        }
                    }
                }
                let Some(choice) = self.choose(id, config, cutoff, problem, walk) else {
                    continue 'restart;
                };
                let node = &mut self.nodes[id as usize];
                let (option, prior) = match choice {
                    Choice::Visited(edge) => {
                        let Edge { option, child, .. } = node.edges[edge];
                        walk.push(option);
                        way.push(child);
                        continue;
                    }
                    Choice::New => match node.waiting.pop() {
                        Some(waiting) => waiting,
                        None => continue 'restart,
                    },
                };
                walk.push(option);
                if let Kind::DeadEnd(violation) = walk.node() {
                    self.close_option(id);
                    return Some((self.begin(way), Reached::DeadEnd(violation)));
                }
                let meeting = if config.transposition { problem.meeting(walk.state()) } else { None };
                if !walk.is_promising(cutoff) || meeting.is_some_and(|meeting| self.leads_nowhere_new(meeting)) {
                    self.close_option(id);
                    closed += 1;
                    if closed == CLOSINGS {
                        return Some((Vec::new(), Reached::Closing));
                    }
                    if self.nodes[id as usize].closed {
                        continue 'restart;
                    }
                    walk.pop();
                    continue;
                }
                let edges = self.nodes[id as usize].edges.len() as u32;
                let child = self.add(id, edges, walk.bound());
                self.nodes[id as usize].edges.push(Edge { option, prior, child });
                way.push(child);
                if let Some(Meeting { key, spent }) = meeting
                    && let Some((_, dearer)) = self.met.insert(key, (spent, child))
                    && self.is_open(dearer)
                    && !way.contains(&dearer)
                {
                    self.close(dearer);
                }
            }
        }
    }

    /// Whether neither a node nor anything above it is closed.
    fn is_open(&self, mut id: u32) -> bool {
        while id != NOBODY {
            let node = &self.nodes[id as usize];
            if node.closed {
                return false;
            }
            id = node.parent;
        }
        true
    }

    /// Whether a prefix with the same completions spent no more: whatever this one leads to, that one leads to something as
    /// good.
    fn leads_nowhere_new(&self, meeting: Meeting) -> bool {
        self.met.get(&meeting.key).is_some_and(|(spent, _)| meeting.spent >= spent - ROUNDING * spent.abs())
    }

    fn begin(&mut self, way: Vec<u32>) -> Vec<u32> {
        self.pending += way.len() as u64;
        for id in &way {
            self.nodes[*id as usize].pending += 1;
        }
        way
    }

    /// Begins a visit that goes nowhere yet.
    pub fn stay(&mut self) -> Vec<u32> {
        self.begin(vec![0])
    }

    /// Lets a visit of the root go along `path` as far as the tree knows it.
    pub fn follow(&mut self, way: &mut Vec<u32>, path: &[u32]) {
        let mut id = 0;
        for option in path {
            let Some(edge) = self.nodes[id as usize].edges.iter().find(|edge| edge.option == *option) else { return };
            id = edge.child;
            self.nodes[id as usize].pending += 1;
            self.pending += 1;
            way.push(id);
        }
    }

    /// Ends a visit: `cost` is the objective it led to or the violation, `None` where it led to no price.
    pub fn back_up(&mut self, way: &[u32], cost: Option<Result<f64, f64>>) {
        if let Some(Ok(objective)) = cost {
            self.scale.note(objective);
        }
        for id in way {
            let node = &mut self.nodes[*id as usize];
            let ended = node.pending.min(1);
            node.pending -= ended;
            self.pending -= ended;
            node.visits = node.visits.saturating_add(1);
            if let Some(cost) = cost {
                node.value.note(cost);
            }
        }
    }

    fn close(&mut self, mut id: u32) {
        loop {
            let node = &mut self.nodes[id as usize];
            node.closed = true;
            node.edges = Vec::new();
            node.waiting = Vec::new();
            let (parent, via) = (node.parent, node.via as usize);
            if parent == NOBODY {
                return;
            }
            let above = &mut self.nodes[parent as usize];
            above.edges.swap_remove(via);
            above.open -= 1;
            let open = above.open;
            if let Some(moved) = above.edges.get(via).map(|edge| edge.child) {
                self.nodes[moved as usize].via = via as u32;
            }
            if open > 0 {
                return;
            }
            id = parent;
        }
    }

    /// Closes an option that was never visited.
    fn close_option(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        node.open -= 1;
        if node.open == 0 {
            self.close(id);
        }
    }

    fn expand<P: Problem>(&mut self, id: u32, options: u32, problem: &P, walk: &Walk<'_, P>) {
        let node = &mut self.nodes[id as usize];
        node.options = options;
        node.open = options;
        self.list(id, problem, walk);
    }

    /// Lists more options of a node, the most promising first: as many again as are listed.
    fn list<P: Problem>(&mut self, id: u32, problem: &P, walk: &Walk<'_, P>) {
        let node = &self.nodes[id as usize];
        let (options, listed) = (node.options, node.listed as usize);
        if options == 1 {
            let node = &mut self.nodes[id as usize];
            node.listed = 1;
            node.waiting.push((0, 1.0));
            return;
        }
        let decision = Decision { problem, state: walk.state(), depth: walk.path().len(), slot: 0, options };
        let weights = self.priors.weights(&decision);
        let total: f64 = weights.iter().map(|w| usable(*w)).sum();
        let total = if total.is_finite() && self.guided { total } else { 0.0 };
        let (salt, noise) = (self.salt, self.noise);
        let mut ranked: Vec<(f32, u64, u32)> = (0..options)
            .map(|option| {
                let even = 1.0 / f64::from(options);
                let prior = if total > 0.0 { usable(weights[option as usize]) / total } else { even };
                let tie = mix(&[salt, u64::from(id), u64::from(option)]);
                let random = (tie >> 40) as f32 / (1u32 << 24) as f32;
                let prior = (1.0 - noise) * prior as f32 + noise * 2.0 * random * even as f32;
                (prior, tie, option)
            })
            .collect();
        let order = |a: &(f32, u64, u32), b: &(f32, u64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let until = (listed + LISTED.max(listed)).min(ranked.len());
        if until < ranked.len() {
            ranked.select_nth_unstable_by(until, order);
            ranked.truncate(until);
        }
        ranked.sort_unstable_by(order);
        let node = &mut self.nodes[id as usize];
        node.waiting.extend(ranked[listed..].iter().rev().map(|(prior, _, option)| (*option, *prior)));
        node.listed = until as u32;
    }

    /// What to follow from an expanded node. Closes children that cannot beat `cutoff` any more; `None` when that
    /// closes the node.
    fn choose<P: Problem>(
        &mut self,
        id: u32,
        config: &Mcts,
        cutoff: Option<f64>,
        problem: &P,
        walk: &Walk<'_, P>,
    ) -> Option<Choice> {
        let beaten = |bound: f64| cutoff.is_some_and(|cutoff| bound >= cutoff);
        let mut at = 0;
        while let Some(child) = self.nodes[id as usize].edges.get(at).map(|edge| edge.child) {
            if beaten(self.nodes[child as usize].bound) {
                self.close(child);
            } else {
                at += 1;
            }
        }
        let node = &self.nodes[id as usize];
        if node.closed {
            return None;
        }
        if node.waiting.is_empty() && node.listed < node.options {
            self.list(id, problem, walk);
        }
        let node = &self.nodes[id as usize];
        let first = node.value.normalised(&self.scale, config.mix).unwrap_or(0.5) - config.first_play_reduction;
        let visits = (node.visits + node.pending).max(1) as f64;
        if config.halving && id == 0 && node.parent == NOBODY {
            return Some(self.halved(first, config));
        }
        let spread = config.c * visits.sqrt();
        let new = node.waiting.last().map(|(_, prior)| match config.select {
            Select::Puct => (Choice::New, first + spread * f64::from(*prior)),
            Select::Uct => (Choice::New, f64::INFINITY),
        });
        let visited = node.edges.iter().enumerate().map(|(number, edge)| {
            let child = &self.nodes[edge.child as usize];
            let value = child.value.normalised(&self.scale, config.mix).unwrap_or(first);
            let tried = (child.visits + child.pending) as f64;
            let explore = match config.select {
                Select::Puct => spread * f64::from(edge.prior) / (1.0 + tried),
                Select::Uct => config.c * (visits.ln() / tried.max(1.0)).sqrt(),
            };
            let bonus = match config.spread > 0.0 {
                true => config.spread * (child.value.variance(&self.scale) + SPREAD_OF_FEW / tried.max(1.0)).sqrt(),
                false => 0.0,
            };
            (Choice::Visited(number), value + explore + bonus)
        });
        // The first stands where no urgency is a number.
        let more_urgent = |best: (Choice, f64), next: (Choice, f64)| if next.1 > best.1 { next } else { best };
        new.into_iter().chain(visited).reduce(more_urgent).map(|(choice, _)| choice)
    }

    /// What to follow from the root when it is halved: all options at first, then the better half, and so on; of those the
    /// one visited least.
    fn halved(&self, first: f64, config: &Mcts) -> Choice {
        let node = &self.nodes[0];
        let all = (node.edges.len() + node.waiting.len()).max(1);
        let rounds = (all as f64).log2().ceil().max(1.0);
        let spent = (node.visits + node.pending) as f64 / self.horizon as f64;
        let round = (spent * rounds).min(rounds).floor() as i32;
        if round == 0 && !node.waiting.is_empty() {
            return Choice::New;
        }
        let left = ((all as f64 / 2f64.powi(round)).ceil() as usize).max(1);
        let value = |edge: &Edge| self.nodes[edge.child as usize].value.normalised(&self.scale, config.mix);
        let mut ranked: Vec<(f64, usize)> =
            node.edges.iter().enumerate().map(|(number, edge)| (value(edge).unwrap_or(first), number)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let tried = |number: usize| {
            let child = &self.nodes[node.edges[number].child as usize];
            child.visits + child.pending
        };
        let least = ranked.iter().take(left).map(|(_, number)| *number).min_by_key(|number| (tried(*number), *number));
        least.map_or(Choice::New, Choice::Visited)
    }
}
