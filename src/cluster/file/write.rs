//! From a cluster to a file that reads back as the same cluster.

use super::{BetweenFile, ClusterFile, DeviceEntry, DeviceFile, LinkFile, PoolEntry, PoolFile};
use crate::cluster::{Cluster, Level, Link, Pool};

impl From<&Cluster> for ClusterFile {
    /// Everything written out, so that reading it back gives the same cluster.
    fn from(cluster: &Cluster) -> Self {
        let between = |l: Link| BetweenFile { bandwidth: l.bandwidth, latency: l.latency };
        Self {
            name: Some(cluster.name.clone()),
            pools: cluster.pools.iter().map(|pool| PoolEntry::Described(Box::new(pool.into()))).collect(),
            between_pools: cluster.between_pools.clone().map(between),
            between_sites: cluster.between_sites.clone().map(between),
        }
    }
}

impl From<&Pool> for PoolFile {
    fn from(pool: &Pool) -> Self {
        let d = &pool.device;
        let device = DeviceFile {
            name: Some(d.name.clone()),
            like: None,
            half: Some(d.peak.half),
            fp8: d.peak.fp8,
            single: Some(d.peak.single),
            memory: Some(d.memory),
            memory_bandwidth: Some(d.memory_bandwidth),
            gemm: Some(d.gemm),
            grouped_gemm: Some(d.grouped_gemm),
            attention: Some(d.attention),
            streaming: Some(d.streaming),
            launch: Some(d.launch),
            source: Some(d.source.clone()),
            date: Some(d.date.clone()),
        };
        let link = |l: &Level| LinkFile {
            name: Some(l.name.clone()),
            devices: Some(l.devices),
            bandwidth: Some(l.uplink),
            per_device: Some(l.per_device),
            latency: Some(l.latency),
            efficiency: Some(l.efficiency),
            half_at: Some(l.half_at),
            ..LinkFile::default()
        };
        Self {
            name: Some(pool.name.clone()),
            site: Some(pool.site.clone()),
            instance: None,
            device: Some(DeviceEntry::Described(Box::new(device))),
            nodes: None,
            devices_per_node: Some(pool.devices_per_node),
            devices: Some(pool.devices),
            links: Some(pool.levels.iter().map(link).collect()),
            host_memory: pool.host_memory,
            host_link: pool.host_link,
            price: pool.price.as_ref().map(|p| p.value),
            price_source: pool.price.as_ref().map(|p| p.source.clone()),
            price_date: pool.price.as_ref().map(|p| p.date.clone()),
            order: pool.order.clone(),
        }
    }
}
