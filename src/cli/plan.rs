//! `espalier plan`: search for a plan.

use super::check::legality;
use super::galvatron::{self, GalvatronArgs};
use super::output::{Output, say};
use super::progress::{Bar, interrupt};
use super::question::QuestionArgs;
use super::search::{SearchArgs, threads};
use super::{ANSWERED, Ended, INTERRUPTED};
use crate::error::{InputError, Kind};
use crate::plan::file;
use crate::question::Question;
use crate::report;
use crate::rules::Broken;
use crate::search::budget::Stop;
use crate::search::checkpoint::Checkpointing;
use crate::space::answer::Answer;
use crate::space::planner::{Watch, plan};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    question: QuestionArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Plan in Galvatron's terms: a folder with its profile files, and its arguments in case.json or by --set
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Galvatron",
        conflicts_with_all = ["QuestionArgs", "top", "fix", "forbid", "checkpoint", "resume"]
    )]
    galvatron: Option<PathBuf>,
    #[command(flatten)]
    as_galvatron: GalvatronArgs,
    /// Write the plan file here; `espalier check` reads it
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Keep what the search has paid for in this file, so that it can go on with --resume
    #[arg(long, value_name = "PATH")]
    checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint, if it is there
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

/// Time between two saves of a search; it also saves itself when it stops.
const SAVES: Duration = Duration::from_secs(10);

/// What `--json` prints and a plan file holds.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    question: &'a Question,
    #[serde(flatten)]
    answer: &'a Answer,
    legal: Option<bool>,
    broken_rules: &'a [Broken],
}

/// Runs it.
pub(super) fn run(args: Args, output: &Output) -> Ended {
    if let Some(folder) = &args.galvatron {
        return galvatron::plan(&args.as_galvatron, folder, &args.search, args.output.as_deref(), output);
    }
    let mut question = args.question.question()?;
    args.search.change(&mut question.search);
    let inputs = args.question.inputs(&question)?;
    let question = file::self_contained(&question)?;
    for path in args.output.iter().chain(&args.checkpoint) {
        file::can_save(path)?;
    }
    let taken = |path: &PathBuf, by: &str| InputError::new(Kind::Inconsistent).in_file(path.display()).help(by);
    if let Some(path) = args.output.as_ref().filter(|path| args.question.reads(path)) {
        return Err(taken(path, "it is the question; write the plan elsewhere").into());
    }
    let checkpoint = args.checkpoint.map(|path| Checkpointing { path, every: SAVES, resume: args.resume });
    if let Some(checkpoint) = &checkpoint {
        let path = &checkpoint.path;
        checkpoint.check().map_err(|why| InputError::new(Kind::Unwritable).in_file(path.display()).help(why))?;
        if args.output.as_ref().is_some_and(|output| output == path) {
            return Err(taken(path, "plan and checkpoint need a file each").into());
        }
    }
    threads(&inputs.search)?;
    let mut bar = Bar::new("pricing uniform plans");
    let watch = Watch { interrupt: interrupt(), observer: Some(&mut bar), quick: false, checkpoint };
    let answer = plan(&inputs, watch)?;
    drop(bar);
    let target = inputs.search.target.as_ref();
    let broken = target.map(|target| legality(target, &inputs, &answer.plan)).transpose()?;
    let document = serde_json::to_value(Document {
        schema: file::SCHEMA,
        question: &question,
        answer: &answer,
        legal: broken.as_ref().map(Vec::is_empty),
        broken_rules: broken.as_deref().unwrap_or_default(),
    })
    .map_err(|e| super::Failure::Internal(e.to_string()))?;
    // A file that cannot be written does not take the answer with it.
    let saved = args.output.as_ref().map_or(Ok(()), |path| file::save(path, &document));
    output.answer(&document, |style| report::plan(&answer, &inputs, style))?;
    saved?;
    if let Some(path) = args.output.filter(|_| !output.json) {
        say(&format!("plan written to {}", path.display()));
    }
    Ok(if answer.search.stop_reason == Stop::Interrupted { INTERRUPTED } else { ANSWERED })
}
