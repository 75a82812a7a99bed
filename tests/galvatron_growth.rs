//! How search time grows: hardly with memory or with layers of one type, moderately with devices.

use espalier::cost::galvatron::{CostModel, Repairs};
use espalier::space::galvatron::{GalvatronSpace, Partition, exact};
use espalier::{import, reference};
use std::time::{Duration, Instant};

/// The 16-device case with other numbers of layers, nodes and memory. Groups of more devices than were measured get the
/// figures of the largest measured group of their kind.
fn model(layers: u32, nodes: u32, memory_gb: f64, batch: u32) -> Option<CostModel> {
    let case = reference::path("galvatron/c05_llama2-7b_16g_40gb_b128")?;
    let mut model = import::galvatron::read(&case, &[], Repairs::NONE).unwrap();
    model.setting.nodes = nodes;
    model.setting.memory_gb = memory_gb;
    model.setting.batches.global = vec![batch];
    model.setting.layer_types[0].layers = layers;
    let network = &mut model.profiles.network;
    for table in [&mut network.consecutive_ms_per_mb, &mut network.strided_ms_per_mb, &mut network.p2p_ms_per_mb] {
        let mut last = 0.0;
        for degree in (0..=model.setting.nodes.ilog2() + 3).map(|i| 1 << i) {
            last = table.get(degree).unwrap_or(last);
            table.set(degree, last);
        }
    }
    Some(model)
}

/// Least of several times of tables and search.
fn timed(model: &CostModel) -> (Duration, f64, f64) {
    (0..7)
        .map(|_| {
            let begin = Instant::now();
            let space = GalvatronSpace::new(model.clone(), Partition::Even).unwrap();
            let answer = exact::solve(&space);
            let objective = answer.best.as_ref().map_or(f64::NAN, |b| b.1);
            (begin.elapsed(), objective, answer.gap().unwrap_or(f64::NAN))
        })
        .min_by_key(|t| t.0)
        .unwrap()
}

#[test]
fn growth_is_shown_and_flat_in_memory_and_nearly_so_in_layers() {
    let Some(first) = model(32, 1, 24.0, 64) else { return };
    timed(&first);
    let mut memory = Vec::new();
    for gb in [24.0, 36.0, 48.0, 80.0, 120.0, 192.0] {
        let (time, objective, gap) = timed(&model(32, 1, gb, 64).unwrap());
        eprintln!("{gb} GB: {time:?}, {objective} s, gap {gap}");
        memory.push(time);
    }
    let mut layers = Vec::new();
    for n in [32, 64, 128, 256, 512, 1024] {
        let (time, objective, gap) = timed(&model(n, 8, 80.0, 512).unwrap());
        eprintln!("{n} layers: {time:?}, {objective} s, gap {gap}");
        layers.push(time);
    }
    for nodes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let (time, objective, gap) = timed(&model(64, nodes, 40.0, 4096).unwrap());
        eprintln!("{} devices: {time:?}, {objective} s, gap {gap}", nodes * 8);
    }
    let most = |times: &[Duration]| times.iter().max().unwrap().as_secs_f64();
    let least = |times: &[Duration]| times.iter().min().unwrap().as_secs_f64();
    assert!(most(&memory) < 20.0 * least(&memory), "{memory:?}");
    assert!(most(&layers) < 20.0 * least(&layers), "{layers:?}");
}
