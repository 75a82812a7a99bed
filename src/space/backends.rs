//! The backends by name, for layer-wise planning: those of the registry, exact search with the settings of the question.

use crate::error::{InputError, Kind};
use crate::search::auto::Auto;
use crate::search::backend::Backend;
use crate::search::erased::Erased;
use crate::search::exact::backend::Exact;
use crate::search::registry::{self, Choice, RegistryError};

/// A backend for layer-wise planning.
pub type Layerwise<'a> = Box<dyn Backend<Erased<'a>> + 'a>;

/// Names that `--backend` takes: of backends, and of their presets behind a point.
pub fn names() -> Vec<String> {
    let entries = registry::entries::<Erased<'static>>();
    let presets = |name: &str, entry: &registry::Entry<'_, Erased<'static>>| -> Vec<String> {
        entry.page.presets.iter().map(|preset| format!("{name}.{}", preset.name)).collect()
    };
    entries.iter().flat_map(|entry| std::iter::once(entry.name.to_owned()).chain(presets(entry.name, entry))).collect()
}

/// The backend called `name`; `exact` carries the settings that exact search runs with.
pub fn find<'a>(name: &str, exact: Exact) -> Result<Layerwise<'a>, InputError> {
    match name {
        "exact" => Ok(Box::new(exact)),
        "auto" => {
            let portfolio = registry::default_portfolio().map_err(refused)?;
            Ok(Box::new(Auto { exact: Some(Box::new(exact)), portfolio }))
        }
        _ if names().iter().any(|known| known == name) => registry::build(&Choice::named(name)).map_err(refused),
        _ => Err(unknown(name).at("backend")),
    }
}

/// That no backend is called so.
pub fn unknown(name: &str) -> InputError {
    let names = names();
    InputError::unknown_name(name, "a backend", names.iter().map(String::as_str))
}

fn refused(error: RegistryError) -> InputError {
    InputError::new(Kind::InvalidValue).at("backend").help(error.to_string())
}
