//! What Galvatron's profilers measured, reduced to what prices use. Times in ms, sizes in MB of 2^20 bytes
//! (network bandwidths in the profiler's own MB/ms).

use super::fit::Line;

/// Values by a degree that is a power of two.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ByDegree(Vec<Option<f64>>);

impl ByDegree {
    /// Sets the value at `degree`; false (and nothing set) when it is not a power of two.
    pub fn set(&mut self, degree: u32, value: f64) -> bool {
        if !degree.is_power_of_two() {
            return false;
        }
        let i = degree.trailing_zeros() as usize;
        if self.0.len() <= i {
            self.0.resize(i + 1, None);
        }
        self.0[i] = Some(value);
        true
    }

    /// The value at `degree`.
    pub fn get(&self, degree: u32) -> Option<f64> {
        if degree.is_power_of_two() { *self.0.get(degree.trailing_zeros() as usize)? } else { None }
    }

    /// Degrees that have a value, rising.
    pub fn degrees(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().filter(|(_, v)| v.is_some()).map(|(i, _)| 1 << i)
    }

    /// Every value times `factor`.
    pub fn scaled(&self, factor: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|v| v.map(&factor)).collect())
    }
}

/// Forward time of a layer (or of embedding, head and loss).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ForwardTime {
    /// ms per sample.
    PerSample(f64),
    /// ms as a line over samples.
    Affine(Line),
}

impl ForwardTime {
    /// ms for `samples` (which may be a fraction: a shard of one).
    pub fn at(&self, samples: f64) -> f64 {
        match self {
            ForwardTime::PerSample(ms) => ms * samples,
            ForwardTime::Affine(line) => line.at(samples),
        }
    }
}

/// Memory of one layer type.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerMemory {
    /// fp32 bytes of the weights of one layer, undivided.
    pub parameter_mb: f64,
    /// Activations per sample, by tensor-parallel or Ulysses degree.
    pub activation_mb: ByDegree,
    /// The layer's input per sample: what recompute keeps.
    pub checkpoint_mb: f64,
}

/// Memory of everything but the layers on one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherMemory {
    /// Weights, gradients and optimizer states, by tensor-parallel degree.
    pub states_mb: ByDegree,
    /// Activations per sample, by tensor-parallel or Ulysses degree.
    pub activation_mb: ByDegree,
}

/// Time of a collective by message size.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveTime {
    /// Measured (MB, ms), by rising size.
    pub points: Vec<(f64, f64)>,
    /// One straight line through all of them.
    pub line: Line,
}

impl CollectiveTime {
    /// ms for a message of `mb`: as measured if that very size was, from the line otherwise.
    pub fn at(&self, mb: f64) -> f64 {
        match self.points.binary_search_by(|p| p.0.total_cmp(&mb)) {
            Ok(i) => self.points[i].1,
            Err(_) => self.line.at(mb),
        }
    }

    /// The same with all times multiplied.
    pub fn times(&self, factor: f64) -> Self {
        Self {
            points: self.points.iter().map(|&(mb, ms)| (mb, ms * factor)).collect(),
            line: Line { slope: self.line.slope * factor, intercept: self.line.intercept * factor },
        }
    }
}

/// Collectives by group size, a power of two.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectiveTimes(pub Vec<Option<CollectiveTime>>);

impl CollectiveTimes {
    /// The curve of a group of `size`.
    pub fn get(&self, size: u32) -> Option<&CollectiveTime> {
        if size.is_power_of_two() { self.0.get(size.trailing_zeros() as usize)?.as_ref() } else { None }
    }

    /// Group sizes that have a curve, rising.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().filter(|(_, v)| v.is_some()).map(|(i, _)| 1 << i)
    }
}

/// The network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// ms/MB of an all-reduce among neighbouring ranks, by group size.
    pub consecutive_ms_per_mb: ByDegree,
    /// ms/MB of an all-reduce among strided ranks, by group size.
    pub strided_ms_per_mb: ByDegree,
    /// ms/MB between stages, by number of stages.
    pub p2p_ms_per_mb: ByDegree,
    /// All-gather: half the measured all-reduce.
    pub all_gather: CollectiveTimes,
    /// All-to-all.
    pub all_to_all: CollectiveTimes,
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiles {
    /// Forward time by layer type.
    pub layer_time: Vec<ForwardTime>,
    /// Forward time of embedding, head and loss.
    pub other_time: ForwardTime,
    /// Memory by layer type.
    pub layer_memory: Vec<LayerMemory>,
    /// Everything but the layers, without a pipeline.
    pub other_memory: OtherMemory,
    /// The same of the first stage of a pipeline.
    pub other_memory_first: OtherMemory,
    /// The same of the last stage of a pipeline.
    pub other_memory_last: OtherMemory,
    /// The network.
    pub network: Network,
    /// Slowdown of compute and communication that run at once, at least 1.
    pub overlap: f64,
}
