//! Speed of the pipeline room per action, decode and bound. Targets: 10 ns per action of a fixed schedule, 7 ns per
//! action of an explicit order, 3 to 60 microseconds per decoded policy.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use espalier::pipeline::bounds::{Backward, bounds};
use espalier::pipeline::decode::{Decoder, StagePolicy};
use espalier::pipeline::evaluate::Evaluator;
use espalier::pipeline::timing::{Kind, Simulator, StageTimes, lower_bound};
use espalier::pipeline::{Costs, Placement};
use std::hint::black_box;

fn fixed(c: &mut Criterion) {
    let mut group = c.benchmark_group("fixed schedules");
    for (name, kind, p, v, m) in [
        ("1f1b p8 m32", Kind::OneF1B, 8, 1, 32),
        ("1f1b p16 m256", Kind::OneF1B, 16, 1, 256),
        ("gpipe p8 m32", Kind::Gpipe, 8, 1, 32),
        ("interleaved p8 v4 m32", Kind::Interleaved { group: 8 }, 8, 4, 32),
        ("interleaved p8 v2 m4", Kind::Interleaved { group: 8 }, 8, 2, 4),
    ] {
        let mut times = StageTimes::uniform(p * v, 1.0, 2.0);
        for x in 0..p * v {
            times.forward[x] += 0.01 * (x % 5) as f64;
            times.backward[x] += 0.02 * (x % 3) as f64;
        }
        times.hop_forward.fill(0.05);
        times.hop_backward.fill(0.05);
        let mut simulator = Simulator::default();
        group.throughput(Throughput::Elements((2 * p * v * m) as u64));
        group.bench_function(name, |b| b.iter(|| simulator.run(kind, p, v, m, black_box(&times)).map(|t| t.makespan)));
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("bound {name}"), |b| b.iter(|| lower_bound(kind, p, v, m, black_box(&times))));
    }
}

fn free(c: &mut Criterion) {
    let mut group = c.benchmark_group("any order");
    for (p, v, m) in [(4, 1, 8), (4, 2, 8), (8, 2, 16), (8, 2, 32)] {
        let placement = if v == 2 { Placement::vee(p) } else { Placement::looped(p, v) };
        let costs = Costs::table(&placement, &[], 1.0, 1.2, 0.8, 0.1).with_limit(p as f64);
        let Ok(mut decoder) = Decoder::new(&placement, &[], &costs, m, Backward::Split) else { continue };
        let policy = vec![StagePolicy::default(); placement.stages()];
        let ops = 3 * p * v * m;
        group.throughput(Throughput::Elements(ops as u64));
        group.bench_function(format!("decode {ops} actions"), |b| b.iter(|| decoder.decode(black_box(&policy))));
        let Ok(mut evaluator) = Evaluator::new(&placement, &[], &costs, m, Backward::Split) else { continue };
        let Some(order) = evaluator.order_of(&decoder.schedule("bench")) else { continue };
        group.bench_function(format!("evaluate {ops} actions"), |b| b.iter(|| evaluator.evaluate(black_box(&order))));
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("bound {ops} actions"), |b| {
            b.iter(|| bounds(black_box(&placement), &[], &costs, m, Backward::Split))
        });
    }
}

criterion_group!(benches, fixed, free);
criterion_main!(benches);
