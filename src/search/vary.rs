//! New genomes from old ones: crossover aligned by slots, changes of single genes and of runs, and the problem's own
//! moves; and the choice among them by what they have achieved.
//!
//! Setting and copying runs is what makes genetic search work on sequences of layers. The choice is probability
//! matching with a floor (Fialho 2010, "Adaptive operator selection for optimization", section 2.3).

use super::genome::{Decoder, Gene, Genome, Wish};
use super::problem::{Allele, Problem};
use super::stream::Stream;
use super::walk::Decision;

/// A way to make a genome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// A run of genes from the other parent.
    Segment,
    /// Every gene from either parent.
    Uniform,
    /// One gene anew, others with probability 1/length.
    Point,
    /// Two genes anew.
    Pair,
    /// A run set to the allele of one gene.
    SetRun,
    /// A run overwritten by another run.
    CopyRun,
    /// A run turned round.
    Reverse,
    /// Two genes exchanged.
    Swap,
    /// A run rotated by one.
    Rotate,
    /// One gene to the next or previous option.
    Step,
    /// One gene anew, what follows as the prior likes it: what was right behind another beginning need not be behind this one.
    Tail,
    /// The problem's own move of this kind.
    Move(u32),
}

const GENERIC: [Operator; 11] = [
    Operator::Segment,
    Operator::Uniform,
    Operator::Point,
    Operator::Pair,
    Operator::SetRun,
    Operator::CopyRun,
    Operator::Reverse,
    Operator::Swap,
    Operator::Rotate,
    Operator::Step,
    Operator::Tail,
];

impl Operator {
    /// Every operator that applies to `problem`.
    pub fn all<P: Problem>(problem: &P) -> Vec<Operator> {
        let moves = problem.moves().map_or(0, |moves| moves.kinds());
        GENERIC.into_iter().chain((0..moves).map(Operator::Move)).collect()
    }

    /// Every operator that needs one parent only.
    pub fn neighbours<P: Problem>(problem: &P) -> Vec<Operator> {
        let mut all = Self::all(problem);
        all.retain(|operator| !matches!(operator, Operator::Segment | Operator::Uniform));
        all
    }
}

/// A genome's genes with what is wanted of each.
struct Edit {
    wishes: Vec<Wish>,
}

impl Edit {
    fn of(genome: &Genome) -> Self {
        Self { wishes: genome.genes().iter().map(|gene| Wish::Allele(gene.allele)).collect() }
    }

    fn mutate(&mut self, gene: usize, stream: &mut Stream) {
        self.wishes[gene] = if stream.chance(0.5) { Wish::Likely } else { Wish::Any };
    }

    fn step(&mut self, gene: usize, genes: &[Gene], stream: &mut Stream) {
        self.wishes[gene] = Wish::Beside(genes[gene].allele, if stream.chance(0.5) { 1 } else { -1 });
    }

    fn sprinkle(&mut self, stream: &mut Stream) {
        let rate = 1.0 / self.wishes.len().max(1) as f64;
        for gene in 0..self.wishes.len() {
            if stream.chance(rate) {
                self.mutate(gene, stream);
            }
        }
    }
}

/// A child of `a`, with `b` as the other parent.
pub fn vary<P: Problem>(
    problem: &P,
    decoder: &mut Decoder<'_, P>,
    operator: Operator,
    a: (&Genome, &P::Solution),
    b: &Genome,
    stream: &mut Stream,
) -> Result<(Genome, P::Solution), f64> {
    if let Operator::Move(kind) = operator
        && let Some(moves) = problem.moves()
        && let Some(moved) = moves.neighbour(a.1, kind, &mut || stream.word())
    {
        let alleles = moves.alleles(&moved);
        let kept = alleles.iter().zip(a.0.genes()).take_while(|(allele, gene)| **allele == gene.allele).count();
        let wish = |decision: &Decision<'_, P>, _: &mut Stream| {
            alleles.get(decision.depth).map_or(Wish::Likely, |allele| Wish::Allele(*allele))
        };
        if let Ok(child) = decoder.decode_after(a, kept, stream, wish) {
            return Ok(child);
        }
    }
    let edit = edit(operator, a.0, b, stream);
    decode(decoder, a, b, &edit.wishes, stream)
}

/// The neighbour of `genome` that takes `option` at `gene`.
pub fn replace<P: Problem>(
    decoder: &mut Decoder<'_, P>,
    parent: (&Genome, &P::Solution),
    changes: &[(usize, u32)],
    stream: &mut Stream,
) -> Result<(Genome, P::Solution), f64> {
    let mut edit = Edit::of(parent.0);
    for (gene, option) in changes {
        edit.wishes[*gene] = Wish::Option(*option);
    }
    decode(decoder, parent, parent.0, &edit.wishes, stream)
}

fn decode<P: Problem>(
    decoder: &mut Decoder<'_, P>,
    parent: (&Genome, &P::Solution),
    b: &Genome,
    wishes: &[Wish],
    stream: &mut Stream,
) -> Result<(Genome, P::Solution), f64> {
    let a = parent.0;
    let kept = wishes.iter().zip(a.genes()).take_while(|(wish, gene)| **wish == Wish::Allele(gene.allele)).count();
    decoder.decode_after(parent, kept, stream, |decision, _| match a.find(decision.slot, decision.depth) {
        Some(gene) => wishes[gene],
        None => match b.find(decision.slot, decision.depth) {
            Some(gene) => Wish::Allele(b.genes()[gene].allele),
            None => Wish::Likely,
        },
    })
}

fn edit(operator: Operator, a: &Genome, b: &Genome, stream: &mut Stream) -> Edit {
    let mut edit = Edit::of(a);
    let genes = a.genes();
    let n = genes.len();
    if n == 0 {
        return edit;
    }
    let from_b = |gene: usize| b.find(genes[gene].slot, gene).map(|found| Wish::Allele(b.genes()[found].allele));
    let allele = |gene: usize| -> Allele { genes[gene].allele };
    match operator {
        Operator::Segment => {
            for gene in run(n, stream) {
                edit.wishes[gene] = from_b(gene).unwrap_or(edit.wishes[gene]);
            }
            if stream.chance(0.5) {
                edit.sprinkle(stream);
            }
        }
        Operator::Uniform => {
            for gene in 0..n {
                if stream.chance(0.5) {
                    edit.wishes[gene] = from_b(gene).unwrap_or(edit.wishes[gene]);
                }
            }
            if stream.chance(0.5) {
                edit.sprinkle(stream);
            }
        }
        Operator::Point | Operator::Move(_) => {
            edit.sprinkle(stream);
            edit.mutate(stream.index(n), stream);
        }
        Operator::Pair => {
            edit.mutate(stream.index(n), stream);
            edit.mutate(stream.index(n), stream);
        }
        Operator::SetRun => {
            let run = run(n, stream);
            let source = if stream.chance(0.5) { run.start + stream.index(run.len()) } else { stream.index(n) };
            edit.wishes[run].fill(Wish::Allele(allele(source)));
        }
        Operator::CopyRun => {
            let run = run(n, stream);
            let source = stream.index(n - run.len() + 1);
            for (k, gene) in run.enumerate() {
                edit.wishes[gene] = Wish::Allele(allele(source + k));
            }
        }
        Operator::Reverse => edit.wishes[run(n, stream)].reverse(),
        Operator::Swap => edit.wishes.swap(stream.index(n), stream.index(n)),
        Operator::Rotate => {
            let left = stream.chance(0.5);
            let run = &mut edit.wishes[run(n, stream)];
            if left { run.rotate_left(1) } else { run.rotate_right(1) }
        }
        Operator::Step => edit.step(stream.index(n), genes, stream),
        Operator::Tail => {
            // Early decisions more often: more hangs on them, and there are few.
            let within = 1 + stream.index(n);
            let gene = stream.index(within);
            if stream.chance(0.5) {
                edit.step(gene, genes, stream);
            } else {
                edit.mutate(gene, stream);
            }
            for (wish, gene) in edit.wishes.iter_mut().zip(genes).skip(gene + 1) {
                *wish = Wish::Likeliest(gene.allele);
            }
        }
    }
    edit
}

/// A run of at least one of `n` genes, half of them at most (but two may always be).
fn run(n: usize, stream: &mut Stream) -> std::ops::Range<usize> {
    let length = 1 + stream.index((n / 2).max(2).min(n));
    let start = stream.index(n - length + 1);
    start..start + length
}

/// No operator is chosen less often than this, or than an even share of half the choices if they are many.
const FLOOR: f64 = 0.05;
/// Weight of the newest result in an operator's record.
const NEWEST: f64 = 0.02;

/// What each operator has achieved, and the choice by it.
#[derive(Debug, Clone)]
pub struct Selector {
    operators: Vec<Operator>,
    quality: Vec<f64>,
}

impl Selector {
    /// All of `operators` alike.
    pub fn new(operators: Vec<Operator>) -> Self {
        Self { quality: vec![0.5; operators.len()], operators }
    }

    /// An operator and its number.
    pub fn draw(&self, stream: &mut Stream) -> (usize, Operator) {
        let n = self.operators.len() as f64;
        let floor = FLOOR.min(0.5 / n);
        let total: f64 = self.quality.iter().sum();
        let mut rest = stream.unit();
        for (i, quality) in self.quality.iter().enumerate() {
            let share = if total > 0.0 { quality / total } else { 1.0 / n };
            rest -= floor + (1.0 - n * floor) * share;
            if rest < 0.0 {
                return (i, self.operators[i]);
            }
        }
        let last = self.operators.len() - 1;
        (last, self.operators[last])
    }

    /// Notes whether a child by operator number `operator` was better than its parent.
    pub fn credit(&mut self, operator: usize, improved: bool) {
        let quality = &mut self.quality[operator];
        *quality += NEWEST * (f64::from(u8::from(improved)) - *quality);
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::{ChainShape, LayerChain, Salesman};
    use super::*;

    fn children<P: Problem>(problem: &P) {
        let mut decoder = Decoder::new(problem);
        let mut stream = Stream::new(1, 0, 0, 0);
        let (a, x) = decoder.greedy().unwrap();
        let (b, _) = decoder.decode(&mut stream, |_, _| Wish::Any).unwrap();
        for operator in Operator::all(problem) {
            let mut changed = false;
            for _ in 0..50 {
                let (child, _) = vary(problem, &mut decoder, operator, (&a, &x), &b, &mut stream).unwrap();
                assert_eq!(decoder.follow(&child.path()).map(|(g, _)| g), Some(child.clone()));
                changed |= child != a;
            }
            assert!(changed, "{operator:?} never changes anything");
        }
    }

    #[test]
    fn every_operator_makes_valid_children_of_chains_and_tours() {
        children(&LayerChain::random(ChainShape { items: 8, options: 5, segments: 3, rounds: 4, tightness: 0.5 }, 3));
        children(&Salesman::random(9, 2));
    }

    #[test]
    fn what_works_is_chosen_more_often_and_nothing_is_forgotten() {
        let mut selector = Selector::new(GENERIC.to_vec());
        let mut stream = Stream::new(2, 0, 0, 0);
        for _ in 0..2_000 {
            let (number, _) = selector.draw(&mut stream);
            selector.credit(number, number == 3);
        }
        let mut drawn = [0; GENERIC.len()];
        for _ in 0..10_000 {
            drawn[selector.draw(&mut stream).0] += 1;
        }
        assert!(drawn[3] > 4_000, "{drawn:?}");
        assert!(drawn.iter().all(|n| *n > 300), "{drawn:?}");
    }
}
