//! What tells one family of decoder-only transformers from another, as data.
//!
//! Rules were read from the modelling classes of transformers 5.24 (2026-11) and checked against published counts:
//! configs alone do not say them (biases, norms, default ties).

use crate::model::ModelError;
use crate::model::fields::Fields;
use crate::model::ops::NormKind;

/// A yes or no of a family: fixed, or a key of the config with the value that its absence means.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Never,
    Always,
    Key(&'static str, bool),
}

impl When {
    pub(super) fn of(self, fields: &Fields) -> Result<bool, ModelError> {
        match self {
            When::Never => Ok(false),
            When::Always => Ok(true),
            When::Key(key, default) => fields.flag(key, default),
        }
    }
}

/// Norms on queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    None,
    /// Every head normalised alone, one weight vector of a head's width for all.
    Head,
    /// Every head normalised alone with a weight vector of its own.
    EachHead,
    /// Every head normalised alone, without weights.
    Bare,
    /// All heads normalised together.
    Width,
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// One before each branch.
    Pre,
    /// One after each branch, none before (OLMo-2).
    Post,
    /// Before and after each branch (Gemma-2, GLM-4-0414).
    Sandwich,
    /// Both branches side by side behind one norm (Cohere, Phi).
    Shared,
}

/// Which positions the layers attend to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spans {
    /// All earlier ones, in every layer.
    Full,
    /// The window of `sliding_window` in every layer, if given (Mistral).
    Window,
    /// The window in the layers from `max_window_layers` on, if `use_sliding_window` (Qwen).
    Upper,
    /// As `layer_types` says; absent, every n-th layer is full and the others see the window. n may stand under
    /// `sliding_window_pattern`.
    Every(u64),
    /// As `layer_types` says; absent, all full.
    Listed,
    /// Chunks of `attention_chunk_size` but in layers without rotary embedding, every `no_rope_layer_interval`-th (Llama-4).
    Chunks,
    /// As `hybrid_layer_pattern` (1 = window) or `layer_types` says, with other key/value heads under a window (MiMo-V2).
    Pattern,
}

/// Which layers have experts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sparse {
    All,
    /// Every `decoder_sparse_step`-th, but those of `mlp_only_layers` (Qwen).
    Steps,
    /// From `first_k_dense_replace` on, every `moe_layer_freq`-th; `mlp_layer_types` or a list under `moe_layer_freq`
    /// overrule (DeepSeek, GLM, MiMo).
    AfterDense {
        /// What an absent `first_k_dense_replace` means.
        dense: u64,
    },
    /// `moe_layers`, else every `interleave_moe_layer_step`-th (Llama-4).
    Interleaved,
}

/// Experts that every token visits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shared {
    None,
    /// `n_shared_experts` times the width of a routed expert.
    Count,
    /// One of the width under a key, behind a gate of its own (Qwen).
    Gated(&'static str),
    /// One of the width under a key, without gate.
    Width(&'static str),
    /// One as wide as a routed expert (Llama-4).
    One,
}

/// The feed-forward branch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feed {
    Dense,
    Experts {
        layers: Sparse,
        shared: Shared,
        /// Key of a routed expert's width.
        width: &'static str,
        /// Key of a dense layer's width.
        dense: &'static str,
        /// Whether router and experts have biases.
        bias: bool,
    },
}

/// A family of decoder-only transformers with grouped-query attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) norm: NormKind,
    pub(super) block: Block,
    pub(super) qkv_bias: When,
    pub(super) o_bias: When,
    pub(super) mlp_bias: When,
    pub(super) head_bias: When,
    pub(super) qk_norm: QkNorm,
    pub(super) qk_norm_if: When,
    /// A learned logit per head beside the scores.
    pub(super) sinks: bool,
    pub(super) gated: bool,
    pub(super) spans: Spans,
    pub(super) feed: Feed,
    /// What an absent `tie_word_embeddings` means.
    pub(super) tied: bool,
    /// Values of the family's class for keys that published configs leave out.
    pub(super) defaults: &'static [(&'static str, u64)],
}

/// The family that the others are told by difference from.
pub(super) const LLAMA: Rules = Rules {
    norm: NormKind::Scale,
    block: Block::Pre,
    qkv_bias: ATTENTION_BIAS,
    o_bias: ATTENTION_BIAS,
    mlp_bias: When::Key("mlp_bias", false),
    head_bias: When::Never,
    qk_norm: QkNorm::None,
    qk_norm_if: When::Always,
    sinks: false,
    gated: true,
    spans: Spans::Full,
    feed: Feed::Dense,
    tied: false,
    defaults: &[],
};

const ATTENTION_BIAS: When = When::Key("attention_bias", false);

/// No biases anywhere.
const PLAIN: Rules = Rules { qkv_bias: When::Never, o_bias: When::Never, mlp_bias: When::Never, ..LLAMA };

const QWEN3: Rules = Rules {
    mlp_bias: When::Never,
    qk_norm: QkNorm::Head,
    qk_norm_if: When::Key("use_qk_norm", true),
    spans: Spans::Upper,
    ..LLAMA
};

const GEMMA2: Rules =
    Rules { mlp_bias: When::Never, block: Block::Sandwich, spans: Spans::Every(2), tied: true, ..LLAMA };

const OLMO2: Rules = Rules { mlp_bias: When::Never, block: Block::Post, qk_norm: QkNorm::Width, ..LLAMA };

const COHERE: Rules = Rules { mlp_bias: When::Never, block: Block::Shared, tied: true, ..LLAMA };

/// Every layer routes, experts of `intermediate_size`.
const ALL_EXPERTS: Feed = Feed::Experts {
    layers: Sparse::All,
    shared: Shared::None,
    width: "intermediate_size",
    dense: "intermediate_size",
    bias: false,
};

const fn own_width(layers: Sparse, shared: Shared) -> Feed {
    Feed::Experts { layers, shared, width: "moe_intermediate_size", dense: "intermediate_size", bias: false }
}

const QWEN_EXPERTS: Feed = own_width(Sparse::Steps, Shared::Gated("shared_expert_intermediate_size"));

/// The rules of DeepSeek's mixture, which GLM, Kimi, dots and MiMo took over.
pub(super) const fn deepseek_experts(dense: u64) -> Feed {
    own_width(Sparse::AfterDense { dense }, Shared::Count)
}

/// Families with grouped-query attention by `model_type`.
pub(super) const FAMILIES: &[(&str, Rules)] = &[
    ("llama", LLAMA),
    ("mistral", Rules { spans: Spans::Window, ..PLAIN }),
    ("ministral3", Rules { spans: Spans::Window, ..PLAIN }),
    ("qwen2", Rules { qkv_bias: When::Always, spans: Spans::Upper, ..PLAIN }),
    ("qwen3", QWEN3),
    ("phi3", Rules { spans: Spans::Window, ..PLAIN }),
    (
        "phi",
        Rules {
            norm: NormKind::ScaleAndBias,
            block: Block::Shared,
            qkv_bias: When::Always,
            o_bias: When::Always,
            mlp_bias: When::Always,
            head_bias: When::Always,
            qk_norm: QkNorm::Head,
            qk_norm_if: When::Key("qk_layernorm", false),
            gated: false,
            ..LLAMA
        },
    ),
    ("glm", Rules { qkv_bias: When::Key("attention_bias", true), ..PLAIN }),
    ("glm4", Rules { qkv_bias: When::Key("attention_bias", true), block: Block::Sandwich, ..PLAIN }),
    ("gemma", Rules { mlp_bias: When::Never, tied: true, ..LLAMA }),
    ("gemma2", GEMMA2),
    (
        "gemma3_text",
        Rules {
            qk_norm: QkNorm::Head,
            spans: Spans::Every(6),
            // Gemma3TextConfig of transformers 5.24: the hub's gemma-3 configs state only what differs from it.
            defaults: &[
                ("num_attention_heads", 8),
                ("num_key_value_heads", 4),
                ("head_dim", 256),
                ("vocab_size", 262_208),
                ("sliding_window", 4096),
            ],
            ..GEMMA2
        },
    ),
    ("olmo", Rules { norm: NormKind::Bare, mlp_bias: When::Never, ..LLAMA }),
    ("olmo2", OLMO2),
    ("olmo3", Rules { spans: Spans::Every(4), ..OLMO2 }),
    ("cohere", Rules { qk_norm: QkNorm::EachHead, qk_norm_if: When::Key("use_qk_norm", false), ..COHERE }),
    ("cohere2", Rules { spans: Spans::Every(4), ..COHERE }),
    ("granite", LLAMA),
    ("smollm3", Rules { spans: Spans::Listed, tied: true, ..LLAMA }),
    (
        "seed_oss",
        Rules { qkv_bias: When::Key("attention_bias", true), o_bias: When::Key("attention_out_bias", false), ..LLAMA },
    ),
    ("nemotron", Rules { norm: NormKind::ScaleAndBias, gated: false, ..LLAMA }),
    (
        "stablelm",
        Rules {
            norm: NormKind::ScaleAndBias,
            qkv_bias: When::Key("use_qkv_bias", false),
            qk_norm: QkNorm::EachHead,
            qk_norm_if: When::Key("qk_layernorm", false),
            ..PLAIN
        },
    ),
    (
        "starcoder2",
        Rules {
            norm: NormKind::ScaleAndBias,
            qkv_bias: When::Key("use_bias", true),
            o_bias: When::Key("use_bias", true),
            mlp_bias: When::Key("use_bias", true),
            gated: false,
            spans: Spans::Window,
            tied: true,
            ..LLAMA
        },
    ),
    ("mixtral", Rules { spans: Spans::Window, feed: ALL_EXPERTS, ..PLAIN }),
    ("olmoe", Rules { mlp_bias: When::Never, qk_norm: QkNorm::Width, feed: ALL_EXPERTS, ..LLAMA }),
    ("granitemoe", Rules { mlp_bias: When::Never, feed: ALL_EXPERTS, ..LLAMA }),
    (
        "phimoe",
        Rules {
            norm: NormKind::ScaleAndBias,
            mlp_bias: When::Never,
            head_bias: When::Key("lm_head_bias", false),
            spans: Spans::Window,
            feed: ALL_EXPERTS,
            ..LLAMA
        },
    ),
    (
        "minimax_m2",
        Rules {
            qk_norm: QkNorm::Width,
            qk_norm_if: When::Key("use_qk_norm", true),
            feed: Feed::Experts {
                layers: Sparse::All,
                shared: Shared::Width("shared_intermediate_size"),
                width: "intermediate_size",
                dense: "intermediate_size",
                bias: false,
            },
            ..PLAIN
        },
    ),
    ("qwen2_moe", Rules { qkv_bias: When::Key("qkv_bias", true), spans: Spans::Upper, feed: QWEN_EXPERTS, ..PLAIN }),
    ("qwen3_moe", Rules { feed: QWEN_EXPERTS, ..QWEN3 }),
    (
        "gpt_oss",
        Rules {
            qkv_bias: When::Key("attention_bias", true),
            o_bias: When::Key("attention_bias", true),
            mlp_bias: When::Never,
            sinks: true,
            spans: Spans::Every(2),
            feed: Feed::Experts {
                layers: Sparse::All,
                shared: Shared::None,
                width: "intermediate_size",
                dense: "intermediate_size",
                bias: true,
            },
            ..LLAMA
        },
    ),
    (
        "glm4_moe",
        Rules {
            qkv_bias: ATTENTION_BIAS,
            qk_norm: QkNorm::Head,
            qk_norm_if: When::Key("use_qk_norm", false),
            feed: deepseek_experts(1),
            ..PLAIN
        },
    ),
    ("dots1", Rules { feed: deepseek_experts(0), ..QWEN3 }),
    (
        "llama4_text",
        Rules {
            mlp_bias: When::Never,
            qk_norm: QkNorm::Bare,
            qk_norm_if: When::Key("use_qk_norm", true),
            spans: Spans::Chunks,
            feed: Feed::Experts {
                layers: Sparse::Interleaved,
                shared: Shared::One,
                width: "intermediate_size",
                dense: "intermediate_size_mlp",
                bias: false,
            },
            ..LLAMA
        },
    ),
    ("mimo_v2_flash", Rules { qkv_bias: ATTENTION_BIAS, spans: Spans::Pattern, feed: deepseek_experts(1), ..PLAIN }),
];

/// The rules of a family with grouped-query attention.
pub(super) fn of(model_type: &str) -> Option<&'static Rules> {
    FAMILIES.iter().find(|(name, _)| *name == model_type).map(|(_, rules)| rules)
}
