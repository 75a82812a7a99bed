//! A launch of Megatron-LM: the arguments of its parser, how many ranks there are, and where they run.
//!
//! Each argument is given, at its default, or, in a partial plan, not decided yet.

use super::flags::{Flag, Flags};
use crate::rules::{Known, Undecided};
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
    switch grad_reduce_in_bf16;
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
    word attention_backend;
    switch use_flash_attn;
    int num_workers;
    switch attention_mask_in_loader = "create_attention_mask_in_dataloader";
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
