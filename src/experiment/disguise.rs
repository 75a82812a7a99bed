//! A problem under another face: its options in another order and under other names, or its prior silent or misleading. What
//! a backend loses by it is what it owed to labels that lie beside each other, or to the prior.

use crate::search::erased::{AnySolution, AnyState, Erased};
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Meeting, Moves, Node, Problem};
use crate::search::score::Score;
use crate::search::stream::mix;
use serde::{Deserialize, Serialize};

/// What is disguised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disguise {
    /// Options stand in another order and alleles have other names; the prior moves along.
    Labels,
    /// Every option has the prior weight of another.
    Prior,
    /// Every option has the same prior weight.
    Silent,
}

/// A disguised problem.
pub struct Disguised<'i, 'p> {
    inner: &'i Erased<'p>,
    what: Disguise,
    salt: u64,
}

/// An odd factor is a bijection of 64 bits: that of Knuth's multiplicative hashing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl<'i, 'p> Disguised<'i, 'p> {
    /// `inner`, disguised as `salt` says.
    pub fn new(inner: &'i Erased<'p>, what: Disguise, salt: u64) -> Self {
        Self { inner, what, salt }
    }

    /// Where option `option` of `options` stands at `slot`: a rotation after a step that shares no factor with `options`.
    fn shuffled(&self, slot: u64, option: u32, options: u32) -> u32 {
        let (step, start) = self.shuffle(slot, options);
        ((u64::from(option) * step + start) % u64::from(options)) as u32
    }

    fn shuffle(&self, slot: u64, options: u32) -> (u64, u64) {
        let n = u64::from(options.max(1));
        let random = mix(&[self.salt, slot]);
        let mut step = (random % n).max(1);
        while gcd(step, n) > 1 {
            step += 1;
        }
        (step, mix(&[random]) % n)
    }

    fn of(&self, s: &AnyState, option: u32) -> u32 {
        match (self.what, self.inner.node(s)) {
            (Disguise::Labels, Node::Choose { slot, options }) => self.shuffled(slot, option, options),
            _ => option,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The factor that undoes [`FACTOR`]: Newton's iteration doubles the digits that are right.
fn inverse() -> u64 {
    (0..6).fold(FACTOR, |x, _| x.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(x))))
}

impl Problem for Disguised<'_, '_> {
    type State = AnyState;
    type Solution = AnySolution;

    fn root(&self) -> AnyState {
        self.inner.root()
    }
    fn node(&self, s: &AnyState) -> Node {
        self.inner.node(s)
    }
    fn allele(&self, s: &AnyState, option: u32) -> Allele {
        let allele = self.inner.allele(s, self.of(s, option));
        if self.what == Disguise::Labels { allele.wrapping_mul(FACTOR) } else { allele }
    }
    fn nearest(&self, s: &AnyState, wanted: Allele) -> u32 {
        if self.what != Disguise::Labels {
            return self.inner.nearest(s, wanted);
        }
        let Node::Choose { slot, options } = self.inner.node(s) else { return 0 };
        let inner = u64::from(self.inner.nearest(s, wanted.wrapping_mul(inverse())));
        let (step, start) = self.shuffle(slot, options);
        // The options are few or the problem is large anyway: look for the one that stands there.
        let n = u64::from(options.max(1));
        (0..n).find(|option| (option * step + start) % n == inner).unwrap_or(0) as u32
    }
    fn prior(&self, s: &AnyState, out: &mut [f32]) {
        if self.what == Disguise::Silent {
            return out.fill(1.0);
        }
        let mut weights = vec![0.0; out.len()];
        self.inner.prior(s, &mut weights);
        if let Node::Choose { slot, options } = self.inner.node(s) {
            for (option, weight) in out.iter_mut().enumerate() {
                *weight = weights.get(self.shuffled(slot, option as u32, options) as usize).copied().unwrap_or(0.0);
            }
        }
    }
    fn push(&self, s: &mut AnyState, option: u32) {
        let option = self.of(s, option);
        self.inner.push(s, option);
    }
    fn pop(&self, s: &mut AnyState) {
        self.inner.pop(s);
    }
    fn bound(&self, s: &AnyState) -> Bound {
        self.inner.bound(s)
    }
    fn meeting(&self, s: &AnyState) -> Option<Meeting> {
        self.inner.meeting(s)
    }
    fn solution(&self, s: &AnyState) -> AnySolution {
        self.inner.solution(s)
    }
    fn key(&self, x: &AnySolution) -> Key128 {
        self.inner.key(x)
    }
    fn niche(&self, x: &AnySolution) -> u64 {
        self.inner.niche(x)
    }
    fn measures(&self, x: &AnySolution) -> Vec<f64> {
        self.inner.measures(x)
    }
    fn strain(&self, x: &AnySolution) -> Vec<f32> {
        self.inner.strain(x)
    }
    fn score(&self, x: &AnySolution, fidelity: Fidelity) -> Score {
        self.inner.score(x, fidelity)
    }
    fn space_log10(&self) -> Option<f64> {
        self.inner.space_log10()
    }
    fn moves(&self) -> Option<&dyn Moves<Solution = AnySolution>> {
        self.inner.moves().map(|_| self as _)
    }
}

impl Moves for Disguised<'_, '_> {
    type Solution = AnySolution;

    fn kinds(&self) -> u32 {
        self.inner.moves().map_or(0, |moves| moves.kinds())
    }
    fn neighbour(&self, x: &AnySolution, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<AnySolution> {
        self.inner.moves()?.neighbour(x, kind, random)
    }
    fn alleles(&self, x: &AnySolution) -> Vec<Allele> {
        let alleles = self.inner.moves().map_or_else(Vec::new, |moves| moves.alleles(x));
        let named = |allele: Allele| if self.what == Disguise::Labels { allele.wrapping_mul(FACTOR) } else { allele };
        alleles.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::problems::{ChainShape, LayerChain};
    use crate::search::walk::Walk;
    use std::collections::BTreeSet;

    #[test]
    fn a_disguise_keeps_the_space_and_turns_names_back() {
        let chain = LayerChain::random(ChainShape { items: 4, options: 6, segments: 2, rounds: 2, tightness: 0.5 }, 1);
        let erased = Erased::new(&chain);
        for what in [Disguise::Labels, Disguise::Prior] {
            let problem = Disguised::new(&erased, what, 7);
            let mut walk = Walk::new(&problem);
            while let Node::Choose { options, .. } = walk.node() {
                let alleles: BTreeSet<Allele> = (0..options).map(|o| problem.allele(walk.state(), o)).collect();
                assert_eq!(alleles.len(), options as usize);
                for option in 0..options {
                    let allele = problem.allele(walk.state(), option);
                    assert_eq!(problem.nearest(walk.state(), allele), option, "{what:?}");
                }
                let mut weights = [vec![0.0; options as usize], vec![0.0; options as usize]];
                problem.prior(walk.state(), &mut weights[0]);
                erased.prior(walk.state(), &mut weights[1]);
                weights.iter_mut().for_each(|w| w.sort_by(f32::total_cmp));
                assert_eq!(weights[0], weights[1]);
                walk.push(options - 1);
            }
            assert_eq!(walk.node(), Node::Complete);
        }
    }
}
