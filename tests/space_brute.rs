//! Exact search, tree search and genetic search against brute force on small instances.

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
    let llama = |n: u32, h: u32, tied: bool, vocab: u32| {
        config(&format!(
            r#"{{"model_type":"llama","hidden_size":{h},"intermediate_size":{},"num_hidden_layers":{n},"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":{vocab},"tie_word_embeddings":{tied}}}"#,
            h * 11 / 4
        ))
    };
    let mixtral = |n: u32| {
        config(&format!(
            r#"{{"model_type":"mixtral","hidden_size":1024,"intermediate_size":3584,"num_hidden_layers":{n},"num_attention_heads":16,"num_key_value_heads":8,"vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2}}"#
        ))
    };
    let mixed = |n: u32| {
        config(&format!(
            r#"{{"model_type":"deepseek_v3","hidden_size":1024,"num_hidden_layers":{n},"vocab_size":32768,"num_attention_heads":16,"q_lora_rank":512,"kv_lora_rank":256,"qk_nope_head_dim":64,"qk_rope_head_dim":32,"v_head_dim":64,"intermediate_size":4096,"moe_intermediate_size":512,"first_k_dense_replace":2,"n_routed_experts":16,"n_shared_experts":1,"num_experts_per_tok":4,"n_group":4,"topk_group":2}}"#
        ))
    };
    let gemma = |n: u32| {
        config(&format!(
            r#"{{"model_type":"gemma2","hidden_size":1536,"intermediate_size":6144,"num_hidden_layers":{n},"num_attention_heads":8,"num_key_value_heads":4,"head_dim":192,"vocab_size":64000,"sliding_window":512,"max_position_embeddings":4096,"tie_word_embeddings":true}}"#
        ))
    };
    let t5 = config(
        r#"{"model_type":"t5","d_model":1024,"d_kv":64,"d_ff":4096,"num_layers":3,"num_decoder_layers":3,"num_heads":16,"vocab_size":32128,"feed_forward_proj":"relu"}"#,
    );
    let tight = ["cp=1", "sp=megatron"];
    let z = ["cp=1", "sp=megatron", "zero=0|1|3"];
    let no = ["vpp=2..8"];
    let q = |model, cluster, gb, s| question(model, cluster, Job::new(gb, s));
    let mut add = |name: &str, inputs: Inputs| v.push((name.to_owned(), inputs));
    add("A gpt2 2 8", fix(q(gpt2(6, 2048), device(8.0, 2, "100GB/s", ""), 8, 1024), &tight, &no));
    add("B gpt2 2 slow 7", fix(q(gpt2(7, 2048), device(7.0, 2, "10GB/s", ""), 8, 1024), &tight, &no));
    add("C llama 2 9", fix(q(llama(8, 2048, true, 32000), device(9.0, 2, "50GB/s", ""), 4, 2048), &tight, &no));
    for mem in [4.0, 5.0] {
        add(
            &format!("D llama 4 fast {mem}"),
            fix(q(llama(6, 2048, false, 32000), device(mem, 4, "100GB/s", "100GB/s"), 8, 1024), &z, &no),
        );
        add(
            &format!("E llama 4 mid {mem}"),
            fix(q(llama(6, 2048, false, 32000), device(mem, 4, "100GB/s", "20GB/s"), 8, 1024), &z, &no),
        );
        add(
            &format!("F llama 4 slow {mem}"),
            fix(q(llama(6, 2048, false, 32000), device(mem, 4, "100GB/s", "5GB/s"), 8, 1024), &z, &no),
        );
        add(
            &format!("G llama 4 heads {mem}"),
            fix(q(llama(5, 2048, false, 128000), device(mem + 2.0, 4, "100GB/s", "20GB/s"), 8, 1024), &z, &no),
        );
        add(&format!("H gpt2 4 {mem}"), fix(q(gpt2(6, 2048), device(mem, 4, "100GB/s", "25GB/s"), 16, 1024), &z, &no));
        add(
            &format!("I mixed 4 {mem}"),
            fix(
                q(mixed(5), device(mem - 1.0, 4, "100GB/s", "50GB/s"), 8, 2048),
                &["cp=1", "sp=megatron", "etp=1", "zero=1|3", "ep=2|4"],
                &no,
            ),
        );
        add(
            &format!("J mixtral 4 {mem}"),
            fix(
                q(mixtral(5), device(mem + 1.0, 4, "100GB/s", "50GB/s"), 8, 2048),
                &["cp=1", "sp=megatron", "etp=1", "zero=1|3", "ep=2|4"],
                &no,
            ),
        );
        add(&format!("K gemma 4 {mem}"), fix(q(gemma(6), device(mem, 4, "100GB/s", "50GB/s"), 8, 2048), &z, &no));
        add(
            &format!("L t5 4 {mem}"),
            fix(
                {
                    let mut x = q(t5.clone(), device(mem - 2.0, 4, "100GB/s", "50GB/s"), 8, 512);
                    x.job.encoder_sequence = Some(512);
                    x
                },
                &z,
                &no,
            ),
        );
        add(
            &format!("M llama 8 {mem}"),
            fix(
                q(llama(5, 2048, false, 32000), device(mem - 1.0, 8, "100GB/s", "50GB/s"), 8, 1024),
                &["cp=1", "sp=megatron", "zero=1|3"],
                &no,
            ),
        );
        add(
            &format!("N llama 4 long {mem}"),
            fix(
                q(llama(5, 2048, false, 32000), device(mem + 2.0, 4, "100GB/s", "50GB/s"), 4, 4096),
                &["sp=megatron", "zero=1|3"],
                &["vpp=2..8", "tp=4"],
            ),
        );
        add(
            &format!("O gpt2 2 mid {mem}"),
            fix(q(gpt2(9, 1536), device(mem + 2.0, 2, "50GB/s", ""), 16, 1024), &tight, &no),
        );
        add(
            &format!("P llama 4 vpp {mem}"),
            fix(
                q(llama(6, 2048, false, 32000), device(mem, 4, "100GB/s", "100GB/s"), 8, 1024),
                &["cp=1", "sp=megatron", "zero=0|1|3", "pp=2|4"],
                &[],
            ),
        );
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
            let chosen = std::env::var("BACKENDS").unwrap_or_default();
            for backend in backends.into_iter().filter(|b| chosen.is_empty() || chosen.contains(b.name())) {
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
