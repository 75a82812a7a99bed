//! Training problems as decision trees: the only room that knows both the search engine and training.

pub mod fast;
pub mod galvatron;
pub mod layerwise;
pub mod strategies;
pub mod table;
pub mod tasks;
pub mod uniform;

pub use layerwise::LayerwiseSpace;
