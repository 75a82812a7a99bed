//! What Galvatron is asked: the model's layers, the devices, the batch, and which strategies may be used.

use super::strategy::DpType;

/// Layers of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerType {
    /// Width of the residual stream.
    pub hidden: u64,
    /// How many layers.
    pub layers: u32,
    /// Tokens per sample.
    pub sequence: u64,
}

/// Number format of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// float32 throughout.
    Fp32,
    /// float16 with float32 master weights.
    Fp16,
    /// bfloat16 with float32 master weights.
    Bf16,
}

impl Precision {
    /// As files and arguments write it.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
        }
    }

    /// Whether working weights have two bytes.
    pub const fn mixed(self) -> bool {
        !matches!(self, Precision::Fp32)
    }

    /// Bytes of an activation value on the wire.
    pub const fn wire_bytes(self) -> f64 {
        if self.mixed() { 2.0 } else { 4.0 }
    }
}

/// Order of the passes in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// One forward, one backward (`pipedream_flush`).
    OneForwardOneBackward,
    /// All forwards, then all backwards (`gpipe`).
    Gpipe,
}

impl Pipeline {
    /// As plan files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Pipeline::OneForwardOneBackward => "pipedream_flush",
            Pipeline::Gpipe => "gpipe",
        }
    }
}

/// How layer times are read from the computation profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeMode {
    /// The first entry of a type, per sample.
    Static,
    /// A line through the batch sizes at the wanted sequence length.
    Batch,
    /// A parabola through the sequence lengths at batch 1.
    Sequence,
}

/// How layer memory is read from the memory profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryMode {
    /// The entry of exactly the wanted sequence length.
    Static,
    /// The longest sequence, scaled.
    Sequence,
}

/// Where micro-batches and layers may be cut.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceLimits {
    /// Data parallelism allowed.
    pub dp: bool,
    /// Tensor parallelism allowed.
    pub tp: bool,
    /// Context parallelism allowed.
    pub cp: bool,
    /// Ulysses allowed.
    pub sp: bool,
    /// Tensor parallelism of embedding and head allowed.
    pub embedding_tp: bool,
    /// Ulysses for embedding and head allowed.
    pub embedding_sp: bool,
    /// Pipelines allowed.
    pub pp: bool,
    /// Recompute allowed.
    pub checkpoint: bool,
    /// ZeRO-3 allowed.
    pub zero3: bool,
    /// Largest tensor-parallel degree.
    pub max_tp: u32,
    /// Largest number of stages.
    pub max_pp: u32,
    /// Largest Ulysses degree.
    pub max_sp: u32,
    /// Largest context-parallel degree.
    pub max_cp: u32,
    /// Whether layers may differ from each other (`fine_grained_mode`).
    pub per_layer: bool,
}

/// Which batches are searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Batches {
    /// Global batches, in the order in which they are tried.
    pub global: Vec<u32>,
    /// The number of micro-batches if it is given.
    pub chunks: Option<u32>,
}

/// Numbers fixed in Galvatron's source (version 2.4.1, read 2025).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// Backward over forward compute, without recompute.
    pub backward_over_forward: f64,
    /// What the device context and its libraries keep, MB.
    pub context_mb: f64,
    /// Part of the memory set aside on devices of more than 20 GB.
    pub reserve: f64,
}

impl Default for Constants {
    fn default() -> Self {
        Self { backward_over_forward: 2.0, context_mb: 1024.0, reserve: 0.2 }
    }
}

/// The question in Galvatron's terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The model's name, as in the names of its profiles.
    pub model: String,
    /// Its layers by type, in model order.
    pub layer_types: Vec<LayerType>,
    /// Nodes.
    pub nodes: u32,
    /// Devices per node.
    pub devices_per_node: u32,
    /// Memory of one device, in units of 1024 MB.
    pub memory_gb: f64,
    /// What data parallelism shards where ZeRO-3 is not chosen.
    pub default_dp: DpType,
    /// Order of the passes.
    pub pipeline: Pipeline,
    /// Gradients are reduced once per iteration, not in every micro-batch.
    pub async_grad_reduce: bool,
    /// Number format.
    pub precision: Precision,
    /// Megatron sequence parallelism goes with tensor parallelism.
    pub sequence_parallel: bool,
    /// A buffer for gathered activations is charged.
    pub global_memory_buffer: bool,
    /// What may be chosen.
    pub limits: SpaceLimits,
    /// Which batches.
    pub batches: Batches,
    /// How layer times are read.
    pub time_mode: TimeMode,
    /// How memory is read.
    pub memory_mode: MemoryMode,
    /// Numbers fixed in Galvatron's source.
    pub constants: Constants,
}

impl Setting {
    /// Devices in all.
    pub fn world(&self) -> u32 {
        self.nodes * self.devices_per_node
    }

    /// Layers in all.
    pub fn layers(&self) -> u32 {
        self.layer_types.iter().map(|t| t.layers).sum()
    }

    /// Type of each layer in model order.
    pub fn layer_kinds(&self) -> Vec<usize> {
        self.layer_types.iter().enumerate().flat_map(|(i, t)| std::iter::repeat_n(i, t.layers as usize)).collect()
    }
}
