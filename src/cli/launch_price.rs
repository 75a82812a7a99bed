//! What a launch costs, what would make it fit or faster, and the best plan for the same question.

use super::Failure;
use super::check_launch::LaunchArgs;
use super::question::inputs as resolve;
use crate::cost::{CostOptions, Software};
use crate::error::InputError;
use crate::estimate::host::Duties;
use crate::import::even::Meant;
use crate::import::megatron as import_megatron;
use crate::model::Model;
use crate::plan::file::self_contained;
use crate::plan::{Plan, Spine};
use crate::question::{ClusterSource, ModelSource, Question, SearchOptions};
use crate::rules::megatron::Launch;
use crate::space::check::{Checked, check};
use crate::space::host::{HostMemory, host};
use crate::space::planner::{Inputs, Watch, plan};
use crate::space::remedies::{Remedy, remedies};
use std::path::{Path, PathBuf};

/// Machines of the device that a compute capability means.
fn machines(arch: u64, world: u64) -> String {
    let name = match arch {
        0..=7 => "v100",
        8 => "a100",
        9 => "h100",
        _ => "b200",
    };
    let node = (1..=8).rev().find(|n| world.is_multiple_of(*n)).unwrap_or(1);
    let nodes = world / node;
    if nodes == 1 { format!("{name}x{node}") } else { format!("{name}x{node}:{nodes}") }
}

/// The question that a launch answers.
pub(super) fn question(args: &LaunchArgs, launch: &Launch) -> Result<(Question, Vec<String>), InputError> {
    let (mut job, mut notes) = import_megatron::job(launch)?;
    let model = match &args.model {
        Some(name) => name.as_str().into(),
        None => {
            let (config, remarks) = import_megatron::model_config(launch)?;
            notes.extend(remarks);
            ModelSource::Inline { config, treat_as: None }
        }
    };
    let cluster = match &args.cluster {
        Some(name) => name.as_str().into(),
        None => ClusterSource::Shorthand(machines(launch.arch.unwrap_or(9), launch.world.unwrap_or(1))),
    };
    if matches!(model, ModelSource::Preset(_) | ModelSource::Path { .. }) && !job.mtp {
        job.mtp = false;
    }
    let search = SearchOptions { target: Some("megatron".to_owned()), ..SearchOptions::default() };
    Ok((Question { model, cluster, job, search, folder: PathBuf::new() }, notes))
}

/// What a launch costs, and what would be better.
pub(super) struct Priced {
    pub question: Question,
    pub inputs: Inputs,
    pub checked: Checked,
    pub better: Option<Better>,
    pub host: HostMemory,
    pub changes: Vec<Remedy>,
    pub notes: Vec<String>,
}

/// The best plan for the same question and target.
pub(super) struct Better {
    pub answer: crate::space::answer::Answer,
    pub faster: f64,
}

/// Prices a launch.
pub(super) fn price(args: &LaunchArgs, launch: &Launch) -> Result<Priced, Failure> {
    let (question, mut notes) = question(args, launch)?;
    let (software, remarks) = import_megatron::software(launch)?;
    notes.extend(remarks);
    let mut inputs = with_host(args, resolve(&question, cost(software))?);
    if args.model.is_none() {
        inputs.model.name = "the model of the arguments".to_owned();
    } else {
        notes.extend(differences(&inputs, launch));
    }
    let spine = Spine::new(&inputs.model, &inputs.job);
    let imported = import_megatron::plan(launch, &spine)?;
    notes.extend(imported.notes);
    priced(&question, inputs, &imported.plan, &import_megatron::duties(launch)?, notes)
}

/// The usual prices under conventions.
pub(super) fn cost(software: Software) -> CostOptions {
    CostOptions { software, ..CostOptions::default() }
}

/// The machines with the host memory of the arguments.
fn with_host(args: &LaunchArgs, mut inputs: Inputs) -> Inputs {
    if let (Some(memory), Some(pool)) = (args.host_memory, inputs.cluster.pools.first_mut()) {
        pool.host_memory = Some(memory);
    }
    inputs
}

/// The plan of a launch, priced, and what would be better for the same question.
fn priced(
    question: &Question,
    inputs: Inputs,
    plan: &Plan,
    duties: &Duties,
    notes: Vec<String>,
) -> Result<Priced, Failure> {
    let mut checked = check(&inputs, plan)?;
    let host = host(&mut checked, duties, &inputs)?;
    let changes = remedies(&inputs, &checked, duties);
    Ok(Priced {
        host,
        changes,
        question: self_contained(question)?,
        better: better(&inputs, &checked),
        inputs,
        checked,
        notes,
    })
}

/// The question of a launch that names degrees only, with what it means.
pub(super) fn meant(
    args: &LaunchArgs,
    model: &str,
    target: &str,
    meaning: impl FnOnce(&Model) -> Result<Meant, InputError>,
) -> Result<(Question, Inputs, Meant), InputError> {
    let model = ModelSource::from(model);
    let meant = meaning(&model.resolve(Path::new(""))?)?;
    let cluster = match &args.cluster {
        Some(name) => name.as_str().into(),
        None => ClusterSource::Shorthand(machines(args.arch.unwrap_or(9), meant.plan.devices)),
    };
    let search = SearchOptions { target: Some(target.to_owned()), ..SearchOptions::default() };
    let question = Question { model, cluster, job: meant.job.clone(), search, folder: PathBuf::new() };
    let inputs = with_host(args, resolve(&question, cost(meant.software))?);
    Ok((question, inputs, meant))
}

/// Such a launch, priced with the model and the machines of the arguments; `None` when no model is given.
pub(super) fn price_meant(
    args: &LaunchArgs,
    target: &str,
    meaning: impl FnOnce(&Model) -> Result<Meant, InputError>,
) -> Result<Option<Priced>, Failure> {
    let Some(model) = &args.model else { return Ok(None) };
    let (question, inputs, Meant { plan, duties, notes, .. }) = meant(args, model, target, meaning)?;
    priced(&question, inputs, &plan, &duties, notes).map(Some)
}

/// Where the sizes of the arguments are not those of the model.
fn differences(inputs: &Inputs, launch: &Launch) -> Vec<String> {
    let sizes = crate::export::megatron::Sizes::of(&inputs.model);
    let number = |n: crate::rules::Known<Option<i64>>| n.ok().flatten().and_then(|n| u64::try_from(n).ok());
    [
        ("--hidden-size", number(launch.hidden_size()), sizes.hidden),
        ("--num-attention-heads", number(launch.heads()), sizes.heads),
        ("--ffn-hidden-size", number(launch.given_ffn()), sizes.ffn),
        ("--num-experts", number(launch.given_experts()), sizes.experts.map_or(0, |e| e.0)),
    ]
    .into_iter()
    .filter_map(|(flag, said, is)| said.filter(|n| *n != is).map(|n| format!("{flag} {n} is not the model's {is}")))
    .collect()
}

/// The best plan for the same target that a short search finds.
fn better(inputs: &Inputs, checked: &Checked) -> Option<Better> {
    let mut inputs = inputs.clone();
    inputs.search.backend = Some("random".to_owned());
    inputs.search.max_evals = Some(1);
    let answer = plan(&inputs, Watch { quick: true, ..Watch::default() }).ok()?;
    let faster = checked.estimate.iteration_time_s / answer.estimate.iteration_time_s - 1.0;
    (!checked.fits || faster > crate::space::answer::NEAR_TIE).then_some(Better { answer, faster })
}
