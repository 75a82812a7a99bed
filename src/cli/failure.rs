//! Why a command has no answer, how that is told, and with which exit code.

use super::output::{Output, say};
use super::{ANSWERED, BAD_INPUT, DOES_NOT_FIT, ILLEGAL, INTERNAL, INTERRUPTED, NO_PLAN};
use crate::error::{InputError, Kind};
use crate::report;
use crate::search::budget::Stop;
use crate::space::answer::Infeasible;
use crate::space::planner::PlanError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Value, json};
use std::error::Error;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The input is wrong.
    Input(InputError),
    /// Nothing fits.
    Infeasible(Box<Infeasible>),
    /// What is asked for fits nowhere; what would.
    DoesNotFit(InputError),
    /// The target does not take it.
    Illegal(InputError),
    /// The search stopped before it had a plan.
    NoPlan(Stop),
    /// A fault of this program, or of the machine it runs on.
    Internal(String),
}

impl Failure {
    /// Names the file of what is wrong with a plan or its question; flags are in no file.
    pub(super) fn of_file(self, path: &std::path::Path) -> Self {
        const ROOTS: [&str; 7] = ["plan", "schedule", "question", "model", "cluster", "job", "search"];
        let named = |e: InputError| {
            let root = e.field.as_deref().and_then(|field| field.split(['.', '[']).next());
            let inside = root.is_some_and(|root| ROOTS.contains(&root));
            if inside { e.in_file(path.display()) } else { e }
        };
        match self {
            Failure::Input(e) => Failure::Input(named(e)),
            Failure::Illegal(e) => Failure::Illegal(named(e)),
            other => other,
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Input(e) => Failure::Input(e),
            PlanError::Infeasible(why) => Failure::Infeasible(why),
            PlanError::NoPlan(stop) => Failure::NoPlan(stop),
            PlanError::Internal(e) => Failure::Internal(e.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Input(InputError::new(Kind::Unwritable).in_file("standard output").help(error))
    }
}

/// An error object with all of its keys.
fn object(kind: &str, found: Option<String>, expected: Option<String>, help: Option<String>) -> Value {
    json!({ "kind": kind, "file": null, "field": null, "found": found, "expected": expected, "help": help })
}

impl Failure {
    /// Tells it on standard error; the exit code.
    pub(super) fn report(self, output: &Output) -> u8 {
        let style = output.error_style();
        let error = style.bad("error:");
        let (code, text, document) = match self {
            Failure::Input(e) => (BAD_INPUT, format!("{error} {e}"), e.to_json()),
            Failure::Infeasible(why) => {
                let found = why.needed_bytes.map(|b| format!("{b:.0} bytes needed on the fullest device"));
                let expected = format!("at most {:.0} bytes", why.available_bytes);
                let help: Vec<&str> = why.fixes.iter().map(|f| f.change.as_str()).collect();
                let help = (!help.is_empty()).then(|| help.join("; "));
                let document =
                    json!({ "error": object("infeasible", found, Some(expected), help), "infeasible": &*why });
                (DOES_NOT_FIT, report::infeasible(&why, style), document)
            }
            Failure::DoesNotFit(e) => {
                let mut document = e.to_json();
                document["error"]["kind"] = "infeasible".into();
                (DOES_NOT_FIT, format!("{error} {e}"), document)
            }
            Failure::Illegal(e) => (ILLEGAL, format!("{error} {e}"), e.to_json()),
            Failure::NoPlan(Stop::Interrupted) => {
                let text = "interrupted before there was a plan that fits";
                (INTERRUPTED, format!("{error} {text}"), json!({ "error": object("interrupted", None, None, None) }))
            }
            Failure::NoPlan(stop) => {
                let (found, help) = match stop {
                    Stop::Deadline => ("the time limit was met", "a larger --max-time"),
                    Stop::Evaluations => ("the evaluations were used up", "a larger --max-evals, or --backend auto"),
                    _ => ("the search stopped", "another --seed, or --backend auto"),
                };
                let text = format!("{error} {found} before there was a plan that fits; try {help}");
                let document = object("no_plan", Some(found.to_owned()), None, Some(format!("try {help}")));
                (NO_PLAN, text, json!({ "error": document }))
            }
            Failure::Internal(why) => {
                let help = "this is a fault of the program, please report it";
                let document = object("internal", Some(why.clone()), None, Some(help.to_owned()));
                (INTERNAL, format!("{error} internal: {why} ({help})"), json!({ "error": document }))
            }
        };
        say(&if output.json { document.to_string() } else { text });
        code
    }
}

/// Arguments that were not understood, or that ask for help; the exit code.
pub(super) fn usage(error: &clap::Error, json: bool) -> u8 {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader of the help that went away needs no more of it.
        let _ = error.print();
        return if error.use_stderr() { BAD_INPUT } else { ANSWERED };
    }
    let input = input_error(error);
    match (json, error.source().is_some_and(|s| s.is::<InputError>())) {
        (true, _) => say(&input.to_json().to_string()),
        (false, true) => say(&format!("error: {input}")),
        (false, false) => {
            let _ = error.print();
        }
    }
    BAD_INPUT
}

fn input_error(error: &clap::Error) -> InputError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let flag = context(ContextKind::InvalidArg).or_else(|| context(ContextKind::InvalidSubcommand));
    let flag = flag.map(|f| f.split([' ', '=']).next().unwrap_or_default().to_owned());
    let mut input = match error.source().and_then(|s| s.downcast_ref::<InputError>()) {
        Some(known) => known.clone(),
        None => {
            let kind = match error.kind() {
                ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => Kind::UnknownName,
                ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => Kind::MissingField,
                ErrorKind::ArgumentConflict => Kind::Inconsistent,
                _ => Kind::InvalidValue,
            };
            let mut input = InputError::new(kind);
            if let Some(value) = context(ContextKind::InvalidValue) {
                input = input.found(value);
            }
            if let Some(valid) = context(ContextKind::ValidValue) {
                input = input.expected(format!("one of {valid}"));
            } else if let Some(source) = error.source() {
                input = input.expected(source);
            } else if input.found.is_none() {
                let first = error.to_string();
                let first = first.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                input = input.found(first);
            }
            let near = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
            match near.into_iter().find_map(context) {
                Some(near) => input.help(format!("did you mean `{}`?", near.replace(", ", "` or `"))),
                None => input,
            }
        }
    };
    if let Some(flag) = flag.filter(|f| !f.is_empty()) {
        input = match input.field.take() {
            // The parser of the value may name a part of it.
            Some(inner) => input.at(format!("{flag} {inner}")),
            None => input.at(flag),
        };
    }
    input
}
