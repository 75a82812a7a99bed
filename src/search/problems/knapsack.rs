//! The knapsack of several dimensions: pack the most valuable items within every capacity.
//!
//! The objective, to be made small, is the value left behind. One decision per item, in the order of value per weight;
//! an item that does not fit any more has one option. Bound: the best of the fractional relaxations of the single
//! capacities (Dantzig 1957, "Discrete-variable extremum problems").

use super::super::problem::{Allele, Bound, Fidelity, Key128, Meeting, Moves, Node, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::{identity, key};

/// A knapsack problem.
#[derive(Debug, Clone)]
pub struct Knapsack {
    values: Vec<f64>,
    weights: Vec<Vec<f64>>,
    capacities: Vec<f64>,
    total: f64,
    by_density: Vec<Vec<usize>>,
    identity: u128,
}

/// Items decided so far.
#[derive(Debug, Clone)]
pub struct Packing {
    packed: Vec<bool>,
    /// Free capacity after each decision.
    free: Vec<Vec<f64>>,
    left_behind: Vec<f64>,
}

impl Knapsack {
    /// Items of `values[i]` that weigh `weights[i][d]` of `capacities[d]`. Items are put in order of value per relative weight.
    pub fn new(mut items: Vec<(f64, Vec<f64>)>, capacities: Vec<f64>) -> Self {
        let density = |(value, weights): &(f64, Vec<f64>)| {
            value / weights.iter().zip(&capacities).map(|(w, c)| w / c).sum::<f64>().max(f64::MIN_POSITIVE)
        };
        items.sort_by(|a, b| density(b).total_cmp(&density(a)));
        let (values, weights): (Vec<f64>, Vec<Vec<f64>>) = items.into_iter().unzip();
        let by_density = (0..capacities.len())
            .map(|d| {
                let mut order: Vec<usize> = (0..values.len()).collect();
                order.sort_by(|a, b| (values[*b] * weights[*a][d]).total_cmp(&(values[*a] * weights[*b][d])));
                order
            })
            .collect();
        let numbers = values.iter().chain(weights.iter().flatten()).chain(&capacities).copied();
        let identity = identity("knapsack", numbers);
        Self { total: values.iter().sum(), values, weights, capacities, by_density, identity }
    }

    /// `items` items of integer weights below 100 in `dimensions` dimensions, values correlated with them, and half of
    /// the total weight as capacity (Chu and Beasley 1998, "A genetic algorithm for the multidimensional knapsack problem").
    pub fn random(items: usize, dimensions: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, 0, 0, 0);
        let items: Vec<(f64, Vec<f64>)> = (0..items)
            .map(|_| {
                let weights: Vec<f64> = (0..dimensions).map(|_| 1.0 + stream.below(99) as f64).collect();
                let mean = weights.iter().sum::<f64>() / dimensions.max(1) as f64;
                ((mean + 50.0 * stream.unit()).round(), weights)
            })
            .collect();
        let capacities =
            (0..dimensions).map(|d| (items.iter().map(|(_, w)| w[d]).sum::<f64>() / 2.0).floor()).collect();
        Self::new(items, capacities)
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.values.len()
    }

    fn fits(&self, free: &[f64], item: usize) -> bool {
        self.weights[item].iter().zip(free).all(|(w, f)| w <= f)
    }

    fn most_to_gain(&self, free: &[f64], from: usize) -> f64 {
        let relaxed = |d: usize| {
            let mut room = free[d];
            let mut gain = 0.0;
            for item in self.by_density[d].iter().copied().filter(|i| *i >= from) {
                let weight = self.weights[item][d];
                if weight > room {
                    return gain + self.values[item] * room / weight;
                }
                room -= weight;
                gain += self.values[item];
            }
            gain
        };
        (0..free.len()).map(relaxed).fold(self.values[from..].iter().sum(), f64::min)
    }
}

impl Problem for Knapsack {
    type State = Packing;
    type Solution = Vec<bool>;

    fn root(&self) -> Packing {
        Packing { packed: Vec::new(), free: vec![self.capacities.clone()], left_behind: vec![0.0] }
    }

    fn node(&self, s: &Packing) -> Node {
        let item = s.packed.len();
        if item == self.items() {
            return Node::Complete;
        }
        let options = if self.fits(&s.free[item], item) { 2 } else { 1 };
        Node::Choose { slot: item as u64, options }
    }

    fn allele(&self, _s: &Packing, option: u32) -> Allele {
        u64::from(option)
    }

    fn nearest(&self, s: &Packing, wanted: Allele) -> u32 {
        let item = s.packed.len();
        u32::from(wanted == 1 && self.fits(&s.free[item], item))
    }

    fn prior(&self, s: &Packing, out: &mut [f32]) {
        // The densest items come first: most of them belong in, most of the last ones do not.
        let place = s.packed.len() as f32 / self.items() as f32;
        for (weight, likely) in out.iter_mut().zip([0.1 + 0.8 * place, 0.9 - 0.8 * place]) {
            *weight = likely;
        }
    }

    fn push(&self, s: &mut Packing, option: u32) {
        let item = s.packed.len();
        let (mut free, mut left) = (s.free[item].clone(), s.left_behind[item]);
        if option == 1 {
            free.iter_mut().zip(&self.weights[item]).for_each(|(f, w)| *f -= w);
        } else {
            left += self.values[item];
        }
        s.packed.push(option == 1);
        s.free.push(free);
        s.left_behind.push(left);
    }

    fn pop(&self, s: &mut Packing) {
        s.packed.pop();
        s.free.pop();
        s.left_behind.pop();
    }

    fn bound(&self, s: &Packing) -> Bound {
        let item = s.packed.len();
        let rest: f64 = self.values[item..].iter().sum();
        Bound::AtLeast(s.left_behind[item] + rest - self.most_to_gain(&s.free[item], item))
    }

    /// The item that is next, and what is free for it.
    fn meeting(&self, s: &Packing) -> Option<Meeting> {
        let item = s.packed.len();
        let free = s.free[item].iter().flat_map(|free| [(free.to_bits() >> 32) as u32, free.to_bits() as u32]);
        let key = key(self.identity, std::iter::once(item as u32).chain(free)).0;
        Some(Meeting { key, spent: s.left_behind[item] })
    }

    fn solution(&self, s: &Packing) -> Vec<bool> {
        s.packed.clone()
    }

    fn key(&self, x: &Vec<bool>) -> Key128 {
        key(self.identity, x.iter().map(|packed| u32::from(*packed)))
    }

    fn score(&self, x: &Vec<bool>, _: Fidelity) -> Score {
        let packed = || x.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| i);
        let over = |d: usize| (packed().map(|i| self.weights[i][d]).sum::<f64>() / self.capacities[d] - 1.0).max(0.0);
        let violation: f64 = (0..self.capacities.len()).map(over).sum();
        if violation > 0.0 {
            return Score::infeasible(violation);
        }
        Score::feasible(self.total - packed().map(|i| self.values[i]).sum::<f64>())
    }

    fn space_log10(&self) -> Option<f64> {
        None
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = Vec<bool>>> {
        Some(self)
    }
}

impl Moves for Knapsack {
    type Solution = Vec<bool>;

    /// Put an item in or out; exchange two.
    fn kinds(&self) -> u32 {
        2
    }

    fn neighbour(&self, x: &Vec<bool>, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<Vec<bool>> {
        let mut y = x.clone();
        let mut pick = |wanted: bool| {
            let choices: Vec<usize> = (0..x.len()).filter(|i| x[*i] == wanted).collect();
            choices.get((random() % choices.len().max(1) as u64) as usize).copied()
        };
        if kind == 0 {
            let item = pick(false)?;
            y[item] = true;
        } else {
            let (item, other) = (pick(true)?, pick(false)?);
            y.swap(item, other);
        }
        Some(y)
    }

    fn alleles(&self, x: &Vec<bool>) -> Vec<Allele> {
        x.iter().map(|packed| u64::from(*packed)).collect()
    }
}
