//! Pipelines: which device runs which pass of which micro-batch when, what that costs, and what no order can beat.
//!
//! Two levels of detail. [`timing`] knows the fixed orders of training frameworks (GPipe, 1F1B, interleaved 1F1B) for
//! stages of unequal cost, fast enough for the inner loop of a planner.

pub mod timing;
