//! Plans, profiles and launches of other frameworks, read.

pub mod galvatron;
pub mod megatron;
pub mod shell;
