//! What a calibration found.

use super::{Style, percent};
use crate::accuracy::calibrate::{Calibration, Quarantine};
use std::fmt::Write;

/// The whole report.
pub fn calibration(found: &Calibration, unreadable: &[usize], style: Style) -> String {
    let mut out = format!("{}\n", style.title("Calibration"));
    let _ = writeln!(out, "  kernels sustain {:.3} times what was assumed", found.factor);
    let _ = writeln!(
        out,
        "  {} samples fitted it; {} that it has not seen are off by {} (before: {}): {}",
        found.fitted,
        found.held_out,
        percent(found.error_after),
        percent(found.error_before),
        if found.accepted { "accepted" } else { "refused, nothing changes" }
    );
    for (i, seconds, why) in &found.quarantined {
        let why = match why {
            Quarantine::BeyondPhysics => "faster than the devices' peak, or no time",
            Quarantine::Outlier => "far from the others",
        };
        let _ = writeln!(out, "  sample {} left out: {seconds:.4} s, {why}", i + 1);
    }
    if !unreadable.is_empty() {
        let _ = writeln!(out, "  lines without a usable time: {unreadable:?}");
    }
    out
}
