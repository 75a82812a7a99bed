//! What passes, transfers and activations cost. Times are in one unit of the caller's choice, memory in another.

use super::PipelineError;
use super::placement::Placement;
use super::schedule::StageFlags;

/// Costs of one stage for one micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageCost {
    /// Time of F.
    pub forward: f64,
    /// Time of B.
    pub backward: f64,
    /// Time of W; BW takes B and W together.
    pub weight: f64,
    /// Memory from F until the backward is done.
    pub activation: f64,
    /// The part of it that stays between B and W.
    pub residue: f64,
    /// The part of it that stays between F and the backward of a stage that recomputes.
    pub kept: f64,
    /// Time to copy the activation to host memory, or back.
    pub copy: f64,
}

/// A transfer between neighbouring stages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Transfer {
    /// From the end of the sending to the arrival.
    pub latency: f64,
    /// Time on the link (bytes over bandwidth); messages between the same two devices queue up, each direction by itself.
    pub occupancy: f64,
}

/// When a send may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sends {
    /// As soon as its data exist: the receiver has room for it.
    #[default]
    Eager,
    /// Once the receiver is waiting for it; the sender goes on meanwhile.
    Rendezvous,
    /// Once the receiver is waiting for it; the sender waits until it is delivered.
    Blocking,
}

/// What an overlapped pair costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pairing {
    /// Forward, then backward, each as early as it can be: no gain and no harm.
    #[default]
    Sequential,
    /// Both at once: starts when both inputs are there, takes the longer plus `1 - overlap` of the shorter.
    Joint {
        /// Share of the shorter that is hidden, 0 to 1.
        overlap: f64,
    },
}

/// All costs of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// By stage.
    pub stages: Vec<StageCost>,
    /// From stage `x` to `x + 1`, where they are on different devices.
    pub forward_hops: Vec<Transfer>,
    /// From stage `x + 1` to `x`, likewise.
    pub backward_hops: Vec<Transfer>,
    /// When sends start.
    pub sends: Sends,
    /// What pairs cost.
    pub pairing: Pairing,
    /// Memory that each device holds all the time.
    pub resident: Vec<f64>,
    /// Memory of each device; `None` is no limit.
    pub limit: Option<Vec<f64>>,
}

impl Costs {
    /// The costs of a table: `f`, `b`, `w` are the times of all layers of one device for one micro-batch, divided over
    /// its chunks; `hop` is a latency. One unit of memory is the activation of all layers of one device for one
    /// micro-batch, held at once until W.
    pub fn table(placement: &Placement, flags: &[StageFlags], f: f64, b: f64, w: f64, hop: f64) -> Self {
        let stages = placement.stages();
        let stage = |x: usize| {
            let (device, route) = (placement.device(x), placement.route_of(x));
            let is_share = |y: usize| placement.device(y) == device && !flags.get(y).is_some_and(|f| f.forward_only);
            let share = 1.0 / placement.route(route).filter(|y| is_share(*y)).count().max(1) as f64;
            StageCost {
                forward: f * share,
                backward: b * share,
                weight: w * share,
                activation: share,
                residue: share,
                kept: 0.0,
                copy: 0.0,
            }
        };
        let hops = vec![Transfer { latency: hop, occupancy: 0.0 }; stages.saturating_sub(1)];
        Self {
            stages: (0..stages).map(stage).collect(),
            forward_hops: hops.clone(),
            backward_hops: hops,
            sends: Sends::default(),
            pairing: Pairing::default(),
            resident: vec![0.0; placement.devices()],
            limit: None,
        }
    }

    /// The same limit for every device.
    pub fn with_limit(mut self, limit: f64) -> Self {
        self.limit = Some(vec![limit; self.resident.len()]);
        self
    }

    /// Keeps only `share` of every activation between B and W (M_W / M_B of the zero-bubble paper).
    pub fn with_residue(mut self, share: f64) -> Self {
        for stage in &mut self.stages {
            stage.residue = stage.activation * share;
        }
        self
    }

    /// Stages that recompute keep only `share` of every activation between F and the backward.
    pub fn with_kept(mut self, share: f64) -> Self {
        for stage in &mut self.stages {
            stage.kept = stage.activation * share;
        }
        self
    }

    /// Refuses lists of the wrong length and numbers that are no times or amounts.
    ///
    /// # Errors
    /// [`PipelineError::Costs`] names the field.
    pub fn check(&self, placement: &Placement) -> Result<(), PipelineError> {
        let refuse =
            |field: String, found: String, expected: String| Err(PipelineError::Costs { field, found, expected });
        let (stages, devices) = (placement.stages(), placement.devices());
        let limits = self.limit.as_ref().map_or(devices, Vec::len);
        for (field, found, expected) in [
            ("stages", self.stages.len(), stages),
            ("forward_hops", self.forward_hops.len(), stages - 1),
            ("backward_hops", self.backward_hops.len(), stages - 1),
            ("resident", self.resident.len(), devices),
            ("limit", limits, devices),
        ] {
            if found != expected {
                return refuse(field.to_owned(), format!("{found} entries"), format!("{expected} entries"));
            }
        }
        let amount = |field: String, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(())
            } else {
                refuse(field, value.to_string(), "a finite number that is not negative".to_owned())
            }
        };
        for (x, s) in self.stages.iter().enumerate() {
            for (name, value) in [
                ("forward", s.forward),
                ("backward", s.backward),
                ("weight", s.weight),
                ("activation", s.activation),
                ("residue", s.residue),
                ("kept", s.kept),
                ("copy", s.copy),
            ] {
                amount(format!("stages[{x}].{name}"), value)?;
            }
        }
        for (name, hops) in [("forward_hops", &self.forward_hops), ("backward_hops", &self.backward_hops)] {
            for (x, hop) in hops.iter().enumerate() {
                amount(format!("{name}[{x}].latency"), hop.latency)?;
                amount(format!("{name}[{x}].occupancy"), hop.occupancy)?;
            }
        }
        for (d, value) in self.resident.iter().enumerate() {
            amount(format!("resident[{d}]"), *value)?;
        }
        for (d, value) in self.limit.iter().flatten().enumerate() {
            amount(format!("limit[{d}]"), *value)?;
        }
        match self.pairing {
            Pairing::Joint { overlap } if !(0.0..=1.0).contains(&overlap) => {
                refuse("overlap".to_owned(), overlap.to_string(), "a number from 0 to 1".to_owned())
            }
            _ => Ok(()),
        }
    }
}
