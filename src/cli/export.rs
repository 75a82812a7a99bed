//! `espalier export`: a schedule file or a plan in the form of another tool.

use super::given::GivenArgs;
use super::kinds::{FileKind, otherwise};
use super::output::{Output, say};
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, Failure, export_plan, galvatron, input, plan_file};
use crate::error::{InputError, Kind};
use crate::estimate::Estimator;
use crate::export::Form;
use crate::pipeline::Run;
use crate::pipeline::Schedule;
use crate::pipeline::dsl::Question;
use crate::pipeline::export::{chrome, grid, megatron_layout, svg, torch_csv, zb_runtime};
use crate::pipeline::generators::shipped;
use crate::pipeline::simulate;
use crate::plan::{PartKind, Plan, Spine, file};
use crate::space::check::check_under;
use crate::space::planner::PlanError;
use crate::space::schedule::file::ScheduleFile;
use crate::space::schedule::joint::stored;
use clap::ValueEnum;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `espalier schedule` or `espalier plan` writes, or a launch script of Megatron-LM (`-` for standard input)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Form to write
    #[arg(long, value_enum, value_name = "TARGET")]
    to: Target,
    /// Layers of the model, for `megatron-layout`
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Microseconds of one unit of time, for `perfetto` [default: 1000; of a plan, which is in seconds, 1000000]
    #[arg(long, value_name = "US")]
    unit_us: Option<f64>,
    /// Pixels of the picture, for `svg`
    #[arg(long, value_name = "PX", default_value_t = 1600.0)]
    width: f64,
    /// Write here instead of to standard output: a file for schedules, a folder for launch files
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    given: GivenArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// compute_only CSV of torch.distributed.pipelining
    TorchCsv,
    /// Trace for ui.perfetto.dev and chrome://tracing
    Perfetto,
    /// Gantt chart
    Svg,
    /// Text, a line per device
    Grid,
    /// Nodes of the zero-bubble runtime, JSON
    ZbRuntime,
    /// Flags of Megatron-Core
    MegatronLayout,
    /// Plan that Galvatron's trainer reads
    Galvatron,
    /// Launch files of Megatron-LM
    Megatron,
    /// Module and flags of torchtitan
    Torchtitan,
    /// Configuration of DeepSpeed
    Deepspeed,
    /// Configuration of Hugging Face accelerate
    Accelerate,
    /// Configuration of nanotron
    Nanotron,
    /// Attributes of a recipe of Megatron-Bridge
    Bridge,
    /// Slurm batch file around the launch of Megatron-LM
    Slurm,
}

impl Target {
    /// The form of launch files that it means.
    fn form(self) -> Option<Form> {
        Some(match self {
            Target::Galvatron => Form::Galvatron,
            Target::Megatron => Form::Megatron,
            Target::Torchtitan => Form::Torchtitan,
            Target::Deepspeed => Form::Deepspeed,
            Target::Accelerate => Form::Accelerate,
            Target::Nanotron => Form::Nanotron,
            Target::Bridge => Form::Bridge,
            Target::Slurm => Form::Slurm,
            _ => return None,
        })
    }
}

/// Microseconds of a unit of time where nothing says what it is.
const UNIT_US: f64 = 1000.0;

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    for (flag, value) in [("--unit-us", args.unit_us.unwrap_or(UNIT_US)), ("--width", args.width)] {
        if !(value.is_finite() && value > 0.0 && value <= 1e9) {
            let error = InputError::new(Kind::InvalidValue).at(flag).found(value);
            return Err(error.expected("a number above zero, at most 1e9").into());
        }
    }
    if let Some(form) = args.to.form() {
        // Galvatron's own plan goes through its own reader.
        let own = args.to == Target::Galvatron && galvatron::is_plan(&input::text(&args.file)?);
        if !own {
            let name = args.to.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            return export_plan::run(&args.file, form, &name, args.output.as_deref(), &args.given, output);
        }
    }
    if let Some(path) = &args.output {
        file::can_save(path)?;
    }
    let given = input::text(&args.file)?;
    let (text, device_of_stage) = match args.to {
        Target::Galvatron => (galvatron::export(&args.file, &given)?, None),
        _ => schedule(args, &given)?,
    };
    if let Some(path) = &args.output {
        may_write(path, Written::Export(&text), &[&args.file])?;
        std::fs::write(path, &text).map_err(|e| InputError::new(Kind::Unwritable).in_file(path.display()).help(e))?;
        say(&format!("written to {}", path.display()));
    }
    let target = args.to.to_possible_value().map(|value| value.get_name().to_owned());
    let mut document = json!({ "schema": "espalier/export/1", "to": target, "text": text });
    if let Some(map) = &device_of_stage {
        document["device_of_stage"] = json!(map);
    }
    if args.output.is_none() || output.json {
        output.answer(&document, |_| text.clone())?;
    }
    if let Some(map) = device_of_stage.filter(|_| !output.json) {
        let map: Vec<String> = map.iter().map(u32::to_string).collect();
        say(&format!("stage to rank: {}", map.join(",")));
    }
    Ok(ANSWERED)
}

/// A schedule in another form, and the device of each stage where the form does not say it.
fn schedule(args: &Args, given: &str) -> Result<(String, Option<Vec<u32>>), Failure> {
    let (read, unit_us) = match file_kind(given) {
        file::SCHEMA => {
            let (read, layers) = of_plan(args, given)?;
            ((read, Some(layers)), 1e6)
        }
        _ => {
            let name = args.file.display().to_string();
            let read = ScheduleFile::parse(given, &name).map_err(|e| otherwise(e, given, FileKind::Schedule, &name))?;
            ((read, None), UNIT_US)
        }
    };
    let (read, layers) = read;
    if let (Some(said), Some(has)) = (args.layers, layers)
        && said != has
    {
        let error = InputError::new(Kind::Inconsistent).at("--layers").found(said);
        return Err(error.expected(format!("{has}, the layers of the plan")).into());
    }
    if read.schedule.flags.iter().any(|flags| flags.recompute)
        && matches!(args.to, Target::TorchCsv | Target::ZbRuntime | Target::MegatronLayout)
    {
        say("this form does not say which stages recompute: the modules of those stages must checkpoint");
    }
    let layers = args.layers.or(layers);
    let unit_us = args.unit_us.unwrap_or(unit_us);
    // What exceeds memory can still be drawn.
    let costs = crate::pipeline::Costs { limit: None, ..read.costs.clone() };
    let run = simulate(&read.schedule, &costs).map_err(|e| InputError::new(Kind::InvalidValue).help(e))?;
    // torch needs the map beside the CSV: its own guess is the loop.
    let map = (args.to == Target::TorchCsv).then(|| read.schedule.placement.device_of().to_vec());
    Ok((text(args, &read, layers, &costs, (&run, unit_us))?, map))
}

/// What a file calls itself, as far as that decides how to read it.
fn file_kind(given: &str) -> &'static str {
    let schema = serde_json::from_str::<serde_json::Value>(given).ok();
    let is_plan = schema.is_some_and(|document| document["schema"] == file::SCHEMA);
    if is_plan { file::SCHEMA } else { crate::space::schedule::file::SCHEMA }
}

/// The schedule of a plan: its own, or that of the frameworks; and how many layers the plan has.
fn of_plan(args: &Args, given: &str) -> Result<(ScheduleFile, usize), Failure> {
    let name = args.file.display().to_string();
    let (file, inputs) = plan_file::parse(given, &args.file)?;
    let (schedule, penalty) = match &file.schedule {
        Some(written) => stored(written).map_err(|e| e.inside("schedule").in_file(&name))?,
        None => (usual(&file.plan).map_err(|e| e.in_file(&name))?, 0.0),
    };
    // The plan is one of the question.
    check_under(&inputs, &file.plan, &schedule, penalty).map_err(|e| match e {
        PlanError::Input(e) => Failure::Input(e.in_file(&name)),
        other => other.into(),
    })?;
    let spine = Spine::new(&inputs.model, &inputs.job);
    let estimator = Estimator::new(&inputs.model, &spine, inputs.pool()?, &inputs.job, inputs.cost);
    let costs = estimator.schedule_costs(&file.plan, &schedule, penalty).map_err(PlanError::from)?;
    let layers = (0..spine.parts.len()).filter(|part| spine.class_of(*part).kind == PartKind::Layer).count();
    Ok((ScheduleFile { schedule, question: None, costs }, layers))
}

/// 1F1B, or interleaved 1F1B for several chunks per stage.
fn usual(plan: &Plan) -> Result<Schedule, InputError> {
    let name = if plan.chunks_per_stage == 1 { "1f1b" } else { "interleaved_1f1b" };
    let question = Question {
        chunks: Some(plan.chunks_per_stage as usize),
        ..Question::new(plan.pipeline as usize, plan.micro_batches as usize)
    };
    shipped(name, &question).map_err(|e| InputError::new(Kind::Inconsistent).at("plan").help(e))
}

fn text(
    args: &Args,
    read: &ScheduleFile,
    layers: Option<usize>,
    costs: &crate::pipeline::Costs,
    (run, unit_us): (&Run, f64),
) -> Result<String, Failure> {
    let schedule = &read.schedule;
    let illegal = |why: String| Failure::Illegal(InputError::new(Kind::Unsupported).at("--to").help(why));
    Ok(match args.to {
        Target::TorchCsv => torch_csv::write(schedule).map_err(|e| illegal(e.to_string()))?,
        Target::Perfetto => format!("{}\n", chrome::trace(schedule, costs, run, unit_us)),
        Target::Svg => svg::gantt(schedule, costs, run, args.width),
        Target::Grid => grid::grid(run),
        Target::ZbRuntime => {
            format!("{}\n", zb_runtime::nodes(schedule, run).map_err(|e| illegal(e.to_string()))?)
        }
        Target::MegatronLayout => {
            let Some(layers) = layers else {
                let error = InputError::new(Kind::MissingField).at("--layers").expected("the layers of the model");
                return Err(error.help("the layout string says which layers a stage has").into());
            };
            megatron_layout::flags(schedule, layers).map_err(|e| illegal(e.to_string()))?
        }
        _ => return Err(illegal("a schedule is no plan".to_owned())),
    })
}
