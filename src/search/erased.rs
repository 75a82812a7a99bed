//! Any problem behind one type, so that code over problems of many kinds is compiled once.
//!
//! A search of the erased problem asks for the same solutions in the same order as one of the problem itself; every
//! call costs a virtual one and every state an allocation, tens of nanoseconds.

use super::archive::Entry;
use super::backend::Backend;
use super::decompose::{Chain, ChainSolution, Decompose};
use super::front::Compromise;
use super::outcome::Outcome;
use super::problem::{Allele, Bound, Fidelity, Key128, Meeting, Moves, Node, Problem};
use super::run::{self, Request};
use super::score::Score;
use crate::memo::FileError;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

type Part = dyn Any + Send + Sync;

/// A state of any problem.
pub struct AnyState {
    inner: Box<Part>,
    clone: fn(&Part) -> Box<Part>,
}

impl Clone for AnyState {
    fn clone(&self) -> Self {
        Self { inner: (self.clone)(&*self.inner), clone: self.clone }
    }
}

/// A solution of any problem.
#[derive(Clone)]
pub struct AnySolution(Arc<Part>);

impl fmt::Debug for AnySolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySolution")
    }
}

impl AnySolution {
    /// `solution` behind the common type.
    pub fn new<S: Send + Sync + 'static>(solution: S) -> Self {
        Self(Arc::new(solution))
    }

    /// The solution inside, if it is of this type.
    pub fn get<S: 'static>(&self) -> Option<&S> {
        self.0.downcast_ref()
    }
}

/// Searches `problem` behind the common type and answers in its own: [`run::solve`] for those who would otherwise compile every
/// backend once more.
pub fn solve<'p, P: Problem>(
    problem: &'p P,
    backend: &dyn Backend<Erased<'p>>,
    request: Request<'_, P::Solution>,
) -> Result<Outcome<P::Solution>, FileError>
where
    P::State: 'static,
    P::Solution: 'static,
{
    let Request { seed, budget, fidelity, cache, seeds, interrupt, observer, checkpoint, archive } = request;
    let seeds = seeds.into_iter().map(AnySolution::new).collect();
    let request = Request { seed, budget, fidelity, cache, seeds, interrupt, observer, checkpoint, archive };
    let outcome = run::solve(&Erased::new(problem), backend, request)?;
    let own = |Entry { solution, score, key, path }: Entry<AnySolution>| {
        let solution = solution.get::<P::Solution>()?.clone();
        Some(Entry { solution, score, key, path })
    };
    Ok(Outcome {
        best: outcome.best.and_then(own),
        archive: outcome.archive.into_iter().filter_map(own).collect(),
        front: outcome
            .front
            .into_iter()
            .filter_map(|Compromise { entry, measures }| Some(Compromise { entry: own(entry)?, measures }))
            .collect(),
        bound: outcome.bound,
        stop: outcome.stop,
        trace: outcome.trace,
        counters: outcome.counters,
        wall_s: outcome.wall_s,
        cpu_s: outcome.cpu_s,
        dead_end: outcome.dead_end,
        failure: outcome.failure,
        refused: outcome.refused,
        checkpoint_error: outcome.checkpoint_error,
    })
}

/// What [`Erased`] needs of a problem: see [`Problem`] for each.
trait Whole: Sync {
    fn root(&self) -> AnyState;
    fn node(&self, s: &Part) -> Node;
    fn allele(&self, s: &Part, option: u32) -> Allele;
    fn nearest(&self, s: &Part, wanted: Allele) -> u32;
    fn prior(&self, s: &Part, out: &mut [f32]);
    fn push(&self, s: &mut Part, option: u32);
    fn pop(&self, s: &mut Part);
    fn bound(&self, s: &Part) -> Bound;
    fn meeting(&self, s: &Part) -> Option<Meeting>;
    fn solution(&self, s: &Part) -> AnySolution;
    fn key(&self, x: &Part) -> Key128;
    fn niche(&self, x: &Part) -> u64;
    fn measures(&self, x: &Part) -> Vec<f64>;
    fn strain(&self, x: &Part) -> Vec<f32>;
    fn score(&self, x: &Part, fidelity: Fidelity) -> Score;
    fn space_log10(&self) -> Option<f64>;
    fn decomposes(&self) -> bool;
    fn tasks(&self) -> usize;
    fn task_bound(&self, task: usize) -> Bound;
    fn priced_bound(&self, task: usize) -> Bound;
    fn chain(&self, task: usize) -> Option<Chain<'_>>;
    fn assemble(&self, task: usize, solution: &ChainSolution) -> Option<AnySolution>;
    fn disassemble(&self, x: &Part) -> Option<(usize, ChainSolution)>;
    fn value(&self, task: usize, solution: &ChainSolution) -> f64;
    fn seeds(&self) -> Vec<(usize, ChainSolution)>;
    fn kinds(&self) -> Option<u32>;
    fn neighbour(&self, x: &Part, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<AnySolution>;
    fn alleles(&self, x: &Part) -> Vec<Allele>;
}

/// The state or solution inside.
///
/// # Panics
/// When it is another problem's.
fn known<T: 'static>(part: &Part) -> &T {
    part.downcast_ref().expect("states and solutions go back to the problem that made them")
}

fn known_mut<T: 'static>(part: &mut Part) -> &mut T {
    part.downcast_mut().expect("states and solutions go back to the problem that made them")
}

impl<P: Problem> Whole for P
where
    P::State: 'static,
    P::Solution: 'static,
{
    fn root(&self) -> AnyState {
        AnyState { inner: Box::new(P::root(self)), clone: |s| Box::new(known::<P::State>(s).clone()) }
    }
    fn node(&self, s: &Part) -> Node {
        P::node(self, known(s))
    }
    fn allele(&self, s: &Part, option: u32) -> Allele {
        P::allele(self, known(s), option)
    }
    fn nearest(&self, s: &Part, wanted: Allele) -> u32 {
        P::nearest(self, known(s), wanted)
    }
    fn prior(&self, s: &Part, out: &mut [f32]) {
        P::prior(self, known(s), out);
    }
    fn push(&self, s: &mut Part, option: u32) {
        P::push(self, known_mut(s), option);
    }
    fn pop(&self, s: &mut Part) {
        P::pop(self, known_mut(s));
    }
    fn bound(&self, s: &Part) -> Bound {
        P::bound(self, known(s))
    }
    fn meeting(&self, s: &Part) -> Option<Meeting> {
        P::meeting(self, known(s))
    }
    fn solution(&self, s: &Part) -> AnySolution {
        AnySolution(Arc::new(P::solution(self, known(s))))
    }
    fn key(&self, x: &Part) -> Key128 {
        P::key(self, known(x))
    }
    fn niche(&self, x: &Part) -> u64 {
        P::niche(self, known(x))
    }
    fn measures(&self, x: &Part) -> Vec<f64> {
        P::measures(self, known(x))
    }
    fn strain(&self, x: &Part) -> Vec<f32> {
        P::strain(self, known(x))
    }
    fn score(&self, x: &Part, fidelity: Fidelity) -> Score {
        P::score(self, known(x), fidelity)
    }
    fn space_log10(&self) -> Option<f64> {
        P::space_log10(self)
    }
    fn decomposes(&self) -> bool {
        self.decompose().is_some()
    }
    fn tasks(&self) -> usize {
        self.decompose().map_or(0, |d| d.tasks())
    }
    fn task_bound(&self, task: usize) -> Bound {
        self.decompose().map_or(Bound::Infeasible, |d| d.task_bound(task))
    }
    fn priced_bound(&self, task: usize) -> Bound {
        self.decompose().map_or(Bound::Infeasible, |d| d.priced_bound(task))
    }
    fn chain(&self, task: usize) -> Option<Chain<'_>> {
        self.decompose().and_then(|d| d.chain(task))
    }
    fn assemble(&self, task: usize, solution: &ChainSolution) -> Option<AnySolution> {
        self.decompose().map(|d| AnySolution(Arc::new(d.assemble(task, solution))))
    }
    fn disassemble(&self, x: &Part) -> Option<(usize, ChainSolution)> {
        self.decompose()?.disassemble(known(x))
    }
    fn value(&self, task: usize, solution: &ChainSolution) -> f64 {
        self.decompose().map_or(f64::INFINITY, |d| d.value(task, solution))
    }
    fn seeds(&self) -> Vec<(usize, ChainSolution)> {
        self.decompose().map_or_else(Vec::new, |d| d.seeds())
    }
    fn kinds(&self) -> Option<u32> {
        self.moves().map(|moves| moves.kinds())
    }
    fn neighbour(&self, x: &Part, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<AnySolution> {
        Some(AnySolution(Arc::new(self.moves()?.neighbour(known(x), kind, random)?)))
    }
    fn alleles(&self, x: &Part) -> Vec<Allele> {
        self.moves().map_or_else(Vec::new, |moves| moves.alleles(known(x)))
    }
}

/// A problem of any kind.
pub struct Erased<'p>(&'p dyn Whole);

impl<'p> Erased<'p> {
    /// `problem` behind the common type.
    pub fn new<P: Problem>(problem: &'p P) -> Self
    where
        P::State: 'static,
        P::Solution: 'static,
    {
        Self(problem)
    }
}

impl Problem for Erased<'_> {
    type State = AnyState;
    type Solution = AnySolution;

    fn root(&self) -> AnyState {
        self.0.root()
    }
    fn node(&self, s: &AnyState) -> Node {
        self.0.node(&*s.inner)
    }
    fn allele(&self, s: &AnyState, option: u32) -> Allele {
        self.0.allele(&*s.inner, option)
    }
    fn nearest(&self, s: &AnyState, wanted: Allele) -> u32 {
        self.0.nearest(&*s.inner, wanted)
    }
    fn prior(&self, s: &AnyState, out: &mut [f32]) {
        self.0.prior(&*s.inner, out);
    }
    fn push(&self, s: &mut AnyState, option: u32) {
        self.0.push(&mut *s.inner, option);
    }
    fn pop(&self, s: &mut AnyState) {
        self.0.pop(&mut *s.inner);
    }
    fn bound(&self, s: &AnyState) -> Bound {
        self.0.bound(&*s.inner)
    }
    fn meeting(&self, s: &AnyState) -> Option<Meeting> {
        self.0.meeting(&*s.inner)
    }
    fn solution(&self, s: &AnyState) -> AnySolution {
        self.0.solution(&*s.inner)
    }
    fn key(&self, x: &AnySolution) -> Key128 {
        self.0.key(&*x.0)
    }
    fn niche(&self, x: &AnySolution) -> u64 {
        self.0.niche(&*x.0)
    }
    fn measures(&self, x: &AnySolution) -> Vec<f64> {
        self.0.measures(&*x.0)
    }
    fn strain(&self, x: &AnySolution) -> Vec<f32> {
        self.0.strain(&*x.0)
    }
    fn score(&self, x: &AnySolution, fidelity: Fidelity) -> Score {
        self.0.score(&*x.0, fidelity)
    }
    fn space_log10(&self) -> Option<f64> {
        self.0.space_log10()
    }
    fn decompose(&self) -> Option<&dyn Decompose<Solution = AnySolution>> {
        self.0.decomposes().then_some(self)
    }
    fn moves(&self) -> Option<&dyn Moves<Solution = AnySolution>> {
        self.0.kinds().map(|_| self as _)
    }
}

impl Decompose for Erased<'_> {
    type Solution = AnySolution;

    fn tasks(&self) -> usize {
        self.0.tasks()
    }
    fn task_bound(&self, task: usize) -> Bound {
        self.0.task_bound(task)
    }
    fn priced_bound(&self, task: usize) -> Bound {
        self.0.priced_bound(task)
    }
    fn chain(&self, task: usize) -> Option<Chain<'_>> {
        self.0.chain(task)
    }
    fn assemble(&self, task: usize, solution: &ChainSolution) -> AnySolution {
        self.0.assemble(task, solution).expect("only asked of problems that decompose")
    }
    fn disassemble(&self, x: &AnySolution) -> Option<(usize, ChainSolution)> {
        self.0.disassemble(&*x.0)
    }
    fn value(&self, task: usize, solution: &ChainSolution) -> f64 {
        self.0.value(task, solution)
    }
    fn seeds(&self) -> Vec<(usize, ChainSolution)> {
        self.0.seeds()
    }
}

impl Moves for Erased<'_> {
    type Solution = AnySolution;

    fn kinds(&self) -> u32 {
        self.0.kinds().unwrap_or(0)
    }
    fn neighbour(&self, x: &AnySolution, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<AnySolution> {
        self.0.neighbour(&*x.0, kind, random)
    }
    fn alleles(&self, x: &AnySolution) -> Vec<Allele> {
        self.0.alleles(&*x.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::super::genetic::Genetic;
    use super::super::mcts::Mcts;
    use super::super::problems::{ChainShape, LayerChain};
    use super::super::registry::{Choice, build};
    use super::*;

    #[test]
    fn an_erased_problem_is_searched_as_the_problem_itself() {
        let shape = ChainShape { items: 8, options: 4, segments: 2, rounds: 4, tightness: 0.4 };
        let problem = LayerChain::random(shape, 5);
        let plain: [Box<dyn Backend<LayerChain>>; 2] = [Box::new(Mcts::default()), Box::new(Genetic::default())];
        for plain in plain {
            let name = plain.name();
            let erased = build(&Choice::named(name)).unwrap();
            let a = run::solve(&problem, &*plain, Request::new(3, Budget::evaluations(300))).unwrap();
            let b = solve(&problem, &*erased, Request::new(3, Budget::evaluations(300))).unwrap();
            assert_eq!((&a.best, &a.archive), (&b.best, &b.archive), "{name}");
            assert_eq!(a.trace.improvements, b.trace.improvements, "{name}");
            assert_eq!((a.stop, a.bound, a.counters), (b.stop, b.bound, b.counters), "{name}");
        }
    }
}
