//! A device's constants from a user's own runs: one factor on what its kernels sustain.
//!
//! Iterations that are slower or faster than the median by more than `OUTLIER` median absolute deviations are quarantined;
//! those beyond the device's physics always. Half of the rest fits the factor by bisection, so that the price of the plan
//! meets their median; the other half must be met better than before, else nothing changes. No kernel is ever let above its
//! peak.

mod guards;
pub mod links;
pub mod robust;
pub mod runs;

pub use guards::{BETTER, CalibrationError, Quarantine, Reasons, Skipped};

use super::log::Times;
use crate::cluster::{Device, Efficiency, Pool};
use crate::cost::CostOptions;
use crate::estimate::{EstimateError, Estimator};
use crate::job::Job;
use crate::model::{Masked, Model};
use crate::plan::{Plan, Spine};
use guards::{FEWEST, OUTLIER, believable, better};
use serde::Serialize;

/// Samples closer to the median than this share of it are never quarantined: clocks jitter.
const JITTER: f64 = 0.02;
/// Factors that are looked at.
const FACTORS: [f64; 2] = [0.05, 4.0];

/// What became of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Factor on the plateaus of the device's kernels.
    pub factor: f64,
    /// Samples that fitted it.
    pub fitted: usize,
    /// Samples that were held out.
    pub held_out: usize,
    /// Mean error of the held-out samples before.
    pub error_before: f64,
    /// And after.
    pub error_after: f64,
    /// Whether the new constants are better on what they have not seen.
    pub accepted: bool,
    /// Samples not used: index from 0, seconds, why.
    pub quarantined: Vec<(usize, f64, Quarantine)>,
}

/// What ran.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    /// The model.
    pub model: &'a Model,
    /// The job.
    pub job: &'a Job,
    /// Where.
    pub pool: &'a Pool,
    /// How.
    pub plan: &'a Plan,
    /// What the price takes into account.
    pub cost: CostOptions,
}

impl Ran<'_> {
    fn price(&self, factor: f64) -> Result<f64, EstimateError> {
        let spine = Spine::new(self.model, self.job);
        let pool = Pool { device: scaled(&self.pool.device, factor), ..self.pool.clone() };
        let estimator = Estimator::new(self.model, &spine, &pool, self.job, self.cost);
        Ok(estimator.estimate(self.plan)?.iteration_time_s)
    }

    fn least(&self) -> f64 {
        let lengths = Spine::lengths(self.model, self.job);
        let flops = self.model.flops_per_token(&lengths, Masked::Skipped, self.job.mtp).0 * self.job.tokens_per_step();
        let peak = self.pool.device.peak_in(self.job.precision).unwrap_or(self.pool.device.peak.half);
        flops / (peak.0 * self.plan.devices as f64)
    }
}

/// The device with the plateaus of its kernels scaled, none above 1.
pub fn scaled(device: &Device, factor: f64) -> Device {
    let scale = |e: Efficiency| Efficiency { plateau: (e.plateau * factor).min(1.0), ..e };
    Device {
        gemm: scale(device.gemm),
        grouped_gemm: scale(device.grouped_gemm),
        attention: scale(device.attention),
        streaming: scale(device.streaming),
        ..device.clone()
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    super::statistics::quantile(&sorted, 0.5)
}

/// Calibrates by the times of a log.
///
/// # Errors
/// When too few samples are usable, more than half are not, all are beyond belief, or the plan has no price.
pub fn calibrate(ran: &Ran, times: &Times) -> Result<Calibration, CalibrationError> {
    let (seconds, least) = (&times.seconds, ran.least());
    let mut quarantined = Vec::new();
    let mut left: Vec<(usize, f64)> = Vec::new();
    for (i, &s) in seconds.iter().enumerate() {
        if s.is_finite() && s >= least {
            left.push((i, s));
        } else {
            quarantined.push((i, s, Quarantine::BeyondPhysics));
        }
    }
    let middle = median(&left.iter().map(|x| x.1).collect::<Vec<_>>());
    let deviation = median(&left.iter().map(|x| (x.1 - middle).abs()).collect::<Vec<_>>());
    let allowed = (OUTLIER * deviation).max(JITTER * middle);
    let (good, far): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, s)| (s - middle).abs() <= allowed);
    quarantined.extend(far.into_iter().map(|(i, s)| (i, s, Quarantine::Outlier)));
    quarantined.sort_by_key(|q| q.0);
    let left_out = || {
        let skipped = |(i, s, why): &(usize, f64, Quarantine)| {
            let beyond = *why == Quarantine::BeyondPhysics;
            let limit = if beyond { format!("; no run takes less than {least:.4} s") } else { String::new() };
            Skipped::new(times.name(*i), format!("{s:.4} s{limit}"), why.to_string())
        };
        Reasons(times.skipped.iter().cloned().chain(quarantined.iter().map(skipped)).collect())
    };
    if good.len() < FEWEST {
        return Err(CalibrationError::TooFew { usable: good.len(), left_out: left_out() });
    }
    let price = ran.price(1.0)?;
    believable(&good.iter().map(|(_, s)| s / price).collect::<Vec<_>>())?;
    if quarantined.len() > good.len() {
        return Err(CalibrationError::Mixed { left_out: left_out(), of: seconds.len() });
    }
    let every_second =
        |odd: usize| -> Vec<f64> { good.iter().enumerate().filter(|(i, _)| i % 2 == odd).map(|(_, x)| x.1).collect() };
    let (fitted, held_out) = (every_second(0), every_second(1));
    let factor = fit(ran, median(&fitted))?;
    let error = |price: f64| held_out.iter().map(|s| (price / s - 1.0).abs()).sum::<f64>() / held_out.len() as f64;
    let (error_before, error_after) = (error(price), error(ran.price(factor)?));
    Ok(Calibration {
        factor,
        fitted: fitted.len(),
        held_out: held_out.len(),
        error_before,
        error_after,
        accepted: better(error_before, error_after),
        quarantined,
    })
}

/// The factor at which the plan's price is `wanted`, by bisection: the price falls with the factor.
fn fit(ran: &Ran, wanted: f64) -> Result<f64, EstimateError> {
    let [mut low, mut high] = FACTORS;
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if ran.price(middle)? > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low * high).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::instances;
    use crate::model::presets;
    use crate::plan::LayerStrategy;

    fn with<T>(f: impl FnOnce(&Ran) -> T) -> T {
        let model = presets::find("llama2-7b").unwrap();
        let job = Job::new(64, 4096);
        let pool = instances::pool("h100x8").unwrap();
        let spine = Spine::new(&model, &job);
        let strategy = LayerStrategy { zero: 3, ..LayerStrategy::PLAIN };
        let chunk = Plan::encode(0, &vec![strategy; spine.parts.len()]);
        let plan = Plan { devices: 8, pipeline: 1, chunks_per_stage: 1, micro_batches: 8, chunks: vec![chunk] };
        f(&Ran { model: &model, job: &job, pool: &pool, plan: &plan, cost: CostOptions::default() })
    }

    #[test]
    fn the_factor_is_found_again_though_a_tenth_of_the_samples_is_off_by_ten_times() {
        with(|ran| {
            let truth = ran.price(0.8).unwrap();
            let jitter = |i: usize| 1.0 + 0.01 * ((i * 7) % 5) as f64 / 5.0;
            let mut samples: Vec<f64> = (0..40).map(|i| truth * jitter(i)).collect();
            let clean = calibrate(ran, &Times::of(&samples)).unwrap();
            for i in [3, 14, 25, 36] {
                samples[i] *= if i % 2 == 0 { 10.0 } else { 0.1 };
            }
            let found = calibrate(ran, &Times::of(&samples)).unwrap();
            assert!((found.factor / 0.8 - 1.0).abs() < 0.01 && found.accepted, "{found:?}");
            assert!((found.factor / clean.factor - 1.0).abs() < 2e-3);
            let names: Vec<usize> = found.quarantined.iter().map(|q| q.0).collect();
            assert_eq!(names, [3, 14, 25, 36]);
            assert!(clean.quarantined.is_empty());
        });
    }

    #[test]
    fn other_units_are_never_fitted() {
        with(|ran| {
            let now = ran.price(1.0).unwrap();
            for wrong in [25.0, 1e3, 1e6] {
                let found = calibrate(ran, &Times::of(&[now * wrong; 12]));
                assert!(matches!(found, Err(CalibrationError::Unbelievable(_))), "{found:?}");
            }
        });
    }

    #[test]
    fn nothing_runs_above_its_peak_and_worse_constants_are_refused() {
        with(|ran| {
            let device = scaled(&ran.pool.device, 100.0);
            assert!([device.gemm, device.attention, device.streaming].iter().all(|e| e.plateau == 1.0));
            let now = ran.price(1.0).unwrap();
            let of = |seconds: &[f64]| calibrate(ran, &Times::of(seconds));
            let refused = of(&[now * 1.0001, now, now * 0.9999, now, now, now]).unwrap();
            assert!(!refused.accepted || refused.error_after < BETTER * refused.error_before);
            let impossible = of(&[1e-9, 1e-9, f64::NAN, 1e-9]).unwrap_err();
            let CalibrationError::TooFew { usable: 0, left_out } = &impossible else { panic!("{impossible:?}") };
            assert_eq!(left_out.0.len(), 4);
            let text = impossible.to_string();
            assert!(text.contains("4 left out: faster than physics") && text.contains("line 1"), "{text}");
        });
    }
}
