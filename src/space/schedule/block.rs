//! Building blocks as a decision tree: shape, bursts, period, rules for gaps, then how long the passes of a micro-batch wait, by chunk and by
//! stage. Its depth does not depend on the number of micro-batches.
//!
//! Waits are counted in halves of the shortest pass that takes time: with passes of one length the offsets of Qi et al.
//! 2024 ("Pipeline parallelism with controllable memory", table 1) are whole numbers of passes.

use super::solution::{Solution, Workshop};
use crate::pipeline::PipelineError;
use crate::pipeline::block::Block;
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Node, Problem, Slot};
use crate::search::score::Score;

/// Periods as multiples of the least that work and memory allow.
const PERIODS: [f64; 6] = [1.0, 1.02, 1.05, 1.1, 1.2, 1.35];
/// Most micro-batches of a burst.
const MOST_OF_BURST: u32 = 16;
/// Waits that the stages of a chunk share, in halves of the shortest pass.
const SHARED: u32 = 9;
/// Waits where a chunk begins, likewise.
const TURNS: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];
/// Waits for the next pass of the block, likewise.
const HOLDS: [f64; 6] = [0.02, 0.52, 1.02, 2.02, 4.02, 1e9];
/// Weight passes that may be due, `u32::MAX` for any number.
const DUE: [u32; 5] = [1, 2, 3, 4, u32::MAX];
/// What a stage waits more, likewise.
const OWN: [f64; 4] = [0.0, 1.0, 2.0, 4.0];

/// What a decision is about; kinds are 0 for F, 1 for B.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gene {
    Shape,
    Burst,
    Period,
    /// Before every pass of a chunk.
    Shared(usize, usize),
    /// Before the first pass of a chunk.
    Turn(usize, usize),
    Hold,
    Due,
    /// Before the pass of one stage.
    Own(usize, usize),
}

/// The tree.
#[derive(Debug)]
pub struct BlockSpace<'w> {
    workshop: &'w Workshop,
    /// By shape: the decisions after the shape, with the number of options of each.
    genes: Vec<Vec<(Gene, u32)>>,
}

impl<'w> BlockSpace<'w> {
    /// The tree of a case.
    ///
    /// # Errors
    /// [`PipelineError::Unsupported`] for a shape with several routes.
    pub fn new(workshop: &'w Workshop) -> Result<Self, PipelineError> {
        let genes = workshop.case.shapes.iter().map(|shape| {
            if shape.placement.routes() > 1 {
                let why = "a block is the way of one micro-batch, here there are several".to_owned();
                return Err(PipelineError::Unsupported { schedule: "building block".to_owned(), why });
            }
            let mut genes = vec![
                (Gene::Burst, MOST_OF_BURST.min(workshop.case.microbatches as u32).max(1)),
                (Gene::Period, PERIODS.len() as u32),
                (Gene::Hold, HOLDS.len() as u32),
                (Gene::Due, DUE.len() as u32),
            ];
            for c in 0..shape.chunks() {
                for kind in 0..2 {
                    genes.push((Gene::Shared(c, kind), SHARED));
                    genes.push((Gene::Turn(c, kind), TURNS.len() as u32));
                }
            }
            for x in 0..shape.placement.stages() {
                genes.extend((0..2).map(|kind| (Gene::Own(x, kind), OWN.len() as u32)));
            }
            Ok(genes)
        });
        Ok(Self { genes: genes.collect::<Result<_, _>>()?, workshop })
    }

    fn gene(&self, s: &[u32]) -> Option<(Gene, u32)> {
        match s {
            [] => Some((Gene::Shape, self.genes.len() as u32)),
            [shape, rest @ ..] => self.genes[*shape as usize].get(rest.len()).copied(),
        }
    }

    fn block(&self, s: &[u32]) -> Block {
        let number = s[0] as usize;
        let shape = &self.workshop.case.shapes[number];
        let map = &shape.placement;
        let passes = shape.costs.stages.iter().flat_map(|cost| [cost.forward, cost.backward, cost.weight]);
        let unit = 0.5 * passes.filter(|time| *time > 0.0).fold(f64::INFINITY, f64::min);
        let unit = if unit.is_finite() { unit } else { 0.0 };
        let mut block = Block { burst: 1, period: 1.0, waits: vec![0.0; 3 * map.stages()], hold: 0.0, due: 1 };
        let p = map.devices();
        let stages_of = |c: usize| c * p..((c + 1) * p).min(map.stages());
        for ((gene, _), option) in self.genes[number].iter().zip(&s[1..]) {
            let option = *option as usize;
            match *gene {
                Gene::Shape => {}
                Gene::Burst => block.burst = 1 + option as u32,
                Gene::Period => block.period = PERIODS[option],
                Gene::Shared(c, kind) => {
                    stages_of(c).for_each(|x| block.waits[3 * x + kind] += unit * option as f64);
                }
                Gene::Turn(c, kind) => {
                    let stages = stages_of(c);
                    let first = if kind == 0 { stages.start } else { stages.end - 1 };
                    block.waits[3 * first + kind] += unit * TURNS[option];
                }
                Gene::Hold => block.hold = unit * HOLDS[option],
                Gene::Due => block.due = DUE[option],
                Gene::Own(x, kind) => block.waits[3 * x + kind] += unit * OWN[option],
            }
        }
        block
    }
}

impl Problem for BlockSpace<'_> {
    type State = Vec<u32>;
    type Solution = Solution;

    fn root(&self) -> Vec<u32> {
        Vec::new()
    }

    fn node(&self, s: &Vec<u32>) -> Node {
        let word = |kind: u64, a: usize, b: usize| kind << 48 | (a as u64) << 8 | b as u64;
        let Some((gene, options)) = self.gene(s) else { return Node::Complete };
        let slot: Slot = match gene {
            Gene::Shape => 0,
            Gene::Burst => word(1, 1, 0),
            Gene::Period => word(1, 0, 0),
            Gene::Shared(c, kind) => word(2, c, kind),
            Gene::Turn(c, kind) => word(3, c, kind),
            Gene::Hold => word(4, 0, 0),
            Gene::Due => word(4, 1, 0),
            Gene::Own(x, kind) => word(5, x, kind),
        };
        Node::Choose { slot, options }
    }

    fn allele(&self, _: &Vec<u32>, option: u32) -> Allele {
        u64::from(option)
    }

    fn nearest(&self, s: &Vec<u32>, wanted: Allele) -> u32 {
        let options = self.gene(s).map_or(1, |(_, options)| options);
        wanted.min(u64::from(options) - 1) as u32
    }

    fn prior(&self, s: &Vec<u32>, out: &mut [f32]) {
        out.fill(1.0);
        // Stages wait like their chunk as a rule, and a period is short.
        match self.gene(s) {
            Some((Gene::Own(..), _)) => out[0] = 12.0,
            Some((Gene::Burst, _)) => out[0] = 8.0,
            Some((Gene::Period | Gene::Turn(..), _)) => out[0] = 3.0,
            _ => {}
        }
    }

    fn push(&self, s: &mut Vec<u32>, option: u32) {
        s.push(option);
    }

    fn pop(&self, s: &mut Vec<u32>) {
        s.pop();
    }

    fn bound(&self, s: &Vec<u32>) -> Bound {
        self.workshop.bound_of(s.first().map(|shape| *shape as usize))
    }

    fn solution(&self, s: &Vec<u32>) -> Solution {
        Solution::block(s[0] as usize, self.block(s))
    }

    fn key(&self, x: &Solution) -> Key128 {
        self.workshop.key(x)
    }

    fn score(&self, x: &Solution, _: Fidelity) -> Score {
        self.workshop.score(x)
    }
}
