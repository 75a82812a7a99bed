//! Work shared among the threads of the pool without letting them fall asleep in between.
//!
//! A search alternates between a few dozen short evaluations and what it makes of them. Waking a thread takes as long as several of
//! them, so threads that have nothing left to do wait awake: for the end of the batch, then, for a while, for the next one.

use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread waits awake at most: a few times what lies between two batches of a few dozen solutions.
const PATIENCE: Duration = Duration::from_micros(200);
/// Batches begun, of all searches of this process: whoever waits for the next goes to work at any of them.
static BATCHES: AtomicU64 = AtomicU64::new(0);

/// `work` on every item, in order, on all threads of the pool.
pub(super) fn share<T: Send, R: Send>(
    items: impl IndexedParallelIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (count, threads) = (items.len(), rayon::current_num_threads());
    let number = BATCHES.fetch_add(1, Ordering::Relaxed) + 1;
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |item| {
        begun.fetch_add(1, Ordering::Relaxed);
        let result = work(item);
        done.fetch_add(1, Ordering::Relaxed);
        if threads > 1 && begun.load(Ordering::Relaxed) == count {
            wait_while(|| done.load(Ordering::Relaxed) < count);
        }
        result
    };
    let results = items.with_max_len(1).map(one).collect();
    for _ in 1..threads {
        rayon::spawn(move || wait_while(|| BATCHES.load(Ordering::Relaxed) == number));
    }
    results
}

fn wait_while(waiting: impl Fn() -> bool) {
    let begun = Instant::now();
    while waiting() && begun.elapsed() < PATIENCE {
        std::hint::spin_loop();
    }
}
