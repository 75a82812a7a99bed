//! Plans, profiles and launches of other frameworks, read.

pub mod deepspeed;
pub mod deepspeed_estimator;
pub mod even;
pub mod galvatron;
pub mod megatron;
pub mod shell;
pub mod torchtitan;
