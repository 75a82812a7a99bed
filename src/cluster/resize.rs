//! The same kind of pool with another number of devices.

use super::{Pool, instances};

impl Pool {
    /// This pool with `devices` devices: part of a node, or whole nodes. `None` where that is no pool, or where nothing
    /// says how further nodes would be joined.
    pub fn resized(&self, devices: u64) -> Option<Pool> {
        if devices == self.devices {
            return Some(self.clone());
        }
        if self.order.is_some() {
            return None;
        }
        let mut pool = self.clone();
        pool.devices = devices;
        pool.devices_per_node = self.devices_per_node.min(devices);
        if devices > self.devices {
            // One level alone joins the devices of a machine or a rack, unless machines hold one device each.
            let networked = self.levels.len() > 1 || self.devices_per_node == 1;
            if !networked {
                pool.levels = self.grown(devices)?;
            } else if let Some(last) = pool.levels.last_mut() {
                last.devices = devices;
            }
        } else {
            let mut inner = 1;
            pool.levels.retain_mut(|level| {
                let kept = inner < devices;
                level.devices = level.devices.min(devices);
                inner = level.devices;
                kept
            });
        }
        pool.validate().ok().map(|()| pool)
    }

    /// Levels of the machine that this pool is one of, joined to more of them.
    fn grown(&self, devices: u64) -> Option<Vec<super::Level>> {
        let whole = instances::sized(&self.name, devices).ok()?;
        let alike = whole.devices_per_node == self.devices_per_node && whole.device == self.device;
        let kept = whole.levels.get(..self.levels.len()).is_some_and(|inner| {
            inner.iter().zip(&self.levels).all(|(a, b)| a.uplink == b.uplink && a.per_device == b.per_device)
        });
        (alike && kept).then_some(whole.levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_grows_and_shrinks_into_what_its_name_says() {
        let eight = instances::pool("h100x8").unwrap();
        let many = instances::pool("h100x8:8").unwrap();
        assert_eq!(eight.resized(64).unwrap(), many);
        assert_eq!(many.resized(8).unwrap(), eight);
        assert_eq!(many.resized(128).unwrap(), instances::pool("h100x8:16").unwrap());
        let two = many.resized(2).unwrap();
        assert_eq!((two.devices, two.devices_per_node, two.levels.len()), (2, 2, 1));
        assert!(many.resized(1).unwrap().levels.is_empty());
    }

    #[test]
    fn what_is_no_pool_is_refused() {
        let many = instances::pool("h100x8:8").unwrap();
        assert_eq!(many.resized(12), None, "a node and a half");
        assert_eq!(many.resized(0), None);
        let mut own = instances::pool("h100x8").unwrap();
        own.name = "ours".into();
        assert_eq!(own.resized(16), None, "nobody says how its nodes are joined");
    }

    #[test]
    fn racks_end_with_a_part() {
        let rack = instances::pool("gb200x72").unwrap();
        let more = rack.resized(80).unwrap();
        assert_eq!((more.levels[0].devices, more.levels[1].devices), (72, 80));
        assert_eq!(more.resized(72).unwrap(), rack);
    }
}
