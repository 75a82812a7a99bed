//! Prices of every class under every strategy of one frame (stages, micro-batches): filled once, read by all searches.
//!
//! Strategies that another beats whatever the neighbours do are left out: within a layout when nowhere worse, across
//! layouts when still nowhere worse after resharding in and out of the better one.

use super::strategies::enumerate;
use crate::cost::{Mesh, PartPrice};
use crate::estimate::Estimator;
use crate::plan::{LayerStrategy, Layout, PartClass};
use crate::search::decompose::{COSTS, ChainOption, Cost};

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
    pub options: Vec<ChainOption>,
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

/// Whether `a` beats `b` even when each pass of `a` takes `extra` longer.
fn beats(a: &ChainOption, b: &ChainOption, extra: f64) -> bool {
    a.fixed <= b.fixed
        && a.scaled <= b.scaled
        && a.peak <= b.peak
        && a.cost[at::FORWARD] + extra <= b.cost[at::FORWARD]
        && a.cost[at::BACKWARD] + extra <= b.cost[at::BACKWARD]
        && a.cost[at::REDUCE] <= b.cost[at::REDUCE]
        && a.cost[at::TAIL] <= b.cost[at::TAIL]
}

impl Table {
    /// Prices all classes; `None` when some part has no strategy in this frame. `allowed` gets a strategy, the part,
    /// whether it has routed experts, and the frame.
    pub fn new(estimator: &Estimator, mesh: Mesh, allowed: &Allowed) -> Option<Self> {
        let spine = estimator.spine;
        let mut layouts: Vec<Layout> = Vec::new();
        let mut raw: Vec<Vec<(LayerStrategy, PartPrice, ChainOption)>> = Vec::new();
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
                        list.push((strategy, price, option(0, id as u16, &price)));
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

fn undominated(mut list: Vec<(LayerStrategy, PartPrice, ChainOption)>, detour: &[f64]) -> ClassTable {
    let enumerated = list.len() as u64;
    let primary = |o: &ChainOption| o.cost[at::FORWARD] + o.cost[at::BACKWARD];
    // Within layouts first: most fall there, and what is left is few enough to compare across.
    list.sort_by(|a, b| {
        (a.2.layout.cmp(&b.2.layout)).then(primary(&a.2).total_cmp(&primary(&b.2))).then(a.0.cmp(&b.0))
    });
    let mut kept: Vec<(LayerStrategy, PartPrice, ChainOption)> = Vec::new();
    let mut start = 0;
    for x in list {
        if kept.last().is_some_and(|k| k.2.layout != x.2.layout) {
            start = kept.len();
        }
        if !kept[start..].iter().any(|(_, _, k)| beats(k, &x.2, 0.0)) {
            kept.push(x);
        }
    }
    kept.sort_by(|a, b| primary(&a.2).total_cmp(&primary(&b.2)).then(a.0.cmp(&b.0)));
    let mut best: Vec<(LayerStrategy, PartPrice, ChainOption)> = Vec::new();
    for x in kept {
        let beaten = |(_, _, k): &(LayerStrategy, PartPrice, ChainOption)| {
            k.layout != x.2.layout && beats(k, &x.2, detour[k.layout as usize])
        };
        if !best.iter().any(beaten) {
            best.push(x);
        }
    }
    let mut table = ClassTable { strategies: Vec::new(), prices: Vec::new(), options: Vec::new(), enumerated };
    for (id, (strategy, price, o)) in best.into_iter().enumerate() {
        table.strategies.push(strategy);
        table.prices.push(price);
        table.options.push(ChainOption { id: id as u32, ..o });
    }
    table
}
