//! Work grows with what differs, not with how much of it there is.

mod planning;

use espalier::job::Job;
use espalier::search::decompose::Decompose;
use espalier::search::erased::Erased;
use espalier::search::exact::{ExactOutcome, ExactSettings, solve};
use espalier::search::problem::{Bound, Problem};
use espalier::space::planner::{Inputs, Watch, plan};
use espalier::space::uniform;
use planning::{config, machines, question};

fn like_layers(layers: u32, hidden: u32, machine: &str, batch: u64) -> Inputs {
    let model = config(&format!(
        r#"{{"model_type": "llama", "hidden_size": {hidden}, "intermediate_size": {}, "num_hidden_layers": {layers},
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}}"#,
        hidden * 7 / 2
    ));
    let mut inputs = question(model, machines(machine), Job::new(batch, 2048));
    inputs.search.target_gap = Some(0.05);
    inputs
}

#[test]
fn a_thousand_layers_on_four_thousand_devices_have_a_plan_and_a_bound() {
    let inputs = like_layers(1024, 8192, "h100x8:512", 4096);
    let a = plan(&inputs, Watch::default()).unwrap_or_else(|e| panic!("{e}"));
    let bound = a.bound.expect("a bound");
    println!(
        "1,024 layers, 4,096 devices: {:.3} s, gap {:.3}, 1e{:.0} plans, {:.1} s",
        a.estimate.iteration_time_s, bound.gap, a.space_size_log10, a.search.wall_s
    );
    assert!(a.fits && bound.objective_s > 0.0 && bound.objective_s <= a.estimate.iteration_time_s);
    assert!(a.space_size_log10 > 1000.0);
    assert_eq!(a.plan.chunks.iter().map(|c| c.len()).sum::<usize>(), 1026);
}

fn above(bound: Bound) -> f64 {
    match bound {
        Bound::AtLeast(least) => least,
        Bound::Infeasible => f64::INFINITY,
    }
}

/// What exact search does until the gap is a twentieth, from the same kind of first incumbent as planning.
fn work(layers: u32, fix: &[&str]) -> ExactOutcome {
    let mut inputs = like_layers(layers, 1024, "h100x8", 32);
    inputs.search.fix = fix.iter().map(|c| c.parse().unwrap()).collect();
    let solved = inputs.with_space(|mut space| {
        let uniform = uniform::best(&space, 16, None, &|| false);
        let seeds = uniform::seeds(&space, &uniform);
        space.set_seeds(seeds);
        let settings = ExactSettings { target_gap: 0.05, ..ExactSettings::default() };
        // As planning does it: behind the type that backends are compiled for.
        let erased = Erased::new(&space);
        let tasks = erased.decompose().expect("it falls into tasks");
        for task in 0..space.tasks() {
            assert_eq!(tasks.task_bound(task), space.task_bound(task));
            assert_eq!(tasks.priced_bound(task), space.priced_bound(task));
        }
        assert!((0..space.tasks()).any(|task| above(space.priced_bound(task)) > above(space.task_bound(task))));
        solve(tasks, &settings, &|| false, &mut |_, _| {})
    });
    solved.unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn layers_of_one_class_cost_the_search_little() {
    for fix in [&["vpp=1"][..], &[]] {
        let (few, many) = (work(12, fix), work(768, fix));
        for (n, o) in [(12, &few), (768, &many)] {
            let gap = o.best.as_ref().map(|b| b.value / o.bound - 1.0);
            println!(
                "{n} layers {fix:?}: {} of {} tasks looked at, {} solved, {} steps, gap {gap:?}",
                o.relaxed, o.tasks, o.solved, o.steps
            );
        }
        assert!(many.best.is_some() && few.best.is_some());
        // Few layers may need no look at any chain: then what there is to look at is the measure.
        let looked = if fix.is_empty() { few.tasks } else { few.relaxed.max(1) };
        assert!(many.relaxed <= 4 * looked, "{} tasks against {looked}", many.relaxed);
        assert!(many.steps <= 4 * few.steps.max(1 << 14), "{} steps against {}", many.steps, few.steps);
    }
}
