//! What is wrong with an input: which file, which field, what was found, what would have been right.
//!
//! Every room that reads something converts its own error into [`InputError`], so that a user always sees the same
//! five answers, as text or as the JSON object of `--json`.

use serde::Serialize;
use std::fmt;

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The file does not exist or cannot be read.
    Unreadable,
    /// The file cannot be written.
    Unwritable,
    /// The text is not RON, JSON, ... at all.
    Syntax,
    /// A field that nobody knows.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// A field of the wrong type, or outside its range.
    InvalidValue,
    /// A name that is in no table.
    UnknownName,
    /// Fields that contradict each other.
    Inconsistent,
    /// Understood, but not something that can be planned with.
    Unsupported,
}

impl Kind {
    fn phrase(self) -> &'static str {
        match self {
            Kind::Unreadable => "cannot be read",
            Kind::Unwritable => "cannot be written",
            Kind::Syntax => "syntax error",
            Kind::UnknownField => "unknown field",
            Kind::MissingField => "missing field",
            Kind::InvalidValue => "invalid value",
            Kind::UnknownName => "unknown name",
            Kind::Inconsistent => "contradiction",
            Kind::Unsupported => "not supported",
        }
    }
}

/// An input that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputError {
    /// What kind of mistake.
    pub kind: Kind,
    /// Which file, if a file was read.
    pub file: Option<Box<str>>,
    /// Which field, as a path such as `pools[0].nodes`.
    pub field: Option<Box<str>>,
    /// What stands there.
    pub found: Option<Box<str>>,
    /// What would have been understood.
    pub expected: Option<Box<str>>,
    /// What to do about it.
    pub help: Option<Box<str>>,
}

impl InputError {
    /// An error of this kind that says nothing else yet.
    pub fn new(kind: Kind) -> Self {
        Self { kind, file: None, field: None, found: None, expected: None, help: None }
    }

    /// A name that is not among `known`, with the nearest one as help.
    pub fn unknown_name<'a>(found: &str, what: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let expected = if known.len() > LONGEST_LIST {
            let alike = by_likeness(found, known.iter().copied());
            let first: Vec<&str> = alike.into_iter().take(LONGEST_LIST / 2).map(|(_, name)| name).collect();
            format!("{what}, one of {} such as {}", known.len(), first.join(", "))
        } else {
            format!("{what}: {}", known.join(", "))
        };
        let error = Self::new(Kind::UnknownName).found(found).expected(expected);
        match nearest(found, known) {
            Some(name) => error.help(format!("did you mean `{name}`?")),
            None => error,
        }
    }

    /// Names the file, unless one is named already.
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.file.get_or_insert_with(|| file.to_string().into());
        self
    }

    /// Names the field.
    pub fn at(mut self, field: impl fmt::Display) -> Self {
        self.field = Some(field.to_string().into());
        self
    }

    /// Puts `outer` in front of the field: `nodes` inside `pools[0]` becomes `pools[0].nodes`.
    pub fn inside(mut self, outer: impl fmt::Display) -> Self {
        self.field = Some(match self.field {
            Some(field) => format!("{outer}.{field}").into(),
            None => outer.to_string().into(),
        });
        self
    }

    /// Says what was found.
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.found = Some(shorten(&found.to_string()).into());
        self
    }

    /// Says what was expected.
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string().into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string().into());
        self
    }

    /// The object that `--json` prints on standard error.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self })
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(self.kind.phrase())?;
        if let Some(found) = &self.found {
            write!(f, ": found `{found}`")?;
        }
        if let Some(expected) = &self.expected {
            write!(f, "{} expected {expected}", if self.found.is_some() { "," } else { ":" })?;
        }
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

/// Texts of this length are cut: nobody wants a whole file quoted back.
const LONGEST_QUOTE: usize = 120;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Longer lists of names are not shown whole, only those most alike.
const LONGEST_LIST: usize = 16;

/// Names with their Jaro-Winkler similarity to `found`, the most alike first; capitals, `-`, `_` and blanks do not count.
fn by_likeness<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<(f64, &'a str)> {
    let plain = |s: &str| s.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let wanted = plain(found);
    let mut alike: Vec<(f64, &str)> =
        names.into_iter().map(|name| (strsim::jaro_winkler(&wanted, &plain(name)), name)).collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike
}

/// The name most like `found`, if any is like it at all; spelling in capitals, `-`, `_` and blanks do not count.
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Similarity below which two names are not alike.
    const ALIKE: f64 = 0.78;
    by_likeness(found, names).first().filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_file_field_found_expected_and_help() {
        let error = InputError::new(Kind::InvalidValue)
            .at("nodes")
            .found(0)
            .expected("at least 1")
            .help("leave the pool out")
            .inside("pools[0]")
            .in_file("a.ron")
            .in_file("ignored.ron");
        let text = "a.ron: pools[0].nodes: invalid value: found `0`, expected at least 1 (leave the pool out)";
        assert_eq!(error.to_string(), text);
        let json = error.to_json();
        assert_eq!(json["error"]["kind"], "invalid_value");
        assert_eq!(json["error"]["field"], "pools[0].nodes");
    }

    #[test]
    fn the_nearest_name_is_offered_and_nonsense_is_not() {
        assert_eq!(nearest("H1O0x8", ["a100x8", "h100x8", "v100x8"]), Some("h100x8"));
        assert_eq!(nearest("micro-batch", ["tp", "micro_batch"]), Some("micro_batch"));
        assert_eq!(nearest("zzz", ["tp", "pp"]), None);
    }

    #[test]
    fn a_long_quote_is_cut_between_characters() {
        let error = InputError::new(Kind::Syntax).found("é".repeat(500));
        assert!(error.to_string().chars().count() < 200);
    }
}
