//! Why Galvatron's files could not be read.

use crate::error::{InputError, Kind};

/// A wrong file: which one, which key, what was found, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GalvatronImportError {
    /// A file cannot be read.
    #[error("{file}: cannot be read: {found}; expected {expected}")]
    File {
        /// The file or folder.
        file: String,
        /// What happened.
        found: String,
        /// What would do.
        expected: String,
    },
    /// A file is not JSON.
    #[error("{file}: not JSON: {found}")]
    Json {
        /// The file.
        file: String,
        /// The parser's words, with line and column.
        found: String,
    },
    /// A key is absent.
    #[error("{file}: no `{key}`; expected {expected}")]
    Missing {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What is there or would do.
        expected: String,
    },
    /// A value cannot be used.
    #[error("{file}: `{key}` is {found}; expected {expected}")]
    Value {
        /// The file, or `arguments`.
        file: String,
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// A key that is not known.
    #[error("{file}: unknown `{key}`; {help}")]
    Unknown {
        /// The file, or `arguments`.
        file: String,
        /// The key.
        key: String,
        /// The nearest known one, or all of them.
        help: String,
    },
}

impl GalvatronImportError {
    /// The file it is about.
    pub fn file(&self) -> &str {
        match self {
            Self::File { file, .. }
            | Self::Json { file, .. }
            | Self::Missing { file, .. }
            | Self::Value { file, .. }
            | Self::Unknown { file, .. } => file,
        }
    }

    /// The key it is about, if any.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::File { .. } | Self::Json { .. } => None,
            Self::Missing { key, .. } | Self::Value { key, .. } | Self::Unknown { key, .. } => Some(key),
        }
    }
}

impl From<GalvatronImportError> for InputError {
    fn from(error: GalvatronImportError) -> Self {
        match error {
            GalvatronImportError::File { file, found, expected } => {
                Self::new(Kind::Unreadable).in_file(file).found(found).expected(expected)
            }
            GalvatronImportError::Json { file, found } => Self::new(Kind::Syntax).in_file(file).found(found),
            GalvatronImportError::Missing { file, key, expected } => {
                Self::new(Kind::MissingField).in_file(file).at(key).expected(expected)
            }
            GalvatronImportError::Value { file, key, found, expected } => {
                Self::new(Kind::InvalidValue).in_file(file).at(key).found(found).expected(expected)
            }
            GalvatronImportError::Unknown { file, key, help } => {
                Self::new(Kind::UnknownField).in_file(file).at(key).help(help)
            }
        }
    }
}
