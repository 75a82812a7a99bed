//! One race at a time in a folder: a file that is locked while it lasts. A process that is killed leaves no lock, for the system
//! takes it back.

use super::{ExperimentError, unwritable};
use crate::error::{InputError, Kind};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The file that is locked; there as long as a race is under way.
pub const LOCK: &str = "lock";

/// A folder that nobody else writes into.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Held open: closing it gives the lock back.
    _file: File,
}

impl Lock {
    /// Takes `folder`, or says that somebody has it.
    pub(super) fn take(folder: &Path) -> Result<Self, ExperimentError> {
        let path = folder.join(LOCK);
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(unwritable(&path))?;
            match file.try_lock() {
                // The one who had it may have taken the file away in between.
                Ok(()) if is_at(&file, &path) => return Ok(Self { path, _file: file }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let error = InputError::new(Kind::Unwritable).at("--output").found(folder.display());
                    let error = error.expected("a folder that no other race writes into");
                    return Err(error.help("wait for the other `espalier bench`, or name another folder").into());
                }
                Err(TryLockError::Error(why)) => return Err(unwritable(&path)(why)),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is locked: whoever opened it before finds that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether `file` is the one that `path` names.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |m: std::fs::Metadata| (m.dev(), m.ino());
    let (own, there) = (file.metadata().map(identity), std::fs::metadata(path).map(identity));
    matches!((own, there), (Ok(own), Ok(there)) if own == there)
}

/// Whether `file` is the one that `path` names: open files cannot be taken away here.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_had_by_one_and_given_back() {
        let folder = std::env::temp_dir().join(format!("espalier-lock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let held = Lock::take(&folder).unwrap();
        let refused = Lock::take(&folder).unwrap_err().to_string();
        assert!(refused.contains("no other race"), "{refused}");
        drop(held);
        assert!(!folder.join(LOCK).exists());
        // What a killed process leaves: the file, and no lock.
        std::fs::write(folder.join(LOCK), "").unwrap();
        drop(Lock::take(&folder).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
