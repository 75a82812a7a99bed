//! What kind of file a text is, and which command takes it, for commands that were given another.

use crate::error::{InputError, Kind};
use crate::plan::file as plan;
use crate::rules::deepspeed;
use crate::space::schedule::file as schedule;
use serde_json::Value;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A question.
    Question,
    /// A cluster.
    Cluster,
    /// A model's `config.json`.
    Model,
    /// A plan.
    Plan,
    /// A schedule.
    Schedule,
    /// A plan of Galvatron.
    Galvatron,
    /// A configuration of DeepSpeed.
    Deepspeed,
    /// What a command prints with `--json`.
    Answer,
    /// JSON that is no object.
    NoObject,
}

impl FileKind {
    /// The kind of `text`, where something in it says so.
    pub(super) fn of(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let fields = match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Some(Self::NoObject),
            Err(_) => return Self::of_ron(text),
        };
        let has = |key: &str| fields.contains_key(key);
        if let Some(schema) = fields.get("schema").and_then(Value::as_str) {
            return match schema {
                plan::SCHEMA => Some(Self::Plan),
                schedule::SCHEMA => Some(Self::Schedule),
                other => other.starts_with("espalier/").then_some(Self::Answer),
            };
        }
        let found = [
            (has("tp_sizes_enc"), Self::Galvatron),
            (has("job") && (has("model") || has("cluster")), Self::Question),
            (has("pools"), Self::Cluster),
            (has("model_type") || has("architectures") || has("num_hidden_layers"), Self::Model),
            (fields.keys().any(|key| deepspeed::reads(key)), Self::Deepspeed),
        ];
        found.into_iter().find_map(|(is, kind)| is.then_some(kind))
    }

    fn of_ron(text: &str) -> Option<Self> {
        let inner = text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<String>();
        let inner = inner.trim_start().strip_prefix('(')?;
        let names = |key: &str| inner.split(key).nth(1).is_some_and(|rest| rest.trim_start().starts_with(':'));
        match (names("job"), names("pools")) {
            (true, _) => Some(Self::Question),
            (false, true) => Some(Self::Cluster),
            _ => None,
        }
    }

    /// What it is called.
    fn name(self) -> &'static str {
        match self {
            Self::Question => "a question",
            Self::Cluster => "a cluster file",
            Self::Model => "the config.json of a model",
            Self::Plan => "a plan file",
            Self::Schedule => "a schedule file",
            Self::Galvatron => "a plan of Galvatron",
            Self::Deepspeed => "a configuration of DeepSpeed",
            Self::Answer => "the answer of another command",
            Self::NoObject => "JSON that is no object",
        }
    }

    /// What takes it.
    fn taken_by(self) -> Option<&'static str> {
        Some(match self {
            Self::Question => "`espalier plan FILE` answers it, `espalier min-gpus FILE` sizes it",
            Self::Cluster => "it goes behind --cluster",
            Self::Model => "it goes behind --model, or `espalier model FILE` shows it",
            Self::Plan => {
                "`espalier check FILE` prices it; `explain`, `export`, `diff` and `why-not` take it too, `schedule --plan FILE` \
                 searches its schedule"
            }
            Self::Schedule => "`espalier schedule FILE` judges it, `espalier export FILE` writes it in another form",
            Self::Galvatron => "`espalier check FILE --galvatron DIR` prices it",
            Self::Deepspeed => "`espalier check --deepspeed FILE` judges it",
            Self::Answer | Self::NoObject => return None,
        })
    }

    /// The error for a file of this kind where `wanted` was expected.
    pub(super) fn instead_of(self, wanted: &str, name: impl std::fmt::Display) -> InputError {
        let error = InputError::new(Kind::Unsupported).found(self.name()).expected(wanted).in_file(name);
        match self.taken_by() {
            Some(by) => error.help(by),
            None => error,
        }
    }
}

/// `error`, or a better one where `text` is a file of another kind than `wanted`.
pub(super) fn otherwise(error: InputError, text: &str, wanted: FileKind, name: impl std::fmt::Display) -> InputError {
    match FileKind::of(text) {
        // An answer names its schema, which the error is about.
        Some(kind) if kind != wanted && kind != FileKind::Answer => kind.instead_of(wanted.name(), name),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_what_stands_in_them() {
        for (text, kind) in [
            (r#"{"schema": "espalier/plan/1"}"#, Some(FileKind::Plan)),
            (r#"{"schema": "espalier/schedule/1"}"#, Some(FileKind::Schedule)),
            (r#"{"schema": "espalier/diff/1"}"#, Some(FileKind::Answer)),
            (r#"{"train_batch_size": 8}"#, Some(FileKind::Deepspeed)),
            (r#"{"model_type": "llama"}"#, Some(FileKind::Model)),
            ("[]", Some(FileKind::NoObject)),
            ("(name: \"x\", pools: [])", Some(FileKind::Cluster)),
            ("// a question\n(model: \"x\", job: ())", Some(FileKind::Question)),
            ("--bf16", None),
        ] {
            assert_eq!(FileKind::of(text), kind, "{text}");
        }
    }
}
