//! What training puts into the host memory of a node: states that the devices do not hold, whole models that every rank
//! reads before it shards them, what a checkpoint gathers, what data loaders keep ready.
//!
//! Bytes are those of the fullest node. Loading, training and saving are moments of their own; what training holds stays while
//! it saves.

use serde::Serialize;

/// Host memory over the states kept in it: pinned copies and buffers. DeepSpeed's estimators take 1.5
/// (`deepspeed/runtime/zero/stage3.py`, `additional_buffer_factor`, 0.19.8, read 2026-11), and so it was in a run of
/// Qwen3-30B-A3B with Megatron's hybrid optimizer: 820 GB for 30.5e9 parameters of 18 bytes (THUDM/slime #1851, read 2026-11).
pub const PINNED: f64 = 1.5;

/// Bytes per parameter of fp32 gradients beside states in host memory (same estimators: 16 or 18 in all).
pub const HOST_GRADIENTS: f64 = 4.0;

/// Bytes per parameter of the weights that the host's update is copied into.
pub const HOST_WEIGHTS: f64 = 2.0;

/// Batches that a worker keeps ready (`prefetch_factor` of `torch.utils.data.DataLoader`, torch 2.11, read 2026-11).
pub const PREFETCHED: f64 = 2.0;

/// Bytes per token of a sample of Megatron's GPT data set: tokens, labels and positions in int64, the loss mask in fp32
/// (`megatron/core/datasets/gpt_dataset.py`, core 0.19.2, read 2026-11).
pub const TOKEN_BYTES: f64 = 8.0 + 8.0 + 8.0 + 4.0;

/// When host memory is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first step.
    Loading,
    /// From the second step on, when moments are there.
    Training,
    /// While a checkpoint is written.
    Saving,
}

/// What a checkpoint collects on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// fp32 weights and moments of every model-parallel rank, on the first data-parallel rank of each
    /// (`megatron/core/optimizer/distrib_optimizer.py`, `get_parameter_state_dp_zero`, core 0.19.2, read 2026-11).
    States,
    /// The whole model in two bytes on one rank (DeepSpeed's `stage3_gather_16bit_weights_on_model_save`).
    Weights,
}

/// A data loader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loader {
    /// Worker processes of each rank that reads.
    pub workers: f64,
    /// Sequences of a batch of one rank.
    pub micro_batch: f64,
    /// Tokens of a sequence.
    pub sequence: f64,
    /// Every sample comes with a mask of a byte per pair of tokens.
    pub mask: bool,
}

impl Loader {
    /// Bytes that one rank's workers keep ready.
    pub fn bytes(&self) -> f64 {
        let mask = if self.mask { self.sequence } else { 0.0 };
        self.workers * PREFETCHED * self.micro_batch * self.sequence * (TOKEN_BYTES + mask)
    }
}

/// What a launch gives its hosts to hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Duties {
    /// Share of the optimizer states.
    pub optimizer: f64,
    /// All weights.
    pub weights: bool,
    /// Bytes of weights that a device holds for a while where all weights are on the host.
    pub live_bytes: f64,
    /// Every rank reads the whole model in fp32 before it is cut.
    pub whole_model: bool,
    /// What a checkpoint collects.
    pub gather: Option<Gather>,
    /// The data loader of every rank that reads.
    pub loader: Option<Loader>,
}

/// One thing that host memory holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// What.
    pub what: &'static str,
    /// When.
    pub moment: Moment,
    /// Bytes on the fullest node.
    pub bytes: f64,
}

/// What a node is, as far as its host memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// Ranks on it.
    pub ranks: f64,
    /// Ranks of it that read data, one of every tensor-parallel group.
    pub readers: f64,
    /// Parameters of the whole model.
    pub parameters: f64,
    /// Parameters of one rank before ZeRO cuts, on the fullest stage.
    pub of_rank: f64,
    /// Optimizer states that its devices have given up, bytes.
    pub states: f64,
    /// Parameters whose states those are.
    pub of_states: f64,
    /// Weights that its devices have given up, bytes.
    pub weights: f64,
}

impl Duties {
    /// What `node` holds, by moment.
    pub fn items(&self, node: &Node) -> Vec<Item> {
        let mut items = Vec::new();
        let mut put = |what, moment, bytes: f64| {
            if bytes > 0.0 {
                items.push(Item { what, moment, bytes });
            }
        };
        if self.whole_model {
            put(
                "the whole model in fp32 on every rank before it is cut",
                Moment::Loading,
                4.0 * node.parameters * node.ranks,
            );
        }
        put("optimizer states", Moment::Training, node.states);
        let beside = if node.states > 0.0 { HOST_GRADIENTS * node.of_states } else { 0.0 };
        put("fp32 gradients for the update on the host", Moment::Training, beside);
        let weights =
            node.weights.max(if self.weights || node.states == 0.0 { 0.0 } else { HOST_WEIGHTS * node.of_states });
        put("weights", Moment::Training, weights);
        put("pinned copies and buffers", Moment::Training, (PINNED - 1.0) * (node.states + beside + weights));
        if let Some(loader) = &self.loader {
            put("batches kept ready by data loaders", Moment::Training, loader.bytes() * node.readers);
        }
        match self.gather {
            Some(Gather::States) => {
                // Model-parallel neighbours are the ranks nearest to each other: one of each tensor-parallel group collects.
                let collecting = node.ranks / node.readers.max(1.0);
                put("a checkpoint's states, gathered", Moment::Saving, 12.0 * node.of_rank * collecting);
            }
            Some(Gather::Weights) => put("a checkpoint's weights, gathered", Moment::Saving, 2.0 * node.parameters),
            None => {}
        }
        items
    }
}

/// The most that is held at once.
pub fn peak(items: &[Item]) -> f64 {
    let of = |moment| items.iter().filter(|i| i.moment == moment).map(|i| i.bytes).fold(0.0, |a, b| a + b);
    of(Moment::Loading).max(of(Moment::Training) + of(Moment::Saving))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_long_sequences_fill_hosts() {
        let loader = Loader { workers: 2.0, micro_batch: 1.0, sequence: 8192.0, mask: false };
        assert!(loader.bytes() < 1e6);
        let long = Loader { sequence: 131_072.0, mask: true, ..loader };
        assert!((long.bytes() / (4.0 * 131_072.0 * 131_072.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn loading_and_saving_are_moments_of_their_own() {
        let node = Node {
            ranks: 8.0,
            readers: 2.0,
            parameters: 1e9,
            of_rank: 0.25e9,
            states: 0.0,
            of_states: 0.0,
            weights: 0.0,
        };
        let duties = Duties { whole_model: true, gather: Some(Gather::States), ..Duties::default() };
        let items = duties.items(&node);
        assert_eq!(items.iter().map(|i| i.bytes).collect::<Vec<_>>(), [32e9, 12e9]);
        assert_eq!(peak(&items), 32e9);
    }
}
