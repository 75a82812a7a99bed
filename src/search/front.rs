//! Several objectives at once: which solutions dominate which, fronts, crowding, and the front that a search has found.
//!
//! Deb, Pratap, Agarwal and Meyarivan 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II", sections III
//! (non-dominated sorting, crowding distance) and VI (constrained domination).

use super::archive::Entry;
use super::score::Score;
use std::cmp::Ordering;

/// Solutions kept in a front; beyond them the most crowded goes.
const MOST: usize = 200;

/// A solution of a front, with all that it is measured by: its objective first.
#[derive(Debug, Clone, PartialEq)]
pub struct Compromise<S> {
    /// The solution.
    pub entry: Entry<S>,
    /// The objective and the problem's further measures, smaller is better.
    pub measures: Vec<f64>,
}

/// Whether `a` dominates `b` under constraints: by feasibility, then violation, then by being nowhere worse and somewhere
/// better.
pub fn dominates(a: (Score, &[f64]), b: (Score, &[f64])) -> bool {
    if !(a.0.is_feasible() && b.0.is_feasible()) {
        return a.0 < b.0;
    }
    let order = |(x, y): (&f64, &f64)| x.total_cmp(y);
    let mut pairs = a.1.iter().zip(b.1).map(order);
    let worse = pairs.clone().any(|by| by == Ordering::Greater);
    !worse && pairs.any(|by| by == Ordering::Less)
}

/// The number of the front that each member is in, from zero.
pub fn ranks(members: &[(Score, &[f64])]) -> Vec<usize> {
    let n = members.len();
    let mut rank = vec![usize::MAX; n];
    let mut above: Vec<usize> =
        (0..n).map(|i| members.iter().filter(|other| dominates(**other, members[i])).count()).collect();
    let mut front: Vec<usize> = (0..n).filter(|i| above[*i] == 0).collect();
    for number in 0.. {
        front.iter().for_each(|i| rank[*i] = number);
        let mut next = Vec::new();
        for below in 0..n {
            let freed = front.iter().filter(|i| dominates(members[**i], members[below])).count();
            if freed > 0 {
                above[below] -= freed;
                if above[below] == 0 {
                    next.push(below);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        front = next;
    }
    rank
}

/// Crowding distances of members of one front: large where neighbours are far, infinite at the ends.
pub fn crowding(members: &[&[f64]]) -> Vec<f64> {
    let mut distance = vec![0.0; members.len()];
    let measures = members.iter().map(|m| m.len()).min().unwrap_or(0);
    for measure in 0..measures {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by(|a, b| members[*a][measure].total_cmp(&members[*b][measure]).then(a.cmp(b)));
        let (first, last) = (order[0], order[order.len() - 1]);
        let span = members[last][measure] - members[first][measure];
        (distance[first], distance[last]) = (f64::INFINITY, f64::INFINITY);
        for three in order.windows(3) {
            if span > 0.0 {
                distance[three[1]] += (members[three[2]][measure] - members[three[0]][measure]) / span;
            }
        }
    }
    distance
}

/// Puts a feasible solution into a front, unless it is dominated or there already.
pub fn offer<S>(front: &mut Vec<Compromise<S>>, new: Compromise<S>) {
    let of = |c: &Compromise<S>| (c.entry.score, c.entry.key);
    let beaten = |c: &Compromise<S>| {
        of(c) == of(&new)
            || c.measures == new.measures
            || dominates((c.entry.score, &c.measures), (new.entry.score, &new.measures))
    };
    if !new.entry.score.is_feasible() || front.iter().any(beaten) {
        return;
    }
    front.retain(|c| !dominates((new.entry.score, &new.measures), (c.entry.score, &c.measures)));
    let at = front.partition_point(|c| of(c) < of(&new));
    front.insert(at, new);
    if front.len() > MOST {
        let distances = crowding(&front.iter().map(|c| c.measures.as_slice()).collect::<Vec<_>>());
        let crowded = (0..front.len()).min_by(|a, b| distances[*a].total_cmp(&distances[*b]).then(a.cmp(b)));
        if let Some(crowded) = crowded {
            front.remove(crowded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feasible_dominates_infeasible_and_a_trade_off_dominates_nothing() {
        let (a, b, c) = ([1.0, 5.0], [2.0, 3.0], [2.0, 5.0]);
        let feasible = |m: &'static [f64]| (Score::Feasible(m[0]), m);
        let (a, b, c): (&'static [f64], _, _) =
            (Box::leak(Box::new(a)), Box::leak(Box::new(b)), Box::leak(Box::new(c)));
        assert!(!dominates(feasible(a), feasible(b)) && !dominates(feasible(b), feasible(a)));
        assert!(dominates(feasible(a), feasible(c)) && dominates(feasible(b), feasible(c)));
        assert!(!dominates(feasible(a), feasible(a)));
        let over = (Score::Infeasible(0.5), a);
        assert!(dominates(feasible(c), over) && dominates((Score::Infeasible(0.1), c), over));
        assert_eq!(ranks(&[feasible(a), feasible(b), feasible(c), over]), [0, 0, 1, 2]);
    }

    #[test]
    fn ends_are_never_crowded_and_the_middle_by_its_neighbours() {
        let members: [&[f64]; 4] = [&[0.0, 9.0], &[1.0, 4.0], &[2.0, 3.0], &[9.0, 0.0]];
        let distances = crowding(&members);
        assert_eq!((distances[0], distances[3]), (f64::INFINITY, f64::INFINITY));
        assert!(distances[1] < distances[2], "{distances:?}");
        assert_eq!(crowding(&[]), Vec::<f64>::new());
    }
}
