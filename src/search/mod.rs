//! The search engine. It knows decision trees, scores and budgets, and nothing of training.

pub mod anneal;
pub mod archive;
pub mod auto;
pub mod backend;
pub mod budget;
pub mod checkpoint;
pub mod climb;
pub mod decompose;
mod dispatch;
pub mod evaluator;
pub mod exact;
pub mod genetic;
pub mod genome;
pub mod mcts;
pub mod outcome;
pub mod portfolio;
pub mod problem;
pub mod problems;
pub mod random;
pub mod registry;
pub mod run;
pub mod score;
pub mod stream;
pub mod trace;
pub mod vary;
pub mod walk;
