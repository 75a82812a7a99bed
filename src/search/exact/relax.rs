//! Lower bounds for a chain by Lagrangian relaxation of each segment's resource.
//!
//! For a segment with cap `R` and any multiplier `lambda >= 0`, the primary cost of items `i..j` is at least
//! `sum_i min_o (p_o + lambda r_o) - lambda R` (Lagrangian duality; Fisher 1981). With prefix sums over items this takes
//! constant time per window and `lambda`; taking the slopes of the classes' lower convex hulls as `lambda` makes it the
//! linear relaxation of the window's multiple-choice knapsack (Sinha and Zoltners 1979).

use crate::search::decompose::{COSTS, Chain, ChainOption, Cost, Cuts, FixedItem, Fold};

/// Most multipliers kept per segment: more only sharpen the bound between hull slopes.
const MAX_LAMBDAS: usize = 24;

/// Most folds kept per boundary in a bound over all cuts.
const FOLDS: usize = 16;

/// Bounds of windows of one segment.
#[derive(Debug, Clone)]
pub struct SegmentBounds {
    cap: f64,
    lambdas: Vec<f64>,
    /// At `i * lambdas + l`: sum over the first `i` items of `min_o (p + lambda_l r)`.
    prefix: Vec<f64>,
    /// Sum over the first `i` items of the least resource.
    resource: Vec<f64>,
    /// Least peak of each item.
    peak: Vec<f64>,
    /// First item after each that has another peak.
    next_change: Vec<usize>,
    /// Sum over the first `i` items of the least of every cost component.
    floor: Vec<Cost>,
    /// Least of every component of entering the segment, whatever its first item.
    entry: Cost,
}

/// Resource of an option under a multiplier.
pub fn resource(option: &ChainOption, multiplier: f64) -> f64 {
    option.fixed + multiplier * option.scaled
}

/// Lower convex hull of points (resource, primary, tag): what some multiplier makes the best, least primary cost first.
pub fn hull<T: Copy>(points: &mut [(f64, f64, T)]) -> Vec<(f64, f64, T)> {
    points.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
    let mut hull: Vec<(f64, f64, T)> = Vec::new();
    for &p in points.iter() {
        if hull.last().is_some_and(|q| p.0 >= q.0) {
            continue;
        }
        while let [.., a, b] = hull[..]
            && (b.1 - a.1) * (b.0 - p.0) >= (p.1 - b.1) * (a.0 - b.0)
        {
            hull.pop();
        }
        hull.push(p);
    }
    hull
}

/// Multipliers at which the best point of a hull changes.
pub fn slopes<T>(hull: &[(f64, f64, T)]) -> impl Iterator<Item = f64> + '_ {
    hull.windows(2).map(|w| (w[1].1 - w[0].1) / (w[0].0 - w[1].0)).filter(|s| s.is_finite() && *s > 0.0)
}

/// What bounds need of a class, whatever the segment.
struct ClassBounds {
    /// Options (fixed, scaled, primary) that no other beats in all three.
    front: Vec<(f64, f64, f64)>,
    peak: f64,
    cost: Cost,
    lead: Cost,
    layouts: Vec<u16>,
}

impl ClassBounds {
    fn new(chain: &Chain, class: usize) -> Self {
        let options = &chain.options[class];
        let mut points: Vec<(f64, f64, f64)> =
            options.iter().map(|o| (o.fixed, o.scaled, chain.combine.primary(&o.cost))).collect();
        points.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1)));
        let mut front: Vec<(f64, f64, f64)> = Vec::new();
        for p in points {
            if !front.iter().any(|f| f.0 <= p.0 && f.1 <= p.1) {
                front.push(p);
            }
        }
        let mut layouts: Vec<u16> = options.iter().map(|o| o.layout).collect();
        layouts.sort_unstable();
        layouts.dedup();
        let least = |of: &dyn Fn(&ChainOption) -> f64| options.iter().map(of).fold(f64::INFINITY, f64::min);
        Self {
            front,
            peak: least(&|o| o.peak),
            cost: std::array::from_fn(|k| least(&|o| o.cost[k])),
            lead: std::array::from_fn(|k| least(&|o| o.lead[k])),
            layouts,
        }
    }

    fn least_of(&self, cost: &dyn Fn(u16) -> Cost) -> Cost {
        let mut least = [f64::INFINITY; COSTS];
        for &layout in &self.layouts {
            let c = cost(layout);
            least = std::array::from_fn(|k| least[k].min(c[k]));
        }
        least
    }
}

impl SegmentBounds {
    /// Bounds of a segment that holds some of `items`, each with the multiplier in force for it.
    fn new(chain: &Chain, classes: &[ClassBounds], segment: usize, items: &[FixedItem]) -> Self {
        let cap = chain.segments[segment].cap;
        // Classes with their multipliers, each once.
        let mut kinds: Vec<(u32, f64)> = Vec::new();
        let mut kind_of = Vec::with_capacity(items.len());
        for item in items {
            let key = (chain.items[item.item as usize], item.multiplier);
            let last = kind_of.last().copied().filter(|k| kinds[*k] == key);
            let known = last.or_else(|| kinds.iter().position(|k| *k == key));
            kind_of.push(known.unwrap_or_else(|| {
                kinds.push(key);
                kinds.len() - 1
            }));
        }
        let class_of = |kind: usize| &classes[kinds[kind].0 as usize];
        let hulls: Vec<Vec<(f64, f64, ())>> = kinds
            .iter()
            .map(|&(class, multiplier)| {
                let front = &classes[class as usize].front;
                hull(&mut front.iter().map(|f| (f.0 + multiplier * f.1, f.2, ())).collect::<Vec<_>>())
            })
            .collect();
        let mut lambdas: Vec<f64> = hulls.iter().flat_map(|h| slopes(h)).collect();
        lambdas.sort_by(f64::total_cmp);
        lambdas.dedup();
        if lambdas.len() > MAX_LAMBDAS {
            lambdas = (0..MAX_LAMBDAS).map(|i| lambdas[i * (lambdas.len() - 1) / (MAX_LAMBDAS - 1)]).collect();
        }
        lambdas.insert(0, 0.0);
        let least: Vec<Vec<f64>> = hulls
            .iter()
            .map(|h| {
                lambdas.iter().map(|l| h.iter().map(|(r, w, ())| w + l * r).fold(f64::INFINITY, f64::min)).collect()
            })
            .collect();
        let mut sums = vec![0.0; lambdas.len()];
        let mut prefix = Vec::with_capacity((items.len() + 1) * lambdas.len());
        prefix.extend_from_slice(&sums);
        let mut resource = Vec::with_capacity(items.len() + 1);
        resource.push(0.0);
        for (i, &kind) in kind_of.iter().enumerate() {
            for (sum, least) in sums.iter_mut().zip(&least[kind]) {
                *sum += least;
            }
            prefix.extend_from_slice(&sums);
            // The last point of a hull is the leanest.
            resource.push(resource[i] + hulls[kind].last().map_or(0.0, |h| h.0));
        }
        let fixed = matches!(chain.cuts, Cuts::Fixed(_));
        let firsts: Vec<u32> = match items.first() {
            Some(first) if fixed => vec![chain.items[first.item as usize]],
            _ => kinds.iter().map(|k| k.0).collect(),
        };
        let mut entry = [f64::INFINITY; COSTS];
        let firsts: std::collections::BTreeSet<u32> = firsts.into_iter().collect();
        for class in firsts {
            let least = classes[class as usize].least_of(&|layout| chain.transition.entry(segment, class, layout));
            entry = std::array::from_fn(|k| entry[k].min(least[k]));
        }
        let mut rejoins: Vec<Option<Cost>> = vec![None; kinds.len()];
        let mut floor = Vec::with_capacity(items.len() + 1);
        floor.push([0.0; COSTS]);
        for (index, (item, &kind)) in items.iter().zip(&kind_of).enumerate() {
            let before: Cost = floor[floor.len() - 1];
            let lead = if item.lead { class_of(kind).lead } else { [0.0; COSTS] };
            let rejoin = if fixed && index > 0 && !item.follows {
                let class = kinds[kind].0;
                let least = || class_of(kind).least_of(&|layout| chain.transition.rejoin(segment, class, layout));
                *rejoins[kind].get_or_insert_with(least)
            } else {
                [0.0; COSTS]
            };
            let least = &class_of(kind).cost;
            floor.push(std::array::from_fn(|k| before[k] + least[k] + lead[k] + rejoin[k]));
        }
        let peak: Vec<f64> = kind_of.iter().map(|&k| class_of(k).peak).collect();
        let mut next_change = vec![peak.len(); peak.len()];
        for i in (0..peak.len().saturating_sub(1)).rev() {
            next_change[i] = if peak[i] == peak[i + 1] { next_change[i + 1] } else { i + 1 };
        }
        Self {
            cap,
            next_change,
            entry: if items.is_empty() { [0.0; COSTS] } else { entry },
            floor,
            lambdas,
            prefix,
            resource,
            peak,
        }
    }

    /// Least of every cost component of a segment that holds items `i..j`.
    pub fn floor(&self, i: usize, j: usize) -> Cost {
        // Differences of sums may fall below zero by rounding.
        std::array::from_fn(|k| (self.floor[j][k] - self.floor[i][k]).max(0.0) + self.entry[k])
    }

    /// Least of every cost component of entering the segment.
    pub fn entry(&self) -> &Cost {
        &self.entry
    }

    /// Least peak of item `i`.
    pub fn peak(&self, i: usize) -> f64 {
        self.peak[i]
    }

    /// Largest least peak of items `i..j`.
    fn peak_of(&self, i: usize, j: usize) -> f64 {
        // Items of one class share their peak, so it is enough to look where the class changes.
        let mut largest = self.peak[i];
        let mut k = self.next_change[i];
        while k < j {
            largest = largest.max(self.peak[k]);
            k = self.next_change[k];
        }
        largest
    }

    /// Least primary cost of items `i..j` whose least peaks reach at most `peak`, on top of a label that already uses
    /// `used` of the resource; `None` if they do not fit.
    pub fn window(&self, i: usize, j: usize, used: f64, peak: f64) -> Option<f64> {
        let free = self.cap - used - peak;
        if self.resource[j] - self.resource[i] > free * (1.0 + 1e-12) {
            return None;
        }
        let mut best = 0.0f64;
        for ((lambda, from), to) in self.lambdas.iter().zip(self.sums(i)).zip(self.sums(j)) {
            best = best.max(to - from - lambda * free);
        }
        Some(best)
    }

    /// For windows of `length` items anywhere: per multiplier the least sum, and the least resource.
    pub fn anywhere(&self, length: usize) -> Anywhere {
        let n = self.resource.len() - 1;
        let least = |of: &dyn Fn(usize) -> f64| (0..=n - length).map(of).fold(f64::INFINITY, f64::min);
        Anywhere {
            sums: (0..self.lambdas.len()).map(|l| least(&|i| self.sums(i + length)[l] - self.sums(i)[l])).collect(),
            resource: least(&|i| self.resource[i + length] - self.resource[i]),
        }
    }

    fn sums(&self, i: usize) -> &[f64] {
        &self.prefix[i * self.lambdas.len()..][..self.lambdas.len()]
    }

    /// Least primary cost that `rest` adds to a label using `used` plus `peak`; `None` if it does not fit.
    pub fn rest(&self, rest: &Anywhere, used: f64, peak: f64) -> Option<f64> {
        let free = self.cap - used - peak;
        if rest.resource > free * (1.0 + 1e-12) {
            return None;
        }
        let mut best = 0.0f64;
        for (lambda, sum) in self.lambdas.iter().zip(&rest.sums) {
            best = best.max(sum - lambda * free);
        }
        Some(best)
    }
}

/// Bounds of a run of items of unknown position.
#[derive(Debug, Clone)]
pub struct Anywhere {
    sums: Vec<f64>,
    resource: f64,
}

/// The items of each segment with bounds: under free cuts every segment may hold any item.
#[derive(Debug, Clone)]
pub struct Relaxation {
    /// Per segment.
    pub bounds: Vec<SegmentBounds>,
    /// Least sum of primary costs of the first `i` items, any segment.
    pub primary: Vec<f64>,
    /// Longest window of each segment whose bound stays within the limit (free cuts only).
    pub longest: Vec<usize>,
    /// Fewest items that each segment must hold, given the longest of the others (free cuts only).
    pub fewest: Vec<usize>,
}

/// Folds with where each came from: the end of its first segment and the fold there.
type Traced = Vec<(Fold, (usize, usize))>;

/// Whether `a` is at least as good as `b` in every component.
pub fn dominates(a: &Fold, b: &Fold) -> bool {
    a.iter().zip(b).all(|(x, y)| x <= y)
}

/// Adds `x` to a set of mutually undominated folds; returns whether it went in.
pub fn insert_fold<T>(set: &mut Vec<(Fold, T)>, x: Fold, tag: T) -> bool {
    if set.iter().any(|(y, _)| dominates(y, &x)) {
        return false;
    }
    set.retain(|(y, _)| !dominates(&x, y));
    set.push((x, tag));
    true
}

/// The same with at most `width` folds: when there are more, the closest gives way to the lesser of both in every
/// component, which bounds what either leads to.
fn insert_merged<T>(set: &mut Vec<(Fold, T)>, x: Fold, tag: T, width: usize) {
    if set.iter().any(|(y, _)| dominates(y, &x)) {
        return;
    }
    set.retain(|(y, _)| !dominates(&x, y));
    if set.len() < width {
        set.push((x, tag));
        return;
    }
    let sum = |f: &Fold| f.iter().sum::<f64>();
    let distance = |y: &Fold| y.iter().zip(&x).map(|(a, b)| (a - b).abs()).sum::<f64>();
    let closest = (0..set.len()).min_by(|&a, &b| distance(&set[a].0).total_cmp(&distance(&set[b].0)));
    let Some(closest) = closest else { return };
    let (y, other) = set.swap_remove(closest);
    let tag = if sum(&x) < sum(&y) { tag } else { other };
    let least: Fold = std::array::from_fn(|k| x[k].min(y[k]));
    set.retain(|(y, _)| !dominates(&least, y));
    set.push((least, tag));
}

impl Relaxation {
    /// Prepares bounds under the assumption that only objectives below `incumbent` matter; `None` when the relaxation
    /// itself cannot stay below it.
    pub fn new(chain: &Chain, incumbent: f64) -> Option<Self> {
        let n = chain.items.len();
        let all = |multiplier| -> Vec<FixedItem> {
            (0..n as u32).map(|item| FixedItem { item, multiplier, lead: false, follows: true }).collect()
        };
        let least: Vec<f64> = chain
            .options
            .iter()
            .map(|o| o.iter().map(|x| chain.combine.primary(&x.cost)).fold(f64::INFINITY, f64::min))
            .collect();
        let mut primary = vec![0.0; n + 1];
        for i in 0..n {
            primary[i + 1] = primary[i] + least[chain.items[i] as usize];
        }
        if chain.combine.complete(&chain.combine.start(), chain.segments.len(), primary[n]) >= incumbent {
            return None;
        }
        let classes: Vec<ClassBounds> = (0..chain.options.len()).map(|class| ClassBounds::new(chain, class)).collect();
        let mut bounds: Vec<SegmentBounds> = Vec::with_capacity(chain.segments.len());
        match &chain.cuts {
            Cuts::Free { .. } => {
                for (s, segment) in chain.segments.iter().enumerate() {
                    let known = (0..s).find(|&t| chain.segments[t] == *segment);
                    bounds.push(match known {
                        Some(t) => bounds[t].clone(),
                        None => SegmentBounds::new(chain, &classes, s, &all(segment.multiplier)),
                    });
                }
            }
            Cuts::Fixed(lists) => {
                for (s, items) in lists.iter().enumerate() {
                    bounds.push(SegmentBounds::new(chain, &classes, s, items));
                }
            }
        }
        let mut relaxation = Self { bounds, primary, longest: Vec::new(), fewest: Vec::new() };
        if let Cuts::Free { min_items } = chain.cuts {
            relaxation.lengths(chain, min_items, incumbent)?;
        }
        Some(relaxation)
    }

    fn lengths(&mut self, chain: &Chain, min_items: usize, incumbent: f64) -> Option<()> {
        let n = chain.items.len();
        let limit = chain.combine.primary_limit(incumbent);
        for (s, bounds) in self.bounds.iter().enumerate() {
            if let Some(t) = (0..s).find(|&t| chain.segments[t] == chain.segments[s]) {
                self.longest.push(self.longest[t]);
                continue;
            }
            // Two pointers: a window inside one that fits fits as well.
            let (mut longest, mut i) = (0, 0);
            for j in 1..=n {
                while i < j {
                    let peak = bounds.peak_of(i, j);
                    match bounds.window(i, j, 0.0, peak) {
                        Some(w) if w <= limit => break,
                        _ => i += 1,
                    }
                }
                longest = longest.max(j - i);
            }
            self.longest.push(longest);
        }
        let total: usize = self.longest.iter().sum();
        if total < n || self.longest.iter().any(|&l| l < min_items) {
            return None;
        }
        self.fewest = self.longest.iter().map(|l| n.saturating_sub(total - l).max(min_items)).collect();
        Some(())
    }

    /// Items that segments `0..s` may hold in all, least and most.
    pub fn reach(&self, s: usize) -> (usize, usize) {
        (self.fewest[..s].iter().sum(), self.longest[..s].iter().sum())
    }

    /// A lower bound on the chain's objective with the cuts that give it, or `None` if nothing below `incumbent` exists.
    pub fn bound(&self, chain: &Chain, incumbent: f64) -> Option<(f64, Vec<Vec<FixedItem>>)> {
        match &chain.cuts {
            Cuts::Fixed(lists) => self.bound_fixed(chain, incumbent, lists).map(|value| (value, lists.clone())),
            Cuts::Free { .. } => self.bound_free(chain, incumbent),
        }
    }

    fn bound_fixed(&self, chain: &Chain, incumbent: f64, lists: &[Vec<FixedItem>]) -> Option<f64> {
        let mut state = chain.combine.start();
        for s in (0..chain.segments.len()).rev() {
            let b = &self.bounds[s];
            let peak = (0..lists[s].len()).map(|k| b.peak(k)).fold(0.0, f64::max);
            let primary = b.window(0, lists[s].len(), 0.0, peak)? + chain.combine.primary(b.entry());
            state = chain.combine.push_relaxed(&state, s, primary, &b.floor(0, lists[s].len()));
        }
        let value = chain.combine.finish(&state);
        (value < incumbent).then_some(value)
    }

    /// First with one fold per boundary, which already rules most tasks out.
    fn bound_free(&self, chain: &Chain, incumbent: f64) -> Option<(f64, Vec<Vec<FixedItem>>)> {
        let (rough, _) = self.cuts(chain, incumbent, 1)?;
        let (fine, lists) = self.cuts(chain, incumbent, FOLDS)?;
        Some((fine.max(rough), lists))
    }

    /// A bound over all cuts from at most `width` folds per boundary, with the cuts that give it.
    fn cuts(&self, chain: &Chain, incumbent: f64, width: usize) -> Option<(f64, Vec<Vec<FixedItem>>)> {
        let combine = &chain.combine;
        let (n, p) = (chain.items.len(), chain.segments.len());
        let limit = combine.primary_limit(incumbent);
        // Per boundary the folds of all segments behind it, each with the end of its first segment and the fold there.
        let mut at: Vec<Vec<Traced>> = vec![vec![Vec::new(); n + 1]; p + 1];
        at[p][n].push((combine.start(), (n, 0)));
        for s in (0..p).rev() {
            let (least, most) = self.reach(s);
            let b = &self.bounds[s];
            let (front, back) = at.split_at_mut(s + 1);
            let (next, known) = (&mut front[s], &back[0]);
            for j in (1..=n).filter(|&j| !known[j].is_empty()) {
                let mut peak = 0.0f64;
                for i in (least..j).rev() {
                    peak = peak.max(b.peak(i));
                    if j - i > self.longest[s] {
                        break;
                    }
                    let Some(primary) = b.window(i, j, 0.0, peak) else { break };
                    let primary = primary + combine.primary(b.entry());
                    if primary > limit {
                        break;
                    }
                    if i > most || j - i < self.fewest[s] {
                        continue;
                    }
                    let floor = b.floor(i, j);
                    for (index, (state, _)) in known[j].iter().enumerate() {
                        let pushed = combine.push_relaxed(state, s, primary, &floor);
                        if combine.complete(&pushed, s, self.primary[i]) < incumbent {
                            insert_merged(&mut next[i], pushed, (j, index), width);
                        }
                    }
                }
            }
        }
        let finish = |f: &Fold| combine.finish(f);
        let (value, mut back) = at[0][0]
            .iter()
            .map(|(f, back)| (finish(f), *back))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(v, _)| *v < incumbent)?;
        let mut start = 0usize;
        let mut lists = Vec::with_capacity(p);
        for s in 0..p {
            let multiplier = chain.segments[s].multiplier;
            let item = |item: usize| FixedItem { item: item as u32, multiplier, lead: false, follows: item > start };
            lists.push((start..back.0).map(item).collect());
            start = back.0;
            if s + 1 < p {
                back = at[s + 1][start][back.1].1;
            }
        }
        Some((value, lists))
    }
}
