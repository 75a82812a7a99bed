//! Every option string that Megatron-LM's parser knows, from `flags.tsv` (megatron-core 0.19.2, read 2026-11).

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing; it sets its destination to `true` or, for an `off` flag, to `false`.
    Nothing(bool),
    /// One value.
    One(Type),
    /// One value or more; none is accepted too where the parser says `*`.
    Many(Type, bool),
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A text.
    Text,
    /// A whole number, or a Python list expression such as `([0]*3+[1]*58)`.
    Pattern,
}

/// One argument of the parser.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// Name that the parser stores it under.
    pub destination: &'static str,
    /// Its option strings.
    pub names: Vec<&'static str>,
    /// What it takes.
    pub takes: Takes,
    /// Its default as text; `None` when there is none.
    pub default: Option<&'static str>,
    /// The values it accepts; empty when any.
    pub choices: Vec<&'static str>,
}

/// All flags.
#[derive(Debug)]
pub struct Flags {
    list: Vec<Flag>,
    slots: BTreeMap<&'static str, usize>,
    by_name: BTreeMap<&'static str, usize>,
}

impl Flags {
    /// The table, read once.
    pub fn all() -> &'static Flags {
        static TABLE: OnceLock<Flags> = OnceLock::new();
        TABLE.get_or_init(|| Flags::read(include_str!("flags.tsv")))
    }

    fn read(text: &'static str) -> Flags {
        let mut flags = Flags { list: Vec::new(), slots: BTreeMap::new(), by_name: BTreeMap::new() };
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            let (destination, names, kind, arity, default, choices) = (next(), next(), next(), next(), next(), next());
            let value = match kind {
                "int" => Type::Int,
                "float" => Type::Float,
                "pattern" => Type::Pattern,
                _ => Type::Text,
            };
            let takes = match (kind, arity) {
                ("on" | "bool", _) => Takes::Nothing(true),
                ("off", _) => Takes::Nothing(false),
                (_, "+") => Takes::Many(value, false),
                (_, "*") => Takes::Many(value, true),
                (_, "1") => Takes::One(value),
                _ => Takes::Many(value, false),
            };
            let split = |text: &'static str, by: char| -> Vec<&'static str> {
                text.split(by).filter(|part| !part.is_empty()).collect()
            };
            let default = (!default.is_empty()).then_some(default);
            let slot = flags.slots.len();
            flags.slots.entry(destination).or_insert(slot);
            let mut add = |names: Vec<&'static str>, takes| {
                let index = flags.list.len();
                flags.by_name.extend(names.iter().map(|name| (*name, index)));
                flags.list.push(Flag { destination, names, takes, default, choices: split(choices, ',') });
            };
            let names = split(names, ' ');
            if kind == "bool" {
                let (off, on): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with("--no-"));
                add(on, Takes::Nothing(true));
                add(off, Takes::Nothing(false));
            } else {
                add(names, takes);
            }
        }
        flags
    }

    /// The flag that an option string means.
    pub fn find(&self, name: &str) -> Option<&Flag> {
        self.by_name.get(name).map(|index| &self.list[*index])
    }

    /// All option strings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }

    /// Position of a destination among all destinations.
    pub fn slot(&self, destination: &str) -> Option<usize> {
        self.slots.get(destination).copied()
    }

    /// How many destinations there are.
    pub fn destinations(&self) -> usize {
        self.slots.len()
    }

    /// Destinations with their slots and defaults.
    pub(super) fn defaults(&self) -> impl Iterator<Item = (usize, &Flag)> {
        // Of two flags with one destination the first gives the default, as the parser has it.
        let mut seen = vec![false; self.slots.len()];
        self.list.iter().filter_map(move |flag| {
            let slot = *self.slots.get(flag.destination)?;
            (!std::mem::replace(&mut seen[slot], true)).then_some((slot, flag))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_every_option_string_once() {
        let flags = Flags::all();
        assert_eq!(flags.names().count(), 845);
        let tp = flags.find("--tensor-model-parallel-size").unwrap();
        assert_eq!((tp.takes, tp.default), (Takes::One(Type::Int), Some("1")));
        assert_eq!(flags.find("--cp-comm-type").unwrap().takes, Takes::Many(Type::Text, false));
        assert_eq!(flags.find("--disable-bias-linear").unwrap().takes, Takes::Nothing(false));
        assert!(flags.find("--tensor-parallel").is_none());
    }
}
