//! A path as a genome: what was decided about each slot, whatever the option was called there.

use super::problem::{Allele, Node, Problem, Slot};
use super::stream::Stream;
pub use super::walk::Gene;
use super::walk::{Decision, End, PriorSampler, Walk};

/// The decisions of a complete path in order.
#[derive(Debug, Clone)]
pub struct Genome {
    genes: Vec<Gene>,
    /// Whether every prefix of the path may lead to something feasible, as far as was known on the way.
    sound: bool,
    /// Genes by their slots; empty where the path decides slots in their order.
    by_slot: Vec<u32>,
}

impl PartialEq for Genome {
    fn eq(&self, other: &Self) -> bool {
        self.genes == other.genes
    }
}

impl Eq for Genome {}

impl Genome {
    /// The genome of these decisions.
    pub fn new(genes: Vec<Gene>) -> Self {
        Self::made(genes, false)
    }

    fn made(genes: Vec<Gene>, sound: bool) -> Self {
        if genes.is_sorted_by_key(|gene| gene.slot) {
            return Self { genes, sound, by_slot: Vec::new() };
        }
        let mut by_slot: Vec<u32> = (0..genes.len() as u32).collect();
        by_slot.sort_by_key(|i| genes[*i as usize].slot);
        Self { genes, sound, by_slot }
    }

    /// The decisions.
    pub fn genes(&self) -> &[Gene] {
        &self.genes
    }

    /// The options in order.
    pub fn path(&self) -> Vec<u32> {
        self.genes.iter().map(|gene| gene.option).collect()
    }

    /// Where `slot` was decided; `hint` is where to look first.
    pub fn find(&self, slot: Slot, hint: usize) -> Option<usize> {
        if self.genes.get(hint).is_some_and(|gene| gene.slot == slot) {
            return Some(hint);
        }
        let found = if self.by_slot.is_empty() {
            self.genes.partition_point(|gene| gene.slot < slot)
        } else {
            let at = self.by_slot.partition_point(|i| self.genes[*i as usize].slot < slot);
            *self.by_slot.get(at)? as usize
        };
        if found == self.genes.len() {
            return None;
        }
        (self.genes[found].slot == slot).then_some(found)
    }
}

/// What is wanted of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The option nearest to an allele.
    Allele(Allele),
    /// The option this far from the one nearest to an allele.
    Beside(Allele, i32),
    /// This option.
    Option(u32),
    /// An option drawn by the prior.
    Likely,
    /// The option of the largest prior weight; the one nearest to an allele where the prior does not tell options apart.
    Likeliest(Allele),
    /// An option drawn uniformly.
    Any,
}

/// Turns wishes into paths of one problem.
pub struct Decoder<'p, P: Problem> {
    problem: &'p P,
    walk: Walk<'p, P>,
    priors: PriorSampler,
}

impl<P: Problem> Clone for Decoder<'_, P> {
    fn clone(&self) -> Self {
        Self { problem: self.problem, walk: self.walk.clone(), priors: self.priors.clone() }
    }
}

impl<'p, P: Problem> Decoder<'p, P> {
    /// A decoder for `problem`.
    pub fn new(problem: &'p P) -> Self {
        Self { problem, walk: Walk::new(problem), priors: PriorSampler::default() }
    }

    /// The path that comes nearest to what `wish` wants of each decision, and what it means.
    pub fn decode(
        &mut self,
        stream: &mut Stream,
        wish: impl FnMut(&Decision<'_, P>, &mut Stream) -> Wish,
    ) -> Result<(Genome, P::Solution), f64> {
        self.walk.back_to(0);
        self.complete(&[], stream, wish)
    }

    /// As [`Decoder::decode`] where `wish` wants the first decisions as they are in a genome, so many of them: a path that was
    /// sound up to there is walked without looking left and right, and not at all where that is the whole of it.
    pub fn decode_after(
        &mut self,
        (genome, solution): (&Genome, &P::Solution),
        kept: usize,
        stream: &mut Stream,
        wish: impl FnMut(&Decision<'_, P>, &mut Stream) -> Wish,
    ) -> Result<(Genome, P::Solution), f64> {
        if genome.sound && kept == genome.genes.len() {
            return Ok((genome.clone(), solution.clone()));
        }
        let kept = if genome.sound { &genome.genes[..kept] } else { &[] };
        // Where the walk still stands on the kept decisions, it need not take them again.
        self.walk.back_to(shared(self.walk.path(), kept));
        kept[self.walk.path().len()..].iter().for_each(|gene| self.walk.push(gene.option));
        self.complete(kept, stream, wish)
    }

    fn complete(
        &mut self,
        kept: &[Gene],
        stream: &mut Stream,
        mut wish: impl FnMut(&Decision<'_, P>, &mut Stream) -> Wish,
    ) -> Result<(Genome, P::Solution), f64> {
        let (problem, priors) = (self.problem, &mut self.priors);
        let end = self.walk.complete_above(0, None, |decision| match wish(&decision, stream) {
            Wish::Allele(allele) => problem.nearest(decision.state, allele),
            Wish::Beside(allele, by) => {
                let nearest = i64::from(problem.nearest(decision.state, allele));
                (nearest + i64::from(by)).clamp(0, i64::from(decision.options) - 1) as u32
            }
            Wish::Option(option) => option,
            Wish::Likely => priors.draw(&decision, stream),
            Wish::Likeliest(allele) => {
                priors.preferred(&decision).unwrap_or_else(|| problem.nearest(decision.state, allele))
            }
            Wish::Any => stream.below(u64::from(decision.options)) as u32,
        });
        match end {
            End::Complete => Ok(self.genome(kept, self.walk.is_sound())),
            End::DeadEnd(violation) => Err(violation),
        }
    }

    /// The path of largest prior weight at every step.
    pub fn greedy(&mut self) -> Result<(Genome, P::Solution), f64> {
        self.walk.back_to(0);
        let priors = &mut self.priors;
        match self.walk.complete(None, |decision| priors.best(&decision)) {
            End::Complete => Ok(self.genome(&[], self.walk.is_sound())),
            End::DeadEnd(violation) => Err(violation),
        }
    }

    /// The genome of a path; `None` if it is none of this problem.
    pub fn follow(&mut self, path: &[u32]) -> Option<(Genome, P::Solution)> {
        self.walk.back_to(0);
        for option in path {
            match self.walk.node() {
                Node::Choose { options, .. } if *option < options => self.walk.push(*option),
                _ => return None,
            }
        }
        (self.walk.node() == Node::Complete).then(|| self.genome(&[], false))
    }

    /// The path that comes nearest to a solution, where the problem can tell its alleles.
    pub fn encode(&mut self, solution: &P::Solution, stream: &mut Stream) -> Option<(Genome, P::Solution)> {
        let alleles = self.problem.moves()?.alleles(solution);
        self.decode(stream, |decision, _| alleles.get(decision.depth).map_or(Wish::Likely, |a| Wish::Allele(*a))).ok()
    }

    /// The genome of the path walked, most of `kept` first; the walk stays where that ends.
    fn genome(&mut self, kept: &[Gene], sound: bool) -> (Genome, P::Solution) {
        let solution = self.walk.solution();
        let kept = &kept[..shared(self.walk.path(), kept)];
        (Genome::made(self.walk.unwind(kept), sound), solution)
    }
}

/// How many options a path and a row of genes begin with alike.
fn shared(path: &[u32], genes: &[Gene]) -> usize {
    path.iter().zip(genes).take_while(|(option, gene)| **option == gene.option).count()
}
