//! `espalier schedule`: search for a pipeline schedule, or judge a given one.

use super::failure::Failure;
use super::kinds::{FileKind, otherwise};
use super::output::{Output, say};
use super::progress::{Bar, interrupt};
use super::written::{Written, may_write};
use super::{ANSWERED, DOES_NOT_FIT, Ended, INTERRUPTED, input, plan_file, values};
use crate::error::{InputError, Kind};
use crate::pipeline::dsl::{self, Script};
use crate::pipeline::export::torch_csv;
use crate::pipeline::{Costs, PipelineError, Schedule, validate};
use crate::plan::file;
use crate::report;
use crate::search::budget::Stop;
use crate::space::planner::PlanError;
use crate::space::schedule::file::{ScheduleFile, costs as costs_of, document};
use crate::space::schedule::joint::stored;
use crate::space::schedule::judge::{Judged, judge, judge_given};
use crate::space::schedule::of_plan::case_of;
use crate::space::schedule::shape::Case;
use crate::space::schedule::solve::{BACKENDS, ScheduleError};
use crate::space::schedule::{
    Backwards, Objective, Placements, ScheduleAnswer, ScheduleOptions, ScheduleQuestion, solve,
};
use crate::units::Seconds;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
    #[arg(long, value_name = "F:B:W", allow_hyphen_values = true, value_parser = times)]
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
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true, value_parser = values::fraction)]
    split_penalty: Option<f64>,
    /// Stages may recompute, which takes another forward: share of its activation that such a stage keeps, e.g. 5%
    #[arg(long, value_name = "SHARE", value_parser = values::fraction)]
    recompute: Option<f64>,
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
    /// Search the schedule of a plan: its times, memory and links; its cuts between stages may move, and every stage may be
    /// one chunk or several
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dsl", "csv", "file", "devices", "micro_batches", "times", "comm", "memory", "chunks", "placement", "backward", "recompute"])]
    plan: Option<PathBuf>,
    /// Write the schedule file here; `espalier export` reads it
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Search algorithm: auto (blocks and policies, then walks); genetic, mcts, nested and random (policies); blocks
    /// (building blocks); orders (tree search pass by pass); climb (walks over orders)
    #[arg(long, value_name = "NAME", value_parser = backend, help_heading = "Search")]
    backend: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::seed, help_heading = "Search")]
    seed: u64,
    /// Most distinct solutions to evaluate
    #[arg(long, value_name = "N", value_parser = values::evaluations, help_heading = "Search")]
    max_evals: Option<u64>,
    /// Most time, e.g. 10s; the answer then depends on the machine's speed
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "Search")]
    max_time: Option<Seconds>,
    /// Stop when the schedule is proven to be this close to the best, e.g. 1%
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true, value_parser = values::fraction, help_heading = "Search")]
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
            recompute: self.recompute.or(base.recompute),
            objective: objective.unwrap_or(base.objective),
        }
    }

    /// The given schedule, if one is given, and the question under which it is judged.
    fn given(&self) -> Result<Option<Given>, InputError> {
        let of = |schedule: Schedule| {
            let (p, m) = (schedule.devices(), schedule.microbatches);
            (schedule, ScheduleQuestion { devices: p, micro_batches: m, ..UNIT })
        };
        if let Some(path) = &self.file {
            let (text, name) = (input::text(path)?, path.display().to_string());
            let file = ScheduleFile::parse(&text, &name).map_err(|e| otherwise(e, &text, FileKind::Schedule, &name))?;
            let Some(question) = file.question else {
                return self.under_written_costs(file.schedule, file.costs).map(Some);
            };
            return self.under(file.schedule, question).map(Some);
        }
        let (schedule, base) = if let Some(path) = &self.dsl {
            of(self.program(path)?)
        } else if let Some(path) = &self.csv {
            let name = path.display().to_string();
            let read = torch_csv::read(&stem(path), &input::text(path)?);
            of(read.map_err(|e| InputError::new(Kind::InvalidValue).in_file(name).help(e))?.schedule)
        } else {
            return Ok(None);
        };
        self.under(schedule, base).map(Some)
    }

    /// Under the costs that its file writes out, which flags cannot change.
    fn under_written_costs(&self, schedule: Schedule, costs: Costs) -> Result<Given, InputError> {
        for (flag, given) in [
            ("--devices", self.devices.is_some()),
            ("--micro-batches", self.micro_batches.is_some()),
            ("--chunks", self.chunks.is_some()),
            ("--placement", self.placement.is_some()),
            ("--backward", self.backward.is_some()),
            ("--times", self.times.is_some()),
            ("--comm", self.comm.is_some()),
            ("--memory", self.memory.is_some()),
            ("--split-penalty", self.split_penalty.is_some()),
            ("--recompute", self.recompute.is_some()),
        ] {
            if given {
                let error = InputError::new(Kind::Inconsistent).at(flag);
                return Err(error.help("the schedule file says the order and the costs of every stage itself"));
            }
        }
        let objective = self.over(UNIT).objective;
        Ok(Given { schedule, question: None, costs, objective })
    }

    fn under(&self, schedule: Schedule, base: ScheduleQuestion) -> Result<Given, InputError> {
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
        let costs = costs_of(&question, &schedule);
        Ok(Given { schedule, objective: question.objective, question: Some(question), costs })
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

/// A schedule to judge.
struct Given {
    schedule: Schedule,
    question: Option<ScheduleQuestion>,
    costs: Costs,
    objective: Objective,
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
    recompute: None,
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
        let inputs = [&args.dsl, &args.csv, &args.file, &args.plan];
        let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
        may_write(path, Written::Schedule, &inputs)?;
    }
    if let Some(Given { schedule, question, costs, objective }) = args.given()? {
        let judged = judge_given(&schedule, &costs, objective).map_err(|e| input_error(&e))?;
        let whole = document(question.as_ref(), &schedule, &costs);
        let whole = with_judgement(whole, &judged, Value::Null, json!([]))?;
        write(args, output, &whole)?;
        output.answer(&whole, |style| report::schedule(&schedule, &judged, None, style))?;
        return Ok(if judged.valid { ANSWERED } else { DOES_NOT_FIT });
    }
    match &args.plan {
        Some(path) => search_for_plan(args, path, output),
        None => search(args, output),
    }
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
    let least = ScheduleQuestion::LEAST_MEMORY;
    if let Some(memory) = question.memory.filter(|memory| *memory < least && question.recompute.is_none()) {
        return Err(Failure::DoesNotFit(too_small(memory)));
    }
    let answer = solve_case(args, case, question.memory, None)?;
    let costs = &answer.case.shapes[answer.shape].costs;
    let judged = judge(&answer.schedule, costs, question.objective, answer.bound)
        .map_err(|e| Failure::Internal(e.to_string()))?;
    let whole = told(document(Some(&question), &answer.schedule, costs), &judged, &answer)?;
    write(args, output, &whole)?;
    output.answer(&whole, |style| report::schedule(&answer.schedule, &judged, Some(&answer), style))?;
    Ok(ended(&answer))
}

/// The schedule of a plan: true times, memory and links, and cuts that may move.
fn search_for_plan(args: &Args, path: &Path, output: &Output) -> Ended {
    let name = path.display().to_string();
    let (file, inputs) = plan_file::read(path)?;
    let objective = args.over(UNIT).objective;
    let own = file.schedule.as_ref().map(stored).transpose().map_err(|e| e.inside("schedule").in_file(&name))?;
    let penalty = args.split_penalty.or(own.as_ref().map(|(_, penalty)| *penalty)).unwrap_or(0.0);
    let own = own.map(|(schedule, _)| schedule);
    let of_plan = case_of(&inputs, &file.plan, objective, penalty).map_err(|e| match e {
        PlanError::Input(e) => Failure::Input(e.in_file(&name)),
        other => other.into(),
    })?;
    let answer = solve_case(args, of_plan.case.clone(), None, own)?;
    // Shapes that no schedule fits are left out of the answer's.
    let wanted = &answer.case.shapes[answer.shape];
    let number = of_plan
        .case
        .shapes
        .iter()
        .position(|s| s.placement == wanted.placement && s.costs == wanted.costs && s.backward == wanted.backward);
    let Some(number) = number else { return Err(Failure::Internal("the answer has no shape".to_owned())) };
    let judged = judge(&answer.schedule, &wanted.costs, objective, answer.bound)
        .map_err(|e| Failure::Internal(e.to_string()))?;
    let mut whole = told(document(None, &answer.schedule, &wanted.costs), &judged, &answer)?;
    let iteration = of_plan.iteration(number, &judged.run);
    let planned = of_plan.planned.as_ref().map(|estimate| estimate.iteration_time_s);
    whole["iteration_time_s"] = json!(iteration);
    whole["interleaved"] = json!(of_plan.interleaved);
    whole["planned_iteration_time_s"] = json!(planned);
    whole["chunks"] = json!(of_plan.chunks[number]);
    write(args, output, &whole)?;
    output.answer(&whole, |style| {
        let parts: Vec<String> = of_plan.chunks[number].iter().map(|chunk| chunk.len().to_string()).collect();
        format!(
            "iteration {} s under this schedule, {} s under that of the plan; parts by stage: {}\n{}",
            report::seconds(iteration),
            planned.map_or_else(|| "?".to_owned(), report::seconds),
            parts.join(" "),
            report::schedule(&answer.schedule, &judged, Some(&answer), style)
        )
    })?;
    Ok(ended(&answer))
}

fn ended(answer: &ScheduleAnswer) -> u8 {
    if answer.search.stop_reason == Stop::Interrupted { INTERRUPTED } else { ANSWERED }
}

fn solve_case(
    args: &Args,
    case: Case,
    memory: Option<f64>,
    given: Option<Schedule>,
) -> Result<ScheduleAnswer, Failure> {
    if let Some(n) = args.threads {
        super::search::threads(&crate::question::SearchOptions { threads: Some(n), ..Default::default() })?;
    }
    let options = ScheduleOptions {
        backend: args.backend.clone().unwrap_or_else(|| "auto".to_owned()),
        seed: args.seed,
        max_evaluations: args.max_evals,
        max_time: args.max_time.map(Seconds::as_limit),
        target_gap: args.target_gap.unwrap_or(0.0),
        known: !args.from_scratch,
        given,
    };
    let mut bar = Bar::without_unit("trying known schedules");
    solve(case, &options, interrupt(), Some(&mut bar)).map_err(|e| match e {
        ScheduleError::Input(e) => Failure::Input(e),
        ScheduleError::None(why @ PipelineError::Memory { .. }) => Failure::DoesNotFit(match memory {
            // A stage that recomputes needs its whole activation for a moment, beside what the others keep.
            Some(memory) if memory < ScheduleQuestion::LEAST_MEMORY && args.recompute.is_some() => {
                let error = InputError::new(Kind::InvalidValue).at("--memory").found(memory);
                error.expected("room for the activation of one chunk beside what the device's other chunks keep")
            }
            Some(memory) => too_small(memory),
            None => InputError::new(Kind::Unsupported).at("memory").help(why),
        }),
        ScheduleError::None(e) => Failure::Input(input_error(&e)),
        ScheduleError::Stopped(stop) => Failure::NoPlan(stop),
    })
}

/// A document with all that a search tells.
fn told(
    document: Result<Value, serde_json::Error>,
    judged: &Judged,
    answer: &ScheduleAnswer,
) -> Result<Value, Failure> {
    let internal = |e: serde_json::Error| Failure::Internal(e.to_string());
    let search = serde_json::to_value(&answer.search).map_err(internal)?;
    let compared = serde_json::to_value(&answer.compared).map_err(internal)?;
    let mut whole = with_judgement(document, judged, search, compared)?;
    whole["gain"] = json!(answer.gain);
    whole["shape"] = json!(answer.case.shapes[answer.shape].name());
    Ok(whole)
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

fn with_judgement(
    document: Result<Value, serde_json::Error>,
    judged: &Judged,
    search: Value,
    compared: Value,
) -> Result<Value, Failure> {
    let internal = |e: serde_json::Error| Failure::Internal(e.to_string());
    let mut all = document.map_err(internal)?;
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
