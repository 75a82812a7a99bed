//! `espalier schema` and `espalier completions`.

use super::output::Output;
use super::{ANSWERED, Cli, Ended, Failure};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::io::{ErrorKind, Write};

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The format
    #[arg(value_enum, value_name = "FORMAT")]
    format: Format,
}

/// A format that files have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plan files
    Plan,
    /// Cluster files
    Cluster,
    /// Question and search files
    Search,
    /// Rows of tables of runs and of memory, as `accuracy` and `calibrate` read them
    Runs,
}

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Known,
}

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Known {
    /// Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// Prints a schema.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let text = match args.format {
        Format::Plan => include_str!("schema/plan.json").to_owned(),
        Format::Cluster => include_str!("schema/cluster.json").to_owned(),
        Format::Search => include_str!("schema/search.json").to_owned(),
        Format::Runs => format!("{:#}\n", crate::accuracy::cells::schema()),
    };
    let document = serde_json::from_str(&text).map_err(|e| Failure::Internal(e.to_string()))?;
    output.answer(&document, |_| text.clone())?;
    Ok(ANSWERED)
}

/// Prints completions.
pub(super) fn completions(args: &Completions) -> Ended {
    let shell = match args.shell {
        Known::Bash => Shell::Bash,
        Known::Zsh => Shell::Zsh,
        Known::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "espalier", &mut text);
    match std::io::stdout().lock().write_all(&text) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ANSWERED),
    }
}
