//! See the test names.

mod planning;
use espalier::job::Precision;
use espalier::plan::{LayerStrategy, Recompute};
use espalier::space::planner::{Inputs, Watch, plan};
use planning::*;

fn show(name: &str, inputs: &Inputs, p: &espalier::plan::Plan) {
    match try_price(inputs, p) {
        Ok(e) => {
            println!(
                "{name}: {:.3} s closed {:.3} tok/s/gpu {:.0} peak {:.2} GB fits {} usable {:.2} mfu {:.3} bubble {:.5} m {}",
                e.iteration_time_s,
                e.closed_form_s,
                e.tokens_per_s_per_device,
                e.peak_memory_bytes / 1e9,
                e.fits,
                e.usable_memory_bytes / 1e9,
                e.mfu,
                e.bubble,
                p.micro_batches
            );
            let s = &e.stages[0];
            println!("   stage0 {:?}\n   {:?} margin {:.3}", s.time, s.memory, s.margin);
            let s = e.stages.last().unwrap();
            println!("   last {:?} {:?}", s.time, s.memory);
        }
        Err(e) => println!("{name}: {e}"),
    }
}

fn run(name: &str, inputs: &Inputs) {
    let t = std::time::Instant::now();
    match plan(inputs, Watch::default()) {
        Ok(a) => {
            println!(
                "BEST {name}: {:.3} s in {:.1} s peak {:.2} pp{} v{} m{} bound {:?} space 1e{:.0} stop {:?}",
                a.estimate.iteration_time_s,
                t.elapsed().as_secs_f64(),
                a.estimate.peak_memory_bytes / 1e9,
                a.plan.pipeline,
                a.plan.chunks_per_stage,
                a.plan.micro_batches,
                a.bound,
                a.space_size_log10,
                a.search.stop_reason
            );
            for (i, c) in a.plan.chunks.iter().enumerate().take(3) {
                for r in &c.runs {
                    println!("   chunk {i} {}x{}", r.strategy, r.count);
                }
            }
            if let Some(c) = a.plan.chunks.last() {
                for r in &c.runs {
                    println!("   last chunk {}x{}", r.strategy, r.count);
                }
            }
            println!("   tok/s/gpu {:.0}", a.estimate.tokens_per_s_per_device);
            if let Some(u) = &a.uniform {
                println!(
                    "   uniform {:.3} {:?}",
                    u.estimate.iteration_time_s,
                    u.plan.chunks[0].runs.last().unwrap().strategy.to_string()
                );
                println!("   uniform pp{} v{} m{}", u.plan.pipeline, u.plan.chunks_per_stage, u.plan.micro_batches);
            }
            for alt in &a.alternatives {
                println!(
                    "   alt {:.3} near {} pp{} v{} m{} {} {}",
                    alt.estimate.iteration_time_s,
                    alt.near_tie,
                    alt.plan.pipeline,
                    alt.plan.chunks_per_stage,
                    alt.plan.micro_batches,
                    alt.plan.chunks[0].runs.last().unwrap().strategy,
                    alt.gives_up
                );
            }
            for r in &a.reasons {
                println!("   {}: {}", r.dimension, r.reason);
            }
        }
        Err(e) => println!("BEST {name}: error {e}"),
    }
}

#[test]
fn llama70() {
    let mut q = named("llama3_70b_64xh100");
    let r = Recipe::even(&q, strategy(4, 2, 1), 4, 5, 1);
    show("ref 1024", &q, &r.plan(&q));
    let r8 = Recipe::even(&q, strategy(4, 1, 1), 8, 5, 1);
    show("tp4pp8cp1vp5 1024", &q, &r8.plan(&q));
    run("70b", &q);
    q.job.global_batch = 128;
    show("ref 128", &q, &Recipe::even(&q, strategy(4, 2, 1), 4, 5, 1).plan(&q));
    let mut f = q.clone();
    f.job.precision = Precision::Fp8;
    show("fp8 128 tp4pp8vp5", &f, &r8.plan(&f));
    show("fp8 128 tp4pp4cp2vp5", &f, &r.plan(&f));
    let mut big = q.clone();
    big.cluster = machines("h100x8:16");
    for rec in [Recompute::None, Recompute::Selective, Recompute::Full] {
        let fsdp = LayerStrategy { zero: 3, recompute: rec, ..strategy(1, 1, 1) };
        for mb in [1, 2, 3, 4] {
            big.job.global_batch = 128 * mb;
            show(&format!("fsdp 128 gpus mbs {mb} {rec:?}"), &big, &Recipe::even(&big, fsdp, 1, 1, mb).plan(&big));
        }
    }
}

#[test]
fn qwen() {
    let q = named("qwen3_30b_a3b_64xh100");
    for (name, ep, pp, v, zero) in [
        ("ep16", 16, 1, 1, 1),
        ("ep8", 8, 1, 1, 1),
        ("pp4ep8 hsdp", 8, 4, 1, 1),
        ("pp4ep8 fsdp", 8, 4, 1, 3),
        ("pp4ep8v", 8, 4, 4, 1),
    ] {
        for mbs in [1, 2] {
            show(
                &format!("{name} mbs{mbs}"),
                &q,
                &Recipe::even(&q, LayerStrategy { zero, ..strategy(1, 1, ep) }, pp, v, mbs).plan(&q),
            );
        }
    }
    let mut one = q.clone();
    one.cluster = machines("h100x8:1");
    show("1 node ep8", &one, &Recipe::even(&one, strategy(1, 1, 8), 1, 1, 1).plan(&one));
    let mut two = q.clone();
    two.cluster = machines("h100x8:2");
    show("2 nodes ep16", &two, &Recipe::even(&two, strategy(1, 1, 16), 1, 1, 1).plan(&two));
    run("qwen", &q);
}

#[test]
fn llama405() {
    let mut q = named("llama31_405b_16384xh100");
    let mut r = Recipe::even(&q, strategy(8, 1, 1), 16, 1, 1);
    r.split = [7].into_iter().chain([8; 14]).chain([7]).collect();
    show("405 tp8pp16", &q, &r.plan(&q));
    run("405b", &q);
    q.cluster = machines("h100x8:1024");
    show("405 8192", &q, &r.plan(&q));
    q.cluster = machines("h100x8:128");
    q.job.global_batch = 512;
    let mut r = Recipe::even(&q, strategy(8, 2, 1), 8, 8, 1);
    r.split = [1].into_iter().chain([2; 62]).chain([1]).collect();
    show("405 tp8pp8cp2vp8 1024", &q, &r.plan(&q));
    let mut q = named("llama31_405b_16384xh100");
    q.job.sequence = 131072;
    q.job.global_batch = 128;
    let mut r = Recipe::even(&q, strategy(8, 16, 1), 16, 1, 1);
    r.split = [7].into_iter().chain([8; 14]).chain([7]).collect();
    show("405 128k tp8 cp16 pp16", &q, &r.plan(&q));
}

#[test]
fn deepseek() {
    let q = named("deepseek_v3_2048xh800");
    let mut r = Recipe::even(&q, strategy(1, 1, 64), 16, 1, 1);
    r.split = vec![4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1];
    for mbs in [1, 2, 4] {
        r.micro_batch = mbs;
        show(&format!("ds pp16 ep64 mbs{mbs}"), &q, &r.plan(&q));
        let mut s = r.clone();
        s.layers.recompute = Recompute::Selective;
        show(&format!("ds pp16 ep64 sel mbs{mbs}"), &q, &s.plan(&q));
    }
    let mut h = q.clone();
    h.cluster = machines("h100x8:128");
    h.job.global_batch = 8192;
    let mut r = Recipe::even(&h, LayerStrategy { recompute: Recompute::Selective, ..strategy(2, 1, 64) }, 8, 4, 1);
    r.split = [1].into_iter().chain([2; 30]).chain([0]).collect();
    show("ds mega tp2pp8vp4ep64", &h, &r.plan(&h));
    run("ds", &q);
}

#[test]
fn four() {
    let mut q = named("four_devices");
    for m in [4, 8, 16, 64] {
        q.job.global_batch = m;
        run(&format!("four m={m}"), &q);
    }
}
