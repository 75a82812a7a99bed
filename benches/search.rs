//! What backends add to an evaluation, how evaluations scale over threads, and what two backends save by sharing a cache.
//!
//! `cargo bench --bench search`. Prints tables; nothing is asserted, as clocks are the machine's.

use espalier::memo::Cache;
use espalier::search::anneal::Anneal;
use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use espalier::search::problems::{ChainShape, LayerChain};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::search::score::Score;
use std::time::{Duration, Instant};

/// A chain whose evaluations take at least `work`.
struct Slow {
    chain: LayerChain,
    work: Duration,
}

impl Problem for Slow {
    type State = <LayerChain as Problem>::State;
    type Solution = <LayerChain as Problem>::Solution;

    fn root(&self) -> Self::State {
        self.chain.root()
    }
    fn node(&self, s: &Self::State) -> Node {
        self.chain.node(s)
    }
    fn allele(&self, s: &Self::State, option: u32) -> Allele {
        self.chain.allele(s, option)
    }
    fn nearest(&self, s: &Self::State, wanted: Allele) -> u32 {
        self.chain.nearest(s, wanted)
    }
    fn prior(&self, s: &Self::State, out: &mut [f32]) {
        self.chain.prior(s, out);
    }
    fn push(&self, s: &mut Self::State, option: u32) {
        self.chain.push(s, option);
    }
    fn pop(&self, s: &mut Self::State) {
        self.chain.pop(s);
    }
    fn bound(&self, s: &Self::State) -> Bound {
        self.chain.bound(s)
    }
    fn solution(&self, s: &Self::State) -> Self::Solution {
        self.chain.solution(s)
    }
    fn key(&self, x: &Self::Solution) -> Key128 {
        self.chain.key(x)
    }
    fn score(&self, x: &Self::Solution, fidelity: Fidelity) -> Score {
        let begun = Instant::now();
        let score = self.chain.score(x, fidelity);
        while begun.elapsed() < self.work {
            std::hint::spin_loop();
        }
        score
    }
    fn moves(&self) -> Option<&dyn Moves<Solution = Self::Solution>> {
        self.chain.moves()
    }
}

fn chain(items: usize, segments: usize) -> LayerChain {
    LayerChain::random(ChainShape { items, options: 8, segments, rounds: 8, tightness: 0.4 }, 1)
}

fn seconds<P: Problem>(problem: &P, backend: &dyn Backend<P>, evaluations: u64) -> f64 {
    let times = (0..3).map(|_| {
        let outcome = solve(problem, backend, Request::new(1, Budget::evaluations(evaluations))).unwrap();
        outcome.wall_s / outcome.counters.evaluations as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn backends<P: Problem>() -> [(&'static str, Box<dyn Backend<P>>); 4] {
    [
        ("random", Box::new(Random::default())),
        ("anneal", Box::new(Anneal::default())),
        ("genetic", Box::new(Genetic::default())),
        ("mcts", Box::new(Mcts::default())),
    ]
}

fn main() {
    println!(
        "microseconds per evaluation in all, of 24 layers, and of 4 layers (the engine is most of it), one thread"
    );
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (name, backend) in backends::<LayerChain>() {
        let [long, short] = [(24, 2), (4, 1)].map(|(items, segments)| {
            let problem = chain(items, segments);
            one.install(|| seconds(&problem, &*backend, if items > 4 { 20_000 } else { 2_000 })) * 1e6
        });
        println!("{name:10} {long:8.2} {short:8.2}");
    }

    println!("\nevaluations per second of two threads over those of one, by microseconds of an evaluation");
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for (name, backend) in backends::<Slow>() {
        let ratios = [20, 200, 1_000].map(|micros| {
            let problem = Slow { chain: chain(24, 2), work: Duration::from_micros(micros) };
            let evaluations = 400_000 / micros;
            let of = |pool: &rayon::ThreadPool| pool.install(|| seconds(&problem, &*backend, evaluations));
            of(&one) / of(&two)
        });
        println!("{name:10} 20: {:.2}   200: {:.2}   1000: {:.2}", ratios[0], ratios[1], ratios[2]);
    }

    println!("\nevaluations that genetic search takes from the cache that tree search has filled, of 5 000, by layers");
    for items in [6, 8, 12, 24] {
        let (problem, cache) = (chain(items, 2), Cache::<Score>::default());
        let run = |backend: &dyn Backend<LayerChain>| {
            let request = Request { cache: Some(&cache), ..Request::new(1, Budget::evaluations(5_000)) };
            solve(&problem, backend, request).unwrap().counters
        };
        run(&Mcts::default());
        let counters = run(&Genetic::default());
        println!("{items:10} {} of {}", counters.cache_hits, counters.evaluations);
    }
}
