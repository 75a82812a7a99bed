//! Plan and schedule as one decision tree: stages, micro-batches and chunks, cuts and strategies, then the map from chunks to
//! ranks, whether gradients are apart, and the policy by which passes are ordered.
//!
//! Nothing of it is additive: which strategies fit depends on how many activations the order holds, and what the order costs
//! depends on how the strategies load the stages. A leaf is priced by simulating its passes ([`Workshop`]); its peak memory
//! is that of the simulation. The decisions about the plan are those of [`LayerwiseSpace`], those about the order those of
//! [`GenomeSpace`]. Times in seconds, memory in bytes.

use super::fast::Choice;
use super::layerwise::LayerwiseSpace;
use super::schedule::genome::GenomeSpace;
use super::schedule::policy::Rule;
use super::schedule::question::{MOST_PASSES, Objective};
use super::schedule::shape::{Case, Shape};
use super::schedule::solution::Workshop;
use super::tree::Prefix;
use crate::estimate::Estimator;
use crate::estimate::chunks::ChunkCost;
use crate::estimate::scheduled::costs;
use crate::pipeline::bounds::Backward;
use crate::pipeline::{Costs, Placement, Run, Schedule, simulate};
use crate::plan::Plan;
use crate::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use crate::search::score::Score;
use dashmap::DashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Plans whose workshops are kept: some ten kilobytes each.
const KEPT: usize = 2_048;
/// Slots of decisions about the order start here, beyond all those of plans.
const ORDER: u64 = 1 << 60;
/// Sums of bounds and of simulated passes round differently.
const ROUNDING: f64 = 1e-9;

/// All plans of a question with all their schedules.
pub struct JointSpace<'a> {
    space: LayerwiseSpace<'a>,
    /// Share by which input and weight gradients apart take longer than both in one.
    split_penalty: f64,
    workshops: DashMap<u128, Option<Arc<Floor>>, foldhash::fast::FixedState>,
}

/// A plan on a map, ready to have its passes ordered.
struct Floor {
    policies: GenomeSpace<Workshop, Rule>,
    chunks: Vec<ChunkCost>,
    bound: f64,
}

/// Decisions so far.
#[derive(Clone)]
pub struct JointPrefix {
    plan: Prefix,
    form: Vec<u32>,
    /// As [`GenomeSpace`] takes it.
    policy: Vec<u32>,
    floor: Option<Arc<Floor>>,
}

/// A plan with a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointChoice {
    /// The plan.
    pub choice: Choice,
    /// Which map, and whether gradients are apart.
    form: [u32; 2],
    /// Options of the policy's decisions.
    policy: Box<[u32]>,
}

/// What is decided of the form.
const MAP: usize = 0;
const GRADIENTS: usize = 1;
const BACKWARDS: [Backward; 2] = [Backward::Split, Backward::Fused];

impl<'a> JointSpace<'a> {
    /// The plans of `space`, whatever order their passes run in.
    pub fn new(space: LayerwiseSpace<'a>, split_penalty: f64) -> Self {
        Self { space: space.with_free_order(), split_penalty, workshops: DashMap::default() }
    }

    /// Prices plans.
    pub fn estimator(&self) -> &Estimator<'a> {
        &self.space.estimator
    }

    /// The plan of a choice.
    pub fn plan_of(&self, x: &JointChoice) -> Plan {
        self.space.plan_of(&x.choice)
    }

    /// The order of a choice; `None` where memory has no room for any.
    pub fn schedule_of(&self, x: &JointChoice) -> Option<Schedule> {
        self.ordered(x).map(|(_, schedule)| schedule)
    }

    fn maps(&self, plan: &Prefix) -> u32 {
        // Two chunks of a rank may also stand in a V.
        if plan.task().is_some_and(|task| self.space.tasks[task].chunks == 2) { 2 } else { 1 }
    }

    fn costs_of(&self, choice: &Choice, form: [u32; 2]) -> Option<(Placement, Vec<ChunkCost>, Costs)> {
        let key = &self.space.tasks[choice.task as usize];
        let (p, v) = (key.pipeline as usize, key.chunks as usize);
        if p * v * key.micro_batches as usize > MOST_PASSES / 3 {
            return None;
        }
        let map = if form[MAP] == 1 { Placement::vee(p) } else { Placement::looped(p, v) };
        let estimator = &self.space.estimator;
        let chunks = estimator.chunk_costs(&self.space.plan_of(choice), map.device_of()).ok()?;
        let slower = if BACKWARDS[form[GRADIENTS] as usize] == Backward::Split { self.split_penalty } else { 0.0 };
        let costs = costs(&map, &chunks, estimator.allocatable(), slower);
        Some((map, chunks, costs))
    }

    /// `None` where memory has no room for any order.
    fn floor(&self, choice: &Choice, form: [u32; 2]) -> Option<Arc<Floor>> {
        let key = self.space.key(choice).0 ^ (u128::from(form[MAP]) << 1 | u128::from(form[GRADIENTS]));
        if let Some(known) = self.workshops.get(&key) {
            return known.clone();
        }
        let made = self.costs_of(choice, form).and_then(|(map, chunks, costs)| {
            let microbatches = self.space.tasks[choice.task as usize].micro_batches as usize;
            let shape = Shape::new(map, costs, BACKWARDS[form[GRADIENTS] as usize], microbatches);
            let least = shape.bounds.makespan.time;
            let bound = self.space.estimator.iteration_at_least(&shape.placement, &chunks, least) * (1.0 - ROUNDING);
            let case = Case { shapes: vec![shape], microbatches, objective: Objective::Makespan };
            Some(Arc::new(Floor { policies: GenomeSpace::new(Workshop::new(case).ok()?), chunks, bound }))
        });
        if self.workshops.len() >= KEPT {
            self.workshops.clear();
        }
        self.workshops.insert(key, made.clone());
        made
    }

    /// By how much the leanest order of a plan exceeds memory, as a share.
    fn excess(&self, choice: &Choice, form: [u32; 2]) -> f64 {
        let Some((map, chunks, costs)) = self.costs_of(choice, form) else { return f64::MAX };
        let need = |d: usize| costs.resident[d] + map.chunks(d).map(|x| chunks[x].activation_bytes).sum::<f64>();
        let most = (0..map.devices()).map(need).fold(0.0, f64::max);
        (most / self.space.estimator.allocatable() - 1.0).max(f64::MIN_POSITIVE)
    }

    fn ordered(&self, x: &JointChoice) -> Option<(Arc<Floor>, Schedule)> {
        let floor = self.floor(&x.choice, x.form)?;
        let path = x.policy.to_vec();
        if floor.policies.node(&path) != Node::Complete {
            return None;
        }
        let schedule = floor.policies.workshop().schedule(&floor.policies.solution(&path), "");
        Some((floor, schedule))
    }

    /// Runs the passes of a choice without a limit, and the iteration time that follows.
    fn simulated(&self, x: &JointChoice) -> Option<(Run, f64)> {
        let (floor, schedule) = self.ordered(x)?;
        let free = Costs { limit: None, ..floor.policies.workshop().case.shapes[0].costs.clone() };
        let run = simulate(&schedule, &free).ok()?;
        let time = self.space.estimator.iteration_after(&schedule.placement, &floor.chunks, &run);
        Some((run, time))
    }

    /// The slot of a decision of the policy, apart from those of plans.
    fn policy_node(floor: &Floor, policy: &Vec<u32>) -> Node {
        match floor.policies.node(policy) {
            Node::Choose { slot, options } => Node::Choose { slot: ORDER | slot, options },
            other => other,
        }
    }
}

/// What is decided next.
enum Next<'s> {
    Plan,
    Form,
    Policy(&'s Arc<Floor>),
    Nothing,
}

impl JointPrefix {
    fn form(&self) -> [u32; 2] {
        [MAP, GRADIENTS].map(|i| self.form.get(i).copied().unwrap_or(0))
    }
}

impl JointSpace<'_> {
    fn next<'s>(&self, s: &'s JointPrefix) -> Next<'s> {
        if s.form.is_empty() && self.space.node(&s.plan) != Node::Complete {
            return Next::Plan;
        }
        match &s.floor {
            _ if s.form.len() <= GRADIENTS => Next::Form,
            Some(floor) => Next::Policy(floor),
            None => Next::Nothing,
        }
    }
}

impl Problem for JointSpace<'_> {
    type State = JointPrefix;
    type Solution = JointChoice;

    fn root(&self) -> JointPrefix {
        JointPrefix { plan: self.space.root(), form: Vec::new(), policy: Vec::new(), floor: None }
    }

    fn node(&self, s: &JointPrefix) -> Node {
        match self.next(s) {
            Next::Plan => self.space.node(&s.plan),
            Next::Form if s.form.is_empty() => Node::Choose { slot: ORDER - 2, options: self.maps(&s.plan) },
            Next::Form => Node::Choose { slot: ORDER - 1, options: BACKWARDS.len() as u32 },
            Next::Policy(floor) => Self::policy_node(floor, &s.policy),
            Next::Nothing => Node::DeadEnd(self.excess(&self.space.solution(&s.plan), s.form())),
        }
    }

    fn allele(&self, s: &JointPrefix, option: u32) -> Allele {
        match self.next(s) {
            Next::Plan => self.space.allele(&s.plan, option),
            Next::Policy(floor) => floor.policies.allele(&s.policy, option),
            _ => u64::from(option),
        }
    }

    fn nearest(&self, s: &JointPrefix, wanted: Allele) -> u32 {
        match (self.next(s), self.node(s)) {
            (Next::Plan, _) => self.space.nearest(&s.plan, wanted),
            (Next::Policy(floor), _) => floor.policies.nearest(&s.policy, wanted),
            (_, Node::Choose { options, .. }) => wanted.min(u64::from(options) - 1) as u32,
            _ => 0,
        }
    }

    fn prior(&self, s: &JointPrefix, out: &mut [f32]) {
        match self.next(s) {
            Next::Plan => self.space.prior(&s.plan, out),
            Next::Policy(floor) => floor.policies.prior(&s.policy, out),
            _ => out.fill(1.0),
        }
    }

    fn push(&self, s: &mut JointPrefix, option: u32) {
        match self.next(s) {
            Next::Plan => self.space.push(&mut s.plan, option),
            Next::Form => {
                s.form.push(option);
                if s.form.len() > GRADIENTS {
                    s.floor = self.floor(&self.space.solution(&s.plan), s.form());
                    // There is one shape to choose.
                    s.policy.push(0);
                }
            }
            Next::Policy(_) => s.policy.push(option),
            Next::Nothing => {}
        }
    }

    fn pop(&self, s: &mut JointPrefix) {
        if s.policy.len() > 1 {
            s.policy.pop();
        } else if s.form.pop().is_some() {
            s.policy.clear();
            s.floor = None;
        } else {
            self.space.pop(&mut s.plan);
        }
    }

    fn bound(&self, s: &JointPrefix) -> Bound {
        match &s.floor {
            Some(floor) => Bound::AtLeast(floor.bound),
            None if s.form.len() > GRADIENTS => Bound::Infeasible,
            None => self.space.bound(&s.plan),
        }
    }

    fn solution(&self, s: &JointPrefix) -> JointChoice {
        JointChoice { choice: self.space.solution(&s.plan), form: s.form(), policy: s.policy.clone().into() }
    }

    fn key(&self, x: &JointChoice) -> Key128 {
        let mut bytes = self.space.key(&x.choice).0.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.split_penalty.to_bits().to_le_bytes());
        x.form.iter().chain(&x.policy).for_each(|option| bytes.extend_from_slice(&option.to_le_bytes()));
        Key128(xxh3_128(&bytes))
    }

    fn niche(&self, x: &JointChoice) -> u64 {
        self.space.niche(&x.choice)
    }

    fn score(&self, x: &JointChoice, _: Fidelity) -> Score {
        let Some((run, time)) = self.simulated(x) else { return Score::Failed };
        let limit = self.space.estimator.allocatable();
        let excess: f64 = run.peaks.iter().map(|peak| (peak.value / limit - 1.0).max(0.0)).sum();
        if excess > ROUNDING { Score::infeasible(excess) } else { Score::feasible(time) }
    }

    /// As of layer-wise plans: peak memory in bytes, and dollars per billion tokens where the devices have a price.
    fn measures(&self, x: &JointChoice) -> Vec<f64> {
        let plan = self.plan_of(x);
        let estimate = self
            .schedule_of(x)
            .and_then(|schedule| self.space.estimator.estimate_under(&plan, &schedule, self.split_penalty).ok());
        self.space.measured(estimate.as_ref())
    }

    fn moves(&self) -> Option<&dyn Moves<Solution = JointChoice>> {
        Some(self)
    }
}

impl Moves for JointSpace<'_> {
    type Solution = JointChoice;

    /// Those of layer-wise plans that keep the number of chunks; the schedule stays.
    fn kinds(&self) -> u32 {
        self.space.kinds()
    }

    fn neighbour(&self, x: &JointChoice, kind: u32, random: &mut dyn FnMut() -> u64) -> Option<JointChoice> {
        let choice = self.space.neighbour(&x.choice, kind, random)?;
        // Policies have decisions per chunk.
        let chunks = |choice: &Choice| self.space.tasks[choice.task as usize].chunks;
        (chunks(&choice) == chunks(&x.choice)).then(|| JointChoice { choice, ..x.clone() })
    }

    fn alleles(&self, x: &JointChoice) -> Vec<Allele> {
        let order = x.form.iter().chain(x.policy.iter().skip(1)).map(|option| u64::from(*option));
        self.space.alleles(&x.choice).into_iter().chain(order).collect()
    }
}
