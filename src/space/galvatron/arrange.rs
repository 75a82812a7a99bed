//! The order of the layers of a stage that changes degrees at the least cost.
//!
//! Layers of one type can stand in any order, so those of one degree stand together, and what remains is the order of the
//! few degrees within each type: all of them are tried, type after type, keeping the cheapest way to end in each degree.

use super::knapsack::Counts;
use super::table::Table;

/// The cheapest way found to end in a degree: the degree, its cost, and (type, degree) in order.
type End = (Option<usize>, f64, Vec<(u32, usize)>);

/// Cost of changing degrees in the cheapest order, ms, and (type, strategy, count) in that order.
pub fn arrange(table: &Table, counts: &Counts) -> (f64, Counts) {
    // By last degree: cost so far and the degrees of each type in order.
    let mut ends: Vec<End> = vec![(None, 0.0, Vec::new())];
    let mut kinds: Vec<u32> = counts.iter().map(|c| c.0).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let mut degrees: Vec<usize> = counts.iter().filter(|c| c.0 == kind).map(|c| table.degree(c.1)).collect();
        degrees.sort_unstable();
        degrees.dedup();
        let mut next: Vec<End> = Vec::new();
        for (last, cost, order) in &ends {
            permute(&mut degrees.clone(), 0, &mut |degrees| {
                let (mut at, mut total) = (*last, *cost);
                for &d in degrees {
                    total += at.map_or(0.0, |a| change_ms(table, kind, a, d));
                    at = Some(d);
                }
                let known = next.iter_mut().find(|n| n.0 == at);
                let fresh = || order.iter().copied().chain(degrees.iter().map(|&d| (kind, d))).collect();
                match known {
                    Some(n) if n.1 <= total => {}
                    Some(n) => (n.1, n.2) = (total, fresh()),
                    None => next.push((at, total, fresh())),
                }
            });
        }
        ends = next;
    }
    let Some((_, cost, order)) = ends.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return (0.0, Vec::new());
    };
    let mut out = Vec::with_capacity(counts.len());
    for (kind, degree) in order {
        out.extend(counts.iter().filter(|c| c.0 == kind && table.degree(c.1) == degree));
    }
    (cost, out)
}

/// ms of handing over between two degrees to a layer of type `kind`.
fn change_ms(table: &Table, kind: u32, a: usize, b: usize) -> f64 {
    if a == b { 0.0 } else { table.resharding_ms[kind as usize][a.max(b)] }
}

fn permute(items: &mut [usize], fixed: usize, visit: &mut dyn FnMut(&[usize])) {
    if fixed == items.len() {
        return visit(items);
    }
    for i in fixed..items.len() {
        items.swap(fixed, i);
        permute(items, fixed + 1, visit);
        items.swap(fixed, i);
    }
}

/// A lower bound on the cost of using every degree of `degrees` (a bit set) in one stage: each but the smallest must be
/// entered or left once.
pub fn least_change_ms(table: &Table, degrees: u32) -> f64 {
    let cheapest =
        |d: usize| table.resharding_ms.iter().filter_map(|r| r.get(d).copied()).fold(f64::INFINITY, f64::min);
    (0..32).filter(|d| degrees & 1 << d != 0).skip(1).map(cheapest).sum()
}
