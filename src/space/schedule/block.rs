//! Building blocks as a decision tree: shape, bursts, period, rules for gaps, then how long the passes of a micro-batch wait, by chunk and by
//! stage. Its depth does not depend on the number of micro-batches.
//!
//! Waits are counted in halves of the shortest pass that takes time: with passes of one length the offsets of Qi et al.
//! 2024 ("Pipeline parallelism with controllable memory", table 1) are whole numbers of passes.

use super::genome::{Gene, GenomeSpace, slot};
use super::solution::{Solution, Workshop};
use crate::pipeline::block::Block;
use crate::search::problem::Slot;

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
pub enum Part {
    /// Micro-batches of a burst.
    Burst,
    /// Time from one to the next.
    Period,
    /// How long the next pass of the block is waited for.
    Hold,
    /// Weight passes that may be due.
    Due,
    /// Wait before every pass of a kind of a chunk.
    Shared(usize, usize),
    /// Wait before the first of them.
    Turn(usize, usize),
    /// Wait before the pass of one stage.
    Own(usize, usize),
}

/// Building blocks as a tree. On maps with several routes none of them runs.
pub type BlockSpace<'w> = GenomeSpace<&'w Workshop, Part>;

impl Gene for Part {
    fn all(workshop: &Workshop, shape: usize) -> Vec<(Self, u32)> {
        let shape = &workshop.case.shapes[shape];
        let mut genes = vec![
            (Part::Burst, MOST_OF_BURST.min(workshop.case.microbatches as u32).max(1)),
            (Part::Period, PERIODS.len() as u32),
            (Part::Hold, HOLDS.len() as u32),
            (Part::Due, DUE.len() as u32),
        ];
        for c in 0..shape.chunks() {
            for kind in 0..2 {
                genes.push((Part::Shared(c, kind), SHARED));
                genes.push((Part::Turn(c, kind), TURNS.len() as u32));
            }
        }
        for x in 0..shape.placement.stages() {
            genes.extend((0..2).map(|kind| (Part::Own(x, kind), OWN.len() as u32)));
        }
        genes
    }

    fn slot(self) -> Slot {
        match self {
            Part::Burst => slot(1, 1, 0),
            Part::Period => slot(1, 0, 0),
            Part::Shared(c, kind) => slot(2, c, kind),
            Part::Turn(c, kind) => slot(3, c, kind),
            Part::Hold => slot(4, 0, 0),
            Part::Due => slot(4, 1, 0),
            Part::Own(x, kind) => slot(5, x, kind),
        }
    }

    fn weigh(self, out: &mut [f32]) {
        // Stages wait like their chunk as a rule, micro-batches come one by one, and a period is short.
        match self {
            Part::Own(..) => out[0] = 12.0,
            Part::Burst => out[0] = 8.0,
            Part::Period | Part::Turn(..) => out[0] = 3.0,
            Part::Hold | Part::Due | Part::Shared(..) => {}
        }
    }

    fn solution(workshop: &Workshop, number: usize, genes: &[(Self, u32)], options: &[u32]) -> Solution {
        let shape = &workshop.case.shapes[number];
        let map = &shape.placement;
        let passes = shape.costs.stages.iter().flat_map(|cost| [cost.forward, cost.backward, cost.weight]);
        let unit = 0.5 * passes.filter(|time| *time > 0.0).fold(f64::INFINITY, f64::min);
        let unit = if unit.is_finite() { unit } else { 0.0 };
        let mut block = Block { burst: 1, period: 1.0, waits: vec![0.0; 3 * map.stages()], hold: 0.0, due: 1 };
        let p = map.devices();
        let stages_of = |c: usize| c * p..((c + 1) * p).min(map.stages());
        for ((gene, _), option) in genes.iter().zip(options) {
            let option = *option as usize;
            match *gene {
                Part::Burst => block.burst = 1 + option as u32,
                Part::Period => block.period = PERIODS[option],
                Part::Hold => block.hold = unit * HOLDS[option],
                Part::Due => block.due = DUE[option],
                Part::Shared(c, kind) => {
                    stages_of(c).for_each(|x| block.waits[3 * x + kind] += unit * option as f64);
                }
                Part::Turn(c, kind) => {
                    let stages = stages_of(c);
                    let first = if kind == 0 { stages.start } else { stages.end - 1 };
                    block.waits[3 * first + kind] += unit * TURNS[option];
                }
                Part::Own(x, kind) => block.waits[3 * x + kind] += unit * OWN[option],
            }
        }
        Solution::block(number, block)
    }
}
