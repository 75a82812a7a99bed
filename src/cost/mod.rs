//! What a layer, a collective, an iteration costs.

pub mod galvatron;
