//! Questions without an answer: the constraint that binds, and changes that help, each planned again here.

mod planning;

use espalier::job::{Job, Storage};
use espalier::space::answer::Infeasible;
use espalier::space::planner::{Inputs, PlanError, Watch, plan};
use planning::{cluster, config, machines, preset, question};

fn refused(inputs: &Inputs) -> Infeasible {
    match plan(inputs, Watch::default()) {
        Err(PlanError::Infeasible(why)) => *why,
        other => panic!("{:?}", other.map(|a| a.plan)),
    }
}

fn number_after(text: &str, key: &str) -> u64 {
    let rest = &text[text.find(key).unwrap() + key.len()..];
    rest.chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

/// The question with the change that `text` describes to a user.
fn changed(inputs: &Inputs, text: &str, machine: &str) -> Inputs {
    let mut new = inputs.clone();
    if text.starts_with("drop the constraint --fix ") {
        let constraint = text.trim_start_matches("drop the constraint --fix ");
        new.search.fix.retain(|c| c.to_string() != constraint);
    } else if text.starts_with("drop the constraint --forbid ") {
        let constraint = text.trim_start_matches("drop the constraint --forbid ");
        new.search.forbid.retain(|c| c.to_string() != constraint);
    } else if text.starts_with("lift the memory limit") {
        new.job.memory_limit = None;
    } else if text.starts_with("accumulate gradients in bf16") {
        new.job.gradients = Storage::Bf16;
    } else if text.starts_with("keep gradients and optimizer moments in bf16") {
        (new.job.gradients, new.job.moments) = (Storage::Bf16, Storage::Bf16);
    } else if text.starts_with("shorten the sequence to") {
        new.job.sequence = number_after(text, "to");
    } else if text.starts_with("use ") {
        new.cluster = machines(&format!("{machine}:{}", number_after(text, "(")));
    } else {
        panic!("a change that this test does not know: {text}");
    }
    assert_ne!(format!("{new:?}"), format!("{inputs:?}"), "{text}");
    new.search.target_gap = Some(0.2);
    new
}

fn hold_to_it(inputs: &Inputs, machine: &str, least: usize) -> Infeasible {
    let why = refused(inputs);
    println!("{}", why.tightest);
    assert!(why.fixes.len() >= least, "{:?}", why.fixes);
    for fix in &why.fixes {
        println!("  {}: {:.3} s, {:.1} GB", fix.change, fix.iteration_time_s, fix.peak_memory_bytes / 1e9);
        let again = plan(&changed(inputs, &fix.change, machine), Watch::default());
        let again = again.unwrap_or_else(|e| panic!("{}: {e}", fix.change));
        assert!(again.fits, "{}", fix.change);
        let ratio = again.estimate.iteration_time_s / fix.iteration_time_s;
        assert!((0.75..=1.25).contains(&ratio), "{}: {ratio}", fix.change);
    }
    why
}

#[test]
fn a_model_too_large_for_its_devices_is_told_by_how_much_and_what_would_help() {
    // 13e9 parameters x 18 bytes are 234 GB; four devices have 160.
    let inputs = question(preset("llama2-13b"), machines("a100-40x4"), Job::new(16, 4096));
    let why = hold_to_it(&inputs, "a100-40x4", 1);
    let needed = why.needed_bytes.unwrap();
    assert!(needed > why.available_bytes && needed > 234e9 / 4.0, "{needed}");
    assert!(why.tightest.contains("needed") && why.tightest.contains("usable"), "{}", why.tightest);
}

#[test]
fn a_constraint_that_leaves_nothing_is_named_among_the_changes() {
    let mut inputs = question(preset("llama3-8b"), machines("h100x8"), Job::new(16, 8192));
    inputs.search.fix = ["zero=0".parse().unwrap(), "tp=1".parse().unwrap(), "pp=1".parse().unwrap()].into();
    inputs.search.forbid = vec!["recompute=full".parse().unwrap()];
    let why = hold_to_it(&inputs, "h100x8", 1);
    let dropped = |what: &str| why.fixes.iter().any(|f| f.change.contains(what));
    assert!(dropped("--fix zero=0") || dropped("--fix tp=1") || dropped("--fix pp=1"), "{:?}", why.fixes);
}

#[test]
fn a_memory_limit_is_the_first_thing_to_lift() {
    let model = config(planning::TIED_LLAMA);
    let job = Job { memory_limit: Some("5GB".parse().unwrap()), ..Job::new(8, 2048) };
    let inputs = question(model, machines("a100-40x2"), job);
    let why = hold_to_it(&inputs, "a100-40x2", 1);
    assert!(why.fixes[0].change.starts_with("lift the memory limit"), "{:?}", why.fixes);
}

#[test]
fn constraints_that_contradict_the_devices_are_an_input_error() {
    let mut inputs = question(config(planning::GPT2), cluster(planning::TWO_PAIRS), Job::new(8, 1024));
    inputs.search.fix = vec!["pp=3".parse().unwrap()];
    match plan(&inputs, Watch::default()) {
        Err(PlanError::Input(e)) => assert!(e.to_string().contains("pp=3"), "{e}"),
        other => panic!("{:?}", other.map(|a| a.plan)),
    }
}

#[test]
fn a_part_without_a_strategy_is_named_with_what_was_asked_of_it() {
    // Three ways divide neither the devices of any stage of eight nor the heads.
    let mut inputs = question(preset("llama3-8b"), machines("h100x8"), Job::new(64, 2048));
    inputs.search.fix = vec!["tp=3".parse().unwrap()];
    let why = refused(&inputs);
    assert!(why.tightest.contains("--fix tp=3") && why.tightest.contains("`decoder"), "{}", why.tightest);
    assert!(why.fixes.iter().any(|f| f.change.contains("--fix tp=3")), "{:?}", why.fixes);
}
