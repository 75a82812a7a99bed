//! Reads a RON or JSON text into a type, with errors that name the field.
//!
//! The format is taken from the file's extension, else from the first character: JSON objects begin with `{` and a
//! quoted key, RON structs with `(` or a name. In RON, `Some(..)` may be left out.

use crate::error::{InputError, Kind, nearest};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Files above this size are not questions or clusters, in bytes.
const LARGEST_FILE: u64 = 64 << 20;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Rusty Object Notation.
    Ron,
    /// JavaScript Object Notation.
    Json,
}

impl Format {
    /// From the extension of `name`, else from how `text` begins.
    pub fn of(name: &str, text: &str) -> Self {
        let extension = Path::new(name).extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("json") => Format::Json,
            Some("ron") => Format::Ron,
            _ if text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']) => Format::Json,
            _ => Format::Ron,
        }
    }
}

/// The text of a file.
pub fn text(path: &Path) -> Result<String, InputError> {
    let unreadable = |why: String| InputError::new(Kind::Unreadable).in_file(path.display()).help(why);
    let metadata = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a file".to_owned()));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(unreadable(format!("it has {} bytes, the limit is {LARGEST_FILE}", metadata.len())));
    }
    let bytes = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| unreadable(e.to_string()))
}

/// Reads and parses a file.
pub fn file<T: DeserializeOwned>(path: &Path) -> Result<T, InputError> {
    parse(&text(path)?, &path.display().to_string())
}

/// Parses `text`; `name` is the file to name in errors.
pub fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, InputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match Format::of(name, text) {
        Format::Json => json(text),
        Format::Ron => ron(text),
    }
    .map_err(|e| e.in_file(name))
}

/// RON as we read and write it.
pub fn ron_options() -> ron::Options {
    ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME)
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, InputError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = e.path().to_string();
        let inner = e.into_inner();
        let (line, column) = (inner.line(), inner.column());
        let message = inner.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        let error = if inner.is_syntax() || inner.is_eof() {
            InputError::new(Kind::Syntax).expected(format!("JSON: {message}"))
        } else {
            from_message(message)
        };
        locate(error, &path, line, column)
    })?;
    reader
        .end()
        .map_err(|e| locate(InputError::new(Kind::Syntax).expected("one JSON value"), ".", e.line(), e.column()))?;
    Ok(value)
}

fn ron<T: DeserializeOwned>(text: &str) -> Result<T, InputError> {
    ron_once(text).map_err(|refused| match refused.beyond {
        Some(number) => beyond_bounds::<T>(text, number, refused.error),
        None => refused.error,
    })
}

/// An error, and where the whole number stands that is beyond its type.
struct Refused {
    error: InputError,
    beyond: Option<std::ops::Range<usize>>,
}

impl From<InputError> for Refused {
    fn from(error: InputError) -> Self {
        Self { error, beyond: None }
    }
}

/// Says which whole numbers would have been understood in place of `number`: found out by trying, for the type is not told.
fn beyond_bounds<T: DeserializeOwned>(text: &str, number: std::ops::Range<usize>, error: InputError) -> InputError {
    const ENDS: [&str; 8] =
        ["18446744073709551615", "9223372036854775807", "4294967295", "2147483647", "65535", "32767", "255", "127"];
    let understood = |value: &str| {
        let tried = format!("{}{value}{}", &text[..number.start], &text[number.end..]);
        !ron_once::<T>(&tried).is_err_and(|refused| refused.beyond.is_some_and(|at| at.start == number.start))
    };
    let Some(most) = ENDS.into_iter().find(|end| understood(end)) else { return error };
    // Negative ones reach one further.
    let signed = |most: &str| most.parse::<i128>().map_or(0, |most| -most - 1);
    let least = if understood("-1") { signed(most) } else { 0 };
    error.found(&text[number]).expected(format!("a whole number, {least} to {most}"))
}

/// Where a whole number stands that ends, or has its end, at `line` and `column` (both from one; columns in characters).
fn number_at(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let start = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum::<usize>();
    let offset = text[start..].char_indices().nth(column.checked_sub(1)?).map_or(text.len(), |(at, _)| start + at);
    let part = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'+' | b'_');
    let bytes = text.as_bytes();
    // The position may be behind the number, with blanks between.
    let end = bytes[..offset].iter().rposition(|c| part(*c))? + 1;
    let end = end + bytes[end..].iter().take_while(|c| end == offset && part(**c)).count();
    let begin = bytes[..end].iter().rposition(|c| !part(*c)).map_or(0, |before| before + 1);
    bytes[begin..end].iter().any(u8::is_ascii_digit).then_some(begin..end)
}

fn ron_once<T: DeserializeOwned>(text: &str) -> Result<T, Refused> {
    let mut reader = ron::de::Deserializer::from_str_with_options(text, &ron_options()).map_err(|e| {
        let error = InputError::new(Kind::Syntax).expected(format!("RON: {}", e.code));
        locate(error, ".", e.span.start.line, e.span.start.col)
    })?;
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = e.path().to_string();
        let spanned = reader.span_error(e.into_inner());
        let mut error = from_ron(&spanned.code);
        if path == "." && error.found.is_none() && error.field.is_none() {
            error.kind = Kind::Syntax;
        }
        let end = spanned.span.end;
        let beyond = matches!(spanned.code, ron::Error::IntegerOutOfBounds);
        let beyond = beyond.then(|| number_at(text, end.line, end.col)).flatten();
        Refused { error: locate(error, &path, end.line, end.col), beyond }
    })?;
    reader.end().map_err(|e| {
        let spanned = reader.span_error(e);
        let error = InputError::new(Kind::Syntax).expected("one RON value");
        locate(error, ".", spanned.span.start.line, spanned.span.start.col)
    })?;
    Ok(value)
}

/// Adds the path of the field (`.` is the whole text, `?` something between fields) and the position.
fn locate(error: InputError, path: &str, line: usize, column: usize) -> InputError {
    let path = path.trim_end_matches('?').trim_end_matches('.');
    let error = match (path, &error.field) {
        ("", _) => error,
        // The path often ends in the very field that the error names.
        (path, Some(field)) if path == &**field || path.ends_with(&format!(".{field}")) => error.at(path),
        (path, _) => error.inside(path),
    };
    let position = format!("line {line}, column {column}");
    let help = match &error.help {
        Some(help) => format!("{help}; {position}"),
        None => position,
    };
    error.help(help)
}

fn from_ron(error: &ron::Error) -> InputError {
    use ron::Error as E;
    match error {
        E::NoSuchStructField { expected, found, .. } => unknown_field(found, expected.iter().copied()),
        E::MissingStructField { field, .. } => InputError::new(Kind::MissingField).at(field),
        E::DuplicateStructField { field, .. } => InputError::new(Kind::Syntax).at(field).expected("the field once"),
        E::NoSuchEnumVariant { expected, found, .. } => {
            InputError::unknown_name(found, "one of", expected.iter().copied())
        }
        E::InvalidValueForType { expected, found } => {
            InputError::new(Kind::InvalidValue).found(found).expected(expected)
        }
        E::IntegerOutOfBounds => {
            InputError::new(Kind::InvalidValue).found("a number out of bounds").expected("a 64-bit integer")
        }
        E::ExpectedInteger => InputError::new(Kind::InvalidValue).expected("a whole number"),
        E::ExpectedFloat => InputError::new(Kind::InvalidValue).expected("a number"),
        E::ExpectedBoolean => InputError::new(Kind::InvalidValue).expected("`true` or `false`"),
        E::ExpectedString => InputError::new(Kind::InvalidValue).expected("a text in quotes"),
        E::ExpectedArray => InputError::new(Kind::InvalidValue).expected("a list in `[ ]`"),
        E::ExpectedNamedStructLike(_) | E::ExpectedStructLike => {
            InputError::new(Kind::InvalidValue).expected("fields in `( )`")
        }
        E::ExpectedIdentifier => InputError::new(Kind::Syntax).expected("a bare name, without quotes"),
        E::Message(message) => from_message(message),
        other => InputError::new(Kind::Syntax).expected(format!("RON: {other}")),
    }
}

/// The error that a message of serde's stands for, for values that were read already.
pub(crate) fn explain(message: &str) -> InputError {
    from_message(message)
}

/// Takes apart the messages that serde itself words (`unknown field`, `missing field`, `invalid type`, ...).
fn from_message(message: &str) -> InputError {
    let quoted = || message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") {
        let found = quoted().next().unwrap_or_default().to_owned();
        return unknown_field(&found, quoted().skip(1));
    }
    if message.starts_with("unknown variant") {
        let found = quoted().next().unwrap_or_default().to_owned();
        return InputError::unknown_name(&found, "one of", quoted().skip(1));
    }
    if message.starts_with("duplicate field") {
        return InputError::new(Kind::Syntax).at(quoted().next().unwrap_or_default()).expected("the field once");
    }
    if message.starts_with("missing field") {
        return InputError::new(Kind::MissingField).at(quoted().next().unwrap_or_default());
    }
    if let Some(rest) = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: ")) {
        let (found, expected) = rest.split_once(", expected ").unwrap_or((rest, "something else"));
        return InputError::new(Kind::InvalidValue).found(found.replace('`', "")).expected(plainly(expected));
    }
    if let Some((found, expected)) = message.strip_prefix("found `").and_then(|rest| rest.split_once("`, expected ")) {
        return InputError::new(Kind::InvalidValue).found(found).expected(expected);
    }
    InputError::new(Kind::InvalidValue).expected(message)
}

/// What serde expects, without the words of this language.
fn plainly(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, zero or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "string" | "str" => "a text",
        _ if expected.starts_with("struct ") || expected == "a map" => "an object with named fields",
        other => other,
    }
}

fn unknown_field<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> InputError {
    let known: Vec<&str> = known.into_iter().collect();
    let error = InputError::new(Kind::UnknownField).at(found).found(found);
    let error = if known.is_empty() { error } else { error.expected(format!("one of {}", known.join(", "))) };
    match nearest(found, known) {
        Some(name) => error.help(format!("did you mean `{name}`?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        memory: Bytes,
        count: u64,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        inner: Vec<Inner>,
        note: Option<String>,
    }

    #[test]
    fn ron_and_json_mean_the_same() {
        let ron: Outer = parse("(inner: [(memory: \"80GB\", count: 2)], note: \"x\")", "a.ron").unwrap();
        let json: Outer = parse("{\"inner\": [{\"memory\": \"80GB\", \"count\": 2}], \"note\": \"x\"}", "a").unwrap();
        assert_eq!(ron, json);
        assert_eq!(ron.inner[0].memory, Bytes(80e9));
    }

    #[test]
    fn errors_name_the_field_in_both_formats() {
        let cases = [
            ("(inner: [(memory: \"80GB\", cuont: 2)])", "inner[0].cuont", Kind::UnknownField),
            ("{\"inner\": [{\"memory\": \"80GB\", \"cuont\": 2}]}", "inner[0].cuont", Kind::UnknownField),
            ("(inner: [(memory: \"80GB\")])", "inner[0].count", Kind::MissingField),
            ("{\"inner\": [{\"memory\": \"80GB\"}]}", "inner[0].count", Kind::MissingField),
            ("(inner: [(memory: \"80XB\", count: 1)])", "inner[0].memory", Kind::InvalidValue),
            ("{\"inner\": [{\"memory\": \"80XB\", \"count\": 1}]}", "inner[0].memory", Kind::InvalidValue),
            ("{\"inner\": [{\"memory\": 1, \"count\": \"x\"}]}", "inner[0].count", Kind::InvalidValue),
            ("(inner: [(memory: 1, count: \"x\")])", "inner[0].count", Kind::InvalidValue),
            ("(inner: [(memory: 1, count: -1)])", "inner[0].count", Kind::InvalidValue),
        ];
        for (text, field, kind) in cases {
            let error = parse::<Outer>(text, "f").unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{text}: {error}");
            assert_eq!(error.kind, kind, "{text}: {error}");
            assert_eq!(error.file.as_deref(), Some("f"));
            assert!(error.help.as_deref().unwrap_or_default().contains("line 1"), "{error}");
        }
        let error = parse::<Outer>("(inner: [(memory: \"80GB\", cuont: 2)])", "f").unwrap_err();
        assert!(error.to_string().contains("did you mean `count`?"), "{error}");
    }

    #[test]
    fn whole_numbers_beyond_their_type_are_told_with_its_range() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Sizes {
            #[serde(default)]
            large: u64,
            #[serde(default)]
            small: u8,
            #[serde(default)]
            signed: i32,
            #[serde(default)]
            maybe: Option<u32>,
        }
        let range = |most: &str| format!("a whole number, {most}");
        for (field, found, most) in [
            ("large", "-1", "0 to 18446744073709551615"),
            ("large", "99999999999999999999", "0 to 18446744073709551615"),
            ("small", "256", "0 to 255"),
            ("small", "-3", "0 to 255"),
            ("signed", "2147483648", "-2147483648 to 2147483647"),
            ("maybe", "4294967296", "0 to 4294967295"),
        ] {
            for text in [format!("({field}: {found})"), format!("(\n  // é\n  {field} : {found} , )\n")] {
                let error = parse::<Sizes>(&text, "f.ron").unwrap_err();
                let said = (error.field.as_deref(), error.found.as_deref(), error.expected.as_deref());
                assert_eq!(said, (Some(field), Some(found), Some(&*range(most))), "{text}: {error}");
            }
        }
        let all: Sizes = parse("(large: 18446744073709551615, small: 255, signed: -1, maybe: 3)", "f.ron").unwrap();
        assert_eq!((all.large, all.small, all.signed, all.maybe), (u64::MAX, 255, -1, Some(3)));
    }

    #[test]
    fn what_is_neither_is_a_syntax_error() {
        for text in ["", "(", "{", "(inner: [])garbage", "{\"inner\": []} x", "\u{0}", "(inner: [(memory: \"1GB\""] {
            let error = parse::<Outer>(text, "f").unwrap_err();
            assert_eq!(error.kind, Kind::Syntax, "{text}: {error}");
        }
    }
}
