//! A launch of Megatron-LM: the arguments of its parser, how many ranks there are, and where they run.
//!
//! Each argument is given, at its default, or, in a partial plan, not decided yet. Values that Megatron derives from them
//! (`megatron/training/arguments.py`, `validate_args`) are methods.

use super::flags::{Flag, Flags};
use super::layout::Layout;
use super::pattern::Pattern;
use crate::rules::{Known, Undecided, divides};
use std::collections::BTreeMap;

/// What an argument holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Python's `None`.
    Nothing,
    /// A switch.
    Switch(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// Several values.
    Many(Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
enum Slot {
    Undecided,
    Default(Value),
    Given(Value),
}

/// A launch.
#[derive(Debug, Clone)]
pub struct Launch {
    slots: Vec<Slot>,
    /// Ranks in all.
    pub world: Known<u64>,
    /// Major number of the compute capability: 8 Ampere, 9 Hopper, 10 Blackwell.
    pub arch: Known<u64>,
    /// Environment of the ranks; `None` where nothing is known of it.
    pub environment: Option<BTreeMap<String, String>>,
}

/// What Megatron makes of the arguments that say how the pipeline is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A layout string.
    Layout,
    /// Chunks of a given number of layers.
    LayersPerChunk(i64),
    /// A given number of chunks per rank.
    Chunks(i64),
    /// One chunk per rank.
    Plain,
}

fn default_of(flag: &Flag) -> Value {
    use super::flags::{Takes, Type};
    let Some(text) = flag.default else { return Value::Nothing };
    match flag.takes {
        Takes::Nothing(_) => Value::Switch(text == "true"),
        Takes::One(Type::Int) => text.parse().map_or(Value::Nothing, Value::Int),
        Takes::One(Type::Float) => text.parse().map_or(Value::Nothing, Value::Float),
        Takes::One(_) => Value::Text(text.to_owned()),
        Takes::Many(..) => Value::Many(text.split(' ').map(str::to_owned).collect()),
    }
}

impl Launch {
    /// Nothing decided.
    pub fn undecided() -> Self {
        let slots = vec![Slot::Undecided; Flags::all().destinations()];
        Self { slots, world: Err(Undecided), arch: Err(Undecided), environment: None }
    }

    /// All arguments at their defaults.
    pub fn defaults(world: u64) -> Self {
        let mut launch = Self { world: Ok(world), ..Self::undecided() };
        for (slot, flag) in Flags::all().defaults() {
            launch.slots[slot] = Slot::Default(default_of(flag));
        }
        launch
    }

    /// Sets an argument by its destination. A name that Megatron does not know changes nothing.
    pub fn set(&mut self, destination: &str, value: Value) {
        if let Some(slot) = Flags::all().slot(destination) {
            self.slots[slot] = Slot::Given(value);
        }
    }

    /// Whether an argument was given.
    pub fn is_given(&self, destination: &str) -> bool {
        Flags::all().slot(destination).is_some_and(|slot| matches!(self.slots[slot], Slot::Given(_)))
    }

    fn value(&self, slot: Option<usize>) -> Known<&Value> {
        match slot.map(|slot| &self.slots[slot]) {
            Some(Slot::Given(value) | Slot::Default(value)) => Ok(value),
            _ => Err(Undecided),
        }
    }

    /// Value of an environment variable; `None` inside when it is not set.
    pub fn variable(&self, name: &str) -> Known<Option<&str>> {
        Ok(self.environment.as_ref().ok_or(Undecided)?.get(name).map(String::as_str))
    }
}

/// One method per argument that rules read; the slot is looked up once.
macro_rules! arguments {
    ($($kind:ident $method:ident $(= $destination:literal)?;)+) => {
        impl Launch {
            $(arguments!(@method $kind $method $(= $destination)?);)+
        }
        #[cfg(test)]
        const READ: &[&str] = &[$(arguments!(@name $method $(= $destination)?)),+];
    };
    (@name $method:ident) => { stringify!($method) };
    (@name $method:ident = $destination:literal) => { $destination };
    (@slot $method:ident $(= $destination:literal)?) => {{
        static SLOT: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
        *SLOT.get_or_init(|| Flags::all().slot(arguments!(@name $method $(= $destination)?)))
    }};
    (@method int $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("`", stringify!($method), "`, if it is set.")]
        pub fn $method(&self) -> Known<Option<i64>> {
            Ok(match self.value(arguments!(@slot $method $(= $destination)?))? {
                Value::Int(n) => Some(*n),
                _ => None,
            })
        }
    };
    (@method size $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("`", stringify!($method), "`, a size; 1 when it is not set.")]
        pub fn $method(&self) -> Known<u64> {
            Ok(match self.value(arguments!(@slot $method $(= $destination)?))? {
                Value::Int(n) => u64::try_from(*n).unwrap_or(0),
                _ => 1,
            })
        }
    };
    (@method float $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("`", stringify!($method), "`, if it is set.")]
        pub fn $method(&self) -> Known<Option<f64>> {
            Ok(match self.value(arguments!(@slot $method $(= $destination)?))? {
                Value::Float(x) => Some(*x),
                Value::Int(n) => Some(*n as f64),
                _ => None,
            })
        }
    };
    (@method switch $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("Whether `", stringify!($method), "` is on.")]
        pub fn $method(&self) -> Known<bool> {
            Ok(matches!(self.value(arguments!(@slot $method $(= $destination)?))?, Value::Switch(true)))
        }
    };
    (@method word $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("`", stringify!($method), "`; empty when it is not set.")]
        pub fn $method(&self) -> Known<&str> {
            Ok(match self.value(arguments!(@slot $method $(= $destination)?))? {
                Value::Text(text) => text,
                _ => "",
            })
        }
    };
    (@method list $method:ident $(= $destination:literal)?) => {
        #[doc = concat!("`", stringify!($method), "`, if it is set.")]
        pub fn $method(&self) -> Known<Option<&[String]>> {
            Ok(match self.value(arguments!(@slot $method $(= $destination)?))? {
                Value::Many(list) => Some(list),
                _ => None,
            })
        }
    };
}

arguments! {
    size tp = "tensor_model_parallel_size";
    size pp = "pipeline_model_parallel_size";
    size cp = "context_parallel_size";
    size ep = "expert_model_parallel_size";
    int given_etp = "expert_tensor_parallel_size";
    int weight_shards = "tensor_parallel_num_weight_shards";
    int expert_weight_shards = "expert_tensor_parallel_num_weight_shards";
    size optimizer_instances = "num_distributed_optimizer_instances";
    switch given_sequence_parallel = "sequence_parallel";
    int micro_batch_size;
    int given_global_batch_size = "global_batch_size";
    int eval_micro_batch_size;
    int eval_global_batch_size;
    word step_batch_size_schedule;
    int num_layers;
    int encoder_num_layers;
    int hidden_size;
    int given_ffn = "ffn_hidden_size";
    int heads = "num_attention_heads";
    int query_groups = "num_query_groups";
    switch group_query_attention;
    int given_kv_channels = "kv_channels";
    switch swiglu;
    switch squared_relu;
    switch quick_geglu;
    switch add_bias_linear;
    switch bias_gelu_fusion;
    int max_position_embeddings;
    int seq_length;
    int encoder_seq_length;
    int decoder_seq_length;
    word position_embedding_type;
    switch add_position_embedding;
    switch rotary_interleaved;
    list mrope_section;
    word normalization;
    switch fused_residual_rmsnorm;
    switch untie_embeddings = "untie_embeddings_and_output_weights";
    int vocab_size;
    int vocab_divisor = "make_vocab_size_divisible_by";
    switch qk_layernorm;
    switch add_qkv_bias;
    word layout = "pipeline_model_parallel_layout";
    int layers_per_chunk = "num_layers_per_virtual_pipeline_stage";
    int chunks_per_rank = "num_virtual_stages_per_pipeline_rank";
    int first_layers = "decoder_first_pipeline_num_layers";
    int last_layers = "decoder_last_pipeline_num_layers";
    switch account_for_embedding = "account_for_embedding_in_pipeline_split";
    switch account_for_loss = "account_for_loss_in_pipeline_split";
    int given_group_size = "microbatch_group_size_per_vp_stage";
    switch overlap_p2p = "overlap_p2p_comm";
    switch overlap_p2p_warmup = "overlap_p2p_comm_warmup_flush";
    word hybrid_layer_pattern;
    switch defer_embedding_wgrad = "defer_embedding_wgrad_compute";
    int wgrad_deferral_limit;
    switch gradient_accumulation_fusion;
    switch distributed_optimizer = "use_distributed_optimizer";
    switch overlap_grad_reduce;
    switch overlap_param_gather;
    switch param_gather_with_step = "overlap_param_gather_with_optimizer_step";
    switch torch_fsdp2 = "use_torch_fsdp2";
    switch megatron_fsdp = "use_megatron_fsdp";
    switch fsdp_manual_registration;
    switch nccl_ub;
    switch meta_device = "init_model_with_meta_device";
    word sharding = "data_parallel_sharding_strategy";
    word ckpt_format;
    word optimizer;
    switch optimizer_cpu_offload;
    float optimizer_offload_fraction;
    switch precision_aware_optimizer = "use_precision_aware_optimizer";
    word exp_avg_dtype;
    word main_grads_dtype;
    switch accumulate_in_fp32 = "accumulate_allreduce_grads_in_fp32";
    switch use_gloo_process_groups;
    switch bf16;
    switch fp16;
    word fp8;
    word fp8_recipe;
    switch fp8_param_gather;
    switch fp8_output_proj;
    word fp4;
    switch fp4_param_gather;
    switch first_last_layers_bf16;
    int bf16_layers_at_start = "num_layers_at_start_in_bf16";
    int bf16_layers_at_end = "num_layers_at_end_in_bf16";
    switch fp16_lm_cross_entropy;
    switch fp32_residual_connection;
    word granularity = "recompute_granularity";
    switch recompute_activations;
    word recompute_method;
    int recompute_num_layers;
    list given_recompute_modules = "recompute_modules";
    switch moe_layer_recompute;
    switch distribute_saved_activations;
    int cpu_offloading_num_layers;
    switch fine_grained_offloading = "fine_grained_activation_offloading";
    list offload_modules;
    switch op_fuser = "use_transformer_engine_op_fuser";
    switch tp_comm_overlap;
    switch hybrid_context_parallel;
    switch calculate_per_token_loss;
    word dataloader_type;
    list cp_comm_type;
    list hierarchical_cp = "hierarchical_context_parallel_sizes";
    int given_experts = "num_experts";
    int given_expert_ffn = "moe_ffn_hidden_size";
    int topk = "moe_router_topk";
    word given_layer_freq = "moe_layer_freq";
    switch grouped_gemm = "moe_grouped_gemm";
    switch single_grouped_weight = "moe_single_grouped_weight";
    word dispatcher = "moe_token_dispatcher_type";
    word flex_backend = "moe_flex_dispatcher_backend";
    switch enable_deepep = "moe_enable_deepep";
    int shared_expert_ffn = "moe_shared_expert_intermediate_size";
    switch shared_expert_overlap = "moe_shared_expert_overlap";
    switch pre_softmax = "moe_router_pre_softmax";
    word score_function = "moe_router_score_function";
    list load_balancing = "moe_router_load_balancing_type";
    list aux_loss_coeff = "moe_aux_loss_coeff";
    int router_groups = "moe_router_num_groups";
    int router_group_topk = "moe_router_group_topk";
    int topk_limited_devices = "moe_router_topk_limited_devices";
    switch expert_bias = "moe_router_enable_expert_bias";
    float capacity_factor = "moe_expert_capacity_factor";
    switch pad_to_capacity = "moe_pad_expert_input_to_capacity";
    switch padding_for_quantization = "moe_router_padding_for_quantization";
    switch padding_for_fp8 = "moe_router_padding_for_fp8";
    int latent_size = "moe_latent_size";
    switch ep_overlap = "overlap_moe_expert_parallel_comm";
    switch delay_wgrad = "delay_wgrad_compute";
    switch early_attention_release = "ep_overlap_early_attn_memory_release";
    switch dispatch_wgrad_overlap = "overlap_dispatch_backward_with_experts_wgrad";
    word transformer_impl;
    int mtp = "mtp_num_layers";
    switch mla = "multi_latent_attention";
    int q_lora_rank;
    int kv_lora_rank;
    int qk_head_dim;
    int qk_pos_emb_head_dim;
    int v_head_dim;
    switch mla_down_proj_fusion;
    switch rope_fusion = "apply_rope_fusion";
    word rope_type;
    word attention_variant = "experimental_attention_variant";
    word linear_attention_freq;
    int linear_conv_kernel_dim;
    int linear_key_head_dim;
    int linear_value_head_dim;
    int linear_key_heads = "linear_num_key_heads";
    int linear_value_heads = "linear_num_value_heads";
    int train_iters;
    int train_samples;
    int lr_decay_iters;
    int lr_decay_samples;
    int lr_warmup_iters;
    int lr_warmup_samples;
    float lr_warmup_fraction;
    float lr;
    float min_lr;
    switch skip_train;
    word save;
    int save_interval;
    switch mock_data;
    list data_path;
    list train_data_path;
    list valid_data_path;
    list test_data_path;
    switch cross_entropy_loss_fusion;
    word cross_entropy_fusion_impl;
    word cuda_graph_impl;
    float attention_dropout;
    float hidden_dropout;
}

impl Launch {
    /// Tensor-parallel ways inside an expert: those of the dense layers when nothing is said.
    pub fn etp(&self) -> Known<u64> {
        match self.given_etp()? {
            Some(n) => Ok(u64::try_from(n).unwrap_or(0)),
            None => self.tp(),
        }
    }

    fn remat(shards: Option<i64>, ways: u64) -> u64 {
        shards.and_then(|n| u64::try_from(n).ok()).map_or(1, |n| (n / ways.max(1)).max(1))
    }

    /// Extra ways over which weights are cut and gathered layer by layer.
    pub fn gtp(&self) -> Known<u64> {
        Ok(Self::remat(self.weight_shards()?, self.tp()?))
    }

    /// The same for experts.
    pub fn expert_gtp(&self) -> Known<u64> {
        Ok(Self::remat(self.expert_weight_shards()?, self.etp()?))
    }

    /// Ranks of one model copy: TP x PP x CP x weight shards beyond TP.
    pub fn model_size(&self) -> Known<u64> {
        let sizes = [self.tp()?, self.pp()?, self.cp()?, self.gtp()?];
        Ok(sizes.into_iter().fold(1u64, u64::saturating_mul))
    }

    /// Ranks of one copy of the experts: ETP x EP x PP.
    pub fn expert_model_size(&self) -> Known<u64> {
        let sizes = [self.etp()?, self.ep()?, self.pp()?, self.expert_gtp()?];
        Ok(sizes.into_iter().fold(1u64, u64::saturating_mul))
    }

    /// Data-parallel ways; undecided where the world does not divide.
    pub fn dp(&self) -> Known<u64> {
        let (world, size) = (self.world?, self.model_size()?);
        if divides(world, size) && world > 0 { Ok(world / size) } else { Err(Undecided) }
    }

    /// Data-parallel ways of the experts.
    pub fn expert_dp(&self) -> Known<u64> {
        let (world, size) = (self.world?, self.expert_model_size()?);
        if divides(world, size) && world > 0 { Ok(world / size) } else { Err(Undecided) }
    }

    /// Sequence parallelism; switched off without tensor parallelism.
    pub fn sequence_parallel(&self) -> Known<bool> {
        Ok(self.given_sequence_parallel()? && self.tp()? > 1)
    }

    /// Sequences of a batch: one micro-batch per data-parallel rank when nothing is said.
    pub fn global_batch_size(&self) -> Known<i64> {
        match self.given_global_batch_size()? {
            Some(n) => Ok(n),
            None => {
                let micro = self.micro_batch_size()?.ok_or(Undecided)?;
                Ok(micro.saturating_mul(i64::try_from(self.dp()?).unwrap_or(i64::MAX)))
            }
        }
    }

    /// Micro-batches per step; undecided where the batch does not divide.
    pub fn micro_batches(&self) -> Known<u64> {
        let micro = self.micro_batch_size()?.and_then(|n| u64::try_from(n).ok()).ok_or(Undecided)?;
        let batch = u64::try_from(self.global_batch_size()?).map_err(|_| Undecided)?;
        let per_step = micro.saturating_mul(self.dp()?);
        if divides(batch, per_step) { Ok(batch / per_step) } else { Err(Undecided) }
    }

    /// Layers of the decoder, those of a hybrid pattern not counted.
    pub fn layers(&self) -> Known<u64> {
        let layers = match self.num_layers()? {
            Some(n) => Some(n),
            None => self.encoder_num_layers()?,
        };
        u64::try_from(layers.ok_or(Undecided)?).map_err(|_| Undecided)
    }

    /// Inner width of an MLP: 8/3 of the width in multiples of 64 with SwiGLU, else 4 times.
    pub fn ffn(&self) -> Known<u64> {
        if let Some(n) = self.given_ffn()? {
            return Ok(u64::try_from(n).unwrap_or(0));
        }
        let hidden = u64::try_from(self.hidden_size()?.ok_or(Undecided)?).map_err(|_| Undecided)?;
        Ok(if self.swiglu()? { ((4.0 * hidden as f64 * 2.0 / 3.0) / 64.0) as u64 * 64 } else { 4 * hidden })
    }

    /// Routed experts.
    pub fn experts(&self) -> Known<Option<i64>> {
        Ok(self.given_experts()?.filter(|n| *n != 0))
    }

    /// Inner width of an expert.
    pub fn expert_ffn(&self) -> Known<u64> {
        match self.given_expert_ffn()? {
            Some(n) => Ok(u64::try_from(n).unwrap_or(0)),
            None => self.ffn(),
        }
    }

    /// Key/value groups.
    pub fn kv_groups(&self) -> Known<i64> {
        if self.group_query_attention()? {
            return Ok(self.query_groups()?.unwrap_or(1));
        }
        self.heads()?.ok_or(Undecided)
    }

    /// Width of a head.
    pub fn kv_channels(&self) -> Known<u64> {
        let hidden = self.hidden_size()?.ok_or(Undecided)?;
        let heads = self.heads()?.filter(|n| *n > 0).ok_or(Undecided)?;
        Ok(u64::try_from(self.given_kv_channels()?.unwrap_or(hidden / heads)).unwrap_or(0))
    }

    /// Tokens of a sequence.
    pub fn sequence(&self) -> Known<i64> {
        match self.seq_length()? {
            Some(n) => Ok(n),
            None => self.encoder_seq_length()?.ok_or(Undecided),
        }
    }

    /// What is recomputed: `full`, `selective` or nothing.
    pub fn recompute(&self) -> Known<&str> {
        if self.recompute_activations()? {
            return Ok("selective");
        }
        self.granularity()
    }

    /// Modules of selective recomputation.
    pub fn recompute_modules(&self) -> Known<Vec<&str>> {
        let given = self.given_recompute_modules()?;
        Ok(given.map_or_else(|| vec!["core_attn"], |list| list.iter().map(String::as_str).collect()))
    }

    /// Per layer: 1 with experts, 0 without.
    pub fn layer_freq(&self) -> Known<Pattern> {
        let text = self.given_layer_freq()?;
        Pattern::parse(if text.is_empty() { "1" } else { text }).ok_or(Undecided)
    }

    /// How the pipeline is cut into chunks.
    pub fn cut(&self) -> Known<Cut> {
        if !self.layout()?.is_empty() {
            return Ok(Cut::Layout);
        }
        Ok(match (self.layers_per_chunk()?, self.chunks_per_rank()?) {
            (_, Some(n)) => Cut::Chunks(n),
            (Some(n), None) => Cut::LayersPerChunk(n),
            (None, None) => Cut::Plain,
        })
    }

    /// The layout string, read.
    pub fn parsed_layout(&self) -> Known<Option<Layout>> {
        let text = self.layout()?;
        if text.is_empty() { Ok(None) } else { Layout::parse(text).map(Some).map_err(|_| Undecided) }
    }

    /// Layers with embedding and loss where they count as layers.
    pub fn counted_layers(&self) -> Known<u64> {
        Ok(self.layers()? + u64::from(self.account_for_embedding()?) + u64::from(self.account_for_loss()?))
    }

    /// Chunks per rank when interleaved, `None` when not; undecided where the cut is impossible.
    pub fn vpp(&self) -> Known<Option<u64>> {
        let chunks = match self.cut()? {
            Cut::Plain => return Ok(None),
            Cut::Chunks(n) => u64::try_from(n).map_err(|_| Undecided)?,
            Cut::Layout => {
                let stages = self.parsed_layout()?.map_or(0, |l| l.stages.len() as u64);
                if !divides(stages, self.pp()?) {
                    return Err(Undecided);
                }
                stages / self.pp()?
            }
            Cut::LayersPerChunk(n) => {
                let (layers, pp) = (self.counted_layers()?, self.pp()?);
                let size = u64::try_from(n).map_err(|_| Undecided)?;
                if !divides(layers, pp) || !divides(layers / pp, size) {
                    return Err(Undecided);
                }
                layers / pp / size
            }
        };
        Ok((chunks != 1).then_some(chunks))
    }

    /// Micro-batches of a group of the interleaved schedule.
    pub fn group_size(&self) -> Known<i64> {
        match self.given_group_size()? {
            Some(n) => Ok(n),
            None => Ok(i64::try_from(self.pp()?).unwrap_or(i64::MAX)),
        }
    }

    /// Layers by rank and chunk as Megatron builds them; undecided where it cannot
    /// (`core/transformer/transformer_block.py`, `get_num_layers_to_build`).
    pub fn layers_by_rank(&self) -> Known<Vec<Vec<u64>>> {
        let pp = self.pp()?;
        if let Some(layout) = self.parsed_layout()? {
            return Ok(layout.layers(pp));
        }
        let (layers, vpp) = (self.layers()?, self.vpp()?);
        let chunks = vpp.filter(|_| pp > 1).unwrap_or(1);
        let (first, last) = (self.first_layers()?, self.last_layers()?);
        let given = |n: Option<i64>| n.map(u64::try_from).transpose().map_err(|_| Undecided);
        let (first, last) = (given(first)?, given(last)?);
        let mut per_rank = if first.is_some() || last.is_some() {
            let ends = first.unwrap_or(0).saturating_add(last.unwrap_or(0));
            let inner = pp.checked_sub(u64::from(first.is_some()) + u64::from(last.is_some())).ok_or(Undecided)?;
            let rest = layers.checked_sub(ends).ok_or(Undecided)?;
            if inner > 0 && !divides(rest, inner) || inner == 0 && rest > 0 {
                return Err(Undecided);
            }
            vec![rest.checked_div(inner).unwrap_or(0); pp as usize]
        } else {
            let counted = self.counted_layers()?;
            if !divides(counted, pp) {
                return Err(Undecided);
            }
            vec![counted / pp; pp as usize]
        };
        if let (Some(n), Some(rank)) = (first, per_rank.first_mut()) {
            *rank = n;
        }
        if let (Some(n), Some(rank)) = (last, per_rank.last_mut()) {
            *rank = n;
        }
        if per_rank.iter().any(|n| !divides(*n, chunks)) {
            return Err(Undecided);
        }
        let mut by_rank: Vec<Vec<u64>> =
            per_rank.into_iter().map(|n| vec![n / chunks; vpp.unwrap_or(1) as usize]).collect();
        if self.account_for_embedding()? {
            let chunk = by_rank.first_mut().and_then(|r| r.first_mut()).ok_or(Undecided)?;
            *chunk = chunk.checked_sub(1).ok_or(Undecided)?;
        }
        if self.account_for_loss()? {
            let chunk = by_rank.last_mut().and_then(|r| r.last_mut()).ok_or(Undecided)?;
            *chunk = chunk.checked_sub(1).ok_or(Undecided)?;
        }
        Ok(by_rank)
    }

    /// Rows of the vocabulary after padding to a multiple of the divisor times TP.
    pub fn padded_vocabulary(&self) -> Known<u64> {
        let rows = u64::try_from(self.vocab_size()?.ok_or(Undecided)?).map_err(|_| Undecided)?;
        let divisor = u64::try_from(self.vocab_divisor()?.unwrap_or(128)).unwrap_or(128).max(1);
        let multiple = divisor.saturating_mul(self.tp()?).max(1);
        Ok(rows.div_ceil(multiple).saturating_mul(multiple))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_that_rules_read_is_one_of_megatron() {
        for destination in READ {
            assert!(Flags::all().slot(destination).is_some(), "{destination}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_parser() {
        let launch = Launch::defaults(8);
        assert_eq!((launch.tp(), launch.etp(), launch.vpp()), (Ok(1), Ok(1), Ok(None)));
        assert_eq!(launch.dispatcher(), Ok("allgather"));
        assert_eq!(launch.cp_comm_type().unwrap().unwrap(), ["p2p"]);
        assert_eq!(launch.overlap_p2p(), Ok(true));
        assert_eq!(launch.dp(), Ok(8));
        assert_eq!(Launch::undecided().dp(), Err(Undecided));
    }

    #[test]
    fn experts_are_cut_as_the_dense_layers_are_unless_something_is_said() {
        let mut launch = Launch::defaults(64);
        launch.set("tensor_model_parallel_size", Value::Int(4));
        assert_eq!(launch.etp(), Ok(4));
        launch.set("expert_tensor_parallel_size", Value::Int(1));
        assert_eq!(launch.etp(), Ok(1));
    }

    #[test]
    fn the_vocabulary_is_padded_to_the_tensor_parallel_ways() {
        let mut launch = Launch::defaults(4);
        launch.set("vocab_size", Value::Int(128_256));
        launch.set("tensor_model_parallel_size", Value::Int(4));
        assert_eq!(launch.padded_vocabulary(), Ok(128_512));
    }
}
