//! Galvatron's files: every read mode and older spelling, plans without loss, and what is said about wrong ones.

use espalier::cost::galvatron::{CostModel, Repairs};
use espalier::error::InputError;
use espalier::import::galvatron::{GalvatronImportError, PlanFile, read};
use espalier::{export, reference};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A copy of a case in a folder of its own, removed when dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(prefix: &str, name: &str) -> Option<Self> {
        let root = reference::path("galvatron")?;
        let case = std::fs::read_dir(root)
            .unwrap()
            .filter_map(|e| Some(e.ok()?.path()))
            .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(prefix))
            .expect("the case is there");
        let to = std::env::temp_dir().join(format!("espalier-galvatron-{}-{name}", std::process::id()));
        std::fs::create_dir_all(to.join("inputs")).unwrap();
        for file in std::fs::read_dir(case.join("inputs")).unwrap() {
            let file = file.unwrap();
            std::fs::write(to.join("inputs").join(file.file_name()), std::fs::read(file.path()).unwrap()).unwrap();
        }
        std::fs::write(to.join("case.json"), std::fs::read(case.join("case.json")).unwrap()).unwrap();
        Some(Self(to))
    }

    fn path(&self, start: &str) -> PathBuf {
        let inputs = self.0.join("inputs");
        if start == "case" {
            return self.0.join("case.json");
        }
        std::fs::read_dir(inputs)
            .unwrap()
            .filter_map(|e| Some(e.ok()?.path()))
            .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(start))
            .unwrap()
    }

    /// Changes the JSON of the file whose name starts with `start`.
    fn edit(&self, start: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        let path = self.path(start);
        let mut doc: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        change(doc.as_object_mut().unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(path, serde_json::to_string(&doc).unwrap()).unwrap();
    }

    /// Renames keys of the file whose name starts with `start`.
    fn rename(&self, start: &str, new: impl Fn(&str) -> String) {
        self.edit(start, |map| *map = map.iter().map(|(k, v)| (new(k), v.clone())).collect());
    }

    fn read(&self, changes: &[(&str, &str)]) -> Result<CostModel, GalvatronImportError> {
        let changes: Vec<_> = changes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        read(&self.0, &changes, Repairs::NONE)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn older_spellings_of_several_layer_types_mean_the_same() {
    let Some(copy) = Copy::of("c09", "spellings") else { return };
    let now = copy.read(&[]).unwrap();
    copy.rename("computation", |k| match k.strip_prefix("layertype_other_") {
        Some(rest) => format!("layertype_other_{}", rest.replace("seq512", "seq[512,512]")),
        None => k.to_owned(),
    });
    assert_eq!(copy.read(&[]).unwrap(), now);
    for spelling in ["[512,512]", "512,512", "512_512", "512512"] {
        copy.edit("memory", |map| {
            for (_, value) in map.iter_mut().filter(|(k, _)| k.starts_with("other_memory")) {
                let table = value.as_object().unwrap().values().next().unwrap().clone();
                *value = json!({ spelling: table });
            }
        });
        assert_eq!(copy.read(&[]).unwrap(), now, "{spelling}");
    }
}

#[test]
fn the_oldest_files_without_sequence_lengths_mean_the_same() {
    let Some(copy) = Copy::of("c01", "oldest") else { return };
    let now = copy.read(&[]).unwrap();
    copy.rename("computation", |k| k.replace("_seq2048", "").replace("layertype_other_", "layertype_other_0_"));
    copy.edit("memory", |map| {
        for (_, value) in map.iter_mut().filter(|(k, _)| k.starts_with("layertype_") || k.starts_with("other_memory")) {
            *value = value["2048"].clone();
        }
    });
    assert_eq!(copy.read(&[]).unwrap(), now);
}

#[test]
fn a_folder_of_profiles_alone_with_flags_is_the_same_question() {
    let Some(copy) = Copy::of("c02", "flags") else { return };
    let now = copy.read(&[]).unwrap();
    std::fs::remove_file(copy.path("case")).unwrap();
    std::fs::create_dir(copy.0.join("configs")).unwrap();
    std::fs::create_dir(copy.0.join("hardware_configs")).unwrap();
    for (start, to) in [("computation", "configs"), ("memory", "configs"), ("", "hardware_configs")] {
        for file in std::fs::read_dir(copy.0.join("inputs")).unwrap().map(|f| f.unwrap()) {
            if file.file_name().to_str().unwrap().starts_with(start) {
                std::fs::rename(file.path(), copy.0.join(to).join(file.file_name())).unwrap();
            }
        }
    }
    let flags = [
        ("--model-size", "llama2-7b"),
        ("hidden_size", "4096"),
        ("num_layers", "32"),
        ("seq_length", "2048"),
        ("num_nodes", "1"),
        ("num_gpus_per_node", "8"),
        ("memory_constraint", "24"),
        ("default_dp_type", "zero2"),
        ("pipeline_type", "pipedream_flush"),
        ("mixed_precision", "bf16"),
        ("settle_bsz", "64"),
        ("time_profile_mode", "batch"),
        ("memory_profile_mode", "static"),
    ];
    assert_eq!(copy.read(&flags).unwrap(), now);
}

#[test]
fn modes_read_the_values_that_they_say() {
    let Some(copy) = Copy::of("c07", "modes") else { return };
    let shorter = copy.read(&[("seq_len", "6144"), ("hidden_size", "4096"), ("layer_num", "28")]).unwrap();
    let longest = copy.read(&[]).unwrap();
    let (a, b) = (&shorter.profiles.layer_memory[0], &longest.profiles.layer_memory[0]);
    assert_eq!(a.activation_mb.get(4), b.activation_mb.get(4).map(|x| x * 0.75));
    assert_eq!(a.checkpoint_mb, b.checkpoint_mb * 0.75);
    assert_eq!(a.parameter_mb, 973.771484375);
    let other = |m: &CostModel| m.profiles.other_memory_last.activation_mb.get(1).unwrap();
    assert_eq!(other(&shorter), other(&longest) * 0.75);
    assert!(shorter.profiles.layer_time[0].at(1.0) < longest.profiles.layer_time[0].at(1.0));

    let Some(copy) = Copy::of("c01", "static") else { return };
    let model = copy.read(&[("time_profile_mode", "static")]).unwrap();
    assert_eq!(model.profiles.layer_time[0].at(2.0), 2.0 * 4.396252679824831);
}

#[test]
fn plans_go_out_and_come_back_without_loss() {
    let Some(root) = reference::path("galvatron") else { return };
    for case in std::fs::read_dir(root).unwrap().filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()) {
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(case.join("galvatron_result.json")).unwrap()).unwrap();
        let file = PlanFile::parse("plan", &result["plan"].to_string()).unwrap();
        let written = export::galvatron::to_json(&file);
        for (key, value) in result["plan"].as_object().unwrap() {
            assert_eq!(&written[key], value, "{} {key}", case.display());
        }
        assert_eq!(written["vocab_sdp"], written["embed_sdp"]);
        assert_eq!(written.as_object().unwrap().len(), result["plan"].as_object().unwrap().len() + 1);
        assert_eq!(PlanFile::parse("plan", &written.to_string()).unwrap(), file);

        let model = read(&case, &[], Repairs::NONE).unwrap();
        let plan = file.plan(&model.setting).unwrap();
        let back = export::galvatron::plan_file(&plan, &model.setting);
        assert_eq!(export::galvatron::to_json(&back), written, "{}", case.display());

        let (mode, buffer) = model.task_of(&plan);
        let price = model.price(&plan, mode, buffer).unwrap();
        let expected = result["iteration_time_s"].as_f64().unwrap() * 1e3;
        assert!((price.time_ms / expected - 1.0).abs() < 1e-6, "{}: {} {expected}", case.display(), price.time_ms);
        assert!(price.fits(), "{}", case.display());
    }
}

#[test]
fn keys_of_a_plan_that_mean_nothing_here_and_context_parallelism_are_kept() {
    let text = r#"{"pp_deg":2,"tp_sizes_enc":"2,1","cp_sizes_enc":"1,2","dp_types_enc":"0,1","global_bsz":8,"chunks":2,
        "pp_division":"1,1","vtp":2,"vsp":1,"vcp":1,"vocab_sdp":1,"ep_sizes_enc":"1,1","tp_of_ep_sizes_enc":"1,1"}"#;
    let file = PlanFile::parse("plan.json", text).unwrap();
    let written = export::galvatron::to_json(&file);
    for (key, value) in [
        ("cp_sizes_enc", json!("1,2")),
        ("vcp", json!(1)),
        ("embed_sdp", json!(1)),
        ("vocab_sdp", json!(1)),
        ("ep_sizes_enc", json!("1,1")),
        ("tp_of_ep_sizes_enc", json!("1,1")),
        ("use_sp", json!("0,0")),
    ] {
        assert_eq!(written[key], value, "{key}");
    }
    assert_eq!(PlanFile::parse("plan.json", &written.to_string()).unwrap(), file);
}

/// What an error must say: file, field, and words of the whole message.
fn assert_says(error: GalvatronImportError, file: &str, field: Option<&str>, words: &[&str]) {
    let text = error.to_string();
    assert!(error.file().contains(file), "{file} is not in: {text}");
    assert_eq!(error.field(), field, "{text}");
    let shown = InputError::from(error).to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
        assert!(shown.contains(word.trim_matches('`')), "`{word}` is not in: {shown}");
    }
}

#[test]
fn wrong_files_are_named_with_key_value_and_what_is_allowed() {
    type Edit = fn(&mut Map<String, Value>);
    let memory = "memory_profiling_bf16_llama2-7b_all.json";
    let wrong: [(&str, Edit, &str, &str, &[&str]); 20] = [
        ("memory", |m| drop(m.shift_remove("layertype_0_sp")), memory, "layertype_0_sp", &["expected"]),
        (
            "memory",
            |m| {
                m["layertype_0_sp"]["2048"].as_object_mut().unwrap().shift_remove("parameter_size");
            },
            memory,
            "layertype_0_sp.2048.parameter_size",
            &["tp_activation_per_bsz_dict"],
        ),
        (
            "memory",
            |m| {
                m["layertype_0_sp"]["2048"]["tp_activation_per_bsz_dict"].as_object_mut().unwrap().shift_remove("8");
            },
            memory,
            "layertype_0_sp.2048.tp_activation_per_bsz_dict.8",
            &["`1`, `2`, `4`", "max_tp_deg"],
        ),
        (
            "memory",
            |m| {
                m["layertype_0_sp"]["2048"]["tp_activation_per_bsz_dict"]["4"] = json!("many");
            },
            memory,
            "layertype_0_sp.2048.tp_activation_per_bsz_dict.4",
            &["many", "a number of at least 0"],
        ),
        (
            "memory",
            |m| {
                m["layertype_0_sp"]["2048"]["tp_activation_per_bsz_dict"]["3"] = json!(1.0);
            },
            memory,
            "layertype_0_sp.2048.tp_activation_per_bsz_dict.3",
            &["power of two"],
        ),
        (
            "memory",
            |m| {
                m["layertype_0_sp"]["2048"]["parameter_size"] = json!(-1);
            },
            memory,
            "layertype_0_sp.2048.parameter_size",
            &["-1", "above 0"],
        ),
        (
            "memory",
            |m| {
                m["other_memory_pp_off_sp"]["2048"]["model_states"]["2"] = Value::Null;
            },
            memory,
            "other_memory_pp_off_sp.2048.model_states.2",
            &["null"],
        ),
        (
            "memory",
            |m| {
                let t = m["layertype_0_sp"].clone();
                m.shift_remove("layertype_0_sp");
                m.insert("layertype_0".into(), t);
            },
            memory,
            "layertype_0_sp",
            &["`layertype_0`", "sequence_parallel"],
        ),
        ("computation", |m| m.retain(|k, _| !k.contains("layertype_0_bsz1_")), "computation_profiling", "", &[]),
        (
            "computation",
            |m| m.retain(|k, _| !k.starts_with("layertype_other")),
            "computation_profiling",
            "layertype_other_bsz*_seq2048",
            &["at least 8", "0 entries"],
        ),
        (
            "computation",
            |m| {
                m["layertype_0_bsz3_seq2048"] = json!("fast");
            },
            "computation_profiling",
            "layertype_0_bsz3_seq2048",
            &["fast"],
        ),
        (
            "computation",
            |m| {
                m.insert("layertype_x_bsz3_seq2048".into(), json!(1.0));
            },
            "computation_profiling",
            "layertype_x_bsz3_seq2048",
            &["layertype_{i}_bsz{b}_seq{s}"],
        ),
        (
            "allreduce",
            |m| drop(m.shift_remove("allreduce_size_4_consec_0")),
            "allreduce_bandwidth_1nodes_8gpus_per_node.json",
            "allreduce_size_4_consec_0",
            &["MB/ms"],
        ),
        (
            "allreduce",
            |m| {
                m["allreduce_size_8_consec_1"] = json!(0);
            },
            "allreduce_bandwidth",
            "allreduce_size_8_consec_1",
            &["above 0"],
        ),
        ("p2p", |m| drop(m.shift_remove("pp_size_4")), "p2p_bandwidth", "pp_size_4", &["max_pp_deg"]),
        (
            "sp_time",
            |m| m.retain(|k, _| !k.starts_with("all2all_size_8") || k.contains("_64MB")),
            "sp_time",
            "all2all_size_8_{m}MB_time",
            &["at least 8 sizes"],
        ),
        (
            "sp_time",
            |m| {
                m.insert("allreduce_size_6_1MB_time".into(), json!(1.0));
            },
            "sp_time",
            "allreduce_size_6_1MB_time",
            &["power of two"],
        ),
        (
            "overlap",
            |m| {
                m["overlap_coe"] = json!(0.5);
            },
            "overlap_coefficient.json",
            "overlap_coe",
            &["0.5", "at least 1"],
        ),
        (
            "overlap",
            |m| drop(m.shift_remove("overlap_coe")),
            "overlap_coefficient.json",
            "overlap_coe",
            &["at least 1"],
        ),
        (
            "case",
            |m| {
                m["args"]["batch_size_info"]["settle_chunk"] = json!(5);
            },
            "case.json",
            "settle_chunk",
            &["5", "a divisor of 32"],
        ),
    ];
    for (i, (start, edit, file, field, words)) in wrong.into_iter().enumerate() {
        let Some(copy) = Copy::of("c01", &format!("wrong{i}")) else { return };
        copy.edit(start, edit);
        if field.is_empty() {
            // Eleven of twelve batch sizes are enough for a line.
            assert!(copy.read(&[]).is_ok());
            continue;
        }
        assert_says(copy.read(&[]).unwrap_err(), file, Some(field), words);
    }
}

#[test]
fn missing_files_and_broken_ones_are_named() {
    for (i, start) in ["computation", "memory", "allreduce", "p2p", "sp_time", "overlap"].into_iter().enumerate() {
        let Some(copy) = Copy::of("c01", &format!("missing{i}")) else { return };
        let path = copy.path(start);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::remove_file(&path).unwrap();
        assert_says(copy.read(&[]).unwrap_err(), &name, None, &["no such file"]);
        std::fs::write(&path, "{\"a\": 1,}").unwrap();
        assert_says(copy.read(&[]).unwrap_err(), &name, None, &["line 1"]);
        std::fs::write(&path, "[1]").unwrap();
        assert!(matches!(copy.read(&[]).unwrap_err(), GalvatronImportError::Value { .. }));
    }
    let Some(copy) = Copy::of("c01", "nodes") else { return };
    let error = copy.read(&[("num_gpus_per_node", "4")]).unwrap_err();
    assert_says(error, "allreduce_bandwidth_1nodes_4gpus", None, &["allreduce_bandwidth_1nodes_8gpus_per_node.json"]);
    assert!(read(Path::new("/nowhere/at/all"), &[], Repairs::NONE).unwrap_err().to_string().contains("no such folder"));
}

#[test]
fn wrong_arguments_are_named_with_what_is_allowed() {
    let Some(copy) = Copy::of("c01", "arguments") else { return };
    for (name, value, words) in [
        ("time_profile_mode", "hybrid", &["`static`, `batch`, `sequence`"][..]),
        ("memory_profile_mode", "batch", &["`static`, `sequence`"]),
        ("default_dp_type", "zero1", &["`ddp`, `zero2`"]),
        ("pipeline_type", "1f1b", &["`gpipe`, `pipedream_flush`"]),
        ("mixed_precision", "fp8", &["`fp32`, `fp16`, `bf16`"]),
        ("memory_constraint", "0", &["above 0"]),
        ("memory_constraint", "lots", &["lots"]),
        ("num_gpus_per_node", "6", &["power of two"]),
        ("max_tp_deg", "-3", &["at least 1"]),
        ("settle_chunk", "7", &["a divisor of 32"]),
        ("sequence_parallel", "maybe", &["0 or 1"]),
        ("seq_len", "0", &["at least 1"]),
    ] {
        let error =
            copy.read(&[("hidden_size", "4096"), ("layer_num", "32"), ("seq_len", "2048"), (name, value)]).unwrap_err();
        assert_says(error, "arguments", Some(name), words);
    }
    let error = copy.read(&[("memory_constrain", "24")]).unwrap_err();
    assert_says(error, "arguments", Some("memory_constrain"), &["memory_constraint"]);
}

#[test]
fn wrong_plans_are_named_with_what_is_allowed() {
    let Some(copy) = Copy::of("c01", "plans") else { return };
    let setting = copy.read(&[]).unwrap().setting;
    let ones = |n: usize, x: &str| vec![x; n].join(",");
    let good = || {
        json!({ "pp_deg": 2, "tp_sizes_enc": ones(32, "2"), "dp_types_enc": ones(32, "0"), "global_bsz": 32, "chunks": 8,
            "pp_division": "16,16", "vtp": 1, "vsp": 0, "embed_sdp": 0, "default_dp_type": "zero2" })
    };
    let said = |doc: Value| PlanFile::parse("p.json", &doc.to_string()).and_then(|f| f.plan(&setting)).unwrap_err();
    assert!(PlanFile::parse("p.json", &good().to_string()).unwrap().plan(&setting).is_ok());
    for (key, value, words) in [
        ("tp_sizes_enc", json!(ones(31, "2")), &["32"][..]),
        ("tp_sizes_enc", json!(ones(32, "3")), &["powers of two"]),
        ("tp_sizes_enc", json!(ones(32, "8")), &["a divisor of the 4 devices"]),
        ("pp_division", json!("16,15"), &["sum is 32"]),
        ("pp_deg", json!(3), &["a divisor of 8"]),
        ("chunks", json!(5), &["a divisor of 32"]),
        ("chunks", json!("x"), &["whole number"]),
        ("checkpoint", json!(ones(32, "2")), &["0 or 1"]),
        ("default_dp_type", json!("zero9"), &["zero2"]),
        ("vocab_sdp", json!(1), &["embed_sdp"]),
        ("world_size", json!(16), &["8"]),
    ] {
        let mut doc = good();
        doc[key] = value;
        let error = said(doc);
        let named = if key == "tp_sizes_enc" && error.field() != Some(key) { error.field().unwrap() } else { key };
        assert_says(error.clone(), "p.json", Some(named), words);
    }
    let mut doc = good();
    doc.as_object_mut().unwrap().shift_remove("tp_sizes_enc");
    assert_says(said(doc), "p.json", Some("tp_sizes_enc"), &["pp_deg"]);
}
