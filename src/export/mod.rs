//! Plans in the words of the frameworks that run them.

pub mod galvatron;
