//! A plan that somebody has: a plan file, or what runs today of Megatron-LM, DeepSpeed or torchtitan.

use super::check_launch::{LaunchArgs, torchtitan_launch};
use super::kinds::FileKind;
use super::launch_price::{cost, meant, question};
use super::question::inputs as resolve;
use super::{Failure, input, plan_file, values};
use crate::cluster::instances;
use crate::error::{InputError, Kind};
use crate::estimate::host::Duties;
use crate::import::even::Meant;
use crate::import::{self, megatron, shell};
use crate::pipeline::Schedule;
use crate::plan::{Plan, Spine};
use crate::question::Question;
use crate::rules::deepspeed;
use crate::space::check::{Checked, check, check_under};
use crate::space::host::host;
use crate::space::planner::{Inputs, PlanError};
use crate::space::schedule::joint::stored;
use std::path::Path;

/// A plan with its question.
pub(super) struct Given {
    pub question: Question,
    pub inputs: Inputs,
    pub plan: Plan,
    /// The schedule of a plan file, and what split gradients cost.
    pub schedule: Option<(Schedule, f64)>,
    /// What a launch gives its hosts to hold.
    pub duties: Duties,
    pub notes: Vec<String>,
}

impl Given {
    /// Its price, under its schedule if it has one.
    pub fn check(&self) -> Result<Checked, PlanError> {
        let mut checked = match &self.schedule {
            Some((schedule, penalty)) => check_under(&self.inputs, &self.plan, schedule, *penalty),
            None => check(&self.inputs, &self.plan),
        }?;
        host(&mut checked, &self.duties, &self.inputs)?;
        Ok(checked)
    }
}

/// Where a launch runs and what it trains, where it does not say so itself.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Launches")]
pub(super) struct GivenArgs {
    /// Ranks in all, unless the script says
    #[arg(long, value_name = "N", value_parser = values::devices)]
    pub world: Option<u64>,
    /// The model, unless the arguments say it
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// Where it runs, unless the script says
    #[arg(long, value_name = "MACHINES|PATH")]
    pub cluster: Option<String>,
    /// Tokens of a sequence, unless the launch says
    #[arg(long = "seq", value_name = "N", value_parser = values::tokens)]
    pub sequence: Option<u64>,
}

impl GivenArgs {
    fn launch(&self) -> LaunchArgs {
        let Self { world, model, cluster, sequence } = self.clone();
        LaunchArgs { world, model, cluster, sequence, ..LaunchArgs::default() }
    }

    /// A flag for launches beside a plan file is refused.
    fn refuse(&self, name: &str) -> Result<(), InputError> {
        let given = [
            ("--world", self.world.is_some()),
            ("--model", self.model.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--seq", self.sequence.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let error = InputError::new(Kind::Inconsistent).at(flag).in_file(name);
                Err(error.help("a plan file says it itself; the flag is for launches"))
            }
            None => Ok(()),
        }
    }
}

/// What a file that is none of these should have been.
const WANTED: &str =
    "a plan file, a launch script of Megatron-LM, flags of torchtitan, or a configuration of DeepSpeed";

/// Reads the file at `path`.
pub(super) fn load(path: &Path, args: &GivenArgs) -> Result<Given, Failure> {
    let text = input::text(path)?;
    let name = path.display().to_string();
    let named = |e: InputError| Failure::from(e.in_file(&name));
    if text.trim().is_empty() {
        return Err(named(InputError::new(Kind::Syntax).found("an empty file").expected(WANTED)));
    }
    match FileKind::of(&text) {
        Some(FileKind::Deepspeed) => of_deepspeed(&text, args).map_err(named),
        Some(FileKind::Plan) => {
            args.refuse(&name)?;
            let (file, inputs) = plan_file::parse(&text, path)?;
            let schedule = file.schedule.as_ref().map(stored).transpose();
            let schedule = schedule.map_err(|e| named(e.inside("schedule")))?;
            let duties = Duties::default();
            Ok(Given { question: file.question, inputs, plan: file.plan, schedule, duties, notes: Vec::new() })
        }
        Some(other) => Err(other.instead_of(WANTED, &name).into()),
        None if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') => {
            // It names no kind, so that it lacks at least the schema of a plan.
            let lacks = InputError::new(Kind::MissingField).at("schema").expected(crate::plan::file::SCHEMA);
            Err(plan_file::parse(&text, path).err().map_or_else(|| named(lacks), Failure::from))
        }
        None if is_torchtitan(&text) => of_torchtitan(&text, args).map_err(named),
        None => script(&text, args).map_err(named),
    }
}

/// Whether a text holds flags of torchtitan: they stand in sections.
fn is_torchtitan(text: &str) -> bool {
    let script =
        || shell::Script::parse(text).is_ok_and(|s| s.commands.iter().flatten().any(|w| w.contains("torchtitan")));
    text.contains("--parallelism.") || text.contains("--training.") || script()
}

/// A launch that names degrees only.
fn of_degrees(
    args: &GivenArgs,
    target: &str,
    meaning: impl FnOnce(&crate::model::Model) -> Result<Meant, InputError>,
) -> Result<Given, InputError> {
    let missing = || InputError::new(Kind::MissingField).at("--model").expected("the model that is trained");
    let model = args.model.as_deref().ok_or_else(missing)?;
    let (question, inputs, Meant { plan, duties, notes, .. }) = meant(&args.launch(), model, target, meaning)?;
    Ok(Given { question, inputs, plan, schedule: None, duties, notes })
}

fn of_deepspeed(text: &str, args: &GivenArgs) -> Result<Given, InputError> {
    let config = deepspeed::Config::parse(text, args.world)?;
    let missing = || InputError::new(Kind::MissingField).at("--seq").expected("tokens of a sequence");
    let sequence = args.sequence.ok_or_else(missing)?;
    of_degrees(args, "deepspeed", |model| import::deepspeed::meant(&config, model, sequence))
}

fn of_torchtitan(text: &str, args: &GivenArgs) -> Result<Given, InputError> {
    let launch = torchtitan_launch(text, args.world, args.model.as_deref())?;
    of_degrees(args, "torchtitan", |model| import::torchtitan::meant(&launch, model, args.sequence))
}

fn script(text: &str, args: &GivenArgs) -> Result<Given, InputError> {
    if args.sequence.is_some() {
        return Err(InputError::new(Kind::Inconsistent).at("--seq").expected("no such flag: --seq-length says it"));
    }
    let read = megatron::Text::read(text)?;
    let mut launch = read.launch(args.world)?;
    let named = read.machines.and_then(|name| machines(&name, launch.world.unwrap_or(1)));
    let args =
        LaunchArgs { model: args.model.clone(), cluster: args.cluster.clone().or(named), ..LaunchArgs::default() };
    launch.arch = Ok(9);
    let (question, mut notes) = question(&args, &launch)?;
    let (software, remarks) = megatron::software(&launch)?;
    notes.extend(remarks);
    let mut inputs = resolve(&question, cost(software))?;
    if args.model.is_none() {
        inputs.model.name = "the model of the arguments".to_owned();
    }
    let imported = megatron::plan(&launch, &Spine::new(&inputs.model, &inputs.job))?;
    notes.extend(imported.notes);
    let duties = megatron::duties(&launch)?;
    Ok(Given { question, inputs, plan: imported.plan, schedule: None, duties, notes })
}

/// As many of the machines called `name` as `world` devices need; `None` where that is no built-in name.
fn machines(name: &str, world: u64) -> Option<String> {
    let devices = |text: &str| instances::cluster(text).ok()?.pools.first().map(|p| p.devices);
    let unit = devices(name)?;
    if unit == world {
        return Some(name.to_owned());
    }
    let several = format!("{name}:{}", world / unit.max(1));
    (devices(&several)? == world).then_some(several)
}
