//! Genetic search: islands in a ring, Deb's rules through the order of scores, no duplicates, local search at the best, and of
//! several drafts of a child the one that promises most.
//!
//! Even islands are steady-state (a child replaces the worst of five if it is better), odd ones generational with an
//! elite: neither wins everywhere. Islands exchange their best at fixed generations (Alba and Tomassini 2002,
//! "Parallelism and evolutionary algorithms"); all children of a generation are priced in one batch. Where the problem
//! tells niches apart, the best few of each are kept and bred on the side, and islands that begin anew begin in one of them.

mod breed;
mod gallery;
mod island;

use super::attempts::{Attempts, Keys};
use super::backend::Backend;
use super::budget::Stop;
use super::desks::Desks;
use super::drafts;
use super::evaluator::{Evaluator, Question};
use super::genome::{Decoder, Genome};
use super::problem::{Key128, Problem};
use super::stream::Stream;
use breed::Breeder;
use gallery::Gallery;
use island::{Child, Island, Member};
use serde::{Deserialize, Serialize};

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
    /// Drafts of a child, of which the most promising is priced, where the budget is small; fewer where it is large.
    pub drafts: usize,
    /// Share of the drafts that go on from the best draft so far, so that a child may be many changes away from its parent.
    pub climb: f64,
}

impl Default for Genetic {
    fn default() -> Self {
        Self {
            // Best one every 25 generations: Alba and Tomassini 2002; pagmo2's archipelagos. One island of each kind: with 2 000
            // and 20 000 evaluations they came closer on chains and pipelines than four.
            islands: 2,
            population: 40,
            offspring: 16,
            tournament: 2,
            elite: 2,
            migration: 25,
            // Local search on 5 to 10 % of the children pays on coupled problems.
            local: 0.1,
            niches: 24,
            patience: 60,
            drafts: 32,
            climb: 0.0,
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
            seed,
            desks: Desks::new(Decoder::new(problem)),
            breeder: Breeder::new(problem, drafts::affordable(self.drafts, evaluator.remaining()), self.climb),
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
    seed: u64,
    desks: Desks<Decoder<'p, P>>,
    breeder: Breeder<'p, P>,
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
                Some(path) => self.desks.first().follow(path),
                None => self.desks.first().encode(&entry.solution, &mut stream),
            })
            .collect();
        self.islands = (0..self.config.islands).map(|number| Island::new(number, self.config.clone())).collect();
        let mut children = Vec::new();
        for number in 0..self.config.islands {
            let own = seeds.iter().enumerate().filter(|(i, _)| *i == 0 || i % self.config.islands == number);
            let own: Vec<_> = own.map(|(_, seed)| seed.clone()).take(self.config.population / 2).collect();
            let island = &self.islands[number];
            let founders = island.founders(self.desks.first(), self.seed, 0, own, evaluator)?;
            children.extend(founders.into_iter().map(|child| self.breeder.keyed(child)));
        }
        self.settle(children, evaluator)
    }

    fn generation(&mut self, generation: u64, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let mut children = Vec::new();
        let mut batch = Keys::default();
        let mut places = Vec::new();
        for number in 0..self.islands.len() {
            let island = &mut self.islands[number];
            if island.is_stale() {
                island.clear();
                let mut stream = Stream::new(self.seed, 0, generation, number as u64 + 1);
                let niche = self.gallery.is_divided().then(|| self.gallery.draw(1, &mut stream));
                let handed = niche.map_or(Vec::new(), |niche| self.gallery.founders(niche[0]));
                let decoder = self.desks.first();
                let founders = island.founders(decoder, self.seed, generation, handed, evaluator)?;
                children.extend(founders.into_iter().map(|child| self.breeder.keyed(child)));
            } else {
                let wants = |index| island.wants_neighbour(index);
                places.extend((0..island.brood()).map(|i| Place {
                    room: Room::Island(number),
                    index: i,
                    near: wants(i),
                }));
            }
        }
        if self.gallery.is_divided() {
            let niches = self.gallery.draw(self.config.niches, &mut Stream::new(self.seed, 0, generation, 0));
            let wants = Gallery::<P::Solution>::wants_neighbour;
            let rooms = niches.into_iter().enumerate();
            places.extend(rooms.map(|(index, niche)| Place { room: Room::Niche(niche), index, near: wants(index) }));
        }
        for attempts in self.breed(&places, generation, &mut batch, evaluator)? {
            children.extend(attempts.made.map(|(child, key, _)| (child, key)));
        }
        self.settle(children, evaluator)?;
        if self.config.migration > 0 && generation.is_multiple_of(self.config.migration) {
            self.migrate();
        }
        Ok(())
    }

    /// Children for `places`. What two of them come to at once is the first one's, the other tries again.
    fn breed(
        &mut self,
        places: &[Place],
        generation: u64,
        batch: &mut Keys,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Attempts<Child<P::Solution>>>, Stop> {
        let (seed, last) = (self.seed, self.gallery.number);
        let stream = |place: &Place| {
            let island = match place.room {
                Room::Island(number) => number,
                Room::Niche(_) => last,
            };
            Stream::new(seed, island as u64 + 1, generation, place.index as u64)
        };
        let record = evaluator.record();
        let is_known = |key| record.seen(key).is_some();
        let (breeder, islands, gallery) = (&self.breeder, &self.islands, &self.gallery);
        let mut made = self.desks.make(places.len(), |decoder, number| {
            let place = &places[number];
            let mut attempts = Attempts::new(ATTEMPTS, stream(place));
            if !place.near {
                attempts.go_on(&is_known, |first, stream| {
                    place.child((breeder, first), islands, gallery, decoder, &is_known, stream)
                });
            }
            attempts
        });
        let mut repeated = vec![0; self.islands.len()];
        for (place, attempts) in places.iter().zip(&mut made) {
            attempts.disown(|key| batch.contains(&key));
            if !attempts.is_new() {
                let is_known = |key| evaluator.seen(key).is_some() || batch.contains(&key);
                let (breeder, decoder) = (&self.breeder, self.desks.first());
                let (islands, gallery) = (&mut self.islands, &mut self.gallery);
                attempts.go_on(&is_known, |first, stream| {
                    let near =
                        if place.near { place.neighbour(breeder, islands, gallery, decoder, stream) } else { None };
                    near.or_else(|| place.child((breeder, first), islands, gallery, decoder, &is_known, stream))
                });
            }
            attempts.count(evaluator)?;
            match (&place.room, &attempts.made) {
                (Room::Island(number), Some((_, key, new))) => {
                    batch.insert(*key);
                    repeated[*number] += usize::from(!new);
                }
                (Room::Niche(_), Some((_, key, true))) => {
                    batch.insert(*key);
                }
                // A niche has no use for what is known.
                (Room::Niche(_), _) => attempts.made = None,
                (Room::Island(_), None) => {}
            }
        }
        for (island, repeated) in self.islands.iter_mut().zip(repeated) {
            if 2 * repeated > island.brood() {
                island.converged();
            }
        }
        Ok(made)
    }

    /// Prices `children` and lets each join its island.
    fn settle(
        &mut self,
        children: Vec<(Child<P::Solution>, Key128)>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<(), Stop> {
        let questions: Vec<_> =
            children.iter().map(|(child, key)| Question::bred(&child.solution, *key, &child.genome)).collect();
        let scores = evaluator.ask_about(&questions)?;
        let mut broods: Vec<Vec<(Member<P::Solution>, u64)>> = self.islands.iter().map(|_| Vec::new()).collect();
        for ((child, key), score) in children.into_iter().zip(scores) {
            if let Some(origin) = &child.origin {
                self.breeder.learn(origin, score);
            }
            let member = Member { genome: child.genome, solution: child.solution, score, key };
            self.gallery.offer(self.breeder.problem.niche(&member.solution), &member);
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

/// A child and its key, or the violation at which it ended.
type Made<P> = Result<(Child<<P as Problem>::Solution>, Key128), f64>;

/// Where a child is bred.
#[derive(Clone, Copy)]
enum Room {
    Island(usize),
    Niche(u64),
}

/// A child to be bred: where, which one of its generation, and whether as a neighbour of the best there.
struct Place {
    room: Room,
    index: usize,
    near: bool,
}

impl Place {
    /// A child of two parents of its room; `None` where there is no such room. Drafts are for the `first` attempt: where nothing
    /// new comes of them, few are left to be found.
    fn child<P: Problem>(
        &self,
        (breeder, first): (&Breeder<'_, P>, bool),
        islands: &[Island<P::Solution>],
        gallery: &Gallery<P::Solution>,
        decoder: &mut Decoder<'_, P>,
        is_known: &dyn Fn(Key128) -> bool,
        stream: &mut Stream,
    ) -> Option<Made<P>> {
        let child = match self.room {
            Room::Island(number) => {
                let island = &islands[number];
                breeder.child((decoder, first), number, |stream| island.parents(stream), is_known, stream)
            }
            Room::Niche(niche) => {
                let members = gallery.members(niche)?;
                let parents = |stream: &mut Stream| gallery::parents(members, stream);
                breeder.child((decoder, first), gallery.number, parents, is_known, stream)
            }
        };
        Some(child.map(|child| breeder.keyed(child)))
    }

    /// A neighbour of the best of its room; `None` where all were had.
    fn neighbour<P: Problem>(
        &self,
        breeder: &Breeder<'_, P>,
        islands: &mut [Island<P::Solution>],
        gallery: &mut Gallery<P::Solution>,
        decoder: &mut Decoder<'_, P>,
        stream: &mut Stream,
    ) -> Option<Made<P>> {
        let (number, (best, change)) = match self.room {
            Room::Island(number) => (number, islands[number].next_neighbour(stream)?),
            Room::Niche(niche) => (gallery.number, gallery.next_neighbour(niche, stream)?),
        };
        let child = breeder.neighbour(decoder, number, best, change, stream);
        Some(child.map(|child| breeder.keyed(child)))
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
