//! The space's own exact search and the engine's agree: on cut-down cases where the engine works alone, and on whole cases
//! where it checks what the space proves.

use espalier::cost::galvatron::{Repair, Repairs};
use espalier::search::decompose::Decompose;
use espalier::search::exact::{ExactSettings, solve};
use espalier::space::galvatron::{GalvatronSpace, Partition, chains::Plain};
use espalier::{import, reference};
use std::path::PathBuf;

fn case(prefix: &str) -> Option<PathBuf> {
    let root = reference::path("galvatron")?;
    std::fs::read_dir(root)
        .unwrap()
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(prefix))
}

fn space(prefix: &str, changes: &[(&str, &str)], repairs: Repairs) -> Option<GalvatronSpace> {
    let changes: Vec<(String, String)> = changes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let model = import::galvatron::read(&case(prefix)?, &changes, repairs).unwrap_or_else(|e| panic!("{e}"));
    Some(GalvatronSpace::new(model, Partition::Even).unwrap())
}

#[test]
fn the_engine_alone_finds_the_same_optimum_on_small_questions() {
    let sizes = [("hidden_size", "4096"), ("seq_len", "2048")];
    let mut compared = 0;
    for (layers, memory, batch, extra, repairs) in [
        ("3", "5", "16", ("default_dp_type", "zero2"), Repairs::NONE),
        ("4", "6", "8", ("default_dp_type", "ddp"), Repairs::NONE),
        ("5", "7", "32", ("async_grad_reduce", "false"), Repairs::NONE),
        ("6", "8", "12", ("disable_sp", "1"), Repairs::NONE),
        ("7", "5", "16", ("pipeline_type", "gpipe"), Repairs::NONE),
        ("8", "6", "24", ("max_pp_deg", "4"), Repairs::NONE),
        ("4", "6", "16", ("default_dp_type", "zero2"), Repairs::all()),
        ("6", "7", "12", ("default_dp_type", "ddp"), Repairs::all()),
        ("5", "6", "16", ("disable_cp", "0"), Repairs::all()),
        ("8", "9", "64", ("default_dp_type", "ddp"), Repairs::NONE.with(Repair::Resharding)),
        ("6", "6", "32", ("default_dp_type", "ddp"), Repairs::NONE.with(Repair::SlowStage)),
    ] {
        let changes =
            [sizes[0], sizes[1], ("layer_num", layers), ("memory_constraint", memory), ("settle_bsz", batch), extra];
        let Some(space) = space("c01", &changes, repairs) else { return };
        let found = solve(&Plain(&space), &ExactSettings::default(), &|| false, &mut |_, _| {});
        let answer = space.answer();
        assert_eq!(found.best.is_some(), answer.best.is_some(), "{changes:?}");
        let (Some(engine), Some((x, own))) = (&found.best, &answer.best) else { continue };
        compared += 1;
        assert!(found.bound >= engine.value * (1.0 - 1e-12), "{changes:?}: the engine left a gap");
        assert!((engine.value - own).abs() <= 1e-9 * own, "{changes:?}: engine {} own {own}", engine.value);
        assert_eq!(answer.gap(), Some(0.0), "{changes:?}");
        assert!(space.worth(x).excess == 0.0);
    }
    assert!(compared >= 8, "only {compared} questions had plans");
}

#[test]
fn the_engine_accepts_what_the_space_proves_on_whole_cases() {
    for prefix in ["c01", "c02", "c03", "c05", "c07", "c09", "c10", "c12", "c14"] {
        let Some(space) = space(prefix, &[], Repairs::NONE) else { return };
        let found = solve(&space, &ExactSettings::default(), &|| false, &mut |_, _| {});
        let best = found.best.unwrap();
        let solution = space.assemble(best.task, &best.solution);
        let worth = space.worth(&solution);
        assert!((worth.objective_s - best.value).abs() <= 1e-12 * best.value, "{prefix}");
        assert_eq!(worth.excess, 0.0);
        assert!(found.bound >= best.value * (1.0 - 1e-12), "{prefix}: {} {}", found.bound, best.value);
        assert_eq!(found.solved, 0, "{prefix}");
    }
}
