//! Galvatron's plan JSON, written.
//!
//! The embedding's ZeRO-3 flag is written under both names: the search of version 2.4.1 writes `embed_sdp` and its trainer
//! reads `vocab_sdp`. Context-parallel degrees are written where there are any; Galvatron's own search drops them.

use crate::cost::galvatron::{DpType, Plan, Setting, Strategy};
use crate::import::galvatron::PlanFile;
use serde_json::{Map, Value};

/// The plan file of `plan`.
pub fn plan_file(plan: &Plan, setting: &Setting) -> PlanFile {
    let per_layer = |of: &dyn Fn(&Strategy) -> u32| plan.layers.iter().map(of).collect::<Vec<u32>>();
    let e = &plan.embedding;
    let cp = plan.layers.iter().any(|s| s.cp > 1);
    PlanFile {
        file: "plan".to_owned(),
        pp_deg: plan.pp,
        tp_sizes_enc: per_layer(&Strategy::width),
        tp_consecutive_flags: vec![1; plan.layers.len()],
        dp_types_enc: per_layer(&|s| u32::from(s.dp_type == DpType::Zero3)),
        use_sp: per_layer(&|s| u32::from(s.sp > 1)),
        checkpoint: per_layer(&|s| u32::from(s.checkpoint)),
        cp_sizes_enc: cp.then(|| per_layer(&|s| s.cp)),
        world_size: Some(setting.world()),
        global_bsz: plan.micro.global_batch,
        chunks: plan.micro.chunks,
        pp_division: Some(plan.partition.clone()),
        pipeline_type: setting.pipeline,
        default_dp_type: setting.default_dp,
        vtp: e.width(),
        vsp: e.sp > 1,
        vcp: (e.cp > 1).then_some(e.cp),
        embed_sdp: e.dp_type == DpType::Zero3,
        extra: Map::new(),
    }
}

/// The JSON object of a plan file, keys in Galvatron's order.
pub fn to_json(file: &PlanFile) -> Value {
    let joined = |values: &[u32]| Value::from(values.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("pp_deg", file.pp_deg.into());
    put("tp_sizes_enc", joined(&file.tp_sizes_enc));
    put("tp_consecutive_flags", joined(&file.tp_consecutive_flags));
    put("dp_types_enc", joined(&file.dp_types_enc));
    put("use_sp", joined(&file.use_sp));
    if let Some(cp) = &file.cp_sizes_enc {
        put("cp_sizes_enc", joined(cp));
    }
    put("checkpoint", joined(&file.checkpoint));
    if let Some(world) = file.world_size {
        put("world_size", world.into());
    }
    put("global_bsz", file.global_bsz.into());
    put("chunks", file.chunks.into());
    if let Some(division) = &file.pp_division {
        put("pp_division", joined(division));
    }
    put("pipeline_type", file.pipeline_type.name().into());
    put("default_dp_type", file.default_dp_type.name().into());
    put("vtp", file.vtp.into());
    put("vsp", u32::from(file.vsp).into());
    if let Some(vcp) = file.vcp {
        put("vcp", vcp.into());
    }
    put("embed_sdp", u32::from(file.embed_sdp).into());
    put("vocab_sdp", u32::from(file.embed_sdp).into());
    for (key, value) in &file.extra {
        out.insert(key.clone(), value.clone());
    }
    Value::Object(out)
}
