//! A robust fit of a few factors to measurements.
//!
//! Samples beyond physics, and those whose ratio to the price is far from the others', are named and left out. Half of the rest
//! fits, by descent on the logarithms of the factors: each, and each two, is stepped up and down by ever smaller steps as long as
//! the sum of `sqrt(r^2 + d^2)` falls, `r` being the logarithm of price over measurement (absolute errors, rounded at the bottom:
//! a sample off by ten times pulls no harder than one off by half), with a little that holds every factor at 1. The other half
//! must be met better than before, else nothing changes.

use super::guards::{CalibrationError, FEWEST, OUTLIER, Quarantine, Reasons, Skipped, believable, better};
use super::median;
use rayon::prelude::*;
use serde::Serialize;

/// A constant that may be scaled, with the least and the largest factor that physics and reason leave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// Its value before.
    pub value: f64,
    /// Limits of the factor.
    pub limits: [f64; 2],
}

/// A measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// How it is named where it is left out.
    pub name: String,
    /// Seconds.
    pub measured: f64,
    /// No device is faster than this.
    pub least: f64,
}

/// A constant after a fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaled {
    /// Its name.
    pub name: String,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// The ratio.
    pub factor: f64,
}

/// A sample that was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// Seconds, where it is a number.
    pub measured_s: Option<f64>,
    /// What it would have been by the price before.
    pub price_s: f64,
    /// Why.
    pub why: Quarantine,
}

/// What a fit found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The constants.
    pub constants: Vec<Scaled>,
    /// Samples that fitted them.
    pub fitted: usize,
    /// Samples that were held out.
    pub held_out: usize,
    /// Mean error of the held-out samples before.
    pub error_before: f64,
    /// And after.
    pub error_after: f64,
    /// Whether the new constants are better on what they have not seen.
    pub accepted: bool,
    /// Samples not used.
    pub quarantined: Vec<Quarantined>,
}

impl Fit {
    /// The factors, all 1 where the fit was not accepted.
    pub fn factors(&self) -> Vec<f64> {
        self.constants.iter().map(|c| if self.accepted { c.factor } else { 1.0 }).collect()
    }
}

/// Steps by which a factor is moved, largest first.
const STEPS: [f64; 5] = [1.3, 1.12, 1.05, 1.02, 1.005];
/// Rounds over all factors at one step.
const ROUNDS: usize = 12;
/// Relative error below which errors count squared.
const ROUNDED: f64 = 0.02;
/// How strongly a factor is held at 1: a factor of 2 costs as much as this many samples off by their own size.
pub(in crate::accuracy) const HELD: f64 = 0.15;
/// The same for bytes of one source's runs: the parts of a peak add up, and runs repeat to 0.4 % instead of 1.2 to 1.8
/// (`experiments/accuracy`).
pub(in crate::accuracy) const HELD_BYTES: f64 = 0.02;
/// A spread of ratios below this is never an outlier: models of this kind are off by that much (see `experiments/accuracy`).
const NATURAL: f64 = 0.4;
/// Before there is a fit only ratios this far from the median are outliers (five times): the constants to be fitted spread them.
const GROSS: f64 = 1.6;
fn loss(price: f64, measured: f64) -> f64 {
    let r = (price / measured).ln();
    (r * r + ROUNDED * ROUNDED).sqrt()
}

/// Most factors whose pairs are moved together.
const PAIRED: usize = 8;

/// What is stepped at once: every factor up or down; of few factors also every two, as rates and delays make up for each other.
fn moves(knobs: usize) -> Vec<Vec<(usize, i32)>> {
    let mut moves: Vec<Vec<(usize, i32)>> = (0..knobs).flat_map(|k| [1, -1].map(|up| vec![(k, up)])).collect();
    if knobs <= PAIRED {
        for a in 0..knobs {
            for b in a + 1..knobs {
                moves.extend([(1, 1), (1, -1), (-1, 1), (-1, -1)].map(|(x, y)| vec![(a, x), (b, y)]));
            }
        }
    }
    moves
}

/// Factors that minimise the error of `rows`. `touches` says whether a factor changes the price of a sample at all, `hold` how
/// strongly a factor is held at 1, see `HELD`.
pub fn descend(
    rows: &[usize],
    measured: &(dyn Fn(usize) -> f64 + Sync),
    knobs: &[Knob],
    touches: &(dyn Fn(usize, usize) -> bool + Sync),
    price: &(dyn Fn(usize, &[f64]) -> f64 + Sync),
    hold: f64,
) -> Vec<f64> {
    let mut factors = vec![1.0; knobs.len()];
    let mut losses: Vec<f64> = rows.par_iter().map(|&i| loss(price(i, &factors), measured(i))).collect();
    let held = |f: f64| hold * (f.ln() / std::f64::consts::LN_2).powi(2);
    let moves = moves(knobs.len());
    for step in STEPS {
        for _ in 0..ROUNDS {
            let mut moved = false;
            for each in &moves {
                let mine: Vec<usize> =
                    (0..rows.len()).filter(|&r| each.iter().any(|(k, _)| touches(*k, rows[r]))).collect();
                let old = factors.clone();
                for &(k, up) in each {
                    factors[k] = (old[k] * step.powi(up)).clamp(knobs[k].limits[0], knobs[k].limits[1]);
                }
                if mine.is_empty() || factors == old {
                    factors = old;
                    continue;
                }
                let tried: Vec<f64> =
                    mine.par_iter().map(|&r| loss(price(rows[r], &factors), measured(rows[r]))).collect();
                let cost = |of: &[f64]| each.iter().map(|(k, _)| held(of[*k])).sum::<f64>();
                let before = mine.iter().map(|&r| losses[r]).sum::<f64>() + cost(&old);
                if tried.iter().sum::<f64>() + cost(&factors) < before * (1.0 - 1e-9) {
                    for (&r, loss) in mine.iter().zip(tried) {
                        losses[r] = loss;
                    }
                    moved = true;
                } else {
                    factors = old;
                }
            }
            if !moved {
                break;
            }
        }
    }
    factors
}

/// Splits `rows` into those whose ratio of measurement and price is near the others' and those whose is not: further from the
/// median than 3.5 standard deviations, and than `least`.
fn near(rows: &[usize], least: f64, ratio: &(dyn Fn(usize) -> f64 + Sync)) -> (Vec<usize>, Vec<usize>) {
    let ratios: Vec<f64> = rows.par_iter().map(|&i| ratio(i)).collect();
    let middle = median(&ratios);
    let deviation = median(&ratios.iter().map(|r| (r - middle).abs()).collect::<Vec<_>>());
    let allowed = (OUTLIER * deviation).max(least);
    let good = |r: &f64| (r - middle).abs() <= allowed;
    let list = |keep: bool| rows.iter().zip(&ratios).filter(|(_, r)| good(r) == keep).map(|(i, _)| *i).collect();
    (list(true), list(false))
}

/// Factors for `rows` without those that do not belong, and the rows that do: outliers of the ratio before any fit, then of what a
/// fit to the rest leaves.
pub fn settle(
    rows: &[usize],
    measured: &(dyn Fn(usize) -> f64 + Sync),
    knobs: &[Knob],
    touches: &(dyn Fn(usize, usize) -> bool + Sync),
    price: &(dyn Fn(usize, &[f64]) -> f64 + Sync),
    hold: f64,
) -> (Vec<f64>, Vec<usize>) {
    let ratio = |i: usize, factors: &[f64]| (measured(i) / price(i, factors)).ln();
    let ones = vec![1.0; knobs.len()];
    let (good, _) = near(rows, GROSS, &|i| ratio(i, &ones));
    let first = descend(&good, measured, knobs, touches, price, hold);
    let (kept, _) = near(&good, NATURAL, &|i| ratio(i, &first));
    (descend(&kept, measured, knobs, touches, price, hold), kept)
}

/// Fits `knobs` to `samples`; `price` is that of a sample with the constants scaled by given factors.
///
/// # Errors
/// When too few samples are usable, more than half are not, or all are off by so much that something else is wrong.
pub fn fit(
    samples: &[Sample],
    knobs: &[Knob],
    price: &(dyn Fn(usize, &[f64]) -> f64 + Sync),
) -> Result<Fit, CalibrationError> {
    let ones = vec![1.0; knobs.len()];
    let possible = |s: &Sample| s.measured.is_finite() && s.measured > 0.0 && s.measured >= s.least;
    let (usable, beyond): (Vec<usize>, Vec<usize>) = (0..samples.len()).partition(|&i| possible(&samples[i]));
    let measured = |i: usize| samples[i].measured;
    let (mut good, far) = near(&usable, GROSS, &|i| (measured(i) / price(i, &ones)).ln());
    let mut left: Vec<(usize, Quarantine)> = beyond.iter().map(|&i| (i, Quarantine::BeyondPhysics)).collect();
    left.extend(far.iter().map(|&i| (i, Quarantine::Outlier)));
    let skipped = |(i, why): &(usize, Quarantine)| {
        let Sample { name, measured, least } = &samples[*i];
        let limit =
            if *why == Quarantine::BeyondPhysics { format!("; no less than {least:.6} s") } else { String::new() };
        Skipped::new(name.clone(), format!("{measured:.6} s{limit}"), why.to_string())
    };
    let reasons = |left: &[(usize, Quarantine)]| Reasons(left.iter().map(skipped).collect());
    if good.len() < FEWEST {
        return Err(CalibrationError::TooFew { usable: good.len(), left_out: reasons(&left) });
    }
    believable(&good.iter().map(|&i| measured(i) / price(i, &ones)).collect::<Vec<_>>())?;
    let touches = |k: usize, i: usize| {
        let mut moved = ones.clone();
        moved[k] = (0.7f64).max(knobs[k].limits[0]);
        price(i, &moved) != price(i, &ones)
    };
    let touched: Vec<Vec<bool>> =
        (0..knobs.len()).map(|k| (0..samples.len()).into_par_iter().map(|i| touches(k, i)).collect()).collect();
    let touches = |k: usize, i: usize| touched[k][i];
    // Once to see who does not belong, once more without them.
    let first = descend(&good, &measured, knobs, &touches, price, HELD);
    let (kept, late) = near(&good, NATURAL, &|i| (measured(i) / price(i, &first)).ln());
    left.extend(late.iter().map(|&i| (i, Quarantine::Outlier)));
    good = kept;
    if good.len() < FEWEST {
        return Err(CalibrationError::TooFew { usable: good.len(), left_out: reasons(&left) });
    }
    if left.len() > good.len() {
        return Err(CalibrationError::Mixed { left_out: reasons(&left), of: samples.len() });
    }
    let half = |odd: usize| -> Vec<usize> { good.iter().skip(odd).step_by(2).copied().collect() };
    let (fitting, held_out) = (half(0), half(1));
    let factors = descend(&fitting, &measured, knobs, &touches, price, HELD);
    let error = |factors: &[f64]| {
        let errors = held_out.iter().map(|&i| (price(i, factors) / measured(i) - 1.0).abs());
        errors.sum::<f64>() / held_out.len() as f64
    };
    let (error_before, error_after) = (error(&ones), error(&factors));
    left.sort_by_key(|(i, _)| *i);
    Ok(Fit {
        constants: knobs
            .iter()
            .zip(&factors)
            .map(|(k, f)| Scaled { name: k.name.clone(), before: k.value, after: k.value * f, factor: *f })
            .collect(),
        fitted: fitting.len(),
        held_out: held_out.len(),
        error_before,
        error_after,
        accepted: better(error_before, error_after),
        quarantined: left
            .into_iter()
            .map(|(i, why)| Quarantined {
                name: samples[i].name.clone(),
                measured_s: Some(samples[i].measured).filter(|m| m.is_finite()),
                price_s: price(i, &ones),
                why,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(name: &str, limits: [f64; 2]) -> Knob {
        Knob { name: name.into(), value: 1.0, limits }
    }

    /// Times `a / x + b / y` of two rates.
    fn price(i: usize, f: &[f64]) -> f64 {
        (1 + i % 5) as f64 / f[0] + (1 + i % 3) as f64 / f[1]
    }

    fn samples(truth: [f64; 2]) -> Vec<Sample> {
        let jitter = |i: usize| 1.0 + 0.01 * (((i * 7) % 5) as f64 - 2.0);
        let sample = |i: usize| Sample { name: format!("{i}"), measured: price(i, &truth) * jitter(i), least: 0.01 };
        (0..40).map(sample).collect()
    }

    #[test]
    fn two_rates_are_found_apart_though_a_tenth_of_the_samples_is_off_by_ten_times() {
        let knobs = [knob("a", [0.1, 2.0]), knob("b", [0.1, 2.0])];
        let clean = fit(&samples([0.6, 1.2]), &knobs, &price).unwrap();
        let mut spoiled = samples([0.6, 1.2]);
        for (n, i) in [3, 14, 25, 36].into_iter().enumerate() {
            spoiled[i].measured *= if n % 2 == 0 { 10.0 } else { 0.1 };
        }
        let found = fit(&spoiled, &knobs, &price).unwrap();
        assert!(found.accepted && found.error_after < 0.02, "{found:?}");
        let names: Vec<&str> = found.quarantined.iter().map(|q| q.name.as_str()).collect();
        assert_eq!(names, ["3", "14", "25", "36"]);
        for (f, (c, truth)) in found.factors().iter().zip(clean.factors().iter().zip([0.6, 1.2])) {
            assert!((f / truth - 1.0).abs() < 0.04 && (f / c - 1.0).abs() < 0.03, "{f} {c} {truth}");
        }
    }

    #[test]
    fn physics_units_and_mixtures_are_refused() {
        let knobs = [knob("a", [0.1, 1.0]), knob("b", [0.1, 1.0])];
        let mut fast = samples([1.0, 1.0]);
        fast.iter_mut().for_each(|s| s.measured /= 3.0);
        // No factor passes its limit, whatever the samples say.
        let found = fit(&fast, &knobs, &price).unwrap();
        assert!(found.constants.iter().all(|c| c.factor <= 1.0) && !found.accepted, "{found:?}");
        let mut odd = samples([1.0, 1.0]);
        odd.iter_mut().for_each(|s| s.measured *= 1000.0);
        assert!(matches!(fit(&odd, &knobs, &price), Err(CalibrationError::Unbelievable(_))));
        let mut broken = samples([1.0, 1.0]);
        broken.iter_mut().step_by(2).for_each(|s| s.measured = f64::NAN);
        broken[1].measured = 1e-9;
        let mixed = fit(&broken, &knobs, &price).unwrap_err();
        assert!(matches!(&mixed, CalibrationError::Mixed { left_out, of: 40 } if left_out.0.len() == 21), "{mixed}");
        let few = fit(&broken[..3], &knobs, &price).unwrap_err();
        assert!(
            few.to_string().starts_with("0 usable samples") && few.to_string().contains("(the first: 0: NaN s"),
            "{few}"
        );
    }
}
