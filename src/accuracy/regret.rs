//! Does the planner pick the plan that was fastest? Of rival plans that somebody ran for one question, the one with the best
//! price is chosen; its measured tokens per second over those of the fastest is what the choice is worth. A crash is worth 0.
//!
//! Beside it stand a plan drawn at random, the second best, and a rule of thumb: the fewest model-parallel ways that fit, by
//! the published guides to training at scale (Narayanan 2021, takeaways 1 to 3): tensor inside a node before pipeline, the
//! largest micro-batch.

use super::case::Case;
use super::cells::{self, BadRow, Unreadable};
use super::left_out::LeftOut;
use super::table::Row;
use rayon::prelude::*;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A group of rivals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Its name in the table.
    pub group: String,
    /// Publication.
    pub source: String,
    /// Rivals with a price.
    pub priced: usize,
    /// Rivals in all.
    pub rivals: usize,
    /// The row that we choose.
    pub choice: String,
    /// The row that was fastest.
    pub best: String,
    /// 1 less the worth of the choice.
    pub regret: f64,
    /// The same of a row drawn at random, on average.
    pub random: f64,
    /// Of the rule of thumb.
    pub rule_of_thumb: f64,
    /// Of the second best row.
    pub second_best: f64,
    /// The choice crashed.
    pub crashed: bool,
}

/// Means over the groups of a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfSource {
    /// Publication.
    pub source: String,
    /// Groups.
    pub groups: usize,
    /// Mean regret.
    pub mean_regret: f64,
    /// Mean regret of a row drawn at random.
    pub random: f64,
    /// Of the rule of thumb.
    pub rule_of_thumb: f64,
    /// Of the second best.
    pub second_best: f64,
    /// Choices that crashed.
    pub crash_picks: usize,
    /// Groups with fewer than two rivals that have a price.
    pub left_out: usize,
}

/// All groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regret {
    /// By group.
    pub groups: Vec<Group>,
    /// By source.
    pub by_source: Vec<OfSource>,
    /// Mean over sources.
    pub mean_regret: f64,
    /// Choices that crashed.
    pub crash_picks: usize,
    /// Groups that are left out, and names in groups that are passed over, with the reason.
    pub unreadable: Vec<BadRow>,
    /// Rivals that are left out: rows with a cell that holds no value of its column.
    pub unreadable_runs: Vec<BadRow>,
}

/// A rival: what it was worth, and our price of it.
struct Rival {
    id: String,
    /// Tokens per second and device; 0 for a crash; `None` where nothing usable was measured.
    worth: Option<f64>,
    price: Option<Price>,
}

struct Price {
    seconds: f64,
    fits: bool,
    peak: f64,
    /// Tensor, pipeline and context ways; micro-batch.
    ways: (u64, u64),
    micro_batch: u64,
}

fn rival(row: &Row) -> Rival {
    let crashed = cells::crashed(row);
    let rate = || {
        row.number("tokens_per_s_per_gpu").or_else(|| row.number("derived_tokens_per_s_per_gpu")).filter(|r| *r > 0.0)
    };
    let worth = if crashed { Some(0.0) } else { rate() };
    let priced = || -> Result<Price, LeftOut> {
        let case = Case::read(row)?;
        let estimate =
            case.estimate().map_err(|_| LeftOut::Inconsistent("the plan does not tile devices and batch"))?;
        let tensor = row.count("tp").unwrap_or(1) * row.count("cp").unwrap_or(1);
        Ok(Price {
            seconds: estimate.iteration_time_s,
            fits: estimate.fits,
            peak: estimate.peak_memory_bytes,
            ways: (tensor * u64::from(case.plan.pipeline), u64::from(case.plan.pipeline)),
            micro_batch: row.count("micro_batch").unwrap_or(1),
        })
    };
    Rival { id: row.or_blank("id").to_owned(), worth, price: priced().ok() }
}

/// The cheapest that fits; if none does, the leanest.
fn cheapest(a: &Price, b: &Price) -> Ordering {
    b.fits.cmp(&a.fits).then(if a.fits { a.seconds.total_cmp(&b.seconds) } else { a.peak.total_cmp(&b.peak) })
}

fn thumb(a: &Price, b: &Price) -> Ordering {
    b.fits.cmp(&a.fits).then(a.ways.cmp(&b.ways)).then(b.micro_batch.cmp(&a.micro_batch))
}

fn judge(name: &str, source: &str, rivals: &[Rival]) -> Option<Group> {
    let mut measured: Vec<(&Rival, f64)> = rivals.iter().filter_map(|r| Some((r, r.worth?))).collect();
    measured.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.id.cmp(&b.0.id)));
    let &(best, most) = measured.first().filter(|(_, worth)| *worth > 0.0)?;
    let priced: Vec<(&Rival, &Price, f64)> =
        rivals.iter().filter_map(|r| Some((r, r.price.as_ref()?, r.worth?))).collect();
    if priced.len() < 2 {
        return None;
    }
    let pick =
        |order: fn(&Price, &Price) -> Ordering| priced.iter().min_by(|a, b| order(a.1, b.1).then(a.0.id.cmp(&b.0.id)));
    let (choice, rule) = (pick(cheapest)?, pick(thumb)?);
    let regret = |worth: f64| 1.0 - worth / most;
    let random = measured.iter().map(|(_, worth)| regret(*worth)).sum::<f64>() / measured.len() as f64;
    Some(Group {
        group: name.to_owned(),
        source: source.to_owned(),
        priced: priced.len(),
        rivals: rivals.len(),
        choice: choice.0.id.clone(),
        best: best.id.clone(),
        regret: regret(choice.2),
        random,
        rule_of_thumb: regret(rule.2),
        second_best: measured.get(1).map_or(0.0, |(_, worth)| regret(*worth)),
        crashed: choice.2 == 0.0,
    })
}

/// A group with the runs that it names.
type Members<'a> = (&'a Row, Vec<&'a Row>);

/// Every group with its runs, each once; names that are no run's or come twice, and groups that come twice, are told instead.
fn members<'a>(groups: &'a [Row], by_id: &BTreeMap<&str, &'a Row>) -> (Vec<Members<'a>>, Vec<BadRow>) {
    let mut bad = Vec::new();
    let mut seen: BTreeMap<Vec<&str>, &str> = BTreeMap::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut members = Vec::new();
    for group in groups {
        let name = group.or_blank("group");
        let mut tell = |column: &str, found: &str, expected: String| {
            let cell = Unreadable::new(column, found, expected);
            bad.push(BadRow { id: name.to_owned(), line: group.line, cell });
        };
        let mut ids: Vec<&str> = Vec::new();
        for id in group.or_blank("row_ids").split(';').map(str::trim).filter(|id| !id.is_empty()) {
            if ids.contains(&id) {
                tell("row_ids", id, "every run once in a group".to_owned());
            } else if !by_id.contains_key(id) {
                tell("row_ids", id, "the id of a row of the table of runs".to_owned());
            } else {
                ids.push(id);
            }
        }
        if ids.is_empty() {
            if group.text("row_ids").is_none() {
                tell("row_ids", "", "ids of runs, separated by `;`".to_owned());
            }
            continue;
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        if !name.is_empty() && !names.insert(name) {
            tell("group", name, "every group once".to_owned());
            continue;
        }
        if let Some(earlier) = seen.insert(sorted, name) {
            tell("row_ids", group.or_blank("row_ids"), format!("other runs than group `{earlier}` has"));
            continue;
        }
        members.push((group, ids.iter().filter_map(|id| by_id.get(id).copied()).collect()));
    }
    (members, bad)
}

/// Regret over the groups of a table whose rows name those of `runs` in `row_ids`.
pub fn regret(groups: &[Row], runs: &[Row]) -> Regret {
    let unreadable_runs = cells::unreadable(runs);
    let bad: BTreeSet<usize> = unreadable_runs.iter().map(|row| row.line).collect();
    let named = runs.iter().filter(|row| row.repeats.is_none());
    let by_id: BTreeMap<&str, &Row> = named.filter_map(|row| Some((row.text("id")?, row))).collect();
    let (members, unreadable) = members(groups, &by_id);
    let judged: Vec<(String, Option<Group>)> = members
        .par_iter()
        .map(|(group, rows)| {
            let rivals: Vec<Rival> = rows.iter().filter(|row| !bad.contains(&row.line)).map(|row| rival(row)).collect();
            let source = group.or_blank("source");
            (source.to_owned(), judge(group.or_blank("group"), source, &rivals))
        })
        .collect();
    let mut sources: BTreeMap<String, (Vec<Group>, usize)> = BTreeMap::new();
    for (source, group) in judged {
        let entry = sources.entry(source).or_default();
        match group {
            Some(group) => entry.0.push(group),
            None => entry.1 += 1,
        }
    }
    let mut all = Vec::new();
    let mut by_source = Vec::new();
    for (source, (groups, left_out)) in sources {
        let mean = |of: fn(&Group) -> f64| match groups.len() {
            0 => 0.0,
            n => groups.iter().map(of).sum::<f64>() / n as f64,
        };
        by_source.push(OfSource {
            groups: groups.len(),
            mean_regret: mean(|g| g.regret),
            random: mean(|g| g.random),
            rule_of_thumb: mean(|g| g.rule_of_thumb),
            second_best: mean(|g| g.second_best),
            crash_picks: groups.iter().filter(|g| g.crashed).count(),
            left_out,
            source,
        });
        all.extend(groups);
    }
    let counted: Vec<f64> = by_source.iter().filter(|s| s.groups > 0).map(|s| s.mean_regret).collect();
    Regret {
        mean_regret: if counted.is_empty() { 0.0 } else { counted.iter().sum::<f64>() / counted.len() as f64 },
        crash_picks: all.iter().filter(|g| g.crashed).count(),
        groups: all,
        by_source,
        unreadable,
        unreadable_runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rival(id: &str, worth: f64, seconds: f64, fits: bool) -> Rival {
        let price = Price { seconds, fits, peak: 1.0, ways: (1, 1), micro_batch: 1 };
        Rival { id: id.to_owned(), worth: Some(worth), price: Some(price) }
    }

    #[test]
    fn the_cheapest_that_fits_is_chosen_and_a_crash_is_worth_nothing() {
        let rivals = [rival("a", 100.0, 2.0, true), rival("b", 80.0, 1.0, true), rival("c", 0.0, 0.5, false)];
        let group = judge("g", "s", &rivals).unwrap();
        assert_eq!((group.choice.as_str(), group.best.as_str()), ("b", "a"));
        assert!((group.regret - 0.2).abs() < 1e-12 && (group.second_best - 0.2).abs() < 1e-12);
        assert!((group.random - 0.4).abs() < 1e-12 && !group.crashed);
        let crash = judge("g", "s", &[rival("a", 100.0, 2.0, true), rival("c", 0.0, 0.5, true)]).unwrap();
        assert!(crash.crashed && crash.regret == 1.0);
    }

    #[test]
    fn names_that_are_no_runs_and_groups_that_come_twice_are_told() {
        let runs = super::super::table::parse("id\na\nb\nc\n").unwrap();
        let groups = super::super::table::parse(
            "group,source,row_ids\ng,s,a;b;nosuchrow;b\ng,s,a;c\nh,s,b;a\ni,s,nothing\nj,s,c;a\n",
        )
        .unwrap();
        let by_id = runs.iter().map(|row| (row.text("id").unwrap(), row)).collect();
        let (members, bad) = members(&groups, &by_id);
        let names: Vec<&str> = members.iter().map(|(group, _)| group.or_blank("group")).collect();
        assert_eq!((names, members[0].1.len()), (vec!["g", "j"], 2));
        let found: Vec<(&str, &str)> = bad.iter().map(|b| (b.id.as_str(), b.cell.found.as_str())).collect();
        let expected = [("g", "nosuchrow"), ("g", "b"), ("g", "g"), ("h", "b;a"), ("i", "nothing")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_group_without_two_priced_rivals_is_left_out() {
        let mut rivals = [rival("a", 100.0, 2.0, true), rival("b", 80.0, 1.0, true)];
        rivals[1].price = None;
        assert_eq!(judge("g", "s", &rivals), None);
        assert_eq!(judge("g", "s", &[rival("a", 0.0, 2.0, true), rival("b", 0.0, 1.0, true)]), None);
    }
}
