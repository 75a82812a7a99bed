//! Estimates against measurements.
//!
//! Published runs become questions with plans, by the conventions of the framework that ran them; they are priced like any
//! other plan, and compared with what was measured. Rows that leave something open are counted with the reason, not guessed.

pub mod calibrate;
pub mod case;
pub mod cells;
pub mod compare;
pub mod conventions;
pub mod held_out;
mod known;
pub mod layout;
mod left_out;
pub mod log;
mod machine;
mod megatron;
pub mod nearest;
pub mod regret;
mod repeats;
mod shape;
pub mod statistics;
pub mod table;

pub use case::{Case, Constants};
pub use compare::{By, Comparison, Quantity, Set, compare};
pub use left_out::LeftOut;
pub use repeats::Repeats;
