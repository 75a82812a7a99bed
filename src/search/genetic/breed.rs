//! Children of two parents, several drafts each: the most promising one is born.
//!
//! What a draft costs is guessed before anything is priced, from what changes of decisions have done so far (pre-screening by a
//! model: Emmerich, Giannakoglou and Naujoks 2006, "Single- and multiobjective evolutionary optimization assisted by
//! Gaussian random field metamodels"; here the model is linear, as paths are sequences).

use super::super::drafts;
use super::super::effects::{Change, Effects};
use super::super::genome::{Decoder, Genome};
use super::super::problem::{Key128, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::super::vary::{Operator, Selector, replace, vary};
use super::island::{Child, Member};

/// Where a child comes from.
pub(super) struct Origin {
    /// Number of the operator that made it; none where it is a neighbour.
    operator: Option<usize>,
    parent: Score,
    change: Change,
}

/// A child that may be born.
struct Draft<'m, S> {
    /// Whether it was asked for before.
    known: bool,
    guess: f64,
    operator: usize,
    parent: &'m Member<S>,
    made: (Genome, S),
}

impl<S> Draft<'_, S> {
    /// Whether it is expected to be better than its parent.
    fn promises(&self) -> bool {
        self.parent.score.objective().is_some_and(|objective| self.guess < objective)
    }
}

/// What makes children, and what it has learned.
pub(super) struct Breeder<'p, P: Problem> {
    pub problem: &'p P,
    selector: Selector,
    effects: Effects,
    /// Drafts per child.
    drafts: usize,
    /// Share of the drafts that vary the best draft so far instead of a parent.
    climb: f64,
}

impl<'p, P: Problem> Breeder<'p, P> {
    pub fn new(problem: &'p P, drafts: usize, climb: f64) -> Self {
        let selector = Selector::new(Operator::all(problem));
        Self { problem, selector, effects: Effects::default(), drafts: drafts.max(1), climb }
    }

    /// A child of parents that `parents` draws, for the island `island`; of several drafts at the `first` attempt. `is_known` tells what was asked for before.
    pub fn child<'m>(
        &self,
        (decoder, first): (&mut Decoder<'_, P>, bool),
        island: usize,
        parents: impl Fn(&mut Stream) -> (&'m Member<P::Solution>, &'m Member<P::Solution>),
        is_known: &dyn Fn(Key128) -> bool,
        stream: &mut Stream,
    ) -> Result<Child<P::Solution>, f64>
    where
        P::Solution: 'm,
    {
        let luck = stream.word();
        let mut best: Option<Draft<'m, P::Solution>> = None;
        let drafts = if first { drafts::next(self.drafts, stream) } else { 1 };
        for number in 0..drafts {
            let (operator, kind) = self.selector.draw(stream);
            let (mut a, b) = parents(stream);
            let mut from = (&a.genome, &a.solution);
            if let Some(draft) = best.as_ref().filter(|draft| draft.promises() && stream.chance(self.climb)) {
                (a, from) = (draft.parent, (&draft.made.0, &draft.made.1));
            }
            let draft = match vary(self.problem, decoder, kind, from, &b.genome, stream) {
                Ok(draft) => draft,
                Err(violation) if number == 0 => return Err(violation),
                Err(_) => continue,
            };
            let guess = match a.score.objective() {
                Some(_) if drafts == 1 => 0.0,
                Some(objective) => objective + self.effects.guess(a.genome.genes(), draft.0.genes()),
                None => f64::INFINITY,
            };
            let known = drafts > 1 && is_known(self.problem.key(&draft.1));
            if best.as_ref().is_none_or(|best| (known, guess) < (best.known, best.guess)) {
                best = Some(Draft { known, guess, operator, parent: a, made: draft });
            }
            // Nothing is learned among infeasible paths, so one draft is as good as another.
            if number == 0 && guess == f64::INFINITY {
                break;
            }
        }
        let Draft { operator, parent, made: (genome, solution), .. } = best.ok_or(f64::INFINITY)?;
        let origin = Some(self.origin(Some(operator), parent, &genome));
        Ok(Child { island, genome, solution, origin, luck })
    }

    /// The neighbour of `parent` that takes `change` (gene and option), for the island `island`.
    pub fn neighbour(
        &self,
        decoder: &mut Decoder<'_, P>,
        island: usize,
        parent: &Member<P::Solution>,
        change: (usize, u32),
        stream: &mut Stream,
    ) -> Result<Child<P::Solution>, f64> {
        let luck = stream.word();
        let (genome, solution) = replace(decoder, (&parent.genome, &parent.solution), &[change], stream)?;
        let origin = Some(self.origin(None, parent, &genome));
        Ok(Child { island, genome, solution, origin, luck })
    }

    /// A child with its key.
    pub fn keyed(&self, child: Child<P::Solution>) -> (Child<P::Solution>, Key128) {
        let key = self.problem.key(&child.solution);
        (child, key)
    }

    fn origin(&self, operator: Option<usize>, parent: &Member<P::Solution>, child: &Genome) -> Origin {
        let change = match self.drafts {
            1 => Change::default(),
            _ => Change::between(parent.genome.genes(), child.genes()),
        };
        Origin { operator, parent: parent.score, change }
    }

    /// Notes what became of a child.
    pub fn learn(&mut self, origin: &Origin, score: Score) {
        if let Some(operator) = origin.operator {
            self.selector.credit(operator, score < origin.parent);
        }
        if let (Some(before), Some(after)) = (origin.parent.objective(), score.objective()) {
            self.effects.learn(&origin.change, after - before);
        }
    }
}
