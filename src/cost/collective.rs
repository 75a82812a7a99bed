//! Time of collectives over the real placement of their group.
//!
//! Per level of links, a child unit holding `k` of the `n` members must receive all it has not, through the links that its
//! members drive together, shared with the groups of the same kind that run at once: `S (n - k) / n / B`. Messages reach
//! `s / (s + half_at)` of the plateau (see [`crate::cluster::fabric`]). Levels work at the same time (the slowest counts).
//! A gather is a ring through all members: `(n - 1) alpha + (n - 1) / n S / B` with the latency of the slowest hop (Thakur 2005,
//! section 4.4); all-reduce may take a tree where its latency is shorter.

use crate::cluster::Pool;
pub use crate::cluster::groups::Group;
use crate::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// How a group uses one level of links.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    /// Members in one child unit.
    inner: f64,
    /// Child units in the unit.
    children: f64,
    /// Bandwidth that the group's members of one child unit have together, nominal times efficiency.
    bandwidth: f64,
    latency: f64,
    half_at: f64,
}

/// Prices collectives in one pool.
#[derive(Debug, Clone)]
pub struct Network<'a> {
    pool: &'a Pool,
    nic_sharing: bool,
    /// Groups whose size and stride divide the pool, placed beforehand.
    placed: BTreeMap<(u64, u64), Vec<Share>>,
}

impl<'a> Network<'a> {
    /// Collectives in `pool`; with `nic_sharing` groups of one kind share a unit's uplink.
    pub fn new(pool: &'a Pool, nic_sharing: bool) -> Self {
        let mut network = Self { pool, nic_sharing, placed: BTreeMap::new() };
        let divisors: Vec<u64> = (1..=pool.devices.min(1 << 12)).filter(|d| pool.devices.is_multiple_of(*d)).collect();
        let divisors = divisors.iter().flat_map(|&d| [d, pool.devices / d]).collect::<std::collections::BTreeSet<_>>();
        for &size in &divisors {
            for &stride in divisors.iter().filter(|s| size.saturating_mul(**s) <= pool.devices) {
                network.placed.insert((size, stride), network.place(Group { size, stride }));
            }
        }
        network
    }

    /// The same without placing any group beforehand: for a few questions to many pools.
    pub fn unplaced(pool: &'a Pool, nic_sharing: bool) -> Self {
        Self { pool, nic_sharing, placed: BTreeMap::new() }
    }

    /// Devices that the innermost links join.
    pub fn innermost(&self) -> u64 {
        self.pool.levels.first().map_or(1, |level| level.devices)
    }

    fn place(&self, group: Group) -> Vec<Share> {
        let placement = self.pool.place(group, self.pool.devices);
        let levels = self.pool.levels.iter().zip(&placement.levels).enumerate();
        levels
            .filter(|(_, (_, share))| share.children > 1)
            .map(|(index, (level, share))| {
                let concurrent = if self.nic_sharing { share.concurrent } else { 1 };
                let bandwidth = self.pool.effective_bandwidth(index, share.members_per_child, concurrent);
                Share {
                    inner: share.members_per_child as f64,
                    children: share.children as f64,
                    bandwidth: bandwidth.0 * level.efficiency,
                    latency: level.latency.0,
                    half_at: level.half_at.0,
                }
            })
            .collect()
    }

    /// The levels that `group` crosses, from the inside out.
    fn with<T>(&self, group: Group, f: impl FnOnce(&[Share]) -> T) -> T {
        match self.placed.get(&(group.size, group.stride)) {
            Some(shares) => f(shares),
            None => f(&self.place(group)),
        }
    }

    /// Time to move `bytes` of a message of `message` bytes.
    fn sized(bytes: f64, message: f64, share: &Share) -> f64 {
        if bytes <= 0.0 { 0.0 } else { bytes / share.bandwidth * (1.0 + share.half_at / message) }
    }

    /// All-gather to, or reduce-scatter from, `whole` bytes per rank: one ring through all members, each of whose steps waits
    /// for the slowest hop.
    pub fn gather(&self, whole: Bytes, group: Group) -> Seconds {
        let n = group.size as f64;
        self.with(group, |shares| {
            let hop = shares.iter().map(|s| s.latency).fold(0.0, f64::max);
            Seconds(Self::slowest(whole, n, shares) + hop * (n - 1.0))
        })
    }

    fn slowest(whole: Bytes, n: f64, shares: &[Share]) -> f64 {
        shares.iter().map(|s| Self::sized(whole.0 * (n - s.inner) / n, whole.0, s)).fold(0.0, f64::max)
    }

    /// All-reduce of `bytes` per rank: a reduce-scatter and an all-gather in each unit, and between units what is faster, the
    /// ring or a double binary tree of depth `log2 q` (Sanders 2009; NCCL since 2.4).
    pub fn all_reduce(&self, bytes: Bytes, group: Group) -> Seconds {
        let n = group.size as f64;
        self.with(group, |shares| {
            let tree = |s: &Share| s.latency * (s.children - 1.0).min(s.children.log2().ceil());
            let ring = |s: &Share| s.latency * (s.children - 1.0);
            // Inside the innermost unit it is always the ring.
            let latency = shares.first().map_or(0.0, ring) + shares.iter().skip(1).map(tree).sum::<f64>();
            Seconds((Self::slowest(bytes, n, shares) + latency) * 2.0)
        })
    }

    /// All-to-all in which every rank sends `bytes` in all, evenly to the group, itself included.
    pub fn all_to_all(&self, bytes: Bytes, group: Group) -> Seconds {
        let n = group.size as f64;
        self.with(group, |shares| {
            let (mut slowest, mut latency) = (0.0f64, 0.0);
            for s in shares {
                let outside = (s.children - 1.0) * s.inner / n;
                slowest = slowest.max(Self::sized(s.inner * bytes.0 * outside, bytes.0, s));
                latency += s.latency;
            }
            Seconds(slowest + latency)
        })
    }

    /// Tokens of `bytes` in all per rank go to `copies` experts each, spread evenly over the group. A child unit gets a
    /// token once however many of its experts are meant, and passes it on inside: over `n` members with `k` in the child
    /// unit it is meant with probability `1 - (1 - k / n)^copies` (DeepSeek-V3 2024, section 3.2.2; DeepEP).
    pub fn dispatch(&self, bytes: Bytes, copies: f64, group: Group) -> Seconds {
        let n = group.size as f64;
        self.with(group, |shares| {
            let (mut slowest, mut latency) = (0.0f64, 0.0);
            for s in shares {
                let reached = 1.0 - (1.0 - s.inner / n).powf(copies);
                let volume = s.inner * bytes.0 * (s.children - 1.0) * reached;
                slowest = slowest.max(Self::sized(volume, bytes.0 * copies, s));
                latency += s.latency;
            }
            Seconds(slowest + latency)
        })
    }

    /// One step of a ring in which every rank passes `bytes` to its neighbour.
    pub fn ring_step(&self, bytes: Bytes, group: Group) -> Seconds {
        self.with(group, |shares| {
            let step = |s: &Share| {
                // One member of a child unit sends out of it at a time, with the links next to it.
                let one = Share { bandwidth: s.bandwidth / s.inner, ..*s };
                Seconds(Self::sized(bytes.0, bytes.0, &one) + s.latency)
            };
            shares.iter().map(step).fold(Seconds::ZERO, Seconds::max)
        })
    }

    /// Every device of the block that starts at `from` sends `bytes` to the device `distance` further on.
    pub fn shift(&self, bytes: Bytes, from: u64, distance: u64, devices: u64) -> Seconds {
        let mut child = 1u64;
        let mut slowest = Seconds::ZERO;
        for level in &self.pool.levels {
            // Does any of the pairs leave its child unit but stay in this unit?
            let crosses = |unit: u64| distance >= unit || (from % unit) + devices > unit - distance;
            if crosses(child) {
                let senders = devices.min(child).min(distance) as f64;
                let each = if self.nic_sharing { level.uplink.0 / senders } else { level.uplink.0 };
                let share = Share {
                    inner: 1.0,
                    children: 2.0,
                    bandwidth: level.per_device.0.min(each) * level.efficiency,
                    latency: level.latency.0,
                    half_at: level.half_at.0,
                };
                slowest = slowest.max(Seconds(Self::sized(bytes.0, bytes.0, &share) + share.latency));
            }
            child = level.devices;
        }
        slowest
    }
}
