//! How many parameters: derived from operators, exact.
//!
//! Sums run in 128 bits and saturate at `u64::MAX`; an imported model never comes near (import refuses absurd sizes).

use super::{ClassId, LayerClass, Model, Op, OpKind, Stream, Sublayer, Tower};

/// Parameters in all and those that one token meets (of routed experts, `top_k`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) total: u128,
    pub(crate) active: u128,
}

impl Count {
    fn same(n: u128) -> Self {
        Count { total: n, active: n }
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Count>>(iter: I) -> Count {
        iter.fold(Count::default(), |a, b| Count {
            total: a.total.saturating_add(b.total),
            active: a.active.saturating_add(b.active),
        })
    }
}

pub(crate) fn saturate(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl OpKind {
    pub(crate) fn count(&self) -> Count {
        let wide = u128::from;
        match *self {
            OpKind::Linear { input, output, bias, .. } => {
                Count::same(wide(input) * wide(output) + if bias { wide(output) } else { 0 })
            }
            OpKind::Norm { parameters, .. } | OpKind::Weights { parameters, .. } => Count::same(wide(parameters)),
            OpKind::Experts { experts, top_k, input, ffn, gated, bias, .. } => {
                let products = if gated { 3 } else { 2 };
                let biases = if bias { (products - 1) * wide(ffn) + wide(input) } else { 0 };
                let one = (products * wide(input)).saturating_mul(wide(ffn)).saturating_add(biases);
                Count { total: one.saturating_mul(wide(experts)), active: one.saturating_mul(wide(top_k)) }
            }
            OpKind::Attention { .. }
            | OpKind::LinearAttention { .. }
            | OpKind::Indexer { .. }
            | OpKind::Elementwise { .. } => Count::default(),
        }
    }
}

pub(crate) fn count(ops: &[Op]) -> Count {
    ops.iter().map(|op| op.kind.count()).sum()
}

impl Op {
    /// Parameters it holds.
    pub fn parameters(&self) -> u64 {
        saturate(self.kind.count().total)
    }
    /// Parameters that one token meets: of routed experts, `top_k`.
    pub fn parameters_active(&self) -> u64 {
        saturate(self.kind.count().active)
    }
}

impl Sublayer {
    /// Parameters it holds.
    pub fn parameters(&self) -> u64 {
        saturate(count(&self.ops).total)
    }
}

impl LayerClass {
    pub(crate) fn count(&self) -> Count {
        self.sublayers.iter().map(|s| count(&s.ops)).sum()
    }
    /// Parameters of one layer.
    pub fn parameters(&self) -> u64 {
        saturate(self.count().total)
    }
    /// Parameters of one layer that one token meets.
    pub fn parameters_active(&self) -> u64 {
        saturate(self.count().active)
    }
}

impl Model {
    /// The class of a layer; `None` if the index is not of this model.
    pub fn class(&self, id: ClassId) -> Option<&LayerClass> {
        self.classes.get(id.0 as usize)
    }

    fn class_count(&self, id: ClassId) -> Count {
        self.class(id).map(LayerClass::count).unwrap_or_default()
    }

    fn tower_count(&self, tower: &Tower) -> Count {
        let layers = tower.layers.iter().map(|&id| self.class_count(id));
        [count(&tower.stem), count(&tower.exit)].into_iter().chain(layers).sum()
    }

    /// Everything but the multi-token-prediction modules.
    pub(crate) fn count(&self) -> Count {
        let table = u128::from(self.embedding.vocab) * u128::from(self.embedding.hidden);
        let own = [Count::same(table), count(&self.embedding.ops), count(&self.head.ops), Count::same(self.head_own())];
        self.towers.iter().map(|t| self.tower_count(t)).chain(own).sum()
    }

    fn head_own(&self) -> u128 {
        let vocab = u128::from(self.head.vocab);
        let table = if self.head.tied { 0 } else { vocab * u128::from(self.head.hidden) };
        table + if self.head.bias { vocab } else { 0 }
    }

    /// Parameters of the whole model, towers included, tied weights once, multi-token-prediction modules left out.
    pub fn parameters_total(&self) -> u64 {
        saturate(self.count().total)
    }

    /// Parameters that one token meets: as the total, but of the routed experts of a layer only `top_k`.
    /// Embedding and head are included; model cards differ on that.
    pub fn parameters_active(&self) -> u64 {
        saturate(self.count().active)
    }

    /// The token table and what is added to it (learned positions, norms); not the head.
    pub fn parameters_embedding(&self) -> u64 {
        let table = u128::from(self.embedding.vocab) * u128::from(self.embedding.hidden);
        saturate(table + count(&self.embedding.ops).total)
    }

    /// The projection to the vocabulary where it has weights of its own, with its bias; not the final norm.
    pub fn parameters_head(&self) -> u64 {
        saturate(self.head_own())
    }

    /// Vision towers with their patch embeddings and projectors.
    pub fn parameters_vision(&self) -> u64 {
        let vision = self.towers.iter().filter(|t| t.stream == Stream::Vision);
        saturate(vision.map(|t| self.tower_count(t)).sum::<Count>().total)
    }

    /// Multi-token-prediction modules: layer, norms and projection, without the shared embedding and head.
    pub fn parameters_mtp(&self) -> u64 {
        let modules = self.mtp.iter().flat_map(|m| [self.class_count(m.class), count(&m.ops)]);
        saturate(modules.sum::<Count>().total)
    }

    /// Layers of all towers; multi-token-prediction modules not counted.
    pub fn layers_total(&self) -> u64 {
        self.towers.iter().map(|t| t.layers.len() as u64).sum()
    }
}
