//! Plans in the words of the frameworks that run them.

pub mod bundle;
pub mod galvatron;
pub mod legal;
pub mod megatron;
pub mod ranks;
pub mod view;
