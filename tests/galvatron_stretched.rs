//! Questions away from the cases: other batches and budgets are solved with no gap, slower networks nearly so.

use espalier::cost::galvatron::{Repair, Repairs};
use espalier::space::galvatron::{GalvatronSpace, Partition, exact};
use espalier::{import, reference};
use std::path::PathBuf;

#[test]
fn other_batches_and_budgets_leave_no_gap_and_slower_networks_a_small_one() {
    let Some(root) = reference::path("galvatron") else { return };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("case.json").is_file())
        .collect();
    cases.sort();
    let mut solved = 0;
    for case in &cases {
        for slower in [1.0, 3.0] {
            for (memory_gb, batch) in [(10.0, 48), (14.0, 128), (20.0, 16), (30.0, 512), (48.0, 128), (80.0, 48)] {
                for repairs in [Repairs::NONE, Repairs::NONE.with(Repair::SlowStage)] {
                    let mut model = import::galvatron::read(case, &[], repairs).unwrap();
                    model.setting.memory_gb = memory_gb;
                    model.setting.batches.global = vec![batch];
                    model.setting.batches.chunks = None;
                    let network = &mut model.profiles.network;
                    network.consecutive_ms_per_mb = network.consecutive_ms_per_mb.scaled(|x| x * slower);
                    network.strided_ms_per_mb = network.strided_ms_per_mb.scaled(|x| x * slower);
                    let space = GalvatronSpace::new(model, Partition::Even).unwrap();
                    let answer = exact::solve(&space);
                    let Some((x, objective)) = &answer.best else {
                        assert_eq!(answer.bound_s, f64::INFINITY);
                        continue;
                    };
                    solved += 1;
                    let name = format!("{} x{slower} {memory_gb} GB batch {batch} {repairs:?}", case.display());
                    let worth = space.worth(x);
                    assert!(worth.excess == 0.0 && (worth.objective_s / objective - 1.0).abs() < 1e-12, "{name}");
                    let gap = answer.gap().unwrap();
                    // Rounding of sums, far below the nanosecond, is no gap.
                    assert!(gap <= if slower == 1.0 { 1e-11 } else { 2e-3 }, "{name}: {gap}");
                }
            }
        }
    }
    assert!(solved > 100, "{solved}");
}
