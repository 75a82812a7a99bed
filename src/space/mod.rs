//! Training problems as decision trees: the only room that knows search and training both.

pub mod galvatron;
