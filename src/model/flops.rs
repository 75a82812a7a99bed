//! Model FLOPs: the arithmetic that a model needs, by operators.
//!
//! A multiply-add counts two; backward costs twice forward (input and weight gradients); norms, activations, softmax
//! and convolutions of a few taps are left out, as everywhere in the literature. Forward, per token:
//!
//! | operator | FLOPs | source |
//! |---|---|---|
//! | matrix product | `2 * input * output` | Narayanan et al. 2021 (SC21), eq. 2-3 |
//! | routed experts | `top_k * g * 2 * input * ffn`, `g` = 3 gated, 2 plain | by shape |
//! | attention | `2 * heads * (qk_dim + v_dim) * keys` | Korthikanti et al. 2022, eq. 7: `4 s h` at `qk_dim = v_dim` |
//! | gated delta rule | `6 * v_heads * k_dim * v_dim`: read, update and query of the state | Yang et al. 2024, eq. 10 |
//! | indexer | `2 * heads * dim * keys` | DeepSeek-V3.2 report, eq. 1 |
//!
//! `keys` is the mean number of positions that a query reads, under one of two conventions: [`Masked::Counted`]
//! counts the masked half of causal attention as work (Megatron-LM's and PaLM's convention), [`Masked::Skipped`] does not
//! (half of it). Windows, chunks, selections and compressions limit `keys` under both.

use super::{LayerClass, Model, Op, OpKind, Span, Stream, Sublayer, SublayerKind, Tower};
use crate::units::Flops;

/// Whether the positions that a causal mask hides count as work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Masked {
    /// Scores are counted for the full square: `4 s a d` per layer and token.
    Counted,
    /// Only scores that the mask lets through are counted: half the square.
    Skipped,
}

/// Tokens per sample on each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lengths {
    /// Tokens of the decoder.
    pub sequence: u64,
    /// Tokens of the encoder of an encoder-decoder model.
    pub encoder_sequence: u64,
    /// Patches of a vision tower.
    pub vision_tokens: u64,
}

impl Lengths {
    /// Text only.
    pub fn text(sequence: u64) -> Self {
        Lengths { sequence, ..Lengths::default() }
    }
    /// Length of one stream.
    pub fn of(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Text => self.sequence,
            Stream::Encoder => self.encoder_sequence,
            Stream::Vision => self.vision_tokens,
        }
    }
}

/// Mean over the queries of `min(earlier positions, window)`; with masked positions counted, `min(length, window)`.
/// As everywhere, a query at position `i` is taken to read `i - 1/2` positions, so that a full mask is exactly half.
fn windowed(length: f64, window: f64, masked: Masked) -> f64 {
    let w = window.min(length);
    match masked {
        Masked::Counted => w,
        Masked::Skipped if length > 0.0 => w - w * w / (2.0 * length),
        Masked::Skipped => 0.0,
    }
}

/// Mean over the queries of the positions of their own block of `block` tokens (the last may be shorter).
fn blocked(length: f64, block: f64) -> f64 {
    if length <= 0.0 {
        return 0.0;
    }
    let whole = (length / block).floor();
    let rest = length - whole * block;
    (whole * block * block + rest * rest) / length
}

impl Span {
    /// Mean number of keys that a query reads in a stream of `length` tokens; `encoder` is the encoder's length.
    pub fn keys(self, length: u64, encoder: u64, masked: Masked) -> f64 {
        let n = length as f64;
        let causal = |square: f64| if masked == Masked::Counted { square } else { square / 2.0 };
        match self {
            Span::Causal => causal(n),
            Span::Sliding { window } => windowed(n, window as f64, masked),
            Span::Chunked { chunk } => causal(blocked(n, chunk.max(1) as f64)),
            Span::Blocks { block } => blocked(n, block.max(1) as f64),
            Span::Bidirectional => n,
            Span::Encoder => encoder as f64,
            Span::Selected { top_k } => windowed(n, top_k as f64, masked),
            Span::Compressed { ratio, top_k, window } => {
                let ratio = ratio.max(1) as f64;
                let reach = top_k.map_or(n, |k| k as f64 * ratio);
                windowed(n, window as f64, masked) + windowed(n, reach, masked) / ratio
            }
        }
    }
}

impl Op {
    /// Forward FLOPs for one token of `stream`.
    pub fn forward_flops(&self, stream: Stream, lengths: &Lengths, masked: Masked) -> Flops {
        let f = |n: u64| n as f64;
        let length = lengths.of(stream);
        Flops(match self.kind {
            OpKind::Linear { input, output, .. } => 2.0 * f(input) * f(output),
            OpKind::Experts { top_k, input, ffn, gated, .. } => {
                f(top_k) * if gated { 6.0 } else { 4.0 } * f(input) * f(ffn)
            }
            OpKind::Attention { heads, qk_dim, v_dim, span, .. } => {
                2.0 * f(heads) * (f(qk_dim) + f(v_dim)) * span.keys(length, lengths.encoder_sequence, masked)
            }
            OpKind::LinearAttention { v_heads, k_dim, v_dim, .. } => 6.0 * f(v_heads) * f(k_dim) * f(v_dim),
            OpKind::Indexer { heads, dim, ratio } => {
                2.0 * f(heads) * f(dim) * Span::Causal.keys(length, 0, masked) / f(ratio.max(1))
            }
            OpKind::Norm { .. } | OpKind::Elementwise { .. } | OpKind::Weights { .. } => 0.0,
        })
    }
}

fn sum(ops: &[Op], stream: Stream, lengths: &Lengths, masked: Masked) -> Flops {
    ops.iter().map(|op| op.forward_flops(stream, lengths, masked)).sum()
}

impl Sublayer {
    /// Whether an operator of this branch runs on the encoder's tokens: the key and value projections of cross
    /// attention, by their names.
    pub fn reads_encoder(&self, op: &Op) -> bool {
        self.kind == SublayerKind::CrossAttention && matches!(op.name, "k_proj" | "v_proj")
    }
}

impl LayerClass {
    /// Forward FLOPs of one layer for one token of its own stream.
    pub fn forward_flops_per_token(&self, lengths: &Lengths, masked: Masked) -> Flops {
        let length = lengths.of(self.stream) as f64;
        if length > 0.0 { self.forward_flops_per_sample(lengths, masked) / length } else { Flops::ZERO }
    }

    /// Forward FLOPs of one layer for one sample. Key and value projections of cross attention run on the encoder's
    /// tokens, everything else on the layer's own.
    pub fn forward_flops_per_sample(&self, lengths: &Lengths, masked: Masked) -> Flops {
        let own = lengths.of(self.stream) as f64;
        let encoder = lengths.encoder_sequence as f64;
        let ops = self.sublayers.iter().flat_map(|s| s.ops.iter().map(move |op| (s.reads_encoder(op), op)));
        ops.map(|(reads, op)| op.forward_flops(self.stream, lengths, masked) * if reads { encoder } else { own }).sum()
    }
}

impl Model {
    fn tower_forward(&self, tower: &Tower, lengths: &Lengths, masked: Masked) -> Flops {
        let tokens = lengths.of(tower.stream) as f64;
        let runs = tower.layers.chunk_by(|a, b| a == b).filter_map(|run| Some((self.class(*run.first()?)?, run.len())));
        let layers: Flops = runs.map(|(c, n)| c.forward_flops_per_sample(lengths, masked) * n as f64).sum();
        let stem = sum(&tower.stem, tower.stream, lengths, masked);
        let exit = sum(&tower.exit, tower.stream, lengths, masked) / tower.exit_ratio.max(1) as f64;
        (stem + exit) * tokens + layers
    }

    fn head_forward(&self, lengths: &Lengths, masked: Masked) -> Flops {
        let projection = Flops(2.0 * self.head.hidden as f64 * self.head.vocab as f64);
        projection + sum(&self.head.ops, Stream::Text, lengths, masked)
    }

    /// Forward and backward FLOPs of the whole model per token of the decoder: towers in proportion to their tokens,
    /// head, and with `mtp` the multi-token-prediction modules, each with its pass through the head.
    ///
    /// Recomputation is not part of it. Zero tokens on the decoder give zero.
    pub fn flops_per_token(&self, lengths: &Lengths, masked: Masked, mtp: bool) -> Flops {
        if lengths.sequence == 0 {
            return Flops::ZERO;
        }
        let tokens = lengths.sequence as f64;
        let towers: Flops = self.towers.iter().map(|t| self.tower_forward(t, lengths, masked)).sum();
        let embedding = sum(&self.embedding.ops, Stream::Text, lengths, masked);
        let head = self.head_forward(lengths, masked);
        let modules: Flops = self
            .mtp
            .iter()
            .filter(|_| mtp)
            .map(|m| {
                let layer = self.class(m.class).map_or(Flops::ZERO, |c| c.forward_flops_per_token(lengths, masked));
                layer + sum(&m.ops, Stream::Text, lengths, masked) + head
            })
            .sum();
        3.0 * (towers / tokens + embedding + head + modules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_causal_square_is_masked_and_windows_limit_the_rest() {
        assert_eq!(Span::Causal.keys(4096, 0, Masked::Counted), 4096.0);
        assert_eq!(Span::Causal.keys(4096, 0, Masked::Skipped), 2048.0);
        assert_eq!(Span::Sliding { window: 9999 }.keys(4096, 0, Masked::Skipped), 2048.0);
        assert_eq!(Span::Sliding { window: 1024 }.keys(4096, 0, Masked::Counted), 1024.0);
        assert_eq!(Span::Sliding { window: 1024 }.keys(4096, 0, Masked::Skipped), 896.0);
        assert_eq!(Span::Chunked { chunk: 1024 }.keys(4096, 0, Masked::Skipped), 512.0);
        assert_eq!(Span::Encoder.keys(4096, 77, Masked::Skipped), 77.0);
    }

    #[test]
    fn a_window_is_the_mean_over_all_queries() {
        for (length, window) in [(7u64, 3u64), (64, 64), (1000, 1), (5, 900)] {
            let exact: f64 = (1..=length).map(|i| i.min(window) as f64).sum::<f64>() / length as f64;
            let keys = Span::Sliding { window }.keys(length, 0, Masked::Skipped);
            assert!((exact - keys - 0.5 * window.min(length) as f64 / length as f64).abs() < 1e-9, "{exact} {keys}");
        }
    }

    #[test]
    fn compression_reads_few_entries_and_a_window() {
        let all = Span::Compressed { ratio: 128, top_k: None, window: 128 };
        assert_eq!(all.keys(65536, 0, Masked::Counted), 128.0 + 512.0);
        let some = Span::Compressed { ratio: 4, top_k: Some(1024), window: 128 };
        assert_eq!(some.keys(65536, 0, Masked::Counted), 128.0 + 1024.0);
    }
}
