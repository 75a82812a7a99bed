//! `espalier check --megatron|--deepspeed|--torchtitan`: what somebody runs today, judged.

use super::launch_price::{Priced, price, price_meant};
use super::output::Output;
use super::{ANSWERED, DOES_NOT_FIT, Ended, Failure, ILLEGAL, input, values};
use crate::error::{InputError, Kind};
use crate::import::{self, megatron as import_megatron};
use crate::model::Model;
use crate::question::{ClusterSource, ModelSource};
use crate::report;
use crate::rules::megatron::{ADVICE, Launch, accepts, broken};
use crate::rules::{Broken, Moment, deepspeed, torchtitan};
use crate::units::Bytes;
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
    /// Memory of a node's host, e.g. 512GB, unless the machines say
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = values::memory)]
    pub host_memory: Option<Bytes>,
}

impl LaunchArgs {
    /// A flag that says something of a launch.
    pub(super) fn said(&self) -> Option<&'static str> {
        let given = [
            ("--world", self.world.is_some()),
            ("--arch", self.arch.is_some()),
            ("--env", !self.environment.is_empty()),
            ("--seq", self.sequence.is_some()),
            ("--model", self.model.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--host-memory", self.host_memory.is_some()),
        ];
        given.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

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
        let advice = deepspeed::ADVICE.broken(&config);
        let judged = Judged { advice, ..Judged::new("deepspeed", deepspeed::VERSION, refused, later, derived) };
        let meaning = |model: &Model| {
            let missing = || InputError::new(Kind::MissingField).at("--seq").expected("tokens of a sequence");
            import::deepspeed::meant(&config, model, args.sequence.ok_or_else(missing)?).map_err(named)
        };
        let priced = if judged.runs() { price_meant(args, "deepspeed", meaning)? } else { None };
        return judged.answer(args, priced, "--model and --seq say what is trained", output);
    }
    if let Some(given) = &args.torchtitan {
        let launch = torchtitan_launch(&text_or_file(given)?, args.world, args.model.as_deref())?;
        let (refused, later) = (torchtitan::BOOK.broken(&launch), torchtitan::UNCHECKED.broken(&launch));
        let derived = json!({ "world": launch.world.ok(), "stages": launch.pp() });
        let judged = Judged::new("torchtitan", torchtitan::VERSION, refused, later, derived);
        let meaning = |model: &Model| import::torchtitan::meant(&launch, model, args.sequence);
        let priced = if judged.runs() { price_meant(args, "torchtitan", meaning)? } else { None };
        return judged.answer(args, priced, "--model says what is trained", output);
    }
    Err(InputError::new(Kind::MissingField).at("--megatron").expected("a launch").into())
}

/// The launch that a line of flags means, or a script, for a model if one is named.
pub(super) fn torchtitan_launch(
    text: &str,
    world: Option<u64>,
    model: Option<&str>,
) -> Result<torchtitan::Launch, InputError> {
    let (words, said) = torchtitan_words(text)?;
    let mut launch = torchtitan::Launch::parse(&words, world.or(said))?;
    if let Some(model) = model {
        let model = ModelSource::from(model).resolve(Path::new(""))?;
        launch.layers = Ok(crate::export::megatron::Sizes::of(&model).layers);
    }
    Ok(launch)
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
            "derived": derived, "runs": self.runs(),
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
            document["changes"] = json!(p.changes);
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
                text.push_str(&report::host(&p.host, style));
                text.push_str(&report::changes(&p.changes, style));
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
        let fits = |p: &Priced| p.checked.fits && p.host.fits != Some(false);
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
