//! Policy genomes as a decision tree: shape, then rules that all devices share, then what single stages do otherwise. Its
//! depth does not depend on the number of micro-batches.
//!
//! Shared by the stages of a chunk: how many activations the first and the last device may hold (linear in between), how
//! many of them the warm-up makes (in ZB-H1 as many as in 1F1B, though more may be held later; Qi 2023, section 2.1), how many weight passes may be due, how long to wait for the next pass, and the ranks of F, B and W by phase. Each stage
//! may then hold more or fewer activations, and wait or not.

use super::solution::{Solution, Workshop};
use crate::pipeline::decode::{PHASES, StagePolicy};
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Node, Problem, Slot};
use crate::search::score::Score;

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
enum Gene {
    Shape,
    CapFirst(usize),
    CapLast(usize),
    Warm(usize),
    Due(usize),
    Hold(usize),
    Rank(usize, usize, usize),
    Delta(usize),
    OwnHold(usize),
}

/// The tree.
#[derive(Debug)]
pub struct PolicySpace<'w> {
    workshop: &'w Workshop,
    /// By shape: the decisions after the shape, with the number of options of each.
    genes: Vec<Vec<(Gene, u32)>>,
}

impl<'w> PolicySpace<'w> {
    /// The tree of a case.
    pub fn new(workshop: &'w Workshop) -> Self {
        let genes = workshop.case.shapes.iter().map(|shape| {
            let m = workshop.case.microbatches as u32;
            let mut genes = Vec::new();
            let mut add = |gene: Gene, options: usize| genes.push((gene, options as u32));
            for c in 0..shape.chunks() {
                let limits = shape.costs.limit.iter().flatten().copied();
                let least = shape.costs.stages.iter().map(|s| s.activation).fold(f64::INFINITY, f64::min);
                let most = (limits.fold(0.0, f64::max) / least.max(f64::MIN_POSITIVE)).floor();
                let most = if shape.costs.limit.is_some() { most as u32 } else { u32::MAX };
                let caps = most.min(m).min(4 * shape.placement.devices() as u32).clamp(1, MOST_CAPS);
                add(Gene::CapFirst(c), caps as usize);
                add(Gene::CapLast(c), caps as usize);
                add(Gene::Warm(c), WARMS.len());
                add(Gene::Due(c), DUE.len());
                add(Gene::Hold(c), HOLDS.len());
                for phase in 0..PHASES {
                    (0..3).for_each(|kind| add(Gene::Rank(c, phase, kind), RANKS as usize));
                }
            }
            for x in 0..shape.placement.stages() {
                add(Gene::Delta(x), DELTAS.len());
                add(Gene::OwnHold(x), OWN_HOLDS.len());
            }
            genes
        });
        Self { genes: genes.collect(), workshop }
    }

    fn gene(&self, s: &[u32]) -> Option<(Gene, u32)> {
        match s {
            [] => Some((Gene::Shape, self.genes.len() as u32)),
            [shape, rest @ ..] => self.genes[*shape as usize].get(rest.len()).copied(),
        }
    }

    fn policy(&self, s: &[u32]) -> Vec<StagePolicy> {
        let shape = &self.workshop.case.shapes[s[0] as usize];
        let map = &shape.placement;
        let genes = &self.genes[s[0] as usize];
        let shared = 5 + 3 * PHASES;
        let chunk_of = |x: usize| map.chunks(map.device(x)).position(|y| y == x).unwrap_or(0);
        let own = 1 + shared * shape.chunks();
        debug_assert_eq!(s.len(), 1 + genes.len());
        let stage = |x: usize| {
            let rules = &s[1 + shared * chunk_of(x)..][..shared];
            let along = map.device(x) as f64 / (map.devices() - 1).max(1) as f64;
            let (first, last) = (f64::from(rules[0]), f64::from(rules[1]));
            let delta = DELTAS[s[own + 2 * x] as usize];
            let clamp = |cap: i64| cap.clamp(1, i64::from(u32::MAX)) as u32;
            let to_last = (map.devices() - map.device(x)) as f64;
            let warm = WARMS[rules[2] as usize].map(|each| (each * to_last).ceil() as i64 + delta);
            let hold = OWN_HOLDS[s[own + 2 * x + 1] as usize].unwrap_or(HOLDS[rules[4] as usize]);
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
        (0..map.stages()).map(stage).collect()
    }
}

impl Problem for PolicySpace<'_> {
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
            Gene::CapFirst(c) => word(1, c, 0),
            Gene::CapLast(c) => word(2, c, 0),
            Gene::Due(c) => word(3, c, 0),
            Gene::Hold(c) => word(4, c, 0),
            Gene::Rank(c, phase, kind) => word(5, c, 3 * phase + kind),
            Gene::Delta(x) => word(6, x, 0),
            Gene::OwnHold(x) => word(7, x, 0),
            Gene::Warm(c) => word(8, c, 0),
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
        match self.gene(s).map(|(gene, _)| gene) {
            // Backwards first, then forwards, weight passes into gaps, as a rule.
            Some(Gene::Rank(_, _, kind)) => {
                let centre = [3.0, 6.0, 1.0][kind];
                out.iter_mut().enumerate().for_each(|(level, w)| *w = 1.0 / (1.0 + (level as f32 - centre).powi(2)));
            }
            Some(Gene::Delta(_) | Gene::OwnHold(_)) => out[0] = 8.0,
            Some(Gene::Due(_)) => out[DUE.len() - 1] = 3.0,
            Some(Gene::Hold(_)) => out[0] = 3.0,
            Some(Gene::Warm(_)) => out[0] = 6.0,
            Some(Gene::CapFirst(_) | Gene::CapLast(_)) => {
                // Any number up to the limit, and the limit itself more often: memory then decides.
                if let Some(last) = out.last_mut() {
                    *last += 4.0;
                }
            }
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
        Solution::policy(s[0] as usize, self.policy(s))
    }

    fn key(&self, x: &Solution) -> Key128 {
        self.workshop.key(x)
    }

    fn score(&self, x: &Solution, _: Fidelity) -> Score {
        self.workshop.score(x)
    }

    fn space_log10(&self) -> Option<f64> {
        let of = |genes: &Vec<(Gene, u32)>| genes.iter().map(|(_, options)| f64::from(*options).log10()).sum::<f64>();
        let sizes: Vec<f64> = self.genes.iter().map(of).collect();
        let most = sizes.iter().copied().fold(0.0, f64::max);
        Some(most + sizes.iter().map(|size| 10f64.powf(size - most)).sum::<f64>().log10())
    }
}
