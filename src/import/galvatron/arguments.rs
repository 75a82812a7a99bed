//! The arguments of Galvatron's search engine, from `case.json` or from flags, by Galvatron's own names.

use super::document::{Document, names, shown};
use super::error::GalvatronImportError;
use crate::cost::galvatron::{
    Batches, Constants, DpType, LayerType, MemoryMode, Pipeline, Precision, Setting, SpaceLimits, TimeMode,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Known names. The second is what older versions or the command line call it, or empty.
const NAMES: [(&str, &str); 47] = [
    ("model_name", "model_size"),
    ("hidden_size", ""),
    ("layer_num", "num_layers"),
    ("seq_len", "seq_length"),
    ("num_nodes", ""),
    ("num_gpus_per_node", ""),
    ("memory_constraint", ""),
    ("default_dp_type", ""),
    ("pipeline_type", ""),
    ("async_grad_reduce", ""),
    ("no_async_grad_reduce", ""),
    ("mixed_precision", ""),
    ("sequence_parallel", ""),
    ("global_memory_buffer", "no_global_memory_buffer"),
    ("disable_dp", ""),
    ("disable_tp", ""),
    ("disable_cp", ""),
    ("disable_sp", ""),
    ("disable_embedding_lmhead_tp", "disable_vtp"),
    ("disable_embedding_lmhead_sp", "disable_vsp"),
    ("disable_pp", ""),
    ("disable_ckpt", ""),
    ("disable_fsdp", "disable_sdp"),
    ("max_tp_deg", ""),
    ("max_pp_deg", ""),
    ("max_sp_deg", ""),
    ("max_cp_deg", ""),
    ("fine_grained_mode", ""),
    ("min_bsz", ""),
    ("max_bsz", ""),
    ("bsz_scale", ""),
    ("settle_bsz", ""),
    ("settle_chunk", ""),
    ("time_profile_mode", ""),
    ("memory_profile_mode", ""),
    ("bct_fct_coe", ""),
    ("pytorch_context_mem_MB", ""),
    ("memory_reserve_fraction_if_over_20GB", ""),
    // What follows does not change the answer here: how much is searched at once, where a log goes, ...
    ("recommend_min_bsz", ""),
    ("worker", ""),
    ("parallel_search", ""),
    ("log_dir", ""),
    ("use_pipeline_costmodel", ""),
    ("extra_overhead", ""),
    ("num_layertype", ""),
    ("costmodel_coe", ""),
    ("search_space", ""),
];

/// Argument values with the file each comes from.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    values: BTreeMap<&'static str, (Value, String)>,
    layer_types: Option<(Vec<LayerType>, String)>,
}

impl Arguments {
    /// Those of a `case.json`: `model` with its layer types, `args` in groups, `constants`.
    pub(super) fn of_case(case: &Document) -> Result<Self, GalvatronImportError> {
        let mut out = Self::default();
        let model = case.object_at(&case.object, "", "model")?;
        match model.get("name") {
            Some(Value::String(name)) => out.put(&case.file, "model_name", Value::String(name.clone()))?,
            Some(other) => return Err(case.wrong("model.name", other, "a text")),
            None => return Err(case.missing("model.name", format!("it beside {}", names(model)))),
        }
        let types = match model.get("layer_types") {
            Some(Value::Array(types)) if !types.is_empty() => types,
            Some(other) => return Err(case.wrong("model.layer_types", other, "a list of at least one layer type")),
            None => return Err(case.missing("model.layer_types", format!("it beside {}", names(model)))),
        };
        let mut read = Vec::with_capacity(types.len());
        for (i, t) in types.iter().enumerate() {
            let field = |key: &str| -> Result<u64, GalvatronImportError> {
                let path = format!("model.layer_types[{i}].{key}");
                let value = t.get(key).ok_or_else(|| case.missing(&path, "a whole number of at least 1"))?;
                value
                    .as_u64()
                    .filter(|&n| (1..=u64::from(u32::MAX)).contains(&n))
                    .ok_or_else(|| case.wrong(&path, value, "a whole number of at least 1"))
            };
            let layers = field("layer_num")? as u32;
            read.push(LayerType { hidden: field("hidden_size")?, layers, sequence: field("seq_len")? });
        }
        out.layer_types = Some((read, case.file.clone()));
        for (group, value) in case.object_at(&case.object, "", "args")? {
            match value {
                Value::Object(group) => {
                    for (key, value) in group {
                        out.put(&case.file, key, value.clone())?;
                    }
                }
                other => out.put(&case.file, group, other.clone())?,
            }
        }
        if case.object.contains_key("constants") {
            for (key, value) in case.object_at(&case.object, "", "constants")? {
                out.put(&case.file, key, value.clone())?;
            }
        }
        Ok(out)
    }

    /// Sets one argument by Galvatron's name for it, dashes or underscores; a later setting wins.
    ///
    /// # Errors
    /// On a name that is not known, with the nearest one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), GalvatronImportError> {
        let name = name.trim_start_matches('-').replace('-', "_");
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if matches!(name.as_str(), "hidden_size" | "layer_num" | "num_layers" | "seq_len" | "seq_length") {
            self.layer_types = None;
        }
        self.put("arguments", &name, value)
    }

    fn put(&mut self, file: &str, name: &str, value: Value) -> Result<(), GalvatronImportError> {
        let (known, value) = match name {
            "no_async_grad_reduce" => ("async_grad_reduce", negated(value)),
            "no_global_memory_buffer" => ("global_memory_buffer", negated(value)),
            _ => match NAMES.iter().find(|(a, b)| *a == name || (!b.is_empty() && *b == name)) {
                Some(&(known, _)) => (known, value),
                None => {
                    let nearest = NAMES
                        .iter()
                        .map(|n| n.0)
                        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
                    return Err(GalvatronImportError::Unknown {
                        file: file.to_owned(),
                        key: name.to_owned(),
                        help: format!("did you mean `{}`?", nearest.unwrap_or_default()),
                    });
                }
            },
        };
        self.values.insert(known, (value, file.to_owned()));
        Ok(())
    }

    /// The setting they describe.
    pub(super) fn setting(&self) -> Result<Setting, GalvatronImportError> {
        let precision = self.one_of(
            "mixed_precision",
            "bf16",
            &[("fp32", Precision::Fp32), ("fp16", Precision::Fp16), ("bf16", Precision::Bf16)],
        )?;
        let default_dp = self.one_of("default_dp_type", "ddp", &[("ddp", DpType::Ddp), ("zero2", DpType::Zero2)])?;
        let pipeline = self.one_of(
            "pipeline_type",
            "gpipe",
            &[("gpipe", Pipeline::Gpipe), ("pipedream_flush", Pipeline::OneForwardOneBackward)],
        )?;
        let time_mode = self.one_of(
            "time_profile_mode",
            "static",
            &[("static", TimeMode::Static), ("batch", TimeMode::Batch), ("sequence", TimeMode::Sequence)],
        )?;
        let memory_mode = self.one_of(
            "memory_profile_mode",
            "static",
            &[("static", MemoryMode::Static), ("sequence", MemoryMode::Sequence)],
        )?;
        let limits = SpaceLimits {
            dp: !self.flag("disable_dp", false)?,
            tp: !self.flag("disable_tp", false)?,
            cp: !self.flag("disable_cp", true)?,
            sp: !self.flag("disable_sp", false)?,
            embedding_tp: !self.flag("disable_embedding_lmhead_tp", false)?,
            embedding_sp: !self.flag("disable_embedding_lmhead_sp", false)?,
            pp: !self.flag("disable_pp", false)?,
            checkpoint: !self.flag("disable_ckpt", false)?,
            zero3: !self.flag("disable_fsdp", false)?,
            max_tp: self.count("max_tp_deg", Some(8))?,
            max_pp: self.count("max_pp_deg", Some(8))?,
            max_sp: self.count("max_sp_deg", Some(8))?,
            max_cp: self.count("max_cp_deg", Some(8))?,
            per_layer: self.flag("fine_grained_mode", true)?,
        };
        let constants = Constants {
            backward_over_forward: self.number("bct_fct_coe", Some(Constants::default().backward_over_forward))?,
            context_mb: self.number("pytorch_context_mem_MB", Some(Constants::default().context_mb))?,
            reserve: self.number("memory_reserve_fraction_if_over_20GB", Some(Constants::default().reserve))?,
        };
        for (unused, only) in [("extra_overhead", 0.0), ("costmodel_coe", 1.0)] {
            if self.number(unused, Some(only))? != only {
                return Err(self.wrong(unused, &only.to_string()));
            }
        }
        if constants.reserve >= 1.0 {
            return Err(self.wrong("memory_reserve_fraction_if_over_20GB", "a fraction below 1"));
        }
        let nodes = self.count("num_nodes", Some(1))?;
        let devices_per_node = self.count("num_gpus_per_node", Some(8))?;
        let world = u64::from(nodes) * u64::from(devices_per_node);
        // Degrees are powers of two and their product is the number of devices.
        if !world.is_power_of_two() || world > 1 << 20 {
            return Err(
                self.wrong("num_gpus_per_node", "nodes x devices per node that is a power of two, at most 2^20")
            );
        }
        Ok(Setting {
            model: match self.values.get("model_name") {
                None => String::new(),
                Some((Value::String(name), _)) => name.clone(),
                Some(_) => return Err(self.wrong("model_name", "a text")),
            },
            layer_types: self.layer_types()?,
            nodes,
            devices_per_node,
            memory_gb: self.positive("memory_constraint", None)?,
            default_dp,
            pipeline,
            async_grad_reduce: self.flag("async_grad_reduce", true)?,
            precision,
            sequence_parallel: self.flag("sequence_parallel", true)?,
            global_memory_buffer: self.flag("global_memory_buffer", true)?,
            limits,
            batches: self.batches()?,
            time_mode,
            memory_mode,
            constants,
        })
    }

    fn layer_types(&self) -> Result<Vec<LayerType>, GalvatronImportError> {
        if let Some((types, _)) = &self.layer_types {
            return Ok(types.clone());
        }
        let hidden = self.counts("hidden_size")?;
        let layers = self.counts("layer_num")?;
        let sequence = self.counts("seq_len")?;
        let types = hidden.len().max(layers.len()).max(sequence.len());
        for (name, list) in [("hidden_size", &hidden), ("layer_num", &layers), ("seq_len", &sequence)] {
            if list.len() != types && list.len() != 1 {
                return Err(self.wrong(name, &format!("one value, or one for each of {types} layer types")));
            }
        }
        let at = |list: &[u32], i: usize| list[if list.len() == 1 { 0 } else { i }];
        Ok((0..types)
            .map(|i| LayerType {
                hidden: at(&hidden, i).into(),
                layers: at(&layers, i),
                sequence: at(&sequence, i).into(),
            })
            .collect())
    }

    fn batches(&self) -> Result<Batches, GalvatronImportError> {
        let chunks = self.optional_count("settle_chunk")?;
        let global = match self.optional_count("settle_bsz")? {
            Some(batch) => vec![batch],
            None => {
                let scale = self.count("bsz_scale", Some(8))?;
                let least = self.count("min_bsz", Some(8))?.max(scale) / scale * scale;
                let most = self.count("max_bsz", Some(10_240))?;
                if most < least {
                    return Err(self.wrong("max_bsz", &format!("at least {least}, the smallest batch searched")));
                }
                (least..=most).step_by(scale as usize).collect()
            }
        };
        if let Some(chunks) = chunks
            && !global.iter().any(|b| b.is_multiple_of(chunks))
        {
            let batches = match global.as_slice() {
                [only] => only.to_string(),
                several => format!("one of the {} global batches", several.len()),
            };
            return Err(self.wrong("settle_chunk", &format!("a divisor of {batches}, or -1")));
        }
        Ok(Batches { global, chunks })
    }

    fn wrong(&self, name: &str, expected: &str) -> GalvatronImportError {
        let (found, file) = self
            .values
            .get(name)
            .map_or_else(|| ("absent".to_owned(), "arguments".to_owned()), |(v, f)| (shown(v), f.clone()));
        GalvatronImportError::Value { file, key: name.to_owned(), found, expected: expected.to_owned() }
    }

    fn required(&self, name: &str, expected: &str) -> GalvatronImportError {
        GalvatronImportError::Missing {
            file: "arguments".to_owned(),
            key: name.to_owned(),
            expected: expected.to_owned(),
        }
    }

    fn number(&self, name: &'static str, default: Option<f64>) -> Result<f64, GalvatronImportError> {
        let expected = "a number of at least 0";
        match self.values.get(name) {
            None => default.ok_or_else(|| self.required(name, expected)),
            Some((value, _)) => {
                value.as_f64().filter(|x| x.is_finite() && *x >= 0.0).ok_or_else(|| self.wrong(name, expected))
            }
        }
    }

    fn positive(&self, name: &'static str, default: Option<f64>) -> Result<f64, GalvatronImportError> {
        match self.number(name, default)? {
            x if x > 0.0 => Ok(x),
            _ => Err(self.wrong(name, "a number above 0")),
        }
    }

    fn count(&self, name: &'static str, default: Option<u32>) -> Result<u32, GalvatronImportError> {
        let expected = "a whole number of at least 1";
        match self.values.get(name) {
            None => default.ok_or_else(|| self.required(name, expected)),
            Some((value, _)) => value
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| n >= 1)
                .ok_or_else(|| self.wrong(name, expected)),
        }
    }

    /// A count where Galvatron writes -1 (or 0) for "free".
    fn optional_count(&self, name: &'static str) -> Result<Option<u32>, GalvatronImportError> {
        match self.values.get(name).map(|(v, _)| v.as_i64()) {
            None | Some(Some(-1 | 0)) => Ok(None),
            _ => self.count(name, None).map(Some),
        }
    }

    /// Counts, one per layer type: a number, a list, or numbers joined by commas.
    fn counts(&self, name: &'static str) -> Result<Vec<u32>, GalvatronImportError> {
        let expected = "whole numbers of at least 1, one per layer type, joined by commas";
        let (value, _) = self.values.get(name).ok_or_else(|| self.required(name, expected))?;
        let words: Vec<String> = match value {
            Value::String(text) => text.split(',').map(|w| w.trim().to_owned()).collect(),
            Value::Array(items) => items.iter().map(Value::to_string).collect(),
            other => vec![other.to_string()],
        };
        words.iter().map(|w| w.parse().ok().filter(|&n| n >= 1).ok_or_else(|| self.wrong(name, expected))).collect()
    }

    fn flag(&self, name: &'static str, default: bool) -> Result<bool, GalvatronImportError> {
        match self.values.get(name) {
            None => Ok(default),
            Some((value, _)) => truth(value).ok_or_else(|| self.wrong(name, "0 or 1")),
        }
    }

    fn one_of<T: Copy>(
        &self,
        name: &'static str,
        default: &str,
        options: &[(&str, T)],
    ) -> Result<T, GalvatronImportError> {
        let text = match self.values.get(name) {
            None => default,
            Some((Value::String(text), _)) => text,
            Some(_) => "",
        };
        options.iter().find(|o| o.0 == text).map(|o| o.1).ok_or_else(|| {
            let allowed: Vec<_> = options.iter().map(|o| format!("`{}`", o.0)).collect();
            self.wrong(name, &format!("one of {}", allowed.join(", ")))
        })
    }
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) => match n.as_i64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The opposite of a truth value; anything else stays for the reader to reject.
fn negated(value: Value) -> Value {
    truth(&value).map_or(value, |b| Value::Bool(!b))
}
