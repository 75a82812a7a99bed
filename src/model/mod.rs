//! What is trained: the model as a list of layer classes, each a list of operators with exact shapes.
//!
//! Every family of models is brought to this one form, so that parameters, FLOPs, memory and communication are
//! derived from operators and never from a family's name. Widths are in elements, counts are exact integers.

mod count;
pub(crate) mod draft;
mod error;
mod families;
mod fields;
mod flops;
pub mod import;
pub(crate) mod ops;
pub mod presets;
mod vocabulary;

pub use error::{Details, ModelError};
pub use flops::{Lengths, Masked};

use serde::Serialize;

/// Which sequence of tokens runs through a layer. Its length comes from the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// The decoder's tokens: `Job::sequence` per sample.
    Text,
    /// The encoder's tokens of an encoder-decoder model.
    Encoder,
    /// The patches of a vision tower.
    Vision,
}

/// Index into [`Model::classes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ClassId(pub u32);

/// How tensor parallelism may cut an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shard {
    /// Output features are cut, in `units` indivisible groups (heads, or features where nothing groups them).
    /// Beyond `units` ranks the groups are replicated (key/value heads).
    Column {
        /// Number of indivisible groups.
        units: u64,
    },
    /// Input features are cut likewise; the output needs a reduction over the tensor-parallel group.
    Row {
        /// Number of indivisible groups.
        units: u64,
    },
    /// Every tensor-parallel rank holds all of it.
    Replicated,
}

/// Which positions a query attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// All earlier positions and itself.
    Causal,
    /// At most this many earlier positions, itself included.
    Sliding {
        /// Window length in tokens.
        window: u64,
    },
    /// Causal inside chunks of this length (Llama-4).
    Chunked {
        /// Chunk length in tokens.
        chunk: u64,
    },
    /// Every position of its own block of this length, and none of another (windowed attention of vision towers).
    Blocks {
        /// Block length in tokens.
        block: u64,
    },
    /// Every position of the sequence.
    Bidirectional,
    /// Every position of the encoder's sequence (cross attention).
    Encoder,
    /// The `top_k` positions that an indexer chose (DeepSeek sparse attention), causal.
    Selected {
        /// Positions kept per query.
        top_k: u64,
    },
    /// Positions compressed by `ratio`, of which at most `top_k` are read, plus a sliding window (DeepSeek-V4).
    Compressed {
        /// Tokens per compressed entry.
        ratio: u64,
        /// Compressed entries read per query; `None` reads all.
        top_k: Option<u64>,
        /// Uncompressed recent tokens.
        window: u64,
    },
}

/// One operator of a layer, for one token unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Op {
    /// Its usual name, e.g. `q_proj`.
    pub name: &'static str,
    /// What it computes.
    pub kind: OpKind,
}

/// What an operator computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// `y = xW (+ b)`: `input x output` weights, `output` biases if `bias`.
    Linear {
        /// Input width.
        input: u64,
        /// Output width.
        output: u64,
        /// Whether a bias vector is added.
        bias: bool,
        /// How it is cut.
        shard: Shard,
    },
    /// Normalisation of `width` values per token (`instances` of them, e.g. one per head), holding `parameters` weights.
    Norm {
        /// Values normalised together.
        width: u64,
        /// How many such groups a token has.
        instances: u64,
        /// Weights and biases in all (shared over instances where the family does so).
        parameters: u64,
        /// How it is cut (per-head norms follow the heads).
        shard: Shard,
    },
    /// Softmax attention: scores and weighted sum.
    Attention {
        /// Query heads.
        heads: u64,
        /// Key/value heads.
        kv_heads: u64,
        /// Width of a query or key head.
        qk_dim: u64,
        /// Width of a value head.
        v_dim: u64,
        /// Which positions are read.
        span: Span,
    },
    /// Linear attention with a recurrent state (gated delta rule): state of `k_dim x v_dim` per value head.
    LinearAttention {
        /// Key heads.
        k_heads: u64,
        /// Value heads.
        v_heads: u64,
        /// Width of a key head.
        k_dim: u64,
        /// Width of a value head.
        v_dim: u64,
    },
    /// Scores of the indexer of sparse attention: `heads x dim` against all earlier positions (compressed by `ratio`).
    Indexer {
        /// Indexer heads.
        heads: u64,
        /// Width of an indexer head.
        dim: u64,
        /// Tokens per scored entry (1 = every position).
        ratio: u64,
    },
    /// Element-wise work on `width` values per token: `reads` inputs and one output of that width
    /// (activation function, gate product, rotary embedding, residual sum).
    Elementwise {
        /// Values per token.
        width: u64,
        /// Input tensors read.
        reads: u64,
        /// How it is cut.
        shard: Shard,
    },
    /// Weights that no matrix product reads: sinks, convolution kernels, decay terms, biases of a router, position tables.
    Weights {
        /// How many.
        parameters: u64,
        /// How they are cut.
        shard: Shard,
    },
    /// Routed experts: each token visits `top_k` of `experts` MLPs of `input -> ffn -> input`.
    /// The router in front of them is a `Linear` of its own.
    Experts {
        /// Number of routed experts.
        experts: u64,
        /// Experts that a token visits.
        top_k: u64,
        /// Width of the token.
        input: u64,
        /// Inner width of one expert.
        ffn: u64,
        /// Whether a gate projection stands beside the up projection.
        gated: bool,
        /// Whether up, gate and down projections have biases.
        bias: bool,
        /// Whether what the activation reads is clamped by operators of their own (GPT-OSS's `swiglu_limit`).
        clamped: bool,
    },
}

/// What a sublayer is: it decides where tensor-parallel gathers and reductions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SublayerKind {
    /// Self attention of any kind, linear attention included.
    Attention,
    /// Attention to the encoder's output.
    CrossAttention,
    /// Dense MLP.
    Mlp,
    /// Router, routed experts and shared experts.
    Moe,
}

/// A residual branch: input norm, projections, core, output projection. One tensor-parallel region.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Sublayer {
    /// What it is.
    pub kind: SublayerKind,
    /// Its operators in order of execution.
    pub ops: Vec<Op>,
}

/// Layers that cost the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LayerClass {
    /// E.g. `decoder.sliding.moe`.
    pub name: String,
    /// Which tokens run through it.
    pub stream: Stream,
    /// Width of the residual stream (the boundary tensor between layers has this many values per token).
    pub hidden: u64,
    /// Parallel copies of the residual stream (hyper-connections of DeepSeek-V4); 1 elsewhere.
    pub residual_streams: u64,
    /// Its residual branches in order.
    pub sublayers: Vec<Sublayer>,
}

/// A run of layers on one stream, with what stands before and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tower {
    /// Which tokens.
    pub stream: Stream,
    /// Before the first layer: patch embedding, position tables (not the token embedding).
    pub stem: Vec<Op>,
    /// The layers in order.
    pub layers: Vec<ClassId>,
    /// After the last layer: merger or projector of a vision tower, final norm of an encoder.
    pub exit: Vec<Op>,
    /// Tokens of this tower that one token of `exit` gathers (spatial merge of a vision tower); 1 elsewhere.
    pub exit_ratio: u64,
}

/// Token embedding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Embedding {
    /// Rows, as in the config (frameworks may pad).
    pub vocab: u64,
    /// Columns.
    pub hidden: u64,
    /// What is added to it: learned positions, embedding norm, ...
    pub ops: Vec<Op>,
}

/// Final norm and projection to the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Columns.
    pub vocab: u64,
    /// Rows.
    pub hidden: u64,
    /// Whether it shares the embedding's weights.
    pub tied: bool,
    /// Whether it adds a bias.
    pub bias: bool,
    /// Final norm and anything else in front of the projection.
    pub ops: Vec<Op>,
}

/// One multi-token-prediction module: a layer with its own projection, ending in another pass through the head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mtp {
    /// The layer.
    pub class: ClassId,
    /// Its norms and the `2h -> h` projection.
    pub ops: Vec<Op>,
}

/// A model, whole. Execution order: towers in order (a vision or encoder tower first, the text tower last),
/// token embedding before the text tower (and before the encoder of an encoder-decoder), head, MTP modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// A name for reports (file stem or preset).
    pub name: String,
    /// `model_type` of the config.
    pub family: String,
    /// Distinct layers.
    pub classes: Vec<LayerClass>,
    /// Runs of layers; the last is the text decoder.
    pub towers: Vec<Tower>,
    /// Token embedding.
    pub embedding: Embedding,
    /// Final norm, head.
    pub head: Head,
    /// Multi-token-prediction modules (not counted by [`Model::parameters_total`]).
    pub mtp: Vec<Mtp>,
    /// Longest sequence the config allows, if it says.
    pub max_positions: Option<u64>,
    /// Remarks a user should see: fields that were understood but do not enter the costs, assumptions by family rules.
    pub notes: Vec<String>,
}
