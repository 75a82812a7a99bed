//! The command line: arguments in, exit codes out.
//!
//! Exit codes: 0 answered; 1 internal error; 2 bad input; 3 infeasible or does not fit; 4 a limit was met before there was a
//! plan; 5 illegal for the target; 130 interrupted (the best so far is printed).

mod accuracy;
mod backends;
mod bench;
mod calibrate;
mod check;
mod check_launch;
mod diff;
mod explain;
mod export;
mod export_plan;
mod failure;
mod galvatron;
mod given;
mod input;
mod kinds;
mod launch_price;
mod min_gpus;
mod model;
mod output;
mod plan;
mod plan_file;
mod probe;
mod progress;
mod question;
mod regret;
mod schedule;
mod schema;
mod search;
mod tables;
mod values;
mod why_not;
mod written;

use crate::error::InputError;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use output::{Color, Output};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Everything went well.
const ANSWERED: u8 = 0;
/// A fault of this program.
const INTERNAL: u8 = 1;
/// The input is wrong.
const BAD_INPUT: u8 = 2;
/// Nothing fits, or the given plan does not.
const DOES_NOT_FIT: u8 = 3;
/// A limit was met before there was a plan.
const NO_PLAN: u8 = 4;
/// The target does not take it.
const ILLEGAL: u8 = 5;
/// Interrupted; the best so far is printed.
const INTERRUPTED: u8 = 130;

/// Plans the training of large models: per-layer parallel strategies and pipeline schedules, with proven gaps.
#[derive(Debug, Parser)]
#[command(name = "espalier", version, about, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON object instead of text; errors as JSON on standard error
    #[arg(long, global = true)]
    json: bool,
    /// Colours: on terminals only, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Search for the plan that trains fastest and fits
    Plan(Box<plan::Args>),
    /// Price a given plan, without a search
    Check(Box<check::Args>),
    /// Show what a model is: layer classes, parameters, FLOPs, memory
    Model(Box<model::Args>),
    /// Find the smallest number of devices on which a model trains, and the smallest that makes sense
    MinGpus(Box<min_gpus::Args>),
    /// Search for a pipeline schedule, or judge a given one
    Schedule(Box<schedule::Args>),
    /// Race search algorithms against each other, and tell which differences are real
    Bench(Box<bench::Args>),
    /// Say what each search algorithm does, its parameters, and when to use it
    Backends(Box<backends::Args>),
    /// Compare prices with published measurements
    Accuracy(Box<accuracy::Args>),
    /// Fit a device to your own runs
    Calibrate(Box<calibrate::Args>),
    /// Tell what the best price is worth among measured rivals
    Regret(Box<regret::Args>),
    /// Write a schedule or a plan for another tool
    Export(Box<export::Args>),
    /// Say why a plan costs what it costs, and which constants that hangs on
    Explain(Box<explain::Args>),
    /// Say why a plan is not another: a rule, or what the other would cost
    WhyNot(Box<why_not::Args>),
    /// Say where time and memory of two plans differ, term by term
    Diff(Box<diff::Args>),
    /// Write a cluster file from what machines print
    Probe(Box<probe::Args>),
    /// Print the JSON schema of a file format
    Schema(schema::Args),
    /// Print shell completions
    Completions(schema::Completions),
}

/// Reads the arguments of the process, does what they ask, and says how it ended.
pub fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let json = arguments.iter().skip(1).take_while(|a| *a != "--").any(|a| a == "--json");
    // A value such as -1 is for the flag's own reader to refuse.
    let command = Cli::command().mut_subcommands(|command| {
        command.mut_args(|a| if a.get_action().takes_values() { a.allow_negative_numbers(true) } else { a })
    });
    let parsed = command.try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(failure::usage(&error, json)),
    };
    let output = Output::new(cli.json, cli.color);
    let done = catch_unwind(AssertUnwindSafe(|| match cli.command {
        Command::Bench(args) => bench::run(*args, &output),
        Command::Backends(args) => backends::run(&args, &output),
        Command::Plan(args) => plan::run(*args, &output),
        Command::Check(args) => check::run(&args, &output),
        Command::Model(args) => model::run(&args, &output),
        Command::MinGpus(args) => min_gpus::run(&args, &output),
        Command::Accuracy(args) => accuracy::run(&args, &output),
        Command::Calibrate(args) => calibrate::run(&args, &output),
        Command::Regret(args) => regret::run(&args, &output),
        Command::Export(args) => export::run(&args, &output),
        Command::Schedule(args) => schedule::run(&args, &output),
        Command::Explain(args) => explain::run(&args, &output),
        Command::WhyNot(args) => why_not::run(&args, &output),
        Command::Diff(args) => diff::run(&args, &output),
        Command::Probe(args) => probe::run(&args, &output),
        Command::Schema(args) => schema::run(&args, &output),
        Command::Completions(args) => schema::completions(&args),
    }));
    ExitCode::from(match done {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(&output),
        Err(_) => Failure::Internal("it panicked; the message above says where".to_owned()).report(&output),
    })
}

/// How a command ends.
type Ended = Result<u8, Failure>;

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Failure::Input(error)
    }
}
