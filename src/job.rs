//! What is to be done: batch, sequence, precision, optimizer.

use crate::error::{InputError, Kind};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Format of matrix products and of the working weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16 with fp32 master weights.
    Bf16,
    /// float16 with fp32 master weights.
    Fp16,
    /// fp8 matrix products, bf16 activations and weights, fp32 master weights.
    Fp8,
    /// float32 throughout.
    Fp32,
}

/// Format in which gradients are accumulated and reduced, or in which optimizer moments are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// 4 bytes.
    Fp32,
    /// 2 bytes.
    Bf16,
    /// 2 bytes.
    Fp16,
    /// 1 byte.
    Fp8,
}

impl Storage {
    /// Bytes per value.
    pub fn bytes(self) -> f64 {
        match self {
            Storage::Fp32 => 4.0,
            Storage::Bf16 | Storage::Fp16 => 2.0,
            Storage::Fp8 => 1.0,
        }
    }
}

/// The optimizer and what it keeps per parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Two moments.
    Adam,
    /// One moment.
    Sgd,
}

/// The job. In a file, only the global batch and the sequence must be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Sequences per optimizer step.
    pub global_batch: u64,
    /// Tokens per sequence (of the decoder).
    pub sequence: u64,
    /// Tokens per sequence of the encoder, for encoder-decoder models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder_sequence: Option<u64>,
    /// Patches per sequence that enter a vision tower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision_tokens: Option<u64>,
    /// Format of the matrix products.
    #[serde(default = "usual_precision")]
    pub precision: Precision,
    /// Format of accumulated gradients.
    #[serde(default = "usual_storage")]
    pub gradients: Storage,
    /// Format of the optimizer's moments.
    #[serde(default = "usual_storage")]
    pub moments: Storage,
    /// The optimizer.
    #[serde(default = "usual_optimizer")]
    pub optimizer: Optimizer,
    /// Device memory that training may use, if less than the device has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Tokens to train on in all, for costs of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    /// Whether multi-token-prediction modules of the config are trained.
    #[serde(default = "usual_mtp")]
    pub mtp: bool,
    /// Load of the busiest expert rank over the mean (1 = forced balance).
    #[serde(default = "forced_balance")]
    pub expert_imbalance: f64,
}

fn usual_precision() -> Precision {
    Precision::Bf16
}
fn usual_storage() -> Storage {
    Storage::Fp32
}
fn usual_optimizer() -> Optimizer {
    Optimizer::Adam
}
fn usual_mtp() -> bool {
    true
}
fn forced_balance() -> f64 {
    1.0
}

/// Most sequences of a batch.
pub const LARGEST_BATCH: u64 = 1_000_000_000;
/// Most tokens of a sequence.
pub const LONGEST_SEQUENCE: u64 = 100_000_000;
/// Most tokens of a run: a thousand times the largest published so far (about 1e14, 2026-11).
const MOST_TOKENS: f64 = 1e17;
/// Most load of one expert rank over the mean.
pub const WORST_IMBALANCE: f64 = 1e4;

/// A job that cannot be planned for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A field outside its range.
    #[error("{field} is {found}, expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// Its range.
        expected: String,
    },
    /// A name that is no such thing.
    #[error("`{found}` is not {what}: {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name given.
        found: String,
        /// All names, separated by commas.
        known: String,
    },
}

impl From<JobError> for InputError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Value { field, found, expected } => {
                InputError::new(Kind::InvalidValue).at(field).found(found).expected(expected)
            }
            JobError::Unknown { what, found, known } => InputError::unknown_name(&found, what, known.split(", ")),
        }
    }
}

/// Names of an enumeration: the first of a variant is the one we print.
macro_rules! named {
    ($name:ident, $what:literal, $($variant:ident: $first:literal $(| $other:literal)*),+) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $first),+ })
            }
        }
        impl FromStr for $name {
            type Err = JobError;
            fn from_str(text: &str) -> Result<Self, JobError> {
                match text.trim().to_lowercase().as_str() {
                    $($first $(| $other)* => Ok($name::$variant),)+
                    _ => Err(JobError::Unknown {
                        what: $what,
                        found: text.to_owned(),
                        known: [$($first),+].join(", "),
                    }),
                }
            }
        }
    };
}

named!(Precision, "a precision", Bf16: "bf16" | "bfloat16", Fp16: "fp16" | "float16" | "half",
    Fp8: "fp8" | "float8", Fp32: "fp32" | "float32" | "tf32");
named!(Storage, "a storage format", Fp32: "fp32" | "float32", Bf16: "bf16" | "bfloat16", Fp16: "fp16" | "float16",
    Fp8: "fp8" | "float8");
named!(Optimizer, "an optimizer", Adam: "adam" | "adamw", Sgd: "sgd" | "momentum");

impl Job {
    /// A job in bf16 with fp32 gradients and moments, Adam, and experts in balance.
    pub fn new(global_batch: u64, sequence: u64) -> Self {
        Self {
            global_batch,
            sequence,
            encoder_sequence: None,
            vision_tokens: None,
            precision: usual_precision(),
            gradients: usual_storage(),
            moments: usual_storage(),
            optimizer: usual_optimizer(),
            memory_limit: None,
            tokens: None,
            mtp: usual_mtp(),
            expert_imbalance: forced_balance(),
        }
    }

    /// Decoder tokens of one optimizer step.
    pub fn tokens_per_step(&self) -> f64 {
        self.global_batch as f64 * self.sequence as f64
    }

    /// Whether every number is in its range.
    pub fn validate(&self) -> Result<(), JobError> {
        let counts = [
            ("global_batch", Some(self.global_batch), LARGEST_BATCH),
            ("sequence", Some(self.sequence), LONGEST_SEQUENCE),
            ("encoder_sequence", self.encoder_sequence, LONGEST_SEQUENCE),
            ("vision_tokens", self.vision_tokens, LONGEST_SEQUENCE),
        ];
        for (field, found, most) in counts {
            if let Some(found) = found.filter(|n| !(1..=most).contains(n)) {
                return Err(JobError::Value { field, found: found.to_string(), expected: format!("1 to {most}") });
            }
        }
        if self.gradients == Storage::Fp8 {
            let expected = "fp32, bf16 or fp16".to_owned();
            return Err(JobError::Value { field: "gradients", found: "fp8".to_owned(), expected });
        }
        let numbers = [
            (
                "memory_limit",
                self.memory_limit.map(Bytes::get),
                f64::MIN_POSITIVE,
                f64::MAX,
                "a positive number of bytes",
            ),
            ("tokens", self.tokens, 1.0, MOST_TOKENS, "1 to 1e17"),
            ("expert_imbalance", Some(self.expert_imbalance), 1.0, WORST_IMBALANCE, "1 (balanced) to 10000"),
        ];
        for (field, found, least, most, expected) in numbers {
            if let Some(found) = found.filter(|x| !(least..=most).contains(x)) {
                return Err(JobError::Value { field, found: found.to_string(), expected: expected.to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_job_is_bf16_with_adam_and_valid() {
        let job = Job::new(1024, 8192);
        assert_eq!((job.precision, job.gradients, job.optimizer), (Precision::Bf16, Storage::Fp32, Optimizer::Adam));
        assert_eq!(job.validate(), Ok(()));
        assert_eq!(job.tokens_per_step(), 8_388_608.0);
    }

    #[test]
    fn numbers_outside_their_range_are_refused_by_name() {
        let good = Job::new(8, 2048);
        let cases = [
            (Job { global_batch: 0, ..good.clone() }, "global_batch"),
            (Job { global_batch: LARGEST_BATCH + 1, ..good.clone() }, "global_batch"),
            (Job { sequence: 0, ..good.clone() }, "sequence"),
            (Job { sequence: LONGEST_SEQUENCE + 1, ..good.clone() }, "sequence"),
            (Job { encoder_sequence: Some(0), ..good.clone() }, "encoder_sequence"),
            (Job { vision_tokens: Some(0), ..good.clone() }, "vision_tokens"),
            (Job { memory_limit: Some(Bytes(0.0)), ..good.clone() }, "memory_limit"),
            (Job { memory_limit: Some(Bytes(f64::NAN)), ..good.clone() }, "memory_limit"),
            (Job { tokens: Some(f64::INFINITY), ..good.clone() }, "tokens"),
            (Job { expert_imbalance: 0.5, ..good.clone() }, "expert_imbalance"),
            (Job { expert_imbalance: f64::NAN, ..good.clone() }, "expert_imbalance"),
        ];
        for (job, named) in cases {
            match job.validate() {
                Err(JobError::Value { field, .. }) => assert_eq!(field, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }

    #[test]
    fn precisions_are_read_by_name_and_the_nearest_is_offered() {
        assert_eq!("BF16".parse(), Ok(Precision::Bf16));
        assert_eq!("float8".parse(), Ok(Precision::Fp8));
        let error = InputError::from("bf61".parse::<Precision>().unwrap_err());
        assert_eq!(error.help.as_deref(), Some("did you mean `bf16`?"));
        for precision in [Precision::Bf16, Precision::Fp16, Precision::Fp8, Precision::Fp32] {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
    }
}
