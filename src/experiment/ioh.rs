//! Results as folders of IOHprofiler (Doerr et al. 2018, arXiv 1810.05281; the format of IOHanalyzer and iohinspector).
//!
//! Per backend and instance a JSON and a `.dat`. The header is repeated before every run; the first row of a run is
//! `evaluations = 1`, or a reader loses the run, and no evaluation number occurs twice. `raw_y` is the distance to the
//! reference; what is not feasible is [`WORST`]. Attributes are plain numbers and quoted words only: a reader may evaluate them.

use super::analysis::View;
use super::record::Run;
use super::reference_value::Reference;
use super::results::Results;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// In place of an objective where there is none.
pub const WORST: f64 = 1e20;

/// Evaluations and distances of a run: improvements, the first and the last evaluation.
pub(super) fn rows(run: &Run, reference: &Reference) -> Vec<(u64, f64, f64)> {
    let mut rows: Vec<(u64, f64, f64)> = vec![(1, WORST, 0.0)];
    for point in &run.trace {
        let y = point.score.objective().map_or(WORST, |value| reference.distance(value));
        match rows.last_mut() {
            Some(last) if last.0 >= point.evaluations.max(1) => *last = (last.0, y, point.wall_s),
            _ => rows.push((point.evaluations, y, point.wall_s)),
        }
    }
    if let Some((last, y, _)) = rows.last().copied()
        && last < run.evaluations
    {
        rows.push((run.evaluations, y, run.wall_s));
    }
    // A reader loses runs of one row.
    if let [(_, y, wall_s)] = rows[..] {
        rows.push((2, y, wall_s));
    }
    rows
}

/// Dimensions beyond this are not read.
const MOST: usize = 65_535;

/// Every file of the folder `ioh`.
pub fn files(results: &Results) -> BTreeMap<PathBuf, String> {
    let view = View::new(results);
    let mut files = BTreeMap::new();
    for (number, instance) in results.manifest.instances.iter().enumerate() {
        let Some(reference) = &instance.reference else { continue };
        let (id, dimension) = (number + 1, instance.depth.clamp(1, MOST));
        // Words of file and function names: no dots, which readers take for extensions.
        let name = instance.id.replace('.', "_");
        for backend in &results.manifest.backends {
            let runs = view.runs(&instance.id, &backend.name);
            if runs.is_empty() {
                continue;
            }
            let folder = Path::new("ioh").join(&backend.name);
            let data = format!("data_f{id}_{name}/IOHprofiler_f{id}_DIM{dimension}.dat");
            let mut dat = String::new();
            let mut listed = Vec::new();
            for (i, run) in runs.iter().enumerate() {
                dat += "evaluations raw_y\n";
                let rows = rows(run, reference);
                rows.iter().for_each(|(evaluations, y, _)| {
                    let _ = writeln!(dat, "{evaluations} {y:.10}");
                });
                let last = rows.last().map_or(1, |row| row.0);
                let (at, y) = run.trace.last().map_or((last, WORST), |point| {
                    (point.evaluations, point.score.objective().map_or(WORST, |v| reference.distance(v)))
                });
                listed.push(json!({ "instance": i + 1, "evals": last, "best": { "evals": at, "y": y, "x": [] } }));
            }
            let document = json!({
                "version": "0.4.2",
                "suite": "espalier",
                "function_id": id,
                "function_name": name,
                "maximization": false,
                "algorithm": { "name": backend.name, "info": "espalier" },
                "experiment_attributes": [{ "budget": results.manifest.suite.evaluations.to_string() }],
                "attributes": ["evaluations", "raw_y"],
                "scenarios": [{ "dimension": dimension, "path": data, "runs": listed }],
            });
            files.insert(folder.join(format!("IOHprofiler_f{id}_{name}.json")), format!("{document:#}\n"));
            files.insert(folder.join(&data), dat);
        }
    }
    files
}
