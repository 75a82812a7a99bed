//! The plots of a race: ECDFs of evaluations and of wall time, the performance profile, the critical-difference diagram.

use super::analysis::{View, profile_of};
use super::measure::{hit_s, targets};
use super::results::Results;
use super::stats::{critical_difference, friedman};
use super::svg::{Chart, Line, open, text};
use super::tables::percent;
use std::fmt::Write;

/// A plot.
pub(super) struct Plot {
    pub name: String,
    pub title: String,
    pub clocks: bool,
    pub svg: String,
}

/// Points of an ECDF.
fn steps(sorted: &[f64], all: usize) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, at) in sorted.iter().enumerate() {
        let share = (i + 1) as f64 / all.max(1) as f64;
        match points.last_mut() {
            Some(last) if last.0 == *at => last.1 = share,
            _ => points.push((*at, share)),
        }
    }
    points
}

pub(super) fn all(results: &Results) -> Vec<Plot> {
    let view = View::new(results);
    let mut plots = Vec::new();
    for kind in view.provenances() {
        let lines: Vec<Line> = view
            .backends()
            .map(|backend| {
                let (reached, all) = view.reached(backend, kind);
                let reached: Vec<f64> = reached.iter().map(|at| *at as f64).collect();
                Line { name: backend.to_owned(), points: steps(&reached, all) }
            })
            .collect();
        let title = format!("Targets reached, references that are {}", kind.words());
        let chart = Chart {
            title: title.clone(),
            x: "distinct evaluations".into(),
            y: "share of (run, target) pairs".into(),
            from: 1.0,
            to: view.budget() as f64,
            lines,
        };
        let name = format!("ecdf_{}", kind.words().replace(' ', "_"));
        plots.push(Plot { name: name.clone(), title: title.clone(), clocks: false, svg: chart.render() });
        plots.push(wall(&view, kind, &name, &title));
    }
    plots.push(profile(&view));
    plots.extend(differences(&view));
    plots
}

fn wall(view: &View<'_>, kind: super::reference_value::Provenance, name: &str, title: &str) -> Plot {
    let mut most: f64 = 1e-3;
    let mut lines = Vec::new();
    for backend in view.backends() {
        let (mut reached, mut all) = (Vec::new(), 0);
        for (id, reference) in view.instances().filter(|(_, reference)| reference.provenance == kind) {
            for run in view.runs(id, backend) {
                all += targets().len();
                reached.extend(targets().iter().filter_map(|target| hit_s(run, reference, *target)));
                most = most.max(run.wall_s);
            }
        }
        reached.sort_unstable_by(f64::total_cmp);
        lines.push(Line { name: backend.to_owned(), points: steps(&reached, all) });
    }
    let chart = Chart {
        title: title.to_owned(),
        x: "wall seconds".into(),
        y: "share of (run, target) pairs".into(),
        from: 1e-4,
        to: most,
        lines,
    };
    let (name, title) = (format!("{name}_wall"), format!("{title}, over wall time"));
    Plot { name, title, clocks: true, svg: chart.render() }
}

fn profile(view: &View<'_>) -> Plot {
    let target = view.results.manifest.suite.targets.iter().copied().fold(f64::INFINITY, f64::min);
    let target = if target.is_finite() { target } else { 0.01 };
    let ratios: Vec<f64> = (0..=60).map(|i| 10f64.powf(f64::from(i) / 30.0)).collect();
    let (_, shares) = profile_of(view, target, &ratios);
    let line = |(name, shares): (String, Vec<f64>)| Line { name, points: ratios.iter().copied().zip(shares).collect() };
    let title = format!("Performance profile of the expected running time to {}", percent(target));
    let chart = Chart {
        title: title.clone(),
        x: "ratio to the best backend".into(),
        y: "share of instances".into(),
        from: 1.0,
        to: 100.0,
        lines: shares.into_iter().map(line).collect(),
    };
    Plot { name: "profile".into(), title, clocks: false, svg: chart.render() }
}

/// The diagram of Demsar 2006, figure 1: mean ranks on a line, groups that differ by less than the critical difference joined.
fn differences(view: &View<'_>) -> Option<Plot> {
    let medians = view.medians();
    let ranks = friedman(&medians)?.mean_ranks;
    let critical = critical_difference(ranks.len(), medians.len())?;
    let mut order: Vec<(f64, &str)> = ranks.iter().copied().zip(view.backends()).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let k = order.len();
    let (width, left) = (760.0, 150.0);
    let height = 70.0 + 18.0 * k as f64;
    let x = |rank: f64| left + (rank - 1.0) / (k as f64 - 1.0) * (width - 2.0 * left);
    let title = "Mean ranks and critical difference".to_owned();
    let mut svg = open(width, height, &title);
    let mut line = |x1: f64, x2: f64, y1: f64, y2: f64, w: f64| {
        let _ = write!(
            svg,
            "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" stroke=\"#000\" stroke-width=\"{w}\"/>"
        );
    };
    line(x(1.0), x(k as f64), 40.0, 40.0, 1.0);
    line(x(1.0), x((1.0 + critical).min(k as f64)), 14.0, 14.0, 2.0);
    // Groups: from every method to the last one that is not told apart from it, if no earlier group holds it.
    let (mut until, mut level) = (0, 0.0);
    for first in 0..k {
        let last = (first..k).rev().find(|last| order[*last].0 - order[first].0 <= critical).unwrap_or(first);
        if last > first && last > until {
            line(x(order[first].0) - 3.0, x(order[last].0) + 3.0, 46.0 + level, 46.0 + level, 4.0);
            level += 7.0;
            until = last;
        }
    }
    let foot = 56.0 + level;
    for (place, (rank, _)) in order.iter().enumerate() {
        let y = foot + 16.0 * (place.min(k - 1 - place)) as f64;
        let end = if place < k.div_ceil(2) { left - 8.0 } else { width - left + 8.0 };
        line(x(*rank), x(*rank), 40.0, y, 0.8);
        line(x(*rank), end, y, y, 0.8);
    }
    for (place, (rank, name)) in order.iter().enumerate() {
        let y = foot + 16.0 * (place.min(k - 1 - place)) as f64 + 4.0;
        let label = format!("{name} {rank:.2}");
        match place < k.div_ceil(2) {
            true => text(&mut svg, left - 12.0, y, "end", &label),
            false => text(&mut svg, width - left + 12.0, y, "start", &label),
        }
    }
    text(&mut svg, x(1.0), 10.0, "start", &format!("critical difference {critical:.2}"));
    (1..=k).for_each(|rank| text(&mut svg, x(rank as f64), 34.0, "middle", &rank.to_string()));
    svg += "</svg>\n";
    Some(Plot { name: "critical_difference".into(), title, clocks: false, svg })
}
