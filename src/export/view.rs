//! A plan as launchers see it: degrees, stages, the one strategy of most layers and where others differ.

use crate::cluster::Pool;
use crate::error::{InputError, Kind};
use crate::job::Job;
use crate::model::{Model, Stream};
use crate::plan::{LayerStrategy, PartKind, Plan, Recompute, Spine};
use std::collections::BTreeMap;

/// A plan with its question, looked at for export.
pub struct View<'a> {
    /// The model.
    pub model: &'a Model,
    /// The job.
    pub job: &'a Job,
    /// Where it runs.
    pub pool: &'a Pool,
    /// The plan.
    pub plan: &'a Plan,
    /// Its parts.
    pub spine: Spine,
    /// The strategy of most layers.
    pub main: LayerStrategy,
    /// The strategy of each layer of the decoder, in order.
    pub layers: Vec<LayerStrategy>,
    /// Layers of each chunk, in order of traversal.
    pub split: Vec<u64>,
    /// Modules of multi-token prediction.
    pub mtp: u64,
}

impl<'a> View<'a> {
    /// Looks at a plan.
    ///
    /// # Errors
    /// A model of several towers: no target runs one from flags alone.
    pub fn new(model: &'a Model, job: &'a Job, pool: &'a Pool, plan: &'a Plan) -> Result<Self, InputError> {
        if let Some(tower) = model.towers.iter().find(|t| t.stream != Stream::Text) {
            return Err(InputError::new(Kind::Unsupported)
                .at("model")
                .found(format!("a model with a {:?} tower", tower.stream).to_lowercase())
                .expected("a decoder of text: towers have launchers of their own in every framework"));
        }
        let spine = Spine::new(model, job);
        crate::plan::validate(plan, &spine, job, pool.devices).map_err(|e| e.inside("plan"))?;
        let is = |part: usize, kind: PartKind| spine.class_of(part).kind == kind;
        let mut layers = Vec::new();
        let mut counts: BTreeMap<LayerStrategy, usize> = BTreeMap::new();
        for (part, s) in plan.chunks.iter().flat_map(|c| c.parts()) {
            if is(part, PartKind::Layer) {
                layers.push(*s);
                // Recomputation is counted apart: it differs between layers more often than what cuts them.
                *counts.entry(*s).or_default() += 1;
            }
        }
        let most = counts.iter().max_by_key(|(s, n)| (**n, std::cmp::Reverse(**s))).map(|(s, _)| *s);
        let main = most.ok_or_else(|| InputError::new(Kind::Unsupported).at("model").found("no layers"))?;
        let split =
            plan.chunks.iter().map(|c| c.parts().filter(|(i, _)| is(*i, PartKind::Layer)).count() as u64).collect();
        let mtp = spine.parts.iter().filter(|c| spine.classes[**c as usize].kind == PartKind::Mtp).count() as u64;
        Ok(Self { model, job, pool, plan, spine, main, layers, split, mtp })
    }

    /// Stages.
    pub fn pp(&self) -> u64 {
        u64::from(self.plan.pipeline)
    }

    /// Chunks per stage.
    pub fn chunks(&self) -> u64 {
        u64::from(self.plan.chunks_per_stage)
    }

    /// Data-parallel ways of the main strategy.
    pub fn dp(&self) -> u64 {
        self.plan.stage_devices() / self.main.model_ways().max(1)
    }

    /// Data-parallel ways of experts.
    pub fn expert_dp(&self) -> u64 {
        self.plan.stage_devices() / (u64::from(self.main.ep) * u64::from(self.main.etp)).max(1)
    }

    /// Sequences of a micro-batch on one rank.
    pub fn micro_batch(&self) -> u64 {
        (self.job.global_batch / (self.plan.micro_batches * self.dp()).max(1)).max(1)
    }

    /// Devices of a node that take part.
    pub fn per_node(&self) -> u64 {
        self.pool.devices_per_node.clamp(1, self.plan.devices.max(1))
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        self.plan.devices.div_ceil(self.per_node())
    }

    /// Whether any layer has routed experts.
    pub fn has_experts(&self) -> bool {
        self.model
            .classes
            .iter()
            .flat_map(|c| &c.sublayers)
            .flat_map(|s| &s.ops)
            .any(|op| matches!(op.kind, crate::model::OpKind::Experts { .. }))
    }

    /// Layers whose cuts (not their recomputation) differ from the main strategy, as `first-last: strategy`.
    pub fn differing(&self) -> Vec<String> {
        let plain = |s: &LayerStrategy| LayerStrategy { recompute: Recompute::None, ..*s };
        // Experts concern the layers that have some only.
        let same = |s: &LayerStrategy| {
            let m = plain(&self.main);
            let s = plain(s);
            s == m || (s.ep == 1 && s.etp == 1 && LayerStrategy { ep: m.ep, etp: m.etp, ..s } == m)
        };
        let mut runs: Vec<(usize, usize, LayerStrategy)> = Vec::new();
        for (i, s) in self.layers.iter().enumerate().filter(|(_, s)| !same(s)) {
            match runs.last_mut() {
                Some((_, last, of)) if *last + 1 == i && of == s => *last = i,
                _ => runs.push((i, i, *s)),
            }
        }
        runs.into_iter()
            .map(|(a, b, s)| if a == b { format!("layer {a}: {s}") } else { format!("layers {a} to {b}: {s}") })
            .collect()
    }

    /// How recomputation is spread over the layers.
    pub fn recompute(&self) -> Recomputed {
        let mut full_per_chunk = Vec::new();
        let mut next = 0usize;
        let mut leading = true;
        let (mut any_selective, mut any_none) = (false, false);
        for n in &self.split {
            let chunk = &self.layers[next..next + *n as usize];
            let full = chunk.iter().filter(|s| s.recompute == Recompute::Full).count();
            leading &= chunk.iter().take(full).all(|s| s.recompute == Recompute::Full);
            full_per_chunk.push(full as u64);
            any_selective |= chunk.iter().any(|s| s.recompute == Recompute::Selective);
            any_none |= chunk.iter().any(|s| s.recompute == Recompute::None);
            next += *n as usize;
        }
        let full: u64 = full_per_chunk.iter().sum();
        if full == 0 {
            let exact = !(any_selective && any_none);
            return if any_selective { Recomputed::Selective { exact } } else { Recomputed::None };
        }
        if full == self.layers.len() as u64 {
            return Recomputed::Full;
        }
        let most = full_per_chunk.iter().copied().max().unwrap_or(0);
        let even = self.split.iter().zip(&full_per_chunk).all(|(n, f)| *f == most.min(*n));
        Recomputed::Block { layers: most, exact: even && leading && !any_selective }
    }
}

/// Recomputation of all layers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recomputed {
    /// Of none.
    None,
    /// Selective; `exact` when of every layer.
    Selective {
        /// Whether every layer does.
        exact: bool,
    },
    /// Full, of every layer.
    Full,
    /// Full, of the first layers of each chunk.
    Block {
        /// How many of each chunk.
        layers: u64,
        /// Whether that is what the plan says.
        exact: bool,
    },
}
