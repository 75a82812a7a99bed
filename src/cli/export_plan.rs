//! `espalier export` of a plan: launch files of a framework.

use super::given::{GivenArgs, load};
use super::output::{Output, say};
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, Failure, ILLEGAL};
use crate::error::{InputError, Kind};
use crate::export::view::View;
use crate::export::{Form, megatron, write};
use crate::report;
use crate::rules::Broken;
use serde_json::json;
use std::path::Path;

/// Writes the plan of `file` for `form`, into the folder `into` or to standard output.
pub(super) fn run(
    file: &Path,
    form: Form,
    name: &str,
    into: Option<&Path>,
    args: &GivenArgs,
    output: &Output,
) -> Ended {
    let given = load(file, args)?;
    let view = View::new(&given.inputs.model, &given.inputs.job, given.inputs.pool()?, &given.plan)
        .map_err(|e| Failure::from(e).of_file(file))?;
    let bundle = write(form, &view);
    // Exported lines of Megatron must pass its rules: what is broken here is broken in the plan.
    let broken: Vec<Broken> = match form {
        Form::Megatron | Form::Slurm | Form::Bridge => crate::rules::megatron::broken(&megatron::launch(&view)?),
        _ => Vec::new(),
    };
    if let Some(folder) = into {
        let unwritable =
            |e: std::io::Error, path: &Path| InputError::new(Kind::Unwritable).in_file(path.display()).help(e);
        std::fs::create_dir_all(folder).map_err(|e| unwritable(e, folder))?;
        for made in &bundle.files {
            may_write(&folder.join(&made.name), Written::Export(&made.text), &[file])?;
        }
        for file in &bundle.files {
            let path = folder.join(&file.name);
            std::fs::write(&path, &file.text).map_err(|e| unwritable(e, &path))?;
            say(&format!("written to {}", path.display()));
        }
    }
    let text = bundle.files.first().map(|f| f.text.clone()).unwrap_or_default();
    let document = json!({
        "schema": "espalier/export/1",
        "to": name,
        "text": text,
        "files": bundle.files,
        "losses": bundle.losses,
        "legal": broken.is_empty(),
        "broken_rules": broken,
        "notes": given.notes,
    });
    if into.is_none() || output.json {
        // On standard output the script alone, so that it can be piped; the map of ranks is in the folder and in JSON.
        output.answer(&document, |_| text.clone())?;
    }
    if !output.json {
        for loss in &bundle.losses {
            say(&format!("{name} cannot say: {}; nearest: {}", loss.what, loss.nearest));
        }
        if !broken.is_empty() {
            let told = report::LaunchReport {
                target: name,
                version: crate::rules::megatron::VERSION,
                refused: &broken,
                later: &[],
                advice: &[],
                derived: &serde_json::Value::Null,
            };
            say(&report::launch(&told, output.error_style()));
        }
    }
    Ok(if broken.is_empty() { ANSWERED } else { ILLEGAL })
}
