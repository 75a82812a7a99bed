//! Time of collectives over the real placement of their group.
//!
//! Per level of links, `t = S (n - k) / n / B`: a child unit holding `k` of the `n` members must receive all it has not,
//! through the links that its members drive together, shared with the groups of the same kind that run at once. Levels
//! work at the same time (the slowest counts), latencies add: `alpha (q - 1)` over `q` child units. Small messages reach
//! less: `x / B * (1 + 2 h / (x + h))` gives half the plateau at `x = h` and vanishes beside the latency below it.
//! On one level this is the ring: all-reduce `2 (n - 1) alpha + 2 (n - 1) / n S / B` (Thakur 2005, section 4.4).

use crate::cluster::{Level, Pool};
use crate::units::{Bytes, Seconds};

/// `size` devices, `stride` apart, together with the like groups that tile the devices of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// Members.
    pub size: u64,
    /// Distance of neighbouring members.
    pub stride: u64,
}

/// How a group lies on one level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    /// Members in one child unit.
    inner: f64,
    /// Members in the unit.
    outer: f64,
    /// Bandwidth that the group's members of one child unit have together, nominal times efficiency.
    bandwidth: f64,
    latency: f64,
    half_at: f64,
}

/// Prices collectives in one pool.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    pool: &'a Pool,
    nic_sharing: bool,
}

impl<'a> Network<'a> {
    /// Collectives in `pool`; with `nic_sharing` groups of one kind share a unit's uplink.
    pub fn new(pool: &'a Pool, nic_sharing: bool) -> Self {
        Self { pool, nic_sharing }
    }

    /// The levels that `group` crosses, from the inside out.
    fn shares(&self, group: Group) -> impl Iterator<Item = Share> + '_ {
        let (size, stride) = (group.size as f64, group.stride as f64);
        let mut child = 1u64;
        self.pool.levels.iter().filter_map(move |level| {
            let members = |unit: u64| (unit as f64 / stride).clamp(1.0, size);
            let (inner, outer) = (members(child), members(level.devices));
            let devices = child as f64;
            child = level.devices;
            (outer > inner).then(|| Share {
                inner,
                outer,
                bandwidth: self.bandwidth(level, inner, devices),
                latency: level.latency.0,
                half_at: level.half_at.0,
            })
        })
    }

    /// Bandwidth of `members` devices of a child unit of `devices` devices, all of which are in like groups.
    fn bandwidth(&self, level: &Level, members: f64, devices: f64) -> f64 {
        let alone = members * level.per_device.0;
        let uplink = if self.nic_sharing { level.uplink.0 * members / devices } else { level.uplink.0 };
        alone.min(uplink) * level.efficiency
    }

    fn sized(bytes: f64, share: &Share) -> f64 {
        bytes / share.bandwidth * (1.0 + 2.0 * share.half_at / (bytes + share.half_at))
    }

    /// All-gather to, or reduce-scatter from, `whole` bytes per rank.
    pub fn gather(&self, whole: Bytes, group: Group) -> Seconds {
        let n = group.size as f64;
        let (mut slowest, mut latency) = (0.0f64, 0.0);
        for s in self.shares(group) {
            slowest = slowest.max(Self::sized(whole.0 * (n - s.inner) / n, &s));
            latency += s.latency * (s.outer / s.inner - 1.0);
        }
        Seconds(slowest + latency)
    }

    /// All-reduce of `bytes` per rank.
    pub fn all_reduce(&self, bytes: Bytes, group: Group) -> Seconds {
        self.gather(bytes, group) * 2.0
    }

    /// All-to-all in which every rank sends `bytes` in all, evenly to the group, itself included.
    pub fn all_to_all(&self, bytes: Bytes, group: Group) -> Seconds {
        let n = group.size as f64;
        let (mut slowest, mut latency) = (0.0f64, 0.0);
        for s in self.shares(group) {
            slowest = slowest.max(Self::sized(s.inner * bytes.0 * (s.outer - s.inner) / n, &s));
            latency += s.latency;
        }
        Seconds(slowest + latency)
    }

    /// One step of a ring in which every rank passes `bytes` to its neighbour.
    pub fn ring_step(&self, bytes: Bytes, group: Group) -> Seconds {
        let mut slowest = Seconds::ZERO;
        for s in self.shares(group) {
            // One member of a child unit sends out of it at a time, with the links next to it.
            let one = Share { bandwidth: s.bandwidth / s.inner, ..s };
            slowest = slowest.max(Seconds(Self::sized(bytes.0, &one) + s.latency));
        }
        slowest
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
                    outer: 2.0,
                    bandwidth: level.per_device.0.min(each) * level.efficiency,
                    latency: level.latency.0,
                    half_at: level.half_at.0,
                };
                slowest = slowest.max(Seconds(Self::sized(bytes.0, &share) + share.latency));
            }
            child = level.devices;
        }
        slowest
    }
}
