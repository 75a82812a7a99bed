//! Every plan of a space, one by one: the yardstick of exact search. No dynamic programming and no dominance; what is left
//! out is what partial sums already rule out, and the second of two plans that differ only in the order of like layers.
#![allow(dead_code, reason = "every test file uses its own part")]

use espalier::estimate::closed::{ClosedForm, StageCost};
use espalier::plan::{LayerStrategy, Layout, Plan};
use espalier::space::LayerwiseSpace;
use espalier::space::strategies::{self, Divisors};
use espalier::units::Seconds;

/// What enumeration finds.
#[derive(Debug, Clone)]
pub struct Truth {
    /// Least closed form of a plan that fits.
    pub closed: f64,
    /// Least simulated time of a plan that fits, if it was asked for.
    pub simulated: f64,
    /// The plan of that time.
    pub plan: Option<Plan>,
    /// Complete plans looked at.
    pub leaves: u64,
}

/// One way to place a part.
struct Choice {
    strategy: LayerStrategy,
    layout: usize,
    forward: f64,
    backward: f64,
    reduce: f64,
    tail: f64,
    fixed: f64,
    scaled: f64,
    peak: f64,
}

#[derive(Clone, Copy, Default)]
struct Stage {
    cost: StageCost,
    used: f64,
    peak: f64,
}

/// One choice of the outer decisions.
struct Frame<'t> {
    task: usize,
    p: usize,
    v: usize,
    m: f64,
    cap: f64,
    form: ClosedForm,
    choices: Vec<Vec<Choice>>,
    layouts: usize,
    /// `[class][from * layouts + to]`.
    reshard: Vec<Vec<f64>>,
    /// `[stage][class][layout]`.
    hop: Vec<Vec<Vec<f64>>>,
    beside: f64,
    live: Vec<Vec<f64>>,
    split: Option<&'t [u32]>,
    /// Least work of the parts from here on.
    rest: Vec<f64>,
    /// The same with everything that one stage pays: `m (F + B)`, reduction and tail.
    rest_in_all: Vec<f64>,
    /// Least memory of the parts from here on, on the last stage.
    rest_used: Vec<f64>,
}

impl Choice {
    fn in_all(&self, m: f64) -> f64 {
        m * (self.forward + self.backward) + self.reduce + self.tail
    }
}

struct Search<'s, 'a> {
    space: &'s LayerwiseSpace<'a>,
    /// Whether the simulated optimum is looked for as well.
    simulate: bool,
    truth: Truth,
    stages: Vec<Stage>,
    picks: Vec<usize>,
    sizes: Vec<u32>,
}

/// Which strategies are tried, by task and class.
type Tried<'f> = dyn Fn(usize, usize, &LayerStrategy) -> bool + 'f;

/// Enumerates `space`; with `simulate` until the simulated optimum is certain too.
pub fn enumerate(space: &LayerwiseSpace<'_>, simulate: bool) -> Truth {
    run(space, simulate, &|_, _, _| true)
}

/// Enumerates those plans of `space` whose strategies `tried` admits, by their closed form.
pub fn enumerate_only(space: &LayerwiseSpace<'_>, tried: &Tried<'_>) -> Truth {
    run(space, false, tried)
}

fn run(space: &LayerwiseSpace<'_>, simulate: bool, tried: &Tried<'_>) -> Truth {
    let truth = Truth { closed: f64::INFINITY, simulated: f64::INFINITY, plan: None, leaves: 0 };
    let mut search = Search { space, simulate, truth, stages: Vec::new(), picks: Vec::new(), sizes: Vec::new() };
    let mut tasks: Vec<usize> = (0..space.tasks.len()).collect();
    // Tasks that may be good first: what they give rules out more of the others.
    tasks.sort_by(|a, b| space.task_floor(*a).total_cmp(&space.task_floor(*b)));
    for task in tasks {
        if let Some(frame) = Frame::new(space, task, tried) {
            search.stages = vec![Stage::default(); frame.p];
            search.chunk(&frame, 0, 0, 0.0);
        }
    }
    search.truth
}

impl<'t> Frame<'t> {
    fn new(space: &'t LayerwiseSpace<'_>, task: usize, tried: &Tried<'_>) -> Option<Self> {
        let estimator = &space.estimator;
        let (key, mesh) = (&space.tasks[task], space.frame(task));
        let mut layouts: Vec<Layout> = Vec::new();
        let mut choices = Vec::new();
        for (index, class) in estimator.spine.classes.iter().enumerate() {
            let experts = Divisors::of(class, estimator.job).experts > 0;
            let mut list: Vec<Choice> = Vec::new();
            strategies::enumerate(class, estimator.job, mesh, &mut |plain, zeros, recomputes| {
                let all = zeros.iter().flat_map(|z| recomputes.iter().map(move |r| (*z, *r)));
                for strategy in all.map(|(zero, recompute)| LayerStrategy { zero, recompute, ..plain }) {
                    if !space.allows(&strategy, class, experts, mesh) || !tried(task, index, &strategy) {
                        continue;
                    }
                    let layout = strategy.layout();
                    let known = layouts.iter().position(|l| *l == layout);
                    let layout = known.unwrap_or_else(|| {
                        layouts.push(layout);
                        layouts.len() - 1
                    });
                    let price = estimator.pricer.price(class, &strategy, mesh);
                    list.push(Choice {
                        strategy,
                        layout,
                        forward: price.forward.total().0,
                        backward: price.backward.total().0,
                        reduce: price.reduce.0,
                        tail: price.optimizer.0 + price.gather.0,
                        fixed: price.states.total().0,
                        scaled: price.activations.0,
                        peak: price.transient.0,
                    });
                }
            });
            let m = key.micro_batches as f64;
            list.sort_by(|a, b| a.in_all(m).total_cmp(&b.in_all(m)));
            choices.push(list);
        }
        if choices.iter().any(Vec::is_empty) {
            return None;
        }
        let pricer = &estimator.pricer;
        let pairs = || layouts.iter().flat_map(|from| layouts.iter().map(move |to| (*from, *to)));
        let classes = &estimator.spine.classes;
        let reshard = classes.iter().map(|c| pairs().map(|(a, b)| pricer.reshard(c, a, b, mesh).0).collect()).collect();
        let hop_of = |stage, class| layouts.iter().map(|l| pricer.hop(class, *l, mesh, stage).0).collect();
        let hop = (0..u64::from(key.pipeline)).map(|s| classes.iter().map(|c| hop_of(s, c)).collect()).collect();
        let parts = &estimator.spine.parts;
        let (m, live) = (key.micro_batches as f64, space.live(task));
        let last = live[key.pipeline as usize - 1][0];
        let sums = |least: &dyn Fn(&Choice) -> f64| {
            let mut rest = vec![0.0; parts.len() + 1];
            for i in (0..parts.len()).rev() {
                let of_part = choices[parts[i] as usize].iter().map(least);
                rest[i] = rest[i + 1] + of_part.fold(f64::INFINITY, f64::min);
            }
            rest
        };
        let rest = sums(&|c| c.forward + c.backward);
        let rest_in_all = sums(&|c| c.in_all(m));
        let rest_used = sums(&|c| c.fixed + last * c.scaled);
        Some(Self {
            task,
            p: key.pipeline as usize,
            v: key.chunks as usize,
            m,
            cap: estimator.allocatable(),
            form: space.closed_form(task),
            choices,
            layouts: layouts.len(),
            reshard,
            hop,
            beside: pricer.hop_interference(Seconds(1.0)).0,
            live,
            split: key.split.as_deref(),
            rest,
            rest_in_all,
            rest_used,
        })
    }
}

impl Search<'_, '_> {
    /// Plans slower than this by their closed form need not be looked at.
    fn limit(&self) -> f64 {
        if self.simulate { self.truth.simulated } else { self.truth.closed }
    }

    /// Chunk `x` begins with part `i`; `before` is the work of the stages in front of it (plain 1F1B).
    fn chunk(&mut self, k: &Frame<'_>, x: usize, i: usize, before: f64) {
        let parts = self.space.estimator.spine.parts.len();
        let chunks = k.p * k.v;
        if x == chunks {
            return self.leaf(k);
        }
        let (least, most) = match k.split {
            Some(split) => (split[x] as usize, split[x] as usize),
            None if x + 1 == chunks => (parts - i, parts - i),
            None => (1, parts - i - (chunks - x - 1)),
        };
        self.part(k, x, (i, least, most), i, before, None);
    }

    fn leaf(&mut self, k: &Frame<'_>) {
        self.truth.leaves += 1;
        let costs: Vec<StageCost> = self.stages.iter().map(|s| s.cost).collect();
        let time = k.form.iteration(&costs);
        if time >= self.limit().max(self.truth.closed) {
            return;
        }
        let parts = &self.space.estimator.spine.parts;
        let strategy_of = |part: u32| k.choices[parts[part as usize] as usize][self.picks[part as usize]].strategy;
        if !self.simulate && k.v == 1 {
            self.truth.closed = self.truth.closed.min(time);
            self.truth.plan = Some(self.space.plan(k.task, &self.sizes, &strategy_of));
            return;
        }
        let plan = self.space.plan(k.task, &self.sizes, &strategy_of);
        let estimate = self.space.estimator.estimate(&plan).unwrap_or_else(|e| panic!("{e}"));
        assert!((estimate.closed_form_s / time - 1.0).abs() < 1e-9, "{} is not {time}", estimate.closed_form_s);
        if estimate.fits {
            self.truth.closed = self.truth.closed.min(time);
            if estimate.iteration_time_s < self.truth.simulated {
                (self.truth.simulated, self.truth.plan) = (estimate.iteration_time_s, Some(plan));
            }
        }
    }

    /// Places part `i` of chunk `x`, which began with part `start` and holds `least` to `most` parts.
    fn part(
        &mut self,
        k: &Frame<'_>,
        x: usize,
        (start, least, most): (usize, usize, usize),
        i: usize,
        before: f64,
        behind: Option<usize>,
    ) {
        let s = x % k.p;
        if i - start >= least {
            let work = self.stages[s].cost.forward + self.stages[s].cost.backward;
            self.sizes.push((i - start) as u32);
            self.chunk(k, x + 1, i, before + work);
            self.sizes.pop();
        }
        if i - start >= most {
            return;
        }
        let parts = &self.space.estimator.spine.parts;
        let class = parts[i] as usize;
        let like = (i > start && parts[i - 1] == parts[i]).then(|| self.picks[i - 1]);
        let saved = self.stages[s];
        for (id, choice) in k.choices[class].iter().enumerate() {
            // Like layers of one layout beside each other may change places.
            if like.is_some_and(|l| id < l && k.choices[class][l].layout == choice.layout) {
                continue;
            }
            let Some(stage) = self.with(k, x, class, choice, behind) else { continue };
            self.stages[s] = stage;
            if self.may_win(k, s, i + 1, before) {
                self.picks.push(id);
                self.part(k, x, (start, least, most), i + 1, before, Some(choice.layout));
                self.picks.pop();
            }
            self.stages[s] = saved;
        }
    }

    /// The stage of chunk `x` with one more part; `None` when it does not fit.
    fn with(&self, k: &Frame<'_>, x: usize, class: usize, choice: &Choice, behind: Option<usize>) -> Option<Stage> {
        let (s, c) = (x % k.p, x / k.p);
        let mut stage = self.stages[s];
        let mut more = 0.0;
        match behind {
            Some(layout) if layout != choice.layout => {
                more = k.reshard[class][layout * k.layouts + choice.layout];
            }
            None if x > 0 => {
                let hop = k.hop[s][class][choice.layout];
                more = hop * k.beside;
                stage.cost.hop += hop;
                if c == 0 {
                    stage.cost.lead_hop = hop;
                }
            }
            _ => {}
        }
        let (forward, backward) = (choice.forward + more, choice.backward + more);
        stage.cost.forward += forward;
        stage.cost.backward += backward;
        stage.cost.reduce += choice.reduce;
        stage.cost.tail += choice.tail;
        if k.v > 1 && c == 0 {
            stage.cost.lead_forward += forward;
            stage.cost.lead_backward += backward;
        }
        stage.used += choice.fixed + k.live[s][c] * choice.scaled;
        stage.peak = stage.peak.max(choice.peak);
        (stage.used + stage.peak <= k.cap).then_some(stage)
    }

    /// Whether the plan begun may still be below the limit. A step takes at least `m w` of every stage and, in plain 1F1B,
    /// one micro-batch through all stages in front of it; the stages to come share at least the least work of their parts.
    fn may_win(&self, k: &Frame<'_>, s: usize, next: usize, before: f64) -> bool {
        let work = |s: &Stage| s.cost.forward + s.cost.backward;
        let stage = &self.stages[s];
        if k.v == 1 && s + 1 == k.p && stage.used + k.rest_used[next] + stage.peak > k.cap {
            return false;
        }
        let busy = if k.v > 1 {
            let all: f64 = self.stages.iter().map(work).sum();
            k.m * work(stage).max((all + k.rest[next]) / k.p as f64) + stage.cost.tail
        } else if k.p == 1 {
            k.m * work(stage) + stage.cost.reduce + stage.cost.tail + k.rest_in_all[next]
        } else {
            let shared = (work(stage) + k.rest[next]) / (k.p - s) as f64;
            before + k.m * work(stage).max(shared) + stage.cost.tail
        };
        k.form.jitter * busy < self.limit()
    }
}

/// Complete paths of the tree as a decimal logarithm, memory aside, and the most strategies that one layer has.
pub fn paths(space: &LayerwiseSpace<'_>) -> (f64, usize) {
    let parts = &space.estimator.spine.parts;
    let (mut total, mut most) = (0.0, 0);
    for (task, key) in space.tasks.iter().enumerate() {
        let Some(table) = space.table(task) else { continue };
        let ways: f64 = parts.iter().map(|c| table.classes[*c as usize].options.len() as f64).product();
        let (n, p) = (parts.len() as u64 - 1, u64::from(key.pipeline) - 1);
        let cuts = if key.split.is_some() { 1.0 } else { (0..p).map(|i| (n - i) as f64 / (i + 1) as f64).product() };
        total += ways * cuts;
        most = most.max(table.classes.iter().map(|c| c.options.len()).max().unwrap_or(0));
    }
    (total.log10(), most)
}
