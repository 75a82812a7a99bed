//! Galvatron's search space (version 2.4.1) under its final objective, as a decision tree and as chains for exact methods.

pub mod answer;
mod arrange;
mod branches;
pub mod chains;
mod dual;
pub mod exact;
pub mod fold;
mod free;
pub mod knapsack;
mod moves;
pub mod objective;
pub mod price;
mod problem;
mod solution;
pub mod stage;
pub mod strategies;
pub mod table;
pub mod tasks;
pub mod tree;
mod uniform;

pub use problem::{GalvatronSpace, Partition};
pub use solution::{Solution, Worth};
