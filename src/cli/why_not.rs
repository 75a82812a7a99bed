//! `espalier why-not`: the rule that forbids a variant of a plan, or what the variant would cost.

use super::given::{Given, GivenArgs, load};
use super::output::Output;
use super::values;
use super::{ANSWERED, DOES_NOT_FIT, Ended, Failure, ILLEGAL};
use crate::error::{InputError, Kind};
use crate::export::legal;
use crate::export::megatron;
use crate::export::view::View;
use crate::plan::{LayerStrategy, Recompute};
use crate::question::{Constraint, Dim};
use crate::report;
use crate::rules::megatron::offers::{even_split, layout_of};
use crate::rules::megatron::{Value as Argument, broken};
use crate::rules::targets::{Shape, Target};
use crate::rules::{Broken, Moment};
use crate::space::planner::{PlanError, Watch, plan};
use crate::space::why_not::{Place, terms};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `why-not`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The plan, a launch script of Megatron-LM, flags of torchtitan, or a configuration of DeepSpeed
    #[arg(value_name = "PLAN")]
    file: PathBuf,
    /// Tensor parallelism
    #[arg(long, value_name = "N", value_parser = values::devices)]
    tp: Option<u64>,
    /// Stages
    #[arg(long, value_name = "N", value_parser = values::devices)]
    pp: Option<u64>,
    /// Chunks per stage
    #[arg(long, value_name = "N", value_parser = values::devices)]
    vpp: Option<u64>,
    /// Context parallelism
    #[arg(long, value_name = "N", value_parser = values::devices)]
    cp: Option<u64>,
    /// Expert parallelism
    #[arg(long, value_name = "N", value_parser = values::devices)]
    ep: Option<u64>,
    /// Tensor parallelism of experts
    #[arg(long, value_name = "N", value_parser = values::devices)]
    etp: Option<u64>,
    /// ZeRO stage, 0 to 3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=3))]
    zero: Option<u64>,
    /// Sequences of a micro-batch
    #[arg(long, value_name = "N", value_parser = values::batch)]
    micro_batch: Option<u64>,
    /// Recomputation: none, selective, full
    #[arg(long, value_name = "NAME")]
    recompute: Option<String>,
    /// Sequence parallelism: megatron, ulysses, off
    #[arg(long, value_name = "NAME")]
    sp: Option<String>,
    /// Framework whose rules are asked
    #[arg(long, value_name = "NAME", value_parser = values::target)]
    target: Option<String>,
    #[command(flatten)]
    given: GivenArgs,
}

impl Args {
    /// The variant as constraints.
    fn wanted(&self) -> Result<Vec<Constraint>, InputError> {
        let numbers = [
            ("tp", self.tp),
            ("pp", self.pp),
            ("vpp", self.vpp),
            ("cp", self.cp),
            ("ep", self.ep),
            ("etp", self.etp),
            ("zero", self.zero),
            ("micro_batch", self.micro_batch),
        ];
        let names = [("recompute", &self.recompute), ("sp", &self.sp)];
        let mut texts: Vec<String> = numbers.iter().filter_map(|(dim, n)| n.map(|n| format!("{dim}={n}"))).collect();
        texts.extend(names.iter().filter_map(|(dim, name)| name.as_ref().map(|name| format!("{dim}={name}"))));
        if texts.is_empty() {
            let error = InputError::new(Kind::MissingField).at("--tp, --pp, --ep ..");
            return Err(error.expected("what the plan should have been, e.g. `--ep 32`"));
        }
        texts.iter().map(|text| text.parse()).collect()
    }

    /// Rules that the variant breaks, asked of the plan's own launch with the degrees changed.
    fn broken(&self, given: &Given, target: Target) -> Result<Vec<Broken>, InputError> {
        let view = View::new(&given.inputs.model, &given.inputs.job, given.inputs.pool()?, &given.plan)?;
        if !target.is_megatron() {
            let mut s = view.main;
            let set = |to: &mut u32, n: Option<u64>| *to = n.map_or(*to, |n| u32::try_from(n).unwrap_or(u32::MAX));
            set(&mut s.tp, self.tp);
            set(&mut s.cp, self.cp);
            set(&mut s.ep, self.ep);
            set(&mut s.etp, self.etp);
            s.zero = self.zero.map_or(s.zero, |z| z as u8);
            let pipeline = self.pp.unwrap_or(view.pp());
            let shape = Shape {
                pipeline: u32::try_from(pipeline).unwrap_or(u32::MAX),
                stage_devices: given.plan.devices / pipeline.max(1),
                strategy: s,
                experts: view.has_experts(),
            };
            return Ok(target
                .refuses(&shape)
                .into_iter()
                .map(|r| refusal(target, r.id, r.demands, s.to_string()))
                .collect());
        }
        if self.zero.is_some_and(|z| z > 1) {
            let shape = Shape {
                pipeline: given.plan.pipeline,
                stage_devices: given.plan.stage_devices(),
                strategy: crate::plan::LayerStrategy { zero: 3, ..view.main },
                experts: false,
            };
            let why = format!("ZeRO-{}", self.zero.unwrap_or(0));
            return Ok(target
                .refuses(&shape)
                .into_iter()
                .map(|r| refusal(target, r.id, r.demands, why.clone()))
                .collect());
        }
        let mut launch = megatron::launch(&view)?;
        let degrees = [
            ("tensor_model_parallel_size", self.tp),
            ("pipeline_model_parallel_size", self.pp),
            ("context_parallel_size", self.cp),
            ("expert_model_parallel_size", self.ep),
            ("expert_tensor_parallel_size", self.etp),
            ("micro_batch_size", self.micro_batch),
        ];
        for (name, n) in degrees {
            if let Some(n) = n {
                launch.set(name, Argument::Int(i64::try_from(n).unwrap_or(i64::MAX)));
            }
        }
        if self.tp.is_some_and(|tp| tp > 1) {
            launch.set("sequence_parallel", Argument::Switch(self.sp.as_deref() != Some("off")));
        }
        if self.pp.is_some() || self.vpp.is_some() {
            for name in [
                "decoder_first_pipeline_num_layers",
                "decoder_last_pipeline_num_layers",
                "num_virtual_stages_per_pipeline_rank",
            ] {
                launch.set(name, Argument::Nothing);
            }
            let (pp, chunks) = (self.pp.unwrap_or(view.pp()), self.vpp.unwrap_or(1));
            let (stages, layers) = (pp.saturating_mul(chunks), view.layers.len() as u64);
            let text = (pp > 1 && stages <= layers).then(|| layout_of(&even_split(layers, stages), view.mtp).write());
            launch.set("pipeline_model_parallel_layout", text.map_or(Argument::Nothing, Argument::Text));
            if pp == 1 && chunks > 1 || stages > layers {
                launch.set("num_virtual_stages_per_pipeline_rank", Argument::Int(i64::try_from(chunks).unwrap_or(1)));
            }
        }
        // The evaluation batch follows the variant.
        launch.set("eval_global_batch_size", Argument::Nothing);
        Ok(broken(&launch))
    }
}

fn refusal(target: Target, id: &'static str, demands: &'static str, why: String) -> Broken {
    Broken {
        id,
        framework: target.name(),
        version: legal::version(target),
        when: Moment::ValidateArgs,
        demands,
        source: "limits of the framework, read 2026-11",
        why,
        instead: Vec::new(),
    }
}

/// What the plan has of each dimension that is asked for, where it is the same for all layers.
fn has(given: &Given, dim: Dim) -> Option<String> {
    let plan = &given.plan;
    let view = View::new(&given.inputs.model, &given.inputs.job, given.inputs.pool().ok()?, plan).ok()?;
    let s = view.main;
    let same = |of: &dyn Fn(&LayerStrategy) -> String| {
        let routed = view.layers.iter().filter(|s| s.ep * s.etp > 1 || !matches!(dim, Dim::Ep | Dim::Etp));
        routed.clone().all(|other| of(other) == of(&s)).then(|| of(&s))
    };
    match dim {
        Dim::Pp => Some(plan.pipeline.to_string()),
        Dim::Vpp => Some(plan.chunks_per_stage.to_string()),
        Dim::MicroBatch => Some(view.micro_batch().to_string()),
        Dim::Tp => same(&|s| s.tp.to_string()),
        Dim::Cp => same(&|s| s.cp.to_string()),
        Dim::Ep => same(&|s| s.ep.to_string()),
        Dim::Etp => same(&|s| s.etp.to_string()),
        Dim::Zero => same(&|s| s.zero.to_string()),
        Dim::Recompute => same(&|s| match s.recompute {
            Recompute::None => "none".to_owned(),
            Recompute::Selective => "selective".to_owned(),
            Recompute::Full => "full".to_owned(),
        }),
        _ => None,
    }
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    answer(args, output).map_err(|failure| failure.of_file(&args.file))
}

fn answer(args: &Args, output: &Output) -> Ended {
    let wanted = args.wanted()?;
    let given = load(&args.file, &args.given)?;
    let name = args.target.clone().or(given.inputs.search.target.clone()).unwrap_or_else(|| "megatron".to_owned());
    let target: Target = name.parse()?;
    let asked: Vec<String> = wanted.iter().map(Constraint::to_string).collect();
    let asked = asked.join(" ");
    let already = |c: &Constraint| has(&given, c.dim).is_some_and(|has| c.to_string() == format!("{}={has}", c.dim));
    if wanted.iter().all(already) {
        let checked = given.check()?;
        let document = json!({
            "schema": "espalier/why-not/1", "asked": asked, "target": target.name(), "answer": "same",
            "fits": checked.fits, "slower": 0.0, "plan": checked.plan, "estimate": checked.estimate,
        });
        output.answer(&document, |_| {
            let time = report::seconds(checked.estimate.iteration_time_s);
            format!("{asked}: the plan has it already ({time} s per iteration)\n")
        })?;
        return Ok(ANSWERED);
    }
    let list = args.broken(&given, target)?;
    if !list.is_empty() {
        let document = json!({
            "schema": "espalier/why-not/1", "asked": asked, "target": target.name(), "answer": "illegal",
            "legal": false, "broken_rules": list,
        });
        output.answer(&document, |style| {
            let told = report::LaunchReport {
                target: target.name(),
                version: legal::version(target),
                refused: &list,
                later: &[],
                advice: &[],
                derived: &serde_json::Value::Null,
            };
            format!("{asked}:\n{}", report::launch(&told, style))
        })?;
        return Ok(ILLEGAL);
    }
    let checked = given.check()?;
    let mut inputs = given.inputs.clone();
    // The variant must be what is asked for; what else the question fixed stays, unless it is the same dimension.
    inputs.search.fix.retain(|old| wanted.iter().all(|new| new.dim != old.dim));
    inputs.search.forbid.retain(|old| wanted.iter().all(|new| new.dim != old.dim));
    inputs.search.fix.extend(wanted);
    inputs.search.target = Some(name);
    inputs.search.backend = Some("random".to_owned());
    inputs.search.max_evals = Some(1);
    let answer = match plan(&inputs, Watch { quick: true, ..Watch::default() }) {
        Ok(answer) => answer,
        Err(PlanError::Infeasible(why)) => {
            let document = json!({
                "schema": "espalier/why-not/1", "asked": asked, "target": target.name(), "answer": "does_not_fit",
                "legal": true, "fits": false, "infeasible": &*why,
            });
            output.answer(&document, |style| format!("{asked}:\n{}\n", report::infeasible(&why, style)))?;
            return Ok(DOES_NOT_FIT);
        }
        Err(other) => return Err(Failure::from(other)),
    };
    let place = Place::of(&given.inputs, answer.estimate.iteration_time_s)?;
    let slower = answer.estimate.iteration_time_s / checked.estimate.iteration_time_s - 1.0;
    let rows = terms(&checked.estimate, &answer.estimate);
    let document = json!({
        "schema": "espalier/why-not/1", "asked": asked, "target": target.name(),
        "answer": if slower > 0.0 { "slower" } else { "faster" },
        "legal": true, "fits": answer.fits, "slower": slower, "plan": answer.plan, "estimate": answer.estimate,
        "terms": rows, "rank": place.rank, "ranked": place.of,
    });
    output.answer(&document, |style| {
        report::versus(&asked, (&checked.estimate, &answer.estimate), &rows, (&answer, &inputs), place, style)
    })?;
    Ok(ANSWERED)
}
