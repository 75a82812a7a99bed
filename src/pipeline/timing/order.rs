//! Index algebra of 1F1B and interleaved 1F1B: every device runs forwards `0, 1, 2, ...` and backwards `0, 1, 2, ...`
//! of one table, and only the number of forwards ahead (the warm-up) differs by device.
//!
//! Forward `k` is a pair (chunk, micro-batch): groups of micro-batches, in a group chunk by chunk. Backward `k` has the
//! micro-batch of forward `k` and the mirrored chunk. 1F1B is the case of one chunk and groups of one.

use super::Kind;

/// The table shared by all devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    /// Devices.
    pub p: usize,
    /// Chunks per device.
    pub v: usize,
    /// Micro-batches.
    pub m: usize,
    /// Group size, at most `m`.
    pub group: usize,
    /// Group size before it was capped by `m`: it sets the warm-up.
    nominal: usize,
    /// Micro-batches in full groups.
    full: usize,
    interleaved: bool,
}

impl Order {
    /// `None` for GPipe, which has no steady state.
    pub fn new(kind: Kind, p: usize, v: usize, m: usize) -> Option<Self> {
        match kind {
            Kind::Gpipe => None,
            Kind::OneF1B => Some(Self { p, v, m, group: 1, nominal: 1, full: m, interleaved: false }),
            Kind::Interleaved { group: nominal } => {
                let group = nominal.min(m);
                Some(Self { p, v, m, group, nominal, full: m - m % group, interleaved: true })
            }
        }
    }

    /// Forwards (or backwards) of one device.
    pub fn total(&self) -> usize {
        self.m * self.v
    }

    /// Forwards that device `d` runs before its first forward-backward pair, at most `total - 1`.
    pub fn warmup(&self, d: usize) -> usize {
        self.nominal_warmup(d).min(self.total() - 1)
    }

    /// The warm-up before the cap.
    pub fn nominal_warmup(&self, d: usize) -> usize {
        if self.interleaved { 2 * (self.p - d - 1) + (self.v - 1) * self.nominal } else { self.p - d - 1 }
    }

    /// The same table for fewer or more micro-batches, at least a group.
    pub fn with_microbatches(self, m: usize) -> Self {
        Self { m, full: m - m % self.group, ..self }
    }

    /// Size of the group that holds table index `k`.
    pub fn group_at(&self, k: usize) -> usize {
        if k < self.full * self.v { self.group } else { self.m - self.full }
    }

    /// Chunk of forward `k`.
    pub fn chunk(&self, k: usize) -> usize {
        let full = self.full * self.v;
        if k < full { k % (self.group * self.v) / self.group } else { (k - full) / (self.m - self.full) }
    }

    /// Micro-batch of forward or backward `k`.
    pub fn microbatch(&self, k: usize) -> usize {
        let full = self.full * self.v;
        if k < full {
            k / (self.group * self.v) * self.group + k % self.group
        } else {
            self.full + (k - full) % (self.m - self.full)
        }
    }

    /// Table index of the forward of `microbatch` on `chunk`; that of its backward is `index(v - 1 - chunk, ..)`.
    pub fn index(&self, chunk: usize, microbatch: usize) -> usize {
        let full = self.full;
        if microbatch < full {
            microbatch / self.group * self.group * self.v + chunk * self.group + microbatch % self.group
        } else {
            full * self.v + chunk * (self.m - full) + (microbatch - full)
        }
    }

    /// Whether every input is computed at least one wavefront before it is needed (see `simulate`).
    pub fn is_wavefront(&self) -> bool {
        let last = self.m - self.full;
        self.v == 1 || (self.group >= self.p && (last == 0 || last >= self.p))
    }

    /// Sum of `work(chunk)` over the first `n` entries of the table.
    pub fn sum_until(&self, n: usize, work: impl Fn(usize) -> f64) -> f64 {
        if self.v == 1 {
            return n as f64 * work(0);
        }
        let (period, in_full) = (self.group * self.v, self.full * self.v);
        let (in_groups, in_last) = (n.min(in_full), n.saturating_sub(in_full));
        let groups = in_groups / period;
        let (rest, last) = (in_groups - groups * period, self.m - self.full);
        let within = |n: usize, group: usize, chunk: usize| n.saturating_sub(chunk * group).min(group);
        let count = |chunk: usize| groups * self.group + within(rest, self.group, chunk) + within(in_last, last, chunk);
        (0..self.v).map(|chunk| count(chunk) as f64 * work(chunk)).sum()
    }
}
