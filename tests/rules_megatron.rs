//! Launches of Megatron-LM: the rules give the verdict of the real thing, and name the rule.

use espalier::reference;
use espalier::rules::megatron::{self, BOOK, Launch, UNCHECKED, accepts, broken, parse};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn launch(row: &Value) -> Launch {
    let words: Vec<&str> = row["args"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let mut launch = parse::parse(&words, row["world"].as_u64().unwrap()).unwrap();
    launch.arch = Ok(row["arch"].as_u64().unwrap());
    let mut environment = BTreeMap::from([("CUDA_DEVICE_MAX_CONNECTIONS".to_owned(), "1".to_owned())]);
    for (name, value) in row["env"].as_object().unwrap() {
        match value.as_str() {
            Some(value) => environment.insert(name.clone(), value.to_owned()),
            None => environment.remove(name),
        };
    }
    launch.environment = Some(environment);
    launch
}

fn rows() -> Vec<Value> {
    let Some(path) = reference::path("megatron/golden.jsonl") else { return Vec::new() };
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn verdict_rule_and_derived_values_are_those_of_megatron() {
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let launch = launch(row);
        let list = broken(&launch);
        let id = row["id"].as_str().unwrap();
        if row["ok"].as_bool().unwrap() {
            let sizes =
                (launch.dp().unwrap_or(0), launch.expert_dp().unwrap_or(0), launch.micro_batches().unwrap_or(0));
            let expected =
                (row["dp"].as_u64().unwrap(), row["edp"].as_u64().unwrap(), row["microbatches"].as_u64().unwrap());
            let layers: Vec<Vec<u64>> = serde_json::from_value(row["layers"].clone()).unwrap();
            let same = accepts(&list)
                && sizes == expected
                && launch.vpp().ok() == Some(row["vp"].as_u64())
                && launch.layers_by_rank().ok() == Some(layers)
                && launch.sequence_parallel().ok() == row["sp"].as_bool()
                && launch.ffn().ok() == row["ffn"].as_u64()
                && launch.padded_vocabulary().ok() == row["megatron_memory"]["padded_vocab"].as_u64();
            if !same {
                wrong.push(format!("{id}: accepted by Megatron; {sizes:?} of {expected:?}, {list:?}"));
            }
        } else {
            // The first rule broken is the one that Megatron's own check stops at, in the same moment.
            let first = list.first().map(|b| (b.id.to_owned(), serde_json::to_value(b.when).unwrap()));
            let expected = (row["rule"].as_str().unwrap().to_owned(), row["stage"].clone());
            if first.as_ref() != Some(&expected) {
                wrong.push(format!("{id}: expected {expected:?}, found {first:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(rows.is_empty() || rows.len() == 290);
}

#[test]
fn every_refusal_offers_something_valid_where_numbers_do_not_divide() {
    for row in rows().iter().filter(|row| !row["ok"].as_bool().unwrap()) {
        let rule = row["rule"].as_str().unwrap();
        let list = broken(&launch(row));
        let found = list.iter().find(|b| b.id == rule).unwrap();
        assert!(!found.why.is_empty());
        if rule.contains("divisible") || rule.contains("layout") || rule.contains("world") {
            assert!(!found.instead.is_empty(), "{}: {found:?}", row["id"]);
        }
    }
}

#[test]
fn ids_are_unique_but_for_the_build_that_checks_again() {
    let mut ids = BTreeSet::new();
    for rule in BOOK.rules().chain(UNCHECKED.rules()).chain(megatron::ADVICE.rules()) {
        let again = rule.id == "layers_divisible_by_pp";
        assert!(ids.insert(rule.id) || again, "{} stands twice", rule.id);
        assert!(!rule.demands.is_empty() && !rule.source.is_empty());
    }
    assert!(ids.len() > 100, "{}", ids.len());
}

#[test]
fn nothing_is_refused_before_it_is_decided() {
    let mut launch = Launch::undecided();
    assert!(broken(&launch).is_empty());
    // Two sizes are enough to break a rule that needs no third.
    launch.set("num_attention_heads", megatron::Value::Int(28));
    launch.set("tensor_model_parallel_size", megatron::Value::Int(8));
    assert_eq!(BOOK.first_broken(&launch).map(|rule| rule.id), Some("heads_divisible_by_tp"));
}

/// A launch of which only these sizes are decided.
fn partial(world: u64, sizes: &[(&str, i64)]) -> Launch {
    let mut launch = Launch::undecided();
    launch.world = Ok(world);
    for (name, n) in sizes {
        launch.set(name, megatron::Value::Int(*n));
    }
    launch.set("tensor_parallel_num_weight_shards", megatron::Value::Nothing);
    launch.set("expert_tensor_parallel_num_weight_shards", megatron::Value::Nothing);
    launch
}

#[test]
fn published_recipes_are_legal_as_far_as_they_say() {
    let Some(path) = reference::path("measured/expert_plans.csv") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut checked = 0;
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |name: &str| cells[header.iter().position(|h| *h == name).unwrap()].parse::<i64>();
        let keys = ["gpus", "tp", "pp", "cp", "mbs", "gbs"].map(|k| number(k).ok());
        // Some rows hold two plans in one cell, as `1 (4)`.
        let [Some(gpus), Some(tp), Some(pp), Some(cp), Some(mbs), Some(gbs)] = keys else { continue };
        let launch = partial(
            gpus as u64,
            &[
                ("tensor_model_parallel_size", tp),
                ("pipeline_model_parallel_size", pp),
                ("context_parallel_size", cp),
                ("expert_model_parallel_size", number("ep").unwrap_or(1)),
                ("expert_tensor_parallel_size", 1),
                ("micro_batch_size", mbs),
                ("global_batch_size", gbs),
            ],
        );
        assert!(broken(&launch).is_empty(), "{line}: {:?}", broken(&launch));
        assert!(launch.dp().is_ok() && launch.expert_dp().is_ok(), "{line}");
        checked += 1;
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn a_recipe_that_needs_more_devices_than_it_names_is_refused_with_the_arithmetic() {
    let sizes = [
        ("tensor_model_parallel_size", 1),
        ("context_parallel_size", 1),
        ("pipeline_model_parallel_size", 8),
        ("expert_model_parallel_size", 64),
        ("expert_tensor_parallel_size", 1),
    ];
    let list = broken(&partial(64, &sizes));
    assert_eq!(list[0].id, "world_divisible_by_etp_ep_pp");
    assert!(list[0].why.contains("ETP 1 * EP 64 * PP 8 = 512"), "{}", list[0].why);
    assert!(broken(&partial(1024, &sizes)).is_empty());
}
