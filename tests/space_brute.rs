//! See the test names.

#[path = "planning/brute.rs"]
mod brute;
mod planning;

use espalier::job::Job;
use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::exact::backend::Exact;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::Fidelity;
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::space::LayerwiseSpace;
use espalier::space::planner::Inputs;
use planning::{cluster, config, question};

fn instances() -> Vec<(String, Inputs)> {
    let device = |mem: f64, devices: u64, fast: &str, slow: &str| {
        let links = if devices == 2 {
            format!(r#"(name: "pair", bandwidth: "{fast}", latency: "5us")"#)
        } else {
            format!(
                r#"(name: "pair", devices: 2, bandwidth: "{fast}", latency: "5us"), (name: "net", bandwidth: "{slow}", latency: "10us")"#
            )
        };
        cluster(&format!(
            r#"(pools: [(device: (name: "acc", half: "150TFLOP/s", memory: "{}GB", memory_bandwidth: "1TB/s"), devices_per_node: {devices}, links: [{links}])])"#,
            mem
        ))
    };
    let mut v = vec![];
    let fix = |mut q: Inputs, fix: &[&str], forbid: &[&str]| {
        q.search.fix = fix.iter().map(|s| s.parse().unwrap()).collect();
        q.search.forbid = forbid.iter().map(|s| s.parse().unwrap()).collect();
        q
    };
    let gpt2 = |n: u32, h: u32| {
        config(&format!(
            r#"{{"model_type":"gpt2","n_layer":{n},"n_embd":{h},"n_head":16,"n_positions":2048,"vocab_size":32000}}"#
        ))
    };
    let llama = |n: u32, h: u32, tied: bool| {
        config(&format!(
            r#"{{"model_type":"llama","hidden_size":{h},"intermediate_size":{},"num_hidden_layers":{n},"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":32000,"tie_word_embeddings":{tied}}}"#,
            h * 11 / 4
        ))
    };
    let mixtral = |n: u32| {
        config(&format!(
            r#"{{"model_type":"mixtral","hidden_size":1024,"intermediate_size":3584,"num_hidden_layers":{n},"num_attention_heads":16,"num_key_value_heads":8,"vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2}}"#
        ))
    };
    let sp = ["cp=1", "sp=megatron"];
    for mem in [7.0, 8.0, 9.0, 10.0] {
        v.push((
            format!("gpt2 2dev {mem}"),
            fix(question(gpt2(6, 2048), device(mem, 2, "100GB/s", ""), Job::new(8, 1024)), &sp, &["vpp=2..8"]),
        ));
        v.push((
            format!("gpt2 2dev slow {mem}"),
            fix(question(gpt2(7, 2048), device(mem, 2, "10GB/s", ""), Job::new(8, 1024)), &sp, &["vpp=2..8"]),
        ));
        v.push((
            format!("tied llama 2dev {mem}"),
            fix(question(llama(8, 2048, true), device(mem, 2, "50GB/s", ""), Job::new(4, 2048)), &sp, &["vpp=2..8"]),
        ));
    }
    for mem in [4.5, 6.0] {
        v.push((
            format!("llama 4dev fast {mem}"),
            fix(
                question(llama(6, 2048, false), device(mem, 4, "100GB/s", "100GB/s"), Job::new(8, 1024)),
                &["cp=1", "sp=megatron", "zero=0|1|3"],
                &["vpp=2..8"],
            ),
        ));
        v.push((
            format!("mixtral 4dev {mem}"),
            fix(
                question(mixtral(4), device(mem, 4, "100GB/s", "50GB/s"), Job::new(8, 2048)),
                &["cp=1", "sp=megatron", "etp=1", "zero=1|3"],
                &["vpp=2..8"],
            ),
        ));
    }
    v
}

#[test]
fn scratch() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(4);
    for (name, q) in instances().into_iter().filter(|(n, _)| n.contains(&only)) {
        q.with_space(|space| {
            let (log, most) = brute::paths(&space);
            let t = std::time::Instant::now();
            let c = brute::enumerate(&space, false);
            let tc = t.elapsed().as_secs_f64();
            let b = brute::enumerate(&space, true);
            println!("{name}: paths 1e{log:.1} most {most} tasks {} closed {:.5} (leaves {} {tc:.2}s) simulated {:.5} leaves {} in {:.2}s", space.tasks.len(), c.closed, c.leaves, b.simulated, b.leaves, t.elapsed().as_secs_f64());
            if let Some(p) = &b.plan { println!("   pp{} m{} {:?}", p.pipeline, p.micro_batches, p.chunks.iter().map(|c| c.runs.iter().map(|r| format!("{}x{}", r.strategy, r.count)).collect::<Vec<_>>()).collect::<Vec<_>>()); }
            if std::env::var("BRUTE").is_ok() || b.plan.is_none() { return; }
            let backends: [&dyn Backend<LayerwiseSpace>; 4] = [&Exact::default(), &Random::default(), &Mcts::default(), &Genetic::default()];
            for backend in backends {
                let t = std::time::Instant::now();
                let mut gaps = vec![];
                let mut info = String::new();
                for seed in 0..if backend.name() == "exact" {1} else {seeds} {
                    let o = solve(&space, backend, Request { fidelity: Fidelity::Fast, ..Request::new(seed, Budget::evaluations(20_000)) }).unwrap();
                    gaps.push(o.best.as_ref().and_then(|x| x.score.objective()).map_or(f64::NAN, |x| 100.0 * (x / b.simulated - 1.0)));
                    info = format!("bound {:?} {:?} {:?}", o.bound, o.stop, o.counters.evaluations);
                }
                println!("   {} {:?} {info} {:.2}s", backend.name(), gaps.iter().map(|g| format!("{g:.3}")).collect::<Vec<_>>(), t.elapsed().as_secs_f64());
            }
        }).unwrap();
    }
}
