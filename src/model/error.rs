//! Why a description of a model was refused: which file, which field, what was found, what would be right.

use std::fmt;

/// The parts of an error that a user needs to mend a file. Absent parts do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The file, or the name that was given for a text.
    pub file: Box<str>,
    /// Path of the field inside the file, e.g. `text_config.hidden_size`.
    pub field: Option<Box<str>>,
    /// What stands there.
    pub found: Option<Box<str>>,
    /// What could stand there.
    pub expected: Option<Box<str>>,
    /// The nearest known name, or what to do.
    pub help: Option<Box<str>>,
}

impl Details {
    /// Details about a file as a whole.
    pub fn file(file: impl Into<String>) -> Self {
        Details { file: file.into().into(), ..Details::default() }
    }
    /// Adds the field.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into());
        self
    }
    /// Adds what was found.
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into().into());
        self
    }
    /// Adds what was expected.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into().into());
        self
    }
    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into().into());
        self
    }
}

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(field) = &self.field {
            write!(f, ": field `{field}`")?;
        }
        if let Some(found) = &self.found {
            write!(f, ": found {found}")?;
        }
        if let Some(expected) = &self.expected {
            write!(f, ", expected {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

/// Why a model could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be read: absent, a directory, not text, too large.
    #[error("cannot read the model: {0}")]
    Unreadable(Details),
    /// The text is not one JSON object, or names a field twice.
    #[error("not a model config: {0}")]
    Syntax(Details),
    /// A field that the family needs is absent.
    #[error("missing field: {0}")]
    Missing(Details),
    /// A field has the wrong type.
    #[error("wrong type: {0}")]
    Mistyped(Details),
    /// A number is zero, negative or absurd.
    #[error("out of range: {0}")]
    OutOfRange(Details),
    /// Two fields exclude each other.
    #[error("contradiction: {0}")]
    Contradictory(Details),
    /// A field that no family knows looks like a misspelt one.
    #[error("unknown field: {0}")]
    UnknownField(Details),
    /// The family's rules have no meaning for this value.
    #[error("unsupported: {0}")]
    Unsupported(Details),
    /// No family has this `model_type`.
    #[error("unknown family: {0}")]
    UnknownFamily(Details),
    /// No built-in model has this name.
    #[error("unknown preset: {0}")]
    UnknownPreset(Details),
}

impl ModelError {
    /// Which file, which field, what was found, what would be right.
    pub fn details(&self) -> &Details {
        match self {
            ModelError::Unreadable(d)
            | ModelError::Syntax(d)
            | ModelError::Missing(d)
            | ModelError::Mistyped(d)
            | ModelError::OutOfRange(d)
            | ModelError::Contradictory(d)
            | ModelError::UnknownField(d)
            | ModelError::Unsupported(d)
            | ModelError::UnknownFamily(d)
            | ModelError::UnknownPreset(d) => d,
        }
    }
    /// A stable word for the kind of error, for machine-readable output.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelError::Unreadable(_) => "unreadable",
            ModelError::Syntax(_) => "syntax",
            ModelError::Missing(_) => "missing_field",
            ModelError::Mistyped(_) => "wrong_type",
            ModelError::OutOfRange(_) => "out_of_range",
            ModelError::Contradictory(_) => "contradiction",
            ModelError::UnknownField(_) => "unknown_field",
            ModelError::Unsupported(_) => "unsupported",
            ModelError::UnknownFamily(_) => "unknown_family",
            ModelError::UnknownPreset(_) => "unknown_preset",
        }
    }
}

/// The name among `known` that is nearest to `wanted`, if any is near enough to be meant.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = wanted.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name))
        .filter(|&(likeness, _)| likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
        .map(|(_, name)| name)
}
