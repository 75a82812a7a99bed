//! The only way to a score: batches, priced once, counted, traced, and stopped in time.
//!
//! A batch is de-duplicated before it is dispatched, so no thread waits for another's evaluation and nothing is
//! evaluated under a lock. The budget counts the distinct keys that were asked for, whether the shared cache knew them or
//! not; the cache therefore changes clocks and never answers. Scores come back in the order asked.

use super::archive::{Archive, Entry};
use super::budget::{Budget, Interrupt, Stop};
use super::candidate::Way;
pub use super::candidate::{Candidate, Question};
use super::checkpoint::Checkpoint;
use super::dispatch::{self, Evaluated};
use super::front::{self, Compromise};
use super::outcome::{Counters, Observer, Outcome, Progress, gap};
use super::problem::{Bound, Fidelity, Key128, Problem};
use super::score::Score;
use super::trace::{Clocks, Improvement, Trace};
use crate::memo::Cache;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry as HashEntry;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Failures in a row, from the very first evaluation on, after which a problem is taken to give no numbers at all.
const HOPELESS: u64 = 1_000;
/// Share of the time that writing checkpoints may take.
const CHECKPOINT_SHARE: f64 = 0.05;
/// Idle requests that one new solution makes good: a backend that finds less than one new solution in so many is spent.
const CREDIT: u64 = 5;
/// Relative rounding allowed when an objective is compared to a bound summed in another order.
const ROUNDING: f64 = 1e-12;

type Scores = HashMap<u128, Score, FixedState>;

/// What is known of a question before its batch is priced.
enum Standing {
    Known(Score),
    /// The number of the first question of the batch with this key, among those to be priced.
    Asked(usize),
}

/// What surrounds a search.
pub struct Setup<'a> {
    /// A cache to share, possibly warm: what this search alone has asked for it knows anyway.
    pub cache: Option<&'a Cache<Score>>,
    /// How exactly to evaluate while searching.
    pub fidelity: Fidelity,
    /// The limits.
    pub budget: Budget,
    /// The flag that stops it from outside.
    pub interrupt: Interrupt,
    /// Who watches.
    pub observer: Option<&'a mut dyn Observer>,
    /// How many of the best solutions are kept.
    pub archive: usize,
}

/// What a search has asked for.
#[derive(Clone, Copy)]
pub struct Record<'r> {
    ledger: &'r Scores,
    fidelity: Fidelity,
}

impl Record<'_> {
    /// The score of a solution that was asked for.
    pub fn seen(&self, key: Key128) -> Option<Score> {
        self.ledger.get(&slot(key, self.fidelity)).copied()
    }
}

struct Saving {
    path: PathBuf,
    question: u128,
    every: Duration,
    last: Instant,
    error: Option<String>,
}

struct Stage {
    name: &'static str,
    end: Option<u64>,
    stall: Option<u64>,
    improved: u64,
}

/// Prices solutions for one search.
pub struct Evaluator<'a, P: Problem> {
    problem: &'a P,
    setup: Setup<'a>,
    ledger: Scores,
    known: Scores,
    known_evaluations: u64,
    archive: Archive<P::Solution>,
    exact: Archive<P::Solution>,
    front: Vec<Compromise<P::Solution>>,
    bound: Option<f64>,
    infeasible: bool,
    stage: Stage,
    counters: Counters,
    trace: Trace,
    idle: u64,
    improved: u64,
    dead_end: Option<f64>,
    failure: Option<String>,
    refused: Option<String>,
    saving: Option<Saving>,
    started: Instant,
    before: Duration,
    evaluating_s: f64,
    waiting_s: f64,
    evaluation_s: f64,
}

impl<'a, P: Problem> Evaluator<'a, P> {
    /// A fresh search of `problem`, by the backend called `name`.
    pub fn new(problem: &'a P, name: &'static str, setup: Setup<'a>) -> Self {
        let bound = match problem.bound(&problem.root()) {
            Bound::AtLeast(b) if b.is_finite() => Some(b),
            _ => None,
        };
        Self {
            infeasible: false,
            problem,
            archive: Archive::new(setup.archive),
            exact: Archive::new(setup.archive),
            front: Vec::new(),
            setup,
            ledger: Scores::default(),
            known: Scores::default(),
            known_evaluations: 0,
            bound,
            stage: Stage { name, end: None, stall: None, improved: 0 },
            counters: Counters::default(),
            trace: Trace::default(),
            idle: 0,
            improved: 0,
            dead_end: None,
            failure: None,
            refused: None,
            saving: None,
            started: Instant::now(),
            before: Duration::ZERO,
            evaluating_s: 0.0,
            waiting_s: 0.0,
            evaluation_s: 0.0,
        }
    }

    /// Saves the search to `path` from time to time; `question` identifies it.
    pub fn save_to(&mut self, path: PathBuf, question: u128, every: Duration) {
        self.saving = Some(Saving { path, question, every, last: Instant::now(), error: None });
    }

    /// Goes on from a checkpoint: its scores are taken as they come up, and its time counts as spent.
    pub fn resume(&mut self, checkpoint: Checkpoint) {
        self.known = checkpoint.scores.into_iter().collect();
        self.known_evaluations = checkpoint.evaluations;
        self.before = checkpoint.elapsed;
    }

    /// A candidate for `solution`, found at the end of `path` if it was found as one.
    pub fn candidate(&self, solution: P::Solution, path: Option<&[u32]>) -> Candidate<P::Solution> {
        Candidate { key: self.problem.key(&solution), solution, path: path.map(Into::into) }
    }

    /// The score of a solution that this search has asked for before.
    pub fn seen(&self, key: Key128) -> Option<Score> {
        self.record().seen(key)
    }

    /// What this search has asked for before, to be taken into worker threads.
    pub fn record(&self) -> Record<'_> {
        Record { ledger: &self.ledger, fidelity: self.setup.fidelity }
    }

    /// Prices `candidates`, in order. Stops within the batch when a limit is met; what was priced until then counts.
    pub fn ask(&mut self, candidates: Vec<Candidate<P::Solution>>) -> Result<Vec<Score>, Stop> {
        let questions: Vec<Question<'_, P::Solution>> = candidates
            .iter()
            .map(|Candidate { solution, key, path }| {
                let way = path.as_deref().map_or(Way::Unknown, Way::Options);
                Question { solution, key: *key, way }
            })
            .collect();
        self.ask_about(&questions)
    }

    /// As [`Evaluator::ask`], of solutions that the caller keeps: none is copied unless it is among the best.
    pub fn ask_about(&mut self, questions: &[Question<'_, P::Solution>]) -> Result<Vec<Score>, Stop> {
        self.poll()?;
        self.counters.batches += 1;
        let fidelity = self.setup.fidelity;
        let room = self.remaining().unwrap_or(u64::MAX);
        let count = questions.len();
        let mut fresh = HashMap::<u128, usize, FixedState>::with_capacity_and_hasher(count, FixedState::default());
        let (mut slots, mut misses) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut standings = Vec::with_capacity(count);
        for question in questions {
            let slot = slot(question.key, fidelity);
            let standing = match self.ledger.get(&slot) {
                Some(score) => Standing::Known(*score),
                None => match fresh.entry(slot) {
                    HashEntry::Occupied(first) => Standing::Asked(*first.get()),
                    HashEntry::Vacant(_) if misses.len() as u64 >= room => break,
                    HashEntry::Vacant(place) => {
                        let number = *place.insert(misses.len());
                        slots.push(slot);
                        misses.push(question.solution);
                        Standing::Asked(number)
                    }
                },
            };
            standings.push(standing);
        }
        let truncated = standings.len() < count;
        let priced = self.price(&slots, &misses, fidelity);
        let complete = priced.iter().all(Option::is_some);

        let mut scores = Vec::with_capacity(standings.len());
        let mut improved = false;
        let mut counted = 0;
        for (question, standing) in questions.iter().zip(standings) {
            self.counters.requests += 1;
            let score = match standing {
                Standing::Known(score) => {
                    self.idle += 1;
                    score
                }
                Standing::Asked(number) => match priced[number] {
                    Some(score) if number == counted => {
                        counted += 1;
                        self.ledger.insert(slots[number], score);
                        self.counters.evaluations += 1;
                        self.counters.failed += u64::from(score == Score::Failed);
                        self.idle = self.idle.saturating_sub(CREDIT);
                        improved |= self.consider(question, score);
                        score
                    }
                    Some(score) => {
                        self.idle += 1;
                        score
                    }
                    None => {
                        counted = counted.max(number + 1);
                        continue;
                    }
                },
            };
            scores.push(score);
        }
        if fidelity == Fidelity::Fast && improved {
            self.promote(1);
        }
        self.leave_replay();
        self.save_if_due();
        self.report();
        self.met()?;
        if !complete {
            return Err(if self.setup.interrupt.is_raised() { Stop::Interrupted } else { Stop::Deadline });
        }
        if truncated {
            return Err(Stop::Evaluations);
        }
        Ok(scores)
    }

    fn price(&mut self, slots: &[u128], solutions: &[&P::Solution], fidelity: Fidelity) -> Vec<Option<Score>> {
        let mut scores: Vec<Option<Score>> = slots
            .iter()
            .map(|slot| self.known.remove(slot).or_else(|| self.setup.cache.and_then(|cache| cache.get(*slot))))
            .collect();
        let unknown: Vec<usize> = (0..slots.len()).filter(|i| scores[*i].is_none()).collect();
        self.counters.cache_hits += (slots.len() - unknown.len()) as u64;
        if unknown.is_empty() {
            return scores;
        }
        let asked: Vec<&P::Solution> = unknown.iter().map(|i| solutions[*i]).collect();
        let start = Instant::now();
        let evaluated = {
            let this = &*self;
            let (interrupt, deadline) = (&this.setup.interrupt, this.deadline());
            let halted = move || interrupt.is_raised() || deadline.is_some_and(|d| Instant::now() >= d);
            dispatch::evaluate(this.problem, &asked, fidelity, this.evaluation_s, &halted)
        };
        self.waiting_s += start.elapsed().as_secs_f64();
        for (i, evaluated) in unknown.into_iter().zip(evaluated) {
            let Some(Evaluated { score, seconds, panic }) = evaluated else { continue };
            self.evaluating_s += seconds;
            self.evaluation_s += (seconds - self.evaluation_s) / 16.0;
            if self.failure.is_none() {
                self.failure = panic;
            }
            if let Some(cache) = self.setup.cache {
                cache.insert(slots[i], score);
            }
            scores[i] = Some(score);
        }
        scores
    }

    fn consider(&mut self, question: &Question<'_, P::Solution>, score: Score) -> bool {
        let Question { solution, key, way } = *question;
        if score == Score::Failed || !self.archive.admits(score, key) {
            return false;
        }
        let improves = self.archive.offer(Entry { solution: solution.clone(), score, key, path: way.options() });
        if improves {
            self.improved = self.counters.evaluations;
            self.stage.improved = self.counters.evaluations;
            if self.setup.fidelity == Fidelity::Exact {
                self.improve(score, key);
            }
        }
        improves
    }

    /// Prices the best `n` of a fast search exactly.
    fn promote(&mut self, n: usize) {
        let entries: Vec<Entry<P::Solution>> = self
            .archive
            .entries()
            .iter()
            .take(n)
            .filter(|e| !self.ledger.contains_key(&slot(e.key, Fidelity::Exact)))
            .cloned()
            .collect();
        let slots: Vec<u128> = entries.iter().map(|e| slot(e.key, Fidelity::Exact)).collect();
        let solutions: Vec<&P::Solution> = entries.iter().map(|e| &e.solution).collect();
        let scores = self.price(&slots, &solutions, Fidelity::Exact);
        for (entry, score) in entries.into_iter().zip(scores) {
            let Some(score) = score else { continue };
            self.ledger.insert(slot(entry.key, Fidelity::Exact), score);
            self.counters.promotions += 1;
            let key = entry.key;
            if score != Score::Failed && self.exact.offer(Entry { score, ..entry }) {
                self.improve(score, key);
            }
        }
    }

    fn improve(&mut self, score: Score, key: Key128) {
        let Counters { evaluations, requests, .. } = self.counters;
        let clocks = self.clocks();
        self.trace.record(Improvement { evaluations, requests, score, key }, clocks);
    }

    /// Keeps a priced solution for the front of the answer, if nothing dominates it. `measures` begins with the objective.
    pub fn compromise(&mut self, solution: &P::Solution, score: Score, key: Key128, path: &[u32], measures: &[f64]) {
        let entry = Entry { solution: solution.clone(), score, key, path: Some(path.into()) };
        front::offer(&mut self.front, Compromise { entry, measures: measures.to_vec() });
    }

    /// Counts an attempt that led to a solution already asked for and was therefore not asked again.
    pub fn repeated(&mut self) {
        self.idle += 1;
    }

    /// Counts looks at bounds and tables that no evaluation pays for.
    pub fn looked_up(&mut self, times: u64) {
        self.counters.lookups = self.counters.lookups.saturating_add(times);
    }

    /// Says what the backend would not or could not do; the first time counts.
    pub fn refuse(&mut self, why: String) {
        self.refused.get_or_insert(why);
    }

    /// Time left to the search, if it is limited.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Counts a path that could not be completed.
    pub fn dead_end(&mut self, violation: f64) -> Result<(), Stop> {
        self.counters.dead_ends += 1;
        self.idle += 1;
        if violation.is_finite() {
            self.dead_end = Some(self.dead_end.map_or(violation, |v| v.min(violation)));
        }
        self.poll()
    }

    /// Whether to stop now. To be asked wherever a backend works long without asking for a score.
    pub fn poll(&self) -> Result<(), Stop> {
        if self.setup.interrupt.is_raised() {
            return Err(Stop::Interrupted);
        }
        if self.deadline().is_some_and(|d| Instant::now() >= d) {
            return Err(Stop::Deadline);
        }
        self.met()
    }

    /// The limits that do not depend on clocks.
    fn met(&self) -> Result<(), Stop> {
        let budget = &self.setup.budget;
        if let Some(best) = self.cutoff() {
            if self.is_optimal() {
                return Err(Stop::Optimal);
            }
            let close = |g: f64| self.bound.and_then(|bound| gap(best, bound)).is_some_and(|now| now <= g);
            if budget.target.is_some_and(|t| best <= t) || budget.target_gap.is_some_and(close) {
                return Err(Stop::Target);
            }
        }
        let Counters { evaluations, failed, .. } = self.counters;
        if self.remaining() == Some(0) {
            return Err(Stop::Evaluations);
        }
        if failed == evaluations && failed >= HOPELESS {
            return Err(Stop::Failed);
        }
        let stalled = |since: u64, limit: Option<u64>| limit.is_some_and(|l| evaluations - since >= l);
        if stalled(self.improved, budget.stall) || stalled(self.stage.improved, self.stage.stall) {
            return Err(Stop::Stalled);
        }
        if self.idle >= budget.max_idle {
            return Err(Stop::Exhausted);
        }
        Ok(())
    }

    /// A test whether to stop for reasons outside the search, to be taken into worker threads.
    pub fn halt(&self) -> impl Fn() -> bool + Sync + use<P> {
        let (interrupt, deadline) = (self.setup.interrupt.clone(), self.deadline());
        move || interrupt.is_raised() || deadline.is_some_and(|d| Instant::now() >= d)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.is_replaying() {
            return None;
        }
        self.setup.budget.max_time.map(|limit| self.started + limit.saturating_sub(self.before))
    }

    fn is_replaying(&self) -> bool {
        !self.known.is_empty() && self.counters.evaluations < self.known_evaluations
    }

    fn leave_replay(&mut self) {
        if self.known_evaluations > 0 && !self.is_replaying() {
            self.known_evaluations = 0;
            self.started = Instant::now();
        }
    }

    /// Begins a stage of a portfolio: at most `evaluations` more, at most `stall` of them without an improvement.
    pub fn begin_stage(&mut self, name: &'static str, evaluations: Option<u64>, stall: Option<u64>) {
        let now = self.counters.evaluations;
        self.stage = Stage { name, end: evaluations.map(|n| now.saturating_add(n)), stall, improved: now };
        self.idle = 0;
    }

    /// Evaluations left to this stage, if they are limited.
    pub fn remaining(&self) -> Option<u64> {
        let end = match (self.setup.budget.max_evaluations, self.stage.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        end.map(|end| end.saturating_sub(self.counters.evaluations))
    }

    /// The objective to beat: subtrees whose bound is not below it cannot improve the answer.
    pub fn cutoff(&self) -> Option<f64> {
        self.answer().and_then(|best| best.score.objective())
    }

    fn answer(&self) -> Option<&Entry<P::Solution>> {
        match self.setup.fidelity {
            Fidelity::Exact => self.archive.best(),
            Fidelity::Fast => self.exact.best(),
        }
    }

    /// The best distinct solutions so far, best first, at the searching fidelity.
    pub fn archive(&self) -> &[Entry<P::Solution>] {
        self.archive.entries()
    }

    /// Distinct solutions asked for so far.
    pub fn evaluations(&self) -> u64 {
        self.counters.evaluations
    }

    /// The limits of the whole search.
    pub fn budget(&self) -> &Budget {
        &self.setup.budget
    }

    /// The proven bound so far.
    pub fn bound(&self) -> Option<f64> {
        self.bound
    }

    /// Says that no solution has a smaller objective than `bound`.
    pub fn raise_bound(&mut self, bound: f64) {
        if bound.is_finite() && self.bound.is_none_or(|b| bound > b) {
            self.bound = Some(bound);
        }
    }

    /// Says that no solution is feasible.
    pub fn proved_infeasible(&mut self) {
        self.infeasible = true;
    }

    /// Whether it is proven that no solution is feasible.
    pub fn is_infeasible(&self) -> bool {
        self.infeasible
    }

    /// Says that every solution has been priced or cannot beat the answer.
    pub fn proved(&mut self) {
        let fast = self.archive.best().and_then(|best| best.score.objective());
        if let Some(best) = self.cutoff() {
            self.raise_bound(fast.map_or(best, |fast| fast.min(best)));
        }
    }

    /// Whether the answer meets the proven bound.
    pub fn is_optimal(&self) -> bool {
        self.cutoff().zip(self.bound).is_some_and(|(best, bound)| best <= bound + ROUNDING * bound.abs())
    }

    fn clocks(&self) -> Clocks {
        let wall_s = (self.before + self.started.elapsed()).as_secs_f64();
        Clocks { wall_s, cpu_s: (wall_s - self.waiting_s).max(0.0) + self.evaluating_s }
    }

    fn report(&mut self) {
        let wall_s = self.clocks().wall_s;
        let best = self.answer().map(|best| best.score);
        if let Some(observer) = self.setup.observer.as_deref_mut() {
            observer.progress(&Progress {
                stage: self.stage.name,
                evaluations: self.counters.evaluations,
                max_evaluations: self.setup.budget.max_evaluations,
                best,
                bound: self.bound,
                wall_s,
            });
        }
    }

    fn save_if_due(&mut self) {
        if self.saving.as_ref().is_some_and(|saving| saving.last.elapsed() >= saving.every) {
            self.save();
        }
    }

    fn save(&mut self) {
        let Some(mut saving) = self.saving.take() else { return };
        let start = Instant::now();
        let mut scores: Vec<(u128, Score)> = self.ledger.iter().chain(&self.known).map(|(k, s)| (*k, *s)).collect();
        scores.sort_unstable_by_key(|entry| entry.0);
        let elapsed = if self.is_replaying() { self.before } else { self.before + self.started.elapsed() };
        let evaluations = self.counters.evaluations.max(self.known_evaluations);
        let saved = Checkpoint { elapsed, evaluations, scores }.save(&saving.path, saving.question);
        saving.error = saved.err().map(|e| e.to_string());
        saving.last = Instant::now();
        saving.every = saving.every.max(start.elapsed().div_f64(CHECKPOINT_SHARE));
        self.saving = Some(saving);
    }

    /// Ends the search: prices the finalists of a fast one exactly, saves, and gives the answer.
    pub fn finish(mut self, stop: Stop) -> Outcome<P::Solution> {
        if self.setup.fidelity == Fidelity::Fast {
            self.promote(usize::MAX);
        }
        self.save();
        let clocks = self.clocks();
        let best = self.answer().cloned();
        let archive = match self.setup.fidelity {
            Fidelity::Exact => self.archive,
            Fidelity::Fast => self.exact,
        };
        Outcome {
            best,
            archive: archive.entries().to_vec(),
            front: self.front,
            bound: self.bound,
            stop,
            trace: Trace { truncated: !stop.is_reproducible(), ..self.trace },
            counters: self.counters,
            wall_s: clocks.wall_s,
            cpu_s: clocks.cpu_s,
            dead_end: self.dead_end,
            failure: self.failure,
            refused: self.refused,
            checkpoint_error: self.saving.and_then(|saving| saving.error),
        }
    }
}

/// Where the score of a key at a fidelity is kept.
fn slot(key: Key128, fidelity: Fidelity) -> u128 {
    // Half of the golden ratio's digits: any constant with both halves non-zero keeps uniform keys apart.
    const FAST: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834;
    match fidelity {
        Fidelity::Exact => key.0,
        Fidelity::Fast => key.0 ^ FAST,
    }
}
