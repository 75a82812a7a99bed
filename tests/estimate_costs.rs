//! Collectives, bubbles and switches against the formulas of the literature and against golden values.

mod planning;

use espalier::cluster::Cluster;
use espalier::cost::{CostOptions, Group, Network, Software};
use espalier::estimate::Estimate;
use espalier::job::Job;
use espalier::plan::LayerStrategy;
use espalier::space::planner::Inputs;
use espalier::units::Bytes;
use planning::{Recipe, cluster, config, price, question, strategy};

fn close(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() <= within, "{found} is not {expected} (within {within})");
}

/// `n` devices on one level of ideal links of 100 GB/s and 5 us.
fn ring(n: u64) -> Cluster {
    cluster(&format!(
        r#"(pools: [(device: "H100", devices_per_node: {n},
            links: [(name: "ring", bandwidth: "100GB/s", latency: "5us", efficiency: 1.0, half_at: 0)])])"#
    ))
}

#[test]
fn a_ring_all_reduce_takes_two_rounds_of_latency_and_of_the_share_of_others() {
    // 2 (n - 1) alpha + 2 (n - 1) / n D / BW: Thakur 2005, section 4.4; SYSTEMS F3.
    for n in [2u64, 3, 4, 8, 16, 64] {
        let machines = ring(n);
        let network = Network::new(&machines.pools[0], true);
        for bytes in [1e3, 1e6, 1e9] {
            let (m, group) = (n as f64, Group { size: n, stride: 1 });
            let formula = 2.0 * (m - 1.0) * 5e-6 + 2.0 * (m - 1.0) / m * bytes / 100e9;
            close(network.all_reduce(Bytes(bytes), group).get(), formula, 1e-12);
            close(network.gather(Bytes(bytes), group).get(), formula / 2.0, 1e-12);
        }
    }
}

#[test]
fn the_rails_of_a_node_are_added_for_one_group_and_shared_by_many() {
    let machines = cluster(
        r#"(pools: [(device: "H100", devices_per_node: 8, nodes: 2, links: [
            (name: "inside", bandwidth: "1e15", latency: "0s", efficiency: 1.0, half_at: 0),
            (name: "rails", nics: 8, nic: "50GB/s", latency: "0s", efficiency: 1.0, half_at: 0),
        ])])"#,
    );
    let all = Group { size: 16, stride: 1 };
    let pairs = Group { size: 2, stride: 8 };
    let time = |shared: bool, group: Group| Network::new(&machines.pools[0], shared).gather(Bytes(16e9), group).get();
    // Eight rails carry the half that the other node has: 8 GB at 400 GB/s.
    close(time(true, all), 8e9 / 400e9, 1e-9);
    // Eight pairs at once: each has one rail for its 8 GB.
    close(time(true, pairs), 8e9 / 50e9, 1e-9);
    // One rail is also the most that one device drives.
    close(time(false, pairs), 8e9 / 50e9, 1e-9);
}

#[test]
fn nic_sharing_off_frees_one_thin_uplink_for_every_group() {
    let machines = cluster(
        r#"(pools: [(device: "H100", devices_per_node: 8, nodes: 2, links: [
            (name: "inside", bandwidth: "1e15", latency: "0s", efficiency: 1.0, half_at: 0),
            (name: "one NIC", bandwidth: "50GB/s", latency: "0s", efficiency: 1.0, half_at: 0),
        ])])"#,
    );
    let pairs = Group { size: 2, stride: 8 };
    let time = |shared: bool| Network::new(&machines.pools[0], shared).gather(Bytes(16e9), pairs).get();
    // Hetu-Galvatron's profile of two A100 nodes: strided groups of 8, 4, 2 get 1/2, 1/4, 1/8 of one NIC's rate.
    close(time(true), 8.0 * time(false), 1e-9);
}

/// A model of equal layers on a network that costs nothing, without head and embedding.
fn equal_stages(layers: u32, pipeline: u32, chunks: u32, micro_batches: u64) -> Estimate {
    let model = config(&format!(
        r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_embd": 4096, "n_head": 32, "n_positions": 2048,
            "vocab_size": 1024}}"#
    ));
    let machines = cluster(&format!(
        r#"(pools: [(device: "H100", devices_per_node: {pipeline},
            links: [(name: "free", bandwidth: "1e30", latency: "0s", efficiency: 1.0, half_at: 0)])])"#
    ));
    let free = CostOptions { head: false, ..CostOptions::default() };
    let inputs = Inputs { cost: free, ..question(model, machines, Job::new(micro_batches, 2048)) };
    price(&inputs, &Recipe::even(&inputs, strategy(1, 1, 1), pipeline, chunks, 1).plan(&inputs))
}

#[test]
fn bubbles_are_those_of_the_pipeline_papers() {
    // SYSTEMS F2; Narayanan 2021, section 2.2. Ratio over ideal time (p - 1) / (v m), share of the total, four digits.
    for (p, v, m, over_ideal, of_total) in
        [(4, 1, 8, 0.375, 0.2727), (4, 2, 8, 0.1875, 0.1579), (8, 4, 32, 0.0547, 0.0519), (4, 5, 512, 0.0012, 0.0012)]
    {
        let e = equal_stages(p * v, p, v, m);
        let ratio = e.bubble / (1.0 - e.bubble);
        let formula = f64::from(p - 1) / (f64::from(v) * m as f64);
        close(ratio, formula, 1e-9);
        assert!((ratio - over_ideal).abs() < 5.1e-5, "p{p} v{v} m{m}: {ratio} over ideal");
        assert!((e.bubble - of_total).abs() < 5.1e-5, "p{p} v{v} m{m}: {} of total", e.bubble);
        close(e.closed_form_s, e.iteration_time_s, 1e-9);
    }
}

#[test]
fn the_pipeline_keeps_as_many_micro_batches_alive_as_the_papers_say() {
    for (p, m) in [(4u32, 8u64), (8, 4), (2, 1)] {
        let e = equal_stages(p, p, 1, m);
        for (s, stage) in e.stages.iter().enumerate() {
            assert_eq!(stage.in_flight, [m.min(u64::from(p) - s as u64) as f64], "p{p} m{m} stage {s}");
        }
    }
    // Interleaving keeps 1 + (p - 1) / (p v) times as much on the first stage: Korthikanti 2022, section 4.2.3.
    let plain = equal_stages(16, 4, 1, 16).stages[0].memory.activations_bytes;
    for v in [2u32, 4] {
        let interleaved = equal_stages(16, 4, v, 16).stages[0].memory.activations_bytes;
        close(interleaved / plain, 1.0 + 3.0 / (4.0 * f64::from(v)), 1e-12);
    }
}

/// Devices that compute at 100 TFLOP/s whatever the size, with memory traffic for nothing, two to a node with one NIC.
fn ideal(nodes: u64) -> Cluster {
    cluster(&format!(
        r#"(pools: [(
            device: (name: "ideal", half: "100TFLOP/s", memory: "80GB", memory_bandwidth: "1e30", launch: "0s",
                gemm: (plateau: 1.0, half_at: 0.0), attention: (plateau: 1.0, half_at: 0.0),
                streaming: (plateau: 1.0, half_at: 0.0)),
            nodes: {nodes}, devices_per_node: 2,
            links: [(name: "inside", devices: 2, bandwidth: "100GB/s", latency: "0s", efficiency: 1.0, half_at: 0),
                {}])])"#,
        if nodes > 1 {
            r#"(name: "NIC", bandwidth: "10GB/s", latency: "0s", efficiency: 1.0, half_at: 0)"#
        } else {
            ""
        }
    ))
}

const HIDDEN: f64 = 1024.0;
const TOKENS: f64 = 512.0;
const VOCAB: f64 = 12800.0;
const LAYERS: f64 = 4.0;

/// Four layers on `nodes` nodes of ideal devices, one sequence of 512 tokens per rank, two micro-batches.
fn switched(nodes: u64, layers: LayerStrategy, cost: CostOptions) -> Estimate {
    let model = config(
        r#"{"model_type": "gpt2", "n_layer": 4, "n_embd": 1024, "n_head": 16, "n_positions": 512, "vocab_size": 12800,
            "tie_word_embeddings": false}"#,
    );
    let dp = 2 * nodes / layers.model_ways();
    let inputs = Inputs { cost, ..question(model, ideal(nodes), Job::new(2 * dp, 512)) };
    price(&inputs, &Recipe::even(&inputs, layers, 1, 1, 1).plan(&inputs))
}

#[test]
fn without_the_head_its_three_products_are_missing() {
    // Per micro-batch 2 s h V forward, as much for the input's gradient and 1 / 0.954 of it for the weights' gradient;
    // the embedding's look-up moves memory only, which is free here. Tensor parallelism halves it all.
    let layers = LayerStrategy { tp: 2, sequence_parallel: true, ..LayerStrategy::PLAIN };
    let free = CostOptions { overlap: true, ..CostOptions::default() };
    let with = switched(1, layers, free).stages[0].time.compute_s;
    let without = switched(1, layers, CostOptions { head: false, ..free }).stages[0].time.compute_s;
    let product = 2.0 * TOKENS * HIDDEN * VOCAB / 2.0 / 100e12;
    close(with - without, 2.0 * product * (2.0 + 1.0 / 0.954), 1e-9);
    // The golden value itself.
    assert!((with - without - 409.12e-6).abs() < 0.01e-6, "{}", with - without);
}

#[test]
fn without_moments_every_part_adds_its_momentary_need() {
    // Gradients of activations, 4 x 2 bytes per token and width, of four layers and the embedding stand beside the head's
    // logits of 9.8 bytes, which alone make the peak otherwise: 5 x 8 x 512 x 1,024 = 21.0 MB more.
    let s = LayerStrategy { zero: 0, ..LayerStrategy::PLAIN };
    let at = |moments| {
        let cost = CostOptions { moments, ..CostOptions::default() };
        switched(1, s, cost).stages[0].memory
    };
    let more = at(false).allocated_bytes - at(true).allocated_bytes;
    close(more, (LAYERS + 1.0) * 8.0 * TOKENS * HIDDEN, 1e-9);
    assert_eq!(more.round(), 20_971_520.0);
    close(at(true).head_bytes, 9.8 * TOKENS * VOCAB + 8.0 * TOKENS * HIDDEN, 1e-9);
}

#[test]
fn without_overlap_all_of_the_gradient_reduction_is_seen() {
    // Two ranks reduce 4 bytes per parameter at 100 GB/s: 2 (1/2) D / BW. Beside it a part's backward pass hides all but
    // 12.6 % of what fits (Galvatron's slow-down), and the rest stands alone.
    let s = LayerStrategy { zero: 0, ..LayerStrategy::PLAIN };
    let at = |overlap| {
        let cost = CostOptions { overlap, ..CostOptions::default() };
        switched(1, s, cost).stages[0].time.dp_s
    };
    let layer = 12.0 * HIDDEN * HIDDEN + 13.0 * HIDDEN;
    let (table, positions) = (VOCAB * HIDDEN, 512.0 * HIDDEN);
    // The embedding's matrix and positions, the head's matrix and norm.
    let parameters = [layer, layer, layer, layer, table + positions, table + 2.0 * HIDDEN];
    let reduction = |p: f64| 4.0 * p / 100e9;
    close(at(false), parameters.iter().map(|p| reduction(*p)).sum(), 1e-9);
    let product = |flops: f64| flops / 100e12 * (1.0 + 1.0 / 0.954);
    // Heads of 64 reach 64 / (64 + 45) of what very wide ones would, those of 128 for which plateaus are told 128 / (128 + 45).
    let narrow = 64.0 / (64.0 + 45.0) / (128.0 / (128.0 + 45.0));
    let scores = 2.0 * TOKENS * (TOKENS + 1.0) / 2.0 * 2.0 * HIDDEN / 100e12 * 2.5 / narrow;
    let backward = [product(24.0 * TOKENS * HIDDEN * HIDDEN) + scores, 0.0, product(2.0 * TOKENS * HIDDEN * VOCAB)];
    let exposed = |p: f64, compute: f64| {
        let together = reduction(p).min(compute);
        0.126 * together + reduction(p) - together
    };
    let expected =
        4.0 * exposed(layer, backward[0]) + exposed(parameters[4], backward[1]) + exposed(parameters[5], backward[2]);
    close(at(true), expected, 1e-3);
    // The golden values themselves: the embedding has nothing to hide behind, layers hide most of their own.
    assert!(
        (at(true) - 1.863_00e-3).abs() < 1e-8 && (at(false) - 3.085_03e-3).abs() < 1e-8,
        "{} {}",
        at(true),
        at(false)
    );
}

#[test]
fn without_nic_sharing_both_ranks_of_a_node_have_its_nic_to_themselves() {
    // TP2 in each of two nodes: two data-parallel pairs meet on each node's one NIC of 10 GB/s and get half of it each.
    let layers = LayerStrategy { tp: 2, sequence_parallel: true, ..LayerStrategy::PLAIN };
    let at = |nic_sharing| {
        let cost = CostOptions { nic_sharing, overlap: false, ..CostOptions::default() };
        switched(2, layers, cost).stages[0].time.dp_s
    };
    close(at(true) / at(false), 2.0, 1e-9);
    let layer = 12.0 * HIDDEN * HIDDEN;
    let matrices = 4.0 * layer + 2.0 * VOCAB * HIDDEN;
    // 4 bytes per parameter of a rank, which holds half: 38 MB at 10 GB/s, and biases, norms and positions.
    close(at(false), 4.0 * matrices / 2.0 / 10e9, 0.02);
}

#[test]
fn what_no_fused_kernel_covers_moves_its_tensors_step_by_step() {
    // Memory at 1 TB/s, arithmetic for nothing; one device, one sequence of 512 tokens, two layers of gpt-oss's kind.
    let machines = cluster(
        r#"(pools: [(
            device: (name: "ideal", half: "1e30", memory: "80GB", memory_bandwidth: "1TB/s", launch: "0s",
                gemm: (plateau: 1.0, half_at: 0.0), attention: (plateau: 1.0, half_at: 0.0),
                streaming: (plateau: 1.0, half_at: 0.0)),
            nodes: 1, devices_per_node: 1, links: [])])"#,
    );
    let compute = |more: &str, eager: bool| {
        let model = config(&format!(
            r#"{{"model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 192,
                "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1024,
                "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": true, "sliding_window": 128,
                "tie_word_embeddings": false{more}}}"#
        ));
        let cost = CostOptions { software: Software { eager, ..Software::default() }, ..CostOptions::default() };
        let inputs = Inputs { cost, ..question(model, machines.clone(), Job::new(1, 512)) };
        price(&inputs, &Recipe::even(&inputs, LayerStrategy::PLAIN, 1, 1, 1).plan(&inputs)).stages[0].time.compute_s
    };
    let yarn = r#", "rope_scaling": {"rope_type": "yarn", "factor": 32.0}"#;
    let cancels = r#", "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0}"#;
    let clamp = r#", "swiglu_limit": 7.0"#;
    let (layers, copies) = (2.0, 2.0 * 512.0);
    let biases = (28.0 + 40.0) * copies * 256.0;
    let clamps = (8.0 + 15.0) * copies * 2.0 * 192.0;
    // Beyond a read and a write forward, two reads and a write backward.
    let rotary = (24.0 + 34.0 - 4.0 - 6.0) * 512.0 * (8.0 + 2.0) * 32.0;
    for (more, bytes) in [
        ("", biases),
        (cancels, biases),
        (clamp, biases + clamps),
        (yarn, biases + rotary),
        (&format!("{clamp}{yarn}"), biases + clamps + rotary),
    ] {
        close(compute(more, true) - compute(more, false), layers * bytes / 1e12, 1e-9);
        assert_eq!(compute(more, false), compute("", false));
    }
}
