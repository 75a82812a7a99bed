//! Genomes of schedules as decision trees: the shape, then a list of genes that follows from it and does not depend on the
//! number of micro-batches.

use super::solution::{Solution, Workshop};
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Node, Problem, Slot};
use crate::search::score::Score;
use std::borrow::Borrow;

/// A kind of genome: what its decisions are about, and what they make.
pub trait Gene: Copy + std::fmt::Debug + Sync {
    /// The genes of a shape of the case, with the number of options of each.
    fn all(workshop: &Workshop, shape: usize) -> Vec<(Self, u32)>;

    /// What tells it from the other genes; above zero, which is the shape's.
    fn slot(self) -> Slot;

    /// How likely its options are; `out` holds ones.
    fn weigh(self, out: &mut [f32]);

    /// What the chosen options of all genes make.
    fn solution(workshop: &Workshop, shape: usize, genes: &[(Self, u32)], options: &[u32]) -> Solution;
}

/// A slot of a kind of gene that concerns `a` and `b`.
pub(super) fn slot(kind: u64, a: usize, b: usize) -> Slot {
    kind << 48 | (a as u64) << 8 | b as u64
}

/// The tree, with its workshop or a borrow of it.
#[derive(Debug)]
pub struct GenomeSpace<W, G> {
    workshop: W,
    /// By shape.
    genes: Vec<Vec<(G, u32)>>,
}

impl<W: Borrow<Workshop>, G: Gene> GenomeSpace<W, G> {
    /// The tree of a case.
    pub fn new(workshop: W) -> Self {
        let of = workshop.borrow();
        Self { genes: (0..of.case.shapes.len()).map(|shape| G::all(of, shape)).collect(), workshop }
    }

    /// Where solutions get their price.
    pub fn workshop(&self) -> &Workshop {
        self.workshop.borrow()
    }

    /// Options of the next decision, with its gene unless it is the shape's.
    fn next(&self, s: &[u32]) -> Option<(Option<G>, u32)> {
        match s {
            [] => Some((None, self.genes.len() as u32)),
            [shape, rest @ ..] => {
                self.genes[*shape as usize].get(rest.len()).map(|(gene, options)| (Some(*gene), *options))
            }
        }
    }
}

impl<W: Borrow<Workshop> + Sync, G: Gene> Problem for GenomeSpace<W, G> {
    type State = Vec<u32>;
    type Solution = Solution;

    fn root(&self) -> Vec<u32> {
        Vec::new()
    }

    fn node(&self, s: &Vec<u32>) -> Node {
        match self.next(s) {
            Some((gene, options)) => Node::Choose { slot: gene.map_or(0, Gene::slot), options },
            None => Node::Complete,
        }
    }

    fn allele(&self, _: &Vec<u32>, option: u32) -> Allele {
        u64::from(option)
    }

    fn nearest(&self, s: &Vec<u32>, wanted: Allele) -> u32 {
        let options = self.next(s).map_or(1, |(_, options)| options);
        wanted.min(u64::from(options) - 1) as u32
    }

    fn prior(&self, s: &Vec<u32>, out: &mut [f32]) {
        out.fill(1.0);
        if let Some((Some(gene), _)) = self.next(s) {
            gene.weigh(out);
        }
    }

    fn push(&self, s: &mut Vec<u32>, option: u32) {
        s.push(option);
    }

    fn pop(&self, s: &mut Vec<u32>) {
        s.pop();
    }

    fn bound(&self, s: &Vec<u32>) -> Bound {
        let case = &self.workshop().case;
        let of_shape = |shape: &u32| case.shapes[*shape as usize].bound(case.objective);
        Bound::AtLeast(s.first().map_or_else(|| case.bound(), of_shape))
    }

    fn solution(&self, s: &Vec<u32>) -> Solution {
        let shape = s[0] as usize;
        debug_assert_eq!(s.len(), 1 + self.genes[shape].len());
        G::solution(self.workshop(), shape, &self.genes[shape], &s[1..])
    }

    fn key(&self, x: &Solution) -> Key128 {
        self.workshop().key(x)
    }

    fn score(&self, x: &Solution, _: Fidelity) -> Score {
        self.workshop().score(x)
    }

    fn space_log10(&self) -> Option<f64> {
        let of = |genes: &Vec<(G, u32)>| genes.iter().map(|(_, options)| f64::from(*options).log10()).sum::<f64>();
        let sizes: Vec<f64> = self.genes.iter().map(of).collect();
        let most = sizes.iter().copied().fold(0.0, f64::max);
        Some(most + sizes.iter().map(|size| 10f64.powf(size - most)).sum::<f64>().log10())
    }
}
