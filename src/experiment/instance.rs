//! An instance of a race: where it comes from, and the problem it is.

use super::disguise::{Disguise, Disguised};
use super::limits::{self, within};
use super::reference_value::Reference;
use super::tabular;
use crate::cost::CostOptions;
use crate::cost::galvatron::Repairs;
use crate::error::{InputError, Kind};
use crate::question::Question;
use crate::search::erased::Erased;
use crate::search::problem::{Node, Problem};
use crate::search::problems::{ChainShape, JobShop, Knapsack, LayerChain, Measured, NAMED_JOB_SHOPS, Salesman};
use crate::search::walk::{Decision, PriorSampler, Walk};
use crate::space::galvatron::{GalvatronSpace, Partition};
use crate::space::joint_tree::JointSpace;
use crate::space::planner::Inputs;
use crate::space::schedule::ScheduleQuestion;
use crate::space::schedule::order::OrderSpace;
use crate::space::schedule::policy::PolicySpace;
use crate::space::schedule::solution::Workshop;
use crate::{import, reference};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// An instance as a suite names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSpec {
    /// What it is called; unique in its suite.
    pub id: String,
    /// Where it comes from.
    pub source: Source,
    /// What is disguised: for experiments on what backends owe to labels and priors.
    #[serde(default)]
    pub disguise: Option<Disguise>,
    /// What its objective is compared with; found out by exact search if absent.
    #[serde(default)]
    pub reference: Option<Reference>,
}

/// Where an instance comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Source {
    /// A synthetic chain of layers, cut into segments.
    Chain {
        /// Items.
        items: usize,
        /// Options per item.
        options: usize,
        /// Segments.
        #[serde(default = "one")]
        segments: usize,
        /// Micro-batches.
        #[serde(default = "one")]
        rounds: usize,
        /// Memory: 0 fits the leanest only, 1 fits everything.
        tightness: f64,
        /// What its numbers follow from.
        seed: u64,
    },
    /// A random knapsack of several dimensions.
    Knapsack {
        /// Items.
        items: usize,
        /// Capacities.
        dimensions: usize,
        /// What its numbers follow from.
        seed: u64,
    },
    /// A random travelling salesman in the unit square.
    Salesman {
        /// Cities.
        cities: usize,
        /// What its numbers follow from.
        seed: u64,
    },
    /// Cities on a circle, whose shortest round trip is known.
    Circle {
        /// Cities.
        cities: usize,
        /// What their places follow from.
        seed: u64,
    },
    /// A random job shop.
    JobShop {
        /// Jobs.
        jobs: usize,
        /// Machines.
        machines: usize,
        /// What its numbers follow from.
        seed: u64,
    },
    /// A classical job shop.
    NamedJobShop(String),
    /// A case folder of Galvatron's: its first letters, below `galvatron/` of the reference data; or a path from the suite.
    Galvatron(String),
    /// A question file of layer-wise planning, from the suite.
    Layerwise(String),
    /// A question file, from the suite, whose plan and schedule are decided in one tree.
    Joint(String),
    /// Published runs: rows of `measured/runs.csv` of the reference data.
    Runs {
        /// What must stand in which column.
        only: BTreeMap<String, String>,
        /// Columns that are decided, in order.
        decisions: Vec<String>,
    },
    /// A question of pipeline schedules.
    Schedule {
        /// Which tree is searched.
        #[serde(default)]
        tree: ScheduleTree,
        /// The question.
        question: ScheduleQuestion,
    },
}

/// Two trees with one kind of solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleTree {
    /// Genomes of policies.
    #[default]
    Policy,
    /// The order itself.
    Order,
}

fn one() -> usize {
    1
}

/// An instance ready to be searched.
pub enum Instance {
    /// A chain.
    Chain(Box<LayerChain>),
    /// A knapsack.
    Knapsack(Box<Knapsack>),
    /// A round trip.
    Salesman(Box<Salesman>),
    /// A job shop.
    JobShop(Box<JobShop>),
    /// A case of Galvatron's.
    Galvatron(Box<GalvatronSpace>),
    /// A layer-wise question.
    Layerwise(Box<Inputs>),
    /// A question whose plan and schedule are decided together.
    Joint(Box<Inputs>),
    /// A table of runs.
    Measured(Box<Measured>),
    /// A schedule question.
    Schedule(ScheduleTree, Box<Workshop>),
    /// Another one under another face.
    Disguised(Disguise, Box<Instance>),
}

impl InstanceSpec {
    /// Refuses sizes that make no sense.
    pub fn validate(&self) -> Result<(), InputError> {
        match &self.source {
            Source::Chain { items, options, segments, rounds, tightness, .. } => {
                within("source.items", *items, 1..=limits::ITEMS)?;
                within("source.options", *options, 1..=limits::OPTIONS)?;
                within("source.rounds", *rounds, 1..=limits::ROUNDS)?;
                within("source.segments", *segments, 1..=limits::SEGMENTS.min(*items))?;
                within("source.tightness", *tightness, 0.0..=1.0)?;
            }
            Source::Knapsack { items, dimensions, .. } => {
                within("source.items", *items, 1..=limits::KNAPSACK_ITEMS)?;
                within("source.dimensions", *dimensions, 1..=limits::DIMENSIONS)?;
            }
            Source::Salesman { cities, .. } | Source::Circle { cities, .. } => {
                within("source.cities", *cities, 3..=limits::CITIES)?;
            }
            Source::JobShop { jobs, machines, .. } => {
                within("source.jobs", *jobs, 1..=limits::JOBS)?;
                within("source.machines", *machines, 1..=limits::JOBS.min(limits::OPERATIONS / jobs))?;
            }
            Source::Runs { decisions, .. } if !(1..=limits::DECISIONS).contains(&decisions.len()) => {
                let error = InputError::new(Kind::InvalidValue).at("source.decisions");
                let error = error.found(format!("{} of them", decisions.len()));
                return Err(error.expected(format!("1 to {} columns", limits::DECISIONS)));
            }
            Source::NamedJobShop(name) if JobShop::named(name).is_none() => {
                return Err(InputError::unknown_name(name, "a job shop", NAMED_JOB_SHOPS.map(|(name, _)| name)));
            }
            Source::Schedule { question, .. } => question.check().map_err(|e| e.inside("source.question"))?,
            _ => {}
        }
        if let Some(reference) = &self.reference {
            reference.validate().map_err(|e| e.inside("reference"))?;
        }
        Ok(())
    }

    /// What kind of problem it is.
    pub fn family(&self) -> &'static str {
        match &self.source {
            Source::Chain { segments: 1, .. } => "additive chain",
            Source::Chain { .. } => "coupled chain",
            Source::Knapsack { .. } => "knapsack",
            Source::Salesman { .. } | Source::Circle { .. } => "salesman",
            Source::JobShop { .. } | Source::NamedJobShop(_) => "job shop",
            Source::Galvatron(_) => "galvatron",
            Source::Layerwise(_) => "layer-wise",
            Source::Joint(_) => "plan and schedule",
            Source::Runs { .. } => "published runs",
            Source::Schedule { tree: ScheduleTree::Policy, .. } => "schedule policies",
            Source::Schedule { tree: ScheduleTree::Order, .. } => "schedule orders",
        }
    }

    /// Makes it; `None` where it is reference data that is not there. Paths start from `folder`.
    pub fn make(&self, folder: &Path) -> Result<Option<Instance>, InputError> {
        let named = |e: InputError| e.inside(format!("instance `{}`", self.id));
        let made = self.open(folder).map_err(named)?;
        Ok(made.map(|instance| match self.disguise {
            Some(disguise) => Instance::Disguised(disguise, Box::new(instance)),
            None => instance,
        }))
    }

    fn open(&self, folder: &Path) -> Result<Option<Instance>, InputError> {
        Ok(Some(match &self.source {
            Source::Chain { items, options, segments, rounds, tightness, seed } => {
                let shape = ChainShape {
                    items: *items,
                    options: *options,
                    segments: *segments,
                    rounds: *rounds,
                    tightness: *tightness,
                };
                Instance::Chain(Box::new(LayerChain::random(shape, *seed)))
            }
            Source::Knapsack { items, dimensions, seed } => {
                Instance::Knapsack(Box::new(Knapsack::random(*items, *dimensions, *seed)))
            }
            Source::Salesman { cities, seed } => Instance::Salesman(Box::new(Salesman::random(*cities, *seed))),
            Source::Circle { cities, seed } => Instance::Salesman(Box::new(Salesman::on_circle(*cities, *seed).0)),
            Source::Runs { only, decisions } => {
                let Some(path) = reference::path("measured/runs.csv") else { return Ok(None) };
                Instance::Measured(Box::new(tabular::read(&path, only, decisions)?))
            }
            Source::JobShop { jobs, machines, seed } => {
                Instance::JobShop(Box::new(JobShop::random(*jobs, *machines, *seed)))
            }
            Source::NamedJobShop(name) => match JobShop::named(name) {
                Some(shop) => Instance::JobShop(Box::new(shop)),
                None => {
                    return Err(InputError::unknown_name(name, "a job shop", NAMED_JOB_SHOPS.map(|(name, _)| name)));
                }
            },
            Source::Galvatron(case) => {
                let Some(path) = galvatron(case, folder)? else { return Ok(None) };
                let model = import::galvatron::read(&path, &[], Repairs::NONE)?;
                let space = GalvatronSpace::new(model, Partition::Even).map_err(InputError::from)?;
                Instance::Galvatron(Box::new(space))
            }
            Source::Layerwise(path) => Instance::Layerwise(asked(&folder.join(path))?),
            Source::Joint(path) => Instance::Joint(asked(&folder.join(path))?),
            Source::Schedule { tree, question } => {
                let refused = |e: crate::pipeline::PipelineError| InputError::new(Kind::Unsupported).help(e);
                let workshop = Workshop::new(question.case()?).map_err(refused)?;
                if *tree == ScheduleTree::Order {
                    OrderSpace::new(&workshop).map_err(refused)?;
                }
                Instance::Schedule(*tree, Box::new(workshop))
            }
        }))
    }
}

/// A question of layer-wise planning.
fn asked(path: &Path) -> Result<Box<Inputs>, InputError> {
    let question = Question::load(path)?;
    let (model, cluster) = question.resolve()?;
    let (job, search) = (question.job.clone(), question.search.clone());
    Ok(Box::new(Inputs { model, cluster, job, search, cost: CostOptions::default() }))
}

/// The folder of a case; `None` (said on standard error) where there is no reference data.
fn galvatron(case: &str, folder: &Path) -> Result<Option<PathBuf>, InputError> {
    let own = folder.join(case);
    if own.is_dir() {
        return Ok(Some(own));
    }
    let Some(root) = reference::path("galvatron") else { return Ok(None) };
    let unreadable = |e: std::io::Error| InputError::new(Kind::Unreadable).in_file(root.display()).help(e);
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .map_err(unreadable)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| root.join(name).join("case.json").is_file())
        .collect();
    names.sort_unstable();
    match names.iter().find(|name| *name == case || name.split('_').next() == Some(case)) {
        Some(name) => Ok(Some(root.join(name))),
        None => Err(InputError::unknown_name(case, "a case", names.iter().map(String::as_str)).at("source")),
    }
}

impl Instance {
    /// Hands the problem to `work`.
    pub fn with<T>(&self, work: impl FnOnce(&Erased<'_>) -> T) -> Result<T, InputError> {
        let refused = |e: crate::pipeline::PipelineError| InputError::new(Kind::Unsupported).help(e);
        Ok(match self {
            Instance::Chain(problem) => work(&Erased::new(&**problem)),
            Instance::Knapsack(problem) => work(&Erased::new(&**problem)),
            Instance::Salesman(problem) => work(&Erased::new(&**problem)),
            Instance::JobShop(problem) => work(&Erased::new(&**problem)),
            Instance::Galvatron(problem) => work(&Erased::new(&**problem)),
            Instance::Layerwise(inputs) => inputs.with_space(|space| work(&Erased::new(&space)))?,
            Instance::Joint(inputs) => {
                inputs.with_space(|space| work(&Erased::new(&JointSpace::new(space, inputs.search.split_penalty))))?
            }
            Instance::Measured(problem) => work(&Erased::new(&**problem)),
            Instance::Disguised(what, inner) => return inner.disguised(*what, work),
            Instance::Schedule(ScheduleTree::Policy, workshop) => work(&Erased::new(&PolicySpace::new(workshop))),
            Instance::Schedule(ScheduleTree::Order, workshop) => {
                work(&Erased::new(&OrderSpace::new(workshop).map_err(refused)?))
            }
        })
    }
}

impl Instance {
    fn disguised<T>(&self, what: Disguise, work: impl FnOnce(&Erased<'_>) -> T) -> Result<T, InputError> {
        // Boxed: a closure over a closure over itself would be compiled without end.
        let mut work = Some(work);
        let mut out = None;
        let mut inner: Box<dyn FnMut(&Erased<'_>) + '_> = Box::new(|problem| {
            if let Some(work) = work.take() {
                out = Some(work(&Erased::new(&Disguised::new(problem, what, SALT))));
            }
        });
        self.with(&mut *inner)?;
        drop(inner);
        out.ok_or_else(|| InputError::new(Kind::Unsupported))
    }
}

/// Every disguise of an instance is the same.
const SALT: u64 = 1;

/// What is told of a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Identity {
    /// Equal for problems that are the same.
    pub digest: u128,
    /// Decisions of the path that the prior likes best.
    pub depth: usize,
    /// Decimal logarithm of the number of paths, if known.
    pub size_log10: Option<f64>,
}

impl Identity {
    /// Of a problem.
    pub fn of(problem: &Erased<'_>) -> Self {
        let mut words = format!("{:?} {:?}", problem.bound(&problem.root()), problem.space_log10()).into_bytes();
        let mut walk = Walk::new(problem);
        let mut priors = PriorSampler::default();
        let end = walk.complete(None, |decision: Decision<'_, Erased<'_>>| {
            words.extend_from_slice(&decision.slot.to_le_bytes());
            words.extend_from_slice(&decision.options.to_le_bytes());
            priors.best(&decision)
        });
        words.extend_from_slice(format!("{end:?}").as_bytes());
        if walk.node() == Node::Complete {
            words.extend_from_slice(&problem.key(&walk.solution()).0.to_le_bytes());
        }
        Identity { digest: xxh3_128(&words), depth: walk.path().len(), size_log10: problem.space_log10() }
    }
}
