//! The arguments that describe a model to Megatron-LM, read off its operators.

use crate::export::bundle::{Bundle, Lines};
use crate::job::Job;
use crate::model::ops::rotary;
use crate::model::{LayerClass, Model, Op, OpKind, Span, SublayerKind};

/// Sizes of a model that arguments name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sizes {
    /// Layers of the decoder.
    pub layers: u64,
    /// Width.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Width of a query or key head.
    pub qk_dim: u64,
    /// Width of a value head.
    pub v_dim: u64,
    /// Inner width of a dense MLP; of an expert where no layer is dense.
    pub ffn: u64,
    /// Whether MLPs have a gate.
    pub gated: bool,
    /// Routed experts, those a token visits, inner width of one.
    pub experts: Option<(u64, u64, u64)>,
    /// Inner width of the shared experts together.
    pub shared: u64,
    /// Per layer whether it has experts.
    pub pattern: Vec<bool>,
    /// Latent attention: query rank, key/value rank, width without and with rotary embedding.
    pub latent: Option<(Option<u64>, u64, u64, u64)>,
    /// Whether linear layers have biases, and whether the query, key and value ones have.
    pub bias: (bool, bool),
    /// Whether queries and keys are normalised.
    pub qk_norm: bool,
    /// Whether norms have biases.
    pub layer_norm: bool,
    /// Whether positions are rotary.
    pub rotary: bool,
    /// Attention that full causal attention does not describe.
    pub other_attention: Vec<&'static str>,
}

fn ops(class: &LayerClass) -> impl Iterator<Item = &Op> {
    class.sublayers.iter().flat_map(|s| &s.ops)
}

fn linear(class: &LayerClass, name: &str) -> Option<(u64, u64, bool)> {
    ops(class).find_map(|op| match op.kind {
        OpKind::Linear { input, output, bias, .. } if op.name == name => Some((input, output, bias)),
        _ => None,
    })
}

impl Sizes {
    /// Reads them off the text decoder.
    pub fn of(model: &Model) -> Self {
        let mut sizes = Sizes::default();
        let Some(tower) = model.towers.last() else { return sizes };
        sizes.layers = tower.layers.len() as u64;
        let mut dense = None;
        for id in &tower.layers {
            let class = &model.classes[id.0 as usize];
            sizes.hidden = class.hidden;
            sizes.pattern.push(class.sublayers.iter().any(|s| s.kind == SublayerKind::Moe));
            sizes.class(class);
            let mlp = class.sublayers.iter().find(|s| s.kind == SublayerKind::Mlp);
            let down = mlp.and_then(|s| {
                s.ops.iter().find_map(|op| match op.kind {
                    OpKind::Linear { input, .. } if op.name == "down_proj" => Some(input),
                    _ => None,
                })
            });
            dense = dense.or(down);
            if let Some(mlp) = mlp {
                sizes.gated |= mlp.ops.iter().any(|op| op.name == "gate_proj");
            }
        }
        sizes.ffn = dense.or(sizes.experts.map(|e| e.2)).unwrap_or(0);
        sizes
    }

    fn class(&mut self, class: &LayerClass) {
        let mut other = |what| {
            if !self.other_attention.contains(&what) {
                self.other_attention.push(what);
            }
        };
        for op in ops(class) {
            match op.kind {
                OpKind::Attention { heads, kv_heads, qk_dim, v_dim, span } => {
                    (self.heads, self.kv_heads, self.qk_dim, self.v_dim) = (heads, kv_heads, qk_dim, v_dim);
                    match span {
                        Span::Causal => {}
                        Span::Sliding { .. } => other("sliding windows (--window-size and --window-attn-skip-freq)"),
                        Span::Selected { .. } => other("sparse attention (--experimental-attention-variant dsa)"),
                        _ => other("attention to a part of the positions"),
                    }
                }
                OpKind::LinearAttention { .. } => {
                    other("linear attention (--experimental-attention-variant gated_delta_net)");
                }
                OpKind::Experts { experts, top_k, ffn, gated, .. } => {
                    self.experts = Some((experts, top_k, ffn));
                    self.gated |= gated;
                }
                OpKind::Norm { width, parameters, .. } if op.name == "input_norm" => {
                    self.layer_norm |= parameters > width;
                }
                _ => {}
            }
        }
        self.qk_norm |= ops(class).any(|op| op.name == "q_norm");
        self.rotary |= ops(class).any(|op| [rotary(false), rotary(true)].contains(&op.name));
        if let Some((shared, ..)) = linear(class, "shared_down_proj") {
            self.shared = shared;
        }
        let bias = |name| linear(class, name).is_some_and(|l| l.2);
        self.bias.0 |= bias("o_proj") || bias("down_proj");
        self.bias.1 |= bias("q_proj");
        if let (Some((rank, up, _)), Some((_, down, _))) = (linear(class, "kv_b_proj"), linear(class, "kv_a_proj")) {
            let nope = (up / self.heads.max(1)).saturating_sub(self.v_dim);
            self.latent = Some((linear(class, "q_a_proj").map(|l| l.1), rank, nope, down.saturating_sub(rank)));
        }
    }
}

/// `([0]*3+[1]*58)`.
fn pattern(list: &[bool]) -> String {
    let mut runs: Vec<(bool, usize)> = Vec::new();
    for x in list {
        match runs.last_mut() {
            Some((of, n)) if of == x => *n += 1,
            _ => runs.push((*x, 1)),
        }
    }
    let parts: Vec<String> = runs.iter().map(|(x, n)| format!("[{}]*{n}", u8::from(*x))).collect();
    format!("({})", parts.join("+"))
}

/// The arguments of the model; what they cannot say goes to `bundle`.
pub fn model_arguments(model: &Model, job: &Job, mtp: u64, bundle: &mut Bundle) -> Lines {
    let s = Sizes::of(model);
    let mut a = Lines::default();
    let named = |flag: &str, value: u64| format!("{flag} {value}");
    a.put(named("--num-layers", s.layers), "layers of the decoder");
    a.put(named("--hidden-size", s.hidden), "width");
    a.put(
        named("--ffn-hidden-size", s.ffn),
        if s.pattern.contains(&false) { "width of a dense MLP" } else { "no layer is dense: as an expert" },
    );
    a.put(named("--num-attention-heads", s.heads), "query heads");
    if s.latent.is_none() {
        if s.kv_heads != s.heads {
            a.put(
                format!("--group-query-attention --num-query-groups {}", s.kv_heads),
                "heads that share keys and values",
            );
        }
        a.put(named("--kv-channels", s.qk_dim), "width of a head");
    }
    if let Some((query, rank, nope, rope)) = s.latent {
        a.put("--multi-latent-attention", "keys and values through a latent vector");
        if let Some(query) = query {
            a.put(named("--q-lora-rank", query), "rank of the queries");
        }
        a.put(named("--kv-lora-rank", rank), "rank of keys and values");
        a.put(named("--qk-head-dim", nope), "width of a head without position");
        a.put(named("--qk-pos-emb-head-dim", rope), "width of a head with rotary position");
        a.put(named("--v-head-dim", s.v_dim), "width of a value head");
    }
    a.put(named("--vocab-size", model.embedding.vocab), "rows of the embedding, padded to a multiple of 128 * TP");
    let positions = model.max_positions.unwrap_or(0).max(job.sequence);
    a.put(named("--max-position-embeddings", positions), "at least the sequence");
    a.put(
        format!("--position-embedding-type {}", if s.rotary { "rope" } else { "learned_absolute" }),
        "as the model's",
    );
    a.put(format!("--normalization {}", if s.layer_norm { "LayerNorm" } else { "RMSNorm" }), "as the model's");
    if s.gated {
        a.put("--swiglu", "MLPs with a gate");
    }
    if !s.bias.0 {
        a.put("--disable-bias-linear", "linear layers without bias");
        if s.bias.1 {
            a.put("--add-qkv-bias", "but queries, keys and values have one");
        }
    }
    if s.qk_norm {
        a.put("--qk-layernorm", "queries and keys are normalised");
    }
    if !model.head.tied {
        a.put("--untie-embeddings-and-output-weights", "the head has weights of its own");
    }
    if let Some((experts, top_k, ffn)) = s.experts {
        a.put(named("--num-experts", experts), "routed experts");
        a.put(named("--moe-router-topk", top_k), "experts that a token visits");
        a.put(named("--moe-ffn-hidden-size", ffn), "width of an expert");
        if s.shared > 0 {
            a.put(named("--moe-shared-expert-intermediate-size", s.shared), "width of the shared experts together");
        }
        if s.pattern.contains(&false) {
            a.put(format!("--moe-layer-freq \"{}\"", pattern(&s.pattern)), "which layers have experts");
        }
        a.put("--moe-grouped-gemm", "one product for all experts of a rank");
        a.put("--moe-token-dispatcher-type alltoall", "tokens go to their experts by all-to-all");
        if top_k == 1 {
            a.put("--moe-router-pre-softmax", "top-1 routing needs a gradient");
        }
    }
    if mtp > 0 {
        a.put(named("--mtp-num-layers", mtp), "modules of multi-token prediction");
        if !s.rotary {
            bundle.lose(
                "multi-token prediction without rotary positions",
                "Megatron refuses it: --mtp-num-layers must go",
            );
        }
    }
    for other in &s.other_attention {
        bundle.lose(
            format!("{other}: not every layer attends to all earlier positions"),
            "full causal attention in every layer",
        );
    }
    a
}
