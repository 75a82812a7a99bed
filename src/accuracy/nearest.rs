//! The measured run that is nearest to a question: what a price can be held against before anything was run.

use super::case::Case;
use super::table::Row;
use crate::cluster::Pool;
use crate::job::Job;
use crate::model::{Model, SublayerKind};
use crate::plan::LayerStrategy;
use rayon::prelude::*;
use serde::Serialize;

/// A measured run beside its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nearest {
    /// Its name in the table.
    pub id: String,
    /// Where it was published.
    pub source: String,
    /// The framework that ran it.
    pub framework: &'static str,
    /// Its model.
    pub model: String,
    /// Its parameters.
    pub parameters: u64,
    /// Its accelerator.
    pub gpu: String,
    /// How many.
    pub devices: u64,
    /// Sequences a step.
    pub global_batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Its stages and chunks per stage.
    pub pipeline: [u32; 2],
    /// Sequences of a micro-batch on one rank.
    pub micro_batch: u64,
    /// Its strategy.
    pub strategy: LayerStrategy,
    /// Measured seconds of an iteration.
    pub measured_s: f64,
    /// Our price of it.
    pub priced_s: f64,
    /// Measured peak memory, where there is one.
    pub measured_peak_bytes: Option<f64>,
    /// Our price of that figure.
    pub priced_peak_bytes: Option<f64>,
    /// Measured tokens per second and device.
    pub tokens_per_s_per_device: f64,
    /// How far it is from the question; 0 is the same model, devices, lengths and precision. See [`distance`].
    pub distance: f64,
}

fn routed(model: &Model) -> bool {
    model.classes.iter().flat_map(|c| &c.sublayers).any(|s| s.kind == SublayerKind::Moe)
}

/// Sum of what differs: logarithms of the ratios of active parameters, and half of those of sequence length and devices; 2 for
/// another accelerator, 3 where one has routed experts and the other has not, half for another precision.
pub fn distance((model, job, pool): (&Model, &Job, &Pool), case: &Case) -> f64 {
    let ratio = |a: f64, b: f64| (a / b).ln().abs();
    let mut sum = ratio(model.parameters_active() as f64, case.model.parameters_active() as f64);
    sum += ratio(job.sequence as f64, case.job.sequence as f64) / 2.0;
    sum += ratio(pool.devices as f64, case.pool.devices as f64) / 2.0;
    sum += if pool.device.name == case.pool.device.name { 0.0 } else { 2.0 };
    sum += if routed(model) == routed(&case.model) { 0.0 } else { 3.0 };
    sum + if job.precision == case.job.precision { 0.0 } else { 0.5 }
}

/// Of the runs of `rows` that can be priced the nearest to the question; of several alike the one with most tokens per second
/// and device.
pub fn nearest(rows: &[Row], (model, job, pool): (&Model, &Job, &Pool)) -> Option<Nearest> {
    let cases: Vec<(f64, f64, Case)> = rows
        .par_iter()
        .filter_map(|row| {
            let case = Case::read(row).ok()?;
            let rate = case.job.tokens_per_step() / (case.iteration_s? * case.pool.devices as f64);
            Some((distance((model, job, pool), &case), rate, case))
        })
        .collect();
    let order = |a: &(f64, f64, Case), b: &(f64, f64, Case)| {
        a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)).then_with(|| a.2.id.cmp(&b.2.id))
    };
    let (distance, rate, case) = cases.into_iter().min_by(order)?;
    let estimate = case.estimate().ok()?;
    let strategy = case.plan.chunks.iter().flat_map(|c| c.parts()).map(|(_, s)| *s).nth(1)?;
    let replicas = case.plan.stage_devices() / strategy.model_ways();
    Some(Nearest {
        measured_s: case.iteration_s?,
        priced_s: estimate.iteration_time_s,
        measured_peak_bytes: case.peak.map(|p| p.bytes),
        priced_peak_bytes: case.peak.as_ref().map(|p| case.predicted_peak(&estimate, p)),
        tokens_per_s_per_device: rate,
        distance,
        parameters: case.model.parameters_total(),
        pipeline: [case.plan.pipeline, case.plan.chunks_per_stage],
        micro_batch: case.job.global_batch / (case.plan.micro_batches * replicas).max(1),
        strategy,
        global_batch: case.job.global_batch,
        sequence: case.job.sequence,
        devices: case.pool.devices,
        gpu: case.pool.device.name,
        model: case.model.name,
        framework: case.framework,
        source: case.source,
        id: case.id,
    })
}
