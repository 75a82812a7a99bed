//! Dynamic programming with labels: all undominated ways to fill a segment, then all undominated ways to cut the chain.
//!
//! A label is a partial segment, grown from its last item towards its first: cost vector, resource, peak, layout of the
//! item in front (label setting for the resource-constrained shortest path; Irnich and Desaulniers 2005). A label is
//! dropped when another of its layout is nowhere worse, when its Lagrangian completion exceeds what the incumbent allows,
//! or, with a tolerance, when another costs the objective at most a stated amount more; what may be lost is accounted for.

use super::relax::{Anywhere, Relaxation, insert_fold, resource};
use crate::search::decompose::{COSTS, Chain, ChainSolution, Cost, Cuts, FixedItem, Fold};

/// Limits of one run.
#[derive(Debug, Clone, Copy)]
pub struct LabelLimits {
    /// Only solutions below this objective are looked for.
    pub incumbent: f64,
    /// How much the objective may lose in all by near-dominance; 0 is exact.
    pub tolerance: f64,
    /// Most labels kept per window; beyond it the run stays a heuristic.
    pub max_labels: usize,
    /// Most steps (label extensions and dominance tests) in all; beyond it the run gives up.
    pub max_steps: u64,
}

/// What a run found.
#[derive(Debug, Clone)]
pub struct LabelOutcome {
    /// The best solution below the incumbent.
    pub best: Option<ChainSolution>,
    /// Whether every better solution was ruled out, but for the tolerance.
    pub complete: bool,
    /// Label extensions and dominance tests made.
    pub steps: u64,
}

/// Labels extended, or tested, between two looks whether to stop.
const LOOK: usize = 256;

/// Labels kept for the dominance test per label kept after it: the test takes quadratic time.
const PREFILTER: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Label {
    cost: Cost,
    used: f64,
    peak: f64,
    layout: u16,
    option: u32,
    parent: u32,
}

#[derive(Debug, Default)]
struct Node {
    labels: Vec<Label>,
    parent: usize,
    children: Vec<(u32, usize)>,
}

/// Windows that share their items, from the last backwards, share their labels.
struct Windows<'c, 'a> {
    chain: &'c Chain<'a>,
    limits: LabelLimits,
    limit: f64,
    slack: f64,
    weights: Cost,
    least_weights: Cost,
    nodes: Vec<Node>,
    complete: bool,
    steps: u64,
    halted: &'c dyn Fn() -> bool,
    /// Whether it was told to stop.
    stopped: bool,
}

fn add(a: &Cost, b: &Cost) -> Cost {
    std::array::from_fn(|k| a[k] + b[k])
}

impl<'c, 'a> Windows<'c, 'a> {
    fn new(chain: &'c Chain<'a>, limits: LabelLimits, halted: &'c dyn Fn() -> bool) -> Self {
        let slack = limits.tolerance / chain.items.len().max(1) as f64;
        Self {
            chain,
            limits,
            limit: chain.combine.primary_limit(limits.incumbent),
            slack,
            weights: chain.combine.weights(),
            least_weights: chain.combine.least_weights(),
            nodes: Vec::new(),
            complete: true,
            steps: 0,
            halted,
            stopped: false,
        }
    }

    /// Looks, now and then, whether to stop.
    fn is_to_stop(&mut self, number: usize) -> bool {
        self.stopped |= number.is_multiple_of(LOOK) && (self.halted)();
        self.stopped
    }

    fn root(&mut self) -> usize {
        let start = Label { cost: [0.0; COSTS], used: 0.0, peak: 0.0, layout: u16::MAX, option: u32::MAX, parent: 0 };
        self.nodes.push(Node { labels: vec![start], ..Node::default() });
        self.nodes.len() - 1
    }

    /// Puts an item in front of the windows of `node`. `behind` is the class of the item that was in front, `rest` bounds
    /// the primary cost still to come.
    fn extend(
        &mut self,
        node: usize,
        item: FixedItem,
        behind: Option<(u32, bool)>,
        segment: usize,
        cap: f64,
        rest: &dyn Fn(f64, f64) -> Option<f64>,
    ) -> usize {
        let class = self.chain.items[item.item as usize];
        let mut fresh: Vec<(f64, f64, Label)> = Vec::new();
        for parent in 0..self.nodes[node].labels.len() {
            if self.exhausted() || self.is_to_stop(parent) {
                break;
            }
            let label = &self.nodes[node].labels[parent];
            for (index, option) in self.chain.options[class as usize].iter().enumerate() {
                self.steps += 1;
                let used = label.used + resource(option, item.multiplier);
                let peak = label.peak.max(option.peak);
                if used + peak > cap {
                    continue;
                }
                let mut cost = add(&label.cost, &option.cost);
                if item.lead {
                    cost = add(&cost, &option.lead);
                }
                match behind {
                    Some((later, true)) if label.layout != option.layout => {
                        cost = add(&cost, &self.chain.transition.between(later, option.layout, label.layout));
                    }
                    Some((later, false)) => {
                        cost = add(&cost, &self.chain.transition.rejoin(segment, later, label.layout));
                    }
                    _ => {}
                }
                let primary = self.chain.combine.primary(&cost);
                let Some(more) = rest(used, peak) else { continue };
                if primary + more > self.limit {
                    continue;
                }
                let layout = option.layout;
                fresh.push((
                    primary,
                    primary + more,
                    Label { cost, used, peak, layout, option: index as u32, parent: parent as u32 },
                ));
            }
        }
        let labels = self.undominated(fresh);
        self.nodes.push(Node { labels, parent: node, children: Vec::new() });
        self.nodes.len() - 1
    }

    /// Keeps what nothing covers; `fresh` holds (primary cost, estimate of the completed window, label).
    fn undominated(&mut self, mut fresh: Vec<(f64, f64, Label)>) -> Vec<Label> {
        let most = self.limits.max_labels * PREFILTER;
        if fresh.len() > most {
            self.complete = false;
            fresh.select_nth_unstable_by(most, |a, b| {
                let tie = || a.2.parent.cmp(&b.2.parent).then(a.2.option.cmp(&b.2.option));
                a.1.total_cmp(&b.1).then(a.2.used.total_cmp(&b.2.used)).then_with(tie)
            });
            fresh.truncate(most);
        }
        fresh.sort_by(|a, b| {
            let tie = || a.2.parent.cmp(&b.2.parent).then(a.2.option.cmp(&b.2.option));
            (a.2.layout.cmp(&b.2.layout)).then(a.0.total_cmp(&b.0)).then(a.2.used.total_cmp(&b.2.used)).then_with(tie)
        });
        let mut kept: Vec<(f64, f64, Label)> = Vec::new();
        let mut group = 0;
        for (number, (primary, estimate, x)) in fresh.into_iter().enumerate() {
            if self.is_to_stop(number) {
                break;
            }
            if kept.len() > group && kept[group].2.layout != x.layout {
                group = kept.len();
            }
            self.steps += (kept.len() - group) as u64;
            let covered = kept[group..].iter().any(|(_, _, y)| {
                if y.used > x.used || y.peak > x.peak {
                    return false;
                }
                let worse: f64 = (0..COSTS)
                    .map(|k| {
                        let more = y.cost[k] - x.cost[k];
                        more * if more > 0.0 { self.weights[k] } else { self.least_weights[k] }
                    })
                    .sum();
                worse <= self.slack
            });
            if !covered {
                kept.push((primary, estimate, x));
            }
        }
        if kept.len() > self.limits.max_labels {
            self.complete = false;
            kept.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.2.used.total_cmp(&b.2.used)));
            kept.truncate(self.limits.max_labels);
        }
        kept.into_iter().map(|(_, _, l)| l).collect()
    }

    /// Options of the items of a window, first item first.
    fn trace(&self, mut node: usize, mut label: usize) -> Vec<u32> {
        let mut options = Vec::new();
        loop {
            let l = &self.nodes[node].labels[label];
            if l.option == u32::MAX {
                return options;
            }
            options.push(l.option);
            label = l.parent as usize;
            node = self.nodes[node].parent;
        }
    }

    fn exhausted(&self) -> bool {
        self.stopped || self.steps > self.limits.max_steps
    }
}

/// Where a fold came from.
#[derive(Debug, Clone, Copy)]
struct Back {
    node: usize,
    label: usize,
    end: usize,
    state: usize,
}

/// Solves `chain` for objectives below the incumbent; `halted` makes it give up.
pub fn solve(chain: &Chain, relaxation: &Relaxation, limits: LabelLimits, halted: &dyn Fn() -> bool) -> LabelOutcome {
    let windows = Windows::new(chain, limits, halted);
    match &chain.cuts {
        Cuts::Fixed(lists) => solve_fixed(chain, relaxation, windows, lists),
        Cuts::Free { .. } => solve_free(chain, relaxation, windows),
    }
}

fn finish(
    chain: &Chain,
    windows: Windows,
    ends: Vec<Vec<Vec<(Fold, Back)>>>,
    lists: Option<&[Vec<FixedItem>]>,
) -> LabelOutcome {
    let p = chain.segments.len();
    let (complete, steps) = (windows.complete && !windows.exhausted(), windows.steps);
    let best = ends[0][0]
        .iter()
        .map(|(f, b)| (chain.combine.finish(f), b))
        .filter(|(v, _)| *v < windows.limits.incumbent)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let best = best.map(|(objective, back)| {
        let mut options = vec![0u32; chain.items.len()];
        let mut segments = Vec::with_capacity(p);
        let (mut at, mut back) = (0usize, *back);
        for s in 0..p {
            let items: Vec<u32> = match lists {
                Some(lists) => lists[s].iter().map(|f| f.item).collect(),
                None => (at as u32..back.end as u32).collect(),
            };
            for (item, option) in items.iter().zip(windows.trace(back.node, back.label)) {
                let class = chain.items[*item as usize] as usize;
                options[*item as usize] = chain.options[class][option as usize].id;
            }
            segments.push(items);
            at = back.end;
            if s + 1 < p {
                back = ends[s + 1][at][back.state].1;
            }
        }
        ChainSolution { segments, options, objective }
    });
    LabelOutcome { best, complete, steps }
}

fn solve_fixed(chain: &Chain, relaxation: &Relaxation, mut windows: Windows, lists: &[Vec<FixedItem>]) -> LabelOutcome {
    let (combine, limits) = (&chain.combine, windows.limits);
    let mut leaves = Vec::with_capacity(lists.len());
    for (s, items) in lists.iter().enumerate() {
        let known = (0..s).find(|&t| same_content(chain, &lists[t], items) && chain.segments[t] == chain.segments[s]);
        if let Some(t) = known {
            leaves.push(leaves[t]);
            continue;
        }
        let bounds = &relaxation.bounds[s];
        let mut node = windows.root();
        let mut behind = None;
        for k in (0..items.len()).rev() {
            let item = items[k];
            let least_peak = (0..k).map(|i| bounds.peak(i)).fold(0.0, f64::max);
            let rest = |used: f64, peak: f64| bounds.window(0, k, used, peak.max(least_peak));
            node = windows.extend(node, item, behind, s, chain.segments[s].cap, &rest);
            behind = Some((chain.items[item.item as usize], item.follows));
        }
        leaves.push(node);
    }
    // `ends[s]` holds one list of folds: all segments from `s` on.
    let p = lists.len();
    let mut ends: Vec<Vec<Vec<(Fold, Back)>>> = vec![vec![Vec::new()]; p];
    let mut states: Vec<(Fold, usize)> = vec![(combine.start(), 0)];
    for s in (0..p).rev() {
        let mut set: Vec<(Fold, Back)> = Vec::new();
        let first = lists[s].first().map(|f| chain.items[f.item as usize]);
        let remaining: f64 = 0.0;
        for (label, l) in windows.nodes[leaves[s]].labels.iter().enumerate() {
            let entry = first.map_or([0.0; COSTS], |class| chain.transition.entry(s, class, l.layout));
            let cost = add(&l.cost, &entry);
            for (state, index) in &states {
                let pushed = combine.push(state, s, &cost);
                if combine.complete(&pushed, s, remaining) < limits.incumbent {
                    insert_fold(&mut set, pushed, Back { node: leaves[s], label, end: 0, state: *index });
                }
            }
        }
        states = set.iter().enumerate().map(|(i, (f, _))| (*f, i)).collect();
        ends[s] = vec![set];
    }
    finish(chain, windows, ends, Some(lists))
}

fn same_content(chain: &Chain, a: &[FixedItem], b: &[FixedItem]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(x, y)| {
            chain.items[x.item as usize] == chain.items[y.item as usize]
                && x.multiplier == y.multiplier
                && x.lead == y.lead
                && x.follows == y.follows
        })
}

fn solve_free(chain: &Chain, relaxation: &Relaxation, mut windows: Windows) -> LabelOutcome {
    let (combine, limits) = (&chain.combine, windows.limits);
    let (n, p) = (chain.items.len(), chain.segments.len());
    let mut roots: Vec<usize> = Vec::new();
    let mut rests: Vec<Vec<Anywhere>> = Vec::new();
    for s in 0..p {
        let same: Vec<usize> = (0..p).filter(|&t| chain.segments[t] == chain.segments[s]).collect();
        if same[0] < s {
            roots.push(roots[same[0]]);
            rests.push(rests[same[0]].clone());
            continue;
        }
        let fewest = same.iter().map(|&t| relaxation.fewest[t]).min().unwrap_or(0);
        roots.push(windows.root());
        rests.push((0..=fewest).map(|r| relaxation.bounds[s].anywhere(r)).collect());
    }
    let mut ends: Vec<Vec<Vec<(Fold, Back)>>> = vec![vec![Vec::new(); n + 1]; p + 1];
    let nowhere = Back { node: 0, label: 0, end: n, state: 0 };
    ends[p][n].push((combine.start(), nowhere));
    for s in (0..p).rev() {
        let (least, most) = relaxation.reach(s);
        let bounds = &relaxation.bounds[s];
        let cap = chain.segments[s].cap;
        for j in (1..=n).filter(|&j| !ends[s + 1][j].is_empty()).collect::<Vec<_>>() {
            let mut node = roots[s];
            for i in (least..j).rev() {
                let depth = j - i;
                if depth > relaxation.longest[s] || windows.exhausted() {
                    break;
                }
                let class = chain.items[i];
                let known = windows.nodes[node].children.iter().find(|c| c.0 == class).map(|c| c.1);
                node = match known {
                    Some(child) => child,
                    None => {
                        let to_come = rests[s].len().saturating_sub(1).saturating_sub(depth);
                        let anywhere = &rests[s][to_come.min(rests[s].len() - 1)];
                        let rest = |used: f64, peak: f64| bounds.rest(anywhere, used, peak);
                        let item = FixedItem {
                            item: i as u32,
                            multiplier: chain.segments[s].multiplier,
                            lead: false,
                            follows: true,
                        };
                        let behind = (depth > 1).then(|| (chain.items[i + 1], true));
                        let child = windows.extend(node, item, behind, s, cap, &rest);
                        windows.nodes[node].children.push((class, child));
                        child
                    }
                };
                if windows.nodes[node].labels.is_empty() {
                    break;
                }
                if i > most || depth < relaxation.fewest[s] {
                    continue;
                }
                let mut set = std::mem::take(&mut ends[s][i]);
                for (label, l) in windows.nodes[node].labels.iter().enumerate() {
                    let cost = add(&l.cost, &chain.transition.entry(s, class, l.layout));
                    for (state, (fold, _)) in ends[s + 1][j].iter().enumerate() {
                        let pushed = combine.push(fold, s, &cost);
                        if combine.complete(&pushed, s, relaxation.primary[i]) < limits.incumbent {
                            insert_fold(&mut set, pushed, Back { node, label, end: j, state });
                        }
                    }
                }
                ends[s][i] = set;
            }
        }
    }
    ends.truncate(p);
    finish(chain, windows, ends, None)
}
