//! Whether a target takes a plan: its rules, asked about what an export would say.

use super::megatron;
use super::view::View;
use crate::error::InputError;
use crate::rules::targets::{Shape, Target};
use crate::rules::{Broken, Moment};
use std::collections::BTreeSet;

/// The rules of `target` that the plan breaks.
///
/// # Errors
/// As [`megatron::launch`].
pub fn broken(target: Target, view: &View<'_>) -> Result<Vec<Broken>, InputError> {
    let mut list: Vec<Broken> = Vec::new();
    let own = |id, demands, why: String, instead: Vec<String>| Broken {
        id,
        framework: target.name(),
        version: version(target),
        when: Moment::ValidateArgs,
        demands,
        source: "limits of the framework, read 2026-11",
        why,
        instead,
    };
    let strategies: BTreeSet<_> = view.layers.iter().collect();
    for s in &strategies {
        let experts = view.has_experts() && (s.ep > 1 || s.etp > 1);
        let shape =
            Shape { pipeline: view.plan.pipeline, stage_devices: view.plan.stage_devices(), strategy: **s, experts };
        if let Some(refusal) = target.refuses(&shape).filter(|r| list.iter().all(|b| b.id != r.id)) {
            list.push(own(refusal.id, refusal.demands, format!("layers run {s}"), Vec::new()));
        }
    }
    if target.shares_layers() && !view.differing().is_empty() {
        let why = view.differing().join("; ");
        list.push(own("one_strategy_for_all_layers", "one strategy for all layers", why, vec![view.main.to_string()]));
    }
    if !target.interleaves() && view.chunks() > 1 {
        list.push(own(
            "no_interleaving",
            "one chunk per stage",
            format!("{} chunks", view.chunks()),
            vec!["1 chunk".into()],
        ));
    }
    if target.is_megatron() {
        list.extend(crate::rules::megatron::broken(&megatron::launch(view)?));
    }
    Ok(list)
}

/// The version whose limits are known.
pub fn version(target: Target) -> &'static str {
    match target {
        Target::Megatron | Target::Bridge => crate::rules::megatron::VERSION,
        Target::Torchtitan => "0.3.0",
        Target::Deepspeed => "0.19.8",
        Target::Accelerate => "1.15.0",
        Target::Galvatron => "2.4.1",
        Target::Nanotron => "main of 2026",
    }
}
