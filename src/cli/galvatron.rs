//! Questions and plans in Galvatron's terms: `plan --galvatron`, `check --galvatron`, `export --to galvatron`.

use super::output::{Output, say};
use super::progress::{Bar, interrupt};
use super::search::{SearchArgs, threads};
use super::written::{Written, may_write};
use super::{ANSWERED, DOES_NOT_FIT, Ended, Failure, INTERRUPTED, input, values};
use crate::cost::galvatron::{CostModel, Repairs};
use crate::error::{InputError, Kind};
use crate::import::galvatron::{PlanFile, read};
use crate::plan::file;
use crate::question::SearchOptions;
use crate::report;
use crate::search::budget::{Budget, Stop};
use crate::search::run::Request;
use crate::space::galvatron::answer::{GalvatronAnswer, GalvatronAnswerError, check, plan_exactly, plan_with};
use crate::space::galvatron::{GalvatronSpace, Partition};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// How a folder of Galvatron's is read; beside an argument `galvatron` that names it.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Galvatron")]
pub(super) struct GalvatronArgs {
    /// Galvatron's cost model as published, or with its known faults mended
    #[arg(long, value_enum, value_name = "NAME", requires = "galvatron")]
    cost_model: Option<Model>,
    /// Mend only these faults, e.g. `slow-stage,ulysses-sync` or `all,-memory-cliff`
    #[arg(long, value_name = "LIST", requires = "galvatron", allow_hyphen_values = true, value_parser = values::repairs)]
    repairs: Option<Repairs>,
    /// An argument of Galvatron's search by its name there, e.g. memory_constraint=24; replaces that of case.json
    #[arg(long, value_name = "NAME=VALUE", requires = "galvatron", value_parser = values::assignment)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    /// As published in version 2.4.1
    Galvatron,
    /// With its known faults mended
    GalvatronRepaired,
}

impl GalvatronArgs {
    /// Refuses flags that mean something beside `--galvatron` only.
    pub(super) fn refuse(&self) -> Result<(), InputError> {
        let given = [
            ("--cost-model", self.cost_model.is_some()),
            ("--repairs", self.repairs.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(InputError::new(Kind::MissingField)
                .at("--galvatron")
                .expected(format!("the folder with Galvatron's profiles, which {flag} is about"))),
            None => Ok(()),
        }
    }

    fn repairs(&self) -> Result<Repairs, InputError> {
        match (self.cost_model, self.repairs) {
            (Some(Model::Galvatron), Some(some)) if some != Repairs::NONE => {
                let names: Vec<_> = some.iter().map(|r| r.name()).collect();
                Err(InputError::new(Kind::Inconsistent)
                    .at("--repairs")
                    .found(names.join(","))
                    .expected("none with `--cost-model galvatron`")
                    .help("use `--cost-model galvatron-repaired`"))
            }
            (_, Some(repairs)) => Ok(repairs),
            (Some(Model::GalvatronRepaired), None) => Ok(Repairs::all()),
            _ => Ok(Repairs::NONE),
        }
    }

    fn model(&self, folder: &Path) -> Result<CostModel, InputError> {
        for (i, (name, value)) in self.set.iter().enumerate() {
            if let Some((_, other)) = self.set[..i].iter().find(|(known, other)| known == name && other != value) {
                return Err(InputError::new(Kind::Inconsistent)
                    .at(format!("--set {name}"))
                    .found(format!("{other} and {value}"))
                    .expected("one value"));
            }
        }
        Ok(read(folder, &self.set, self.repairs()?)?)
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    answer: &'a GalvatronAnswer,
}

fn document(schema: &'static str, answer: &GalvatronAnswer) -> Result<Value, Failure> {
    serde_json::to_value(Document { schema, answer }).map_err(|e| Failure::Internal(e.to_string()))
}

impl From<GalvatronAnswerError> for Failure {
    fn from(error: GalvatronAnswerError) -> Self {
        match error {
            GalvatronAnswerError::Cost(e) => Failure::Input(e.into()),
            GalvatronAnswerError::Backend(e) => {
                Failure::Input(InputError::new(Kind::InvalidValue).at("--backend").help(e))
            }
            GalvatronAnswerError::Cache(e) => Failure::Internal(e.to_string()),
            GalvatronAnswerError::NoPlan(stop) => Failure::NoPlan(stop),
            GalvatronAnswerError::Coarse => {
                let error = InputError::new(Kind::Unsupported).at("--backend").expected("none, or `exact`");
                Failure::Input(error.help("with fine_grained_mode=0 plans are listed, not searched"))
            }
            GalvatronAnswerError::Infeasible { usable_mb, enough_gb } => {
                let error = InputError::new(Kind::Unsupported)
                    .at("memory_constraint")
                    .found(format!("{usable_mb} MB usable on a device"))
                    .expected("a plan that fits; there is none");
                Failure::DoesNotFit(match enough_gb {
                    Some(gb) => error.help(format!("memory_constraint={gb} is enough")),
                    None => error.help("no amount of memory helps: the other arguments admit no plan"),
                })
            }
        }
    }
}

/// Evaluations of a backend that would go on for ever.
const DEFAULT_EVALUATIONS: u64 = 10_000;

/// Plans.
pub(super) fn plan(
    args: &GalvatronArgs,
    folder: &Path,
    search: &SearchArgs,
    save: Option<&Path>,
    output: &Output,
) -> Ended {
    let started = Instant::now();
    if let Some(path) = save {
        may_write(path, Written::Plan, &[])?;
    }
    let model = args.model(folder)?;
    let space = GalvatronSpace::new(model, Partition::Even).map_err(InputError::from)?;
    let mut options = SearchOptions::default();
    search.change(&mut options);
    let limited = options.max_evals.is_some() || options.max_time.is_some() || options.target_gap.is_some();
    let answer = match options.backend.as_deref() {
        None | Some("exact") if !limited => plan_exactly(&space, started)?,
        backend => {
            let backend = backend.unwrap_or("auto");
            threads(&options)?;
            let budget = Budget {
                max_evaluations: Some(options.max_evals.unwrap_or(DEFAULT_EVALUATIONS)),
                max_time: options.max_time.map(|t| t.as_limit().saturating_sub(started.elapsed())),
                target_gap: options.target_gap,
                ..Budget::default()
            };
            let mut bar = Bar::new("searching Galvatron's space");
            let request =
                Request { interrupt: interrupt(), observer: Some(&mut bar), ..Request::new(options.seed, budget) };
            plan_with(&space, backend, request, started)?
        }
    };
    let document = document(file::SCHEMA, &answer)?;
    if let Some(path) = save {
        file::save(path, &document)?;
    }
    output.answer(&document, |style| report::galvatron(&answer, &space.model.setting, style))?;
    if let Some(path) = save.filter(|_| !output.json) {
        say(&format!("plan written to {}", path.display()));
    }
    let interrupted = answer.search.as_ref().is_some_and(|s| s.stop_reason == Stop::Interrupted);
    Ok(if interrupted { INTERRUPTED } else { ANSWERED })
}

/// Prices a plan file.
pub(super) fn check_file(args: &GalvatronArgs, folder: &Path, path: &Path, output: &Output) -> Ended {
    let model = args.model(folder)?;
    let setting = model.setting.clone();
    let plan = plan_file(path, &input::text(path)?)?.plan(&setting).map_err(InputError::from)?;
    let answer = check(model, &plan).map_err(|e| InputError::from(e).in_file(path.display()))?;
    output.answer(&document("espalier/check/1", &answer)?, |style| report::galvatron(&answer, &setting, style))?;
    Ok(if answer.fits { ANSWERED } else { DOES_NOT_FIT })
}

/// A plan as Galvatron's trainer reads it.
pub(super) fn export(path: &Path, text: &str) -> Result<String, InputError> {
    let file = plan_file(path, text)?;
    Ok(format!("{:#}\n", crate::export::galvatron::to_json(&file)))
}

/// Whether a text is a plan in Galvatron's terms: its own file, or what `plan --galvatron` writes.
pub(super) fn is_plan(text: &str) -> bool {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    parsed.is_some_and(|v| v.get("tp_sizes_enc").is_some() || v.get("framework") == Some(&json!("galvatron")))
}

/// Reads either of them.
fn plan_file(path: &Path, text: &str) -> Result<PlanFile, InputError> {
    let name = path.display().to_string();
    let inner = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut keys)) if keys.get("framework") == Some(&json!("galvatron")) => keys.remove("plan"),
        _ => None,
    };
    match inner {
        Some(plan) => PlanFile::parse(&name, &plan.to_string()).map_err(|e| {
            let error = InputError::from(e);
            if error.field.is_some() { error.inside("plan") } else { error }
        }),
        None => Ok(PlanFile::parse(&name, text)?),
    }
}
