//! Genetic search: islands in a ring, Deb's rules through the order of scores, no duplicates, local search at the best.
//!
//! Even islands are steady-state (a child replaces the worst of five if it is better), odd ones generational with an
//! elite: neither wins everywhere. Islands exchange their best at fixed generations (Alba and Tomassini 2002,
//! "Parallelism and evolutionary algorithms"); all children of a generation are priced in one batch. Where the problem
//! tells niches apart, the best few of each are kept and bred on the side, and islands that begin anew begin in one of them.

mod gallery;
mod island;

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::genome::{Decoder, Genome};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use super::vary::{Operator, Selector};
use gallery::Gallery;
use island::{Child, Island, Member};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of genetic search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Genetic {
    /// Populations side by side.
    pub islands: usize,
    /// Members of each; fewer where the budget allows less than fifty generations.
    pub population: usize,
    /// Children of a steady-state island per generation.
    pub offspring: usize,
    /// Members drawn for a tournament.
    pub tournament: usize,
    /// Members of a generational island that survive unconditionally.
    pub elite: usize,
    /// Generations between migrations.
    pub migration: u64,
    /// Share of the children that are neighbours of the island's best.
    pub local: f64,
    /// Children per generation that are bred within niches, where there are several.
    pub niches: usize,
    /// Generations without an improvement after which an island begins anew.
    pub patience: u64,
}

impl Default for Genetic {
    fn default() -> Self {
        Self {
            // 4 to 8 islands, best one every 25 generations: Alba and Tomassini 2002; pagmo2's archipelagos.
            islands: 4,
            population: 40,
            offspring: 16,
            tournament: 2,
            elite: 2,
            migration: 25,
            // Local search on 5 to 10 % of the children pays on coupled problems.
            local: 0.1,
            niches: 24,
            patience: 60,
        }
    }
}

/// Generations that a budget should allow: with 2 000 evaluations, populations of 10 came closer on every chain and every
/// planning question that was measured than populations of 40.
const GENERATIONS: u64 = 50;

/// Attempts at a child that has not been priced yet.
const ATTEMPTS: usize = 20;

impl Genetic {
    fn sized(&self, remaining: Option<u64>) -> Self {
        let islands = self.islands.max(1);
        let affordable = remaining.map_or(usize::MAX, |n| (n / GENERATIONS) as usize / islands);
        let population = self.population.min(affordable).max(4);
        let elite = self.elite.min(population - 1);
        Self { islands, population, offspring: self.offspring.min(population).max(1), elite, ..self.clone() }
    }

    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let mut search = Search {
            config: self.sized(evaluator.remaining()),
            problem,
            seed,
            decoder: Decoder::new(problem),
            selector: Selector::new(Operator::all(problem)),
            islands: Vec::new(),
            gallery: Gallery::new(self.islands.max(1)),
        };
        search.begin(evaluator)?;
        for generation in 1.. {
            search.generation(generation, evaluator)?;
        }
        Ok(Stop::Exhausted)
    }
}

struct Search<'p, P: Problem> {
    config: Genetic,
    problem: &'p P,
    seed: u64,
    decoder: Decoder<'p, P>,
    selector: Selector,
    islands: Vec<Island<P::Solution>>,
    gallery: Gallery<P::Solution>,
}

impl<P: Problem> Search<'_, P> {
    fn begin(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let mut stream = Stream::new(self.seed, 0, 0, 0);
        let handed: Vec<_> = evaluator.archive().to_vec();
        let seeds: Vec<(Genome, P::Solution)> = handed
            .iter()
            .filter_map(|entry| match &entry.path {
                Some(path) => self.decoder.follow(path),
                None => self.decoder.encode(&entry.solution, &mut stream),
            })
            .collect();
        self.islands = (0..self.config.islands).map(|number| Island::new(number, self.config.clone())).collect();
        let mut children = Vec::new();
        for number in 0..self.config.islands {
            let own = seeds.iter().enumerate().filter(|(i, _)| *i == 0 || i % self.config.islands == number);
            let own: Vec<_> = own.map(|(_, seed)| seed.clone()).take(self.config.population / 2).collect();
            let island = &self.islands[number];
            children.extend(island.founders(&mut self.decoder, self.seed, 0, own, evaluator)?);
        }
        self.settle(children, evaluator)
    }

    fn generation(&mut self, generation: u64, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let mut children = Vec::new();
        let mut batch = BTreeSet::new();
        for island in &mut self.islands {
            if island.is_stale() {
                island.clear();
                let mut stream = Stream::new(self.seed, 0, generation, island.number as u64 + 1);
                let niche = self.gallery.is_divided().then(|| self.gallery.draw(1, &mut stream));
                let handed = niche.map_or(Vec::new(), |niche| self.gallery.founders(niche[0]));
                children.extend(island.founders(&mut self.decoder, self.seed, generation, handed, evaluator)?);
                continue;
            }
            let mut repeated = 0;
            for index in 0..island.brood() {
                let mut stream = Stream::new(self.seed, island.number as u64 + 1, generation, index as u64);
                let mut child = None;
                for _ in 0..ATTEMPTS {
                    let made = island.child(self.problem, &mut self.decoder, &self.selector, index, &mut stream);
                    match made {
                        Ok(made) => {
                            let key = self.problem.key(&made.solution);
                            let new = evaluator.seen(key).is_none() && !batch.contains(&key);
                            child = Some((made, key, new));
                            if new {
                                break;
                            }
                            evaluator.repeated();
                        }
                        Err(violation) => evaluator.dead_end(violation)?,
                    }
                }
                if let Some((child, key, new)) = child {
                    repeated += usize::from(!new);
                    batch.insert(key);
                    children.push(child);
                }
            }
            if 2 * repeated > island.brood() {
                island.converged();
            }
        }
        if self.gallery.is_divided() {
            self.breed_niches(generation, &mut children, &mut batch, evaluator)?;
        }
        self.settle(children, evaluator)?;
        if self.config.migration > 0 && generation.is_multiple_of(self.config.migration) {
            self.migrate();
        }
        Ok(())
    }

    /// Children of the gallery.
    fn breed_niches(
        &mut self,
        generation: u64,
        children: &mut Vec<Child<P::Solution>>,
        batch: &mut BTreeSet<Key128>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<(), Stop> {
        let number = self.gallery.number as u64 + 1;
        let niches = self.gallery.draw(self.config.niches, &mut Stream::new(self.seed, 0, generation, 0));
        for (index, niche) in niches.into_iter().enumerate() {
            let mut stream = Stream::new(self.seed, number, generation, index as u64);
            for _ in 0..ATTEMPTS {
                let gallery = &mut self.gallery;
                match gallery.child(self.problem, &mut self.decoder, &self.selector, niche, index, &mut stream) {
                    Ok(child) => {
                        let key = self.problem.key(&child.solution);
                        if evaluator.seen(key).is_none() && batch.insert(key) {
                            children.push(child);
                            break;
                        }
                        evaluator.repeated();
                    }
                    Err(Some(violation)) => evaluator.dead_end(violation)?,
                    Err(None) => break,
                }
            }
        }
        Ok(())
    }

    /// Prices `children` and lets each join its island.
    fn settle(&mut self, children: Vec<Child<P::Solution>>, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let candidates: Vec<_> = children
            .iter()
            .map(|child| evaluator.candidate(child.solution.clone(), Some(&child.genome.path())))
            .collect();
        let keys: Vec<Key128> = candidates.iter().map(|candidate| candidate.key).collect();
        let scores: Vec<Score> = evaluator.ask(candidates)?;
        let mut broods: Vec<Vec<(Member<P::Solution>, u64)>> = self.islands.iter().map(|_| Vec::new()).collect();
        for ((child, key), score) in children.into_iter().zip(keys).zip(scores) {
            if let Some((operator, parent)) = child.origin {
                self.selector.credit(operator, score < parent);
            }
            let member = Member { genome: child.genome, solution: child.solution, score, key };
            self.gallery.offer(self.problem.niche(&member.solution), &member);
            if let Some(brood) = broods.get_mut(child.island) {
                brood.push((member, child.luck));
            }
        }
        for (island, brood) in self.islands.iter_mut().zip(broods) {
            island.settle(brood);
        }
        Ok(())
    }

    /// The best of every island goes to the next one round the ring.
    fn migrate(&mut self) {
        let best: Vec<Option<Member<P::Solution>>> = self.islands.iter().map(|island| island.best().cloned()).collect();
        let n = self.islands.len();
        for (number, migrant) in best.into_iter().enumerate() {
            if let Some(migrant) = migrant
                && n > 1
            {
                self.islands[(number + 1) % n].welcome(migrant);
            }
        }
    }
}

impl<P: Problem> Backend<P> for Genetic {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
