//! What can be wrong with a cluster.

use crate::error::{InputError, Kind};

/// A cluster that cannot be planned for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The device is known, but not its numbers.
    #[error("`{device}` cannot be used: {why}")]
    Unpublished {
        /// The device.
        device: String,
        /// Which number is missing.
        why: String,
    },
    /// No table has that name.
    #[error("`{found}` is not {what}")]
    Unknown {
        /// What was looked for, e.g. `a device`.
        what: &'static str,
        /// The name given.
        found: String,
        /// All names of that kind.
        known: Vec<String>,
        /// What else may help.
        help: Option<String>,
    },
    /// A field is missing.
    #[error("{field} is missing: {expected}")]
    Missing {
        /// Path of the field.
        field: String,
        /// What it would say.
        expected: String,
    },
    /// A value outside its range.
    #[error("{field} is {found}, expected {expected}")]
    Value {
        /// Path of the field.
        field: String,
        /// What stands there.
        found: String,
        /// The range.
        expected: String,
    },
    /// Fields that contradict each other.
    #[error("{field} is {found}, but {expected}")]
    Inconsistent {
        /// Path of the field.
        field: String,
        /// What stands there.
        found: String,
        /// What the other fields say.
        expected: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(Box<InputError>),
}

impl ClusterError {
    pub(super) fn unknown<'a>(what: &'static str, found: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self::Unknown { what, found: found.to_owned(), known: known.map(str::to_owned).collect(), help: None }
    }

    pub(super) fn value(field: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Value { field: field.into(), found: found.to_string(), expected: expected.into() }
    }

    pub(super) fn inconsistent(field: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Inconsistent { field: field.into(), found: found.to_string(), expected: expected.into() }
    }

    /// Puts `outer.` in front of the path of the field.
    pub(super) fn inside(mut self, outer: &str) -> Self {
        match &mut self {
            Self::Missing { field, .. } | Self::Value { field, .. } | Self::Inconsistent { field, .. } => {
                *field = format!("{outer}.{field}");
                self
            }
            Self::Unpublished { .. } | Self::Unknown { .. } => Self::File(Box::new(InputError::from(self).at(outer))),
            Self::File(error) => Self::File(Box::new((**error).clone().inside(outer))),
        }
    }
}

impl From<ClusterError> for InputError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Unpublished { device, why } => {
                InputError::new(Kind::Unsupported).found(device).help(format!("{why}; describe it in a cluster file"))
            }
            ClusterError::Unknown { what, found, known, help } => {
                let error = InputError::unknown_name(&found, what, known.iter().map(String::as_str));
                match help {
                    Some(help) => error.help(help),
                    None => error,
                }
            }
            ClusterError::Missing { field, expected } => {
                InputError::new(Kind::MissingField).at(field).expected(expected)
            }
            ClusterError::Value { field, found, expected } => {
                InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected)
            }
            ClusterError::Inconsistent { field, found, expected } => {
                InputError::new(Kind::Inconsistent).at(field).found(found).expected(expected)
            }
            ClusterError::File(error) => *error,
        }
    }
}

impl From<InputError> for ClusterError {
    fn from(error: InputError) -> Self {
        Self::File(Box::new(error))
    }
}
