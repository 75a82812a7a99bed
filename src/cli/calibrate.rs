//! `espalier calibrate`: a cluster file whose devices and links are as fast as the user's own runs and tests show.

use super::output::Output;
use super::written::{Written, may_write};
use super::{ANSWERED, Ended, Failure, input, plan_file};
use crate::accuracy::calibrate::links::{of_table, of_topology};
use crate::accuracy::calibrate::runs::of_runs;
use crate::accuracy::calibrate::{Ran, calibrate, scaled};
use crate::accuracy::cells::described;
use crate::accuracy::{log, table};
use crate::cluster::file::ClusterFile;
use crate::cluster::probe::{nccl, topo};
use crate::cluster::{Cluster, Device, Pool};
use crate::error::{InputError, Kind};
use crate::plan::file::save;
use crate::question::ClusterSource;
use crate::{read, report};
use report::Measured;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = described())]
pub(super) struct Args {
    /// Log of a run: lines of Megatron-LM, NeMo or torchtitan
    #[arg(long, value_name = "LOG", requires = "plan")]
    log: Option<PathBuf>,
    /// Plan file of what ran: what `espalier plan -o` writes
    #[arg(long, value_name = "PLAN", requires = "log")]
    plan: Option<PathBuf>,
    /// Table of runs, one a row, with the columns that `accuracy` reads
    #[arg(long, value_name = "CSV")]
    runs: Option<PathBuf>,
    /// What a test of nccl-tests prints, or its JSON; may be given several times
    #[arg(long, value_name = "FILE")]
    nccl: Vec<PathBuf>,
    /// What `nvidia-smi topo -m` prints
    #[arg(long, value_name = "FILE")]
    topo: Option<PathBuf>,
    /// What is calibrated by runs, tests and topology: machines such as `h100x8:16`, or a cluster file; the plan's unless given
    #[arg(long, value_name = "MACHINES|PATH")]
    cluster: Option<String>,
    /// Write the calibrated cluster here (JSON); what stood there is kept beside it as `.1`, `.2`, ...
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Put back what stood in FILE before the last calibration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "plan", "runs", "nccl", "topo", "cluster", "output"])]
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
    if let Some(path) = &args.output {
        // Not --cluster: what stood there is kept beside it.
        let one = [&args.log, &args.plan, &args.runs, &args.topo];
        let inputs: Vec<&Path> = one.into_iter().flatten().chain(&args.nccl).map(PathBuf::as_path).collect();
        may_write(path, Written::Cluster, &inputs)?;
    }
    let mut done = Done::default();
    let cluster = match (&args.log, &args.plan) {
        (Some(log), Some(plan)) => done.by_log(log, plan)?,
        _ => None,
    };
    let given = args.cluster.as_deref().map(|name| ClusterSource::from(name).resolve(Path::new(""))).transpose()?;
    if args.log.is_some() && given.is_some() {
        let error = InputError::new(Kind::Inconsistent).at("--cluster").found("given");
        return Err(error.expected("the cluster of the plan, or no --log").into());
    }
    let others = args.runs.is_some() || !args.nccl.is_empty() || args.topo.is_some();
    let Some(mut cluster) = cluster.or(given) else {
        let error = InputError::new(Kind::MissingField);
        return Err(if others {
            error.at("--cluster").expected("machines such as `h100x8:8`, or a cluster file")
        } else {
            error.at("--log").expected("a log and its plan, or --cluster with --runs, --nccl or --topo")
        }
        .into());
    };
    if !others && args.log.is_none() {
        return Err(InputError::new(Kind::MissingField).at("--runs").expected("--runs, --nccl or --topo").into());
    }
    let [pool] = cluster.pools.as_mut_slice() else {
        let error = InputError::new(Kind::Unsupported).at("cluster.pools");
        return Err(error.found(format!("{} pools", cluster.pools.len())).expected("one pool").into());
    };
    if let Some(path) = &args.topo {
        let node = topo::parse(&input::text(path)?).map_err(|e| e.in_file(path.display()))?;
        let (changed, changes) = of_topology(pool, &node).map_err(|e| e.in_file(path.display()))?;
        done.changed |= !changes.is_empty();
        done.topology = Some(changes);
        *pool = changed;
    }
    for path in &args.nccl {
        done.by_table(path, pool)?;
    }
    if let Some(path) = &args.runs {
        done.by_runs(path, pool)?;
    }
    if let Some(path) = args.output.as_ref().filter(|_| done.changed) {
        write(path, &cluster)?;
    }
    let mut document = json!({
        "schema": "espalier/calibrate/1",
        "changed": done.changed,
        "unreadable_lines": done.times.unreadable,
        "lines_of_other_runs": done.times.other_runs,
        "not_used": done.times.skipped,
        "topology": done.topology.as_deref().unwrap_or_default(),
        "topology_agrees": done.topology.as_ref().map(Vec::is_empty),
        "measured": done.measured,
    });
    document["calibration"] = json!(done.by_log);
    output.answer(&document, |style| {
        let mut text =
            done.by_log.as_ref().map_or(String::new(), |found| report::calibration(found, &done.times, style));
        text.push_str(&report::measured(done.topology.as_deref(), &done.measured, style));
        text
    })?;
    Ok(ANSWERED)
}

fn write(path: &Path, cluster: &Cluster) -> Result<(), Failure> {
    let text = serde_json::to_value(ClusterFile::from(cluster)).map_err(|e| Failure::Internal(e.to_string()))?;
    if path.is_file() {
        let kept = version(path, last(path) + 1);
        std::fs::copy(path, &kept).map_err(unwritable(&kept))?;
    }
    Ok(save(path, &text)?)
}

/// What the calibrations did.
#[derive(Default)]
struct Done {
    changed: bool,
    by_log: Option<crate::accuracy::calibrate::Calibration>,
    times: log::Times,
    topology: Option<Vec<String>>,
    measured: Vec<Measured>,
}

impl Done {
    /// One factor on the plateaus, from the iteration times of one plan; the cluster with it.
    fn by_log(&mut self, log_path: &Path, plan_path: &Path) -> Result<Option<Cluster>, Failure> {
        let (file, inputs) = plan_file::read(plan_path)?;
        let pool = inputs.pool()?;
        let each = inputs.job.tokens_per_step() / file.plan.devices.max(1) as f64;
        self.times = log::times(&read::text(log_path)?, each, inputs.job.global_batch);
        let name = log_path.display().to_string();
        let ran = Ran { model: &inputs.model, job: &inputs.job, pool, plan: &file.plan, cost: inputs.cost };
        let found = calibrate(&ran, &self.times).map_err(|e| {
            let lines = self.times.seconds.len() + self.times.skipped.len();
            InputError::new(Kind::InvalidValue).in_file(&name).found(format!("{lines} lines with times")).help(e)
        })?;
        let mut cluster = inputs.cluster.clone();
        if found.accepted {
            self.changed = true;
            let source = format!("{}; scaled by {:.4} after {name}", pool.device.source, found.factor);
            let device = Device { source, ..scaled(&pool.device, found.factor) };
            cluster.pools = vec![Pool { device, ..pool.clone() }];
        }
        self.by_log = Some(found);
        Ok(Some(cluster))
    }

    fn by_table(&mut self, path: &Path, pool: &mut Pool) -> Result<(), Failure> {
        let name = path.display().to_string();
        let table = nccl::parse(&input::text(path)?).map_err(|e| e.in_file(&name))?;
        let found = of_table(pool, &table).map_err(|e| {
            let error = InputError::new(Kind::InvalidValue).in_file(&name);
            error.found(format!("{} lines", table.rows.len())).help(e)
        })?;
        self.changed |= found.fit.accepted;
        *pool = found.pool;
        let mut left_out: Vec<(String, String)> = Vec::new();
        if table.unusable > 0 {
            left_out.push((format!("{} lines", table.unusable), "no finite bandwidth".to_owned()));
        }
        let wrong = |bytes: &f64| (format!("{bytes} bytes"), "the data arrived corrupted (#wrong)".to_owned());
        left_out.extend(table.wrong.iter().map(wrong));
        self.measured.push(Measured { file: name, fit: found.fit, left_out });
        Ok(())
    }

    fn by_runs(&mut self, path: &Path, pool: &mut Pool) -> Result<(), Failure> {
        let name = path.display().to_string();
        let rows = table::load(path)?;
        let found = of_runs(pool, &rows).map_err(|e| {
            let error = InputError::new(Kind::InvalidValue).in_file(&name).found(format!("{} rows", rows.len()));
            error.help(e)
        })?;
        self.changed |= found.fit.accepted;
        *pool = found.pool;
        if found.fit.accepted {
            pool.device.source = format!("{}; scaled after {name}", pool.device.source);
        }
        self.measured.push(Measured { file: name, fit: found.fit, left_out: found.left_out });
        Ok(())
    }
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
