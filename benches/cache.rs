//! The hit path of the cache, and what the evaluator adds to bare evaluations, as a ratio.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use espalier::memo::Cache;
use espalier::search::budget::Budget;
use espalier::search::problem::{Fidelity, Problem};
use espalier::search::problems::{ChainShape, LayerChain};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::search::stream::Stream;
use std::hint::black_box;

/// Uniform keys, as hashes are.
fn keys(n: usize) -> Vec<u128> {
    let mut stream = Stream::new(1, 0, 0, 0);
    (0..n).map(|_| u128::from(stream.word()) << 64 | u128::from(stream.word())).collect()
}

fn cache(c: &mut Criterion) {
    let keys = keys(100_000);
    let full = Cache::default();
    for key in &keys {
        full.insert(*key, 1.0f64);
    }
    let mut group = c.benchmark_group("cache");
    group.throughput(Throughput::Elements(keys.len() as u64));
    group.bench_function("hit, 100 000 keys", |b| {
        b.iter(|| keys.iter().filter_map(|key| full.get(black_box(*key))).sum::<f64>());
    });
    group.bench_function("insert and evict, capacity 10 000", |b| {
        b.iter(|| {
            let small = Cache::new(10_000);
            for key in &keys {
                small.insert(*key, 1.0f64);
            }
            small.len()
        });
    });
    group.finish();
}

fn evaluator(c: &mut Criterion) {
    const EVALUATIONS: u64 = 20_000;
    let shape = ChainShape { items: 12, options: 8, segments: 4, rounds: 8, tightness: 0.4 };
    let problem = LayerChain::random(shape, 1);
    let request = || Request::new(1, Budget::evaluations(EVALUATIONS));
    let Some(best) = solve(&problem, &Random::default(), request()).ok().and_then(|outcome| outcome.best) else {
        return;
    };
    let mut group = c.benchmark_group("evaluator");
    group.sample_size(10).throughput(Throughput::Elements(EVALUATIONS));
    group.bench_function("bare evaluations", |b| {
        b.iter(|| (0..EVALUATIONS).map(|_| problem.score(black_box(&best.solution), Fidelity::Exact)).max());
    });
    group.bench_function("random search, cold cache", |b| {
        b.iter(|| solve(&problem, &Random::default(), request()).map(|outcome| outcome.counters.evaluations).ok());
    });
    let warm = Cache::default();
    group.bench_function("random search, warm cache", |b| {
        b.iter(|| {
            let request = Request { cache: Some(&warm), ..Request::new(1, Budget::evaluations(EVALUATIONS)) };
            solve(&problem, &Random::default(), request).map(|outcome| outcome.counters.cache_hits).ok()
        });
    });
    group.finish();
}

criterion_group!(benches, cache, evaluator);
criterion_main!(benches);
