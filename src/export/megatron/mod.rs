//! Launch files of Megatron-LM: arguments in groups, environment, the script and the map of ranks.

mod model;
mod script;

pub use model::{Sizes, model_arguments};
pub(crate) use script::arch;
pub(super) use script::environment;
pub use script::{argument_lines, bundle, launch};
