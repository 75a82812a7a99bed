//! torchtitan's parallelism (0.3.0, read 2026-11), from `--parallelism.*` flags or the fields of `ParallelismConfig`.

mod flags;

use super::{Book, Fault, Finding, Known, Undecided, divides, fault_if, listed, nearest as near, rules};
use crate::error::{InputError, Kind, nearest};
use flags::Flag;
use std::collections::BTreeMap;

/// Schedules with one stage per rank.
const SINGLE: [&str; 2] = ["1F1B", "GPipe"];
/// Schedules with several, or of a file.
const MULTI: [&str; 6] =
    ["Interleaved1F1B", "InterleavedZeroBubble", "LoopedBFS", "ZBVZeroBubble", "DualPipeV", "PipelineScheduleMulti"];

/// A launch.
#[derive(Debug, Clone)]
pub struct Launch {
    values: BTreeMap<String, String>,
    /// Ranks in all, if known.
    pub world: Known<u64>,
    /// Layers of the model, if known.
    pub layers: Known<u64>,
}

impl Launch {
    /// Reads words such as `--parallelism.tensor_parallel_degree 8`.
    ///
    /// # Errors
    /// A section or a field that torchtitan does not know, a value of another kind than the field's.
    pub fn parse<S: AsRef<str>>(words: &[S], world: Option<u64>) -> Result<Self, InputError> {
        let mut values = BTreeMap::new();
        let mut at = 0;
        while let Some(word) = words.get(at).map(AsRef::as_ref) {
            at += 1;
            let Some(flag) = word.strip_prefix("--") else {
                return Err(InputError::new(Kind::Syntax).found(word).expected("a flag: this value belongs to none"));
            };
            let (name, attached) = flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v.to_owned())));
            let name = name.replace('-', "_");
            let (section, field, off) = match flags::known(&name, word)? {
                Flag::Field(section, field, off) => (section, field, off),
                Flag::Whole => {
                    // `--module m --config f` and the like choose the function that makes the configuration.
                    if words.get(at).is_some_and(|w| !w.as_ref().starts_with("--")) && attached.is_none() {
                        at += 1;
                    }
                    continue;
                }
            };
            let next = words.get(at).map(AsRef::as_ref).filter(|w| !w.starts_with("--"));
            let value = match (attached, next) {
                (Some(value), _) => value,
                (None, Some(value)) if !off => {
                    at += 1;
                    value.to_owned()
                }
                _ => if off { "false" } else { "true" }.to_owned(),
            };
            flags::of_kind(field, &value).map_err(|e| e.at(format!("--{section}.{field}")))?;
            values.insert(format!("{section}.{field}"), value);
        }
        Ok(Self { values, world: world.ok_or(Undecided), layers: Err(Undecided) })
    }

    fn int(&self, field: &str, default: i64) -> i64 {
        self.values.get(&format!("parallelism.{field}")).and_then(|v| v.parse().ok()).unwrap_or(default)
    }

    /// A degree by the name before `_parallel_degree`; 1 unless given.
    pub fn degree(&self, name: &str) -> i64 {
        self.int(&format!("{name}_parallel_degree"), 1)
    }

    /// Stages.
    pub fn pp(&self) -> i64 {
        self.degree("pipeline")
    }

    /// A number by section and field, where one is given.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.values.get(key)?.parse().ok()
    }

    /// A value by section and field, where one is given.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Copies, shards, context, tensor, pipeline; the shards take the rest where they are -1.
    pub fn sizes(&self) -> Known<[i64; 5]> {
        let (replicate, cp, tp, pp) =
            (self.int("data_parallel_replicate_degree", 1), self.degree("context"), self.degree("tensor"), self.pp());
        let shard = match self.int("data_parallel_shard_degree", -1) {
            -1 => {
                let others = replicate.saturating_mul(cp).saturating_mul(tp).saturating_mul(pp).max(1);
                i64::try_from(self.world?).map_err(|_| Undecided)? / others
            }
            n => n,
        };
        Ok([replicate, shard, cp, tp, pp])
    }

    /// The schedule by its name.
    pub fn schedule(&self) -> &str {
        self.values.get("parallelism.pipeline_parallel_schedule").map_or("1F1B", String::as_str)
    }

    /// Virtual stages, where the layers per stage are given.
    pub fn stages(&self) -> Known<Option<i64>> {
        let each = self.int("pipeline_parallel_layers_per_stage", 0);
        if each <= 0 {
            return Ok(None);
        }
        let ends = self.int("pipeline_parallel_first_stage_less_layers", 1)
            + self.int("pipeline_parallel_last_stage_less_layers", 1);
        let layers = i64::try_from(self.layers?).map_err(|_| Undecided)? + ends;
        Ok(Some((layers + each - 1) / each))
    }

    /// Micro-batches of the pipeline, where both sizes are given.
    fn micro_batches(&self) -> Known<u64> {
        if let Some(n) = self.number("parallelism.num_pp_microbatches") {
            return Ok(n);
        }
        let local = self.number("training.local_batch_size").ok_or(Undecided)?;
        let size = self.number("parallelism.pipeline_parallel_microbatch_size").unwrap_or(1).max(1);
        Ok(local / size)
    }
}

fn world(l: &Launch) -> Finding {
    let (sizes, world) = (l.sizes()?, l.world?);
    let product = sizes.iter().fold(1i64, |a, b| a.saturating_mul(*b));
    Ok((product < 0 || product as u64 != world).then(|| {
        let [r, s, c, t, p] = sizes;
        let fixed = r.saturating_mul(c).saturating_mul(t).saturating_mul(p).max(1) as u64;
        let fault = Fault::new(format!(
            "dp_replicate {r} * dp_shard {s} * cp {c} * tp {t} * pp {p} = {product}, {world} ranks"
        ));
        if divides(world, fixed) {
            fault.instead(format!("--parallelism.data_parallel_shard_degree {}", world / fixed))
        } else {
            fault
        }
    }))
}

fn experts(l: &Launch) -> Finding {
    let ([_, shard, cp, tp, _], ep) = (l.sizes()?, l.degree("expert"));
    let ranks = u64::try_from(shard.saturating_mul(cp).saturating_mul(tp)).unwrap_or(0);
    let wanted = u64::try_from(ep).unwrap_or(0);
    Ok((ep > 1 && !divides(ranks, wanted)).then(|| {
        let valid = near((1..=ranks).filter(|d| divides(ranks, *d)), wanted, 3);
        Fault::new(format!("dp_shard * cp * tp = {ranks}, ep {ep}: {} expert shards", ranks / wanted.max(1)))
            .instead(format!("--parallelism.expert_parallel_degree one of {}", listed(&valid)))
    }))
}

rules! {
    /// What torchtitan refuses.
    REFUSED: Launch, ValidateArgs, "torchtitan/distributed/parallel_dims.py, pipeline_parallel.py";
    degrees_positive: "every degree is at least 1, dp_shard alone may be -1" => |l| {
        let bad = ["context", "tensor", "pipeline", "expert"].into_iter().find(|n| l.degree(n) < 1);
        let shard = l.int("data_parallel_shard_degree", -1);
        let replicate = l.int("data_parallel_replicate_degree", 1);
        fault_if(bad.is_some() || replicate < 1 || shard < -1 || shard == 0, || match bad {
            Some(name) => format!("{name}_parallel_degree {}", l.degree(name)),
            None => format!("dp_replicate {replicate}, dp_shard {shard}"),
        })
    };
    world_is_product: "dp_replicate * dp_shard * cp * tp * pp is the world" => world;
    schedule_known: "a schedule by its name" => |l| {
        let name = l.schedule();
        let known: Vec<&str> = SINGLE.into_iter().chain(MULTI).chain(["_PipelineScheduleRuntime", "PipelineScheduleSingle"]).collect();
        let found = known.iter().any(|k| k.eq_ignore_ascii_case(name));
        Ok((l.pp() > 1 && !found).then(|| {
            let fault = Fault::new(name.to_owned());
            match nearest(name, known) {
                Some(near) => fault.instead(format!("--parallelism.pipeline_parallel_schedule {near}")),
                None => fault,
            }
        }))
    };
    csv_needs_multi: "a schedule file needs PipelineScheduleMulti or _PipelineScheduleRuntime" => |l| {
        let csv = l.values.get("parallelism.pipeline_parallel_schedule_csv").is_some_and(|v| !v.is_empty());
        let fits = matches!(l.schedule(), "PipelineScheduleMulti" | "_PipelineScheduleRuntime");
        Ok((csv && !fits).then(|| Fault::new(l.schedule().to_owned()).instead("--parallelism.pipeline_parallel_schedule _PipelineScheduleRuntime")))
    };
    stages_divisible_by_pp: "the virtual stages are a multiple of PP" => |l| {
        let Some(stages) = l.stages()? else { return Ok(None) };
        fault_if(l.pp() > 1 && stages % l.pp() != 0, || format!("{stages} stages, PP {}", l.pp()))
    };
    stages_fit_schedule: "single-stage schedules have one stage per rank, others two or more" => |l| {
        let Some(stages) = l.stages()? else { return Ok(None) };
        let each = stages / l.pp().max(1);
        let single = SINGLE.iter().any(|s| s.eq_ignore_ascii_case(l.schedule()));
        fault_if(l.pp() > 1 && (single && each != 1 || !single && each < 2), || format!("{each} stages per rank with {}", l.schedule()))
    };
    ends_within_stage: "what the first and last stage have fewer is at most a stage" => |l| {
        let each = l.int("pipeline_parallel_layers_per_stage", 0);
        let most = l.int("pipeline_parallel_first_stage_less_layers", 1).max(l.int("pipeline_parallel_last_stage_less_layers", 1));
        fault_if(l.pp() > 1 && each > 0 && most > each, || format!("{most} of {each} layers"))
    };
}

rules! {
    /// What it accepts and should not.
    SILENT: Launch, Run, "torchtitan 0.3.0 ParallelDims accepts it";
    ep_divides_shards: "dp_shard * cp * tp is a multiple of ep: else expert shards round down, to 0 in the worst case" => experts;
    micro_batches_fill_pipeline: "at least as many micro-batches as stages: torch warns, older versions hang" => |l| {
        let (m, pp) = (l.micro_batches()?, l.pp());
        fault_if(pp > 1 && (m as i64) < pp, || format!("{m} micro-batches, PP {pp}"))
    };
}

/// The version that the rules were read from.
pub const VERSION: &str = "0.3.0";
/// What torchtitan refuses.
pub const BOOK: Book<Launch> =
    Book { framework: "torchtitan", version: VERSION, date: "2026-11", chapters: &[REFUSED] };
/// What it does not check.
pub const UNCHECKED: Book<Launch> =
    Book { framework: "torchtitan", version: VERSION, date: "2026-11", chapters: &[SILENT] };

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(line: &str, world: u64) -> Vec<&'static str> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let launch = Launch::parse(&words, Some(world)).unwrap();
        BOOK.broken(&launch).iter().chain(&UNCHECKED.broken(&launch)).map(|b| b.id).collect()
    }

    #[test]
    fn meshes_experts_and_schedules_are_judged() {
        let p = "--parallelism";
        assert!(ids(&format!("{p}.tensor_parallel_degree 8 {p}.pipeline-parallel-degree=2"), 64).is_empty());
        assert_eq!(
            ids(&format!("{p}.data_parallel_shard_degree 3 {p}.tensor_parallel_degree 8"), 64),
            ["world_is_product"]
        );
        assert_eq!(ids(&format!("{p}.expert_parallel_degree 3"), 64), ["ep_divides_shards"]);
        assert_eq!(
            ids(&format!("{p}.pipeline_parallel_degree 4 --training.local_batch_size 2"), 8),
            ["micro_batches_fill_pipeline"]
        );
        assert_eq!(
            ids(&format!("{p}.pipeline_parallel_degree 4 {p}.pipeline_parallel_schedule 2F2B"), 8),
            ["schedule_known"]
        );
    }

    #[test]
    fn unknown_names_offer_the_nearest() {
        let error = Launch::parse(&["--parallelism.tensor_parallel_size", "8"], None).unwrap_err();
        assert_eq!(error.help.as_deref(), Some("did you mean `--parallelism.tensor_parallel_degree`?"));
        assert!(Launch::parse(&["--paralelism.tensor_parallel_degree", "8"], None).is_err());
        assert!(Launch::parse(&["--parallelism.tensor_parallel_degree", "x"], None).is_err());
    }
}
