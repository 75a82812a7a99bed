//! What has been computed is not computed again: a concurrent, bounded table from 128-bit keys to values, and the
//! file it is kept in. Knows keys and values only.

mod cache;
pub mod file;

pub use cache::{Cache, CacheCounters, DEFAULT_CAPACITY};
pub use file::FileError;
