//! `espalier diff`: where the time and the memory of two plans differ.

use super::given::{GivenArgs, load};
use super::output::Output;
use super::{ANSWERED, Ended, Failure};
use crate::report;
use crate::space::why_not::terms;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A plan, a launch script of Megatron-LM, flags of torchtitan, or a configuration of DeepSpeed
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    second: PathBuf,
    #[command(flatten)]
    given: GivenArgs,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let (a, b) = (load(&args.first, &args.given)?, load(&args.second, &args.given)?);
    let first = a.check().map_err(|e| Failure::from(e).of_file(&args.first))?;
    let second = b.check().map_err(|e| Failure::from(e).of_file(&args.second))?;
    let rows = terms(&first.estimate, &second.estimate);
    let mut notes: Vec<String> = a.notes.into_iter().chain(b.notes).collect();
    let same =
        a.question.job == b.question.job && a.inputs.model.parameters_total() == b.inputs.model.parameters_total();
    if !same {
        notes.push("the plans answer different questions: jobs or models differ".to_owned());
    }
    let document = json!({
        "schema": "espalier/diff/1",
        "first": { "plan": first.plan, "estimate": first.estimate, "fits": first.fits },
        "second": { "plan": second.plan, "estimate": second.estimate, "fits": second.fits },
        "slower": second.estimate.iteration_time_s / first.estimate.iteration_time_s - 1.0,
        "terms": rows,
        "notes": notes,
    });
    output.answer(&document, |style| {
        let mut text = report::sides((&first.estimate, &second.estimate), &rows, style);
        let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
        text.push_str(&report::remarks(&notes, style));
        text
    })?;
    Ok(ANSWERED)
}
