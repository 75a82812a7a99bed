//! Neighbours of a plan: some layers to another strategy, one strategy for another, another embedding, another task, one
//! stage's filling for all.

use super::branches::{Branch, strategy_allele, strategy_distance};
use super::problem::GalvatronSpace;
use super::solution::Solution;
use crate::search::problem::{Allele, Moves, Node, Problem};

/// The moves of a space.
pub(super) fn of(space: &GalvatronSpace) -> &dyn Moves<Solution = Solution> {
    space
}

impl GalvatronSpace {
    fn branch_of(&self, task: u32) -> Option<(u32, u32, &Branch)> {
        self.branches().trunks.iter().enumerate().find_map(|(t, trunk)| {
            let b = trunk.branches.iter().position(|b| b.task == task)?;
            Some((t as u32, b as u32, &trunk.branches[b]))
        })
    }

    /// `x` with every strategy replaced by the nearest one that `to` has.
    fn carried(&self, x: &Solution, to: &Branch) -> Option<Solution> {
        let from = self.table(x.task as usize);
        let table = self.table(to.task as usize);
        let nearest = |wanted: Allele, ids: &mut dyn Iterator<Item = (u32, Allele)>| {
            ids.min_by_key(|&(id, own)| (strategy_distance(own, wanted), id)).map(|n| n.0)
        };
        let wanted = strategy_allele(&from.embeddings[x.embedding as usize].strategy);
        let mut embeddings =
            to.embeddings.iter().map(|e| (e.0, strategy_allele(&table.embeddings[e.0 as usize].strategy)));
        let embedding = nearest(wanted, &mut embeddings)?;
        let types = to.counts[0].len();
        // Shares of strategies by type over the whole model, dealt out again stage by stage.
        let mut stages = Vec::with_capacity(to.counts.len());
        let mut runs: Vec<Vec<(Allele, u32)>> = vec![Vec::new(); types];
        for counts in &x.stages {
            for &(kind, id, n) in counts {
                runs[kind as usize].push((strategy_allele(&from.strategies[id as usize]), n));
            }
        }
        for (stage, counts) in to.counts.iter().enumerate() {
            let mut filled: Vec<(u32, u32, u32)> = Vec::new();
            for kind in 0..types {
                let group = &to.groups[stage * types + kind];
                let mut left = counts[kind];
                while left > 0 {
                    let (wanted, n) = runs[kind].first_mut()?;
                    let take = left.min(*n);
                    let mut ids = group.choices.iter().map(|c| (c.0, strategy_allele(&table.strategies[c.0 as usize])));
                    add(&mut filled, kind as u32, nearest(*wanted, &mut ids)?, take);
                    left -= take;
                    *n -= take;
                    if *n == 0 {
                        runs[kind].remove(0);
                    }
                }
            }
            stages.push(filled);
        }
        Some(Solution { task: to.task, embedding, stages })
    }
}

/// Adds layers to counts, which stay sorted.
fn add(counts: &mut Vec<(u32, u32, u32)>, kind: u32, id: u32, n: u32) {
    match counts.iter_mut().find(|c| (c.0, c.1) == (kind, id)) {
        Some(c) => c.2 += n,
        None => counts.push((kind, id, n)),
    }
    counts.sort_unstable();
}

impl Moves for GalvatronSpace {
    type Solution = Solution;

    fn kinds(&self) -> u32 {
        5
    }

    fn neighbour(&self, x: &Solution, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<Solution> {
        let mut pick = |n: usize| if n == 0 { 0 } else { (random() % n as u64) as usize };
        let (trunk, _, branch) = self.branch_of(x.task)?;
        let types = branch.counts[0].len();
        let mut y = x.clone();
        match kind {
            // Some layers of a run to another strategy; or all of them.
            0 | 1 => {
                let stage = pick(y.stages.len());
                let run = pick(y.stages[stage].len());
                let (layer_type, id, n) = *y.stages[stage].get(run)?;
                let choices = &branch.groups[stage * types + layer_type as usize].choices;
                let others: Vec<u32> = choices.iter().map(|c| c.0).filter(|&o| o != id).collect();
                let to = *others.get(pick(others.len()))?;
                let moved = if kind == 1 { n } else { 1 + pick(n as usize) as u32 };
                y.stages[stage][run].2 -= moved;
                y.stages[stage].retain(|c| c.2 > 0);
                add(&mut y.stages[stage], layer_type, to, moved);
            }
            2 => {
                let others: Vec<u32> = branch.embeddings.iter().map(|e| e.0).filter(|&e| e != x.embedding).collect();
                y.embedding = *others.get(pick(others.len()))?;
            }
            // A neighbouring task: of the same trunk, or of the trunk before or after.
            3 => {
                let trunks = &self.branches().trunks;
                let t = (trunk as usize + [0, 1, trunks.len() - 1][pick(3)]) % trunks.len();
                let to = &trunks[t].branches[pick(trunks[t].branches.len())];
                if to.task == x.task {
                    return None;
                }
                y = self.carried(x, to)?;
            }
            // One stage's filling for every stage with as many layers of each type that offers the same.
            _ => {
                let from = pick(y.stages.len());
                let model = y.stages[from].clone();
                let offered = |stage: usize, kind: u32, id: u32| {
                    branch.groups[stage * types + kind as usize].choices.iter().any(|c| c.0 == id)
                };
                for (stage, counts) in branch.counts.iter().enumerate() {
                    if *counts == branch.counts[from] && model.iter().all(|c| offered(stage, c.0, c.1)) {
                        y.stages[stage].clone_from(&model);
                    }
                }
            }
        }
        (y != *x).then_some(y)
    }

    fn alleles(&self, x: &Solution) -> Vec<Allele> {
        let Some((trunk, branch, prepared)) = self.branch_of(x.task) else { return Vec::new() };
        let Some(embedding) = prepared.embeddings.iter().position(|e| e.0 == x.embedding) else { return Vec::new() };
        let mut s = self.root();
        let mut out = Vec::new();
        let types = prepared.counts[0].len();
        let mut take = |s: &mut _, option: u32| {
            out.push(self.allele(s, option));
            self.push(s, option);
        };
        for option in [trunk, branch, embedding as u32] {
            take(&mut s, option);
        }
        for (stage, counts) in x.stages.iter().enumerate() {
            for kind in 0..types {
                let choices = &prepared.groups[stage * types + kind].choices;
                let rank = |id: u32| choices.iter().position(|c| c.0 == id);
                let mut runs: Vec<(Option<usize>, u32, u32)> =
                    counts.iter().filter(|c| c.0 as usize == kind).map(|c| (rank(c.1), c.1, c.2)).collect();
                runs.sort_unstable();
                for (_, id, n) in runs {
                    let wanted = strategy_allele(&self.table(x.task as usize).strategies[id as usize]);
                    for allele in [wanted, u64::from(n)] {
                        if matches!(self.node(&s), Node::Choose { .. }) {
                            let option = self.nearest(&s, allele);
                            take(&mut s, option);
                        }
                    }
                }
            }
        }
        out
    }
}
