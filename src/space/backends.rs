//! The backends by name, for layer-wise planning.

use super::layerwise::LayerwiseSpace;
use crate::error::InputError;
use crate::search::backend::Backend;
use crate::search::exact::backend::Exact;
use crate::search::genetic::Genetic;
use crate::search::mcts::Mcts;
use crate::search::random::Random;

/// Names that `--backend` takes.
pub const NAMES: [&str; 5] = ["auto", "exact", "mcts", "genetic", "random"];

/// The backend called `name`; `exact` carries the settings that exact search runs with.
pub fn find<'a>(name: &str, exact: Exact) -> Result<Box<dyn Backend<LayerwiseSpace<'a>> + 'a>, InputError> {
    Ok(match name {
        "auto" | "exact" => Box::new(exact),
        "mcts" => Box::new(Mcts::default()),
        "genetic" => Box::new(Genetic::default()),
        "random" => Box::new(Random::default()),
        _ => return Err(InputError::unknown_name(name, "a backend", NAMES).at("backend")),
    })
}
