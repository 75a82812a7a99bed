//! Values that Megatron-LM derives from its arguments (`megatron/training/arguments.py`, `validate_args`;
//! `core/transformer/transformer_block.py`). What cannot be derived, since a rule is broken, is undecided.

use super::launch::Launch;
use super::layout::Layout;
use super::pattern::Pattern;
use crate::rules::{Known, Undecided, divides};

/// What Megatron makes of the arguments that say how the pipeline is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A layout string.
    Layout,
    /// Chunks of a given number of layers.
    LayersPerChunk(i64),
    /// A given number of chunks per rank.
    Chunks(i64),
    /// One chunk per rank.
    Plain,
}

impl Launch {
    /// Tensor-parallel ways inside an expert: those of the dense layers when nothing is said.
    pub fn etp(&self) -> Known<u64> {
        match self.given_etp()? {
            Some(n) => Ok(u64::try_from(n).unwrap_or(0)),
            None => self.tp(),
        }
    }

    fn remat(shards: Option<i64>, ways: u64) -> u64 {
        shards.and_then(|n| u64::try_from(n).ok()).map_or(1, |n| (n / ways.max(1)).max(1))
    }

    /// Extra ways over which weights are cut and gathered layer by layer.
    pub fn gtp(&self) -> Known<u64> {
        Ok(Self::remat(self.weight_shards()?, self.tp()?))
    }

    /// The same for experts.
    pub fn expert_gtp(&self) -> Known<u64> {
        Ok(Self::remat(self.expert_weight_shards()?, self.etp()?))
    }

    /// Ranks of one model copy: TP x PP x CP x weight shards beyond TP.
    pub fn model_size(&self) -> Known<u64> {
        let sizes = [self.tp()?, self.pp()?, self.cp()?, self.gtp()?];
        Ok(sizes.into_iter().fold(1u64, u64::saturating_mul))
    }

    /// Ranks of one copy of the experts: ETP x EP x PP.
    pub fn expert_model_size(&self) -> Known<u64> {
        let sizes = [self.etp()?, self.ep()?, self.pp()?, self.expert_gtp()?];
        Ok(sizes.into_iter().fold(1u64, u64::saturating_mul))
    }

    /// Data-parallel ways; undecided where the world does not divide.
    pub fn dp(&self) -> Known<u64> {
        let (world, size) = (self.world?, self.model_size()?);
        if divides(world, size) && world > 0 { Ok(world / size) } else { Err(Undecided) }
    }

    /// Data-parallel ways of the experts.
    pub fn expert_dp(&self) -> Known<u64> {
        let (world, size) = (self.world?, self.expert_model_size()?);
        if divides(world, size) && world > 0 { Ok(world / size) } else { Err(Undecided) }
    }

    /// Sequence parallelism; switched off without tensor parallelism.
    pub fn sequence_parallel(&self) -> Known<bool> {
        Ok(self.given_sequence_parallel()? && self.tp()? > 1)
    }

    /// Sequences of a batch: one micro-batch per data-parallel rank when nothing is said.
    pub fn global_batch_size(&self) -> Known<i64> {
        match self.given_global_batch_size()? {
            Some(n) => Ok(n),
            None => {
                let micro = self.micro_batch_size()?.ok_or(Undecided)?;
                Ok(micro.saturating_mul(i64::try_from(self.dp()?).unwrap_or(i64::MAX)))
            }
        }
    }

    /// Micro-batches per step; undecided where the batch does not divide.
    pub fn micro_batches(&self) -> Known<u64> {
        let micro = self.micro_batch_size()?.and_then(|n| u64::try_from(n).ok()).ok_or(Undecided)?;
        let batch = u64::try_from(self.global_batch_size()?).map_err(|_| Undecided)?;
        let per_step = micro.saturating_mul(self.dp()?);
        if divides(batch, per_step) { Ok(batch / per_step) } else { Err(Undecided) }
    }

    /// Layers of the decoder, those of a hybrid pattern not counted.
    pub fn layers(&self) -> Known<u64> {
        let layers = match self.num_layers()? {
            Some(n) => Some(n),
            None => self.encoder_num_layers()?,
        };
        u64::try_from(layers.ok_or(Undecided)?).map_err(|_| Undecided)
    }

    /// Inner width of an MLP: 8/3 of the width in multiples of 64 with SwiGLU, else 4 times.
    pub fn ffn(&self) -> Known<u64> {
        if let Some(n) = self.given_ffn()? {
            return Ok(u64::try_from(n).unwrap_or(0));
        }
        let hidden = u64::try_from(self.hidden_size()?.ok_or(Undecided)?).map_err(|_| Undecided)?;
        Ok(if self.swiglu()? { ((4.0 * hidden as f64 * 2.0 / 3.0) / 64.0) as u64 * 64 } else { 4 * hidden })
    }

    /// Routed experts.
    pub fn experts(&self) -> Known<Option<i64>> {
        Ok(self.given_experts()?.filter(|n| *n != 0))
    }

    /// Inner width of an expert.
    pub fn expert_ffn(&self) -> Known<u64> {
        match self.given_expert_ffn()? {
            Some(n) => Ok(u64::try_from(n).unwrap_or(0)),
            None => self.ffn(),
        }
    }

    /// Key/value groups.
    pub fn kv_groups(&self) -> Known<i64> {
        if self.group_query_attention()? {
            return Ok(self.query_groups()?.unwrap_or(1));
        }
        self.heads()?.ok_or(Undecided)
    }

    /// Width of a head.
    pub fn kv_channels(&self) -> Known<u64> {
        let hidden = self.hidden_size()?.ok_or(Undecided)?;
        let heads = self.heads()?.filter(|n| *n > 0).ok_or(Undecided)?;
        Ok(u64::try_from(self.given_kv_channels()?.unwrap_or(hidden / heads)).unwrap_or(0))
    }

    /// Tokens of a sequence.
    pub fn sequence(&self) -> Known<i64> {
        match self.seq_length()? {
            Some(n) => Ok(n),
            None => self.encoder_seq_length()?.ok_or(Undecided),
        }
    }

    /// What is recomputed: `full`, `selective` or nothing.
    pub fn recompute(&self) -> Known<&str> {
        if self.recompute_activations()? {
            return Ok("selective");
        }
        self.granularity()
    }

    /// Modules of selective recomputation.
    pub fn recompute_modules(&self) -> Known<Vec<&str>> {
        let given = self.given_recompute_modules()?;
        Ok(given.map_or_else(|| vec!["core_attn"], |list| list.iter().map(String::as_str).collect()))
    }

    /// Per layer: 1 with experts, 0 without.
    pub fn layer_freq(&self) -> Known<Pattern> {
        let text = self.given_layer_freq()?;
        Pattern::parse(if text.is_empty() { "1" } else { text }).ok_or(Undecided)
    }

    /// How the pipeline is cut into chunks.
    pub fn cut(&self) -> Known<Cut> {
        if !self.layout()?.is_empty() {
            return Ok(Cut::Layout);
        }
        Ok(match (self.layers_per_chunk()?, self.chunks_per_rank()?) {
            (_, Some(n)) => Cut::Chunks(n),
            (Some(n), None) => Cut::LayersPerChunk(n),
            (None, None) => Cut::Plain,
        })
    }

    /// The layout string, read.
    pub fn parsed_layout(&self) -> Known<Option<Layout>> {
        let text = self.layout()?;
        if text.is_empty() { Ok(None) } else { Layout::parse(text).map(Some).map_err(|_| Undecided) }
    }

    /// Layers with embedding and loss where they count as layers.
    pub fn counted_layers(&self) -> Known<u64> {
        Ok(self.layers()? + u64::from(self.account_for_embedding()?) + u64::from(self.account_for_loss()?))
    }

    /// Chunks per rank when interleaved, `None` when not; undecided where the cut is impossible.
    pub fn vpp(&self) -> Known<Option<u64>> {
        let chunks = match self.cut()? {
            Cut::Plain => return Ok(None),
            Cut::Chunks(n) => u64::try_from(n).map_err(|_| Undecided)?,
            Cut::Layout => {
                let stages = self.parsed_layout()?.map_or(0, |l| l.stages.len() as u64);
                if !divides(stages, self.pp()?) {
                    return Err(Undecided);
                }
                stages / self.pp()?
            }
            Cut::LayersPerChunk(n) => {
                let (layers, pp) = (self.counted_layers()?, self.pp()?);
                let size = u64::try_from(n).map_err(|_| Undecided)?;
                if !divides(layers, pp) || !divides(layers / pp, size) {
                    return Err(Undecided);
                }
                layers / pp / size
            }
        };
        Ok((chunks != 1).then_some(chunks))
    }

    /// Micro-batches of a group of the interleaved schedule.
    pub fn group_size(&self) -> Known<i64> {
        match self.given_group_size()? {
            Some(n) => Ok(n),
            None => Ok(i64::try_from(self.pp()?).unwrap_or(i64::MAX)),
        }
    }

    /// Layers by rank and chunk as Megatron builds them; undecided where it cannot
    /// (`core/transformer/transformer_block.py`, `get_num_layers_to_build`).
    pub fn layers_by_rank(&self) -> Known<Vec<Vec<u64>>> {
        let pp = self.pp()?;
        if let Some(layout) = self.parsed_layout()? {
            return Ok(layout.layers(pp));
        }
        let (layers, vpp) = (self.layers()?, self.vpp()?);
        let chunks = vpp.filter(|_| pp > 1).unwrap_or(1);
        let (first, last) = (self.first_layers()?, self.last_layers()?);
        let given = |n: Option<i64>| n.map(u64::try_from).transpose().map_err(|_| Undecided);
        let (first, last) = (given(first)?, given(last)?);
        let mut per_rank = if first.is_some() || last.is_some() {
            let ends = first.unwrap_or(0).saturating_add(last.unwrap_or(0));
            // With one stage both ends are it, and the last one counts.
            let inner = pp.saturating_sub(u64::from(first.is_some()) + u64::from(last.is_some()));
            let rest = layers.saturating_sub(ends);
            if inner > 0 && (ends > layers || !divides(rest, inner)) {
                return Err(Undecided);
            }
            vec![rest.checked_div(inner).unwrap_or(0); pp as usize]
        } else {
            let counted = self.counted_layers()?;
            if !divides(counted, pp) {
                return Err(Undecided);
            }
            vec![counted / pp; pp as usize]
        };
        if let (Some(n), Some(rank)) = (first, per_rank.first_mut()) {
            *rank = n;
        }
        if let (Some(n), Some(rank)) = (last, per_rank.last_mut()) {
            *rank = n;
        }
        if per_rank.iter().any(|n| !divides(*n, chunks)) {
            return Err(Undecided);
        }
        let mut by_rank: Vec<Vec<u64>> =
            per_rank.into_iter().map(|n| vec![n / chunks; vpp.unwrap_or(1) as usize]).collect();
        if self.account_for_embedding()? {
            let chunk = by_rank.first_mut().and_then(|r| r.first_mut()).ok_or(Undecided)?;
            *chunk = chunk.checked_sub(1).ok_or(Undecided)?;
        }
        if self.account_for_loss()? {
            let chunk = by_rank.last_mut().and_then(|r| r.last_mut()).ok_or(Undecided)?;
            *chunk = chunk.checked_sub(1).ok_or(Undecided)?;
        }
        Ok(by_rank)
    }

    /// Rows of the vocabulary after padding to a multiple of the divisor times TP.
    pub fn padded_vocabulary(&self) -> Known<u64> {
        let rows = u64::try_from(self.vocab_size()?.ok_or(Undecided)?).map_err(|_| Undecided)?;
        let divisor = u64::try_from(self.vocab_divisor()?.unwrap_or(128)).unwrap_or(128).max(1);
        let multiple = divisor.saturating_mul(self.tp()?).max(1);
        Ok(rows.div_ceil(multiple).saturating_mul(multiple))
    }
}
