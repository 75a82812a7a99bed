//! `espalier backends`: what each search algorithm does, its parameters with defaults and sources, when to use it.

use super::output::Output;
use super::{ANSWERED, Ended};
use crate::error::InputError;
use crate::report::{Align, Style, Table};
use crate::search::erased::Erased;
use crate::search::registry::{Entry, entries};
use serde_json::{Value, json};
use std::fmt::Write;

/// Arguments of `backends`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Tell all about one of them
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    // What is told of a backend does not depend on the problem.
    let all = entries::<Erased<'_>>();
    let Some(name) = &args.name else {
        let document = json!({
            "schema": "espalier/backends/1",
            "backends": all.iter().map(object).collect::<Vec<_>>(),
        });
        output.answer(&document, |style| list(&all, style))?;
        return Ok(ANSWERED);
    };
    // A preset is told about on the page of its backend.
    let backend = name.split('.').next().unwrap_or(name).trim();
    let known = crate::space::backends::names().iter().any(|known| known.eq_ignore_ascii_case(name.trim()));
    let Some(entry) = all.iter().find(|entry| known && entry.name.eq_ignore_ascii_case(backend)) else {
        return Err(InputError::unknown_name(name, "a backend", all.iter().map(|entry| entry.name)).at("NAME").into());
    };
    let document = json!({ "schema": "espalier/backends/1", "backends": [object(entry)] });
    output.answer(&document, |style| page(entry, style))?;
    Ok(ANSWERED)
}

fn object(entry: &Entry<'_, Erased<'_>>) -> Value {
    let defaults = (entry.defaults)();
    let parameters: Vec<Value> = entry
        .page
        .parameters
        .iter()
        .map(|p| json!({ "name": p.name, "default": defaults[p.name], "range": p.range.words(), "meaning": p.meaning, "source": p.source }))
        .collect();
    let presets: Vec<Value> = entry
        .page
        .presets
        .iter()
        .map(|p| {
            let parameters: Value = serde_json::from_str(p.parameters).unwrap_or_default();
            json!({ "name": format!("{}.{}", entry.name, p.name), "meaning": p.meaning, "source": p.source, "parameters": parameters })
        })
        .collect();
    json!({
        "name": entry.name,
        "summary": entry.page.summary,
        "source": entry.page.source,
        "when": entry.page.when,
        "presets": presets,
        "parameters": parameters,
    })
}

fn list(all: &[Entry<'_, Erased<'_>>], style: Style) -> String {
    let mut table = Table::new(&[("backend", Align::Left), ("what it does", Align::Left)]);
    for entry in all {
        table.row([entry.name.to_owned(), entry.page.summary.to_owned()]);
    }
    format!("{}\nMore about one: espalier backends NAME\n", table.render(style))
}

fn page(entry: &Entry<'_, Erased<'_>>, style: Style) -> String {
    let defaults = (entry.defaults)();
    let mut words = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let page = entry.page;
    for (what, text) in [("does", page.summary), ("source", page.source), ("when", page.when)] {
        words.row([what.to_owned(), text.to_owned()]);
    }
    let mut text = format!("{}\n\n{}", entry.name, words.render(style));
    let columns =
        [("parameter", Align::Left), ("default", Align::Left), ("meaning; where the default is from", Align::Left)];
    let mut table = Table::new(&columns);
    for p in page.parameters {
        table.row([p.name.to_owned(), short(&defaults[p.name]), format!("{} ({})", p.meaning, p.source)]);
    }
    if !page.parameters.is_empty() {
        let _ = write!(text, "\n{}", table.render(style));
    }
    if !page.presets.is_empty() {
        let mut table = Table::new(&[("preset", Align::Left), ("what it is; its parameters", Align::Left)]);
        for p in page.presets {
            let name = format!("{}.{}", entry.name, p.name);
            table.row([name, format!("{} ({})", p.meaning, p.source)]);
            table.row([String::new(), p.parameters.to_owned()]);
        }
        let _ = write!(text, "\n{}", table.render(style));
    }
    text
}

fn short(value: &Value) -> String {
    match value {
        Value::Array(stages) => {
            let stage = |s: &Value| format!("{} {}", s["backend"].as_str().unwrap_or_default(), s["share"]);
            stages.iter().map(stage).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
