//! Memory against the formulas of the literature: states, activations, logits, and who holds a copy of what.

mod planning;

use espalier::cost::{Mesh, PartPrice};
use espalier::job::{Job, Optimizer, Precision, Storage};
use espalier::plan::{LayerStrategy, PartKind, Recompute, Spine};
use espalier::space::planner::Inputs;
use planning::{Recipe, config, machines, preset, price, question, strategy, with_estimator};

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
