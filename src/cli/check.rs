//! `espalier check`: price a given plan.

use super::galvatron::{self, GalvatronArgs};
use super::output::Output;
use super::{ANSWERED, DOES_NOT_FIT, Ended, input, plan_file};
use crate::error::{InputError, Kind};
use crate::question::Question;
use crate::report;
use crate::space::check::{Checked, check, check_under};
use crate::space::planner::PlanError;
use crate::space::schedule::joint::stored;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Plan file: what `espalier plan --json` prints or `-o` writes (`-` for standard input), or Galvatron's
    #[arg(value_name = "PLAN")]
    file: PathBuf,
    /// Price a plan of Galvatron: the folder with its profile files
    #[arg(long, value_name = "DIR", help_heading = "Galvatron")]
    galvatron: Option<PathBuf>,
    #[command(flatten)]
    as_galvatron: GalvatronArgs,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    question: &'a Question,
    #[serde(flatten)]
    checked: &'a Checked,
    legal: Option<bool>,
    broken_rules: [(); 0],
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    if let Some(folder) = &args.galvatron {
        return galvatron::check_file(&args.as_galvatron, folder, &args.file, output);
    }
    let name = args.file.display().to_string();
    let text = input::text(&args.file)?;
    if galvatron::is_plan(&text) {
        let error = InputError::new(Kind::MissingField).at("--galvatron").in_file(&name);
        return Err(error.expected("the folder with the profiles that price a plan of Galvatron").into());
    }
    let (file, inputs) = plan_file::parse(&text, &args.file)?;
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
    let document = serde_json::to_value(Document {
        schema: "espalier/check/1",
        question: &file.question,
        checked: &checked,
        legal: None,
        broken_rules: [],
    })
    .map_err(|e| super::Failure::Internal(e.to_string()))?;
    output.answer(&document, |style| report::check(&checked, file.stated.as_ref(), &inputs, style))?;
    Ok(if checked.fits { ANSWERED } else { DOES_NOT_FIT })
}
