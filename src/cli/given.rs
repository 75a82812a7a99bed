//! A plan that somebody has: a plan file, or the launch script of Megatron-LM that runs today.

use super::check_launch::LaunchArgs;
use super::launch_price::question;
use super::question::inputs as resolve;
use super::{input, plan_file, values};
use crate::cluster::instances;
use crate::cost::CostOptions;
use crate::error::{InputError, Kind};
use crate::import::megatron as import;
use crate::pipeline::Schedule;
use crate::plan::{Plan, Spine};
use crate::question::Question;
use crate::space::check::{Checked, check, check_under};
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
    pub notes: Vec<String>,
}

impl Given {
    /// Its price, under its schedule if it has one.
    pub fn check(&self) -> Result<Checked, PlanError> {
        match &self.schedule {
            Some((schedule, penalty)) => check_under(&self.inputs, &self.plan, schedule, *penalty),
            None => check(&self.inputs, &self.plan),
        }
    }
}

/// Where a launch script runs and what it trains, where it does not say so itself.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Launch scripts")]
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
}

/// Reads the file at `path`.
pub(super) fn load(path: &Path, args: &GivenArgs) -> Result<Given, InputError> {
    let text = input::text(path)?;
    let name = path.display().to_string();
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        for (flag, given) in [
            ("--world", args.world.is_some()),
            ("--model", args.model.is_some()),
            ("--cluster", args.cluster.is_some()),
        ] {
            if given {
                let error = InputError::new(Kind::Inconsistent).at(flag).in_file(&name);
                return Err(error.help("a plan file says it itself; the flag is for launch scripts"));
            }
        }
        let (file, inputs) = plan_file::parse(&text, path)?;
        let schedule = file.schedule.as_ref().map(stored).transpose();
        let schedule = schedule.map_err(|e| e.inside("schedule").in_file(&name))?;
        return Ok(Given { question: file.question, inputs, plan: file.plan, schedule, notes: Vec::new() });
    }
    let given = script(&text, args).map_err(|e| e.in_file(&name))?;
    Ok(given)
}

fn script(text: &str, args: &GivenArgs) -> Result<Given, InputError> {
    if text.trim().is_empty() {
        let error = InputError::new(Kind::Syntax).found("an empty file");
        return Err(error.expected("a plan file, or a launch script of Megatron-LM"));
    }
    let read = import::Text::read(text)?;
    let mut launch = read.launch(args.world)?;
    let named = read.machines.and_then(|name| machines(&name, launch.world.unwrap_or(1)));
    let args =
        LaunchArgs { model: args.model.clone(), cluster: args.cluster.clone().or(named), ..LaunchArgs::default() };
    launch.arch = Ok(9);
    let (question, mut notes) = question(&args, &launch)?;
    let mut inputs = resolve(&question, CostOptions::default())?;
    if args.model.is_none() {
        inputs.model.name = "the model of the arguments".to_owned();
    }
    let imported = import::plan(&launch, &Spine::new(&inputs.model, &inputs.job))?;
    notes.extend(imported.notes);
    Ok(Given { question, inputs, plan: imported.plan, schedule: None, notes })
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
