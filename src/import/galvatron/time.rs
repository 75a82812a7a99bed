//! The computation profile: forward ms per layer and sample.
//!
//! Keys are `layertype_{i}_bsz{b}_seq{s}` and `layertype_other_bsz{b}_seq{s}`; older files leave out the sequence or both,
//! number the other part (`layertype_other_0_...`), or list the sequences of all types (`seq[512,512]`).
//! Whole-model times (`layernum[...]`) are not used.

use super::document::Document;
use super::error::GalvatronImportError;
use crate::cost::galvatron::fit::{Line, parabola_at};
use crate::cost::galvatron::profiles::ForwardTime;
use crate::cost::galvatron::{Setting, TimeMode};

/// Points that Galvatron asks of a fit over batch sizes.
const LEAST_POINTS: usize = 8;

/// One entry of the file.
struct Entry {
    /// Layer type; `None` for embedding, head and loss.
    kind: Option<usize>,
    batch: Option<u64>,
    /// Sequence lengths; none in older files.
    sequences: Vec<u64>,
    ms: f64,
}

impl Entry {
    /// Whether it was measured at sequence length `wanted` (any, if the file does not say).
    fn at_sequence(&self, wanted: u64, all: &[u64]) -> bool {
        match self.sequences.as_slice() {
            [] => true,
            [one] => *one == wanted,
            several => several == all,
        }
    }
}

/// Forward time by layer type, and that of embedding, head and loss.
pub(super) fn read(
    file: &Document,
    setting: &Setting,
) -> Result<(Vec<ForwardTime>, ForwardTime), GalvatronImportError> {
    let entries = entries(file)?;
    let sequences: Vec<u64> = setting.layer_types.iter().map(|t| t.sequence).collect();
    let layers = (0..setting.layer_types.len())
        .map(|i| forward(file, setting.time_mode, &entries, Some(i), &sequences))
        .collect::<Result<_, _>>()?;
    Ok((layers, forward(file, setting.time_mode, &entries, None, &sequences)?))
}

fn forward(
    file: &Document,
    mode: TimeMode,
    entries: &[Entry],
    kind: Option<usize>,
    sequences: &[u64],
) -> Result<ForwardTime, GalvatronImportError> {
    let name = kind.map_or_else(|| "layertype_other".to_owned(), |i| format!("layertype_{i}"));
    let wanted = sequences[kind.unwrap_or(0)];
    let mut own = entries.iter().filter(|e| e.kind == kind);
    match mode {
        TimeMode::Static => match own.next() {
            Some(entry) => Ok(ForwardTime::PerSample(entry.ms)),
            None => Err(file.missing(&format!("{name}_bsz*_seq{wanted}"), "at least one entry")),
        },
        TimeMode::Batch => {
            let points: Vec<(f64, f64)> = own
                .filter(|e| e.at_sequence(wanted, sequences))
                .filter_map(|e| e.batch.map(|b| (b as f64, e.ms * b as f64)))
                .collect();
            let expected = || {
                let there = if points.len() == 1 { "entry is" } else { "entries are" };
                format!(
                    "at least {LEAST_POINTS} different batch sizes for mode `batch`; {} {there} there",
                    points.len()
                )
            };
            if points.len() < LEAST_POINTS {
                return Err(file.missing(&format!("{name}_bsz*_seq{wanted}"), expected()));
            }
            Line::through(&points)
                .map(ForwardTime::Affine)
                .ok_or_else(|| file.missing(&format!("{name}_bsz*_seq{wanted}"), expected()))
        }
        TimeMode::Sequence => {
            let points: Vec<(f64, f64)> = own
                .filter(|e| e.batch == Some(1))
                .filter_map(|e| {
                    let s = e.sequences.get(kind.unwrap_or(0)).or(e.sequences.first())?;
                    Some((*s as f64, e.ms))
                })
                .collect();
            let x = wanted as f64;
            let (value, least) = match kind {
                Some(_) => (parabola_at(&points, x), 3),
                None => (Line::through(&points).map(|line| line.at(x)), 2),
            };
            value.map(ForwardTime::PerSample).ok_or_else(|| {
                file.missing(
                    &format!("{name}_bsz1_seq*"),
                    format!("at least {least} different sequence lengths for mode `sequence`; found {}", points.len()),
                )
            })
        }
    }
}

fn entries(file: &Document) -> Result<Vec<Entry>, GalvatronImportError> {
    let mut out = Vec::with_capacity(file.object.len());
    for (key, value) in &file.object {
        let Some(rest) = key.strip_prefix("layertype_") else { continue };
        let expected = "`layertype_{i}_bsz{b}_seq{s}` or `layertype_other_bsz{b}_seq{s}`";
        let unknown = || GalvatronImportError::Unknown {
            file: file.file.clone(),
            key: key.clone(),
            help: format!("expected {expected}"),
        };
        let (rest, sequences) = match rest.split_once("_seq") {
            Some((rest, s)) => (rest, sequence_list(s).ok_or_else(unknown)?),
            None => (rest, Vec::new()),
        };
        let (kind, batch) = match rest.split_once("_bsz") {
            Some((kind, b)) => (kind, Some(b.parse().ok().filter(|&b| b > 0).ok_or_else(unknown)?)),
            None => (rest, None),
        };
        let kind = match kind.strip_prefix("other") {
            Some("") => None,
            Some(number) if number.strip_prefix('_').is_some_and(|n| n.parse::<usize>().is_ok()) => None,
            Some(_) => return Err(unknown()),
            None => Some(kind.parse().map_err(|_| unknown())?),
        };
        out.push(Entry { kind, batch, sequences, ms: file.number(key, value, 0.0, false)? });
    }
    Ok(out)
}

/// `2048`, `512,512`, `[512,512]` or `512_512`.
pub(super) fn sequence_list(text: &str) -> Option<Vec<u64>> {
    text.trim_start_matches('[').trim_end_matches(']').split([',', '_']).map(|w| w.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_sequence_is_read() {
        for text in ["512,512", "[512,512]", "512_512", "[512, 512]"] {
            assert_eq!(sequence_list(text), Some(vec![512, 512]), "{text}");
        }
        assert_eq!(sequence_list("2048"), Some(vec![2048]));
        assert_eq!(sequence_list("long"), None);
    }
}
