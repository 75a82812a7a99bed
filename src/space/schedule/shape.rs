//! What is decided before the order: the map from stages to devices, which stages recompute, costs, whether backwards are
//! split.

use super::question::Objective;
use crate::pipeline::bounds::{Backward, Bounds, bounds};
use crate::pipeline::{Costs, Placement, StageFlags};

/// A map with its costs, and what no order on it can beat.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Stage to device.
    pub placement: Placement,
    /// Which stages recompute, by stage; empty for none.
    pub flags: Vec<StageFlags>,
    /// Costs, memory limit included.
    pub costs: Costs,
    /// Whether B and W are apart.
    pub backward: Backward,
    /// Proven for every order.
    pub bounds: Bounds,
}

impl Shape {
    /// A shape with its bounds for `m` micro-batches.
    pub fn new(placement: Placement, costs: Costs, backward: Backward, m: usize) -> Self {
        Self::flagged(placement, Vec::new(), costs, backward, m)
    }

    /// As [`Shape::new`], with stages that recompute.
    pub fn flagged(placement: Placement, flags: Vec<StageFlags>, costs: Costs, backward: Backward, m: usize) -> Self {
        let bounds = bounds(&placement, &flags, &costs, m, backward);
        Self { placement, flags, costs, backward, bounds }
    }

    /// No order on it has a smaller objective.
    pub fn bound(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Makespan => self.bounds.makespan.time,
            Objective::Span => self.bounds.span.time,
        }
    }

    /// Chunks of a device, the most if devices differ.
    pub fn chunks(&self) -> usize {
        (0..self.placement.devices()).map(|d| self.placement.chunks(d).count()).max().unwrap_or(1)
    }

    /// In words: `loop of 2 chunks, B and W apart`.
    pub fn name(&self) -> String {
        let chunks = match self.chunks() {
            1 => String::new(),
            n => format!(" of {n} chunks"),
        };
        let backward = if self.backward == Backward::Split { "B and W apart" } else { "B and W in one" };
        let recompute = match self.flags.iter().filter(|flags| flags.recompute).count() {
            0 => String::new(),
            n if n == self.placement.stages() => ", all stages recompute".to_owned(),
            n => format!(", {n} of {} stages recompute", self.placement.stages()),
        };
        format!("{}{chunks}, {backward}{recompute}", self.placement.shape())
    }
}

/// All that a schedule may look like.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The shapes, at least one.
    pub shapes: Vec<Shape>,
    /// Micro-batches.
    pub microbatches: usize,
    /// What is to be short.
    pub objective: Objective,
}

impl Case {
    /// No schedule has a smaller objective.
    pub fn bound(&self) -> f64 {
        self.shapes.iter().map(|shape| shape.bound(self.objective)).fold(f64::INFINITY, f64::min)
    }

    /// Passes of the largest shape.
    pub fn passes(&self) -> usize {
        let most = self.shapes.iter().map(|shape| shape.placement.stages()).max().unwrap_or(1);
        3 * most * self.microbatches
    }
}
