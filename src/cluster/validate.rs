//! What every cluster must satisfy before anything is planned on it.

use super::{Cluster, ClusterError, Device, Efficiency, Level, Link, Pool};

/// Most devices of a cluster: 2^20, ten times the largest training run published so far (2026-11).
pub const MOST_DEVICES: u64 = 1 << 20;

fn positive(field: &str, value: f64, unit: &str) -> Result<(), ClusterError> {
    // Below one of any of these units, times leave the range of numbers.
    if value.is_finite() && value >= 1.0 {
        Ok(())
    } else {
        Err(ClusterError::value(field, value, format!("a number of {unit}, 1 or more")))
    }
}

fn not_negative(field: &str, value: f64, unit: &str) -> Result<(), ClusterError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(ClusterError::value(field, value, format!("a number of {unit}, zero or more")))
    }
}

/// Reduction inside the switch lets collectives pass the wire rate, 480 of 450 GB/s on H100 (see `fabric`); nothing reaches twice.
const HIGHEST_LINK_EFFICIENCY: f64 = 2.0;

fn fraction(field: &str, value: f64, most: f64) -> Result<(), ClusterError> {
    if value > 0.0 && value <= most {
        Ok(())
    } else {
        Err(ClusterError::value(field, value, format!("a fraction above 0 and at most {most}")))
    }
}

impl Efficiency {
    fn validate(&self, field: &str) -> Result<(), ClusterError> {
        fraction(&format!("{field}.plateau"), self.plateau, 1.0)?;
        not_negative(&format!("{field}.half_at"), self.half_at, "FLOP or bytes")
    }
}

impl Device {
    /// Whether all its numbers are usable.
    pub fn validate(&self) -> Result<(), ClusterError> {
        positive("peak.half", self.peak.half.get(), "FLOP/s")?;
        positive("peak.single", self.peak.single.get(), "FLOP/s")?;
        if let Some(fp8) = self.peak.fp8 {
            positive("peak.fp8", fp8.get(), "FLOP/s")?;
        }
        positive("memory", self.memory.get(), "bytes")?;
        positive("memory_bandwidth", self.memory_bandwidth.get(), "bytes/s")?;
        self.gemm.validate("gemm")?;
        self.grouped_gemm.validate("grouped_gemm")?;
        self.attention.validate("attention")?;
        self.streaming.validate("streaming")?;
        not_negative("launch", self.launch.get(), "seconds")
    }
}

impl Level {
    fn validate(&self) -> Result<(), ClusterError> {
        positive("uplink", self.uplink.get(), "bytes/s")?;
        positive("per_device", self.per_device.get(), "bytes/s")?;
        not_negative("latency", self.latency.get(), "seconds")?;
        fraction("efficiency", self.efficiency, HIGHEST_LINK_EFFICIENCY)?;
        not_negative("half_at", self.half_at.get(), "bytes")
    }
}

impl Link {
    fn validate(&self) -> Result<(), ClusterError> {
        positive("bandwidth", self.bandwidth.get(), "bytes/s")?;
        not_negative("latency", self.latency.get(), "seconds")
    }
}

impl Pool {
    /// Whether its counts, levels and order agree.
    pub fn validate(&self) -> Result<(), ClusterError> {
        self.device.validate().map_err(|e| e.inside("device"))?;
        if !(1..=MOST_DEVICES).contains(&self.devices) {
            return Err(ClusterError::value("devices", self.devices, format!("1 to {MOST_DEVICES}")));
        }
        if self.devices_per_node == 0 || !self.devices.is_multiple_of(self.devices_per_node) {
            let expected = format!("{} devices must be whole nodes", self.devices);
            return Err(ClusterError::inconsistent("devices_per_node", self.devices_per_node, expected));
        }
        if self.levels.is_empty() && self.devices > 1 {
            let expected = format!("the links that join {} devices", self.devices);
            return Err(ClusterError::Missing { field: "levels".to_owned(), expected });
        }
        let mut inner = 1;
        for (i, level) in self.levels.iter().enumerate() {
            let here = |e: ClusterError| e.inside(&format!("levels[{i}]"));
            level.validate().map_err(here)?;
            let last = i + 1 == self.levels.len();
            // The outermost unit may end with a part: 80 devices in scale-up domains of 72.
            if level.devices <= inner && self.devices > 1 || !last && !level.devices.is_multiple_of(inner) {
                let expected = format!("it must join several whole units of the {inner} devices of the level before");
                return Err(here(ClusterError::inconsistent("devices", level.devices, expected)));
            }
            let node = self.devices_per_node;
            if !last && !level.devices.is_multiple_of(node) && !node.is_multiple_of(level.devices) {
                let expected = format!("a node has {node} devices: a unit must be a part of one or several of them");
                return Err(here(ClusterError::inconsistent("devices", level.devices, expected)));
            }
            if last && level.devices != self.devices {
                let expected = format!("the outermost level joins all {} devices of the pool", self.devices);
                return Err(here(ClusterError::inconsistent("devices", level.devices, expected)));
            }
            inner = level.devices;
        }
        if let Some(memory) = self.host_memory {
            positive("host_memory", memory.get(), "bytes")?;
        }
        if let Some(link) = self.host_link {
            positive("host_link", link.get(), "bytes/s")?;
        }
        if let Some(price) = &self.price {
            not_negative("price", price.value.get(), "dollars")?;
        }
        self.order.as_deref().map_or(Ok(()), |order| self.validate_order(order))
    }

    fn validate_order(&self, order: &[u64]) -> Result<(), ClusterError> {
        if order.len() as u64 != self.devices {
            let expected = format!("it must name each of the {} devices once", self.devices);
            return Err(ClusterError::inconsistent("order", format!("a list of {}", order.len()), expected));
        }
        let mut seen = vec![false; order.len()];
        for &device in order {
            match usize::try_from(device).ok().and_then(|d| seen.get_mut(d)) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => {
                    return Err(ClusterError::inconsistent("order", device, "a device can stand in one place only"));
                }
                None => {
                    let expected = format!("a device from 0 to {}", self.devices - 1);
                    return Err(ClusterError::value("order", device, expected));
                }
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Number of devices of all pools.
    pub fn devices(&self) -> u64 {
        self.pools.iter().fold(0, |sum, pool| sum.saturating_add(pool.devices))
    }

    /// Whether it can be planned for: pools that agree with themselves and links between them.
    pub fn validate(&self) -> Result<(), ClusterError> {
        if self.pools.is_empty() {
            return Err(ClusterError::value("pools", "an empty list", "at least one pool"));
        }
        for (i, pool) in self.pools.iter().enumerate() {
            pool.validate().map_err(|e| e.inside(&format!("pools[{i}]")))?;
            if let Some(twin) = self.pools[..i].iter().position(|other| other.name == pool.name) {
                let expected = format!("pools[{twin}] has that name already");
                return Err(ClusterError::inconsistent(format!("pools[{i}].name"), &pool.name, expected));
            }
        }
        if self.devices() > MOST_DEVICES {
            let expected = format!("at most {MOST_DEVICES} devices in all");
            return Err(ClusterError::value("pools", format!("{} devices", self.devices()), expected));
        }
        let same_site = |(i, a): (usize, &Pool)| self.pools[..i].iter().any(|b| b.site == a.site);
        let joined = [
            ("between_pools", &self.between_pools, self.pools.iter().enumerate().any(same_site)),
            ("between_sites", &self.between_sites, self.pools.iter().any(|p| p.site != self.pools[0].site)),
        ];
        for (field, link, needed) in joined {
            match link {
                Some(link) => link.validate().map_err(|e| e.inside(field))?,
                None if needed => {
                    let expected = "bandwidth and latency of the link that joins them".to_owned();
                    return Err(ClusterError::Missing { field: field.to_owned(), expected });
                }
                None => {}
            }
        }
        Ok(())
    }
}
