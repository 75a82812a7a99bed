//! `espalier model`: what a model is.

use super::output::Output;
use super::question::QuestionArgs;
use super::{ANSWERED, Ended, values};
use crate::job::{Job, Optimizer, Precision, Storage};
use crate::question::ModelSource;
use crate::report;
use crate::space::profile::{Profile, profile};
use serde::Serialize;

/// Tokens for which arithmetic is shown if nobody says; less if the model takes fewer.
const USUAL_SEQUENCE: u64 = 4096;

/// Arguments of `model`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A config.json, a folder that holds one, or a built-in name
    #[arg(value_name = "NAME|PATH")]
    model: String,
    /// Family whose rules to read the config.json by, in place of its `model_type`
    #[arg(long, value_name = "FAMILY")]
    treat_as: Option<String>,
    /// Tokens per sequence, for FLOPs and activations [default: 4096, or what the model takes]
    #[arg(long, visible_alias = "sequence", value_name = "TOKENS", value_parser = values::tokens)]
    seq: Option<u64>,
    /// Tokens per sequence of the encoder
    #[arg(long, value_name = "TOKENS", value_parser = values::tokens)]
    encoder_seq: Option<u64>,
    /// Patches per sequence that enter a vision tower
    #[arg(long, value_name = "N", value_parser = values::tokens)]
    vision_tokens: Option<u64>,
    /// Format of matrix products: bf16, fp16, fp8, fp32
    #[arg(long, value_name = "FORMAT", value_parser = values::precision)]
    precision: Option<Precision>,
    /// Format of accumulated gradients: fp32, bf16, fp16
    #[arg(long, value_name = "FORMAT", value_parser = values::storage)]
    gradients: Option<Storage>,
    /// Format of optimizer moments: fp32, bf16, fp16, fp8
    #[arg(long, value_name = "FORMAT", value_parser = values::storage)]
    moments: Option<Storage>,
    /// Optimizer: adam, sgd
    #[arg(long, value_name = "NAME", value_parser = values::optimizer)]
    optimizer: Option<Optimizer>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    profile: &'a Profile,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    let asked = QuestionArgs {
        treat_as: args.treat_as.clone(),
        seq: args.seq,
        encoder_seq: args.encoder_seq,
        vision_tokens: args.vision_tokens,
        precision: args.precision,
        gradients: args.gradients,
        moments: args.moments,
        optimizer: args.optimizer,
        ..QuestionArgs::default()
    };
    let source = asked.treated(ModelSource::from(args.model.as_str()))?;
    let model = source.resolve(std::path::Path::new(""))?;
    let sequence = model.max_positions.map_or(USUAL_SEQUENCE, |most| most.min(USUAL_SEQUENCE)).max(1);
    let mut job = Job::new(1, sequence);
    asked.change(&mut job);
    let profile = profile(&model, &job)?;
    let document = serde_json::to_value(Document { schema: "espalier/model/1", profile: &profile })
        .map_err(|e| super::Failure::Internal(e.to_string()))?;
    output.answer(&document, |style| report::model(&profile, style))?;
    Ok(ANSWERED)
}
