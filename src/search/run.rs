//! One search from question to answer.

use super::backend::Backend;
use super::budget::{Budget, Interrupt};
use super::checkpoint::{Checkpoint, Checkpointing};
use super::evaluator::{Evaluator, Setup};
use super::outcome::{Observer, Outcome};
use super::problem::{Fidelity, Node, Problem};
use super::score::Score;
use super::walk::{Decision, PriorSampler, Walk};
use crate::memo::{Cache, FileError};
use xxhash_rust::xxh3::xxh3_128;

/// Solutions kept besides the best: as many as a portfolio hands on (ENGINE default "best 20").
const ARCHIVE: usize = 20;
/// Decisions looked at to recognise a problem.
const PROBE: usize = 4_096;

/// What a search is asked, besides the problem and the backend.
pub struct Request<'a, S> {
    /// Everything random follows from it.
    pub seed: u64,
    /// When to stop.
    pub budget: Budget,
    /// How exactly to evaluate while searching; the answer is always priced exactly.
    pub fidelity: Fidelity,
    /// A cache to share; without one the search remembers its own scores only.
    pub cache: Option<&'a Cache<Score>>,
    /// Solutions to start from.
    pub seeds: Vec<S>,
    /// The flag that stops it from outside.
    pub interrupt: Interrupt,
    /// Who watches.
    pub observer: Option<&'a mut dyn Observer>,
    /// Where it saves itself.
    pub checkpoint: Option<Checkpointing>,
    /// How many of the best distinct solutions are kept.
    pub archive: usize,
}

impl<S> Request<'_, S> {
    /// A search with this seed and budget and nothing else.
    pub fn new(seed: u64, budget: Budget) -> Self {
        Self {
            seed,
            budget,
            fidelity: Fidelity::Exact,
            cache: None,
            seeds: Vec::new(),
            interrupt: Interrupt::default(),
            observer: None,
            checkpoint: None,
            archive: ARCHIVE,
        }
    }
}

/// Searches `problem` with `backend`. Fails only if a checkpoint is to be resumed and cannot be read; a missing one
/// is a fresh start.
///
/// To race searches against each other start them from threads of their own: one started from a worker of the thread
/// pool may be made to wait for another.
pub fn solve<P: Problem>(
    problem: &P,
    backend: &dyn Backend<P>,
    request: Request<'_, P::Solution>,
) -> Result<Outcome<P::Solution>, FileError> {
    let question = question(problem, backend, &request);
    let setup = Setup {
        cache: request.cache,
        fidelity: request.fidelity,
        budget: request.budget,
        interrupt: request.interrupt,
        observer: match request.observer {
            Some(observer) => Some(observer),
            None => None,
        },
        archive: request.archive,
    };
    let mut evaluator = Evaluator::new(problem, backend.name(), setup);
    if let Some(Checkpointing { path, every, resume }) = request.checkpoint {
        if resume && path.exists() {
            evaluator.resume(Checkpoint::load(&path, question)?);
        }
        evaluator.save_to(path, question, every);
    }
    let seeds = request.seeds.into_iter().map(|seed| evaluator.candidate(seed, None)).collect();
    let stop = match evaluator.ask(seeds) {
        Ok(_) => backend.search(problem, request.seed, &mut evaluator),
        Err(stop) => stop,
    };
    Ok(evaluator.finish(stop))
}

/// Identity of everything that the scores and their order depend on, budget apart.
fn question<P: Problem>(problem: &P, backend: &dyn Backend<P>, request: &Request<'_, P::Solution>) -> u128 {
    let mut words = format!("{}\n{:?}\n{}\n", backend.identity(), request.fidelity, request.seed).into_bytes();
    for seed in &request.seeds {
        words.extend_from_slice(&problem.key(seed).0.to_le_bytes());
    }
    let mut walk = Walk::new(problem);
    let mut priors = PriorSampler::default();
    while let Node::Choose { slot, options } = walk.node() {
        words.extend_from_slice(&slot.to_le_bytes());
        words.extend_from_slice(&options.to_le_bytes());
        let depth = walk.path().len();
        if depth >= PROBE || options == 0 {
            break;
        }
        let option = priors.best(&Decision { problem, state: walk.state(), depth, slot, options });
        walk.push(option);
    }
    if walk.node() == Node::Complete {
        words.extend_from_slice(&problem.key(&walk.solution()).0.to_le_bytes());
    }
    xxh3_128(&words)
}
