//! What DeepSpeed's own estimators of model states say (`estimate_zero2_model_states_mem_needs` in
//! `deepspeed/runtime/zero/stage_1_and_2.py` and its sibling in `stage3.py`, 0.19.8, read 2026-11), beside which people hold
//! their measurements. They leave out activations, weights gathered for a layer, logits and buckets.

use crate::estimate::host::PINNED;
use crate::model::{Model, OpKind};

/// Ranks of a node.
const PER_NODE: f64 = 8.0;

/// What they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// ZeRO stage, 2 or 3.
    pub stage: u64,
    /// The optimizer is on the host.
    pub optimizer: bool,
    /// The weights are too.
    pub weights: bool,
    /// Ranks; nodes have eight.
    pub ranks: u64,
}

/// Bytes of a device and of the host of one node.
pub fn needs(asked: &Asked, parameters: f64, largest_layer: f64) -> (f64, f64) {
    let ranks = asked.ranks.max(1) as f64;
    let per_node = ranks.min(PER_NODE);
    let share = per_node / ranks;
    let host = |bytes: f64| bytes * PINNED;
    match (asked.stage, asked.optimizer) {
        (3, true) if asked.weights => (4.0 * largest_layer, host(18.0 * parameters * share)),
        (3, true) => (4.0 * largest_layer + 2.0 * parameters / ranks, host(16.0 * parameters * share)),
        (3, false) => (4.0 * largest_layer + 18.0 * parameters / ranks, host(4.0 * largest_layer * per_node)),
        (_, true) => (2.0 * parameters, host(parameters * (4.0 * ranks).max(16.0))),
        (_, false) => (2.0 * parameters + 18.0 * parameters / ranks, host(4.0 * parameters * per_node)),
    }
}

/// What they would print, as a remark.
pub fn estimated(model: &Model, asked: &Asked) -> String {
    let (device, host) = needs(asked, model.parameters_total() as f64, largest_layer(model));
    let gib = |bytes: f64| bytes / f64::from(1u32 << 30);
    format!(
        "DeepSpeed's own estimator says {:.2} GiB on a device and {:.2} GiB on the host of one node: of model states alone, without \
         activations, gathered weights, logits and buckets",
        gib(device),
        gib(host)
    )
}

/// Parameters of the largest module without modules of its own: the token table, or a linear layer.
fn largest_layer(model: &Model) -> f64 {
    let ops = model.classes.iter().flat_map(|c| &c.sublayers).flat_map(|s| &s.ops);
    let linear = ops.filter_map(|op| match op.kind {
        OpKind::Linear { input, output, .. } => Some(input as f64 * output as f64),
        _ => None,
    });
    linear.fold(model.embedding.vocab as f64 * model.embedding.hidden as f64, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_estimates_come_out() {
        let gib = |bytes: f64| (bytes / f64::from(1u32 << 30) * 100.0).round() / 100.0;
        // Yuliang-Liu/Monkey issue 24: 9.708e9 parameters, ZeRO-2 with the optimizer on the host of four devices.
        let asked = Asked { stage: 2, optimizer: true, weights: false, ranks: 4 };
        let (device, host) = needs(&asked, 9.708e9, 0.0);
        assert_eq!((gib(device), gib(host)), (18.08, 216.99));
        // DeepSpeed issue 4527: 6,805e6 parameters, 131e6 of them in the largest layer.
        let asked = Asked { stage: 3, optimizer: true, weights: true, ranks: 4 };
        assert_eq!(gib(needs(&asked, 6.805e9, 131e6).0), 0.49);
    }
}
