//! Solved cases: what a problem looked like, and the genome that was best there. A RON file that recorded runs add to.
//!
//! A problem is known by its features alone: how many decisions the path has that its prior likes best, and what the options
//! along it mean (alleles keep their meaning from one problem of a kind to another). Two problems are as near as these
//! sets overlap (Jaccard 1901) times the ratio of their lengths.

use crate::error::{InputError, Kind};
use crate::read;
use crate::search::genome::{Decoder, Gene, Genome, Wish};
use crate::search::problem::{Allele, Node, Problem, Slot};
use crate::search::stream::Stream;
use crate::search::walk::{Decision, PriorSampler, Walk};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name and version of the format.
pub const SCHEMA: &str = "espalier/cases/1";
/// Decisions, options of each, and labels in all that features look at.
const MOST_DECISIONS: usize = 4_096;
const MOST_OPTIONS: u32 = 64;
const MOST_LABELS: usize = 512;

/// What a problem looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// Decisions of the path that the prior likes best.
    pub decisions: usize,
    /// What options along it mean, the smallest labels first.
    pub labels: BTreeSet<Allele>,
}

impl Features {
    /// Of a problem.
    pub fn of<P: Problem>(problem: &P) -> Self {
        let mut walk = Walk::new(problem);
        let mut priors = PriorSampler::default();
        let mut labels = BTreeSet::new();
        while let Node::Choose { slot, options } = walk.node() {
            let depth = walk.path().len();
            if options == 0 || depth >= MOST_DECISIONS {
                break;
            }
            labels.extend((0..options.min(MOST_OPTIONS)).map(|option| problem.allele(walk.state(), option)));
            let best = priors.best(&Decision { problem, state: walk.state(), depth, slot, options });
            walk.push(best);
        }
        while labels.len() > MOST_LABELS {
            labels.pop_last();
        }
        Self { decisions: walk.path().len(), labels }
    }

    /// 1 for problems that look alike, 0 for those that have nothing in common.
    pub fn likeness(&self, other: &Features) -> f64 {
        let both = self.labels.intersection(&other.labels).count() as f64;
        let all = self.labels.union(&other.labels).count().max(1) as f64;
        let (a, b) = (self.decisions as f64, other.decisions as f64);
        both / all * a.min(b) / a.max(b).max(1.0)
    }
}

/// A solved case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Which run solved it.
    pub source: String,
    /// What the problem looked like.
    pub features: Features,
    /// The objective that was reached.
    pub objective: f64,
    /// What was decided about each slot.
    pub genome: Vec<(Slot, Allele)>,
}

impl Case {
    /// A case of `problem`, solved by `path`; `None` if that is no path of it.
    pub fn of<P: Problem>(problem: &P, source: &str, path: &[u32], objective: f64) -> Option<Self> {
        let (genome, _) = Decoder::new(problem).follow(path)?;
        let genome = genome.genes().iter().map(|gene: &Gene| (gene.slot, gene.allele)).collect();
        Some(Self { source: source.to_owned(), features: Features::of(problem), objective, genome })
    }

    /// The path of another problem that comes nearest.
    pub fn adapt<P: Problem>(
        &self,
        decoder: &mut Decoder<'_, P>,
        stream: &mut Stream,
    ) -> Result<(Genome, P::Solution), f64> {
        let by_slot: BTreeMap<Slot, Allele> = self.genome.iter().copied().collect();
        decoder.decode(stream, |decision, _| by_slot.get(&decision.slot).map_or(Wish::Likely, |a| Wish::Allele(*a)))
    }
}

/// All cases that are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseBase {
    /// [`SCHEMA`].
    pub schema: String,
    /// The cases.
    pub cases: Vec<Case>,
}

impl Default for CaseBase {
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), cases: Vec::new() }
    }
}

impl CaseBase {
    /// Reads a file.
    ///
    /// # Errors
    /// [`InputError`] names the file and the field.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let base: Self = read::file(path)?;
        let wrong = |field: &str, found: &str, expected: &str| {
            Err(InputError::new(Kind::Unsupported).in_file(path.display()).at(field).found(found).expected(expected))
        };
        if base.schema != SCHEMA {
            return wrong("schema", &base.schema, SCHEMA);
        }
        if let Some(i) = base.cases.iter().position(|case| !case.objective.is_finite()) {
            return wrong(&format!("cases[{i}].objective"), &base.cases[i].objective.to_string(), "a finite number");
        }
        Ok(base)
    }

    /// As a file's text.
    pub fn text(&self) -> Result<String, ron::Error> {
        let pretty = ron::ser::PrettyConfig::new().depth_limit(3);
        Ok(read::ron_options().to_string_pretty(self, pretty)? + "\n")
    }

    /// The `n` cases whose problems look most like `problem`, none that has nothing in common with it.
    pub fn nearest<P: Problem>(&self, problem: &P, n: usize) -> Vec<&Case> {
        let here = Features::of(problem);
        let mut ranked: Vec<(f64, usize)> =
            self.cases.iter().enumerate().map(|(i, case)| (case.features.likeness(&here), i)).collect();
        ranked.retain(|(likeness, _)| *likeness > 0.0);
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().take(n).map(|(_, i)| &self.cases[i]).collect()
    }

    /// Takes a case over: beside those of other sources, in the place of one of the same source and look if it is better.
    /// Whether anything changed.
    pub fn learn(&mut self, case: Case) -> bool {
        let same = |known: &&mut Case| known.source == case.source && known.features == case.features;
        match self.cases.iter_mut().find(same) {
            Some(known) if known.objective <= case.objective => false,
            Some(known) => {
                *known = case;
                true
            }
            None => {
                self.cases.push(case);
                true
            }
        }
    }
}
