//! One population.

use super::super::budget::Stop;
use super::super::evaluator::Evaluator;
use super::super::genome::{Decoder, Genome, Wish};
use super::super::problem::{Key128, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::Genetic;
use super::breed::Origin;

/// Members among which a steady-state child looks for the one to replace.
const VICTIMS: usize = 5;
/// Neighbours of one solution that local search tries at most.
const NEIGHBOURS: usize = 4_096;

/// A priced genome.
#[derive(Debug, Clone)]
pub(super) struct Member<S> {
    pub genome: Genome,
    pub solution: S,
    pub score: Score,
    pub key: Key128,
}

/// A genome to be priced.
pub(super) struct Child<S> {
    pub island: usize,
    pub genome: Genome,
    pub solution: S,
    /// Where it comes from, unless it is a founder.
    pub origin: Option<Origin>,
    /// A random word for its fight for a place.
    pub luck: u64,
}

pub(super) struct Island<S> {
    pub number: usize,
    config: Genetic,
    /// Best first.
    members: Vec<Member<S>>,
    idle: u64,
    converged: bool,
    neighbours: Neighbours,
}

/// Neighbours of one solution that are still to be tried.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Gene and option.
    left: Vec<(u32, u32)>,
    around: Option<Key128>,
}

impl Neighbours {
    /// A neighbour of `best` that was not handed out yet: gene and option.
    pub fn next<S>(&mut self, best: &Member<S>, stream: &mut Stream) -> Option<(usize, u32)> {
        if self.around != Some(best.key) {
            self.around = Some(best.key);
            self.left.clear();
            for (gene, g) in best.genome.genes().iter().enumerate() {
                let room = NEIGHBOURS.saturating_sub(self.left.len());
                let others = (0..g.options).filter(|option| *option != g.option).take(room);
                self.left.extend(others.map(|option| (gene as u32, option)));
            }
            stream.shuffle(&mut self.left);
        }
        self.left.pop().map(|(gene, option)| (gene as usize, option))
    }

    /// Forgets what was tried.
    fn clear(&mut self) {
        self.around = None;
    }
}

impl<S: Clone> Island<S> {
    pub fn new(number: usize, config: Genetic) -> Self {
        Self { number, config, members: Vec::new(), idle: 0, converged: false, neighbours: Neighbours::default() }
    }

    fn is_generational(&self) -> bool {
        self.number % 2 == 1
    }

    pub fn best(&self) -> Option<&Member<S>> {
        self.members.first()
    }

    pub fn is_stale(&self) -> bool {
        self.members.is_empty() || self.converged || self.idle >= self.config.patience
    }

    /// Notes that hardly anything new comes from this population.
    pub fn converged(&mut self) {
        self.converged = true;
    }

    pub fn clear(&mut self) {
        self.converged = false;
        self.members.clear();
        self.idle = 0;
        self.neighbours.clear();
    }

    /// Children per generation.
    pub fn brood(&self) -> usize {
        if self.is_generational() { self.config.population } else { self.config.offspring }
    }

    /// A first population: what is handed in, the greedy path on the first island, and paths drawn by the prior, a
    /// quarter of them uniformly.
    pub fn founders<P: Problem<Solution = S>>(
        &self,
        decoder: &mut Decoder<'_, P>,
        seed: u64,
        generation: u64,
        handed: Vec<(Genome, S)>,
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Child<S>>, Stop> {
        let mut children = Vec::with_capacity(self.config.population);
        for (genome, solution) in handed {
            children.push(Child { island: self.number, genome, solution, origin: None, luck: 0 });
        }
        for index in children.len()..self.config.population {
            let mut stream = Stream::new(seed, self.number as u64 + 1, generation, index as u64);
            let luck = stream.word();
            let wish = if index % 4 == 3 { Wish::Any } else { Wish::Likely };
            let made = match (generation, self.number, index) {
                (0, 0, 0) => decoder.greedy(),
                _ => decoder.decode(&mut stream, |_, _| wish),
            };
            match made {
                Ok((genome, solution)) => {
                    children.push(Child { island: self.number, genome, solution, origin: None, luck });
                }
                Err(violation) => evaluator.dead_end(violation)?,
            }
        }
        Ok(children)
    }

    fn tournament(&self, stream: &mut Stream) -> &Member<S> {
        let rounds = self.config.tournament.max(1);
        // Members are in order, so the smallest number is the best.
        let winner = (0..rounds).map(|_| stream.index(self.members.len())).min().unwrap_or(0);
        &self.members[winner]
    }

    /// Two parents. The population must not be empty.
    pub fn parents(&self, stream: &mut Stream) -> (&Member<S>, &Member<S>) {
        (self.tournament(stream), self.tournament(stream))
    }

    /// Whether child number `index` of a generation is to be a neighbour of the best.
    pub fn wants_neighbour(&self, index: usize) -> bool {
        (index as f64) < self.config.local * self.brood() as f64
    }

    /// The best and a change of it that was not handed out yet: gene and option.
    pub fn next_neighbour(&mut self, stream: &mut Stream) -> Option<(&Member<S>, (usize, u32))> {
        let best = self.members.first()?;
        self.neighbours.next(best, stream).map(|change| (best, change))
    }

    /// Lets a generation of priced children in.
    pub fn settle(&mut self, brood: Vec<(Member<S>, u64)>) {
        let before = self.best().map(|best| best.score);
        if self.is_generational() && self.members.len() >= self.config.population {
            self.members.truncate(self.config.elite);
            for (member, _) in brood {
                self.add(member);
            }
        } else {
            for (member, luck) in brood {
                if self.members.len() < self.config.population {
                    self.add(member);
                } else {
                    self.fight(member, luck);
                }
            }
        }
        self.members.truncate(self.config.population);
        let improved = self.best().map(|best| best.score).is_some_and(|now| before.is_none_or(|then| now < then));
        self.idle = if improved { 0 } else { self.idle + 1 };
    }

    fn rank(&self, member: &Member<S>) -> Result<usize, usize> {
        self.members.binary_search_by(|other| (other.score, other.key).cmp(&(member.score, member.key)))
    }

    fn add(&mut self, member: Member<S>) {
        if let Err(place) = self.rank(&member) {
            self.members.insert(place, member);
        }
    }

    fn fight(&mut self, member: Member<S>, luck: u64) {
        let mut stream = Stream::new(luck, 0, 0, 0);
        let victim = (0..VICTIMS).map(|_| stream.index(self.members.len())).max().unwrap_or(0);
        if member.score < self.members[victim].score && self.rank(&member).is_err() {
            self.members.remove(victim);
            self.add(member);
        }
    }

    /// A migrant replaces the worst if it is better and new.
    pub fn welcome(&mut self, migrant: Member<S>) {
        let better = self.members.last().is_some_and(|worst| migrant.score < worst.score);
        if better && self.rank(&migrant).is_err() {
            self.members.pop();
            self.add(migrant);
        }
    }
}
