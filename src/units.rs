//! Physical quantities as types, so that GB and GiB, bits and bytes, seconds and milliseconds cannot be mixed up.
//!
//! Memory is counted in bytes, networks are quoted in bits per second and stored in bytes per second,
//! bandwidths are per direction. `GB` is 1e9 bytes and `GiB` is 2^30 bytes (IEC 80000-13).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found `{found}`, expected {expected}")]
pub struct ParseUnitError {
    /// The text as given.
    pub found: String,
    /// What would have been understood.
    pub expected: &'static str,
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $name(pub f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);
            /// The bare number, in the unit that the type documents.
            pub const fn get(self) -> f64 { self.0 }
            /// The larger of two.
            pub fn max(self, other: Self) -> Self { Self(self.0.max(other.0)) }
            /// The smaller of two.
            pub fn min(self, other: Self) -> Self { Self(self.0.min(other.0)) }
            /// Whether it is a usable number: neither NaN nor infinite.
            pub fn is_finite(self) -> bool { self.0.is_finite() }
        }
        impl Add for $name { type Output = Self; fn add(self, o: Self) -> Self { Self(self.0 + o.0) } }
        impl Sub for $name { type Output = Self; fn sub(self, o: Self) -> Self { Self(self.0 - o.0) } }
        impl Neg for $name { type Output = Self; fn neg(self) -> Self { Self(-self.0) } }
        impl AddAssign for $name { fn add_assign(&mut self, o: Self) { self.0 += o.0; } }
        impl SubAssign for $name { fn sub_assign(&mut self, o: Self) { self.0 -= o.0; } }
        impl Mul<f64> for $name { type Output = Self; fn mul(self, k: f64) -> Self { Self(self.0 * k) } }
        impl Mul<$name> for f64 { type Output = $name; fn mul(self, q: $name) -> $name { $name(self * q.0) } }
        impl Div<f64> for $name { type Output = Self; fn div(self, k: f64) -> Self { Self(self.0 / k) } }
        impl Div for $name { type Output = f64; fn div(self, o: Self) -> f64 { self.0 / o.0 } }
        impl Sum for $name { fn sum<I: Iterator<Item = Self>>(it: I) -> Self { Self(it.map(|q| q.0).sum()) } }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.serialize_f64(self.0) }
        }
        impl<'de> Deserialize<'de> for $name {
            /// Accepts a bare number in the unit of the type, or a text with a unit.
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_any(QuantityVisitor(concat!("a number in ", $unit, " or a text with a unit"), |text| {
                    text.parse::<$name>().map(|q| q.0)
                }))
                .map($name)
            }
        }
    };
}

struct QuantityVisitor(&'static str, fn(&str) -> Result<f64, ParseUnitError>);
impl serde::de::Visitor<'_> for QuantityVisitor {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_f64<E>(self, v: f64) -> Result<f64, E> {
        Ok(v)
    }
    fn visit_u64<E>(self, v: u64) -> Result<f64, E> {
        Ok(v as f64)
    }
    fn visit_i64<E>(self, v: i64) -> Result<f64, E> {
        Ok(v as f64)
    }
    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<f64, E> {
        (self.1)(v).map_err(E::custom)
    }
}

quantity!(
    /// An amount of memory or traffic, in bytes.
    Bytes, "bytes"
);
quantity!(
    /// A duration, in seconds.
    Seconds, "seconds"
);
quantity!(
    /// An amount of arithmetic, in floating-point operations (a multiply-add counts two).
    Flops, "FLOP"
);
quantity!(
    /// Arithmetic rate, in FLOP per second.
    FlopsPerSecond, "FLOP/s"
);
quantity!(
    /// Bandwidth per direction, in bytes per second.
    BytesPerSecond, "bytes/s"
);
quantity!(
    /// Money, in US dollars.
    Dollars, "USD"
);

/// Longer waits mean no limit at all.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 86_400);

impl Seconds {
    /// As a limit on time: at most a century, which stands for none.
    pub fn as_limit(self) -> std::time::Duration {
        std::time::Duration::try_from_secs_f64(self.0).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}
impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

/// Splits `"80.5 GiB"` into its number and its unit.
fn split_unit<'a>(text: &'a str, expected: &'static str) -> Result<(f64, &'a str), ParseUnitError> {
    let error = || ParseUnitError { found: text.to_owned(), expected };
    let trimmed = text.trim();
    // An exponent such as `2e12` belongs to the number; `E` starts a unit otherwise (none of ours begins with e/E).
    let end = trimmed
        .char_indices()
        .find(|&(i, c)| {
            let exponent = (c == 'e' || c == 'E')
                && trimmed[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+');
            let after_exponent = (c == '-' || c == '+') && i > 0 && trimmed[..i].ends_with(['e', 'E']);
            !(c.is_ascii_digit()
                || c == '.'
                || c == '_'
                || exponent
                || after_exponent
                || (i == 0 && (c == '-' || c == '+')))
        })
        .map_or(trimmed.len(), |(i, _)| i);
    let number: f64 = trimmed[..end].replace('_', "").parse().map_err(|_| error())?;
    if !number.is_finite() || number < 0.0 {
        return Err(error());
    }
    Ok((number, trimmed[end..].trim()))
}

/// The factor of a metric or binary prefix: `""`, `k`, `M`, `G`, `T`, `P`, `Ki`, `Mi`, `Gi`, `Ti`.
fn prefix(p: &str) -> Option<f64> {
    Some(match p {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        _ => return None,
    })
}

fn parse_with(text: &str, expected: &'static str, factor: impl Fn(&str) -> Option<f64>) -> Result<f64, ParseUnitError> {
    let (number, unit) = split_unit(text, expected)?;
    factor(unit).map(|k| number * k).ok_or_else(|| ParseUnitError { found: text.to_owned(), expected })
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s, "an amount of memory such as `80GB`, `74.5GiB` or a number of bytes", |u| {
            if u.is_empty() { Some(1.0) } else { u.strip_suffix('B').and_then(prefix) }
        })
        .map(Bytes)
    }
}
impl FromStr for Seconds {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s, "a duration such as `10s`, `250ms`, `5us`, `2min` or `3h`", |u| {
            Some(match u {
                "" | "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                "min" | "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            })
        })
        .map(Seconds)
    }
}
impl FromStr for BytesPerSecond {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s, "a bandwidth such as `400Gb/s` (bits), `450GB/s` (bytes) or bytes per second", |u| {
            if u.is_empty() {
                return Some(1.0);
            }
            let u = u.strip_suffix("/s").or_else(|| u.strip_suffix("ps"))?;
            if let Some(p) = u.strip_suffix('B') {
                prefix(p)
            } else {
                u.strip_suffix("bit").or_else(|| u.strip_suffix('b')).and_then(prefix).map(|k| k / 8.0)
            }
        })
        .map(BytesPerSecond)
    }
}
impl FromStr for FlopsPerSecond {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s, "an arithmetic rate such as `989TFLOP/s` or FLOP per second", |u| {
            if u.is_empty() {
                return Some(1.0);
            }
            let u = u.strip_suffix("FLOP/s").or_else(|| u.strip_suffix("FLOPS")).or_else(|| u.strip_suffix("FLOPs"))?;
            prefix(u)
        })
        .map(FlopsPerSecond)
    }
}
impl FromStr for Flops {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s, "an amount of arithmetic such as `3TFLOP`", |u| {
            if u.is_empty() { Some(1.0) } else { u.strip_suffix("FLOP").and_then(prefix) }
        })
        .map(Flops)
    }
}
impl FromStr for Dollars {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        parse_with(s.trim().trim_start_matches('$'), "an amount of US dollars such as `2.95`", |u| {
            matches!(u, "" | "USD" | "usd").then_some(1.0)
        })
        .map(Dollars)
    }
}

/// Writes `value` with three to four significant digits and the prefix that fits.
fn scaled(f: &mut fmt::Formatter, value: f64, steps: &[(f64, &str)], unit: &str) -> fmt::Result {
    let (factor, p) =
        steps.iter().copied().find(|&(k, _)| value.abs() >= k).or(steps.last().copied()).unwrap_or((1.0, ""));
    let v = value / factor;
    let digits = match v.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        _ => 2,
    };
    write!(f, "{v:.digits$} {p}{unit}")
}
const METRIC: [(f64, &str); 6] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &METRIC[1..], "B")
    }
}
impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &METRIC[1..], "B/s")
    }
}
impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &METRIC, "FLOP")
    }
}
impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &METRIC, "FLOP/s")
    }
}
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &[(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")], "s")
    }
}
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "${:.2}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigabytes_and_gibibytes_differ_and_network_bits_become_bytes() {
        assert_eq!("80GB".parse::<Bytes>().unwrap(), Bytes(80e9));
        assert_eq!("74.5 GiB".parse::<Bytes>().unwrap(), Bytes(74.5 * 1024f64.powi(3)));
        assert_eq!("1024".parse::<Bytes>().unwrap(), Bytes(1024.0));
        assert_eq!("400Gb/s".parse::<BytesPerSecond>().unwrap(), BytesPerSecond(50e9));
        assert_eq!("450GB/s".parse::<BytesPerSecond>().unwrap(), BytesPerSecond(450e9));
        assert_eq!("2e-3s".parse::<Seconds>().unwrap(), Seconds(2e-3));
        assert_eq!("5us".parse::<Seconds>().unwrap().0, 5.0 * 1e-6);
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for bad in ["", "GB", "-3GB", "NaN", "inf", "80 Gb", "80XB", "1e999GB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad} was accepted");
        }
        assert!("abc".parse::<Bytes>().unwrap_err().to_string().contains("80GB"));
    }

    #[test]
    fn quantities_print_with_a_fitting_prefix() {
        assert_eq!(Bytes(85.04e9).to_string(), "85.0 GB");
        assert_eq!(Seconds(0.01472).to_string(), "14.7 ms");
        assert_eq!(Seconds(0.0).to_string(), "0.00 ns");
    }
}
