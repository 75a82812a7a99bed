//! How search grows: work hardly with memory or with layers of one type, moderately with devices. Clocks are printed
//! (`--nocapture`), not asserted.

use espalier::cost::galvatron::{CostModel, Repairs};
use espalier::space::galvatron::{GalvatronSpace, Partition, exact};
use espalier::{import, reference};
use std::time::Instant;

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

/// Prints the least of several times of tables and search; returns the work of the search.
fn work(name: &str, model: &CostModel) -> usize {
    let runs = (0..7).map(|_| {
        let begin = Instant::now();
        let space = GalvatronSpace::new(model.clone(), Partition::Even).unwrap();
        (exact::solve(&space), begin.elapsed())
    });
    let (answer, time) = runs.min_by_key(|r| r.1).unwrap();
    let (objective, gap) = (answer.best.as_ref().map_or(f64::NAN, |b| b.1), answer.gap().unwrap_or(f64::NAN));
    println!(
        "| {name} | {:.2} | {} of {} | {} | {objective:.4} | {gap:.1e} |",
        1e3 * time.as_secs_f64(),
        answer.relaxed,
        answer.tasks,
        answer.solved
    );
    assert!(answer.best.is_none() || gap <= 1e-9, "{name}: gap {gap}");
    answer.relaxed + answer.solved
}

#[test]
fn growth_is_shown_and_flat_in_memory_and_nearly_so_in_layers() {
    let Some(first) = model(32, 1, 24.0, 64) else { return };
    println!(
        "| question | ms, tables and search | tasks looked at | solved | s/iteration | gap |\n|---|---|---|---|---|---|"
    );
    work("first run", &first);
    let memory =
        [24.0, 36.0, 48.0, 80.0, 120.0, 192.0].map(|gb| work(&format!("{gb} GB"), &model(32, 1, gb, 64).unwrap()));
    let layers = [32, 64, 128, 256, 512, 1024].map(|n| work(&format!("{n} layers"), &model(n, 8, 80.0, 512).unwrap()));
    for nodes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        work(&format!("{} devices", nodes * 8), &model(64, nodes, 40.0, 4096).unwrap());
    }
    let spread = |work: &[usize]| *work.iter().max().unwrap() as f64 / (*work.iter().min().unwrap()).max(64) as f64;
    println!("memory {memory:?}, layers {layers:?}");
    assert!(spread(&memory) <= 4.0, "{memory:?}");
    assert!(spread(&layers) <= 8.0, "{layers:?}");
}
