//! Plans and profiles of other frameworks, read.

pub mod galvatron;
