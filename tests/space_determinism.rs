//! Same question, seed and budget: the same answer and trace for any number of threads, a warm cache or a cold one, and a run
//! in one go or resumed.

mod planning;

use espalier::job::Job;
use espalier::memo::Cache;
use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::checkpoint::Checkpointing;
use espalier::search::exact::backend::Exact;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::outcome::Outcome;
use espalier::search::problem::Fidelity;
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::search::score::Score;
use espalier::space::LayerwiseSpace;
use espalier::space::fast::Choice;
use espalier::space::planner::{Inputs, Watch, plan};
use planning::{cluster, config, machines, question};
use std::time::Duration;

const EVALUATIONS: u64 = 600;

fn questions() -> [(&'static str, Inputs); 2] {
    [
        ("two pairs", question(config(planning::GPT2), cluster(planning::TWO_PAIRS), Job::new(8, 1024))),
        ("experts", question(config(planning::MIXTRAL), machines("a100-40x8:1"), Job::new(16, 2048))),
    ]
}

fn backends<'a>() -> Vec<Box<dyn Backend<LayerwiseSpace<'a>>>> {
    vec![
        Box::new(Exact::default()),
        Box::new(Mcts::default()),
        Box::new(Genetic::default()),
        Box::new(Random::default()),
    ]
}

fn with_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// Everything of an outcome that must not depend on threads or caches.
fn gist(outcome: &Outcome<Choice>) -> String {
    let improvements: Vec<String> = outcome.trace.improvements.iter().map(|i| format!("{i:?}")).collect();
    let archive: Vec<String> = outcome.archive.iter().map(|e| format!("{:?} {:?}", e.key, e.score)).collect();
    let (best, counters) = (outcome.best.as_ref().map(|b| (&b.solution, b.score)), outcome.counters);
    format!(
        "{best:?} {:?} {:?} {} {} {improvements:?} {archive:?}",
        outcome.bound, outcome.stop, counters.evaluations, counters.requests
    )
}

fn request<'c>(cache: Option<&'c Cache<Score>>, evaluations: u64) -> Request<'c, Choice> {
    Request { fidelity: Fidelity::Fast, cache, ..Request::new(7, Budget::evaluations(evaluations)) }
}

#[test]
fn threads_and_caches_change_no_answer() {
    for (name, inputs) in questions() {
        let cache = Cache::default();
        for index in 0..backends().len() {
            let run = |threads: usize, cache: Option<&Cache<Score>>| {
                with_threads(threads, || {
                    // A space of its own, so that its tables are filled by these threads.
                    let run = |space: LayerwiseSpace<'_>| {
                        let backend = backends().swap_remove(index);
                        gist(&solve(&space, backend.as_ref(), request(cache, EVALUATIONS)).unwrap())
                    };
                    inputs.with_space(run).unwrap()
                })
            };
            let first = run(1, None);
            assert!(first.starts_with("Some"), "{name}, backend {index}: nothing found");
            for threads in [2, 8] {
                assert_eq!(first, run(threads, None), "{name}, backend {index}, {threads} threads, cold");
            }
            // Other backends have filled the cache before; the second run finds all of it.
            for _ in 0..2 {
                assert_eq!(first, run(2, Some(&cache)), "{name}, backend {index}, shared cache");
            }
        }
        assert!(cache.counters().hits > 0, "{name}: the cache was never of use");
    }
}

#[test]
fn a_resumed_run_equals_one_in_one_go() {
    let folder = std::env::temp_dir().join(format!("espalier-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, inputs) in questions() {
        let checked = inputs.with_space(|space| {
            for (index, backend) in backends().iter().enumerate() {
                let path = folder.join(format!("{index}.checkpoint"));
                let saving = |resume| Checkpointing { path: path.clone(), every: Duration::ZERO, resume };
                let whole = solve(&space, backend.as_ref(), request(None, EVALUATIONS)).unwrap();
                let part = Request { checkpoint: Some(saving(false)), ..request(None, EVALUATIONS / 3) };
                solve(&space, backend.as_ref(), part).unwrap();
                let rest = Request { checkpoint: Some(saving(true)), ..request(None, EVALUATIONS) };
                let resumed = solve(&space, backend.as_ref(), rest).unwrap();
                // How many children a generation has may follow from the budget, so the first part may differ; what
                // follows from the whole budget does not.
                assert_eq!(gist(&whole), gist(&resumed), "{name}, backend {index}");
            }
        });
        assert_eq!(checked, Ok(()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn planning_gives_one_answer_for_any_number_of_threads() {
    for (name, inputs) in questions() {
        for backend in ["auto", "mcts", "genetic", "random"] {
            let mut inputs = inputs.clone();
            inputs.search.backend = Some(backend.to_owned());
            inputs.search.max_evals = Some(EVALUATIONS);
            inputs.search.seed = 3;
            let run = |threads: usize| {
                with_threads(threads, || {
                    let a = plan(&inputs, Watch::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
                    (a.plan, a.estimate, a.bound, a.alternatives, a.reasons, a.search.evaluations, a.search.requests)
                })
            };
            let first = run(1);
            for threads in [2, 8] {
                assert_eq!(first, run(threads), "{name}, {backend}, {threads} threads");
            }
        }
    }
}
