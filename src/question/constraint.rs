//! What a plan must or must not be, as text: `tp=4`, `tp=2|4|8`, `zero=1..2` (both ends count), `recompute=full`.

use crate::error::{InputError, Kind};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

macro_rules! dims {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// What a constraint is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Dim {
            $($(#[$doc])* $variant,)+
        }
        impl Dim {
            /// All of them.
            pub const ALL: &[Dim] = &[$(Dim::$variant),+];
            /// As it is written.
            pub const fn name(self) -> &'static str {
                match self { $(Dim::$variant => $name),+ }
            }
        }
    };
}

dims! {
    /// Pipeline stages.
    Pp = "pp",
    /// Chunks of a stage.
    Vpp = "vpp",
    /// Tensor parallelism.
    Tp = "tp",
    /// Context parallelism.
    Cp = "cp",
    /// Expert parallelism.
    Ep = "ep",
    /// Tensor parallelism of experts.
    Etp = "etp",
    /// Data parallelism.
    Dp = "dp",
    /// ZeRO stage.
    Zero = "zero",
    /// Recomputation of activations.
    Recompute = "recompute",
    /// Sequence parallelism beside tensor parallelism, or instead of it.
    Sp = "sp",
    /// Sequences of a micro-batch.
    MicroBatch = "micro_batch",
}

impl Dim {
    /// Settings of a dimension that is no number.
    pub const fn settings(self) -> Option<&'static [&'static str]> {
        match self {
            Dim::Recompute => Some(&["none", "selective", "full"]),
            Dim::Sp => Some(&["megatron", "ulysses", "off"]),
            _ => None,
        }
    }

    /// Least and largest number of a numeric dimension.
    const fn range(self) -> (u64, u64) {
        match self {
            Dim::Zero => (0, 3),
            _ => (1, 1 << 20),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dim {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Self, InputError> {
        let plain = text.trim().to_ascii_lowercase().replace('-', "_");
        let found = match plain.as_str() {
            "mbs" | "micro_batch_size" => Some(Dim::MicroBatch),
            name => Dim::ALL.iter().copied().find(|dim| dim.name() == name),
        };
        found.ok_or_else(|| InputError::unknown_name(text.trim(), "a dimension", Dim::ALL.iter().map(|d| d.name())))
    }
}

/// The values of a constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Values {
    /// From the first to the second, both counted.
    Range(u64, u64),
    /// Each of these, ascending.
    OneOf(Vec<u64>),
    /// Each of these settings.
    Settings(Vec<&'static str>),
}

/// A dimension and values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// What it is about.
    pub dim: Dim,
    /// The values.
    pub values: Values,
}

impl Constraint {
    /// Whether a number is among the values.
    pub fn has(&self, number: u64) -> bool {
        match &self.values {
            Values::Range(from, to) => (*from..=*to).contains(&number),
            Values::OneOf(numbers) => numbers.contains(&number),
            Values::Settings(_) => false,
        }
    }

    /// Whether a setting is among the values.
    pub fn has_name(&self, name: &str) -> bool {
        matches!(&self.values, Values::Settings(settings) if settings.contains(&name))
    }

    /// Whether every value of `other` is one of these.
    pub(super) fn covers(&self, other: &Constraint) -> bool {
        self.dim == other.dim
            && match (&self.values, &other.values) {
                (Values::Range(a, b), Values::Range(from, to)) => a <= from && to <= b,
                (Values::OneOf(_), Values::Range(from, to)) => {
                    // A list is short, so a range that it covers is short too.
                    to - from < 1024 && (*from..=*to).all(|n| self.has(n))
                }
                (_, Values::OneOf(numbers)) => numbers.iter().all(|n| self.has(*n)),
                (_, Values::Settings(settings)) => settings.iter().all(|s| self.has_name(s)),
                (Values::Settings(_), Values::Range(..)) => false,
            }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |texts: Vec<String>| texts.join("|");
        let values = match &self.values {
            Values::Range(from, to) if from == to => from.to_string(),
            Values::Range(from, to) => format!("{from}..{to}"),
            Values::OneOf(numbers) => join(numbers.iter().map(u64::to_string).collect()),
            Values::Settings(settings) => settings.join("|"),
        };
        write!(f, "{}={values}", self.dim)
    }
}

impl FromStr for Constraint {
    type Err = InputError;
    fn from_str(text: &str) -> Result<Self, InputError> {
        let form = "`dimension=value`, e.g. `tp=4`, `tp=2|4`, `zero=1..2` or `recompute=full`";
        let (dim, values) =
            text.split_once('=').ok_or_else(|| InputError::new(Kind::InvalidValue).found(text).expected(form))?;
        let dim: Dim = dim.parse()?;
        let values = match dim.settings() {
            Some(known) => settings(values, known)?,
            None => numbers(dim, values).ok_or_else(|| {
                let (least, most) = dim.range();
                let expected = format!("`{dim}=n`, `{dim}=n|m` or `{dim}=n..m` with numbers from {least} to {most}");
                InputError::new(Kind::InvalidValue).found(text).expected(expected)
            })?,
        };
        Ok(Self { dim, values })
    }
}

fn settings(text: &str, known: &'static [&'static str]) -> Result<Values, InputError> {
    let find = |part: &str| {
        let wanted = part.trim().to_ascii_lowercase();
        known
            .iter()
            .copied()
            .find(|name| *name == wanted)
            .ok_or_else(|| InputError::unknown_name(part.trim(), "one of", known.iter().copied()))
    };
    let mut found = text.split('|').map(find).collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    found.dedup();
    Ok(Values::Settings(found))
}

fn numbers(dim: Dim, text: &str) -> Option<Values> {
    let (least, most) = dim.range();
    let number = |part: &str| part.trim().parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    if let Some((from, to)) = text.split_once("..") {
        let (from, to) = (number(from)?, number(to.strip_prefix('=').unwrap_or(to))?);
        return (from <= to).then_some(Values::Range(from, to));
    }
    let mut numbers = text.split('|').map(number).collect::<Option<Vec<_>>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    match numbers[..] {
        [only] => Some(Values::Range(only, only)),
        _ => Some(Values::OneOf(numbers)),
    }
}

impl Serialize for Constraint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Constraint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(|e: InputError| {
            let help = e.help.map(|h| format!("; {h}")).unwrap_or_default();
            let (found, expected) = (e.found.unwrap_or_default(), e.expected.unwrap_or_default());
            serde::de::Error::custom(format!("found `{found}`, expected {expected}{help}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_read_and_print() {
        for (text, printed) in [
            ("tp=4", "tp=4"),
            (" TP = 8|2|4|2", "tp=2|4|8"),
            ("zero=1..2", "zero=1..2"),
            ("zero=1..=2", "zero=1..2"),
            ("recompute=full|none", "recompute=full|none"),
            ("micro-batch=1", "micro_batch=1"),
            ("mbs=2", "micro_batch=2"),
            ("sp=Ulysses", "sp=ulysses"),
        ] {
            let constraint: Constraint = text.parse().unwrap();
            assert_eq!(constraint.to_string(), printed);
            assert_eq!(printed.parse::<Constraint>().unwrap(), constraint);
        }
        let zero: Constraint = "zero=1..2".parse().unwrap();
        assert_eq!([0, 1, 2, 3].map(|n| zero.has(n)), [false, true, true, false]);
    }

    #[test]
    fn nonsense_is_refused_with_the_nearest_name() {
        for bad in ["", "tp", "tp=", "tp=0", "tp=x", "tp=4..2", "zero=4", "tp=-1", "tp=1||2", "tp=9999999999999999999"]
        {
            assert!(bad.parse::<Constraint>().is_err(), "{bad}");
        }
        let help = |text: &str| text.parse::<Constraint>().unwrap_err().help.unwrap().to_string();
        assert_eq!(help("recompute=selctive"), "did you mean `selective`?");
        assert_eq!(help("recomptue=full"), "did you mean `recompute`?");
    }
}
