//! Two recorded results side by side: which backend got better, worse, or cannot be told apart, on which instance.

use super::analysis::{Verdict, View, verdict};
use super::enough::{CANNOT_TELL, can_tell};
use super::manifest::InstanceRecord;
use super::results::Results;
use super::stats::{holm, mann_whitney, median};
use serde::Serialize;

const NOT_DISTINGUISHABLE: &str = "not distinguishable";

/// One backend on one instance in both results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The instance.
    pub instance: String,
    /// The backend.
    pub backend: String,
    /// Median final objective of the first; absent where most runs found nothing.
    pub a_median: Option<f64>,
    /// Of the second.
    pub b_median: Option<f64>,
    /// Runs of the first.
    pub a_runs: usize,
    /// Runs of the second.
    pub b_runs: usize,
    /// Probability that a run of the second is better than one of the first.
    pub a12: f64,
    /// Corrected p-value.
    pub p: f64,
    /// What the second is: `better`, `worse`, `not distinguishable`, or `cannot tell` where there are too few runs for any
    /// difference to be significant.
    pub verdict: &'static str,
}

/// Instances that cannot be compared, and why.
pub fn not_compared(a: &Results, b: &Results) -> Vec<String> {
    let (mine, theirs) = (&a.manifest.instances, &b.manifest.instances);
    let has = |all: &[InstanceRecord], one: &InstanceRecord| all.iter().any(|other| other.digest == one.digest);
    let named = |all: &[InstanceRecord], one: &InstanceRecord| all.iter().any(|other| other.id == one.id);
    let first = mine.iter().filter(|one| !has(theirs, one)).map(|one| match named(theirs, one) {
        true => format!("`{}` is another problem in the second", one.id),
        false => format!("`{}` is in the first only", one.id),
    });
    let second = theirs.iter().filter(|one| !has(mine, one) && !named(mine, one));
    first.chain(second.map(|one| format!("`{}` is in the second only", one.id))).collect()
}

/// Both results where they have the same problems (equal digests), backends of one name, and the same budget.
pub fn compare(a: &Results, b: &Results) -> Vec<Compared> {
    let (left, right) = (View::new(a), View::new(b));
    let mut rows = Vec::new();
    let mut samples = Vec::new();
    if a.manifest.suite.evaluations != b.manifest.suite.evaluations {
        return rows;
    }
    for instance in &a.manifest.instances {
        let Some(twin) = b.manifest.instances.iter().find(|i| i.digest == instance.digest) else { continue };
        for backend in left.backends() {
            let (x, y) = (left.finals(&instance.id, backend), right.finals(&twin.id, backend));
            if x.is_empty() || y.is_empty() {
                continue;
            }
            let test = mann_whitney(&y, &x);
            let finite = |v: f64| v.is_finite().then_some(v);
            rows.push(Compared {
                instance: instance.id.clone(),
                backend: backend.to_owned(),
                a_median: finite(median(&x)),
                b_median: finite(median(&y)),
                a_runs: x.len(),
                b_runs: y.len(),
                a12: test.a12,
                p: test.p,
                verdict: "",
            });
            samples.push((y, x));
        }
    }
    let adjusted = holm(&rows.iter().map(|row| row.p).collect::<Vec<_>>());
    let zone = a.manifest.suite.equivalence.max(b.manifest.suite.equivalence);
    let unclear =
        if can_tell(samples.iter().map(|(y, x)| (y.len(), x.len()))) { NOT_DISTINGUISHABLE } else { CANNOT_TELL };
    for ((row, p), (y, x)) in rows.iter_mut().zip(adjusted).zip(&samples) {
        row.p = p;
        row.verdict = match verdict(y, x, p, zone) {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NotDistinguishable => unclear,
        };
    }
    rows
}
