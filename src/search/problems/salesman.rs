//! The symmetric travelling salesman: the shortest round trip. One decision per position: which city comes next.
//!
//! Bound: the length so far plus the shortest edge of every city that is still to be left.

use super::super::problem::{Allele, Bound, Fidelity, Key128, Meeting, Moves, Node, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::{identity, key};

/// A symmetric travelling salesman problem.
#[derive(Debug, Clone)]
pub struct Salesman {
    distances: Vec<Vec<f64>>,
    shortest: Vec<f64>,
    identity: u128,
}

/// Cities visited so far.
#[derive(Debug, Clone)]
pub struct Tour {
    order: Vec<u32>,
    visited: Vec<bool>,
    /// Length up to each position.
    length: Vec<f64>,
    /// Sum of the shortest edges of the cities still to be left, at each position.
    to_leave: Vec<f64>,
}

impl Salesman {
    /// Cities at these points, Euclidean distances. At least three points.
    pub fn new(points: &[(f64, f64)]) -> Self {
        let distance = |a: &(f64, f64), b: &(f64, f64)| ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt();
        let distances: Vec<Vec<f64>> = points.iter().map(|a| points.iter().map(|b| distance(a, b)).collect()).collect();
        let shortest = distances
            .iter()
            .enumerate()
            .map(|(i, row)| {
                row.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| *d).fold(f64::INFINITY, f64::min)
            })
            .collect();
        let identity = identity("salesman", points.iter().flat_map(|p| [p.0, p.1]));
        Self { distances, shortest, identity }
    }

    /// `cities` cities, uniform in the unit square.
    pub fn random(cities: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, 1, 0, 0);
        Self::new(&(0..cities).map(|_| (stream.unit(), stream.unit())).collect::<Vec<_>>())
    }

    /// `cities` cities at random places of a circle, in random order, and the length of the shortest trip: points in
    /// convex position are visited in the order of their hull (Flood 1956: an optimal tour does not cross itself).
    pub fn on_circle(cities: usize, seed: u64) -> (Self, f64) {
        let mut stream = Stream::new(seed, 1, 1, 0);
        let mut angles: Vec<f64> = (0..cities).map(|_| stream.unit() * std::f64::consts::TAU).collect();
        let problem = Self::new(&angles.iter().map(|a| (a.cos(), a.sin())).collect::<Vec<_>>());
        angles.sort_by(f64::total_cmp);
        let next = angles.iter().cycle().skip(1);
        let length = angles.iter().zip(next).map(|(a, b)| 2.0 * ((a - b) / 2.0).sin().abs()).sum();
        (problem, length)
    }

    /// Number of cities.
    pub fn cities(&self) -> usize {
        self.distances.len()
    }

    fn open<'s>(&self, s: &'s Tour) -> impl Iterator<Item = u32> + 's {
        s.visited.iter().enumerate().filter(|(_, visited)| !**visited).map(|(city, _)| city as u32)
    }

    fn between(&self, a: u32, b: u32) -> f64 {
        self.distances[a as usize][b as usize]
    }

    fn here(s: &Tour) -> u32 {
        s.order.last().copied().unwrap_or(0)
    }
}

impl Problem for Salesman {
    type State = Tour;
    /// All cities in the order of the trip, from city 0 on.
    type Solution = Vec<u32>;

    fn root(&self) -> Tour {
        let mut visited = vec![false; self.cities()];
        visited[0] = true;
        Tour { order: vec![0], visited, length: vec![0.0], to_leave: vec![self.shortest.iter().sum()] }
    }

    fn node(&self, s: &Tour) -> Node {
        let options = (self.cities() - s.order.len()) as u32;
        if options == 0 { Node::Complete } else { Node::Choose { slot: s.order.len() as u64, options } }
    }

    fn allele(&self, s: &Tour, option: u32) -> Allele {
        self.open(s).nth(option as usize).map_or(0, u64::from)
    }

    fn nearest(&self, s: &Tour, wanted: Allele) -> u32 {
        let wanted = (wanted as usize).min(self.cities() - 1) as u32;
        let by_distance =
            |a: &(usize, u32), b: &(usize, u32)| self.between(a.1, wanted).total_cmp(&self.between(b.1, wanted));
        self.open(s).enumerate().min_by(by_distance).map_or(0, |(option, _)| option as u32)
    }

    fn prior(&self, s: &Tour, out: &mut [f32]) {
        let here = Self::here(s);
        for (weight, city) in out.iter_mut().zip(self.open(s)) {
            *weight = (self.between(here, city).max(1e-9).powi(-3)).min(1e30) as f32;
        }
    }

    fn push(&self, s: &mut Tour, option: u32) {
        let city = self.allele(s, option) as u32;
        let here = Self::here(s);
        let depth = s.length.len() - 1;
        s.length.push(s.length[depth] + self.between(here, city));
        s.to_leave.push(s.to_leave[depth] - self.shortest[here as usize]);
        s.order.push(city);
        s.visited[city as usize] = true;
    }

    fn pop(&self, s: &mut Tour) {
        if s.order.len() > 1
            && let Some(city) = s.order.pop()
        {
            s.visited[city as usize] = false;
            s.length.pop();
            s.to_leave.pop();
        }
    }

    fn bound(&self, s: &Tour) -> Bound {
        let depth = s.length.len() - 1;
        // Sums of differences round differently from the tour's own sum: keep the bound below it.
        Bound::AtLeast((s.length[depth] + s.to_leave[depth]) * (1.0 - 1e-12))
    }

    /// Which cities were visited, and where the trip stands.
    fn meeting(&self, s: &Tour) -> Option<Meeting> {
        let visited = s.visited.iter().map(|visited| u32::from(*visited));
        let key = key(self.identity, visited.chain(std::iter::once(Self::here(s)))).0;
        Some(Meeting { key, spent: s.length[s.length.len() - 1] })
    }

    fn solution(&self, s: &Tour) -> Vec<u32> {
        s.order.clone()
    }

    fn key(&self, x: &Vec<u32>) -> Key128 {
        let forward = x[1..].iter().copied();
        if x.get(1) <= x.last() { key(self.identity, forward) } else { key(self.identity, forward.rev()) }
    }

    fn score(&self, x: &Vec<u32>, _: Fidelity) -> Score {
        // In one direction, so that both directions of a trip sum to the same bits.
        let turned: Vec<u32> = if x.get(1) <= x.last() {
            x.clone()
        } else {
            x.iter().take(1).chain(x[1..].iter().rev()).copied().collect()
        };
        let next = turned.iter().cycle().skip(1);
        Score::feasible(turned.iter().zip(next).map(|(a, b)| self.between(*a, *b)).sum())
    }

    fn space_log10(&self) -> Option<f64> {
        Some((2..self.cities()).map(|n| (n as f64).log10()).sum())
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = Vec<u32>>> {
        Some(self)
    }
}

impl Moves for Salesman {
    type Solution = Vec<u32>;

    /// Reverse a part (2-opt, Croes 1958); move up to three cities elsewhere (Or 1976).
    fn kinds(&self) -> u32 {
        2
    }

    fn neighbour(&self, x: &Vec<u32>, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<Vec<u32>> {
        let n = x.len() as u64 - 1;
        if n < 3 {
            return None;
        }
        let mut y = x.clone();
        let (a, b) = (1 + (random() % n) as usize, 1 + (random() % n) as usize);
        let (low, high) = (a.min(b), a.max(b));
        if low == high {
            return None;
        }
        if kind == 0 {
            y[low..=high].reverse();
        } else {
            let run = (1 + random() % 3).min((high - low) as u64) as usize;
            if random().is_multiple_of(2) {
                y[low..=high].rotate_left(run);
            } else {
                y[low..=high].rotate_right(run);
            }
        }
        Some(y)
    }

    fn alleles(&self, x: &Vec<u32>) -> Vec<Allele> {
        x[1..].iter().map(|city| u64::from(*city)).collect()
    }
}
