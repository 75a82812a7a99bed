//! Every backend by name: what it is, where it comes from, its parameters, and how to make it.
//!
//! A new backend is one file with its parameters as a serde structure and its [`Page`], and one line in [`entries`].

use super::a_star::{self, AStar};
use super::alleviate::{self, Alleviate};
use super::anneal::Anneal;
use super::auto::Auto;
use super::backend::Backend;
use super::beam::{self, Beam};
use super::brkga::{self, Brkga};
use super::cross_entropy::{self, CrossEntropy, Distribution};
use super::exact::ExactSettings;
use super::exact::backend::Exact;
use super::exhaustive::{self, Exhaustive};
use super::genetic::Genetic;
use super::greedy::{self, Greedy};
use super::integer::{self, Integer};
use super::late::{self, Late};
use super::manual::{self, Page, Preset, Range};
use super::mcts::Mcts;
use super::neighbourhood::{self, Neighbourhood};
use super::nested::{self, Nested};
use super::pareto::{self, Pareto};
use super::parzen::{self, Parzen};
use super::portfolio::{Portfolio, Stage};
use super::problem::Problem;
use super::random::Random;
use super::rules::{self, Rules};
use super::tabu::{self, Tabu};
use super::tempering::{self, Tempering};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A name, and parameters that differ from the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of the backend, or `backend.preset`.
    pub backend: String,
    /// Its parameters by name; absent ones keep their defaults.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

impl Choice {
    /// A backend with its defaults.
    pub fn named(backend: &str) -> Self {
        Self { backend: backend.to_string(), parameters: Map::new() }
    }
}

/// Why a backend could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RegistryError {
    /// No backend of that name.
    #[error("no backend is called `{found}`; there are {}{}", .valid.join(", "), .nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    Unknown {
        /// The name as given.
        found: String,
        /// The name that comes nearest, if one is near.
        nearest: Option<String>,
        /// All names.
        valid: Vec<String>,
    },
    /// A parameter does not exist or has a wrong value.
    #[error("backend `{backend}`, parameter `{field}`: {message}")]
    Parameter {
        /// The backend.
        backend: String,
        /// Path of the parameter.
        field: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// A backend, or why it could not be made.
pub type Built<'p, P> = Result<Box<dyn Backend<P> + 'p>, RegistryError>;

/// A backend in the registry.
pub struct Entry<'p, P: Problem> {
    /// What it is called.
    pub name: &'static str,
    /// What it does, where it comes from, when to use it, what its parameters mean.
    pub page: &'static Page,
    /// Its parameters with their defaults.
    pub defaults: fn() -> Value,
    /// Makes it.
    pub build: fn(&Map<String, Value>) -> Built<'p, P>,
}

/// Parameters of the portfolio and of `auto`, which runs one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stages {
    /// The stages in order.
    pub stages: Vec<StageChoice>,
}

/// One stage of a portfolio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageChoice {
    /// Name of the backend.
    pub backend: String,
    /// Its share of the evaluations, relative to the others'.
    pub share: f64,
    /// Its parameters by name; absent ones keep their defaults.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

impl Default for Stages {
    fn default() -> Self {
        // A tenth for tree search, then breeding from its best, then polish (the portfolio that ENGINE's measurements
        // suggest: tree search leads below 2 000 evaluations, genetic search and annealing above).
        let stage = |backend: &str, share| StageChoice { backend: backend.into(), share, parameters: Map::new() };
        Self { stages: vec![stage("mcts", 0.1), stage("genetic", 0.5), stage("anneal", 0.4)] }
    }
}

/// All backends for a kind of problem, in the order in which they are listed.
pub fn entries<'p, P: Problem + 'p>() -> Vec<Entry<'p, P>> {
    vec![
        Entry {
            name: "auto",
            page: &manual::AUTO,
            defaults: defaults::<Stages>,
            build: |given| Ok(Box::new(Auto { exact: exact()?, portfolio: portfolio("auto", given)? })),
        },
        Entry {
            name: "portfolio",
            page: &manual::PORTFOLIO,
            defaults: defaults::<Stages>,
            build: |given| Ok(Box::new(portfolio("portfolio", given)?)),
        },
        Entry {
            name: "exact",
            page: &manual::EXACT,
            defaults: defaults::<ExactSettings>,
            build: |given| Ok(Box::new(Exact { settings: parameters("exact", given)? })),
        },
        of::<P, Integer>("integer", &integer::PAGE),
        of::<P, Mcts>("mcts", &manual::MCTS),
        of::<P, Genetic>("genetic", &manual::GENETIC),
        of::<P, Anneal>("anneal", &manual::ANNEAL),
        of::<P, Nested>("nested", &nested::PAGE),
        of::<P, Tempering>("tempering", &tempering::PAGE),
        of::<P, Late>("late", &late::PAGE),
        of::<P, Tabu>("tabu", &tabu::PAGE),
        of::<P, Neighbourhood>("neighbourhood", &neighbourhood::PAGE),
        of::<P, Pareto>("pareto", &pareto::PAGE),
        of::<P, Brkga>("brkga", &brkga::PAGE),
        of::<P, CrossEntropy>("cross_entropy", &cross_entropy::PAGE),
        of::<P, Distribution>("distribution", &cross_entropy::CHAIN_PAGE),
        of::<P, Parzen>("parzen", &parzen::PAGE),
        of::<P, Alleviate>("alleviate", &alleviate::PAGE),
        of::<P, Rules>("rules", &rules::PAGE),
        of::<P, AStar>("a_star", &a_star::PAGE),
        of::<P, Beam>("beam", &beam::PAGE),
        of::<P, Greedy>("greedy", &greedy::PAGE),
        of::<P, Exhaustive>("exhaustive", &exhaustive::PAGE),
        of::<P, Random>("random", &manual::RANDOM),
    ]
}

/// The backend that `choice` names.
pub fn build<'p, P: Problem + 'p>(choice: &Choice) -> Built<'p, P> {
    let entries = entries::<P>();
    let (name, preset) = match choice.backend.split_once('.') {
        Some((name, preset)) => (name, Some(preset)),
        None => (choice.backend.as_str(), None),
    };
    let entry = entries.iter().find(|entry| entry.name == name);
    let found = match (entry, preset) {
        (Some(entry), None) => Some((entry, Map::new())),
        (Some(entry), Some(preset)) => entry.page.presets.iter().find(|p| p.name == preset).map(|p| (entry, p.map())),
        (None, _) => None,
    };
    if let Some((entry, mut parameters)) = found {
        parameters.extend(choice.parameters.clone());
        fractions(entry, &parameters)?;
        return (entry.build)(&parameters);
    }
    let valid: Vec<String> = match entry {
        Some(entry) => entry.page.presets.iter().map(|preset| format!("{name}.{}", preset.name)).collect(),
        None => entries.iter().map(|entry| entry.name.to_string()).collect(),
    };
    let near = |name: &&String| strsim::damerau_levenshtein(name, &choice.backend) <= 2;
    let nearest =
        valid.iter().filter(near).min_by_key(|name| strsim::damerau_levenshtein(name, &choice.backend)).cloned();
    Err(RegistryError::Unknown { found: choice.backend.clone(), nearest, valid })
}

impl Preset {
    /// Its parameters.
    fn map(&self) -> Map<String, Value> {
        serde_json::from_str(self.parameters).unwrap_or_default()
    }
}

fn defaults<T: Default + Serialize>() -> Value {
    serde_json::to_value(T::default()).unwrap_or_default()
}

/// Whole numbers up to this are taken for every parameter: populations and batches of this size fit into memory.
pub const LARGEST: u64 = 16_384;
/// Parameters whose defaults are large (steps, nodes) may be so many times as large.
const TIMES: u64 = 64;

/// The largest whole number that a parameter with this default may have.
pub fn largest(default: Option<&Value>) -> u64 {
    default.and_then(Value::as_u64).map_or(LARGEST, |default| LARGEST.max(default.saturating_mul(TIMES)))
}

/// Refuses negative fractions, and shares above one.
fn fractions<P: Problem>(entry: &Entry<'_, P>, given: &Map<String, Value>) -> Result<(), RegistryError> {
    let usual = (entry.defaults)();
    for parameter in entry.page.parameters.iter().filter(|p| usual.get(p.name).is_some_and(Value::is_f64)) {
        let most = if matches!(parameter.range, Range::Share(..)) { 1.0 } else { f64::MAX };
        let Some(value) = given.get(parameter.name).and_then(Value::as_f64) else { continue };
        if !(0.0..=most).contains(&value) {
            let expected = if most == 1.0 { "a share from 0 to 1" } else { "at least 0" };
            return Err(RegistryError::Parameter {
                backend: entry.name.to_owned(),
                field: parameter.name.to_owned(),
                message: format!("found `{value}`, expected {expected}"),
            });
        }
    }
    Ok(())
}

fn parameters<T>(backend: &str, given: &Map<String, Value>) -> Result<T, RegistryError>
where
    T: DeserializeOwned + Default + Serialize,
{
    let usual = defaults::<T>();
    for (name, value) in given {
        let most = largest(usual.get(name));
        // A fraction that is written as a whole number is no size.
        let is_size = usual.get(name).is_none_or(|default| !default.is_f64());
        if is_size && value.as_f64().is_some_and(|n| n.fract() == 0.0 && n > most as f64) {
            return Err(RegistryError::Parameter {
                backend: backend.to_string(),
                field: name.clone(),
                message: format!("found `{value}`, expected at most {most}"),
            });
        }
    }
    serde_path_to_error::deserialize(Value::Object(given.clone())).map_err(|error| RegistryError::Parameter {
        backend: backend.to_string(),
        field: error.path().to_string(),
        message: error.inner().to_string(),
    })
}

/// A backend that is its own settings.
fn of<'p, P, B>(name: &'static str, page: &'static Page) -> Entry<'p, P>
where
    P: Problem + 'p,
    B: Backend<P> + Default + Serialize + DeserializeOwned + 'p,
{
    let build =
        |given: &Map<String, Value>| -> Built<'p, P> { Ok(Box::new(parameters::<B>(B::default().name(), given)?)) };
    Entry { name, page, defaults: defaults::<B>, build }
}

/// The registered backend called `exact`, if there is one.
fn exact<'p, P: Problem + 'p>() -> Result<Option<Box<dyn Backend<P> + 'p>>, RegistryError> {
    let found = entries::<P>().into_iter().find(|entry| entry.name == "exact");
    found.map(|entry| (entry.build)(&Map::new())).transpose()
}

/// The portfolio of `auto` with its defaults, for those who put their own exact search in front.
pub fn default_portfolio<'p, P: Problem + 'p>() -> Result<Portfolio<'p, P>, RegistryError> {
    portfolio("auto", &Map::new())
}

fn portfolio<'p, P: Problem + 'p>(name: &str, given: &Map<String, Value>) -> Result<Portfolio<'p, P>, RegistryError> {
    let Stages { stages } = parameters(name, given)?;
    let mut built = Vec::new();
    for (number, stage) in stages.into_iter().enumerate() {
        let refused = |field: &str, message: &str| RegistryError::Parameter {
            backend: name.to_string(),
            field: format!("stages[{number}].{field}"),
            message: message.to_string(),
        };
        if !(stage.share.is_finite() && stage.share > 0.0) {
            return Err(refused("share", "expected a positive number"));
        }
        if ["auto", "portfolio"].contains(&stage.backend.as_str()) {
            return Err(refused("backend", "a portfolio cannot contain a portfolio"));
        }
        let choice = Choice { backend: stage.backend, parameters: stage.parameters };
        built.push(Stage { backend: build(&choice)?, share: stage.share });
    }
    if built.is_empty() {
        return Err(RegistryError::Parameter {
            backend: name.to_string(),
            field: "stages".into(),
            message: "expected at least one stage".into(),
        });
    }
    Ok(Portfolio { stages: built })
}

#[cfg(test)]
mod tests {
    use super::super::problems::Knapsack;
    use super::*;

    fn choice(text: &str) -> Result<Box<dyn Backend<Knapsack>>, RegistryError> {
        build(&ron::from_str(text).unwrap())
    }

    #[test]
    fn every_backend_can_be_made_from_its_defaults() {
        for entry in entries::<Knapsack>() {
            let Value::Object(all) = (entry.defaults)() else { panic!("{} has no parameters", entry.name) };
            let spelled = (entry.build)(&all).unwrap();
            let silent = (entry.build)(&Map::new()).unwrap();
            assert_eq!(spelled.name(), entry.name);
            assert_eq!(spelled.identity(), silent.identity());
        }
    }

    #[test]
    fn every_parameter_of_every_backend_is_explained_and_nothing_else() {
        for entry in entries::<Knapsack>() {
            let Value::Object(all) = (entry.defaults)() else { panic!("{} has no parameters", entry.name) };
            let told: Vec<&str> = entry.page.parameters.iter().map(|parameter| parameter.name).collect();
            assert_eq!(told, all.keys().collect::<Vec<_>>(), "{}", entry.name);
            let page = entry.page;
            assert!([page.summary, page.source, page.when].iter().all(|text| !text.is_empty()), "{}", entry.name);
        }
    }

    #[test]
    fn every_preset_can_be_made_and_differs_from_the_defaults() {
        for entry in entries::<Knapsack>() {
            let silent = (entry.build)(&Map::new()).unwrap();
            for preset in entry.page.presets {
                let named = choice(&format!(r#"(backend: "{}.{}")"#, entry.name, preset.name)).unwrap();
                assert_ne!(named.identity(), silent.identity(), "{}.{}", entry.name, preset.name);
            }
        }
        let mcts = choice(r#"(backend: "mcts.uct", parameters: {"c": 0.3})"#).unwrap();
        assert!(mcts.identity().contains("c: 0.3") && mcts.identity().contains("Uct"));
        let unknown = choice(r#"(backend: "mcts.utc")"#).err().unwrap().to_string();
        assert!(unknown.contains("did you mean `mcts.uct`"), "{unknown}");
    }

    #[test]
    fn parameters_are_read_from_a_named_search() {
        let mcts = choice(r#"(backend: "mcts", parameters: {"c": 0.2, "scale": "sigma"})"#).unwrap();
        assert!(mcts.identity().contains("c: 0.2") && mcts.identity().contains("Sigma"));
    }

    #[test]
    fn wrong_names_and_values_are_told_apart() {
        let error = |text| choice(text).err().unwrap().to_string();
        assert!(error(r#"(backend: "mtcs")"#).contains("did you mean `mcts`"));
        assert!(error(r#"(backend: "mcts", parameters: {"d": 1})"#).contains("unknown field `d`, expected"));
        assert!(error(r#"(backend: "mcts", parameters: {"c": "x"})"#).contains("parameter `c`"));
        assert!(error(r#"(backend: "auto", parameters: {"stages": []})"#).contains("at least one"));
        assert!(error(r#"(backend: "brkga", parameters: {"elite": 2.0})"#).contains("a share from 0 to 1"));
        assert!(error(r#"(backend: "anneal", parameters: {"hot": -1.0})"#).contains("at least 0"));
        assert!(error(r#"(backend: "mcts", parameters: {"mix": 2})"#).contains("found `2`"));
        let nested = r#"(backend: "auto", parameters: {"stages": [{"backend": "auto", "share": 1}]})"#;
        assert!(error(nested).contains("stages[0].backend"));
    }
}
