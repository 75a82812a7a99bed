use espalier::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t0 = std::time::Instant::now();
    let model = model::import::from_path(std::path::Path::new(&a[1]), None).unwrap();
    let cluster = cluster::instances::cluster(&a[2]).unwrap();
    let mut job = job::Job {
        global_batch: a[3].parse().unwrap(),
        sequence: a[4].parse().unwrap(),
        encoder_sequence: None,
        vision_tokens: None,
        precision: job::Precision::Bf16,
        gradients: job::Storage::Fp32,
        moments: job::Storage::Fp32,
        optimizer: job::Optimizer::Adam,
        memory_limit: None,
        tokens: None,
        mtp: false,
        expert_imbalance: 1.0,
    };
    if a.len() > 5 && a[5] == "fp8" {
        job.precision = job::Precision::Fp8;
    }
    let spine = plan::Spine::new(&model, &job);
    let est = estimate::Estimator::new(&model, &spine, &cluster.pools[0], &job, cost::CostOptions::default());
    let allowed = |_: &plan::LayerStrategy, _: bool, _: cost::Mesh| true;
    let mut sp = space::LayerwiseSpace::new(est, &allowed, &|_| true);
    println!("tasks {} size 10^{:.1} {:?}", sp.tasks.len(), sp.size_log10(), t0.elapsed());
    let uni = space::uniform::best(&sp, 32, &|| false);
    println!("uniform {:?}", t0.elapsed());
    for u in uni.iter().take(6) {
        let k = &sp.tasks[u.task];
        println!("  {:.3} pp{} v{} m{} {} ", u.objective, k.pipeline, k.chunks, k.micro_batches, u.strategy);
    }
    let seeds = space::uniform::seeds(&sp, &uni);
    sp.set_seeds(seeds);
    let set = search::exact::ExactSettings { target_gap: 0.002, ..Default::default() };
    let out = search::exact::solve(&sp, &set, &|| false, &mut |b, l| eprintln!("{:?} {b:?} {l:.4}", t0.elapsed()));
    println!(
        "{:?} tasks {} relaxed {} solved {} ext {} bound {:.4}",
        t0.elapsed(),
        out.tasks,
        out.relaxed,
        out.solved,
        out.extensions,
        out.bound
    );
    if let Some((t, s)) = &out.best {
        use search::decompose::Decompose;
        let plan = sp.assemble(*t, s);
        println!("best {:.4} task {:?}", s.objective, sp.tasks[*t]);
        for (x, c) in plan.chunks.iter().enumerate() {
            println!(
                "  chunk {x}: {}",
                c.runs.iter().map(|r| format!("{}x[{}]", r.count, r.strategy)).collect::<Vec<_>>().join(" | ")
            );
        }
        let e = sp.estimator.estimate(&plan).unwrap();
        println!(
            "sim {:.4} closed {:.4} tok/s/gpu {:.1} mfu {:.3} fits {} peak {:.1}",
            e.iteration_time_s,
            e.closed_form_s,
            e.tokens_per_s_per_device,
            e.mfu,
            e.fits,
            e.peak_memory_bytes / 1e9
        );
        for s in &e.stages {
            println!("   {:?}\n   {:?}", s.time, s.memory);
        }
    }
}
