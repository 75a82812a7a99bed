//! Galvatron's per-layer JSON for a plan of ours: the one format that holds a strategy per layer.

use super::bundle::Bundle;
use super::galvatron::to_json;
use super::ranks;
use super::view::View;
use crate::cost::galvatron::{DpType, Pipeline};
use crate::import::galvatron::PlanFile;
use crate::plan::{LayerStrategy, Recompute};
use serde_json::Map;

/// The file and what is lost.
pub fn bundle(view: &View<'_>) -> Bundle {
    let mut bundle = Bundle::default();
    let each = |of: &dyn Fn(&LayerStrategy) -> u32| view.layers.iter().map(of).collect::<Vec<u32>>();
    let width = |s: &LayerStrategy| s.tp.max(s.ulysses);
    if let Some(both) = view.layers.iter().find(|s| s.tp > 1 && s.ulysses > 1) {
        bundle.lose(format!("tensor parallelism and Ulysses in one layer ({both})"), "the wider of the two");
    }
    if view.layers.iter().any(|s| s.ep > 1 || s.etp > 1) {
        bundle.lose("expert parallelism", "none: Galvatron's trainer has no experts");
    }
    if view.layers.iter().any(|s| s.recompute == Recompute::Selective) {
        bundle.lose("selective recomputation", "full recomputation of those layers");
    }
    let stages = |s: &LayerStrategy| s.zero;
    let (least, most) = view.layers.iter().map(stages).fold((3, 0), |(l, m), z| (z.min(l), z.max(m)));
    let rest = view.layers.iter().map(stages).filter(|z| *z < 3).max().unwrap_or(if least == 3 { 2 } else { 0 });
    if rest == 1 {
        bundle.lose("optimizer states cut alone (ZeRO-1)", "ZeRO-2");
    }
    if view.layers.iter().any(|s| s.zero == 0) && rest > 0 && most > 0 {
        bundle.lose("layers without ZeRO beside layers with it", "ZeRO-2 for both");
    }
    if view.chunks() > 1 {
        bundle.lose(format!("{} chunks per stage", view.chunks()), "the same layers per stage in one chunk");
    }
    let pp = view.pp() as usize;
    let per_stage: Vec<u32> = (0..pp).map(|s| view.split.iter().skip(s).step_by(pp).sum::<u64>() as u32).collect();
    let cp = view.layers.iter().any(|s| s.cp > 1);
    let first = view.plan.chunks.first().and_then(|c| c.parts().next()).map_or(view.main, |(_, s)| *s);
    let file = PlanFile {
        file: "plan".to_owned(),
        pp_deg: view.plan.pipeline,
        tp_sizes_enc: each(&width),
        tp_consecutive_flags: vec![1; view.layers.len()],
        dp_types_enc: each(&|s| u32::from(s.zero == 3)),
        use_sp: each(&|s| u32::from(s.ulysses > 1)),
        checkpoint: each(&|s| u32::from(s.recompute != Recompute::None)),
        cp_sizes_enc: cp.then(|| each(&|s| s.cp)),
        world_size: Some(u32::try_from(view.plan.devices).unwrap_or(u32::MAX)),
        global_bsz: u32::try_from(view.job.global_batch).unwrap_or(u32::MAX),
        chunks: u32::try_from(view.plan.micro_batches).unwrap_or(u32::MAX),
        pp_division: Some(per_stage),
        pipeline_type: Pipeline::OneForwardOneBackward,
        default_dp_type: if rest == 0 { DpType::Ddp } else { DpType::Zero2 },
        vtp: width(&first),
        vsp: first.ulysses > 1,
        vcp: (first.cp > 1).then_some(first.cp),
        embed_sdp: first.zero == 3,
        extra: Map::new(),
    };
    bundle.file("galvatron.json", format!("{:#}\n", to_json(&file)));
    bundle.file("ranks.tsv", ranks::table(view));
    bundle
}
