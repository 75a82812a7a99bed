//! A search that was cut, by its budget or by force, goes on as if nothing had happened.

mod search_common;

use espalier::memo::FileError;
use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::checkpoint::Checkpointing;
use espalier::search::erased::Erased;
use espalier::search::mcts::Mcts;
use espalier::search::outcome::Outcome;
use espalier::search::problem::Problem;
use espalier::search::problems::{ChainShape, Knapsack, LayerChain, Salesman};
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use search_common::{Counted, answer, backends, checkpoint, scratch};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn same<S>(a: &Outcome<S>, b: &Outcome<S>, what: &str) {
    assert_eq!(answer(a), answer(b), "{what}");
    assert_eq!(a.trace.improvements, b.trace.improvements, "{what}");
    assert_eq!((a.stop, a.bound, a.counters.requests), (b.stop, b.bound, b.counters.requests), "{what}");
    assert_eq!(a.counters.evaluations, b.counters.evaluations, "{what}");
}

fn halves_make_a_whole<P: Problem + 'static>(problem: P, name: &str) {
    let dir = scratch(name);
    let problem = Counted::new(problem);
    for backend in backends() {
        let name = backend.name();
        let whole = solve(&Erased::new(&problem), &*backend, Request::new(6, Budget::evaluations(900))).unwrap();
        // Backends may plan by their budget: cut the same search by time instead, by way of a stop after 450 evaluations.
        let cut = cut_after(&Erased::new(&problem), &*backend, 450, &dir.join(name));
        problem.calls.store(0, Relaxed);
        let request =
            Request { checkpoint: Some(checkpoint(&dir.join(name))), ..Request::new(6, Budget::evaluations(900)) };
        let resumed = solve(&Erased::new(&problem), &*backend, request).unwrap();
        same(&whole, &resumed, name);
        let paid = problem.calls.load(Relaxed);
        assert!(paid <= whole.counters.evaluations - cut, "{name}: {paid} paid again after {cut}");
        assert!(resumed.wall_s >= 0.0 && resumed.checkpoint_error.is_none(), "{name}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Interrupts a search of 900 evaluations once `n` are done; how many were.
fn cut_after<P: Problem>(problem: &P, backend: &dyn Backend<P>, n: u64, path: &Path) -> u64 {
    let interrupt = espalier::search::budget::Interrupt::default();
    let flag = interrupt.clone();
    let mut observer = |progress: &espalier::search::outcome::Progress<'_>| {
        if progress.evaluations >= n {
            flag.raise();
        }
    };
    let request = Request {
        interrupt,
        observer: Some(&mut observer),
        checkpoint: Some(checkpoint(path)),
        ..Request::new(6, Budget::evaluations(900))
    };
    solve(problem, backend, request).unwrap().counters.evaluations
}

#[test]
fn a_resumed_search_of_a_knapsack_equals_an_uninterrupted_one() {
    halves_make_a_whole(Knapsack::random(25, 2, 3), "knapsack");
}

#[test]
fn a_resumed_search_for_a_tour_equals_an_uninterrupted_one() {
    halves_make_a_whole(Salesman::random(12, 3), "tour");
}

#[test]
fn a_resumed_search_of_a_chain_equals_an_uninterrupted_one() {
    halves_make_a_whole(big_chain(), "chain");
}

fn big_chain() -> LayerChain {
    LayerChain::random(ChainShape { items: 14, options: 6, segments: 3, rounds: 8, tightness: 0.4 }, 2)
}

#[test]
fn a_finished_search_can_be_given_a_larger_budget() {
    let dir = scratch("larger");
    let problem = Counted::new(big_chain());
    for backend in backends() {
        let path = dir.join(backend.name());
        let run = |n, checkpoint| {
            solve(&Erased::new(&problem), &*backend, Request { checkpoint, ..Request::new(6, Budget::evaluations(n)) })
                .unwrap()
        };
        run(300, Some(checkpoint(&path)));
        same(&run(900, None), &run(900, Some(checkpoint(&path))), backend.name());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_time_of_a_resumed_search_counts() {
    let dir = scratch("time");
    let problem = Counted { sleep: Duration::from_millis(5), ..Counted::new(big_chain()) };
    let budget = Budget { max_time: Some(Duration::from_millis(200)), ..Budget::default() };
    let request = || Request { checkpoint: Some(checkpoint(&dir.join("t"))), ..Request::new(1, budget.clone()) };
    let first = solve(&problem, &Random::default(), request()).unwrap();
    let start = Instant::now();
    let second = solve(&problem, &Random::default(), request()).unwrap();
    assert!(start.elapsed() < Duration::from_millis(150), "no time was left: {:?}", start.elapsed());
    assert!(second.counters.evaluations >= first.counters.evaluations);
    assert!(second.wall_s >= 0.2);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_checkpoint_of_another_question_is_refused() {
    let dir = scratch("foreign");
    let path = dir.join("c");
    let problem = big_chain();
    let run = |seed, backend: &dyn Backend<LayerChain>| {
        let checkpoint = Some(checkpoint(&path));
        solve(&problem, backend, Request { checkpoint, ..Request::new(seed, Budget::evaluations(50)) }).map(|_| ())
    };
    run(1, &Random::default()).unwrap();
    assert!(matches!(run(2, &Random::default()), Err(FileError::Namespace { .. })));
    assert!(matches!(run(1, &Mcts::default()), Err(FileError::Namespace { .. })));
    assert!(matches!(run(1, &Random { prior: true, ..Random::default() }), Err(FileError::Namespace { .. })));
    let other = LayerChain::random(ChainShape { segments: 2, ..problem.shape() }, 2);
    let request = Request { checkpoint: Some(checkpoint(&path)), ..Request::new(1, Budget::evaluations(50)) };
    assert!(matches!(solve(&other, &Random::default(), request), Err(FileError::Namespace { .. })));

    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(run(1, &Random::default()), Err(FileError::Damaged { .. })));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_written_does_not_cost_the_answer() {
    let checkpoint =
        Some(Checkpointing { path: "/nonexistent/directory/checkpoint".into(), every: Duration::ZERO, resume: true });
    let request = Request { checkpoint, ..Request::new(1, Budget::evaluations(50)) };
    let outcome = solve(&big_chain(), &Random::default(), request).unwrap();
    assert!(outcome.best.is_some());
    assert!(outcome.checkpoint_error.unwrap().contains("/nonexistent"));
}

const VICTIM: &str = "ESPALIER_TEST_VICTIM";

fn victim_request(path: &Path) -> Request<'static, espalier::search::problems::ChainPlan> {
    Request { checkpoint: Some(checkpoint(path)), ..Request::new(6, Budget::evaluations(2_000)) }
}

/// Not a test of its own: the process that is killed.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let problem = Counted { sleep: Duration::from_millis(1), ..Counted::new(big_chain()) };
    solve(&problem, &Mcts::default(), victim_request(Path::new(&path))).unwrap();
}

#[test]
fn a_killed_search_goes_on_from_its_last_checkpoint() {
    let dir = scratch("killed");
    let path = dir.join("c");
    let this = std::env::current_exe().unwrap();
    let problem = Counted::new(big_chain());
    let whole = solve(&problem, &Mcts::default(), Request::new(6, Budget::evaluations(2_000))).unwrap();
    for _ in 0..3 {
        let mut child = Command::new(&this).args(["victim", "--exact"]).env(VICTIM, &path).spawn().unwrap();
        let start = Instant::now();
        while !path.exists() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(150));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    problem.calls.store(0, Relaxed);
    same(&whole, &solve(&problem, &Mcts::default(), victim_request(&path)).unwrap(), "killed three times");
    assert!(problem.calls.load(Relaxed) < 2_000, "what was paid before the kill is not paid again");
    std::fs::remove_dir_all(dir).unwrap();
}
