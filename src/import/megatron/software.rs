//! What arguments of Megatron-LM mean for tensors that are kept and for host memory.

use crate::cost::{Selective, Software};
use crate::error::InputError;
use crate::estimate::host::{Duties, Gather, Loader};
use crate::import::even::decided;
use crate::rules::megatron::Launch;

/// Conventions of the launch, with remarks on what is not modelled of them.
///
/// # Errors
/// Arguments that are not decided.
pub fn software(l: &Launch) -> Result<(Software, Vec<String>), InputError> {
    let mut notes = Vec::new();
    let backend = decided(l.attention_backend(), "--attention-backend")?;
    let local = decided(l.transformer_impl(), "--transformer-impl")? == "local";
    let flash = decided(l.use_flash_attn(), "--use-flash-attn")? || matches!(backend, "flash" | "fused");
    let scores = matches!(backend, "unfused" | "local") || local && !flash;
    let dropout = decided(l.attention_dropout(), "--attention-dropout")?.unwrap_or(0.1) > 0.0;
    let eager = !decided(l.op_fuser(), "--use-transformer-engine-op-fuser")?;
    let mut software = Software { scores, score_dropout: scores && dropout, eager, ..Software::default() };
    if decided(l.recompute(), "--recompute-granularity")? == "selective" {
        let modules = decided(l.recompute_modules(), "--recompute-modules")?;
        let (selective, beyond) = Selective::of_modules(modules.iter().map(AsRef::as_ref));
        software.selective = selective;
        if !beyond.is_empty() {
            notes.push(format!(
                "recomputation of {} is not priced: its tensors are taken to be kept",
                beyond.join(", ")
            ));
        }
    }
    if scores {
        notes.push("attention writes its scores to memory: they are priced".to_owned());
    }
    if decided(l.capacity_factor(), "--moe-expert-capacity-factor")?.is_some() {
        notes
            .push("tokens beyond the capacity of an expert are dropped: experts are priced as if none were".to_owned());
    }
    Ok((software, notes))
}

/// What the launch puts into host memory.
///
/// # Errors
/// Arguments that are not decided.
pub fn duties(l: &Launch) -> Result<Duties, InputError> {
    let offloads = decided(l.optimizer_cpu_offload(), "--optimizer-cpu-offload")?;
    let share = decided(l.optimizer_offload_fraction(), "--optimizer-offload-fraction")?.unwrap_or(1.0);
    let sharded = decided(l.distributed_optimizer(), "--use-distributed-optimizer")?;
    let saves = !decided(l.save(), "--save")?.is_empty() && decided(l.ckpt_format(), "--ckpt-format")? == "torch";
    let whole = |n: Option<i64>| n.unwrap_or(0).max(0) as f64;
    let loader = Loader {
        workers: whole(decided(l.num_workers(), "--num-workers")?),
        micro_batch: whole(decided(l.micro_batch_size(), "--micro-batch-size")?),
        sequence: whole(decided(l.seq_length(), "--seq-length")?),
        mask: decided(l.attention_mask_in_loader(), "--no-create-attention-mask-in-dataloader")?,
    };
    Ok(Duties {
        optimizer: if offloads { share } else { 0.0 },
        gather: (saves && sharded).then_some(Gather::States),
        loader: Some(loader),
        ..Duties::default()
    })
}
