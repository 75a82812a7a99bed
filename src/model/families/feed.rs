//! The feed-forward branch of every layer: dense, or a mixture of experts, by the family's rule for which is which.

use super::rules::{Feed, Shared, Sparse};
use crate::model::fields::{Fields, MAX_HEADS, MAX_LAYERS};
use crate::model::ops::{elementwise, linear, mlp};
use crate::model::{ModelError, Op, OpKind, Shard, SublayerKind};

/// Shapes of a mixture-of-experts branch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moe {
    pub(super) hidden: u64,
    pub(super) experts: u64,
    pub(super) top_k: u64,
    /// Inner width of a routed expert.
    pub(super) ffn: u64,
    /// Inner width of all shared experts together; 0 without.
    pub(super) shared: u64,
    /// Whether the shared experts have biases.
    pub(super) shared_bias: bool,
    /// Whether a learned gate scales the shared expert.
    pub(super) shared_gate: bool,
    /// Whether router and experts have biases.
    pub(super) bias: bool,
    /// Whether what the experts' activation reads is clamped.
    pub(super) clamped: bool,
}

impl Moe {
    /// Operators in order, from the normed residual stream back to it.
    pub(super) fn ops(&self) -> Vec<Op> {
        let mut ops = vec![linear("router", self.hidden, self.experts, self.bias, Shard::Replicated)];
        ops.push(elementwise("router_scores", self.experts, 1, Shard::Replicated));
        ops.push(self.experts_op());
        if self.shared > 0 {
            ops.extend(mlp(self.hidden, self.shared, true, self.shared_bias).into_iter().map(shared_name));
        }
        if self.shared_gate {
            ops.push(linear("shared_gate", self.hidden, 1, false, Shard::Replicated));
        }
        let reads = self.top_k + u64::from(self.shared > 0);
        ops.push(elementwise("combine", self.hidden, reads, Shard::Replicated));
        ops
    }

    /// The routed experts alone.
    pub(super) fn experts_op(&self) -> Op {
        let Moe { experts, top_k, hidden: input, ffn, bias, clamped, .. } = *self;
        Op { name: "experts", kind: OpKind::Experts { experts, top_k, input, ffn, gated: true, bias, clamped } }
    }
}

fn shared_name(op: Op) -> Op {
    let name = match op.name {
        "gate_proj" => "shared_gate_proj",
        "up_proj" => "shared_up_proj",
        "down_proj" => "shared_down_proj",
        _ => "shared_activation",
    };
    Op { name, ..op }
}

/// One layer's feed-forward branch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Branch {
    Dense { hidden: u64, ffn: u64, gated: bool, bias: bool },
    Moe(Moe),
}

impl Branch {
    pub(super) fn ops(&self) -> Vec<Op> {
        match *self {
            Branch::Dense { hidden, ffn, gated, bias } => mlp(hidden, ffn, gated, bias),
            Branch::Moe(moe) => moe.ops(),
        }
    }
    pub(super) fn kind(&self) -> SublayerKind {
        match self {
            Branch::Dense { .. } => SublayerKind::Mlp,
            Branch::Moe(_) => SublayerKind::Moe,
        }
    }
    /// Last part of a class's name.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Branch::Dense { .. } => "dense",
            Branch::Moe(_) => "moe",
        }
    }
}

/// Number of experts and experts per token, under any of their names.
pub(super) fn experts(fields: &Fields) -> Result<(u64, u64), ModelError> {
    let experts = fields
        .alias(&["num_experts", "num_local_experts", "n_routed_experts"], 1, MAX_HEADS)?
        .ok_or_else(|| fields.missing("num_experts", "the number of routed experts"))?;
    let keys = ["num_experts_per_tok", "experts_per_token", "top_k_experts"];
    let mut top_k = None;
    for key in keys {
        let stated = fields.heads_if(key)?;
        if let (Some(used), Some(other)) = (top_k, stated.filter(|&n| Some(n) != top_k)) {
            fields.remark(format!(
                "`{}` says {other}, but the classes read {used} elsewhere: that is taken",
                fields.name(key)
            ));
        }
        top_k = top_k.or(stated);
    }
    let top_k = top_k.ok_or_else(|| fields.missing(keys[0], "the number of experts that a token visits"))?;
    fields.at_most("num_experts_per_tok", top_k, experts, "the number of experts")?;
    if let Some(groups) = fields.heads_if("n_group")? {
        fields.divides("n_group", groups, experts, "the number of experts")?;
        if let Some(chosen) = fields.heads_if("topk_group")? {
            fields.at_most("topk_group", chosen, groups, "n_group")?;
        }
    }
    Ok((experts, top_k))
}

/// Which layers have experts.
fn sparse_layers(fields: &Fields, layers: u64, rule: Sparse) -> Result<Vec<bool>, ModelError> {
    match rule {
        Sparse::All => Ok(vec![true; layers as usize]),
        Sparse::Steps => {
            let step = fields.layers_if("decoder_sparse_step")?.unwrap_or(1);
            let dense = fields.integers("mlp_only_layers", MAX_LAYERS)?.unwrap_or_default();
            inside(fields, "mlp_only_layers", &dense, layers)?;
            Ok((0..layers).map(|i| (i + 1).is_multiple_of(step) && !dense.contains(&i)).collect())
        }
        Sparse::AfterDense { dense } => {
            let dense = match fields.count_if("first_k_dense_replace")? {
                Some(n) => {
                    fields.at_most("first_k_dense_replace", n, layers, "num_hidden_layers")?;
                    n
                }
                None => dense,
            };
            let types = fields.words("mlp_layer_types", layers, &[("dense", false), ("sparse", true)])?;
            if fields.is_list("moe_layer_freq") {
                let list = fields.integers("moe_layer_freq", 1)?.unwrap_or_default();
                fields.one_per_layer("moe_layer_freq", list.len(), layers)?;
                return Ok(list.into_iter().map(|n| n == 1).collect());
            }
            let step = fields.layers_if("moe_layer_freq")?.unwrap_or(1);
            Ok(types.unwrap_or_else(|| (0..layers).map(|i| i >= dense && i.is_multiple_of(step)).collect()))
        }
        Sparse::Interleaved => {
            let step = fields.layers_if("interleave_moe_layer_step")?.unwrap_or(1);
            match fields.integers("moe_layers", MAX_LAYERS)? {
                Some(list) => {
                    inside(fields, "moe_layers", &list, layers)?;
                    Ok((0..layers).map(|i| list.contains(&i)).collect())
                }
                None => Ok((0..layers).map(|i| (i + 1).is_multiple_of(step)).collect()),
            }
        }
    }
}

fn inside(fields: &Fields, key: &str, list: &[u64], layers: u64) -> Result<(), ModelError> {
    match list.iter().find(|&&i| i >= layers) {
        None => Ok(()),
        Some(i) => Err(ModelError::Contradictory(
            fields.at(key).found(format!("layer {i}")).expected(format!("layers 0 to {}", layers - 1)),
        )),
    }
}

/// The feed-forward branch of every layer.
pub(super) fn of_layers(
    fields: &Fields,
    hidden: u64,
    layers: u64,
    rule: Feed,
    gated: bool,
    mlp_bias: bool,
) -> Result<Vec<Branch>, ModelError> {
    let dense = |ffn| Branch::Dense { hidden, ffn, gated, bias: mlp_bias };
    let Feed::Experts { layers: sparse, shared, width, dense: dense_width, bias } = rule else {
        return Ok(vec![dense(fields.width("intermediate_size")?); layers as usize]);
    };
    let (experts, top_k) = experts(fields)?;
    let ffn = fields.width(width)?;
    let (shared, shared_gate) = match shared {
        Shared::None => (0, false),
        Shared::One => (ffn, false),
        Shared::Count => (fields.shared_experts()? * ffn, false),
        Shared::Gated(key) => (fields.count(key)?, true),
        Shared::Width(key) => (fields.count(key)?, false),
    };
    let moe = Moe {
        hidden,
        experts,
        top_k,
        ffn,
        shared,
        shared_bias: mlp_bias,
        shared_gate: shared_gate && shared > 0,
        bias,
        clamped: fields.has("swiglu_limit"),
    };
    let sparse = sparse_layers(fields, layers, sparse)?;
    let dense_width = if sparse.iter().all(|&s| s) {
        // Configs without dense layers may still state the width that one would have.
        fields.width_if(dense_width)?.unwrap_or(ffn)
    } else {
        fields.width(dense_width)?
    };
    Ok(sparse.into_iter().map(|s| if s { Branch::Moe(moe) } else { dense(dense_width) }).collect())
}
