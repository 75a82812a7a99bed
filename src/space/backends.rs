//! The backends by name, for layer-wise planning: those of the registry, exact search with the settings of the question.

use crate::error::{InputError, Kind};
use crate::search::auto::Auto;
use crate::search::backend::Backend;
use crate::search::erased::Erased;
use crate::search::exact::backend::Exact;
use crate::search::registry::{self, Choice, RegistryError};

/// A backend for layer-wise planning.
pub type Layerwise<'a> = Box<dyn Backend<Erased<'a>> + 'a>;

/// Names that `--backend` takes.
pub fn names() -> Vec<&'static str> {
    registry::entries::<Erased<'static>>().iter().map(|entry| entry.name).collect()
}

/// The backend called `name`; `exact` carries the settings that exact search runs with.
pub fn find<'a>(name: &str, exact: Exact) -> Result<Layerwise<'a>, InputError> {
    match name {
        "exact" => Ok(Box::new(exact)),
        "auto" => {
            let portfolio = registry::default_portfolio().map_err(refused)?;
            Ok(Box::new(Auto { exact: Some(Box::new(exact)), portfolio }))
        }
        _ if names().contains(&name) => registry::build(&Choice::named(name)).map_err(refused),
        _ => Err(InputError::unknown_name(name, "a backend", names()).at("backend")),
    }
}

fn refused(error: RegistryError) -> InputError {
    InputError::new(Kind::InvalidValue).at("backend").help(error.to_string())
}
