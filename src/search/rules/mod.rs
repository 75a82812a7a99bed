//! Knowledge-driven search: what limits the best solutions is diagnosed, rules for that diagnosis propose changes, and what
//! worked is preferred; it may start from a base of solved cases, and may ask a program outside.
//!
//! Rules and critics that work on one shared solution are a blackboard (Hayes-Roth 1985, "A blackboard architecture for
//! control"); starting from the nearest solved case is case-based reasoning (Aamodt and Plaza 1994, section 3). Diagnoses are
//! generic: the constraints are violated; some decisions carry the objective ([`Problem::strain`]); nothing stands out. What
//! each rule achieves under each diagnosis decides how often it speaks (probability matching, as in genetic search).
//!
//! # The program outside
//!
//! With `command`, a program and its arguments apart by spaces, espalier starts it now and then, writes one line of JSON to its
//! standard input, and reads one line of JSON from its standard output:
//!
//! ```text
//! {"schema": "espalier/rules/1", "evaluations": 96, "remaining": 904, "diagnosis": "bottleneck",
//!  "best": {"path": [0, 3, 3], "objective": 1.25, "violation": null, "measures": [3.1e10],
//!           "decisions": [{"slot": 0, "options": 4, "allele": 7}, ...]},
//!  "known": [{"path": [0, 2, 3], "objective": 1.31, "violation": null}, ...]}
//!
//! {"paths": [[0, 3, 2], [1, 3, 3]]}
//! ```
//!
//! A path is the options taken in order; what a path lacks is decided by the prior, options that do not exist become the
//! nearest that does. A `diagnosis` is `constraints`, `bottleneck` or `level`. The program has `seconds` for each call. One that
//! cannot be started, is late, or says anything else ends the search, and the answer tells why. The search is reproducible
//! if the program is. It runs with the rights of espalier; without `command` nothing is started.

pub mod cases;
mod command;

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::genome::{Genome, Wish};
use super::local::{Ground, Place, Step, price};
use super::manual::{Page, Range, parameter};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use super::vary::{Operator, Selector, replace, vary};
use cases::CaseBase;
use command::Advice;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Parameters of knowledge-driven search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Solutions that are worked on.
    pub places: usize,
    /// Proposals priced together.
    pub batch: usize,
    /// Rounds without a better solution before all but the best is begun anew.
    pub patience: u64,
    /// File of solved cases; empty for none.
    pub cases: String,
    /// Cases that it begins with, the nearest.
    pub nearest: usize,
    /// Program to ask, with its arguments; empty for none.
    pub command: String,
    /// Rounds between two calls of it.
    pub every: u64,
    /// Seconds that a call may take.
    pub seconds: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            places: 12,
            batch: 8,
            patience: 60,
            cases: String::new(),
            nearest: 3,
            command: String::new(),
            every: 16,
            seconds: 30.0,
        }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "diagnoses what limits the best solutions, and lets rules for that propose changes; may start from solved cases",
    source: "Hayes-Roth 1985; Aamodt and Plaza 1994; for programs that propose plans: PROMPTS and multi-agent planners",
    when: "Where earlier runs of like questions are recorded (`cases`), or something outside has advice (`command`: one line of \
           JSON in, one out; a path is never trusted, only priced). Without either it is a local search that knows what \
           limits it.",
    presets: &[],
    parameters: &[
        parameter("places", "solutions that are worked on", "this engine").within(Range::Whole(2, 60)),
        parameter("batch", "proposals priced together", "a batch for eight threads").within(Range::Whole(2, 32)),
        parameter("patience", "rounds without a better solution before it begins anew", "this engine")
            .within(Range::Whole(10, 300)),
        parameter("cases", "file of solved cases (`espalier bench learn`); empty: none", "none by default"),
        parameter("nearest", "cases that it begins with, the nearest", "Aamodt and Plaza 1994: a few"),
        parameter("command", "program to ask, with its arguments; empty: none is ever started", "none by default"),
        parameter("every", "rounds between two calls of it", "this engine"),
        parameter("seconds", "seconds that a call may take", "this engine"),
    ],
};

/// What limits a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Diagnosis {
    /// Constraints are violated: memory, mostly.
    Constraints,
    /// Some decisions carry the objective.
    Bottleneck,
    /// Nothing stands out.
    Level,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A general change.
    Change(Operator),
    /// Everything from some decision on is decided again by the prior, which looks ahead.
    TakeBack,
    /// A decision that carries much gets another option.
    Relieve,
    /// A decision that carries much does as one that carries little.
    Borrow,
    /// Everything is decided anew.
    Doubt,
}

/// Rules that speak whatever the diagnosis.
const GENERAL: [Rule; 7] = [
    Rule::Change(Operator::SetRun),
    Rule::Change(Operator::Segment),
    Rule::Change(Operator::Point),
    Rule::Change(Operator::Step),
    Rule::Change(Operator::CopyRun),
    Rule::Change(Operator::Swap),
    Rule::Doubt,
];

fn rules_for<P: Problem>(diagnosis: Diagnosis, problem: &P) -> Vec<Rule> {
    let own: &[Rule] = match diagnosis {
        Diagnosis::Constraints => &[Rule::TakeBack],
        Diagnosis::Bottleneck => &[Rule::Relieve, Rule::Borrow],
        Diagnosis::Level => &[Rule::TakeBack, Rule::Change(Operator::Pair)],
    };
    let moves = problem.moves().map_or(0, |moves| moves.kinds());
    own.iter().chain(&GENERAL).copied().chain((0..moves).map(|kind| Rule::Change(Operator::Move(kind)))).collect()
}

/// Rules of a diagnosis and what they have achieved.
struct Desk {
    rules: Vec<Rule>,
    record: Selector,
}

/// A share of strain above this multiple of an even one is a bottleneck.
const CARRIES: f32 = 1.5;
/// Attempts at a proposal that has not been priced yet.
const ATTEMPTS: usize = 4;
/// Solutions that the program outside is told of.
const TOLD: usize = 8;

struct Search<'p, P: Problem> {
    ground: Ground<'p, P>,
    places: Vec<Place<P::Solution>>,
    desks: [Desk; 3],
}

impl<P: Problem> Search<'_, P> {
    fn diagnose(&self, place: &Place<P::Solution>) -> (Diagnosis, Vec<f32>) {
        let mut strain = self.ground.problem.strain(&place.solution);
        if !place.score.is_feasible() {
            return (Diagnosis::Constraints, strain);
        }
        strain.resize(place.genome.genes().len(), 0.0);
        let even = strain.iter().sum::<f32>() / strain.len().max(1) as f32;
        match strain.iter().any(|weight| *weight > CARRIES * even) {
            true => (Diagnosis::Bottleneck, strain),
            false => (Diagnosis::Level, strain),
        }
    }

    fn propose(
        &mut self,
        rule: Rule,
        (here, strain): (&Place<P::Solution>, &[f32]),
        stream: &mut Stream,
    ) -> Result<(Genome, P::Solution), f64> {
        let problem = self.ground.problem;
        let other = stream.index(self.places.len());
        let mate = self.places[other].genome.clone();
        let (genome, genes) = (&here.genome, here.genome.genes());
        let decoder = &mut self.ground.decoder;
        let open = |weights: &[f32]| -> Vec<f32> {
            let weight = |(i, gene): (usize, &super::genome::Gene)| {
                if gene.options > 1 { weights.get(i).copied().unwrap_or(0.0) } else { 0.0 }
            };
            genes.iter().enumerate().map(weight).collect()
        };
        match rule {
            Rule::Change(operator) => vary(problem, decoder, operator, (genome, &here.solution), &mate, stream),
            Rule::Doubt => {
                let likely = stream.chance(0.7);
                decoder.decode(stream, |_, _| if likely { Wish::Likely } else { Wish::Any })
            }
            Rule::TakeBack => {
                let from = stream.index(genes.len().max(1));
                decoder.decode(stream, |decision, _| match genome.find(decision.slot, decision.depth) {
                    Some(gene) if gene < from => Wish::Allele(genes[gene].allele),
                    _ => Wish::Likely,
                })
            }
            Rule::Relieve if !genes.is_empty() => {
                let gene = stream.weighted(&open(strain));
                let option = stream.below(u64::from(genes[gene].options)) as u32;
                replace(decoder, (genome, &here.solution), &[(gene, option)], stream)
            }
            Rule::Borrow if !genes.is_empty() => {
                let gene = stream.weighted(&open(strain));
                let calm: Vec<f32> = open(&strain.iter().map(|weight| 1.0 / (1.0 + weight)).collect::<Vec<_>>());
                let from = stream.weighted(&calm);
                decoder.decode(stream, |decision, _| match genome.find(decision.slot, decision.depth) {
                    Some(found) if found == gene => Wish::Allele(genes[from].allele),
                    Some(found) => Wish::Allele(genes[found].allele),
                    None => Wish::Likely,
                })
            }
            Rule::Relieve | Rule::Borrow => decoder.decode(stream, |_, _| Wish::Likely),
        }
    }

    /// Keeps the best `n` places, no two alike.
    fn keep(&mut self, more: Vec<Place<P::Solution>>, n: usize) {
        self.places.extend(more);
        self.places.sort_by_key(|place| (place.score, place.key));
        self.places.dedup_by_key(|place| place.key);
        self.places.truncate(n.max(1));
    }

    fn price(
        &mut self,
        made: Vec<(Genome, P::Solution)>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Place<P::Solution>>, Stop> {
        let problem = self.ground.problem;
        let step = |(genome, solution): (Genome, P::Solution)| {
            let key = problem.key(&solution);
            Step { genome, solution, key, operator: 0 }
        };
        price(made.into_iter().map(step).collect(), evaluator)
    }
}

impl Rules {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let desk = |diagnosis| {
            let rules = rules_for(diagnosis, problem);
            let record = Selector::new(vec![Operator::Point; rules.len()]);
            Desk { rules, record }
        };
        let desks = [Diagnosis::Constraints, Diagnosis::Bottleneck, Diagnosis::Level].map(desk);
        let mut search = Search { ground: Ground::new(problem), places: Vec::new(), desks };
        let known = self.remembered(problem, seed, &mut search, evaluator)?;
        search.keep(known, self.places);
        let (mut best, mut improved) = (Score::Failed, 0);
        for round in 0.. {
            if search.places.len() < 2 || round - improved > self.patience {
                search.places.truncate(1);
                let begun = search.ground.begin(self.places.clamp(1, 4), (seed, round), evaluator)?;
                search.keep(begun, self.places);
                improved = round;
            }
            if search.places.is_empty() {
                return Ok(Stop::Exhausted);
            }
            self.round((seed, round), &mut search, evaluator)?;
            if !self.command.trim().is_empty() && round % self.every.max(1) == 0 {
                self.ask_outside((seed, round), &mut search, evaluator)?;
            }
            if let Some(first) = search.places.first().map(|place| place.score)
                && first < best
            {
                (best, improved) = (first, round);
            }
        }
        Ok(Stop::Exhausted)
    }

    fn round<P: Problem>(
        &self,
        (seed, round): (u64, u64),
        search: &mut Search<'_, P>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<(), Stop> {
        let (mut asked, mut made, mut by): (Vec<Key128>, Vec<_>, Vec<_>) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..self.batch.max(1) {
            let mut stream = Stream::new(seed, 1, round, index as u64);
            let number = if stream.chance(0.5) { 0 } else { stream.index(search.places.len()) };
            let here = search.places[number].clone();
            let (diagnosis, strain) = search.diagnose(&here);
            for _ in 0..ATTEMPTS {
                let desk = &search.desks[diagnosis as usize];
                let (rule, _) = desk.record.draw(&mut stream);
                match search.propose(desk.rules[rule], (&here, &strain), &mut stream) {
                    Ok((genome, solution)) => {
                        let key = search.ground.problem.key(&solution);
                        if evaluator.seen(key).is_none() && !asked.contains(&key) {
                            asked.push(key);
                            made.push((genome, solution));
                            by.push((diagnosis, rule, here.score));
                            break;
                        }
                        evaluator.repeated();
                    }
                    Err(violation) => evaluator.dead_end(violation)?,
                }
            }
            evaluator.poll()?;
        }
        let priced = search.price(made, evaluator)?;
        for (place, (diagnosis, rule, before)) in priced.iter().zip(by) {
            search.desks[diagnosis as usize].record.credit(rule, place.score < before);
        }
        search.keep(priced, self.places);
        Ok(())
    }

    /// The nearest solved cases, made fit and priced.
    fn remembered<P: Problem>(
        &self,
        problem: &P,
        seed: u64,
        search: &mut Search<'_, P>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Place<P::Solution>>, Stop> {
        if self.cases.is_empty() {
            return Ok(Vec::new());
        }
        let base = match CaseBase::load(Path::new(&self.cases)) {
            Ok(base) => base,
            Err(error) => return Err(Self::give_up(format!("cases: {error}"), evaluator)),
        };
        let mut made = Vec::new();
        for (number, case) in base.nearest(problem, self.nearest).into_iter().enumerate() {
            let mut stream = Stream::new(seed, 2, 0, number as u64);
            match case.adapt(&mut search.ground.decoder, &mut stream) {
                Ok(found) => made.push(found),
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        search.price(made, evaluator)
    }

    fn ask_outside<P: Problem>(
        &self,
        (seed, round): (u64, u64),
        search: &mut Search<'_, P>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<(), Stop> {
        let told: Vec<&Place<P::Solution>> = search.places.iter().take(TOLD).collect();
        let Some(best) = told.first() else { return Ok(()) };
        let measures =
            if best.score.is_feasible() { search.ground.problem.measures(&best.solution) } else { Vec::new() };
        let state = command::state(evaluator, search.diagnose(best).0, &told, &measures);
        let halt = evaluator.halt();
        let answer = command::ask(&self.command, &state, self.seconds, &halt);
        evaluator.poll()?;
        let paths = match answer {
            Ok(Advice { paths }) => paths,
            Err(why) => return Err(Self::give_up(format!("command: {why}"), evaluator)),
        };
        let mut made: Vec<(Genome, P::Solution)> = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let mut stream = Stream::new(seed, 3, round, number as u64);
            let wish = |depth: usize| path.get(depth).map_or(Wish::Likely, |option| Wish::Option(*option));
            match search.ground.decoder.decode(&mut stream, |decision, _| wish(decision.depth)) {
                Ok(found) => made.push(found),
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        let priced = search.price(made, evaluator)?;
        search.keep(priced, self.places);
        Ok(())
    }

    fn give_up<P: Problem>(why: String, evaluator: &mut Evaluator<'_, P>) -> Stop {
        evaluator.refuse(format!("rules: {why}"));
        Stop::Failed
    }
}

impl<P: Problem> Backend<P> for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn identity(&self) -> String {
        // The cases are part of what it does.
        let cases = if self.cases.is_empty() { Vec::new() } else { std::fs::read(&self.cases).unwrap_or_default() };
        format!("{self:?} {:032x}", xxhash_rust::xxh3::xxh3_128(&cases))
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
