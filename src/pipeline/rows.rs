//! What a scheduler that builds orders needs to know of a stage: its passes as rows of like actions, one per
//! micro-batch, in order. Micro-batches are alike, so that running each row in order loses nothing.

use super::action::Pass;
use super::bounds::Backward;
use super::costs::Costs;
use super::memory;
use super::placement::Placement;
use super::schedule::StageFlags;

/// Rows of a stage: F, then B or BW, then W (unused when backwards are fused).
pub(super) const KINDS: usize = 3;

/// A row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Row {
    /// Time of one pass.
    pub duration: f64,
    /// Memory it takes at its start, and gives back (negative) at its end.
    pub takes: f64,
    pub frees: f64,
    /// How many passes there are.
    pub count: u32,
    pub device: u32,
    /// The row that waits for this one's output, with the time it takes to get there.
    pub feeds: Option<(u32, f64)>,
    /// Whether it waits for another row's output.
    pub needs: bool,
}

/// All rows: row `KINDS * stage + kind`.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    pub rows: Vec<Row>,
    /// Rows of each device.
    pub of_device: Vec<Vec<u32>>,
    /// First micro-batch of each stage.
    pub first: Vec<usize>,
    pub backward_pass: Option<Pass>,
}

impl Rows {
    pub fn new(placement: &Placement, flags: &[StageFlags], costs: &Costs, m: usize, backward: Backward) -> Self {
        let stages = placement.stages();
        let mut rows = vec![Row::default(); KINDS * stages];
        let mut of_device = vec![Vec::new(); placement.devices()];
        let backward_pass = if backward == Backward::Split { Pass::B } else { Pass::BW };
        let passes = [Pass::F, backward_pass, Pass::W];
        for x in 0..stages {
            let (cost, flags_of) = (&costs.stages[x], flags.get(x).copied().unwrap_or_default());
            let again = if flags_of.recompute { cost.forward } else { 0.0 };
            for (kind, pass) in passes.into_iter().enumerate() {
                let runs = kind == 0 || !(flags_of.forward_only || (kind == 2 && backward == Backward::Fused));
                let duration = match pass {
                    Pass::F => cost.forward,
                    Pass::B => cost.backward + again,
                    Pass::W => cost.weight,
                    Pass::BW => cost.backward + cost.weight + again,
                };
                let (takes, frees) = memory::change(cost, flags_of, pass);
                let count = if runs { placement.microbatches(x, m).len() as u32 } else { 0 };
                let device = placement.device(x) as u32;
                rows[KINDS * x + kind] = Row { duration, takes, frees, count, device, feeds: None, needs: false };
                if count > 0 {
                    of_device[device as usize].push((KINDS * x + kind) as u32);
                }
            }
        }
        let mut link = |from: usize, to: usize, hop: f64| {
            if rows[from].count > 0 && rows[to].count > 0 {
                rows[from].feeds = Some((to as u32, hop));
                rows[to].needs = true;
            }
        };
        for x in 0..stages {
            match placement.next(x) {
                Some(next) => {
                    let apart = placement.device(x) != placement.device(next);
                    let hop = |hops: &[super::Transfer]| if apart { hops[x].latency + hops[x].occupancy } else { 0.0 };
                    link(KINDS * x, KINDS * next, hop(&costs.forward_hops));
                    link(KINDS * next + 1, KINDS * x + 1, hop(&costs.backward_hops));
                }
                None => link(KINDS * x, KINDS * x + 1, 0.0),
            }
        }
        let first = (0..stages).map(|x| placement.microbatches(x, m).start).collect();
        Self { rows, of_device, first, backward_pass: Some(backward_pass) }
    }

    /// The pass of a row.
    pub fn pass(&self, row: usize) -> Pass {
        match row % KINDS {
            0 => Pass::F,
            1 => self.backward_pass.unwrap_or(Pass::B),
            _ => Pass::W,
        }
    }
}
