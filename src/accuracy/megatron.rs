//! Megatron-LM's arguments: the model that they describe, and what they mean for memory.
//!
//! Defaults are those of `megatron/training/arguments.py` (read 2026-11): `ffn_hidden_size` 4h, or 2/3 of that in multiples of
//! 64 with SwiGLU; dropout 0.1; learned positions; tied embeddings; the GPT-2 vocabulary of 50,257 where none is given.

use super::cells::within;
use super::conventions::{Conventions, Generation};
use super::layout::Cut;
use super::left_out::LeftOut;
use super::shape::{Latent, Mixture, Shape};
use super::table::Row;
use crate::job::Storage;
use crate::model::fields::MAX_LAYERS;
use crate::model::ops::NormKind;
use crate::plan::Recompute;
use serde_json::{Map, Value};

/// Entries of GPT-2's vocabulary, with which Megatron-LM's tests tokenize.
const GPT2_VOCABULARY: u64 = 50_257;

/// Copies of a dispatched token that the unfused permutations of the token dispatcher keep: before and after sorting by expert
/// (Megatron-LM `moe/token_dispatcher.py`; 2026-11).
const UNFUSED_COPIES: f64 = 2.0;

const MIB: f64 = 1_048_576.0;

/// Arguments by name, without leading dashes.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments(Map<String, Value>);

/// Ways of running that change memory and are not modelled.
static UNMODELLED: &[(&str, &str)] = &[
    ("hybrid-layer-pattern", "a hybrid of attention and state-space layers"),
    ("hybrid-override-pattern", "a hybrid of attention and state-space layers"),
    ("is-hybrid-model", "a hybrid of attention and state-space layers"),
    ("spec", "a layer specification of its own"),
    ("encoder-num-layers", "an encoder beside the decoder"),
    ("img-h", "images"),
    ("use-megatron-fsdp", "Megatron-FSDP"),
    ("fine-grained-activation-offloading", "offload"),
    ("optimizer-cpu-offload", "offload"),
    ("export-kd-cfg", "distillation"),
    ("flextron", "elastic networks"),
    ("cuda-graph-impl", "CUDA graphs"),
    ("enable-cuda-graph", "CUDA graphs"),
    ("external-cuda-graph", "CUDA graphs"),
    ("moe-latent-size", "experts on a latent"),
    ("num-distributed-optimizer-instances", "sharding inside groups of replicas"),
    ("step-batch-size-schedule", "a batch that grows"),
    ("overlap-moe-expert-parallel-comm", "two micro-batches at once"),
    ("use-packed-sequence", "packed sequences"),
    ("defer-embedding-wgrad-compute", "a deferred head"),
    ("freeze-LM", "frozen layers"),
];

impl Arguments {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, LeftOut> {
        serde_json::from_str(text).map(Self).map_err(|_| LeftOut::Unknown("args_json"))
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(s) => Some(s.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.replace('_', "").parse().ok()
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|x| *x >= 0.0 && x.fract() == 0.0).map(|x| x as u64)
    }

    fn on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|v| !v.eq_ignore_ascii_case("false"))
    }

    /// The model.
    ///
    /// # Errors
    /// When a size is missing or a part is not modelled.
    pub fn shape(&self, row: &Row) -> Result<Shape, LeftOut> {
        if self.text("optimizer").is_some_and(|kind| kind != "adam") {
            return Err(LeftOut::Software("the Muon optimizer"));
        }
        if let Some((_, what)) = UNMODELLED.iter().find(|(name, _)| self.on(name)) {
            return Err(LeftOut::Software(what));
        }
        let name = row.or_blank("model_name");
        if ["t5/", "multimodal", "mimo/", "hybrid/", "retro/"].iter().any(|other| name.starts_with(other)) {
            return Err(LeftOut::Architecture);
        }
        let need = |name: &str, what: &'static str| within(what, self.count(name).ok_or(LeftOut::Unknown(what))?);
        let or = |name: &str, what: &'static str, usual: u64| within(what, self.count(name).unwrap_or(usual));
        let layers = need("num-layers", "layers")?;
        let hidden = need("hidden-size", "hidden")?;
        let heads = need("num-attention-heads", "heads")?;
        let gated = self.on("swiglu");
        let ffn = or("ffn-hidden-size", "ffn", if gated { 8 * hidden / 3 / 64 * 64 } else { 4 * hidden })?;
        let kv_heads = match self.count("num-query-groups") {
            Some(groups) if self.on("group-query-attention") => within("kv_heads", groups)?,
            _ => heads,
        };
        let latent = self.on("multi-latent-attention").then(|| Latent {
            q: self.count("q-lora-rank"),
            kv: self.count("kv-lora-rank").unwrap_or(32),
            nope: self.count("qk-head-dim").unwrap_or(128),
            rope: self.count("qk-pos-emb-head-dim").unwrap_or(64),
            v: self.count("v-head-dim").unwrap_or(128),
        });
        let learned = self.text("position-embedding-type").is_none_or(|kind| kind == "learned_absolute");
        let rms = self.text("normalization").is_some_and(|kind| kind == "RMSNorm");
        let bert = name.starts_with("bert/");
        Ok(Shape {
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim: or("kv-channels", "hidden", hidden / heads.max(1))?,
            latent,
            qk_norm: self.on("qk-layernorm"),
            ffn,
            gated,
            bias: !self.on("disable-bias-linear"),
            norm: if rms { NormKind::Scale } else { NormKind::ScaleAndBias },
            mixture: self.mixture(layers, ffn)?,
            window: None,
            vocab: or("vocab-size", "vocab", if bert { 30_522 } else { GPT2_VOCABULARY })?,
            tied: !self.on("untie-embeddings-and-output-weights"),
            positions: if learned { self.count("max-position-embeddings") } else { None },
            rotary: !learned,
            scaled_rotary: self.text("position-embedding-type").is_some_and(|kind| kind == "yarn"),
            mtp: self.count("mtp-num-layers").filter(|n| *n > 0).map_or(Ok(0), |n| within("layers", n))?,
            bidirectional: bert,
        })
    }

    fn mixture(&self, layers: u64, ffn: u64) -> Result<Option<Mixture>, LeftOut> {
        let Some(experts) = self.count("num-experts").filter(|n| *n > 0) else { return Ok(None) };
        let pattern = self.text("moe-layer-freq").unwrap_or_else(|| "1".to_owned());
        let layers = moe_layers(&pattern, layers).ok_or(LeftOut::Architecture)?;
        Ok(Some(Mixture {
            experts: within("moe_experts", experts)?,
            top_k: within("moe_topk", self.count("moe-router-topk").unwrap_or(2))?,
            ffn: within("moe_ffn", self.count("moe-ffn-hidden-size").unwrap_or(ffn))?,
            shared: within("moe_ffn", self.count("moe-shared-expert-intermediate-size").unwrap_or(0))?,
            clamped: self.number("activation-func-clamp-value").is_some(),
            layers,
        }))
    }

    /// What the arguments add to a framework's conventions.
    ///
    /// # Errors
    /// When the cut of the layers cannot be read.
    pub fn apply(&self, conventions: &mut Conventions) -> Result<(), LeftOut> {
        let software = &mut conventions.software;
        let backend = self.text("attention-backend").unwrap_or_default();
        let local = self.text("transformer-impl").is_some_and(|kind| kind == "local");
        let flash = self.on("use-flash-attn") || backend == "flash" || backend == "fused";
        software.scores = matches!(backend.as_str(), "unfused" | "local") || (local && !flash);
        let dropout = |name: &str| self.number(name).unwrap_or(0.1) > 0.0;
        if self.on("cross-entropy-loss-fusion") {
            let implementation = self.text("cross-entropy-fusion-impl").unwrap_or_default();
            software.loss_bytes = super::conventions::fused_loss(&implementation);
        }
        software.expert_outputs = !self.on("moe-permute-fusion");
        software.expert_copies = if self.on("moe-permute-fusion") { 0.0 } else { UNFUSED_COPIES };
        let experts = self.count("num-experts").is_some_and(|n| n > 0) && self.on("moe-grouped-gemm");
        software.workspace = MIB * workspace(conventions.generation, self.on("deterministic-mode"), local, experts);
        if backend.is_empty() && !local && !flash && conventions.long_term {
            // Releases before 0.11 choose the kernel by variables of the environment.
            return Err(LeftOut::Unknown("attention backend"));
        }
        software.dropout = dropout("hidden-dropout");
        software.score_dropout = software.scores && dropout("attention-dropout");
        software.tensor_overlap = self.on("tp-comm-overlap");
        software.data_overlap = self.on("overlap-grad-reduce");
        if self.on("grad-reduce-in-bf16") {
            conventions.gradients = Storage::Bf16;
        }
        if let Some(kind) = self.text("recompute-granularity") {
            conventions.recompute = if kind == "full" { Recompute::Full } else { Recompute::Selective };
            let modules = self.text("recompute-modules").unwrap_or_else(|| "core_attn".to_owned());
            software.selective = super::conventions::selective(&modules);
            if kind == "full" && self.text("recompute-method").is_some_and(|method| method == "block") {
                conventions.recomputed_layers = self.count("recompute-num-layers");
            }
        }
        conventions.cut = self.cut()?.or(conventions.cut.take());
        Ok(())
    }

    fn cut(&self) -> Result<Option<Cut>, LeftOut> {
        if let Some(layout) = self.text("pipeline-model-parallel-layout") {
            return layers_of_layout(&layout).map(|list| Some(Cut::Listed(list)));
        }
        let (embedding, loss) =
            (self.on("account-for-embedding-in-pipeline-split"), self.on("account-for-loss-in-pipeline-split"));
        if embedding && loss {
            return Ok(Some(Cut::EvenWithEnds));
        }
        let first = self.count("decoder-first-pipeline-num-layers");
        let last = self.count("decoder-last-pipeline-num-layers");
        let stages = self.count("pipeline-model-parallel-size").unwrap_or(1);
        let layers = self.count("num-layers").unwrap_or(0);
        match (first, last) {
            (None, None) => Ok(None),
            _ => {
                let ends = u64::from(first.is_some()) + u64::from(last.is_some());
                let middle = layers
                    .checked_sub(first.unwrap_or(0).saturating_add(last.unwrap_or(0)))
                    .ok_or(LeftOut::Inconsistent("first and last stages hold more than num-layers"))?;
                let inner = stages.checked_sub(ends).filter(|n| (1..=MAX_LAYERS).contains(n)).ok_or(LeftOut::Cut)?;
                if !middle.is_multiple_of(inner) {
                    return Err(LeftOut::Cut);
                }
                let counts = first.into_iter().chain(vec![middle / inner; inner as usize]).chain(last);
                Ok(Some(Cut::Listed(counts.collect())))
            }
        }
    }
}

/// MiB of work areas: two cuBLAS handles of PyTorch with 8 MiB each, 32 on Hopper, or eight areas of 4 MiB each where results
/// must repeat; Transformer Engine one of 4 MiB, from Hopper on 32, and one more for each of four streams of grouped products
/// (PyTorch `CUDABlas.cpp`, Transformer Engine `get_cublas_workspace_size_bytes`; 2026-11).
fn workspace(generation: Generation, deterministic: bool, local: bool, grouped: bool) -> f64 {
    let handle = match generation {
        _ if deterministic => 32.0,
        Generation::Hopper => 32.0,
        _ => 8.125,
    };
    let engine = if generation == Generation::Earlier { 4.0 } else { 32.0 };
    let streams = if local { 0.0 } else { 1.0 + if grouped { 4.0 } else { 0.0 } };
    2.0 * handle + streams * engine
}

/// Which layers have experts: `2` is every second, `([0]*1+[1]*15)` a list.
fn moe_layers(pattern: &str, layers: u64) -> Option<Vec<bool>> {
    if let Ok(every) = pattern.parse::<u64>() {
        return (every > 0).then(|| (0..layers).map(|i| i.is_multiple_of(every)).collect());
    }
    let mut list = Vec::new();
    for run in pattern.trim_matches(['(', ')']).split('+') {
        let (value, times) = run.trim().split_once('*').unwrap_or((run.trim(), "1"));
        // No pattern is longer than the layers that it is of.
        let times = times.trim().parse::<usize>().ok().filter(|n| *n as u64 <= layers)?;
        for value in value.trim_matches(['[', ']']).split(',') {
            if list.len() as u64 > layers {
                return None;
            }
            list.extend(vec![value.trim() == "1"; times]);
        }
    }
    (list.len() as u64 == layers).then_some(list)
}

/// Layers of each chunk of a layout such as `Et*3|(tt|)*6mL`: `t` a layer, `E` embedding, `m` MTP, `L` loss.
pub(super) fn layers_of_layout(layout: &str) -> Result<Vec<u64>, LeftOut> {
    let expanded = expand(layout).ok_or(LeftOut::Cut)?;
    Ok(expanded.split('|').map(|stage| stage.chars().filter(|c| *c == 't').count() as u64).collect())
}

/// Writes out `x*n` and `(...)*n`.
fn expand(layout: &str) -> Option<String> {
    let chars: Vec<char> = layout.chars().filter(|c| !c.is_whitespace()).collect();
    let (text, end) = sequence(&chars, 0)?;
    (end == chars.len()).then_some(text)
}

fn sequence(chars: &[char], mut at: usize) -> Option<(String, usize)> {
    const LONGEST: usize = 1 << 16;
    let mut out = String::new();
    while at < chars.len() && chars[at] != ')' {
        let (item, mut next) = if chars[at] == '(' {
            let (inner, end) = sequence(chars, at + 1)?;
            (chars.get(end) == Some(&')')).then_some((inner, end + 1))?
        } else {
            (chars[at].to_string(), at + 1)
        };
        let mut times = 1;
        if chars.get(next) == Some(&'*') {
            let digits: String = chars[next + 1..].iter().take_while(|c| c.is_ascii_digit()).collect();
            times = digits.parse().ok()?;
            next += 1 + digits.len();
        }
        if item.len().checked_mul(times)? + out.len() > LONGEST {
            return None;
        }
        out.push_str(&item.repeat(times));
        at = next;
    }
    Some((out, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_written_out() {
        assert_eq!(layers_of_layout("Et*3|(tt|)*6mL"), Ok(vec![3, 2, 2, 2, 2, 2, 2, 0]));
        assert_eq!(layers_of_layout("Et*2|(tt|)*5t|tmL").unwrap().iter().sum::<u64>(), 14);
        assert!(layers_of_layout("(tt").is_err() && layers_of_layout("t*999999").is_err());
    }

    #[test]
    fn patterns_of_experts_are_read() {
        assert_eq!(moe_layers("([0]*1+[1]*3)", 4), Some(vec![false, true, true, true]));
        assert_eq!(moe_layers("2", 4), Some(vec![true, false, true, false]));
        assert_eq!(moe_layers("([1]*3)", 4), None);
    }

    #[test]
    fn sizes_follow_the_defaults_of_the_program() {
        let text = r#"{"num-layers": 12, "hidden-size": 512, "num-attention-heads": 8, "swiglu": true,
            "group-query-attention": true, "num-query-groups": 2, "max-position-embeddings": 1024}"#;
        let shape = Arguments::parse(text).unwrap().shape(&Row::default()).unwrap();
        assert_eq!((shape.ffn, shape.kv_heads, shape.vocab, shape.positions), (1344, 2, 50_257, Some(1024)));
        assert!(shape.tied && shape.bias && shape.gated);
    }
}
