//! How one layer is spread over the devices of its stage.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What of a layer's forward pass is done again in the backward pass instead of being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing.
    None,
    /// What is cheap to redo: norms, activation functions, MLA up-projections (Korthikanti 2022, section 5, with fused
    /// attention in place of the attention core).
    Selective,
    /// Everything but the layer's input.
    Full,
}

/// How one layer is spread over the devices of its stage. Data parallelism follows: the devices of the stage over
/// [`LayerStrategy::model_ways`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerStrategy {
    /// Tensor-parallel ways (Megatron column/row cuts).
    pub tp: u32,
    /// Megatron sequence parallelism: norms and residuals are cut along the sequence over the tensor-parallel group.
    pub sequence_parallel: bool,
    /// Ulysses ways: whole weights, the sequence cut, heads exchanged around attention.
    pub ulysses: u32,
    /// Context-parallel ways (ring attention).
    pub cp: u32,
    /// Expert-parallel ways; 1 for layers without routed experts.
    pub ep: u32,
    /// Tensor-parallel ways inside an expert; 1 for layers without routed experts.
    pub etp: u32,
    /// ZeRO stage, 0 to 3: what is cut over the data-parallel group (optimizer, gradients, weights).
    pub zero: u8,
    /// What is recomputed.
    pub recompute: Recompute,
}

impl LayerStrategy {
    /// Everything on every device, nothing recomputed.
    pub const PLAIN: Self =
        Self { tp: 1, sequence_parallel: false, ulysses: 1, cp: 1, ep: 1, etp: 1, zero: 0, recompute: Recompute::None };

    /// Devices that work on one sample together.
    pub fn model_ways(&self) -> u64 {
        u64::from(self.tp) * u64::from(self.ulysses) * u64::from(self.cp)
    }

    /// Ranks that share the tokens of one sample before any gather: the sequence is cut this many times.
    pub fn sequence_ways(&self) -> u64 {
        u64::from(self.ulysses) * u64::from(self.cp) * if self.sequence_parallel { u64::from(self.tp) } else { 1 }
    }

    /// The part of a strategy that decides where activations lie: unlike layouts must be resharded between neighbours.
    pub fn layout(&self) -> Layout {
        Layout { tp: self.tp, sequence_parallel: self.sequence_parallel, ulysses: self.ulysses, cp: self.cp }
    }
}

/// Where the activations between two layers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    /// As [`LayerStrategy::tp`].
    pub tp: u32,
    /// As [`LayerStrategy::sequence_parallel`].
    pub sequence_parallel: bool,
    /// As [`LayerStrategy::ulysses`].
    pub ulysses: u32,
    /// As [`LayerStrategy::cp`].
    pub cp: u32,
}

impl Layout {
    /// Devices that work on one sample together.
    pub fn model_ways(&self) -> u64 {
        u64::from(self.tp) * u64::from(self.ulysses) * u64::from(self.cp)
    }
    /// How often the sequence is cut.
    pub fn sequence_ways(&self) -> u64 {
        u64::from(self.ulysses) * u64::from(self.cp) * if self.sequence_parallel { u64::from(self.tp) } else { 1 }
    }
}

impl fmt::Display for LayerStrategy {
    /// E.g. `tp4+sp cp2 zero1` or `ulysses8 zero3 full-recompute`; what is 1 or off is left out.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        if self.tp > 1 {
            words.push(format!("tp{}{}", self.tp, if self.sequence_parallel { "+sp" } else { "" }));
        }
        for (name, ways) in [("ulysses", self.ulysses), ("cp", self.cp), ("ep", self.ep), ("etp", self.etp)] {
            if ways > 1 {
                words.push(format!("{name}{ways}"));
            }
        }
        if self.tp * self.ulysses * self.cp == 1 && self.ep * self.etp == 1 {
            words.push("tp1".into());
        }
        words.push(format!("zero{}", self.zero));
        match self.recompute {
            Recompute::None => {}
            Recompute::Selective => words.push("selective-recompute".into()),
            Recompute::Full => words.push("full-recompute".into()),
        }
        f.write_str(&words.join(" "))
    }
}
