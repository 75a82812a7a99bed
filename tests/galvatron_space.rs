//! The search space has Galvatron's strategies and tasks.

use espalier::cost::galvatron::Repairs;
use espalier::space::galvatron::{strategies, tasks};
use espalier::{import, reference};
use serde_json::Value;
use std::path::PathBuf;

fn cases() -> Vec<PathBuf> {
    let Some(root) = reference::path("galvatron") else { return Vec::new() };
    let mut out: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("case.json").is_file())
        .collect();
    out.sort();
    out
}

#[test]
fn tasks_and_strategies_are_galvatrons() {
    for case in cases() {
        let model = import::galvatron::read(&case, &[], Repairs::NONE).unwrap();
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(case.join("galvatron_result.json")).unwrap()).unwrap();
        let expected: Vec<_> = result["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| {
                let n = |key: &str| t[key].as_u64().unwrap() as u32;
                (n("gbsz"), n("chunks"), n("pp"), t["tp_sp_mode"].as_str().unwrap().to_owned(), n("global_buffer_tp"))
            })
            .collect();
        let found: Vec<_> = tasks::tasks(&model.setting)
            .iter()
            .map(|t| (t.micro.global_batch, t.micro.chunks, t.pp, t.mode.name().to_owned(), t.buffer_tp))
            .collect();
        assert_eq!(found, expected, "{}", case.display());
        for (key, of) in [
            ("num_layer_strategies_total", strategies::layer_strategies as fn(_, _) -> Vec<_>),
            ("num_embed_strategies_total", strategies::embedding_strategies),
        ] {
            if let Some(total) = result[key].as_u64() {
                let found: usize = [1, 2, 4, 8].iter().map(|&pp| of(&model.setting, pp).len()).sum();
                assert_eq!(found as u64, total, "{} {key}", case.display());
            }
        }
    }
}
