//! Accuracy on sources that no constant has seen.
//!
//! Constants of a run are the product of a part of its device and a part of its framework, each a few scalars, so that a pair
//! never seen has a prediction. For every source the parts are fitted anew to the other sources, from a start that no run has
//! touched: every device has the plateaus assumed of an unknown one, every framework is neutral. Then the source is predicted,
//! once as it is ("held out entirely"), once after at most [`SEEN`] of its own rows have moved the parts of its devices and its
//! framework ("20 seen"), judged by its other rows.
//!
//! What stays of having seen everything: the shape of the model, and the constants of the cost model itself.

use super::calibrate::robust::{HELD, HELD_BYTES, Knob, descend, settle};
use super::case::{Case, Constants};
use super::compare::Quantity;
use super::conventions::host;
use super::statistics::{Errors, errors};
use super::table::Row;
use crate::cluster::{Device, curves, fabric};
use crate::cost::Software;
use crate::estimate::Estimator;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most rows of a source that calibrate it.
pub const SEEN: usize = 20;
/// Most rows of a source that help to fit the parts for others: the large sweeps do not drown the rest.
const OF_A_SOURCE: usize = 36;
/// Fewest rows of a source that is judged.
const FEWEST: usize = 6;
/// Factors of parts lie between these.
const LIMITS: [f64; 2] = [0.05, 40.0];
/// Where the host's time for a layer starts, seconds (see `conventions`: what a framework takes that is not known).
const HOST: f64 = 0.8e-3;
/// Where the host's time for a layer and a tensor-parallel rank beside a pipeline starts, seconds: a few launches.
const HOST_TENSOR: f64 = 50e-6;
/// Where the time to hand a boundary tensor over starts, seconds, on the runs whose conventions have one.
const HOP: f64 = 50e-3;
/// Where work areas inside the allocator start, bytes: those of cuBLAS on two streams, 32 MiB each (its default on Hopper).
const WORKSPACE: f64 = 64e6;
/// Where buffers of weight gradients start, bytes per parameter of a layer.
const BUFFERS: f64 = 0.5;

/// A scalar of a part.
#[derive(Debug, Clone, Copy)]
enum Scalar {
    Device(fn(&mut Device, f64)),
    Framework(fn(&mut Software, f64)),
}

/// Scalars of times: three of a device, five of a framework.
static OF_TIME: &[(&str, Scalar)] = &[
    ("gemm", Scalar::Device(|d, f| scale(&mut [&mut d.gemm.plateau, &mut d.grouped_gemm.plateau], f))),
    ("attention", Scalar::Device(|d, f| scale(&mut [&mut d.attention.plateau], f))),
    ("streaming", Scalar::Device(|d, f| scale(&mut [&mut d.streaming.plateau], f))),
    ("gemm", Scalar::Framework(|s, f| s.gemm *= f)),
    ("elementwise", Scalar::Framework(|s, f| s.elementwise *= f)),
    ("host", Scalar::Framework(|s, f| s.host_s *= f)),
    ("tensor ranks", Scalar::Framework(|s, f| s.host_tensor_s *= f)),
    ("hops", Scalar::Framework(|s, f| s.hop_s *= f)),
];

/// Scalars of memory: four of a framework.
static OF_MEMORY: &[(&str, Scalar)] = &[
    ("activations", Scalar::Framework(|s, f| s.activations *= f)),
    ("workspace", Scalar::Framework(|s, f| s.workspace *= f)),
    ("loss", Scalar::Framework(|s, f| s.loss_bytes *= f)),
    (
        "buffers",
        Scalar::Framework(|s, f| (s.gradient_buffers, s.head_buffers) = (s.gradient_buffers * f, s.head_buffers * f)),
    ),
];

fn scale(plateaus: &mut [&mut f64], factor: f64) {
    for plateau in plateaus {
        **plateau = (**plateau * factor).min(1.0);
    }
}

/// A source, predicted three times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOut {
    /// The source.
    pub source: String,
    /// With the constants in use, which were chosen with this source in sight.
    pub seen_all: Errors,
    /// With parts fitted to other sources and to some rows of this one, on its other rows.
    pub calibrated: Option<Errors>,
    /// Rows that calibrated.
    pub calibrating: usize,
    /// With parts fitted to other sources only.
    pub entirely: Errors,
    /// Rows of other sources that fitted the parts.
    pub fitted_on: usize,
}

/// A run with what was measured of it.
struct Run {
    case: Case,
    measured: f64,
    /// Price with the constants in use.
    usual: f64,
}

fn figure(case: &Case, quantity: Quantity) -> Option<f64> {
    match quantity {
        Quantity::Time => case.iteration_s,
        Quantity::Memory => case.peak.map(|p| p.bytes),
    }
}

fn predicted(case: &Case, quantity: Quantity) -> Option<f64> {
    let estimate =
        Estimator::new(&case.model, &case.spine, &case.pool, &case.job, case.cost).estimate(&case.plan).ok()?;
    Some(match (quantity, &case.peak) {
        (Quantity::Memory, Some(peak)) => case.predicted_peak(&estimate, peak),
        _ => estimate.iteration_time_s,
    })
}

/// The run as it stands before any fit: plateaus of an unknown device, a neutral framework, links of the usual kinds. Work areas
/// whose sizes libraries state, and what a loss holds by its flags, stay (`stated`, see `megatron`), as does the share of kernels that
/// graphs leave to the host: nothing was fitted for them.
fn untouched(mut case: Case, hands_over: bool, outside_graphs: f64, stated: Option<Software>) -> Case {
    let device = &mut case.pool.device;
    let other = &curves::OTHER;
    (device.gemm.plateau, device.grouped_gemm.plateau) = (other.gemm, other.grouped);
    (device.attention.plateau, device.streaming.plateau) = (other.attention, other.streaming);
    for level in case.pool.levels.iter_mut().filter(|l| l.name == fabric::EFA.name) {
        (level.efficiency, level.latency, level.half_at) =
            (fabric::ROCE.efficiency, fabric::ROCE.latency, fabric::ROCE.half_at);
    }
    let software = &mut case.cost.software;
    software.host_s = HOST * outside_graphs;
    software.host_tensor_s = HOST_TENSOR;
    software.hop_s = if hands_over { HOP } else { 0.0 };
    software.workspace = stated.map_or(WORKSPACE, |s| s.workspace);
    software.loss_bytes = stated.map_or(software.loss_bytes, |s| s.loss_bytes);
    software.expert_copies = stated.map_or(software.expert_copies, |s| s.expert_copies);
    (software.gradient_buffers, software.head_buffers) = (BUFFERS, BUFFERS);
    case
}

fn read(row: &Row, quantity: Quantity) -> Option<Run> {
    let fitted = Case::with(row, Constants::Fitted).ok().filter(|case| !case.crashed)?;
    let measured = figure(&fitted, quantity)?;
    let usual = predicted(&fitted, quantity)?;
    let stated = row.text("args_json").map(|_| fitted.cost.software);
    let software = &fitted.cost.software;
    let outside_graphs = software.host_s / host(fitted.framework);
    let case = untouched(Case::with(row, Constants::Neutral).ok()?, software.hop_s > 0.0, outside_graphs, stated);
    Some(Run { case, measured, usual })
}

/// A device whatever its memory and its board: `A100` of `A100-SXM4-40GB`.
fn generation(case: &Case) -> &str {
    case.pool.device.name.split(['-', ' ']).next().unwrap_or_default()
}

/// Whose part a scalar is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Device(String),
    Framework(&'static str),
}

/// The scalars of all devices and frameworks of some runs.
struct Parts {
    scalars: Vec<(Whose, Scalar)>,
    knobs: Vec<Knob>,
}

impl Parts {
    fn of<'r>(runs: impl Iterator<Item = &'r Run>, quantity: Quantity) -> Self {
        let whose: BTreeSet<Whose> = runs
            .flat_map(|r| [Whose::Device(generation(&r.case).to_owned()), Whose::Framework(r.case.framework)])
            .collect();
        let list = if quantity == Quantity::Time { OF_TIME } else { OF_MEMORY };
        let mut parts = Self { scalars: Vec::new(), knobs: Vec::new() };
        for whose in whose {
            for (name, scalar) in list {
                let fits = matches!(
                    (&whose, scalar),
                    (Whose::Device(_), Scalar::Device(_)) | (Whose::Framework(_), Scalar::Framework(_))
                );
                if fits {
                    parts.knobs.push(Knob { name: (*name).to_owned(), value: 1.0, limits: LIMITS });
                    parts.scalars.push((whose.clone(), *scalar));
                }
            }
        }
        parts
    }

    fn touches(&self, k: usize, case: &Case) -> bool {
        match &self.scalars[k].0 {
            Whose::Device(name) => name == generation(case),
            Whose::Framework(name) => *name == case.framework,
        }
    }

    /// `case` with its parts scaled.
    fn scaled(&self, case: &Case, factors: &[f64]) -> Case {
        let mut case = case.clone();
        for (k, factor) in factors.iter().enumerate() {
            if self.touches(k, &case) {
                match self.scalars[k].1 {
                    Scalar::Device(apply) => apply(&mut case.pool.device, *factor),
                    Scalar::Framework(apply) => apply(&mut case.cost.software, *factor),
                }
            }
        }
        case
    }

    /// Factors for `rows`; a user's few rows (`few`) lose their outliers, as in a calibration.
    fn fit(&self, runs: &[Run], rows: &[usize], quantity: Quantity, few: bool) -> Vec<f64> {
        let measured = |i: usize| runs[i].measured;
        let touches = |k: usize, i: usize| self.touches(k, &runs[i].case);
        let price =
            |i: usize, factors: &[f64]| predicted(&self.scaled(&runs[i].case, factors), quantity).unwrap_or(f64::NAN);
        match quantity {
            Quantity::Memory if few => settle(rows, &measured, &self.knobs, &touches, &price, HELD_BYTES).0,
            Quantity::Time if few => settle(rows, &measured, &self.knobs, &touches, &price, HELD).0,
            _ => descend(rows, &measured, &self.knobs, &touches, &price, HELD),
        }
    }
}

/// At most `most` of `rows`, evenly spread.
fn spread(rows: &[usize], most: usize) -> Vec<usize> {
    let n = rows.len().min(most);
    (0..n).map(|i| rows[i * rows.len() / n]).collect()
}

fn judged(runs: &[Run], rows: &[usize], price: &(dyn Fn(&Run) -> Option<f64> + Sync)) -> Option<Errors> {
    let pairs: Vec<(f64, f64)> = rows.par_iter().filter_map(|&i| Some((price(&runs[i])?, runs[i].measured))).collect();
    errors(&pairs)
}

/// Every source of `rows` that has enough of them, predicted as if never seen.
pub fn held_out(rows: &[Row], quantity: Quantity) -> Vec<HeldOut> {
    let mut runs: Vec<Run> = rows.par_iter().filter_map(|row| read(row, quantity)).collect();
    let mut sources: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        sources.entry(run.case.source.clone()).or_default().push(i);
    }
    let mut list = Vec::new();
    for (source, own) in sources.iter().filter(|(_, own)| own.len() >= FEWEST) {
        let others: Vec<usize> =
            sources.iter().filter(|(s, _)| *s != source).flat_map(|(_, rows)| spread(rows, OF_A_SOURCE)).collect();
        let parts = Parts::of(others.iter().map(|&i| &runs[i]), quantity);
        let factors = parts.fit(&runs, &others, quantity, false);
        // What was learned is where the source starts from.
        let mut before: Vec<(usize, Case)> = Vec::with_capacity(own.len());
        for &i in own {
            let learned = parts.scaled(&runs[i].case, &factors);
            before.push((i, std::mem::replace(&mut runs[i].case, learned)));
        }
        let as_is = |run: &Run| predicted(&run.case, quantity);
        let entirely = judged(&runs, own, &as_is);
        let seen = spread(own, SEEN.min(own.len() / 2));
        let unseen: Vec<usize> = own.iter().copied().filter(|i| !seen.contains(i)).collect();
        let mine = Parts::of(own.iter().map(|&i| &runs[i]), quantity);
        let moved = mine.fit(&runs, &seen, quantity, true);
        let calibrated = judged(&runs, &unseen, &|run| predicted(&mine.scaled(&run.case, &moved), quantity));
        let seen_all = judged(&runs, own, &|run| Some(run.usual));
        for (i, case) in before {
            runs[i].case = case;
        }
        if let (Some(entirely), Some(seen_all)) = (entirely, seen_all) {
            let (calibrating, fitted_on) = (seen.len(), others.len());
            list.push(HeldOut { source: source.clone(), seen_all, calibrated, calibrating, entirely, fitted_on });
        }
    }
    list
}
