//! Results as folders of COCO (Hansen et al. 2021, arXiv 1603.08785), as cocopp reads them with a test bed of one's own.
//!
//! Per backend and instance an `.info` of three lines, a `.dat` with a row when a target is first reached, and a `.tdat`
//! with rows at 1, 2, 5, 10, ... evaluations. The values are distances to the reference; a first value that is infinite would
//! make the reader loop for ever, so what is not feasible is 1e20. Suite `espalier`, function numbers in the suite's order.

use super::analysis::View;
use super::ioh::rows;
use super::results::Results;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEADER: &str = "% f evaluations | g evaluations | best noise-free fitness - Fopt (0) + sum g_i+ | measured fitness | \
                      best measured fitness or single-digit g-values | x1 | x2...\n";

/// Whether a step from `before` to `y` passes one of the targets 10^(k/5).
fn passes(before: f64, y: f64) -> bool {
    let place = |v: f64| if v > 0.0 { (5.0 * v.log10()).ceil() } else { f64::NEG_INFINITY };
    place(y) < place(before)
}

/// 1, 2, 5, 10, 20, 50, ... up to `last`.
fn triples(last: u64) -> impl Iterator<Item = u64> {
    (0..).flat_map(|k| [1, 2, 5].map(|n| 10u64.saturating_pow(k).saturating_mul(n))).take_while(move |n| *n < last)
}

/// Every file of the folder `coco`.
pub fn files(results: &Results) -> BTreeMap<PathBuf, String> {
    let view = View::new(results);
    let mut files = BTreeMap::new();
    for (number, instance) in results.manifest.instances.iter().enumerate() {
        let Some(reference) = &instance.reference else { continue };
        let (id, dimension) = (number + 1, instance.depth.max(1));
        for backend in &results.manifest.backends {
            let runs = view.runs(&instance.id, &backend.name);
            if runs.is_empty() {
                continue;
            }
            let folder = Path::new("coco").join(&backend.name);
            let stem = format!("data_f{id}/bbobexp_f{id}_DIM{dimension}");
            let (mut dat, mut tdat, mut list) = (String::new(), String::new(), String::new());
            for (i, run) in runs.iter().enumerate() {
                let rows = rows(run, reference);
                let row = |text: &mut String, at: u64, y: f64| {
                    let _ = writeln!(text, "{at} 0 {y:.9e} {y:.9e} {y:.9e}");
                };
                dat += HEADER;
                let mut before = f64::INFINITY;
                for (j, (at, y, _)) in rows.iter().enumerate() {
                    if j == 0 || j + 1 == rows.len() || passes(before, *y) {
                        row(&mut dat, *at, *y);
                        before = *y;
                    }
                }
                tdat += HEADER;
                let Some((last, end, _)) = rows.last().copied() else { continue };
                for at in triples(last) {
                    let until = rows.partition_point(|row| row.0 <= at);
                    row(&mut tdat, at, rows[until.saturating_sub(1)].1);
                }
                row(&mut tdat, last, end);
                let _ = write!(list, ", {}:{last}|{end:.1e}", i + 1);
            }
            let info = format!(
                "suite = 'espalier', funcId = {id}, DIM = {dimension}, Precision = 1.000e-04, algId = '{}', \
                 coco_version = '2.8', logger = 'bbob', data_format = 'bbob-new2'\n% {}\n{stem}.dat{list}\n",
                backend.name, instance.id
            );
            files.insert(folder.join(format!("bbobexp_f{id}.info")), info);
            files.insert(folder.join(format!("{stem}.dat")), dat);
            files.insert(folder.join(format!("{stem}.tdat")), tdat);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_targets_are_passed_and_at_round_numbers() {
        assert!(passes(f64::INFINITY, 1e20) && passes(1.1, 1.0) && passes(1e-9, 0.0));
        assert!(!passes(1.0, 0.99) && !passes(0.0, 0.0));
        assert_eq!(triples(30).collect::<Vec<_>>(), [1, 2, 5, 10, 20]);
        assert_eq!(triples(1).count(), 0);
    }
}
