//! From the numbers that tables give of a model to the model: one block of attention and MLP or experts, repeated.

use crate::model::draft::Draft;
use crate::model::ops::{
    NormKind, attention, branch, column, elementwise, head_norm, linear, mlp, norm, rotary, row, weights,
};
use crate::model::{
    ClassId, Embedding, Head, Model, Mtp, Op, OpKind, Shard, Span, Stream, Sublayer, SublayerKind, Tower,
};

/// Latent attention (DeepSeek-V2 2024, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Rank of the queries' latent, if they have one.
    pub q: Option<u64>,
    /// Rank of the keys' and values' latent.
    pub kv: u64,
    /// Width of a head's part without rotation.
    pub nope: u64,
    /// Width of the rotated part.
    pub rope: u64,
    /// Width of a value head.
    pub v: u64,
}

/// A mixture of experts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixture {
    /// Routed experts.
    pub experts: u64,
    /// Experts that a token visits.
    pub top_k: u64,
    /// Inner width of a routed expert.
    pub ffn: u64,
    /// Inner width of all shared experts together; 0 without.
    pub shared: u64,
    /// Whether what their activation reads is clamped.
    pub clamped: bool,
    /// Which layers have it.
    pub layers: Vec<bool>,
}

/// What decides a model's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Latent attention in place of plain heads.
    pub latent: Option<Latent>,
    /// Norms of query and key heads.
    pub qk_norm: bool,
    /// Inner width of a dense MLP.
    pub ffn: u64,
    /// Whether MLPs and experts have a gate.
    pub gated: bool,
    /// Whether products have biases.
    pub bias: bool,
    /// Kind of the norms.
    pub norm: NormKind,
    /// Experts, if any.
    pub mixture: Option<Mixture>,
    /// Window of every second layer.
    pub window: Option<u64>,
    /// Rows of the embedding.
    pub vocab: u64,
    /// Whether head and embedding share their weights.
    pub tied: bool,
    /// Learned positions.
    pub positions: Option<u64>,
    /// Rotary embedding.
    pub rotary: bool,
    /// It also scales what it rotates.
    pub scaled_rotary: bool,
    /// Multi-token-prediction modules.
    pub mtp: u64,
    /// Every position sees every other; the head has a transform of its own (BERT).
    pub bidirectional: bool,
}

impl Shape {
    fn attention(&self, span: Span) -> Vec<Op> {
        let (h, a, k, d) = (self.hidden, self.heads, self.kv_heads, self.head_dim);
        if let Some(l) = self.latent {
            let qk = l.nope + l.rope;
            let mut ops = match l.q {
                None => vec![linear("q_proj", h, a * qk, false, column(a))],
                Some(rank) => vec![
                    linear("q_a_proj", h, rank, false, Shard::Replicated),
                    norm("q_a_norm", rank, rank),
                    linear("q_b_proj", rank, a * qk, false, column(a)),
                ],
            };
            ops.extend([
                linear("kv_a_proj", h, l.kv + l.rope, false, Shard::Replicated),
                norm("kv_a_norm", l.kv, l.kv),
                linear("kv_b_proj", l.kv, a * (l.nope + l.v), false, column(a)),
                elementwise("rotary", a * qk + l.rope, 1, column(a)),
                attention(a, a, qk, l.v, span),
                linear("o_proj", a * l.v, h, false, row(a)),
            ]);
            return ops;
        }
        let mut ops = vec![
            linear("q_proj", h, a * d, self.bias, column(a)),
            linear("k_proj", h, k * d, self.bias, column(k)),
            linear("v_proj", h, k * d, self.bias, column(k)),
        ];
        if self.qk_norm {
            ops.push(head_norm("q_norm", d, a, d));
            ops.push(head_norm("k_norm", d, k, d));
        }
        if self.rotary {
            ops.push(elementwise(rotary(self.scaled_rotary), (a + k) * d, 1, column(a)));
        }
        ops.push(attention(a, k, d, d, span));
        ops.push(linear("o_proj", a * d, h, self.bias, row(a)));
        ops
    }

    fn feed(&self, layer: usize) -> (SublayerKind, Vec<Op>) {
        let mixture = self.mixture.as_ref().filter(|m| m.layers.get(layer).copied().unwrap_or(false));
        let Some(m) = mixture else {
            return (SublayerKind::Mlp, mlp(self.hidden, self.ffn, self.gated, self.bias));
        };
        let kind = OpKind::Experts {
            experts: m.experts,
            top_k: m.top_k,
            input: self.hidden,
            ffn: m.ffn,
            gated: self.gated,
            bias: self.bias,
            clamped: m.clamped,
        };
        let mut ops = vec![
            linear("router", self.hidden, m.experts, false, Shard::Replicated),
            elementwise("router_scores", m.experts, 1, Shard::Replicated),
            Op { name: "experts", kind },
        ];
        if m.shared > 0 {
            ops.extend(mlp(self.hidden, m.shared, self.gated, self.bias));
        }
        ops.push(elementwise("combine", self.hidden, m.top_k + u64::from(m.shared > 0), Shard::Replicated));
        (SublayerKind::Moe, ops)
    }

    fn layer(&self, index: usize) -> Vec<Sublayer> {
        let h = self.hidden;
        let span = match self.window {
            _ if self.bidirectional => Span::Bidirectional,
            Some(window) if index.is_multiple_of(2) => Span::Sliding { window },
            _ => Span::Causal,
        };
        let (kind, feed) = self.feed(index);
        vec![
            branch(SublayerKind::Attention, h, Some(self.norm.op("input_norm", h)), self.attention(span), None),
            branch(kind, h, Some(self.norm.op("post_norm", h)), feed, None),
        ]
    }

    /// The model, called `name`.
    pub fn model(&self, name: &str) -> Model {
        let h = self.hidden;
        let mut draft = Draft::default();
        let layers: Vec<ClassId> =
            (0..self.layers as usize).map(|i| draft.layer("decoder", Stream::Text, h, 1, self.layer(i))).collect();
        let mtp = layers.last().map(|&class| Mtp {
            class,
            ops: vec![
                self.norm.op("embedding_norm", h),
                self.norm.op("hidden_norm", h),
                linear("projection", 2 * h, h, false, column(h)),
                self.norm.op("final_norm", h),
            ],
        });
        let mut head = vec![self.norm.op("final_norm", h)];
        if self.bidirectional {
            head.extend([linear("transform", h, h, true, Shard::Replicated), self.norm.op("transform_norm", h)]);
        }
        let positions = self.positions.map(|rows| weights("positions", rows * h, Shard::Replicated));
        Model {
            name: name.to_owned(),
            family: "table".to_owned(),
            classes: draft.into_classes(),
            towers: vec![Tower { stream: Stream::Text, stem: Vec::new(), layers, exit: Vec::new(), exit_ratio: 1 }],
            embedding: Embedding { vocab: self.vocab, hidden: h, ops: positions.into_iter().collect() },
            head: Head { vocab: self.vocab, hidden: h, tied: self.tied, bias: self.bidirectional, ops: head },
            mtp: mtp.into_iter().cycle().take(self.mtp as usize).collect(),
            max_positions: self.positions,
            notes: Vec::new(),
        }
    }
}
