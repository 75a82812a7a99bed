//! Typed look-ups in a config: every number is bounded, every error names its field, and every key that was looked up
//! is remembered, so that at the end misspelt keys and keys that the family does not understand can be told.
//!
//! `null` counts as absent, as it does in the hub's configs.

use super::error::{Details, ModelError};
use super::vocabulary;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Most layers that are taken for a model and not for a mistake.
pub const MAX_LAYERS: u64 = 10_000;
/// Widest tensor dimension likewise (hidden sizes, MLP widths, vocabularies).
pub const MAX_WIDTH: u64 = 10_000_000;
/// Most heads, experts and groups, and the widest head.
pub const MAX_HEADS: u64 = 65_536;
/// Longest sequence, window or position table.
pub const MAX_LENGTH: u64 = 1_000_000_000;

/// One object of a config, with what was asked of it.
pub struct Fields<'a> {
    file: &'a str,
    path: String,
    map: &'a Map<String, Value>,
    asked: RefCell<BTreeSet<&'static str>>,
    remarks: RefCell<Vec<String>>,
}

type Result<T> = std::result::Result<T, ModelError>;

/// A value as a user would recognise it: short, with its type where that is the point.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(a) => format!("a list of {}", a.len()),
        Value::String(s) if s.chars().count() > 60 => {
            format!("the text \"{}...\"", s.chars().take(60).collect::<String>())
        }
        Value::String(s) => format!("the text \"{s}\""),
        other => other.to_string(),
    }
}

impl<'a> Fields<'a> {
    /// The top object of a file.
    pub fn new(file: &'a str, map: &'a Map<String, Value>) -> Self {
        Fields { file, path: String::new(), map, asked: RefCell::default(), remarks: RefCell::default() }
    }

    /// Full path of a key, e.g. `vision_config.depth`.
    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Details that name the file and this key.
    pub fn at(&self, key: &str) -> Details {
        Details::file(self.file).field(self.name(key))
    }

    /// The value under a key; absent and `null` are the same.
    fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key);
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// Whether a key has a value.
    pub fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    fn mistyped(&self, key: &str, value: &Value, expected: &str) -> ModelError {
        let mut details = self.at(key).found(shown(value)).expected(expected);
        if let Value::String(s) = value
            && s.trim().parse::<f64>().is_ok()
            && expected.contains("integer")
        {
            details = details.help("write the number without quotation marks");
        }
        ModelError::Mistyped(details)
    }

    fn integer(&self, key: &str, value: &Value, low: u64, high: u64) -> Result<u64> {
        let expected = format!("an integer from {low} to {high}");
        let Value::Number(number) = value else { return Err(self.mistyped(key, value, &expected)) };
        match number.as_u64() {
            Some(n) if (low..=high).contains(&n) => Ok(n),
            None if number.is_f64() => Err(self.mistyped(key, value, &expected)),
            _ => Err(ModelError::OutOfRange(self.at(key).found(number.to_string()).expected(expected))),
        }
    }

    /// An integer in a range, if given.
    pub fn optional_in(&self, key: &'static str, low: u64, high: u64) -> Result<Option<u64>> {
        self.get(key).map(|v| self.integer(key, v, low, high)).transpose()
    }

    /// The error for a key that the family needs, with a present key that may have been meant.
    pub fn missing(&self, key: &'static str, expected: &str) -> ModelError {
        let asked = self.asked.borrow();
        let meant = self
            .map
            .keys()
            .map(String::as_str)
            .filter(|k| !asked.contains(k) && !vocabulary::knows(k))
            .filter(|k| strsim::normalized_damerau_levenshtein(key, k) >= 0.7)
            .max_by(|a, b| {
                let likeness = |k| strsim::normalized_damerau_levenshtein(key, k);
                likeness(a).total_cmp(&likeness(b)).then(b.cmp(a))
            });
        let details = self.at(key).found("nothing").expected(expected);
        ModelError::Missing(match meant {
            Some(k) => details.help(format!("the file has `{}`: was `{key}` meant?", self.name(k))),
            None => details,
        })
    }

    fn required(&self, key: &'static str, low: u64, high: u64) -> Result<u64> {
        self.optional_in(key, low, high)?.ok_or_else(|| self.missing(key, &format!("an integer from {low} to {high}")))
    }

    /// A number of layers that must be there.
    pub fn layers(&self, key: &'static str) -> Result<u64> {
        self.required(key, 1, MAX_LAYERS)
    }
    /// A width (hidden size, MLP width, vocabulary) that must be there.
    pub fn width(&self, key: &'static str) -> Result<u64> {
        self.required(key, 1, MAX_WIDTH)
    }
    /// A number of heads, experts or groups, or a head's width, that must be there.
    pub fn heads(&self, key: &'static str) -> Result<u64> {
        self.required(key, 1, MAX_HEADS)
    }
    /// A number of layers, if given.
    pub fn layers_if(&self, key: &'static str) -> Result<Option<u64>> {
        self.optional_in(key, 1, MAX_LAYERS)
    }
    /// A width, if given.
    pub fn width_if(&self, key: &'static str) -> Result<Option<u64>> {
        self.optional_in(key, 1, MAX_WIDTH)
    }
    /// A number of heads or a head's width, if given.
    pub fn heads_if(&self, key: &'static str) -> Result<Option<u64>> {
        self.optional_in(key, 1, MAX_HEADS)
    }
    /// A length in tokens, if given.
    pub fn length_if(&self, key: &'static str) -> Result<Option<u64>> {
        self.optional_in(key, 1, MAX_LENGTH)
    }
    /// A count that may be zero, if given.
    pub fn count_if(&self, key: &'static str) -> Result<Option<u64>> {
        self.optional_in(key, 0, MAX_WIDTH)
    }
    /// A count that may be zero; absent means zero.
    pub fn count(&self, key: &'static str) -> Result<u64> {
        Ok(self.count_if(key)?.unwrap_or(0))
    }

    /// The first of several names for the same number that is given; two that differ contradict each other.
    pub fn alias(&self, keys: &[&'static str], low: u64, high: u64) -> Result<Option<u64>> {
        let mut first: Option<(&str, u64)> = None;
        for &key in keys {
            let Some(n) = self.optional_in(key, low, high)? else { continue };
            match first {
                Some((other, m)) if m != n => {
                    return Err(ModelError::Contradictory(
                        self.at(key).found(n.to_string()).expected(format!("{m}, as `{}` says", self.name(other))),
                    ));
                }
                Some(_) => {}
                None => first = Some((key, n)),
            }
        }
        Ok(first.map(|(_, n)| n))
    }

    /// A yes or no.
    pub fn flag(&self, key: &'static str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => Err(self.mistyped(key, other, "true or false")),
        }
    }

    /// A flag that the family's rules know with one value only.
    pub fn only(&self, key: &'static str, value: bool) -> Result<()> {
        if self.flag(key, value)? == value {
            return Ok(());
        }
        Err(ModelError::Unsupported(self.at(key).found((!value).to_string()).expected(value.to_string())))
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Result<Option<&'a str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(self.mistyped(key, other, "a text")),
        }
    }

    /// A number that need not be whole.
    pub fn real(&self, key: &'static str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.mistyped(key, value, "a number")),
        }
    }

    /// A list, if given.
    pub fn list(&self, key: &'static str) -> Result<Option<&'a [Value]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(a)) => Ok(Some(a)),
            Some(other) => Err(self.mistyped(key, other, "a list")),
        }
    }

    /// Whether a list stands under a key that may also hold something else.
    pub fn is_list(&self, key: &'static str) -> bool {
        self.get(key).is_some_and(Value::is_array)
    }

    /// The number of shared experts; absent and `null` mean none.
    pub fn shared_experts(&self) -> Result<u64> {
        Ok(self.optional_in("n_shared_experts", 0, MAX_HEADS)?.unwrap_or(0))
    }

    /// A list of integers, if given.
    pub fn integers(&self, key: &'static str, high: u64) -> Result<Option<Vec<u64>>> {
        let Some(list) = self.list(key)? else { return Ok(None) };
        let at = |i: usize| format!("{key}[{i}]");
        list.iter().enumerate().map(|(i, v)| self.integer(&at(i), v, 0, high)).collect::<Result<_>>().map(Some)
    }

    /// A list with one of a few words per layer, if given. A longer list than there are layers is an error, too.
    pub fn words<T: Copy>(&self, key: &'static str, layers: u64, known: &[(&str, T)]) -> Result<Option<Vec<T>>> {
        let Some(list) = self.list(key)? else { return Ok(None) };
        self.one_per_layer(key, list.len(), layers)?;
        let names = || known.iter().map(|&(name, _)| name);
        list.iter()
            .enumerate()
            .map(|(i, value)| {
                let at = format!("{key}[{i}]");
                let expected = names().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(" or ");
                let Value::String(word) = value else { return Err(self.mistyped(&at, value, &expected)) };
                known.iter().find(|(name, _)| name == word).map(|&(_, t)| t).ok_or_else(|| {
                    let details = self.at(&at).found(shown(value)).expected(expected);
                    ModelError::Unsupported(match super::error::nearest(word, names()) {
                        Some(near) => details.help(format!("did you mean \"{near}\"?")),
                        None => details,
                    })
                })
            })
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Checks that a list has one entry per layer.
    pub fn one_per_layer(&self, key: &str, entries: usize, layers: u64) -> Result<()> {
        if entries as u64 == layers {
            return Ok(());
        }
        Err(ModelError::Contradictory(
            self.at(key).found(format!("{entries} entries")).expected(format!("{layers}, one per layer")),
        ))
    }

    /// Checks that `whole` divides into `parts`.
    pub fn divides(&self, key: &str, parts: u64, whole: u64, what: &str) -> Result<()> {
        if parts > 0 && whole.is_multiple_of(parts) {
            return Ok(());
        }
        Err(ModelError::Contradictory(
            self.at(key).found(parts.to_string()).expected(format!("a divisor of {what} = {whole}")),
        ))
    }

    /// Checks that a number does not pass another.
    pub fn at_most(&self, key: &str, value: u64, limit: u64, what: &str) -> Result<()> {
        if value <= limit {
            return Ok(());
        }
        Err(ModelError::Contradictory(
            self.at(key).found(value.to_string()).expected(format!("at most {what} = {limit}")),
        ))
    }

    /// A section that must be an object, if given.
    pub fn section(&self, key: &'static str) -> Result<Option<Fields<'a>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields {
                file: self.file,
                path: self.name(key),
                map,
                asked: RefCell::default(),
                remarks: RefCell::default(),
            })),
            Some(other) => Err(self.mistyped(key, other, "an object")),
        }
    }

    /// An absent section, as if it were there and said what `map` says.
    pub fn inside<'b>(&self, key: &str, map: &'b Map<String, Value>) -> Fields<'b>
    where
        'a: 'b,
    {
        Fields { file: self.file, path: self.name(key), map, asked: RefCell::default(), remarks: RefCell::default() }
    }

    /// Keeps a remark for the user; [`Fields::finish`] hands it on.
    pub fn remark(&self, text: String) {
        self.remarks.borrow_mut().push(text);
    }

    /// Looks at what was never asked for: a misspelt key is an error, a key that means something to another family is
    /// a remark, anything else is the hub's business.
    pub fn finish(&self, family: &str, notes: &mut Vec<String>) -> Result<()> {
        notes.append(&mut self.remarks.borrow_mut());
        let asked = self.asked.borrow();
        for (key, value) in self.map.iter().filter(|(k, _)| !asked.contains(k.as_str())) {
            if vocabulary::knows(key) {
                if vocabulary::is_decisive(key) && weighs(value, 1) {
                    return Err(ModelError::Unsupported(
                        self.at(key)
                            .found(shown(value))
                            .expected(format!("no such field: `{family}` models have none"))
                            .help("if the model is of another family, name it with `treat as`"),
                    ));
                }
                if weighs(value, 0) {
                    notes.push(format!("`{}` is not used by `{family}` and was left out of account", self.name(key)));
                }
                continue;
            }
            let absent = asked.iter().copied().filter(|k| self.map.get(*k).is_none_or(Value::is_null));
            if let Some(meant) = absent.filter(|k| is_misspelt(key, k)).min() {
                return Err(ModelError::UnknownField(
                    self.at(key).found(shown(value)).help(format!("did you mean `{}`?", self.name(meant))),
                ));
            }
        }
        Ok(())
    }
}

/// Whether a value would say anything: not null, false, empty or a number up to `nothing`.
fn weighs(value: &Value, nothing: u64) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(n) => n.as_u64().is_none_or(|n| n > nothing),
        Value::Array(a) => !a.is_empty(),
        _ => true,
    }
}

/// Whether `key` is `known` with a slip or two: one edit in a short word, two in a long one.
fn is_misspelt(key: &str, known: &str) -> bool {
    let allowed = if known.len() < 8 { 1 } else { 2 };
    key.len().abs_diff(known.len()) <= allowed && strsim::damerau_levenshtein(key, known) <= allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &str, f: impl FnOnce(&Fields) -> T) -> T {
        let value: Value = serde_json::from_str(json).unwrap();
        f(&Fields::new("x.json", value.as_object().unwrap()))
    }

    #[test]
    fn an_error_names_file_field_found_and_expected() {
        let e = with(r#"{"hidden_size": "64"}"#, |f| f.width("hidden_size").unwrap_err());
        assert_eq!(
            e.to_string(),
            "wrong type: x.json: field `hidden_size`: found the text \"64\", expected an integer from 1 to 10000000 \
             (write the number without quotation marks)"
        );
    }

    #[test]
    fn a_misspelt_optional_key_is_an_error_and_a_foreign_key_is_a_remark() {
        let json = r#"{"num_key_value_head": 8, "sliding_window": 5, "made_up_by_the_hub": 1}"#;
        let mut notes = Vec::new();
        let e = with(json, |f| {
            f.heads_if("num_key_value_heads").unwrap();
            f.finish("llama", &mut notes).unwrap_err()
        });
        assert_eq!(e.details().help.as_deref(), Some("did you mean `num_key_value_heads`?"));
        with(json, |f| f.finish("llama", &mut notes)).unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
    }
}
