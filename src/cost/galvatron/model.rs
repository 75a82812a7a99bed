//! The model itself: setting, profiles and repairs together, with the look-ups that layer and embedding prices share.

use super::error::GalvatronCostError;
use super::profiles::{CollectiveTimes, Profiles};
use super::repairs::{Repair, Repairs};
use super::setting::Setting;
use super::strategy::Strategy;

/// Bytes of an MB as Galvatron counts memory and messages.
const MB: f64 = 1024.0 * 1024.0;
/// Memory above which a part is set aside, GB (Galvatron 2.4.1).
const RESERVE_ABOVE_GB: f64 = 20.0;

/// How a global batch is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Micro {
    /// Samples per iteration.
    pub global_batch: u32,
    /// Micro-batches ("chunks").
    pub chunks: u32,
}

impl Micro {
    /// Samples of one micro-batch on one of `dp` replicas, rounded down as Galvatron does.
    pub const fn samples(&self, dp: u32) -> u32 {
        self.global_batch / self.chunks / dp
    }

    /// Whether nothing is lost in rounding.
    pub const fn divides(&self, dp: u32) -> bool {
        self.global_batch.is_multiple_of(self.chunks * dp)
    }
}

/// Prices layers, embeddings and plans from Galvatron's profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// What is asked.
    pub setting: Setting,
    /// What was measured.
    pub profiles: Profiles,
    /// Faults that are mended.
    pub repairs: Repairs,
}

impl CostModel {
    /// Memory that a plan may use on one device, whole MB.
    pub fn usable_mb(&self) -> u64 {
        let total = self.setting.memory_gb * 1024.0;
        let over = if self.setting.memory_gb <= RESERVE_ABOVE_GB {
            0.0
        } else if self.repairs.has(Repair::MemoryCliff) {
            total - RESERVE_ABOVE_GB * 1024.0
        } else {
            total
        };
        (total.trunc() - (over * self.setting.constants.reserve).trunc()) as u64
    }

    /// Buffer for gathered activations on every stage when strategies up to degree `buffer_tp` are allowed, MB.
    pub fn global_buffer_mb(&self, pp: u32, buffer_tp: u32, micro: Micro) -> f64 {
        if !(self.setting.sequence_parallel && self.setting.global_memory_buffer) {
            return 0.0;
        }
        let per_replica = f64::from(micro.global_batch)
            / f64::from(micro.chunks)
            / (f64::from(self.setting.world()) / f64::from(pp) / f64::from(buffer_tp));
        let longest = self.setting.layer_types.iter().map(|t| t.sequence).max().unwrap_or(0);
        let widest = self.setting.layer_types.iter().map(|t| t.hidden).max().unwrap_or(0);
        // Galvatron halves it for every precision: it tests a text for emptiness.
        per_replica * widest as f64 * longest as f64 * 4.0 / MB / 2.0
    }

    /// Hidden states of `samples`, MB on the wire.
    pub(super) fn message_mb(&self, kind: usize, samples: f64) -> f64 {
        let t = &self.setting.layer_types[kind];
        samples * t.sequence as f64 * t.hidden as f64 * self.setting.precision.wire_bytes() / MB
    }

    /// ms/MB of an all-reduce among `n` ranks.
    pub(super) fn all_reduce_ms_per_mb(&self, n: u32, strided: bool) -> Result<f64, GalvatronCostError> {
        if n == 1 {
            return Ok(0.0);
        }
        let network = &self.profiles.network;
        // A group of all ranks has but one order.
        let strided = strided && n != self.setting.world();
        let (table, consec) =
            if strided { (&network.strided_ms_per_mb, 0) } else { (&network.consecutive_ms_per_mb, 1) };
        table
            .get(n)
            .ok_or_else(|| self.not_measured(&format!("allreduce_size_{n}_consec_{consec}"), n, table.degrees()))
    }

    /// ms/MB between stages.
    pub(super) fn p2p_ms_per_mb(&self, pp: u32) -> Result<f64, GalvatronCostError> {
        let table = &self.profiles.network.p2p_ms_per_mb;
        table.get(pp).ok_or_else(|| self.not_measured(&format!("pp_size_{pp}"), pp, table.degrees()))
    }

    /// ms of an all-gather of `mb` among `n` ranks.
    pub(super) fn all_gather_ms(&self, n: u32, mb: f64) -> Result<f64, GalvatronCostError> {
        self.collective(&self.profiles.network.all_gather, "allreduce", n, mb)
    }

    /// ms of an all-to-all of `mb` among `n` ranks.
    pub(super) fn all_to_all_ms(&self, n: u32, mb: f64) -> Result<f64, GalvatronCostError> {
        self.collective(&self.profiles.network.all_to_all, "all2all", n, mb)
    }

    fn collective(&self, table: &CollectiveTimes, name: &str, n: u32, mb: f64) -> Result<f64, GalvatronCostError> {
        table
            .get(n)
            .map(|c| c.at(mb))
            .ok_or_else(|| self.not_measured(&format!("{name}_size_{n}_*MB_time"), n, table.sizes()))
    }

    /// The error that says so.
    pub(super) fn not_measured(
        &self,
        what: &str,
        degree: u32,
        measured: impl Iterator<Item = u32>,
    ) -> GalvatronCostError {
        GalvatronCostError::NotMeasured { what: what.to_owned(), degree, measured: measured.collect() }
    }

    /// ms per micro-batch for handing hidden states from a layer under `from` to one of type `kind` under `to`.
    ///
    /// Galvatron 2.4.1, `dp_core`: (t-1)/t of the larger share is sent within the t neighbours, t the larger of the two
    /// degrees; here at true units (1e-9 s per byte and ms/MB, not 1e-7). Zero unless [`Repair::Resharding`] is on.
    pub fn resharding_ms(
        &self,
        kind: usize,
        from: &Strategy,
        to: &Strategy,
        micro: Micro,
    ) -> Result<f64, GalvatronCostError> {
        if !self.repairs.has(Repair::Resharding) || !self.setting.sequence_parallel || from.width() == to.width() {
            return Ok(0.0);
        }
        let t = f64::from(from.width().max(to.width()));
        let layer = &self.setting.layer_types[kind];
        let samples = f64::from(micro.global_batch)
            / f64::from(micro.chunks)
            / (f64::from(self.setting.world()) / f64::from(to.pp) / t);
        let bytes = (t - 1.0) / t * samples * layer.sequence as f64 * layer.hidden as f64 * 2.0;
        Ok(bytes * self.all_reduce_ms_per_mb(t as u32, false)? * 1e-6)
    }
}
