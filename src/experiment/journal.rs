//! Runs as they finish, a line of JSON each, so that a race that is killed loses only what was under way.
//!
//! A line counts once its line feed is written: what a kill leaves behind of a line is cut off before more is appended.

use super::record::Run;
use super::{ExperimentError, file, unwritable};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    to: File,
}

impl Journal {
    /// Opens it, and reads what is in it.
    pub fn open(path: &Path) -> Result<(Self, Vec<Run>), ExperimentError> {
        let mut to = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(unwritable(path))?;
        let mut bytes = Vec::new();
        to.read_to_end(&mut bytes).map_err(file(path))?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        to.set_len(whole as u64).map_err(file(path))?;
        to.seek(SeekFrom::Start(whole as u64)).map_err(file(path))?;
        let runs = lines(path, &bytes[..whole])?;
        Ok((Self { path: path.to_owned(), to }, runs))
    }

    /// Appends a run.
    pub fn append(&mut self, run: &Run) -> Result<(), ExperimentError> {
        let mut line = serde_json::to_vec(run).map_err(|e| ExperimentError::Internal(e.to_string()))?;
        line.push(b'\n');
        self.to.write_all(&line).map_err(unwritable(&self.path))
    }
}

/// The runs of whole lines.
pub(super) fn lines(path: &Path, bytes: &[u8]) -> Result<Vec<Run>, ExperimentError> {
    let mut runs = Vec::new();
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        runs.push(serde_json::from_slice(line).map_err(|e| {
            let error = crate::error::InputError::new(crate::error::Kind::Syntax).in_file(path.display());
            error.at(format!("line {}", number + 1)).help(e)
        })?);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::budget::Stop;

    fn run(seed: u64) -> Run {
        Run {
            cell: format!("{seed}"),
            instance: "i".into(),
            backend: "b".into(),
            seed,
            stop: Stop::Evaluations,
            best: Some(0.1 + 0.2),
            bound: None,
            evaluations: 1,
            requests: 2,
            failed: 0,
            dead_ends: 0,
            batches: 1,
            lookups: 0,
            refused: None,
            failure: None,
            path: None,
            wall_s: 0.5,
            cpu_s: 0.5,
            trace: Vec::new(),
        }
    }

    #[test]
    fn a_torn_line_is_cut_off_and_whole_ones_stay() {
        let path = std::env::temp_dir().join(format!("espalier-journal-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let (mut journal, none) = Journal::open(&path).unwrap();
        assert!(none.is_empty());
        journal.append(&run(1)).unwrap();
        journal.append(&run(2)).unwrap();
        drop(journal);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
        let (mut journal, kept) = Journal::open(&path).unwrap();
        assert_eq!(kept, [run(1)]);
        journal.append(&run(3)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1, [run(1), run(3)]);
        std::fs::remove_file(&path).unwrap();
    }
}
