//! What backends add to an evaluation (timed as a whole, less what the problem's own functions take as often as they are called),
//! how evaluations scale over threads, and what two backends save by sharing a cache.
//!
//! `cargo bench --bench search`. Prints tables; nothing is asserted, as clocks are the machine's.

use espalier::memo::Cache;
use espalier::search::anneal::Anneal;
use espalier::search::backend::Backend;
use espalier::search::budget::{Budget, Stop};
use espalier::search::evaluator::{Candidate, Evaluator};
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use espalier::search::problems::{ChainPlan, ChainShape, LayerChain};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::search::score::Score;
use espalier::search::stream::Stream;
use rayon::prelude::*;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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

/// Counts what a problem is asked.
struct Asked {
    chain: LayerChain,
    times: [AtomicU64; 9],
}

impl Asked {
    fn new(chain: LayerChain) -> Self {
        Self { chain, times: Default::default() }
    }

    fn count(&self, what: usize) -> &LayerChain {
        self.times[what].fetch_add(1, Ordering::Relaxed);
        &self.chain
    }
}

impl Problem for Asked {
    type State = <LayerChain as Problem>::State;
    type Solution = <LayerChain as Problem>::Solution;

    fn root(&self) -> Self::State {
        self.chain.root()
    }
    fn node(&self, s: &Self::State) -> Node {
        self.count(0).node(s)
    }
    fn allele(&self, s: &Self::State, option: u32) -> Allele {
        self.count(1).allele(s, option)
    }
    fn nearest(&self, s: &Self::State, wanted: Allele) -> u32 {
        self.count(2).nearest(s, wanted)
    }
    fn prior(&self, s: &Self::State, out: &mut [f32]) {
        self.count(3).prior(s, out);
    }
    fn push(&self, s: &mut Self::State, option: u32) {
        self.count(4).push(s, option);
    }
    fn pop(&self, s: &mut Self::State) {
        self.chain.pop(s);
    }
    fn bound(&self, s: &Self::State) -> Bound {
        self.count(5).bound(s)
    }
    fn solution(&self, s: &Self::State) -> Self::Solution {
        self.count(6).solution(s)
    }
    fn key(&self, x: &Self::Solution) -> Key128 {
        self.count(7).key(x)
    }
    fn score(&self, x: &Self::Solution, fidelity: Fidelity) -> Score {
        self.count(8).score(x, fidelity)
    }
    fn moves(&self) -> Option<&dyn Moves<Solution = Self::Solution>> {
        self.chain.moves()
    }
}

/// Nanoseconds of `work` with each number below `count`, the least of several rounds.
fn nanoseconds(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let rounds = (0..30).map(|_| {
        let begun = Instant::now();
        (0..count).for_each(&mut work);
        begun.elapsed().as_secs_f64() * 1e9 / count as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of each question that [`Asked`] counts (a push with its pop), on average over prefixes of paths by chance.
fn costs(chain: &LayerChain) -> [f64; 9] {
    let (mut prefixes, mut ends) = (Vec::new(), Vec::new());
    for seed in 0..64 {
        let (mut stream, mut state) = (Stream::new(seed, 0, 0, 0), chain.root());
        while let Node::Choose { options, .. } = chain.node(&state) {
            prefixes.push(state.clone());
            chain.push(&mut state, stream.index(options as usize) as u32);
        }
        ends.push(state);
    }
    let solutions: Vec<_> = ends.iter().map(|end| chain.solution(end)).collect();
    let (n, e) = (prefixes.len(), ends.len());
    let mut weights = [0.0f32; 64];
    let mut owned = prefixes.clone();
    let width = |i: usize| match chain.node(&prefixes[i]) {
        Node::Choose { options, .. } => options as usize,
        _ => 0,
    };
    let widths: Vec<usize> = (0..n).map(width).collect();
    let push = |i: usize| {
        let state = &mut owned[i];
        chain.push(state, 0);
        chain.pop(black_box(state));
    };
    [
        nanoseconds(n, |i| _ = black_box(chain.node(&prefixes[i]))),
        nanoseconds(n, |i| _ = black_box(chain.allele(&prefixes[i], 0))),
        nanoseconds(n, |i| _ = black_box(chain.nearest(&prefixes[i], 3))),
        nanoseconds(n, |i| chain.prior(&prefixes[i], black_box(&mut weights[..widths[i]]))),
        nanoseconds(n, push),
        nanoseconds(n, |i| _ = black_box(chain.bound(&prefixes[i]))),
        nanoseconds(e, |i| _ = black_box(chain.solution(&ends[i]))),
        nanoseconds(e, |i| _ = black_box(chain.key(&solutions[i]))),
        nanoseconds(e, |i| _ = black_box(chain.score(&solutions[i], Fidelity::Exact))),
    ]
}

/// Asks for solutions that were made beforehand: what asking takes by itself.
struct Replay(Mutex<Vec<Vec<Candidate<ChainPlan>>>>);

impl Replay {
    /// So many different solutions, in batches of the size of a generation.
    fn of(chain: &LayerChain, count: usize) -> Self {
        let mut state = chain.root();
        let mut made = Vec::with_capacity(count);
        for seed in 0..count as u64 {
            let (mut stream, mut path) = (Stream::new(seed, 1, 0, 0), Vec::new());
            while let Node::Choose { options, .. } = chain.node(&state) {
                path.push(stream.index(options as usize) as u32);
                chain.push(&mut state, path[path.len() - 1]);
            }
            let solution = chain.solution(&state);
            made.push(Candidate { key: chain.key(&solution), solution, path: Some(path.as_slice().into()) });
            path.iter().for_each(|_| chain.pop(&mut state));
        }
        Self(Mutex::new(made.chunks(56).map(<[_]>::to_vec).collect()))
    }
}

impl Backend<LayerChain> for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn identity(&self) -> String {
        "replay".into()
    }

    fn search(&self, _: &LayerChain, _: u64, evaluator: &mut Evaluator<'_, LayerChain>) -> Stop {
        while let Some(batch) = self.0.lock().ok().and_then(|mut left| left.pop()) {
            if let Err(stop) = evaluator.ask(batch) {
                return stop;
            }
        }
        Stop::Exhausted
    }
}

/// Microseconds per evaluation of asking alone: the ledger of what was asked, the batch, the archive of the best, the trace.
fn asking(items: usize, segments: usize, evaluations: u64) -> f64 {
    let problem = chain(items, segments);
    let times = (0..5).map(|_| {
        let replay = Replay::of(&problem, evaluations as usize);
        let outcome = solve(&problem, &replay, Request::new(1, Budget::evaluations(evaluations))).unwrap();
        outcome.wall_s * 1e6 / outcome.counters.evaluations as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Microseconds per evaluation: all, the evaluation itself, what else the problem is asked (walks, bounds, priors, keys), and the
/// rest, which is the engine's.
fn overhead(items: usize, segments: usize, evaluations: u64) {
    let problem = chain(items, segments);
    let costs = costs(&problem);
    let price = costs[8] * 1e-3;
    let asking = asking(items, segments, evaluations) - price;
    println!("{items} layers: {price:.2} us for the price of a plan, {asking:.2} us to ask for it and write it down");
    println!("{:16} {:>8} {:>8} {:>8} {:>8}", "", "in all", "price", "problem", "engine");
    for (name, backend) in backends::<LayerChain>() {
        let all = seconds(&problem, &*backend, evaluations) * 1e6;
        let asked = Asked::new(problem.clone());
        let (_, backend) = backends::<Asked>().into_iter().find(|(other, _)| *other == name).unwrap();
        let outcome = solve(&asked, &*backend, Request::new(1, Budget::evaluations(evaluations))).unwrap();
        let times = asked.times.iter().map(|times| times.load(Ordering::Relaxed) as f64);
        let each: Vec<f64> = times.zip(costs).map(|(times, cost)| times * cost * 1e-3).collect();
        let per = |sum: f64| sum / outcome.counters.evaluations as f64;
        let (price, asked) = (per(each[8]), per(each[..8].iter().sum()));
        println!("{name:16} {all:8.2} {price:8.2} {asked:8.2} {:8.2}", all - price - asked);
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

/// Seconds per evaluation where there is nothing but evaluations, all of them known beforehand: what two threads are worth on this
/// machine at this moment.
fn alone(pool: &rayon::ThreadPool, micros: u64) -> f64 {
    let problem = Slow { chain: chain(24, 2), work: Duration::from_micros(micros) };
    let mut sampler = problem.root();
    while let Node::Choose { .. } = problem.node(&sampler) {
        problem.push(&mut sampler, 0);
    }
    let plans = vec![problem.solution(&sampler); (400_000 / micros) as usize];
    let times = (0..3).map(|_| {
        let begun = Instant::now();
        pool.install(|| plans.par_iter().for_each(|plan| _ = black_box(problem.score(plan, Fidelity::Exact))));
        begun.elapsed().as_secs_f64() / plans.len() as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn backends<P: Problem>() -> [(&'static str, Box<dyn Backend<P>>); 6] {
    [
        ("random", Box::new(Random::default())),
        ("anneal", Box::new(Anneal::default())),
        ("genetic", Box::new(Genetic::default())),
        ("genetic.plain", Box::new(Genetic { drafts: 1, ..Genetic::default() })),
        ("mcts", Box::new(Mcts::default())),
        ("mcts.plain", Box::new(Mcts { drafts: 1, polish: 0.0, ..Mcts::default() })),
    ]
}

fn main() {
    println!("microseconds per evaluation, one thread");
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| {
        overhead(24, 2, 20_000);
        overhead(24, 2, 200_000);
    });

    println!("\nevaluations per second of two threads over those of one, by microseconds of an evaluation");
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let control = [20, 200, 1_000].map(|micros| alone(&one, micros) / alone(&two, micros));
    println!("{:16} 20: {:.2}   200: {:.2}   1000: {:.2}", "(no engine)", control[0], control[1], control[2]);
    for (name, backend) in backends::<Slow>() {
        let ratios = [20, 200, 1_000].map(|micros| {
            let problem = Slow { chain: chain(24, 2), work: Duration::from_micros(micros) };
            let evaluations = 400_000 / micros;
            let of = |pool: &rayon::ThreadPool| pool.install(|| seconds(&problem, &*backend, evaluations));
            of(&one) / of(&two)
        });
        println!("{name:16} 20: {:.2}   200: {:.2}   1000: {:.2}", ratios[0], ratios[1], ratios[2]);
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
