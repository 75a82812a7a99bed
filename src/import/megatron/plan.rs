//! The plan that a launch means: where Megatron puts each layer, with one strategy for all of them.

use crate::error::{InputError, Kind};
use crate::import::even::decided;
use crate::plan::{LayerStrategy, PartKind, Plan, Recompute, Spine};
use crate::rules::megatron::Launch;
use crate::rules::megatron::layout::Layout;
use crate::rules::megatron::offers::layout_of;

/// A plan with remarks on what it only comes near to.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The plan.
    pub plan: Plan,
    /// What the plan cannot say of the launch.
    pub notes: Vec<String>,
}

fn small(value: u64, what: &str) -> Result<u32, InputError> {
    u32::try_from(value)
        .map_err(|_| InputError::new(Kind::InvalidValue).at(what).found(value).expected("a smaller number"))
}

/// The strategy of all layers.
fn strategy(l: &Launch, notes: &mut Vec<String>) -> Result<LayerStrategy, InputError> {
    let experts = decided(l.experts(), "--num-experts")?.is_some();
    let (tp, cp) = (decided(l.tp(), "TP")?, decided(l.cp(), "CP")?);
    let replicas = decided(l.dp(), "DP")?.saturating_mul(cp);
    let sharded = if decided(l.megatron_fsdp(), "FSDP")? {
        match decided(l.sharding(), "--data-parallel-sharding-strategy")? {
            "no_shard" => 0,
            "optim" => 1,
            "optim_grads" => 2,
            _ => 3,
        }
    } else if decided(l.torch_fsdp2(), "FSDP")? {
        3
    } else {
        u8::from(decided(l.distributed_optimizer(), "--use-distributed-optimizer")?)
    };
    let modules = decided(l.recompute_modules(), "--recompute-modules")?;
    let scores = super::software(l)?.0.scores;
    let recompute = match decided(l.recompute(), "--recompute-granularity")? {
        "full" => Recompute::Full,
        "selective" if modules == ["core_attn"] && !scores => Recompute::None,
        "selective" => Recompute::Selective,
        _ => Recompute::None,
    };
    if decided(l.cp_comm_type(), "--cp-comm-type")?.is_some_and(|list| list.iter().any(|t| t.starts_with("a2a")))
        && cp > 1
    {
        notes.push("context parallelism by all-to-all is priced as ring attention".to_owned());
    }
    Ok(LayerStrategy {
        tp: small(tp, "TP")?,
        sequence_parallel: decided(l.sequence_parallel(), "--sequence-parallel")?,
        ulysses: 1,
        cp: small(cp, "CP")?,
        ep: if experts { small(decided(l.ep(), "EP")?, "EP")? } else { 1 },
        etp: if experts { small(decided(l.etp(), "ETP")?, "ETP")? } else { 1 },
        zero: if replicas > 1 { sharded } else { 0 },
        recompute,
    })
}

/// Stages of the launch as symbols, whatever flags say so.
fn stages(l: &Launch) -> Result<Layout, InputError> {
    if let Some(layout) = decided(l.parsed_layout(), "--pipeline-model-parallel-layout")? {
        return Ok(layout);
    }
    let by_rank = decided(l.layers_by_rank(), "--num-layers")?;
    let (pp, chunks) = (by_rank.len(), by_rank.first().map_or(1, Vec::len));
    let split: Vec<u64> = (0..pp * chunks).map(|x| by_rank[x % pp][x / pp]).collect();
    Ok(layout_of(&split, decided(l.mtp(), "--mtp-num-layers")?.unwrap_or(0).max(0) as u64))
}

/// The plan of the launch for the parts of `spine`.
///
/// # Errors
/// Sizes that are not decided, another number of layers than the model has, chunks without any part.
pub fn plan(l: &Launch, spine: &Spine) -> Result<Imported, InputError> {
    let mut notes = Vec::new();
    let all = strategy(l, &mut notes)?;
    let layout = stages(l)?;
    let pipeline = decided(l.pp(), "PP")?;
    let count = |kind| spine.parts.iter().filter(|c| spine.classes[**c as usize].kind == kind).count() as u64;
    let layers = count(PartKind::Layer);
    if layout.count('t') != layers {
        return Err(InputError::new(Kind::Inconsistent)
            .at("--num-layers")
            .found(layout.count('t'))
            .expected(format!("{layers}, the layers of the model")));
    }
    let full = all.recompute == Recompute::Full;
    let per_chunk = match decided(l.recompute_method(), "--recompute-method")? {
        "block" if full => decided(l.recompute_num_layers(), "--recompute-num-layers")?.unwrap_or(1).max(0) as u64,
        _ => u64::MAX,
    };
    // Behind the last layer our order is head, then MTP modules; where a layout has them on different stages the other
    // way round, they change places.
    let tail = spine.parts.iter().rev().take_while(|c| spine.classes[**c as usize].kind != PartKind::Layer).count();
    let tail_start = spine.parts.len() - tail;
    let mut ends: Vec<usize> = Vec::new();
    for (x, stage) in layout.stages.iter().enumerate() {
        ends.extend(stage.chars().filter(|c| matches!(c, 'm' | 'L')).map(|_| x));
    }
    if ends.first() != ends.last() && ends.len() > 1 {
        notes.push(
            "the head and the MTP modules stand on different stages: they are priced with their places changed"
                .to_owned(),
        );
    }
    let mut next = 0usize;
    let mut chunks = Vec::with_capacity(layout.stages.len());
    for (x, stage) in layout.stages.iter().enumerate() {
        let first = next;
        let mut strategies = Vec::new();
        let mut in_chunk = 0u64;
        let wanted = Layout::count_in(stage, 't');
        let is_layer = |i: usize| spine.classes[spine.parts[i] as usize].kind == PartKind::Layer;
        while next < tail_start
            && (in_chunk < wanted || !is_layer(next) && (x == 0 || in_chunk == wanted && in_chunk > 0))
        {
            let class = &spine.classes[spine.parts[next] as usize];
            let mut s = class.adapt(&all);
            if is_layer(next) {
                if full && in_chunk >= per_chunk {
                    s.recompute = Recompute::None;
                }
                in_chunk += 1;
            }
            strategies.push(s);
            next += 1;
        }
        let here = ends.iter().filter(|e| **e == x).count();
        let last = x + 1 == layout.stages.len();
        if here > 0 || last {
            let take = if last { spine.parts.len() - next } else { here.min(spine.parts.len().saturating_sub(next)) };
            for _ in 0..take {
                strategies.push(spine.class_of(next).adapt(&all));
                next += 1;
            }
        }
        if strategies.is_empty() {
            return Err(InputError::new(Kind::Unsupported)
                .at("--pipeline-model-parallel-layout")
                .found(format!("stage {x} holds nothing"))
                .expected("something on every stage: an empty one cannot be priced"));
        }
        chunks.push(Plan::encode(first as u32, &strategies));
    }
    let chunks_per_stage = (layout.stages.len() as u64 / pipeline.max(1)).max(1);
    Ok(Imported {
        plan: Plan {
            devices: decided(l.world, "--world")?,
            pipeline: small(pipeline, "PP")?,
            chunks_per_stage: small(chunks_per_stage, "chunks")?,
            micro_batches: decided(l.micro_batches(), "--global-batch-size")?,
            chunks,
        },
        notes,
    })
}
