//! The cheapest way to fill a stage: groups of like items, every item one choice, sizes within a cap.
//!
//! A multiple-choice knapsack whose items repeat is solved over counts, so its work hardly grows with their number. The
//! linear relaxation walks the lower hulls of the groups (Sinha and Zoltners 1979). Every choice then has a reduced cost
//! against the hull vertices of the relaxation; a solution better than the incumbent is at most (incumbent - relaxation)
//! of reduced cost away, and those few multisets are enumerated (core idea of Balas and Zemel 1980).

/// One way to treat an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// To be minimised; finite.
    pub cost: f64,
    /// Of the cap.
    pub size: u32,
    /// The caller's name for it.
    pub id: u32,
}

/// Like items.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// How many.
    pub count: u32,
    /// Undominated choices by rising size and falling cost.
    choices: Vec<Choice>,
    /// Choices that one of those beats in size and cost, in the order given.
    beaten: Vec<Choice>,
}

impl Group {
    /// Choice number `i`, the undominated ones first.
    fn choice(&self, i: u32) -> &Choice {
        let i = i as usize;
        self.choices.get(i).unwrap_or_else(|| &self.beaten[i - self.choices.len()])
    }
}

/// A step along the lower hull of a group.
#[derive(Debug, Clone, Copy)]
struct Edge {
    group: u32,
    to: u32,
    size: u32,
    /// Cost saved per unit of size.
    rate: f64,
}

/// Groups under one cap.
#[derive(Debug, Clone)]
pub struct Knapsack {
    groups: Vec<Group>,
    /// Hull steps of all groups, most saving first.
    edges: Vec<Edge>,
    least_size: u64,
    least_size_cost: f64,
}

/// How often each choice of each group is taken: (group, id, count).
pub type Counts = Vec<(u32, u32, u32)>;

/// A filled knapsack.
#[derive(Debug, Clone, PartialEq)]
pub struct Filling {
    /// Total cost.
    pub cost: f64,
    /// Nothing costs less than this; equal to `cost` unless the enumeration was cut off.
    pub bound: f64,
    /// What was taken.
    pub counts: Counts,
}

/// The linear relaxation at one cap.
#[derive(Debug, Clone)]
struct Relaxed {
    value: f64,
    /// Cost per unit of cap.
    lambda: f64,
    /// Hull vertex of each group.
    base: Vec<u32>,
    /// Group and choice that the next items would move to.
    next: Option<(u32, u32)>,
    /// Size of all items at their vertices.
    size: u64,
}

/// Relative difference below which two costs are one: rounding of sums of a thousand terms.
const SAME: f64 = 1e-13;
/// Multisets looked at before the enumeration gives up and keeps its bound.
const MOST_NODES: u32 = 1 << 18;

impl Knapsack {
    /// Groups of (count, choices); groups of no items are dropped but keep their number. `None` if a group has items and
    /// no choice.
    pub fn new(groups: impl IntoIterator<Item = (u32, Vec<Choice>)>) -> Option<Self> {
        let groups: Vec<Group> = groups
            .into_iter()
            .map(|(count, choices)| {
                let (choices, beaten) = undominated(choices);
                Group { count, choices, beaten }
            })
            .collect();
        if groups.iter().any(|g| g.count > 0 && g.choices.is_empty()) {
            return None;
        }
        let mut edges = Vec::new();
        let (mut least_size, mut least_size_cost) = (0, 0.0);
        for (g, group) in groups.iter().enumerate().filter(|(_, g)| g.count > 0) {
            hull(g as u32, &group.choices, &mut edges);
            least_size += u64::from(group.count) * u64::from(group.choices[0].size);
            least_size_cost += f64::from(group.count) * group.choices[0].cost;
        }
        // Within a group rates fall along the hull, so a stable sort keeps its steps in order.
        edges.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        Some(Self { groups, edges, least_size, least_size_cost })
    }

    fn relax(&self, cap: u64) -> Option<Relaxed> {
        if self.least_size > cap {
            return None;
        }
        let mut base = vec![0; self.groups.len()];
        let (mut size, mut cost) = (self.least_size, self.least_size_cost);
        for edge in &self.edges {
            let count = self.groups[edge.group as usize].count;
            let step = u64::from(count) * u64::from(edge.size);
            if size + step > cap {
                let value = cost - edge.rate * (cap - size) as f64;
                let next = Some((edge.group, edge.to));
                return Some(Relaxed { value, lambda: edge.rate, base, next, size });
            }
            base[edge.group as usize] = edge.to;
            size += step;
            cost -= edge.rate * step as f64;
        }
        Some(Relaxed { value: cost, lambda: 0.0, base, next: None, size })
    }

    /// Least cost if items could be split; `None` if nothing fits.
    pub fn bound(&self, cap: u64) -> Option<f64> {
        if self.least_size > cap {
            return None;
        }
        let (mut size, mut cost) = (self.least_size, self.least_size_cost);
        for edge in &self.edges {
            let step = u64::from(self.groups[edge.group as usize].count) * u64::from(edge.size);
            if size + step > cap {
                return Some(cost - edge.rate * (cap - size) as f64);
            }
            size += step;
            cost -= edge.rate * step as f64;
        }
        Some(cost)
    }

    /// The cheapest filling; `None` if nothing fits.
    pub fn solve(&self, cap: u64) -> Option<Filling> {
        let relaxed = self.relax(cap)?;
        let mut search = Search::new(self, &relaxed, cap, false);
        let mut best = Best { above: f64::INFINITY, extra: Vec::new(), moved: 0 };
        search.run(&mut best);
        let proven = search.nodes < MOST_NODES;
        let counts = self.counts(&relaxed, &best.extra, best.moved);
        let cost = self.cost(&counts);
        Some(Filling { cost, bound: if proven { cost } else { relaxed.value }, counts })
    }

    /// Every filling that costs at most `limit` is passed to `visit`; false if more than `most` would have had to be looked at. Unlike
    /// [`Knapsack::solve`] it also takes choices that others beat in size and cost.
    pub fn within(&self, cap: u64, limit: f64, most: u32, visit: &mut dyn FnMut(Counts)) -> bool {
        let Some(relaxed) = self.relax(cap) else { return true };
        let mut search = Search::new(self, &relaxed, cap, true);
        search.most_nodes = most;
        let above = limit - relaxed.value + SAME * relaxed.value.abs();
        let mut all = All { above, knapsack: self, relaxed: &relaxed, left: most, visit };
        search.run(&mut all);
        all.left > 0 && search.nodes < most
    }

    /// Exact cost of counts, summed in one order.
    fn cost(&self, counts: &Counts) -> f64 {
        counts
            .iter()
            .map(|&(g, id, n)| {
                let group = &self.groups[g as usize];
                let choice = group.choices.iter().chain(&group.beaten).find(|c| c.id == id);
                choice.map_or(0.0, |c| c.cost * f64::from(n))
            })
            .sum()
    }

    fn counts(&self, relaxed: &Relaxed, extra: &[(u32, u32)], moved: u32) -> Counts {
        let mut out: Vec<(u32, u32, u32)> = Vec::new();
        let mut put = |g: u32, choice: u32, n: u32| {
            if n > 0 {
                let id = self.groups[g as usize].choice(choice).id;
                match out.iter_mut().find(|c| c.0 == g && c.1 == id) {
                    Some(c) => c.2 += n,
                    None => out.push((g, id, n)),
                }
            }
        };
        for (g, group) in self.groups.iter().enumerate() {
            let mut left = group.count;
            for &(_, choice) in extra.iter().filter(|e| e.0 == g as u32) {
                put(g as u32, choice, 1);
                left -= 1;
            }
            if let Some((group, to)) = relaxed.next
                && group == g as u32
            {
                put(group, to, moved);
                left -= moved;
            }
            put(g as u32, relaxed.base[g], left);
        }
        out.sort_unstable();
        out
    }
}

/// A choice off the relaxation's vertices.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    group: u32,
    choice: u32,
    reduced: f64,
    /// Size against the vertex of its group.
    size: i64,
}

/// What an enumeration does with a complete filling.
trait Collect {
    /// Fillings above the relaxation by this or more are of no interest.
    fn limit(&self) -> f64;
    /// A filling: candidates taken, items moved along the split step (at most; fewer cost `per_move` more each), and how
    /// far it is above the relaxation.
    fn found(&mut self, extra: &[(u32, u32)], moved: u32, above: f64, per_move: f64);
}

/// The cheapest.
struct Best {
    above: f64,
    extra: Vec<(u32, u32)>,
    moved: u32,
}

impl Collect for Best {
    fn limit(&self) -> f64 {
        self.above
    }
    fn found(&mut self, extra: &[(u32, u32)], moved: u32, above: f64, _: f64) {
        if above < self.above {
            self.above = above;
            self.extra.clear();
            self.extra.extend_from_slice(extra);
            self.moved = moved;
        }
    }
}

/// All of them.
struct All<'a> {
    above: f64,
    knapsack: &'a Knapsack,
    relaxed: &'a Relaxed,
    /// How many more may be visited.
    left: u32,
    visit: &'a mut dyn FnMut(Counts),
}

impl Collect for All<'_> {
    fn limit(&self) -> f64 {
        if self.left == 0 { f64::NEG_INFINITY } else { self.above }
    }
    fn found(&mut self, extra: &[(u32, u32)], moved: u32, above: f64, per_move: f64) {
        for moved in (0..=moved).rev().enumerate().take_while(|(i, _)| above + *i as f64 * per_move <= self.above) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            (self.visit)(self.knapsack.counts(self.relaxed, extra, moved.1));
        }
    }
}

/// Enumeration of multisets of candidates within a limit.
struct Search {
    lambda: f64,
    cap: i64,
    candidates: Vec<Candidate>,
    left: Vec<u32>,
    size: i64,
    taken: Vec<(u32, u32)>,
    /// Size of one move along the split step, and the group that it belongs to.
    step: Option<(i64, u32)>,
    /// What rounding may hide.
    same: f64,
    nodes: u32,
    most_nodes: u32,
}

impl Search {
    fn new(knapsack: &Knapsack, relaxed: &Relaxed, cap: u64, beaten_too: bool) -> Self {
        let mut candidates = Vec::new();
        for (g, group) in knapsack.groups.iter().enumerate().filter(|(_, g)| g.count > 0) {
            let base = group.choices[relaxed.base[g] as usize];
            let beaten: &[Choice] = if beaten_too { &group.beaten } else { &[] };
            for (i, c) in group.choices.iter().chain(beaten).enumerate() {
                let basic = i as u32 == relaxed.base[g] || relaxed.next == Some((g as u32, i as u32));
                if !basic {
                    let size = i64::from(c.size) - i64::from(base.size);
                    let reduced = (c.cost - base.cost + relaxed.lambda * size as f64).max(0.0);
                    candidates.push(Candidate { group: g as u32, choice: i as u32, reduced, size });
                }
            }
        }
        candidates.sort_by(|a, b| a.reduced.total_cmp(&b.reduced));
        let step = relaxed.next.map(|(g, to)| {
            let choices = &knapsack.groups[g as usize].choices;
            (i64::from(choices[to as usize].size) - i64::from(choices[relaxed.base[g as usize] as usize].size), g)
        });
        Self {
            lambda: relaxed.lambda,
            cap: cap as i64,
            candidates,
            left: knapsack.groups.iter().map(|g| g.count).collect(),
            size: relaxed.size as i64,
            taken: Vec::new(),
            step,
            same: SAME * relaxed.value.abs(),
            nodes: 0,
            most_nodes: MOST_NODES,
        }
    }

    fn run(&mut self, collect: &mut dyn Collect) {
        self.leaf(0.0, collect);
        self.deeper(0, 0.0, collect);
    }

    /// Completes what is taken: as many items as fit move along the split step.
    fn leaf(&mut self, reduced: f64, collect: &mut dyn Collect) {
        let free = self.cap - self.size;
        if free < 0 {
            return;
        }
        let moved = self.step.map_or(0, |(size, group)| {
            let fit = u32::try_from(free / size).unwrap_or(u32::MAX);
            fit.min(self.left[group as usize])
        });
        let size = self.step.map_or(0, |s| s.0);
        let unused = free - i64::from(moved) * size;
        let above = reduced + self.lambda * unused as f64;
        if above < collect.limit() - self.same {
            collect.found(&self.taken, moved, above, self.lambda * size as f64);
        }
    }

    fn deeper(&mut self, from: usize, reduced: f64, collect: &mut dyn Collect) {
        for i in from..self.candidates.len() {
            let c = self.candidates[i];
            if reduced + c.reduced >= collect.limit() - self.same || self.nodes >= self.most_nodes {
                return;
            }
            if self.left[c.group as usize] == 0 {
                continue;
            }
            self.nodes += 1;
            self.left[c.group as usize] -= 1;
            self.size += c.size;
            self.taken.push((c.group, c.choice));
            self.leaf(reduced + c.reduced, collect);
            self.deeper(i, reduced + c.reduced, collect);
            self.taken.pop();
            self.size -= c.size;
            self.left[c.group as usize] += 1;
        }
    }
}

/// Sorts by size and sets apart what another choice beats in size and cost.
fn undominated(mut choices: Vec<Choice>) -> (Vec<Choice>, Vec<Choice>) {
    choices.sort_by(|a, b| a.size.cmp(&b.size).then(a.cost.total_cmp(&b.cost)));
    let mut least = f64::INFINITY;
    let mut beaten = Vec::new();
    choices.retain(|c| {
        let better = c.cost < least;
        least = least.min(c.cost);
        if !better {
            beaten.push(*c);
        }
        better
    });
    (choices, beaten)
}

/// Appends the steps of the lower convex hull.
fn hull(group: u32, choices: &[Choice], edges: &mut Vec<Edge>) {
    let mut corners: Vec<u32> = Vec::with_capacity(choices.len());
    let rate = |a: u32, b: u32| {
        let (a, b) = (&choices[a as usize], &choices[b as usize]);
        (a.cost - b.cost) / f64::from(b.size - a.size)
    };
    for i in 0..choices.len() as u32 {
        while corners.len() >= 2
            && rate(corners[corners.len() - 2], corners[corners.len() - 1]) <= rate(corners[corners.len() - 1], i)
        {
            corners.pop();
        }
        corners.push(i);
    }
    edges.extend(corners.windows(2).map(|w| Edge {
        group,
        to: w[1],
        size: choices[w[1] as usize].size - choices[w[0] as usize].size,
        rate: rate(w[0], w[1]),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Least cost by dynamic programming over every item and every size.
    fn brute(groups: &[(u32, Vec<Choice>)], cap: u64) -> Option<f64> {
        let mut at = vec![None; cap as usize + 1];
        at[0] = Some(0.0f64);
        for (count, choices) in groups {
            for _ in 0..*count {
                let mut next = vec![None; cap as usize + 1];
                for (size, cost) in at.iter().enumerate().filter_map(|(s, c)| Some((s, (*c)?))) {
                    for c in choices {
                        let to = size + c.size as usize;
                        if to <= cap as usize {
                            let total = cost + c.cost;
                            next[to] = Some(next[to].map_or(total, |x: f64| x.min(total)));
                        }
                    }
                }
                at = next;
            }
        }
        at.into_iter().flatten().min_by(f64::total_cmp)
    }

    fn group() -> impl Strategy<Value = (u32, Vec<Choice>)> {
        (0u32..9, prop::collection::vec((0.0f64..10.0, 1u32..25), 1..7)).prop_map(|(count, choices)| {
            let choices = choices.into_iter().enumerate().map(|(i, (cost, size))| Choice { cost, size, id: i as u32 });
            (count, choices.collect())
        })
    }

    proptest! {
        #[test]
        fn the_filling_is_the_cheapest_and_the_bound_below_it(
            groups in prop::collection::vec(group(), 1..4), cap in 0u64..300,
        ) {
            let knapsack = Knapsack::new(groups.clone()).unwrap();
            let expected = brute(&groups, cap);
            let found = knapsack.solve(cap);
            prop_assert_eq!(found.is_some(), expected.is_some());
            if let (Some(found), Some(expected)) = (found, expected) {
                prop_assert!((found.cost - expected).abs() < 1e-9, "{} instead of {}", found.cost, expected);
                prop_assert!(knapsack.bound(cap).unwrap() <= expected + 1e-9);
                prop_assert_eq!(found.cost, found.bound);
                let size: u64 = found.counts.iter().map(|&(g, id, n)| {
                    u64::from(groups[g as usize].1[id as usize].size) * u64::from(n)
                }).sum();
                prop_assert!(size <= cap);
                for (g, (count, _)) in groups.iter().enumerate() {
                    let taken: u32 = found.counts.iter().filter(|c| c.0 == g as u32).map(|c| c.2).sum();
                    prop_assert_eq!(taken, *count);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn within_a_limit_every_filling_is_visited_once(
            groups in prop::collection::vec(group(), 1..3), cap in 0u64..200, share in 1.0f64..1.6,
        ) {
            let groups: Vec<_> = groups.into_iter().map(|(n, c)| (n.min(4), c)).collect();
            let knapsack = Knapsack::new(groups.clone()).unwrap();
            let Some(least) = knapsack.solve(cap) else { return Ok(()) };
            let limit = least.cost * share;
            let mut found = Vec::new();
            prop_assert!(knapsack.within(cap, limit, u32::MAX, &mut |counts| found.push(counts)));
            let visited = found.len();
            found.sort();
            found.dedup();
            prop_assert_eq!(visited, found.len());
            // Every multiset of choices, group by group.
            let mut all: Vec<(Counts, u64, f64)> = vec![(Vec::new(), 0, 0.0)];
            for (g, (count, choices)) in groups.iter().enumerate() {
                let mut multisets: Vec<Vec<u32>> = vec![vec![0; choices.len()]];
                for _ in 0..*count {
                    multisets = multisets.iter().flat_map(|m| (0..choices.len()).map(|i| {
                        let mut next = m.clone();
                        next[i] += 1;
                        next
                    }).collect::<Vec<_>>()).collect();
                    multisets.sort();
                    multisets.dedup();
                }
                all = all.iter().flat_map(|(counts, size, cost)| multisets.iter().map(|m| {
                    let mut next = (counts.clone(), *size, *cost);
                    for (i, &n) in m.iter().enumerate().filter(|(_, n)| **n > 0) {
                        next.0.push((g as u32, i as u32, n));
                        next.1 += u64::from(choices[i].size) * u64::from(n);
                        next.2 += choices[i].cost * f64::from(n);
                    }
                    next
                }).collect::<Vec<_>>()).collect();
            }
            let clear = |cost: f64| (cost - limit).abs() > 1e-9;
            let mut expected: Vec<Counts> =
                all.iter().filter(|x| x.1 <= cap && x.2 < limit && clear(x.2)).map(|x| x.0.clone()).collect();
            expected.sort();
            for counts in &expected {
                prop_assert!(found.contains(counts), "{counts:?} is missing");
            }
        }
    }

    #[test]
    fn a_thousand_like_items_are_no_more_work_than_ten() {
        let choices = |n| {
            let id = |i: u32, cost, size| Choice { cost, size, id: i };
            Knapsack::new([(n, vec![id(0, 9.0, 311), id(1, 5.0, 722), id(2, 4.2, 1019), id(3, 6.1, 633)])]).unwrap()
        };
        let nodes = |n: u32| {
            let knapsack = choices(n);
            let cap = u64::from(n) * 640 + 17;
            let relaxed = knapsack.relax(cap).unwrap();
            let mut search = Search::new(&knapsack, &relaxed, cap, false);
            search.run(&mut Best { above: f64::INFINITY, extra: Vec::new(), moved: 0 });
            search.nodes
        };
        assert!(nodes(1000) <= 100 * nodes(10).max(1), "{} {}", nodes(10), nodes(1000));
    }
}
