//! The memory profile: weights and activations of layers, and of everything else by stage.
//!
//! `layertype_{i}[_sp]` and `other_memory_pp_{off,on_first,on_last}[_sp]`, by sequence length; `_sp` means measured with
//! Megatron sequence parallelism. Older files leave out the level of sequence lengths, or give one number where newer
//! ones have one per degree; several layer types are spelled `512_512`, `512512`, `512,512` or `[512,512]`.

use super::document::{Document, names};
use super::error::GalvatronImportError;
use crate::cost::galvatron::profiles::{ByDegree, LayerMemory, OtherMemory};
use crate::cost::galvatron::{MemoryMode, Setting};
use serde_json::{Map, Value};

/// Memory of layers by type, and of everything else without a pipeline, on the first and on the last stage.
pub(super) struct Memory {
    pub layers: Vec<LayerMemory>,
    pub other: OtherMemory,
    pub first: OtherMemory,
    pub last: OtherMemory,
}

/// Reads the profile for `setting`.
pub(super) fn read(file: &Document, setting: &Setting) -> Result<Memory, GalvatronImportError> {
    if setting.memory_mode == MemoryMode::Sequence && !(setting.sequence_parallel && setting.layer_types.len() == 1) {
        return Err(GalvatronImportError::Value {
            file: "arguments".to_owned(),
            key: "memory_profile_mode".to_owned(),
            found: "`sequence`".to_owned(),
            expected: "`static`, or sequence_parallel and a single layer type".to_owned(),
        });
    }
    let layers = (0..setting.layer_types.len()).map(|i| layer(file, setting, i)).collect::<Result<_, _>>()?;
    Ok(Memory {
        layers,
        other: other(file, setting, "other_memory_pp_off")?,
        first: other(file, setting, "other_memory_pp_on_first")?,
        last: other(file, setting, "other_memory_pp_on_last")?,
    })
}

fn suffixed(name: &str, setting: &Setting) -> String {
    format!("{name}{}", if setting.sequence_parallel { "_sp" } else { "" })
}

/// The table called `name`, or an error that says when only its twin with or without `_sp` is there.
fn table<'a>(
    file: &'a Document,
    name: &str,
    setting: &Setting,
) -> Result<&'a Map<String, Value>, GalvatronImportError> {
    let key = suffixed(name, setting);
    if !file.object.contains_key(&key) {
        let twin = if setting.sequence_parallel { name.to_owned() } else { format!("{name}_sp") };
        if file.object.contains_key(&twin) {
            let measured = if setting.sequence_parallel { "without" } else { "with" };
            let wanted = if setting.sequence_parallel { 0 } else { 1 };
            return Err(file.missing(
                &key,
                format!("a profile taken alike; `{twin}` was measured {measured} it (set sequence_parallel={wanted} to use it)"),
            ));
        }
    }
    file.object_at(&file.object, "", &key)
}

fn layer(file: &Document, setting: &Setting, kind: usize) -> Result<LayerMemory, GalvatronImportError> {
    let name = format!("layertype_{kind}");
    let key = suffixed(&name, setting);
    let tables = table(file, &name, setting)?;
    let wanted = setting.layer_types[kind].sequence;
    let (parameters, activations, path, scale) = if tables.contains_key("parameter_size") {
        (tables, tables, key, 1.0)
    } else if setting.memory_mode == MemoryMode::Static {
        let at = file.object_at(tables, &key, &wanted.to_string())?;
        (at, at, format!("{key}.{wanted}"), 1.0)
    } else {
        let (least, most) = extremes(file, tables, &key)?;
        let smallest = file.object_at(tables, &key, &least.to_string())?;
        let largest = file.object_at(tables, &key, &most.to_string())?;
        (smallest, largest, format!("{key}.{most}"), wanted as f64 / most as f64)
    };
    let size = parameters
        .get("parameter_size")
        .ok_or_else(|| file.missing(&format!("{path}.parameter_size"), format!("one beside {}", names(parameters))))?;
    let parameter_mb = file.number(&format!("{path}.parameter_size"), size, 0.0, true)?;
    let dict = file.object_at(activations, &path, "tp_activation_per_bsz_dict")?;
    let path = format!("{path}.tp_activation_per_bsz_dict");
    let checkpoint = dict.get("checkpoint");
    let checkpoint_mb = match checkpoint {
        Some(value) => file.number(&format!("{path}.checkpoint"), value, 0.0, false)?,
        None if setting.limits.checkpoint => {
            let expected = format!("it beside {} (or set disable_ckpt=1)", names(dict));
            return Err(file.missing(&format!("{path}.checkpoint"), expected));
        }
        None => 0.0,
    };
    let activation_mb = by_degree(file, dict, &path, Some("checkpoint"))?;
    for degree in degrees(setting, setting.limits.max_tp, setting.limits.tp)
        .max(degrees(setting, setting.limits.max_sp, setting.limits.sp))
        .powers()
    {
        require(file, &activation_mb, &path, degree)?;
    }
    Ok(LayerMemory {
        parameter_mb,
        activation_mb: activation_mb.scaled(|x| x * scale),
        checkpoint_mb: checkpoint_mb * scale,
    })
}

fn other(file: &Document, setting: &Setting, name: &str) -> Result<OtherMemory, GalvatronImportError> {
    let key = suffixed(name, setting);
    let tables = table(file, name, setting)?;
    let sequences: Vec<u64> = setting.layer_types.iter().map(|t| t.sequence).collect();
    let (at, path, scale) = if tables.contains_key("model_states") {
        (tables, key, 1.0)
    } else if setting.memory_mode == MemoryMode::Sequence {
        let (_, most) = extremes(file, tables, &key)?;
        let scale = sequences[0] as f64 / most as f64;
        (file.object_at(tables, &key, &most.to_string())?, format!("{key}.{most}"), scale)
    } else {
        let words: Vec<String> = sequences.iter().map(u64::to_string).collect();
        let spellings = [words.join("_"), words.concat(), words.join(","), format!("[{}]", words.join(","))];
        let found = spellings.iter().find(|s| tables.contains_key(s.as_str())).unwrap_or(&spellings[0]);
        (file.object_at(tables, &key, found)?, format!("{key}.{found}"), 1.0)
    };
    let table = |part: &str| -> Result<ByDegree, GalvatronImportError> {
        let full = format!("{path}.{part}");
        match at.get(part) {
            Some(Value::Object(map)) => by_degree(file, map, &full, None),
            Some(value) => {
                let mut one = ByDegree::default();
                one.set(1, file.number(&full, value, 0.0, false)?);
                Ok(one)
            }
            None => Err(file.missing(&full, format!("it beside {}", names(at)))),
        }
    };
    let states_mb = table("model_states")?;
    let activation_mb = table("activation")?;
    if name == "other_memory_pp_off" || (setting.limits.pp && setting.limits.max_pp > 1 && setting.world() > 1) {
        let tp = degrees(setting, setting.limits.max_tp, setting.limits.embedding_tp && setting.limits.tp);
        let sp = degrees(setting, setting.limits.max_sp, setting.limits.embedding_sp && setting.limits.sp);
        for degree in tp.powers() {
            require(file, &states_mb, &format!("{path}.model_states"), degree)?;
        }
        for degree in tp.max(sp).powers() {
            require(file, &activation_mb, &format!("{path}.activation"), degree)?;
        }
    }
    Ok(OtherMemory { states_mb, activation_mb: activation_mb.scaled(|x| x * scale) })
}

/// The largest degree that a setting allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Largest(u32);

impl Largest {
    fn powers(self) -> impl Iterator<Item = u32> {
        (0..=self.0.ilog2()).map(|i| 1 << i)
    }
}

fn degrees(setting: &Setting, most: u32, allowed: bool) -> Largest {
    Largest(if allowed { most.min(setting.world()).max(1) } else { 1 })
}

fn require(file: &Document, table: &ByDegree, path: &str, degree: u32) -> Result<(), GalvatronImportError> {
    if table.get(degree).is_some() {
        return Ok(());
    }
    let there: Vec<String> = table.degrees().map(|d| format!("`{d}`")).collect();
    let expected = format!(
        "it beside {} (or a smaller max_tp_deg and max_sp_deg)",
        if there.is_empty() { "nothing".to_owned() } else { there.join(", ") }
    );
    Err(file.missing(&format!("{path}.{degree}"), expected))
}

fn by_degree(
    file: &Document,
    map: &Map<String, Value>,
    path: &str,
    except: Option<&str>,
) -> Result<ByDegree, GalvatronImportError> {
    let mut out = ByDegree::default();
    for (key, value) in map {
        if Some(key.as_str()) == except {
            continue;
        }
        let mb = file.number(&format!("{path}.{key}"), value, 0.0, false)?;
        if !key.parse().is_ok_and(|degree| out.set(degree, mb)) {
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: format!("{path}.{key}"),
                help: "expected a degree that is a power of two".to_owned(),
            });
        }
    }
    Ok(out)
}

/// Shortest and longest sequence that a table has.
fn extremes(file: &Document, tables: &Map<String, Value>, path: &str) -> Result<(u64, u64), GalvatronImportError> {
    let mut out: Option<(u64, u64)> = None;
    for key in tables.keys() {
        let Ok(s) = key.parse::<u64>() else {
            return Err(GalvatronImportError::Unknown {
                file: file.file.clone(),
                key: format!("{path}.{key}"),
                help: "expected a sequence length".to_owned(),
            });
        };
        out = Some(out.map_or((s, s), |(a, b)| (a.min(s), b.max(s))));
    }
    out.ok_or_else(|| file.missing(&format!("{path}.{{sequence}}"), "at least one sequence length"))
}
