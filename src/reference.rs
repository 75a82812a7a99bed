//! Where tests find third-party reference data, which is read in place and never part of this repository.

use std::path::PathBuf;

/// The folder of reference data: the environment variable `ESPALIER_REFERENCE`, else `../shared/reference` beside the
/// package. `None` (said on standard error) when it is absent.
///
/// # Panics
/// When it is absent although `ESPALIER_REFERENCE_REQUIRED=1`.
pub fn root() -> Option<PathBuf> {
    let folder = std::env::var_os("ESPALIER_REFERENCE")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("ESPALIER_REFERENCE_REQUIRED").is_none_or(|v| v != "1"),
        "no reference data at {}",
        folder.display()
    );
    eprintln!("skipped: no reference data at {}", folder.display());
    None
}

/// A file or folder below [`root`].
pub fn path(relative: &str) -> Option<PathBuf> {
    root().map(|folder| folder.join(relative))
}
