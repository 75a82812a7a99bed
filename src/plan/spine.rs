//! The model as one sequence of parts that a pipeline can be cut through: tower stems, layers, embedding, head, MTP.

use super::strategy::{LayerStrategy, Recompute};
use crate::job::Job;
use crate::model::{Lengths, Model, Op, Stream, Sublayer, SublayerKind};
use serde::{Deserialize, Serialize};

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Token embedding.
    Embedding,
    /// A layer.
    Layer,
    /// What stands before the first or after the last layer of a tower.
    Side,
    /// Final norm, vocabulary projection and loss.
    Head,
    /// A multi-token-prediction module: a layer, its projection and another pass through the head.
    Mtp,
}

/// Parts that cost the same.
#[derive(Debug, Clone, PartialEq)]
pub struct PartClass {
    /// What it is.
    pub kind: PartKind,
    /// For reports, e.g. `decoder`, `embedding`.
    pub name: String,
    /// Which tokens run through it.
    pub stream: Stream,
    /// Tokens of the stream that one token of this part gathers (spatial merge after a vision tower); 1 elsewhere.
    pub gathers: u64,
    /// Values per token between this part and the next, all residual streams together.
    pub boundary: u64,
    /// Residual branches.
    pub sublayers: Vec<Sublayer>,
    /// Rows of the vocabulary matrix that it reads, if any.
    pub vocab: Option<u64>,
    /// Whether that matrix is its own: `false` for a tied head or an MTP module, which hold a copy only when they stand
    /// on another stage than the owner.
    pub owns_vocab: bool,
}

impl PartClass {
    /// Whether tokens are routed to experts.
    pub fn routes(&self) -> bool {
        self.sublayers.iter().any(|s| s.kind == SublayerKind::Moe)
    }

    /// `strategy` as far as it applies: experts only where there are some, recomputation only of layers, and of a module for
    /// multi-token prediction only in part.
    pub fn adapt(&self, strategy: &LayerStrategy) -> LayerStrategy {
        let routes = self.routes();
        LayerStrategy {
            ep: if routes { strategy.ep } else { 1 },
            etp: if routes { strategy.etp } else { 1 },
            recompute: match (self.kind, strategy.recompute) {
                (PartKind::Layer, any) => any,
                (PartKind::Mtp, Recompute::Full) => Recompute::Selective,
                (PartKind::Mtp, any) => any,
                _ => Recompute::None,
            },
            ..*strategy
        }
    }
}

/// The sequence of parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Spine {
    /// Distinct parts.
    pub classes: Vec<PartClass>,
    /// Class of each part, in order of execution.
    pub parts: Vec<u32>,
}

impl Spine {
    /// Lays out `model` as the job trains it. A vision tower comes first, then the embedding and the text tower; an
    /// encoder-decoder starts with the embedding.
    pub fn new(model: &Model, job: &Job) -> Self {
        let mut spine = Spine { classes: Vec::new(), parts: Vec::new() };
        let encoder_decoder = model.towers.iter().any(|t| t.stream == Stream::Encoder);
        let first = if encoder_decoder { Stream::Encoder } else { Stream::Text };
        let mut layer_class = vec![None; model.classes.len()];
        for tower in &model.towers {
            if tower.stream == first {
                spine.add(PartClass {
                    kind: PartKind::Embedding,
                    name: "embedding".into(),
                    stream: first,
                    gathers: 1,
                    boundary: model.embedding.hidden,
                    sublayers: vec![side(model.embedding.ops.clone())],
                    vocab: Some(model.embedding.vocab),
                    owns_vocab: true,
                });
            }
            let label = match tower.stream {
                Stream::Text => "decoder",
                Stream::Encoder => "encoder",
                Stream::Vision => "vision",
            };
            let width = tower.layers.first().map_or(model.embedding.hidden, |c| model.classes[c.0 as usize].hidden);
            if !tower.stem.is_empty() {
                spine.add(side_part(format!("{label}.stem"), tower.stream, width, 1, &tower.stem));
            }
            for class in &tower.layers {
                let index = *layer_class[class.0 as usize].get_or_insert_with(|| {
                    let c = &model.classes[class.0 as usize];
                    spine.classes.push(PartClass {
                        kind: PartKind::Layer,
                        name: c.name.clone(),
                        stream: c.stream,
                        gathers: 1,
                        boundary: c.hidden * c.residual_streams,
                        sublayers: c.sublayers.clone(),
                        vocab: None,
                        owns_vocab: false,
                    });
                    spine.classes.len() as u32 - 1
                });
                spine.parts.push(index);
            }
            if !tower.exit.is_empty() {
                spine.add(side_part(
                    format!("{label}.exit"),
                    tower.stream,
                    width,
                    tower.exit_ratio.max(1),
                    &tower.exit,
                ));
            }
        }
        spine.add(PartClass {
            kind: PartKind::Head,
            name: "head".into(),
            stream: Stream::Text,
            gathers: 1,
            boundary: model.head.hidden,
            sublayers: vec![side(model.head.ops.clone())],
            vocab: Some(model.head.vocab),
            owns_vocab: !model.head.tied,
        });
        if job.mtp {
            for mtp in &model.mtp {
                let layer = &model.classes[mtp.class.0 as usize];
                let mut sublayers = vec![side(mtp.ops.clone())];
                sublayers.extend(layer.sublayers.iter().cloned());
                let class = PartClass {
                    kind: PartKind::Mtp,
                    name: "mtp".into(),
                    stream: Stream::Text,
                    gathers: 1,
                    boundary: layer.hidden,
                    sublayers,
                    vocab: Some(model.head.vocab),
                    owns_vocab: false,
                };
                match spine.classes.iter().position(|c| *c == class) {
                    Some(known) => spine.parts.push(known as u32),
                    None => spine.add(class),
                }
            }
        }
        spine
    }

    fn add(&mut self, class: PartClass) {
        self.classes.push(class);
        self.parts.push(self.classes.len() as u32 - 1);
    }

    /// The class of part `index`.
    pub fn class_of(&self, index: usize) -> &PartClass {
        &self.classes[self.parts[index] as usize]
    }

    /// Tokens of one sample by stream, zero for streams the model does not have.
    pub fn lengths(model: &Model, job: &Job) -> Lengths {
        let has = |stream| model.towers.iter().any(|t| t.stream == stream);
        let tokens = |stream| if has(stream) { Self::tokens(stream, job) } else { 0 };
        Lengths {
            sequence: job.sequence,
            encoder_sequence: tokens(Stream::Encoder),
            vision_tokens: tokens(Stream::Vision),
        }
    }

    /// Tokens of one sample that run through a stream.
    pub fn tokens(stream: Stream, job: &Job) -> u64 {
        match stream {
            Stream::Text => job.sequence,
            Stream::Encoder => job.encoder_sequence.unwrap_or(job.sequence),
            Stream::Vision => job.vision_tokens.unwrap_or(DEFAULT_VISION_TOKENS),
        }
    }
}

/// Patches per sample when the job does not say: one 1,024 x 1,024 image in patches of 16 (a choice of ours, 2026-11;
/// reports name it whenever a vision tower is planned without `vision_tokens`).
pub const DEFAULT_VISION_TOKENS: u64 = 4096;

fn side(ops: Vec<Op>) -> Sublayer {
    Sublayer { kind: SublayerKind::Mlp, ops }
}

fn side_part(name: String, stream: Stream, width: u64, gathers: u64, ops: &[Op]) -> PartClass {
    PartClass {
        kind: PartKind::Side,
        name,
        stream,
        gathers,
        boundary: width,
        sublayers: vec![side(ops.to_vec())],
        vocab: None,
        owns_vocab: false,
    }
}
