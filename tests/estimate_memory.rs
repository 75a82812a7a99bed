//! Memory against the formulas of the literature: states, activations, logits, and who holds a copy of what.

mod planning;

use espalier::cost::{Mesh, PartPrice};
use espalier::job::{Job, Optimizer, Precision, Storage};
use espalier::plan::{LayerStrategy, PartKind, Recompute, Spine};
use espalier::space::planner::Inputs;
use planning::{Recipe, config, has_experts, machines, preset, price, question, strategy, with_estimator};

fn close(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() <= within, "{found} is not {expected} (within {within})");
}

/// Price of the `nth` distinct part of `kind` on `n` devices without a pipeline, one micro-batch.
fn part(inputs: &Inputs, kind: PartKind, nth: usize, strategy: &LayerStrategy, n: u64) -> PartPrice {
    with_estimator(inputs, |estimator| {
        let class = estimator.spine.classes.iter().filter(|c| c.kind == kind).nth(nth).unwrap();
        let mesh = Mesh { stage_devices: n, pipeline: 1, micro_batches: 1 };
        estimator.pricer.price(class, strategy, mesh)
    })
}

#[test]
fn activations_are_those_of_korthikanti_without_dropout_and_attention_scores() {
    // Korthikanti 2022, section 4.1: a layer keeps 34 s b h bytes besides the scores; two of them are dropout masks, which
    // nobody trains with any more. Fused attention keeps a 4-byte log-sum-exp per head in place of the scores.
    let (b, s, h, a) = (2.0, 1024.0, 2048.0, 16.0);
    let inputs = question(config(planning::GPT2), machines("h100x8"), Job::new(2, 1024));
    let kept = |tp: u32, sequence_parallel: bool, recompute: Recompute| {
        let s = LayerStrategy { tp, sequence_parallel, recompute, ..LayerStrategy::PLAIN };
        part(&inputs, PartKind::Layer, 0, &s, u64::from(tp)).activations.get()
    };
    let scores = 4.0 * a * s * b;
    let sbh = s * b * h;
    assert_eq!(kept(1, false, Recompute::None), 32.0 * sbh + scores);
    for t in [2u32, 4, 8] {
        let ways = f64::from(t);
        // Table 2: 10 + 24 / t with tensor parallelism (two of the ten are masks), 34 / t with sequence parallelism.
        assert_eq!(kept(t, false, Recompute::None), sbh * (8.0 + 24.0 / ways) + scores / ways);
        assert_eq!(kept(t, true, Recompute::None), (32.0 * sbh + scores) / ways);
        // Full recomputation keeps the layer's input, cut along the sequence.
        assert_eq!(kept(t, true, Recompute::Full), 2.0 * sbh / ways);
        // Selective recomputation drops the inputs of products (norms' outputs) and what the activation function gave.
        assert_eq!(kept(t, true, Recompute::Selective), ((32.0 - 2.0 - 2.0 - 8.0) * sbh + scores) / ways);
    }
}

#[test]
fn a_gated_layer_with_grouped_queries_keeps_its_own_tensors() {
    // Llama: two norms' inputs, two products' inputs, q, k, v, attention's output, gate, up and their product.
    let inputs = question(preset("llama3-8b"), machines("h100x8"), Job::new(1, 8192));
    let (h, q, kv, f, heads) = (4096.0, 4096.0, 1024.0, 14336.0, 32.0);
    let tokens = 8192.0;
    let expected =
        tokens * (2.0 * (2.0 * h) + 2.0 * (2.0 * h) + 2.0 * (q + 2.0 * kv) + 2.0 * q + 2.0 * 3.0 * f + 4.0 * heads);
    let found = part(&inputs, PartKind::Layer, 0, &LayerStrategy::PLAIN, 1).activations.get();
    close(found, expected, 1e-12);
}

#[test]
fn states_take_what_megatron_documents_per_parameter() {
    // Megatron-LM docs `dist_optimizer.md`: bytes per parameter without and with the optimizer cut over d ranks.
    let model = config(planning::GPT2);
    let parameters = part(
        &question(model.clone(), machines("h100x8"), Job::new(8, 1024)),
        PartKind::Layer,
        0,
        &LayerStrategy::PLAIN,
        1,
    )
    .parameters;
    let d = 8.0;
    for (precision, gradients, whole, fixed, cut) in [
        (Precision::Bf16, Storage::Fp32, 18.0, 6.0, 12.0),
        (Precision::Bf16, Storage::Bf16, 16.0, 4.0, 12.0),
        (Precision::Fp32, Storage::Fp32, 16.0, 8.0, 8.0),
    ] {
        let job = Job { precision, gradients, ..Job::new(8, 1024) };
        let inputs = question(model.clone(), machines("h100x8"), job);
        let states = |zero: u8, n: u64| {
            let s = LayerStrategy { zero, ..LayerStrategy::PLAIN };
            part(&inputs, PartKind::Layer, 0, &s, n).states.total().get() / parameters
        };
        close(states(0, 1), whole, 1e-12);
        close(states(1, 8), fixed + cut / d, 1e-12);
        close(states(3, 8), whole / d, 1e-12);
    }
    let light = Job { optimizer: Optimizer::Sgd, moments: Storage::Bf16, ..Job::new(8, 1024) };
    let light = part(&question(model, machines("h100x8"), light), PartKind::Layer, 0, &LayerStrategy::PLAIN, 1);
    close(light.states.total().get() / parameters, 2.0 + 4.0 + 4.0 + 2.0, 1e-12);
}

#[test]
fn experts_are_divided_by_expert_ways_and_never_by_tensor_ways() {
    // Megatron-Bridge PR 3744; Megatron-LM 4050.
    let inputs = question(config(planning::MIXTRAL), machines("h100x8"), Job::new(8, 2048));
    let experts = 8.0 * 3.0 * 1024.0 * 3584.0;
    let dense = |tp: f64| {
        // q, k, v, out, cut; two norms and the router whole.
        (1024.0 * (1024.0 + 2.0 * 512.0) + 1024.0 * 1024.0) / tp + 2.0 * 1024.0 + 1024.0 * 8.0
    };
    for (tp, ep, etp) in
        [(1u32, 1u32, 1u32), (1, 8, 1), (2, 4, 1), (2, 4, 2), (4, 2, 1), (4, 2, 4), (8, 8, 1), (2, 1, 2)]
    {
        let s = LayerStrategy { etp, ..strategy(tp, 1, ep) };
        let found = part(&inputs, PartKind::Layer, 0, &s, 8).parameters;
        let mine = (found - dense(f64::from(tp))) * f64::from(ep * etp);
        close(mine, experts, 1e-12);
    }
}

#[test]
fn expert_parallelism_does_not_multiply_the_world() {
    // Both tp cp dp pp and etp ep edp pp tile the same eight devices.
    let inputs = question(config(planning::MIXTRAL), machines("h100x8"), Job::new(16, 2048));
    let of = |ep: u32| {
        let recipe = Recipe::even(&inputs, strategy(2, 1, ep), 2, 1, 2);
        let plan = recipe.plan(&inputs);
        assert_eq!((plan.devices, plan.micro_batches), (8, 4), "data parallelism is 8 / (2 tp x 2 pp), whatever ep");
        price(&inputs, &plan)
    };
    let (one, four) = (of(1), of(4));
    let dense = |e: &espalier::estimate::Estimate| e.stages[0].memory.activations_bytes;
    assert_eq!(dense(&one), dense(&four));
    assert!(of(4).stages[0].memory.weights_bytes < of(1).stages[0].memory.weights_bytes);
    // Expert ways beyond the devices of a stage do not exist.
    let too_many = Recipe::even(&inputs, strategy(2, 1, 8), 2, 1, 2).plan(&inputs);
    let refused = planning::try_price(&inputs, &too_many).unwrap_err().to_string();
    assert!(refused.contains("does not tile the 4 devices"), "{refused}");
}

#[test]
fn what_experts_keep_depends_on_experts_alone() {
    // Megatron-LM issue 1784 and PR 6782: dense terms in place of experts.
    let base = |top_k: u32, ffn: u32, shared: u32| {
        config(&format!(
            r#"{{"model_type": "qwen2_moe", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
                "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 32000, "num_experts": 8,
                "num_experts_per_tok": {top_k}, "moe_intermediate_size": {ffn},
                "shared_expert_intermediate_size": {shared}, "decoder_sparse_step": 1, "max_position_embeddings": 4096}}"#
        ))
    };
    let kept = |top_k, ffn, shared| {
        let inputs = question(base(top_k, ffn, shared), machines("h100x8"), Job::new(1, 2048));
        part(&inputs, PartKind::Layer, 0, &LayerStrategy::PLAIN, 1).activations.get()
    };
    // Each further copy of a token keeps its input and output, gate, up and their product: 2 (2 h + 3 f) bytes.
    close(kept(3, 512, 1024) - kept(2, 512, 1024), 2048.0 * 2.0 * (2.0 * 1024.0 + 3.0 * 512.0), 1e-9);
    close(kept(2, 768, 1024) - kept(2, 512, 1024), 2048.0 * 2.0 * 2.0 * 3.0 * 256.0, 1e-9);
    close(kept(2, 512, 2048) - kept(2, 512, 1024), 2048.0 * 2.0 * 3.0 * 1024.0, 1e-9);
    // A dense layer of a mixed model keeps what a dense model's does: the first layer of DeepSeek is dense.
    let mixed = question(config(planning::DEEPSEEK), machines("h100x8"), Job::new(1, 2048));
    let of = |nth| part(&mixed, PartKind::Layer, nth, &LayerStrategy::PLAIN, 1);
    let mlp = 2048.0 * 2.0 * 3.0 * 4096.0;
    let moe = 2048.0 * 2.0 * (3.0 * 512.0 + 4.0 * (2.0 * 1024.0 + 3.0 * 512.0));
    let router_outputs_aside = of(0).activations.get() - mlp - (of(1).activations.get() - moe);
    assert!(router_outputs_aside.abs() <= 2048.0 * 4.0 * 16.0, "{router_outputs_aside}");
}

#[test]
fn the_fullest_stage_holds_its_own_layers_and_not_an_average() {
    // Megatron-Bridge PR 5077: eight layers dealt [1, 2, 2, 3] over four stages; the estimator said 6,792 parameters, the
    // last stage holds three layers of 3,136, a norm of 32 and the tied head, there with 32 rows, here padded to 128.
    let model = config(
        r#"{"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 8, "num_attention_heads": 4,
            "vocab_size": 32, "bias": false, "multi_query": false, "parallel_attn": false, "alibi": false,
            "new_decoder_architecture": false, "ffn_hidden_size": 64, "tie_word_embeddings": true}"#,
    );
    let inputs = question(model, machines("h100x4"), Job::new(4, 64));
    let layers = LayerStrategy { zero: 0, ..LayerStrategy::PLAIN };
    let plan = Recipe { layers, pipeline: 4, split: vec![1, 2, 2, 3], micro_batch: 1 }.plan(&inputs);
    let e = price(&inputs, &plan);
    let parameters: Vec<f64> = e.stages.iter().map(|s| s.memory.weights_bytes / 2.0).collect();
    let table = 128.0 * 16.0;
    assert_eq!(parameters, [3136.0 + table, 2.0 * 3136.0, 2.0 * 3136.0, 9952.0 - 32.0 * 16.0 + table]);
}

#[test]
fn tied_embeddings_are_one_matrix_without_a_pipeline_and_two_with_one() {
    let inputs = question(config(planning::TIED_LLAMA), machines("h100x4"), Job::new(8, 2048));
    let of = |p: u32| price(&inputs, &Recipe::even(&inputs, LayerStrategy::PLAIN, p, 1, 1).plan(&inputs));
    let all = |p: u32| {
        of(p)
            .stages
            .iter()
            .map(|s| s.memory.weights_bytes + s.memory.gradients_bytes + s.memory.optimizer_bytes)
            .sum::<f64>()
    };
    let matrix = 18.0 * 32000.0 * 2048.0;
    close(all(2) - all(1), matrix, 1e-9);
    close(all(4) - all(1), matrix, 1e-9);
}

#[test]
fn a_prediction_module_carries_a_copy_of_the_vocabulary_in_all_states() {
    // Megatron-LM PR 5034: the copy also enters gradients and the optimizer.
    let stage = |mtp: bool| {
        let job = Job { mtp, ..Job::new(8, 2048) };
        let inputs = question(config(planning::DEEPSEEK), machines("h100x2"), job);
        let e = price(&inputs, &Recipe::even(&inputs, LayerStrategy::PLAIN, 2, 1, 1).plan(&inputs));
        e.stages[1].memory
    };
    let (with, without) = (stage(true), stage(false));
    let matrix = 32768.0 * 1024.0;
    let more = [
        with.weights_bytes - without.weights_bytes,
        with.gradients_bytes - without.gradients_bytes,
        with.optimizer_bytes - without.optimizer_bytes,
    ];
    let parameters = more[0] / 2.0;
    // One MoE layer, two norms, the 2 h -> h projection, and the matrix.
    let layer = with_estimator(&question(config(planning::DEEPSEEK), machines("h100x2"), Job::new(8, 2048)), |e| {
        let class = e.spine.classes.iter().find(|c| c.kind == PartKind::Layer && has_experts(c)).unwrap();
        e.pricer
            .price(class, &LayerStrategy::PLAIN, Mesh { stage_devices: 1, pipeline: 2, micro_batches: 8 })
            .parameters
    });
    assert!(
        parameters >= layer + matrix + 2.0 * 1024.0 * 1024.0,
        "{parameters} has no room for a layer, a projection and the matrix"
    );
    assert!(parameters <= layer + matrix + 2.0 * 1024.0 * 1024.0 + 8.0 * 1024.0, "{parameters} is more than that");
    close(more[1], 2.0 * more[0], 1e-12);
    close(more[2], 6.0 * more[0], 1e-12);
}

#[test]
fn grouped_queries_are_not_latent_attention() {
    // slime PR 1980: a latent rank with a default is no latent attention. Qwen3-4B's shapes.
    let text = |extra: &str| {
        format!(
            r#"{{"model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 2,
                "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
                "tie_word_embeddings": true, "max_position_embeddings": 40960{extra}}}"#
        )
    };
    let inputs = question(config(&text("")), machines("h100x8"), Job::new(1, 4096));
    let found = part(&inputs, PartKind::Layer, 0, &LayerStrategy::PLAIN, 1).parameters;
    let attention = 2560.0 * 128.0 * (32.0 + 2.0 * 8.0) + 32.0 * 128.0 * 2560.0;
    assert_eq!(found, attention + 3.0 * 2560.0 * 9728.0 + 2.0 * 2560.0 + 2.0 * 128.0);
}

#[test]
fn zero_3_needs_more_than_zero_2_where_gathered_layers_outweigh_the_shards() {
    // DeepSpeed issue 5305: at two data-parallel ranks ZeRO-3 took 52.8 GB and ZeRO-2 43.8.
    let total = |layers: u32, zero: u8, n: u64| {
        let model = config(&format!(
            r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_embd": 4096, "n_head": 32, "n_positions": 2048,
                "vocab_size": 1024}}"#
        ));
        let inputs = question(model, machines(&format!("h100x{n}")), Job::new(8, 128));
        let s = LayerStrategy { zero, ..LayerStrategy::PLAIN };
        price(&inputs, &Recipe::even(&inputs, s, 1, 1, 1).plan(&inputs)).stages[0].memory.allocated_bytes
    };
    assert!(total(2, 3, 2) > total(2, 2, 2));
    assert!(total(16, 3, 8) < total(16, 2, 8));
}

#[test]
fn zero_3_is_never_priced_as_its_shards_alone() {
    // DeepSpeed issues 4527 and 4093: shards alone said 0.49 GB where 14.7 to 21.3 GB were used.
    let inputs = question(preset("llama2-7b"), machines("h100x4"), Job::new(4, 2048));
    let s = LayerStrategy { zero: 3, recompute: Recompute::Full, ..LayerStrategy::PLAIN };
    let memory = price(&inputs, &Recipe::even(&inputs, s, 1, 1, 1).plan(&inputs)).stages[0].memory;
    let shards = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes;
    let layer = part(&inputs, PartKind::Layer, 0, &s, 4).parameters;
    // Two gathered layers, the gradient of one, the inputs of all, and what stands outside the allocator.
    let least = shards + 8.0 * layer + 32.0 * 2.0 * 2048.0 * 4096.0 + 1e9;
    assert!(memory.reserved_bytes >= least, "{} of at least {least}", memory.reserved_bytes);
}

#[test]
fn stages_of_unlike_layers_are_counted_layer_by_layer() {
    let spine_of = |inputs: &Inputs| Spine::new(&inputs.model, &inputs.job);
    let inputs = question(config(planning::DEEPSEEK), machines("h100x2"), Job { mtp: false, ..Job::new(8, 2048) });
    let spine = spine_of(&inputs);
    let plan = Recipe { layers: LayerStrategy::PLAIN, pipeline: 2, split: vec![2, 3], micro_batch: 1 }.plan(&inputs);
    let e = price(&inputs, &plan);
    let mesh = planning::mesh(&plan);
    with_estimator(&inputs, |estimator| {
        for (chunk, stage) in plan.chunks.iter().zip(&e.stages) {
            let expected: f64 =
                chunk.parts().map(|(i, s)| estimator.pricer.price(spine.class_of(i), s, mesh).parameters).sum();
            close(stage.memory.weights_bytes, 2.0 * expected, 1e-12);
        }
    });
    let layers: Vec<f64> = e.stages.iter().map(|s| s.memory.weights_bytes).collect();
    assert!(layers[0] != layers[1]);
}
