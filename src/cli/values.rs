//! Values of flags, with errors that say what would have been understood.

use crate::cost::galvatron::{Repair, Repairs};
use crate::error::{InputError, Kind};
use crate::job::{LARGEST_BATCH, LONGEST_SEQUENCE, Optimizer, Precision, Storage, WORST_IMBALANCE};
use crate::question::Constraint;
use crate::units::{Bytes, ParseUnitError, Seconds};

fn refuse(found: &str, expected: impl std::fmt::Display) -> InputError {
    InputError::new(Kind::InvalidValue).found(found).expected(expected)
}

fn within(text: &str, most: u64) -> Result<u64, InputError> {
    let plain = text.trim().replace('_', "");
    plain.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| refuse(text, format!("a number, 1 to {most}")))
}

/// Sequences of a batch.
pub(super) fn batch(text: &str) -> Result<u64, InputError> {
    within(text, LARGEST_BATCH)
}

/// Tokens of a sequence.
pub(super) fn tokens(text: &str) -> Result<u64, InputError> {
    within(text, LONGEST_SEQUENCE)
}

/// A seed.
pub(super) fn seed(text: &str) -> Result<u64, InputError> {
    let plain = text.trim().replace('_', "");
    plain.parse().map_err(|_| refuse(text, format!("a whole number, 0 to {}", u64::MAX)))
}

/// Evaluations.
pub(super) fn evaluations(text: &str) -> Result<u64, InputError> {
    within(text, u64::MAX)
}

/// Threads.
pub(super) fn threads(text: &str) -> Result<usize, InputError> {
    within(text, 4096).map(|n| n as usize)
}

/// Plans to show.
pub(super) fn top(text: &str) -> Result<usize, InputError> {
    within(text, 10_000).map(|n| n as usize)
}

/// Devices.
pub(super) fn devices(text: &str) -> Result<u64, InputError> {
    within(text, crate::cluster::MOST_DEVICES)
}

fn unit(e: ParseUnitError) -> InputError {
    refuse(&e.found, e.expected)
}

/// Memory, more than none.
pub(super) fn memory(text: &str) -> Result<Bytes, InputError> {
    let bytes: Bytes = text.parse().map_err(unit)?;
    if bytes > Bytes::ZERO { Ok(bytes) } else { Err(refuse(text, "more than nothing, e.g. `80GB`")) }
}

/// A duration, more than none.
pub(super) fn duration(text: &str) -> Result<Seconds, InputError> {
    let time: Seconds = text.parse().map_err(unit)?;
    if time > Seconds::ZERO { Ok(time) } else { Err(refuse(text, "more than nothing, e.g. `10s`")) }
}

/// A fraction, or a percentage with `%`.
pub(super) fn fraction(text: &str) -> Result<f64, InputError> {
    let plain = text.trim();
    let (number, factor) = match plain.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (plain, 1.0),
    };
    let value = number.parse::<f64>().ok().map(|x| x / factor);
    value
        .filter(|x| x.is_finite() && *x >= 0.0)
        .ok_or_else(|| refuse(text, "a fraction such as `0.01`, or a percentage such as `1%`"))
}

/// Load of the busiest expert rank over the mean.
pub(super) fn imbalance(text: &str) -> Result<f64, InputError> {
    let value = text.trim().parse::<f64>().ok().filter(|x| (1.0..=WORST_IMBALANCE).contains(x));
    value.ok_or_else(|| refuse(text, format!("a factor of at least 1 (balanced), at most {WORST_IMBALANCE}")))
}

/// A precision by name.
pub(super) fn precision(text: &str) -> Result<Precision, InputError> {
    text.parse().map_err(InputError::from)
}

/// A storage format by name.
pub(super) fn storage(text: &str) -> Result<Storage, InputError> {
    text.parse().map_err(InputError::from)
}

/// An optimizer by name.
pub(super) fn optimizer(text: &str) -> Result<Optimizer, InputError> {
    text.parse().map_err(InputError::from)
}

/// A constraint such as `tp=4`.
pub(super) fn constraint(text: &str) -> Result<Constraint, InputError> {
    text.parse()
}

/// A search algorithm by name.
pub(super) fn backend(text: &str) -> Result<String, InputError> {
    let known = crate::space::backends::names().into_iter().find(|name| name.eq_ignore_ascii_case(text.trim()));
    known.ok_or_else(|| crate::space::backends::unknown(text))
}

/// A framework by name.
pub(super) fn target(text: &str) -> Result<String, InputError> {
    text.parse::<crate::rules::targets::Target>().map(|t| t.name().to_owned())
}

/// `NAME=VALUE` of an environment; an empty value means that it is not set.
pub(super) fn variable(text: &str) -> Result<(String, String), InputError> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let parts = parts.filter(|(name, _)| !name.is_empty());
    parts.map(|(n, v)| (n.to_owned(), v.to_owned())).ok_or_else(|| refuse(text, "NAME=VALUE, or NAME= for none"))
}

/// Repairs of Galvatron's cost model.
pub(super) fn repairs(text: &str) -> Result<Repairs, InputError> {
    let known = ["all", "none"].into_iter().chain(Repair::ALL.map(Repair::name));
    Repairs::parse(text).map_err(|e| InputError::unknown_name(&e.found, "repairs", known))
}

/// `name=value`.
pub(super) fn assignment(text: &str) -> Result<(String, String), InputError> {
    let parts = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let parts = parts.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts.map(|(n, v)| (n.to_owned(), v.to_owned())).ok_or_else(|| refuse(text, "NAME=VALUE, both given"))
}

/// What the cost model can leave out.
pub(super) const EFFECTS: [&str; 4] = ["nic-sharing", "overlap", "head", "moments"];

/// One of [`EFFECTS`].
pub(super) fn effect(text: &str) -> Result<String, InputError> {
    let plain = text.trim().to_ascii_lowercase().replace('_', "-");
    match EFFECTS.iter().find(|name| **name == plain) {
        Some(name) => Ok((*name).to_owned()),
        None => Err(InputError::unknown_name(text, "an effect", EFFECTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_fractions_or_percentages() {
        assert_eq!(fraction("1%").unwrap(), 0.01);
        assert_eq!(fraction("0.05").unwrap(), 0.05);
        assert_eq!(fraction(" 2.5 % ").unwrap(), 0.025);
        for bad in ["", "%", "-1%", "NaN", "inf", "x"] {
            assert!(fraction(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn zero_and_absurd_values_are_refused() {
        for bad in ["0", "-1", "1.5", "", "1e9999", "99999999999999999999"] {
            assert!(batch(bad).is_err() && tokens(bad).is_err() && threads(bad).is_err(), "{bad}");
        }
        assert!(memory("0GB").is_err() && duration("0s").is_err());
        assert_eq!(batch("1_024").unwrap(), 1024);
    }

    #[test]
    fn names_are_read_in_any_case_and_the_nearest_is_offered() {
        assert_eq!(backend("MCTS").unwrap(), "mcts");
        assert_eq!(backend("genetics").unwrap_err().help.as_deref(), Some("did you mean `genetic`?"));
        assert_eq!(effect("nic_sharing").unwrap(), "nic-sharing");
    }
}
