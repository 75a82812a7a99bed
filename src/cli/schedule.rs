//! `espalier schedule`: search for a pipeline schedule, or judge a given one.

use super::failure::Failure;
use super::output::{Output, say};
use super::progress::{Bar, interrupt};
use super::{ANSWERED, DOES_NOT_FIT, Ended, INTERRUPTED, input, values};
use crate::error::{InputError, Kind};
use crate::pipeline::dsl::{self, Script};
use crate::pipeline::export::torch_csv;
use crate::pipeline::{PipelineError, Schedule, validate};
use crate::plan::file;
use crate::report;
use crate::search::budget::Stop;
use crate::space::schedule::file::{ScheduleFile, document};
use crate::space::schedule::judge::{Judged, judge, judge_given};
use crate::space::schedule::solve::{BACKENDS, ScheduleError};
use crate::space::schedule::{Backwards, Objective, Placements, ScheduleOptions, ScheduleQuestion, solve};
use crate::units::Seconds;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `schedule`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Devices of the pipeline
    #[arg(long, value_name = "N")]
    devices: Option<usize>,
    /// Micro-batches of a training step
    #[arg(long, value_name = "N")]
    micro_batches: Option<usize>,
    /// Times of forward, input gradient and weight gradient of one device for one micro-batch, in any unit
    #[arg(long, value_name = "F:B:W", value_parser = times)]
    times: Option<Times>,
    /// Latency of a hop between devices, in the same unit
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    comm: Option<f64>,
    /// Most activations of a device: of all its layers for one micro-batch, held at once until W [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    memory: Option<f64>,
    /// Chunks of a device [default: 1, 2 and 4 in a loop, 2 in a V]
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Map from stages to devices
    #[arg(long, value_enum, value_name = "MAP")]
    placement: Option<PlacementName>,
    /// Whether input and weight gradients are passes of their own
    #[arg(long, value_enum, value_name = "KIND")]
    backward: Option<BackwardName>,
    /// Share by which input and weight gradients apart take longer than both in one, e.g. 3%
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction)]
    split_penalty: Option<f64>,
    /// What is to be short: `span` is the longest time of one device, for an optimizer that waits for nobody
    #[arg(long, value_enum, value_name = "WHAT")]
    objective: Option<ObjectiveName>,
    /// Judge the schedule of a program in the schedule language
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "file"])]
    dsl: Option<PathBuf>,
    /// Judge the schedule of a torch compute_only CSV
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    csv: Option<PathBuf>,
    /// Judge the schedule of a schedule file, under the times written there unless others are given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write the schedule file here; `espalier export` reads it
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Search algorithm: auto, genetic (policies), mcts (orders), climb (orders, by walks), random (policies)
    #[arg(long, value_name = "NAME", value_parser = backend, help_heading = "Search")]
    backend: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    seed: u64,
    /// Most distinct solutions to evaluate
    #[arg(long, value_name = "N", value_parser = values::evaluations, help_heading = "Search")]
    max_evals: Option<u64>,
    /// Most time, e.g. 10s; the answer then depends on the machine's speed
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "Search")]
    max_time: Option<Seconds>,
    /// Stop when the schedule is proven to be this close to the best, e.g. 1%
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction, help_heading = "Search")]
    target_gap: Option<f64>,
    /// Do not start from known schedules
    #[arg(long, help_heading = "Search")]
    from_scratch: bool,
    /// Threads; never changes the answer of a search without --max-time
    #[arg(long, value_name = "N", value_parser = values::threads, help_heading = "Search")]
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlacementName {
    /// Stage x on device x mod p
    Loop,
    /// Down and up alternately
    V,
    /// Both
    Any,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BackwardName {
    /// B and W apart
    Split,
    /// Both in one pass
    Fused,
    /// Both kinds
    Any,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ObjectiveName {
    /// From the first start to the last end
    Makespan,
    /// The longest time of one device
    Span,
}

/// F, B and W.
#[derive(Debug, Clone, Copy)]
struct Times([f64; 3]);

fn times(text: &str) -> Result<Times, InputError> {
    let refuse = |found: &str| {
        let error = InputError::new(Kind::InvalidValue).found(found);
        Err(error.expected("three times such as `1:1.2:0.8`: forward, input gradient, weight gradient"))
    };
    let parts: Vec<&str> = text.split(':').collect();
    let [f, b, w] = parts.as_slice() else { return refuse(text) };
    let mut times = [0.0; 3];
    for (time, part) in times.iter_mut().zip([f, b, w]) {
        let Ok(value) = part.trim().parse() else { return refuse(text) };
        *time = value;
    }
    Ok(Times(times))
}

fn backend(text: &str) -> Result<String, InputError> {
    match BACKENDS.iter().find(|name| name.eq_ignore_ascii_case(text.trim())) {
        Some(name) => Ok((*name).to_owned()),
        None => Err(InputError::unknown_name(text, "a backend", BACKENDS)),
    }
}

impl Args {
    /// The question of the flags over `base`.
    fn over(&self, base: ScheduleQuestion) -> ScheduleQuestion {
        let placement = self.placement.map(|name| match name {
            PlacementName::Loop => Placements::Loop,
            PlacementName::V => Placements::V,
            PlacementName::Any => Placements::Any,
        });
        let backward = self.backward.map(|name| match name {
            BackwardName::Split => Backwards::Split,
            BackwardName::Fused => Backwards::Fused,
            BackwardName::Any => Backwards::Any,
        });
        let objective = self.objective.map(|name| match name {
            ObjectiveName::Makespan => Objective::Makespan,
            ObjectiveName::Span => Objective::Span,
        });
        ScheduleQuestion {
            devices: self.devices.unwrap_or(base.devices),
            micro_batches: self.micro_batches.unwrap_or(base.micro_batches),
            times: self.times.map_or(base.times, |times| times.0),
            comm: self.comm.unwrap_or(base.comm),
            memory: self.memory.or(base.memory),
            chunks: self.chunks.or(base.chunks),
            placement: placement.unwrap_or(base.placement),
            backward: backward.unwrap_or(base.backward),
            split_penalty: self.split_penalty.unwrap_or(base.split_penalty),
            objective: objective.unwrap_or(base.objective),
        }
    }

    /// The given schedule, if one is given, and the question under which it is judged.
    fn given(&self) -> Result<Option<(Schedule, ScheduleQuestion)>, InputError> {
        let of = |schedule: Schedule| {
            let (p, m) = (schedule.devices(), schedule.microbatches);
            (schedule, ScheduleQuestion { devices: p, micro_batches: m, ..UNIT })
        };
        let (schedule, base) = if let Some(path) = &self.dsl {
            of(self.program(path)?)
        } else if let Some(path) = &self.csv {
            let name = path.display().to_string();
            let read = torch_csv::read(&stem(path), &input::text(path)?);
            of(read.map_err(|e| InputError::new(Kind::InvalidValue).in_file(name).help(e))?.schedule)
        } else if let Some(path) = &self.file {
            let file = ScheduleFile::parse(&input::text(path)?, &path.display().to_string())?;
            (file.schedule, file.question)
        } else {
            return Ok(None);
        };
        let question = self.over(base);
        for (flag, asked, has) in [
            ("--devices", question.devices, schedule.devices()),
            ("--micro-batches", question.micro_batches, schedule.microbatches),
        ] {
            if asked != has {
                let error = InputError::new(Kind::Inconsistent).at(flag).found(asked);
                return Err(error.expected(format!("{has}, as in the schedule")));
            }
        }
        question.check().map_err(flagged)?;
        Ok(Some((schedule, question)))
    }

    fn program(&self, path: &Path) -> Result<Schedule, InputError> {
        let name = path.display().to_string();
        let refuse = |why: String| InputError::new(Kind::InvalidValue).in_file(&name).help(why);
        let asked = dsl::Question {
            devices: self.devices,
            microbatches: self.micro_batches,
            chunks: self.chunks,
            ..dsl::Question::default()
        };
        let script = Script::parse(&input::text(path)?).map_err(|e| {
            InputError::new(Kind::Syntax).in_file(&name).at(format!("line {}, column {}", e.line, e.column)).help(e)
        })?;
        let schedule = script.build(&asked).map_err(|e| refuse(e.to_string()))?;
        validate(&schedule).map_err(|fault| refuse(fault.to_string()))?;
        Ok(schedule)
    }
}

/// One unit each.
const UNIT: ScheduleQuestion = ScheduleQuestion {
    devices: 0,
    micro_batches: 0,
    times: [1.0; 3],
    comm: 0.0,
    memory: None,
    chunks: None,
    placement: Placements::Any,
    backward: Backwards::Any,
    split_penalty: 0.0,
    objective: Objective::Makespan,
};

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "schedule".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The field of a question as the flag that sets it.
fn flagged(error: InputError) -> InputError {
    match error.field.clone() {
        Some(field) => error.at(format!("--{field}")),
        None => error,
    }
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    if let Some(path) = &args.output {
        file::can_save(path)?;
    }
    if let Some((schedule, question)) = args.given()? {
        let (judged, _) = judge_given(&schedule, &question).map_err(|e| input_error(&e))?;
        let document = whole(&question, &schedule, &judged, Value::Null, json!([]))?;
        write(args, output, &document)?;
        output.answer(&document, |style| report::schedule(&schedule, &judged, None, style))?;
        return Ok(if judged.valid { ANSWERED } else { DOES_NOT_FIT });
    }
    search(args, output)
}

fn search(args: &Args, output: &Output) -> Ended {
    for (flag, given) in [("--devices", args.devices), ("--micro-batches", args.micro_batches)] {
        if given.is_none() {
            let error = InputError::new(Kind::MissingField).at(flag).expected("a number");
            return Err(error.help("or a schedule to judge: --dsl, --csv or a schedule file").into());
        }
    }
    let question = args.over(UNIT);
    let case = question.case().map_err(flagged)?;
    if let Some(memory) = question.memory.filter(|memory| *memory < ScheduleQuestion::LEAST_MEMORY) {
        return Err(Failure::DoesNotFit(too_small(memory)));
    }
    if let Some(n) = args.threads {
        super::search::threads(&crate::question::SearchOptions { threads: Some(n), ..Default::default() })?;
    }
    let options = ScheduleOptions {
        backend: args.backend.clone().unwrap_or_else(|| "auto".to_owned()),
        seed: args.seed,
        max_evaluations: args.max_evals,
        max_time: args.max_time.map(|limit| Duration::from_secs_f64(limit.get())),
        target_gap: args.target_gap.unwrap_or(0.0),
        known: !args.from_scratch,
    };
    let mut bar = Bar::without_unit("trying known schedules");
    let answer = solve(case, &options, interrupt(), Some(&mut bar)).map_err(|e| match e {
        ScheduleError::Input(e) => Failure::Input(e),
        ScheduleError::None(PipelineError::Memory { .. }) => {
            Failure::DoesNotFit(too_small(question.memory.unwrap_or_default()))
        }
        ScheduleError::None(e) => Failure::Input(input_error(&e)),
        ScheduleError::Stopped(stop) => Failure::NoPlan(stop),
    })?;
    drop(bar);
    let shape = &answer.case.shapes[answer.shape];
    let judged = judge(&answer.schedule, &shape.costs, question.objective, answer.bound)
        .map_err(|e| Failure::Internal(e.to_string()))?;
    let told = serde_json::to_value(&answer.search).map_err(|e| Failure::Internal(e.to_string()))?;
    let compared = serde_json::to_value(&answer.compared).map_err(|e| Failure::Internal(e.to_string()))?;
    let mut document = whole(&question, &answer.schedule, &judged, told, compared)?;
    document["gain"] = json!(answer.gain);
    document["shape"] = json!(shape.name());
    write(args, output, &document)?;
    output.answer(&document, |style| report::schedule(&answer.schedule, &judged, Some(&answer), style))?;
    Ok(if answer.search.stop_reason == Stop::Interrupted { INTERRUPTED } else { ANSWERED })
}

fn too_small(memory: f64) -> InputError {
    let least = ScheduleQuestion::LEAST_MEMORY;
    InputError::new(Kind::InvalidValue)
        .at("--memory")
        .found(memory)
        .expected(format!("at least {least}"))
        .help("a device holds one activation of each of its chunks when the first backward comes back")
}

fn input_error(error: &PipelineError) -> InputError {
    InputError::new(Kind::InvalidValue).help(error)
}

fn whole(
    question: &ScheduleQuestion,
    schedule: &Schedule,
    judged: &Judged,
    search: Value,
    compared: Value,
) -> Result<Value, Failure> {
    let internal = |e: serde_json::Error| Failure::Internal(e.to_string());
    let mut all = document(question, schedule).map_err(internal)?;
    if let Value::Object(more) = serde_json::to_value(judged).map_err(internal)? {
        for (key, value) in more {
            all[key] = value;
        }
    }
    all["search"] = search;
    all["compared"] = compared;
    Ok(all)
}

fn write(args: &Args, output: &Output, document: &Value) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        file::save(path, document)?;
        if !output.json {
            say(&format!("schedule written to {}", path.display()));
        }
    }
    Ok(())
}
