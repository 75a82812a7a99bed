//! Solutions to be priced: held by whoever asks, or handed over.

use super::genome::Genome;
use super::problem::Key128;

/// A solution to be priced.
#[derive(Debug, Clone)]
pub struct Candidate<S> {
    /// The solution.
    pub solution: S,
    /// Its identity.
    pub key: Key128,
    /// The options that lead to it, if it comes from a path.
    pub path: Option<Box<[u32]>>,
}

/// A solution to be priced that somebody else holds.
pub struct Question<'s, S> {
    /// The solution.
    pub solution: &'s S,
    /// Its identity.
    pub key: Key128,
    /// What leads to it.
    pub way: Way<'s>,
}

impl<'s, S> Question<'s, S> {
    /// About the solution with this key that `genome` leads to.
    pub fn bred(solution: &'s S, key: Key128, genome: &'s Genome) -> Self {
        Self { solution, key, way: Way::Genome(genome) }
    }
}

/// What leads to a solution.
#[derive(Clone, Copy)]
pub enum Way<'s> {
    /// Nothing that is known.
    Unknown,
    /// These options.
    Options(&'s [u32]),
    /// The options of this genome.
    Genome(&'s Genome),
}

impl Way<'_> {
    /// The options, for keeps.
    pub fn options(self) -> Option<Box<[u32]>> {
        match self {
            Way::Unknown => None,
            Way::Options(options) => Some(options.into()),
            Way::Genome(genome) => Some(genome.genes().iter().map(|gene| gene.option).collect()),
        }
    }
}
