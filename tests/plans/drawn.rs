//! Plans drawn at random from the planner's space under the rules of a target.

use super::{Case, adapted, even_plan};
use espalier::cluster::Cluster;
use espalier::cost::{CostOptions, Mesh};
use espalier::plan::{LayerStrategy, PartKind, Plan, validate};
use espalier::question::SearchOptions;
use espalier::rules::targets::Target;
use espalier::space::LayerwiseSpace;
use espalier::space::planner::Inputs;
use espalier::space::strategies::enumerate;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// The question of a case for a target.
pub fn inputs(c: &Case, target: Target) -> Inputs {
    let cluster =
        Cluster { name: "drawn".into(), pools: vec![c.pool.clone()], between_pools: None, between_sites: None };
    let search = SearchOptions { target: Some(target.name().to_owned()), ..SearchOptions::default() };
    Inputs { model: c.model.clone(), cluster, job: c.job.clone(), search, cost: CostOptions::default() }
}

/// Draws from one space.
pub struct Drawn<'s, 'a> {
    case: &'s Case,
    space: &'s LayerwiseSpace<'a>,
    target: Target,
    frames: Vec<(Mesh, Vec<u32>)>,
    strategies: BTreeMap<usize, Vec<LayerStrategy>>,
}

impl<'s, 'a> Drawn<'s, 'a> {
    /// Of `space`, which was made for `target`.
    pub fn new(case: &'s Case, space: &'s LayerwiseSpace<'a>, target: Target) -> Self {
        let frames =
            space.frames().map(|(_, mesh, tasks)| (mesh, tasks.iter().map(|t| space.tasks[*t].chunks).collect()));
        Self { case, space, target, frames: frames.collect(), strategies: BTreeMap::new() }
    }

    /// Whether every part takes what a strategy means for it.
    fn allowed(&self, main: &LayerStrategy, mesh: Mesh) -> bool {
        let spine = &self.case.spine;
        (0..spine.parts.len()).all(|i| {
            let class = spine.class_of(i);
            let s = adapted(spine, i, main);
            let dp = mesh.stage_devices / s.model_ways().max(1);
            let divides = self.case.job.global_batch.is_multiple_of(mesh.micro_batches * dp.max(1));
            divides && self.space.allows(&s, class, class.routes(), mesh)
        })
    }

    /// A plan; none where the frame that was drawn holds none.
    pub fn plan(&mut self, random: &mut ChaCha8Rng) -> Option<Plan> {
        let at = random.random_range(0..self.frames.len());
        let (mesh, chunks) = self.frames[at].clone();
        let chunks = chunks[random.random_range(0..chunks.len())];
        if !self.strategies.contains_key(&at) {
            let spine = &self.case.spine;
            let layers = spine.classes.iter().filter(|c| c.kind == PartKind::Layer);
            let class = layers.max_by_key(|c| c.routes())?;
            let mut list = Vec::new();
            enumerate(class, &self.case.job, mesh, &mut |base, zeros, recomputes| {
                for &zero in zeros {
                    list.extend(recomputes.iter().map(|&recompute| LayerStrategy { zero, recompute, ..base }));
                }
            });
            list.retain(|s| self.allowed(s, mesh));
            self.strategies.insert(at, list);
        }
        let list = &self.strategies[&at];
        if list.is_empty() {
            return None;
        }
        let mut any = || list[random.random_range(0..list.len())];
        let mut plan = even_plan(self.case, mesh.pipeline, chunks, mesh.micro_batches, &any())?;
        if !self.target.shares_layers() {
            // Every chunk draws again: a target that holds a strategy per layer gets several.
            for chunk in &mut plan.chunks {
                let main = any();
                let parts: Vec<LayerStrategy> =
                    chunk.parts().map(|(part, _)| adapted(&self.case.spine, part, &main)).collect();
                *chunk = Plan::encode(chunk.runs[0].first, &parts);
            }
        }
        validate(&plan, &self.case.spine, &self.case.job, self.case.pool.devices).is_ok().then_some(plan)
    }
}
