//! What a device does: passes of one stage for one micro-batch, alone or as an overlapped pair.
//!
//! F is the forward, B the backward for the inputs only, W the backward for the weights only, BW both in one, as in Qi
//! 2024 ("Zero bubble pipeline parallelism"). torch writes I for our B and B for our BW.

use std::fmt;

/// A kind of pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Forward.
    F,
    /// Gradient of the inputs.
    B,
    /// Gradient of the weights.
    W,
    /// Both gradients in one.
    BW,
}

impl Pass {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pass::F => "F",
            Pass::B => "B",
            Pass::W => "W",
            Pass::BW => "BW",
        }
    }

    /// Whether it makes the gradient that the stage before waits for.
    pub fn is_backward(self) -> bool {
        matches!(self, Pass::B | Pass::BW)
    }
}

/// One pass of one stage for one micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action {
    /// Which pass.
    pub pass: Pass,
    /// Stage, counted over all devices in the order in which a micro-batch visits them.
    pub stage: u32,
    /// Micro-batch.
    pub microbatch: u32,
}

impl Action {
    /// An action.
    pub fn new(pass: Pass, stage: usize, microbatch: usize) -> Self {
        Self { pass, stage: stage as u32, microbatch: microbatch as u32 }
    }
}

impl fmt::Display for Action {
    /// Stage, pass, micro-batch: `2F0`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}{}", self.stage, self.pass.name(), self.microbatch)
    }
}

/// What a device runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// One action.
    One(Action),
    /// A forward and a backward of different micro-batches whose kernels and transfers overlap (DualPipe).
    Pair {
        /// The forward.
        forward: Action,
        /// The backward.
        backward: Action,
    },
}

impl Step {
    /// Its actions, the forward of a pair first.
    pub fn actions(self) -> impl Iterator<Item = Action> {
        let (first, second) = match self {
            Step::One(action) => (action, None),
            Step::Pair { forward, backward } => (forward, Some(backward)),
        };
        std::iter::once(first).chain(second)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Step::One(action) => action.fmt(f),
            Step::Pair { forward, backward } => write!(f, "{forward}&{backward}"),
        }
    }
}

impl From<Action> for Step {
    fn from(action: Action) -> Self {
        Step::One(action)
    }
}
