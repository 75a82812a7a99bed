//! Training problems as decision trees: the only room that knows both the search engine and training.

pub mod allele;
pub mod answer;
pub mod backends;
pub mod check;
pub mod diagnose;
pub mod explain;
pub mod fast;
pub mod galvatron;
pub mod host;
pub mod joint_tree;
pub mod layerwise;
pub mod min_gpus;
pub mod moves;
pub mod outer;
pub mod planner;
pub mod profile;
pub mod remedies;
pub mod schedule;
pub mod scheduled;
pub mod stability;
pub mod strategies;
pub mod table;
pub mod target;
pub mod tasks;
pub mod tree;
pub mod uniform;
pub mod why_not;
pub mod without_bubble;
pub mod worth;

pub use layerwise::LayerwiseSpace;
