//! From kernels and communication to a price: recomputation, ZeRO, the host, and what hides behind what.

use super::{PartPrice, PassTime, Tally};
use crate::cost::states::{StateBytes, States};
use crate::plan::{PartKind, Recompute};
use crate::units::{Bytes, Seconds};

/// What `communication` adds to `computation` that runs at the same time: both slow down by `slowdown` while they overlap, and
/// what does not fit stands alone (Miao 2022, Galvatron, section 3.4). Without a slow-down they do not overlap.
pub(super) fn exposed(slowdown: Option<f64>, communication: Seconds, computation: Seconds) -> Seconds {
    let Some(slowdown) = slowdown else { return communication };
    let together = communication.min(computation);
    together * (slowdown - 1.0) + (communication - together)
}

/// How much longer the host takes to issue a layer with routed experts: 9.2 ms forward and backward on H100 and on B200 alike
/// (Megatron-Bridge, Qwen3-30B-A3B at micro-batch 1 without graphs: 29.45 and 28.19 s for 64 passes through 48 layers) against
/// 2.4 of a dense one.
pub const ROUTED_HOST: f64 = 3.75;

/// A pass takes no less than the host takes to issue it: the device waits where its kernels are shorter. Kernels and issue
/// mix, so that near the crossing neither hides the other: the fourth root of the sum of fourth powers.
fn issue(pass: &mut PassTime, host: Seconds) {
    if host.0 <= 0.0 {
        return;
    }
    let device = pass.total().0;
    pass.compute += Seconds((device.powi(4) + host.0.powi(4)).sqrt().sqrt() - device);
}

/// Parameters that one data-parallel group shares, and what it takes to reduce or gather them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shards {
    pub(super) parameters: f64,
    pub(super) ways: f64,
    pub(super) scatter: Seconds,
    pub(super) gather: Seconds,
}

/// A price before ZeRO and recomputation.
#[derive(Debug, Clone, Copy)]
pub struct BasePrice {
    pub(super) kind: PartKind,
    pub(super) price: PartPrice,
    pub(super) whole: Tally,
    pub(super) largest_redo: f64,
    pub(super) boundary: f64,
    /// The boundary tensor of all tensor-parallel ranks together, as products read it.
    pub(super) gathered: f64,
    pub(super) shards: [Shards; 2],
    pub(super) per: StateBytes,
    pub(super) update_rate: f64,
    /// How much slower both run while communication and computation overlap; none where they do not.
    pub(super) slowdown: Option<f64>,
    pub(super) data_overlap: bool,
    /// Bytes of buffers for weight gradients.
    pub(super) buffers: f64,
    /// Bytes kept over the bytes needed.
    pub(super) kept_factor: f64,
    /// Time in which the host issues a forward pass.
    pub(super) host: Seconds,
}

impl BasePrice {
    /// The price under ZeRO stage `zero` and `recompute`.
    pub fn finish(&self, zero: u8, recompute: Recompute) -> PartPrice {
        let mut price = self.price;
        if self.whole.is_empty() {
            return price;
        }
        let mut whole = self.whole;
        whole.kept *= self.kept_factor;
        whole.droppable *= self.kept_factor;
        price.forward.compute += whole.forward;
        price.backward.compute += whole.backward;
        // The input of a part is kept by its first norm or product; full recomputation keeps nothing else.
        match recompute {
            Recompute::Selective => {
                price.activations = Bytes(whole.kept - whole.droppable);
                price.backward.compute += whole.redo;
                price.transient += Bytes(self.largest_redo * self.kept_factor);
            }
            Recompute::Full if self.kind == PartKind::Layer => {
                price.activations = Bytes(self.boundary);
                price.backward.compute += whole.forward;
                price.backward.tensor += price.forward.tensor;
                price.backward.context += price.forward.context;
                price.backward.expert += price.forward.expert;
                price.transient += Bytes(whole.kept);
            }
            Recompute::None | Recompute::Full => price.activations = Bytes(whole.kept),
        }
        let redone = if recompute == Recompute::Full && self.kind == PartKind::Layer { 1.0 } else { 0.0 };
        issue(&mut price.forward, self.host);
        issue(&mut price.backward, self.host * (2.0 + redone));
        // Gradients of the activations around the running operators.
        price.transient += Bytes((4.0 * self.boundary).max(3.0 * self.gathered) + self.buffers);
        self.data_parallel(zero, &mut price);
        price
    }

    /// States, gradient reduction, weight gathers and the optimizer.
    fn data_parallel(&self, zero: u8, price: &mut PartPrice) {
        let per = self.per;
        for shards in self.shards.iter().filter(|s| s.parameters > 0.0) {
            let Shards { parameters, ways, scatter, gather } = *shards;
            price.parameters += parameters;
            price.states += States::new(parameters, per, zero, ways);
            let shard = parameters / if zero >= 1 { ways } else { 1.0 };
            let traffic = 2.0 * (per.weights + per.optimizer) + per.gradients;
            price.optimizer += Seconds(shard * traffic / self.update_rate);
            if ways == 1.0 {
                continue;
            }
            match zero {
                0 => price.reduce += scatter * 2.0,
                1 => {
                    price.reduce += scatter;
                    price.gather += gather;
                }
                2 => {
                    price.backward.data += scatter;
                    price.gather += gather;
                    price.transient += Bytes(parameters * per.gradients);
                }
                _ => {
                    price.forward.data += gather;
                    price.backward.data += gather + scatter;
                    price.transient += Bytes(parameters * (2.0 * per.weights + per.gradients));
                }
            }
        }
        // Gathers are prefetched and scatters left behind while neighbouring layers compute; reductions run behind the
        // backward pass of the last micro-batch, gathers of updated weights behind the first forward pass.
        let hide = |communication, computation| exposed(self.slowdown, communication, computation);
        price.forward.data = hide(price.forward.data, price.forward.compute);
        price.backward.data = hide(price.backward.data, price.backward.compute);
        if self.data_overlap {
            price.reduce = hide(price.reduce, price.backward.compute);
            price.gather = hide(price.gather, price.forward.compute);
        }
    }
}
