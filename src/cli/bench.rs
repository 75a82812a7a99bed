//! `espalier bench`: race search algorithms, check recorded results, compare two of them.

use super::failure::Failure;
use super::output::Output;
use super::progress::{Bar, interrupt};
use super::{ANSWERED, DOES_NOT_FIT, Ended, INTERRUPTED, values};
use crate::error::{InputError, Kind};
use crate::experiment::ExperimentError;
use crate::experiment::compare::{Compared, compare, not_compared};
use crate::experiment::fates::{self, Fate};
use crate::experiment::reprice::reprice;
use crate::experiment::results::Results;
use crate::experiment::runner::{self, RunOptions};
use crate::experiment::suite::Suite;
use crate::experiment::{analysis, best_known, learn};
use crate::report::{Align, Style, Table, paragraph};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_precedence_over_arg = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Suite to run (RON or JSON): instances, backends, seeds, evaluations
    #[arg(value_name = "SUITE")]
    suite: Option<PathBuf>,
    /// Go on from what the folder holds; nothing is run twice
    #[arg(long)]
    resume: bool,
    /// Runs at a time; never changes results but their clocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::threads)]
    jobs: usize,
    /// Folder of the results [default: the suite's name, without `.ron`, under `results/`]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Recompute every table, plot and report from the traces, follow every recorded path, and say what differs
    Verify {
        /// Recorded results
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Folder of the suite, from which it names its questions [default: here]
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        suite_folder: PathBuf,
    },
    /// Take over into a table of best known values what recorded runs have found; it never gets worse
    BestKnown {
        /// Recorded results
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Table (JSON), made if absent; a suite names it as `best_known`
        #[arg(value_name = "TABLE")]
        table: PathBuf,
    },
    /// Add to a base of solved cases what recorded runs have solved, for the backend `rules`
    Learn {
        /// Recorded results
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Case base (RON), made if absent; the parameter `cases` of `rules` names it
        #[arg(value_name = "CASES")]
        cases: PathBuf,
        /// Folder of the suite, from which it names its questions [default: here]
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        suite_folder: PathBuf,
    },
    /// Say where the second results are better, worse, or not distinguishable
    Compare {
        /// First results
        #[arg(value_name = "A")]
        a: PathBuf,
        /// Second results
        #[arg(value_name = "B")]
        b: PathBuf,
    },
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Input(e) => Failure::Input(e),
            ExperimentError::File { path, why } => {
                Failure::Input(InputError::new(Kind::Unreadable).in_file(path.display()).help(why))
            }
            ExperimentError::Interrupted | ExperimentError::Internal(_) => Failure::Internal(error.to_string()),
        }
    }
}

/// Runs it.
pub(super) fn run(args: Args, output: &Output) -> Ended {
    match (&args.command, &args.suite) {
        (Some(Command::Verify { folder, suite_folder }), _) => verify(folder, suite_folder, output),
        (Some(Command::Compare { a, b }), _) => compared(a, b, output),
        (Some(Command::Learn { folder, cases, suite_folder }), _) => learned(folder, cases, suite_folder, output),
        (Some(Command::BestKnown { folder, table }), _) => improve(folder, table, output),
        (None, Some(suite)) => race(&args, suite, output),
        (None, None) => {
            Err(InputError::new(Kind::MissingField).at("SUITE").expected("a suite file, `verify` or `compare`").into())
        }
    }
}

fn race(args: &Args, path: &Path, output: &Output) -> Ended {
    let suite = Suite::load(path)?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => Path::new("results").join(path.file_stem().unwrap_or_default()),
    };
    let bar = Bar::new("making instances");
    let options = RunOptions { resume: args.resume, jobs: args.jobs, interrupt: interrupt() };
    let mut said = |done: usize, all: usize| bar.say(format!("{done} of {all} runs"));
    let results = match runner::run(&suite, &folder, &options, &mut said) {
        Err(ExperimentError::Interrupted) => {
            drop(bar);
            super::output::say(&format!("interrupted; go on with: {}", again(args, path, output)));
            return Ok(INTERRUPTED);
        }
        other => other?,
    };
    drop(bar);
    let failed = fates::failed(&results);
    for fate in &failed {
        let Fate { backend, instance, why, runs } = fate;
        super::output::say(&format!("warning: {runs} runs of `{backend}` on `{instance}` failed: {why}"));
    }
    let tables = analysis::tables(&results);
    let area = tables.iter().find(|table| table.name == "area");
    let rows: Vec<Value> = area.map(|t| t.rows.iter().map(|row| json!(row)).collect()).unwrap_or_default();
    let document = json!({
        "schema": "espalier/bench/1",
        "folder": folder.display().to_string(),
        "runs": results.runs.len(),
        "instances": results.manifest.instances.len(),
        "backends": results.manifest.backends.len(),
        "skipped": results.manifest.skipped,
        "failed": failed,
        "area_under_ecdf": { "columns": area.map(|t| t.columns.clone()), "rows": rows },
    });
    output.answer(&document, |style| {
        let mut text = area.map_or_else(String::new, |table| in_columns(table, style));
        if !failed.is_empty() {
            let runs = failed.iter().map(|fate| fate.runs).sum::<usize>();
            let _ = write!(text, "\n{runs} of {} runs failed: tables/failures.md says why\n", results.runs.len());
        }
        let _ = write!(text, "\n{} runs; report: {}\n", results.runs.len(), folder.join("report.html").display());
        text
    })?;
    Ok(ANSWERED)
}

fn in_columns(table: &crate::experiment::tables::Table, style: Style) -> String {
    let align = |c: usize| if c < table.texts { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> =
        table.columns.iter().enumerate().map(|(c, name)| (name.as_str(), align(c))).collect();
    let mut out = Table::new(&columns);
    table.rows.iter().for_each(|row| out.row(row.iter().cloned()));
    format!("{}\n{}\n{}", table.title, paragraph("", &table.note), out.render(style))
}

/// The command that goes on where this one was interrupted.
fn again(args: &Args, suite: &Path, output: &Output) -> String {
    let mut words = vec!["espalier".to_owned()];
    words.extend(output.json.then(|| "--json".to_owned()));
    words.extend(["bench".to_owned(), in_shell(suite)]);
    words.extend(args.output.iter().flat_map(|folder| ["-o".to_owned(), in_shell(folder)]));
    if args.jobs != 1 {
        words.extend(["--jobs".to_owned(), args.jobs.to_string()]);
    }
    words.push("--resume".to_owned());
    words.join(" ")
}

/// A path as a shell takes it for one word, and no command for a flag.
fn in_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn verify(folder: &Path, suite_folder: &Path, output: &Output) -> Ended {
    let results = Results::load(folder)?;
    let verified = results.verify(folder)?;
    let differing: Vec<String> = verified.differing.iter().map(|path| path.display().to_string()).collect();
    let (missing, strangers) = results.strangers();
    let paths = reprice(&results, suite_folder)?;
    let right = differing.is_empty() && missing == 0 && strangers.is_empty() && paths.wrong.is_empty();
    let document = json!({
        "schema": "espalier/bench-verify/1",
        "runs": results.runs.len(),
        "missing_runs": missing,
        "unplanned_runs": strangers,
        "differs": differing,
        "left_out": verified.left_out,
        "paths": paths,
        "verified": right,
    });
    output.answer(&document, |_| {
        let mut text = String::new();
        match right {
            true => {
                let besides = match verified.left_out.as_slice() {
                    [] => String::new(),
                    parts => format!(" (left out: {})", parts.join(", ")),
                };
                let n = results.runs.len();
                let _ = writeln!(text, "{n} runs: every table, plot and report is what the traces say{besides}");
            }
            false => {
                let mut list = |what: &str, names: &[String]| {
                    if !names.is_empty() {
                        let _ = writeln!(text, "{what}: {}", shortened(names));
                    }
                };
                list("not what the traces say", &differing);
                list("recorded, but not of this race", &strangers);
                list("not what the recorded paths lead to", &paths.wrong);
                if missing > 0 {
                    let _ = writeln!(text, "{missing} runs missing");
                }
            }
        }
        let _ = writeln!(text, "{} recorded paths lead to the recorded values", paths.right);
        if paths.without > 0 {
            let _ = writeln!(text, "{} runs record no path: their backends do not search along one", paths.without);
        }
        if !paths.left_out.is_empty() {
            let _ = writeln!(text, "paths not followed (is --suite-folder right?): {}", shortened(&paths.left_out));
        }
        text
    })?;
    Ok(if right { ANSWERED } else { DOES_NOT_FIT })
}

/// The first few of a list.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if names.len() > SHOWN { format!("{shown}; and {} more", names.len() - SHOWN) } else { shown }
}

fn improve(folder: &Path, path: &Path, output: &Output) -> Ended {
    let mut table = best_known::load(path)?;
    let improved = best_known::improve(&mut table, &Results::load(folder)?)?;
    best_known::save(&table, path)?;
    let document = json!({ "schema": "espalier/bench-best-known/1", "values": table.len(), "improved": improved });
    output.answer(&document, |_| {
        let mut text = String::new();
        for one in &improved {
            let before = one.before.map_or("unknown".to_owned(), |before| format!("{before:?}"));
            let _ = writeln!(text, "{}: {before} -> {:?} ({}, seed {})", one.instance, one.now, one.backend, one.seed);
        }
        let _ = writeln!(text, "{} of {} values improved", improved.len(), table.len());
        text
    })?;
    Ok(ANSWERED)
}

fn learned(folder: &Path, path: &Path, suite_folder: &Path, output: &Output) -> Ended {
    let mut base = learn::load(path)?;
    let learned = learn::learn(&mut base, &Results::load(folder)?, suite_folder)?;
    learn::save(&base, path)?;
    let document = json!({
        "schema": "espalier/bench-learn/1",
        "cases": base.cases.len(),
        "taken": learned.taken,
        "without": learned.without,
    });
    output.answer(&document, |_| {
        let mut text = format!("{} new or better cases, {} in all\n", learned.taken.len(), base.cases.len());
        if !learned.without.is_empty() {
            let _ = writeln!(text, "nothing to learn from: {}", learned.without.join(", "));
        }
        text
    })?;
    Ok(ANSWERED)
}

fn compared(a: &Path, b: &Path, output: &Output) -> Ended {
    let (first, second) = (Results::load(a)?, Results::load(b)?);
    let rows = compare(&first, &second);
    let left_out = not_compared(&first, &second);
    if rows.is_empty() {
        let error = InputError::new(Kind::Inconsistent).in_file(b.display());
        let error = match [&first, &second].map(|results| results.manifest.suite.evaluations) {
            [mine, theirs] if mine != theirs => error.at("evaluations").found(theirs).expected(mine),
            _ => error.expected("an instance and a backend of the first results").help(shortened(&left_out)),
        };
        return Err(error.into());
    }
    let document = json!({ "schema": "espalier/bench-compare/1", "pairs": rows, "not_compared": left_out });
    output.answer(&document, |style| {
        let mut text = report(&rows, style);
        if !left_out.is_empty() {
            let _ = writeln!(text, "Not compared: {}.", shortened(&left_out));
        }
        text
    })?;
    Ok(ANSWERED)
}

fn report(rows: &[Compared], style: Style) -> String {
    let mut columns = vec![("instance", Align::Left), ("backend", Align::Left)];
    columns.extend(["first", "second", "A12", "p"].map(|c| (c, Align::Right)));
    columns.push(("the second is", Align::Left));
    let mut table = Table::new(&columns);
    let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.6}"));
    for r in rows {
        let texts = [r.instance.clone(), r.backend.clone(), number(r.a_median), number(r.b_median)];
        table.row(texts.into_iter().chain([format!("{:.2}", r.a12), format!("{:.3}", r.p), r.verdict.to_owned()]));
    }
    let count = |verdict: &str| rows.iter().filter(|r| r.verdict == verdict).count();
    let verdicts = ["better", "worse", "not distinguishable", "cannot tell"].map(|verdict| (count(verdict), verdict));
    let told: Vec<String> = verdicts
        .iter()
        .filter(|(n, verdict)| *n > 0 || ["better", "worse"].contains(verdict))
        .map(|(n, verdict)| format!("{n} {verdict}"))
        .collect();
    let few = if count("cannot tell") > 0 {
        "\nToo few seeds: no difference over so many pairs would be significant.\n"
    } else {
        ""
    };
    format!(
        "{}\n{} (Mann-Whitney, Holm over all pairs; medians of final objectives)\n{few}",
        table.render(style),
        told.join(", ")
    )
}
