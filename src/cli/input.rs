//! Texts from files or, for `-`, from standard input.

use crate::error::{InputError, Kind};
use crate::read;
use std::io::Read;
use std::path::Path;

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
