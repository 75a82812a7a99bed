//! A pool's constants from a table of a user's own runs: kernels of the device and what its links reach.

use super::robust::{Fit, Knob, Sample, fit};
use super::{CalibrationError, Reasons, Skipped};
use crate::accuracy::case::Case;
use crate::accuracy::left_out::LeftOut;
use crate::accuracy::table::Row;
use crate::cluster::{Device, Level, Pool};
use crate::estimate::Estimator;

/// Factors are never below this: a device at a twentieth of what is assumed is another device.
const LEAST: f64 = 0.05;
/// Message sizes and latencies may be this many times what is assumed.
pub(super) const MOST: f64 = 20.0;

type OfDevice = fn(&mut Device) -> Vec<&mut f64>;

/// Constants of a device that runs tell apart, each scaling one or several plateaus.
static OF_DEVICE: [(&str, OfDevice); 3] = [
    ("device.gemm.plateau", |d| vec![&mut d.gemm.plateau, &mut d.grouped_gemm.plateau]),
    ("device.attention.plateau", |d| vec![&mut d.attention.plateau]),
    ("device.streaming.plateau", |d| vec![&mut d.streaming.plateau]),
];

/// What came of a table of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct OfRuns {
    /// The fit.
    pub fit: Fit,
    /// Rows that were left out before it, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The pool with its new constants, or as it was where they were refused.
    pub pool: Pool,
}

fn knobs(pool: &Pool) -> Vec<Knob> {
    let mut device = pool.device.clone();
    let mut knobs: Vec<Knob> = OF_DEVICE
        .iter()
        .map(|(name, of)| {
            let values: Vec<f64> = of(&mut device).iter().map(|x| **x).collect();
            // No plateau passes 1: nothing is faster than its peak.
            let most = values.iter().fold(0.0f64, |a, b| a.max(*b));
            Knob { name: (*name).to_owned(), value: values[0], limits: [LEAST, (1.0 / most).max(1.0)] }
        })
        .collect();
    knobs.extend(pool.levels.iter().enumerate().map(|(i, level)| Knob {
        name: format!("link[{i}].{}.efficiency", level.name),
        value: level.efficiency,
        limits: [LEAST, (1.0 / level.efficiency).max(1.0)],
    }));
    knobs
}

/// `pool` with its constants scaled; levels beyond the factors stay as they are.
fn scaled(pool: &Pool, factors: &[f64]) -> Pool {
    let mut pool = pool.clone();
    for ((_, of), factor) in OF_DEVICE.iter().zip(factors) {
        for plateau in of(&mut pool.device) {
            *plateau = (*plateau * factor).min(1.0);
        }
    }
    for (level, factor) in pool.levels.iter_mut().zip(&factors[OF_DEVICE.len()..]) {
        level.efficiency = (level.efficiency * factor).min(1.0);
    }
    pool
}

/// The pool of a run, with device and links as `pool` knows them, and which of the known levels each of its own is: the first
/// inside a node, the last between nodes.
fn as_known(run: &Pool, pool: &Pool) -> (Pool, Vec<usize>) {
    let last = pool.levels.len().saturating_sub(1);
    let inside = |(i, own): (usize, &Level)| i == 0 && own.devices <= run.devices_per_node.max(pool.devices_per_node);
    let of: Vec<usize> = run.levels.iter().enumerate().map(|l| if inside(l) { 0 } else { last }).collect();
    let levels = run.levels.iter().zip(&of).map(|(own, &k)| match pool.levels.get(k) {
        Some(known) => Level { devices: own.devices, ..known.clone() },
        None => own.clone(),
    });
    (Pool { levels: levels.collect(), device: pool.device.clone(), ..run.clone() }, of)
}

/// A run of the table.
struct Run {
    case: Case,
    seconds: f64,
    /// Which level of the known pool each of its own levels is.
    levels: Vec<usize>,
}

/// Fits `pool` to the iteration times of `rows`.
///
/// # Errors
/// See [`fit`].
pub fn of_runs(pool: &Pool, rows: &[Row]) -> Result<OfRuns, CalibrationError> {
    let mut left_out = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let name = row.text("id").map_or_else(|| format!("row {}", i + 1), str::to_owned);
        let case = Case::read(row).and_then(|case| match case.iteration_s {
            _ if case.crashed => Err(LeftOut::Crashed),
            Some(_) if case.pool.device.name != pool.device.name => {
                Err(LeftOut::OtherDevice(case.pool.device.name.clone(), pool.device.name.clone()))
            }
            Some(seconds) => Ok((case, seconds)),
            None => Err(LeftOut::NotMeasured),
        });
        match case {
            Ok((case, seconds)) => {
                let (known, levels) = as_known(&case.pool, pool);
                let case = Case { pool: known, id: name.clone(), ..case };
                match case.estimate() {
                    Ok(_) => runs.push(Run { case, seconds, levels }),
                    Err(_) => left_out
                        .push((name, LeftOut::Inconsistent("the plan does not tile devices and batch").to_string())),
                }
            }
            Err(LeftOut::Unreadable(cell)) => {
                left_out.push((name, format!("{}: found `{}`, expected {}", cell.column, cell.found, cell.expected)));
            }
            Err(why) => left_out.push((name, why.to_string())),
        }
    }
    let price = |i: usize, factors: &[f64]| {
        let Run { case, levels, .. } = &runs[i];
        let (kernels, links) = factors.split_at(OF_DEVICE.len());
        let own = levels.iter().map(|&k| links.get(k).copied().unwrap_or(1.0));
        let pool = scaled(&case.pool, &kernels.iter().copied().chain(own).collect::<Vec<_>>());
        let estimate = Estimator::new(&case.model, &case.spine, &pool, &case.job, case.cost).estimate(&case.plan);
        estimate.map_or(f64::NAN, |e| e.iteration_time_s)
    };
    let sample = |run: &Run| Sample { name: run.case.id.clone(), measured: run.seconds, least: run.case.least_time() };
    let samples: Vec<Sample> = runs.iter().map(sample).collect();
    // The rows that never got as far are reasons as well.
    let also = |left: Reasons| {
        let rows = left_out.iter().map(|(name, why)| Skipped::new(name.clone(), "", why.clone()));
        Reasons(left.0.into_iter().chain(rows).collect())
    };
    let fit = fit(&samples, &knobs(pool), &price).map_err(|e| match e {
        CalibrationError::TooFew { usable, left_out } => CalibrationError::TooFew { usable, left_out: also(left_out) },
        other => other,
    })?;
    let pool = scaled(pool, &fit.factors());
    Ok(OfRuns { fit, left_out, pool })
}
