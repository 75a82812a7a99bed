//! Why a plan has no price.

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
