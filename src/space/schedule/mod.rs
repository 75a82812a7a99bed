//! Schedules as problems of the search engine: which shape, which order.
//!
//! Four problems with one kind of solution: [`policy`] and [`block`] (genomes whose size does not depend on the number of
//! micro-batches), [`order`] (the order itself as a decision tree) and [`polish`] (whole orders improved by walks). A
//! search starts from every [`known`] schedule that applies, so its answer is never worse than any of them.

pub mod block;
pub mod file;
pub mod genome;
pub mod joint;
pub mod judge;
pub mod known;
pub mod of_plan;
pub mod order;
pub mod policy;
pub mod polish;
pub mod question;
pub mod refit;
pub mod shape;
pub mod solution;
pub mod solve;
pub mod split;
pub mod walk;

pub use question::{Backwards, Objective, Placements, ScheduleQuestion};
pub use solve::{ScheduleAnswer, ScheduleOptions, solve};
