//! Galvatron's search space (version 2.4.1) under its final objective, as a decision tree and as chains for exact methods.

pub mod strategies;
pub mod table;
pub mod tasks;
