//! Frameworks that a plan can be made for, and what each can run of a layer's strategy.
//!
//! Megatron-LM has rules of its own (see [`super::megatron`]); here stand the limits of the others, by the versions that
//! the package index had in November 2026: torchtitan 0.3.0, DeepSpeed 0.19.8, accelerate 1.15.0, Galvatron 2.4.1, and
//! nanotron's main.

use crate::error::InputError;
use crate::plan::{LayerStrategy, Recompute};
use std::fmt;
use std::str::FromStr;

/// A framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Megatron-LM.
    Megatron,
    /// Megatron-Bridge: Megatron's core under recipes.
    Bridge,
    /// torchtitan.
    Torchtitan,
    /// DeepSpeed.
    Deepspeed,
    /// Hugging Face accelerate.
    Accelerate,
    /// Hetu-Galvatron.
    Galvatron,
    /// nanotron.
    Nanotron,
}

/// What a layer asks of a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Stages.
    pub pipeline: u32,
    /// Devices of a stage.
    pub stage_devices: u64,
    /// The layer's strategy.
    pub strategy: LayerStrategy,
    /// Whether the layer has experts.
    pub experts: bool,
}

/// What a framework refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Id of the rule.
    pub id: &'static str,
    /// What does not hold.
    pub demands: &'static str,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 7] = [
        Target::Megatron,
        Target::Bridge,
        Target::Torchtitan,
        Target::Deepspeed,
        Target::Accelerate,
        Target::Galvatron,
        Target::Nanotron,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Megatron => "megatron",
            Target::Bridge => "bridge",
            Target::Torchtitan => "torchtitan",
            Target::Deepspeed => "deepspeed",
            Target::Accelerate => "accelerate",
            Target::Galvatron => "galvatron",
            Target::Nanotron => "nanotron",
        }
    }

    /// Whether Megatron-LM's rules are its rules.
    pub const fn is_megatron(self) -> bool {
        matches!(self, Target::Megatron | Target::Bridge)
    }

    /// Whether all layers have one strategy.
    pub const fn shares_layers(self) -> bool {
        !matches!(self, Target::Galvatron)
    }

    /// Whether a rank can hold several chunks.
    pub const fn interleaves(self) -> bool {
        matches!(self, Target::Megatron | Target::Bridge | Target::Torchtitan)
    }

    /// What it cannot run of `shape`, by its own limits.
    pub fn refuses(self, shape: &Shape) -> Option<Refusal> {
        let s = &shape.strategy;
        let dp = shape.stage_devices / s.model_ways().max(1);
        let shards = dp.saturating_mul(u64::from(s.cp));
        // Without ZeRO torchtitan's shard degree is 1, and data parallelism makes copies.
        let titan_shards = if s.zero == 0 { u64::from(s.cp) } else { shards };
        let no = |bad: bool, id: &'static str, demands: &'static str| bad.then_some(Refusal { id, demands });
        match self {
            Target::Megatron | Target::Bridge => no(
                s.zero == 2 || s.zero == 3,
                "megatron_zero_up_to_1",
                "optimizer states cut over data-parallel ranks at most: Megatron-FSDP is another engine",
            )
            .or(no(
                s.ulysses > 1,
                "megatron_no_ulysses",
                "heads exchanged as context parallelism, which is not priced so",
            )),
            Target::Torchtitan => no(s.ulysses > 1, "torchtitan_no_ulysses", "no exchange of heads")
                .or(no(s.etp > 1 && s.etp != s.tp, "torchtitan_etp", "experts cut as the dense layers, or not at all"))
                .or(no(
                    shape.experts
                        && s.ep > 1
                        && !titan_shards.saturating_mul(u64::from(s.tp)).is_multiple_of(u64::from(s.ep)),
                    "torchtitan_ep_divides_shards",
                    "dp_shard * cp * tp is a multiple of ep (torchtitan does not check)",
                ))
                .or(no(s.zero == 1, "torchtitan_zero", "gradients cut with the states (FSDP), or nothing (replicated)"))
                .or(no(
                    s.zero == 0 && (s.cp > 1 || s.tp > 1 && dp > 1),
                    "torchtitan_replicate_needs_shard",
                    "a shard dimension beside tensor parallelism; context parallelism is one",
                ))
                .or(no(
                    s.tp > 1 && !s.sequence_parallel,
                    "torchtitan_sp",
                    "sequence parallelism with tensor parallelism",
                )),
            Target::Deepspeed => {
                no(shape.pipeline > 1 && s.zero > 1, "deepspeed_pipeline_zero_1", "ZeRO-1 at most with a pipeline")
                    .or(no(s.cp > 1, "deepspeed_no_ring", "no ring attention"))
                    .or(no(s.etp > 1, "deepspeed_etp", "experts uncut"))
                    .or(no(s.tp > 1 && s.sequence_parallel, "deepspeed_no_sp", "no sequence parallelism in AutoTP"))
                    .or(no(s.tp > 1 && s.zero > 2, "deepspeed_autotp_zero_2", "ZeRO-2 at most with AutoTP"))
                    .or(no(
                        s.recompute == Recompute::Selective,
                        "deepspeed_recompute",
                        "whole layers recomputed, or nothing",
                    ))
            }
            Target::Accelerate => no(shape.pipeline > 1, "accelerate_no_pipeline", "no pipeline")
                .or(no(shape.experts && (s.ep > 1 || s.etp > 1), "accelerate_no_ep", "no expert parallelism"))
                .or(no(s.ulysses > 1 && s.cp > 1, "accelerate_one_sequence_cut", "one of cp and sp"))
                .or(no(s.zero == 1, "accelerate_zero", "gradients cut with the states (FSDP2), or nothing"))
                .or(no(
                    s.zero > 0 && shards.saturating_mul(u64::from(s.ulysses)) < 2,
                    "accelerate_shard_above_1",
                    "a shard dimension above 1",
                ))
                .or(no(
                    s.zero == 0 && dp > 1 && (s.tp > 1 || s.cp > 1),
                    "accelerate_replicate_excludes_tp_cp",
                    "dp_shard above 1 beside tp or cp",
                ))
                .or(no(
                    s.recompute == Recompute::Selective,
                    "accelerate_recompute",
                    "whole layers recomputed, or nothing",
                )),
            Target::Galvatron => {
                no(shape.experts && (s.ep > 1 || s.etp > 1), "galvatron_no_ep", "no expert parallelism")
                    .or(no(
                        s.tp > 1 && s.ulysses > 1,
                        "galvatron_tp_or_ulysses",
                        "tensor parallelism or Ulysses in a layer",
                    ))
                    .or(no(
                        s.tp > 1 && !s.sequence_parallel,
                        "galvatron_sp",
                        "sequence parallelism with tensor parallelism",
                    ))
                    .or(no(s.zero == 1, "galvatron_zero", "DDP, ZeRO-2 or ZeRO-3"))
                    .or(no(
                        s.recompute == Recompute::Selective,
                        "galvatron_recompute",
                        "whole layers recomputed, or nothing",
                    ))
                    .or(no(
                        ![s.tp, s.ulysses, s.cp].iter().all(|n| n.is_power_of_two()),
                        "galvatron_powers_of_two",
                        "degrees that are powers of two",
                    ))
            }
            Target::Nanotron => no(s.ulysses > 1, "nanotron_no_ulysses", "no exchange of heads")
                .or(no(s.etp > 1, "nanotron_etp", "experts uncut"))
                .or(no(s.zero > 1, "nanotron_zero_up_to_1", "zero_stage 0 or 1"))
                .or(no(
                    s.recompute == Recompute::Selective,
                    "nanotron_recompute",
                    "whole layers recomputed, or nothing",
                )),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Target {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Self, InputError> {
        let plain = text.trim().to_ascii_lowercase();
        let found = Target::ALL.into_iter().find(|t| t.name() == plain);
        found.ok_or_else(|| InputError::unknown_name(text, "a target", Target::ALL.map(Target::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(strategy: LayerStrategy, pipeline: u32) -> Shape {
        Shape { pipeline, stage_devices: 8, strategy, experts: false }
    }

    #[test]
    fn limits_of_frameworks_are_told_by_id() {
        let plain = LayerStrategy::PLAIN;
        let id = |t: Target, s, p| t.refuses(&shape(s, p)).map(|r| r.id);
        assert_eq!(id(Target::Deepspeed, LayerStrategy { zero: 3, ..plain }, 2), Some("deepspeed_pipeline_zero_1"));
        assert_eq!(id(Target::Deepspeed, LayerStrategy { zero: 3, ..plain }, 1), None);
        assert_eq!(id(Target::Accelerate, LayerStrategy { zero: 3, ..plain }, 2), Some("accelerate_no_pipeline"));
        assert_eq!(id(Target::Nanotron, LayerStrategy { zero: 2, ..plain }, 1), Some("nanotron_zero_up_to_1"));
        assert_eq!("Megatron".parse::<Target>().unwrap(), Target::Megatron);
        assert_eq!("megatrom".parse::<Target>().unwrap_err().help.as_deref(), Some("did you mean `megatron`?"));
    }
}
