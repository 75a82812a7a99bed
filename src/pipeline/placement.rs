//! Which device runs which stage.
//!
//! A route is a run of stages that a micro-batch visits one after the other. Nearly all schedules have one; schedules
//! that feed the pipeline from both ends (Chimera, DualPipe) have two, with a copy of the model each, and the
//! micro-batches are dealt to the routes in equal runs.

use super::PipelineError;
use std::ops::Range;

/// A map from stages to devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    devices: usize,
    device_of: Vec<u32>,
    /// First stage of every route.
    route_starts: Vec<u32>,
}

impl Placement {
    /// Any map. `device_of[x]` is the device of stage `x`.
    ///
    /// # Errors
    /// [`PipelineError::Placement`] when there is no stage, or a device that does not exist or has no stage.
    pub fn explicit(devices: usize, device_of: Vec<u32>) -> Result<Self, PipelineError> {
        Self::with_routes(devices, device_of, 1)
    }

    /// Any map with `routes` routes of equal length.
    ///
    /// # Errors
    /// As [`Placement::explicit`], or when the stages do not divide into the routes.
    pub fn with_routes(devices: usize, device_of: Vec<u32>, routes: usize) -> Result<Self, PipelineError> {
        let refuse = |why: String| Err(PipelineError::Placement { why });
        if device_of.is_empty() || routes == 0 || !device_of.len().is_multiple_of(routes) {
            return refuse(format!("{} stages do not make {routes} routes of equal length", device_of.len()));
        }
        if let Some((x, d)) = device_of.iter().enumerate().find(|(_, d)| **d as usize >= devices) {
            return refuse(format!("stage {x} is on device {d}, expected a device below {devices}"));
        }
        if let Some(d) = (0..devices).find(|d| !device_of.contains(&(*d as u32))) {
            return refuse(format!("device {d} has no stage"));
        }
        let length = device_of.len() / routes;
        let route_starts = (0..routes).map(|r| (r * length) as u32).collect();
        Ok(Self { devices, device_of, route_starts })
    }

    fn built(devices: usize, device_of: Vec<u32>, routes: usize) -> Self {
        let length = device_of.len() / routes.max(1);
        Self { devices, device_of, route_starts: (0..routes).map(|r| (r * length) as u32).collect() }
    }

    /// Stage `x` on device `x mod p` (Megatron's interleaving). `p` and `v` of zero count as one.
    pub fn looped(p: usize, v: usize) -> Self {
        let (p, v) = (p.max(1), v.max(1));
        Self::built(p, (0..p * v).map(|x| (x % p) as u32).collect(), 1)
    }

    /// Down and up alternately, `v` times (Hanayo's waves); two are the V of ZB-V and DualPipeV.
    pub fn wave(p: usize, v: usize) -> Self {
        let (p, v) = (p.max(1), v.max(1));
        let device = |x: usize| if (x / p).is_multiple_of(2) { x % p } else { p - 1 - x % p };
        Self::built(p, (0..p * v).map(|x| device(x) as u32).collect(), 1)
    }

    /// Down once and up once.
    pub fn vee(p: usize) -> Self {
        Self::wave(p, 2)
    }

    /// Two routes, one down and one up (Chimera, DualPipe).
    pub fn bidirectional(p: usize) -> Self {
        let mut placement = Self::vee(p);
        placement.route_starts = vec![0, p.max(1) as u32];
        placement
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Number of stages over all routes.
    pub fn stages(&self) -> usize {
        self.device_of.len()
    }

    /// Device of a stage.
    pub fn device(&self, stage: usize) -> usize {
        self.device_of[stage] as usize
    }

    /// Device of every stage.
    pub fn device_of(&self) -> &[u32] {
        &self.device_of
    }

    /// Stages of a device, in order: chunk `c` is the `c`-th of them.
    pub fn chunks(&self, device: usize) -> impl Iterator<Item = usize> {
        self.device_of.iter().enumerate().filter(move |(_, d)| **d as usize == device).map(|(x, _)| x)
    }

    /// Number of routes.
    pub fn routes(&self) -> usize {
        self.route_starts.len()
    }

    /// Stages of a route.
    pub fn route(&self, route: usize) -> Range<usize> {
        let end = self.route_starts.get(route + 1).map_or(self.stages(), |x| *x as usize);
        self.route_starts[route] as usize..end
    }

    /// Route of a stage.
    pub fn route_of(&self, stage: usize) -> usize {
        self.route_starts.partition_point(|start| *start as usize <= stage) - 1
    }

    /// The stage before, on the same route.
    pub fn previous(&self, stage: usize) -> Option<usize> {
        (self.route(self.route_of(stage)).start < stage).then(|| stage - 1)
    }

    /// The stage after, on the same route.
    pub fn next(&self, stage: usize) -> Option<usize> {
        (stage + 1 < self.route(self.route_of(stage)).end).then_some(stage + 1)
    }

    /// Micro-batches that take a stage's route, of `m` in all.
    pub fn microbatches(&self, stage: usize, m: usize) -> Range<usize> {
        let (route, routes) = (self.route_of(stage), self.routes());
        route * m / routes..(route + 1) * m / routes
    }

    /// The name of its shape, if it has one.
    pub fn shape(&self) -> &'static str {
        let p = self.devices;
        let v = self.stages() / p;
        if self.routes() == 2 && *self == Self::bidirectional(p) {
            "bidirectional"
        } else if *self == Self::looped(p, v) {
            "loop"
        } else if *self == Self::wave(p, v) {
            "wave"
        } else {
            "explicit"
        }
    }
}
