//! Where model and cluster of a question come from: a name, a file, or written out in place.

use crate::cluster::Cluster;
use crate::cluster::file::{self, ClusterFile};
use crate::cluster::instances;
use crate::error::{InputError, Kind};
use crate::model::ModelError;
use crate::model::{Model, import, presets};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Where the model comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSource {
    /// A built-in model.
    Preset(String),
    /// A `config.json`, or a folder that holds one, relative to the question.
    Path {
        /// The file or folder.
        path: String,
        /// Family to read it as, if its own is unknown.
        treat_as: Option<String>,
    },
    /// The fields of a `config.json`, in place.
    Inline {
        /// The fields.
        config: serde_json::Value,
        /// Family to read it as, if its own is unknown.
        treat_as: Option<String>,
    },
}

/// Where the cluster comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterSource {
    /// Machines, e.g. `h100x8:8`.
    Shorthand(String),
    /// A cluster file, relative to the question.
    Path(String),
    /// The fields of a cluster file, in place.
    Inline(Box<ClusterFile>),
}

/// Names of presets and machines hold no separators; files end in one of these or lie in a folder.
fn is_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.contains(['/', '\\']) || text == "." || text == ".." || lower.ends_with(".json") || lower.ends_with(".ron")
}

impl From<&str> for ModelSource {
    fn from(text: &str) -> Self {
        if is_path(text) { Self::Path { path: text.to_owned(), treat_as: None } } else { Self::Preset(text.to_owned()) }
    }
}

impl From<&str> for ClusterSource {
    fn from(text: &str) -> Self {
        if is_path(text) { Self::Path(text.to_owned()) } else { Self::Shorthand(text.to_owned()) }
    }
}

impl ModelSource {
    /// The model; `folder` is where relative paths start.
    pub fn resolve(&self, folder: &Path) -> Result<Model, InputError> {
        match self {
            Self::Preset(name) => presets::find(name).map_err(|e| {
                let error = InputError { file: None, ..InputError::from(e) }.at("model");
                let there = !name.is_empty() && folder.join(name).exists();
                if there { error.help(format!("for the file or folder of that name, write `./{name}`")) } else { error }
            }),
            Self::Path { path, treat_as } => {
                let path = folder.join(path);
                let inner = path.join("config.json");
                let file = if path.is_dir() && inner.is_file() { inner } else { path };
                import::from_path(&file, treat_as.as_deref()).map_err(InputError::from)
            }
            Self::Inline { config, treat_as } => import::from_json("model", &config.to_string(), treat_as.as_deref())
                .map_err(|e| {
                    let error = InputError::from(e);
                    InputError { file: None, ..error }.inside("model.config")
                }),
        }
    }
}

impl From<ModelError> for InputError {
    fn from(error: ModelError) -> Self {
        let kind = match &error {
            ModelError::Unreadable(_) => Kind::Unreadable,
            ModelError::Syntax(_) => Kind::Syntax,
            ModelError::Missing(_) => Kind::MissingField,
            ModelError::Mistyped(_) | ModelError::OutOfRange(_) => Kind::InvalidValue,
            ModelError::Contradictory(_) => Kind::Inconsistent,
            ModelError::UnknownField(_) => Kind::UnknownField,
            ModelError::Unsupported(_) => Kind::Unsupported,
            ModelError::UnknownFamily(_) | ModelError::UnknownPreset(_) => Kind::UnknownName,
        };
        let details = error.details();
        Self {
            kind,
            file: (!details.file.is_empty()).then(|| details.file.clone()),
            field: details.field.clone(),
            found: details.found.clone(),
            expected: details.expected.clone(),
            help: details.help.clone(),
        }
    }
}

impl ClusterSource {
    /// The cluster; `folder` is where relative paths start.
    pub fn resolve(&self, folder: &Path) -> Result<Cluster, InputError> {
        match self {
            Self::Shorthand(text) => instances::cluster(text).map_err(|e| {
                let error = InputError::from(e);
                if error.field.is_some() { error } else { error.at("cluster") }
            }),
            Self::Path(path) => file::load(&folder.join(path)).map_err(InputError::from),
            Self::Inline(fields) => fields.cluster("cluster").map_err(|e| InputError::from(e).inside("cluster")),
        }
    }
}

/// A model in fields; exactly one of the first three.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename = "Model")]
struct ModelFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    treat_as: Option<String>,
}

impl TryFrom<ModelFields> for ModelSource {
    type Error = &'static str;
    fn try_from(fields: ModelFields) -> Result<Self, Self::Error> {
        match (fields.preset, fields.path, fields.config, fields.treat_as) {
            (Some(name), None, None, None) => Ok(Self::Preset(name)),
            (Some(_), None, None, Some(_)) => Err("no `treat_as` beside `preset`: its family is known"),
            (None, Some(path), None, treat_as) => Ok(Self::Path { path, treat_as }),
            (None, None, Some(config), treat_as) if config.is_object() => Ok(Self::Inline { config, treat_as }),
            (None, None, Some(_), _) => Err("`config` to hold fields in `{ }`"),
            _ => Err("exactly one of `preset`, `path` and `config`"),
        }
    }
}

struct ModelVisitor;
impl<'de> Visitor<'de> for ModelVisitor {
    type Value = ModelSource;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a model, a path, or one of `preset`, `path` and `config` in fields")
    }
    fn visit_str<E>(self, text: &str) -> Result<ModelSource, E> {
        Ok(text.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelSource, A::Error> {
        let fields = ModelFields::deserialize(MapAccessDeserializer::new(map))?;
        ModelSource::try_from(fields).map_err(serde::de::Error::custom)
    }
}
impl<'de> Deserialize<'de> for ModelSource {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ModelVisitor)
    }
}
impl Serialize for ModelSource {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let fields = match self {
            Self::Preset(name) if !is_path(name) => return s.serialize_str(name),
            Self::Path { path, treat_as: None } if is_path(path) => return s.serialize_str(path),
            Self::Preset(name) => ModelFields { preset: Some(name.clone()), ..ModelFields::default() },
            Self::Path { path, treat_as } => {
                ModelFields { path: Some(path.clone()), treat_as: treat_as.clone(), ..ModelFields::default() }
            }
            Self::Inline { config, treat_as } => {
                ModelFields { config: Some(config.clone()), treat_as: treat_as.clone(), ..ModelFields::default() }
            }
        };
        fields.serialize(s)
    }
}

struct ClusterVisitor;
impl<'de> Visitor<'de> for ClusterVisitor {
    type Value = ClusterSource;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("machines such as \"h100x8:8\", a path, or the fields of a cluster file")
    }
    fn visit_str<E>(self, text: &str) -> Result<ClusterSource, E> {
        Ok(text.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ClusterSource, A::Error> {
        ClusterFile::deserialize(MapAccessDeserializer::new(map)).map(|file| ClusterSource::Inline(Box::new(file)))
    }
}
impl<'de> Deserialize<'de> for ClusterSource {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ClusterVisitor)
    }
}
impl Serialize for ClusterSource {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shorthand(text) | Self::Path(text) => s.serialize_str(text),
            Self::Inline(file) => file.serialize(s),
        }
    }
}
