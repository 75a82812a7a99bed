//! Where the members of a group stand, and what bandwidth is left to each group when all groups of a kind talk at once.
//!
//! Ranks stand at the positions of a pool in order. A parallel dimension of degree `size` whose inner dimensions have
//! `stride` ranks together cuts the ranks into groups `base, base + stride, ..., base + (size - 1) * stride`; blocks of
//! `size * stride` ranks hold `stride` groups each (Megatron-LM `core/parallel_state.py`, order tp-cp-ep-dp-pp). All
//! groups of a dimension communicate at the same time, so the links of a unit are shared by the groups that leave it:
//! on two nodes of 8 A100 a 16-rank all-reduce gets 44.7 GB/s, strided groups of 8, 4 and 2 ranks only 20.8, 16.2 and 8.1
//! (PKU-DAIR/Hetu-Galvatron@cea12ff `profile_hardware`).

use super::Pool;
use crate::units::BytesPerSecond;

/// The groups of one parallel dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// Members of a group.
    pub size: u64,
    /// Ranks from one member to the next.
    pub stride: u64,
}

/// How the groups of a dimension use one level of links, for the group that is worst off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// Units of this level that a group touches, the most over all groups.
    pub units: u64,
    /// Child units that a group touches inside one unit of this level, the most over all groups and units: the span of
    /// a collective at this level. 1 means that no group uses the level.
    pub children: u64,
    /// Members that such a group has in one child unit, the fewest: together they drive the child's uplink.
    pub members_per_child: u64,
    /// Groups that use the uplink of one child unit at once, the most. 0 if no group leaves a child unit.
    pub concurrent: u64,
}

/// How the groups of a dimension lie on a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Members of a group.
    pub size: u64,
    /// One entry per [`Pool::levels`], from the inside out.
    pub levels: Vec<Share>,
}

impl Placement {
    /// The outermost level that a group uses, if it has more than one member.
    pub fn outermost(&self) -> Option<usize> {
        self.levels.iter().rposition(|share| share.children > 1)
    }
}

impl Group {
    /// Ranks of one block of groups.
    pub fn block(self) -> u64 {
        self.size.saturating_mul(self.stride)
    }

    /// Whether every unit of `unit` devices looks the same to every group, so that counts follow by division.
    fn is_regular(self, unit: u64, world: u64) -> bool {
        let block = self.block();
        unit >= world
            || unit.is_multiple_of(block)
            || block.is_multiple_of(unit) && (self.stride.is_multiple_of(unit) || unit.is_multiple_of(self.stride))
    }

    /// Units of `unit` devices that a regular group touches.
    fn units(self, unit: u64, world: u64) -> u64 {
        if unit >= world || unit.is_multiple_of(self.block()) {
            1
        } else if self.stride.is_multiple_of(unit) {
            self.size
        } else {
            self.block() / unit
        }
    }

    fn share_by_division(self, child: u64, unit: u64, world: u64) -> Share {
        let (units, of_children) = (self.units(unit, world), self.units(child, world));
        let concurrent = match of_children {
            1 => 0,
            _ if self.stride.is_multiple_of(child) => child,
            _ => self.stride,
        };
        Share { units, children: of_children / units, members_per_child: self.size / of_children, concurrent }
    }

    /// Counts by walking over the ranks until the pattern repeats; `world` is a multiple of the block.
    fn share_by_counting(self, child: u64, unit: u64, world: u64) -> Share {
        let block = self.block();
        // Whole periods look alike, and a last, partial one is the beginning of a whole one: the first shows every case.
        let of_children = lcm(block, child);
        let period = if unit >= world { of_children } else { of_children.and_then(|p| lcm(p, unit)) };
        let walked = period.map_or(world, |p| p.min(world));
        let mut leaving = vec![0u64; usize::try_from(walked.div_ceil(child)).unwrap_or(usize::MAX)];
        let mut share = Share { units: 1, children: 1, members_per_child: self.size, concurrent: 0 };
        for base in (0..walked).step_by(block as usize).flat_map(|b| b..b + self.stride) {
            let ranks = (0..self.size).map(|i| base + i * self.stride);
            let (mut units, mut in_unit, mut fewest, mut run) = (0, 0u64, u64::MAX, 0u64);
            let mut most_children = 0;
            let mut before: Option<u64> = None;
            for rank in ranks.clone() {
                let new_child = before.is_none_or(|b| b / child != rank / child);
                if new_child {
                    if before.is_some() {
                        fewest = fewest.min(run);
                    }
                    run = 0;
                    in_unit += 1;
                }
                if before.is_none_or(|b| b / unit != rank / unit) {
                    units += 1;
                    in_unit = 1;
                }
                most_children = most_children.max(in_unit);
                run += 1;
                before = Some(rank);
            }
            fewest = fewest.min(run);
            share.units = share.units.max(units);
            let worse =
                most_children > share.children || most_children == share.children && fewest < share.members_per_child;
            if worse {
                share.children = most_children;
                share.members_per_child = fewest;
            }
            if fewest < self.size {
                let mut last = None;
                for at in ranks.map(|rank| rank / child) {
                    if last != Some(at)
                        && let Some(count) = leaving.get_mut(at as usize)
                    {
                        *count += 1;
                    }
                    last = Some(at);
                }
            }
        }
        share.concurrent = leaving.into_iter().max().unwrap_or(0);
        share
    }
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b)
}

impl Pool {
    /// Where the groups of a dimension lie when the first `world` positions are in use. Ranks after the last whole block
    /// are not counted; a block larger than `world` is taken as the world.
    pub fn place(&self, group: Group, world: u64) -> Placement {
        let group = Group { size: group.size.max(1), stride: group.stride.max(1) };
        let block = group.block();
        let world = (world / block).max(1).saturating_mul(block);
        let mut child = 1;
        let levels = self.levels.iter().map(|level| {
            let regular = group.is_regular(child, world) && group.is_regular(level.devices, world);
            let share = if regular {
                group.share_by_division(child, level.devices, world)
            } else {
                group.share_by_counting(child, level.devices, world)
            };
            child = level.devices;
            share
        });
        Placement { size: group.size, levels: levels.collect() }
    }

    /// Bandwidth with which one group leaves a child unit of level `level`, when it has `members_per_child` members
    /// there and `concurrent` groups share the child's links: the members can drive so many links, and an equal part of
    /// all links is theirs. Nominal: without [`super::Level::efficiency`].
    pub fn effective_bandwidth(&self, level: usize, members_per_child: u64, concurrent: u64) -> BytesPerSecond {
        match self.levels.get(level) {
            Some(l) => (l.per_device * members_per_child.max(1) as f64).min(l.uplink / concurrent.max(1) as f64),
            None => BytesPerSecond::ZERO,
        }
    }

    /// The innermost level whose units hold both positions; `None` for one and the same device.
    pub fn meeting_level(&self, a: u64, b: u64) -> Option<usize> {
        if a == b { None } else { self.levels.iter().position(|level| a / level.devices == b / level.devices) }
    }

    /// Physical device at a position of the level tree.
    pub fn device_at(&self, position: u64) -> u64 {
        let named = self.order.as_ref().and_then(|order| order.get(usize::try_from(position).ok()?).copied());
        named.unwrap_or(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fabric::Fabric;
    use crate::cluster::instances;
    use std::collections::{BTreeMap, BTreeSet};

    fn pool(levels: &[u64]) -> Pool {
        let rate = BytesPerSecond(1.0);
        let mut pool = instances::pool("h100x8").unwrap();
        pool.levels = levels.iter().map(|&devices| Fabric::UNKNOWN.level(devices, rate, rate)).collect();
        pool.devices = *levels.last().unwrap();
        pool
    }

    /// The definition of [`Share`], word for word, on lists of ranks.
    fn by_hand(group: Group, world: u64, child: u64, unit: u64) -> Share {
        let groups: Vec<Vec<u64>> = (0..world / group.block())
            .flat_map(|block| (0..group.stride).map(move |offset| block * group.block() + offset))
            .map(|base| (0..group.size).map(|i| base + i * group.stride).collect())
            .collect();
        let touched = |g: &Vec<u64>, d: u64| g.iter().map(|r| r / d).collect::<BTreeSet<_>>();
        let children = |g: &Vec<u64>| {
            let in_unit = |u: u64| touched(g, child).into_iter().filter(|c| c * child / unit == u).count() as u64;
            touched(g, unit).into_iter().map(in_unit).max().unwrap()
        };
        let fewest = |g: &Vec<u64>| {
            let mut members = BTreeMap::new();
            g.iter().for_each(|r| *members.entry(r / child).or_insert(0u64) += 1);
            members.into_values().min().unwrap()
        };
        let most = groups.iter().map(children).max().unwrap();
        let mut leaving = BTreeMap::new();
        for g in groups.iter().filter(|g| touched(g, child).len() > 1) {
            touched(g, child).into_iter().for_each(|c| *leaving.entry(c).or_insert(0u64) += 1);
        }
        Share {
            units: groups.iter().map(|g| touched(g, unit).len() as u64).max().unwrap(),
            children: most,
            members_per_child: groups.iter().filter(|g| children(g) == most).map(fewest).min().unwrap(),
            concurrent: leaving.into_values().max().unwrap_or(0),
        }
    }

    #[test]
    fn placement_agrees_with_lists_of_ranks_also_where_nothing_divides() {
        let trees: [&[u64]; 8] =
            [&[8, 64], &[2, 4, 16], &[8, 48], &[72, 144], &[72, 80], &[4, 72, 360], &[6, 36], &[2, 8, 32, 96]];
        for levels in trees {
            let pool = pool(levels);
            for size in 1..=24 {
                for stride in [1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32] {
                    let group = Group { size, stride };
                    for world in [pool.devices, pool.devices / 2, pool.devices - 3] {
                        if group.block() > world {
                            continue;
                        }
                        let placement = pool.place(group, world);
                        let mut child = 1;
                        for (level, share) in levels.iter().zip(&placement.levels) {
                            let expected = by_hand(group, world, child, *level);
                            assert_eq!(*share, expected, "{group:?} of {world} in {levels:?}, level of {level}");
                            child = *level;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tensor_groups_stay_inside_a_node_and_data_groups_share_its_nics() {
        let pool = instances::pool("h100x8:8").unwrap();
        let tensor = pool.place(Group { size: 8, stride: 1 }, 64);
        assert_eq!(tensor.outermost(), Some(0));
        let data = pool.place(Group { size: 8, stride: 8 }, 64);
        assert_eq!(data.outermost(), Some(1));
        let share = data.levels[1];
        assert_eq!((share.children, share.members_per_child, share.concurrent), (8, 1, 8));
        // Eight groups with a 400 Gb/s NIC each: nobody waits.
        assert_eq!(pool.effective_bandwidth(1, share.members_per_child, share.concurrent), BytesPerSecond(50e9));
    }

    #[test]
    fn four_nics_for_eight_devices_are_shared() {
        let pool = instances::pool("p4d:2").unwrap();
        let share = pool.place(Group { size: 2, stride: 8 }, 16).levels[1];
        assert_eq!(share.concurrent, 8);
        assert_eq!(pool.effective_bandwidth(1, 1, 8), BytesPerSecond(6.25e9));
        let whole = pool.place(Group { size: 16, stride: 1 }, 16).levels[1];
        assert_eq!((whole.members_per_child, whole.concurrent), (8, 1));
        assert_eq!(pool.effective_bandwidth(1, 8, 1), BytesPerSecond(50e9));
    }

    #[test]
    fn positions_meet_where_they_share_a_unit() {
        let pool = pool(&[2, 8, 32]);
        assert_eq!(pool.meeting_level(3, 3), None);
        assert_eq!(pool.meeting_level(0, 1), Some(0));
        assert_eq!(pool.meeting_level(1, 2), Some(1));
        assert_eq!(pool.meeting_level(7, 8), Some(2));
    }

    #[test]
    fn the_largest_pool_is_placed_by_division() {
        let pool = pool(&[8, 1 << 20]);
        let share = pool.place(Group { size: 1 << 14, stride: 64 }, 1 << 20).levels[1];
        assert_eq!((share.children, share.members_per_child, share.concurrent), (1 << 14, 1, 8));
    }
}
