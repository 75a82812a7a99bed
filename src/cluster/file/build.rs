//! From what a cluster file says to the cluster it means.

use super::{BetweenFile, ClusterFile, DeviceEntry, DeviceFile, LinkFile, PoolEntry, PoolFile};
use crate::cluster::fabric::Fabric;
use crate::cluster::{
    Cluster, ClusterError, Device, Level, Link, MOST_DEVICES, Peak, Pool, Sourced, curves, devices, instances,
};
use crate::units::BytesPerSecond;

fn missing(field: &str, expected: &str) -> ClusterError {
    ClusterError::Missing { field: field.to_owned(), expected: expected.to_owned() }
}

impl ClusterFile {
    /// The cluster that the file describes, called `name` unless it says otherwise.
    pub fn cluster(&self, name: &str) -> Result<Cluster, ClusterError> {
        let pools = self
            .pools
            .iter()
            .enumerate()
            .map(|(i, entry)| entry.pool(&format!("pool{i}")).map_err(|e| e.inside(&format!("pools[{i}]"))));
        let link = |l: BetweenFile| Link { bandwidth: l.bandwidth, latency: l.latency };
        let cluster = Cluster {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            pools: pools.collect::<Result<_, _>>()?,
            between_pools: self.between_pools.map(link),
            between_sites: self.between_sites.map(link),
        };
        cluster.validate().map_err(in_words_of_the_file)?;
        Ok(cluster)
    }
}

/// The cluster's own names of fields are not those of the file.
fn in_words_of_the_file(mut error: ClusterError) -> ClusterError {
    if let ClusterError::Missing { field, .. }
    | ClusterError::Value { field, .. }
    | ClusterError::Inconsistent { field, .. } = &mut error
    {
        *field = field.replace(".levels", ".links").replace(".peak.", ".").replace(".uplink", ".bandwidth");
    }
    error
}

impl PoolEntry {
    fn pool(&self, name: &str) -> Result<Pool, ClusterError> {
        match self {
            Self::Shorthand(text) => Ok(Pool { name: name.to_owned(), ..instances::pool(text)? }),
            Self::Described(fields) => fields.pool(name),
        }
    }
}

impl DeviceEntry {
    fn device(&self) -> Result<Device, ClusterError> {
        match self {
            Self::Named(name) => devices::find(name),
            Self::Described(fields) => fields.device(),
        }
    }
}

impl DeviceFile {
    fn device(&self) -> Result<Device, ClusterError> {
        let like = self.like.as_deref().map(devices::find).transpose().map_err(|e| e.inside("like"))?;
        let device = match like {
            Some(device) => device,
            None => self.bare()?,
        };
        Ok(Device {
            name: self.name.clone().unwrap_or(device.name),
            peak: Peak {
                half: self.half.unwrap_or(device.peak.half),
                fp8: self.fp8.or(device.peak.fp8),
                single: self.single.unwrap_or(device.peak.single),
            },
            memory: self.memory.unwrap_or(device.memory),
            memory_bandwidth: self.memory_bandwidth.unwrap_or(device.memory_bandwidth),
            gemm: self.gemm.unwrap_or(device.gemm),
            grouped_gemm: self.grouped_gemm.unwrap_or(device.grouped_gemm),
            attention: self.attention.unwrap_or(device.attention),
            streaming: self.streaming.unwrap_or(device.streaming),
            launch: self.launch.unwrap_or(device.launch),
            source: self.source.clone().unwrap_or(device.source),
            date: self.date.clone().unwrap_or(device.date),
        })
    }

    /// A device that resembles no other: what it must say, and assumed efficiency.
    fn bare(&self) -> Result<Device, ClusterError> {
        let half =
            self.half.ok_or_else(|| missing("half", "its dense peak, e.g. \"150TFLOP/s\", or `like` a device"))?;
        let memory = self.memory.ok_or_else(|| missing("memory", "its memory, e.g. \"80GB\""))?;
        let bandwidth = self.memory_bandwidth.ok_or_else(|| missing("memory_bandwidth", "e.g. \"2TB/s\""))?;
        let curves = &curves::OTHER;
        let [gemm, grouped_gemm, attention, streaming] = curves.scale(half.get(), bandwidth.get());
        Ok(Device {
            name: self.name.clone().ok_or_else(|| missing("name", "what to call the device"))?,
            peak: Peak { half, fp8: None, single: half / 2.0 },
            memory,
            memory_bandwidth: bandwidth,
            gemm,
            grouped_gemm,
            attention,
            streaming,
            launch: curves::LAUNCH,
            source: format!("the cluster file; efficiency: {}", curves.source),
            date: String::new(),
        })
    }
}

impl PoolFile {
    fn pool(&self, name: &str) -> Result<Pool, ClusterError> {
        let base = self.base()?;
        let device = match (&self.device, &base) {
            (Some(entry), _) => entry.device().map_err(|e| e.inside("device"))?,
            (None, Some(base)) => base.device.clone(),
            (None, None) => return Err(missing("device", "the name of a device, its fields, or an `instance`")),
        };
        let per_node = match (self.devices_per_node, &base) {
            (Some(n), _) => n,
            (None, Some(base)) => base.devices_per_node,
            (None, None) => return Err(missing("devices_per_node", "how many devices a node has")),
        };
        let devices = self.count(per_node, base.as_ref())?;
        let (levels, order) = match (&self.links, &base) {
            (Some(links), _) => self.levels(links, devices, per_node)?,
            (None, Some(base)) if base.devices_per_node != per_node => {
                return Err(missing("links", "a machine with another number of devices has other links"));
            }
            (None, Some(_)) => (instances::sized(self.machine(), devices)?.levels, None),
            (None, None) => (Vec::new(), None),
        };
        let order = match (order, &self.order) {
            (Some(_), Some(_)) => {
                return Err(ClusterError::inconsistent("order", "given", "`groups` of a link say the order already"));
            }
            (order, listed) => order.or_else(|| listed.clone()),
        };
        let price = self.price.map(|value| Sourced {
            value,
            source: self.price_source.clone().unwrap_or_else(|| "the cluster file".to_owned()),
            date: self.price_date.clone().unwrap_or_default(),
        });
        let default_price = || match (&self.device, &base) {
            (None, Some(base)) => base.price.clone(),
            (Some(DeviceEntry::Described(fields)), _) if fields.like.is_none() => None,
            _ => devices::price(&device.name),
        };
        Ok(Pool {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            site: self.site.clone().unwrap_or_default(),
            price: price.or_else(default_price),
            device,
            devices,
            devices_per_node: per_node,
            levels,
            host_memory: self.host_memory.or(base.as_ref().and_then(|b| b.host_memory)),
            host_link: self.host_link.or(base.as_ref().and_then(|b| b.host_link)),
            order,
        })
    }

    /// Devices of the pool, said up to three times.
    fn count(&self, per_node: u64, base: Option<&Pool>) -> Result<u64, ClusterError> {
        if per_node == 0 || per_node > MOST_DEVICES {
            return Err(ClusterError::value("devices_per_node", per_node, format!("1 to {MOST_DEVICES}")));
        }
        let nodes = match (self.nodes, self.devices, base) {
            (Some(nodes), ..) => nodes,
            (None, Some(devices), _) => devices / per_node,
            (None, None, Some(base)) => base.devices / base.devices_per_node,
            (None, None, None) => 1,
        };
        let devices = nodes.checked_mul(per_node).filter(|n| (1..=MOST_DEVICES).contains(n)).ok_or_else(|| {
            ClusterError::value("nodes", nodes, format!("1 to {} nodes of {per_node}", MOST_DEVICES / per_node))
        })?;
        match self.devices {
            Some(said) if said != devices => Err(ClusterError::inconsistent(
                "devices",
                said,
                format!("{nodes} nodes of {per_node} devices are {devices}"),
            )),
            _ => Ok(devices),
        }
    }

    /// Name of the machine to start from, without its count.
    fn machine(&self) -> &str {
        let text = self.instance.as_deref().unwrap_or_default();
        text.rsplit_once(':').map_or(text, |(name, _)| name)
    }

    fn base(&self) -> Result<Option<Pool>, ClusterError> {
        let Some(text) = self.instance.as_deref() else { return Ok(None) };
        let base = instances::pool(text).map_err(|e| e.inside("instance"))?;
        if text.contains(':') && (self.nodes.is_some() || self.devices.is_some()) {
            let expected = "`nodes` or `devices` count them too: say it once";
            return Err(ClusterError::inconsistent("instance", text, expected));
        }
        Ok(Some(base))
    }

    fn levels(
        &self,
        links: &[LinkFile],
        devices: u64,
        per_node: u64,
    ) -> Result<(Vec<Level>, Option<Vec<u64>>), ClusterError> {
        let mut order = None;
        let mut child = 1;
        let mut levels = Vec::with_capacity(links.len());
        for (i, link) in links.iter().enumerate() {
            let here = |e: ClusterError| e.inside(&format!("links[{i}]"));
            let last = i + 1 == links.len();
            let level = link.level(child, if last { devices } else { per_node }).map_err(here)?;
            if let Some(groups) = &link.groups {
                if order.is_some() {
                    return Err(here(ClusterError::inconsistent(
                        "groups",
                        "given",
                        "an inner link says the order already",
                    )));
                }
                order = Some(link.order(groups, devices, per_node).map_err(here)?);
            }
            child = level.devices;
            levels.push(level);
        }
        Ok((levels, order))
    }
}

impl LinkFile {
    fn level(&self, child: u64, usual: u64) -> Result<Level, ClusterError> {
        let members = self.groups.as_ref().and_then(|groups| groups.first()).map(|group| group.len() as u64);
        let devices = match (self.devices, members) {
            (Some(said), Some(listed)) if said != listed => {
                return Err(ClusterError::inconsistent("devices", said, format!("its groups have {listed} devices")));
            }
            (said, listed) => said.or(listed).unwrap_or(usual),
        };
        let (uplink, near) = match (self.bandwidth, self.nics, self.nic) {
            (Some(bandwidth), None, None) => (bandwidth, bandwidth),
            (None, nics, Some(nic)) => {
                let nics = nics.unwrap_or(1);
                if !(1..=MOST_DEVICES).contains(&nics) {
                    return Err(ClusterError::value("nics", nics, format!("1 to {MOST_DEVICES}")));
                }
                (nic * nics as f64, nic * (nics / child).max(1) as f64)
            }
            (None, Some(_), None) => return Err(missing("nic", "the bandwidth of one NIC, e.g. \"400Gb/s\"")),
            (None, None, None) => {
                return Err(missing("bandwidth", "e.g. \"450GB/s\" (bytes) or \"400Gb/s\" (bits), or `nics` of `nic`"));
            }
            (Some(bandwidth), ..) => {
                return Err(ClusterError::inconsistent("bandwidth", bandwidth, "`nics` and `nic` say it already"));
            }
        };
        if !(uplink.is_finite() && uplink > BytesPerSecond::ZERO) {
            let field = if self.nic.is_some() { "nic" } else { "bandwidth" };
            return Err(ClusterError::value(field, uplink.get(), "a positive number of bytes/s"));
        }
        let assumed = Fabric::UNKNOWN;
        Ok(Level {
            name: self.name.clone().unwrap_or_else(|| assumed.name.to_owned()),
            devices,
            uplink,
            per_device: self.per_device.unwrap_or(near),
            latency: self.latency.unwrap_or(assumed.latency),
            efficiency: self.efficiency.unwrap_or(assumed.efficiency),
            half_at: self.half_at.unwrap_or(assumed.half_at),
        })
    }

    /// Physical devices in the order of the groups, which list the pool or one node (then all nodes alike).
    fn order(&self, groups: &[Vec<u64>], devices: u64, per_node: u64) -> Result<Vec<u64>, ClusterError> {
        let size = groups.first().map_or(0, Vec::len);
        if size < 2 {
            return Err(ClusterError::value("groups", format!("{groups:?}"), "lists of at least two devices each"));
        }
        if let Some(other) = groups.iter().find(|group| group.len() != size) {
            return Err(ClusterError::inconsistent(
                "groups",
                format!("{other:?}"),
                format!("the first group has {size} devices"),
            ));
        }
        let listed: Vec<u64> = groups.iter().flatten().copied().collect();
        let count = listed.len() as u64;
        if count == devices {
            return Ok(listed);
        }
        if count == per_node {
            return Ok((0..devices / per_node)
                .flat_map(|node| listed.iter().map(move |d| node * per_node + d))
                .collect());
        }
        let expected = format!("the pool has {devices} devices and a node {per_node}: list either");
        Err(ClusterError::inconsistent("groups", format!("{count} devices"), expected))
    }
}
