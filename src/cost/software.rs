//! What a framework keeps, allocates and overlaps, beyond what the model and the strategy decide.
//!
//! The default is a framework of 2026 with fused attention, no dropout and all overlaps. A table of runs, or a target, says
//! what another one does differently; each field is a fact about its code or its flags, none is fitted to a source.

use serde::{Deserialize, Serialize};

/// What selective recomputation redoes instead of keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selective {
    /// The core of attention: its scores where they are kept (Korthikanti 2022, section 5), its time in any case.
    pub scores: bool,
    /// Outputs of norms in front of products.
    pub norms: bool,
    /// Outputs of activation functions.
    pub activations: bool,
    /// Outputs of activation functions inside routed experts.
    pub expert_activations: bool,
    /// Products that expand a latent into heads.
    pub latent: bool,
    /// Everything in dense MLPs.
    pub mlp: bool,
}

impl Default for Selective {
    fn default() -> Self {
        Self { scores: false, norms: true, activations: true, expert_activations: true, latent: true, mlp: false }
    }
}

impl Selective {
    /// Nothing yet.
    pub const NONE: Self =
        Self { scores: false, norms: false, activations: false, expert_activations: false, latent: false, mlp: false };

    /// What Megatron's names of modules mean (`--recompute-modules`), and the names that mean more than is modelled.
    pub fn of_modules<'a>(modules: impl IntoIterator<Item = &'a str>) -> (Self, Vec<&'a str>) {
        let (mut selective, mut beyond) = (Self::NONE, Vec::new());
        for module in modules {
            match module {
                "core_attn" => selective.scores = true,
                "layernorm" => selective.norms = true,
                "moe_act" => selective.expert_activations = true,
                "mla_up_proj" => selective.latent = true,
                "mlp" => selective.mlp = true,
                other => beyond.push(other),
            }
        }
        (selective, beyond)
    }
}

/// Conventions of a framework.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Software {
    /// Attention writes its scores to memory instead of fusing them away.
    pub scores: bool,
    /// Masks of dropout behind every branch are kept.
    pub dropout: bool,
    /// Masks of dropout on attention scores are kept.
    pub score_dropout: bool,
    /// What selective recomputation redoes.
    pub selective: Selective,
    /// Bytes held per token and vocabulary entry of a rank while the loss is computed.
    pub loss_bytes: f64,
    /// Work areas of libraries inside the framework's allocator, bytes.
    pub workspace: f64,
    /// Bytes of buffers for weight gradients, per parameter of one layer. Transformer Engine keeps a gradient in the weights'
    /// format for every shape of weight although the real one is accumulated elsewhere.
    pub gradient_buffers: f64,
    /// The same per parameter of the head, while it runs backward.
    pub head_buffers: f64,
    /// Bytes per token and width that tensor-parallel ranks hold of whole boundary tensors, beside those of the running
    /// operators, where no pipeline makes the host wait: it issues gathers and scatters ahead, and the allocator gives a
    /// tensor's memory out again only when the other stream is done with it.
    pub run_ahead: f64,
    /// Experts' outputs are kept for the gradient of the router: it scales them, not what is inside the experts.
    pub expert_outputs: bool,
    /// Reserved over allocated memory of the framework's allocator.
    pub allocator: f64,
    /// Further copies of every token sent to an expert that are kept: unfused permutations.
    pub expert_copies: f64,
    /// Bytes of optimizer state per parameter beside moments and master weights.
    pub extra_optimizer: f64,
    /// Bytes of gradients per parameter in the weights' format that a step keeps beside the accumulated ones.
    pub narrow_gradients: f64,
    /// What is kept for the backward pass, over the tensors that the operators need: eager programs keep intermediate ones.
    pub activations: f64,
    /// Fraction of the device's plateau that matrix products reach.
    pub gemm: f64,
    /// Fraction of the device's plateau that attention reaches: kernels of an earlier generation.
    pub attention: f64,
    /// Memory traffic of element-wise operators, over what fused ones move.
    pub elementwise: f64,
    /// Operators that no fused kernel of Megatron's covers run step by step: biases of routed experts, clamps in front of their
    /// activation, rotary embedding that also scales.
    pub eager: bool,
    /// Time in which the host issues the forward pass of a layer; the backward pass takes twice as long.
    pub host_s: f64,
    /// The same for every tensor-parallel rank, where boundary tensors are passed on between its collectives, over links of
    /// nodes: within a node no run shows it.
    pub host_tensor_s: f64,
    /// Time to hand a boundary tensor from stage to stage beside what the network takes: eager programs read its shape back
    /// from the device, number by number, before they receive it.
    pub hop_s: f64,
    /// Gathers and scatters of tensor parallelism overlap with products.
    pub tensor_overlap: bool,
    /// In the backward pass they do in any case: the gather behind the input gradient, the scatter behind the weight gradient.
    pub backward_overlap: bool,
    /// Measured iteration time over the predicted: its 10 % and 90 % quantiles in published runs.
    pub time_spread: [f64; 2],
    /// The same of peak memory.
    pub memory_spread: [f64; 2],
    /// Gradients are reduced while the backward pass goes on, and updated weights gathered during the forward pass.
    pub data_overlap: bool,
}

impl Default for Software {
    fn default() -> Self {
        Self {
            scores: false,
            dropout: false,
            score_dropout: false,
            selective: Selective::default(),
            loss_bytes: super::options::LOSS_BYTES,
            workspace: 0.0,
            gradient_buffers: 0.0,
            head_buffers: 0.0,
            run_ahead: 0.0,
            expert_outputs: true,
            allocator: super::options::ALLOCATOR_FACTOR,
            expert_copies: 0.0,
            extra_optimizer: 0.0,
            narrow_gradients: 0.0,
            activations: 1.0,
            gemm: 1.0,
            attention: 1.0,
            elementwise: 1.0,
            eager: false,
            host_s: 0.0,
            host_tensor_s: 0.0,
            hop_s: 0.0,
            tensor_overlap: true,
            backward_overlap: true,
            // 589 tuned runs and 475 exact peaks of eight sources, those of parameter sweeps left out (2026-11).
            time_spread: [0.94, 1.19],
            memory_spread: [0.98, 1.06],
            data_overlap: true,
        }
    }
}

impl Software {
    /// The same conventions without the numbers that were fitted to a framework's runs.
    pub fn neutral(self) -> Self {
        let usual = Self::default();
        Self {
            activations: usual.activations,
            gemm: usual.gemm,
            attention: usual.attention,
            elementwise: usual.elementwise,
            host_s: usual.host_s,
            host_tensor_s: usual.host_tensor_s,
            hop_s: usual.hop_s,
            workspace: usual.workspace,
            gradient_buffers: usual.gradient_buffers,
            head_buffers: usual.head_buffers,
            run_ahead: usual.run_ahead,
            expert_copies: usual.expert_copies,
            loss_bytes: usual.loss_bytes,
            time_spread: usual.time_spread,
            memory_spread: usual.memory_spread,
            ..self
        }
    }

    /// Whether it is the default.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
