//! Predictions against measurements, over a table and by group.

use super::case::{Case, Constants, Peak, Rank};
use super::cells::BadRow;
use super::left_out::LeftOut;
use super::repeats::{Repeats, repeats};
use super::statistics::{Errors, auc, errors, kendall_tau, quantile, winkler};
use super::table::Row;
use crate::estimate::{Estimate, StageEstimate};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Iteration time.
    Time,
    /// Peak memory.
    Memory,
}

/// By what rows are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Publication.
    Source,
    /// Device.
    Gpu,
    /// Framework.
    Framework,
}

/// A row with both figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Its name in the table.
    pub id: String,
    /// Publication.
    pub source: String,
    /// Device.
    pub gpu: String,
    /// Framework.
    pub framework: &'static str,
    /// Runs that answer the same question: model, devices, batch.
    pub question: String,
    /// Seconds or bytes.
    pub predicted: f64,
    /// Likewise.
    pub measured: f64,
    /// The 10 % and 90 % quantiles of the prediction.
    pub interval: [f64; 2],
    /// Reserved memory of the fullest stage over what the device shows, by our price.
    pub fullness: f64,
    /// What the prediction is made of, in the same unit, on the stage that decides it.
    pub parts: std::collections::BTreeMap<&'static str, f64>,
}

/// Rows of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Set {
    /// The group.
    pub name: String,
    /// What is compared.
    pub quantity: Quantity,
    /// Errors.
    #[serde(flatten)]
    pub errors: Errors,
    /// Mean over questions of the rank correlation of rival plans, weighted by their number; questions of at least three.
    pub kendall_tau: Option<f64>,
    /// What is left of errors where rows are priced alike.
    pub noise: Option<Repeats>,
    /// Share of measurements within the predictions' intervals.
    pub coverage: Option<f64>,
    /// Mean Winkler score of the intervals at 80 %, over the measurement.
    pub winkler: Option<f64>,
    /// Chance that a run that crashed has a higher price in memory than one that ran, among those priced above half of the
    /// device; where both are known.
    pub crash_auc: Option<f64>,
    /// With half of the rows, at most 20, used to scale the prices of the others.
    pub calibrated: Option<Calibrated>,
    /// Rows without a comparison, by reason.
    pub left_out: BTreeMap<String, usize>,
}

/// Figures of the rows that a calibration has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibrated {
    /// Rows that calibrated.
    pub seen: usize,
    /// Errors of the others.
    #[serde(flatten)]
    pub errors: Errors,
    /// Share of the others within p10 to p90 of the calibrating rows.
    pub coverage: f64,
    /// Mean Winkler score of that interval at 80 %, over the measurement.
    pub winkler: f64,
}

/// Most rows of a source that calibrate.
const CALIBRATING: usize = 20;

/// Scales predictions by the median ratio of some rows, evenly spread over the table, and judges the others.
fn calibrated(pairs: &[(f64, f64)]) -> Option<Calibrated> {
    let n = (pairs.len() / 2).min(CALIBRATING);
    if n < 2 {
        return None;
    }
    let step = pairs.len() as f64 / n as f64;
    let picked: std::collections::BTreeSet<usize> = (0..n).map(|i| (i as f64 * step) as usize).collect();
    let mut ratios: Vec<f64> = picked.iter().map(|&i| pairs[i].1 / pairs[i].0).collect();
    ratios.sort_by(f64::total_cmp);
    let median = quantile(&ratios, 0.5);
    // The quantiles of few rows lie inside those of all: spread them by the standard error of a median.
    let spread = 1.0 + 1.25 / (n as f64).sqrt();
    let low = median - (median - quantile(&ratios, 0.1)) * spread;
    let high = median + (quantile(&ratios, 0.9) - median) * spread;
    let others: Vec<(f64, f64)> =
        pairs.iter().enumerate().filter(|(i, _)| !picked.contains(i)).map(|(_, p)| *p).collect();
    let scaled: Vec<(f64, f64)> = others.iter().map(|(p, m)| (p * median, *m)).collect();
    let inside = others.iter().filter(|(p, m)| (p * low..=p * high).contains(m)).count();
    let score = |(p, m): &(f64, f64)| winkler(p * low, p * high, *m) / m;
    Some(Calibrated {
        seen: n,
        errors: errors(&scaled)?,
        coverage: inside as f64 / others.len() as f64,
        winkler: others.iter().map(score).sum::<f64>() / others.len() as f64,
    })
}

/// A table, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows with both figures.
    pub rows: Vec<Compared>,
    /// Rows without, with their group's name and the reason.
    pub left_out: Vec<(Row1, LeftOut)>,
    /// For memory: how full each run's devices were by our price, whether or not it crashed.
    pub full: Vec<Full>,
}

/// How full devices were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Full {
    /// Publication.
    pub source: String,
    /// Device.
    pub gpu: String,
    /// Framework.
    pub framework: &'static str,
    /// Reserved memory of the fullest stage over what the device shows, by our price.
    pub share: f64,
    /// Whether the run failed.
    pub crashed: bool,
}

fn fullness(row: &Row, constants: Constants) -> Option<Full> {
    let case = Case::with(row, constants).ok()?;
    if !case.crashed && case.peak.is_none() {
        return None;
    }
    let estimate = case.estimate().ok()?;
    Some(Full {
        share: estimate.peak_memory_bytes / case.pool.device.memory.0,
        source: case.source,
        gpu: case.pool.device.name,
        framework: case.framework,
        crashed: case.crashed,
    })
}

/// What is kept of a row that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row1 {
    /// Its name in the table.
    pub id: String,
    /// Publication.
    pub source: String,
    /// Device as written.
    pub gpu: String,
    /// Framework as written.
    pub framework: String,
    /// Its line in the file.
    pub line: usize,
}

fn question(case: &Case) -> String {
    format!(
        "{} {} {} {} {}",
        case.model.name, case.pool.name, case.pool.devices, case.job.global_batch, case.job.sequence
    )
}

/// A measured peak is at most so many times the memory of the data sheet: GB and GiB are mixed up here and there.
const FULLEST: f64 = 1.1;

fn compare_row(row: &Row, quantity: Quantity, constants: Constants) -> Result<Compared, LeftOut> {
    let case = Case::with(row, constants)?;
    if case.crashed {
        return Err(LeftOut::Crashed);
    }
    let peak: Option<Peak> = case.peak;
    match quantity {
        Quantity::Time if case.iteration_s.is_none() => return Err(LeftOut::NotMeasured),
        Quantity::Memory if peak.is_none() => return Err(LeftOut::NotMeasured),
        Quantity::Memory if peak.is_some_and(|peak| peak.bytes > case.pool.device.memory.0 * FULLEST) => {
            return Err(LeftOut::Impossible);
        }
        _ => {}
    }
    let estimate = case.estimate().map_err(|_| LeftOut::Inconsistent("the plan does not tile devices and batch"))?;
    let (predicted, measured) = match (quantity, case.iteration_s, peak) {
        (Quantity::Time, Some(t), _) => (estimate.iteration_time_s, t),
        (Quantity::Memory, _, Some(peak)) => (case.predicted_peak(&estimate, &peak), peak.bytes),
        _ => return Err(LeftOut::NotMeasured),
    };
    let parts = parts(&estimate, quantity, peak.map(|p| p.rank));
    let spread = match quantity {
        Quantity::Time => case.cost.software.time_spread,
        Quantity::Memory => case.cost.software.memory_spread,
    };
    Ok(Compared {
        interval: spread.map(|ratio| predicted * ratio),
        parts,
        fullness: estimate.peak_memory_bytes / case.pool.device.memory.0,
        question: question(&case),
        id: case.id,
        source: case.source,
        gpu: case.pool.device.name,
        framework: case.framework,
        predicted,
        measured,
    })
}

/// The parts of a prediction: of memory on the rank that is meant, of time on the busiest stage.
fn parts(estimate: &Estimate, quantity: Quantity, rank: Option<Rank>) -> BTreeMap<&'static str, f64> {
    let fullest =
        |a: &&StageEstimate, b: &&StageEstimate| a.memory.allocated_bytes.total_cmp(&b.memory.allocated_bytes);
    let idlest = |a: &&StageEstimate, b: &&StageEstimate| b.time.bubble_s.total_cmp(&a.time.bubble_s);
    let stage = match (quantity, rank) {
        (Quantity::Memory, Some(Rank::First)) => estimate.stages.first(),
        (Quantity::Memory, Some(Rank::Last)) => estimate.stages.last(),
        (Quantity::Memory, _) => estimate.stages.iter().max_by(fullest),
        (Quantity::Time, _) => estimate.stages.iter().max_by(idlest),
    };
    let Some(stage) = stage else { return BTreeMap::new() };
    let (m, t) = (&stage.memory, &stage.time);
    let list: Vec<(&'static str, f64)> = match quantity {
        Quantity::Memory => vec![
            ("weights", m.weights_bytes),
            ("gradients", m.gradients_bytes),
            ("optimizer", m.optimizer_bytes),
            ("activations", m.activations_bytes),
            ("head", m.head_bytes),
            ("buffers", m.buffers_bytes),
        ],
        Quantity::Time => vec![
            ("compute", t.compute_s),
            ("tensor", t.tp_s),
            ("context", t.cp_s),
            ("experts", t.ep_s),
            ("boundaries", t.pp_s + t.reshard_s),
            ("bubble", t.bubble_s),
            ("data", t.dp_s),
            ("optimizer", t.optimizer_s),
            ("jitter", t.jitter_s),
        ],
    };
    list.into_iter().filter(|(_, x)| *x != 0.0).collect()
}

/// Compares every row of a table.
pub fn compare(rows: &[Row], quantity: Quantity, constants: Constants) -> Comparison {
    let results: Vec<Result<Compared, LeftOut>> =
        rows.par_iter().map(|row| compare_row(row, quantity, constants)).collect();
    let full = match quantity {
        Quantity::Memory => rows.par_iter().filter_map(|row| fullness(row, constants)).collect(),
        Quantity::Time => Vec::new(),
    };
    let mut comparison = Comparison { rows: Vec::new(), left_out: Vec::new(), full };
    for (row, result) in rows.iter().zip(results) {
        match result {
            Ok(compared) => comparison.rows.push(compared),
            Err(why) => {
                let cell = |column: &str| row.or_blank(column).to_owned();
                let kept = Row1 {
                    id: cell("id"),
                    source: cell("source"),
                    gpu: cell("gpu"),
                    framework: cell("framework"),
                    line: row.line,
                };
                comparison.left_out.push((kept, why));
            }
        }
    }
    comparison
}

fn mean(rows: &[&Compared], of: impl Fn(&Compared) -> f64) -> Option<f64> {
    (!rows.is_empty()).then(|| rows.iter().map(|r| of(r)).sum::<f64>() / rows.len() as f64)
}

/// Rank correlation within each question of at least three rivals, averaged by their number; `pairs` are of a question, with
/// the prediction and the measurement.
pub(super) fn tau_by_question<'a>(pairs: impl Iterator<Item = (&'a str, (f64, f64))>) -> Option<f64> {
    let mut questions: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (question, pair) in pairs {
        questions.entry(question).or_default().push(pair);
    }
    let taus: Vec<(f64, f64)> = questions
        .values()
        .filter(|pairs| pairs.len() >= 3)
        .filter_map(|pairs| Some((kendall_tau(pairs)?, pairs.len() as f64)))
        .collect();
    let weight: f64 = taus.iter().map(|t| t.1).sum();
    (weight > 0.0).then(|| taus.iter().map(|(t, w)| t * w).sum::<f64>() / weight)
}

impl Comparison {
    /// Rows with a cell that holds no value of its column.
    pub fn unreadable(&self) -> Vec<BadRow> {
        let bad = |(row, why): &(Row1, LeftOut)| match why {
            LeftOut::Unreadable(cell) => Some(BadRow { id: row.id.clone(), line: row.line, cell: cell.clone() }),
            _ => None,
        };
        self.left_out.iter().filter_map(bad).collect()
    }

    /// Reasons for which rows are left out, the most frequent first.
    pub fn reasons(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, why) in &self.left_out {
            *counts.entry(why.to_string()).or_default() += 1;
        }
        let mut reasons: Vec<(String, usize)> = counts.into_iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        reasons
    }

    /// Figures of all rows together and of each group.
    pub fn sets(&self, by: By, quantity: Quantity) -> Vec<Set> {
        let of_row = |row: &Compared| match by {
            By::Source => row.source.clone(),
            By::Gpu => row.gpu.clone(),
            By::Framework => row.framework.to_owned(),
        };
        let of_left = |row: &Row1| match by {
            By::Source => row.source.clone(),
            By::Gpu => super::machine::device(&row.gpu).unwrap_or(&row.gpu).to_owned(),
            By::Framework => super::conventions::framework(&row.framework).unwrap_or(&row.framework).to_owned(),
        };
        let of_full = |row: &Full| match by {
            By::Source => row.source.clone(),
            By::Gpu => row.gpu.clone(),
            By::Framework => row.framework.to_owned(),
        };
        let mut groups: BTreeMap<String, (Vec<&Compared>, BTreeMap<String, usize>)> = BTreeMap::new();
        for row in &self.rows {
            groups.entry(of_row(row)).or_default().0.push(row);
        }
        for (row, why) in &self.left_out {
            *groups.entry(of_left(row)).or_default().1.entry(why.to_string()).or_default() += 1;
        }
        let set = |name: String, rows: &[&Compared], left_out: BTreeMap<String, usize>| {
            let pairs: Vec<(f64, f64)> = rows.iter().map(|r| (r.predicted, r.measured)).collect();
            let none = Errors { rows: 0, mape: 0.0, median: 0.0, p95: 0.0, worst: 0.0, bias: 0.0 };
            let of_set = |f: &&Full| f.share > 0.5 && (name == "all" || of_full(f) == name);
            let full: Vec<&Full> = self.full.iter().filter(of_set).collect();
            let shares =
                |crashed: bool| -> Vec<f64> { full.iter().filter(|f| f.crashed == crashed).map(|f| f.share).collect() };
            Set {
                crash_auc: auc(&shares(true), &shares(false)),
                calibrated: calibrated(&pairs),
                coverage: mean(rows, |r| f64::from((r.interval[0]..=r.interval[1]).contains(&r.measured))),
                winkler: mean(rows, |r| winkler(r.interval[0], r.interval[1], r.measured) / r.measured),
                name,
                quantity,
                errors: errors(&pairs).unwrap_or(none),
                kendall_tau: tau_by_question(rows.iter().map(|r| (r.question.as_str(), (r.predicted, r.measured)))),
                noise: repeats(rows),
                left_out,
            }
        };
        let all: Vec<&Compared> = self.rows.iter().collect();
        let mut sets = vec![set("all".to_owned(), &all, self.reasons().into_iter().collect())];
        sets.extend(groups.into_iter().map(|(name, (rows, left_out))| set(name, &rows, left_out)));
        sets
    }
}
