//! What the cells of a table of runs may hold: by column the kind of its values, their range and unit. A cell that is neither
//! empty nor such a value makes its row unreadable; nothing is guessed from it.

use super::compare::Quantity;
use super::left_out::LeftOut;
use super::table::Row;
use crate::cluster::MOST_DEVICES;
use crate::job::{LARGEST_BATCH, LONGEST_SEQUENCE};
use crate::model::fields::{MAX_HEADS, MAX_LAYERS, MAX_WIDTH};
use serde::Serialize;

/// Longest iteration that is believed, in seconds (three years); likewise the most tokens per second and GB of a device.
const MOST: f64 = 1e8;
/// Longest excerpt of a cell in a message, in characters.
const QUOTED: usize = 60;

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy)]
enum Holds {
    /// A whole number within limits.
    Count(u64, u64),
    /// A number above zero, at most [`MOST`].
    Positive,
    /// Yes or no.
    Flag,
    /// Whether the run crashed.
    Crash,
    /// Words, one of which must be among these.
    Words(&'static [&'static str]),
    /// Words that describe; a bare number has no unit.
    Description,
}

/// When a column must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    /// Unless `args_json` describes the model.
    Shape,
    /// Never.
    Optional,
}

/// A column that decides a price.
struct Column {
    name: &'static str,
    need: Need,
    holds: Holds,
    about: &'static str,
}

const fn column(name: &'static str, need: Need, holds: Holds, about: &'static str) -> Column {
    Column { name, need, holds, about }
}

const LAYERS: Holds = Holds::Count(1, MAX_LAYERS);
const WIDTH: Holds = Holds::Count(1, MAX_WIDTH);
const HEADS: Holds = Holds::Count(1, MAX_HEADS);
const DEVICES: Holds = Holds::Count(1, MOST_DEVICES);
const BATCH: Holds = Holds::Count(1, LARGEST_BATCH);

/// Words of those that say whether a run crashed.
const CRASHED: [&str; 6] = ["true", "yes", "1", "crashed", "oom", "crashed_or_oom"];

static COLUMNS: &[Column] = &[
    column("gpu", Need::Always, Holds::Description, "accelerator by any of its usual names"),
    column("gpu_count", Need::Always, DEVICES, "accelerators"),
    column("gpus_per_node", Need::Optional, DEVICES, "accelerators of a node; else those of the usual machine"),
    column(
        "inter_bw",
        Need::Optional,
        Holds::Description,
        "network in words with a rate in Gb/s, `8x400 Gb/s per node`",
    ),
    column("framework", Need::Always, Holds::Description, "what ran it, `Megatron-LM`, `nanotron`, ..."),
    column("model_name", Need::Shape, Holds::Description, "a name that tells the family"),
    column("layers", Need::Shape, LAYERS, "layers"),
    column("hidden", Need::Shape, WIDTH, "width of the residual stream"),
    column("heads", Need::Shape, HEADS, "query heads"),
    column("kv_heads", Need::Optional, HEADS, "key and value heads; else as many as `heads`"),
    column("ffn", Need::Shape, WIDTH, "inner width of an MLP"),
    column("vocab", Need::Shape, WIDTH, "entries of the vocabulary"),
    column("moe_experts", Need::Optional, Holds::Count(0, MAX_HEADS), "routed experts of a layer"),
    column("moe_topk", Need::Optional, Holds::Count(0, MAX_HEADS), "experts that a token visits"),
    column("moe_ffn", Need::Optional, Holds::Count(0, MAX_WIDTH), "inner width of an expert"),
    column("seq_len", Need::Always, Holds::Count(1, LONGEST_SEQUENCE), "tokens of a sequence"),
    column("global_batch", Need::Always, BATCH, "sequences of a step"),
    column("micro_batch", Need::Always, BATCH, "sequences of a micro-batch on one rank"),
    column("precision", Need::Always, Holds::Words(&["bf16", "fp16", "fp8", "fp4"]), "format of the products"),
    column("optimizer", Need::Optional, Holds::Words(&["adam", "lion", "muon", "sgd", "adafactor"]), "optimizer"),
    column("tp", Need::Always, DEVICES, "tensor-parallel ways"),
    column("pp", Need::Always, DEVICES, "stages"),
    column("vpp", Need::Optional, LAYERS, "chunks of a stage; else 1"),
    column("cp", Need::Optional, DEVICES, "context-parallel ways; else 1"),
    column("ep", Need::Optional, DEVICES, "expert-parallel ways; else 1"),
    column("etp", Need::Optional, DEVICES, "tensor-parallel ways of experts"),
    column("dp", Need::Optional, DEVICES, "replicas, to be checked"),
    column("derived_dp", Need::Optional, DEVICES, "the same"),
    column("sp", Need::Optional, Holds::Flag, "sequence parallelism"),
    column("flash_attn", Need::Optional, Holds::Flag, "fused attention; else yes"),
    column("zero_fsdp", Need::Optional, Holds::Description, "`ZeRO-0` to `ZeRO-3`, `FSDP`, `none`, ..."),
    column("recompute", Need::Always, Holds::Description, "`none`, `full`, `full (N layers)`, `selective[: modules]`"),
    column("usable", Need::Optional, Holds::Flag, "no leaves the row out"),
    column("oom", Need::Optional, Holds::Crash, "whether the run crashed"),
    column("iter_time_s", Need::Optional, Holds::Positive, "seconds of an iteration"),
    column("derived_iter_time_s", Need::Optional, Holds::Positive, "the same, worked out"),
    column("tokens_per_s_per_gpu", Need::Optional, Holds::Positive, "tokens/s of one accelerator, in place of seconds"),
    column("derived_tokens_per_s_per_gpu", Need::Optional, Holds::Positive, "the same, worked out"),
    column("peak_mem_gb", Need::Optional, Holds::Positive, "peak memory of a device, GB of 1e9 bytes"),
];

/// Columns of which a measurement of time needs one.
const TIMES: [&str; 3] = ["iter_time_s", "tokens_per_s_per_gpu", "derived_iter_time_s"];

/// Measurements in other units: the column, the one that it stands for, and its unit in that one's.
static OTHER_UNITS: &[(&str, &str, f64)] = &[
    ("iter_time_ms", "iter_time_s", 1e-3),
    ("iter_time_us", "iter_time_s", 1e-6),
    ("peak_mem_bytes", "peak_mem_gb", 1e-9),
    ("peak_mem_mb", "peak_mem_gb", 1e-3),
    ("peak_mem_mib", "peak_mem_gb", 1_048_576e-9),
    ("peak_mem_gib", "peak_mem_gb", 1.073_741_824),
];

/// How far a measurement in two units may differ: the last digit of a rounded one.
const ROUNDING: f64 = 0.01;

/// The measurement of `column`, from there or from its like in another unit.
pub fn measured(row: &Row, column: &str) -> Option<f64> {
    let positive = |name: &str| row.number(name).filter(|x| *x > 0.0);
    let others = OTHER_UNITS.iter().filter(|(_, of, _)| *of == column);
    positive(column).or_else(|| others.filter_map(|(name, _, unit)| Some(positive(name)? * unit)).next())
}

/// The first measurement of `row` in another unit that is no number, or says something else than the column that it stands for.
fn in_other_units(row: &Row) -> Result<(), Unreadable> {
    for &(name, of, unit) in OTHER_UNITS {
        let Some(text) = row.text(name).filter(|text| !unknown(text)) else { continue };
        let Some(here) = row.number(name).map(|x| x * unit).filter(|x| *x > 0.0 && *x <= MOST) else {
            return Err(Unreadable::new(name, text, format!("a number above 0, at most {:e}", MOST / unit)));
        };
        let there = measured(row, of).unwrap_or(here);
        if (here / there - 1.0).abs() > ROUNDING {
            return Err(Unreadable::new(name, text, format!("what {of} says, {there}, in its own unit")));
        }
    }
    Ok(())
}

impl Holds {
    fn expected(self) -> String {
        match self {
            Self::Count(least, most) => format!("a whole number, {least} to {most}"),
            Self::Positive => format!("a number above 0, at most {MOST:e}"),
            Self::Flag => "True or False".to_owned(),
            Self::Crash => "True, False or crashed_or_oom".to_owned(),
            Self::Words(words) => format!("one of {}", words.join(", ")),
            Self::Description => "words, with the unit of every number".to_owned(),
        }
    }

    fn allows(self, row: &Row, column: &str, text: &str) -> bool {
        let lower = text.to_lowercase();
        match self {
            Self::Count(0, _) if row.number(column) == Some(0.0) => true,
            Self::Count(least, most) => row.count(column).is_some_and(|n| (least..=most).contains(&n)),
            Self::Positive => row.number(column).is_some_and(|x| x > 0.0 && x <= MOST),
            Self::Flag => row.flag(column).is_some(),
            Self::Crash => row.flag(column).is_some() || CRASHED.contains(&lower.as_str()),
            Self::Words(words) => words.iter().any(|word| lower.contains(word)),
            Self::Description => text.parse::<f64>().is_err(),
        }
    }
}

/// A cell that says in words that the value is not known is as good as empty.
fn unknown(text: &str) -> bool {
    let lower = text.to_lowercase();
    matches!(lower.as_str(), "unknown" | "n/a" | "na" | "-" | "?")
        || ["undetermined", "not stated"].iter().any(|w| lower.contains(w))
}

/// A cell that holds no value of its column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Unreadable {
    /// The column.
    pub column: String,
    /// What stands there.
    pub found: String,
    /// What could.
    pub expected: String,
}

impl Unreadable {
    /// In `column` stands `found` where `expected` could.
    pub fn new(column: &str, found: &str, expected: impl Into<String>) -> Self {
        let found = found.chars().take(QUOTED).collect();
        Self { column: column.to_owned(), found, expected: expected.into() }
    }
}

/// An unreadable cell with its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// The row's name.
    pub id: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The cell.
    #[serde(flatten)]
    pub cell: Unreadable,
}

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unreadable { column, found, expected } = &self.cell;
        write!(f, "line {}, row `{}`, {column}: found `{found}`, expected {expected}", self.line, self.id)
    }
}

/// The first cell of `row` that is neither empty nor a value of its column.
///
/// # Errors
/// That cell.
pub fn readable(row: &Row) -> Result<(), LeftOut> {
    let bad = |cell| Err(LeftOut::Unreadable(cell));
    if let (Some(line), Some(id)) = (row.repeats, row.text("id")) {
        return bad(Unreadable::new("id", id, format!("every id once; line {line} has it already")));
    }
    for column in COLUMNS {
        let Some(text) = row.text(column.name) else { continue };
        let vague = unknown(text) && !matches!(column.holds, Holds::Words(_));
        if !vague && !column.holds.allows(row, column.name, text) {
            return bad(Unreadable::new(column.name, text, column.holds.expected()));
        }
    }
    in_other_units(row).map_err(LeftOut::Unreadable)
}

/// The unreadable rows of `rows`.
pub fn unreadable(rows: &[Row]) -> Vec<BadRow> {
    let bad = |row: &Row| match readable(row) {
        Err(LeftOut::Unreadable(cell)) => Some(BadRow { id: row.or_blank("id").to_owned(), line: row.line, cell }),
        _ => None,
    };
    rows.iter().filter_map(bad).collect()
}

/// `value` of what `column` counts, as an argument or a cell states it.
///
/// # Errors
/// When it is beyond the column's limits.
pub fn within(column: &'static str, value: u64) -> Result<u64, LeftOut> {
    match COLUMNS.iter().find(|c| c.name == column).map(|c| c.holds) {
        Some(holds @ Holds::Count(least, most)) if !(least..=most).contains(&value) => {
            Err(LeftOut::Unreadable(Unreadable::new(column, &value.to_string(), holds.expected())))
        }
        _ => Ok(value),
    }
}

/// Whether the row tells of a crash.
pub fn crashed(row: &Row) -> bool {
    row.text("oom").is_some_and(|text| CRASHED.contains(&text.to_lowercase().as_str()))
}

/// What a table of `rows` lacks for comparisons of `quantity`: a column that no row fills, and what it would hold.
pub fn missing(rows: &[Row], quantity: Quantity) -> Option<(&'static str, String)> {
    let filled = |name: &str| rows.iter().any(|row| row.text(name).is_some());
    let described = filled("args_json");
    let needed = |c: &&Column| c.need == Need::Always || c.need == Need::Shape && !described;
    if let Some(c) = COLUMNS.iter().filter(needed).find(|c| !filled(c.name)) {
        return Some((c.name, format!("a column of it in a table of runs: {}", c.about)));
    }
    let measured: &[&'static str] = match quantity {
        Quantity::Time => &TIMES,
        Quantity::Memory => &["peak_mem_gb"],
    };
    let like = |name: &str| OTHER_UNITS.iter().any(|(other, of, _)| *of == name && filled(other));
    let none = !measured.iter().any(|name| filled(name) || like(name));
    none.then(|| (measured[0], format!("a measurement: {}", measured.join(" or "))))
}

/// The columns with their values and units, for help texts.
pub fn described() -> String {
    let mut text =
        String::from("Columns of a table of runs (comma-separated, the first line names them; others are not read):\n");
    for c in COLUMNS {
        let needed = match c.need {
            Need::Always => "needed",
            Need::Shape => "needed unless args_json holds Megatron-LM's arguments",
            Need::Optional => "optional",
        };
        let kind = match c.holds {
            Holds::Description => String::new(),
            holds => format!("; {}", holds.expected()),
        };
        text.push_str(&format!("  {:29}{} ({needed}{kind})\n", c.name, c.about));
    }
    text.push_str("Times need one of iter_time_s and tokens_per_s_per_gpu, memory needs peak_mem_gb. In other units: ");
    let others: Vec<&str> = OTHER_UNITS.iter().map(|(name, ..)| *name).collect();
    text.push_str(&format!("{}.\n", others.join(", ")));
    text
}

/// The JSON schema of a row of a table of runs: its columns as strings, as CSV has them.
pub fn schema() -> serde_json::Value {
    let cell = |about: String, of: Option<&[&str]>| match of {
        Some(words) => {
            serde_json::json!({ "type": "string", "description": format!("{about}; holds one of {}", words.join(", ")) })
        }
        None => serde_json::json!({ "type": "string", "description": about }),
    };
    let mut properties = serde_json::Map::new();
    for c in COLUMNS {
        let about = match c.holds {
            Holds::Description | Holds::Words(_) => c.about.to_owned(),
            holds => format!("{}; {}", c.about, holds.expected()),
        };
        let words = if let Holds::Words(words) = c.holds { Some(words) } else { None };
        properties.insert(c.name.to_owned(), cell(about, words));
    }
    for (name, of, unit) in OTHER_UNITS {
        properties.insert((*name).to_owned(), cell(format!("{of} in another unit, {unit:e} of its own"), None));
    }
    let required: Vec<&str> = COLUMNS.iter().filter(|c| c.need == Need::Always).map(|c| c.name).collect();
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A row of a table of runs (CSV, RFC 4180; the first line names the columns, others than these are not read)",
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_empty_or_a_value_of_its_column_or_an_error() {
        let of = |column: &str, text: &str| readable(&Row::new([(column, text)]));
        for (column, good) in [
            ("layers", "32.0"),
            ("kv_heads", "8"),
            ("vocab", "32768 or 49152 (undetermined)"),
            ("moe_experts", "0"),
            ("sp", "True"),
            ("oom", "crashed_or_oom"),
            ("precision", "bf16 (fp32 grad accum)"),
            ("precision", "NVFP4"),
            ("inter_bw", "8x200 Gb/s HDR per node"),
            ("iter_time_s", "1.5e-3"),
            ("optimizer", "fused AdamW fp32 states"),
            ("anything", "else"),
            ("layers", ""),
        ] {
            assert_eq!(of(column, good), Ok(()), "{column}={good}");
        }
        for (column, bad) in [
            ("layers", "-4"),
            ("layers", "999999999"),
            ("layers", "32.5"),
            ("hidden", "x"),
            ("kv_heads", "0"),
            ("kv_heads", "-1"),
            ("gpu_count", "64.5"),
            ("gpus_per_node", "0"),
            ("pp", "99999999999999999999"),
            ("sp", "maybe"),
            ("usable", "perhaps"),
            ("oom", "maybe"),
            ("optimizer", "zzz"),
            ("precision", "fp3"),
            ("inter_bw", "NaN"),
            ("inter_bw", "400"),
            ("iter_time_s", "abc"),
            ("iter_time_s", "0"),
            ("peak_mem_gb", "inf"),
        ] {
            let Err(LeftOut::Unreadable(cell)) = of(column, bad) else { panic!("{column}={bad}") };
            assert_eq!((cell.column.as_str(), cell.found.as_str()), (column, bad));
        }
    }
}
