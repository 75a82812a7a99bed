//! `espalier check`: price a given plan.

use super::check_launch::{self, LaunchArgs};
use super::galvatron::{self, GalvatronArgs};
use super::output::Output;
use super::{ANSWERED, DOES_NOT_FIT, Ended, ILLEGAL, input, plan_file};
use crate::error::{InputError, Kind};
use crate::export::legal;
use crate::export::view::View;
use crate::plan::Plan;
use crate::question::Question;
use crate::report;
use crate::rules::Broken;
use crate::rules::targets::Target;
use crate::space::check::{Checked, check, check_under};
use crate::space::planner::{Inputs, PlanError};
use crate::space::schedule::joint::stored;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Plan file: what `espalier plan --json` prints or `-o` writes (`-` for standard input), or Galvatron's
    #[arg(value_name = "PLAN", required_unless_present_any = ["megatron", "deepspeed", "torchtitan"])]
    file: Option<PathBuf>,
    /// Price a plan of Galvatron: the folder with its profile files
    #[arg(long, value_name = "DIR", help_heading = "Galvatron")]
    galvatron: Option<PathBuf>,
    #[command(flatten)]
    as_galvatron: GalvatronArgs,
    /// Check the rules of this framework too
    #[arg(long, value_name = "NAME", value_parser = super::values::target)]
    target: Option<String>,
    #[command(flatten)]
    launch: LaunchArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    question: &'a Question,
    #[serde(flatten)]
    checked: &'a Checked,
    legal: Option<bool>,
    broken_rules: &'a [Broken],
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    if args.launch.any() {
        if let Some(file) = &args.file {
            let error = InputError::new(Kind::Inconsistent).at("PLAN").found(file.display());
            return Err(error.expected("no plan file beside a launch").into());
        }
        return check_launch::run(&args.launch, output);
    }
    if let Some(flag) = args.launch.said() {
        let error = InputError::new(Kind::Inconsistent).at(flag);
        return Err(error
            .help("it is about a launch (--megatron, --deepspeed, --torchtitan); a plan file says it itself")
            .into());
    }
    let Some(path) = &args.file else {
        return Err(InputError::new(Kind::MissingField).at("PLAN").expected("a plan file").into());
    };
    if let Some(folder) = &args.galvatron {
        return galvatron::check_file(&args.as_galvatron, folder, path, output);
    }
    args.as_galvatron.refuse()?;
    let name = path.display().to_string();
    let text = input::text(path)?;
    if galvatron::is_plan(&text) {
        let error = InputError::new(Kind::MissingField).at("--galvatron").in_file(&name);
        return Err(error.expected("the folder with the profiles that price a plan of Galvatron").into());
    }
    let (file, inputs) = plan_file::parse(&text, path)?;
    let checked = match &file.schedule {
        Some(written) => {
            let (schedule, penalty) = stored(written).map_err(|e| e.inside("schedule").in_file(&name))?;
            check_under(&inputs, &file.plan, &schedule, penalty)
        }
        None => check(&inputs, &file.plan),
    };
    let checked = checked.map_err(|e| match e {
        PlanError::Input(e) => PlanError::Input(e.in_file(&name)),
        other => other,
    })?;
    let target = args.target.as_ref().or(inputs.search.target.as_ref());
    let broken = target.map(|target| legality(target, &inputs, &file.plan)).transpose()?;
    let document = serde_json::to_value(Document {
        schema: "espalier/check/1",
        question: &file.question,
        checked: &checked,
        legal: broken.as_ref().map(Vec::is_empty),
        broken_rules: broken.as_deref().unwrap_or_default(),
    })
    .map_err(|e| super::Failure::Internal(e.to_string()))?;
    output.answer(&document, |style| {
        let mut text = report::check(&checked, file.stated.as_ref(), &inputs, style);
        if let (Some(target), Some(broken)) = (target, &broken) {
            text.push('\n');
            text.push_str(&report::launch(
                &report::LaunchReport {
                    target,
                    version: version(target),
                    refused: broken,
                    later: &[],
                    advice: &[],
                    derived: &serde_json::Value::Null,
                },
                style,
            ));
        }
        text
    })?;
    Ok(match broken {
        Some(broken) if !broken.is_empty() => ILLEGAL,
        _ if checked.fits => ANSWERED,
        _ => DOES_NOT_FIT,
    })
}

/// The rules of `target` that a plan breaks.
pub(super) fn legality(target: &str, inputs: &Inputs, plan: &Plan) -> Result<Vec<Broken>, InputError> {
    let view = View::new(&inputs.model, &inputs.job, inputs.pool()?, plan)?;
    legal::broken(target.parse()?, &view)
}

fn version(target: &str) -> &'static str {
    target.parse::<Target>().map_or("", legal::version)
}
