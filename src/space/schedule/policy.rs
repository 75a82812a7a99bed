//! Policy genomes as a decision tree: shape, then rules that all devices share, then what single stages do otherwise. Its
//! depth does not depend on the number of micro-batches.
//!
//! Shared by the stages of a chunk: how many activations the first and the last device may hold (linear in between), how
//! many of them the warm-up makes (in ZB-H1 as many as in 1F1B, though more may be held later; Qi 2023, section 2.1), how many
//! weight passes may be due, how long to wait for the next pass, and the ranks of F, B and W by phase. Each stage may then hold
//! more or fewer activations, and wait or not.

use super::genome::{Gene, GenomeSpace, slot};
use super::solution::{Solution, Workshop};
use crate::pipeline::decode::{PHASES, StagePolicy};
use crate::search::problem::Slot;

/// Levels of rank.
const RANKS: u32 = 8;
/// Forwards of the warm-up per device from this one to the last; as many as may be held without a number.
const WARMS: [Option<f64>; 5] = [None, Some(1.0), Some(0.5), Some(1.5), Some(2.0)];
/// Weight passes that may be due, `u32::MAX` for any number.
const DUE: [u32; 6] = [1, 2, 3, 4, 8, u32::MAX];
/// Waits as multiples of a forward of the stage.
const HOLDS: [f64; 6] = [0.0, 0.26, 0.51, 1.01, 2.01, 4.01];
/// Activations more or fewer than the shared rule says.
const DELTAS: [i64; 5] = [0, -1, 1, -2, 2];
/// What a stage does about waiting: as the shared rule says, not at all, for one forward, for three.
const OWN_HOLDS: [Option<f64>; 4] = [None, Some(0.0), Some(1.01), Some(3.01)];
/// Most levels of an activation cap.
const MOST_CAPS: u32 = 96;

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Activations of a chunk that the first device may hold.
    CapFirst(usize),
    /// That the last device may hold.
    CapLast(usize),
    /// Length of the warm-up of a chunk.
    Warm(usize),
    /// Weight passes of a chunk that may be due.
    Due(usize),
    /// How long the passes of a chunk are waited for.
    Hold(usize),
    /// Rank of a chunk's passes, by phase and kind.
    Rank(usize, usize, usize),
    /// Activations that a stage holds beside the shared rule.
    Delta(usize),
    /// How long the passes of a stage are waited for.
    OwnHold(usize),
}

/// Policies as a tree.
pub type PolicySpace<'w> = GenomeSpace<&'w Workshop, Rule>;

/// Rules that the stages of a chunk share.
const SHARED: usize = 5 + 3 * PHASES;

impl Gene for Rule {
    fn all(workshop: &Workshop, shape: usize) -> Vec<(Self, u32)> {
        let shape = &workshop.case.shapes[shape];
        let m = workshop.case.microbatches as u32;
        let mut genes = Vec::new();
        let mut add = |gene: Rule, options: usize| genes.push((gene, options as u32));
        for c in 0..shape.chunks() {
            let limits = shape.costs.limit.iter().flatten().copied();
            let least = shape.costs.stages.iter().map(|s| s.activation).fold(f64::INFINITY, f64::min);
            let most = (limits.fold(0.0, f64::max) / least.max(f64::MIN_POSITIVE)).floor();
            let most = if shape.costs.limit.is_some() { most as u32 } else { u32::MAX };
            let caps = most.min(m).min(4 * shape.placement.devices() as u32).clamp(1, MOST_CAPS);
            add(Rule::CapFirst(c), caps as usize);
            add(Rule::CapLast(c), caps as usize);
            add(Rule::Warm(c), WARMS.len());
            add(Rule::Due(c), DUE.len());
            add(Rule::Hold(c), HOLDS.len());
            for phase in 0..PHASES {
                (0..3).for_each(|kind| add(Rule::Rank(c, phase, kind), RANKS as usize));
            }
        }
        for x in 0..shape.placement.stages() {
            add(Rule::Delta(x), DELTAS.len());
            add(Rule::OwnHold(x), OWN_HOLDS.len());
        }
        genes
    }

    fn slot(self) -> Slot {
        match self {
            Rule::CapFirst(c) => slot(1, c, 0),
            Rule::CapLast(c) => slot(2, c, 0),
            Rule::Due(c) => slot(3, c, 0),
            Rule::Hold(c) => slot(4, c, 0),
            Rule::Rank(c, phase, kind) => slot(5, c, 3 * phase + kind),
            Rule::Delta(x) => slot(6, x, 0),
            Rule::OwnHold(x) => slot(7, x, 0),
            Rule::Warm(c) => slot(8, c, 0),
        }
    }

    fn weigh(self, out: &mut [f32]) {
        match self {
            // Backwards first, then forwards, weight passes into gaps, as a rule.
            Rule::Rank(_, _, kind) => {
                let centre = [3.0, 6.0, 1.0][kind];
                out.iter_mut().enumerate().for_each(|(level, w)| *w = 1.0 / (1.0 + (level as f32 - centre).powi(2)));
            }
            Rule::Delta(_) | Rule::OwnHold(_) => out[0] = 8.0,
            Rule::Due(_) => out[DUE.len() - 1] = 3.0,
            Rule::Hold(_) => out[0] = 3.0,
            Rule::Warm(_) => out[0] = 6.0,
            Rule::CapFirst(_) | Rule::CapLast(_) => {
                // Any number up to the limit, and the limit itself more often: memory then decides.
                if let Some(last) = out.last_mut() {
                    *last += 4.0;
                }
            }
        }
    }

    fn solution(workshop: &Workshop, number: usize, _: &[(Self, u32)], options: &[u32]) -> Solution {
        let shape = &workshop.case.shapes[number];
        let map = &shape.placement;
        let chunk_of = |x: usize| map.chunks(map.device(x)).position(|y| y == x).unwrap_or(0);
        let own = SHARED * shape.chunks();
        let stage = |x: usize| {
            let rules = &options[SHARED * chunk_of(x)..][..SHARED];
            let along = map.device(x) as f64 / (map.devices() - 1).max(1) as f64;
            let (first, last) = (f64::from(rules[0]), f64::from(rules[1]));
            let delta = DELTAS[options[own + 2 * x] as usize];
            let clamp = |cap: i64| cap.clamp(1, i64::from(u32::MAX)) as u32;
            let to_last = (map.devices() - map.device(x)) as f64;
            let warm = WARMS[rules[2] as usize].map(|each| (each * to_last).ceil() as i64 + delta);
            let hold = OWN_HOLDS[options[own + 2 * x + 1] as usize].unwrap_or(HOLDS[rules[4] as usize]);
            let mut rank = [[0.0f32; 3]; PHASES];
            rank.iter_mut().flatten().zip(&rules[5..]).for_each(|(rank, level)| *rank = *level as f32);
            StagePolicy {
                cap: clamp(1 + (first + (last - first) * along).round() as i64 + delta),
                warm: warm.map_or(u32::MAX, clamp),
                due: DUE[rules[3] as usize],
                hold: hold * shape.costs.stages[x].forward,
                rank,
            }
        };
        Solution::policy(number, (0..map.stages()).map(stage).collect())
    }
}
