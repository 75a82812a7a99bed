//! How one layer (or embedding and head) is spread over the devices of a pipeline stage, in Galvatron's terms.

use std::fmt;
use std::str::FromStr;

/// What data parallelism shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DpType {
    /// Nothing: gradients are all-reduced.
    Ddp,
    /// Gradients and optimizer states.
    Zero2,
    /// Weights too.
    Zero3,
}

impl DpType {
    /// As plan files write it.
    pub const fn name(self) -> &'static str {
        match self {
            DpType::Ddp => "ddp",
            DpType::Zero2 => "zero2",
            DpType::Zero3 => "zero3",
        }
    }
}

impl FromStr for DpType {
    type Err = ();
    fn from_str(s: &str) -> Result<Self, ()> {
        match s {
            "ddp" => Ok(DpType::Ddp),
            "zero2" => Ok(DpType::Zero2),
            "zero3" => Ok(DpType::Zero3),
            _ => Err(()),
        }
    }
}

/// A strategy. `pp * tp * sp * cp * dp` is the number of devices; at most one of `tp` and `sp` exceeds 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Strategy {
    /// Pipeline stages.
    pub pp: u32,
    /// Tensor-parallel degree (Megatron).
    pub tp: u32,
    /// Sequence-parallel degree (Ulysses).
    pub sp: u32,
    /// Context-parallel degree.
    pub cp: u32,
    /// Data-parallel degree.
    pub dp: u32,
    /// What data parallelism shards.
    pub dp_type: DpType,
    /// Whether the layer is recomputed in the backward pass.
    pub checkpoint: bool,
}

impl Strategy {
    /// Tensor-parallel or Ulysses degree, whichever is used.
    pub const fn width(&self) -> u32 {
        if self.tp > self.sp { self.tp } else { self.sp }
    }

    /// Devices that hold the same weights: data, Ulysses and context ranks.
    pub const fn replicas(&self) -> u32 {
        self.dp * self.sp * self.cp
    }

    /// Devices in all.
    pub const fn devices(&self) -> u32 {
        self.pp * self.tp * self.replicas()
    }
}

impl fmt::Display for Strategy {
    /// Galvatron's notation `pp-k[*]-dp[f][-c][-sp]`: `*` where k exceeds 1, `f` for ZeRO-3, `c` for recompute, `sp`
    /// where k is a Ulysses degree. A context-parallel degree, which that notation has no place for, follows as `-cpN`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let k = self.width();
        write!(f, "{}-{}{}-{}", self.pp, k, if k > 1 { "*" } else { "" }, self.dp)?;
        if self.dp_type == DpType::Zero3 {
            f.write_str("f")?;
        }
        if self.checkpoint {
            f.write_str("-c")?;
        }
        if self.sp > 1 {
            f.write_str("-sp")?;
        }
        if self.cp > 1 {
            write!(f, "-cp{}", self.cp)?;
        }
        Ok(())
    }
}
