//! The chain of a task as an integer program: a path through a layered network, with a row per segment for its resource.
//!
//! Binary variables say which option an item takes in which segment, continuous ones carry the flow between the layouts of
//! neighbours. Without the resource rows the matrix is that of a network, whose linear relaxation is integral (Ahuja,
//! Magnanti and Orlin 1993, "Network flows", section 11.12), so branching is about memory only. Alpa writes its
//! intra-operator choice so (Zheng et al. 2022, section 4.2), there with arcs between all pairs of options; layouts are
//! fewer. The slowest segment enters by an epigraph variable.

use crate::search::decompose::{COSTS, Chain, ChainOption, ChainSolution, Cost, Cuts, FixedItem, Linear};
use crate::search::exact::relax::resource;
use crate::search::exact::round::fold;
use good_lp::solvers::microlp::{MicroLpProblem, MicroLpSolution, microlp};
use good_lp::solvers::{SolutionStatus, WithTimeLimit};
use good_lp::{Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, variable};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Relative error allowed to the solver's optimum, for what is called a bound: its pivots and its tests for integers take
/// differences below this for zero.
const TOLERANCE: f64 = 1e-7;

/// How often a wait looks whether the search is to stop.
const LOOK: Duration = Duration::from_millis(20);

/// How a program ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Solved {
    /// Its optimum, and a bound on the objective of everything in the chain.
    Optimal(ChainSolution, f64),
    /// A solution when the time was over.
    Feasible(ChainSolution),
    /// Nothing satisfies it.
    Infeasible,
    /// The time was over before it had a solution, or it was told to stop.
    Late,
    /// It said something else.
    Unknown(String),
}

/// Where an item may stand.
struct Place {
    item: FixedItem,
    segment: usize,
    /// The place before it in the same segment.
    before: Option<usize>,
    /// Whether it may be the first of its segment.
    first: bool,
}

/// Places of all items; those of one segment in a row.
fn places(chain: &Chain) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    match &chain.cuts {
        Cuts::Fixed(lists) => {
            for (segment, items) in lists.iter().enumerate() {
                for (k, item) in items.iter().enumerate() {
                    let before = (k > 0).then(|| places.len() - 1);
                    places.push(Place { item: *item, segment, before, first: k == 0 });
                }
            }
        }
        Cuts::Free { .. } => {
            let (n, p) = (chain.items.len(), chain.segments.len());
            for segment in 0..p {
                // Segments in front and behind need an item each.
                let last = n.saturating_sub(p - segment);
                for i in segment..=last {
                    let multiplier = chain.segments[segment].multiplier;
                    let item = FixedItem { item: i as u32, multiplier, lead: false, follows: true };
                    let before = (i > segment).then(|| places.len() - 1);
                    let first = segment > 0 || i == 0;
                    places.push(Place { item, segment, before, first });
                }
            }
        }
    }
    places
}

/// Layouts of each class, ascending.
fn layouts(chain: &Chain) -> Vec<Vec<u16>> {
    let of = |options: &std::sync::Arc<[ChainOption]>| {
        let mut layouts: Vec<u16> = options.iter().map(|option| option.layout).collect();
        layouts.sort_unstable();
        layouts.dedup();
        layouts
    };
    chain.options.iter().map(of).collect()
}

/// Variables that the program of `chain` has.
pub fn variables(chain: &Chain) -> usize {
    let layouts = layouts(chain);
    let class = |place: &Place| chain.items[place.item.item as usize] as usize;
    let places = places(chain);
    let free = matches!(chain.cuts, Cuts::Free { .. });
    let of = |place: &Place| {
        let options = chain.options[class(place)].len();
        let own = layouts[class(place)].len();
        let arcs = place.before.filter(|_| place.item.follows).map_or(0, |b| layouts[class(&places[b])].len() * own);
        options + arcs + if free && chain.segments.len() > 1 { 2 * own } else { 0 }
    };
    places.iter().map(of).sum::<usize>() + chain.segments.len() + 1
}

/// A program under construction.
struct Writer {
    all: ProblemVariables,
    rows: Vec<good_lp::Constraint>,
    /// By segment: variables with what they cost.
    costs: Vec<Vec<(Variable, Cost)>>,
}

impl Writer {
    fn flow(&mut self, segment: usize, cost: Cost) -> Variable {
        let variable = self.all.add(variable().clamp(0, 1));
        self.costs[segment].push((variable, cost));
        variable
    }

    fn equal(&mut self, terms: impl IntoIterator<Item = (f64, Variable)>, right: f64) {
        let mut row = Expression::default();
        terms.into_iter().for_each(|(factor, variable)| row.add_mul(factor, variable));
        self.rows.push(row.eq(right));
    }
}

/// Variables of a place.
#[derive(Default)]
struct Written {
    options: Vec<Variable>,
    /// Flow that enters and leaves the segment here, by layout.
    enters: Vec<Variable>,
    leaves: Vec<Variable>,
    /// Arcs from here to the next place of the segment: from layout, to layout, variable.
    onward: Vec<(usize, usize, Variable)>,
}

/// When to give a program up.
pub struct Limits<'a> {
    /// The time there is.
    pub time: Option<Duration>,
    /// Whether somebody asked to stop.
    pub halted: &'a dyn Fn() -> bool,
}

/// Solves the program of `chain`, whose objective is at least what `linear` says, within `limits`.
pub fn solve(chain: &Chain, linear: &Linear, limits: &Limits<'_>) -> Solved {
    let places = places(chain);
    let layouts = layouts(chain);
    let segments = chain.segments.len();
    let free = matches!(chain.cuts, Cuts::Free { .. });
    let class_of = |place: &Place| chain.items[place.item.item as usize];
    let mut writer = Writer { all: ProblemVariables::new(), rows: Vec::new(), costs: vec![Vec::new(); segments] };
    let mut written: Vec<Written> = Vec::with_capacity(places.len());
    for place in &places {
        let class = class_of(place);
        let own = &layouts[class as usize];
        let fixed_entry = place.first && !(free && place.segment > 0);
        let option = |option: &ChainOption, writer: &mut Writer| {
            let mut cost = option.cost;
            let mut add = |more: Cost| (0..COSTS).for_each(|k| cost[k] += more[k]);
            if place.item.lead {
                add(option.lead);
            }
            if fixed_entry {
                add(chain.transition.entry(place.segment, class, option.layout));
            } else if !place.item.follows {
                add(chain.transition.rejoin(place.segment, class, option.layout));
            }
            let variable = writer.all.add(variable().binary());
            writer.costs[place.segment].push((variable, cost));
            variable
        };
        let mut now = Written {
            options: chain.options[class as usize].iter().map(|o| option(o, &mut writer)).collect(),
            ..Written::default()
        };
        if free && place.segment > 0 {
            let entry = |layout: &u16| chain.transition.entry(place.segment, class, *layout);
            now.enters = own.iter().map(|layout| writer.flow(place.segment, entry(layout))).collect();
        }
        if free && place.segment + 1 < segments {
            now.leaves = own.iter().map(|_| writer.flow(place.segment, [0.0; COSTS])).collect();
        }
        if let Some(before) = place.before.filter(|_| place.item.follows) {
            let from = &layouts[class_of(&places[before]) as usize];
            for (a, left) in from.iter().enumerate() {
                for (b, right) in own.iter().enumerate() {
                    let cost = match left == right {
                        true => [0.0; COSTS],
                        false => chain.transition.between(class, *left, *right),
                    };
                    let arc = writer.flow(place.segment, cost);
                    written[before].onward.push((a, b, arc));
                }
            }
        }
        written.push(now);
    }
    balance(chain, &places, &layouts, &written, &mut writer);
    limit(chain, &places, &written, &mut writer);
    optimise(chain, &places, &written, writer, linear, limits)
}

/// What enters a layout of a place is what stands there, and what stands there leaves.
fn balance(chain: &Chain, places: &[Place], layouts: &[Vec<u16>], written: &[Written], writer: &mut Writer) {
    let free = matches!(chain.cuts, Cuts::Free { .. });
    let segments = chain.segments.len();
    let class_of = |place: &Place| chain.items[place.item.item as usize] as usize;
    let after = |at: usize| (at + 1 < places.len() && places[at + 1].before == Some(at)).then_some(at + 1);
    for (at, place) in places.iter().enumerate() {
        let class = class_of(place);
        let here = &written[at];
        for (l, layout) in layouts[class].iter().enumerate() {
            let standing = || {
                let options = chain.options[class].iter().zip(&here.options);
                options.filter(|(option, _)| option.layout == *layout).map(|(_, variable)| (1.0, *variable))
            };
            let from = place.before.filter(|_| place.item.follows);
            if from.is_some() || !here.enters.is_empty() {
                let arcs = from.into_iter().flat_map(|before| &written[before].onward);
                let arcs = arcs.filter(|(_, to, _)| *to == l).map(|(.., arc)| (-1.0, *arc));
                let enters = here.enters.get(l).map(|entry| (-1.0, *entry));
                writer.equal(standing().chain(arcs).chain(enters), 0.0);
            }
            let next = after(at).filter(|next| places[*next].item.follows);
            if next.is_some() || !here.leaves.is_empty() {
                let arcs = here.onward.iter().filter(|(from, ..)| *from == l).map(|(.., arc)| (-1.0, *arc));
                let leaves = here.leaves.get(l).map(|exit| (-1.0, *exit));
                writer.equal(standing().chain(arcs).chain(leaves), 0.0);
            }
        }
        // Whatever leaves a segment behind item i enters the next one at item i + 1.
        if free && place.segment > 0 {
            let item = place.item.item;
            let left =
                (0..places.len()).find(|x| places[*x].segment + 1 == place.segment && places[*x].item.item + 1 == item);
            let leaves = left.into_iter().flat_map(|x| &written[x].leaves).map(|exit| (-1.0, *exit));
            writer.equal(here.enters.iter().map(|entry| (1.0, *entry)).chain(leaves), 0.0);
        }
        if free && place.segment + 1 < segments {
            let item = place.item.item;
            let enters = places.iter().any(|x| x.segment == place.segment + 1 && x.item.item == item + 1);
            if !enters {
                writer.equal(here.leaves.iter().map(|exit| (1.0, *exit)), 0.0);
            }
        }
    }
    let mut by_item: BTreeMap<u32, Vec<Variable>> = BTreeMap::new();
    for (place, here) in places.iter().zip(written) {
        by_item.entry(place.item.item).or_default().extend(&here.options);
    }
    for options in by_item.into_values() {
        writer.equal(options.into_iter().map(|variable| (1.0, variable)), 1.0);
    }
}

/// What a segment needs of its resource, as a share of what it has; and how many items it must hold.
fn limit(chain: &Chain, places: &[Place], written: &[Written], writer: &mut Writer) {
    for (s, segment) in chain.segments.iter().enumerate() {
        let scale = if segment.cap > 0.0 { 1.0 / segment.cap } else { 1.0 };
        let peak = writer.all.add(variable().min(0));
        let mut row = Expression::default();
        let mut items = Expression::default();
        row.add_mul(1.0, peak);
        for (place, here) in places.iter().zip(written).filter(|(place, _)| place.segment == s) {
            let options = &chain.options[chain.items[place.item.item as usize] as usize];
            let mut highest = Expression::default();
            for (option, variable) in options.iter().zip(&here.options) {
                row.add_mul(scale * resource(option, place.item.multiplier), *variable);
                items.add_mul(1.0, *variable);
                if option.peak > 0.0 {
                    highest.add_mul(scale * option.peak, *variable);
                }
            }
            highest.add_mul(-1.0, peak);
            writer.rows.push(highest.leq(0.0));
        }
        writer.rows.push(row.leq(scale * segment.cap));
        if let Cuts::Free { min_items } = chain.cuts
            && min_items > 1
        {
            writer.rows.push(items.geq(min_items as f64));
        }
    }
}

/// Solves `model` in a thread of its own, for the solver looks at clocks only, and seldom: asked to stop, or past its time, it is
/// left to itself and ends when it does. `None` where it was.
fn outside(model: MicroLpProblem, halted: &dyn Fn() -> bool) -> Option<Result<MicroLpSolution, ResolutionError>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(model.solve()));
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(found) => return Some(found),
            Err(RecvTimeoutError::Timeout) if halted() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(ResolutionError::Other("the solver panicked")));
            }
        }
    }
}

fn optimise(
    chain: &Chain,
    places: &[Place],
    written: &[Written],
    mut writer: Writer,
    linear: &Linear,
    limits: &Limits<'_>,
) -> Solved {
    let dot = |a: &Cost, b: &Cost| (0..COSTS).map(|k| a[k] * b[k]).sum::<f64>();
    let weight = |cost: &Cost| dot(&linear.sum, cost).max(dot(&linear.largest, cost));
    let heaviest = writer.costs.iter().flatten().map(|(_, cost)| weight(cost)).fold(0.0, f64::max);
    let scale = if heaviest > 0.0 { 1.0 / heaviest } else { 1.0 };
    let slowest = writer.all.add(variable().min(0));
    let mut objective = Expression::default();
    objective.add_mul(1.0, slowest);
    for costs in &writer.costs {
        let mut row = Expression::default();
        for (variable, cost) in costs {
            objective.add_mul(scale * dot(&linear.sum, cost), *variable);
            row.add_mul(scale * dot(&linear.largest, cost), *variable);
        }
        row.add_mul(-1.0, slowest);
        writer.rows.push(row.leq(0.0));
    }
    let mut model = writer.all.minimise(objective).using(microlp);
    for row in writer.rows {
        model.add_constraint(row);
    }
    if let Some(time) = limits.time {
        model = model.with_time_limit(time.as_secs_f64());
    }
    let found = match outside(model, limits.halted) {
        Some(Ok(found)) => found,
        Some(Err(ResolutionError::Infeasible)) => return Solved::Infeasible,
        // Nothing else is said by `Other` of a model with a limit in time.
        Some(Err(ResolutionError::Other(_))) if limits.time.is_some() => return Solved::Late,
        Some(Err(other)) => return Solved::Unknown(other.to_string()),
        None => return Solved::Late,
    };
    let mut lists: Vec<Vec<FixedItem>> = vec![Vec::new(); chain.segments.len()];
    let mut options = vec![0u32; chain.items.len()];
    for (place, here) in places.iter().zip(written) {
        if let Some(option) = here.options.iter().position(|variable| found.value(*variable) > 0.5) {
            let follows = place.item.follows && !lists[place.segment].is_empty();
            lists[place.segment].push(FixedItem { follows, ..place.item });
            options[place.item.item as usize] = option as u32;
        }
    }
    let (solution, costs) = fold(chain, &lists, &options);
    match found.status() {
        SolutionStatus::Optimal => {
            let largest = costs.iter().map(|cost| dot(&linear.largest, cost)).fold(0.0, f64::max);
            let value = costs.iter().map(|cost| dot(&linear.sum, cost)).sum::<f64>() + largest;
            Solved::Optimal(solution, value * (1.0 - TOLERANCE))
        }
        _ => Solved::Feasible(solution),
    }
}
