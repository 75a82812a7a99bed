//! Schedules out of the house and in: files that torch runs, traces for Perfetto, pictures, text.

pub mod chrome;
pub mod grid;
pub mod megatron_layout;
pub mod svg;
pub mod torch_csv;
pub mod zb_runtime;

#[cfg(test)]
mod tests;
