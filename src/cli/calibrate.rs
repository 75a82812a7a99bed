//! `espalier calibrate`: a cluster file whose device is as fast as the user's runs show.

use super::output::Output;
use super::{ANSWERED, Ended, plan_file};
use crate::accuracy::calibrate::{Ran, calibrate, scaled};
use crate::accuracy::log;
use crate::cluster::file::ClusterFile;
use crate::cluster::{Cluster, Pool};
use crate::error::{InputError, Kind};
use crate::plan::file::{can_save, save};
use crate::{read, report};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Log of the run: lines of Megatron-LM, NeMo or torchtitan
    #[arg(long, value_name = "LOG", required_unless_present = "undo")]
    log: Option<PathBuf>,
    /// Plan file of what ran: what `espalier plan -o` writes
    #[arg(long, value_name = "PLAN", required_unless_present = "undo")]
    plan: Option<PathBuf>,
    /// Write the calibrated cluster here (JSON); what stood there is kept beside it as `.1`, `.2`, ...
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Put back what stood in FILE before the last calibration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "plan", "output"])]
    undo: Option<PathBuf>,
}

/// `path` with a version behind its name.
fn version(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// The last version kept of `path`, 0 without.
fn last(path: &Path) -> usize {
    (1..).take_while(|n| version(path, *n).is_file()).last().unwrap_or(0)
}

fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> InputError {
    let name = path.display().to_string();
    move |e| InputError::new(Kind::Unwritable).in_file(&name).help(e)
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Ended {
    if let Some(path) = &args.undo {
        return undo(path, output);
    }
    let (Some(log_path), Some(plan_path)) = (&args.log, &args.plan) else {
        return Err(InputError::new(Kind::MissingField).at("--log").expected("a log and a plan").into());
    };
    if let Some(path) = &args.output {
        can_save(path)?;
    }
    let (file, inputs) = plan_file::read(plan_path)?;
    let pool = inputs.pool()?;
    let each = inputs.job.tokens_per_step() / file.plan.devices.max(1) as f64;
    let times = log::times(&read::text(log_path)?, each);
    let name = log_path.display().to_string();
    let ran = Ran { model: &inputs.model, job: &inputs.job, pool, plan: &file.plan, cost: inputs.cost };
    let found = calibrate(&ran, &times.seconds).map_err(|e| {
        InputError::new(Kind::InvalidValue).in_file(&name).found(format!("{} times", times.seconds.len())).help(e)
    })?;
    if let Some(path) = args.output.as_ref().filter(|_| found.accepted) {
        let device = crate::cluster::Device {
            source: format!("{}; scaled by {:.4} after {name}", pool.device.source, found.factor),
            ..scaled(&pool.device, found.factor)
        };
        let cluster = Cluster { pools: vec![Pool { device, ..pool.clone() }], ..inputs.cluster.clone() };
        let text =
            serde_json::to_value(ClusterFile::from(&cluster)).map_err(|e| super::Failure::Internal(e.to_string()))?;
        if path.is_file() {
            let kept = version(path, last(path) + 1);
            std::fs::copy(path, &kept).map_err(unwritable(&kept))?;
        }
        save(path, &text)?;
    }
    let mut document = json!({ "schema": "espalier/calibrate/1", "unreadable_lines": times.unreadable });
    document["calibration"] = json!(found);
    output.answer(&document, |style| report::calibration(&found, &times.unreadable, style))?;
    Ok(ANSWERED)
}

fn undo(path: &Path, output: &Output) -> Ended {
    let n = last(path);
    if n == 0 {
        let error = InputError::new(Kind::Unreadable).in_file(path.display());
        return Err(error.help("no earlier version is kept beside it").into());
    }
    let kept = version(path, n);
    std::fs::rename(&kept, path).map_err(unwritable(path))?;
    let document = json!({ "schema": "espalier/calibrate/1", "restored": kept.display().to_string() });
    output.answer(&document, |_| format!("restored version {n}\n"))?;
    Ok(ANSWERED)
}
