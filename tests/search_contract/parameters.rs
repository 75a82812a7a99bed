//! Backends with parameters of their own: extremes, programs outside, solved cases, exact windows, integer programs.

use super::{Toy, answer, check, same, search_common};
use espalier::search::budget::{Budget, Interrupt, Stop};
use espalier::search::erased::Erased;
use espalier::search::genome::Decoder;
use espalier::search::problem::{Fidelity, Meeting, Node, Problem};
use espalier::search::problems::{ChainShape, Knapsack, LayerChain, Salesman};
use espalier::search::registry::{Choice, RegistryError, build, entries, largest};
use espalier::search::rules::cases::{Case, CaseBase};
use espalier::search::run::{Request, solve};
use espalier::search::score::Score;
use std::time::{Duration, Instant};

#[test]
fn extreme_parameters_of_every_backend_are_survived() {
    let problem = LayerChain::random(ChainShape { items: 5, options: 4, segments: 2, rounds: 4, tightness: 0.5 }, 3);
    for entry in entries::<Erased<'_>>() {
        let serde_json::Value::Object(all) = (entry.defaults)() else { panic!("{}", entry.name) };
        for (parameter, usual) in all {
            let extremes: Vec<serde_json::Value> = match &usual {
                serde_json::Value::Number(n) if n.is_u64() => {
                    vec![0.into(), 1.into(), 1_000.into(), largest(Some(&usual)).into()]
                }
                serde_json::Value::Number(_) => vec![0.0.into(), 1.0.into(), (-1.0).into(), 1e300.into()],
                serde_json::Value::Bool(b) => vec![(!b).into()],
                _ => continue,
            };
            for extreme in extremes {
                let what = format!("{} {parameter}: {extreme}", entry.name);
                let given = [(parameter.clone(), extreme)].into_iter().collect();
                let backend = (entry.build)(&given).unwrap();
                let outcome =
                    solve(&Erased::new(&problem), &*backend, Request::new(1, Budget::evaluations(60))).unwrap();
                check(&Erased::new(&problem), &outcome, &what);
                assert!(outcome.counters.evaluations <= 60, "{what}");
                // A limit on work may leave none.
                let limits = ["steps", "nodes", "all_steps", "max_steps", "max_labels", "size", "programs"];
                assert!(outcome.best.is_some() || limits.contains(&parameter.as_str()), "{what}");
            }
        }
    }
}

/// A backend by name, with parameters given as JSON.
fn named<'p>(name: &str, parameters: &str) -> Box<dyn espalier::search::backend::Backend<Erased<'p>> + 'p> {
    build(&Choice { backend: name.into(), parameters: serde_json::from_str(parameters).unwrap() }).unwrap()
}

/// Zero at one path of a quarter of a million, ten everywhere else.
fn needle() -> Toy {
    let objective = |path: &[u32]| if path == [7, 3, 5, 1, 6, 2] { 0.0 } else { 10.0 };
    Toy::new(|path| Toy::levels(path, &[8, 8, 8, 8, 8, 8]), objective)
}

fn script(dir: &std::path::Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    format!("sh {}", path.display())
}

#[test]
fn sizes_beyond_measure_and_below_nothing_are_refused_with_their_parameter() {
    for entry in entries::<Erased<'_>>() {
        let serde_json::Value::Object(all) = (entry.defaults)() else { panic!("{}", entry.name) };
        for (parameter, usual) in all.into_iter().filter(|(_, usual)| usual.is_u64()) {
            let beyond = largest(Some(&usual)) + 1;
            for wrong in [beyond.into(), u64::MAX.into(), 1e30.into(), serde_json::Value::from(-1), 0.5.into()] {
                let given = [(parameter.clone(), wrong.clone())].into_iter().collect();
                match (entry.build)(&given).err() {
                    Some(RegistryError::Parameter { field, .. }) => assert_eq!(field, parameter, "{}", entry.name),
                    other => panic!("{} {parameter}: {wrong}: {other:?}", entry.name),
                }
            }
        }
    }
}

#[test]
fn an_integer_program_that_takes_long_ends_with_the_time_and_with_an_interrupt() {
    // More than a minute of one core, undisturbed.
    let long = LayerChain::random(ChainShape { items: 12, options: 8, segments: 4, rounds: 8, tightness: 0.3 }, 1);
    let limit = Duration::from_millis(300);
    let search = |request| {
        let backend = named("integer", r#"{"size": 60000}"#);
        let begun = Instant::now();
        (solve(&Erased::new(&long), &*backend, request).unwrap(), begun.elapsed())
    };
    let budget = Budget { max_time: Some(limit), ..Budget::default() };
    let (outcome, took) = search(Request::new(1, budget));
    assert_eq!((outcome.stop, outcome.refused), (Stop::Deadline, None));
    assert!(took > limit / 2 && took < limit + Duration::from_secs(1), "{took:?}");
    let interrupt = Interrupt::default();
    let flag = interrupt.clone();
    let raised = std::thread::spawn(move || {
        std::thread::sleep(limit);
        flag.raise();
    });
    let (outcome, took) = search(Request { interrupt, ..Request::new(1, Budget::evaluations(50)) });
    raised.join().unwrap();
    assert_eq!(outcome.stop, Stop::Interrupted);
    assert!(took < limit + Duration::from_secs(1), "{took:?}");
    assert!(outcome.bound.is_some_and(|bound| bound > 0.0), "the bound of its relaxation stands");
}

#[test]
fn a_program_outside_is_asked_in_one_line_and_what_it_proposes_is_priced() {
    let dir = search_common::scratch("outside");
    let command = script(
        &dir,
        "advise.sh",
        "read line\n\
         case \"$line\" in\n\
         '{\"schema\":\"espalier/rules/1\",'*'\"diagnosis\":'*'\"best\":{\"path\":['*'\"known\":['*) ;;\n\
         *) echo \"no question: $line\" >&2; exit 3;;\n\
         esac\n\
         echo '{\"paths\": [[9, 9], [7, 3, 5, 1, 6, 2]]}'\n",
    );
    let problem = needle();
    let run = |parameters: &str| {
        solve(&Erased::new(&problem), &*named("rules", parameters), Request::new(1, Budget::evaluations(120))).unwrap()
    };
    let alone = run("{}");
    assert_eq!((answer(&alone).unwrap().0, alone.refused), (Score::Feasible(10.0), None));
    let advised = run(&format!(r#"{{"command": "{command}"}}"#));
    assert_eq!(advised.refused, None);
    assert_eq!(answer(&advised).unwrap().0, Score::Feasible(0.0));
    same(&advised, &run(&format!(r#"{{"command": "{command}"}}"#)), "a program that says the same is reproducible");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_program_outside_that_fails_ends_the_search_in_words() {
    let dir = search_common::scratch("failing");
    let problem = needle();
    let failing = [
        ("exit.sh", "echo out of tokens >&2\nexit 3\n", "exit status: 3): out of tokens"),
        ("late.sh", "exec sleep 20\n", "no answer within 0.3 s"),
        ("empty.sh", "echo hm >&2\necho\nexec sleep 20\n", "still running after 0.3 s): hm"),
        ("closed.sh", "exec sleep 20 >&-\n", "still running after 0.3 s"),
        ("left.sh", "echo\nsleep 20 >&2 &\nexit 3\n", "exit status: 3"),
        ("other.sh", "echo sure, here is a plan\n", "answered `sure, here is a plan`"),
        ("more.sh", "echo '{\"paths\": [], \"why\": 1}'\n", "unknown field `why`"),
    ];
    let commands = failing.map(|(name, text, said)| (script(&dir, name, text), said));
    for (command, said) in commands.into_iter().chain([("/no/such/program".to_owned(), "cannot be started")]) {
        let begun = Instant::now();
        let backend = named("rules", &format!(r#"{{"command": "{command}", "seconds": 0.3}}"#));
        let outcome = solve(&Erased::new(&problem), &*backend, Request::new(1, Budget::evaluations(120))).unwrap();
        let refused = outcome.refused.clone().unwrap();
        assert!(refused.starts_with("rules: command: ") && refused.contains(said), "{command}: {refused}");
        assert!(outcome.stop == Stop::Failed && outcome.best.is_some(), "{command}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{command}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_solved_case_is_where_a_like_problem_begins() {
    let dir = search_common::scratch("cases");
    let chain =
        |seed| LayerChain::random(ChainShape { items: 12, options: 6, segments: 2, rounds: 8, tightness: 0.4 }, seed);
    let (problem, other) = (chain(5), Knapsack::random(8, 1, 1));
    let best = |problem: &LayerChain, parameters: &str, evaluations| {
        let request = Request::new(1, Budget::evaluations(evaluations));
        solve(&Erased::new(problem), &*named("rules", parameters), request).unwrap()
    };
    let solved = best(&problem, "{}", 3_000).best.unwrap();
    let path = solved.path.unwrap().to_vec();
    let objective = solved.score.objective().unwrap();
    let case = Case::of(&problem, "chain", &path, objective).unwrap();
    let (greedy, _) = Decoder::new(&other).greedy().unwrap();
    let unlike = Case::of(&other, "knapsack", &greedy.path(), 1.0).unwrap();
    let mut base = CaseBase::default();
    assert!(base.learn(unlike) && base.learn(case.clone()) && !base.learn(case.clone()));
    assert!(!base.learn(Case { objective: objective + 1.0, ..case.clone() }), "a base only gets better");
    assert!(base.learn(Case { objective: objective - 1.0, ..case.clone() }) && base.cases.len() == 2);
    assert_eq!(base.nearest(&problem, 1)[0].source, "chain");
    let file = dir.join("cases.ron");
    std::fs::write(&file, base.text().unwrap()).unwrap();
    assert_eq!(CaseBase::load(&file).unwrap(), base);
    let parameters = format!(r#"{{"cases": "{}", "nearest": 1}}"#, file.display());
    let begun = best(&problem, &parameters, 1);
    assert_eq!(begun.best.unwrap().score, solved.score, "the first evaluation is the case");
    // Another problem of the kind takes it as far as it goes.
    assert!(best(&chain(6), &parameters, 50).best.unwrap().score.is_feasible());
    std::fs::write(&file, "(schema: \"espalier/cases/1\", cases: [(source: 1)])").unwrap();
    let broken = best(&problem, &parameters, 50);
    let refused = broken.refused.unwrap();
    assert!(broken.stop == Stop::Failed && refused.contains("cases.ron") && refused.contains("cases[0]"), "{refused}");
    std::fs::remove_dir_all(dir).unwrap();
}

fn prefixes_that_meet_are_alike<P: Problem>(problem: &P) {
    use espalier::search::stream::Stream;
    use espalier::search::walk::Walk;
    let mut met: std::collections::BTreeMap<u128, (f64, Vec<u32>)> = std::collections::BTreeMap::new();
    let mut meetings = 0;
    for index in 0..400 {
        let mut stream = Stream::new(3, 0, 0, index);
        let mut walk = Walk::new(problem);
        walk.complete(None, |decision| stream.below(u64::from(decision.options)) as u32);
        let path = walk.path().to_vec();
        for depth in (1..path.len()).rev() {
            walk.back_to(depth);
            let Some(Meeting { key, spent }) = problem.meeting(walk.state()) else { continue };
            let (other, prefix) = met.entry(key).or_insert_with(|| (spent, path[..depth].to_vec())).clone();
            if prefix == path[..depth] {
                continue;
            }
            meetings += 1;
            // The same completion costs as much more as was spent more.
            let end = |prefix: &[u32], rest: &[u32]| {
                let mut walk = Walk::new(problem);
                prefix.iter().chain(rest).for_each(|option| walk.push(*option));
                assert_eq!(walk.node(), Node::Complete);
                problem.score(&walk.solution(), Fidelity::Exact)
            };
            let (a, b) = (end(&path[..depth], &path[depth..]), end(&prefix, &path[depth..]));
            match (a, b) {
                (Score::Feasible(a), Score::Feasible(b)) => {
                    assert!(((a - b) - (spent - other)).abs() < 1e-9, "{a} {b} {spent} {other}");
                }
                (Score::Infeasible(_), Score::Infeasible(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(meetings > 20, "{meetings}");
}

#[test]
fn of_prefixes_that_meet_only_the_cheapest_needs_to_go_on() {
    prefixes_that_meet_are_alike(&Salesman::random(6, 2));
    prefixes_that_meet_are_alike(&Knapsack::random(9, 1, 2));
    prefixes_that_meet_are_alike(&LayerChain::random(
        ChainShape { items: 5, options: 3, segments: 1, rounds: 4, tightness: 0.5 },
        3,
    ));
    let problem = Salesman::random(9, 4);
    let optimum = search_common::enumerate(&problem);
    let run = |name: &str| {
        solve(&Erased::new(&problem), &*named(name, "{}"), Request::new(1, Budget::evaluations(60_000))).unwrap()
    };
    let (plain, meeting) = (run("mcts"), run("mcts.transposition"));
    assert_eq!((answer(&meeting).unwrap().0, meeting.gap()), (optimum, Some(0.0)));
    let (few, many) = (meeting.counters.evaluations, plain.counters.evaluations);
    println!("{few} evaluations with meetings, {many} without");
    assert!(few < many, "{few} {many}");
}

#[test]
fn windows_solved_exactly_come_closer_and_are_paid_in_look_ups() {
    let problem = LayerChain::random(ChainShape { items: 48, options: 12, segments: 3, rounds: 8, tightness: 0.4 }, 3);
    let run = |name: &str| {
        solve(&Erased::new(&problem), &*named(name, "{}"), Request::new(1, Budget::evaluations(800))).unwrap()
    };
    let (drawn, solved) = (run("neighbourhood"), run("neighbourhood.exact"));
    println!("{:?} {:?} {}", answer(&drawn).unwrap().0, answer(&solved).unwrap().0, solved.counters.lookups);
    assert!(answer(&solved).unwrap().0 < answer(&drawn).unwrap().0);
    assert!(drawn.counters.lookups == 0 && solved.counters.lookups > 1_000);
}
