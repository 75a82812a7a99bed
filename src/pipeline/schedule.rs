//! A schedule: for every device the order of its steps.

use super::action::{Action, Step};
use super::placement::Placement;

/// What holds for every micro-batch of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StageFlags {
    /// Only the stage's input is kept from the forward; the backward runs the forward again.
    pub recompute: bool,
    /// Activations wait in host memory between the forward and the backward.
    pub offload: bool,
    /// No backward belongs to this stage: an earlier pass of a model that runs its forward several times (3F1B).
    pub forward_only: bool,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// What it is called in reports.
    pub name: String,
    /// Stage to device.
    pub placement: Placement,
    /// Micro-batches of one training step.
    pub microbatches: usize,
    /// Steps of each device in order.
    pub orders: Vec<Vec<Step>>,
    /// By stage.
    pub flags: Vec<StageFlags>,
}

impl Schedule {
    /// A schedule without flags. It proves nothing: see [`super::validate()`].
    pub fn new(name: &str, placement: Placement, microbatches: usize, orders: Vec<Vec<Step>>) -> Self {
        let flags = vec![StageFlags::default(); placement.stages()];
        Self { name: name.to_owned(), placement, microbatches, orders, flags }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.placement.devices()
    }

    /// Actions of one device in order, pairs taken apart.
    pub fn actions(&self, device: usize) -> impl Iterator<Item = Action> {
        self.orders[device].iter().flat_map(|step| step.actions())
    }

    /// Number of actions over all devices.
    pub fn len(&self) -> usize {
        (0..self.orders.len()).map(|d| self.actions(d).count()).sum()
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.orders.iter().all(Vec::is_empty)
    }

    /// Whether some backward is split into B and W (torch.compile then refuses it).
    pub fn splits_backward(&self) -> bool {
        (0..self.orders.len()).any(|d| self.actions(d).any(|a| a.pass == super::Pass::W))
    }
}
