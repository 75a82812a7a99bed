//! What visits were worth, and the scale on which that is compared.

use serde::{Deserialize, Serialize};

/// How objectives become values between 0 (bad) and 1 (good).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleKind {
    /// From the smallest to the largest objective seen.
    Minmax,
    /// By their distance from the mean in standard deviations of all objectives seen (Schmoecker 2025, arXiv 2510.21275,
    /// scales the exploration by the spread of all values instead).
    Sigma,
}

/// The objectives seen so far.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    count: u64,
    mean: f64,
    squares: f64,
}

impl Scale {
    pub fn new(kind: ScaleKind) -> Self {
        Self { kind, low: f64::INFINITY, high: f64::NEG_INFINITY, count: 0, mean: 0.0, squares: 0.0 }
    }

    pub fn note(&mut self, objective: f64) {
        self.low = self.low.min(objective);
        self.high = self.high.max(objective);
        self.count += 1;
        let off = objective - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (objective - self.mean);
    }

    /// A variance of objectives as one of values.
    fn of_variance(&self, variance: f64) -> f64 {
        let span = match self.kind {
            ScaleKind::Minmax => self.high - self.low,
            ScaleKind::Sigma => 4.0 * (self.squares / self.count.max(1) as f64).sqrt(),
        };
        if span > 0.0 { (variance / (span * span)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// 1 for good objectives, 0 for bad ones, one half where all are equal.
    fn value(&self, objective: f64) -> f64 {
        match self.kind {
            ScaleKind::Minmax => {
                let span = self.high - self.low;
                if span > 0.0 { ((self.high - objective) / span).clamp(0.0, 1.0) } else { 0.5 }
            }
            ScaleKind::Sigma => {
                let sigma = (self.squares / self.count.max(1) as f64).sqrt();
                if sigma > 0.0 { (0.5 + (self.mean - objective) / (4.0 * sigma)).clamp(0.0, 1.0) } else { 0.5 }
            }
        }
    }
}

/// What the visits of one node led to.
#[derive(Debug, Clone, Default)]
pub(super) struct Value {
    feasible: u64,
    sum: f64,
    /// Mean and sum of squared differences from it (Welford 1962).
    mean: f64,
    squares: f64,
    best: Option<f64>,
    infeasible: u64,
    penalty: f64,
}

impl Value {
    /// Notes a visit that led to an objective, or to a violation.
    pub fn note(&mut self, cost: Result<f64, f64>) {
        match cost {
            Ok(objective) => {
                self.feasible = self.feasible.saturating_add(1);
                self.sum += objective;
                let off = objective - self.mean;
                self.mean += off / self.feasible as f64;
                self.squares += off * (objective - self.mean);
                self.best = Some(self.best.map_or(objective, |best| best.min(objective)));
            }
            Err(violation) => {
                self.infeasible = self.infeasible.saturating_add(1);
                self.penalty += if violation.is_finite() { violation / (1.0 + violation) } else { 1.0 };
            }
        }
    }

    /// The variance of what feasible visits were worth.
    pub fn variance(&self, scale: &Scale) -> f64 {
        scale.of_variance(self.squares / self.feasible.max(1) as f64)
    }

    /// The mean over the visits mixed with the best of them: feasible ones count 0 to 1, infeasible ones 0 to -1 by their
    /// violation. `None` without visits.
    pub fn normalised(&self, scale: &Scale, mix: f64) -> Option<f64> {
        let visits = self.feasible + self.infeasible;
        if visits == 0 {
            return None;
        }
        let feasible =
            if self.feasible == 0 { 0.0 } else { self.feasible as f64 * scale.value(self.sum / self.feasible as f64) };
        let mean = (feasible - self.penalty) / visits as f64;
        let best = self.best.map_or(mean, |best| scale.value(best));
        Some((1.0 - mix) * mean + mix * best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feasible_visits_are_worth_more_than_infeasible_ones_and_better_ones_more() {
        for kind in [ScaleKind::Minmax, ScaleKind::Sigma] {
            let mut scale = Scale::new(kind);
            for x in [1.0, 2.0, 3.0] {
                scale.note(x);
            }
            let value = |cost| {
                let mut value = Value::default();
                value.note(cost);
                value.normalised(&scale, 0.3).unwrap()
            };
            let order = [Ok(1.0), Ok(2.0), Ok(3.0), Err(0.1), Err(1.0), Err(f64::INFINITY)].map(value);
            assert!(order.is_sorted_by(|a, b| a > b), "{kind:?} {order:?}");
        }
        assert_eq!(Value::default().normalised(&Scale::new(ScaleKind::Minmax), 0.0), None);
    }

    #[test]
    fn equal_objectives_are_worth_one_half() {
        let mut scale = Scale::new(ScaleKind::Minmax);
        scale.note(7.0);
        assert_eq!(scale.value(7.0), 0.5);
    }
}
