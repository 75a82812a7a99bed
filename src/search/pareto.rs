//! NSGA-II: breeds the whole trade-off between the objective and the problem's further measures, such as memory.
//!
//! Deb, Pratap, Agarwal and Meyarivan 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II". Parents win a
//! tournament by front, then by crowding; parents and children together are sorted, and the better half survives.
//! Children are made as in genetic search. All that no solution dominates is kept beside the population and is the
//! [`front`](super::outcome::Outcome::front) of the answer.

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::front::{crowding, ranks};
use super::genome::{Decoder, Genome, Wish};
use super::manual::{Page, Range, parameter};
use super::problem::{Key128, Problem};
use super::score::Score;
use super::stream::Stream;
use super::vary::{Operator, Selector, vary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of NSGA-II.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pareto {
    /// Members; fewer where the budget is below twenty generations.
    pub population: usize,
    /// Generations that bring no new best after which half of the members are drawn anew.
    pub patience: u64,
}

impl Default for Pareto {
    fn default() -> Self {
        Self { population: 60, patience: 40 }
    }
}

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "breeds the trade-off between the objective and the problem's other measures (NSGA-II)",
    source: "Deb et al. 2002",
    when: "To see what less memory, or less money where devices have prices, would cost in time. (On all of one cluster money \
           follows time.) For the objective alone genetic search is better: this one spreads its evaluations along the whole \
           front.",
    presets: &[],
    parameters: &[
        parameter("population", "members; fewer where the budget is below twenty generations", "Deb et al. 2002: 100")
            .within(Range::Whole(12, 200)),
        parameter("patience", "generations without a new best before half are drawn anew", "this engine")
            .within(Range::Whole(10, 150)),
    ],
};

/// Attempts at a child that has not been priced yet.
const ATTEMPTS: usize = 8;

struct Member<S> {
    genome: Genome,
    solution: S,
    key: Key128,
    score: Score,
    measures: Vec<f64>,
    rank: usize,
    distance: f64,
    /// The operator that made it, and its parent's score.
    made_by: Option<(usize, Score)>,
}

struct Search<'p, P: Problem> {
    problem: &'p P,
    decoder: Decoder<'p, P>,
    selector: Selector,
    members: Vec<Member<P::Solution>>,
}

type Made<S> = (Genome, S, Option<(usize, Score)>);

impl<P: Problem> Search<'_, P> {
    fn tournament(&self, stream: &mut Stream) -> &Member<P::Solution> {
        let (a, b) = (stream.index(self.members.len()), stream.index(self.members.len()));
        let (a, b) = (&self.members[a], &self.members[b]);
        let by = a.rank.cmp(&b.rank).then(b.distance.total_cmp(&a.distance)).then(a.key.cmp(&b.key));
        if by.is_le() { a } else { b }
    }

    fn child(&mut self, stream: &mut Stream) -> Result<Made<P::Solution>, f64> {
        if self.members.is_empty() {
            let wish = if stream.chance(0.7) { Wish::Likely } else { Wish::Any };
            return self.decoder.decode(stream, |_, _| wish).map(|(genome, solution)| (genome, solution, None));
        }
        let (number, operator) = self.selector.draw(stream);
        let (genome, solution, score) = {
            let a = self.tournament(stream);
            (a.genome.clone(), a.solution.clone(), a.score)
        };
        let b = self.tournament(stream).genome.clone();
        let made = vary(self.problem, &mut self.decoder, operator, (&genome, &solution), &b, stream)?;
        Ok((made.0, made.1, Some((number, score))))
    }

    /// Makes and prices `n` children, each new if a few attempts find a new one.
    fn brood(
        &mut self,
        n: usize,
        (seed, generation): (u64, u64),
        evaluator: &mut Evaluator<'_, P>,
    ) -> Result<Vec<Member<P::Solution>>, Stop> {
        let (mut asked, mut made) = (BTreeSet::new(), Vec::new());
        for index in 0..n {
            evaluator.poll()?;
            let mut stream = Stream::new(seed, 0, generation, index as u64);
            for _ in 0..ATTEMPTS {
                match self.child(&mut stream) {
                    Ok((genome, solution, made_by)) => {
                        let key = self.problem.key(&solution);
                        if evaluator.seen(key).is_none() && asked.insert(key) {
                            made.push((genome, solution, key, made_by));
                            break;
                        }
                        evaluator.repeated();
                    }
                    Err(violation) => evaluator.dead_end(violation)?,
                }
            }
        }
        let candidates = made.iter().map(|(g, x, ..)| evaluator.candidate(x.clone(), Some(&g.path()))).collect();
        let scores = evaluator.ask(candidates)?;
        let mut children = Vec::with_capacity(made.len());
        for ((genome, solution, key, made_by), score) in made.into_iter().zip(scores) {
            let mut measures: Vec<f64> = score.objective().into_iter().collect();
            if score.is_feasible() {
                measures.extend(self.problem.measures(&solution));
                evaluator.compromise(&solution, score, key, &genome.path(), &measures);
            }
            children.push(Member { genome, solution, key, score, measures, rank: 0, distance: 0.0, made_by });
        }
        Ok(children)
    }

    /// Sorts all into fronts and keeps the better `n`.
    fn select(&mut self, children: Vec<Member<P::Solution>>, n: usize) {
        for child in &children {
            if let Some((operator, parent)) = child.made_by {
                self.selector.credit(operator, child.score < parent);
            }
        }
        self.members.extend(children);
        let ranked = ranks(&self.members.iter().map(|m| (m.score, m.measures.as_slice())).collect::<Vec<_>>());
        self.members.iter_mut().zip(ranked).for_each(|(member, rank)| member.rank = rank);
        self.members.sort_by(|a, b| a.rank.cmp(&b.rank).then((a.score, a.key).cmp(&(b.score, b.key))));
        let mut from = 0;
        while from < self.members.len() {
            let rank = self.members[from].rank;
            let to = from + self.members[from..].iter().take_while(|m| m.rank == rank).count();
            let distances = crowding(&self.members[from..to].iter().map(|m| m.measures.as_slice()).collect::<Vec<_>>());
            self.members[from..to].iter_mut().zip(distances).for_each(|(member, d)| member.distance = d);
            from = to;
        }
        self.members.sort_by(|a, b| {
            let by = a.rank.cmp(&b.rank).then(b.distance.total_cmp(&a.distance));
            by.then((a.score, a.key).cmp(&(b.score, b.key)))
        });
        self.members.truncate(n);
    }
}

impl Pareto {
    fn run<P: Problem>(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Result<Stop, Stop> {
        let affordable = evaluator.remaining().map_or(usize::MAX, |n| (n / 20) as usize);
        let n = self.population.min(affordable).max(4);
        let mut search = Search {
            problem,
            decoder: Decoder::new(problem),
            selector: Selector::new(Operator::all(problem)),
            members: Vec::new(),
        };
        let handed: Vec<_> = evaluator.archive().iter().take(n / 2).cloned().collect();
        let mut stream = Stream::new(seed, 1, 0, 0);
        for entry in handed {
            let made = match &entry.path {
                Some(path) => search.decoder.follow(path),
                None => search.decoder.encode(&entry.solution, &mut stream),
            };
            if let Some((genome, solution)) = made {
                let (key, score) = (problem.key(&solution), entry.score);
                let measures: Vec<f64> = score.objective().into_iter().chain(problem.measures(&solution)).collect();
                let member = Member { genome, solution, key, score, measures, rank: 0, distance: 0.0, made_by: None };
                search.members.push(member);
            }
        }
        let (mut best, mut improved) = (Score::Failed, 0);
        for generation in 0.. {
            if generation - improved > self.patience {
                let mut fresh = std::mem::take(&mut search.members);
                let drawn = search.brood(n / 2, (seed, generation), evaluator)?;
                fresh.truncate(n / 2);
                search.members = fresh;
                search.select(drawn, n);
                improved = generation;
                continue;
            }
            let children = search.brood(n, (seed, generation), evaluator)?;
            search.select(children, n);
            if let Some(first) = search.members.iter().map(|member| member.score).min()
                && first < best
            {
                (best, improved) = (first, generation);
            }
        }
        Ok(Stop::Exhausted)
    }
}

impl<P: Problem> Backend<P> for Pareto {
    fn name(&self) -> &'static str {
        "pareto"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        self.run(problem, seed, evaluator).unwrap_or_else(|stop| stop)
    }
}
