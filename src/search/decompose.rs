//! The structure that exact methods use: a problem as a set of tasks, each a chain of items cut into segments.
//!
//! A task fixes the coupled outer decisions. What remains is a chain: items in order, each picking an option of its
//! class; consecutive items form segments; every segment has capped resources; the objective is a monotone fold over
//! the segments' cost vectors. Knapsacks are chains of one segment, layer-wise pipeline plans chains of many.

use super::problem::Bound;

/// Components of a cost vector. Unused ones stay zero.
pub const COSTS: usize = 8;
/// A cost vector; every component non-negative, added over the items of a segment.
pub type Cost = [f64; COSTS];

/// One way to place an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainOption {
    /// What the option is called by the problem.
    pub id: u32,
    /// Neighbours in one layout need no transition.
    pub layout: u16,
    /// Added to the segment's cost.
    pub cost: Cost,
    /// Added to the segment's cost as well when the item is one of the segment's lead (see [`FixedItem::lead`]).
    pub lead: Cost,
    /// Added to the segment's use of the resource.
    pub fixed: f64,
    /// Added to the segment's use of the resource, times the multiplier in force.
    pub scaled: f64,
    /// The segment needs the largest of these on top of the sums.
    pub peak: f64,
}

/// An item dealt to a segment from the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedItem {
    /// Index into [`Chain::items`].
    pub item: u32,
    /// Multiplier of [`ChainOption::scaled`] for this item.
    pub multiplier: f64,
    /// Whether [`ChainOption::lead`] is added.
    pub lead: bool,
    /// Whether the item before it in this segment is its neighbour in the chain (otherwise no transition is paid).
    pub follows: bool,
}

/// How items are dealt to segments.
#[derive(Debug, Clone, PartialEq)]
pub enum Cuts {
    /// Consecutive runs, at least `min_items` each; where to cut is to be decided.
    Free {
        /// Least number of items of a segment.
        min_items: usize,
    },
    /// Segment `s` holds exactly these items, in this order.
    Fixed(Vec<Vec<FixedItem>>),
}

/// What of a segment does not depend on its items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Multiplier of [`ChainOption::scaled`] under free cuts.
    pub multiplier: f64,
    /// How much of the resource there is.
    pub cap: f64,
}

/// A chain to be solved.
#[derive(Clone)]
pub struct Chain<'a> {
    /// Class of each item.
    pub items: Vec<u32>,
    /// Options per class, at least one each.
    pub options: Vec<std::sync::Arc<[ChainOption]>>,
    /// How items go to segments.
    pub cuts: Cuts,
    /// The segments in order.
    pub segments: Vec<Segment>,
    /// Monotone fold over segments.
    pub combine: std::sync::Arc<dyn Combine + 'a>,
    /// Costs of unlike neighbours.
    pub transition: std::sync::Arc<dyn Transition + 'a>,
}

/// Cost of unlike neighbours.
pub trait Transition: Sync + Send {
    /// Added between neighbours of layouts `from` and `to` inside a segment, when the later item is of class `class`.
    fn between(&self, class: u32, from: u16, to: u16) -> Cost;
    /// Added to segment `segment` whose first item has class `class` and layout `layout`.
    fn entry(&self, segment: usize, class: u32, layout: u16) -> Cost;
    /// Added when an item of class `class` and layout `layout` does not follow its neighbour inside segment `segment`.
    fn rejoin(&self, _segment: usize, _class: u32, _layout: u16) -> Cost {
        [0.0; COSTS]
    }
}

/// A linear function that the objective never falls below: that of a sum over segments and of the slowest of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// Weight of the costs of all segments together.
    pub sum: Cost,
    /// Weight of the costs of the segment where that is largest.
    pub largest: Cost,
}

/// State of the fold.
pub type Fold = [f64; 6];

/// A fold over segments from the last to the first, monotone in every component of state and cost:
/// larger in, never smaller out.
pub trait Combine: Sync + Send {
    /// Before any segment.
    fn start(&self) -> Fold;
    /// Puts segment `segment` in front of those folded so far.
    fn push(&self, state: &Fold, segment: usize, cost: &Cost) -> Fold;
    /// The objective.
    fn finish(&self, state: &Fold) -> f64;
    /// The one number of a segment's cost that the objective depends on most; additive over items.
    fn primary(&self, cost: &Cost) -> f64;
    /// Like [`Combine::push`] for a segment of which only lower bounds are known, on its primary cost and on every
    /// component: never above what any cost vector not below them gives.
    fn push_relaxed(&self, state: &Fold, segment: usize, primary: f64, floor: &Cost) -> Fold;
    /// The largest primary cost that a segment may have for the objective to stay below `objective`.
    fn primary_limit(&self, objective: f64) -> f64;
    /// A lower bound on the objective when `segments` more segments, whose primary costs sum to at least `primary`, are
    /// put in front of `state`.
    fn complete(&self, state: &Fold, segments: usize, primary: f64) -> f64;
    /// By how much the objective can grow at most per unit of each cost component.
    fn weights(&self) -> Cost;
    /// By how much it grows at least: where both are equal, cost components are worth one another.
    fn least_weights(&self) -> Cost {
        [0.0; COSTS]
    }
    /// A linear bound on the objective, for integer programs.
    fn linear(&self) -> Linear {
        Linear { sum: self.least_weights(), largest: [0.0; COSTS] }
    }
}

/// Which item goes where and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainSolution {
    /// Items of each segment, in order.
    pub segments: Vec<Vec<u32>>,
    /// Option id of each item.
    pub options: Vec<u32>,
    /// Value of the fold.
    pub objective: f64,
}

/// A problem that falls into tasks.
pub trait Decompose: Sync {
    /// As [`super::problem::Problem::Solution`].
    type Solution;
    /// Number of tasks; together they are the whole space.
    fn tasks(&self) -> usize;
    /// A cheap bound on everything in the task.
    fn task_bound(&self, task: usize) -> Bound;
    /// A bound on everything in the task once its options are priced, without a look at the chain; by default nothing more
    /// than [`Decompose::task_bound`] is known.
    fn priced_bound(&self, _task: usize) -> Bound {
        Bound::AtLeast(f64::NEG_INFINITY)
    }
    /// The chain of a task; `None` when nothing in it is feasible.
    fn chain(&self, task: usize) -> Option<Chain<'_>>;
    /// The problem's solution for a solved chain.
    fn assemble(&self, task: usize, solution: &ChainSolution) -> Self::Solution;
    /// What a solution is worth in the end. Never below its [`ChainSolution::objective`], which the bounds are about;
    /// infinite if it turns out to be infeasible.
    fn value(&self, _task: usize, solution: &ChainSolution) -> f64 {
        solution.objective
    }
    /// A solution as its task and the solution of its chain, where the problem can tell.
    fn disassemble(&self, _solution: &Self::Solution) -> Option<(usize, ChainSolution)> {
        None
    }
    /// Solutions known beforehand, as a first incumbent.
    fn seeds(&self) -> Vec<(usize, ChainSolution)> {
        Vec::new()
    }
}

impl<T: Transition> Transition for &T {
    fn between(&self, class: u32, from: u16, to: u16) -> Cost {
        T::between(self, class, from, to)
    }
    fn entry(&self, segment: usize, class: u32, layout: u16) -> Cost {
        T::entry(self, segment, class, layout)
    }
    fn rejoin(&self, segment: usize, class: u32, layout: u16) -> Cost {
        T::rejoin(self, segment, class, layout)
    }
}

impl<T: Combine> Combine for &T {
    fn start(&self) -> Fold {
        T::start(self)
    }
    fn push(&self, state: &Fold, segment: usize, cost: &Cost) -> Fold {
        T::push(self, state, segment, cost)
    }
    fn finish(&self, state: &Fold) -> f64 {
        T::finish(self, state)
    }
    fn primary(&self, cost: &Cost) -> f64 {
        T::primary(self, cost)
    }
    fn push_relaxed(&self, state: &Fold, segment: usize, primary: f64, floor: &Cost) -> Fold {
        T::push_relaxed(self, state, segment, primary, floor)
    }
    fn primary_limit(&self, objective: f64) -> f64 {
        T::primary_limit(self, objective)
    }
    fn complete(&self, state: &Fold, segments: usize, primary: f64) -> f64 {
        T::complete(self, state, segments, primary)
    }
    fn weights(&self) -> Cost {
        T::weights(self)
    }
    fn least_weights(&self) -> Cost {
        T::least_weights(self)
    }
    fn linear(&self) -> Linear {
        T::linear(self)
    }
}
