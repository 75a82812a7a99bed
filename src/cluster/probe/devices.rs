//! Lists of devices: `nvidia-smi --query-gpu=.. --format=csv`, and `ibstat`.

use super::{Nic, not_empty, plain};
use crate::error::{InputError, Kind};

/// Accelerators of a query: how many, and what they are called.
///
/// # Errors
/// No `name` column, no line, unlike accelerators.
pub fn query(text: &str) -> Result<(u64, String), InputError> {
    not_empty(text, "what `nvidia-smi --query-gpu=name,memory.total --format=csv` prints")?;
    let text = plain(text);
    let mut lines = text.lines().filter(|l| !l.trim().is_empty());
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let column = header.iter().position(|h| *h == "name").ok_or_else(|| {
        InputError::new(Kind::MissingField).at("name").found(header.join(", ")).expected("a header line with `name`")
    })?;
    let names: Vec<&str> = lines.filter_map(|l| l.split(',').nth(column)).map(str::trim).collect();
    let Some(first) = names.first() else {
        return Err(InputError::new(Kind::MissingField).at("name").expected("a line per accelerator"));
    };
    if let Some(other) = names.iter().find(|n| *n != first) {
        return Err(InputError::new(Kind::Unsupported)
            .at("name")
            .found(format!("{first} and {other}"))
            .expected("like accelerators in a node"));
    }
    Ok((names.len() as u64, (*first).to_owned()))
}

/// Active cards of `ibstat` with their rates.
///
/// # Errors
/// No card.
pub fn ibstat(text: &str) -> Result<Vec<Nic>, InputError> {
    not_empty(text, "what `ibstat` prints")?;
    let text = plain(text);
    let mut cards: Vec<(Nic, bool)> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("CA '").and_then(|l| l.strip_suffix('\'')) {
            cards.push((Nic { name: name.to_owned(), gigabits: None }, false));
            continue;
        }
        let Some((card, active)) = cards.last_mut() else { continue };
        if line == "State: Active" {
            *active = true;
        } else if let Some(rate) = line.strip_prefix("Rate:") {
            card.gigabits = rate.trim().parse().ok();
        }
    }
    if cards.is_empty() {
        return Err(InputError::new(Kind::Syntax).found("no CA").expected("what `ibstat` prints"));
    }
    Ok(cards.into_iter().filter(|(_, active)| *active).map(|(card, _)| card).collect())
}
