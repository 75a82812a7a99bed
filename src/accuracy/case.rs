//! A published run as a question with its answer: model, machines, job, plan, and what was measured.

use super::conventions::{self, Conventions};
use super::layout::{self, Cut, Degrees};
use super::left_out::LeftOut;
use super::table::Row;
use super::{cells, known, machine, megatron};
use crate::cluster::Pool;
use crate::cost::CostOptions;
use crate::estimate::{Estimate, EstimateError, Estimator};
use crate::job::{Job, Precision};
use crate::model::{Masked, Model};
use crate::plan::{LayerStrategy, Plan, Recompute, Spine};

/// What a memory figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What the framework's allocator handed out.
    Allocated,
    /// What the driver shows: the allocator's reserve and everything outside it.
    Device,
}

/// Whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The fullest.
    Fullest,
    /// One of the first stage.
    First,
    /// One of the last stage.
    Last,
    /// The fuller of first and last.
    Ends,
}

/// Which constants of the framework are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constants {
    /// Those fitted to runs of the framework.
    Fitted,
    /// None: what the framework's flags say, and the same numbers for all.
    Neutral,
}

/// A measured peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Bytes.
    pub bytes: f64,
    /// Counting what.
    pub counted: Counted,
    /// Of which rank.
    pub rank: Rank,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name in the table.
    pub id: String,
    /// Where it was published.
    pub source: String,
    /// The framework, without its version.
    pub framework: &'static str,
    /// What ran.
    pub model: Model,
    /// Its parts.
    pub spine: Spine,
    /// Where.
    pub pool: Pool,
    /// The job.
    pub job: Job,
    /// How.
    pub plan: Plan,
    /// With what software.
    pub cost: CostOptions,
    /// Seconds of an iteration.
    pub iteration_s: Option<f64>,
    /// Most memory.
    pub peak: Option<Peak>,
    /// It failed, for want of memory or otherwise.
    pub crashed: bool,
}

impl Case {
    /// Reads a row of a table of runs or of memory.
    ///
    /// # Errors
    /// Says why the row cannot be priced.
    pub fn read(row: &Row) -> Result<Self, LeftOut> {
        Self::with(row, Constants::Fitted)
    }

    /// The same with or without what was fitted to its framework.
    ///
    /// # Errors
    /// As [`Case::read`].
    pub fn with(row: &Row, constants: Constants) -> Result<Self, LeftOut> {
        cells::readable(row)?;
        if row.flag("usable") == Some(false) {
            return Err(LeftOut::Unusable);
        }
        let stated = row.text("args_json").map(megatron::Arguments::parse).transpose()?;
        let shape = match &stated {
            Some(arguments) => arguments.shape(row)?,
            None => known::shape(row)?,
        };
        let software = conventions::of(row, stated.as_ref())?;
        let pool = machine::pool(row)?;
        let job = job(row, &software)?;
        let model = shape.model(row.or_blank("model_name"));
        let spine = Spine::new(&model, &job);
        let plan = layout::plan(&degrees(row, &job, &pool, &software)?, &spine)?;
        let crashed = cells::crashed(row);
        let case = Self {
            id: row.or_blank("id").to_owned(),
            source: row.or_blank("source").to_owned(),
            framework: software.framework,
            iteration_s: if crashed { None } else { iteration(row, &job, &pool) },
            peak: if crashed { None } else { peak(row) },
            crashed,
            cost: CostOptions {
                software: match constants {
                    Constants::Fitted => software.software,
                    Constants::Neutral => software.software.neutral(),
                },
                ..CostOptions::default()
            },
            model,
            spine,
            pool,
            job,
            plan,
        };
        match case.iteration_s {
            Some(t) if case.least_time() > t => Err(LeftOut::Impossible),
            _ => Ok(case),
        }
    }

    /// No run is faster than its model's arithmetic, causal attention counted half, at the peak of all devices.
    pub fn least_time(&self) -> f64 {
        let lengths = Spine::lengths(&self.model, &self.job);
        let flops = self.model.flops_per_token(&lengths, Masked::Skipped, self.job.mtp).0 * self.job.tokens_per_step();
        let peak = self.pool.device.peak_in(self.job.precision).unwrap_or(self.pool.device.peak.half);
        flops / (peak.0 * self.pool.devices as f64)
    }

    /// The price.
    ///
    /// # Errors
    /// When the plan does not tile the devices or the batch.
    pub fn estimate(&self) -> Result<Estimate, EstimateError> {
        Estimator::new(&self.model, &self.spine, &self.pool, &self.job, self.cost).estimate(&self.plan)
    }

    /// Of an estimate, the figure that `peak` measures.
    pub fn predicted_peak(&self, estimate: &Estimate, peak: &Peak) -> f64 {
        let of = |stage: &crate::estimate::StageEstimate| match peak.counted {
            Counted::Allocated => stage.memory.allocated_bytes,
            Counted::Device => stage.memory.reserved_bytes,
        };
        let (first, last) = (estimate.stages.first().map_or(0.0, of), estimate.stages.last().map_or(0.0, of));
        match peak.rank {
            Rank::Fullest => estimate.stages.iter().map(of).fold(0.0, f64::max),
            Rank::First => first,
            Rank::Last => last,
            Rank::Ends => first.max(last),
        }
    }
}

fn iteration(row: &Row, job: &Job, pool: &Pool) -> Option<f64> {
    let stated = cells::measured(row, "iter_time_s");
    stated.or_else(|| row.number("derived_iter_time_s").filter(|t| *t > 0.0)).or_else(|| {
        let rate = row.number("tokens_per_s_per_gpu").filter(|r| *r > 0.0)?;
        Some(job.tokens_per_step() / (rate * pool.devices as f64))
    })
}

/// Bytes.
const GIB: f64 = 1_073_741_824.0;

fn peak(row: &Row) -> Option<Peak> {
    let kind = row.or_blank("peak_mem_kind").to_lowercase();
    // Nanotron prints GiB under the name of GB (huggingface/nanotron@06e3956 `helpers.py`, `log_throughput`).
    let gib = kind.contains("as reported") && row.or_blank("framework").to_lowercase().contains("nanotron");
    let stated = row.number("peak_mem_gb").filter(|x| gib && *x > 0.0).map(|x| x * GIB);
    let bytes = stated.or_else(|| cells::measured(row, "peak_mem_gb").map(|x| x * 1e9))?;
    let counted = if kind.contains("nvidia-smi") { Counted::Device } else { Counted::Allocated };
    let rank = match () {
        () if kind.contains("last rank") || kind.contains("logged rank") => Rank::Last,
        // Nanotron logs what rank 0 holds: the figures grow with the micro-batches in flight on the first stage.
        () if kind.contains("rank0") || kind.contains("gpu memory") => Rank::First,
        () if kind.contains("first/last") => Rank::Ends,
        () => Rank::Fullest,
    };
    Some(Peak { bytes, counted, rank })
}

fn job(row: &Row, conventions: &Conventions) -> Result<Job, LeftOut> {
    let batch = row.count("global_batch").ok_or(LeftOut::Unknown("global_batch"))?;
    let sequence = row.count("seq_len").ok_or(LeftOut::Unknown("seq_len"))?;
    let text = row.or_blank("precision").to_lowercase();
    let precision = match () {
        () if text.contains("fp4") => return Err(LeftOut::Software("fp4")),
        () if text.contains("fp8") => Precision::Fp8,
        () if text.contains("bf16/fp16") || text.contains("bf16") => Precision::Bf16,
        () if text.contains("fp16") => Precision::Fp16,
        () => return Err(LeftOut::Unknown("precision")),
    };
    let job = Job { precision, gradients: conventions.gradients, ..Job::new(batch, sequence) };
    job.validate().map_err(|_| LeftOut::Inconsistent("global_batch or seq_len is beyond what a job may have"))?;
    Ok(job)
}

fn degrees(row: &Row, job: &Job, pool: &Pool, conventions: &Conventions) -> Result<Degrees, LeftOut> {
    let ways = |column: &'static str| row.count(column).ok_or(LeftOut::Unknown(column));
    let narrow = |n: u64| {
        u32::try_from(n).map_err(|_| LeftOut::Inconsistent("a degree has more digits than any machine has devices"))
    };
    let (tp, pp, cp) = (ways("tp")?, ways("pp")?, row.count("cp").unwrap_or(1));
    let ep = row.count("ep").unwrap_or(1);
    let experts = row.count("moe_experts").is_some_and(|n| n > 1);
    let etp = match row.count("etp") {
        Some(n) => n,
        None if experts && conventions.experts_follow_tensor => tp,
        None => 1,
    };
    let model_ways = tp
        .checked_mul(pp)
        .and_then(|n| n.checked_mul(cp))
        .ok_or(LeftOut::Inconsistent("tp x pp x cp has more digits than any machine has devices"))?;
    if !pool.devices.is_multiple_of(model_ways) {
        return Err(LeftOut::Inconsistent("gpu_count is no multiple of tp x pp x cp"));
    }
    let dp = pool.devices / model_ways;
    if row.count("dp").or_else(|| row.count("derived_dp")).is_some_and(|stated| stated != dp) {
        return Err(LeftOut::Inconsistent("dp is not gpu_count / (tp x pp x cp)"));
    }
    let micro_batch = ways("micro_batch")?;
    let per_step =
        micro_batch.checked_mul(dp).ok_or(LeftOut::Inconsistent("micro_batch x dp has more digits than any batch"))?;
    if !job.global_batch.is_multiple_of(per_step) {
        return Err(LeftOut::Inconsistent("global_batch is no multiple of micro_batch x dp"));
    }
    let sp = row.flag("sp").unwrap_or(conventions.sequence_parallel) && tp > 1;
    let strategy = LayerStrategy {
        tp: narrow(tp)?,
        sequence_parallel: sp,
        ulysses: if conventions.ulysses { narrow(cp)? } else { 1 },
        cp: if conventions.ulysses { 1 } else { narrow(cp)? },
        ep: narrow(if experts { ep } else { 1 })?,
        etp: narrow(if experts { etp } else { 1 })?,
        zero: conventions.zero,
        recompute: conventions.recompute,
    };
    Ok(Degrees {
        devices: pool.devices,
        pipeline: narrow(pp)?,
        chunks: narrow(if pp > 1 { row.count("vpp").unwrap_or(1) } else { 1 })?,
        micro_batches: job.global_batch / per_step,
        strategy,
        recomputed: conventions.recomputed_layers.filter(|_| conventions.recompute == Recompute::Full),
        cut: conventions.cut.clone().unwrap_or(Cut::Even),
    })
}
