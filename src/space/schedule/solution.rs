//! What all trees over schedules lead to, and its price: an order of passes on one of the shapes, whichever way it was
//! found.

use super::question::Objective;
use super::shape::Case;
use super::walk::{Walk, walk};
use crate::pipeline::block::{Block, Unroller};
use crate::pipeline::decode::{Decoded, Decoder, StagePolicy};
use crate::pipeline::evaluate::{Evaluator, Worth};
use crate::pipeline::{PipelineError, Schedule};
use crate::search::problem::Key128;
use crate::search::score::Score;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Orders of rows by device, as [`Evaluator`] reads them.
pub type Orders = Vec<Vec<u32>>;

/// How the order is found.
#[derive(Debug, Clone)]
enum Origin {
    /// It is given.
    Order(Arc<Orders>),
    /// A list scheduler follows a policy.
    Policy(Vec<StagePolicy>),
    /// A building block is unrolled.
    Block(Block),
    /// A walk starts from an order.
    Walk(Arc<Orders>, Walk),
}

/// A schedule as a search holds it.
#[derive(Debug, Clone)]
pub struct Solution {
    shape: usize,
    origin: Arc<Origin>,
    key: u128,
    /// Where a walk ended: too dear to be found twice.
    made: Arc<OnceLock<Arc<Orders>>>,
}

impl Solution {
    fn new(shape: usize, origin: Origin, key: u128) -> Self {
        Self { shape, origin: Arc::new(origin), key, made: Arc::default() }
    }

    /// A given order.
    pub fn order(shape: usize, orders: Orders) -> Self {
        let key = key_of(shape, &orders);
        Self::new(shape, Origin::Order(Arc::new(orders)), key)
    }

    /// What the list scheduler makes of a policy.
    pub fn policy(shape: usize, policy: Vec<StagePolicy>) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&[1]);
        hash.update(&(shape as u64).to_le_bytes());
        // By name, so that a new rule cannot be forgotten.
        for StagePolicy { cap, warm, due, hold, rank } in &policy {
            [cap, warm, due].into_iter().for_each(|number| hash.update(&number.to_le_bytes()));
            hash.update(&hold.to_bits().to_le_bytes());
            rank.iter().flatten().for_each(|rank| hash.update(&rank.to_bits().to_le_bytes()));
        }
        Self::new(shape, Origin::Policy(policy), hash.digest128())
    }

    /// What a building block unrolls to.
    pub fn block(shape: usize, block: Block) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&[2]);
        hash.update(&(shape as u64).to_le_bytes());
        let Block { burst, period, waits, hold, due } = &block;
        [period, hold].into_iter().chain(waits).for_each(|time| hash.update(&time.to_bits().to_le_bytes()));
        [burst, due].into_iter().for_each(|number| hash.update(&number.to_le_bytes()));
        let key = hash.digest128();
        Self::new(shape, Origin::Block(block), key)
    }

    /// Which shape of the case.
    pub fn shape(&self) -> usize {
        self.shape
    }
}

fn key_of(shape: usize, orders: &Orders) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&[0]);
    hash.update(&(shape as u64).to_le_bytes());
    for order in orders {
        hash.update(&(order.len() as u64).to_le_bytes());
        order.iter().for_each(|row| hash.update(&row.to_le_bytes()));
    }
    hash.digest128()
}

/// Tools for one shape, lent to whoever prices.
#[derive(Debug)]
struct Tools {
    decoder: Decoder,
    evaluator: Evaluator,
    /// `None` for maps that blocks do not know.
    unroller: Option<Unroller>,
    idle_decoders: Mutex<Vec<Decoder>>,
    idle_evaluators: Mutex<Vec<Evaluator>>,
    idle_unrollers: Mutex<Vec<Unroller>>,
}

/// A case with what it takes to price schedules of it.
#[derive(Debug)]
pub struct Workshop {
    /// The case; shapes that no schedule fits are left out.
    pub case: Case,
    tools: Vec<Tools>,
    /// Identity of case and cost model.
    identity: u128,
}

fn lent<T: Clone, R>(idle: &Mutex<Vec<T>>, original: &T, work: impl FnOnce(&mut T) -> R) -> R {
    let mut tool = idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_else(|| original.clone());
    let result = work(&mut tool);
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(tool);
    result
}

impl Workshop {
    /// Prepares a case.
    ///
    /// # Errors
    /// Why no shape admits a schedule: the last one's reason.
    pub fn new(case: Case) -> Result<Self, PipelineError> {
        let (mut shapes, mut tools, mut refused) = (Vec::new(), Vec::new(), None);
        for shape in case.shapes {
            let (map, flags, costs, m) = (&shape.placement, &shape.flags, &shape.costs, case.microbatches);
            let made = Decoder::new(map, flags, costs, m, shape.backward)
                .and_then(|decoder| Ok((decoder, Evaluator::new(map, flags, costs, m, shape.backward)?)));
            match made {
                Ok((decoder, evaluator)) => {
                    tools.push(Tools {
                        decoder,
                        evaluator,
                        unroller: Unroller::new(map, flags, costs, m, shape.backward).ok(),
                        idle_decoders: Mutex::default(),
                        idle_evaluators: Mutex::default(),
                        idle_unrollers: Mutex::default(),
                    });
                    shapes.push(shape);
                }
                Err(why) => refused = Some(why),
            }
        }
        if shapes.is_empty() {
            let why = PipelineError::Placement { why: "there is none to try".to_owned() };
            return Err(refused.unwrap_or(why));
        }
        let case = Case { shapes, ..case };
        let identity = xxh3_128(format!("schedule/1 {case:?}").as_bytes());
        Ok(Self { case, tools, identity })
    }

    /// A known schedule as a solution; `None` when it is none of this shape.
    pub fn solution_of(&self, shape: usize, schedule: &Schedule) -> Option<Solution> {
        let schedule = super::known::as_shape(schedule, self.case.shapes[shape].backward)?;
        Some(Solution::order(shape, self.tools[shape].evaluator.order_of(&schedule)?))
    }

    /// A walk from where `x` is.
    pub fn walk_from(&self, x: &Solution, walk: Walk) -> Solution {
        let start = self.orders(x);
        let key = xxh3_128(format!("{} {} {}", key_of(x.shape, &start), walk.seed, walk.steps).as_bytes());
        Solution::new(x.shape, Origin::Walk(start, walk), key)
    }

    /// The order of a solution.
    pub fn orders(&self, x: &Solution) -> Arc<Orders> {
        if let Some(made) = x.made.get() {
            return made.clone();
        }
        let tools = &self.tools[x.shape];
        match &*x.origin {
            Origin::Order(orders) => orders.clone(),
            Origin::Policy(_) | Origin::Block(_) => {
                let schedule = lent(&tools.idle_decoders, &tools.decoder, |decoder| {
                    self.decode(x, decoder).map(|_| decoder.schedule(""))
                });
                let orders = schedule.and_then(|schedule| tools.evaluator.order_of(&schedule));
                Arc::new(orders.unwrap_or_default())
            }
            Origin::Walk(start, how) => {
                let objective = self.case.objective;
                let end = lent(&tools.idle_evaluators, &tools.evaluator, |tool| walk(tool, start, objective, *how));
                x.made.get_or_init(|| Arc::new(end)).clone()
            }
        }
    }

    /// What the list scheduler makes of a policy or a block; `None` where it gets stuck.
    fn decode(&self, x: &Solution, decoder: &mut Decoder) -> Option<Decoded> {
        let tools = &self.tools[x.shape];
        match &*x.origin {
            Origin::Policy(policy) => decoder.decode(policy).ok(),
            Origin::Block(block) => {
                let unroll = |original| lent(&tools.idle_unrollers, original, |unroller| unroller.unroll(block));
                decoder.follow(tools.unroller.as_ref().map(unroll)?).ok()
            }
            Origin::Order(_) | Origin::Walk(..) => None,
        }
    }

    /// The solution as a schedule.
    pub fn schedule(&self, x: &Solution, name: &str) -> Schedule {
        self.tools[x.shape].evaluator.schedule_of(name, &self.orders(x))
    }

    /// Its identity.
    pub fn key(&self, x: &Solution) -> Key128 {
        Key128(x.key ^ self.identity)
    }

    /// Its price.
    pub fn score(&self, x: &Solution) -> Score {
        let tools = &self.tools[x.shape];
        let of = |makespan: f64, span: f64| match self.case.objective {
            Objective::Makespan => Score::feasible(makespan),
            Objective::Span => Score::feasible(span),
        };
        if let Origin::Policy(_) | Origin::Block(_) = &*x.origin {
            let decoded = lent(&tools.idle_decoders, &tools.decoder, |decoder| self.decode(x, decoder));
            return decoded.map_or(Score::Failed, |times| of(times.makespan, times.span));
        }
        let orders = self.orders(x);
        match lent(&tools.idle_evaluators, &tools.evaluator, |evaluator| evaluator.evaluate(&orders)) {
            Worth::Runs(times) => of(times.makespan, times.span),
            Worth::Exceeds(by) => Score::infeasible(by),
            Worth::Stuck(_) => Score::Failed,
        }
    }
}
