//! Closed form of an iteration: never above the event simulation, in O(stages).
//!
//! With `w = F + B` of a stage, `h` the hop in front of it and `n` the micro-batches that 1F1B lets it run ahead, the last
//! backward of stage `s` ends, counted from the start of stage `c <= s` and back on it, no sooner than
//! `sum_{c<=j<s} (F_j + B_j + 2 h) + m w_s + max(0, S_s - (n_s - 1) F_s)`, `S_s` being the round trip through all later
//! stages: a stage cannot begin a backward pass before the first micro-batch has come back, and runs at most `n - 1`
//! further forwards meanwhile. And as micro-batch `i + n` does not start before micro-batch `i` is back, it ends no sooner
//! than `(floor((m - 1) / n) + 1) (w_s + S_s) + ((m - 1) mod n) max(F_s, B_s, w_last)`: Little's law for slow links, the
//! micro-batches of the last trip coming back one by one as the last stage, which runs ahead of nothing, makes them. With
//! interleaving only the first chunk of each device counts before and after the work.
//! Uniform stages without hops give `(m + p - 1) w` and `m w + (p - 1) w / v` (Narayanan 2021, section 2.2).
//!
//! The form is folded from the last stage to the first, so that exact searches can extend it stage by stage.

/// What a stage adds to an iteration. Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageCost {
    /// Forward of one micro-batch, all chunks.
    pub forward: f64,
    /// Backward of one micro-batch, all chunks.
    pub backward: f64,
    /// Exposed gradient reduction after the last backward.
    pub reduce: f64,
    /// Optimizer and exposed gather of weights, after all stages have reduced.
    pub tail: f64,
    /// Latency of the hops into the stage, one way, all chunks.
    pub hop: f64,
    /// Latency of the hop into its first chunk.
    pub lead_hop: f64,
    /// Forward of the first chunk (interleaved only).
    pub lead_forward: f64,
    /// Backward of the first chunk (interleaved only).
    pub lead_backward: f64,
}

/// State of the fold: from the boundary in front of the stages folded so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Folded {
    /// Round trip of one micro-batch through all folded stages.
    pub path: f64,
    /// When the last backward has come back over the boundary.
    pub done: f64,
    /// When all folded stages have reduced their gradients.
    pub reduced: f64,
    /// Longest tail.
    pub tail: f64,
    /// Work of the last stage for one micro-batch.
    pub last: f64,
}

/// The frame of a closed form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedForm {
    /// Stages.
    pub pipeline: u32,
    /// Chunks per stage.
    pub chunks_per_stage: u32,
    /// Micro-batches.
    pub micro_batches: u64,
    /// Growth by stragglers, a factor.
    pub jitter: f64,
    /// Most micro-batches of the first chunk of the first stage that are alive at once.
    pub lead_in_flight: u64,
}

impl ClosedForm {
    /// The frame of a pipeline.
    pub fn new(pipeline: u32, chunks_per_stage: u32, micro_batches: u64, jitter: f64) -> Self {
        // The first backward of the first chunk follows on `2 v p - 1` forwards, of which `2 p` are of that chunk.
        let ahead = u64::from(pipeline) * if chunks_per_stage == 1 { 1 } else { 2 };
        let lead_in_flight = micro_batches.min(ahead).max(1);
        Self { pipeline, chunks_per_stage, micro_batches, jitter, lead_in_flight }
    }

    fn ahead(&self, stage: usize) -> f64 {
        (self.micro_batches.min(u64::from(self.pipeline) - stage as u64) - 1) as f64
    }

    /// Last backward of a stage by its round trips: at most `n` micro-batches are under way at once, and come back with at
    /// least `spacing` between them.
    fn round_trips(&self, stage: usize, round_trip: f64, spacing: f64) -> f64 {
        self.trips(self.micro_batches.min(u64::from(self.pipeline) - stage as u64), round_trip, spacing)
    }

    /// The same for the first chunk of the first stage of an interleaved pipeline, whose round trip is the whole path.
    fn first_trips(&self, stage: usize, path: f64, forward: f64) -> f64 {
        if stage == 0 { self.trips(self.lead_in_flight, path, forward) } else { 0.0 }
    }

    fn trips(&self, n: u64, round_trip: f64, spacing: f64) -> f64 {
        let before = self.micro_batches - 1;
        ((before / n + 1) as f64) * round_trip + ((before % n) as f64) * spacing
    }

    /// Work of the last stage, once it is known; one chunk per stage.
    fn last(&self, state: &Folded, stage: usize, work: f64) -> f64 {
        if stage + 1 == self.pipeline as usize { work } else { state.last }
    }

    /// Puts `stage` in front.
    pub fn push(&self, state: &Folded, stage: usize, cost: &StageCost) -> Folded {
        let (m, work) = (self.micro_batches as f64, cost.forward + cost.backward);
        let (done, reduced) = if self.chunks_per_stage == 1 {
            let idle = (state.path - self.ahead(stage) * cost.forward).max(0.0);
            let spacing = cost.forward.max(cost.backward).max(state.last);
            let trips = self.round_trips(stage, work + state.path, spacing);
            ((state.done + work).max(m * work + idle).max(trips), state.reduced + cost.forward)
        } else {
            let lead = cost.lead_forward + cost.lead_backward;
            let trips = self.first_trips(stage, state.path + work + 2.0 * cost.hop, cost.lead_forward);
            ((state.done + lead).max(m * work).max(trips), state.reduced + cost.lead_forward)
        };
        Folded {
            path: state.path + work + 2.0 * cost.hop,
            done: done + 2.0 * cost.lead_hop,
            reduced: reduced.max(done + cost.reduce) + cost.lead_hop,
            tail: state.tail.max(cost.tail),
            last: self.last(state, stage, work),
        }
    }

    /// Puts a stage in front of which only `work <= F + B` and a floor of every component are known.
    pub fn push_relaxed(&self, state: &Folded, stage: usize, work: f64, floor: &StageCost) -> Folded {
        let m = self.micro_batches as f64;
        let work = work.max(floor.forward + floor.backward);
        let (done, reduced) = if self.chunks_per_stage == 1 {
            // More work than `work` adds `m` for every second it may take from the idle time.
            let idle = (state.path - self.ahead(stage) * (work - floor.backward)).max(0.0);
            let spacing = floor.forward.max(floor.backward).max(state.last);
            let trips = self.round_trips(stage, work + state.path, spacing);
            ((state.done + work).max(m * work + idle).max(trips), state.reduced + floor.forward)
        } else {
            let lead = floor.lead_forward + floor.lead_backward;
            let trips = self.first_trips(stage, state.path + work + 2.0 * floor.hop, floor.lead_forward);
            ((state.done + lead).max(m * work).max(trips), state.reduced + floor.lead_forward)
        };
        Folded {
            path: state.path + work + 2.0 * floor.hop,
            done: done + 2.0 * floor.lead_hop,
            reduced: reduced.max(done + floor.reduce) + floor.lead_hop,
            tail: state.tail.max(floor.tail),
            last: self.last(state, stage, work),
        }
    }

    /// A bound on the iteration when `stages` more stages with at least `work` in all are put in front.
    pub fn complete(&self, state: &Folded, stages: usize, work: f64) -> f64 {
        let even = self.even(stages, work);
        let through = if self.chunks_per_stage == 1 { state.done + work } else { state.done };
        self.jitter * (state.reduced.max(through).max(even) + state.tail)
    }

    /// Least time of `stages` stages that share `work`: were `sum_{j<s} w_j + m w_s = T` for all, `w` would fall by
    /// `1 - 1/m` from stage to stage and sum to `T (1 - (1 - 1/m)^p)`.
    fn even(&self, stages: usize, work: f64) -> f64 {
        if stages == 0 {
            return 0.0;
        }
        let m = self.micro_batches as f64;
        if self.chunks_per_stage == 1 {
            work / (1.0 - (1.0 - 1.0 / m).powi(stages as i32))
        } else {
            m * work / stages as f64
        }
    }

    /// The iteration.
    pub fn finish(&self, state: &Folded) -> f64 {
        self.jitter * (state.reduced + state.tail)
    }

    /// A bound on any iteration whose stages have at least `work` in all.
    pub fn at_least(&self, work: f64) -> f64 {
        self.jitter * self.even(self.pipeline as usize, work)
    }

    /// The whole fold.
    pub fn iteration(&self, stages: &[StageCost]) -> f64 {
        let mut state = Folded::default();
        for (s, cost) in stages.iter().enumerate().rev() {
            state = self.push(&state, s, cost);
        }
        self.finish(&state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::timing::{Kind, in_flight};

    #[test]
    fn the_first_chunk_of_the_first_stage_keeps_two_rounds_alive() {
        for (p, v) in [(2u32, 2u32), (4, 2), (4, 5), (8, 3)] {
            for m in [p, 2 * p, 3 * p, 10 * p].map(u64::from) {
                let kind = Kind::Interleaved { group: p as usize };
                let live = in_flight(kind, p as usize, v as usize, m as usize, 0).unwrap();
                let form = ClosedForm::new(p, v, m, 1.0);
                assert!(live[0] as u64 <= form.lead_in_flight, "p {p} v {v} m {m}: {live:?}");
            }
        }
    }
}
