//! Galvatron's plan JSON, read without loss and turned into a plan.
//!
//! Per-layer values are texts joined by commas. The trainer calls the embedding's ZeRO-3 flag `vocab_sdp`, the search
//! `embed_sdp`: either is read, and they must agree where both stand.

use super::document::{Document, names};
use super::error::GalvatronImportError;
use crate::cost::galvatron::{DpType, Micro, Pipeline, Plan, Setting, Strategy, even_partition};
use serde_json::{Map, Value};
use std::path::Path;

/// A plan file as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// Its name, for errors.
    pub file: String,
    /// Pipeline stages.
    pub pp_deg: u32,
    /// Tensor-parallel or Ulysses degree of each layer.
    pub tp_sizes_enc: Vec<u32>,
    /// Whether the ranks of a tensor-parallel group are neighbours.
    pub tp_consecutive_flags: Vec<u32>,
    /// 1 = ZeRO-3, 0 = `default_dp_type`.
    pub dp_types_enc: Vec<u32>,
    /// 1 = Ulysses.
    pub use_sp: Vec<u32>,
    /// 1 = recompute.
    pub checkpoint: Vec<u32>,
    /// Context-parallel degrees; older files have none.
    pub cp_sizes_enc: Option<Vec<u32>>,
    /// Devices; older files do not say.
    pub world_size: Option<u32>,
    /// Samples per iteration.
    pub global_bsz: u32,
    /// Micro-batches.
    pub chunks: u32,
    /// Layers of each stage.
    pub pp_division: Option<Vec<u32>>,
    /// `gpipe` or `pipedream_flush`.
    pub pipeline_type: Pipeline,
    /// What 0 in `dp_types_enc` means.
    pub default_dp_type: DpType,
    /// Degree of embedding and head.
    pub vtp: u32,
    /// Whether that is a Ulysses degree.
    pub vsp: bool,
    /// Context-parallel degree of embedding and head.
    pub vcp: Option<u32>,
    /// ZeRO-3 for embedding and head.
    pub embed_sdp: bool,
    /// Keys that mean nothing here, kept as they are.
    pub extra: Map<String, Value>,
}

/// Keys that have a field of their own.
const KNOWN: [&str; 18] = [
    "pp_deg",
    "tp_sizes_enc",
    "tp_consecutive_flags",
    "dp_types_enc",
    "use_sp",
    "checkpoint",
    "cp_sizes_enc",
    "world_size",
    "global_bsz",
    "chunks",
    "pp_division",
    "pipeline_type",
    "default_dp_type",
    "vtp",
    "vsp",
    "vcp",
    "embed_sdp",
    "vocab_sdp",
];

impl PlanFile {
    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Self, GalvatronImportError> {
        Self::of(&Document::read(path)?)
    }

    /// Reads `text`; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, GalvatronImportError> {
        Self::of(&Document::parse(file.to_owned(), text)?)
    }

    fn of(doc: &Document) -> Result<Self, GalvatronImportError> {
        let degrees = |key: &str| list(doc, key, "degrees that are powers of two", u32::is_power_of_two);
        let flags = |key: &str| list(doc, key, "flags 0 or 1", |n| n <= 1);
        let needed = |key: &str, found: Option<Vec<u32>>| {
            found.ok_or_else(|| doc.missing(key, format!("it beside {}", names(&doc.object))))
        };
        let tp_sizes_enc = needed("tp_sizes_enc", degrees("tp_sizes_enc")?)?;
        let layers = tp_sizes_enc.len();
        let per_layer = |key: &str, found: Option<Vec<u32>>, default: u32| match found {
            None => Ok(vec![default; layers]),
            Some(values) if values.len() == layers => Ok(values),
            Some(values) => Err(GalvatronImportError::Value {
                file: doc.file.clone(),
                key: key.to_owned(),
                found: format!("{} values", values.len()),
                expected: format!("{layers}, as many as in tp_sizes_enc"),
            }),
        };
        let number = |key: &str| match doc.object.get(key) {
            None => Ok(None),
            Some(value) => whole(value)
                .filter(|&n| n >= 1)
                .map(Some)
                .ok_or_else(|| doc.wrong(key, value, "a whole number of at least 1")),
        };
        let flag = |key: &str| match doc.object.get(key) {
            None => Ok(None),
            Some(value) => match whole(value) {
                Some(n @ 0..=1) => Ok(Some(n == 1)),
                _ => Err(doc.wrong(key, value, "0 or 1")),
            },
        };
        let needed_number =
            |key: &str| number(key)?.ok_or_else(|| doc.missing(key, format!("it beside {}", names(&doc.object))));
        let embed_sdp = match (flag("embed_sdp")?, flag("vocab_sdp")?) {
            (Some(a), Some(b)) if a != b => {
                let expected = format!("{}, the value of embed_sdp", u32::from(a));
                return Err(doc.wrong("vocab_sdp", &doc.object["vocab_sdp"], &expected));
            }
            (a, b) => a.or(b).unwrap_or(false),
        };
        let pipeline_type = match doc.object.get("pipeline_type").map(|v| (v, v.as_str())) {
            None | Some((_, Some("gpipe"))) => Pipeline::Gpipe,
            Some((_, Some("pipedream_flush"))) => Pipeline::OneForwardOneBackward,
            Some((value, _)) => return Err(doc.wrong("pipeline_type", value, "`gpipe` or `pipedream_flush`")),
        };
        let default_dp_type = match doc.object.get("default_dp_type") {
            None => DpType::Ddp,
            Some(value) => value
                .as_str()
                .and_then(|t| t.parse().ok())
                .ok_or_else(|| doc.wrong("default_dp_type", value, "`ddp`, `zero2` or `zero3`"))?,
        };
        let cp_sizes_enc = match degrees("cp_sizes_enc")? {
            None => None,
            found => Some(per_layer("cp_sizes_enc", found, 1)?),
        };
        Ok(Self {
            pp_deg: needed_number("pp_deg")?,
            tp_consecutive_flags: per_layer("tp_consecutive_flags", flags("tp_consecutive_flags")?, 1)?,
            dp_types_enc: per_layer("dp_types_enc", flags("dp_types_enc")?, 0)?,
            use_sp: per_layer("use_sp", flags("use_sp")?, 0)?,
            checkpoint: per_layer("checkpoint", flags("checkpoint")?, 0)?,
            tp_sizes_enc,
            cp_sizes_enc,
            world_size: number("world_size")?,
            global_bsz: needed_number("global_bsz")?,
            chunks: needed_number("chunks")?,
            pp_division: list(doc, "pp_division", "layers of each stage", |_| true)?,
            pipeline_type,
            default_dp_type,
            vtp: number("vtp")?.unwrap_or(1),
            vsp: flag("vsp")?.unwrap_or(false),
            vcp: number("vcp")?,
            embed_sdp,
            extra: doc
                .object
                .iter()
                .filter(|(k, _)| !KNOWN.contains(&k.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            file: doc.file.clone(),
        })
    }

    /// The plan for `setting`, which must be about as many layers and devices.
    pub fn plan(&self, setting: &Setting) -> Result<Plan, GalvatronImportError> {
        let wrong = |key: &str, found: String, expected: String| GalvatronImportError::Value {
            file: self.file.clone(),
            key: key.to_owned(),
            found,
            expected,
        };
        let world = setting.world();
        if let Some(found) = self.world_size.filter(|&w| w != world) {
            return Err(wrong("world_size", found.to_string(), format!("{world}, the devices of the setting")));
        }
        let layers = setting.layers();
        if self.tp_sizes_enc.len() as u32 != layers {
            let found = format!("{} values", self.tp_sizes_enc.len());
            return Err(wrong("tp_sizes_enc", found, format!("{layers}, one per layer")));
        }
        if !world.is_multiple_of(self.pp_deg) {
            return Err(wrong("pp_deg", self.pp_deg.to_string(), format!("a divisor of {world} devices")));
        }
        let partition = self.pp_division.clone().unwrap_or_else(|| even_partition(layers, self.pp_deg));
        let held: u64 = partition.iter().map(|&n| u64::from(n)).sum();
        if partition.len() as u32 != self.pp_deg || held != u64::from(layers) || partition.contains(&0) {
            let expected = format!("{} numbers of at least 1 whose sum is {layers}", self.pp_deg);
            return Err(wrong("pp_division", format!("{partition:?}"), expected));
        }
        let per_stage = world / self.pp_deg;
        let strategy = |key: &str, degree: u32, sp: bool, cp: u32, zero3: bool, checkpoint: bool| {
            let used = u64::from(degree) * u64::from(cp);
            if used > u64::from(per_stage) || !u64::from(per_stage).is_multiple_of(used) {
                return Err(wrong(key, used.to_string(), format!("a divisor of the {per_stage} devices of a stage")));
            }
            let dp = per_stage / (degree * cp);
            let (tp, sp) = if sp { (1, degree) } else { (degree, 1) };
            let dp_type = match (zero3, dp) {
                (true, _) => DpType::Zero3,
                (false, 1) => DpType::Ddp,
                (false, _) => self.default_dp_type,
            };
            Ok(Strategy { pp: self.pp_deg, tp, sp, cp, dp, dp_type, checkpoint })
        };
        let mut out = Vec::with_capacity(layers as usize);
        for i in 0..layers as usize {
            let cp = self.cp_sizes_enc.as_ref().map_or(1, |c| c[i]);
            out.push(strategy(
                "tp_sizes_enc",
                self.tp_sizes_enc[i],
                self.use_sp[i] == 1,
                cp,
                self.dp_types_enc[i] == 1,
                self.checkpoint[i] == 1,
            )?);
        }
        if !self.global_bsz.is_multiple_of(self.chunks) {
            return Err(wrong("chunks", self.chunks.to_string(), format!("a divisor of {} samples", self.global_bsz)));
        }
        Ok(Plan {
            pp: self.pp_deg,
            micro: Micro { global_batch: self.global_bsz, chunks: self.chunks },
            partition,
            embedding: strategy("vtp", self.vtp, self.vsp, self.vcp.unwrap_or(1), self.embed_sdp, false)?,
            layers: out,
        })
    }
}

/// A whole number, also as a text.
fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::Number(n) => n.as_u64().and_then(|n| u32::try_from(n).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Whole numbers joined by commas (or listed) that all satisfy `allowed`.
fn list(
    doc: &Document,
    key: &str,
    expected: &str,
    allowed: impl Fn(u32) -> bool,
) -> Result<Option<Vec<u32>>, GalvatronImportError> {
    let Some(value) = doc.object.get(key) else { return Ok(None) };
    let expected = format!("{expected}, joined by commas");
    let words: Option<Vec<u32>> = match value {
        Value::String(text) => text.split(',').map(|w| w.trim().parse().ok()).collect(),
        Value::Array(items) => items.iter().map(whole).collect(),
        other => whole(other).map(|n| vec![n]),
    };
    words.filter(|w| w.iter().all(|&n| allowed(n))).map(Some).ok_or_else(|| doc.wrong(key, value, &expected))
}
