//! Schedules out of the house and in: files that torch runs, traces for Perfetto, pictures, text.

pub mod chrome;
pub mod grid;
pub mod svg;
pub mod torch_csv;

#[cfg(test)]
mod tests;
