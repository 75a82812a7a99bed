//! Binary files that are whole or absent, and refuse to be mistaken for one another.
//!
//! Layout, little endian: `ESPALIER`, kind (4 bytes), version (u32), namespace (u128), payload length in bytes (u64),
//! XXH3-128 of the payload, payload (postcard). Written to a temporary file beside the target, flushed to the
//! device, then renamed over it: a process killed at any moment leaves the old file or the new one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8; 8] = b"ESPALIER";
const HEADER_BYTES: usize = 8 + 4 + 4 + 16 + 8 + 16;

/// What kind of file, in which version of its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Four letters.
    pub kind: [u8; 4],
    /// Other versions are refused.
    pub version: u32,
}

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system said no.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Not a file of this kind.
    #[error("{path}: not a file of kind `{expected}`")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind that was looked for.
        expected: String,
    },
    /// Written by another version.
    #[error("{path}: layout version {found}, this program reads version {expected}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
        /// Version that is read.
        expected: u32,
    },
    /// Belongs to another question.
    #[error("{path}: written for {found:032x}, asked for {expected:032x}: another problem, seed or configuration")]
    Namespace {
        /// The file.
        path: PathBuf,
        /// Namespace of the file.
        found: u128,
        /// Namespace that was asked for.
        expected: u128,
    },
    /// Cut short or altered.
    #[error("{path}: damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In which way.
        what: String,
    },
}

/// Writes `payload` to `path`, whole or not at all.
pub fn write<T: Serialize>(path: &Path, header: Header, namespace: u128, payload: &T) -> Result<(), FileError> {
    let payload = postcard::to_stdvec(payload)
        .map_err(|e| FileError::Damaged { path: path.to_path_buf(), what: format!("cannot be encoded: {e}") })?;
    let mut head = Vec::with_capacity(HEADER_BYTES);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&header.kind);
    head.extend_from_slice(&header.version.to_le_bytes());
    head.extend_from_slice(&namespace.to_le_bytes());
    head.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    head.extend_from_slice(&xxh3_128(&payload).to_le_bytes());
    replace(path, &[&head, &payload]).map_err(|source| FileError::Io { path: path.to_path_buf(), source })
}

/// Where a chain of links leads, whether that exists or not.
fn followed(path: &Path) -> PathBuf {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    path
}

/// Writes `parts` one after the other to `path`, whole or not at all.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // A link is followed, so that it is its target that is replaced.
    let path = &followed(path);
    if path.exists() && !path.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
    let mut temporary = name.to_os_string();
    temporary.push(format!(".{}.{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let temporary = path.with_file_name(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        for part in parts {
            file.write_all(part)?;
        }
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Not every file system lets a directory be flushed; the rename itself has succeeded.
    let _ = File::open(parent).and_then(|dir| dir.sync_all());
    Ok(())
}

/// Whether `path` begins as files of this kind do.
pub fn is_of_kind(path: &Path, header: Header) -> bool {
    let mut start = [0u8; 12];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start[..8] == *MAGIC && start[8..] == header.kind
}

/// Reads what [`write()`] wrote with the same header and namespace.
pub fn read<T: DeserializeOwned>(path: &Path, header: Header, namespace: u128) -> Result<T, FileError> {
    let bytes = fs::read(path).map_err(|source| FileError::Io { path: path.to_path_buf(), source })?;
    let damaged = |what: &str| FileError::Damaged { path: path.to_path_buf(), what: what.to_string() };
    let mut rest = bytes.as_slice();
    if take::<8>(&mut rest).as_ref() != Some(MAGIC) || take::<4>(&mut rest) != Some(header.kind) {
        let expected = String::from_utf8_lossy(&header.kind).into_owned();
        return Err(FileError::Foreign { path: path.to_path_buf(), expected });
    }
    let cut = || damaged("the header is cut short");
    let found = u32::from_le_bytes(take(&mut rest).ok_or_else(cut)?);
    if found != header.version {
        return Err(FileError::Version { path: path.to_path_buf(), found, expected: header.version });
    }
    let found = u128::from_le_bytes(take(&mut rest).ok_or_else(cut)?);
    let length = u64::from_le_bytes(take(&mut rest).ok_or_else(cut)?);
    let sum = u128::from_le_bytes(take(&mut rest).ok_or_else(cut)?);
    if rest.len() as u64 != length {
        return Err(damaged(&format!("{} bytes of payload, {length} announced", rest.len())));
    }
    if xxh3_128(rest) != sum {
        return Err(damaged("the checksum does not match"));
    }
    if found != namespace {
        return Err(FileError::Namespace { path: path.to_path_buf(), found, expected: namespace });
    }
    postcard::from_bytes(rest).map_err(|e| damaged(&e.to_string()))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}
