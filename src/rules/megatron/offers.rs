//! The nearest valid values that a broken rule offers.

use super::launch::Launch;
use super::layout::Layout;
use crate::rules::{Fault, divides, listed, nearest};

/// How many values of one argument are offered.
const OFFERED: usize = 3;
/// Widest degree that is offered.
const WIDEST: u64 = 4096;

/// Divisors of `n` next to `wanted`, for `flag`.
pub(super) fn divisors(fault: Fault, flag: &str, n: u64, wanted: u64) -> Fault {
    let valid = nearest((1..=n.min(WIDEST)).filter(|d| divides(n, *d)), wanted, OFFERED);
    if valid.is_empty() { fault } else { fault.instead(format!("{flag} one of {}", listed(&valid))) }
}

/// Multiples of `step` next to `wanted`, for `flag`.
pub(super) fn multiples(fault: Fault, flag: &str, step: u64, wanted: u64) -> Fault {
    if step == 0 {
        return fault;
    }
    let below = wanted / step * step;
    let valid = [below, below.saturating_add(step)].into_iter().filter(|n| *n > 0);
    valid.fold(fault, |fault, n| fault.instead(format!("{flag} {n}")))
}

/// Degrees with which the world divides, and worlds with which it does.
pub(super) fn world(l: &Launch, mut fault: Fault) -> Fault {
    let (Ok(world), Ok(tp), Ok(pp), Ok(cp), Ok(size)) = (l.world, l.tp(), l.pp(), l.cp(), l.model_size()) else {
        return fault;
    };
    if size > 0 {
        fault = multiples(fault, "a world of", size, world);
    }
    let gtp = l.gtp().unwrap_or(1);
    for (flag, own, others) in [
        ("--tensor-model-parallel-size", tp, pp.saturating_mul(cp)),
        ("--pipeline-model-parallel-size", pp, tp.saturating_mul(cp)),
        ("--context-parallel-size", cp, tp.saturating_mul(pp)),
    ] {
        let others = others.saturating_mul(gtp);
        if own > 1 && divides(world, others) {
            fault = divisors(fault, flag, world / others, own);
        }
    }
    fault
}

/// Expert degrees with which the world divides.
pub(super) fn experts(l: &Launch, mut fault: Fault) -> Fault {
    let (Ok(world), Ok(etp), Ok(ep), Ok(pp)) = (l.world, l.etp(), l.ep(), l.pp()) else { return fault };
    if etp > 1 && divides(world, ep.saturating_mul(pp)) {
        fault = fault.instead("--expert-tensor-parallel-size 1");
    }
    let experts = l.experts().ok().flatten().and_then(|n| u64::try_from(n).ok());
    for etp in if etp > 1 { vec![etp, 1] } else { vec![1] } {
        let dense = etp.saturating_mul(pp);
        if !divides(world, dense) {
            continue;
        }
        let fits = |e: &u64| divides(world / dense, *e) && experts.is_none_or(|n| divides(n, *e));
        let valid = nearest((1..=(world / dense).min(WIDEST)).filter(fits), ep, OFFERED);
        if !valid.is_empty() && !valid.contains(&ep) {
            let with = if etp == 1 { " with --expert-tensor-parallel-size 1" } else { "" };
            fault = fault.instead(format!("--expert-model-parallel-size one of {}{with}", listed(&valid)));
        }
    }
    multiples(fault, "a world of", etp.saturating_mul(ep).saturating_mul(pp), world)
}

/// Batches of whole groups of PP micro-batches.
pub(super) fn batch_for_groups(l: &Launch, fault: Fault) -> Fault {
    let (Ok(pp), Ok(dp), Ok(Some(micro)), Ok(batch)) = (l.pp(), l.dp(), l.micro_batch_size(), l.global_batch_size())
    else {
        return fault;
    };
    let step = pp.saturating_mul(dp).saturating_mul(u64::try_from(micro).unwrap_or(1));
    multiples(fault, "--global-batch-size", step, u64::try_from(batch).unwrap_or(1))
}

/// Layers of `stages` stages as even as they can be, where embedding and loss weigh about a layer each: the first and the
/// last stage have one fewer where that evens things out.
pub fn even_split(layers: u64, stages: u64) -> Vec<u64> {
    let n = stages.max(1);
    if n == 1 || layers < n {
        return (0..n).map(|x| layers / n + u64::from(x < layers % n)).collect();
    }
    let counted = layers + 2;
    let (base, more) = (counted / n, counted % n);
    let start = (n - more) / 2;
    let mut split: Vec<u64> = (0..n).map(|x| base + u64::from(x >= start && x < start + more)).collect();
    split[0] -= 1;
    split[stages as usize - 1] -= 1;
    // A first or last stage of nothing but an embedding or a loss is no gain.
    if split.contains(&0) {
        return (0..n).map(|x| layers / n + u64::from(x < layers % n)).collect();
    }
    split
}

/// `(first, middle, last)` layers per stage such that every stage in the middle has as many, as even as that allows, and
/// all divide by `chunks`.
pub fn first_and_last(layers: u64, stages: u64, chunks: u64) -> Option<(u64, u64, u64)> {
    let v = chunks.max(1);
    if stages < 2 || !divides(layers, v) {
        return None;
    }
    let units = layers / v;
    if stages == 2 {
        let first = units / 2;
        return (first > 0).then_some(((units - first) * v, 0, first * v));
    }
    let inner = stages - 2;
    let mut best: Option<(u64, u64, u64, u64)> = None;
    for middle in 1..=units / inner {
        let rest = units - middle * inner;
        if rest < 2 {
            continue;
        }
        let last = rest / 2;
        let first = rest - last;
        let (most, least) = (middle.max(first), middle.min(last));
        let spread = most * (units + 1) + (most - least);
        if best.is_none_or(|b| spread <= b.0) {
            best = Some((spread, first, middle, last));
        }
    }
    best.map(|(_, first, middle, last)| (first * v, middle * v, last * v))
}

/// The layout string of a split of layers, with `mtp` modules in the last stage.
pub fn layout_of(split: &[u64], mtp: u64) -> Layout {
    let last = split.len().saturating_sub(1);
    let stage = |(x, layers): (usize, &u64)| {
        let mut text = String::new();
        if x == 0 {
            text.push('E');
        }
        text.extend(std::iter::repeat_n('t', *layers as usize));
        if x == last {
            text.extend(std::iter::repeat_n('m', mtp as usize));
            text.push('L');
        }
        text
    };
    Layout { stages: split.iter().enumerate().map(stage).collect() }
}

/// First and last counts, and a layout string, for layers that do not divide.
pub(super) fn uneven(l: &Launch, mut fault: Fault) -> Fault {
    let (Ok(layers), Ok(pp)) = (l.layers(), l.pp()) else { return fault };
    if pp == 0 || layers == 0 || layers.saturating_add(pp) > 100_000 {
        return fault;
    }
    if pp == 1 {
        return fault.instead("no flags that cut the pipeline: PP is 1");
    }
    let chunks = match l.chunks_per_rank() {
        Ok(Some(n)) if n > 1 => n as u64,
        _ => 1,
    };
    if let Some((first, middle, last)) = first_and_last(layers, pp, chunks) {
        let inner = if pp > 2 { format!(", {} stages of {middle} between them", pp - 2) } else { String::new() };
        fault = fault.instead(format!(
            "--decoder-first-pipeline-num-layers {first} --decoder-last-pipeline-num-layers {last}{inner}"
        ));
    }
    let mtp = l.mtp().ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let layout = layout_of(&even_split(layers, pp * chunks), mtp);
    fault = fault.instead(format!("--pipeline-model-parallel-layout \"{}\"", layout.write()));
    divisors(fault, "--pipeline-model-parallel-size", layers, pp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_do_not_divide_get_ends_of_their_own() {
        for (layers, stages, first, middle, last) in [
            (30, 4, 7, 8, 7),
            (46, 4, 11, 12, 11),
            (94, 16, 5, 6, 5),
            (94, 4, 23, 24, 23),
            (126, 16, 7, 8, 7),
            (61, 8, 7, 8, 6),
            (78, 8, 9, 10, 9),
            (7, 2, 4, 0, 3),
        ] {
            assert_eq!(first_and_last(layers, stages, 1), Some((first, middle, last)), "{layers} over {stages}");
        }
        assert_eq!(first_and_last(48, 8, 2), Some((6, 6, 6)));
        assert_eq!(first_and_last(1, 2, 1), None);
    }

    #[test]
    fn splits_are_even_and_complete() {
        for layers in 1..140 {
            for stages in 1..=layers.min(40) {
                let split = even_split(layers, stages);
                assert_eq!((split.iter().sum::<u64>(), split.len() as u64), (layers, stages));
                let (most, least) = (split.iter().max().unwrap(), split.iter().min().unwrap());
                assert!(most - least <= 2, "{layers} over {stages}: {split:?}");
            }
        }
        assert_eq!(even_split(30, 4), [7, 8, 8, 7]);
        assert_eq!(layout_of(&even_split(30, 4), 0).write(), "Et*7|(t*8|)*2t*7L");
    }
}
