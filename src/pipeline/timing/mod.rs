//! Time of one training step under the fixed schedules of the frameworks, for stages of unequal cost.
//!
//! Virtual stage `x` of `p * v` runs on device `x mod p` (Megatron's loop placement). Each device runs its actions in a
//! fixed order; an action starts when the device is free and its input has arrived; a transfer takes the latency of
//! its hop, overlaps with computation and delays nobody but its receiver. All times are seconds.
//!
//! [`Simulator`] is the exact event simulation, [`lower_bound`] a closed form that never exceeds it, [`in_flight`] and
//! [`peak_live`] count the activations that a device holds.
//!
//! Sources: GPipe (Huang 2019, section 2.3), 1F1B (Narayanan 2021, "Efficient large-scale language model training on
//! GPU clusters", section 2.2), interleaved order with micro-batch groups (Megatron-LM,
//! `core/pipeline_parallel/schedules.py`, `get_schedule_table` and `get_pp_rank_microbatches`, read 2026-11).

mod bound;
mod live;
mod order;
mod simulate;

pub use bound::lower_bound;
pub use live::{in_flight, peak_live};
pub use simulate::{Simulator, simulate};

/// A schedule that training frameworks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forwards, then all backwards. With several chunks per device it goes breadth first: a chunk's forwards of
    /// every micro-batch before the next chunk's.
    Gpipe,
    /// One forward, one backward; one chunk per device.
    OneF1B,
    /// Interleaved 1F1B: device `d` runs `2(p-d-1) + (v-1) * group` forwards before it alternates.
    Interleaved {
        /// Micro-batches that a chunk runs before the next chunk's turn; Megatron's default is `p`. A last group may be
        /// smaller.
        group: usize,
    },
}

/// Durations by virtual stage in the order in which a micro-batch visits them, in seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageTimes {
    /// Forward of one micro-batch.
    pub forward: Vec<f64>,
    /// Whole backward of one micro-batch.
    pub backward: Vec<f64>,
    /// Latency from stage `x` to `x + 1`; one fewer than stages (a further entry is not read).
    pub hop_forward: Vec<f64>,
    /// Latency from stage `x + 1` back to `x`; one fewer than stages (a further entry is not read).
    pub hop_backward: Vec<f64>,
}

impl StageTimes {
    /// `stages` equal stages without transfer time.
    pub fn uniform(stages: usize, forward: f64, backward: f64) -> Self {
        let hops = stages.saturating_sub(1);
        Self {
            forward: vec![forward; stages],
            backward: vec![backward; stages],
            hop_forward: vec![0.0; hops],
            hop_backward: vec![0.0; hops],
        }
    }
}

/// What one device did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceTime {
    /// Start of its first action.
    pub first_start: f64,
    /// End of its last action, which is its last backward: gradients are complete from here on.
    pub last_end: f64,
    /// Sum of its actions.
    pub busy: f64,
    /// Idle share of the makespan, `1 - busy / makespan`; zero when nothing takes time.
    pub bubble: f64,
}

/// Result of a simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// End of the last action; the first starts at zero.
    pub makespan: f64,
    /// By device.
    pub devices: Vec<DeviceTime>,
}

impl Timeline {
    /// Idle share of all devices' time.
    pub fn bubble(&self) -> f64 {
        let busy: f64 = self.devices.iter().map(|d| d.busy).sum();
        let total = self.makespan * self.devices.len() as f64;
        if total > 0.0 { 1.0 - busy / total } else { 0.0 }
    }

    /// The largest time between a device's first start and last end: the step time of an optimizer that does not wait
    /// for all devices (Qi 2024, "Zero bubble pipeline parallelism", section 4).
    pub fn span(&self) -> f64 {
        self.devices.iter().map(|d| d.last_end - d.first_start).fold(0.0, f64::max)
    }
}

/// Why there is no timeline.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TimingError {
    /// A count is zero.
    #[error("{what} is zero; at least 1 is needed")]
    Zero {
        /// Which count.
        what: &'static str,
    },
    /// 1F1B with several chunks per device.
    #[error("1F1B has one chunk per device, found {chunks}; interleaved 1F1B has more")]
    Chunks {
        /// Chunks asked for.
        chunks: usize,
    },
    /// A list of times is too short.
    #[error("{field} has {found} entries, expected {expected}")]
    Length {
        /// Which list.
        field: &'static str,
        /// Its length.
        found: usize,
        /// Length needed.
        expected: usize,
    },
    /// A time is negative, infinite or not a number.
    #[error("{field}[{index}] is {found}, expected a finite time that is not negative")]
    Time {
        /// Which list.
        field: &'static str,
        /// Position in the list.
        index: usize,
        /// The value.
        found: f64,
    },
    /// A device that does not exist.
    #[error("device {device} of {devices}; devices are numbered from 0")]
    Device {
        /// Device asked for.
        device: usize,
        /// Number of devices.
        devices: usize,
    },
    /// The devices wait for each other.
    #[error(
        "the interleaved order deadlocks for {devices} devices, {chunks} chunks, {microbatches} micro-batches in groups of {group}: a group, the last one included, should have at least {devices} micro-batches"
    )]
    Deadlock {
        /// Devices.
        devices: usize,
        /// Chunks per device.
        chunks: usize,
        /// Micro-batches.
        microbatches: usize,
        /// Group size.
        group: usize,
    },
}

/// Refuses counts and times that make no sense.
fn check(kind: Kind, p: usize, v: usize, m: usize, times: &StageTimes) -> Result<(), TimingError> {
    check_counts(kind, p, v, m)?;
    let stages = p * v;
    for (field, list, expected) in [
        ("forward", &times.forward, stages),
        ("backward", &times.backward, stages),
        ("hop_forward", &times.hop_forward, stages - 1),
        ("hop_backward", &times.hop_backward, stages - 1),
    ] {
        if list.len() < expected || list.len() > stages {
            return Err(TimingError::Length { field, found: list.len(), expected });
        }
        if let Some((index, &found)) = list.iter().enumerate().find(|(_, t)| !(t.is_finite() && **t >= 0.0)) {
            return Err(TimingError::Time { field, index, found });
        }
    }
    Ok(())
}

fn check_counts(kind: Kind, p: usize, v: usize, m: usize) -> Result<(), TimingError> {
    let group = if let Kind::Interleaved { group } = kind { group } else { 1 };
    for (what, n) in [("devices", p), ("chunks per device", v), ("micro-batches", m), ("micro-batch group", group)] {
        if n == 0 {
            return Err(TimingError::Zero { what });
        }
    }
    if kind == Kind::OneF1B && v != 1 {
        return Err(TimingError::Chunks { chunks: v });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
