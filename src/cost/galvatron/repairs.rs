//! Known faults of Galvatron's published model, each mended on its own by name.
//!
//! What each one is about is written at its variant; the faults were found in the source of version 2.4.1
//! (PKU-DAIR/Hetu-Galvatron, commit cea12ff) and confirmed by experiment with it, 2025.

use std::fmt;

/// One fault that can be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Repair {
    /// The search overstates the cost of changing tensor-parallel degrees between layers a hundredfold (1e-7 for 1e-9),
    /// and the reported time leaves it out. Mended: charged at true units in every micro-batch.
    Resharding,
    /// Samples per device are rounded down, so a batch that does not divide is priced as less work. Mended: only batches
    /// that divide are allowed.
    DivisibleBatch,
    /// Gradients of a Ulysses (or context-parallel) group that has no data parallelism beside it are never reduced.
    /// Mended: they are, over all ranks that hold the same weights.
    UlyssesSync,
    /// Context parallelism divides neither compute nor activations, and exchanges nothing. Mended: it does.
    ContextParallel,
    /// Only the first and the last stage decide the time of a pipeline. Mended: the slowest stage does.
    SlowStage,
    /// A fifth of the memory is set aside as soon as there are more than 20 GB, so 21 GB hold less than 20. Mended: a
    /// fifth of what exceeds 20 GB is set aside.
    MemoryCliff,
    /// With several layer types the transfer between stages is charged once per type. Mended: once.
    StageTransfer,
}

impl Repair {
    /// All of them.
    pub const ALL: [Repair; 7] = [
        Repair::Resharding,
        Repair::DivisibleBatch,
        Repair::UlyssesSync,
        Repair::ContextParallel,
        Repair::SlowStage,
        Repair::MemoryCliff,
        Repair::StageTransfer,
    ];

    /// Its name in arguments and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Repair::Resharding => "resharding",
            Repair::DivisibleBatch => "divisible-batch",
            Repair::UlyssesSync => "ulysses-sync",
            Repair::ContextParallel => "context-parallel",
            Repair::SlowStage => "slow-stage",
            Repair::MemoryCliff => "memory-cliff",
            Repair::StageTransfer => "stage-transfer",
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Repairs(u8);

/// A name that is no repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown repair `{found}`; known are {}", Repair::ALL.map(Repair::name).join(", "))]
pub struct UnknownRepair {
    /// What was given.
    pub found: String,
}

impl Repairs {
    /// Galvatron as published.
    pub const NONE: Self = Self(0);

    /// Every fault mended.
    pub fn all() -> Self {
        Repair::ALL.into_iter().fold(Self::NONE, Self::with)
    }

    /// With one more.
    #[must_use]
    pub const fn with(self, repair: Repair) -> Self {
        Self(self.0 | 1 << repair as u8)
    }

    /// With one fewer.
    #[must_use]
    pub const fn without(self, repair: Repair) -> Self {
        Self(self.0 & !(1 << repair as u8))
    }

    /// Whether it is mended.
    pub const fn has(self, repair: Repair) -> bool {
        self.0 & 1 << repair as u8 != 0
    }

    /// Reads `all`, `none`, or names joined by commas; a name after a minus sign is left out (`all,-memory-cliff`).
    pub fn parse(text: &str) -> Result<Self, UnknownRepair> {
        let mut out = Self::NONE;
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (name, add) = word.strip_prefix('-').map_or((word, true), |w| (w, false));
            let chosen = match name {
                "all" => Self::all(),
                "none" => Self::NONE,
                _ => Repair::ALL
                    .into_iter()
                    .find(|r| r.name() == name)
                    .map(|r| Self::NONE.with(r))
                    .ok_or_else(|| UnknownRepair { found: word.to_owned() })?,
            };
            out = if add { Self(out.0 | chosen.0) } else { Self(out.0 & !chosen.0) };
        }
        Ok(out)
    }

    /// Those in the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Repair> {
        Repair::ALL.into_iter().filter(move |&r| self.has(r))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_switched_by_name() {
        assert_eq!(Repairs::parse("all").unwrap(), Repairs::all());
        assert_eq!(Repairs::parse("").unwrap(), Repairs::NONE);
        let some = Repairs::parse("all,-memory-cliff").unwrap();
        assert!(!some.has(Repair::MemoryCliff) && some.has(Repair::Resharding));
        assert_eq!(Repairs::parse("slow-stage, ulysses-sync").unwrap().iter().count(), 2);
        for repair in Repair::ALL {
            assert_eq!(Repairs::parse(repair.name()).unwrap(), Repairs::NONE.with(repair));
        }
        assert!(Repairs::parse("slow").unwrap_err().to_string().contains("slow-stage"));
    }
}
