//! Two fidelities of one model: the closed form never exceeds the simulation, and table look-ups give the closed form.

mod planning;

use espalier::estimate::closed::ClosedForm;
use espalier::job::Job;
use espalier::plan::LayerStrategy;
use espalier::search::decompose::{Decompose, FixedItem};
use espalier::search::exact::round::segment_cost;
use espalier::search::problem::{Bound, Node, Problem};
use espalier::space::LayerwiseSpace;
use espalier::space::fast::Choice;
use espalier::space::planner::Inputs;
use espalier::space::strategies;
use planning::{cluster, config, machines, question};

/// Rounding of sums in another order.
const ROUNDING: f64 = 1e-9;

/// Questions that between them have every kind of part, link and stage.
fn questions() -> Vec<(&'static str, Inputs)> {
    let job = |global_batch, sequence| Job::new(global_batch, sequence);
    let pairs = cluster(planning::TWO_PAIRS);
    vec![
        ("gpt2 on two pairs", question(config(planning::GPT2), pairs.clone(), job(8, 1024))),
        ("tied llama on a slow link", question(config(planning::TIED_LLAMA), pairs, job(24, 2048))),
        ("mixtral on a node", question(config(planning::MIXTRAL), machines("a100-40x8:1"), job(16, 2048))),
        ("deepseek with MTP on two nodes", question(config(planning::DEEPSEEK), machines("h100x8:2"), job(32, 2048))),
        (
            "encoder and decoder",
            question(config(planning::T5), machines("v100x8:1"), {
                Job { encoder_sequence: Some(512), precision: espalier::job::Precision::Fp16, ..job(24, 256) }
            }),
        ),
    ]
}

struct Dice(u64);

impl Dice {
    /// SplitMix64 (Steele 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Sizes of the chunks of `task`: its own, or cuts at random.
fn sizes(space: &LayerwiseSpace<'_>, task: usize, dice: &mut Dice) -> Vec<u32> {
    let key = &space.tasks[task];
    if let Some(split) = &key.split {
        return split.clone();
    }
    let parts = space.estimator.spine.parts.len();
    let mut cuts: Vec<usize> = (1..parts).collect();
    while cuts.len() + 1 > key.pipeline as usize {
        cuts.remove(dice.below(cuts.len()));
    }
    let ends = cuts.iter().copied().chain([parts]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(a, b)| (b - a) as u32).collect()
}

/// Options of all parts: at random, in runs of random length so that stages are neither all alike nor all different.
fn options(classes: &[u32], count: impl Fn(usize) -> usize, dice: &mut Dice) -> Vec<u16> {
    let mut options = Vec::with_capacity(classes.len());
    let mut held: Vec<(usize, usize)> = Vec::new();
    for class in classes {
        let class = *class as usize;
        held.resize(held.len().max(class + 1), (0, 0));
        if held[class].1 == 0 {
            held[class] = (dice.below(count(class)), 1 + dice.below(4));
        }
        held[class].1 -= 1;
        options.push(held[class].0 as u16);
    }
    options
}

/// Objective of `choice` by the chain that exact methods solve.
fn by_chain(space: &LayerwiseSpace<'_>, choice: &Choice) -> f64 {
    let task = choice.task as usize;
    let chain = space.chain(task).unwrap();
    let (p, v) = (space.tasks[task].pipeline as usize, space.tasks[task].chunks as usize);
    let ranges = LayerwiseSpace::chunk_ranges(&choice.sizes);
    let mut state = chain.combine.start();
    for s in (0..p).rev() {
        let mut items = Vec::new();
        for c in 0..v {
            let range = ranges[c * p + s].clone();
            let first = range.start;
            items.extend(range.map(|item| FixedItem {
                item,
                multiplier: 1.0,
                lead: v > 1 && c == 0,
                follows: item > first,
            }));
        }
        let taken: Vec<u32> = items.iter().map(|i| u32::from(choice.options[i.item as usize])).collect();
        state = chain.combine.push(&state, s, &segment_cost(&chain, s, &items, &taken));
    }
    chain.combine.finish(&state)
}

/// One random plan of the tables of `inputs`, held against every other way to price it.
fn check_tabled(name: &str, space: &LayerwiseSpace<'_>, seed: u64) {
    let mut dice = Dice(seed);
    let task = dice.below(space.tasks.len());
    let Some(frame) = space.fast(task) else { return };
    let sizes = sizes(space, task, &mut dice);
    let classes = &space.estimator.spine.parts;
    let options = options(classes, |class| frame.table().classes[class].options.len(), &mut dice);
    let choice = Choice { task: task as u32, sizes: sizes.into(), options: options.into() };
    let plan = space.plan_of(&choice);
    let estimate = space.estimator.estimate(&plan).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (fast, excess) = frame.price(&choice.sizes, &choice.options);
    let what = || format!("{name}, task {:?}, seed {seed}", space.tasks[task]);
    assert!(
        (fast / estimate.closed_form_s - 1.0).abs() <= ROUNDING,
        "{}: {fast} by table, {} by closed form",
        what(),
        estimate.closed_form_s
    );
    assert!(
        estimate.closed_form_s <= estimate.iteration_time_s * (1.0 + ROUNDING),
        "{}: closed form {} above the simulation's {}",
        what(),
        estimate.closed_form_s,
        estimate.iteration_time_s
    );
    let chain = by_chain(space, &choice);
    assert!(chain <= fast * (1.0 + ROUNDING), "{}: chain {chain} above {fast}", what());
    assert!(!estimate.fits || excess <= ROUNDING, "{}: fits, but the table sees {excess} too much", what());
    if space.tasks[task].chunks == 1 {
        let both = (estimate.peak_memory_bytes / estimate.usable_memory_bytes - 1.0).abs() < ROUNDING;
        assert!(both || estimate.fits == (excess <= 0.0), "{}: table and estimate differ on memory", what());
    }
    let floor = space.task_floor(task);
    assert!(floor <= fast * (1.0 + ROUNDING), "{}: floor {floor} above {fast}", what());
}

/// One random plan of strategies that need not be in any table.
fn check_any(name: &str, space: &LayerwiseSpace<'_>, seed: u64) {
    let mut dice = Dice(seed);
    let task = dice.below(space.tasks.len());
    let mesh = space.frame(task);
    let estimator = &space.estimator;
    let mut every: Vec<Vec<LayerStrategy>> = Vec::new();
    for class in &estimator.spine.classes {
        let mut list = Vec::new();
        strategies::enumerate(class, estimator.job, mesh, &mut |plain, zeros, recomputes| {
            for &zero in zeros {
                list.extend(recomputes.iter().map(|&recompute| LayerStrategy { zero, recompute, ..plain }));
            }
        });
        every.push(list);
    }
    if every.iter().any(Vec::is_empty) {
        return;
    }
    let sizes = sizes(space, task, &mut dice);
    let classes = &estimator.spine.parts;
    let options = options(classes, |class| every[class].len(), &mut dice);
    let strategy_of = |part: u32| every[classes[part as usize] as usize][options[part as usize] as usize];
    let plan = space.plan(task, &sizes, &strategy_of);
    let e = estimator.estimate(&plan).unwrap_or_else(|e| panic!("{name}: {e}"));
    let what = || format!("{name}, task {:?}, seed {seed}", space.tasks[task]);
    assert!(e.iteration_time_s.is_finite() && e.iteration_time_s > 0.0, "{}", what());
    assert!(
        e.closed_form_s <= e.iteration_time_s * (1.0 + ROUNDING),
        "{}: closed form {} above the simulation's {}",
        what(),
        e.closed_form_s,
        e.iteration_time_s
    );
    assert!(space.task_floor(task) <= e.closed_form_s * (1.0 + ROUNDING), "{}: floor above the plan", what());
}

/// One random path down the tree: no bound on the way exceeds what stands at its end.
fn check_bounds(name: &str, space: &LayerwiseSpace<'_>, seed: u64) {
    let mut dice = Dice(seed);
    let mut state = space.root();
    let mut bounds = Vec::new();
    loop {
        match space.bound(&state) {
            Bound::AtLeast(b) => bounds.push(b),
            Bound::Infeasible => bounds.push(f64::INFINITY),
        }
        match space.node(&state) {
            Node::Complete => break,
            Node::DeadEnd(_) => return,
            Node::Choose { options, .. } => space.push(&mut state, dice.below(options as usize) as u32),
        }
    }
    let choice = space.solution(&state);
    let score = space.score(&choice, espalier::search::problem::Fidelity::Fast);
    let Some(objective) = score.objective() else { return };
    let highest = bounds.iter().copied().fold(0.0, f64::max);
    assert!(highest <= objective * (1.0 + ROUNDING), "{name}: bound {highest} above {objective}, seed {seed}");
}

fn on_every_question(plans: u64, check: impl Fn(&str, &LayerwiseSpace<'_>, u64)) {
    for (name, inputs) in questions() {
        let checked = inputs.with_space(|space| (0..plans).for_each(|seed| check(name, &space, seed)));
        assert_eq!(checked, Ok(()));
    }
}

#[test]
fn tables_give_the_closed_form_and_the_simulation_never_undercuts_it() {
    on_every_question(4000, check_tabled);
}

#[test]
fn the_closed_form_never_exceeds_the_simulation_of_any_strategies() {
    on_every_question(1500, check_any);
}

#[test]
fn no_bound_on_the_way_down_exceeds_what_stands_at_the_end() {
    on_every_question(1500, check_bounds);
}

#[test]
fn equal_stages_without_hops_take_the_textbook_time() {
    for (p, v, m) in [(4u32, 1u32, 8u64), (4, 2, 8), (8, 4, 32), (2, 1, 2), (1, 1, 5)] {
        let form = ClosedForm::new(p, v, m, 1.0);
        let (f, b) = (1.0, 2.0);
        let stage = espalier::estimate::closed::StageCost {
            forward: f * f64::from(v),
            backward: b * f64::from(v),
            lead_forward: if v > 1 { f } else { 0.0 },
            lead_backward: if v > 1 { b } else { 0.0 },
            ..Default::default()
        };
        let time = form.iteration(&vec![stage; p as usize]);
        let textbook = (f + b) * (m as f64 * f64::from(v) + f64::from(p) - 1.0);
        assert!((time / textbook - 1.0).abs() < 1e-12, "p {p} v {v} m {m}: {time} against {textbook}");
    }
}
