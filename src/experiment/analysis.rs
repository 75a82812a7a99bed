//! The tables of a race, all from its traces.

use super::enough::{CANNOT_TELL, can_tell, too_few};
use super::fates::{failures, refusals};
use super::measure::{area, distance_at, hit, hit_s, pairs, running_time};
use super::record::Run;
use super::reference_value::{Provenance, Reference};
use super::results::Results;
use super::stats::{
    bootstrap, critical_difference, friedman, holm, mann_whitney, median, quantile, smallest_p, wilcoxon,
};
use super::tables::{Table, percent, short};
use super::tuning;
use std::collections::BTreeMap;

/// Level of significance.
pub(super) const LEVEL: f64 = 0.05;
/// Level at which a backend is said to beat the floor.
const FLOOR_LEVEL: f64 = 0.01;
/// Instances on which it must.
const FLOOR_INSTANCES: usize = 3;
/// Seed of the resamples.
const RESAMPLING: u64 = 1;

/// A race with its runs by instance and backend.
pub(super) struct View<'r> {
    pub results: &'r Results,
    /// By instance, then backend.
    runs: BTreeMap<&'r str, BTreeMap<&'r str, Vec<&'r Run>>>,
}

impl<'r> View<'r> {
    pub fn new(results: &'r Results) -> Self {
        let mut runs: BTreeMap<&str, BTreeMap<&str, Vec<&Run>>> = BTreeMap::new();
        for run in &results.runs {
            runs.entry(&run.instance).or_default().entry(&run.backend).or_default().push(run);
        }
        Self { results, runs }
    }

    pub fn runs(&self, instance: &str, backend: &str) -> &[&'r Run] {
        self.runs.get(instance).and_then(|of| of.get(backend)).map_or(&[], Vec::as_slice)
    }

    pub fn backends(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        self.results.manifest.backends.iter().map(|backend| backend.name.as_str())
    }

    /// Instances with a reference, and the reference.
    pub fn instances(&self) -> impl Iterator<Item = (&'r str, &'r Reference)> + use<'r> {
        self.results.manifest.instances.iter().filter_map(|i| Some((i.id.as_str(), i.reference.as_ref()?)))
    }

    /// Kinds of reference that occur.
    pub fn provenances(&self) -> Vec<Provenance> {
        let mut all: Vec<Provenance> = self.instances().map(|(_, reference)| reference.provenance).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub fn budget(&self) -> u64 {
        self.results.manifest.suite.evaluations
    }

    /// Final objectives of the runs of a backend on an instance; infinite where nothing feasible was found.
    pub fn finals(&self, instance: &str, backend: &str) -> Vec<f64> {
        self.runs(instance, backend).iter().map(|run| run.best.unwrap_or(f64::INFINITY)).collect()
    }

    /// Median final objective by instance and backend.
    pub fn medians(&self) -> Vec<Vec<f64>> {
        let ids = self.results.manifest.instances.iter().map(|i| i.id.as_str());
        ids.map(|id| self.backends().map(|b| median(&self.finals(id, b))).collect()).collect()
    }

    /// Evaluations at which pairs of (run, target) were reached, for instances of one kind of reference.
    pub fn reached(&self, backend: &str, provenance: Provenance) -> (Vec<u64>, usize) {
        let of_kind = self.instances().filter(|(_, reference)| reference.provenance == provenance);
        pairs(of_kind.flat_map(|(id, reference)| self.runs(id, backend).iter().map(move |run| (*run, reference))))
    }
}

/// Every table.
pub fn tables(results: &Results) -> Vec<Table> {
    let view = View::new(results);
    let mut tables = vec![instances(&view), areas(&view)];
    tables.extend(results.manifest.suite.targets.iter().map(|target| running_times(&view, *target)));
    let mut budgets = results.manifest.suite.budgets.clone();
    budgets.push(view.budget());
    budgets.sort_unstable();
    budgets.dedup();
    tables.extend(budgets.into_iter().map(|budget| distances(&view, budget)));
    tables.extend([ranks(&view), duels(&view), floor(&view), profile(&view), clocks(&view), costs(&view)]);
    tables.extend(results.manifest.tuned.as_ref().map(tuning::table));
    tables.extend(failures(&view));
    tables.extend(refusals(&view));
    tables
}

fn with(first: &[&str], backends: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
    first.iter().map(|s| (*s).to_owned()).chain(backends.map(|b| b.as_ref().to_owned())).collect()
}

pub(super) fn strings<const N: usize>(columns: [&str; N]) -> Vec<String> {
    columns.map(str::to_owned).to_vec()
}

fn instances(view: &View<'_>) -> Table {
    let columns = strings([
        "instance",
        "family",
        "reference is",
        "source of the reference",
        "digest",
        "decisions",
        "log10 of paths",
        "reference",
    ]);
    let note = "What was searched. Distances are relative to the reference.";
    let mut table = Table::new("instances", "Instances", note, 5, columns);
    for i in &view.results.manifest.instances {
        let reference = i.reference.as_ref();
        table.rows.push(vec![
            i.id.clone(),
            i.family.clone(),
            reference.map_or("none", |r| r.provenance.words()).to_owned(),
            reference.map_or("", |r| &r.source).to_owned(),
            i.digest.clone(),
            i.depth.to_string(),
            i.size_log10.map_or("-".into(), short),
            reference.map_or("-".into(), |r| format!("{:?}", r.value)),
        ]);
    }
    table
}

fn areas(view: &View<'_>) -> Table {
    let note = "Share of all pairs of (run, target) reached, averaged over the logarithm of evaluations: more is better, 1 is \
                everything at once. 51 targets from 1000 % to 0.01 % above the reference. Optima, bounds and best known values apart. In brackets \
                the interval of 95 % (bootstrap over instances).";
    let kinds = view.provenances();
    let columns = with(&["backend"], kinds.iter().map(|k| format!("against {}", k.words())));
    let mut table = Table::new("area", "Area under the ECDF of evaluations", note, 1, columns);
    for backend in view.backends() {
        let mut row = vec![backend.to_owned()];
        for kind in &kinds {
            let (reached, all) = view.reached(backend, *kind);
            let each: Vec<f64> = view
                .instances()
                .filter(|(_, reference)| reference.provenance == *kind)
                .map(|(id, reference)| {
                    let (reached, all) = pairs(view.runs(id, backend).iter().map(|run| (*run, reference)));
                    area(&reached, all, view.budget())
                })
                .collect();
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
            let interval = bootstrap(&each, RESAMPLING, mean);
            let whole = area(&reached, all, view.budget());
            row.push(format!("{whole:.3} [{:.3}, {:.3}]", interval.low, interval.high));
        }
        table.rows.push(row);
    }
    table
}

fn running_times(view: &View<'_>, target: f64) -> Table {
    let note = "Evaluations of all runs over successes; in brackets successes of runs. ∞: no run reached it.";
    let title = format!("Expected running time to {} above the reference, evaluations", percent(target));
    let name = format!("ert_{target}");
    let mut table = Table::new(&name, &title, note, 2, with(&["instance", "reference is"], view.backends()));
    for (id, reference) in view.instances() {
        let mut row = vec![id.to_owned(), reference.provenance.words().to_owned()];
        for backend in view.backends() {
            let time = running_time(view.runs(id, backend), reference, target);
            row.push(format!("{} ({}/{})", short(time.expected), time.successes, time.runs));
        }
        table.rows.push(row);
    }
    table
}

fn distances(view: &View<'_>, budget: u64) -> Table {
    let note = "Median distance to the reference over seeds, then the 90th percentile. ∞: nothing feasible.";
    let title = format!("Distance to the reference after {budget} evaluations");
    let name = format!("distance_{budget}");
    let mut table = Table::new(&name, &title, note, 2, with(&["instance", "reference is"], view.backends()));
    for (id, reference) in view.instances() {
        let mut row = vec![id.to_owned(), reference.provenance.words().to_owned()];
        for backend in view.backends() {
            let all: Vec<f64> = view.runs(id, backend).iter().map(|run| distance_at(run, reference, budget)).collect();
            row.push(format!("{} ; {}", percent(median(&all)), percent(quantile(&all, 0.9))));
        }
        table.rows.push(row);
    }
    table
}

fn ranks(view: &View<'_>) -> Table {
    let medians = view.medians();
    let backends: Vec<&str> = view.backends().collect();
    let test = friedman(&medians);
    let critical = critical_difference(backends.len(), medians.len());
    let mut note = match &test {
        Some(test) => format!(
            "Ranks of median final objectives over {} instances. Friedman: chi-square {}, p {}. ",
            medians.len(),
            short(test.chi2),
            short(test.p)
        ),
        None => "Too few instances or backends for ranks. ".to_owned(),
    };
    if let Some(critical) = critical {
        note += &format!("Nemenyi's critical difference at 0.05: {}. ", short(critical));
    }
    note += "p against the best: Wilcoxon over instances with Holm's correction.";
    let mut table =
        Table::new("ranks", "Mean ranks", &note, 1, strings(["backend", "mean rank", "p against the best"]));
    let Some(test) = test else { return table };
    let mut order: Vec<usize> = (0..backends.len()).collect();
    order.sort_by(|a, b| test.mean_ranks[*a].total_cmp(&test.mean_ranks[*b]).then(a.cmp(b)));
    let best = order[0];
    let p: Vec<f64> = order[1..].iter().map(|b| wilcoxon(&differences(&medians, best, *b)).p).collect();
    let adjusted = holm(&p);
    for (place, b) in order.iter().enumerate() {
        let p = place.checked_sub(1).map_or("-".to_owned(), |i| short(adjusted[i]));
        table.rows.push(vec![backends[*b].to_owned(), format!("{:.3}", test.mean_ranks[*b]), p]);
    }
    table
}

/// Relative differences of medians, instance by instance; where neither found anything, none.
fn differences(medians: &[Vec<f64>], a: usize, b: usize) -> Vec<f64> {
    let one = |row: &Vec<f64>| match (row[a], row[b]) {
        (x, y) if x == y => 0.0,
        (x, y) => ((x - y) / x.abs().min(y.abs()).max(f64::MIN_POSITIVE)).clamp(-1e9, 1e9),
    };
    medians.iter().map(one).collect()
}

fn duels(view: &View<'_>) -> Table {
    let zone = view.results.manifest.suite.equivalence;
    let note = format!(
        "Row against column, instance by instance: Mann-Whitney on final objectives, Holm over the instances, p below {LEVEL} and \
         medians more than {} apart. A cell is wins:losses and the mean A12 (probability that the row is better).{}",
        percent(zone),
        too_few(view).unwrap_or_default()
    );
    let backends: Vec<&str> = view.backends().collect();
    let mut table =
        Table::new("duels", "Every backend against every other", &note, 1, with(&["backend"], backends.iter()));
    let ids: Vec<&str> = view.results.manifest.instances.iter().map(|i| i.id.as_str()).collect();
    for a in &backends {
        let mut row = vec![(*a).to_owned()];
        for b in &backends {
            if a == b {
                row.push(String::new());
                continue;
            }
            let samples: Vec<_> = ids.iter().map(|id| (view.finals(id, a), view.finals(id, b))).collect();
            let tests: Vec<_> = samples.iter().map(|(x, y)| mann_whitney(x, y)).collect();
            let p = holm(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
            let (mut wins, mut losses) = (0, 0);
            for ((x, y), p) in samples.iter().zip(p) {
                match verdict(x, y, p, zone) {
                    Verdict::Better => wins += 1,
                    Verdict::Worse => losses += 1,
                    Verdict::NotDistinguishable => {}
                }
            }
            let a12 = tests.iter().map(|test| test.a12).sum::<f64>() / tests.len().max(1) as f64;
            let sizes = samples.iter().map(|(x, y)| (x.len(), y.len()));
            row.push(match can_tell(sizes) {
                true => format!("{wins}:{losses} {a12:.2}"),
                false => format!("{CANNOT_TELL} {a12:.2}"),
            });
        }
        table.rows.push(row);
    }
    table
}

/// What can be said of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The first is better.
    Better,
    /// The first is worse.
    Worse,
    /// Nothing.
    NotDistinguishable,
}

/// What can be said of two samples of objectives whose test gave `p` (corrected), when medians nearer than `zone` are one.
pub fn verdict(a: &[f64], b: &[f64], p: f64, zone: f64) -> Verdict {
    let (x, y) = (median(a), median(b));
    // Written so that two infinite medians, whose difference is no number, are not apart.
    let apart = if x.is_finite() && y.is_finite() { (x - y).abs() > zone * x.abs().min(y.abs()) } else { x != y };
    match p < LEVEL && apart {
        true if x < y => Verdict::Better,
        true => Verdict::Worse,
        false => Verdict::NotDistinguishable,
    }
}

fn floor(view: &View<'_>) -> Table {
    let seeds = view.results.manifest.suite.seeds.count as usize;
    let can = smallest_p(seeds, seeds) < FLOOR_LEVEL;
    let cannot = match can {
        true => String::new(),
        false => {
            let smallest = short(smallest_p(seeds, seeds));
            format!(" `{CANNOT_TELL}`: with {seeds} seeds the smallest p there can be is {smallest}.")
        }
    };
    let note = format!(
        "Instances on which final objectives are better than those of `random` with p < {FLOOR_LEVEL} (Mann-Whitney, not \
         corrected), and worse. {FLOOR_INSTANCES} are expected of every backend.{cannot}"
    );
    let columns = strings(["backend", "enough", "better", "worse", "instances"]);
    let mut table = Table::new("floor", "Against random search", &note, 2, columns);
    let floor = view.results.manifest.suite.backends.iter().find(|c| c.backend == "random" && c.parameters.is_empty());
    let Some(floor) = floor else { return table };
    for backend in view.backends().filter(|b| *b != floor.label()) {
        let (mut better, mut worse) = (0, 0);
        for i in &view.results.manifest.instances {
            let test = mann_whitney(&view.finals(&i.id, backend), &view.finals(&i.id, floor.label()));
            better += usize::from(test.p < FLOOR_LEVEL && test.a12 > 0.5);
            worse += usize::from(test.p < FLOOR_LEVEL && test.a12 < 0.5);
        }
        let enough = match better >= FLOOR_INSTANCES {
            true => "yes",
            false if !can => CANNOT_TELL,
            false => "no",
        };
        let all = view.results.manifest.instances.len();
        let cells = [backend, enough].map(str::to_owned).into_iter();
        table.rows.push(cells.chain([better, worse, all].map(|n| n.to_string())).collect());
    }
    table
}

/// Ratios of a performance profile.
const RATIOS: [f64; 8] = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0];

/// Shares of instances on which a backend's expected running time is within a ratio of the best one's (Dolan and More 2002,
/// "Benchmarking optimization software with performance profiles"). Instances that nobody solved are left out.
pub(super) fn profile_of(view: &View<'_>, target: f64, ratios: &[f64]) -> (usize, Vec<(String, Vec<f64>)>) {
    let backends: Vec<&str> = view.backends().collect();
    let mut relative: Vec<Vec<f64>> = Vec::new();
    for (id, reference) in view.instances() {
        let times: Vec<f64> =
            backends.iter().map(|b| running_time(view.runs(id, b), reference, target).expected).collect();
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        if best.is_finite() {
            relative.push(times.iter().map(|time| time / best).collect());
        }
    }
    let share = |b: usize, ratio: &f64| {
        relative.iter().filter(|row| row[b] <= *ratio).count() as f64 / relative.len().max(1) as f64
    };
    let of = |(b, name): (usize, &&str)| ((*name).to_owned(), ratios.iter().map(|r| share(b, r)).collect());
    (relative.len(), backends.iter().enumerate().map(of).collect())
}

fn profile(view: &View<'_>) -> Table {
    let target = view.results.manifest.suite.targets.iter().copied().fold(f64::INFINITY, f64::min);
    let target = if target.is_finite() { target } else { 0.01 };
    let (solved, shares) = profile_of(view, target, &RATIOS);
    let note = format!(
        "Share of the {solved} instances that anybody solved to {} on which the expected running time is within a ratio of the \
         best backend's. The order depends on which backends take part (Gould and Scott 2016).",
        percent(target)
    );
    let columns = with(&["backend"], RATIOS.iter().map(|r| format!("within {r}x")));
    let mut table = Table::new("profile", "Performance profile", &note, 1, columns);
    for (name, shares) in shares {
        table.rows.push(std::iter::once(name).chain(shares.into_iter().map(|s| format!("{s:.2}"))).collect());
    }
    table
}

fn clocks(view: &View<'_>) -> Table {
    let note = "Medians over all runs of a backend. They depend on the machine; nothing else in this report does. Time to 1 %: \
                median wall seconds of the runs that came there, and their share.";
    let columns = strings([
        "backend",
        "wall s",
        "s at work",
        "us per evaluation",
        "requests per evaluation",
        "look-ups per evaluation",
        "s to 1 %",
        "share",
    ]);
    let mut table = Table::new("clocks", "Clocks", note, 1, columns);
    table.clocks = true;
    for backend in view.backends() {
        let runs: Vec<&Run> = view.results.runs.iter().filter(|run| run.backend == backend).collect();
        let of = |f: &dyn Fn(&Run) -> f64| median(&runs.iter().map(|run| f(run)).collect::<Vec<_>>());
        let per = |x: f64, run: &Run| x / run.evaluations.max(1) as f64;
        let (mut times, mut all) = (Vec::new(), 0);
        for (id, reference) in view.instances() {
            for run in view.runs(id, backend) {
                all += 1;
                times.extend(hit(run, reference, 0.01).and_then(|_| hit_s(run, reference, 0.01)));
            }
        }
        table.rows.push(vec![
            backend.to_owned(),
            short(of(&|run| run.wall_s)),
            short(of(&|run| run.cpu_s)),
            short(of(&|run| per(1e6 * run.wall_s, run))),
            short(of(&|run| per(run.requests as f64, run))),
            short(of(&|run| per(run.lookups as f64, run))),
            short(median(&times)),
            format!("{}/{all}", times.len()),
        ]);
    }
    table
}

/// Costs of an evaluation that are simulated, in seconds.
const COSTS: [(f64, &str); 8] = [
    (1e-6, "1 us"),
    (1e-5, "10 us"),
    (1e-4, "100 us"),
    (1e-3, "1 ms"),
    (0.1, "100 ms"),
    (1.0, "1 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
];

/// Which backend would be fastest if an evaluation took longer than it does.
fn costs(view: &View<'_>) -> Table {
    let target = view.results.manifest.suite.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let target = if target.is_finite() { target } else { 0.01 };
    let note = format!(
        "Instances on which a backend's expected time to {} is the shortest, if every evaluation took so much longer than it did:          expected evaluations times (that + measured wall time per evaluation). Dear evaluations favour those that need          few, cheap ones those that think little. Instances that nobody solved are left out.",
        percent(target)
    );
    let mut table = Table::new(
        "clocks_by_cost",
        "By the cost of an evaluation",
        &note,
        1,
        with(&["backend"], COSTS.iter().map(|c| c.1)),
    );
    table.clocks = true;
    let backends: Vec<&str> = view.backends().collect();
    let mut wins = vec![[0usize; COSTS.len()]; backends.len()];
    for (id, reference) in view.instances() {
        let of = |backend: &&str| {
            let runs = view.runs(id, backend);
            let own: Vec<f64> = runs.iter().map(|run| run.wall_s / run.evaluations.max(1) as f64).collect();
            (running_time(runs, reference, target).expected, median(&own))
        };
        let measured: Vec<(f64, f64)> = backends.iter().map(of).collect();
        for (c, (cost, _)) in COSTS.iter().enumerate() {
            let seconds = |b: &usize| measured[*b].0 * (cost + measured[*b].1);
            let best = (0..backends.len()).filter(|b| seconds(b).is_finite());
            if let Some(best) = best.min_by(|a, b| seconds(a).total_cmp(&seconds(b)).then(a.cmp(b))) {
                wins[best][c] += 1;
            }
        }
    }
    for (backend, wins) in backends.iter().zip(wins) {
        table.rows.push(std::iter::once((*backend).to_owned()).chain(wins.map(|n| n.to_string())).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_significance_and_a_difference_that_matters() {
        let (a, b) = (vec![1.0; 10], vec![1.1; 10]);
        assert_eq!(verdict(&a, &b, 0.01, 0.001), Verdict::Better);
        assert_eq!(verdict(&b, &a, 0.01, 0.001), Verdict::Worse);
        assert_eq!(verdict(&a, &b, 0.2, 0.001), Verdict::NotDistinguishable);
        assert_eq!(verdict(&a, &b, 0.01, 0.2), Verdict::NotDistinguishable);
        let none = vec![f64::INFINITY; 10];
        assert_eq!(verdict(&none, &none, 0.01, 0.001), Verdict::NotDistinguishable);
        assert_eq!(verdict(&a, &none, 0.01, 0.001), Verdict::Better);
    }
}
