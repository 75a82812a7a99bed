//! What tests of planning share: questions from text, plans laid by hand, prices.
#![allow(dead_code, reason = "every test file uses its own part")]

use espalier::cluster::{Cluster, file, instances};
use espalier::cost::{CostOptions, Mesh};
use espalier::estimate::{Estimate, EstimateError, Estimator};
use espalier::job::Job;
use espalier::model::{Model, OpKind, import, presets};
use espalier::plan::{LayerStrategy, PartClass, PartKind, Plan, Recompute, Spine};
use espalier::question::{Question, SearchOptions};
use espalier::space::planner::Inputs;
use std::path::Path;

/// The model that the text of a `config.json` describes.
pub fn config(json: &str) -> Model {
    import::from_json("model", json, None).unwrap_or_else(|e| panic!("{e}"))
}

/// A built-in model.
pub fn preset(name: &str) -> Model {
    presets::find(name).unwrap_or_else(|e| panic!("{e}"))
}

/// Machines by name.
pub fn machines(name: &str) -> Cluster {
    instances::cluster(name).unwrap_or_else(|e| panic!("{e}"))
}

/// The cluster that the text of a cluster file describes.
pub fn cluster(ron: &str) -> Cluster {
    file::parse(ron, "cluster.ron").unwrap_or_else(|e| panic!("{e}"))
}

/// A question without constraints.
pub fn question(model: Model, cluster: Cluster, job: Job) -> Inputs {
    Inputs { model, cluster, job, search: SearchOptions::default(), cost: CostOptions::default() }
}

/// The question of a file in `search_configs`.
pub fn named(stem: &str) -> Inputs {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("search_configs/{stem}.ron"));
    let question = Question::load(&file).unwrap_or_else(|e| panic!("{e}"));
    let (model, cluster) = question.resolve().unwrap_or_else(|e| panic!("{e}"));
    let Question { job, search, .. } = question;
    Inputs { model, cluster, job, search, cost: CostOptions::default() }
}

/// Runs `f` with the estimator of a question.
pub fn with_estimator<T>(inputs: &Inputs, f: impl FnOnce(&Estimator<'_>) -> T) -> T {
    let spine = Spine::new(&inputs.model, &inputs.job);
    let pool = inputs.pool().unwrap_or_else(|e| panic!("{e}"));
    f(&Estimator::new(&inputs.model, &spine, pool, &inputs.job, inputs.cost))
}

/// The price of a plan.
pub fn price(inputs: &Inputs, plan: &Plan) -> Estimate {
    try_price(inputs, plan).unwrap_or_else(|e| panic!("{e}"))
}

/// The price of a plan, or why it has none.
pub fn try_price(inputs: &Inputs, plan: &Plan) -> Result<Estimate, EstimateError> {
    with_estimator(inputs, |estimator| estimator.estimate(plan))
}

/// Whether a part has routed experts.
pub fn has_experts(part: &PartClass) -> bool {
    part.sublayers.iter().flat_map(|s| &s.ops).any(|op| matches!(op.kind, OpKind::Experts { .. }))
}

/// A plan as a recipe states it: one strategy, so many layers on each chunk, embedding in front and head behind.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Strategy of the layers.
    pub layers: LayerStrategy,
    /// Stages.
    pub pipeline: u32,
    /// Layers of every chunk; as many chunks as stages times chunks per stage.
    pub split: Vec<u64>,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
}

impl Recipe {
    /// All layers of `inputs` dealt evenly to `pipeline` times `chunks` chunks; what is left over to the front ones.
    pub fn even(inputs: &Inputs, layers: LayerStrategy, pipeline: u32, chunks: u32, micro_batch: u64) -> Self {
        let spine = Spine::new(&inputs.model, &inputs.job);
        let count = (0..spine.parts.len()).filter(|i| spine.class_of(*i).kind == PartKind::Layer).count() as u64;
        let n = u64::from(pipeline) * u64::from(chunks);
        Self { layers, pipeline, split: (0..n).map(|x| count / n + u64::from(x < count % n)).collect(), micro_batch }
    }

    /// As a plan for `inputs`.
    pub fn plan(&self, inputs: &Inputs) -> Plan {
        let spine = Spine::new(&inputs.model, &inputs.job);
        let devices = inputs.cluster.pools[0].devices;
        let stage = devices / u64::from(self.pipeline);
        let dp = stage / self.layers.model_ways();
        let last = self.split.len() - 1;
        let mut of_chunk: Vec<Vec<LayerStrategy>> = vec![Vec::new(); self.split.len()];
        let (mut chunk, mut layers) = (0, 0);
        for i in 0..spine.parts.len() {
            let part = spine.class_of(i);
            if part.kind == PartKind::Layer {
                while layers == self.split[chunk] && chunk < last {
                    chunk += 1;
                    layers = 0;
                }
                layers += 1;
            } else if part.kind != PartKind::Embedding && layers > 0 {
                chunk = last;
            }
            of_chunk[chunk].push(for_part(&self.layers, part));
        }
        let mut first = 0;
        let chunks = of_chunk
            .iter()
            .map(|strategies| {
                let chunk = Plan::encode(first, strategies);
                first += strategies.len() as u32;
                chunk
            })
            .collect();
        Plan {
            devices,
            pipeline: self.pipeline,
            chunks_per_stage: self.split.len() as u32 / self.pipeline,
            micro_batches: inputs.job.global_batch / (dp * self.micro_batch),
            chunks,
        }
    }
}

/// `layers` as far as it applies to `part`.
pub fn for_part(layers: &LayerStrategy, part: &PartClass) -> LayerStrategy {
    let mut s = *layers;
    if !has_experts(part) {
        (s.ep, s.etp) = (1, 1);
    }
    if part.kind != PartKind::Layer {
        s.recompute = Recompute::None;
    }
    s
}

/// `tp` ways with sequence parallelism, `cp` ways, ZeRO-1, nothing recomputed.
pub fn strategy(tp: u32, cp: u32, ep: u32) -> LayerStrategy {
    LayerStrategy { tp, sequence_parallel: tp > 1, cp, ep, zero: 1, ..LayerStrategy::PLAIN }
}

/// The frame of a plan.
pub fn mesh(plan: &Plan) -> Mesh {
    Mesh { stage_devices: plan.stage_devices(), pipeline: plan.pipeline, micro_batches: plan.micro_batches }
}

/// Two fast pairs joined by a slow link.
pub const TWO_PAIRS: &str = r#"(pools: [(
    device: (name: "accelerator", half: "150TFLOP/s", memory: "24GB", memory_bandwidth: "1TB/s"),
    devices_per_node: 4,
    links: [
        (name: "pair", groups: [[0, 1], [2, 3]], bandwidth: "100GB/s", latency: "5us"),
        (name: "slow link", bandwidth: "25Gb/s", latency: "10us"),
    ],
)])"#;

/// Six layers, learned positions, tied head.
pub const GPT2: &str = r#"{"model_type": "gpt2", "n_layer": 6, "n_embd": 2048, "n_head": 16, "n_positions": 2048,
    "vocab_size": 32000}"#;

/// Eight layers, grouped queries, tied head.
pub const TIED_LLAMA: &str = r#"{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": true}"#;

/// Four layers of eight experts.
pub const MIXTRAL: &str = r#"{"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 4096}"#;

/// Five layers, the first dense, the others of 16 experts; latent attention; one MTP module.
pub const DEEPSEEK: &str = r#"{"model_type": "deepseek_v3", "hidden_size": 1024, "num_hidden_layers": 5,
    "vocab_size": 32768, "num_attention_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32, "v_head_dim": 64, "intermediate_size": 4096, "moe_intermediate_size": 512,
    "first_k_dense_replace": 1, "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4,
    "topk_group": 2, "num_nextn_predict_layers": 1, "max_position_embeddings": 8192}"#;

/// Four layers of encoder, four of decoder.
pub const T5: &str = r#"{"model_type": "t5", "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 4,
    "num_decoder_layers": 4, "num_heads": 16, "vocab_size": 32128, "feed_forward_proj": "relu"}"#;
