//! Texts from files or, for `-`, from standard input.

use crate::error::{InputError, Kind};
use crate::read;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longer texts are not what we read, in bytes.
const LONGEST: u64 = 64 << 20;

/// The text of `path`.
pub(super) fn text(path: &Path) -> Result<String, InputError> {
    if path != Path::new("-") {
        return read::text(path);
    }
    let mut text = String::new();
    let error = |why: String| InputError::new(Kind::Unreadable).in_file("standard input").help(why);
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).map_err(|e| error(e.to_string()))?;
    Ok(text)
}

/// A table of published runs: the path given, or its name in the folder `measured` of the reference data.
pub(super) fn published(given: Option<&Path>, usual: &str) -> Result<PathBuf, InputError> {
    if let Some(path) = given.filter(|path| path.exists() || path.components().count() > 1) {
        return Ok(path.to_owned());
    }
    let name = given.unwrap_or(Path::new(usual));
    let kept = std::env::var_os("ESPALIER_REFERENCE").map(|folder| Path::new(&folder).join("measured").join(name));
    match (kept.filter(|path| path.is_file()), given) {
        (Some(path), _) => Ok(path),
        (None, Some(path)) => Ok(path.to_owned()),
        (None, None) => Err(InputError::new(Kind::MissingField).expected(format!(
            "a table: name the folder that holds measured/{usual} by ESPALIER_REFERENCE, or give the path of a CSV"
        ))),
    }
}
