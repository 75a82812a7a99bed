//! Slurm's lists of hosts: `node[01-04,7],login1`, with several brackets in a name (python-hostlist agrees on the goldens).

use crate::error::{InputError, Kind};

/// Most hosts that are written out.
const MOST: usize = 1_000_000;

fn refuse(text: &str, expected: &str) -> InputError {
    InputError::new(Kind::Syntax).at("hostlist").found(text).expected(expected)
}

/// The hosts that a list means, in order.
///
/// # Errors
/// A bracket that is not closed, empty or follows another without a letter between, a range that falls, too many hosts.
pub fn expand(text: &str) -> Result<Vec<String>, InputError> {
    let mut hosts = Vec::new();
    for part in parts(text)? {
        let part = part.trim();
        if !part.is_empty() {
            hosts.extend(name(part)?);
            if hosts.len() > MOST {
                return Err(refuse(text, "at most a million hosts"));
            }
        }
    }
    if hosts.is_empty() {
        return Err(refuse(text, "at least one host"));
    }
    Ok(hosts)
}

/// Parts between the commas outside of brackets.
fn parts(text: &str) -> Result<Vec<String>, InputError> {
    let mut list = vec![String::new()];
    let mut inside = false;
    for c in text.trim().chars() {
        match c {
            '[' if inside => return Err(refuse(text, "no bracket inside a bracket")),
            ']' if !inside => return Err(refuse(text, "a `[` before the `]`")),
            '[' | ']' => inside = c == '[',
            ',' if !inside => {
                list.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = list.last_mut() {
            last.push(c);
        }
    }
    if inside { Err(refuse(text, "a closing `]`")) } else { Ok(list) }
}

/// One name with its brackets.
fn name(text: &str) -> Result<Vec<String>, InputError> {
    let Some((before, rest)) = text.split_once('[') else { return Ok(vec![text.to_owned()]) };
    let (ranges, after) = rest.split_once(']').ok_or_else(|| refuse(text, "a closing `]`"))?;
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        numbers.extend(range_of(range).ok_or_else(|| refuse(text, "numbers and rising ranges such as [01-04,7]"))?);
        if numbers.len() > MOST {
            return Err(refuse(text, "at most a million hosts"));
        }
    }
    let tails = name(after)?;
    if numbers.len().saturating_mul(tails.len()) > MOST {
        return Err(refuse(text, "at most a million hosts"));
    }
    Ok(numbers.iter().flat_map(|n| tails.iter().map(move |tail| format!("{before}{n}{tail}"))).collect())
}

/// `7`, or `01-04` with as many digits as its first number.
fn range_of(text: &str) -> Option<Vec<String>> {
    let digits =
        |s: &str| (!s.is_empty() && s.chars().all(|c| c.is_ascii_digit())).then(|| s.parse::<u64>().ok()).flatten();
    let Some((low, high)) = text.split_once('-') else { return digits(text).map(|_| vec![text.to_owned()]) };
    let (a, b) = (digits(low)?, digits(high)?);
    let width = low.len();
    (a <= b && b - a < MOST as u64).then(|| (a..=b).map(|n| format!("{n:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_digits() {
        assert_eq!(expand("n[098-101],x").unwrap(), ["n098", "n099", "n100", "n101", "x"]);
        assert_eq!(expand("a[1-2]b[3-4]").unwrap(), ["a1b3", "a1b4", "a2b3", "a2b4"]);
        for bad in ["", "n[", "n[]", "n[3-1]", "n[1-2][a]", "n]1[", "n[1-9999999999]", "[1-1000][1-1000][1-1000]"] {
            assert!(expand(bad).is_err(), "{bad}");
        }
    }
}
