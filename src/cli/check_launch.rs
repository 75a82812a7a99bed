//! `espalier check --megatron|--deepspeed|--torchtitan`: what somebody runs today, judged.

use super::output::Output;
use super::question::inputs as resolve;
use super::{ANSWERED, DOES_NOT_FIT, Ended, Failure, ILLEGAL, input, values};
use crate::cost::CostOptions;
use crate::error::{InputError, Kind};
use crate::import::even::Meant;
use crate::import::{self, megatron as import_megatron};
use crate::model::Model;
use crate::plan::file::self_contained;
use crate::plan::{Plan, Spine};
use crate::question::{ClusterSource, ModelSource, Question, SearchOptions};
use crate::report;
use crate::rules::megatron::{ADVICE, Launch, accepts, broken};
use crate::rules::{Broken, Moment, deepspeed, torchtitan};
use crate::space::check::{Checked, check};
use crate::space::host::{HostMemory, offload};
use crate::space::planner::{Inputs, Watch, plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is run today, and where.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Launches")]
pub(super) struct LaunchArgs {
    /// Judge a launch of Megatron-LM: its arguments in one text, or a script
    #[arg(long, value_name = "ARGS|SCRIPT", allow_hyphen_values = true)]
    pub megatron: Option<String>,
    /// Judge a configuration of DeepSpeed
    #[arg(long, value_name = "JSON", conflicts_with = "megatron")]
    pub deepspeed: Option<PathBuf>,
    /// Judge a launch of torchtitan: its flags in one text, or a script
    #[arg(long, value_name = "FLAGS|SCRIPT", allow_hyphen_values = true, conflicts_with_all = ["megatron", "deepspeed"])]
    pub torchtitan: Option<String>,
    /// Ranks in all, unless the script says
    #[arg(long, value_name = "N", value_parser = values::devices)]
    pub world: Option<u64>,
    /// Major compute capability of the devices: 8 Ampere, 9 Hopper, 10 Blackwell
    #[arg(long, value_name = "N")]
    pub arch: Option<u64>,
    /// Environment of the ranks; `NAME=` is not set. CUDA_DEVICE_MAX_CONNECTIONS is taken to be 1 when nothing is said
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = values::variable)]
    pub environment: Vec<(String, String)>,
    /// Tokens of a sequence, where the launch does not say
    #[arg(long = "seq", value_name = "N", conflicts_with = "megatron", value_parser = clap::value_parser!(u64).range(1..))]
    pub sequence: Option<u64>,
    /// The model, where the arguments do not say it: a built-in name, a config.json, or a folder that holds one
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// Where it runs; without it, machines of eight of the device that --arch means
    #[arg(long, value_name = "MACHINES|PATH")]
    pub cluster: Option<String>,
}

impl LaunchArgs {
    /// Whether a launch is to be judged.
    pub(super) fn any(&self) -> bool {
        self.megatron.is_some() || self.deepspeed.is_some() || self.torchtitan.is_some()
    }
}

/// A text given in place, or the text of the file that it names.
pub(super) fn text_or_file(given: &str) -> Result<String, InputError> {
    let path = Path::new(given);
    let in_place =
        given.trim_start().starts_with('-') && given != "-" || given.contains('\n') || given.trim().is_empty();
    if in_place { Ok(given.to_owned()) } else { input::text(path) }
}

/// The launch that the arguments mean.
pub(super) fn megatron_launch(args: &LaunchArgs, given: &str) -> Result<Launch, InputError> {
    let text = import_megatron::Text::read(&text_or_file(given)?).map_err(|e| e.inside("--megatron"))?;
    let mut launch = text.launch(args.world)?;
    let mut environment = BTreeMap::from([("CUDA_DEVICE_MAX_CONNECTIONS".to_owned(), "1".to_owned())]);
    environment.extend(text.environment);
    for (name, value) in &args.environment {
        if value.is_empty() {
            environment.remove(name);
        } else {
            environment.insert(name.clone(), value.clone());
        }
    }
    launch.environment = Some(environment);
    let device = args.cluster.as_deref().map(|c| ClusterSource::from(c).resolve(Path::new(""))).transpose()?;
    let of_cluster = device.and_then(|c| c.pools.first().map(|p| crate::export::megatron::arch(&p.device.name)));
    launch.arch = Ok(args.arch.or(of_cluster).unwrap_or(9));
    Ok(launch)
}

/// Machines of the device that a compute capability means.
fn machines(arch: u64, world: u64) -> String {
    let name = match arch {
        0..=7 => "v100",
        8 => "a100",
        9 => "h100",
        _ => "b200",
    };
    let node = (1..=8).rev().find(|n| world.is_multiple_of(*n)).unwrap_or(1);
    let nodes = world / node;
    if nodes == 1 { format!("{name}x{node}") } else { format!("{name}x{node}:{nodes}") }
}

/// The question that a launch answers.
pub(super) fn question(args: &LaunchArgs, launch: &Launch) -> Result<(Question, Vec<String>), InputError> {
    let (mut job, mut notes) = import_megatron::job(launch)?;
    let model = match &args.model {
        Some(name) => name.as_str().into(),
        None => {
            let (config, remarks) = import_megatron::model_config(launch)?;
            notes.extend(remarks);
            ModelSource::Inline { config, treat_as: None }
        }
    };
    let cluster = match &args.cluster {
        Some(name) => name.as_str().into(),
        None => ClusterSource::Shorthand(machines(launch.arch.unwrap_or(9), launch.world.unwrap_or(1))),
    };
    if matches!(model, ModelSource::Preset(_) | ModelSource::Path { .. }) && !job.mtp {
        job.mtp = false;
    }
    let search = SearchOptions { target: Some("megatron".to_owned()), ..SearchOptions::default() };
    Ok((Question { model, cluster, job, search, folder: PathBuf::new() }, notes))
}

/// What a launch costs, and what would be better.
pub(super) struct Priced {
    pub question: Question,
    pub inputs: Inputs,
    pub checked: Checked,
    pub better: Option<Better>,
    pub host: Option<HostMemory>,
    pub notes: Vec<String>,
}

/// The best plan for the same question and target.
pub(super) struct Better {
    pub answer: crate::space::answer::Answer,
    pub faster: f64,
}

/// Prices a launch.
pub(super) fn price(args: &LaunchArgs, launch: &Launch) -> Result<Priced, Failure> {
    let (question, mut notes) = question(args, launch)?;
    let mut inputs = resolve(&question, CostOptions::default())?;
    if args.model.is_none() {
        inputs.model.name = "the model of the arguments".to_owned();
    } else {
        notes.extend(differences(&inputs, launch));
    }
    let spine = Spine::new(&inputs.model, &inputs.job);
    let imported = import_megatron::plan(launch, &spine)?;
    notes.extend(imported.notes);
    let fraction = launch.optimizer_offload_fraction().ok().flatten().unwrap_or(1.0);
    let offloaded = launch.optimizer_cpu_offload().unwrap_or(false).then_some(fraction);
    priced(&question, inputs, &imported.plan, offloaded, notes)
}

/// The plan of a launch, priced, and what would be better for the same question.
fn priced(
    question: &Question,
    inputs: Inputs,
    plan: &Plan,
    offloaded: Option<f64>,
    mut notes: Vec<String>,
) -> Result<Priced, Failure> {
    let mut checked = check(&inputs, plan)?;
    let host = offloaded.map(|share| inputs.pool().map(|pool| offload(&mut checked, share, pool))).transpose()?;
    if let Some(host) = &host {
        let gb = |bytes: f64| format!("{:.0} GB", bytes / 1e9);
        let has = host.available_bytes.map_or("unknown".to_owned(), gb);
        notes.push(format!(
            "host memory of a node: {} of optimizer states, {} at the peak with gradients and pinned copies, of {has}; time of the \
             transfers is not priced",
            gb(host.states_bytes),
            gb(host.peak_bytes)
        ));
    }
    Ok(Priced { host, question: self_contained(question)?, better: better(&inputs, &checked), inputs, checked, notes })
}

/// A launch that names degrees only, with the model and the machines of the arguments; `None` when no model is given.
fn price_meant(
    args: &LaunchArgs,
    target: &str,
    meaning: impl FnOnce(&Model) -> Result<Meant, InputError>,
) -> Result<Option<Priced>, Failure> {
    let Some(name) = &args.model else { return Ok(None) };
    let model = ModelSource::from(name.as_str());
    let Meant { job, plan, offloaded, notes } = meaning(&model.resolve(Path::new(""))?)?;
    let cluster = match &args.cluster {
        Some(name) => name.as_str().into(),
        None => ClusterSource::Shorthand(machines(args.arch.unwrap_or(9), plan.devices)),
    };
    let search = SearchOptions { target: Some(target.to_owned()), ..SearchOptions::default() };
    let question = Question { model, cluster, job, search, folder: PathBuf::new() };
    let inputs = resolve(&question, CostOptions::default())?;
    priced(&question, inputs, &plan, offloaded, notes).map(Some)
}

/// Where the sizes of the arguments are not those of the model.
fn differences(inputs: &Inputs, launch: &Launch) -> Vec<String> {
    let sizes = crate::export::megatron::Sizes::of(&inputs.model);
    let number = |n: crate::rules::Known<Option<i64>>| n.ok().flatten().and_then(|n| u64::try_from(n).ok());
    [
        ("--hidden-size", number(launch.hidden_size()), sizes.hidden),
        ("--num-attention-heads", number(launch.heads()), sizes.heads),
        ("--ffn-hidden-size", number(launch.given_ffn()), sizes.ffn),
        ("--num-experts", number(launch.given_experts()), sizes.experts.map_or(0, |e| e.0)),
    ]
    .into_iter()
    .filter_map(|(flag, said, is)| said.filter(|n| *n != is).map(|n| format!("{flag} {n} is not the model's {is}")))
    .collect()
}

/// The best plan for the same target that a short search finds.
fn better(inputs: &Inputs, checked: &Checked) -> Option<Better> {
    let mut inputs = inputs.clone();
    inputs.search.backend = Some("random".to_owned());
    inputs.search.max_evals = Some(1);
    let answer = plan(&inputs, Watch { quick: true, ..Watch::default() }).ok()?;
    let faster = checked.estimate.iteration_time_s / answer.estimate.iteration_time_s - 1.0;
    (!checked.fits || faster > crate::space::answer::NEAR_TIE).then_some(Better { answer, faster })
}

fn derived(launch: &Launch) -> Value {
    json!({
        "world": launch.world.ok(),
        "data_parallel": launch.dp().ok(),
        "expert_data_parallel": launch.expert_dp().ok(),
        "expert_tensor_parallel": launch.etp().ok(),
        "chunks_per_rank": launch.vpp().ok().flatten(),
        "micro_batches": launch.micro_batches().ok(),
        "layers": launch.layers_by_rank().ok(),
        "sequence_parallel": launch.sequence_parallel().ok(),
        "ffn_hidden_size": launch.ffn().ok(),
        "padded_vocabulary": launch.padded_vocabulary().ok(),
    })
}

/// Judges what the arguments name.
pub(super) fn run(args: &LaunchArgs, output: &Output) -> Ended {
    if let Some(given) = &args.megatron {
        return megatron(args, given, output);
    }
    if let Some(path) = &args.deepspeed {
        let named = |e: InputError| e.in_file(path.display());
        let config = deepspeed::Config::parse(&input::text(path)?, args.world).map_err(named)?;
        let (refused, later) = (deepspeed::BOOK.broken(&config), deepspeed::UNCHECKED.broken(&config));
        let batches = config.batches().ok();
        let derived = json!({
            "world": config.world.ok(), "data_parallel": config.dp().ok(), "zero_stage": config.stage(),
            "train_batch_size": batches.map(|b| b.0), "micro_batch": batches.map(|b| b.1), "micro_batches": batches.map(|b| b.2),
        });
        let judged = Judged::new("deepspeed", deepspeed::VERSION, refused, later, derived);
        let meaning = |model: &Model| {
            let missing = || InputError::new(Kind::MissingField).at("--seq").expected("tokens of a sequence");
            import::deepspeed::meant(&config, model, args.sequence.ok_or_else(missing)?).map_err(named)
        };
        let priced = if judged.runs() { price_meant(args, "deepspeed", meaning)? } else { None };
        return judged.answer(args, priced, "--model and --seq say what is trained", output);
    }
    if let Some(given) = &args.torchtitan {
        let (words, said) = torchtitan_words(&text_or_file(given)?)?;
        let mut launch = torchtitan::Launch::parse(&words, args.world.or(said))?;
        if let Some(model) = &args.model {
            let model = ModelSource::from(model.as_str()).resolve(Path::new(""))?;
            launch.layers = Ok(crate::export::megatron::Sizes::of(&model).layers);
        }
        let (refused, later) = (torchtitan::BOOK.broken(&launch), torchtitan::UNCHECKED.broken(&launch));
        let derived = json!({ "world": launch.world.ok(), "stages": launch.pp() });
        let judged = Judged::new("torchtitan", torchtitan::VERSION, refused, later, derived);
        let meaning = |model: &Model| import::torchtitan::meant(&launch, model, args.sequence);
        let priced = if judged.runs() { price_meant(args, "torchtitan", meaning)? } else { None };
        return judged.answer(args, priced, "--model says what is trained", output);
    }
    Err(InputError::new(Kind::MissingField).at("--megatron").expected("a launch").into())
}

/// Flags of a line, or of the script that runs `torchtitan.train`, with the ranks that its torchrun starts.
fn torchtitan_words(text: &str) -> Result<(Vec<String>, Option<u64>), InputError> {
    if text.trim().is_empty() {
        return Err(InputError::new(Kind::Syntax).found("no flag at all").expected("flags of torchtitan"));
    }
    if text.trim_start().starts_with("--") {
        return Ok((crate::rules::megatron::parse::words(text)?, None));
    }
    let script = crate::import::shell::Script::parse(text)?;
    let launch = script.commands.iter().find_map(|words| {
        let at = words.iter().position(|w| w.contains("torchtitan") || w.ends_with(".py"))?;
        Some((words[at + 1..].to_vec(), import_megatron::ranks(&words[..at], &script)))
    });
    launch.ok_or_else(|| {
        let error = InputError::new(Kind::Unsupported).found("a script that runs no torchtitan.train");
        error.expected("a line such as `torchrun .. -m torchtitan.train --parallelism. ..`")
    })
}

/// What rules say of a launch.
struct Judged {
    target: &'static str,
    title: &'static str,
    version: &'static str,
    legal: bool,
    refused: Vec<Broken>,
    later: Vec<Broken>,
    advice: Vec<Broken>,
    derived: Value,
}

impl Judged {
    fn new(
        target: &'static str,
        version: &'static str,
        refused: Vec<Broken>,
        later: Vec<Broken>,
        derived: Value,
    ) -> Self {
        Self { target, title: target, version, legal: refused.is_empty(), refused, later, advice: Vec::new(), derived }
    }

    /// Whether it starts and goes on.
    fn runs(&self) -> bool {
        self.legal && self.later.is_empty()
    }

    /// Tells it, with the price, or what is missing for one.
    fn answer(self, args: &LaunchArgs, priced: Option<Priced>, unpriced: &str, output: &Output) -> Ended {
        let Self { refused, later, advice, derived, .. } = &self;
        let mut document = json!({
            "schema": "espalier/check/1", "target": self.target, "version": self.version, "legal": self.legal,
            "broken_rules": refused.iter().chain(later).collect::<Vec<_>>(), "fails_later": later, "advice": advice,
            "derived": derived,
        });
        if let Some(p) = &priced {
            document["question"] = json!(p.question);
            let checked = serde_json::to_value(&p.checked).map_err(|e| Failure::Internal(e.to_string()))?;
            if let Value::Object(fields) = checked {
                for (key, value) in fields {
                    document[key] = value;
                }
            }
            document["host_memory"] = json!(p.host);
            document["notes"] = json!(p.notes);
            document["cluster_assumed"] = json!(args.cluster.is_none());
            if let Some(b) = &p.better {
                document["better"] =
                    json!({ "plan": b.answer.plan, "estimate": b.answer.estimate, "faster": b.faster });
            }
        }
        let unpriced = Some(unpriced).filter(|why| priced.is_none() && self.runs() && !why.is_empty());
        if let Some(why) = unpriced {
            document["not_priced"] = json!(why);
        }
        output.answer(&document, |style| {
            let view =
                report::LaunchReport { target: self.title, version: self.version, refused, later, advice, derived };
            let mut text = report::launch(&view, style);
            if let Some(p) = &priced {
                text.push('\n');
                text.push_str(&report::check(&p.checked, None, &p.inputs, style));
                let notes: Vec<&str> = p.notes.iter().map(String::as_str).collect();
                text.push_str(&report::remarks(&notes, style));
                if let Some(b) = &p.better {
                    text.push_str(&report::better(&b.answer, b.faster, &p.inputs, style));
                }
            }
            if let Some(why) = unpriced {
                text.push_str(&report::remarks(&[&format!("not priced: {why}")], style));
            }
            text
        })?;
        let fits = |p: &Priced| p.checked.fits && p.host.is_none_or(|h| h.fits != Some(false));
        Ok(match (self.runs(), &priced) {
            (false, _) => ILLEGAL,
            (true, Some(p)) if args.cluster.is_some() && !fits(p) => DOES_NOT_FIT,
            _ => ANSWERED,
        })
    }
}

fn megatron(args: &LaunchArgs, given: &str, output: &Output) -> Ended {
    let launch = megatron_launch(args, given)?;
    let (refused, later): (Vec<Broken>, Vec<Broken>) = broken(&launch).into_iter().partition(|b| b.when != Moment::Run);
    let version = crate::rules::megatron::VERSION;
    let legal = accepts(&refused);
    let judged = Judged::new("megatron", version, refused, later, derived(&launch));
    let judged = Judged { title: "Megatron-LM", legal, advice: ADVICE.broken(&launch), ..judged };
    let (mut found, mut unpriced) = (None, String::new());
    if judged.runs() {
        match price(args, &launch) {
            Ok(price) => found = Some(price),
            // What was asked for by name must be answered; what only comes on top may be missing.
            Err(failure) if args.model.is_some() || args.cluster.is_some() => return Err(failure),
            Err(Failure::Input(e)) => unpriced = e.to_string(),
            Err(failure) => return Err(failure),
        }
    }
    judged.answer(args, found, &unpriced, output)
}
