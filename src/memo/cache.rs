//! The concurrent cache: `DashMap` with `foldhash`, second-chance first-in-first-out eviction.
//!
//! Keys are 128-bit hashes of everything that a value depends on, so a value never changes and losing one costs time
//! only: eviction can change how often something is computed, never what comes out. No guard of the map outlives the
//! method that took it, and nothing is computed under one. Second chance: Corbato 1968, "A paging experiment with
//! the Multics system".

use super::file::{self, FileError, Header};
use crossbeam::queue::SegQueue;
use crossbeam::utils::CachePadded;
use dashmap::{DashMap, Entry};
use foldhash::fast::FixedState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Entries kept unless said otherwise: about 80 MB of scores, and well above the distinct keys of one search.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

const HEADER: Header = Header { kind: *b"memo", version: 1 };

/// Queue entries looked at for one eviction before the next is dropped whether used or not.
const CHANCES: usize = 64;

struct Kept<V> {
    value: V,
    used: AtomicBool,
}

#[derive(Default)]
struct Counters {
    hits: CachePadded<AtomicU64>,
    misses: CachePadded<AtomicU64>,
    duplicates: AtomicU64,
    inserts: AtomicU64,
    evictions: AtomicU64,
}

/// What a cache has been asked so far, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CacheCounters {
    /// Look-ups that found a value.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Inserts of a key that was there already.
    pub duplicates: u64,
    /// Inserts of a new key.
    pub inserts: u64,
    /// Entries dropped to stay within the capacity.
    pub evictions: u64,
    /// Entries held now.
    pub entries: u64,
    /// Memory of the entries held now, estimated from their sizes and the tables' load.
    pub bytes: u64,
}

/// A concurrent bounded table from keys to values.
pub struct Cache<V> {
    map: DashMap<u128, Kept<V>, FixedState>,
    order: SegQueue<u128>,
    entries: AtomicUsize,
    capacity: usize,
    counters: Counters,
}

impl<V: Clone> Default for Cache<V> {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl<V: Clone> Cache<V> {
    /// An empty cache of at most `capacity` entries (at least one).
    pub fn new(capacity: usize) -> Self {
        Self {
            map: DashMap::with_hasher(FixedState::default()),
            order: SegQueue::new(),
            entries: AtomicUsize::new(0),
            capacity: capacity.max(1),
            counters: Counters::default(),
        }
    }

    /// The value under `key`, if it is there.
    pub fn get(&self, key: u128) -> Option<V> {
        let found = self.map.get(&key).map(|kept| {
            if !kept.used.load(Relaxed) {
                kept.used.store(true, Relaxed);
            }
            kept.value.clone()
        });
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Relaxed);
        found
    }

    /// Keeps `value` under `key` unless a value is there already; whether it was new.
    pub fn insert(&self, key: u128, value: V) -> bool {
        let new = match self.map.entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Kept { value, used: AtomicBool::new(false) });
                true
            }
        };
        if !new {
            self.counters.duplicates.fetch_add(1, Relaxed);
            return false;
        }
        self.counters.inserts.fetch_add(1, Relaxed);
        self.order.push(key);
        if self.entries.fetch_add(1, Relaxed) + 1 > self.capacity {
            self.evict_one();
        }
        true
    }

    fn evict_one(&self) {
        for chance in 0..=CHANCES {
            let Some(key) = self.order.pop() else { return };
            let last = chance == CHANCES;
            if self.map.remove_if(&key, |_, kept| last || !kept.used.swap(false, Relaxed)).is_some() {
                self.entries.fetch_sub(1, Relaxed);
                self.counters.evictions.fetch_add(1, Relaxed);
                return;
            }
            self.order.push(key);
        }
    }

    /// Number of entries held now.
    pub fn len(&self) -> usize {
        self.entries.load(Relaxed)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most entries that are held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The counters now.
    pub fn counters(&self) -> CacheCounters {
        let entries = self.len() as u64;
        // One control byte per bucket, tables 7/8 full at most and 7/16 after growing: 1.5 buckets per entry on average.
        let bucket = (size_of::<(u128, Kept<V>)>() + 1) as u64;
        CacheCounters {
            hits: self.counters.hits.load(Relaxed),
            misses: self.counters.misses.load(Relaxed),
            duplicates: self.counters.duplicates.load(Relaxed),
            inserts: self.counters.inserts.load(Relaxed),
            evictions: self.counters.evictions.load(Relaxed),
            entries,
            bytes: entries * (bucket * 3 / 2 + size_of::<u128>() as u64),
        }
    }
}

impl<V: Clone + Serialize + DeserializeOwned> Cache<V> {
    /// Writes all entries to `path`, whole or not at all. `namespace` says what the keys and values are of.
    pub fn save(&self, path: &Path, namespace: u128) -> Result<(), FileError> {
        let mut entries: Vec<(u128, V)> = self.map.iter().map(|kept| (*kept.key(), kept.value.clone())).collect();
        entries.sort_unstable_by_key(|entry| entry.0);
        file::write(path, HEADER, namespace, &entries)
    }

    /// Adds the entries of a file that [`Cache::save`] wrote under the same namespace; how many were new.
    pub fn load(&self, path: &Path, namespace: u128) -> Result<usize, FileError> {
        let entries: Vec<(u128, V)> = file::read(path, HEADER, namespace)?;
        Ok(entries.into_iter().filter(|(key, value)| self.insert(*key, value.clone())).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_it_is_asked() {
        let cache = Cache::new(8);
        assert_eq!(cache.get(1), None);
        assert!(cache.insert(1, 10));
        assert!(!cache.insert(1, 11));
        assert_eq!(cache.get(1), Some(10));
        let counters = cache.counters();
        assert_eq!((counters.hits, counters.misses, counters.duplicates, counters.inserts), (1, 1, 1, 1));
        assert!(counters.bytes >= 24);
    }

    #[test]
    fn stays_within_its_capacity_and_keeps_what_is_used() {
        let cache = Cache::new(100);
        for key in 0..10_000u128 {
            cache.insert(key, key);
            assert_eq!(cache.get(0), Some(0), "an entry in use is not dropped");
        }
        assert_eq!(cache.len(), 100);
        assert_eq!(cache.counters().evictions, 9_900);
    }

    #[test]
    fn a_capacity_of_zero_holds_one() {
        let cache = Cache::new(0);
        cache.insert(1, ());
        cache.insert(2, ());
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn no_thread_ever_waits_for_another() {
        let cache = Cache::new(500);
        std::thread::scope(|scope| {
            for thread in 0..4u128 {
                let cache = &cache;
                scope.spawn(move || {
                    for step in 0..20_000u128 {
                        let key = (step * 7 + thread * 13) % 2_000;
                        match cache.get(key) {
                            Some(value) => assert_eq!(value, key * 3),
                            None => drop(cache.insert(key, key * 3)),
                        }
                    }
                });
            }
        });
        assert!(cache.len() <= 500 + 4);
    }

    #[test]
    fn a_saved_cache_comes_back_and_a_foreign_one_is_refused() {
        let dir = std::env::temp_dir().join(format!("espalier-memo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("cache.bin");
        let cache = Cache::new(1_000);
        for key in 0..100u128 {
            cache.insert(key << 70, key as f64);
        }
        cache.save(&path, 7).unwrap();
        let other: Cache<f64> = Cache::new(1_000);
        assert_eq!(other.load(&path, 7).unwrap(), 100);
        assert_eq!(other.get(99 << 70), Some(99.0));
        assert!(matches!(other.load(&path, 8), Err(FileError::Namespace { .. })));

        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(other.load(&path, 7), Err(FileError::Damaged { .. })));
        bytes[12] = 99;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(other.load(&path, 7), Err(FileError::Version { found: 99, .. })));
        std::fs::write(&path, b"something else").unwrap();
        assert!(matches!(other.load(&path, 7), Err(FileError::Foreign { .. })));
        assert!(matches!(other.load(&dir.join("absent"), 7), Err(FileError::Io { .. })));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
