mod planning;

use espalier::estimate::closed::{ClosedForm, StageCost};
use espalier::job::Job;
use espalier::plan::{LayerStrategy, Layout, PartKind};
use espalier::search::backend::Backend;
use espalier::search::budget::Budget;
use espalier::search::exact::backend::Exact;
use espalier::search::genetic::Genetic;
use espalier::search::mcts::Mcts;
use espalier::search::problem::Fidelity;
use espalier::search::random::Random;
use espalier::search::run::{Request, solve};
use espalier::space::LayerwiseSpace;
use espalier::space::planner::Inputs;
use espalier::space::strategies::{self, Divisors};
use planning::{cluster, config, question};

struct Opt {
    s: LayerStrategy,
    layout: usize,
    f: f64,
    b: f64,
    reduce: f64,
    tail: f64,
    fixed: f64,
    scaled: f64,
    peak: f64,
}

struct Brute<'s, 'a> {
    space: &'s LayerwiseSpace<'a>,
    fast: f64,
    exact: f64,
    best: Option<espalier::plan::Plan>,
    leaves: u64,
    sims: u64,
    nodes: u64,
}

struct Task<'t> {
    t: usize,
    p: usize,
    v: usize,
    m: f64,
    cap: f64,
    form: ClosedForm,
    opts: Vec<Vec<Opt>>,
    reshard: Vec<Vec<f64>>,
    n: usize,
    hop: Vec<Vec<Vec<f64>>>,
    beside: f64,
    live: Vec<Vec<f64>>,
    split: Option<&'t [u32]>,
    rest: Vec<f64>,
    jitter: f64,
}

#[derive(Clone, Copy, Default)]
struct St {
    c: StageCost,
    used: f64,
    peak: f64,
}

impl Brute<'_, '_> {
    fn task(&mut self, t: usize) {
        let space = self.space;
        let e = &space.estimator;
        let mesh = space.frame(t);
        let key = &space.tasks[t];
        let mut layouts: Vec<Layout> = vec![];
        let mut opts = vec![];
        for class in &e.spine.classes {
            let experts = Divisors::of(class, e.job).experts > 0;
            let mut list: Vec<Opt> = vec![];
            strategies::enumerate(class, e.job, mesh, &mut |s| {
                if !space.allows(&s, class, experts, mesh) {
                    return;
                }
                let l = s.layout();
                let layout = layouts.iter().position(|x| *x == l).unwrap_or_else(|| {
                    layouts.push(l);
                    layouts.len() - 1
                });
                let x = e.pricer.price(class, &s, mesh);
                let o = Opt {
                    s,
                    layout,
                    f: x.forward.total().0,
                    b: x.backward.total().0,
                    reduce: x.reduce.0,
                    tail: x.optimizer.0 + x.gather.0,
                    fixed: x.states.total().0,
                    scaled: x.activations.0,
                    peak: x.transient.0,
                };
                list.push(o);
            });
            if list.is_empty() {
                return;
            }
            list.sort_by(|a, b| (a.f + a.b).total_cmp(&(b.f + b.b)));
            opts.push(list);
        }
        let n = layouts.len();
        let reshard = e
            .spine
            .classes
            .iter()
            .map(|c| {
                layouts
                    .iter()
                    .flat_map(|a| layouts.iter().map(move |b| (a, b)))
                    .map(|(a, b)| e.pricer.reshard(c, *a, *b, mesh).0)
                    .collect()
            })
            .collect();
        let hop = (0..key.pipeline)
            .map(|s| {
                e.spine
                    .classes
                    .iter()
                    .map(|c| layouts.iter().map(|l| e.pricer.hop(c, *l, mesh, u64::from(s)).0).collect())
                    .collect()
            })
            .collect();
        let parts = &e.spine.parts;
        let mut rest = vec![0.0; parts.len() + 1];
        for i in (0..parts.len()).rev() {
            let o = &opts[parts[i] as usize][0];
            rest[i] = rest[i + 1] + o.f + o.b;
        }
        let task = Task {
            t,
            p: key.pipeline as usize,
            v: key.chunks as usize,
            m: key.micro_batches as f64,
            cap: e.allocatable(),
            form: space.closed_form(t),
            opts,
            reshard,
            n,
            hop,
            beside: e.pricer.hop_interference(espalier::units::Seconds(1.0)).0,
            live: space.live(t),
            split: key.split.as_deref(),
            rest,
            jitter: e.jitter(),
        };
        let mut stages = vec![St::default(); task.p];
        let mut picks = vec![];
        let mut sizes = vec![];
        self.chunk(&task, 0, 0, 0.0, &mut stages, &mut picks, &mut sizes);
    }

    #[allow(clippy::too_many_arguments)]
    fn chunk(
        &mut self,
        k: &Task,
        x: usize,
        i: usize,
        before: f64,
        stages: &mut Vec<St>,
        picks: &mut Vec<usize>,
        sizes: &mut Vec<u32>,
    ) {
        let parts = self.space.estimator.spine.parts.len();
        let chunks = k.p * k.v;
        if x == chunks {
            if i < parts {
                return;
            }
            self.leaves += 1;
            let costs: Vec<StageCost> = stages.iter().map(|s| s.c).collect();
            let time = k.form.iteration(&costs);
            self.fast = self.fast.min(time);
            if time < self.exact {
                self.sims += 1;
                let strategy = |part: u32| {
                    k.opts[self.space.estimator.spine.parts[part as usize] as usize][picks[part as usize]].s
                };
                let plan = self.space.plan(k.t, sizes, &strategy);
                let est = self.space.estimator.estimate(&plan).unwrap();
                assert!((est.closed_form_s / time - 1.0).abs() < 1e-9);
                if est.fits && est.iteration_time_s < self.exact {
                    self.exact = est.iteration_time_s;
                    self.best = Some(plan);
                }
            }
            return;
        }
        let (least, most) = match k.split {
            Some(split) => (split[x] as usize, split[x] as usize),
            None if x + 1 == chunks => (parts - i, parts - i),
            None => (1, parts - i - (chunks - x - 1)),
        };
        self.part(k, x, i, i, least, most, before, usize::MAX, stages, picks, sizes);
    }

    #[allow(clippy::too_many_arguments)]
    fn part(
        &mut self,
        k: &Task,
        x: usize,
        start: usize,
        i: usize,
        least: usize,
        most: usize,
        before: f64,
        layout: usize,
        stages: &mut Vec<St>,
        picks: &mut Vec<usize>,
        sizes: &mut Vec<u32>,
    ) {
        self.nodes += 1;
        let s = x % k.p;
        if i - start >= least {
            sizes.push((i - start) as u32);
            let w = stages[s].c.forward + stages[s].c.backward;
            self.chunk(k, x + 1, i, before + w, stages, picks, sizes);
            sizes.pop();
        }
        if i - start >= most {
            return;
        }
        let class = self.space.estimator.spine.parts[i] as usize;
        let same = i > start && self.space.estimator.spine.parts[i - 1] as usize == class;
        let saved = stages[s];
        for (id, o) in k.opts[class].iter().enumerate() {
            // Neighbours of one class and layout in one chunk commute.
            if same && k.opts[class][*picks.last().unwrap()].layout == o.layout && id < *picks.last().unwrap() {
                continue;
            }
            let mut st = saved;
            let (mut f, mut b) = (o.f, o.b);
            if layout == usize::MAX {
                if x > 0 {
                    let hop = k.hop[s][class][o.layout];
                    f += hop * k.beside;
                    b += hop * k.beside;
                    st.c.hop += hop;
                    if x < k.p {
                        st.c.lead_hop = hop;
                    }
                }
            } else if layout != o.layout {
                let r = k.reshard[class][layout * k.n + o.layout];
                f += r;
                b += r;
            }
            st.c.forward += f;
            st.c.backward += b;
            st.c.reduce += o.reduce;
            st.c.tail += o.tail;
            if k.v > 1 && x < k.p {
                st.c.lead_forward += f;
                st.c.lead_backward += b;
            }
            st.used += o.fixed + k.live[s][x / k.p] * o.scaled;
            st.peak = st.peak.max(o.peak);
            if st.used + st.peak > k.cap {
                continue;
            }
            let w = st.c.forward + st.c.backward;
            let bound = if k.v == 1 {
                let left = (k.p - s) as f64;
                (before + k.m * w).max(before + k.m * (w + k.rest[i + 1]) / left)
            } else {
                let all: f64 =
                    stages.iter().enumerate().map(|(d, y)| if d == s { w } else { y.c.forward + y.c.backward }).sum();
                (k.m * w).max(k.m * (all + k.rest[i + 1]) / k.p as f64)
            };
            let tail = st.c.tail;
            if k.jitter * (bound + tail) >= self.exact {
                continue;
            }
            stages[s] = st;
            picks.push(id);
            self.part(k, x, start, i + 1, least, most, before, o.layout, stages, picks, sizes);
            picks.pop();
            stages[s] = saved;
        }
    }
}

fn brute<'s, 'a>(space: &'s LayerwiseSpace<'a>) -> Brute<'s, 'a> {
    let mut b = Brute { space, fast: f64::INFINITY, exact: f64::INFINITY, best: None, leaves: 0, sims: 0, nodes: 0 };
    let mut order: Vec<usize> = (0..space.tasks.len()).collect();
    order.sort_by(|x, y| space.task_floor(*x).total_cmp(&space.task_floor(*y)));
    for t in order {
        b.task(t);
    }
    b
}

/// Decimal logarithm of the number of complete paths of the tree, without regard to memory.
fn paths(space: &LayerwiseSpace) -> (f64, Vec<String>) {
    let mut total = 0.0;
    let mut text = vec![];
    for t in 0..space.tasks.len() {
        let Some(table) = space.table(t) else { continue };
        let parts = &space.estimator.spine.parts;
        let product: f64 = parts.iter().map(|c| table.classes[*c as usize].options.len() as f64).product();
        let key = &space.tasks[t];
        let (n, p) = (parts.len() as u64 - 1, u64::from(key.pipeline) - 1);
        let cuts = if key.split.is_some() { 1.0 } else { (0..p).map(|i| (n - i) as f64 / (i + 1) as f64).product() };
        if product * cuts > total {
            text = table
                .classes
                .iter()
                .zip(&space.estimator.spine.classes)
                .map(|(c, p)| format!("{} {}/{}", p.name, c.options.len(), c.enumerated))
                .collect();
        }
        total += product * cuts;
    }
    (total.log10(), text)
}

fn instances() -> Vec<(String, Inputs)> {
    let device = |mem: f64, devices: u64, fast: &str, slow: &str| {
        let links = if devices == 2 {
            format!(r#"(name: "pair", bandwidth: "{fast}", latency: "5us")"#)
        } else {
            format!(
                r#"(name: "pair", devices: 2, bandwidth: "{fast}", latency: "5us"), (name: "net", bandwidth: "{slow}", latency: "10us")"#
            )
        };
        cluster(&format!(
            r#"(pools: [(device: (name: "acc", half: "150TFLOP/s", memory: "{}GB", memory_bandwidth: "1TB/s"), devices_per_node: {devices}, links: [{links}])])"#,
            mem
        ))
    };
    let mut v = vec![];
    let fix = |mut q: Inputs, fix: &[&str], forbid: &[&str]| {
        q.search.fix = fix.iter().map(|s| s.parse().unwrap()).collect();
        q.search.forbid = forbid.iter().map(|s| s.parse().unwrap()).collect();
        q
    };
    let gpt2 = |n: u32, h: u32| {
        config(&format!(
            r#"{{"model_type":"gpt2","n_layer":{n},"n_embd":{h},"n_head":16,"n_positions":2048,"vocab_size":32000}}"#
        ))
    };
    for (mem, dev) in [(8.0, 2), (12.0, 2), (5.0, 4), (8.0, 4)] {
        v.push((
            format!("gpt2 {mem} {dev}"),
            fix(
                question(gpt2(6, 2048), device(mem, dev, "100GB/s", "25Gb/s"), Job::new(8, 1024)),
                &["cp=1", "sp=megatron"],
                &["vpp=2..8"],
            ),
        ));
    }
    v
}

#[test]
fn scratch() {
    for (name, q) in instances() {
        q.with_space(|space| {
            let (log, text) = paths(&space);
            let t = std::time::Instant::now();
            let b = brute(&space);
            println!("{name}: paths 1e{log:.1} {text:?} tasks {} brute fast {:.5} exact {:.5} leaves {} sims {} nodes {} in {:.2}s", space.tasks.len(), b.fast, b.exact, b.leaves, b.sims, b.nodes, t.elapsed().as_secs_f64());
            if let Some(p) = &b.best { println!("   pp{} m{} {:?}", p.pipeline, p.micro_batches, p.chunks.iter().map(|c| c.runs.iter().map(|r| format!("{}x{}", r.strategy, r.count)).collect::<Vec<_>>()).collect::<Vec<_>>()); }
            let backends: [&dyn Backend<LayerwiseSpace>; 4] = [&Exact::default(), &Random::default(), &Mcts::default(), &Genetic::default()];
            for backend in backends {
                let t = std::time::Instant::now();
                let mut gaps = vec![];
                let mut info = String::new();
                for seed in 0..if backend.name() == "exact" {1} else {4} {
                    let o = solve(&space, backend, Request { fidelity: Fidelity::Fast, ..Request::new(seed, Budget::evaluations(20_000)) }).unwrap();
                    gaps.push(o.best.as_ref().and_then(|x| x.score.objective()).map_or(f64::NAN, |x| 100.0 * (x / b.exact - 1.0)));
                    info = format!("bound {:?} {:?} {:?}", o.bound, o.stop, o.counters.evaluations);
                }
                println!("   {} {:?} {info} {:.2}s", backend.name(), gaps.iter().map(|g| format!("{g:.3}")).collect::<Vec<_>>(), t.elapsed().as_secs_f64());
            }
        }).unwrap();
    }
}

#[allow(dead_code)]
fn _kinds(_: PartKind) {}
