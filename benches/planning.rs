//! Speed of planning: prices of plans, whole questions, and how work grows with layers and devices.

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use espalier::cluster::instances;
use espalier::cost::CostOptions;
use espalier::job::Job;
use espalier::model::{import, presets};
use espalier::question::{Question, SearchOptions};
use espalier::space::fast::Choice;
use espalier::space::planner::{Inputs, Watch, plan};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

fn llama_70b() -> Option<Inputs> {
    Some(Inputs {
        model: presets::find("llama3-70b").ok()?,
        cluster: instances::cluster("h100x8:8").ok()?,
        job: Job::new(1024, 8192),
        search: SearchOptions::default(),
        cost: CostOptions::default(),
    })
}

/// Layers of one class, alike in everything but their number, on a node of eight.
fn like_layers(layers: u32, hidden: u32, machine: &str, batch: u64) -> Option<Inputs> {
    let config = format!(
        r#"{{"model_type": "llama", "hidden_size": {hidden}, "intermediate_size": {}, "num_hidden_layers": {layers},
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}}"#,
        hidden * 7 / 2
    );
    Some(Inputs {
        model: import::from_json("layers", &config, None).ok()?,
        cluster: instances::cluster(machine).ok()?,
        job: Job::new(batch, 2048),
        search: SearchOptions { target_gap: Some(0.05), ..SearchOptions::default() },
        cost: CostOptions::default(),
    })
}

/// 80 layers on four stages, every layer with another strategy than its neighbour.
fn prices(c: &mut Criterion) {
    let Some(inputs) = llama_70b() else { return };
    let mut group = c.benchmark_group("price of an 80-layer plan");
    group.throughput(Throughput::Elements(1));
    let ran = inputs.with_space(|space| {
        let task = space.tasks.iter().position(|t| t.pipeline == 4 && t.micro_batches == 512 && t.chunks == 1);
        let Some((task, frame)) = task.and_then(|t| Some((t, space.fast(t)?))) else { return };
        let parts = &space.estimator.spine.parts;
        let of = |part: usize| frame.table().classes[parts[part] as usize].options.len();
        let options: Vec<u16> = (0..parts.len()).map(|i| (i * 7 % of(i)) as u16).collect();
        let sizes = [21u32, 21, 20, 20];
        let choice = Choice { task: task as u32, sizes: sizes.into(), options: options.clone().into() };
        group.bench_function("closed form from the table", |b| {
            b.iter(|| frame.price(black_box(&sizes), black_box(&options)))
        });
        let mesh = space.frame(task);
        group.bench_function("closed form, every layer priced afresh", |b| {
            b.iter(|| {
                let strategies = |i: usize| frame.table().classes[parts[i] as usize].strategies[options[i] as usize];
                let price = |i| space.estimator.pricer.price(space.estimator.spine.class_of(i), &strategies(i), mesh);
                let work: f64 = (0..parts.len()).map(|i| price(i).forward.total().0).sum();
                work + frame.price(black_box(&sizes), black_box(&options)).0
            })
        });
        let plan = space.plan_of(&choice);
        group.bench_function("exact simulation, 512 micro-batches", |b| {
            b.iter(|| space.estimator.estimate(black_box(&plan)).map(|e| e.iteration_time_s))
        });
    });
    if let Err(e) = ran {
        eprintln!("{e}");
    }
    group.finish();
}

fn named(stem: &str) -> Option<Inputs> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("search_configs/{stem}.ron"));
    let question = Question::load(&file).ok()?;
    let (model, cluster) = question.resolve().ok()?;
    let Question { job, search, .. } = question;
    Some(Inputs { model, cluster, job, search, cost: CostOptions::default() })
}

fn questions(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(10));
    for stem in ["four_devices", "llama2_13b_16xa100_40", "qwen3_30b_a3b_64xh100", "llama3_70b_64xh100"] {
        let Some(inputs) = named(stem) else { continue };
        if let Ok(answer) = plan(&inputs, Watch::default()) {
            let first = answer.search.first_plan_s.unwrap_or(f64::NAN);
            eprintln!(
                "{stem}: first plan after {:.1} ms, answer {:.3} s per step, gap {:?}",
                1e3 * first,
                answer.estimate.iteration_time_s,
                answer.bound.map(|b| b.gap)
            );
        }
        group.bench_function(stem, |b| b.iter(|| plan(black_box(&inputs), Watch::default()).is_ok()));
    }
    group.finish();
}

fn growth(c: &mut Criterion) {
    let mut group = c.benchmark_group("growth");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(10));
    for (name, layers, hidden, machine, batch) in [
        ("12 layers on 8 devices", 12, 1024, "h100x8", 32),
        ("768 layers on 8 devices", 768, 1024, "h100x8", 32),
        ("1,024 layers on 4,096 devices", 1024, 8192, "h100x8:512", 4096),
    ] {
        let Some(inputs) = like_layers(layers, hidden, machine, batch) else { continue };
        group.bench_function(name, |b| {
            b.iter_batched(|| inputs.clone(), |i| plan(&i, Watch::default()).is_ok(), BatchSize::PerIteration)
        });
    }
    group.finish();
}

criterion_group!(benches, prices, questions, growth);
criterion_main!(benches);
