//! The space as a decision tree: how to cut the batch and into how many stages, which task, which strategy for embedding
//! and head, then for every stage and layer type runs of (strategy, length), strategies by rising memory.
//!
//! An option is only offered if the rest can still fit, so every path ends in a plan that fits. Rising memory makes that
//! a look at one number, and leaves one path to every multiset of strategies.

use super::branches::{Branch, Branches, strategy_allele, strategy_distance};
use super::problem::{GalvatronSpace, Partition};
use super::solution::Solution;
use super::{exact, moves};
use crate::search::decompose::Decompose;
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use crate::search::score::Score;
use xxhash_rust::xxh3::xxh3_128;

/// Where a path stands within the runs.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    /// Group of layers (stage, then type).
    group: u32,
    /// Layers of the group without a strategy.
    left: u32,
    /// Memory left on the stage, for this group and those after it, MB.
    free: u64,
    /// First strategy of the group that may still be taken.
    next: u32,
    /// A strategy without its run length yet.
    open: Option<u32>,
}

/// Decisions so far.
#[derive(Debug, Clone)]
pub struct Path {
    trunk: Option<u32>,
    branch: Option<u32>,
    embedding: Option<u32>,
    /// (group, choice, length) so far.
    runs: Vec<(u32, u32, u32)>,
    /// The place after each decision about runs; the first is the place after the embedding.
    places: Vec<Place>,
    /// Compute of the layers placed, by stage, ms.
    compute_ms: Vec<f64>,
}

/// What the next decision is about.
enum Turn<'a> {
    Trunk,
    Branch,
    Embedding(&'a Branch),
    Strategy(&'a Branch, &'a Place),
    Length(&'a Branch, &'a Place, u32),
    Done,
}

impl GalvatronSpace {
    /// The prepared first decisions.
    pub(super) fn branches(&self) -> &Branches {
        self.branches.get_or_init(|| Branches::of(self))
    }

    fn branch(&self, s: &Path) -> Option<&Branch> {
        self.branches().trunks.get(s.trunk? as usize)?.branches.get(s.branch? as usize)
    }

    fn turn<'a>(&'a self, s: &'a Path) -> Turn<'a> {
        if s.trunk.is_none() {
            return Turn::Trunk;
        }
        let Some(branch) = self.branch(s) else { return Turn::Branch };
        let Some(place) = s.places.last() else { return Turn::Embedding(branch) };
        match place.open {
            _ if place.group as usize == branch.groups.len() => Turn::Done,
            Some(choice) => Turn::Length(branch, place, choice),
            None => Turn::Strategy(branch, place),
        }
    }

    /// The place at the first group from `group` on that has layers.
    fn place(branch: &Branch, caps: &[u64], group: u32, free: u64) -> Place {
        let types = branch.counts[0].len() as u32;
        let mut at = group;
        let mut free = free;
        loop {
            let Some(g) = branch.groups.get(at as usize) else {
                return Place { group: at, left: 0, free: 0, next: 0, open: None };
            };
            if at.is_multiple_of(types) {
                free = caps[g.stage as usize];
            }
            let left = branch.counts[g.stage as usize][g.kind as usize];
            if left > 0 {
                return Place { group: at, left, free, next: 0, open: None };
            }
            at += 1;
        }
    }

    /// Memory that later groups of the same stage need at least, MB.
    fn later_mb(branch: &Branch, place: &Place) -> u64 {
        let stage = branch.groups[place.group as usize].stage;
        branch.groups[place.group as usize + 1..]
            .iter()
            .take_while(|g| g.stage == stage)
            .map(|g| u64::from(branch.counts[stage as usize][g.kind as usize]) * u64::from(g.choices[0].1))
            .sum()
    }

    /// Strategies on offer: from `place.next` as long as all layers left could take it.
    fn offered(branch: &Branch, place: &Place) -> u32 {
        let room = place.free.saturating_sub(Self::later_mb(branch, place));
        let choices = &branch.groups[place.group as usize].choices[place.next as usize..];
        choices.iter().take_while(|c| u64::from(c.1) * u64::from(place.left) <= room).count() as u32
    }

    /// The shortest run of `choice` after which the rest still fits.
    fn shortest(branch: &Branch, place: &Place, choice: u32) -> u32 {
        let choices = &branch.groups[place.group as usize].choices;
        let Some(dearer) = choices.get(choice as usize + 1) else { return place.left };
        let room = place.free.saturating_sub(Self::later_mb(branch, place));
        let (own, dearer) = (u64::from(choices[choice as usize].1), u64::from(dearer.1));
        let spare = room.saturating_sub(own * u64::from(place.left));
        let others = if dearer == own { u64::from(place.left) } else { spare / (dearer - own) };
        place.left.saturating_sub(others.min(u64::from(place.left)) as u32).max(1)
    }

    fn caps<'a>(branch: &'a Branch, s: &Path) -> &'a [u64] {
        s.embedding.map_or(&[], |e| &branch.embeddings[e as usize].1)
    }

    /// Objective that nothing below `s` can beat, ms.
    fn least_ms(&self, s: &Path, branch: &Branch) -> f64 {
        let table = self.table(branch.task as usize);
        let objective = self.objective(branch.task as usize);
        let stages = branch.counts.len() as u32;
        let embedding = s.embedding.map(|e| branch.embeddings[e as usize].0);
        let mut compute: Vec<f64> = (0..stages)
            .map(|stage| match embedding {
                Some(e) => table.other_ms(e as usize, stage),
                None => {
                    let each = branch.embeddings.iter().map(|e| table.other_ms(e.0 as usize, stage));
                    each.fold(f64::INFINITY, f64::min)
                }
            })
            .collect();
        for (index, g) in branch.groups.iter().enumerate() {
            let all = branch.counts[g.stage as usize][g.kind as usize];
            let left = match s.places.last() {
                Some(p) if (index as u32) < p.group => 0,
                Some(p) if index as u32 == p.group => p.left,
                _ => all,
            };
            compute[g.stage as usize] += f64::from(left) * g.least_ms;
        }
        for (c, placed) in compute.iter_mut().zip(&s.compute_ms) {
            *c += placed;
        }
        objective.steady_ms(&compute)
    }

    /// Identity of the question and of the model that prices it.
    fn identity(&self) -> u128 {
        *self.identity.get_or_init(|| xxh3_128(format!("galvatron 1 {:?} {:?}", self.model, self.partition).as_bytes()))
    }
}

/// Slots: three for the first decisions, then two for every run that a group can have.
fn slot(branch: &Branch, place: &Place, length: bool) -> u64 {
    let g = &branch.groups[place.group as usize];
    3 + ((u64::from(g.stage) << 16 | u64::from(g.kind) << 8 | u64::from(place.next.min(127))) << 1 | u64::from(length))
}

impl Problem for GalvatronSpace {
    type State = Path;
    type Solution = Solution;

    fn root(&self) -> Path {
        Path {
            trunk: None,
            branch: None,
            embedding: None,
            runs: Vec::new(),
            places: Vec::new(),
            compute_ms: Vec::new(),
        }
    }

    fn node(&self, s: &Path) -> Node {
        let choose = |slot: u64, options: usize| Node::Choose { slot, options: options as u32 };
        match self.turn(s) {
            Turn::Trunk if self.branches().trunks.is_empty() => Node::DeadEnd(1.0),
            Turn::Trunk => choose(0, self.branches().trunks.len()),
            Turn::Branch => {
                let trunk = s.trunk.map_or(0, |t| self.branches().trunks[t as usize].branches.len());
                choose(1, trunk)
            }
            Turn::Embedding(branch) => choose(2, branch.embeddings.len()),
            Turn::Strategy(branch, place) => choose(slot(branch, place, false), Self::offered(branch, place) as usize),
            Turn::Length(branch, place, choice) => {
                let options = place.left - Self::shortest(branch, place, choice) + 1;
                choose(slot(branch, place, true), options as usize)
            }
            Turn::Done => Node::Complete,
        }
    }

    fn allele(&self, s: &Path, option: u32) -> Allele {
        match self.turn(s) {
            Turn::Trunk => {
                let t = &self.tasks[self.branches().trunks[option as usize].branches[0].task as usize];
                u64::from(t.micro.global_batch) << 40 | u64::from(t.micro.chunks) << 8 | u64::from(t.pp.ilog2())
            }
            Turn::Branch => {
                let trunk = &self.branches().trunks[s.trunk.unwrap_or(0) as usize];
                let t = &self.tasks[trunk.branches[option as usize].task as usize];
                (t.mode as u64) << 8 | u64::from(t.buffer_tp.ilog2())
            }
            Turn::Embedding(branch) => {
                let (e, _) = branch.embeddings[option as usize];
                strategy_allele(&self.table(branch.task as usize).embeddings[e as usize].strategy)
            }
            Turn::Strategy(branch, place) => {
                let choice = branch.groups[place.group as usize].choices[(place.next + option) as usize];
                strategy_allele(&self.table(branch.task as usize).strategies[choice.0 as usize])
            }
            Turn::Length(_, place, _) => u64::from(place.left - option),
            Turn::Done => 0,
        }
    }

    fn nearest(&self, s: &Path, wanted: Allele) -> u32 {
        let Node::Choose { options, .. } = self.node(s) else { return 0 };
        if let Turn::Length(_, place, _) = self.turn(s) {
            let length = wanted.min(u64::from(place.left)) as u32;
            return (place.left - length).min(options - 1);
        }
        let distance = |option: u32| {
            let own = self.allele(s, option);
            match self.turn(s) {
                Turn::Trunk => {
                    let chunks = |a: Allele| (a >> 8 & 0xffff_ffff).max(1).ilog2();
                    let near = u64::from(chunks(own).abs_diff(chunks(wanted)));
                    (own >> 40).abs_diff(wanted >> 40) * 1024 + near * 2 + (own & 0xff).abs_diff(wanted & 0xff) * 3
                }
                Turn::Branch => (own >> 8).abs_diff(wanted >> 8) * 16 + (own & 0xff).abs_diff(wanted & 0xff),
                _ => strategy_distance(own, wanted),
            }
        };
        (0..options).min_by_key(|&o| (distance(o), o)).unwrap_or(0)
    }

    fn prior(&self, s: &Path, out: &mut [f32]) {
        // How fast weights fall with the bound: a tenth above the best weighs about a third.
        let weight = |bound: f64, best: f64| (-12.0 * (bound / best - 1.0)).exp() as f32;
        match self.turn(s) {
            Turn::Trunk => {
                let trunks = &self.branches().trunks;
                let best = trunks.iter().map(|t| t.bound_s).fold(f64::INFINITY, f64::min);
                for (w, t) in out.iter_mut().zip(trunks) {
                    *w = weight(t.bound_s, best);
                }
            }
            Turn::Branch => {
                let branches = &self.branches().trunks[s.trunk.unwrap_or(0) as usize].branches;
                let best = branches.iter().map(|b| b.bound_s).fold(f64::INFINITY, f64::min);
                for (w, b) in out.iter_mut().zip(branches) {
                    *w = weight(b.bound_s, best);
                }
            }
            Turn::Strategy(branch, place) => {
                let group = &branch.groups[place.group as usize];
                let rows = &self.table(branch.task as usize).rows[group.kind as usize];
                let time = |i: usize| {
                    let (id, _) = group.choices[place.next as usize + i];
                    let chunks = f64::from(self.tasks[branch.task as usize].micro.chunks);
                    rows[id as usize].compute_ms + rows[id as usize].sync_ms / chunks
                };
                let best = (0..out.len()).map(time).fold(f64::INFINITY, f64::min);
                for (i, w) in out.iter_mut().enumerate() {
                    *w = weight(time(i), best);
                }
            }
            // All that is left, or as little as lets the rest take the next strategy: the ends of the range.
            Turn::Length(..) => {
                let last = out.len() - 1;
                out.fill(0.5);
                (out[0], out[last]) = (2.0, 2.0);
            }
            _ => out.fill(1.0),
        }
    }

    fn push(&self, s: &mut Path, option: u32) {
        enum Step {
            Trunk,
            Branch,
            Embedding(Vec<f64>, Place),
            Strategy(Place),
            Length((u32, u32, u32), Place, usize, f64),
            Nothing,
        }
        let step = match self.turn(s) {
            Turn::Trunk => Step::Trunk,
            Turn::Branch => Step::Branch,
            Turn::Embedding(branch) => {
                let caps = &branch.embeddings[option as usize].1;
                Step::Embedding(vec![0.0; branch.counts.len()], Self::place(branch, caps, 0, 0))
            }
            Turn::Strategy(_, place) => Step::Strategy(Place { open: Some(place.next + option), ..place.clone() }),
            Turn::Length(branch, place, choice) => {
                let length = place.left - option;
                let group = &branch.groups[place.group as usize];
                let (id, mb) = group.choices[choice as usize];
                let free = place.free - u64::from(mb) * u64::from(length);
                let next = if length == place.left {
                    Self::place(branch, Self::caps(branch, s), place.group + 1, free)
                } else {
                    Place { group: place.group, left: place.left - length, free, next: choice + 1, open: None }
                };
                let row = &self.table(branch.task as usize).rows[group.kind as usize][id as usize];
                let ms = f64::from(length) * row.compute_ms;
                Step::Length((place.group, choice, length), next, group.stage as usize, ms)
            }
            Turn::Done => Step::Nothing,
        };
        match step {
            Step::Trunk => s.trunk = Some(option),
            Step::Branch => s.branch = Some(option),
            Step::Embedding(compute, place) => {
                s.embedding = Some(option);
                s.compute_ms = compute;
                s.places.push(place);
            }
            Step::Strategy(place) => s.places.push(place),
            Step::Length(run, place, stage, ms) => {
                s.runs.push(run);
                s.compute_ms[stage] += ms;
                s.places.push(place);
            }
            Step::Nothing => {}
        }
    }

    fn pop(&self, s: &mut Path) {
        if s.places.pop().is_some() {
            let Some(now) = s.places.last() else {
                s.embedding = None;
                s.compute_ms.clear();
                return;
            };
            // A place with an open strategy comes before a run length.
            if now.open.is_some()
                && let Some((group, ..)) = s.runs.pop()
                && let Some(branch) = self.branch(s)
            {
                // Summed anew, so that popping leaves no trace of rounding.
                let stage = branch.groups[group as usize].stage;
                let rows = &self.table(branch.task as usize).rows;
                let mut total = 0.0;
                for &(g, choice, length) in &s.runs {
                    let other = &branch.groups[g as usize];
                    if other.stage == stage {
                        let id = other.choices[choice as usize].0 as usize;
                        total += f64::from(length) * rows[other.kind as usize][id].compute_ms;
                    }
                }
                s.compute_ms[stage as usize] = total;
            }
        } else if s.branch.take().is_none() {
            s.trunk = None;
        }
    }

    fn bound(&self, s: &Path) -> Bound {
        let trunks = &self.branches().trunks;
        let least = |bounds: &mut dyn Iterator<Item = f64>| Bound::AtLeast(bounds.fold(f64::INFINITY, f64::min));
        match (s.trunk, self.branch(s)) {
            (None, _) if trunks.is_empty() => Bound::Infeasible,
            (None, _) => least(&mut trunks.iter().map(|t| t.bound_s)),
            (Some(t), None) => Bound::AtLeast(trunks[t as usize].bound_s),
            (_, Some(branch)) => {
                let ms = self.least_ms(s, branch) * (1.0 - exact::SAME);
                Bound::AtLeast(self.objective_s(branch.task as usize, ms))
            }
        }
    }

    fn solution(&self, s: &Path) -> Solution {
        let Some(branch) = self.branch(s) else { return Solution { task: 0, embedding: 0, stages: Vec::new() } };
        let mut stages = vec![Vec::new(); branch.counts.len()];
        for &(group, choice, length) in &s.runs {
            let g = &branch.groups[group as usize];
            stages[g.stage as usize].push((g.kind, g.choices[choice as usize].0, length));
        }
        for counts in &mut stages {
            counts.sort_unstable();
        }
        let embedding = s.embedding.map_or(0, |e| branch.embeddings[e as usize].0);
        Solution { task: branch.task, embedding, stages }
    }

    fn key(&self, x: &Solution) -> Key128 {
        let mut bytes = self.identity().to_le_bytes().to_vec();
        bytes.extend_from_slice(&x.task.to_le_bytes());
        bytes.extend_from_slice(&x.embedding.to_le_bytes());
        for counts in &x.stages {
            bytes.extend_from_slice(&u32::MAX.to_le_bytes());
            for (kind, id, n) in counts {
                for word in [kind, id, n] {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
        Key128(xxh3_128(&bytes))
    }

    fn score(&self, x: &Solution, _fidelity: Fidelity) -> Score {
        if x.stages.is_empty() {
            return Score::Failed;
        }
        let worth = self.worth(x);
        if worth.excess > 0.0 { Score::infeasible(worth.excess) } else { Score::feasible(worth.objective_s) }
    }

    fn space_log10(&self) -> Option<f64> {
        Some(self.branches().space_log10)
    }

    fn decompose(&self) -> Option<&dyn Decompose<Solution = Solution>> {
        (self.partition == Partition::Even && self.model.setting.limits.per_layer).then_some(self)
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = Solution>> {
        Some(moves::of(self))
    }
}
