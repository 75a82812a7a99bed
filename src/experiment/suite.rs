//! A suite: which instances, which backends, which seeds, how long. A RON or JSON file.

use super::instance::InstanceSpec;
use super::limits::{self, within};
use super::tuning::Tuning;
use crate::error::{InputError, Kind};
use crate::read;
use crate::search::erased::Erased;
use crate::search::registry::{Choice, RegistryError, build};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A suite as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What it is called.
    pub name: String,
    /// What it is for, in a sentence or two; printed in the report.
    #[serde(default)]
    pub about: String,
    /// The instances.
    pub instances: Vec<InstanceSpec>,
    /// The backends.
    pub backends: Vec<Contestant>,
    /// The seeds.
    pub seeds: Seeds,
    /// Distinct evaluations of a run.
    pub evaluations: u64,
    /// Relative distances to the reference whose expected running time is tabled.
    #[serde(default = "usual_targets")]
    pub targets: Vec<f64>,
    /// Evaluations at which answers are tabled, the whole budget apart.
    #[serde(default)]
    pub budgets: Vec<u64>,
    /// Relative differences up to this are of no practical importance.
    #[serde(default = "usual_zone")]
    pub equivalence: f64,
    /// How every backend is tuned before the race, all with the same number of configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
    /// A table of best known values beside the suite (JSON), for instances that nobody has proven.
    #[serde(default)]
    pub best_known: Option<String>,
    /// The folder that paths start from: that of the file.
    #[serde(skip)]
    pub folder: PathBuf,
}

fn usual_targets() -> Vec<f64> {
    vec![0.03, 0.01, 0.001]
}

fn usual_zone() -> f64 {
    0.001
}

/// A backend in a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contestant {
    /// What it is called in tables; the backend's name if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// Name in the registry.
    pub backend: String,
    /// Its parameters by name; absent ones keep their defaults.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

impl Contestant {
    /// What it is called in tables.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.backend)
    }

    /// It as the registry takes it.
    pub fn choice(&self) -> Choice {
        Choice { backend: self.backend.clone(), parameters: self.parameters.clone() }
    }

    /// Backend and parameters, defaults spelled out.
    pub fn identity(&self) -> Result<String, InputError> {
        let built = build::<Erased<'_>>(&self.choice());
        let refused = |error: RegistryError| match error {
            RegistryError::Parameter { field, message, .. } => {
                let at = |prefix: &str, field: &str| match field {
                    "" | "." | "?" => prefix.to_owned(),
                    field => format!("{prefix}.{field}"),
                };
                read::explain(&message).at(at("parameters", &field)).help(format!("of `{}`", self.backend))
            }
            unknown => InputError::new(Kind::InvalidValue).at("backend").found(&self.backend).help(unknown),
        };
        Ok(built.map_err(refused)?.identity())
    }
}

/// Seeds in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// The first.
    #[serde(default)]
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Seeds {
    /// Refuses none, too many, and seeds that are no numbers of 64 bits; `field` is the one to name.
    pub(super) fn validate(self, field: &str) -> Result<(), InputError> {
        within(&format!("{field}.count"), self.count, 1..=limits::SEEDS)?;
        within(&format!("{field}.first"), self.first, 0..=u64::MAX - (self.count - 1))
    }

    /// Whether all of `other` are among them.
    pub(super) fn contain(self, other: Seeds) -> bool {
        let last = |seeds: Seeds| seeds.first + (seeds.count - 1);
        self.first <= other.first && last(other) <= last(self)
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |i| self.first.wrapping_add(i))
    }
}

impl Suite {
    /// Reads a suite.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let suite = Self::parse(&read::text(path)?, &path.display().to_string())?;
        Ok(Self { folder: path.parent().unwrap_or(Path::new("")).to_owned(), ..suite })
    }

    /// Reads the text of a suite; `name` is the file to name in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self, InputError> {
        let suite: Self = read::parse(text, name)?;
        suite.validate().map_err(|e| e.in_file(name))?;
        Ok(suite)
    }

    fn validate(&self) -> Result<(), InputError> {
        let wrong = |field: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected))
        };
        if self.instances.is_empty() {
            return wrong("instances", &"none", "at least one");
        }
        if self.backends.is_empty() {
            return wrong("backends", &"none", "at least one");
        }
        let counted = |n: usize| format!("{n} of them");
        for (field, n, most) in [
            ("instances", self.instances.len(), limits::INSTANCES),
            ("backends", self.backends.len(), limits::BACKENDS),
            ("budgets", self.budgets.len(), limits::TABLED),
            ("targets", self.targets.len(), limits::TABLED),
        ] {
            if n > most {
                return wrong(field, &counted(n), &format!("at most {most}"));
            }
        }
        self.seeds.validate("seeds")?;
        within("evaluations", self.evaluations, 1..=limits::EVALUATIONS)?;
        for (i, target) in self.targets.iter().enumerate() {
            within(&format!("targets[{i}]"), *target, 0.0..=limits::TARGET)?;
            if self.targets[..i].contains(target) {
                return wrong(&format!("targets[{i}]"), target, "every target once");
            }
        }
        for (i, budget) in self.budgets.iter().enumerate() {
            within(&format!("budgets[{i}]"), *budget, 1..=self.evaluations)?;
            if self.budgets[..i].contains(budget) {
                return wrong(&format!("budgets[{i}]"), budget, "every budget once");
            }
        }
        within("equivalence", self.equivalence, 0.0..=1.0)?;
        let mut names = BTreeSet::new();
        for (i, instance) in self.instances.iter().enumerate() {
            if !is_word(&instance.id) {
                return wrong(&format!("instances[{i}].id"), &instance.id, WORD);
            }
            if !names.insert(&instance.id) {
                return wrong(&format!("instances[{i}].id"), &instance.id, "an id of its own");
            }
            instance.validate().map_err(|e| e.inside(format!("instances[{i}]")))?;
        }
        let mut labels = BTreeSet::new();
        for (i, contestant) in self.backends.iter().enumerate() {
            let field = format!("backends[{i}].name");
            if !is_word(contestant.label()) {
                return wrong(&field, &contestant.label(), WORD);
            }
            if !labels.insert(contestant.label()) {
                return wrong(&field, &contestant.label(), "a name of its own");
            }
            contestant.identity().map_err(|e| e.inside(format!("backends[{i}]")))?;
        }
        let (instances, backends) = (self.instances.len() as u64, self.backends.len() as u64);
        if let Some(tuning) = &self.tuning {
            tuning.validate(&self.instances.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>())?;
            let seeds = tuning.seeds.unwrap_or(self.seeds).count;
            let factors = [tuning.trials, backends, tuning.train.len() as u64, seeds];
            let evaluations = tuning.evaluations.unwrap_or(self.evaluations);
            limits::race("tuning.trials x backends x tuning.train x seeds", &factors, evaluations)?;
        }
        limits::race("seeds x instances x backends", &[self.seeds.count, instances, backends], self.evaluations)
    }
}

/// What [`is_word`] takes.
const WORD: &str = "up to 100 letters, digits, `-`, `_` and `.`";

/// Whether a name can be a file name, a column of a table and a word of the interchange formats.
fn is_word(name: &str) -> bool {
    (1..=limits::NAME).contains(&name.len())
        && name != "."
        && name != ".."
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"name: "s", seeds: (count: 2), evaluations: 10,"#;

    fn error(body: &str) -> String {
        Suite::parse(&format!("({HEAD} {body})"), "s.ron").unwrap_err().to_string()
    }

    #[test]
    fn a_suite_says_what_is_wrong_with_it() {
        let instance = r#"instances: [(id: "a", source: Salesman(cities: 6, seed: 1))]"#;
        assert!(error(&format!(r#"{instance}, backends: [(backend: "gentic")]"#)).contains("did you mean `genetic`"));
        assert!(error(&format!("{instance}, backends: []")).contains("backends: invalid value: found `none`"));
        let twice = r#"backends: [(backend: "random"), (backend: "random")]"#;
        assert!(error(&format!("{instance}, {twice}")).contains("backends[1].name"));
        let one = r#"backends: [(backend: "random")]"#;
        assert!(
            error(&format!(r#"instances: [(id: "a b", source: Salesman(cities: 6, seed: 1))], {one}"#))
                .contains("instances[0].id")
        );
        assert!(
            error(&format!(r#"instances: [(id: "a", source: Salesman(cities: 2, seed: 1))], {one}"#))
                .contains("cities")
        );
        assert!(error(&format!("{instance}, {one}, budgets: [11]")).contains("budgets"));
        assert!(error(&format!("{instance}, {one}, seed: 1")).contains("unknown field"));
    }
}
