//! Prices of every class under every strategy of one frame (stages, micro-batches): filled once, read by all searches.
//!
//! Strategies that another beats whatever the neighbours do are left out: within a layout when nowhere worse, across
//! layouts when still nowhere worse after resharding in and out of the better one.

use super::strategies::enumerate;
use crate::cost::{Mesh, PartPrice};
use crate::estimate::Estimator;
use crate::plan::{LayerStrategy, Layout, PartClass, PartKind, Spine};
use crate::search::decompose::{COSTS, ChainOption, Cost};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Positions in a cost vector.
pub mod at {
    /// Forward pass of one micro-batch.
    pub const FORWARD: usize = 0;
    /// Backward pass of one micro-batch.
    pub const BACKWARD: usize = 1;
    /// Exposed gradient reduction.
    pub const REDUCE: usize = 2;
    /// Optimizer and exposed gather of weights.
    pub const TAIL: usize = 3;
    /// Hops into the stage, all chunks.
    pub const HOP: usize = 4;
    /// Forward pass of the first chunk.
    pub const LEAD_FORWARD: usize = 5;
    /// Backward pass of the first chunk.
    pub const LEAD_BACKWARD: usize = 6;
    /// Hop into the first chunk.
    pub const LEAD_HOP: usize = 7;
}

/// One class in one frame.
#[derive(Debug, Clone)]
pub struct ClassTable {
    /// Undominated strategies.
    pub strategies: Vec<LayerStrategy>,
    /// Their prices.
    pub prices: Vec<PartPrice>,
    /// The same as options of a chain; `id` is the index.
    pub options: Arc<[ChainOption]>,
    /// Least work (F + B) of any for one micro-batch, seconds.
    pub least_work: f64,
    /// Strategies before dominance.
    pub enumerated: u64,
}

/// All classes in one frame.
#[derive(Debug, Clone)]
pub struct Table {
    /// The frame.
    pub mesh: Mesh,
    /// By class of the spine.
    pub classes: Vec<ClassTable>,
    /// Layout ids.
    pub layouts: Vec<Layout>,
    /// `reshard[class][from * layouts + to]`, seconds one way.
    pub reshard: Vec<Vec<f64>>,
    /// `hop[stage][class][layout]`: latency into a stage, seconds.
    pub hop: Vec<Vec<Vec<f64>>>,
    /// What a second of hop adds to each pass of the stage.
    pub interference: f64,
}

/// Which strategies a question allows.
pub type Allowed<'a> = dyn Fn(&LayerStrategy, &PartClass, bool, Mesh) -> bool + Sync + 'a;

fn option(id: usize, layout: u16, price: &PartPrice) -> ChainOption {
    let (forward, backward) = (price.forward.total().0, price.backward.total().0);
    let mut cost: Cost = [0.0; COSTS];
    cost[at::FORWARD] = forward;
    cost[at::BACKWARD] = backward;
    cost[at::REDUCE] = price.reduce.0;
    cost[at::TAIL] = price.optimizer.0 + price.gather.0;
    let mut lead: Cost = [0.0; COSTS];
    lead[at::LEAD_FORWARD] = forward;
    lead[at::LEAD_BACKWARD] = backward;
    ChainOption {
        id: id as u32,
        layout,
        cost,
        lead,
        fixed: price.states.total().0,
        scaled: price.activations.0,
        peak: price.transient.0,
    }
}

/// What dominance compares: forward and backward pass first, then reduction, tail and the three kinds of memory.
type Key = [f64; 7];

/// A strategy with its price, before dominance.
struct Candidate {
    strategy: LayerStrategy,
    price: PartPrice,
    layout: u16,
    key: Key,
}

impl Candidate {
    fn new(strategy: LayerStrategy, price: PartPrice, layout: u16) -> Self {
        let o = option(0, layout, &price);
        let key = [
            o.cost[at::FORWARD],
            o.cost[at::BACKWARD],
            o.cost[at::REDUCE],
            o.cost[at::TAIL],
            o.fixed,
            o.scaled,
            o.peak,
        ];
        Self { strategy, price, layout, key }
    }

    fn primary(&self) -> f64 {
        self.key[0] + self.key[1]
    }
}

/// Whether `a` beats `b` even when each pass of `a` takes `extra` longer.
fn beats(a: &Key, b: &Key, extra: f64) -> bool {
    a[0] + extra <= b[0] && a[1] + extra <= b[1] && (2..7).all(|k| a[k] <= b[k])
}

/// Whether one of `front` passes `test`. It moves to the head: what beat one candidate likely beats the next.
fn any_beats(front: &mut [usize], mut test: impl FnMut(usize) -> bool) -> bool {
    let found = front.iter().position(|&k| test(k));
    if let Some(found) = found {
        front[..=found].rotate_right(1);
    }
    found.is_some()
}

impl Table {
    /// Strategies of layers of any class, undominated in theirs.
    pub fn of_layers(&self, spine: &Spine) -> BTreeSet<LayerStrategy> {
        let classes = spine.classes.iter().zip(&self.classes).filter(|(part, _)| part.kind == PartKind::Layer);
        classes.flat_map(|(_, class)| class.strategies.iter().copied()).collect()
    }

    /// Prices all classes; `None` when some part has no strategy in this frame. `allowed` gets a strategy, the part,
    /// whether it has routed experts, and the frame.
    pub fn new(estimator: &Estimator, mesh: Mesh, allowed: &Allowed) -> Option<Self> {
        let spine = estimator.spine;
        let mut layouts: Vec<Layout> = Vec::new();
        let mut raw: Vec<Vec<Candidate>> = Vec::new();
        for class in &spine.classes {
            let experts = super::strategies::Divisors::of(class, estimator.job).experts > 0;
            let mut list = Vec::new();
            enumerate(class, estimator.job, mesh, &mut |plain, zeros, recomputes| {
                let mut base = None;
                let mut id = 0;
                for &zero in zeros {
                    for &recompute in recomputes {
                        let strategy = LayerStrategy { zero, recompute, ..plain };
                        if !allowed(&strategy, class, experts, mesh) {
                            continue;
                        }
                        let base = base.get_or_insert_with(|| {
                            let layout = plain.layout();
                            id = layouts.iter().position(|l| *l == layout).unwrap_or_else(|| {
                                layouts.push(layout);
                                layouts.len() - 1
                            });
                            estimator.pricer.base(class, &plain, mesh)
                        });
                        let price = base.finish(zero, recompute);
                        list.push(Candidate::new(strategy, price, id as u16));
                    }
                }
            });
            if list.is_empty() {
                return None;
            }
            raw.push(list);
        }
        let n = layouts.len();
        let reshard: Vec<Vec<f64>> = spine
            .classes
            .iter()
            .map(|class| {
                let mut matrix = Vec::with_capacity(n * n);
                for from in &layouts {
                    matrix.extend(layouts.iter().map(|to| estimator.pricer.reshard(class, *from, *to, mesh).0));
                }
                matrix
            })
            .collect();
        let hop: Vec<Vec<Vec<f64>>> = (0..u64::from(mesh.pipeline))
            .map(|stage| {
                let of_class = |class| -> Vec<f64> {
                    layouts.iter().map(|l| estimator.pricer.hop(class, *l, mesh, stage).0).collect()
                };
                spine.classes.iter().map(of_class).collect()
            })
            .collect();
        // What it costs at most to reshard into and out of a layout, whatever lies around it, or to enter a stage in it.
        let detour: Vec<f64> = (0..n)
            .map(|x| {
                let mut worst = 0.0f64;
                for matrix in &reshard {
                    let around = (0..n).map(|y| matrix[y * n + x].max(matrix[x * n + y])).fold(0.0, f64::max);
                    worst = worst.max(2.0 * around);
                }
                let hops = hop.iter().flatten().map(|h| h[x]).fold(0.0, f64::max);
                worst.max(worst / 2.0 + 2.0 * hops)
            })
            .collect();
        let classes = raw.into_iter().map(|list| undominated(list, &detour)).collect();
        let interference = estimator.pricer.hop_interference(crate::units::Seconds(1.0)).0;
        Some(Self { mesh, classes, layouts, reshard, hop, interference })
    }
}

fn undominated(list: Vec<Candidate>, detour: &[f64]) -> ClassTable {
    // Within layouts first: most fall there, and what is left is few enough to compare across.
    let faster = |a: &usize, b: &usize| {
        let (a, b) = (&list[*a], &list[*b]);
        a.primary().total_cmp(&b.primary()).then(a.strategy.cmp(&b.strategy))
    };
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_unstable_by(faster);
    let mut fronts: Vec<Vec<usize>> = vec![Vec::new(); detour.len()];
    order.retain(|&x| {
        let front = &mut fronts[list[x].layout as usize];
        let kept = !any_beats(front, |k| beats(&list[k].key, &list[x].key, 0.0));
        if kept {
            front.push(x);
        }
        kept
    });
    let mut best: Vec<usize> = Vec::new();
    order.retain(|&x| {
        let beaten = |k: usize| {
            list[k].layout != list[x].layout && beats(&list[k].key, &list[x].key, detour[list[k].layout as usize])
        };
        let kept = !any_beats(&mut best, beaten);
        if kept {
            best.push(x);
        }
        kept
    });
    let options: Arc<[ChainOption]> =
        order.iter().enumerate().map(|(id, &x)| option(id, list[x].layout, &list[x].price)).collect();
    let work = options.iter().map(|o| o.cost[at::FORWARD] + o.cost[at::BACKWARD]);
    ClassTable {
        least_work: work.fold(f64::INFINITY, f64::min),
        strategies: order.iter().map(|&x| list[x].strategy).collect(),
        prices: order.iter().map(|&x| list[x].price).collect(),
        options,
        enumerated: list.len() as u64,
    }
}
