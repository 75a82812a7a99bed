//! Models from the `config.json` of the Hugging Face hub.
//!
//! Shapes come from the config, everything that a config does not say (biases, norms, which layers have experts, default
//! ties) from the rules of its family, `model_type`. Keys without meaning for the costs are let through; a key that
//! looks misspelt, or that would make another model, is an error.

use super::Model;
use super::error::{Details, ModelError};
use super::families;
use super::fields::Fields;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;

/// Larger files are not configs.
const MAX_FILE: u64 = 16 << 20;
/// More parameters are taken for a mistake: a thousand times the largest published model.
const MAX_PARAMETERS: u128 = 1_000_000_000_000_000;

/// Every `model_type` that can be imported, sorted.
pub fn families() -> Vec<&'static str> {
    families::names()
}

/// Reads a config. `treat_as` names the family whose rules are to be used in place of the file's `model_type`.
///
/// The model is called by the file's stem, or by its folder where the file is plain `config.json`.
///
/// # Errors
/// See [`ModelError`]; every error names the file, and the field where there is one.
pub fn from_path(path: &Path, treat_as: Option<&str>) -> Result<Model, ModelError> {
    let file = path.display().to_string();
    let unreadable = |found: String| Details::file(&file).found(found).expected("a config.json file");
    let meta = std::fs::metadata(path).map_err(|e| ModelError::Unreadable(unreadable(e.to_string())))?;
    if meta.is_dir() {
        let details = unreadable("a directory".into());
        let inner = path.join("config.json");
        return Err(ModelError::Unreadable(if inner.is_file() {
            details.help(format!("name the file in it: {}", inner.display()))
        } else {
            details
        }));
    }
    if !meta.is_file() {
        return Err(ModelError::Unreadable(unreadable("it is not a file".into())));
    }
    if meta.len() > MAX_FILE {
        return Err(ModelError::Unreadable(unreadable(format!("{} bytes", meta.len()))));
    }
    let bytes = std::fs::read(path).map_err(|e| ModelError::Unreadable(unreadable(e.to_string())))?;
    let text =
        String::from_utf8(bytes).map_err(|_| ModelError::Unreadable(unreadable("bytes that are no text".into())))?;
    let stem = |p: &Path| p.file_stem().map(|s| s.to_string_lossy().into_owned());
    let own = stem(path).unwrap_or_else(|| file.clone());
    let folder = || path.parent().and_then(|p| p.file_name()).map(|s| s.to_string_lossy().into_owned());
    let name = if own == "config" { folder().unwrap_or(own) } else { own };
    import(&file, &name, &text, treat_as)
}

/// Reads a config from a text; `name` is the model's and stands for the file in errors.
///
/// # Errors
/// As [`from_path`].
pub fn from_json(name: &str, text: &str, treat_as: Option<&str>) -> Result<Model, ModelError> {
    import(name, name, text, treat_as)
}

fn import(file: &str, name: &str, text: &str, treat_as: Option<&str>) -> Result<Model, ModelError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Unique = serde_json::from_str(text).map_err(|e| {
        let details = Details::file(file).found(e.to_string()).expected("one JSON object");
        ModelError::Syntax(if e.is_eof() { details.help("the file ends too early: is it truncated?") } else { details })
    })?;
    let Value::Object(map) = value.0 else {
        let found = if value.0.is_array() { "a list" } else { "a single value" };
        return Err(ModelError::Syntax(Details::file(file).found(found).expected("one JSON object")));
    };
    let top = Fields::new(file, &map);
    let stated = top.text("model_type");
    let family = match treat_as {
        Some(family) => family,
        None => stated?.ok_or_else(|| no_family(&top))?,
    };
    let Some(parts) = families::build(family, &top)? else { return Err(unknown_family(&top, family, treat_as)) };
    let families::Parts { classes, towers, embedding, head, mtp, max_positions, mut notes } = parts;
    if let Some(family) = treat_as {
        notes.insert(0, format!("treated as `{family}`, whatever `model_type` says"));
    }
    if top.has("quantization_config") {
        notes.push(
            "`quantization_config` tells how weights are stored, not how they are trained; it is left out".into(),
        );
    }
    let family = family.to_owned();
    let model = Model { name: name.to_owned(), family, classes, towers, embedding, head, mtp, max_positions, notes };
    let total = model.count().total;
    if total > MAX_PARAMETERS {
        let found = format!("sizes that make {:.1e} parameters", total as f64);
        return Err(ModelError::OutOfRange(Details::file(file).found(found).expected("at most 1e15 parameters")));
    }
    Ok(model)
}

fn no_family(top: &Fields) -> ModelError {
    let error = top.missing("model_type", "the name of a family such as \"llama\"");
    let details = error.details().clone();
    ModelError::Missing(match details.help {
        Some(_) => details,
        None => details.help("or say which family to treat it as"),
    })
}

fn unknown_family(top: &Fields, family: &str, treat_as: Option<&str>) -> ModelError {
    let names = families();
    let likeness = |name: &str| strsim::jaro_winkler(&family.to_lowercase(), name);
    let near =
        names.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)).then(b.cmp(a))).unwrap_or("llama");
    let details = match treat_as {
        Some(_) => top.at("treat as"),
        None => top.at("model_type"),
    };
    ModelError::UnknownFamily(
        details
            .found(format!("\"{family}\""))
            .expected(format!("one of {}", names.join(", ")))
            .help(format!("the nearest known is `{near}`; if its layers are like Llama's, treat it as `llama`")),
    )
}

/// A JSON value in which no object names a field twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_str<E>(self, v: &str) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Unique(value)) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Value::Array(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut map = Map::new();
                while let Some((key, Unique(value))) = entries.next_entry::<String, Unique>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format!("field `{key}` stands twice")));
                    }
                    map.insert(key, value);
                }
                Ok(Value::Object(map))
            }
        }
        d.deserialize_any(AnyValue).map(Unique)
    }
}
