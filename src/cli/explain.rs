//! `espalier explain`: why a plan costs what it costs, and which constants that hangs on.

use super::output::Output;
use super::{ANSWERED, Ended, plan_file};
use crate::estimate::Estimator;
use crate::estimate::numbers::{World, weigh};
use crate::plan::Spine;
use crate::report;
use crate::space::check::{check, check_under};
use crate::space::explain::reasons;
use crate::space::planner::PlanError;
use crate::space::schedule::joint::stored;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Plan file: what `espalier plan --json` prints or `-o` writes (`-` for standard input)
    #[arg(value_name = "PLAN")]
    file: PathBuf,
    /// List every constant that carried the answer: value, unit, source, date, and how much of the answer hangs on it
    #[arg(long)]
    numbers: bool,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let (file, inputs) = plan_file::read(&args.file)?;
    let name = args.file.display().to_string();
    let schedule = file.schedule.as_ref().map(stored).transpose().map_err(|e| e.inside("schedule").in_file(&name))?;
    let checked = match &schedule {
        Some((schedule, penalty)) => check_under(&inputs, &file.plan, schedule, *penalty),
        None => check(&inputs, &file.plan),
    };
    let checked = checked.map_err(|e| match e {
        PlanError::Input(e) => PlanError::Input(e.in_file(&name)),
        other => other,
    })?;
    let spine = Spine::new(&inputs.model, &inputs.job);
    let world = World { pool: inputs.pool()?.clone(), cost: inputs.cost };
    let constants = weigh(&world, |world: &World| {
        let estimator = Estimator::new(&inputs.model, &spine, &world.pool, &inputs.job, world.cost);
        match &schedule {
            Some((schedule, penalty)) => estimator.estimate_under(&file.plan, schedule, *penalty),
            None => estimator.estimate(&file.plan),
        }
    })
    .map_err(PlanError::from)?;
    let estimate = &checked.estimate;
    let software = &inputs.cost.software;
    let mut document = json!({
        "schema": "espalier/explain/1",
        "estimate": estimate,
        "fits": checked.fits,
        "numbers": constants,
        "interval_ratios": { "time": software.time_spread, "memory": software.memory_spread },
    });
    if args.numbers {
        output.answer(&document, |style| report::numbers(&constants, &inputs, estimate, style))?;
        return Ok(ANSWERED);
    }
    let why = inputs.with_space(|space| reasons(&inputs, &space, &file.plan, estimate))?;
    document["reasons"] = json!(why);
    output.answer(&document, |style| {
        let mut text = report::check(&checked, file.stated.as_ref(), &inputs, style);
        text.push_str(&report::explain(&why, &constants, style));
        text
    })?;
    Ok(ANSWERED)
}
