//! The search engine. It knows decision trees, scores and budgets, and nothing of training.

pub mod decompose;
pub mod exact;
pub mod problem;
pub mod score;
