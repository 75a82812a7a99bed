//! Where answers are written: one rule for every flag that names a file. An answer takes the place of nothing but an earlier
//! answer of its kind, and never of a file that it was made from.

use super::kinds::FileKind;
use crate::cluster::file::ClusterFile;
use crate::error::{InputError, Kind};
use crate::plan::file::can_save;
use crate::read;
use crate::report::PAGE_MARK;
use serde_json::Value;
use std::path::Path;

/// Lines of an exported text that tell its kind.
const HEAD: usize = 2;
/// Characters of such a line that are compared.
const COMPARED: usize = 60;

/// What is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'t> {
    /// A plan file.
    Plan,
    /// A schedule file.
    Schedule,
    /// A cluster file.
    Cluster,
    /// A page of figures.
    Page,
    /// This text, in the form of another tool, which leaves no room for a mark.
    Export(&'t str),
}

impl Written<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Plan => "a plan file",
            Self::Schedule => "a schedule file",
            Self::Cluster => "a cluster file",
            Self::Page => "a page that espalier wrote",
            Self::Export(_) => "an export of the same form",
        }
    }

    /// Whether `text` is an earlier answer of this kind.
    fn is(self, text: &str, name: &str) -> bool {
        match self {
            Self::Plan => FileKind::of(text) == Some(FileKind::Plan),
            Self::Schedule => FileKind::of(text) == Some(FileKind::Schedule),
            Self::Cluster => read::parse::<ClusterFile>(text, name).is_ok(),
            Self::Page => text.contains(PAGE_MARK),
            Self::Export(new) => alike(text, new),
        }
    }
}

/// Whether two texts in a form of another tool are of the same form: the same keys at the top of a JSON, or first lines that
/// differ in numbers only (of comma-separated ones, their first cell).
fn alike(old: &str, new: &str) -> bool {
    match (serde_json::from_str::<Value>(old), serde_json::from_str::<Value>(new)) {
        (Ok(old), Ok(new)) => {
            let (old, new) = (keys(&old), keys(&new));
            let shared = old.iter().filter(|key| new.contains(key)).count();
            2 * shared >= (old.len() + new.len() - shared).max(1)
        }
        (Err(_), Err(_)) => head(old) == head(new),
        _ => false,
    }
}

fn keys(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => fields.keys().map(String::as_str).collect(),
        Value::Array(list) => list.first().map(keys).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn head(text: &str) -> Vec<String> {
    let shape = |line: &str| {
        let cell = line.split(',').next().unwrap_or_default();
        let mut shape = String::new();
        for c in cell.chars().take(COMPARED) {
            let c = if c.is_ascii_digit() { '0' } else { c };
            if !(c == '0' && shape.ends_with('0')) {
                shape.push(c);
            }
        }
        shape
    };
    text.lines().filter(|line| !line.trim().is_empty()).take(HEAD).map(shape).collect()
}

/// Whether `what` may be written to `path`, having been made from `inputs`.
///
/// # Errors
/// When nothing can be written there, when it is one of the inputs, or a file of another kind.
pub(super) fn may_write(path: &Path, what: Written<'_>, inputs: &[&Path]) -> Result<(), InputError> {
    can_save(path)?;
    let same = |input: &&&Path| matches!((input.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if inputs.iter().any(|input| same(&input)) {
        let error = InputError::new(Kind::Inconsistent).in_file(path.display()).found("a file that is read");
        return Err(error.expected("another name for what is written").help("it is left as it is"));
    }
    // Devices and pipes hold nothing to lose.
    if !path.is_file() {
        return Ok(());
    }
    let expected = format!("{}, or a new name", what.name());
    let help = "it is left as it is";
    let foreign = InputError::new(Kind::Unwritable).in_file(path.display());
    let Ok(text) = read::text(path) else { return Err(foreign.expected(expected).help(help)) };
    if text.trim().is_empty() || what.is(&text, &path.display().to_string()) {
        return Ok(());
    }
    let error = match FileKind::of(&text) {
        Some(kind) => kind.instead_of(&expected, path.display()),
        None => foreign.expected(expected),
    };
    Err(InputError { kind: Kind::Unwritable, help: Some(help.into()), ..error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_tools_are_told_apart_by_their_keys_or_first_lines() {
        assert!(alike("0F0,0F1,0F2\n1F0,1F1", "0F0,0B0\n1F0"));
        assert!(!alike("id,usable\n1,2", "0F0,0B0\n1F0"));
        assert!(!alike("id,usable\n1,2", "{\"a\": 1}"));
        assert!(alike("{\"a\": 1, \"b\": 2}", "{\"a\": 3, \"b\": 4, \"c\": 5}"));
        assert!(!alike("{\"mine\": 1}", "{\"a\": 3}"));
        assert!(alike("<svg width=\"10\">", "<svg width=\"2000\">") && !alike("<svg>", "<html>"));
    }
}
