//! `espalier plan`: search for a plan.

use super::check::legality;
use super::galvatron::{self, GalvatronArgs};
use super::output::{Output, say};
use super::progress::{Bar, interrupt};
use super::question::QuestionArgs;
use super::search::{SearchArgs, threads};
use super::tables::{self, tell};
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, INTERRUPTED, input, values};
use crate::accuracy::nearest::{Nearest, nearest};
use crate::accuracy::table::Row;
use crate::accuracy::{Quantity, cells};
use crate::error::{InputError, Kind};
use crate::plan::file;
use crate::question::{Question, ScheduleChoice};
use crate::report;
use crate::rules::Broken;
use crate::search::budget::Stop;
use crate::search::checkpoint::Checkpointing;
use crate::space::answer::Answer;
use crate::space::planner::{Watch, plan};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    question: QuestionArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Order of the passes: 1f1b, interleaved, or auto: plan and schedule are searched together
    /// [default: 1f1b or interleaved, whichever is better]
    #[arg(long, value_enum, value_name = "WHICH", help_heading = "Schedule")]
    schedule: Option<ScheduleName>,
    /// Share by which input and weight gradients apart take longer than both in one, e.g. 3%
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true, value_parser = values::fraction, help_heading = "Schedule")]
    split_penalty: Option<f64>,
    /// Most schedules to evaluate per plan that is looked at
    #[arg(long, value_name = "N", value_parser = values::evaluations, help_heading = "Schedule")]
    schedule_evals: Option<u64>,
    /// Plan in Galvatron's terms: a folder with its profile files, and its arguments in case.json or by --set
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Galvatron",
        conflicts_with_all = ["QuestionArgs", "top", "fix", "forbid", "checkpoint", "resume", "schedule", "split_penalty", "schedule_evals"]
    )]
    galvatron: Option<PathBuf>,
    #[command(flatten)]
    as_galvatron: GalvatronArgs,
    /// Write the plan file here; `espalier check` reads it
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print the nearest measured run beside the plan, with its price: `published` (measured/runs.csv in the folder that
    /// ESPALIER_REFERENCE names), or a table of runs with its columns
    #[arg(long, value_name = "published|CSV", conflicts_with = "galvatron")]
    against: Option<String>,
    /// Keep what the search has paid for in this file, so that it can go on with --resume
    #[arg(long, value_name = "PATH")]
    checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint, if it is there
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

/// What `--schedule` takes.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ScheduleName {
    /// One chunk per stage
    #[value(name = "1f1b")]
    OneF1B,
    /// Several chunks per stage
    Interleaved,
    /// Searched together with the plan
    Auto,
}

/// Time between two saves of a search; it also saves itself when it stops.
const SAVES: Duration = Duration::from_secs(10);

impl From<ScheduleName> for ScheduleChoice {
    fn from(name: ScheduleName) -> Self {
        match name {
            ScheduleName::OneF1B => Self::OneF1B,
            ScheduleName::Interleaved => Self::Interleaved,
            ScheduleName::Auto => Self::Auto,
        }
    }
}

/// What `--json` prints and a plan file holds.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    question: &'a Question,
    #[serde(flatten)]
    answer: &'a Answer,
    legal: Option<bool>,
    broken_rules: &'a [Broken],
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<&'a Nearest>,
}

/// The rows of a table of measured runs, by name or path; unreadable ones are told.
fn measured(name: &str, output: &Output) -> Result<Vec<Row>, InputError> {
    let given = Some(Path::new(name)).filter(|_| name != "published");
    let path = input::published(given, "runs.csv").map_err(|e| e.at("--against"))?;
    let rows = tables::runs(&path, Quantity::Time)?;
    tell(&path, &cells::unreadable(&rows), output);
    Ok(rows)
}

/// Runs it.
pub(super) fn run(args: Args, output: &Output) -> Ended {
    if let Some(folder) = &args.galvatron {
        return galvatron::plan(&args.as_galvatron, folder, &args.search, args.output.as_deref(), output);
    }
    args.as_galvatron.refuse()?;
    let mut question = args.question.question()?;
    args.search.change(&mut question.search);
    let options = &mut question.search;
    options.schedule = args.schedule.map(ScheduleChoice::from).or(options.schedule);
    options.split_penalty = args.split_penalty.unwrap_or(options.split_penalty);
    options.schedule_evals = args.schedule_evals.or(options.schedule_evals);
    let inputs = args.question.inputs(&question)?;
    let question = file::self_contained(&question)?;
    let taken = |path: &PathBuf, by: &str| InputError::new(Kind::Inconsistent).in_file(path.display()).help(by);
    if let Some(path) = &args.checkpoint {
        file::can_save(path)?;
    }
    if let Some(path) = &args.output {
        let inputs: Vec<&Path> = args.question.file.as_deref().into_iter().collect();
        may_write(path, Written::Plan, &inputs)?;
    }
    let measured = args.against.as_deref().map(|name| measured(name, output)).transpose()?;
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
    let against = match &measured {
        Some(rows) => nearest(rows, (&inputs.model, &inputs.job, inputs.pool()?)),
        None => None,
    };
    let document = serde_json::to_value(Document {
        schema: file::SCHEMA,
        question: &question,
        answer: &answer,
        legal: broken.as_ref().map(Vec::is_empty),
        broken_rules: broken.as_deref().unwrap_or_default(),
        against: against.as_ref(),
    })
    .map_err(|e| super::Failure::Internal(e.to_string()))?;
    // A file that cannot be written does not take the answer with it.
    let saved = args.output.as_ref().map_or(Ok(()), |path| file::save(path, &document));
    output.answer(&document, |style| {
        let mut text = report::plan(&answer, &inputs, style);
        if measured.is_some() {
            text.push_str(&report::against(&answer, against.as_ref(), style));
        }
        text
    })?;
    saved?;
    if let Some(path) = args.output.filter(|_| !output.json) {
        say(&format!("plan written to {}", path.display()));
    }
    Ok(if answer.search.stop_reason == Stop::Interrupted { INTERRUPTED } else { ANSWERED })
}
