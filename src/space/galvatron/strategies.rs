//! Strategies that Galvatron's space holds for a given number of pipeline stages.

use crate::cost::galvatron::{DpType, Setting, Strategy};

/// All layer strategies for `pp` stages: every power-of-two split of a stage's devices into tensor parallelism or Ulysses,
/// context and data parallelism, with each way to shard and with or without recompute, within the limits.
pub fn layer_strategies(setting: &Setting, pp: u32) -> Vec<Strategy> {
    let limits = &setting.limits;
    let mut out = Vec::new();
    for base in splits(setting, pp, limits.tp, limits.sp) {
        for checkpoint in [false, true] {
            if checkpoint <= limits.checkpoint {
                out.push(Strategy { checkpoint, ..base });
            }
        }
    }
    out
}

/// All strategies of embedding and head for `pp` stages: as for layers, without recompute.
pub fn embedding_strategies(setting: &Setting, pp: u32) -> Vec<Strategy> {
    let limits = &setting.limits;
    splits(setting, pp, limits.tp && limits.embedding_tp, limits.sp && limits.embedding_sp)
}

fn splits(setting: &Setting, pp: u32, tp_allowed: bool, sp_allowed: bool) -> Vec<Strategy> {
    let limits = &setting.limits;
    let devices = setting.world() / pp;
    let mut out = Vec::new();
    for width in powers_up_to(devices) {
        let tp = (width == 1 || (tp_allowed && width <= limits.max_tp)).then_some((width, 1));
        let sp = (width > 1 && sp_allowed && width <= limits.max_sp).then_some((1, width));
        for (tp, sp) in tp.into_iter().chain(sp) {
            for cp in powers_up_to(if limits.cp { limits.max_cp.min(devices / width) } else { 1 }) {
                let dp = devices / width / cp;
                if dp > 1 && !limits.dp {
                    continue;
                }
                let kinds: &[DpType] = match dp {
                    1 => &[DpType::Ddp],
                    _ if limits.zero3 => &[setting.default_dp, DpType::Zero3],
                    _ => &[setting.default_dp],
                };
                out.extend(kinds.iter().map(|&dp_type| Strategy { pp, tp, sp, cp, dp, dp_type, checkpoint: false }));
            }
        }
    }
    out
}

/// 1, 2, 4, ... up to `most`.
pub(super) fn powers_up_to(most: u32) -> impl Iterator<Item = u32> {
    (0..=most.max(1).ilog2()).map(|i| 1 << i)
}
