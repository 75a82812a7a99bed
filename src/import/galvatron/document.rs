//! A JSON file with its name, so that every complaint says where.

use super::error::GalvatronImportError;
use serde_json::{Map, Value};
use std::path::Path;

/// A JSON object with the name of its file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// As shown in errors.
    pub file: String,
    /// The top level.
    pub object: Map<String, Value>,
}

/// A value as shown in errors: short.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(map) => format!("an object of {} keys", map.len()),
        Value::Array(items) => format!("a list of {}", items.len()),
        other => other.to_string(),
    }
}

impl Document {
    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Self, GalvatronImportError> {
        let file = path.display().to_string();
        let text = crate::read::text(path).map_err(|e| GalvatronImportError::File {
            file: file.clone(),
            found: e.help.unwrap_or_default().into(),
            expected: "a readable JSON file".to_owned(),
        })?;
        Self::parse(file, &text)
    }

    /// Reads `text`, called `file`.
    pub fn parse(file: String, text: &str) -> Result<Self, GalvatronImportError> {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(object)) => Ok(Self { file, object }),
            Ok(other) => Err(GalvatronImportError::Value {
                file,
                key: "(top level)".to_owned(),
                found: shown(&other),
                expected: "an object".to_owned(),
            }),
            Err(e) => Err(GalvatronImportError::Json { file, found: e.to_string() }),
        }
    }

    /// That `key` holds `found` and not `expected`.
    pub fn wrong(&self, key: &str, found: &Value, expected: &str) -> GalvatronImportError {
        GalvatronImportError::Value {
            file: self.file.clone(),
            key: key.to_owned(),
            found: shown(found),
            expected: expected.to_owned(),
        }
    }

    /// That `key` is absent.
    pub fn missing(&self, key: &str, expected: impl Into<String>) -> GalvatronImportError {
        GalvatronImportError::Missing { file: self.file.clone(), key: key.to_owned(), expected: expected.into() }
    }

    /// A finite number of at least `least` (or above it, if `strictly`).
    pub fn number(&self, key: &str, value: &Value, least: f64, strictly: bool) -> Result<f64, GalvatronImportError> {
        let expected = || format!("a number {} {least}", if strictly { "above" } else { "of at least" });
        match value.as_f64() {
            Some(x) if x.is_finite() && (x > least || (!strictly && x == least)) => Ok(x),
            _ => Err(self.wrong(key, value, &expected())),
        }
    }

    /// An object under `parent`.
    pub fn object_at<'a>(
        &self,
        parent: &'a Map<String, Value>,
        path: &str,
        key: &str,
    ) -> Result<&'a Map<String, Value>, GalvatronImportError> {
        let full = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match parent.get(key) {
            Some(Value::Object(map)) => Ok(map),
            Some(other) => Err(self.wrong(&full, other, "an object")),
            None => Err(self.missing(&full, format!("one beside {}", names(parent)))),
        }
    }
}

/// The keys of an object, for errors; long lists are cut.
pub(super) fn names(map: &Map<String, Value>) -> String {
    const SHOWN: usize = 12;
    let mut out: Vec<String> = map.keys().take(SHOWN).map(|k| format!("`{k}`")).collect();
    if map.len() > SHOWN {
        out.push(format!("{} more", map.len() - SHOWN));
    }
    if out.is_empty() { "nothing".to_owned() } else { out.join(", ") }
}
