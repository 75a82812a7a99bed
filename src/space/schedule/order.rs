//! The order itself as a decision tree: pass by pass in the order of time, the device that can start first deciding. For
//! tree searches; complete paths are explicit orders.

use super::question::Objective;
use super::solution::{Solution, Workshop};
use crate::pipeline::PipelineError;
use crate::pipeline::partial::{Choice, Partial, Yard};
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Node, Problem};
use crate::search::score::Score;

/// The tree.
#[derive(Debug)]
pub struct OrderSpace<'w> {
    workshop: &'w Workshop,
    yards: Vec<Yard>,
}

/// A prefix: the shape, what was done on it, and what may come next.
#[derive(Debug, Clone)]
pub struct Prefix {
    made: Option<(usize, Partial)>,
    device: Option<usize>,
    choices: Vec<Choice>,
}

/// What waiting is called as an allele; rows are their own.
const WAIT: Allele = Allele::MAX;

impl<'w> OrderSpace<'w> {
    /// The tree of a case.
    ///
    /// # Errors
    /// As [`Yard::new`].
    pub fn new(workshop: &'w Workshop) -> Result<Self, PipelineError> {
        let m = workshop.case.microbatches;
        let yard =
            |shape: &super::shape::Shape| Yard::new(&shape.placement, &shape.flags, &shape.costs, m, shape.backward);
        Ok(Self { yards: workshop.case.shapes.iter().map(yard).collect::<Result<_, _>>()?, workshop })
    }

    fn look(&self, s: &mut Prefix) {
        if let Some((shape, partial)) = &s.made {
            s.device = self.yards[*shape].choices(partial, &mut s.choices);
        }
    }
}

impl Problem for OrderSpace<'_> {
    type State = Prefix;
    type Solution = Solution;

    fn root(&self) -> Prefix {
        Prefix { made: None, device: None, choices: Vec::new() }
    }

    fn node(&self, s: &Prefix) -> Node {
        match (&s.made, s.device) {
            (None, _) => Node::Choose { slot: 0, options: self.yards.len() as u32 },
            (Some(_), None) => Node::Complete,
            (Some((_, partial)), Some(device)) => {
                let slot = 1 + ((device as u64) << 40 | partial.ran()[device].len() as u64);
                Node::Choose { slot, options: s.choices.len() as u32 }
            }
        }
    }

    fn allele(&self, s: &Prefix, option: u32) -> Allele {
        match (&s.made, s.choices.get(option as usize)) {
            (None, _) => u64::from(option),
            (_, Some(Choice::Run(row))) => u64::from(*row),
            _ => WAIT,
        }
    }

    fn nearest(&self, s: &Prefix, wanted: Allele) -> u32 {
        if s.made.is_none() {
            return wanted.min(self.yards.len() as u64 - 1) as u32;
        }
        (0..s.choices.len() as u32).find(|option| self.allele(s, *option) == wanted).unwrap_or(0)
    }

    fn prior(&self, s: &Prefix, out: &mut [f32]) {
        let Some((shape, partial)) = &s.made else { return out.fill(1.0) };
        let yard = &self.yards[*shape];
        for (choice, weight) in s.choices.iter().zip(out) {
            // Backwards, then forwards, weight passes into gaps; what starts at once before what is waited for.
            let rank = match choice {
                Choice::Wait => 0.05,
                Choice::Run(row) => [4.0, 8.0, 1.0][*row as usize % 3],
            };
            let late = yard.delay(partial, *choice) > 0.0;
            *weight = if late { rank * 0.15 } else { rank };
        }
    }

    fn push(&self, s: &mut Prefix, option: u32) {
        match (&mut s.made, s.device) {
            (Some((shape, partial)), Some(device)) => {
                self.yards[*shape].push(partial, device, s.choices[option as usize]);
            }
            _ => s.made = Some((option as usize, self.yards[option as usize].start())),
        }
        self.look(s);
    }

    fn pop(&self, s: &mut Prefix) {
        match &mut s.made {
            Some((shape, partial)) if partial.depth() > 0 => {
                self.yards[*shape].pop(partial);
                self.look(s);
            }
            _ => *s = self.root(),
        }
    }

    fn bound(&self, s: &Prefix) -> Bound {
        let objective = self.workshop.case.objective;
        Bound::AtLeast(match &s.made {
            None => self.workshop.case.bound(),
            Some((shape, partial)) => {
                let (makespan, span) = self.yards[*shape].bound(partial);
                let here = if objective == Objective::Makespan { makespan } else { span };
                here.max(self.workshop.case.shapes[*shape].bound(objective))
            }
        })
    }

    fn solution(&self, s: &Prefix) -> Solution {
        let (shape, partial) = s.made.as_ref().map_or((0, &[][..]), |(shape, partial)| (*shape, partial.ran()));
        Solution::order(shape, partial.to_vec())
    }

    fn key(&self, x: &Solution) -> Key128 {
        self.workshop.key(x)
    }

    fn score(&self, x: &Solution, _: Fidelity) -> Score {
        self.workshop.score(x)
    }
}
