//! Training problems as decision trees: the only room that knows both the search engine and training.

pub mod layerwise;
pub mod strategies;
pub mod table;
pub mod tasks;

pub use layerwise::LayerwiseSpace;
