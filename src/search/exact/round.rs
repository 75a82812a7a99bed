//! Good solutions from the relaxation: the two options per class that its linear program would mix, rounded.
//!
//! At a multiplier `lambda` every item takes the option with the least `p + lambda r`. Raising `lambda` until the segment
//! fits and moving items back one by one while it still fits gives a solution that differs from the linear optimum by less
//! than one item (Sinha and Zoltners 1979). The peak enters as a threshold: options above it are left out.

use super::relax::{hull, resource, slopes};
use crate::search::decompose::{COSTS, Chain, ChainOption, ChainSolution, Cost, FixedItem};

/// Most peak thresholds that are tried.
const THRESHOLDS: usize = 8;

/// A filled segment.
#[derive(Debug, Clone)]
pub struct Filled {
    /// Option index of each item.
    pub options: Vec<u32>,
    /// Cost, transitions and entry included.
    pub cost: Cost,
}

struct Filler<'c, 'a> {
    chain: &'c Chain<'a>,
    segment: usize,
    items: &'c [FixedItem],
    cap: f64,
    weights: Cost,
    best: Option<(f64, Filled)>,
}

/// Fills segment `segment` with `items`; `None` if nothing was found to fit.
pub fn fill(chain: &Chain, segment: usize, items: &[FixedItem]) -> Option<Filled> {
    let cap = chain.segments[segment].cap;
    let mut filler = Filler { chain, segment, items, cap, weights: chain.combine.weights(), best: None };
    let mut kinds: Vec<(u32, f64)> = Vec::new();
    let kind_of: Vec<usize> = items
        .iter()
        .map(|i| {
            let key = (chain.items[i.item as usize], i.multiplier);
            kinds.iter().position(|k| *k == key).unwrap_or_else(|| {
                kinds.push(key);
                kinds.len() - 1
            })
        })
        .collect();
    let mut peaks: Vec<f64> = kinds.iter().flat_map(|k| chain.options[k.0 as usize].iter().map(|o| o.peak)).collect();
    peaks.sort_by(f64::total_cmp);
    peaks.dedup();
    let steps = peaks.len().min(THRESHOLDS);
    for step in 1..=steps {
        let threshold = peaks[(peaks.len() * step).div_ceil(steps) - 1];
        filler.below(threshold, &kinds, &kind_of);
    }
    filler.best.map(|(_, f)| f)
}

impl Filler<'_, '_> {
    fn below(&mut self, threshold: f64, kinds: &[(u32, f64)], kind_of: &[usize]) {
        let chain = self.chain;
        let primary = |c: &Cost| chain.combine.primary(c);
        // Resource, primary cost and index of the options below the threshold that some multiplier makes the best, by kind.
        let open: Vec<Vec<(f64, f64, usize)>> = kinds
            .iter()
            .map(|&(class, multiplier)| {
                let all = chain.options[class as usize].iter().enumerate();
                let point = |(i, o): (usize, &ChainOption)| (resource(o, multiplier), primary(&o.cost), i);
                hull(&mut all.filter(|(_, o)| o.peak <= threshold).map(point).collect::<Vec<_>>())
            })
            .collect();
        if open.iter().any(Vec::is_empty) {
            return;
        }
        let mut lambdas: Vec<f64> = vec![0.0];
        lambdas.extend(open.iter().flat_map(|points| slopes(points)));
        lambdas.sort_by(f64::total_cmp);
        lambdas.dedup();
        // Just above each slope the leaner of both options wins.
        let choice = |lambda: f64| -> Vec<usize> {
            let at = lambda * (1.0 + 1e-9);
            open.iter()
                .map(|points| {
                    let cost = |p: &(f64, f64, usize)| p.1 + at * p.0;
                    let best = points.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.0.total_cmp(&b.0)));
                    best.map_or(0, |p| p.2)
                })
                .collect()
        };
        let options_of = |by_kind: &[usize]| -> Vec<u32> { kind_of.iter().map(|&k| by_kind[k] as u32).collect() };
        // The smallest multiplier that fits, by bisection: use falls as it rises.
        let (mut low, mut high) = (0usize, lambdas.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.fits(&options_of(&choice(lambdas[middle]))) { high = middle } else { low = middle + 1 }
        }
        if low == lambdas.len() {
            return;
        }
        let lean = options_of(&choice(lambdas[low]));
        if low == 0 {
            self.offer(lean);
            return;
        }
        let fast = options_of(&choice(lambdas[low - 1]));
        for backwards in [false, true] {
            let mut mixed = lean.clone();
            let mut used = self.used(&mixed);
            let order: Vec<usize> =
                if backwards { (0..mixed.len()).rev().collect() } else { (0..mixed.len()).collect() };
            for i in order {
                if mixed[i] == fast[i] {
                    continue;
                }
                let more = self.resource_of(i, fast[i]) - self.resource_of(i, mixed[i]);
                if used + more + threshold <= self.cap {
                    mixed[i] = fast[i];
                    used += more;
                } else {
                    // What is left over may still serve an option between both.
                    self.squeeze(i, &mut mixed, &mut used, threshold);
                    break;
                }
            }
            self.offer(mixed);
        }
        self.offer(lean);
    }

    fn squeeze(&self, i: usize, mixed: &mut [u32], used: &mut f64, threshold: f64) {
        let class = self.chain.items[self.items[i].item as usize] as usize;
        let now = self.resource_of(i, mixed[i]);
        let primary = |o: u32| self.chain.combine.primary(&self.chain.options[class][o as usize].cost);
        let layout = self.chain.options[class][mixed[i] as usize].layout;
        let fitting = (0..self.chain.options[class].len() as u32).filter(|&o| {
            let option = &self.chain.options[class][o as usize];
            option.layout == layout
                && option.peak <= threshold
                && *used - now + self.resource_of(i, o) + threshold <= self.cap
        });
        if let Some(best) = fitting.min_by(|a, b| primary(*a).total_cmp(&primary(*b)))
            && primary(best) < primary(mixed[i])
        {
            *used += self.resource_of(i, best) - now;
            mixed[i] = best;
        }
    }

    fn resource_of(&self, i: usize, option: u32) -> f64 {
        let item = &self.items[i];
        resource(&self.chain.options[self.chain.items[item.item as usize] as usize][option as usize], item.multiplier)
    }

    fn used(&self, options: &[u32]) -> f64 {
        options.iter().enumerate().map(|(i, o)| self.resource_of(i, *o)).sum()
    }

    fn fits(&self, options: &[u32]) -> bool {
        let peak = options
            .iter()
            .zip(self.items)
            .map(|(o, item)| self.chain.options[self.chain.items[item.item as usize] as usize][*o as usize].peak);
        self.used(options) + peak.fold(0.0, f64::max) <= self.cap
    }

    fn offer(&mut self, options: Vec<u32>) {
        if !self.fits(&options) {
            return;
        }
        let cost = segment_cost(self.chain, self.segment, self.items, &options);
        let value: f64 = (0..COSTS).map(|k| self.weights[k] * cost[k]).sum();
        if self.best.as_ref().is_none_or(|(v, _)| value < *v) {
            self.best = Some((value, Filled { options, cost }));
        }
    }
}

/// The solution in which segment `s` holds `lists[s]` and item `i` takes option number `options[i]` of its class; and what
/// each segment costs.
pub fn fold(chain: &Chain, lists: &[Vec<FixedItem>], options: &[u32]) -> (ChainSolution, Vec<Cost>) {
    let own = |items: &[FixedItem]| items.iter().map(|item| options[item.item as usize]).collect::<Vec<u32>>();
    let costs: Vec<Cost> =
        lists.iter().enumerate().map(|(s, items)| segment_cost(chain, s, items, &own(items))).collect();
    let folded = costs.iter().enumerate().rev();
    let state = folded.fold(chain.combine.start(), |state, (s, cost)| chain.combine.push(&state, s, cost));
    let id = |(item, option): (&u32, &u32)| chain.options[*item as usize][*option as usize].id;
    let segments = lists.iter().map(|items| items.iter().map(|item| item.item).collect()).collect();
    let options = chain.items.iter().zip(options).map(id).collect();
    (ChainSolution { segments, options, objective: chain.combine.finish(&state) }, costs)
}

/// Cost of a segment whose items take `options`, transitions and entry included.
pub fn segment_cost(chain: &Chain, segment: usize, items: &[FixedItem], options: &[u32]) -> Cost {
    let mut cost = [0.0; COSTS];
    let mut add = |c: &Cost| {
        for k in 0..COSTS {
            cost[k] += c[k];
        }
    };
    let mut before: Option<u16> = None;
    for (item, option) in items.iter().zip(options) {
        let class = chain.items[item.item as usize];
        let o = &chain.options[class as usize][*option as usize];
        add(&o.cost);
        if item.lead {
            add(&o.lead);
        }
        match before {
            None => add(&chain.transition.entry(segment, class, o.layout)),
            Some(_) if !item.follows => add(&chain.transition.rejoin(segment, class, o.layout)),
            Some(layout) if layout != o.layout => add(&chain.transition.between(class, layout, o.layout)),
            Some(_) => {}
        }
        before = Some(o.layout);
    }
    cost
}
