//! Windows of a solution that are solved exactly while the rest of it stays: by the labels of the chain where the problem
//! decomposes, by enumeration where few enough combinations are in the window.
//!
//! Shaw 1998 re-solves windows by tree search; here dynamic programming does it where it applies. What is
//! looked at on the way is counted ([`Counters::lookups`](super::outcome::Counters)), not for free.

use super::decompose::{Chain, ChainOption, ChainSolution, Cost, Cuts, Decompose, FixedItem, Transition};
use super::evaluator::Evaluator;
use super::exact::labels::{self, LabelLimits};
use super::exact::relax::Relaxation;
use super::genome::{Decoder, Genome, Wish};
use super::problem::Problem;
use super::stream::Stream;
use std::ops::Range;
use std::sync::Arc;

/// Most labels of a window: beyond, the dynamic program only looks for a good one.
const MOST_LABELS: usize = 1_024;

/// Transitions of a chain whose items are classes of their own.
struct Renamed<'c> {
    inner: Arc<dyn Transition + 'c>,
    classes: Vec<u32>,
}

impl Transition for Renamed<'_> {
    fn between(&self, class: u32, from: u16, to: u16) -> Cost {
        self.inner.between(self.classes[class as usize], from, to)
    }
    fn entry(&self, segment: usize, class: u32, layout: u16) -> Cost {
        self.inner.entry(segment, self.classes[class as usize], layout)
    }
    fn rejoin(&self, segment: usize, class: u32, layout: u16) -> Cost {
        self.inner.rejoin(segment, self.classes[class as usize], layout)
    }
}

/// `chain` with the cuts of `base`, and its options but for the items of `open`.
fn narrowed<'c>(chain: Chain<'c>, base: &ChainSolution, open: &Range<usize>) -> Chain<'c> {
    let own = |i: usize| -> Arc<[ChainOption]> {
        let all = &chain.options[chain.items[i] as usize];
        if open.contains(&i) { all.clone() } else { all.iter().filter(|o| o.id == base.options[i]).cloned().collect() }
    };
    let options = (0..chain.items.len()).map(own).collect();
    let free = |(s, items): (usize, &Vec<u32>)| {
        let multiplier = chain.segments[s].multiplier;
        let of = |(k, item): (usize, &u32)| FixedItem { item: *item, multiplier, lead: false, follows: k > 0 };
        items.iter().enumerate().map(of).collect()
    };
    let cuts = match &chain.cuts {
        Cuts::Fixed(lists) => Cuts::Fixed(lists.clone()),
        Cuts::Free { .. } => Cuts::Fixed(base.segments.iter().enumerate().map(free).collect()),
    };
    Chain {
        items: (0..chain.items.len() as u32).collect(),
        options,
        cuts,
        segments: chain.segments,
        combine: chain.combine,
        transition: Arc::new(Renamed { inner: chain.transition, classes: chain.items }),
    }
}

/// The best solution that differs from `x` in a run of `size` items only, if it is better by the chain's objective; at most
/// `steps` label extensions. `None` also where the problem cannot take `x` apart.
pub(super) fn by_chain<P: Problem>(
    problem: &P,
    x: &P::Solution,
    size: usize,
    steps: u64,
    stream: &mut Stream,
    evaluator: &mut Evaluator<'_, P>,
) -> Option<P::Solution> {
    let tasks: &dyn Decompose<Solution = P::Solution> = problem.decompose()?;
    let (task, base) = tasks.disassemble(x)?;
    let chain = tasks.chain(task)?;
    let n = chain.items.len();
    let size = size.clamp(1, n.max(1));
    let start = stream.index(n + 1 - size);
    let chain = narrowed(chain, &base, &(start..start + size));
    let relaxation = Relaxation::new(&chain, base.objective)?;
    let limits = LabelLimits { incumbent: base.objective, tolerance: 0.0, max_labels: MOST_LABELS, max_steps: steps };
    let found = labels::solve(&chain, &relaxation, limits, &evaluator.halt());
    evaluator.looked_up(found.steps);
    found.best.map(|best| tasks.assemble(task, &best))
}

/// Every solution that differs from `genome` in a run of at most `size` decisions only, if they are at most `most`: the
/// longest such run from a random decision on.
pub(super) fn all<P: Problem>(
    decoder: &mut Decoder<'_, P>,
    genome: &Genome,
    size: usize,
    most: u64,
    stream: &mut Stream,
) -> Vec<(Genome, P::Solution)> {
    let genes = genome.genes();
    let start = stream.index(genes.len());
    let (mut end, mut combinations) = (start, 1u64);
    while end < genes.len() && end - start < size {
        let more = combinations.saturating_mul(u64::from(genes[end].options));
        if more > most {
            break;
        }
        (combinations, end) = (more, end + 1);
    }
    let mut found = Vec::new();
    for mut number in 0..if end > start { combinations } else { 0 } {
        let wanted: Vec<u32> = genes[start..end]
            .iter()
            .map(|gene| {
                let option = number % u64::from(gene.options.max(1));
                number /= u64::from(gene.options.max(1));
                option as u32
            })
            .collect();
        let made = decoder.decode(stream, |decision, _| match genome.find(decision.slot, decision.depth) {
            Some(gene) if (start..end).contains(&gene) => Wish::Option(wanted[gene - start]),
            Some(gene) => Wish::Allele(genes[gene].allele),
            None => Wish::Likely,
        });
        found.extend(made);
    }
    found
}
