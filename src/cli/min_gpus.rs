//! `espalier min-gpus`: how many devices it takes.

use super::output::Output;
use super::progress::{Bar, interrupt};
use super::question::QuestionArgs;
use super::search::{SearchArgs, threads};
use super::{ANSWERED, Ended, INTERRUPTED, values};
use crate::plan::file;
use crate::question::Question;
use crate::report;
use crate::space::min_gpus::{MinGpus, Observed, min_gpus};
use serde::Serialize;

/// Devices up to which is looked if nobody says, or as many as the cluster has: the largest published runs have that many
/// (Llama 3.1, table 4: 16,384; 2024).
const USUAL_MOST: u64 = 16_384;

/// Arguments of `min-gpus`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    question: QuestionArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Most devices to consider [default: 16384, or what the cluster has]
    #[arg(long, value_name = "N", value_parser = values::devices)]
    max_devices: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    question: &'a Question,
    #[serde(flatten)]
    found: &'a MinGpus,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let mut question = args.question.question()?;
    args.search.change(&mut question.search);
    let inputs = args.question.inputs(&question)?;
    let question = file::self_contained(&question)?;
    threads(&inputs.search)?;
    let most = args.max_devices.unwrap_or(USUAL_MOST.max(inputs.cluster.devices()));
    let bar = Bar::new("looking for the smallest number of devices");
    let mut tell = |devices: u64| bar.say(format!("planning on {devices} devices"));
    let found = min_gpus(&inputs, most, Observed { interrupt: interrupt(), tell: &mut tell })?;
    drop(bar);
    let document = Document { schema: "espalier/min-gpus/1", question: &question, found: &found };
    let document = serde_json::to_value(document).map_err(|e| super::Failure::Internal(e.to_string()))?;
    output.answer(&document, |style| report::min_gpus(&found, &inputs, style))?;
    Ok(if found.interrupted { INTERRUPTED } else { ANSWERED })
}
