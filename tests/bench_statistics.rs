//! The statistics of races against values of scipy, scikit-posthocs' dependencies and statsmodels, stored as data by
//! tests/data/statistics.py.

use espalier::experiment::stats::{friedman, holm, mann_whitney, wilcoxon};
use serde_json::Value;

fn stored() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/statistics.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn close(a: f64, b: &Value, what: &str) {
    let b = b.as_f64().unwrap();
    assert!((a - b).abs() <= 1e-10 * b.abs().max(1e-3), "{what}: {a}, stored {b}");
}

#[test]
fn mann_whitney_is_that_of_scipy() {
    let all = stored();
    let cases = all["mann_whitney"].as_array().unwrap();
    assert!(cases.len() >= 6);
    for case in cases {
        let test = mann_whitney(&numbers(&case["a"]), &numbers(&case["b"]));
        close(test.u, &case["u"], "u");
        close(test.p, &case["p"], "p");
    }
}

#[test]
fn wilcoxon_is_that_of_scipy() {
    let all = stored();
    let cases = all["wilcoxon"].as_array().unwrap();
    assert!(cases.len() >= 5);
    for case in cases {
        let test = wilcoxon(&numbers(&case["d"]));
        close(test.positive.min(test.negative), &case["w"], "w");
        close(test.p, &case["p"], "p");
    }
}

#[test]
fn friedman_is_that_of_scipy() {
    let all = stored();
    let cases = all["friedman"].as_array().unwrap();
    assert!(cases.len() >= 3);
    for case in cases {
        let table: Vec<Vec<f64>> = case["table"].as_array().unwrap().iter().map(numbers).collect();
        let test = friedman(&table).unwrap();
        close(test.chi2, &case["chi2"], "chi2");
        close(test.p, &case["p"], "p");
        for (rank, stored) in test.mean_ranks.iter().zip(case["ranks"].as_array().unwrap()) {
            close(*rank, stored, "rank");
        }
    }
}

#[test]
fn holm_is_that_of_statsmodels() {
    let all = stored();
    let adjusted = holm(&numbers(&all["holm"]["p"]));
    for (p, stored) in adjusted.iter().zip(all["holm"]["adjusted"].as_array().unwrap()) {
        close(*p, stored, "adjusted p");
    }
}
