//! Launches that users asked about, judged by the program as they would type it.

#![allow(dead_code, reason = "one test file uses it")]

pub mod deepspeed;
pub mod megatron;
pub mod others;
pub mod torchtitan;

use crate::cli::run;
use serde_json::Value;

/// The answer of `check` to these arguments, whatever its verdict.
pub fn check(arguments: &[&str]) -> Value {
    let ran = run(&[&["check"], arguments, &["--json"]].concat());
    assert!([0, 3, 5].contains(&ran.code), "{arguments:?}: {}", ran.err);
    ran.json()
}

/// A number of an answer.
pub fn number(answer: &Value, path: &str) -> f64 {
    answer.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {answer}"))
}

/// The most that any stage has of something, in 1e9 bytes.
pub fn most(answer: &Value, what: &str) -> f64 {
    let stages = answer["estimate"]["stages"].as_array().unwrap_or_else(|| panic!("{answer}"));
    stages.iter().map(|s| number(s, &format!("/memory/{what}_bytes"))).fold(0.0, f64::max) / 1e9
}

/// Weights, gradients and optimizer states of the fullest stage, in 1e9 bytes.
pub fn states(answer: &Value) -> f64 {
    let stages = answer["estimate"]["stages"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let of = |s: &Value| {
        ["weights", "gradients", "optimizer"].iter().map(|k| number(s, &format!("/memory/{k}_bytes"))).sum()
    };
    stages.iter().map(of).fold(0.0, f64::max) / 1e9
}

/// Within a share of what is expected.
pub fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not {expected} within {share}");
}

/// Whether the plan fits the devices.
pub fn fits(answer: &Value) -> bool {
    answer["fits"].as_bool().unwrap_or_else(|| panic!("{answer}"))
}

/// The change of this name that is offered.
pub fn change<'a>(answer: &'a Value, name: &str) -> Option<&'a Value> {
    answer["changes"].as_array()?.iter().find(|c| c["change"].as_str().is_some_and(|text| text.starts_with(name)))
}

/// Whether a remark holds these words.
pub fn remarked(answer: &Value, words: &[&str]) -> bool {
    let notes = answer["notes"].as_array().unwrap_or_else(|| panic!("{answer}"));
    notes.iter().filter_map(Value::as_str).any(|note| words.iter().all(|word| note.contains(word)))
}
