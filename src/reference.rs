//! Where the reference data for tests lies: `ESPALIER_REFERENCE`, or `../shared/reference` beside the checkout.

use std::path::PathBuf;

/// The folder of the reference data, or `None` (said on standard error) where it is not there.
///
/// # Panics
/// When `ESPALIER_REFERENCE_REQUIRED=1` and the data is absent: a run that must not skip anything.
pub fn root() -> Option<PathBuf> {
    let root = std::env::var_os("ESPALIER_REFERENCE")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"), PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    assert!(
        std::env::var_os("ESPALIER_REFERENCE_REQUIRED").is_none_or(|v| v != "1"),
        "reference data is required and absent: {}",
        root.display()
    );
    eprintln!("skipped: no reference data at {}", root.display());
    None
}

/// A file or folder of the reference data.
pub fn path(relative: &str) -> Option<PathBuf> {
    root().map(|r| r.join(relative))
}
