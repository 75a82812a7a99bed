//! The question that flags and files ask together: flags override the file, the file of no name is the built-in example.

use super::input;
use super::kinds::{FileKind, otherwise};
use super::values;
use crate::cost::CostOptions;
use crate::error::{InputError, Kind};
use crate::job::{Job, Optimizer, Precision, Storage};
use crate::question::{ClusterSource, ModelSource, Question};
use crate::space::backends;
use crate::space::planner::Inputs;
use crate::units::Bytes;
use std::path::PathBuf;

/// What is asked when nothing is: Llama-3.1-70B on 64 H100.
const EXAMPLE: &str = include_str!("../../search_configs/llama3_70b_64xh100.ron");
const EXAMPLE_NAME: &str = "built-in question.ron";

/// What to train, where, and how.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Question")]
pub(super) struct QuestionArgs {
    /// Question file (RON or JSON, `-` for standard input); without one, Llama-3.1-70B on 64 H100
    #[arg(value_name = "QUESTION")]
    pub file: Option<PathBuf>,
    /// Model: a built-in name, a config.json, or a folder that holds one
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// Family whose rules to read the config.json by, in place of its `model_type`
    #[arg(long, value_name = "FAMILY")]
    pub treat_as: Option<String>,
    /// Cluster: machines such as `h100x8:16`, or a cluster file
    #[arg(long, value_name = "MACHINES|PATH")]
    pub cluster: Option<String>,
    /// Sequences per optimizer step
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::batch)]
    pub global_batch: Option<u64>,
    /// Tokens per sequence
    #[arg(long, visible_alias = "sequence", value_name = "TOKENS", allow_hyphen_values = true, value_parser = values::tokens)]
    pub seq: Option<u64>,
    /// Tokens per sequence of the encoder
    #[arg(long, value_name = "TOKENS", allow_hyphen_values = true, value_parser = values::tokens)]
    pub encoder_seq: Option<u64>,
    /// Patches per sequence that enter a vision tower
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::tokens)]
    pub vision_tokens: Option<u64>,
    /// Format of matrix products: bf16, fp16, fp8, fp32
    #[arg(long, value_name = "FORMAT", value_parser = values::precision)]
    pub precision: Option<Precision>,
    /// Format of accumulated gradients: fp32, bf16, fp16
    #[arg(long, value_name = "FORMAT", value_parser = values::storage)]
    pub gradients: Option<Storage>,
    /// Format of optimizer moments: fp32, bf16, fp16, fp8
    #[arg(long, value_name = "FORMAT", value_parser = values::storage)]
    pub moments: Option<Storage>,
    /// Optimizer: adam, sgd
    #[arg(long, value_name = "NAME", value_parser = values::optimizer)]
    pub optimizer: Option<Optimizer>,
    /// Device memory that training may use, e.g. 80GB or 72GiB
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = values::memory)]
    pub memory: Option<Bytes>,
    /// Load of the busiest expert rank over the mean
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, value_parser = values::imbalance)]
    pub expert_imbalance: Option<f64>,
    /// Leave out multi-token-prediction modules
    #[arg(long)]
    pub no_mtp: bool,
    /// Leave an effect out of the cost model, to see what it does: nic-sharing, overlap, head, moments
    #[arg(long, value_name = "EFFECT", value_delimiter = ',', value_parser = values::effect)]
    pub without: Vec<String>,
}

impl QuestionArgs {
    /// The question, with nothing resolved yet.
    pub(super) fn question(&self) -> Result<Question, InputError> {
        let mut question = match (&self.file, &self.model) {
            (Some(path), _) => {
                let text = input::text(path)?;
                let folder = path.parent().map(std::path::Path::to_owned).unwrap_or_default();
                let name = path.display().to_string();
                let question =
                    Question::parse(&text, &name).map_err(|e| otherwise(e, &text, FileKind::Question, &name))?;
                // Paths of flags start from the working folder, paths of the file from its own.
                absolute(Question { folder, ..question })
            }
            (None, Some(_)) => self.asked_by_flags()?,
            (None, None) => Question::parse(EXAMPLE, EXAMPLE_NAME)?,
        };
        if let Some(model) = &self.model {
            question.model = model.as_str().into();
        }
        question.model = self.treated(question.model)?;
        if let Some(cluster) = &self.cluster {
            question.cluster = cluster.as_str().into();
        }
        self.change(&mut question.job);
        Ok(question)
    }

    /// `source` with `--treat-as` applied.
    pub(super) fn treated(&self, source: ModelSource) -> Result<ModelSource, InputError> {
        let Some(family) = &self.treat_as else { return Ok(source) };
        let treat_as = Some(family.clone());
        match source {
            ModelSource::Path { path, .. } => Ok(ModelSource::Path { path, treat_as }),
            ModelSource::Inline { config, .. } => Ok(ModelSource::Inline { config, treat_as }),
            ModelSource::Preset(name) => Err(InputError::new(Kind::Inconsistent)
                .at("--treat-as")
                .found(family)
                .expected(format!("nothing: the family of `{name}` is known"))),
        }
    }

    /// Without a file, a model of one's own needs the rest of the question too.
    fn asked_by_flags(&self) -> Result<Question, InputError> {
        let missing = |flag: &str, example: &str| {
            InputError::new(Kind::MissingField)
                .at(flag)
                .expected(format!("{example}; with --model and no question file it must be given"))
        };
        let cluster = self.cluster.as_deref().ok_or_else(|| missing("--cluster", "machines such as `h100x8:8`"))?;
        let batch = self.global_batch.ok_or_else(|| missing("--global-batch", "sequences per optimizer step"))?;
        let sequence = self.seq.ok_or_else(|| missing("--seq", "tokens per sequence"))?;
        Ok(Question {
            model: self.model.as_deref().unwrap_or_default().into(),
            cluster: cluster.into(),
            job: Job::new(batch, sequence),
            search: Default::default(),
            folder: PathBuf::new(),
        })
    }

    /// Applies the flags to a job.
    pub(super) fn change(&self, job: &mut Job) {
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(value) = from {
                *to = value.clone();
            }
        }
        set(&mut job.global_batch, &self.global_batch);
        set(&mut job.sequence, &self.seq);
        set(&mut job.precision, &self.precision);
        set(&mut job.gradients, &self.gradients);
        set(&mut job.moments, &self.moments);
        set(&mut job.optimizer, &self.optimizer);
        set(&mut job.expert_imbalance, &self.expert_imbalance);
        job.encoder_sequence = self.encoder_seq.or(job.encoder_sequence);
        job.vision_tokens = self.vision_tokens.or(job.vision_tokens);
        job.memory_limit = self.memory.or(job.memory_limit);
        job.mtp &= !self.no_mtp;
    }

    /// As [`inputs`], with errors that name the file they come from.
    pub(super) fn inputs(&self, question: &Question) -> Result<Inputs, InputError> {
        inputs(question, self.cost()).map_err(|e| {
            let root = e.field.as_deref().and_then(|field| field.split(['.', '[']).next());
            let from_flag = match root {
                Some("model") => self.model.is_some(),
                Some("cluster") => self.cluster.is_some(),
                Some("job") => self.precision.is_some(),
                _ => false,
            };
            match &self.file {
                Some(file) if !from_flag => e.in_file(file.display()),
                _ => e,
            }
        })
    }

    /// What the cost model takes into account.
    fn cost(&self) -> CostOptions {
        let on = |effect: &str| !self.without.iter().any(|w| w == effect);
        CostOptions {
            nic_sharing: on("nic-sharing"),
            overlap: on("overlap"),
            head: on("head"),
            moments: on("moments"),
            ..CostOptions::default()
        }
    }
}

/// The question with paths that do not depend on its folder.
fn absolute(mut question: Question) -> Question {
    let folder = std::mem::take(&mut question.folder);
    let join = |path: &str| folder.join(path).display().to_string();
    question.model = match question.model {
        ModelSource::Path { path, treat_as } => ModelSource::Path { path: join(&path), treat_as },
        other => other,
    };
    question.cluster = match question.cluster {
        ClusterSource::Path(path) => ClusterSource::Path(join(&path)),
        other => other,
    };
    question
}

/// Model and cluster of the question, checked, ready to plan.
pub(super) fn inputs(question: &Question, cost: CostOptions) -> Result<Inputs, InputError> {
    question.validate()?;
    if let Some(name) = &question.search.backend {
        backends::find(name, Default::default()).map_err(|e| e.at("search.backend"))?;
    }
    let (model, cluster) = question.resolve()?;
    Ok(Inputs { model, cluster, job: question.job.clone(), search: question.search.clone(), cost })
}
