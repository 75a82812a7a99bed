//! Prices of everything a task can choose, filled once per way to cut the batch and number of stages.
//!
//! Tasks that differ only in mode and buffer share a table and see a part of it.

use super::strategies::{embedding_strategies, layer_strategies};
use crate::cost::galvatron::{CostModel, GalvatronCostError, Micro, Strategy};

/// Price of a layer strategy for one layer type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerRow {
    /// One micro-batch without reduction of gradients, ms.
    pub compute_ms: f64,
    /// What the reduction of gradients adds, ms.
    pub sync_ms: f64,
}

/// Price of a strategy of embedding and head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmbeddingRow {
    /// The strategy.
    pub strategy: Strategy,
    /// On the first stage: one micro-batch without reduction of gradients, ms.
    pub first_ms: f64,
    /// On the last stage (the same one when there is but one).
    pub last_ms: f64,
    /// Memory of the first stage but for its layers, whole MB.
    pub first_mb: u32,
    /// Memory of the last stage but for its layers, whole MB.
    pub last_mb: u32,
}

/// Prices for one way to cut the batch and one number of stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// How the batch is cut.
    pub micro: Micro,
    /// Pipeline stages.
    pub pp: u32,
    /// Layer strategies; only those that get at least one sample.
    pub strategies: Vec<Strategy>,
    /// By layer type, then strategy.
    pub rows: Vec<Vec<LayerRow>>,
    /// Memory of one layer, whole MB: by layer type, then stage, then strategy.
    memory_mb: Vec<Vec<u32>>,
    /// Strategies of embedding and head.
    pub embeddings: Vec<EmbeddingRow>,
    /// What it costs to change the degree before a layer, ms: by layer type, then the logarithm of the larger degree.
    pub resharding_ms: Vec<Vec<f64>>,
    /// Memory of a stage between first and last but for its layers, whole MB.
    pub middle_mb: u32,
}

impl Table {
    /// Prices all strategies.
    pub fn fill(model: &CostModel, micro: Micro, pp: u32) -> Result<Self, GalvatronCostError> {
        let setting = &model.setting;
        let strategies: Vec<Strategy> =
            layer_strategies(setting, pp).into_iter().filter(|s| micro.samples(s.dp) >= 1).collect();
        let types = setting.layer_types.len();
        let mut rows = Vec::with_capacity(types);
        let mut memory_mb = Vec::with_capacity(types);
        for kind in 0..types {
            let mut of_type = Vec::with_capacity(strategies.len());
            for s in &strategies {
                let time = model.layer_time(kind, s, micro)?;
                of_type.push(LayerRow {
                    compute_ms: time.without_sync_ms,
                    sync_ms: time.with_sync_ms - time.without_sync_ms,
                });
            }
            rows.push(of_type);
            let mut by_stage = Vec::with_capacity(strategies.len() * pp as usize);
            for stage in 0..pp {
                for s in &strategies {
                    by_stage.push(whole_mb(model.layer_memory(kind, s, micro, stage)?.total_mb()));
                }
            }
            memory_mb.push(by_stage);
        }
        let mut resharding_ms = Vec::with_capacity(types);
        for kind in 0..types {
            let widest = strategies.iter().map(Strategy::width).max().unwrap_or(1);
            let mut by_degree = vec![0.0; widest.ilog2() as usize + 1];
            for to in &strategies {
                if to.width() > 1 {
                    let from = Strategy { tp: 1, sp: 1, ..*to };
                    by_degree[to.width().ilog2() as usize] = model.resharding_ms(kind, &from, to, micro)?;
                }
            }
            resharding_ms.push(by_degree);
        }
        let mut embeddings = Vec::new();
        for strategy in embedding_strategies(setting, pp) {
            if micro.samples(strategy.dp) >= 1 {
                let first = model.embedding(&strategy, micro, 0)?;
                let last = model.embedding(&strategy, micro, pp - 1)?;
                embeddings.push(EmbeddingRow {
                    strategy,
                    first_ms: first.without_sync_ms,
                    last_ms: last.without_sync_ms,
                    first_mb: whole_mb(first.total_mb()),
                    last_mb: whole_mb(last.total_mb()),
                });
            }
        }
        let middle_mb = whole_mb(setting.constants.context_mb);
        Ok(Self { micro, pp, strategies, rows, memory_mb, embeddings, resharding_ms, middle_mb })
    }

    /// Memory of one layer of type `kind` on `stage`, by strategy, whole MB.
    pub fn memory_mb(&self, kind: usize, stage: u32) -> &[u32] {
        let n = self.strategies.len();
        &self.memory_mb[kind][stage as usize * n..][..n]
    }

    /// Whether changing degrees between layers costs anything.
    pub fn reshards(&self) -> bool {
        self.resharding_ms.iter().flatten().any(|&ms| ms > 0.0)
    }

    /// Logarithm of the degree of strategy number `id`.
    pub fn degree(&self, id: u32) -> usize {
        self.strategies[id as usize].width().ilog2() as usize
    }

    /// Memory of `stage` but for its layers and the buffer, whole MB.
    pub fn other_mb(&self, embedding: usize, stage: u32) -> u32 {
        if stage == 0 {
            self.embeddings[embedding].first_mb
        } else if stage + 1 == self.pp {
            self.embeddings[embedding].last_mb
        } else {
            self.middle_mb
        }
    }

    /// Time of embedding and head on `stage`, ms.
    pub fn other_ms(&self, embedding: usize, stage: u32) -> f64 {
        if stage == 0 {
            self.embeddings[embedding].first_ms
        } else if stage + 1 == self.pp {
            self.embeddings[embedding].last_ms
        } else {
            0.0
        }
    }
}

/// Up to whole MB, as Galvatron's dynamic program counts memory; beyond what fits the type is far beyond any device.
fn whole_mb(mb: f64) -> u32 {
    mb.ceil() as u32
}
