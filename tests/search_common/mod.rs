//! Problems and helpers that the search tests share.

#![allow(dead_code)]

use espalier::search::backend::Backend;
use espalier::search::checkpoint::Checkpointing;
use espalier::search::erased::Erased;
use espalier::search::outcome::Outcome;
use espalier::search::problem::{Allele, Bound, Fidelity, Key128, Moves, Node, Problem};
use espalier::search::registry::{Choice, build, entries};
use espalier::search::score::Score;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Every registered backend with its defaults, for problems behind one type: compiled once, whatever is searched.
pub fn backends<'p>() -> Vec<Box<dyn Backend<Erased<'p>> + 'p>> {
    entries::<Erased<'p>>().into_iter().map(|entry| (entry.build)(&Default::default()).unwrap()).collect()
}

/// Every registered backend with its defaults, then every preset.
pub fn with_presets<'p>() -> Vec<(String, Box<dyn Backend<Erased<'p>> + 'p>)> {
    let named = |name: String| (name.clone(), build(&Choice::named(&name)).unwrap());
    let all = entries::<Erased<'p>>();
    let presets = all.iter().flat_map(|e| e.page.presets.iter().map(|preset| format!("{}.{}", e.name, preset.name)));
    all.iter().map(|entry| entry.name.to_owned()).chain(presets).map(named).collect()
}

/// Score and key of the answer.
pub fn answer<S>(outcome: &Outcome<S>) -> Option<(Score, Key128)> {
    outcome.best.as_ref().map(|best| (best.score, best.key))
}

/// What holds of every outcome.
pub fn check<P: Problem>(problem: &P, outcome: &Outcome<P::Solution>, name: &str) {
    let trace = &outcome.trace;
    assert!(trace.improvements.is_sorted_by(|a, b| a.score > b.score && a.evaluations < b.evaluations), "{name}");
    assert_eq!(trace.improvements.len(), trace.clocks.len());
    assert!(trace.clocks.is_sorted_by(|a, b| a.wall_s <= b.wall_s), "{name}");
    assert!(outcome.counters.requests >= outcome.counters.evaluations, "{name}");
    assert!(outcome.archive.is_sorted_by(|a, b| (a.score, a.key) < (b.score, b.key)), "{name}");
    assert_eq!(outcome.archive.first().map(|e| (e.score, e.key)), answer(outcome), "{name}");
    assert_eq!(trace.improvements.last().map(|i| i.score), answer(outcome).map(|a| a.0), "{name}");
    for entry in &outcome.archive {
        assert_eq!(problem.key(&entry.solution), entry.key, "{name}");
        assert_eq!(problem.score(&entry.solution, Fidelity::Exact), entry.score, "{name}");
    }
    if let (Some(bound), Some(objective)) = (outcome.bound, outcome.best.as_ref().and_then(|b| b.score.objective())) {
        assert!(bound <= objective * (1.0 + 1e-12), "{name}: bound {bound} above {objective}");
    }
}

/// The best score over the whole tree.
pub fn enumerate<P: Problem>(problem: &P) -> Score {
    fn below<P: Problem>(problem: &P, state: &mut P::State) -> Score {
        match problem.node(state) {
            Node::Complete => problem.score(&problem.solution(state), Fidelity::Exact),
            Node::DeadEnd(_) => Score::Failed,
            Node::Choose { options, .. } => (0..options).fold(Score::Failed, |best, option| {
                problem.push(state, option);
                let score = below(problem, state);
                problem.pop(state);
                best.min(score)
            }),
        }
    }
    below(problem, &mut problem.root())
}

/// Hands every complete path's solution to `see`.
pub fn every_solution<P: Problem>(problem: &P, see: &mut dyn FnMut(&P::Solution)) {
    fn below<P: Problem>(problem: &P, state: &mut P::State, see: &mut dyn FnMut(&P::Solution)) {
        match problem.node(state) {
            Node::Complete => see(&problem.solution(state)),
            Node::DeadEnd(_) => {}
            Node::Choose { options, .. } => (0..options).for_each(|option| {
                problem.push(state, option);
                below(problem, state, see);
                problem.pop(state);
            }),
        }
    }
    below(problem, &mut problem.root(), see);
}

/// An empty directory of this test process.
pub fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("espalier-search-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Saving to and resuming from `path`, often.
pub fn checkpoint(path: &Path) -> Checkpointing {
    Checkpointing { path: path.to_path_buf(), every: Duration::from_millis(1), resume: true }
}

/// A problem that counts its evaluations and makes them take time.
pub struct Counted<P> {
    pub inner: P,
    pub calls: AtomicU64,
    /// Time at work per evaluation.
    pub work: Duration,
    /// Time asleep per evaluation.
    pub sleep: Duration,
    /// Whether fast evaluations are up to a tenth too low.
    pub rough: bool,
}

impl<P> Counted<P> {
    pub fn new(inner: P) -> Self {
        Self { inner, calls: AtomicU64::new(0), work: Duration::ZERO, sleep: Duration::ZERO, rough: false }
    }
}

impl<P: Problem> Problem for Counted<P> {
    type State = P::State;
    type Solution = P::Solution;

    fn root(&self) -> P::State {
        self.inner.root()
    }
    fn node(&self, s: &P::State) -> Node {
        self.inner.node(s)
    }
    fn allele(&self, s: &P::State, option: u32) -> Allele {
        self.inner.allele(s, option)
    }
    fn nearest(&self, s: &P::State, wanted: Allele) -> u32 {
        self.inner.nearest(s, wanted)
    }
    fn prior(&self, s: &P::State, out: &mut [f32]) {
        self.inner.prior(s, out);
    }
    fn push(&self, s: &mut P::State, option: u32) {
        self.inner.push(s, option);
    }
    fn pop(&self, s: &mut P::State) {
        self.inner.pop(s);
    }
    fn bound(&self, s: &P::State) -> Bound {
        match self.inner.bound(s) {
            Bound::AtLeast(b) if self.rough => Bound::AtLeast(b * 0.9),
            bound => bound,
        }
    }
    fn solution(&self, s: &P::State) -> P::Solution {
        self.inner.solution(s)
    }
    fn key(&self, x: &P::Solution) -> Key128 {
        self.inner.key(x)
    }
    fn score(&self, x: &P::Solution, fidelity: Fidelity) -> Score {
        self.calls.fetch_add(1, Relaxed);
        let start = Instant::now();
        while start.elapsed() < self.work {
            std::hint::spin_loop();
        }
        std::thread::sleep(self.sleep);
        match (self.inner.score(x, fidelity), fidelity) {
            (Score::Feasible(y), Fidelity::Fast) if self.rough => {
                Score::feasible(y * (0.9 + 0.1 * (self.key(x).0 % 97) as f64 / 97.0))
            }
            (score, _) => score,
        }
    }
    fn moves(&self) -> Option<&dyn Moves<Solution = P::Solution>> {
        self.inner.moves()
    }
}

type At<T> = Box<dyn Fn(&[u32]) -> T + Send + Sync>;

/// A tree given by functions of the path.
pub struct Toy {
    pub node: At<Node>,
    pub score: At<Score>,
    pub bound: At<Bound>,
    /// The prior weight of every option.
    pub weight: Option<f32>,
    /// Whether all solutions are one and the same.
    pub one_key: bool,
}

impl Toy {
    pub fn new(
        node: impl Fn(&[u32]) -> Node + Send + Sync + 'static,
        objective: impl Fn(&[u32]) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            node: Box::new(node),
            score: Box::new(move |path| Score::feasible(objective(path))),
            bound: Box::new(|_| Bound::AtLeast(f64::NEG_INFINITY)),
            weight: None,
            one_key: false,
        }
    }

    pub fn choose(path: &[u32], options: u32) -> Node {
        Node::Choose { slot: path.len() as u64, options }
    }

    /// A full tree of `widths.len()` levels.
    pub fn levels(path: &[u32], widths: &[u32]) -> Node {
        widths.get(path.len()).map_or(Node::Complete, |width| Self::choose(path, *width))
    }
}

impl Problem for Toy {
    type State = Vec<u32>;
    type Solution = Vec<u32>;

    fn root(&self) -> Vec<u32> {
        Vec::new()
    }
    fn node(&self, s: &Vec<u32>) -> Node {
        (self.node)(s)
    }
    fn allele(&self, _: &Vec<u32>, option: u32) -> Allele {
        u64::from(option)
    }
    fn nearest(&self, s: &Vec<u32>, wanted: Allele) -> u32 {
        match self.node(s) {
            Node::Choose { options, .. } => wanted.min(u64::from(options) - 1) as u32,
            _ => 0,
        }
    }
    fn prior(&self, _: &Vec<u32>, out: &mut [f32]) {
        out.fill(self.weight.unwrap_or(1.0));
    }
    fn push(&self, s: &mut Vec<u32>, option: u32) {
        s.push(option);
    }
    fn pop(&self, s: &mut Vec<u32>) {
        s.pop();
    }
    fn bound(&self, s: &Vec<u32>) -> Bound {
        (self.bound)(s)
    }
    fn solution(&self, s: &Vec<u32>) -> Vec<u32> {
        s.clone()
    }
    fn key(&self, x: &Vec<u32>) -> Key128 {
        let words = if self.one_key { Vec::new() } else { x.iter().flat_map(|w| w.to_le_bytes()).collect() };
        Key128(xxhash_rust::xxh3::xxh3_128(&words))
    }
    fn score(&self, x: &Vec<u32>, _: Fidelity) -> Score {
        (self.score)(x)
    }
}
