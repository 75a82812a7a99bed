//! Why a plan has no price.

use crate::error::{InputError, Kind};

/// Why a strategy or a plan cannot be priced.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GalvatronCostError {
    /// A degree that was not measured.
    #[error("{what} has no profile for degree {degree}; measured: {measured:?}")]
    NotMeasured {
        /// The quantity, as files name it.
        what: String,
        /// The degree wanted.
        degree: u32,
        /// Degrees that are there.
        measured: Vec<u32>,
    },
    /// Numbers that do not fit together.
    #[error("{what}: found {found}, expected {expected}")]
    Mismatch {
        /// The quantity.
        what: &'static str,
        /// As given.
        found: String,
        /// What would fit.
        expected: String,
    },
}

impl From<GalvatronCostError> for InputError {
    fn from(error: GalvatronCostError) -> Self {
        match error {
            GalvatronCostError::NotMeasured { what, degree, measured } => {
                let measured: Vec<_> = measured.iter().map(u32::to_string).collect();
                Self::new(Kind::MissingField)
                    .at(what)
                    .expected(format!("a profile for degree {degree}"))
                    .help(format!("measured are {}", measured.join(", ")))
            }
            GalvatronCostError::Mismatch { what, found, expected } => {
                Self::new(Kind::Inconsistent).at(what).found(found).expected(expected)
            }
        }
    }
}
